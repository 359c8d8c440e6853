// SPDX-License-Identifier: Apache-2.0

import BLECore
import BLERadio
import BLESystem
import CTestingHooks
import Glibc
import Synchronization

/// How a world's time passes.
public enum WorldSpeed: Sendable, Hashable {
  /// As fast as the apps let it: when nothing of theirs is under way, the next thing happens at once.
  case virtual
  /// With the wall clock.
  case real
  /// So many times as fast as the wall clock: 0.001...1000. Other factors count as the nearest of these, what is no number
  /// as 1.
  case times(Double)
}

/// What moves one world, apart from the object that tests hold.
///
/// `@unchecked Sendable`: what is not constant, locked or atomic is touched by the conductor alone.
final class WorldCore: @unchecked Sendable {
  enum Turn {
    /// Something has happened, more may be there.
    case moved
    /// Nothing to do until something changes.
    case idle
    /// The same, but so many nanoseconds at most.
    case wait(Int64)
  }

  /// Somebody who waits for a time, or for something to be delivered to an app.
  private struct Waiter {
    var until: Int64
    var activity: UInt64?
    var id: UInt64 = 0
    var continuation: CheckedContinuation<Void, Never>
  }

  private struct Shared {
    var waiters: [Waiter] = []
    var isEnded = false
    var lastWaiter: UInt64 = 0
    /// The test has turned to another world: time waits until it comes back.
    var isLeft = false
    /// Waiters that were cancelled before they had begun.
    var cancelled: Set<UInt64> = []
  }

  /// Of the hooks; 0 in a world that is not virtual.
  let id: UInt32
  let radio: SteppedRadio
  let speed: WorldSpeed
  private let shared = Mutex(Shared())
  private let nowNanoseconds = Atomic<Int64>(0)
  private let activity: ActivityCounter
  private let report: @Sendable (String) -> Void
  private var delays = DelayQueue()
  private var lastActivity: UInt64 = 0
  private var lastActive = Instant.zero
  private var hasStalled = false
  private var guardian = Guardian()
  /// Since when, by the wall clock, apps have been busy without time going on, and whether that was said.
  private var restless: (since: Int64, isReported: Bool)?
  private var start: Int64 = 0
  /// What lives as long as the world does.
  private let kept = Mutex<[any Sendable]>([])
  /// Held during a turn: when the world ends, its parts end on another thread.
  private let turning = Mutex(())

  /// The end of all time, some 73 years on: there a world stands still, and sums with it do not overflow.
  static let end = Instant(nanoseconds: .max / 4)
  /// Events fired in one turn, so that other worlds get theirs.
  private static let eventsPerTurn = 4096
  /// So long nothing may happen to any app while nobody has asked for time to pass.
  private static let unaskedMax = TimeSpan.seconds(3600)

  init(
    id: UInt32, radio: SteppedRadio, speed: WorldSpeed, activity: ActivityCounter,
    report: @escaping @Sendable (String) -> Void
  ) {
    self.id = id
    self.radio = radio
    self.speed = speed
    self.activity = activity
    self.report = report
    start = Self.wallClock()
  }

  var now: Instant { Instant(nanoseconds: nowNanoseconds.load(ordering: .acquiring)) }
  var isEnded: Bool { shared.withLock { $0.isEnded } }
  var activityCount: UInt64 { activity.value }

  // MARK: - Any thread

  func keep(_ object: any Sendable) { kept.withLock { $0.append(object) } }

  func end() {
    let waiters = shared.withLock { shared in
      shared.isEnded = true
      defer { shared.waiters = [] }
      return shared.waiters
    }
    if !radio.isOnLoop { turning.withLock { _ in } }
    radio.stop()
    Conductor.shared.remove(self)
    if id != 0 { ct_world_end(id) }
    for waiter in waiters { waiter.continuation.resume() }
  }

