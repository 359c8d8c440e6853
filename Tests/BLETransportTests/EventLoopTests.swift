// SPDX-License-Identifier: Apache-2.0

import BLECore
import BLETransport
import Foundation
import Synchronization
import Testing

/// Runs `body` on a loop and waits for its result.
func onLoop<T: Sendable>(_ loop: EventLoop, _ body: @escaping @Sendable () -> T) async -> T {
  await withCheckedContinuation { continuation in loop.execute { continuation.resume(returning: body()) } }
}

/// A value of the loop, taken across threads by tests that know what they do.
final class Box<Value>: @unchecked Sendable {
  var value: Value
  init(_ value: Value) { self.value = value }
}

@Suite struct EventLoopTests {
  @Test func workRunsInOrderOnOneThread() async throws {
    let loop = try #require(EventLoop(name: "test"))
    defer { loop.stop() }
    let order = Box<[Int]>([])
    for number in 0..<1000 { loop.execute { order.value.append(number) } }
    let isOnLoop = await onLoop(loop) { loop.isOnLoop }
    #expect(isOnLoop)
    #expect(!loop.isOnLoop)
    #expect(order.value == Array(0..<1000))
  }

  /// A loop that sleeps lends its turn to the thread that brings work; one that does not lend keeps it.
  @Test(arguments: [true, false]) func aTurnIsTheBringersWhereItIsLent(_ lendsTurns: Bool) async throws {
    let loop = try #require(EventLoop(name: "test", lendsTurns: lendsTurns))
    defer { loop.stop() }
    let isLent: Bool = await withCheckedContinuation { continuation in
      // A thread of its own, and as often as it takes to find the loop asleep.
      Thread.detachNewThread {
        let own = UInt(pthread_self())
        var isOwn = false
        for _ in 0..<1000 where !isOwn {
          let ran = Mutex<UInt?>(nil)
          let done = DispatchSemaphore(value: 0)
          loop.executeHere {
            ran.withLock { $0 = loop.isOnLoop ? UInt(pthread_self()) : nil }
            done.signal()
          }
          done.wait()
          isOwn = ran.withLock { $0 } == own
        }
        continuation.resume(returning: isOwn)
      }
    }
    #expect(isLent == lendsTurns)
  }

  /// A loop that sleeps without limit wakes up for a timer that was armed in a borrowed turn.
  @Test func aTimerOfABorrowedTurnFires() async throws {
    let loop = try #require(EventLoop(name: "test", lendsTurns: true))
    defer { loop.stop() }
    let timers = Box<[any SchedulerTimer]>([])
    let fired: Bool = await withCheckedContinuation { continuation in
      loop.executeHere {
        let timer = loop.makeTimer { continuation.resume(returning: loop.isOnLoop) }
        timers.value = [timer]
        timer.arm(at: loop.now + .milliseconds(5))
      }
    }
    #expect(fired)
  }

  /// Whoever takes the turns: all work is done once, that of one thread in its order, never two pieces at a time.
  @Test func turnsOfManyThreadsExcludeEachOther() async throws {
    let loop = try #require(EventLoop(name: "test", lendsTurns: true))
    defer { loop.stop() }
    let seen = Box<[[Int]]>(Array(repeating: [], count: 4))
    let inside = Atomic(0)
    let overlaps = Atomic(0)
    let done = DispatchSemaphore(value: 0)
    for number in 0..<4 {
      Thread.detachNewThread {
        for item in 0..<2000 {
          let work: @Sendable () -> Void = {
            if inside.add(1, ordering: .relaxed).oldValue != 0 || !loop.isOnLoop {
              overlaps.add(1, ordering: .relaxed)
            }
            seen.value[number].append(item)
            inside.subtract(1, ordering: .relaxed)
          }
          if (item + number) % 3 == 0 { loop.execute(work) } else { loop.executeHere(work) }
        }
        loop.execute { done.signal() }
      }
    }
    await withCheckedContinuation { continuation in
      Thread.detachNewThread {
        for _ in 0..<4 { done.wait() }
        continuation.resume()
      }
    }
    #expect(seen.value.allSatisfy { $0 == Array(0..<2000) })
    #expect(overlaps.load(ordering: .relaxed) == 0)
  }

  @Test func timersFireInTheOrderOfTheirDeadlines() async throws {
    let loop = try #require(EventLoop(name: "test"))
    defer { loop.stop() }
    let fired: [Int] = await withCheckedContinuation { continuation in
      loop.execute {
        let order = Box<[Int]>([])
        let timers = Box<[any SchedulerTimer]>([])
        let start = loop.now
        for (number, milliseconds) in [(0, 12), (1, 3), (2, 7)] {
          let timer = loop.makeTimer {
            order.value.append(number)
            if order.value.count == 3 {
              timers.value.removeAll()
              continuation.resume(returning: order.value)
            }
          }
          timers.value.append(timer)
          timer.arm(at: start + .milliseconds(milliseconds))
        }
        let never = loop.makeTimer { order.value.append(99) }
        never.arm(at: start)
        never.disarm()
        timers.value.append(never)
      }
    }
    #expect(fired == [1, 2, 0])
  }

  @Test func aTimerNeverFiresEarly() async throws {
    let loop = try #require(EventLoop(name: "test"))
    defer { loop.stop() }
    let lateness: Int64 = await withCheckedContinuation { continuation in
      loop.execute {
        let deadline = loop.now + .milliseconds(5)
        let keep = Box<(any SchedulerTimer)?>(nil)
        keep.value = loop.makeTimer {
          keep.value = nil
          continuation.resume(returning: (loop.now - deadline).nanoseconds)
        }
        keep.value?.arm(at: deadline)
      }
    }
    #expect(lateness >= 0)
  }

  @Test func theEndOfATurnComesAfterItsWork() async throws {
    let loop = try #require(EventLoop(name: "test"))
    defer { loop.stop() }
    let order: [String] = await withCheckedContinuation { continuation in
      loop.execute {
        let order = Box<[String]>([])
        loop.atEndOfTurn {
          order.value.append("end")
          loop.atEndOfTurn { continuation.resume(returning: order.value + ["end of the end"]) }
        }
        order.value.append("work")
      }
    }
    #expect(order == ["work", "end", "end of the end"])
  }

  @Test func aStoppedLoopTakesNoWork() async throws {
    let loop = try #require(EventLoop(name: "test"))
    let ran = Box(0)
    await onLoop(loop) { ran.value += 1 }
    loop.stop()
    loop.execute { ran.value += 1 }
    #expect(ran.value == 1)
  }
}
