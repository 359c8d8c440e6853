// SPDX-License-Identifier: Apache-2.0

import BLECore
import BLEProfile
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
/// tasks, what the main actor has to do. When all is done the next thing happens, at its exact time. So ten minutes pass in a
/// second or two, and a test sees the same in each run. `Task.sleep` and `asyncAfter` of apps, and of the test, are in that
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
  /// What has happened.
  public let timeline: Timeline
  let surroundings: Surroundings
  private let state = Mutex(State())

  private struct State {
    var devices: [String: SteppedDevice] = [:]
    var switchedOff: Set<String> = []
    var profiles: [String: PlayedProfile] = [:]
    /// What plays a device for as long as the world is there.
    var residents: [any Sendable] = []
  }

  private static let count = Atomic<UInt64>(0)

  /// A world at time zero, without devices.
  ///
  /// - Parameters:
  ///   - seed: nil: `COREBLUETOOTH_SEED` of the environment, else 1.
  ///   - speed: how time passes.
  ///   - recording: what its ``timeline`` is to have.
  /// - Throws: ``VirtualTimeRefusal`` where virtual time cannot be had; the first world of a process tries it.
  public init(
    seed: UInt64? = nil, speed: WorldSpeed = .virtual, recording: Recording = .all
  ) async throws {
    let seed = seed ?? Self.environmentSeed() ?? 1
    self.seed = seed
    self.speed = speed
    if speed == .virtual, let refusal = Conductor.shared.refusal() { throw refusal }
    name = "world\(Self.count.wrappingAdd(1, ordering: .relaxed).newValue)"
    let activity = ActivityCounter()
    let recorder = Recorder(recording)
    let radio = SteppedRadio(seed: seed, watch: recorder.watch(activity))
    let replay = Self.replayLine(seed, speed)
    core = WorldCore(
      id: speed == .virtual ? ct_world_make() : 0, radio: radio, speed: speed, activity: activity
    ) {
      recorder.add(.note($0), "")
      Log.line("CoreBluetoothTesting: \($0) [\(replay)]")
    }
    timeline = recorder.timeline
    surroundings = Surroundings(radio)
    recorder.attach(core, surroundings)
    core.keep(recorder)
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
    VirtualDevice(world: self, device: steppedDevice(name))
  }

  private func steppedDevice(_ name: String) -> SteppedDevice {
    state.withLock { state in
      if let known = state.devices[name] { return known }
      let number = state.devices.count + 1
      let made = SteppedDevice(
        name, spec: "virtual:\(self.name)/\(number)/\(name)", on: core.radio, number: number, seed: seed,
        controllerChanged: { [surroundings] in surroundings.controllerChanged(name, $0) })
      guard let made else {
        preconditionFailure("device \(name): the cipher of the system's libcrypto fails")  // own misuse
      }
      state.devices[name] = made
      return made
    }
  }

  /// Places a device that an app of the test's plays: `make` is run on it, and what it returns lives as long as the
  /// world. Such a small peripheral or central is a Core Bluetooth app like any other.
  @discardableResult
  public func place(
    _ name: String, at position: Position? = nil, _ make: () throws -> some Sendable
  ) rethrows -> VirtualDevice {
    let device = device(name)
    if let position { device.move(to: position) }
    let resident = try device.run(make)
    state.withLock { $0.residents.append(resident) }
    return device
  }

  /// Places a device that plays a profile (`docs/profiles.md`), given as JSON.
  ///
  /// - Parameter name: the device's; nil: the profile's. Give one to have several devices of one profile.
  /// - Throws: what is wrong with the profile, as `line:column: text`; ``DeviceNameTaken`` where a device of that name plays a
  ///   profile already.
  @discardableResult
  public func place(profile json: String, named name: String? = nil, at position: Position? = nil) throws
    -> VirtualDevice
  {
    let profile = try Profile(parsing: Array(json.utf8))
    let name = name ?? profile.name
    if state.withLock({ $0.profiles[name] != nil }) { throw DeviceNameTaken(name: name) }
    let device = device(name)
    if let position { device.move(to: position) }
    play(profile, on: device.device)
    return device
  }

  /// Places a device that plays the profile in the file at `path`, such as `Examples/Profiles/heart-rate-sensor.json`.
  ///
  /// - Throws: what is wrong with the profile, as `line:column: text`, or that the file cannot be read.
  @discardableResult
  public func place(profileFile path: String, named name: String? = nil, at position: Position? = nil) throws
    -> VirtualDevice
  {
    try place(profile: String(contentsOfFile: path, encoding: .utf8), named: name, at: position)
  }

  func play(_ profile: Profile, on device: SteppedDevice) {
    state.withLock { state in
      if let playing = state.profiles[device.name] { return playing.change(to: profile) }
      state.profiles[device.name] = PlayedProfile.play(profile, on: device, core.radio)
    }
  }

  func playsProfile(_ device: SteppedDevice) -> Bool { state.withLock { $0.profiles[device.name] != nil } }

  func isOn(_ device: SteppedDevice) -> Bool { state.withLock { !$0.switchedOff.contains(device.name) } }

  func setSwitch(_ isOn: Bool, _ device: SteppedDevice) {
    state.withLock { state in
      if isOn { state.switchedOff.remove(device.name) } else { state.switchedOff.insert(device.name) }
    }
  }
}

