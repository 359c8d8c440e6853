// SPDX-License-Identifier: Apache-2.0

import CoreBluetooth

/// Rows through the public API alone: two devices in this process, on the virtual radio's ideal air.
enum APIRows {
  /// The ideal air, and no state of this machine's user.
  private static func prepare() {
    setenv("COREBLUETOOTH_VIRTUAL_AIR", "ideal", 1)
    setenv("COREBLUETOOTH_STATE_DIR", NSTemporaryDirectory() + "corebluetooth-bench", 1)
  }

  private static func connectedPair() -> (PeripheralApp, CentralApp) {
    prepare()
    let peripheral = PeripheralApp(adapter: "virtual:peripheral", services: [PeripheralApp.service()])
    peripheral.waitUntilAdvertising()
    let central = CentralApp(adapter: "virtual:central")
    central.findAndConnect()
    return (peripheral, central)
  }

  /// Runs `begin` on the central's queue twice, with counters: once to warm up, once to measure.
  private static func measure(_ app: CentralApp, _ count: Int, _ begin: @escaping @Sendable (Counter) -> Void) -> Row {
    var row = Row(count: 0, wall: 0, cpu: 0)
    for goal in [count / 5, count] {
      let done = DispatchSemaphore(value: 0)
      let meter = Meter()
      app.perform { begin(Counter(goal) { done.signal() }) }
      done.wait()
      row = meter.stop(goal)
    }
    return row
  }

  /// One read after the other: the next is asked for when the value is there.
  static func reads(answeredByApp: Bool) -> Row {
    let (peripheral, central) = connectedPair()
    let uuid = answeredByApp ? Attributes.asked : Attributes.cached
    defer { withExtendedLifetime(peripheral) {} }
    return measure(central, 20_000) { counter in
      guard let characteristic = central.characteristics[uuid] else { fatalError("no characteristic") }
      central.valueRead = {
        precondition($0.value == Attributes.readValue)
        if counter.add() { central.peripheral?.readValue(for: $0) }
      }
      central.peripheral?.readValue(for: characteristic)
    }
  }

  /// As many as there is room for, again and again; each carries its number, and all arrive in order.
  static func notifications() -> Row {
    let (peripheral, central) = connectedPair()
    let sent = NumberedValues()
    peripheral.roomToSend = {
      while peripheral.isSubscribed, sent.next < sent.limit, peripheral.send(sent.value) { sent.next += 1 }
    }
    let received = NumberedValues()
    return measure(central, 100_000) { counter in
      guard let characteristic = central.characteristics[Attributes.notified] else { fatalError("no characteristic") }
      let goal = counter.goal
      central.valueRead = {
        received.take($0.value ?? Data())
        _ = counter.add()
      }
      if !characteristic.isNotifying {
        central.peripheral?.setNotifyValue(true, for: characteristic)
      }
      peripheral.perform {
        sent.limit += UInt64(goal)
        peripheral.roomToSend()
      }
    }
  }

  static func writeCommands() -> Row {
    let (peripheral, central) = connectedPair()
    let sent = NumberedValues()
    let received = NumberedValues()
    return measure(central, 100_000) { counter in
      guard let characteristic = central.characteristics[Attributes.commands], let peer = central.peripheral else {
        fatalError("no characteristic")
      }
      peripheral.received = {
        received.take($0)
        _ = counter.add()
      }
      sent.limit += UInt64(counter.goal)
      central.roomToWrite = {
        while sent.next < sent.limit, peer.canSendWriteWithoutResponse {
          peer.writeValue(sent.value, for: characteristic, type: .withoutResponse)
          sent.next += 1
        }
      }
      central.roomToWrite()
    }
  }

  /// Connect, then all of 100 services, their 500 characteristics and 1,000 descriptors. Each of the peripherals is
  /// met once, so that nothing is known beforehand.
  static func discovery() -> Row {
    prepare()
    let peripherals = (0..<5).map { number in
      PeripheralApp(adapter: "virtual:\(number)", services: largeDatabase())
    }
    for peripheral in peripherals { peripheral.waitUntilAdvertising() }
    let central = CentralApp(adapter: "virtual:central")
    central.waitUntilOn()
    let found = DispatchSemaphore(value: 0)
    let peers = Peers()
    central.discovered = { peer, _ in
      peers.list.append(peer)
      if peers.list.count == peripherals.count { found.signal() }
    }
    central.discovers = false
    central.perform { central.scan(services: [Attributes.service], duplicates: false) }
    found.wait()
    central.perform { central.stopScan() }
    var row = Row(count: 0, wall: 0, cpu: 0)
    // The first is for warming up.
    for index in peers.list.indices {
      let one = explore(central, peers.list[index])
      if index > 0 {
        row = Row(count: row.count + 1, wall: row.wall + one.wall, cpu: row.cpu + one.cpu)
      }
    }
    return row
  }

