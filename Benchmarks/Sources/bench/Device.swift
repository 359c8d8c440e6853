// SPDX-License-Identifier: Apache-2.0

import BLECore
import BLEGATT
import BLEHCI
import BLEHost
import BLERadio

/// A simulated device without anything above the host: controller, host, GAP and GATT services.
final class Device: HostOwner {
  let controller: VirtualController
  let host: Host
  private(set) var connection: Connection?
  private(set) var isReady = false
  /// Whether the peer wants the values of what was published; it may subscribe to Service Changed besides.
  private(set) var isSubscribed = false
  private var published: UInt16 = 0
  /// Values that came as notifications.
  var notified: (Int) -> Void = { _ in }

  static let notifiedUUID = BluetoothUUID(0xFFF1)

  init(_ world: RadioWorld, number: UInt64) throws {
    let pair = HCITransportPair(scheduler: world.simulator)
    controller = VirtualController(
      world: world, address: BDAddress(0x02_CB_00_00_00_00 | number), transport: pair.controller)
    host = Host(
      transport: pair.host, scheduler: world.simulator,
      configuration: HostConfiguration(staticRandomAddress: BDAddress(0xC0_00_00_00_00_00 | number)))
    host.owner = self
    try host.database.addService(
      ServiceDefinition(
        uuid: 0x1800,
        characteristics: [
          CharacteristicDefinition(
            uuid: 0x2A00, properties: .read, permissions: .readable, value: .fixed(Array("Device".utf8))),
          CharacteristicDefinition(uuid: 0x2A01, properties: .read, permissions: .readable, value: .fixed([0, 0])),
        ]))
    try host.database.addService(
      ServiceDefinition(
        uuid: 0x1801,
        characteristics: [
          CharacteristicDefinition(
            uuid: 0x2A05, properties: .indicate, permissions: AttributePermissions(read: .never, write: .never),
            value: .fixed([1, 0, 0xFF, 0xFF]))
        ]))
    host.start()
  }

  /// Adds a service with a characteristic to subscribe to; gives the handles of value and client configuration.
  func publish(_ uuid: BluetoothUUID) throws -> (value: UInt16, configuration: UInt16) {
    let service = try host.database.addService(
      ServiceDefinition(
        uuid: uuid,
        characteristics: [
          CharacteristicDefinition(
            uuid: Self.notifiedUUID, properties: .notify, permissions: .readable, value: .fixed([]))
        ]))
    guard let configuration = service.characteristics[0].clientConfiguration else { throw Failure("no configuration") }
    published = service.characteristics[0].value
    return (published, configuration)
  }

  func advertise(_ service: [UInt8]) {
    host.startAdvertising(AdvertisingContent(data: [2, 1, 6] + service, scanResponse: []))
  }

  /// Notifies the peer; false if there is nobody who wants it.
  func notify(_ handle: UInt16, _ value: RawSpan) -> Bool {
    guard let connection else { return false }
    let database = host.database
    return host.perform(on: connection) { bearer, _ in bearer.notify(handle, value, database: database) }
  }

  func host(_ host: Host, did event: HostEvent) {
    switch event {
    case .ready: isReady = true
    case .connected(let connection): self.connection = connection
    case .disconnected: connection = nil
    default: break
    }
  }

  func host(_ host: Host, connection: Connection, did event: ATTEvent) {
    switch event {
    case .notification(_, let value): notified(value.count)
    case .subscriptionChanged(published, let configuration, _): isSubscribed = configuration != 0
    default: break
    }
  }
}
