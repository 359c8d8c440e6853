// SPDX-License-Identifier: Apache-2.0

import BLECore
import BLEHCI
import Testing

@testable import BLERadio

/// What the specification allows at most and at least, and what it does not.
@Suite struct ExtremesTests {
  @Test(arguments: [(10, 100), (3_200, 32_000)] as [(UInt16, Int)])
  func supervisionTimeouts(timeout: UInt16, milliseconds: Int) throws {
    let world = RadioWorld(seed: 3)
    let pair = try Pair(world, interval: 6, timeout: timeout)
    world.setIsolated(true, pair.peripheral.controller.device)
    pair.advance(.milliseconds(milliseconds - 20))
    #expect(pair.central.controller.links.count == 1)
    #expect(pair.peripheral.controller.links.count == 1)
    pair.advance(.milliseconds(40))
    for host in [pair.central, pair.peripheral] {
      #expect(host.events(DisconnectionComplete.self).map(\.event.reason) == [.connectionTimeout])
    }
  }

  @Test func twentyLinksWhileScanningAndAdvertising() throws {
    let world = RadioWorld(seed: 4)
    let central = ScriptedHost(world, address: 0x100)
    try central.start(octets: 251)
    var peers: [(host: ScriptedHost, own: ConnectionHandle, handle: ConnectionHandle)] = []
    for index in 0..<20 {
      let host = ScriptedHost(world, address: 0x200 + UInt64(index))
      try host.start(octets: 251)
      try host.advertise()
      #expect(try central.createConnection(to: host.controller.address, interval: 80, timeout: 600) == .success)
      let limit = world.simulator.now + .seconds(5)
      while host.metaEvents(LEConnectionComplete.self).isEmpty || central.metaEvents(LEConnectionComplete.self).isEmpty,
        world.simulator.now < limit
      { world.simulator.step() }
      let own = try #require(central.metaEvents(LEConnectionComplete.self).first).event.connectionHandle
      let handle = try #require(host.metaEvents(LEConnectionComplete.self).first).event.connectionHandle
      peers.append((host, own, handle))
      central.forget()
      host.forget()
    }
    try central.advertise(.nonConnectable)
    try central.scan()
    let stranger = ScriptedHost(world, address: 0x999)
    try stranger.start()
    try stranger.advertise(.nonConnectable)
    var reports = 0
    for minute in 0..<10 {
      for (index, peer) in peers.enumerated() {
        peer.host.sendData(peer.handle, [UInt8(index), UInt8(minute)])
        central.sendData(peer.own, [UInt8(minute), UInt8(index)])
        world.simulator.advance(by: .seconds(1))
      }
      world.simulator.advance(by: .seconds(40))
      reports += central.reports.count
      #expect(central.data.sorted { $0[0] < $1[0] } == peers.indices.map { [UInt8($0), UInt8(minute)] })
      for (index, peer) in peers.enumerated() {
        #expect(peer.host.data == [[UInt8(minute), UInt8(index)]], "link \(index), minute \(minute)")
        #expect(peer.host.events(DisconnectionComplete.self).isEmpty)
        peer.host.forget()
      }
      #expect(central.events(DisconnectionComplete.self).isEmpty)
      central.forget()
      stranger.forget()
    }
    #expect(reports > 100)
    #expect(central.controller.links.count == 20)
  }

  /// 1,650 octets in chains, of which parts are lost; sets that are removed while on air, and ones that end by themselves.
  @Test func chainsThatBreak() throws {
    let world = RadioWorld(seed: 6)
    let (sender, scanner) = (ScriptedHost(world, address: 1), ScriptedHost(world, address: 2))
    try sender.start()
    try scanner.start()
    let data = (0..<1_650).map { UInt8(truncatingIfNeeded: $0 &* 31) }
    try scanner.scanExtended()
    world.loss = 0.1
    for round in 0..<40 {
      try sender.advertiseExtended(data: data)
      world.simulator.advance(by: .microseconds(60_000 + 1_237 * round))
      switch round % 4 {
      case 0: #expect(try sender.enable([0], false) == .success)
      case 1: try sender.expect(Reset())
      case 2:
        #expect(try sender.enable([0], false) == .success)
        #expect(try sender.enable([0], true, duration: 1, events: 1) == .success)
      default:
        sender.send(LESetExtendedAdvertisingEnable(enable: false, sets: []))
        sender.send(LEClearAdvertisingSets())
      }
      world.simulator.advance(by: .milliseconds(50))
      try sender.start()
    }
    world.loss = 0
    scanner.forget()
    try sender.advertiseExtended(data: data)
    world.simulator.advance(by: .seconds(2))
    let isWhole = scanner.wholeData.allSatisfy { $0 == data }
    #expect(isWhole)
    #expect(scanner.wholeData.count > 5)
  }

  // MARK: - Places

  @Test(arguments: [Double.nan, .infinity, -.infinity, 1e300, -1e300, 0, -5])
  func strangeNumbers(value: Double) throws {
    let world = RadioWorld(seed: 7)
    let pair = try Pair(world)
    let devices = [pair.central.controller.device, pair.peripheral.controller.device]
    var place = Position(x: 0, y: 0)
    place.x = value
    place.y = -value
    place.z = value
    world.setPosition(place, of: devices[0])
    world.setPosition(Position(x: 1, y: 1), of: devices[1])
    var pathLoss = PathLoss()
    pathLoss.exponent = value
    pathLoss.shadowing = value
    world.pathLoss = pathLoss
    world.walls = Array(repeating: Wall(from: place, to: place, attenuation: value), count: 3)
    world.collisions = .capture(threshold: value)
    world.sensitivity = ReceiverSensitivity(le1M: value, le2M: value, codedS2: value, codedS8: value)
    world.loss = value
    world.setTransmitPower(value, of: devices[0])
    world.setInterference(.noise(value), on: 3)
    world.setInterference(.loss(value), on: 4)
    world.lossBursts = [LossBurst(start: .zero, duration: .seconds(1), probability: value)]
    pair.advance(.seconds(3))
    #expect(world.signalStrength(from: devices[0], to: devices[1]) != nil)
  }
}
