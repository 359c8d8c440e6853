// SPDX-License-Identifier: Apache-2.0

import BLECore
import Testing

@testable import BLESystem
@testable import CoreBluetooth

/// Rules 6 and 7: discovery, reading, writing, subscribing.
@Suite struct AttributeTests {
  @Test func `6.1, 6.2, 6.4, 6.5 services accumulate, keep identity, and hide 1800 and 1801`() {
    let world = CentralWorld()
    let peripheral = world.connected()
    #expect(peripheral.services == nil)
    world.discoverServices(peripheral, filter: [CBUUID(string: "1234")])
    #expect(world.calls() == ["services []"])
    let access = ServiceRecord(handles: 1...5, uuid: 0x1800, isPrimary: true)
    let generic = ServiceRecord(handles: 6...9, uuid: 0x1801, isPrimary: true)
    world.discoverServices(peripheral, access, generic, .battery)
    #expect(world.calls() == ["services [\"180F\"]"])
    let battery = peripheral.services?.first
    world.discoverServices(peripheral, .heartRate, .battery)
    #expect(world.calls() == ["services [\"180F\", \"180D\"]"])
    #expect(peripheral.services?.first === battery)
    #expect(battery?.peripheral === peripheral)
  }

  @Test func `6.1, 6.3 a filter is passed on, nil and an empty list mean all`() {
    let world = CentralWorld()
    let peripheral = world.connected()
    peripheral.discoverServices([CBUUID(string: "180D")])
    peripheral.discoverServices(nil)
    peripheral.discoverServices([])
    let filters = world.link.takeRequests().map { request in
      if case .discoverServices(_, _, let filter) = request { filter } else { [BluetoothUUID]?.some([0xFFFF]) }
    }
    #expect(filters == [[0x180D], nil, nil])
  }

  @Test func `6.2, 6.6, 6.9 included services, characteristics and descriptors with weak ways back`() throws {
    let world = CentralWorld()
    let peripheral = world.connected()
    world.discoverServices(peripheral, .heartRate, .battery)
    let services = try #require(peripheral.services)
    #expect(services[0].includedServices == nil)
    peripheral.discoverIncludedServices(nil, for: services[0])
    world.answer { .includedServicesDiscovered($0, $1, .success([.battery])) }
    world.queue.settle()
    #expect(services[0].includedServices?.first === services[1])
    #expect(services[0].characteristics == nil)
    world.discoverCharacteristics(peripheral, services[0], .measurement(.notify))
    let measurement = try #require(services[0].characteristics?.first)
    world.discoverCharacteristics(peripheral, services[0], .measurement(.notify))
    #expect(services[0].characteristics?.count == 1)
    #expect(services[0].characteristics?.first === measurement)
    #expect(measurement.service === services[0])
    #expect(measurement.value == nil)
    peripheral.discoverDescriptors(for: measurement)
    world.answer { .descriptorsDiscovered($0, $1, .success([DescriptorRecord(handle: 13, uuid: 0x2902)])) }
    world.queue.settle()
    #expect(measurement.descriptors?.first?.characteristic === measurement)
  }

  @Test func `the same UUID twice gives two objects`() throws {
    let world = CentralWorld()
    let peripheral = world.connected()
    let twin = ServiceRecord(handles: 21...25, uuid: 0x180D, isPrimary: true)
    world.discoverServices(peripheral, .heartRate, twin)
    let services = try #require(peripheral.services)
    #expect(services.count == 2)
    #expect(services[0] !== services[1])
  }