  /// Waits for the time `until`; with `activity` at most for that, and for something to be delivered to an app after that
  /// many deliveries. Whoever was not counted before, as a test is not that makes its first world, is counted afterwards.
  func wait(isolation: isolated (any Actor)? = #isolation, until: Instant, activity: UInt64? = nil) async {
    Conductor.shared.turn(to: self)
    await waitOnce(until: min(until, Self.end).nanoseconds, activity)
    // A task that is resumed before it was suspended just goes on, on a thread that nobody counts.
    var attempts = 0
    while id != 0, ct_current() != id, !isEnded {
      guard attempts < Self.attemptsMax else {
        return report("a test goes on where virtual time cannot see it: on an executor or a thread of its own")
      }
      attempts += 1
      await waitOnce(until: 0, nil)
    }
  }

  private static let attemptsMax = 1000

  private func waitOnce(
    isolation: isolated (any Actor)? = #isolation, until: Int64, _ activity: UInt64?
  ) async {
    await withCheckedContinuation { continuation in
      let isEnded = shared.withLock { shared in
        guard !shared.isEnded else { return true }
        shared.waiters.append(Waiter(until: until, activity: activity, continuation: continuation))
        return false
      }
      if isEnded { continuation.resume() } else { ct_signal() }
    }
  }

  /// The calling code waits for this world, or for another one.
  func setLeft(_ isLeft: Bool) { shared.withLock { $0.isLeft = isLeft } }

  /// Waits for the time `until`; throws when the task is cancelled.
  func sleep(until: Instant) async throws {
    let id = shared.withLock { shared in
      shared.lastWaiter += 1
      return shared.lastWaiter
    }
    await withTaskCancellationHandler {
      await withCheckedContinuation { continuation in
        let isOver = shared.withLock { shared in
          guard !shared.isEnded, shared.cancelled.remove(id) == nil else { return true }
          shared.waiters.append(Waiter(until: min(until, Self.end).nanoseconds, id: id, continuation: continuation))
          return false
        }
        if isOver { continuation.resume() } else { ct_signal() }
      }
    } onCancel: {
      let waiter = shared.withLock { shared -> Waiter? in
        if let index = shared.waiters.firstIndex(where: { $0.id == id }) { return shared.waiters.remove(at: index) }
        shared.cancelled.insert(id)
        return nil
      }
      waiter?.continuation.resume()
    }
    shared.withLock { _ = $0.cancelled.remove(id) }
    try Task.checkCancellation()
  }

  /// Has an app's delay end at `at`.
  func delay(until at: Int64, _ item: OpaquePointer) {
    let item = DelayedItem(pointer: item)
    radio.execute { [weak self] in
      guard let self else { return ct_submit(item.pointer) }
      delays.add(item, self, at: at)
    }
  }

  // MARK: - The conductor

  /// What was delayed is due: an item of the app's again.
  func fire(_ item: DelayedItem) {
    activity.add(1)
    ct_submit(item.pointer)
  }

  func turn() -> Turn { turning.withLock { _ in isEnded ? .idle : oneTurn() } }

  private func oneTurn() -> Turn {
    let before = ct_enter(id)
    defer { _ = ct_enter(before) }
    return radio.drive {
      switch speed {
      case .virtual: virtualTurn()
      case .real: pacedTurn(1)
      case .times(let factor): pacedTurn(factor.isNaN ? 1 : min(max(factor, 0.001), 1000))
      }
    }
  }

  private func virtualTurn() -> Turn {
    if ct_is_busy(id) { return watchBusy() }
    if radio.hasWork {
      radio.runWork()
      return .moved
    }
    if let waiter = takeDueWaiter() {
      waiter.continuation.resume()
      return .moved
    }
    if guardian.mustLook, !guardian.looksQuiet(isStillIdle: { !ct_is_busy(id) && !radio.hasWork }, report) {
      return .moved
    }
    return advance()
  }

  /// Lets things happen until one of them concerns an app, or until it is time for somebody who waits.
  private func advance() -> Turn {
    guard var limit = nextLimit() else { return .idle }
    let before = activity.value
    for _ in 0..<Self.eventsPerTurn {
      let next = radio.simulator.nextEventTime
      guard let next, next <= limit.time else {
        guard limit.isAsked else {
          guard let next else { return .idle }
          // Somebody sleeps for longer.
          guard let end = delays.earliest, end >= next else { return stall() }
          limit.time = end
          continue
        }
        radio.simulator.run(until: limit.time)
        setNow(radio.simulator.now)
        return .moved
      }
      if next != radio.simulator.now { setNow(next) }
      radio.step()
      // An app that was told something may be done with it already.
      if activity.value != before || ct_is_busy(id) || radio.hasWork { return .moved }
    }
    return .moved
  }

