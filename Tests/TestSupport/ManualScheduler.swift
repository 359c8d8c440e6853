// SPDX-License-Identifier: Apache-2.0

public import BLECore

/// A scheduler whose time passes only when a test says so. Timers fire in the order of their instants, those of one
/// instant in the order of their arming.
public final class ManualScheduler: Scheduler {
  public private(set) var now = Instant.zero
  private var armed: [(instant: Instant, order: Int, timer: ManualTimer)] = []
  private var order = 0

  public init() {}

  public func makeTimer(_ action: @escaping () -> Void) -> any SchedulerTimer { ManualTimer(self, action) }

  /// When the next timer is due.
  public var nextDeadline: Instant? { armed.map(\.instant).min() }

  /// Lets `span` pass, and fires what is due on the way (also what is armed by then).
  public func advance(by span: TimeSpan) {
    let end = now + span
    while let next = armed.min(by: { ($0.instant, $0.order) < ($1.instant, $1.order) }), next.instant <= end {
      now = max(now, next.instant)
      disarm(next.timer)
      next.timer.action()
    }
    now = end
  }

  /// Fires what is due now.
  public func run() { advance(by: .zero) }

  fileprivate func arm(_ timer: ManualTimer, at instant: Instant) {
    disarm(timer)
    order += 1
    armed.append((max(now, instant), order, timer))
  }

  fileprivate func disarm(_ timer: ManualTimer) { armed.removeAll { $0.timer === timer } }
}

private final class ManualTimer: SchedulerTimer {
  private unowned let scheduler: ManualScheduler
  let action: () -> Void

  init(_ scheduler: ManualScheduler, _ action: @escaping () -> Void) {
    self.scheduler = scheduler
    self.action = action
  }

  func arm(at instant: Instant) { scheduler.arm(self, at: instant) }
  func disarm() { scheduler.disarm(self) }
}
