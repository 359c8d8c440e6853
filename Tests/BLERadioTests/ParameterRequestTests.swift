// SPDX-License-Identifier: Apache-2.0

import BLECore
import BLEHCI
import BLERadio
import Testing

@Suite struct ParameterRequestTests {
  let world = RadioWorld(seed: 13)

  private func update(
    _ handle: ConnectionHandle, _ interval: ClosedRange<UInt16>, latency: UInt16 = 0, timeout: UInt16 = 200
  ) -> LEConnectionUpdate {
    LEConnectionUpdate(
      connectionHandle: handle, connectionIntervalMin: ConnectionInterval(rawValue: interval.lowerBound),
      connectionIntervalMax: ConnectionInterval(rawValue: interval.upperBound), maxLatency: latency,
      supervisionTimeout: SupervisionTimeout(rawValue: timeout), minCELength: ConnectionEventLength(rawValue: 0),
      maxCELength: ConnectionEventLength(rawValue: 0))
  }

  private func reply(
    _ handle: ConnectionHandle, _ interval: ClosedRange<UInt16>, latency: UInt16 = 0, timeout: UInt16 = 200
  ) -> LERemoteConnectionParameterRequestReply {
    LERemoteConnectionParameterRequestReply(
      connectionHandle: handle, intervalMin: ConnectionInterval(rawValue: interval.lowerBound),
      intervalMax: ConnectionInterval(rawValue: interval.upperBound), maxLatency: latency,
      timeout: SupervisionTimeout(rawValue: timeout), minCELength: ConnectionEventLength(rawValue: 0),
      maxCELength: ConnectionEventLength(rawValue: 0))
  }

  private func updates(_ host: ScriptedHost) -> [LEConnectionUpdateComplete] {
    host.metaEvents(LEConnectionUpdateComplete.self).map(\.event)
  }

  @Test func thePeripheralAsksAndTheCentralsHostDecides() throws {
    let pair = try Pair(world)
    #expect(try pair.peripheral.request(update(pair.peripheralHandle, 40...80, latency: 2, timeout: 300)) == .success)
    pair.advance(.milliseconds(200))
    let request = try #require(pair.central.metaEvents(LERemoteConnectionParameterRequest.self).first).event
    #expect(request.connectionHandle == pair.centralHandle)
    #expect(request.intervalMin.rawValue == 40)
    #expect(request.intervalMax.rawValue == 80)
    #expect(request.maxLatency == 2)
    #expect(request.timeout.rawValue == 300)
    try pair.central.expect(reply(pair.centralHandle, 40...60, latency: 2, timeout: 300))
    pair.advance(.seconds(2))
    for host in [pair.central, pair.peripheral] {
      #expect(updates(host).map(\.status) == [.success])
      #expect(updates(host).map(\.connectionInterval.rawValue) == [60])
      #expect(updates(host).map(\.peripheralLatency) == [2])
    }
    #expect(pair.central.events(DisconnectionComplete.self).isEmpty)
  }

