// SPDX-License-Identifier: Apache-2.0

public import BLECore
import CLinux
import Glibc
import Synchronization

/// The one context of an adapter: it waits for file descriptors, timers and work from other threads, and runs
/// everything from the transport up to the system by plain calls, one turn at a time.
///
/// A turn is the loop's own thread's, or, where that sleeps, that of the thread which brings the work
/// (``executeHere(_:)``): to wake a thread costs more than most of what there is to do.
///
/// `execute` and `executeHere` may be called on any thread. Everything else belongs into a turn, which
/// ``preconditionOnLoop()`` verifies.
///
/// `@unchecked Sendable`: `mailbox` is locked, `wake` never changes, all other state is touched in turns alone, and only
/// one thread at a time holds `turn`.
public final class EventLoop: Scheduler, @unchecked Sendable {
  private struct Mailbox {
    var work: [@Sendable () -> Void] = []
    var isStopped = false
    /// A turn goes on, or is about to begin: it takes the work along.
    var isTurning = false
  }

  /// What there is to do for who has put work into the mailbox.
  private enum Delivery {
    case nothing, signal, turn
  }

  private let mailbox = Mutex(Mailbox())
  private let turn = Mutex(())
  private let lendsTurns: Bool
  /// Until when the loop's thread sleeps; nil: until it is woken.
  private var sleepsUntil: Instant?
  private var hasNanosecondWait = true
  private let wake: Int32
  private let epoll: Int32
  private let thread = Atomic<UInt>(0)
  private var watches: [Int32: FileWatch] = [:]
  /// The armed ones, in no order: there are few.
  private var alarms: [Alarm] = []
  private var due: [Alarm] = []
  private var turnEnd: [() -> Void] = []

  /// Called when the loop wakes up, before anything is dispatched: a simulated clock catches up here.
  public var turnBegan: (() -> Void)?
  /// Called after everything of a turn is done, before the loop waits again.
  public var turnEnded: (() -> Void)?

  /// Starts the thread; nil where the system has no file descriptor or thread to give. `lendsTurns`: whether other threads
  /// may take turns (``executeHere(_:)``).
  public init?(name: String, lendsTurns: Bool = false) {
    self.lendsTurns = lendsTurns
    epoll = epoll_create1(Int32(EPOLL_CLOEXEC))
    wake = eventfd(0, Int32(EFD_NONBLOCK) | Int32(EFD_CLOEXEC))
    guard epoll >= 0, wake >= 0 else {
      if epoll >= 0 { close(epoll) }
      if wake >= 0 { close(wake) }
      return nil
    }
    var event = epoll_event()
    event.events = EPOLLIN.rawValue
    event.data.fd = wake
    unsafe epoll_ctl(epoll, EPOLL_CTL_ADD, wake, &event)
    guard start(name) else { return nil }
  }

  deinit {
    close(epoll)
    close(wake)
  }

  private func start(_ name: String) -> Bool {
    var id = pthread_t()
    let box = unsafe Unmanaged.passRetained(self)
    let result = unsafe pthread_create(
      &id, nil,
      { argument in
        guard let argument = unsafe argument else { return nil }
        unsafe Unmanaged<EventLoop>.fromOpaque(argument).takeRetainedValue().run()
        return nil
      }, box.toOpaque())
    guard result == 0 else {
      unsafe box.release()
      return false
    }
    pthread_setname_np(id, String(name.prefix(15)))
    pthread_detach(id)
    return true
  }

  // MARK: - Any thread

  /// Runs `work` in a turn, in the order of the calls. Dropped once the loop has been stopped.
  public func execute(_ work: @escaping @Sendable () -> Void) { deliver(work, mayTurn: false) }

  /// Runs `work` in a turn, in the order of the calls: at once on this thread, where the loop lends turns and none goes on.
  /// The caller must hold no lock that anything on the loop takes. Dropped once the loop has been stopped.
  public func executeHere(_ work: @escaping @Sendable () -> Void) { deliver(work, mayTurn: lendsTurns) }

  private func deliver(_ work: @escaping @Sendable () -> Void, mayTurn: Bool) {
    let delivery: Delivery = mailbox.withLock { mailbox in
      guard !mailbox.isStopped else { return .nothing }
      mailbox.work.append(work)
      if mailbox.isTurning { return .nothing }
      guard mayTurn else { return mailbox.work.count == 1 ? .signal : .nothing }
      mailbox.isTurning = true
      return .turn
    }
    switch delivery {
    case .nothing: break
    case .signal: signal()
    case .turn:
      // The holder may be past its last look into the mailbox; the signal brings a turn in any case.
      if turn.withLockIfAvailable({ _ in borrowTurn() }) == nil { signal() }
    }
  }

