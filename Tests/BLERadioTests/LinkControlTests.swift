// SPDX-License-Identifier: Apache-2.0

import BLECore
import BLEHCI
import BLERadio
import Testing

@Suite struct LinkControlTests {
  let world = RadioWorld(seed: 6)
  let recorder = AirRecorder()

  init() { world.observer = recorder }

  private func update(_ handle: ConnectionHandle, interval: UInt16, latency: UInt16, timeout: UInt16)
    -> LEConnectionUpdate
  {
    LEConnectionUpdate(
      connectionHandle: handle, connectionIntervalMin: ConnectionInterval(rawValue: interval),
      connectionIntervalMax: ConnectionInterval(rawValue: interval), maxLatency: latency,
      supervisionTimeout: SupervisionTimeout(rawValue: timeout), minCELength: ConnectionEventLength(rawValue: 0),
      maxCELength: ConnectionEventLength(rawValue: 0))
  }

  /// LL control PDUs on air, by opcode; retransmissions show again.
  private func controls(_ opcode: UInt8) -> [AirRecorder.Entry] {
    recorder.data.filter { $0.pdu[0] & 3 == 3 && $0.pdu.count > 2 && $0.pdu[2] == opcode }
  }

  @Test func aConnectionUpdateTakesEffectAtItsInstant() throws {
    let pair = try Pair(world, interval: 24, clockErrors: (0, 0))
    #expect(
      try pair.central.request(update(pair.centralHandle, interval: 80, latency: 2, timeout: 300)) == .success)
    pair.advance(.seconds(3))
    for host in [pair.central, pair.peripheral] {
      let complete = host.metaEvents(LEConnectionUpdateComplete.self).map(\.event)
      #expect(complete.count == 1)
      #expect(complete.first?.connectionInterval.rawValue == 80)
      #expect(complete.first?.peripheralLatency == 2)
      #expect(complete.first?.supervisionTimeout.rawValue == 300)
      #expect(host.events(DisconnectionComplete.self).isEmpty)
    }
    let sent = recorder.data.filter { $0.info.sender == pair.central.controller.device }.map(\.start)
    let indication = try #require(controls(0x00).first)
    let after = sent.filter { $0 >= indication.start }
    // The old interval for the six events to the instant, the new one from there on.
    let gaps = zip(after, after.dropFirst()).map { $1 - $0 }
    #expect(gaps.prefix(6).allSatisfy { $0 == 30_000_000 })
    #expect(gaps.dropFirst(6).allSatisfy { $0 == 100_000_000 })
    #expect(gaps.count > 20)
    // The new timeout holds.
    world.setIsolated(true, pair.peripheral.controller.device)
    pair.advance(.milliseconds(2_650))
    #expect(pair.central.events(DisconnectionComplete.self).isEmpty)
    pair.advance(.milliseconds(400))
    #expect(pair.central.events(DisconnectionComplete.self).count == 1)
  }

  @Test func anUpdateToTheSameValuesIsReportedToTheInitiatorOnly() throws {
    let pair = try Pair(world, interval: 24, timeout: 100)
    #expect(
      try pair.central.request(update(pair.centralHandle, interval: 24, latency: 0, timeout: 100)) == .success)
    pair.advance(.seconds(1))
    #expect(pair.central.metaEvents(LEConnectionUpdateComplete.self).count == 1)
    #expect(pair.peripheral.metaEvents(LEConnectionUpdateComplete.self).isEmpty)
  }

  @Test func updatesOneAfterTheOther() throws {
    let pair = try Pair(world)
    for interval: UInt16 in [12, 40, 6] {
      #expect(
        try pair.central.request(update(pair.centralHandle, interval: interval, latency: 0, timeout: 200)) == .success)
    }
    pair.advance(.seconds(3))
    let intervals = pair.peripheral.metaEvents(LEConnectionUpdateComplete.self).map(\.event.connectionInterval.rawValue)
    #expect(intervals == [12, 40, 6])
    pair.peripheral.sendData(pair.peripheralHandle, [1])
    pair.advance(.milliseconds(20))
    #expect(pair.central.data == [[1]])
  }

  @Test func bothSidesReadFeaturesAndVersion() throws {
    let pair = try Pair(world)
    let local = try pair.central.call(LEReadLocalSupportedFeatures()).leFeatures
    for (host, handle) in [(pair.central, pair.centralHandle), (pair.peripheral, pair.peripheralHandle)] {
      for _ in 0..<2 {
        #expect(try host.request(LEReadRemoteFeatures(connectionHandle: handle)) == .success)
        #expect(try host.request(ReadRemoteVersionInformation(connectionHandle: handle)) == .success)
      }
      pair.advance(.milliseconds(500))
      let features = host.metaEvents(LEReadRemoteFeaturesComplete.self).map(\.event)
      #expect(features.map(\.status) == [.success, .success])
      #expect(features.map(\.leFeatures) == [local, local])
      let versions = host.events(ReadRemoteVersionInformationComplete.self).map(\.event)
      #expect(versions.map(\.companyIdentifier) == [0xFFFF, 0xFFFF])
      #expect(versions.map(\.version) == [0x0C, 0x0C])
    }
    // Each side says its version once, and asks for what it does not know yet.
    #expect(controls(0x0C).count == 2)
    #expect(controls(0x08).count == 1)
  }

  @Test func dataLengthIsRaisedByItselfWhereTheHostSuggestsIt() throws {
    let pair = try Pair(world, octets: 251)
    for host in [pair.central, pair.peripheral] {
      let changes = host.metaEvents(LEDataLengthChange.self).map(\.event)
      #expect(changes.last?.maxTxOctets == 251)
      #expect(changes.last?.maxTxTime == 2120)
      #expect(changes.last?.maxRxOctets == 251)
      #expect(changes.count == 1)
    }
    #expect(controls(0x14).count == 1)
  }

  @Test func withoutASuggestionTheDataLengthStays() throws {
    let pair = try Pair(world)
    pair.advance(.seconds(1))
    #expect(pair.central.metaEvents(LEDataLengthChange.self).isEmpty)
    #expect(controls(0x14).isEmpty)
  }

  @Test func setDataLengthChangesOneDirection() throws {
    let pair = try Pair(world)
    try pair.central.expect(LESetDataLength(connectionHandle: pair.centralHandle, txOctets: 100, txTime: 1000))
    pair.advance(.milliseconds(300))
    let central = try #require(pair.central.metaEvents(LEDataLengthChange.self).last).event
    #expect(central.maxTxOctets == 100)
    #expect(central.maxTxTime == 1000)
    #expect(central.maxRxOctets == 27)
    let peripheral = try #require(pair.peripheral.metaEvents(LEDataLengthChange.self).last).event
    #expect(peripheral.maxTxOctets == 27)
    #expect(peripheral.maxRxOctets == 100)
    pair.central.sendData(pair.centralHandle, [UInt8](repeating: 1, count: 200))
    pair.peripheral.sendData(pair.peripheralHandle, [UInt8](repeating: 1, count: 54))
    pair.advance(.milliseconds(300))
    #expect(pair.peripheral.data.map(\.count) == [100, 100])
    #expect(pair.central.data.map(\.count) == [27, 27])
  }

  @Test func timeLimitsTheDataLengthToo() throws {
    let pair = try Pair(world)
    // 512 us: 64 octets on air, 14 of which frame and MIC.
    try pair.central.expect(LESetDataLength(connectionHandle: pair.centralHandle, txOctets: 251, txTime: 512))
    pair.advance(.milliseconds(300))
    pair.central.sendData(pair.centralHandle, [UInt8](repeating: 1, count: 100))
    pair.advance(.milliseconds(300))
    #expect(pair.peripheral.data.map(\.count) == [50, 50])
  }

  @Test func aChannelMapChangesAtItsInstantAndNothingIsLost() throws {
    let pair = try Pair(world)
    let map: UInt64 = 0x3FF
    try pair.central.expect(LESetHostChannelClassification(channelMap: map))
    pair.advance(.seconds(1))
    #expect(try pair.central.call(LEReadChannelMap(connectionHandle: pair.centralHandle)).channelMap == map)
    #expect(try pair.peripheral.call(LEReadChannelMap(connectionHandle: pair.peripheralHandle)).channelMap == map)
    recorder.entries.removeAll()
    pair.advance(.seconds(3))
    #expect(recorder.entries.count == 200)
    #expect(Set(recorder.entries.map(\.info.channel)) == Set(0..<10))
  }

  @Test(arguments: [true, false], [0x05, 0x13, 0x14, 0x15, 0x1A, 0x29, 0x3B] as [UInt8])
  func eitherSideEndsTheConnection(byCentral: Bool, reason: UInt8) throws {
    let pair = try Pair(world)
    let (host, handle, peer) =
      byCentral
      ? (pair.central, pair.centralHandle, pair.peripheral) : (pair.peripheral, pair.peripheralHandle, pair.central)
    #expect(
      try host.request(Disconnect(connectionHandle: handle, reason: HCIStatus(rawValue: reason))) == .success)
    pair.advance(.milliseconds(100))
    #expect(host.events(DisconnectionComplete.self).map(\.event.reason) == [.connectionTerminatedByLocalHost])
    #expect(peer.events(DisconnectionComplete.self).map(\.event.reason) == [HCIStatus(rawValue: reason)])
    recorder.entries.removeAll()
    pair.advance(.seconds(1))
    #expect(recorder.entries.isEmpty)
  }

  @Test func aHostThatAsksForTooMuchIsToldToWait() throws {
    let pair = try Pair(world, timeout: 1000)
    var statuses: [HCIStatus] = []
    for _ in 0..<30 {
      statuses.append(
        try pair.central.request(update(pair.centralHandle, interval: 24, latency: 0, timeout: 1000)))
    }
    #expect(statuses.prefix(17).allSatisfy { $0 == .success })
    #expect(statuses.dropFirst(17).allSatisfy { $0 == .controllerBusy })
    pair.advance(.seconds(10))
    // What was accepted was done.
    #expect(pair.central.metaEvents(LEConnectionUpdateComplete.self).count == 17)
  }

  @Test func theRemoteSideIsAskedDespiteLoss() throws {
    let pair = try Pair(world, timeout: 1000)
    world.loss = 0.4
    #expect(try pair.central.request(LEReadRemoteFeatures(connectionHandle: pair.centralHandle)) == .success)
    #expect(
      try pair.central.request(update(pair.centralHandle, interval: 40, latency: 0, timeout: 1000)) == .success)
    pair.advance(.seconds(5))
    #expect(pair.central.metaEvents(LEReadRemoteFeaturesComplete.self).map(\.event.status) == [.success])
    #expect(pair.peripheral.metaEvents(LEConnectionUpdateComplete.self).count == 1)
  }
}