  private func setNow(_ instant: Instant) {
    restless = nil
    nowNanoseconds.store(instant.nanoseconds, ordering: .releasing)
    ct_world_set_now(id, instant.nanoseconds)
  }

  /// How far time may go: to the first of those who wait; without any, as long as apps hear something now and then.
  private func nextLimit() -> (time: Instant, isAsked: Bool)? {
    if let until = shared.withLock({ $0.waiters.lazy.map(\.until).min() }) {
      return (Instant(nanoseconds: until), true)
    }
    if shared.withLock({ $0.isLeft }) { return nil }
    // Whatever was begun counts, also what the test itself did.
    let count = activity.value &+ ct_count(id).submitted
    if count != lastActivity {
      lastActivity = count
      lastActive = radio.simulator.now
      hasStalled = false
    }
    return hasStalled ? nil : (lastActive + Self.unaskedMax, false)
  }

  private func stall() -> Turn {
    hasStalled = true
    report(
      "nothing has happened to any app for an hour of simulated time, and nobody waits for time to pass: it stands still"
    )
    return .idle
  }

  private func takeDueWaiter() -> Waiter? {
    let (now, count) = (radio.simulator.now.nanoseconds, activity.value)
    return shared.withLock { shared in
      let isDue = { (waiter: Waiter) in
        waiter.until <= now || (waiter.activity.map { count > $0 } ?? false)
      }
      guard let index = shared.waiters.firstIndex(where: isDue) else { return nil }
      return shared.waiters.remove(at: index)
    }
  }

  // MARK: - What does not end

  /// How long an item may be asleep before others go on beside it, or without it; and the same for one that its queue has
  /// not begun, as when the main thread does not serve the main queue.
  private static let patience: (begun: (beside: Int64, without: Int64), waiting: (beside: Int64, without: Int64)) = (
    (100_000_000, 2_000_000_000), (5_000_000_000, 20_000_000_000)
  )
  private static let look: Int64 = 20_000_000

  /// Something of an app runs. If it waits, it may wait for what waits behind it, or for what time is to bring. As long as
  /// anything in the process runs, another test maybe, that may be what it waits for.
  private func watchBusy() -> Turn {
    guardian.noteActivity()
    noteRestless()
    let counts = ct_count(id)
    guard counts.running > 0 else { return .idle }
    let age = Self.wallClock() - counts.since
    let limits = counts.thread != 0 ? Self.patience.begun : Self.patience.waiting
    guard age > limits.beside, ct_is_quiet(0) else { return .wait(Self.look) }
    if counts.waiting > 0 {
      _ = ct_overtake(id)
    } else if age > limits.without {
      let count = ct_excuse(id)
      report(
        "\(count) block\(count == 1 ? "" : "s") of an app did not end for \(age / 1_000_000) ms, asleep in a call; "
          + "time goes on without. What really waits (Thread.sleep, semaphores, files) is not in virtual time")
    }
    return .wait(Self.look)
  }

  /// Says once if time cannot go on because an app is never done.
  private func noteRestless() {
    let now = Self.wallClock()
    guard let restless else { return self.restless = (now, false) }
    guard !restless.isReported, now - restless.since > Self.restlessMax else { return }
    self.restless = (restless.since, true)
    report(
      "time has stood still for \((now - restless.since) / 1_000_000_000) s, as something of an app or of the test is never "
        + "done: a loop around Task.yield(), a block that queues the next one, a hold() that is not released?")
  }

  private static let restlessMax: Int64 = 10_000_000_000

  // MARK: - Wall clock