  /// Ends the thread after the work that was given to it before. Idempotent.
  public func stop() {
    mailbox.withLock { $0.isStopped = true }
    signal()
  }

  private func signal() {
    var one: UInt64 = 1
    _ = unsafe write(wake, &one, 8)
  }

  public var isOnLoop: Bool { thread.load(ordering: .relaxed) == UInt(pthread_self()) }

  /// Traps on another thread than the loop's: own misuse.
  public func preconditionOnLoop() { precondition(isOnLoop, "called off the adapter's event loop") }

  // MARK: - The loop's thread

  public var now: Instant {
    var time = timespec()
    unsafe clock_gettime(CLOCK_MONOTONIC, &time)
    return Instant(nanoseconds: Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec))
  }

  public func makeTimer(_ action: @escaping () -> Void) -> any SchedulerTimer {
    LoopTimer(Alarm(action), loop: self)
  }

  fileprivate func arm(_ alarm: Alarm, at instant: Instant) {
    if alarm.deadline == nil { alarms.append(alarm) }
    alarm.deadline = instant
  }

  fileprivate func disarm(_ alarm: Alarm) {
    guard alarm.deadline != nil else { return }
    alarm.deadline = nil
    alarms.removeAll { $0 === alarm }
  }

  /// Calls `handler` with the ready events (`EPOLLIN` and so on) of `descriptor` until the watch is cancelled.
  public func watch(_ descriptor: Int32, handler: @escaping (FileWatch.Events) -> Void) -> FileWatch {
    let watch = FileWatch(loop: self, descriptor: descriptor, handler: handler)
    watches[descriptor] = watch
    var event = epoll_event()
    event.events = EPOLLIN.rawValue
    event.data.fd = descriptor
    unsafe epoll_ctl(epoll, EPOLL_CTL_ADD, descriptor, &event)
    return watch
  }

  fileprivate func update(_ watch: FileWatch, wantsWrite: Bool) {
    var event = epoll_event()
    event.events = EPOLLIN.rawValue | (wantsWrite ? EPOLLOUT.rawValue : 0)
    event.data.fd = watch.descriptor
    unsafe epoll_ctl(epoll, EPOLL_CTL_MOD, watch.descriptor, &event)
  }

  fileprivate func remove(_ watch: FileWatch) {
    watches[watch.descriptor] = nil
    epoll_ctl(epoll, EPOLL_CTL_DEL, watch.descriptor, nil)
  }

  /// Runs `action` once, when the current batch of work is done: the place to flush what was gathered.
  public func atEndOfTurn(_ action: @escaping () -> Void) { turnEnd.append(action) }

  private func run() {
    var events = [epoll_event](repeating: epoll_event(), count: 64)
    var deadline: Instant?
    while true {
      let ready = wait(&events, until: deadline)
      let isStopped = turn.withLock { _ in
        mailbox.withLock { $0.isTurning = true }
        thread.store(UInt(pthread_self()), ordering: .relaxed)
        let isStopped = takeTurn(events, ready)
        thread.store(0, ordering: .relaxed)
        deadline = endTurn() ? nextDeadline : .zero
        sleepsUntil = deadline
        return isStopped
      }
      if isStopped { return }
    }
  }

  /// One turn on a thread that has brought work.
  private func borrowTurn() {
    thread.store(UInt(pthread_self()), ordering: .relaxed)
    let isStopped = takeTurn([], 0)
    thread.store(0, ordering: .relaxed)
    let isDone = endTurn()
    // The loop's thread goes on where there is more, or sleeps for less long.
    guard isDone, !isStopped else { return signal() }
    guard let next = nextDeadline else { return }
    if let sleepsUntil, sleepsUntil <= next { return }
    sleepsUntil = next
    signal()
  }

  /// Returns whether the loop has been stopped.
  private func takeTurn(_ events: [epoll_event], _ ready: Int) -> Bool {
    turnBegan?()
    for index in 0..<max(0, ready) { dispatch(events[index]) }
    fireTimers()
    let isStopped = runMailbox()
    runTurnEnd()
    turnEnded?()
    runTurnEnd()
    return isStopped
  }

  /// Whether all work is done; it is the next turn's if not.
  private func endTurn() -> Bool {
    mailbox.withLock { mailbox in
      mailbox.isTurning = !mailbox.work.isEmpty
      return !mailbox.isTurning
    }
  }

  private func wait(_ events: inout [epoll_event], until deadline: Instant?) -> Int {
    let capacity = Int32(events.count)
    let rest = deadline.map { max(0, $0.nanoseconds - now.nanoseconds) }
    if hasNanosecondWait {
      let ready: Int32
      if let rest {
        var timeout = timespec(tv_sec: Int(rest / 1_000_000_000), tv_nsec: Int(rest % 1_000_000_000))
        ready = unsafe epoll_pwait2(epoll, &events, capacity, &timeout, nil)
      } else {
        ready = unsafe epoll_pwait2(epoll, &events, capacity, nil, nil)
      }
      if ready >= 0 || errno != ENOSYS { return Int(ready) }
      hasNanosecondWait = false
    }
    // A kernel before 5.11: whole milliseconds, never too few.
    let milliseconds = rest.map { Int32(clamping: ($0 + 999_999) / 1_000_000) } ?? -1
    return Int(unsafe epoll_wait(epoll, &events, capacity, milliseconds))
  }

  private var nextDeadline: Instant? {
    if !turnEnd.isEmpty { return .zero }
    var earliest: Instant?
    for alarm in alarms {
      guard let deadline = alarm.deadline else { continue }
      if let known = earliest, known <= deadline { continue }
      earliest = deadline
    }
    return earliest
  }

  private func dispatch(_ event: epoll_event) {
    let descriptor = event.data.fd
    if descriptor == wake {
      var count: UInt64 = 0
      _ = unsafe read(wake, &count, 8)
      return
    }
    watches[descriptor]?.handler(FileWatch.Events(rawValue: event.events))
  }

  private func fireTimers() {
    guard !alarms.isEmpty else { return }
    let now = now
    // A timer armed meanwhile for an instant that has passed fires in the next turn.
    for alarm in alarms where (alarm.deadline ?? .distantFuture) <= now { due.append(alarm) }
    guard !due.isEmpty else { return }
    if due.count > 1 { due.sort { ($0.deadline ?? .zero) < ($1.deadline ?? .zero) } }
    var position = 0
    while position < due.count {
      let alarm = due[position]
      position += 1
      // It may have been armed anew, or disarmed, by one that fired before it.
      guard let deadline = alarm.deadline, deadline <= now else { continue }
      disarm(alarm)
      if !alarm.isAbandoned.load(ordering: .acquiring) { alarm.action() }
    }
    due.removeAll(keepingCapacity: true)
  }

  private func runMailbox() -> Bool {
    let (work, isStopped) = mailbox.withLock { mailbox in
      defer { mailbox.work = [] }
      return (mailbox.work, mailbox.isStopped)
    }
    for item in work { item() }
    return isStopped
  }

  private func runTurnEnd() {
    while !turnEnd.isEmpty {
      let actions = turnEnd
      turnEnd = []
      for action in actions { action() }
    }
  }
}

