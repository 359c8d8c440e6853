// SPDX-License-Identifier: Apache-2.0

import BLECore
import BLEHCI
import BLERadio
import Testing

@Suite struct PhysicsTests {
  let world = RadioWorld(seed: 11)
  let recorder = AirRecorder()
  let sender: ScriptedHost
  let scanner: ScriptedHost

  init() throws {
    world.observer = recorder
    sender = ScriptedHost(world, address: 0xA1)
    scanner = ScriptedHost(world, address: 0xB2)
    try sender.start()
    try scanner.start()
  }

  private func place(_ host: ScriptedHost, x: Double, y: Double = 0) {
    world.setPosition(Position(x: x, y: y), of: host.controller.device)
  }

  /// What share of the packets on channel 37 the scanner reports in `span`; it stays on that channel.
  private func share(_ span: TimeSpan) throws -> Double {
    try sender.advertise(.nonConnectable, data: Array(repeating: 1, count: 31))
    try scanner.scan(interval: 0x4000, window: 0x4000)
    world.simulator.advance(by: span)
    let sent = recorder.sent(by: sender.controller.device).filter { $0.info.channel == 37 }.count
    return Double(scanner.reports.count) / Double(sent)
  }

  @Test(arguments: [
    (PathLoss.freeSpace, 1.0, Int8(-40)), (.freeSpace, 10, -60), (.freeSpace, 100, -80), (.freeSpace, 500, -94),
    (PathLoss(exponent: 3), 10, -70), (PathLoss(exponent: 1.8), 100, -76),
  ]) func signalStrengthFollowsDistance(path: PathLoss, metres: Double, rssi: Int8) throws {
    world.pathLoss = path
    place(sender, x: 0)
    place(scanner, x: metres)
    world.sniffer = Position(x: metres, y: 0)
    #expect(try share(.seconds(1)) > 0.9)
    #expect(scanner.reports.allSatisfy { $0.report.rssi == rssi })
    #expect(recorder.entries.allSatisfy { $0.info.rssi == rssi })
  }

  @Test func wallsAndTransmitPowerCount() throws {
    place(sender, x: 0)
    place(scanner, x: 10)
    let strength = { world.signalStrength(from: sender.controller.device, to: scanner.controller.device) ?? 0 }
    #expect(abs(strength() - -60.2) < 0.01)
    world.setTransmitPower(8, of: sender.controller.device)
    #expect(world.transmitPower(of: sender.controller.device) == 8)
    #expect(abs(strength() - -52.2) < 0.01)
    let wall = Wall(from: Position(x: 5, y: -1), to: Position(x: 5, y: 1), attenuation: 6)
    world.walls = [wall, wall]
    #expect(abs(strength() - -64.2) < 0.01)
    place(sender, x: 0, y: 4)
    #expect(abs(strength() - -52.8) < 0.1)
    // The other way the power of the other device counts.
    #expect(world.signalStrength(from: scanner.controller.device, to: sender.controller.device) ?? 0 < -60)
    world.setCut(true, between: sender.controller.device, and: scanner.controller.device)
    #expect(world.signalStrength(from: scanner.controller.device, to: sender.controller.device) == nil)
    #expect(world.signalStrength(from: RadioDeviceID(rawValue: 99), to: sender.controller.device) == nil)
  }

  /// 47 octets are on air after the preamble's first 8 bits: at sensitivity (1 - 0.001)^(47 x 8) of them arrive.
  @Test(arguments: [(-96.0, 0.687), (-95, 0.928), (-97, 0.259), (-92, 1.0), (-101, 0)]) func lossesBeginAtSensitivity(
    strength: Double, expected: Double
  ) throws {
    // 100 m in free space: -80.2 dBm.
    place(sender, x: 0)
    place(scanner, x: 100)
    world.setTransmitPower(strength + 80.2, of: sender.controller.device)
    let share = try share(.seconds(90))
    #expect(abs(share - expected) < 0.025, "\(share)")
    #expect(scanner.reports.allSatisfy { Double($0.report.rssi) == strength })
  }