  @Test func `3.8, 6.10 attributes of an earlier connection answer with an error and reach nobody`() throws {
    let world = CentralWorld()
    let (peripheral, stale) = try #require(world.characteristic([.read, .write, .notify, .writeWithoutResponse]))
    let service = try #require(stale.service)
    world.link.emit(.disconnected(CentralWorld.peer, SystemError(.connectionTimeout), isReconnecting: false))
    world.queue.settle()
    #expect(peripheral.services?.first === service, "what was found stays to be looked at")
    world.connect(peripheral)
    peripheral.readValue(for: stale)
    peripheral.writeValue(Data([1]), for: stale, type: .withResponse)
    peripheral.setNotifyValue(true, for: stale)
    peripheral.discoverCharacteristics(nil, for: service)
    let error = "error CBErrorDomain 2"
    #expect(
      world.calls() == [
        "value 2A37 [] \(error)", "wrote 2A37 \(error)", "notifying false \(error)",
        "characteristics [\"2A37\"] \(error)",
      ])
    let lines = diagnostics { peripheral.writeValue(Data([1]), for: stale, type: .withoutResponse) }
    #expect(lines.count == 1)
    #expect(world.link.takeRequests().isEmpty)
    world.discoverServices(peripheral, .heartRate)
    #expect(peripheral.services?.count == 1)
    #expect(peripheral.services?.first !== service)
  }

  @Test func `6.8 Service Changed voids what it covers`() throws {
    let world = CentralWorld()
    let (peripheral, characteristic) = try #require(world.characteristic([.read, .notify]))
    world.discoverServices(peripheral, .battery)
    _ = world.calls()
    world.link.emit(.servicesModified(world.reference, 11...12))
    #expect(world.calls() == ["modified [\"180D\"]"])
    #expect(peripheral.services?.map(\.uuid.uuidString) == ["180F"])
    peripheral.readValue(for: characteristic)
    #expect(world.calls() == ["value 2A37 [] error CBErrorDomain 2"])
    #expect(world.link.takeRequests().isEmpty)
    world.link.emit(.servicesModified(world.reference, 100...200))
    #expect(world.calls() == ["modified []"])
  }

  @Test func `6.11 GATT calls while not connected: a line, no callback, no request`() throws {
    let world = CentralWorld()
    let (peripheral, characteristic) = try #require(
      world.characteristic([.read, .write, .writeWithoutResponse, .notify]))
    world.manager.cancelPeripheralConnection(peripheral)
    _ = world.link.takeRequests()
    let lines = diagnostics {
      peripheral.discoverServices(nil)
      peripheral.readValue(for: characteristic)
      peripheral.writeValue(Data(), for: characteristic, type: .withoutResponse)
      peripheral.setNotifyValue(true, for: characteristic)
    }
    #expect(lines.count == 4)
    #expect(lines.allSatisfy { $0.hasSuffix("can only accept commands while in the connected state") })
    #expect(world.calls() == [])
    #expect(world.link.takeRequests().isEmpty)
  }

  @Test func `7.1, 7.3 values: set before the callback, kept on an error`() throws {
    let world = CentralWorld()
    let (peripheral, characteristic) = try #require(world.characteristic([.read]))
    peripheral.readValue(for: characteristic)
    world.answer { .valueRead($0, $1, .success([1, 2])) }
    peripheral.readValue(for: characteristic)
    world.answer { .valueRead($0, $1, .failure(SystemError(.att(2)))) }
    #expect(world.calls() == ["value 2A37 [1, 2]", "value 2A37 [1, 2] error CBATTErrorDomain 2"])
    world.link.emit(.valueNotified(world.reference, 12, [3]))
    #expect(world.calls() == ["value 2A37 [3]"])
  }

  @Test func `each notification has its value, also when the queue is slow`() throws {
    let world = CentralWorld()
    let (peripheral, characteristic) = try #require(world.characteristic([.notify]))
    world.queue.suspend()
    for value in 1...3 as ClosedRange<UInt8> { world.link.emit(.valueNotified(world.reference, 12, [value])) }
    #expect(characteristic.value == nil)
    world.queue.resume()
    #expect(world.calls() == ["value 2A37 [1]", "value 2A37 [2]", "value 2A37 [3]"])
    #expect(peripheral.state == .connected)
  }

  @Test func `7.5 a write is confirmed once and leaves the value alone`() throws {
    let world = CentralWorld()
    let (peripheral, characteristic) = try #require(world.characteristic([.write]))
    peripheral.writeValue(Data([9]), for: characteristic, type: .withResponse)
    world.answer { .valueWritten($0, $1, nil) }
    peripheral.writeValue(Data([9]), for: characteristic, type: .withResponse)
    world.answer { .valueWritten($0, $1, SystemError(.att(0x80))) }
    #expect(world.calls() == ["wrote 2A37", "wrote 2A37 error CBATTErrorDomain 128"])
    #expect(characteristic.value == nil)
    #expect(world.recorder.errors.first?.localizedDescription == "Unknown ATT error.", "7.14")
  }

  @Test func `7.6, 7.7 write commands take room, and the app is told when there is some again`() throws {
    let world = CentralWorld()
    let (peripheral, characteristic) = try #require(world.characteristic([.writeWithoutResponse], credits: 2))
    #expect(peripheral.canSendWriteWithoutResponse)
    var sent = 0
    while peripheral.canSendWriteWithoutResponse {
      peripheral.writeValue(Data([1]), for: characteristic, type: .withoutResponse)
      sent += 1
    }
    #expect(sent == 2)
    #expect(world.link.takeRequests().count == 2)
    world.queue.suspend()
    world.link.emit(.writeCreditsGranted(world.reference, 1))
    #expect(peripheral.canSendWriteWithoutResponse, "room counts from the grant on")
    world.queue.resume()
    #expect(world.calls() == ["ready"])
    world.link.emit(.writeCreditsGranted(world.reference, 1))
    #expect(world.calls() == [], "the app had not been refused")
    world.link.emit(.writeCreditsGranted(LinkReference(peer: CentralWorld.peer, epoch: 77), 5))
    _ = peripheral.canSendWriteWithoutResponse
    for _ in 1...2 { peripheral.writeValue(Data([1]), for: characteristic, type: .withoutResponse) }
    #expect(!peripheral.canSendWriteWithoutResponse, "another connection's room does not count")
  }

  @Test func `7.6 without room a write is best effort, within bounds`() throws {
    let world = CentralWorld()
    let (peripheral, characteristic) = try #require(world.characteristic([.writeWithoutResponse], credits: 1))
    for _ in 1...1000 { peripheral.writeValue(Data([1]), for: characteristic, type: .withoutResponse) }
    let sent = world.link.takeRequests().count
    #expect(sent == 257)
    world.link.emit(.writeCreditsGranted(world.reference, sent - 1))
    #expect(!peripheral.canSendWriteWithoutResponse)
    world.link.emit(.writeCreditsGranted(world.reference, 1))
    #expect(world.calls() == ["ready"])
    #expect(peripheral.canSendWriteWithoutResponse)
  }

  @Test func `7.8 a write command for a characteristic without that property: a warning, nothing sent`() throws {
    let world = CentralWorld()
    let (peripheral, characteristic) = try #require(world.characteristic([.write]))
    let lines = diagnostics { peripheral.writeValue(Data([1]), for: characteristic, type: .withoutResponse) }
    #expect(
      lines == [
        "WARNING: Characteristic \(characteristic) does not specify the \"Write Without Response\" property - "
          + "ignoring response-less write"
      ])
    #expect(world.link.takeRequests().isEmpty)
  }

  @Test func `7.9, 7.10 lengths of writes`() throws {
    let world = CentralWorld()
    let (peripheral, characteristic) = try #require(world.characteristic([.write, .writeWithoutResponse]))
    #expect(peripheral.maximumWriteValueLength(for: .withResponse) == 512)
    #expect(peripheral.maximumWriteValueLength(for: .withoutResponse) == 182)
    world.link.emit(.maximumWriteLengthChanged(world.reference, 514))
    world.queue.settle()
    #expect(peripheral.maximumWriteValueLength(for: .withoutResponse) == 514)
    let lines = diagnostics { peripheral.writeValue(Data(count: 515), for: characteristic, type: .withoutResponse) }
    #expect(lines.count == 1)
    peripheral.writeValue(Data(count: 513), for: characteristic, type: .withResponse)
    #expect(world.calls() == ["wrote 2A37 error CBATTErrorDomain 13"])
    #expect(world.link.takeRequests().isEmpty)
    peripheral.writeValue(Data(count: 512), for: characteristic, type: .withResponse)
    #expect(world.link.takeRequests().count == 1)
  }

  @Test func `7.11 descriptors have values by type, and 2902 is not written that way`() throws {
    let world = CentralWorld()
    let (peripheral, characteristic) = try #require(world.characteristic([.read, .notify]))
    peripheral.discoverDescriptors(for: characteristic)
    let uuids: [BluetoothUUID] = [0x2900, 0x2901, 0x2902, 0x2904, 0x2906]
    let records = uuids.enumerated().map { DescriptorRecord(handle: UInt16(13 + $0.offset), uuid: $0.element) }
    world.answer { .descriptorsDiscovered($0, $1, .success(records)) }
    world.queue.settle()
    let descriptors = try #require(characteristic.descriptors)
    for descriptor in descriptors {
      peripheral.readValue(for: descriptor)
      world.answer { .valueRead($0, $1, .success([0x41, 0x01])) }
    }
    world.queue.settle()
    #expect(descriptors[0].value as? NSNumber == 0x0141)
    #expect(descriptors[1].value as? String == "A\u{1}")
    #expect(descriptors[2].value as? NSNumber == 0x0141)
    #expect(descriptors[3].value as? Data == Data([0x41, 1]))
    #expect(descriptors[4].value as? Data == Data([0x41, 1]))
    _ = world.calls()
    let lines = diagnostics { peripheral.writeValue(Data([1, 0]), for: descriptors[2]) }
    #expect(lines.count == 1)
    #expect(world.calls() == ["wrote 2902 error CBErrorDomain 8"])
    #expect(world.link.takeRequests().isEmpty)
  }

  @Test func `7.12, 7.13 subscribing: state before the callback, at once if it is so already, cleared by a loss`()
    throws
  {
    let world = CentralWorld()
    let (peripheral, characteristic) = try #require(world.characteristic([.notify]))
    peripheral.setNotifyValue(false, for: characteristic)
    #expect(world.calls() == ["notifying false"])
    #expect(world.link.takeRequests().isEmpty)
    peripheral.setNotifyValue(true, for: characteristic)
    #expect(!characteristic.isNotifying)
    world.answer { .notifyStateChanged($0, $1, isNotifying: true, nil) }
    #expect(world.calls() == ["notifying true"])
    world.link.emit(.disconnected(CentralWorld.peer, SystemError(.connectionTimeout), isReconnecting: false))
    #expect(world.calls() == ["disconnected disconnected error CBErrorDomain 6"])
    #expect(!characteristic.isNotifying)
  }

  @Test func `7.12 ending a subscription that is on its way is sent too`() throws {
    let world = CentralWorld()
    let (peripheral, characteristic) = try #require(world.characteristic([.notify]))
    peripheral.setNotifyValue(true, for: characteristic)
    peripheral.setNotifyValue(false, for: characteristic)
    #expect(world.link.takeRequests().count == 2)
  }

  @Test func `7.12 no property to subscribe by: ATT error 6`() throws {
    let world = CentralWorld()
    let (peripheral, characteristic) = try #require(world.characteristic([.read]))
    peripheral.setNotifyValue(true, for: characteristic)
    #expect(world.calls() == ["notifying false error CBATTErrorDomain 6"])
    #expect(world.link.takeRequests().isEmpty)
  }

  @Test func `9.1 channels are refused through their callback`() {
    let world = CentralWorld()
    let peripheral = world.connected()
    peripheral.openL2CAPChannel(192)
    #expect(world.calls() == ["channel none error CBErrorDomain 13"])
  }

  @Test func `14.4 descriptions`() throws {
    let world = CentralWorld()
    let (peripheral, characteristic) = try #require(world.characteristic([.notify]))
    world.link.emit(.valueNotified(world.reference, 12, [0, 0x48]))
    world.queue.settle()
    let at = { (object: AnyObject) in "0x" + String(UInt(bitPattern: ObjectIdentifier(object)), radix: 16) }
    #expect(
      "\(characteristic)" == "<CBCharacteristic: \(at(characteristic)), UUID = 2A37, properties = 0x10, "
        + "value = {length = 2, bytes = 0x0048}, notifying = NO>")
    let service = try #require(characteristic.service)
    #expect("\(service)" == "<CBService: \(at(service)), isPrimary = YES, UUID = Heart Rate>")
    #expect(
      "\(peripheral)" == "<CBPeripheral: \(at(peripheral)), identifier = 11112222-3333-4444-5555-666677778888, "
        + "name = Sensor, mtu = 185, state = connected>")
  }
}
