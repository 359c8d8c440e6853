// SPDX-License-Identifier: Apache-2.0

import BLECore

/// HCI packets as one line of text each, decoded by the wire types. Keys are never shown.
public enum HCITrace {
  /// One line without a line break, such as
  /// `-> LE Set Scan Enable (0x200C) enable=true filterDuplicates=false`.
  /// `payload` is the packet without its H4 indicator; it may be damaged.
  public static func line(_ direction: HCIDirection, _ type: HCIPacketType, _ payload: RawSpan) -> String {
    let arrow = direction == .hostToController ? "->" : "<-"
    do throws(DecodeError) {
      return "\(arrow) \(try text(type, payload))"
    } catch {
      return "\(arrow) malformed \(name(type)), \(payload.byteCount) octets: \(error)"
    }
  }

  private static func name(_ type: HCIPacketType) -> String {
    switch type {
    case .command: "command"
    case .aclData: "ACL data"
    case .synchronousData: "synchronous data"
    case .event: "event"
    case .isoData: "ISO data"
    default: "packet of type \(type.rawValue)"
    }
  }

  private static func text(_ type: HCIPacketType, _ payload: RawSpan) throws(DecodeError) -> String {
    switch type {
    case .command: return try commandText(HCICommandPacket(payload))
    case .event: return try eventText(HCIEventPacket(payload))
    case .aclData:
      var reader = ByteReader(payload)
      let header = try ACLHeader(from: &reader)
      return "ACL data \(value(header.connectionHandle)) \(header.boundary) \(header.dataLength) octets"
    default: return "\(name(type)) \(payload.byteCount) octets"
    }
  }

  private static func commandText(_ packet: borrowing HCICommandPacket) throws(DecodeError) -> String {
    guard let type = HCICatalog.command(packet.opcode) else {
      return "\(packet.opcode) \(packet.parameters.byteCount) octets"
    }
    return "\(packet.opcode)" + fields(of: try type.decode(packet.parameters))
  }

  private static func eventText(_ packet: borrowing HCIEventPacket) throws(DecodeError) -> String {
    var reader = ByteReader(packet.parameters)
    switch packet.code {
    case .commandComplete: return try commandCompleteText(&reader)
    case .commandStatus:
      let event = try CommandStatus.decode(packet.parameters)
      return "CommandStatus \(event.commandOpcode) status=\(value(event.status)) credits=\(event.numHCICommandPackets)"
    case .leMeta:
      let subevent = LESubevent(rawValue: try reader.u8())
      guard let type = HCICatalog.leMetaEvent(subevent) else {
        return "LE Meta event \(subevent.rawValue) \(packet.parameters.byteCount) octets"
      }
      return "\(type)" + fields(of: try type.decode(reader.rest()))
    default:
      guard let type = HCICatalog.event(packet.code) else {
        return "event \(packet.code.rawValue) \(packet.parameters.byteCount) octets"
      }
      return "\(type)" + fields(of: try type.decode(packet.parameters))
    }
  }

  private static func commandCompleteText(_ reader: inout ByteReader) throws(DecodeError) -> String {
    let event = try CommandComplete(from: &reader)
    let head = "CommandComplete \(event.commandOpcode)"
    let credits = " credits=\(event.numHCICommandPackets)"
    guard let type = HCICatalog.command(event.commandOpcode) else {
      return "\(head) \(reader.remaining) octets\(credits)"
    }
    return head + (try returnFields(of: type, &reader)) + credits
  }

  private static func returnFields<C: HCICommand>(
    of type: C.Type, _ reader: inout ByteReader
  ) throws(DecodeError) -> String {
    fields(of: try C.ReturnParameters(from: &reader))
  }

  private static let secrets: Set<String> = [
    "key", "plaintextData", "encryptedData", "longTermKey", "peerIRK", "localIRK", "dhKey",
  ]

  private static func fields(of subject: Any) -> String {
    Mirror(reflecting: subject).children.reduce(into: "") { text, child in
      guard let label = child.label else { return }
      text += " \(label)=\(secrets.contains(label) ? "(secret)" : value(child.value))"
    }
  }

  private static func value(_ subject: Any) -> String {
    switch subject {
    case let status as HCIStatus: status.name ?? status.description
    case let handle as ConnectionHandle: "0x" + hex(UInt8(handle.rawValue >> 8)) + hex(UInt8(handle.rawValue & 0xFF))
    case let bytes as [UInt8]: bytes.isEmpty ? "(empty)" : bytes.map(hex).joined()
    case let address as BDAddress: address.description
    case is SupportedCommands: "(64 octets)"
    case let array as [Any]: "[" + array.map { "{" + fields(of: $0).dropFirst() + "}" }.joined(separator: " ") + "]"
    case let raw as any RawRepresentable: "\(raw.rawValue)"
    default: "\(subject)"
    }
  }

  private static func hex(_ octet: UInt8) -> String {
    let digits = String(octet, radix: 16)
    return digits.utf8.count == 1 ? "0" + digits : digits
  }
}
