// SPDX-License-Identifier: Apache-2.0

import BLECore
import BLEHCI
import TestSupport
import Testing

@testable import BLERadio

@Suite struct AirDecryptionTests {
  private let key = (0..<16).map { UInt8(0xF0 ^ $0) }

  /// A capture of a link that is encrypted, gets another key, and has data both ways, with losses.
  private func capture(_ seed: UInt64, loss: Double) throws -> (file: [UInt8], data: [[UInt8]], other: [UInt8]) {
    let world = RadioWorld(seed: seed)
    var file: [UInt8] = []
    let capture = AirCapture { file += [UInt8]($0) }
    world.observer = capture
    let pair = try Pair(world, timeout: 1_000, octets: 251)
    world.loss = loss
    let other = key.map { $0 ^ 0x3C }
    var data: [[UInt8]] = [[], []]
    var got: [[UInt8]] = [[], []]
    pair.peripheral.onData = { got[0] += $2 }
    pair.central.onData = { got[1] += $2 }
    for (round, key) in [key, other].enumerated() {
      try pair.encrypt(key, peerKey: key)
      pair.advance(.seconds(1))
      for index in 0..<6 {
        let packet = (0..<200).map { UInt8(truncatingIfNeeded: $0 * 7 + index + 100 * round) }
        data[0] += packet
        data[1] += packet.reversed()
        pair.central.sendData(pair.centralHandle, packet)
        pair.peripheral.sendData(pair.peripheralHandle, packet.reversed())
      }
      pair.advance(.seconds(3))
    }
    let isRight = got == data
    #expect(isRight, "seed \(seed)")
    return (file, data, other)
  }

  /// Data PDUs of each direction, retransmissions left out.
  private func payloads(_ records: [AirPCAP.Record], decrypted: Bool) -> [[UInt8]] {
    var result: [[UInt8]] = [[], []]
    var lastSN: [Bool?] = [nil, nil]
    for record in records where record.kind == .centralToPeripheral || record.kind == .peripheralToCentral {
      let index = record.kind == .centralToPeripheral ? 0 : 1
      let header = DataHeader(record.pdu[0])
      defer { lastSN[index] = header.sn }
      guard header.sn != lastSN[index], record.isDecrypted == decrypted, header.llid != .control else { continue }
      result[index] += record.pdu.dropFirst(2)
    }
    return result
  }

  @Test(arguments: [(1, 0), (2, 0.2), (3, 0.2), (4, 0.3), (5, 0.3), (6, 0.3), (7, 0.1)] as [(UInt64, Double)])
  func whatWasEncryptedComesOutInClear(seed: UInt64, loss: Double) throws {
    let (file, data, other) = try capture(seed, loss: loss)
    var decryption = try AirDecryption(longTermKeys: [other.reversed(), key.reversed()])
    var before: [AirPCAP.Record] = []
    var after: [AirPCAP.Record] = []
    try AirPCAP.read(file.span.bytes) { record in
      before.append(record)
      after.append(decryption.decrypt(record))
    }
    #expect(decryption.failedCount == 0, "seed \(seed)")
    #expect(decryption.decryptedCount > 24)
    let isRight = payloads(after, decrypted: true) == data
    #expect(isRight, "seed \(seed)")
    for (old, new) in zip(before, after) {
      #expect(new.pdu.count == (new.isDecrypted ? old.pdu.count - 4 : old.pdu.count))
      #expect(Int(new.pdu[1]) == new.pdu.count - 2)
      #expect(new.time == old.time)
    }
    // And it survives the file.
    let opened = try #require(after.first { $0.isDecrypted })
    var writer = ByteWriter()
    AirPCAP.encodeHeader(into: &writer)
    AirPCAP.encode(opened, into: &writer)
    var again: [AirPCAP.Record] = []
    try AirPCAP.read(writer.bytes.span.bytes) { again.append($0) }
    #expect(again == [opened])
  }

  @Test func withoutTheKeyItStaysAsItIs() throws {
    let (file, _, _) = try capture(4, loss: 0)
    var decryption = try AirDecryption(longTermKeys: [[UInt8](repeating: 1, count: 16)])
    try AirPCAP.read(file.span.bytes) { record in
      #expect(decryption.decrypt(record) == record)
    }
    #expect(decryption.decryptedCount == 0)
    #expect(decryption.failedCount > 0)
  }

  @Test func aKeyHas16Octets() {
    #expect(throws: (any Error).self) { try AirDecryption(longTermKeys: [[1, 2, 3]]) }
  }

  @Test func hostilePacketsAreSurvived() throws {
    let (file, _, _) = try capture(5, loss: 0)
    var records: [AirPCAP.Record] = []
    try AirPCAP.read(file.span.bytes) { records.append($0) }
    var decryption = try AirDecryption(longTermKeys: [key.reversed()])
    let examples = records.map(\.pdu)
    let request = try #require(records.first { $0.pdu[0] & 0x0F == 5 && $0.kind == .advertising })
    let crcInit = UInt32(request.pdu[18]) | UInt32(request.pdu[19]) << 8 | UInt32(request.pdu[20]) << 16
    for record in records { _ = decryption.decrypt(record) }
    records.removeAll { $0.kind == .advertising }
    var index = 0
    for bytes in HostileBytes(seed: 51, count: 20_000, examples: examples, maxLength: 257) {
      var record = records[index % records.count]
      index += 1
      record.pdu = bytes
      record.setCRC(initial: crcInit)
      _ = decryption.decrypt(record)
    }
    #expect(decryption.failedCount > 1_000)
  }
}