  @Test func beyondReachThereIsNothing() throws {
    place(sender, x: 0)
    place(scanner, x: 3_000)
    #expect(try share(.seconds(5)) == 0)
    // It walks up.
    place(sender, x: 2_900)
    world.simulator.advance(by: .seconds(5))
    #expect(scanner.reports.count > 100)
    scanner.forget()
    place(sender, x: -5_000)
    world.simulator.advance(by: .seconds(5))
    #expect(scanner.reports.isEmpty)
    // Without a place it is everywhere.
    world.setPosition(nil, of: sender.controller.device)
    world.simulator.advance(by: .seconds(5))
    #expect(scanner.reports.count > 100)
    #expect(scanner.reports.allSatisfy { $0.report.rssi == -60 })
    #expect(world.position(of: sender.controller.device) == nil)
  }

  @Test func aPairWithAStrengthOfItsOwnHearsItAnywhere() throws {
    place(sender, x: 0)
    place(scanner, x: 90_000)
    world.setRSSI(-110, between: sender.controller.device, and: scanner.controller.device)
    #expect(try share(.seconds(5)) > 0.95)
    #expect(scanner.reports.allSatisfy { $0.report.rssi == -110 })
    scanner.forget()
    world.setRSSI(nil, between: sender.controller.device, and: scanner.controller.device)
    world.simulator.advance(by: .seconds(5))
    #expect(scanner.reports.isEmpty)
  }

  @Test func aLinkDiesWhenItsEndsWalkApart() throws {
    let world = RadioWorld(seed: 4)
    let pair = try Pair(world)
    world.setPosition(Position(x: 0, y: 0), of: pair.central.controller.device)
    world.setPosition(Position(x: 12, y: 0), of: pair.peripheral.controller.device)
    pair.advance(.seconds(3))
    #expect(pair.central.controller.connections.count == 1)
    world.setPosition(Position(x: 2_000, y: 0), of: pair.peripheral.controller.device)
    let start = world.simulator.now
    pair.advance(.seconds(3))
    for host in [pair.central, pair.peripheral] {
      let end = try #require(host.events(DisconnectionComplete.self).first)
      #expect(end.event.reason == .connectionTimeout)
      #expect(end.time - start <= .milliseconds(1_010))
    }
  }

  // MARK: - Collisions

  /// Two that send at the same moment: one 10 m from the scanner, the other so far away that it is weaker by `difference`.
  private func sharesOfTwo(_ model: CollisionModel, difference: Double) throws -> (near: Double, far: Double) {
    let other = ScriptedHost(world, address: 0xC3)
    try other.start()
    world.collisions = model
    place(scanner, x: 0)
    place(sender, x: 10)
    place(other, x: -10)
    world.setTransmitPower(-difference, of: other.controller.device)
    try scanner.scan(interval: 0x4000, window: 0x4000)
    // High duty cycle: an event each 3.75 ms, without a random delay, both from the same instant on.
    for host in [sender, other] {
      try host.expect(
        LESetAdvertisingParameters(
          advertisingIntervalMin: AdvertisingInterval(rawValue: 0x20),
          advertisingIntervalMax: AdvertisingInterval(rawValue: 0x20), advertisingType: .directedHighDutyCycle,
          ownAddressType: .publicDevice, peerAddressType: .publicDevice, peerAddress: scanner.controller.address,
          advertisingChannelMap: .all, advertisingFilterPolicy: .all))
    }
    for host in [sender, other] { try host.expect(LESetAdvertisingEnable(enable: true)) }
    world.simulator.advance(by: .seconds(1))
    let counts = [sender, other].map { host in
      scanner.reports.filter { $0.report.address == host.controller.address }.count
    }
    let sent = recorder.entries.filter { $0.info.channel == 37 && $0.type == 1 }
    #expect(Set(sent.map(\.start)).count * 2 == sent.count)
    return (Double(counts[0]) / Double(sent.count / 2), Double(counts[1]) / Double(sent.count / 2))
  }

