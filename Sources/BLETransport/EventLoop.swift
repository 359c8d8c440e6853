// SPDX-License-Identifier: Apache-2.0

public import BLECore
import CLinux
import Glibc
import Synchronization

/// The one thread of an adapter: it waits for file descriptors, timers and work from other threads, and runs
/// everything from the transport up to the system by plain calls.
///
/// `execute` may be called on any thread. Everything else is for the loop's own thread, which
/// ``preconditionOnLoop()`` verifies.
///
/// `@unchecked Sendable`: `mailbox` is locked, `wake` never changes, all other state is touched on the thread alone.
public final class EventLoop: Scheduler, @unchecked Sendable {
  private struct Mailbox {
    var work: [@Sendable () -> Void] = []
    var isStopped = false
  }

  private let mailbox = Mutex(Mailbox())
  private let wake: Int32
  private let epoll: Int32
  private let thread = Atomic<UInt>(0)
  private var watches: [Int32: FileWatch] = [:]
  private var timers: [WeakTimer] = []
  private var turnEnd: [() -> Void] = []

  /// Called when the loop wakes up, before anything is dispatched: a simulated clock catches up here.
  public var turnBegan: (() -> Void)?
  /// Called after everything of a turn is done, before the loop waits again.
  public var turnEnded: (() -> Void)?

  private struct WeakTimer { weak var timer: LoopTimer? }

  /// Starts the thread; nil where the system has no file descriptor or thread to give.
  public init?(name: String) {
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

  /// Runs `work` on the loop's thread, in the order of the calls. Dropped once the loop has been stopped.
  public func execute(_ work: @escaping @Sendable () -> Void) {
    let mustWake = mailbox.withLock { mailbox in
      guard !mailbox.isStopped else { return false }
      mailbox.work.append(work)
      return mailbox.work.count == 1
    }
    if mustWake { signal() }
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
    let timer = LoopTimer(action)
    timers.append(WeakTimer(timer: timer))
    return timer
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
    thread.store(UInt(pthread_self()), ordering: .relaxed)
    var events = [epoll_event](repeating: epoll_event(), count: 64)
    while true {
      let ready = wait(&events)
      turnBegan?()
      for index in 0..<max(0, ready) { dispatch(events[index]) }
      fireTimers()
      let isStopped = runMailbox()
      runTurnEnd()
      turnEnded?()
      runTurnEnd()
      if isStopped { return }
    }
  }

  private func wait(_ events: inout [epoll_event]) -> Int {
    let capacity = Int32(events.count)
    guard let deadline = nextDeadline else {
      return Int(unsafe epoll_pwait2(epoll, &events, capacity, nil, nil))
    }
    let rest = max(0, deadline.nanoseconds - now.nanoseconds)
    var timeout = timespec(tv_sec: Int(rest / 1_000_000_000), tv_nsec: Int(rest % 1_000_000_000))
    return Int(unsafe epoll_pwait2(epoll, &events, capacity, &timeout, nil))
  }

  private var nextDeadline: Instant? {
    if !turnEnd.isEmpty { return .zero }
    var earliest: Instant?
    for entry in timers {
      guard let deadline = entry.timer?.deadline else { continue }
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
    let now = now
    timers.removeAll { $0.timer == nil }
    // A timer armed meanwhile for an instant that has passed fires in the next turn.
    let due = timers.compactMap(\.timer).filter { ($0.deadline ?? .distantFuture) <= now }
      .sorted { ($0.deadline ?? .zero) < ($1.deadline ?? .zero) }
    for timer in due where (timer.deadline ?? .distantFuture) <= now {
      timer.deadline = nil
      timer.action()
    }
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

/// A timer of the loop.
private final class LoopTimer: SchedulerTimer {
  let action: () -> Void
  var deadline: Instant?

  init(_ action: @escaping () -> Void) { self.action = action }
  func arm(at instant: Instant) { deadline = instant }
  func disarm() { deadline = nil }
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
