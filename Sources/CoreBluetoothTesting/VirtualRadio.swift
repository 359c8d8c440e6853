// SPDX-License-Identifier: Apache-2.0

import BLECore
import BLERadio
import BLESystem
import CTestingHooks
import CoreBluetooth
import Foundation
import Synchronization

/// A radio world in a test: devices with unchanged Core Bluetooth apps on them, and time that the test moves.
///
///     let world = try await VirtualRadio(seed: 1)
///     let phone = world.device("phone")
///     let app = phone.run { HeartRateApp() }
///     try await world.run(until: { app.isConnected })
///
/// In virtual time, the default, nothing happens while anything of an app is under way: blocks that its queues have,
/// tasks, what the main actor has to do. When all is done the next thing happens, at its exact time. So ten minutes pass in
/// milliseconds, and a test sees the same in each run. `Task.sleep` and `asyncAfter` of apps, and of the test, are in that
/// time; `docs/testing.md` says what is not.
///
/// The test itself counts as an app: time passes while it awaits something, whatever that is, and stands still else. Worlds
/// know nothing of each other; tests that have one each may run in parallel.
public final class VirtualRadio: Sendable {
  /// All that is random in the world follows from it.
  public let seed: UInt64
  /// How time passes.
  public let speed: WorldSpeed
  let core: WorldCore
  let name: String
  private let devices = Mutex<[String: SteppedDevice]>([:])

  private static let count = Atomic<UInt64>(0)

  /// A world at time zero, without devices.
  ///
  /// - Parameters:
  ///   - seed: nil: `COREBLUETOOTH_SEED` of the environment, else 1.
  ///   - speed: how time passes.
  /// - Throws: ``VirtualTimeRefusal`` where virtual time cannot be had; the first world of a process tries it.
  public init(seed: UInt64? = nil, speed: WorldSpeed = .virtual) async throws {
    let seed = seed ?? Self.environmentSeed() ?? 1
    self.seed = seed
    self.speed = speed
    if speed == .virtual, let refusal = Conductor.shared.refusal() { throw refusal }
    name = "world\(Self.count.wrappingAdd(1, ordering: .relaxed).newValue)"
    let activity = ActivityCounter()
    var watch = SteppedRadio.Watch()
    watch.handedOver = { _, count in activity.add(count) }
    watch.workArrived = { ct_signal() }
    let radio = SteppedRadio(seed: seed, watch: watch)
    let replay = Self.replayLine(seed, speed)
    core = WorldCore(
      id: speed == .virtual ? ct_world_make() : 0, radio: radio, speed: speed, activity: activity
    ) { Log.line("CoreBluetoothTesting: \($0) [\(replay)]") }
    Conductor.shared.add(core)
    // From here on the test is counted.
    await core.wait(until: .zero)
  }

  deinit { core.end() }

  private static func environmentSeed() -> UInt64? {
    ProcessInfo.processInfo.environment["COREBLUETOOTH_SEED"].flatMap { UInt64($0) }
  }

  /// What makes a world like this one again.
  public var replayLine: String { Self.replayLine(seed, speed) }

  private static func replayLine(_ seed: UInt64, _ speed: WorldSpeed) -> String {
    "replay with VirtualRadio(seed: \(seed)\(speed == .virtual ? "" : ", speed: .\(speed)")), "
      + "or COREBLUETOOTH_SEED=\(seed) where the test gives no seed"
  }
}

// MARK: - Devices

extension VirtualRadio {
  /// The device of that name; it is made, switched on, with the first call.
  public func device(_ name: String) -> VirtualDevice {
    let device = devices.withLock { devices in
      if let known = devices[name] { return known }
      let number = devices.count + 1
      let made = SteppedDevice(
        name, spec: "virtual:\(self.name)/\(number)/\(name)", on: core.radio, number: number, seed: seed,
        controllerChanged: { _ in })
      guard let made else {
        preconditionFailure("device \(name): the cipher of the system's libcrypto fails")  // own misuse
      }
      devices[name] = made
      return made
    }
    return VirtualDevice(world: self, device: device)
  }
}

// MARK: - Time

/// Something did not come about in time.
public struct WorldTimeout: Error, CustomStringConvertible, Sendable {
  public var description: String
}

extension VirtualRadio {
  /// The time since the world began.
  public var now: Duration { .nanoseconds(core.now.nanoseconds) }

  /// Lets so much time pass, exactly; a virtual world then stands still until the test awaits something again.
  public func advance(by span: Duration) async {
    await core.wait(until: Instant(nanoseconds: core.now.nanoseconds + max(0, span.nanosecondCount)))
  }

  /// Lets time pass until `condition` holds. It is looked at after everything that apps are told, and ten times a second
  /// of the world's time.
  ///
  /// - Throws: ``WorldTimeout`` if it does not hold within `timeout` of the world's time.
  public func run(
    isolation: isolated (any Actor)? = #isolation, until condition: () throws -> Bool, timeout: Duration = .seconds(60)
  ) async throws {
    let end = Instant(nanoseconds: core.now.nanoseconds + timeout.nanosecondCount)
    while true {
      let activity = core.activityCount
      if try condition() { return }
      guard core.now < end, !core.isEnded else {
        throw WorldTimeout(
          description:
            "the condition did not come to hold within \(timeout), at \(now) of the world's time; \(replayLine)")
      }
      await core.wait(until: min(end, core.now + Self.lookPeriod), activity: activity)
    }
  }

  private static let lookPeriod = TimeSpan.milliseconds(100)

  /// Keeps time from passing, for what virtual time cannot see: until ``Hold/release()``, or the last reference to it.
  public func hold() -> Hold { Hold(core) }

  /// Time stands still while it lives.
  public final class Hold: Sendable {
    private let core: WorldCore
    private let isOn = Mutex(true)

    fileprivate init(_ core: WorldCore) {
      self.core = core
      ct_hold(core.id, 1)
    }

    deinit { release() }

    /// Time may pass again. Idempotent.
    public func release() {
      let wasOn = isOn.withLock { isOn in
        defer { isOn = false }
        return isOn
      }
      guard wasOn else { return }
      ct_hold(core.id, -1)
      ct_signal()
    }
  }
}

extension Duration {
  var nanosecondCount: Int64 {
    let (seconds, attoseconds) = components
    let (product, overflow) = seconds.multipliedReportingOverflow(by: 1_000_000_000)
    return overflow ? (seconds < 0 ? .min / 4 : .max / 4) : min(product, .max / 4) + attoseconds / 1_000_000_000
  }
}
