// SPDX-License-Identifier: Apache-2.0

import BLECore
import BLEHCI
import Testing

@testable import BLERadio

extension Pair {
  /// Encrypts the link with `key`, the Peripheral's host having `peerKey`: `nil`, none.
  func encrypt(_ key: [UInt8], peerKey: [UInt8]?) throws {
    peripheral.forget()
    let status = try central.request(
      LEEnableEncryption(
        connectionHandle: centralHandle, randomNumber: 0x1122_3344_5566_7788, encryptedDiversifier: 0x99AA,
        longTermKey: key))
    #expect(status == .success)
    let limit = world.simulator.now + .seconds(20)
    while peripheral.metaEvents(LELongTermKeyRequest.self).isEmpty, world.simulator.now < limit {
      guard world.simulator.step() else { break }
    }
    let request = try #require(peripheral.metaEvents(LELongTermKeyRequest.self).first).event
    #expect(request.connectionHandle == peripheralHandle)
    #expect(request.randomNumber == 0x1122_3344_5566_7788)
    #expect(request.encryptedDiversifier == 0x99AA)
    if let peerKey {
      try peripheral.expect(
        LELongTermKeyRequestReply(connectionHandle: peripheralHandle, longTermKey: peerKey))
    } else {
      try peripheral.expect(LELongTermKeyRequestNegativeReply(connectionHandle: peripheralHandle))
    }
  }
}

@Suite struct EncryptionTests {
  let world = RadioWorld(seed: 9)
  let recorder = AirRecorder()
  let key = (0..<16).map { UInt8($0 * 3 + 1) }

  init() { world.observer = recorder }

  private func controls(_ opcode: UInt8) -> [AirRecorder.Entry] {
    recorder.data.filter { $0.pdu[0] & 3 == 3 && $0.pdu.count > 2 && $0.pdu[2] == opcode }
  }

  private func expectExchange(_ pair: Pair) {
    pair.central.forget()
    pair.peripheral.forget()
    pair.central.sendData(pair.centralHandle, [7, 6, 5, 4])
    pair.peripheral.sendData(pair.peripheralHandle, [1, 2, 3])
    pair.advance(.milliseconds(200))
    #expect(pair.peripheral.data == [[7, 6, 5, 4]])
    #expect(pair.central.data == [[1, 2, 3]])
  }

