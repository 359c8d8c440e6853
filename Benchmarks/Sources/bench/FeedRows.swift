// SPDX-License-Identifier: Apache-2.0

import AllocationCounter
import BLECore
import BLEHCI
import BLERadio
import CoreBluetooth

/// Rows from HCI bytes to the delegate: a manager whose controller is at the other end of a Unix socket, where a thread
/// of this program feeds it. What that thread costs is not counted.
enum FeedRows {
  /// Advertising reports of 1,000 advertisers, with flags, name, service UUID and manufacturer data.
  static func advertising() throws -> Row {
    let rounds = 100
    let addresses = 1_000
    let feeder = try Feeder { feeder in
      var blob = ByteWriter()
      for number in 0..<addresses { feeder.encodeReport(number, into: &blob) }
      try feeder.serve(until: { feeder.isScanning })
      for _ in 0..<20 { try feeder.write(blob.bytes) }
      try feeder.serve(until: { feeder.isAsked })
      let used = Meter.seconds(CLOCK_THREAD_CPUTIME_ID)
      for _ in 0..<rounds { try feeder.write(blob.bytes) }
      feeder.used = Meter.seconds(CLOCK_THREAD_CPUTIME_ID) - used
      try feeder.serve(until: { false })
    }
    let central = CentralApp(adapter: "unix:" + feeder.path)
    central.waitUntilOn()
    let warm = DispatchSemaphore(value: 0)
    let done = DispatchSemaphore(value: 0)
    let tally = Tally(addresses: addresses)
    central.discovered = { peripheral, data in
      tally.take(peripheral, data)
      if tally.count == 20 * addresses { warm.signal() }
      if tally.count == (20 + rounds) * addresses { done.signal() }
    }
    central.perform { central.scan(services: nil, duplicates: true) }
    warm.wait()
    let meter = Meter()
    feeder.ask()
    done.wait()
    var row = meter.stop(rounds * addresses)
    feeder.end()
    row.cpu -= feeder.used
    guard tally.peripherals.count == addresses, tally.isComplete else { throw Failure("reports are missing") }
    return row
  }

  /// Notifications in bursts of two sizes, from the controller's bytes to the delegate. Handing a burst over costs some
  /// allocations whatever its size; what one more notification costs is the difference between the two.
  static func allocations() throws -> Row {
    let sizes = [40, 80]
    let bursts = 100
    let feeder = try Feeder { feeder in
      let device = try Device(feeder.world, number: 9)
      let handles = try device.publish(0xFFF0)
      feeder.world.simulator.advance(by: .milliseconds(10))
      device.advertise([3, 3, 0xF0, 0xFF])
      try feeder.serve(until: { device.isSubscribed && feeder.isAsked })
      let value = [UInt8](repeating: 7, count: 244)
      for index in 0..<bursts * sizes.count * 2 {
        for _ in 0..<sizes[index % sizes.count] / 4 {
          for _ in 0..<4 { _ = device.notify(handles.value, value.span.bytes) }
          feeder.world.simulator.advance(by: .microseconds(1))
        }
        try feeder.flush()
        try feeder.serve(until: { feeder.asked > index + 1 })
      }
      try feeder.serve(until: { false })
    }
    let central = CentralApp(adapter: "unix:" + feeder.path)
    let arrived = subscribe(central, sizes)
    let meter = Meter()
    var fewest = sizes.map { _ in Double.infinity }
    // The first half is for warming up.
    for index in 0..<bursts * sizes.count * 2 {
      let before = allocation_count() - feeder.allocations
      feeder.ask()
      arrived.wait()
      let count = Double(allocation_count() - feeder.allocations - before)
      let kind = index % sizes.count
      if index >= bursts * sizes.count { fewest[kind] = min(fewest[kind], count) }
    }
    feeder.end()
    let each = (fewest[1] - fewest[0]) / Double(sizes[1] - sizes[0])
    return meter.stop(
      sizes.reduce(0, +) * bursts * 2,
      extra: ["allocations": each, "allocations-of-burst": fewest[0] - each * Double(sizes[0])])
  }

  /// Finds, connects and subscribes; the semaphore is signalled when a burst has arrived.
  private static func subscribe(_ central: CentralApp, _ sizes: [Int]) -> DispatchSemaphore {
    let ready = DispatchSemaphore(value: 0)
    let arrived = DispatchSemaphore(value: 0)
    central.waitUntilOn()
    central.discovers = false
    central.discovered = { peripheral, _ in
      guard central.peripheral == nil else { return }
      central.use(peripheral)
      central.stopScan()
      central.connect()
    }
    central.connected = { central.peripheral?.discoverServices([CBUUID(string: "FFF0")]) }
    central.servicesFound = { central.peripheral?.discoverCharacteristics(nil, for: $0[0]) }
    central.characteristicsFound = {
      central.peripheral?.setNotifyValue(true, for: $0[0])
      ready.signal()
    }
    var bursts = 0
    var count = 0
    central.valueRead = { characteristic in
      precondition(characteristic.value?.count == 244)
      count += 1
      guard count == sizes[bursts % sizes.count] else { return }
      count = 0
      bursts += 1
      arrived.signal()
    }
    central.perform { central.scan(services: [CBUUID(string: "FFF0")], duplicates: false) }
    ready.wait()
    return arrived
  }
}

/// What the delegate got. `@unchecked Sendable`: used on its queue, then, when all is over, by the main thread.
final class Tally: @unchecked Sendable {
  var count = 0
  var peripherals: [ObjectIdentifier: Int] = [:]
  /// Held, as an app holds what it shows.
  private var held: [CBPeripheral] = []
  private(set) var isComplete = true

  init(addresses: Int) { held.reserveCapacity(addresses) }

  func take(_ peripheral: CBPeripheral, _ data: [String: Any]) {
    count += 1
    if peripherals.updateValue(0, forKey: ObjectIdentifier(peripheral)) == nil { held.append(peripheral) }
    guard data[CBAdvertisementDataLocalNameKey] is String,
      (data[CBAdvertisementDataServiceUUIDsKey] as? [CBUUID])?.count == 1,
      (data[CBAdvertisementDataManufacturerDataKey] as? Data)?.count == 6
    else {
      isComplete = false
      return
    }
  }
}