  private static func largeDatabase() -> [CBMutableService] {
    (0..<100).map { number in
      // The last is the advertised one; it has the characteristic that the app adds as its fifth.
      let isLast = number == 99
      let service = CBMutableService(type: isLast ? Attributes.service : Attributes.uuid(0x100 + number), primary: true)
      service.characteristics = (0..<(isLast ? 4 : 5)).map { index in
        let characteristic = CBMutableCharacteristic(
          type: Attributes.uuid(0x1000 + number * 8 + index), properties: [.notify], value: nil,
          permissions: [.readable])
        characteristic.descriptors = [
          CBMutableDescriptor(type: CBUUID(string: CBUUIDCharacteristicUserDescriptionString), value: "name")
        ]
        return characteristic
      }
      return service
    }
  }

  private static func explore(_ central: CentralApp, _ peer: CBPeripheral) -> Row {
    let done = DispatchSemaphore(value: 0)
    let left = DispatchSemaphore(value: 0)
    let counter = Counter(500) { done.signal() }
    let descriptors = NumberedValues()
    central.connected = { peer.discoverServices(nil) }
    central.disconnected = { left.signal() }
    central.servicesFound = { services in
      precondition(services.count == 100)
      for service in services { peer.discoverCharacteristics(nil, for: service) }
    }
    central.characteristicsFound = { characteristics in
      precondition(characteristics.count == 5)
      for characteristic in characteristics { peer.discoverDescriptors(for: characteristic) }
    }
    central.descriptorsFound = { characteristic in
      descriptors.next += UInt64(characteristic.descriptors?.count ?? 0)
      _ = counter.add()
    }
    let meter = Meter()
    central.perform { [peer = Shared(peer)] in
      central.use(peer.value)
      central.connect()
    }
    done.wait()
    let row = meter.stop(1)
    precondition(descriptors.next == 1_000, "\(descriptors.next) descriptors")
    central.perform { central.disconnect() }
    left.wait()
    return row
  }

  /// didConnect, cancel, didDisconnect, connect.
  static func connections() -> Row {
    let (peripheral, central) = connectedPair()
    defer { withExtendedLifetime(peripheral) {} }
    central.discovers = false
    return measure(central, 1_000) { counter in
      central.connected = { central.disconnect() }
      central.disconnected = {
        if counter.add() { central.connect() }
      }
      // Connected from the preparation, else by the round before.
      if central.peripheral?.state == .connected { central.disconnect() } else { central.connect() }
    }
  }

  /// From the making of a manager to `.poweredOn`, in a process that has just begun.
  static func powerOn() -> Row {
    prepare()
    let meter = Meter()
    let central = CentralApp(adapter: "virtual:central")
    central.waitUntilOn()
    return meter.stop(1)
  }
}

/// Numbered values.
///
/// `@unchecked Sendable`: each is used by one app.
final class NumberedValues: @unchecked Sendable {
  var next: UInt64 = 0
  var limit: UInt64 = 0
  private var buffer = Data(count: Attributes.longValueCount)

  var value: Data {
    withUnsafeBytes(of: next.littleEndian) { buffer.replaceSubrange(0..<8, with: $0) }
    return buffer
  }

  /// Takes the next one, which must be that.
  func take(_ value: Data) {
    precondition(value.count == Attributes.longValueCount)
    let number = value.withUnsafeBytes { UInt64(littleEndian: $0.loadUnaligned(as: UInt64.self)) }
    precondition(number == next, "value \(number) came in place of \(next)")
    next += 1
  }
}

final class Peers: @unchecked Sendable { var list: [CBPeripheral] = [] }
struct Shared<Value>: @unchecked Sendable {
  let value: Value
  init(_ value: Value) { self.value = value }
}
