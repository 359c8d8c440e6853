// SPDX-License-Identifier: Apache-2.0

import BLECore
import BLEHCI
import Foundation
import TestSupport
import Testing

@testable import BLERadio

@Suite struct AirCaptureTests {
  final class File {
    var bytes: [UInt8] = []
    var chunks = 0
    func append(_ span: RawSpan) {
      bytes += [UInt8](span)
      chunks += 1
    }
  }

  private func records(_ file: File) throws -> [AirPCAP.Record] {
    var records: [AirPCAP.Record] = []
    let bytes = file.bytes
    try AirPCAP.read(bytes.span.bytes) { records.append($0) }
    return records
  }

  @Test func octetsOfAnAdvertisement() throws {
    let file = File()
    let capture = AirCapture { file.append($0) }
    #expect(
      file.bytes == [0x4D, 0x3C, 0xB2, 0xA1, 2, 0, 4, 0] + Array(repeating: 0, count: 8) + [255, 255, 0, 0, 0, 1, 0, 0])
    let info = AirPacketInfo(
      start: Instant(nanoseconds: 3_000_000_017), end: Instant(nanoseconds: 3_000_128_017),
      sender: RadioDeviceID(rawValue: 0), channel: 38, accessAddress: 0x8E89_BED6, phy: .le1M, coding: .s8,
      crcInit: 0x555555, rssi: -71, isCRCValid: true)
    let pdu: [UInt8] = [0x00, 0x09, 0xA6, 0xA5, 0xA4, 0xA3, 0xA2, 0xA1, 0x02, 0x01, 0x06]
    capture.observe(info, pdu: pdu.span.bytes)
    let expected: [UInt8] =
      [3, 0, 0, 0, 17, 0, 0, 0, 28, 0, 0, 0, 28, 0, 0, 0] + [
        12, 0xB9, 0, 0, 0xD6, 0xBE, 0x89, 0x8E, 0x13, 0x00, 0xD6, 0xBE, 0x89, 0x8E,
      ] + pdu + [0xD9, 0x6B, 0xE5]
    #expect(Array(file.bytes.dropFirst(24)) == expected)
    #expect(file.chunks == 2)
  }

  @Test func codedPacketsHaveTheirIndicatorAndDataItsDirection() throws {
    var writer = ByteWriter()
    let record = AirPCAP.Record(
      time: .zero, channel: 5, rssi: -40, accessAddress: 0x1234_5678, kind: .peripheralToCentral, isDecrypted: true,
      phy: .leCoded, coding: .s2, pdu: [2, 1, 0xAA], crc: 0x030201)
    AirPCAP.encode(record, into: &writer)
    // Kind 3, decrypted, MIC checked and right, PHY 2.
    let flags: UInt16 = 1 | 2 | 8 | 16 | 3 << 7 | 1 << 12 | 1 << 13 | 2 << 14
    #expect(
      Array(writer.bytes[16...]) == [
        6, 0xD8, 0, 0, 0x78, 0x56, 0x34, 0x12, UInt8(flags & 0xFF), UInt8(flags >> 8), 0x78, 0x56, 0x34, 0x12, 1, 2, 1,
        0xAA, 1, 2, 3,
      ])
  }

  @Test func whatIsWrittenCanBeRead() throws {
    var random = SeededGenerator(seed: 8)
    var writer = ByteWriter()
    AirPCAP.encodeHeader(into: &writer)
    var expected: [AirPCAP.Record] = []
    for channel in UInt8(0)...39 {
      for phy in AirPHY.allCases {
        let kind = try #require(AirPCAP.Kind(rawValue: UInt16(random.below(4))))
        var record = AirPCAP.Record(
          time: Instant(nanoseconds: Int64(random.next() >> 20)), channel: channel,
          rssi: Int8(truncatingIfNeeded: random.next()), accessAddress: UInt32(truncatingIfNeeded: random.next()),
          kind: kind, auxiliary: kind == .auxiliaryAdvertising ? .auxScanRsp : .auxAdvInd, phy: phy,
          coding: phy == .leCoded ? .s2 : .s8, pdu: [1, 2] + (0..<random.below(60)).map { UInt8($0) }, crc: 0)
        record.setCRC(initial: 0x555555)
        expected.append(record)
        AirPCAP.encode(record, into: &writer)
      }
    }
    let file = File()
    file.bytes = writer.bytes
    let read = try records(file)
    for (one, other) in zip(read, expected) {
      var other = other
      // These bits mean something else there.
      if other.kind != .auxiliaryAdvertising { other.auxiliary = one.auxiliary }
      #expect(one == other)
    }
    #expect(read.count == expected.count)
    // Cut anywhere it is refused, or ends at a record.
    for count in 0..<200 {
      file.bytes = Array(writer.bytes.prefix(count))
      #expect(((try? records(file))?.count ?? 0) <= 2)
    }
    var hostile = SeededGenerator(seed: 9)
    for _ in 0..<2_000 {
      file.bytes = Array(writer.bytes.prefix(400))
      for _ in 0..<4 { file.bytes[Int(hostile.below(400))] = UInt8(truncatingIfNeeded: hostile.next()) }
      _ = try? records(file)
    }
  }

  @Test func aConnectionHasBothDirections() throws {
    let world = RadioWorld(seed: 2)
    let file = File()
    let capture = AirCapture { file.append($0) }
    world.observer = capture
    let pair = try Pair(world)
    pair.central.sendData(pair.centralHandle, [3, 0, 4, 0, 1, 2, 3])
    pair.advance(.milliseconds(200))
    let records = try records(file)
    let kinds = records.filter { $0.accessAddress != 0x8E89_BED6 }.map(\.kind)
    #expect(kinds.count > 20)
    #expect(
      kinds.prefix(4) == [.centralToPeripheral, .peripheralToCentral, .centralToPeripheral, .peripheralToCentral])
    #expect(Set(kinds) == [.centralToPeripheral, .peripheralToCentral])
    // In order, and each with its CRC.
    #expect(zip(records, records.dropFirst()).allSatisfy { $0.time < $1.time })
    let request = try #require(records.first { $0.pdu[0] & 0xF == 5 && $0.accessAddress == 0x8E89_BED6 })
    let initial = UInt32(request.pdu[18]) | UInt32(request.pdu[19]) << 8 | UInt32(request.pdu[20]) << 16
    for record in records {
      var copy = record
      copy.setCRC(initial: record.accessAddress == 0x8E89_BED6 ? 0x555555 : initial)
      #expect(copy == record)
    }
    withExtendedLifetime(capture) {}
  }
}