extension Instant {
  fileprivate static var distantFuture: Instant { Instant(nanoseconds: .max) }
}

/// What fires, known to the loop while it is armed.
private final class Alarm {
  let action: () -> Void
  var deadline: Instant?
  /// Its timer is gone: it fires no more.
  let isAbandoned = Atomic(false)

  init(_ action: @escaping () -> Void) { self.action = action }
}

/// A timer of the loop. Its owner may let it go on any thread.
private final class LoopTimer: SchedulerTimer {
  private let alarm: Alarm
  private weak var loop: EventLoop?

  init(_ alarm: Alarm, loop: EventLoop) {
    self.alarm = alarm
    self.loop = loop
  }

  deinit { alarm.isAbandoned.store(true, ordering: .releasing) }

  func arm(at instant: Instant) { loop?.arm(alarm, at: instant) }
  func disarm() { loop?.disarm(alarm) }
}

/// One watched file descriptor; the descriptor stays its owner's to close, after ``cancel()``.
public final class FileWatch {
  /// What a descriptor is ready for (`epoll(7)`).
  public struct Events: OptionSet, Sendable {
    public let rawValue: UInt32
    public init(rawValue: UInt32) { self.rawValue = rawValue }
    public static let readable = Events(rawValue: 0x1)
    public static let writable = Events(rawValue: 0x4)
    public static let error = Events(rawValue: 0x8)
    public static let hangUp = Events(rawValue: 0x10)
  }

  fileprivate let descriptor: Int32
  fileprivate let handler: (Events) -> Void
  private weak var loop: EventLoop?
  private var isCancelled = false

  fileprivate init(loop: EventLoop, descriptor: Int32, handler: @escaping (Events) -> Void) {
    self.loop = loop
    self.descriptor = descriptor
    self.handler = handler
  }

  /// Whether to be told of room for writing as well.
  public var wantsWrite = false {
    didSet {
      guard wantsWrite != oldValue, !isCancelled else { return }
      loop?.update(self, wantsWrite: wantsWrite)
    }
  }

  public func cancel() {
    guard !isCancelled else { return }
    isCancelled = true
    loop?.remove(self)
  }
}