  @Test func bothHostsHearOfAnEncryptedLink() throws {
    let pair = try Pair(world)
    try pair.encrypt(key, peerKey: key)
    pair.advance(.milliseconds(300))
    for host in [pair.central, pair.peripheral] {
      let changes = host.events(EncryptionChange.self).map(\.event)
      #expect(changes.map(\.status) == [.success])
      #expect(changes.map(\.encryptionEnabled) == [.aesCCM])
    }
    expectExchange(pair)
    // In clear on air: the requests, up to LL_START_ENC_REQ. The rest has a MIC.
    for opcode: UInt8 in [0x03, 0x04, 0x05] { #expect(controls(opcode).count == 1) }
    let start = try #require(controls(0x05).first)
    let after = recorder.data.filter { $0.start > start.end && $0.pdu.count > 2 }
    #expect(after.map(\.pdu.count) == [7, 7, 10, 9])
    #expect(after.allSatisfy { $0.pdu.count == Int($0.pdu[1]) + 2 })
    #expect(!after.contains { $0.pdu.contains([7, 6, 5, 4]) || $0.pdu.contains([1, 2, 3]) })
  }

  @Test func theIdealAirEncryptsInNoTime() throws {
    let world = RadioWorld(seed: 9, setting: .ideal)
    let pair = try Pair(world)
    let start = world.simulator.now
    for index in 0..<8 { pair.central.sendData(pair.centralHandle, [UInt8(index)]) }
    try pair.encrypt(key, peerKey: key)
    for index in 0..<8 { pair.peripheral.sendData(pair.peripheralHandle, [UInt8(index)]) }
    world.simulator.run(until: world.simulator.now)
    #expect(world.simulator.now == start)
    for host in [pair.central, pair.peripheral] {
      #expect(host.events(EncryptionChange.self).map(\.event.status) == [.success])
    }
    #expect(pair.central.data == (0..<8).map { [UInt8($0)] })
    pair.advance(.seconds(60))
    expectExchange(pair)
  }

  @Test func withoutAKeyTheLinkGoesOnInClear() throws {
    let pair = try Pair(world)
    try pair.encrypt(key, peerKey: nil)
    pair.advance(.milliseconds(300))
    #expect(pair.central.events(EncryptionChange.self).map(\.event.status) == [.pinOrKeyMissing])
    #expect(pair.central.events(EncryptionChange.self).map(\.event.encryptionEnabled) == [.off])
    #expect(pair.peripheral.events(EncryptionChange.self).isEmpty)
    expectExchange(pair)
    // And can be encrypted afterwards.
    try pair.encrypt(key, peerKey: key)
    pair.advance(.milliseconds(300))
    #expect(pair.central.events(EncryptionChange.self).last?.event.status == .success)
    expectExchange(pair)
  }

  @Test(arguments: [true, false]) func theRejectionIsTheOneThatThePeerKnows(hasFeatures: Bool) throws {
    let pair = try Pair(world)
    if hasFeatures {
      _ = try pair.central.request(LEReadRemoteFeatures(connectionHandle: pair.centralHandle))
      pair.advance(.milliseconds(300))
    }
    try pair.encrypt(key, peerKey: nil)
    pair.advance(.milliseconds(300))
    #expect(controls(hasFeatures ? 0x11 : 0x0D).count == 1)
    #expect(controls(hasFeatures ? 0x0D : 0x11).isEmpty)
  }

  @Test func aHostThatIsNotToBeAskedHasNoKey() throws {
    let pair = try Pair(world)
    try pair.peripheral.expect(LESetEventMask(leEventMask: 0x0F))
    _ = try pair.central.request(
      LEEnableEncryption(
        connectionHandle: pair.centralHandle, randomNumber: 0, encryptedDiversifier: 0, longTermKey: key))
    pair.advance(.milliseconds(300))
    #expect(pair.central.events(EncryptionChange.self).map(\.event.status) == [.pinOrKeyMissing])
    expectExchange(pair)
  }

  @Test func differentKeysAreAMICFailure() throws {
    let pair = try Pair(world)
    try pair.encrypt(key, peerKey: key.reversed())
    pair.advance(.milliseconds(200))
    // Whoever finds out leaves at once, and the other one is left alone.
    #expect(pair.peripheral.events(DisconnectionComplete.self).map(\.event.reason) == [.terminatedDueToMICFailure])
    #expect(pair.central.events(DisconnectionComplete.self).isEmpty)
    pair.advance(.seconds(2))
    #expect(pair.central.events(DisconnectionComplete.self).map(\.event.reason) == [.connectionTimeout])
    #expect(pair.central.events(EncryptionChange.self).isEmpty)
    #expect(pair.peripheral.events(EncryptionChange.self).isEmpty)
  }

  @Test func dataWaitsWhileEncryptionStarts() throws {
    let pair = try Pair(world)
    for index in 0..<4 {
      pair.central.sendData(pair.centralHandle, [UInt8](repeating: UInt8(index), count: 60))
      pair.peripheral.sendData(pair.peripheralHandle, [UInt8](repeating: UInt8(0x80 + index), count: 60))
    }
    try pair.encrypt(key, peerKey: key)
    for index in 4..<8 {
      pair.central.sendData(pair.centralHandle, [UInt8](repeating: UInt8(index), count: 60))
      pair.peripheral.sendData(pair.peripheralHandle, [UInt8](repeating: UInt8(0x80 + index), count: 60))
    }
    pair.advance(.seconds(1))
    #expect(pair.peripheral.data.joined().map { $0 } == (0..<8).flatMap { [UInt8](repeating: $0, count: 60) })
    #expect(pair.central.data.joined().map { $0 } == (0..<8).flatMap { [UInt8](repeating: 0x80 + $0, count: 60) })
    let request = try #require(controls(0x03).first)
    let response = try #require(controls(0x04).first)
    let start = try #require(controls(0x05).first)
    // Nothing but control PDUs from the request, and from the response, to the start; and nothing in clear afterwards.
    for entry in recorder.data where entry.pdu.count > 2 && entry.pdu[0] & 3 != 3 {
      let isCentral = entry.info.sender == pair.central.controller.device
      let from = isCentral ? request.start : response.start
      #expect(!(from...start.end).contains(entry.start))
      if entry.start > start.end { #expect(entry.pdu.count == 27 + 4 + 2 || entry.pdu.count == 6 + 4 + 2) }
    }
    #expect(pair.central.freeBuffers == 8)
    #expect(pair.peripheral.freeBuffers == 8)
  }

  @Test(arguments: [0.05, 0.3], [1, 2, 3] as [UInt64])
  func lossesAreMadeGoodWithTheSameCiphertext(loss: Double, seed: UInt64) throws {
    let world = RadioWorld(seed: seed)
    let recorder = AirRecorder()
    world.observer = recorder
    let pair = try Pair(world, timeout: 400, octets: 251)
    world.loss = loss
    try pair.encrypt(key, peerKey: key)
    pair.advance(.seconds(2))
    var sent: [[UInt8]] = [[], []]
    for round in 0..<100 {
      for (index, host) in [pair.central, pair.peripheral].enumerated() where host.freeBuffers > 0 {
        let packet = (0..<100).map { UInt8(truncatingIfNeeded: $0 + round) }
        sent[index] += packet
        host.sendData(index == 0 ? pair.centralHandle : pair.peripheralHandle, packet)
      }
      pair.advance(.milliseconds(30))
    }
    pair.advance(.seconds(10))
    #expect(pair.peripheral.data.flatMap { $0 } == sent[0], "seed \(seed)")
    #expect(pair.central.data.flatMap { $0 } == sent[1], "seed \(seed)")
    #expect(sent[0].count > 5_000)
    // A PDU with the SN of the one before it is that one again.
    for device in [pair.central.controller.device, pair.peripheral.controller.device] {
      let pdus = recorder.data.filter { $0.info.sender == device }.map(\.pdu)
      var repeated = 0
      for (first, second) in zip(pdus, pdus.dropFirst()) where first[0] & 8 == second[0] & 8 {
        #expect(first.dropFirst() == second.dropFirst())
        if first.count > 2 { repeated += 1 }
      }
      #expect(repeated > 0)
    }
  }

  // MARK: - Another key

  @Test func theKeyIsChangedWithoutDataInClear() throws {
    let pair = try Pair(world)
    try pair.encrypt(key, peerKey: key)
    pair.advance(.milliseconds(300))
    let mark = world.simulator.now.nanoseconds
    for index in 0..<4 {
      pair.central.sendData(pair.centralHandle, [UInt8(index)])
      pair.peripheral.sendData(pair.peripheralHandle, [UInt8(index)])
    }
    let other = key.map { $0 ^ 0x55 }
    try pair.encrypt(other, peerKey: other)
    pair.advance(.milliseconds(300))
    for host in [pair.central, pair.peripheral] {
      #expect(host.events(EncryptionKeyRefreshComplete.self).map(\.event.status) == [.success])
      #expect(host.events(DisconnectionComplete.self).isEmpty)
    }
    #expect(pair.central.events(EncryptionChange.self).count == 1)
    #expect(pair.central.data == (0..<4).map { [UInt8($0)] })
    expectExchange(pair)
    // In clear: LL_PAUSE_ENC_RSP of the Central, the two requests and LL_START_ENC_REQ; sealed data has five octets.
    let clear = recorder.data.filter { $0.start > mark && $0.pdu.count > 2 && $0.pdu[1] != 5 && $0.pdu[0] & 3 == 3 }
    #expect(clear.map { $0.pdu[2] } == [0x0B, 0x03, 0x04, 0x05])
    let data = recorder.data.filter { $0.start > mark && $0.pdu.count > 2 && $0.pdu[0] & 3 != 3 }
    #expect(data.prefix(8).allSatisfy { $0.pdu[1] == 5 })
  }

  @Test func withoutTheOtherKeyTheLinkEnds() throws {
    let pair = try Pair(world)
    try pair.encrypt(key, peerKey: key)
    pair.advance(.milliseconds(300))
    try pair.encrypt(key, peerKey: nil)
    pair.advance(.milliseconds(300))
    #expect(pair.central.events(DisconnectionComplete.self).map(\.event.reason) == [.pinOrKeyMissing])
    #expect(pair.peripheral.events(DisconnectionComplete.self).map(\.event.reason) == [.pinOrKeyMissing])
  }

  // MARK: - Commands

  @Test func whatTheControllerRefuses() throws {
    let pair = try Pair(world)
    func enable(_ handle: ConnectionHandle, _ key: [UInt8]) -> LEEnableEncryption {
      LEEnableEncryption(connectionHandle: handle, randomNumber: 0, encryptedDiversifier: 0, longTermKey: key)
    }
    let zero = [UInt8](repeating: 0, count: 16)
    #expect(try pair.peripheral.request(enable(pair.peripheralHandle, key)) == .commandDisallowed)
    #expect(try pair.central.request(enable(ConnectionHandle(rawValue: 0x0EEE), key)) == .unknownConnectionIdentifier)
    #expect(try pair.central.request(enable(pair.centralHandle, zero)) == .invalidHCICommandParameters)
    let reply = LELongTermKeyRequestReply(connectionHandle: pair.peripheralHandle, longTermKey: key)
    #expect(try pair.peripheral.call(reply).status == .commandDisallowed)
    let negative = LELongTermKeyRequestNegativeReply(connectionHandle: pair.peripheralHandle)
    #expect(try pair.peripheral.call(negative).status == .commandDisallowed)
    #expect(try pair.central.request(enable(pair.centralHandle, key)) == .success)
    #expect(try pair.central.request(enable(pair.centralHandle, key)) == .commandDisallowed)
    pair.advance(.milliseconds(100))
    let zeroReply = LELongTermKeyRequestReply(connectionHandle: pair.peripheralHandle, longTermKey: zero)
    #expect(try pair.peripheral.call(zeroReply).status == .invalidHCICommandParameters)
    // The request still stands.
    #expect(try pair.peripheral.call(reply).status == .success)
    pair.advance(.milliseconds(200))
    #expect(pair.central.events(EncryptionChange.self).map(\.event.status) == [.success])
  }

  @Test func zeroKeysAreTakenWhereThatIsAllowed() throws {
    let pair = try Pair(world)
    pair.central.controller.allowsZeroKeys = true
    pair.peripheral.controller.allowsZeroKeys = true
    let zero = [UInt8](repeating: 0, count: 16)
    try pair.encrypt(zero, peerKey: zero)
    pair.advance(.milliseconds(300))
    expectExchange(pair)
  }

  @Test func theSecondVersionOfTheEventReplacesTheFirst() throws {
    let pair = try Pair(world)
    try pair.central.expect(SetEventMaskPage2(eventMaskPage2: EventMask.encryptionChangeV2))
    try pair.encrypt(key, peerKey: key)
    pair.advance(.milliseconds(300))
    #expect(pair.central.events(EncryptionChange.self).isEmpty)
    #expect(pair.central.events(EncryptionChangeV2.self).map(\.event.encryptionKeySize) == [16])
  }

  @Test func aHostThatNeverAnswersLosesTheLinkAfter40Seconds() throws {
    let pair = try Pair(world, timeout: 400)
    _ = try pair.central.request(
      LEEnableEncryption(
        connectionHandle: pair.centralHandle, randomNumber: 0, encryptedDiversifier: 0, longTermKey: key))
    pair.advance(.milliseconds(39_900))
    #expect(pair.central.events(DisconnectionComplete.self).isEmpty)
    pair.advance(.milliseconds(200))
    #expect(pair.central.events(DisconnectionComplete.self).map(\.event.reason) == [.llResponseTimeout])
  }

  // MARK: - Authenticated payload timeout

  @Test func aPingKeepsAnIdleLinkAuthenticated() throws {
    let pair = try Pair(world)
    try pair.central.expect(
      SetEventMaskPage2(eventMaskPage2: EventMask.authenticatedPayloadTimeoutExpired))
    let read = ReadAuthenticatedPayloadTimeout(connectionHandle: pair.centralHandle)
    #expect(try pair.central.call(read).timeout.rawValue == 3_000)
    func write(_ units: UInt16) -> WriteAuthenticatedPayloadTimeout {
      WriteAuthenticatedPayloadTimeout(
        connectionHandle: pair.centralHandle, timeout: AuthenticatedPayloadTimeout(rawValue: units))
    }
    #expect(try pair.central.call(write(2)).status == .invalidHCICommandParameters)
    #expect(try pair.central.call(write(100)).status == .success)
    #expect(try pair.central.call(read).timeout.rawValue == 100)
    try pair.encrypt(key, peerKey: key)
    pair.advance(.milliseconds(300))
    recorder.entries.removeAll()
    pair.advance(.seconds(10))
    // LL_PING_REQ and LL_PING_RSP, sealed, once a second or a little more often.
    let pings = recorder.data.filter { $0.pdu.count == 7 }
    #expect((20...30).contains(pings.count))
    #expect(pair.central.events(AuthenticatedPayloadTimeoutExpired.self).isEmpty)
  }

  @Test func aTimeoutShorterThanAPingExpires() throws {
    let pair = try Pair(world, interval: 8)
    try pair.central.expect(
      SetEventMaskPage2(eventMaskPage2: EventMask.authenticatedPayloadTimeoutExpired))
    try pair.central.expect(
      WriteAuthenticatedPayloadTimeout(
        connectionHandle: pair.centralHandle, timeout: AuthenticatedPayloadTimeout(rawValue: 1)))
    try pair.encrypt(key, peerKey: key)
    pair.advance(.seconds(1))
    let expired = pair.central.events(AuthenticatedPayloadTimeoutExpired.self)
    #expect(expired.count > 10)
    #expect(zip(expired, expired.dropFirst()).allSatisfy { $1.time - $0.time >= .milliseconds(10) })
    #expect(pair.central.events(DisconnectionComplete.self).isEmpty)
  }
}
