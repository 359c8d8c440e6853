// SPDX-License-Identifier: Apache-2.0

import CoreBluetooth
import CoreBluetoothTesting
import Synchronization
import Testing

/// What different threads have seen, in order.
final class Seen<Value: Sendable>: Sendable {
  private let values = Mutex<[Value]>([])
  func add(_ value: Value) { values.withLock { $0.append(value) } }
  var all: [Value] { values.withLock { $0 } }
}

@Suite struct TimeTests {
  @Test func sleepsOfTheTestTakeNoTime() async throws {
    let world = try await VirtualRadio()
    let start = ContinuousClock.now
    try await Task.sleep(for: .seconds(60))
    #expect(world.now == .seconds(60))
    #expect(ContinuousClock.now - start == .seconds(60))
    try await Task.sleep(nanoseconds: 1_500_000_000)
    #expect(world.now == .seconds(61.5))
    try await SuspendingClock().sleep(until: .now + .milliseconds(1))
    #expect(world.now == .milliseconds(61_501))
  }

  @Test func datesAreOfTheWorld() async throws {
    let world = try await VirtualRadio()
    let start = Date()
    #expect(start == Date(timeIntervalSince1970: 1_767_225_600))
    await world.advance(by: .seconds(90))
    #expect(Date().timeIntervalSince(start) == 90)
    let isReal = await withCheckedContinuation { continuation in
      Thread.detachNewThread { continuation.resume(returning: Date().timeIntervalSince(start) > 1000) }
    }
    #expect(isReal)
  }

  /// An empty world, hours in which nothing happens: a sleep of the test's still ends.
  @Test func longSilence() async throws {
    let world = try await VirtualRadio()
    await world.advance(by: .seconds(4 * 3600))
    try await Task.sleep(for: .seconds(5))
    try await Task.sleep(for: .seconds(1800))
    #expect(world.now == .seconds(4 * 3600 + 1805))
    try await Task.sleep(for: .seconds(2 * 3600))
    #expect(world.now == .seconds(6 * 3600 + 1805))
  }

  @Test func worldsClock() async throws {
    let world = try await VirtualRadio()
    let start = world.clock.now
    try await world.clock.sleep(for: .seconds(3))
    try await Task.sleep(for: .seconds(2), clock: world.clock)
    #expect(start.duration(to: world.clock.now) == .seconds(5))
    #expect(world.now == .seconds(5))
    let task = Task { try await world.clock.sleep(for: .seconds(1_000_000)) }
    await world.advance(by: .seconds(1))
    task.cancel()
    await #expect(throws: CancellationError.self) { try await task.value }
    #expect(world.now == .seconds(6))
  }

  @Test func delaysOfDispatch() async throws {
    let world = try await VirtualRadio()
    let queue = DispatchQueue(label: "delays")
    let seen = Mutex<[String]>([])
    queue.asyncAfter(deadline: .now() + 2) { seen.withLock { $0.append("b \(world.now)") } }
    queue.asyncAfter(wallDeadline: .now() + 3) { seen.withLock { $0.append("c \(world.now)") } }
    queue.asyncAfter(deadline: .now() + .milliseconds(1)) { seen.withLock { $0.append("a \(world.now)") } }
    DispatchQueue.main.asyncAfter(
      deadline: .now() + 4, execute: DispatchWorkItem { seen.withLock { $0.append("d \(world.now)") } })
    await world.advance(by: .seconds(10))
    #expect(seen.withLock { $0 } == ["a 0.001 seconds", "b 2.0 seconds", "c 3.0 seconds", "d 4.0 seconds"])
  }

  @Test func orderOfQueues() async throws {
    let world = try await VirtualRadio()
    let seen = Seen<Int>()
    let (a, b) = (DispatchQueue(label: "a"), DispatchQueue(label: "b", attributes: .concurrent))
    a.async {
      for step in 0..<50 { b.async { seen.add(step) } }
      Task { seen.add(50) }
      a.async { seen.add(51) }
    }
    await world.advance(by: .seconds(1))
    #expect(seen.all == Array(0...51))
  }

  /// Waiting for a queue sees what was put there before, although that waits for its turn.
  @Test func syncAfterAsync() async throws {
    let world = try await VirtualRadio()
    let queue = DispatchQueue(label: "sync")
    let value = Mutex(0)
    for step in 1...5 { queue.async { value.withLock { $0 = step } } }
    #expect(queue.sync { value.withLock { $0 } } == 5)
    let group = DispatchGroup()
    queue.async(group: group) { value.withLock { $0 = 6 } }
    queue.async(group: group) { value.withLock { $0 = 7 } }
    await withCheckedContinuation { continuation in group.notify(queue: queue) { continuation.resume() } }
    #expect(value.withLock { $0 } == 7)
    #expect(world.now == .zero)
  }

  /// A block may wait for another one, as long as it is not time that it waits for.
  @Test func blocksThatWaitForOthers() async throws {
    let world = try await VirtualRadio()
    let (a, b) = (DispatchQueue(label: "a"), DispatchQueue(label: "b"))
    let semaphore = DispatchSemaphore(value: 0)
    let isDone = Mutex(false)
    a.async {
      b.async { semaphore.signal() }
      semaphore.wait()
      isDone.withLock { $0 = true }
    }
    await world.advance(by: .seconds(1))
    #expect(isDone.withLock { $0 })
  }

  @Test func heldTime() async throws {
    let world = try await VirtualRadio()
    let hold = world.hold()
    let released = Mutex<Duration?>(nil)
    Thread.detachNewThread {
      // What virtual time does not see: a thread of the app's own, at work.
      var sum = 0
      for step in 0..<2_000_000 { sum &+= step }
      released.withLock { $0 = sum > 0 ? world.now : nil }
      hold.release()
    }
    await world.advance(by: .seconds(5))
    #expect(released.withLock { $0 } == .zero)
    #expect(world.now == .seconds(5))
  }

  @Test func realTime() async throws {
    let world = try await VirtualRadio(speed: .times(20))
    let sensor = try world.place(profileFile: heartRateSensor)
    let app = await world.device("phone").run { await HeartRateApp() }
    while await app.beats.count < 3 { await world.advance(by: .milliseconds(200)) }
    #expect(world.now >= .seconds(2))
    withExtendedLifetime(sensor) {}
  }

  @Test func parallelWorlds() async throws {
    let results = try await withThrowingTaskGroup(of: [String].self) { group in
      for _ in 0..<4 {
        group.addTask {
          let world = try await VirtualRadio(seed: 9)
          let trace = Trace { [weak world] in world?.now ?? .zero }
          let sensor = world.device("sensor").run { TickerPeripheral() }
          let app = world.device("phone").run { TickerCentral(trace, queue: DispatchQueue(label: "app")) }
          await world.advance(by: .seconds(20))
          withExtendedLifetime((sensor, app)) {}
          return trace.all
        }
      }
      var results: [[String]] = []
      while let result = try await group.next() { results.append(result) }
      return results
    }
    #expect(results.count == 4 && results.allSatisfy { $0 == results[0] })
    #expect(results[0].count > 20)
  }
}
