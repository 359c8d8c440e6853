// SPDX-License-Identifier: Apache-2.0

import BLECore
import BLEHCI
import BLERadio
import TestSupport
import Testing

@testable import BLEHost

/// A controller, or a peer behind it, that sends anything at any time: the host survives, and works right after.
@Suite struct HostileControllerTests {
  private static let count = 50_000

  /// Valid events with everything a host acts on, to be mutated.
  private static func examples() throws -> [[UInt8]] {
    let vectors = try VectorFile("hci_packets").cases
    return vectors.compactMap { vector in
      guard let packet = vector.bytes("packet"), packet.first == 4 || packet.first == 2 else { return nil }
      return packet
    } + frames
  }

  /// Frames of the peer for each channel: ATT, signalling, Security Manager.
  private static let frames: [[UInt8]] = [
    [2, 0x40, 0x20, 7, 0, 3, 0, 4, 0, 2, 0xF7, 0], [2, 0x40, 0x20, 11, 0, 7, 0, 4, 0, 0x10, 1, 0, 0xFF, 0xFF, 0, 0x28],
    [2, 0x40, 0x20, 7, 0, 3, 0, 4, 0, 0x0A, 3, 0], [2, 0x40, 0x20, 8, 0, 4, 0, 4, 0, 0x52, 3, 0, 1],
    [2, 0x40, 0x20, 16, 0, 12, 0, 5, 0, 0x12, 1, 8, 0, 6, 0, 12, 0, 0, 0, 200, 0],
    [2, 0x40, 0x20, 11, 0, 7, 0, 6, 0, 1, 3, 0, 5, 16, 0, 1],
  ]

  /// A Hardware Error is an order to give the controller up, not an attack.
  private static func isHardwareError(_ packet: [UInt8]) -> Bool {
    packet.count >= 2 && packet[0] == 4 && packet[1] == HCIEventCode.hardwareError.rawValue
  }

  @Test(arguments: [1, 2] as [UInt64])
  func anythingMayCome(_ seed: UInt64) throws {
    let bench = Bench()
    bench.start()
    bench.host.setScanning(true)
    bench.host.startAdvertising(AdvertisingContent(data: [2, 1, 6], scanResponse: []))
    bench.host.connect(DeviceAddress(BDAddress(0x0405_0607_0809), type: .publicDevice))
    let attack = HostileBytes(seed: seed, count: Self.count, examples: try Self.examples(), maxLength: 260)
    var number = 0
    for packet in attack where !Self.isHardwareError(packet) {
      number += 1
      if number % 500 == 0 { bench.linkMade([9, 8, 7, 6, 5, 4], role: UInt8(number / 500 % 2)) }
      bench.controller.sendRaw(packet)
      bench.simulator.advance(by: .microseconds(100))
      bench.events.removeAll()
      bench.attEvents.removeAll()
    }
    #expect(bench.isAlive, "seed \(attack.seed): the host gave up")
    try exchange(bench, seed: attack.seed)
  }

  /// A new link, an MTU exchange, all services asked for: the answers are the right ones.
  private func exchange(_ bench: Bench, seed: UInt64) throws {
    // The scripted controller does not end LE Create Connection by itself.
    bench.host.cancelConnect(DeviceAddress(BDAddress(0x0405_0607_0809), type: .publicDevice))
    bench.simulator.advance(by: .milliseconds(10))
    bench.controller.meta(.connectionComplete, [2] + [UInt8](repeating: 0, count: 17))
    bench.simulator.advance(by: .seconds(1))
    // Whatever the attack left of the buffers' account is settled by the end of the links it made up.
    for handle: UInt16 in 0...0xEFF {
      bench.controller.event(
        .disconnectionComplete, [0, UInt8(truncatingIfNeeded: handle), UInt8(handle >> 8), 0x13])
    }
    bench.simulator.advance(by: .seconds(1))
    bench.linkMade([1, 1, 1, 1, 1, 1], role: 1)
    let sent = ACLSpy(bench)
    bench.controller.sendACL([0x40, 0x20, 7, 0, 3, 0, 4, 0, 2, 0xF7, 0])
    bench.simulator.advance(by: .milliseconds(10))
    #expect(sent.packets.first == [0x40, 0, 7, 0, 3, 0, 4, 0, 3, 5, 2], "seed \(seed)")
    bench.controller.event(.numberOfCompletedPackets, [1, 0x40, 0, 1, 0])
    bench.controller.sendACL([0x40, 0x20, 7, 0, 3, 0, 4, 0, 0x0A, 3, 0])
    bench.simulator.advance(by: .milliseconds(10))
    #expect(sent.packets.last == [0x40, 0, 9, 0, 5, 0, 4, 0, 1, 0x0A, 3, 0, 1], "seed \(seed)")
  }
}