// MARK: - Recording

/// What a world's timeline has besides faults and notes.
public struct Recording: OptionSet, Sendable {
  public let rawValue: Int
  public init(rawValue: Int) { self.rawValue = rawValue }

  /// Calls of apps, and what they are told.
  public static let apps = Recording(rawValue: 1)
  /// Packets between hosts and controllers.
  public static let hci = Recording(rawValue: 2)
  /// Packets on air.
  public static let air = Recording(rawValue: 4)
  public static let all: Recording = [.apps, .hci, .air]
}

/// Two devices of a world cannot play their profiles under one name.
public struct DeviceNameTaken: Error, CustomStringConvertible, Sendable {
  public var name: String
  public var description: String {
    "a device \"\(name)\" plays a profile already; give the other one a name of its own: place(…, named: \"\(name) 2\")"
  }
}

/// Only a device that plays a profile can play another one.
public struct NoProfilePlayed: Error, CustomStringConvertible, Sendable {
  public var name: String
  public var description: String {
    "device \"\(name)\" plays no profile that could be replaced; apps on it change their services themselves"
  }
}

/// Something did not come about in time.
public struct WorldTimeout: Error, CustomStringConvertible, Sendable {
  public var description: String
}

extension VirtualRadio {
  /// The time since the world began.
  public var now: Duration { .nanoseconds(core.now.nanoseconds) }

  /// Lets so much time pass, exactly; a virtual world then stands still until the test awaits something again. All time
  /// ends after 73 years.
  public func advance(isolation: isolated (any Actor)? = #isolation, by span: Duration) async {
    await core.wait(until: Instant(nanoseconds: core.now.nanoseconds + max(0, span.nanosecondCount)))
  }

  /// Lets time pass until `time` since the beginning; nothing if that has passed.
  public func advance(isolation: isolated (any Actor)? = #isolation, to time: Duration) async {
    await core.wait(until: Instant(nanoseconds: time.nanosecondCount))
  }

  /// Lets time pass until `condition` holds. It is looked at after everything that apps are told, and once a second of the
  /// world's time.
  ///
  /// - Throws: ``WorldTimeout`` if it does not hold within `timeout` of the world's time.
  public func run(
    isolation: isolated (any Actor)? = #isolation, until condition: () throws -> Bool, timeout: Duration = .seconds(60),
    fileID: StaticString = #fileID, line: UInt = #line
  ) async throws {
    let end = min(Instant(nanoseconds: core.now.nanoseconds + timeout.nanosecondCount), WorldCore.end)
    while true {
      let activity = core.activityCount
      if try condition() { return }
      guard core.now < end, !core.isEnded else {
        throw WorldTimeout(
          description: "\(fileID):\(line): the condition did not come to hold within \(timeout), until "
            + "\(Timeline.seconds(now)) s of the world's time; \(replayLine)" + tail.map { "\n  \($0)" }.joined())
      }
      await core.wait(until: min(end, core.now + Self.lookPeriod), activity: activity)
    }
  }

  private static let lookPeriod = TimeSpan.seconds(1)
  /// So many of the last entries of each device a failure shows.
  private static let tailCount = 8

  /// The last that happened, for a failure's message: to the devices with apps, if there are any.
  private var tail: [Timeline.Entry] {
    let playing = Set(state.withLock { $0.profiles.keys })
    let found = timeline.tail(Self.tailCount) { !playing.contains($0) }
    return found.isEmpty ? timeline.tail(Self.tailCount) { _ in true } : found
  }

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
    let limit = Int64.max / 4
    return overflow ? (seconds < 0 ? -limit : limit) : min(max(product, -limit), limit) + attoseconds / 1_000_000_000
  }
}
