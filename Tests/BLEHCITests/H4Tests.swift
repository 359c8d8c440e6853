// SPDX-License-Identifier: Apache-2.0

import BLECore
import BLEHCI
import Foundation
import TestSupport
import Testing

struct H4Tests {
  /// Feeds `stream` in the pieces that `cut` says, and collects the packets with their indicators.
  private func parse(_ stream: [UInt8], cut: () -> Int) throws(H4Error) -> [[UInt8]] {
    var parser = H4Parser()
    var packets: [[UInt8]] = []
    var offset = 0
    while offset < stream.count {
      let end = min(stream.count, offset + max(1, cut()))
      let piece = Array(stream[offset..<end])
      try parser.receive(piece.span.bytes) { packets.append([$0.rawValue] + [UInt8]($1)) }
      offset = end
    }
    return packets
  }

  @Test func theCapturedStreamFallsIntoItsPackets() throws {
    let file = try VectorFile("hci_stream")
    let stream = try #require(file.root.bytes("stream"))
    let expected = file.root.objects("packets").compactMap { $0.bytes("packet") }
    #expect(expected.count == 118)
    #expect(try parse(stream, cut: { stream.count }) == expected)
    for size in 1...40 { #expect(try parse(stream, cut: { size }) == expected, "pieces of \(size)") }
    for seed in 0..<200 as Range<UInt64> {
      var random = SeededGenerator(seed: seed)
      let packets = try parse(stream) { Int.random(in: 1...60, using: &random) }
      #expect(packets == expected, "seed \(seed)")
    }
  }

  @Test func theCapturedStreamDecodes() throws {
    let file = try VectorFile("hci_stream")
    var reports = 0
    for example in file.root.objects("packets") {
      let packet = try #require(example.bytes("packet"))
      guard packet.first == HCIPacketType.event.rawValue else { continue }
      let payload = Array(packet.dropFirst())
      let event = try HCIEventPacket(payload.span.bytes)
      #expect(event.code.rawValue == UInt8(example.string("event_code") ?? "", radix: 16))
      guard event.code == .leMeta, example.string("subevent") == "02" else { continue }
      let report = try LEAdvertisingReport.decode(Array(payload.dropFirst(3)))
      let expected = example.objects("reports")
      #expect(report.reports.count == expected.count)
      for (report, json) in zip(report.reports, expected) {
        #expect(report.address.description == json.string("address"))
        #expect(report.data == json.bytes("data"))
        #expect(Int(report.rssi) == json.int("rssi"))
        reports += 1
      }
    }
    #expect(reports == 28)
  }

  @Test func allPacketTypesCarryTheirLength() throws {
    let packets: [[UInt8]] = [
      [0x01, 0x03, 0x0C, 0x00],
      [0x02, 0x40, 0x20, 0x02, 0x01] + [UInt8](repeating: 7, count: 0x102),
      [0x03, 0x40, 0x00, 0x03, 1, 2, 3],
      [0x04, 0x0E, 0x00],
      [0x05, 0x40, 0x20, 0x01, 0xC0, 9],
    ]
    let stream = packets.flatMap { $0 }
    for size in 1...stream.count { #expect(try parse(stream, cut: { size }) == packets, "pieces of \(size)") }
  }

  @Test func anUnknownIndicatorEndsTheStream() throws {
    let stream: [UInt8] = [0x04, 0x0E, 0x01, 0x05, 0x77, 0x04, 0x0E, 0x00]
    for size in 1...stream.count {
      var parser = H4Parser()
      var count = 0
      var failures: [H4Error] = []
      for start in stride(from: 0, to: stream.count, by: size) {
        let piece = Array(stream[start..<min(start + size, stream.count)])
        do throws(H4Error) { try parser.receive(piece.span.bytes) { _, _ in count += 1 } } catch {
          failures.append(error)
        }
      }
      #expect(count == 1, "pieces of \(size)")
      #expect(!failures.isEmpty && failures.allSatisfy { $0 == .unknownIndicator(0x77, position: 4) })
    }
    #expect(H4Error.unknownIndicator(0x77, position: 4).description.contains("0x77"))
  }

  @Test func anyOctetsAreSurvived() throws {
    let seed: UInt64 = 4
    let examples = try VectorFile("hci_packets").cases.compactMap { $0.bytes("packet") }
    for bytes in HostileBytes(seed: seed, count: 20_000, examples: examples) {
      var parser = H4Parser()
      var octets = 0
      try? parser.receive(bytes.span.bytes) { octets += $1.byteCount + 1 }
      #expect(octets <= bytes.count, "seed \(seed): \(bytes.hex)")
    }
  }
}

struct BTSnoopTests {
  private let records: [BTSnoopRecord] = [
    BTSnoopRecord(direction: .hostToController, type: .command, timestamp: 0, payload: [0x03, 0x0C, 0x00]),
    BTSnoopRecord(
      direction: .controllerToHost, type: .event, timestamp: 1_700_000_000_000_001,
      payload: [0x0E, 0x04, 0x01, 0x03, 0x0C, 0x00]),
    BTSnoopRecord(direction: .controllerToHost, type: .aclData, timestamp: -5, payload: [0x40, 0x20, 0x00, 0x00]),
    BTSnoopRecord(direction: .hostToController, type: .aclData, timestamp: 7, payload: []),
  ]

  private func file() -> [UInt8] {
    var writer = ByteWriter()
    BTSnoop.encodeHeader(into: &writer)
    for record in records {
      BTSnoop.encodeRecord(
        record.direction, record.type, timestamp: record.timestamp, payload: record.payload.span.bytes, into: &writer)
    }
    return writer.bytes
  }

  @Test func theFormatIsTheDocumentedOne() {
    let expected =
      "6274736e6f6f7000 00000001 000003ea"
      + "00000004 00000004 00000002 00000000 00dcddb30f2f8000 01030c00"
    #expect(file().prefix(44).elementsEqual([UInt8](hex: expected) ?? []))
    // A received event, and data in both directions.
    #expect(file()[44 + 8..<44 + 12] == [0, 0, 0, 3])
  }

  @Test func whatIsWrittenIsReadBack() throws {
    var reader = try BTSnoopReader(file())
    #expect(try reader.readAll() == records)
    #expect(try reader.next() == nil)
  }

  @Test func packetsWithoutIndicatorAreToldApartByTheirFlags() throws {
    let head = "6274736e6f6f7000 00000001 000003e9"
    let record = "00000003 00000003 00000002 00000000 00dcddb30f2f8000 030c00"
    var reader = try BTSnoopReader(try #require([UInt8](hex: head + record)))
    #expect(try reader.readAll() == [records[0]])
  }

  @Test func damageIsNamedWithItsPlace() throws {
    let whole = file()
    #expect(throws: BTSnoopError.notBTSnoop) { _ = try BTSnoopReader([1, 2, 3]) }
    #expect(throws: BTSnoopError.truncated(record: 0, offset: 0, needed: 16, available: 12)) {
      _ = try BTSnoopReader(Array(whole.prefix(12)))
    }
    var other = whole
    other[11] = 2
    #expect(throws: BTSnoopError.unsupportedVersion(2)) { _ = try BTSnoopReader(other) }
    other = whole
    other[15] = 0
    #expect(throws: BTSnoopError.unsupportedFormat(0x300)) { _ = try BTSnoopReader(other) }
    other = whole
    other[44 + 4] = 0xFF
    #expect(throws: BTSnoopError.invalidLength(record: 2, offset: 44, length: 0xFF00_0007)) {
      var reader = try BTSnoopReader(other)
      _ = try reader.readAll()
    }
    other = whole
    other[40] = 9
    #expect(throws: BTSnoopError.unknownIndicator(record: 1, offset: 16, indicator: 9)) {
      var reader = try BTSnoopReader(other)
      _ = try reader.readAll()
    }
  }

  @Test func aCutFileGivesItsWholeRecordsThenAnError() throws {
    let whole = file()
    let ends = [16, 44, 75, 104, 129]
    for length in 16...whole.count {
      var reader = try BTSnoopReader(Array(whole.prefix(length)))
      var read = 0
      var failed = false
      do {
        while try reader.next() != nil { read += 1 }
      } catch { failed = true }
      #expect(read == ends.lastIndex { $0 <= length }, "cut at \(length)")
      #expect(failed == !ends.contains(length), "cut at \(length)")
      #expect(try reader.next() == nil)
    }
  }

  @Test func anyFileIsSurvived() {
    let seed: UInt64 = 5
    for bytes in HostileBytes(seed: seed, count: 20_000, examples: [file()]) {
      guard var reader = try? BTSnoopReader(bytes) else { continue }
      let records = (try? reader.readAll()) ?? []
      #expect(records.count <= bytes.count / 24, "seed \(seed): \(bytes.hex)")
    }
  }
}