  @Test func overlappingPacketsAreLost() throws {
    let shares = try sharesOfTwo(.bothLost, difference: 30)
    #expect(shares.near == 0 && shares.far == 0)
  }

  @Test func theStrongerOneCaptures() throws {
    let shares = try sharesOfTwo(.capture(threshold: 8), difference: 8)
    #expect(shares.near == 1 && shares.far == 0)
  }

  @Test func equalOnesDoNot() throws {
    let shares = try sharesOfTwo(.capture(threshold: 8), difference: 7.9)
    #expect(shares.near == 0 && shares.far == 0)
  }

  @Test func collisionsCanBeIgnored() throws {
    let shares = try sharesOfTwo(.ignored, difference: 0)
    #expect(shares.near == 1 && shares.far == 1)
  }

  @Test func whatIsTooFarAwayDisturbsNobody() throws {
    let shares = try sharesOfTwo(.bothLost, difference: 60)
    #expect(shares.near == 1 && shares.far == 0)
  }

  // MARK: - Disturbances

  @Test func interferenceIsOnItsChannel() throws {
    world.setInterference(.loss(0.4), on: 37)
    // It stays on a channel for 10.24 s.
    #expect(abs(try share(.seconds(10)) - 0.6) < 0.08)
    try scanner.expect(LESetScanEnable(enable: false, filterDuplicates: false))
    scanner.forget()
    recorder.entries.removeAll()
    // Now on channel 38.
    try scanner.expect(LESetScanEnable(enable: true, filterDuplicates: false))
    world.simulator.advance(by: .seconds(10))
    #expect(scanner.reports.count == recorder.entries.filter { $0.info.channel == 38 }.count)
  }

  /// Noise of -71 dBm takes signals of -60 dBm to where sensitivity is: 10.94 dB above noise.
  @Test(arguments: [(-71.0, 0.687), (-75, 1.0), (-65, 0)]) func noiseDrownsSignals(level: Double, expected: Double)
    throws
  {
    for channel in UInt8(37)...39 { world.setInterference(.noise(level), on: channel) }
    let share = try share(.seconds(60))
    #expect(abs(share - expected) < 0.03, "\(share)")
    for channel in UInt8(37)...39 { world.setInterference(nil, on: channel) }
    world.setInterference(.noise(0), on: 41)
    scanner.forget()
    recorder.entries.removeAll()
    world.simulator.advance(by: .seconds(5))
    #expect(scanner.reports.count > 100)
  }

  @Test func burstsOfLossComeAndGo() throws {
    let start = world.simulator.now
    world.lossBursts = [
      LossBurst(start: start + .seconds(2), duration: .seconds(1)),
      LossBurst(start: start + .milliseconds(2_500), duration: .seconds(1)),
    ]
    #expect(try share(.seconds(10)) < 0.9)
    let times = scanner.reports.map { ($0.time - start).nanoseconds }
    #expect(times.contains { $0 > 1_900_000_000 && $0 < 2_000_000_000 })
    #expect(!times.contains { $0 > 2_000_000_000 && $0 < 3_500_000_000 })
    #expect(times.contains { $0 > 3_500_000_000 && $0 < 3_600_000_000 })
  }

  // MARK: - Luck and places

  /// What the scanner gets of the sender over a marginal, shadowed path.
  private static func marginal(seed: UInt64, others: Int) throws -> [Received] {
    let world = RadioWorld(seed: seed)
    world.pathLoss = PathLoss(exponent: 2, shadowing: 4)
    world.loss = 0.1
    world.lossBursts = [LossBurst(start: .zero + .seconds(3), duration: .seconds(1), probability: 0.5)]
    world.setInterference(.loss(0.1), on: 37)
    let (sender, scanner) = (ScriptedHost(world, address: 1), ScriptedHost(world, address: 2))
    let hosts = (0..<others).map { ScriptedHost(world, address: 3 + UInt64($0)) }
    for host in [sender, scanner] + hosts { try host.start() }
    world.setPosition(Position(x: 0, y: 0), of: sender.controller.device)
    world.setPosition(Position(x: 600, y: 0), of: scanner.controller.device)
    let power = world.signalStrength(from: sender.controller.device, to: scanner.controller.device) ?? 0
    world.setTransmitPower(-96 - power, of: sender.controller.device)
    for (index, host) in hosts.enumerated() {
      world.setPosition(Position(x: Double(100 * index), y: 50), of: host.controller.device)
      try host.scan()
    }
    try sender.advertise(.nonConnectable)
    try scanner.scan()
    scanner.forget()
    world.simulator.advance(by: .seconds(10))
    return scanner.log
  }

