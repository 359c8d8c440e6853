// SPDX-License-Identifier: Apache-2.0

import BLECore
import BLEHCI
import Foundation
import TestSupport
import Testing

/// Every packet of `Vectors/hci_packets.json`, decoded, compared field by field, and encoded again.
struct HCIPacketVectorTests {
  let file: VectorFile

  init() throws { file = try VectorFile("hci_packets") }

  @Test func validPacketsDecodeAndEncode() throws {
    var count = 0
    for example in file.cases where example.bool("valid") == true {
      let packet = try #require(example.bytes("packet"))
      let decoded = try #require(example.child("decoded"))
      let payload = Array(packet.dropFirst())
      switch packet.first {
      case 1: try checkCommand(payload, decoded, example.name)
      case 2: try checkACL(payload, decoded, example.name)
      case 4: try checkEvent(payload, decoded, example.name)
      default: Issue.record("\(example.name): unexpected indicator")
      }
      count += 1
    }
    #expect(count == 175)
  }

  private func checkCommand(_ payload: [UInt8], _ decoded: VectorCase, _ name: String) throws {
    let bytes = payload.span.bytes
    let packet = try HCICommandPacket(bytes)
    #expect(packet.opcode.rawValue == UInt16(decoded.string("opcode") ?? "", radix: 16), "\(name)")
    #expect(Int(packet.opcode.ogf) == decoded.int("ogf") && Int(packet.opcode.ocf) == decoded.int("ocf"), "\(name)")
    let type = try #require(HCICatalog.command(packet.opcode), "\(name)")
    let value = try type.decode(packet.parameters)
    checkFields(value, try #require(decoded.child("parameters")), name)
    var writer = ByteWriter()
    value.encodePacket(into: &writer)
    #expect(writer.bytes == payload, "\(name)")
  }

  private func checkEvent(_ payload: [UInt8], _ decoded: VectorCase, _ name: String) throws {
    let bytes = payload.span.bytes
    let packet = try HCIEventPacket(bytes)
    #expect(packet.code.rawValue == UInt8(decoded.string("event_code") ?? "", radix: 16), "\(name)")
    var writer = ByteWriter()
    switch packet.code {
    case .commandComplete:
      var reader = ByteReader(packet.parameters)
      let event = try CommandComplete(from: &reader)
      #expect(Int(event.numHCICommandPackets) == decoded.int("num_hci_command_packets"), "\(name)")
      #expect(event.commandOpcode.rawValue == UInt16(decoded.string("command_opcode") ?? "", radix: 16), "\(name)")
      guard let type = HCICatalog.command(event.commandOpcode) else { return }
      let parameters = try decodeReturn(type, reader.rest())
      checkFields(parameters, try #require(decoded.child("return_parameters")), name)
      event.encodePacket(parameters, into: &writer)
    case .commandStatus:
      let event = try CommandStatus.decode(packet.parameters)
      #expect(Int(event.status.rawValue) == decoded.int("status"), "\(name)")
      #expect(Int(event.numHCICommandPackets) == decoded.int("num_hci_command_packets"), "\(name)")
      #expect(event.commandOpcode.rawValue == UInt16(decoded.string("command_opcode") ?? "", radix: 16), "\(name)")
      event.encodePacket(into: &writer)
    case .leMeta:
      var reader = ByteReader(packet.parameters)
      let subevent = LESubevent(rawValue: try reader.u8())
      #expect(subevent.rawValue == UInt8(decoded.string("subevent_code") ?? "", radix: 16), "\(name)")
      let type = try #require(HCICatalog.leMetaEvent(subevent), "\(name)")
      let value = try type.decode(reader.rest())
      checkFields(value, try #require(decoded.child("parameters")), name)
      value.encodePacket(into: &writer)
    default:
      let type = try #require(HCICatalog.event(packet.code), "\(name)")
      let value = try type.decode(packet.parameters)
      checkFields(value, try #require(decoded.child("parameters")), name)
      value.encodePacket(into: &writer)
    }
    #expect(writer.bytes == payload, "\(name)")
  }

  private func checkACL(_ payload: [UInt8], _ decoded: VectorCase, _ name: String) throws {
    let bytes = payload.span.bytes
    var reader = ByteReader(bytes)
    let header = try ACLHeader(from: &reader)
    #expect(Int(header.connectionHandle.rawValue) == decoded.int("connection_handle"), "\(name)")
    #expect(Int(header.boundary.rawValue) == decoded.int("pb_flag"), "\(name)")
    #expect(Int(header.broadcast) == decoded.int("bc_flag"), "\(name)")
    #expect(Int(header.dataLength) == decoded.int("data_length"), "\(name)")
    #expect(reader.remaining == Int(header.dataLength), "\(name)")
    #expect(reader.restArray() == decoded.bytes("data"), "\(name)")
    #expect(header.encoded == Array(payload.prefix(ACLHeader.byteCount)), "\(name)")
  }

  private func decodeReturn<C: HCICommand>(_ type: C.Type, _ bytes: RawSpan) throws -> any HCIReturnParameters {
    try C.ReturnParameters.decode(bytes)
  }

  // MARK: Fields

  /// Counts and lengths, which the types derive from their arrays.
  private static let derived: Set<String> = [
    "number_of_handles", "num_handles", "num_reports", "num_sets", "length", "data_length",
    "advertising_data_length", "scan_response_data_length",
  ]
  private static let renamed = ["completed": "numcompletedpackets"]

  /// Every key of `json` has a field of that name in `value`, with the same content, and every field a key.
  private func checkFields(_ value: Any, _ json: VectorCase, _ name: String) {
    var fields: [String: Any] = [:]
    for child in Mirror(reflecting: value).children {
      fields[child.label?.lowercased() ?? "?"] = child.value
    }
    let counts = fields.values.compactMap { ($0 as? [Any])?.count }
    for (key, expected) in json.object {
      if Self.derived.contains(key) {
        #expect(counts.contains(json.int(key) ?? -1), "\(name): \(key)")
        continue
      }
      let field = Self.renamed[key] ?? key.replacing("_", with: "")
      guard let actual = fields.removeValue(forKey: field) else {
        Issue.record("\(name): no field for \(key)")
        continue
      }
      check(actual, expected, "\(name): \(key)")
    }
    #expect(fields.isEmpty, "\(name): fields without a value in the example: \(fields.keys)")
  }

  private func check(_ actual: Any, _ expected: Any, _ name: String) {
    switch expected {
    case let list as [[String: Any]]:
      guard let values = actual as? [Any], values.count == list.count else {
        Issue.record("\(name): \(actual) is no list of \(list.count)")
        return
      }
      for (value, json) in zip(values, list) { checkFields(value, VectorCase(json), name) }
    case let text as String: check(actual, text: text, name)
    case let number as NSNumber: #expect(integer(actual) == number.intValue, "\(name): \(actual)")
    default: Issue.record("\(name): \(expected) cannot be compared")
    }
  }

  private func check(_ actual: Any, text: String, _ name: String) {
    switch actual {
    case let address as BDAddress: #expect(address.description == text, "\(name)")
    case let mask as UInt64:
      let octets = (0..<text.utf8.count / 2).map { UInt8(truncatingIfNeeded: mask >> UInt64(8 * $0)) }
      #expect(octets.hex == text && mask.leadingZeroBitCount >= 64 - octets.count * 8, "\(name)")
    case let commands as SupportedCommands: #expect(commands.encoded.hex == text, "\(name)")
    case let bytes as [UInt8]:
      // Legacy advertising data are padded with zeros in the packet.
      let padding = String(repeating: "0", count: max(0, text.utf8.count - bytes.count * 2))
      #expect(bytes.hex + padding == text, "\(name)")
    default: Issue.record("\(name): \(actual) is not \(text)")
    }
  }

  private func integer(_ value: Any) -> Int? {
    switch value {
    case let flag as Bool: flag ? 1 : 0
    case let number as any BinaryInteger: Int(number)
    case let raw as any RawRepresentable: integer(raw.rawValue)
    default: nil
    }
  }

  // MARK: Invalid packets

  private enum Fate {
    /// The decoder throws.
    case refused
    /// There is no type for it.
    case unknown
    /// It decodes; what is wrong with it is the matter of another layer (or of a test of its own here).
    case decoded
    /// The octets are no H4 stream.
    case noStream
    /// Nothing arrives.
    case nothing
  }

  private static let fates: [String: Fate] = [
    "event shorter than its length octet": .refused,
    "event longer than its length octet": .refused,
    "command complete without opcode": .refused,
    "command status too short": .refused,
    "LE meta with no subevent": .refused,
    "LE connection complete too short": .refused,
    "LE advertising report, num_reports 0": .refused,
    "LE advertising report, data length overruns": .refused,
    "LE advertising report, num_reports larger than data": .decoded,
    "LE advertising report, RSSI octet missing": .refused,
    "LE extended advertising report truncated": .refused,
    "LE extended advertising report, data length 0xFF with 3 octets": .refused,
    "number of completed packets, num_handles too large": .refused,
    "number of completed packets for unknown handle": .decoded,
    "number of completed packets more than outstanding": .decoded,
    "disconnection complete for unknown handle": .decoded,
    "unknown event code": .unknown,
    "unknown LE subevent": .unknown,
    "unsolicited command complete": .decoded,
    "read buffer size with zero length and count": .decoded,
    "encryption change with reserved value": .decoded,
    "LE read remote features status error with short body": .refused,
    "LE long term key request too short": .refused,
    "ACL shorter than header": .refused,
    "ACL length overruns": .refused,
    "ACL for unknown handle": .decoded,
    "ACL continuation with no start": .decoded,
    "ACL start while a frame is incomplete": .decoded,
    "ACL more data than the L2CAP length": .decoded,
    "ACL empty start fragment": .decoded,
    "ACL PB=11 on LE": .decoded,
    "ACL frame length 65535 start only": .decoded,
    "packet indicator 0x00": .noStream,
    "packet indicator 0xFF": .noStream,
    "empty packet": .nothing,
    "command length mismatch (controller side)": .refused,
    "Reset with a parameter (controller side)": .refused,
    "unknown opcode (controller side)": .unknown,
    "LE Set Scan Parameters window larger than interval (controller side)": .decoded,
    "LE Set Advertising Parameters interval below 0x20 (controller side)": .decoded,
    "LE Connection Update timeout too small for latency (controller side)": .decoded,
    "LE Create Connection interval min above max (controller side)": .decoded,
    "Disconnect with reason 0x08 (controller side)": .decoded,
  ]

  @Test func invalidPacketsMeetTheirFate() throws {
    var seen: Set<String> = []
    for example in file.cases where example.bool("valid") == false {
      let packet = try #require(example.bytes("packet"))
      let expected = try #require(Self.fates[example.name], "no fate for \(example.name)")
      #expect(fate(packet) == expected, "\(example.name)")
      seen.insert(example.name)
    }
    #expect(seen == Set(Self.fates.keys))
  }

  private func fate(_ packet: [UInt8]) -> Fate {
    guard let indicator = packet.first else { return .nothing }
    let payload = Array(packet.dropFirst())
    let bytes = payload.span.bytes
    do throws(DecodeError) {
      switch HCIPacketType(rawValue: indicator) {
      case .command:
        let command = try HCICommandPacket(bytes)
        guard let type = HCICatalog.command(command.opcode) else { return .unknown }
        _ = try type.decode(command.parameters)
      case .event: return try eventFate(HCIEventPacket(bytes))
      case .aclData:
        var reader = ByteReader(bytes)
        let header = try ACLHeader(from: &reader)
        _ = try reader.span(Int(header.dataLength))
        try reader.expectEnd()
      default:
        var parser = H4Parser()
        let stream = packet.span.bytes
        do throws(H4Error) { try parser.receive(stream) { _, _ in } } catch { return .noStream }
      }
      return .decoded
    } catch {
      return .refused
    }
  }

  private func eventFate(_ event: borrowing HCIEventPacket) throws(DecodeError) -> Fate {
    var reader = ByteReader(event.parameters)
    if event.code == .leMeta {
      let subevent = LESubevent(rawValue: try reader.u8())
      guard let type = HCICatalog.leMetaEvent(subevent) else { return .unknown }
      _ = try type.decode(reader.rest())
    } else if event.code == .commandComplete {
      _ = try CommandComplete(from: &reader)
    } else {
      guard let type = HCICatalog.event(event.code) else { return .unknown }
      _ = try type.decode(event.parameters)
    }
    return .decoded
  }

  @Test func wholeReportsOfACutEventAreDelivered() throws {
    let example = try #require(
      file.cases.first { $0.name == "LE advertising report, num_reports larger than data" })
    let packet = try #require(example.bytes("packet"))
    let event = try LEAdvertisingReport.decode(Array(packet.dropFirst(4)))
    #expect(event.reports.count == 1)
    #expect(event.reports.first?.rssi == -55)
  }

  @Test func aReservedEncryptionValueIsNotEncrypted() throws {
    let event = try EncryptionChange.decode([0x00, 0x40, 0x00, 0x55])
    #expect(event.encryptionEnabled != .aesCCM)
    #expect(event.encoded == [0x00, 0x40, 0x00, 0x55])
  }
}