extension AirCaptureTests {
  /// Extended advertising of all kinds, with long data, scan requests, and a connection. Where the tests are to leave
  /// captures for tshark, this is one.
  @Test func auxiliaryPacketsAreToldApart() throws {
    let world = RadioWorld(seed: 6)
    let file = File()
    let capture = AirCapture { file.append($0) }
    world.observer = capture
    let hosts = (0..<4).map { ScriptedHost(world, address: 0x02_CB_00_00_00_01 + UInt64($0)) }
    for host in hosts { try host.start() }
    // AD structures of a manufacturer, as many as the data is to have.
    func structures(_ count: Int) -> [UInt8] {
      (0..<count / 25).flatMap { _ in [24, 0xFF, 0xFF, 0xFF] + Array(repeating: 7, count: 21) }
    }
    try hosts[0].advertiseExtended(data: structures(1_000), secondary: .le2M, sid: 1)
    try hosts[1].advertiseExtended(.scannable, response: structures(500), sid: 2)
    try hosts[2].advertiseExtended(.connectable, data: structures(100), primary: .leCoded, secondary: .leCoded, sid: 3)
    try hosts[3].scanExtended(.active, phys: [.le1M, .leCoded])
    world.simulator.advance(by: .seconds(2))
    try hosts[3].stopScanExtended()
    #expect(try hosts[3].connectExtended(to: hosts[2].publicAddress, phys: [.le1M, .leCoded]) == .success)
    world.simulator.advance(by: .seconds(1))
    let bytes = file.bytes
    var kinds: [AirPCAP.Auxiliary: Int] = [:]
    var types: Set<UInt8> = []
    var hasCoded = false
    try AirPCAP.read(bytes.span.bytes) { record in
      if record.accessAddress != LinkLayer.advertisingAccessAddress {
        #expect(record.kind == .centralToPeripheral || record.kind == .peripheralToCentral)
      } else {
        #expect(record.kind == (record.channel < 37 ? .auxiliaryAdvertising : .advertising))
        types.insert(record.pdu[0] & 0xF)
        guard record.channel < 37, record.pdu[0] & 0xF == 7 else { return }
        kinds[record.auxiliary, default: 0] += 1
        let payload = try ExtendedAdvertisingPayload.decode(Array(record.pdu.dropFirst(2)))
        // Only chains say nobody's name here.
        #expect((record.auxiliary == .auxChainInd) == (payload.advA == nil))
      }
      if record.phy == .leCoded { hasCoded = true }
    }
    #expect(types == [3, 5, 7, 8])
    #expect(hasCoded)
    for kind in [AirPCAP.Auxiliary.auxAdvInd, .auxChainInd, .auxScanRsp] { #expect(kinds[kind, default: 0] > 5) }
    #expect(kinds[.auxSyncInd] == nil)
    if let folder = ProcessInfo.processInfo.environment["CAPTURE_DIR"] {
      try Data(bytes).write(to: URL(fileURLWithPath: folder).appending(path: "unit-extended-air.pcap"))
    }
    withExtendedLifetime(capture) {}
  }
}
