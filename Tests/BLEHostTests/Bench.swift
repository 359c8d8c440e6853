// SPDX-License-Identifier: Apache-2.0

import BLECore
import BLEGATT
import BLEHCI
import BLERadio

@testable import BLEHost

/// A host on a scripted controller, in virtual time.
final class Bench: HostOwner {
  let simulator = Simulator()
  let controller: ScriptedController
  let host: Host
  var events: [HostEvent] = []
  var attEvents: [ATTEvent] = []

  init(_ policy: HostConfiguration.AddressPolicy = .automatic) {
    let pair = HCITransportPair(scheduler: simulator)
    controller = ScriptedController(pair.controller)
    host = Host(
      transport: pair.host, scheduler: simulator,
      configuration: HostConfiguration(staticRandomAddress: BDAddress(0xC0FF_EE00_0001), addressPolicy: policy))
    host.owner = self
  }

  func host(_ host: Host, did event: HostEvent) { events.append(event) }
  func host(_ host: Host, connection: Connection, did event: ATTEvent) { attEvents.append(event) }

  func start() {
    host.start()
    simulator.advance(by: .seconds(60))
  }

  /// Whether the host still works with its controller.
  var isAlive: Bool { failure == nil && host.isRunning }

  var isReady: Bool { events.contains { if case .ready = $0 { true } else { false } } }
  var failure: HostError? {
    events.lazy.compactMap { if case .failed(let error) = $0 { error } else { nil } }.first
  }
  var connection: Connection? {
    events.lazy.compactMap { if case .connected(let connection) = $0 { connection } else { nil } }.last
  }

  /// An advertisement of a connectable public device.
  func hear(_ address: [UInt8]) {
    controller.meta(.advertisingReport, [1, 0, 0] + address + [0, 0xC4])
    simulator.advance(by: .milliseconds(1))
  }

  func linkMade(_ address: [UInt8], role: UInt8 = 0) {
    controller.meta(.connectionComplete, [0, 0x40, 0, role, 0] + address + [24, 0, 0, 0, 200, 0, 0])
    simulator.advance(by: .milliseconds(1))
  }

  func featuresRead() {
    controller.meta(.readRemoteFeaturesComplete, [0, 0x40, 0, 0, 0, 0, 0, 0, 0, 0, 0])
    simulator.advance(by: .milliseconds(1))
  }
}

/// The ACL packets that a host sends, without H4 indicator.
final class ACLSpy: HCIReceiver {
  private(set) var packets: [[UInt8]] = []
  private let controller: ScriptedController

  init(_ bench: Bench) {
    controller = bench.controller
    controller.dataReceiver = self
  }

  func receive(_ type: HCIPacketType, _ payload: RawSpan) { packets.append([UInt8](payload)) }
  func transportClosed(_ error: HCITransportError) {}
}
