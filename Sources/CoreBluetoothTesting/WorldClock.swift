// SPDX-License-Identifier: Apache-2.0

import BLECore
import Synchronization

/// A world's time as a clock, for code that takes one. In virtual time also `ContinuousClock`, `SuspendingClock` and
/// `Task.sleep` show and use it, where the test and its apps run.
public struct WorldClock: Clock {
  /// A point in a world's time.
  public struct Instant: InstantProtocol {
    /// Since the world began.
    public var offset: Duration

    public func advanced(by duration: Duration) -> Instant { Instant(offset: offset + duration) }
    public func duration(to other: Instant) -> Duration { other.offset - offset }
    public static func < (a: Instant, b: Instant) -> Bool { a.offset < b.offset }
  }

  let core: WorldCore

  public var now: Instant { Instant(offset: .nanoseconds(core.now.nanoseconds)) }
  public var minimumResolution: Duration { .nanoseconds(1) }

  /// Waits for `deadline`, exactly.
  ///
  /// - Throws: `CancellationError` when the task is cancelled.
  public func sleep(until deadline: Instant, tolerance: Duration?) async throws {
    try await core.sleep(until: BLECore.Instant(nanoseconds: deadline.offset.nanosecondCount))
  }
}

extension VirtualRadio {
  /// The world's time.
  public var clock: WorldClock { WorldClock(core: core) }
}