  /// Not Dispatch's clock, which shows the world's time to threads that work for a world.
  static func wallClock() -> Int64 {
    var time = timespec()
    unsafe clock_gettime(CLOCK_MONOTONIC, &time)
    return Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec)
  }

  private func pacedTurn(_ factor: Double) -> Turn {
    radio.runWork()
    let target = Instant(nanoseconds: Int64(Double(Self.wallClock() - start) * factor))
    if let next = radio.simulator.nextEventTime, next <= target {
      // Who is late by much does not make up for it, so that no link is lost for want of attention.
      if (target - next).nanoseconds > Int64(50_000_000 * factor) {
        start += Int64(Double((target - next).nanoseconds) / factor)
      }
      for _ in 0..<Self.eventsPerTurn {
        guard let next = radio.simulator.nextEventTime, next <= target else { break }
        radio.step()
      }
      nowNanoseconds.store(radio.simulator.now.nanoseconds, ordering: .releasing)
      // Also where the simulator cannot keep up: whoever waits waits for simulated time.
      takeDueWaiter()?.continuation.resume()
      return .moved
    }
    radio.simulator.run(until: target)
    nowNanoseconds.store(radio.simulator.now.nanoseconds, ordering: .releasing)
    if let waiter = takeDueWaiter() {
      waiter.continuation.resume()
      return .moved
    }
    var next = radio.simulator.nextEventTime?.nanoseconds
    if let until = shared.withLock({ $0.waiters.lazy.map(\.until).min() }) { next = min(next ?? until, until) }
    guard let next else { return radio.hasWork ? .moved : .idle }
    return .wait(max(1000, Int64(Double(next - target.nanoseconds) / factor)))
  }
}

/// Counts what apps were told and what of their delays has ended.
final class ActivityCounter: Sendable {
  private let count = Atomic<UInt64>(0)
  var value: UInt64 { count.load(ordering: .acquiring) }
  func add(_ number: Int) { count.wrappingAdd(UInt64(truncatingIfNeeded: number), ordering: .acquiringAndReleasing) }
}

/// `@unchecked Sendable`: whoever has it is its only user.
struct DelayedItem: @unchecked Sendable {
  let pointer: OpaquePointer
}

/// The delays of a world's apps, each a timer of the simulator; on the conductor.
private struct DelayQueue {
  private final class Box { var timers: [UInt64: (timer: any SchedulerTimer, end: Instant)] = [:] }
  private let box = Box()
  private var last: UInt64 = 0

  /// When the first of them ends.
  var earliest: Instant? { box.timers.values.lazy.map(\.end).min() }

  mutating func add(_ item: DelayedItem, _ world: WorldCore, at: Int64) {
    last += 1
    let number = last
    let timer = world.radio.simulator.makeTimer { [box, weak world] in
      // The timer ends with this call.
      let own = box.timers.removeValue(forKey: number)
      if let world { world.fire(item) } else { ct_submit(item.pointer) }
      withExtendedLifetime(own) {}
    }
    box.timers[number] = (timer, Instant(nanoseconds: at))
    timer.arm(at: Instant(nanoseconds: at))
  }
}

/// Looks at the process's threads before time goes on, for what the hooks cannot count.
///
/// A look costs some 50 µs, so it is not taken each time, and more seldom where the process is never quiet, as when other
/// tests run beside.
struct Guardian {
  private var isDue = false
  private var activities = 0
  private var period = 1
  private var reported = false

  private static let alwaysUntil = 16
  private static let periodMax = 256
  private static let patience = 5

  /// Whether something of an app has run since the last look, and a look is to be taken.
  var mustLook: Bool { isDue }

  mutating func noteActivity() {
    activities += 1
    isDue = activities <= Self.alwaysUntil || activities % (64 * period) == 0
  }

  /// False: something has come while nothing was counted; the world is not idle.
  mutating func looksQuiet(isStillIdle: () -> Bool, _ report: (String) -> Void) -> Bool {
    isDue = false
    for attempt in 0..<Self.patience {
      let isQuiet = ct_is_quiet(0)
      guard isStillIdle() else {
        if attempt > 0, !reported {
          reported = true
          report(
            "something of an app ran that virtual time does not count (a thread or a Dispatch source of its own?): "
              + "hold the time meanwhile with hold()")
        }
        return false
      }
      if isQuiet {
        period = max(1, period / 2)
        return true
      }
    }
    period = min(Self.periodMax, period * 2)
    return true
  }
}
