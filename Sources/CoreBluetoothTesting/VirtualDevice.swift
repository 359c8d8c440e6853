// SPDX-License-Identifier: Apache-2.0

import BLECore
import BLEProfile
import BLESystem
public import CoreBluetooth

/// A device of a ``VirtualRadio``, with a Bluetooth adapter of its own and any number of apps.
///
/// What a test does to a device takes effect at the present instant, in the order of the calls, and before time goes on.
public struct VirtualDevice: Sendable {
  let world: VirtualRadio
  let device: SteppedDevice

  /// As the world's messages, its timeline and the device's Device Name have it.
  public var name: String { device.name }

  /// What names the device's adapter to a manager: `CBManagerOptionAdapterKey` takes it.
  public var adapter: String { device.spec }

  /// Runs `body` on this device: managers made in it, and in tasks started by it, use its adapter.
  public func run<Result>(_ body: () throws -> Result) rethrows -> Result { try Adapter.with(adapter, body) }

  /// The same for an asynchronous `body`.
  public func run<Result>(
    isolation: isolated (any Actor)? = #isolation, _ body: () async throws -> Result
  ) async rethrows -> Result {
    try await Adapter.with(isolation: isolation, adapter, body)
  }

  // MARK: - Its place

  /// Puts the device somewhere, or has it walk there in a straight line, from where it is. A device that was never put
  /// anywhere is heard by all, everywhere.
  ///
  /// - Parameter span: how long the walk takes.
  public func move(to position: Position, over span: Duration = .zero) {
    let (name, text) = (name, "moves to \(position.x) \(position.y) \(position.z) over \(span)")
    world.change(text, device) { $0.move(name, to: position, over: TimeSpan(span)) }
  }

  /// Has the device send with so many dBm; 0 at first. Counts between devices that were put somewhere.
  public func setTransmitPower(_ power: Double) {
    let name = name
    world.change("sends with \(power) dBm", device) { $0.setTransmitPower(power, name) }
  }

  // MARK: - Its adapter

  /// A device's switch for Bluetooth.
  public enum Switch: Sendable { case on, off }

  /// Switches Bluetooth off, as the device's user does, or on again. Its connections end in good order, its apps see
  /// `poweredOff`, and what they have published is there again with `poweredOn`.
  public var bluetooth: Switch {
    get { world.isOn(device) ? .on : .off }
    nonmutating set {
      world.setSwitch(newValue == .on, device)
      world.note(newValue == .on ? "Bluetooth is switched on" : "Bluetooth is switched off", device)
      device.setSwitch(isOn: newValue == .on)
    }
  }

  /// Has the controller fail and start again: connections end without a word to the peers, who find out by their
  /// supervision timeouts; the device's apps see `resetting`, and nothing they had is left.
  public func reset() {
    world.note("the controller is reset", device)
    device.resetController()
  }

  // MARK: - Its answers

  /// What a client may ask of a characteristic's value.
  public enum Request: String, Sendable { case read, write }

  /// Has the next `times` requests of that kind refused with an ATT error, in the place of the app on this device, which
  /// does not see them. A value that the app has fixed at its publication is not asked of it, and not refused.
  public func reject(
    _ request: Request, of characteristic: CBUUID, with error: CBATTError.Code, times: Int = 1
  ) {
    world.note("rejects \(times) \(request.rawValue) of \(characteristic.uuidString): error \(error.rawValue)", device)
    add(request, characteristic, .reject(UInt8(clamping: error.rawValue)), times)
  }

  /// Has the next `times` requests of that kind reach the app on this device later by `span`. After 30 s without an
  /// answer a client ends its connection (Vol 3 Part F 3.3.3).
  public func delay(_ request: Request, of characteristic: CBUUID, by span: Duration, times: Int = 1) {
    world.note("delays \(times) \(request.rawValue) of \(characteristic.uuidString) by \(span)", device)
    add(request, characteristic, .delay(TimeSpan(span)), times)
  }

  private func add(_ request: Request, _ characteristic: CBUUID, _ outcome: RequestRule.Outcome, _ times: Int) {
    guard let uuid = BluetoothUUID(characteristic.uuidString) else { return }
    device.add(RequestRule(request == .read ? .read : .write, uuid, outcome, count: times))
  }

  /// Replaces the services of a device that plays a profile by those of another one, as an update of the firmware does:
  /// clients hear of it by Service Changed.
  ///
  /// - Throws: what is wrong with the profile, as `line:column: text`; ``NoProfilePlayed`` where the device plays none.
  public func update(toProfile json: String) throws {
    guard world.playsProfile(device) else { throw NoProfilePlayed(name: name) }
    let profile = try Profile(parsing: Array(json.utf8))
    world.note("its services change", device)
    world.play(profile, on: device)
  }
}

extension TimeSpan {
  init(_ span: Duration) { self.init(nanoseconds: max(0, span.nanosecondCount)) }
}
