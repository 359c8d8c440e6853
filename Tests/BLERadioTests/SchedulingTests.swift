// SPDX-License-Identifier: Apache-2.0

import BLECore
import BLEHCI
import BLERadio
import Testing

/// Clocks that differ, and several links on one radio.
@Suite struct SchedulingTests {
  let recorder = AirRecorder()

  private func starts(_ device: RadioDeviceID, gap: Int64 = 3_000_000) -> [Int64] {
    var result: [Int64] = []
    for entry in recorder.data where entry.info.sender == device {
      if (result.last.map { entry.start - $0 } ?? .max) > gap { result.append(entry.start) }
    }
    return result
  }

  // MARK: - Clocks

  @Test(arguments: [(50_000, -50_000), (-50_000, 50_000), (50_000, 50_000), (31_337, 0)] as [(Int64, Int64)])
  func clocksWithinTheirClaimsKeepALink(central: Int64, peripheral: Int64) throws {
    let world = RadioWorld(seed: 31)
    world.observer = recorder
    let pair = try Pair(
      world, interval: 80, latency: 20, timeout: 1_000, clockErrors: (central: central, peripheral: peripheral))
    pair.advance(.seconds(120))
    #expect(pair.central.events(DisconnectionComplete.self).isEmpty)
    // The Central's anchor points go by its own clock.
    let anchors = starts(pair.central.controller.device)
    let interval = 100_000_000 + central / 10
    #expect(anchors.count > 1_100)
    #expect(zip(anchors, anchors.dropFirst()).allSatisfy { $1 - $0 == interval })
    // Each event that the Peripheral takes part in succeeds.
    let answers = starts(pair.peripheral.controller.device)
    #expect(answers.count >= 1_200 / 21)
    #expect(zip(answers, answers.dropFirst()).suffix(40).allSatisfy { $1 - $0 == 21 * interval })
  }

  /// 400 ppm where 50 are claimed: 0.4 ms in a second, and a window of 16 us and 100 ppm.
  @Test func aClockWorseThanItsClaimLosesAnchors() throws {
    let world = RadioWorld(seed: 32)
    let pair = try Pair(world, interval: 800, timeout: 600, settle: .seconds(5), clockErrors: (400_000, 0))
    pair.advance(.seconds(20))
    let lost = [pair.central, pair.peripheral].flatMap { $0.events(DisconnectionComplete.self).map(\.event.reason) }
    #expect(!lost.isEmpty)
    #expect(lost.allSatisfy { $0 == .connectionTimeout || $0 == .connectionFailedToBeEstablished })
    // At 7.5 ms the same clock is off by 3 us.
    let other = try Pair(RadioWorld(seed: 33), interval: 6, clockErrors: (400_000, 0))
    other.advance(.seconds(20))
    #expect(other.central.events(DisconnectionComplete.self).isEmpty)
  }

  @Test func clocksDifferByTheSeedAndWithinTheirClaim() {
    let world = RadioWorld(seed: 34)
    let errors = (0..<50).map { ScriptedHost(world, address: UInt64($0 + 1)).controller.clockError }
    #expect(errors.allSatisfy { abs($0) <= 50_000 })
    #expect(Set(errors).count > 45)
    let again = RadioWorld(seed: 34)
    #expect(errors == (0..<50).map { ScriptedHost(again, address: UInt64($0 + 1)).controller.clockError })
    let ideal = RadioWorld(seed: 34, setting: .ideal)
    #expect(ScriptedHost(ideal, address: 1).controller.clockError == 0)
  }

  // MARK: - Several links

  /// Connects `central`, which has been started, to a new Peripheral.
  private func join(
    _ central: ScriptedHost, _ address: UInt64, interval: UInt16, timeout: UInt16 = 300
  ) throws -> (host: ScriptedHost, own: ConnectionHandle, peer: ConnectionHandle) {
    let peripheral = ScriptedHost(central.world, address: address)
    try peripheral.start(octets: 251)
    try peripheral.advertise()
    central.forget()
    let status = try central.createConnection(
      to: peripheral.controller.address, interval: interval, timeout: timeout)
    #expect(status == .success)
    central.world.simulator.advance(by: .seconds(1))
    let own = try #require(central.metaEvents(LEConnectionComplete.self).last).event.connectionHandle
    let peer = try #require(peripheral.metaEvents(LEConnectionComplete.self).last).event.connectionHandle
    return (peripheral, own, peer)
  }

  @Test(arguments: [2, 3, 4, 6]) func linksOfOneCentralHaveEvenShares(count: Int) throws {
    let world = RadioWorld(seed: 35)
    let central = ScriptedHost(world, address: 0x100)
    try central.start(octets: 251)
    let peers = try (0..<count).map { try join(central, 0x200 + UInt64($0), interval: 80) }
    var received = [ConnectionHandle: Int]()
    central.onData = { handle, _, data in received[handle, default: 0] += data.count }
    let packet = [UInt8](repeating: 1, count: 251)
    for peer in peers {
      peer.host.onCompleted = { while peer.host.freeBuffers > 0 { peer.host.sendData(peer.peer, packet) } }
      peer.host.onCompleted?()
    }
    world.simulator.advance(by: .seconds(5))
    received.removeAll()
    world.simulator.advance(by: .seconds(20))
    let octets = peers.map { received[$0.own] ?? 0 }
    let least = octets.min() ?? 0
    #expect(least > 0)
    #expect(Double(octets.max() ?? 0) / Double(max(1, least)) < 1.7, "\(octets)")
    // And together they use most of the air: 790 kbit/s of 244-octet values at best.
    let rate = Double(octets.reduce(0, +)) / 251 * 244 * 8 / 20 / 1_000
    #expect(rate > 480, "\(rate)")
  }

  /// Two Centrals whose clocks differ by 100 ppm: the anchors of their links at one Peripheral pass through each other
  /// once in ten minutes, and each link gives way as often as the other.
  @Test func linksThatPassThroughEachOtherShareTheLoss() throws {
    let world = RadioWorld(seed: 36)
    world.observer = recorder
    let hub = ScriptedHost(world, address: 0x100)
    try hub.start()
    var centrals: [ScriptedHost] = []
    for (index, error) in [Int64(50_000), -50_000].enumerated() {
      let central = ScriptedHost(world, address: 0x200 + UInt64(index))
      central.controller.clockError = error
      try central.start()
      try hub.advertise()
      #expect(try central.createConnection(to: hub.controller.address, interval: 24, timeout: 100) == .success)
      world.simulator.advance(by: .seconds(1))
      centrals.append(central)
    }
    recorder.entries.removeAll()
    world.simulator.advance(by: .seconds(600))
    for host in centrals + [hub] { #expect(host.events(DisconnectionComplete.self).isEmpty) }
    // Events of each link that the hub took no part in.
    let missed = centrals.map { central in
      let sent = recorder.data.filter { $0.info.sender == central.controller.device }
      let address = sent.first?.info.accessAddress
      let answered = recorder.data.filter {
        $0.info.sender == hub.controller.device && $0.info.accessAddress == address
      }
      return sent.count - answered.count
    }
    #expect(missed.allSatisfy { $0 > 20 }, "\(missed)")
    #expect(abs(missed[0] - missed[1]) * 10 <= missed[0] + missed[1], "\(missed)")
  }
}
