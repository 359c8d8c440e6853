// SPDX-License-Identifier: Apache-2.0

/// A span of time in nanoseconds.
@frozen
public struct TimeSpan: Hashable, Comparable, Sendable {
  public var nanoseconds: Int64

  @inlinable public init(nanoseconds: Int64) { self.nanoseconds = nanoseconds }
  @inlinable public static func nanoseconds(_ count: Int64) -> TimeSpan { TimeSpan(nanoseconds: count) }
  @inlinable public static func microseconds(_ count: Int) -> TimeSpan { TimeSpan(nanoseconds: Int64(count) * 1_000) }
  @inlinable public static func milliseconds(_ count: Int) -> TimeSpan {
    TimeSpan(nanoseconds: Int64(count) * 1_000_000)
  }
  @inlinable public static func seconds(_ count: Int) -> TimeSpan {
    TimeSpan(nanoseconds: Int64(count) * 1_000_000_000)
  }
  @inlinable public static var zero: TimeSpan { TimeSpan(nanoseconds: 0) }

  @inlinable public static func < (a: TimeSpan, b: TimeSpan) -> Bool { a.nanoseconds < b.nanoseconds }
  @inlinable public static func + (a: TimeSpan, b: TimeSpan) -> TimeSpan {
    TimeSpan(nanoseconds: a.nanoseconds + b.nanoseconds)
  }
  @inlinable public static func - (a: TimeSpan, b: TimeSpan) -> TimeSpan {
    TimeSpan(nanoseconds: a.nanoseconds - b.nanoseconds)
  }
  @inlinable public static func * (a: TimeSpan, b: Int) -> TimeSpan {
    TimeSpan(nanoseconds: a.nanoseconds * Int64(b))
  }
}

/// A point in time: nanoseconds since an origin that the ``Scheduler`` chose. Never a wall clock.
@frozen
public struct Instant: Hashable, Comparable, Sendable {
  public var nanoseconds: Int64

  @inlinable public init(nanoseconds: Int64) { self.nanoseconds = nanoseconds }
  @inlinable public static var zero: Instant { Instant(nanoseconds: 0) }

  @inlinable public static func < (a: Instant, b: Instant) -> Bool { a.nanoseconds < b.nanoseconds }
  @inlinable public static func + (a: Instant, b: TimeSpan) -> Instant {
    Instant(nanoseconds: a.nanoseconds + b.nanoseconds)
  }
  @inlinable public static func - (a: Instant, b: TimeSpan) -> Instant {
    Instant(nanoseconds: a.nanoseconds - b.nanoseconds)
  }
  @inlinable public static func - (a: Instant, b: Instant) -> TimeSpan {
    TimeSpan(nanoseconds: a.nanoseconds - b.nanoseconds)
  }
}

/// The clock and the timers of one adapter. Two implementations: the event loop (real time) and the radio's
/// event queue (simulated time). Everything is called on the adapter's one executor.
public protocol Scheduler: AnyObject {
  var now: Instant { get }
  /// A timer that calls `action` on the executor each time an armed instant has come. Made once, armed often.
  func makeTimer(_ action: @escaping () -> Void) -> any SchedulerTimer
}

/// One timer of a ``Scheduler``. It ends with its last reference.
public protocol SchedulerTimer: AnyObject {
  /// Fires once at `instant`, or as soon as possible if that has passed; replaces an earlier arming.
  func arm(at instant: Instant)
  func disarm()
}
