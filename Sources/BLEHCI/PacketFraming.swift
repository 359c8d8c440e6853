// SPDX-License-Identifier: Apache-2.0

public import BLECore

/// A command packet without its H4 indicator: opcode, length, parameters (Vol 4 Part E 5.4.1).
@frozen
public struct HCICommandPacket: ~Escapable {
  public let opcode: HCIOpcode
  public let parameters: RawSpan

  /// Throws if the length octet and the number of octets differ.
  @_lifetime(copy payload)
  public init(_ payload: RawSpan) throws(DecodeError) {
    var reader = ByteReader(payload)
    opcode = HCIOpcode(rawValue: try reader.u16())
    let length = Int(try reader.u8())
    parameters = try reader.span(length)
    try reader.expectEnd()
  }
}

/// An event packet without its H4 indicator: event code, length, parameters (Vol 4 Part E 5.4.4).
@frozen
public struct HCIEventPacket: ~Escapable {
  public let code: HCIEventCode
  public let parameters: RawSpan

  /// Throws if the length octet and the number of octets differ.
  @_lifetime(copy payload)
  public init(_ payload: RawSpan) throws(DecodeError) {
    var reader = ByteReader(payload)
    code = HCIEventCode(rawValue: try reader.u8())
    let length = Int(try reader.u8())
    parameters = try reader.span(length)
    try reader.expectEnd()
  }
}

extension HCICommand {
  /// Writes the whole command packet (without H4 indicator): opcode, length, parameters.
  public func encodePacket(into writer: inout ByteWriter) {
    writer.u16(Self.opcode.rawValue)
    writer.lengthPrefixed { encode(into: &$0) }
  }
}

extension HCIEvent {
  /// Writes the whole event packet (without H4 indicator): event code, length, parameters.
  public func encodePacket(into writer: inout ByteWriter) {
    writer.u8(Self.code.rawValue)
    writer.lengthPrefixed { encode(into: &$0) }
  }
}

extension LEMetaEvent {
  /// Writes the whole LE Meta event packet (without H4 indicator).
  public func encodePacket(into writer: inout ByteWriter) {
    writer.u8(HCIEventCode.leMeta.rawValue)
    writer.lengthPrefixed {
      $0.u8(Self.subevent.rawValue)
      encode(into: &$0)
    }
  }
}

extension CommandComplete {
  /// Writes a whole Command Complete event packet (without H4 indicator) that carries `returnParameters`.
  public func encodePacket(_ returnParameters: some HCIReturnParameters, into writer: inout ByteWriter) {
    writer.u8(Self.code.rawValue)
    writer.lengthPrefixed {
      encode(into: &$0)
      returnParameters.encode(into: &$0)
    }
  }
}

extension ByteWriter {
  /// A length octet, then what `body` writes: at most 255 octets. Every wire type keeps to that, other than reports
  /// with more data than one event holds, which are the caller's to divide.
  mutating func lengthPrefixed(_ body: (inout ByteWriter) -> Void) {
    let offset = count
    u8(0)
    body(&self)
    patch(u8: UInt8(truncatingIfNeeded: count - offset - 1), at: offset)
  }
}

/// The head of an ACL data packet (Vol 4 Part E 5.4.2); `dataLength` octets follow.
@frozen
public struct ACLHeader: WireCodable, Hashable, Sendable {
  /// Packet_Boundary_Flag, how L2CAP frames are cut into packets.
  public enum Boundary: UInt8, Hashable, Sendable {
    /// First packet of a frame, host to controller.
    case firstNonFlushable = 0
    case continuing = 1
    /// First packet of a frame, controller to host.
    case first = 2
    /// A complete frame; not used on LE.
    case complete = 3
  }

  /// 12 bits.
  public var connectionHandle: ConnectionHandle
  public var boundary: Boundary
  /// Broadcast_Flag, 2 bits; 0 on LE.
  public var broadcast: UInt8
  public var dataLength: UInt16

  public init(connectionHandle: ConnectionHandle, boundary: Boundary, broadcast: UInt8 = 0, dataLength: UInt16) {
    self.connectionHandle = connectionHandle
    self.boundary = boundary
    self.broadcast = broadcast
    self.dataLength = dataLength
  }

  public init(from reader: inout ByteReader) throws(DecodeError) {
    let word = try reader.u16()
    connectionHandle = ConnectionHandle(rawValue: word & 0x0FFF)
    boundary =
      switch word >> 12 & 3 {
      case 0: .firstNonFlushable
      case 1: .continuing
      case 2: .first
      default: .complete
      }
    broadcast = UInt8(word >> 14)
    dataLength = try reader.u16()
  }

  public func encode(into writer: inout ByteWriter) {
    let flags = UInt16(boundary.rawValue) << 12 | UInt16(broadcast & 3) << 14
    writer.u16(connectionHandle.rawValue & 0x0FFF | flags)
    writer.u16(dataLength)
  }

  /// Octets of the head.
  public static let byteCount = 4
}
