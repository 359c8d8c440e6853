// SPDX-License-Identifier: Apache-2.0

import AllocationCounter
import BLECore
import BLEHost
import BLERadio

/// Links of the simulated radio.
enum LinkRows {
  /// Sees what a sniffer would: packets of connections.
  private final class Sniffer: AirObserver {
    var packets = 0
    var empty = 0

    func observe(_ packet: AirPacketInfo, pdu: RawSpan) {
      guard packet.accessAddress != 0x8E89_BED6 else { return }
      packets += 1
      if pdu.byteCount == 2 { empty += 1 }
    }
  }

  /// Ten pairs that are connected at 30 ms and have nothing to say: two empty packets per connection event.
  static func pairs() throws -> Row {
    let world = RadioWorld(seed: 1)
    var devices: [Device] = []
    for number in 0..<10 {
      let peripheral = try Device(world, number: UInt64(2 * number))
      let central = try Device(world, number: UInt64(2 * number + 1))
      world.simulator.advance(by: .seconds(1))
      peripheral.advertise([])
      central.host.connect(DeviceAddress(peripheral.controller.address, type: .publicDevice))
      world.simulator.advance(by: .seconds(2))
      devices += [central, peripheral]
    }
    world.simulator.advance(by: .seconds(10))
    let sniffer = Sniffer()
    world.observer = sniffer
    world.simulator.advance(by: .seconds(30))
    world.observer = nil
    guard sniffer.empty == sniffer.packets, (19_990...20_010).contains(sniffer.packets) else {
      throw Failure("\(sniffer.empty) empty packets of \(sniffer.packets) in 30 s")
    }
    let seconds = 1_000
    let packets = world.packetCount
    let allocations = allocation_count_of_thread()
    let meter = Meter()
    world.simulator.advance(by: .seconds(seconds))
    var row = meter.stop(seconds)
    let events = Double(world.packetCount - packets) / 2
    row.extra["allocations-per-event"] = Double(allocation_count_of_thread() - allocations) / events
    row.extra["times-real"] = Double(seconds) / row.cpu
    guard devices.allSatisfy({ $0.connection != nil }), (333_000...333_700).contains(Int(events)) else {
      throw Failure("\(events) connection events in \(seconds) s")
    }
    return row
  }
}
