// SPDX-License-Identifier: Apache-2.0

import BLECore
import BLECrypto
import BLEHCI
import BLEHost
import BLERadio
import Testing

@testable import BLESystem

/// Several devices, each a whole system on a virtual controller, in one radio world and virtual time.
final class SimulatedWorld {
  let simulator = Simulator()
  let world: RadioWorld

  init(seed: UInt64 = 1, setting: AirSetting = .physical) {
    world = RadioWorld(simulator: simulator, seed: seed, setting: setting)
  }

  func device(_ name: String) throws -> SimulatedDevice { try SimulatedDevice(name, in: self) }

  /// One more controller, for a host that the test plays.
  func controller(address: UInt64, transport: any HCITransport) -> VirtualController {
    VirtualController(world: world, address: BDAddress(address), transport: transport)
  }

  func advance(_ span: TimeSpan) { simulator.advance(by: span) }

  /// Runs until `condition` holds; false if it does not within `limit` of simulated time.
  @discardableResult
  func run(within limit: TimeSpan = .seconds(30), until condition: () -> Bool) -> Bool {
    let end = simulator.now + limit
    while !condition() {
      guard let next = simulator.nextEventTime, next <= end else { return condition() }
      _ = simulator.step()
    }
    return true
  }
}

/// One device: a controller that can be switched off and on, and the system that owns it.
final class SimulatedDevice {
  private(set) var controller: VirtualController?
  let system: BluetoothSystem
  private let world: SimulatedWorld
  private let power = Power()

  private final class Power {
    var isOn = true
    var controller: VirtualController?
    var transport: (any HCITransport)?
  }

  /// `wrap` may put something between host and controller. `interval` is that of the connections it makes.
  init(
    _ name: String, in world: SimulatedWorld, interval: ConnectionInterval? = nil,
    wrap: @escaping (any HCITransport) -> any HCITransport = { $0 }
  ) throws {
    self.world = world
    let identity = try PeerIdentity(secret: Array("a host secret of 16".utf8))
    let number = UInt64(name.utf8.reduce(0) { $0 &* 31 &+ UInt64($1) } & 0xFFFF)
    let power = power
    var configuration = HostConfiguration(staticRandomAddress: BDAddress(0xC000_0000_0000 | number))
    if let interval { configuration.connectionParameters.interval = interval }
    system = BluetoothSystem(
      name: name, scheduler: world.simulator, identity: identity,
      replica: SystemReplica { identity.address(of: $0) }, deviceName: name,
      configuration: configuration
    ) { completion in
      guard power.isOn else { return completion(.failure(HCITransportError("switched off"))) }
      let pair = HCITransportPair(scheduler: world.simulator)
      power.controller = VirtualController(
        world: world.world, address: BDAddress(0x02CB_0000_0000 | number), transport: pair.controller)
      power.transport = pair.controller
      completion(.success(wrap(pair.host)))
    }
    system.start()
  }

  func setPower(_ isOn: Bool) {
    power.isOn = isOn
    if !isOn {
      power.controller?.powerOff()
      power.transport?.close()
    }
  }

  /// Whether its radio packets reach anyone, and anyone's reach it.
  func setAudible(_ isAudible: Bool) {
    guard let controller = power.controller else { return }
    world.world.setIsolated(!isAudible, controller.device)
  }

  func session() -> TestSession { TestSession(system) }
}

/// One app's session, with everything it was told.
final class TestSession {
  private let system: BluetoothSystem
  private let id: SessionID
  private let inbox = Inbox()
  private var token: RequestToken = 0

  /// The handler's type is `@Sendable`; here everything runs on one thread.
  private final class Inbox: @unchecked Sendable { var events: [SystemEvent] = [] }

  init(_ system: BluetoothSystem) {
    self.system = system
    let inbox = inbox
    id = system.addSession { inbox.events += $0 }
  }

  var events: [SystemEvent] { inbox.events }
  func forget() { inbox.events.removeAll() }
  /// The events since the last call.
  func take() -> [SystemEvent] {
    defer { inbox.events.removeAll(keepingCapacity: true) }
    return inbox.events
  }
  func send(_ request: SystemRequest) { system.handle(request, of: id) }
  func close() { system.removeSession(id) }

  func nextToken() -> RequestToken {
    token += 1
    return token
  }

  var state: AdapterState? {
    events.reversed().lazy.compactMap { if case .stateChanged(let state) = $0 { state } else { nil } }.first
  }

  var discoveries: [Discovery] { events.compactMap { if case .discovered(let found) = $0 { found } else { nil } } }

  var link: LinkReference? {
    events.reversed().lazy.compactMap { if case .connected(let link, _, _) = $0 { link } else { nil } }.first
  }
}
