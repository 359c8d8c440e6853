// SPDX-License-Identifier: Apache-2.0

import BLECore
import BLEHCI
import BLERadio
import Foundation
import Testing

/// What theory expects, as docs/radio-air.md derives it.
@Suite struct PhysicsProofTests {
  /// Unslotted ALOHA: N advertisers in one cell, without capture.
  @Test(arguments: [(20, 150), (100, 30), (300, 8)])
  func crowdsLoseWhatALOHALoses(count: Int, seconds: Int) throws {
    let world = RadioWorld(seed: UInt64(count))
    world.collisions = .bothLost
    let hosts = (0..<count).map { ScriptedHost(world, address: 0x1_0000 + UInt64($0)) }
    for (index, host) in hosts.enumerated() {
      try host.start()
      try host.advertise(.nonConnectable, interval: 0xA0, data: Array(repeating: 1, count: 31))
      host.isRecording = false
      // Not all in step at first.
      world.simulator.advance(by: .microseconds(105_000 * (index + 1) / count - 105_000 * index / count))
    }
    let scanner = ScriptedHost(world, address: 1)
    try scanner.start()
    try scanner.scan(interval: 0x4000, window: 0x4000)
    scanner.forget()
    let before = world.packetCount
    world.simulator.advance(by: .seconds(seconds))
    let events = Double(world.packetCount - before) / 3
    let loss = 1 - Double(scanner.reports.count) / events
    let load = Double(count - 1) * 376 / 105_000
    let expected = 1 - exp(-2 * load)
    #expect(abs(loss - expected) < 0.05 * expected, "\(loss), expected \(expected)")
    // The events come as often as they should.
    #expect(abs(events / Double(seconds * count) - 1 / 0.105) < 0.1)
  }

  /// A scanner that listens for `window` of each 10 ms finds an advertiser of 1 s after P I / W - P / 2 in the mean.
  @Test(arguments: [(UInt16(16), 1.0), (8, 0.5), (4, 0.25)])
  func discoveryTakesAsLongAsTheWindowsLeave(window: UInt16, share: Double) throws {
    let world = RadioWorld(seed: UInt64(window))
    // Each scanner has an advertiser of its own: what twenty find of the same events would hang together.
    world.collisions = .ignored
    let scanners = (0..<20).map { ScriptedHost(world, address: 100 + UInt64($0)) }
    for (index, scanner) in scanners.enumerated() {
      let advertiser = ScriptedHost(world, address: 1 + UInt64(index))
      try advertiser.start()
      try advertiser.advertise(.nonConnectable, interval: 1_600)
      try scanner.start()
      try scanner.expect(
        LEAddDeviceToFilterAcceptList(addressType: .publicDevice, address: advertiser.controller.address))
    }
    var random = SeededGenerator(seed: 3)
    var times: [Double] = []
    for _ in 0..<60 {
      var starts: [Instant] = []
      // The last round ended soon after an event: anywhere between two events again.
      world.simulator.advance(by: .microseconds(Int(random.next() % 2_010_000)))
      for scanner in scanners {
        scanner.forget()
        world.simulator.advance(by: .microseconds(Int(random.next() % 100_000)))
        starts.append(world.simulator.now)
        try scanner.scan(interval: 16, window: window, duplicates: true, policy: .acceptList)
      }
      while scanners.contains(where: { $0.reports.isEmpty }) { world.simulator.advance(by: .milliseconds(500)) }
      for (scanner, start) in zip(scanners, starts) {
        times.append(Double((scanner.reports[0].time - start).nanoseconds) / 1e9)
        try scanner.expect(LESetScanEnable(enable: false, filterDuplicates: false))
      }
    }
    let period = 1.005
    let mean = times.reduce(0, +) / Double(times.count)
    let expected = period / share - period / 2
    #expect(abs(mean - expected) < 0.06 * expected, "\(mean) s, expected \(expected) s")
    // Who listens all the time hears the next event, but for those that go round the channels in the opposite order.
    if share == 1 { #expect(times.filter { $0 < 1.012 }.count > times.count * 95 / 100) }
  }

  /// Free space: the received power falls by 20 dB with every tenfold distance, from -40.2 dBm at 1 m.
  @Test func powerFollowsFriis() throws {
    let world = RadioWorld(seed: 1)
    let (a, b) = (ScriptedHost(world, address: 1), ScriptedHost(world, address: 2))
    world.setPosition(Position(x: 0, y: 0), of: a.controller.device)
    for tenths in stride(from: 5.0, through: 5_000, by: 13) {
      let metres = tenths / 10
      world.setPosition(Position(x: metres * 0.6, y: 0, z: metres * 0.8), of: b.controller.device)
      let strength = try #require(world.signalStrength(from: a.controller.device, to: b.controller.device))
      let expected = -20 * log10(4 * Double.pi * metres * 2.44e9 / 299_792_458)
      #expect(abs(strength - expected) < 0.02, "\(metres) m")
    }
  }
}