  @Test func othersDoNotChangeADevicesLuck() throws {
    let alone = try Self.marginal(seed: 5, others: 0)
    #expect(alone.count > 50 && alone.count < 300)
    #expect(try Self.marginal(seed: 5, others: 7) == alone)
    #expect(try Self.marginal(seed: 6, others: 0) != alone)
  }

  @Test func shadowingIsNormalAndTheSameBothWays() throws {
    world.pathLoss = PathLoss(exponent: 2, shadowing: 4)
    place(sender, x: 0)
    var values: [Double] = []
    for number in 0..<2_000 {
      let device = ScriptedHost(world, address: 1_000 + UInt64(number)).controller.device
      world.setPosition(Position(x: 10, y: 0), of: device)
      let there = try #require(world.signalStrength(from: sender.controller.device, to: device))
      #expect(world.signalStrength(from: device, to: sender.controller.device) == there)
      values.append(there + 60.2)
    }
    let mean = values.reduce(0, +) / 2_000
    let deviation = (values.reduce(0) { $0 + ($1 - mean) * ($1 - mean) } / 2_000).squareRoot()
    #expect(abs(mean) < 0.3)
    #expect(abs(deviation - 4) < 0.2)
    #expect(values.allSatisfy { abs($0) <= 12.01 })
  }

  /// Whoever is strong enough is heard, whatever cell it is in, and nobody else.
  @Test(arguments: [UInt64(1), 2, 3]) func everybodyInReachIsHeard(seed: UInt64) throws {
    var random = SeededGenerator(seed: seed)
    let world = RadioWorld(seed: seed)
    world.collisions = .ignored
    world.pathLoss = PathLoss(exponent: 3, shadowing: seed == 3 ? 5 : 0)
    if seed == 2 { world.walls = [Wall(from: Position(x: 0, y: -500), to: Position(x: 0, y: 500), attenuation: 20)] }
    let hosts = (0..<60).map { ScriptedHost(world, address: 1 + UInt64($0)) }
    for host in hosts { try host.start() }
    for (index, host) in hosts.enumerated() {
      if index % 10 == 9 { continue }
      let x = Double(random.next() % 800) - 400
      world.setPosition(Position(x: x, y: Double(random.next() % 800) - 400), of: host.controller.device)
      world.setTransmitPower(Double(random.next() % 24) - 12, of: host.controller.device)
    }
    for (index, host) in hosts.enumerated() {
      if index % 3 == 0 { try host.scan(interval: 0x4000, window: 0x4000) } else { try host.advertise(.nonConnectable) }
    }
    // Some move after the start.
    for index in stride(from: 0, to: 60, by: 7) {
      let place = Position(x: Double(index), y: 0)
      world.setPosition(index % 2 == 0 ? place : nil, of: hosts[index].controller.device)
    }
    world.simulator.advance(by: .seconds(3))
    var heardCount = 0
    for (index, host) in hosts.enumerated() where index % 3 == 0 {
      let heard = Set(host.reports.map(\.report.address))
      for (number, other) in hosts.enumerated() where number % 3 != 0 {
        let strength = try #require(world.signalStrength(from: other.controller.device, to: host.controller.device))
        if strength > -92 { #expect(heard.contains(other.controller.address), "\(index) \(number) \(strength)") }
        if strength < -102 { #expect(!heard.contains(other.controller.address), "\(index) \(number) \(strength)") }
      }
      heardCount += heard.count
    }
    #expect(heardCount > 100 && heardCount < 750)
  }
}