  @Test func theCentralsHostRefuses() throws {
    let pair = try Pair(world)
    #expect(try pair.peripheral.request(update(pair.peripheralHandle, 40...80)) == .success)
    pair.advance(.milliseconds(200))
    try pair.central.expect(
      LERemoteConnectionParameterRequestNegativeReply(
        connectionHandle: pair.centralHandle, reason: .unacceptableConnectionParameters))
    pair.advance(.milliseconds(300))
    #expect(updates(pair.peripheral).map(\.status) == [.unacceptableConnectionParameters])
    #expect(updates(pair.central).isEmpty)
    // Twice cannot be answered.
    #expect(
      try pair.central.call(
        LERemoteConnectionParameterRequestNegativeReply(
          connectionHandle: pair.centralHandle, reason: .unacceptableConnectionParameters)
      ).status == .commandDisallowed)
    #expect(try pair.central.call(reply(pair.centralHandle, 40...60)).status == .commandDisallowed)
  }

  @Test func aMaskedEventIsARefusal() throws {
    let pair = try Pair(world)
    try pair.central.expect(LESetEventMask(leEventMask: 0x1F))
    #expect(try pair.peripheral.request(update(pair.peripheralHandle, 40...80)) == .success)
    pair.advance(.milliseconds(300))
    #expect(updates(pair.peripheral).map(\.status) == [.unsupportedRemoteFeature])
  }

  /// Once it knows that the peer can, the Central asks too.
  @Test func theCentralAsksThePeripheralsHost() throws {
    let pair = try Pair(world)
    _ = try pair.central.request(LEReadRemoteFeatures(connectionHandle: pair.centralHandle))
    pair.advance(.milliseconds(200))
    #expect(try pair.central.request(update(pair.centralHandle, 40...80)) == .success)
    pair.advance(.milliseconds(200))
    #expect(pair.peripheral.metaEvents(LERemoteConnectionParameterRequest.self).count == 1)
    // Answers that make no sense are refused, and the question stands.
    #expect(
      try pair.peripheral.call(reply(pair.peripheralHandle, 5...5)).status == .invalidHCICommandParameters)
    try pair.peripheral.expect(reply(pair.peripheralHandle, 50...60))
    pair.advance(.seconds(2))
    for host in [pair.central, pair.peripheral] {
      #expect(updates(host).map(\.connectionInterval.rawValue) == [60])
    }
  }

  @Test func aPeripheralThatCannotAskItsHostIsToldByTheCentral() throws {
    let pair = try Pair(world)
    try pair.peripheral.expect(LESetEventMask(leEventMask: 0x1F))
    _ = try pair.central.request(LEReadRemoteFeatures(connectionHandle: pair.centralHandle))
    pair.advance(.milliseconds(200))
    #expect(try pair.central.request(update(pair.centralHandle, 40...80)) == .success)
    pair.advance(.seconds(2))
    for host in [pair.central, pair.peripheral] {
      #expect(updates(host).map(\.connectionInterval.rawValue) == [80])
    }
  }

  @Test func whatThereIsNeedsNoConsent() throws {
    let pair = try Pair(world, interval: 24, timeout: 100)
    #expect(try pair.peripheral.request(update(pair.peripheralHandle, 20...30, timeout: 100)) == .success)
    pair.advance(.seconds(1))
    #expect(pair.central.metaEvents(LERemoteConnectionParameterRequest.self).isEmpty)
    #expect(updates(pair.peripheral).map(\.connectionInterval.rawValue) == [24])
  }

  @Test func aHostThatNeverAnswersLosesTheLink() throws {
    let pair = try Pair(world, timeout: 400)
    #expect(try pair.peripheral.request(update(pair.peripheralHandle, 40...80)) == .success)
    pair.advance(.seconds(41))
    #expect(pair.peripheral.events(DisconnectionComplete.self).map(\.event.reason) == [.llResponseTimeout])
  }

  @Test func bothAtOnceEndWithTheCentralsParameters() throws {
    let pair = try Pair(world)
    pair.central.send(update(pair.centralHandle, 40...40))
    pair.peripheral.send(update(pair.peripheralHandle, 80...80))
    pair.advance(.seconds(3))
    #expect(updates(pair.central).map(\.connectionInterval.rawValue) == [40])
    #expect(updates(pair.peripheral).map(\.connectionInterval.rawValue) == [40])
    #expect(pair.central.events(DisconnectionComplete.self).isEmpty)
    #expect(pair.central.metaEvents(LERemoteConnectionParameterRequest.self).isEmpty)
  }

  /// All procedures that there are, from both sides at once, again and again, with losses.
  @Test(arguments: [1, 2, 3, 4] as [UInt64]) func everythingAtOnceEndsWell(seed: UInt64) throws {
    let world = RadioWorld(seed: seed)
    let pair = try Pair(world, timeout: 1_000, octets: 100)
    world.loss = 0.1
    let key = [UInt8](repeating: 3, count: 16)
    var random = SeededGenerator(seed: seed)
    for host in [pair.central, pair.peripheral] { host.isRecording = true }
    var sent: [[UInt8]] = [[], []]
    for round in 0..<60 {
      for (index, (host, handle)) in [(pair.central, pair.centralHandle), (pair.peripheral, pair.peripheralHandle)]
        .enumerated()
      {
        switch Int.random(in: 0..<7, using: &random) {
        case 0: host.send(update(handle, 10...UInt16.random(in: 12...60, using: &random), timeout: 1_000))
        case 1:
          let mask = PHYMask(rawValue: UInt8.random(in: 1...7, using: &random))
          host.send(LESetPHY(connectionHandle: handle, allPHYs: 0, txPHYs: mask, rxPHYs: mask, phyOptions: 0))
        case 2: host.send(LESetDataLength(connectionHandle: handle, txOctets: 100 + UInt16(round), txTime: 17_040))
        case 3: host.send(LEReadRemoteFeatures(connectionHandle: handle))
        case 4: host.send(ReadRemoteVersionInformation(connectionHandle: handle))
        case 5: host.send(LESetHostChannelClassification(channelMap: UInt64.random(in: 3..<1 << 37, using: &random)))
        default:
          host.send(
            LEEnableEncryption(
              connectionHandle: handle, randomNumber: 1, encryptedDiversifier: 1, longTermKey: key))
        }
        if host.freeBuffers > 0 {
          let packet = [UInt8(round), UInt8(index)] + [UInt8](repeating: 7, count: 60)
          sent[index] += packet
          host.sendData(handle, packet)
        }
      }
      for _ in 0..<10 {
        pair.advance(.milliseconds(Int.random(in: 5...60, using: &random)))
        if !pair.peripheral.metaEvents(LELongTermKeyRequest.self).isEmpty {
          pair.peripheral.send(
            LELongTermKeyRequestReply(connectionHandle: pair.peripheralHandle, longTermKey: key))
        }
        for (host, handle) in [(pair.central, pair.centralHandle), (pair.peripheral, pair.peripheralHandle)]
        where !host.metaEvents(LERemoteConnectionParameterRequest.self).isEmpty {
          host.send(reply(handle, 10...40, timeout: 1_000))
        }
      }
    }
    pair.advance(.seconds(30))
    for host in [pair.central, pair.peripheral] {
      #expect(host.events(DisconnectionComplete.self).map(\.event.reason) == [], "seed \(seed)")
    }
    #expect(pair.peripheral.data.flatMap { $0 } == sent[0], "seed \(seed)")
    #expect(pair.central.data.flatMap { $0 } == sent[1], "seed \(seed)")
    #expect(pair.central.freeBuffers == 8)
    #expect(pair.peripheral.freeBuffers == 8)
    let last = pair.central.events(EncryptionChange.self).last?.event
    #expect(last?.status == .success, "seed \(seed)")
  }
}
