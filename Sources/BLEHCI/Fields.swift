// SPDX-License-Identifier: Apache-2.0

public import BLECore

extension ByteReader {
  /// An octet that is 0 or 1; throws on anything else.
  @_lifetime(self: copy self)
  mutating func flag(_ field: String) throws(DecodeError) -> Bool {
    let value = try u8()
    guard value <= 1 else { throw .invalidValue(field: field, value: UInt64(value), offset: offset - 1) }
    return value == 1
  }

  /// Five octets (channel maps).
  @_lifetime(self: copy self)
  mutating func u40() throws(DecodeError) -> UInt64 {
    guard remaining >= 5 else { throw .truncated(needed: 5, available: remaining, offset: offset) }
    let low = try u32()
    return UInt64(low) | UInt64(try u8()) << 32
  }

  /// Legacy advertising data: a length of 0-31, then always 31 octets of which the first `length` count.
  @_lifetime(self: copy self)
  mutating func legacyData() throws(DecodeError) -> [UInt8] {
    let length = try u8()
    guard length <= 31 else {
      throw .invalidValue(field: "Advertising_Data_Length", value: UInt64(length), offset: offset - 1)
    }
    let field = try span(31)
    return [UInt8](field.extracting(0..<Int(length)))
  }

  /// A length of 0-251 and as many octets.
  @_lifetime(self: copy self)
  mutating func extendedData() throws(DecodeError) -> [UInt8] {
    let length = try u8()
    guard length <= 251 else {
      throw .invalidValue(field: "Advertising_Data_Length", value: UInt64(length), offset: offset - 1)
    }
    return try array(Int(length))
  }

  @_lifetime(self: copy self)
  mutating func skipRest() { offset += remaining }

  /// Whether return parameters of `count` octets follow `status`. A command that failed may be answered by
  /// less: then what there is is skipped.
  @_lifetime(self: copy self)
  mutating func hasReturnParameters(_ count: Int, after status: HCIStatus) throws(DecodeError) -> Bool {
    if remaining >= count { return true }
    guard status != .success else { throw .truncated(needed: count, available: remaining, offset: offset) }
    skipRest()
    return false
  }
}

extension ByteWriter {
  /// The low 40 bits.
  mutating func u40(_ value: UInt64) {
    u32(UInt32(truncatingIfNeeded: value))
    u8(UInt8(truncatingIfNeeded: value >> 32))
  }

  mutating func legacyData(_ data: [UInt8]) {
    u8(UInt8(min(data.count, 31)))
    bytes(data, paddedTo: 31)
  }

  /// A length octet and as many octets of `data`, but no more than `limit`.
  mutating func counted(_ data: [UInt8], atMost limit: Int) {
    let count = min(data.count, limit)
    u8(UInt8(count))
    bytes(data, paddedTo: count)
  }
}

/// How many packets of one connection a controller (or, the other way, a host) is done with.
public struct CompletedPackets: Hashable, Sendable {
  public var connectionHandle: ConnectionHandle
  public var numCompletedPackets: UInt16

  public init(connectionHandle: ConnectionHandle, numCompletedPackets: UInt16) {
    self.connectionHandle = connectionHandle
    self.numCompletedPackets = numCompletedPackets
  }

  /// Calls `body` for each entry of the parameters of a Number Of Completed Packets event (Vol 4 Part E 7.7.19).
  /// Throws before the first call if the entries are not all there.
  public static func forEach(
    in parameters: RawSpan, _ body: (ConnectionHandle, UInt16) -> Void
  ) throws(DecodeError) {
    var reader = ByteReader(parameters)
    let needed = Int(try reader.u8()) * 4
    guard reader.remaining >= needed else {
      throw .truncated(needed: needed, available: reader.remaining, offset: reader.offset)
    }
    guard reader.remaining == needed else {
      throw .trailingBytes(count: reader.remaining - needed, offset: reader.offset + needed)
    }
    while !reader.isAtEnd {
      let handle = ConnectionHandle(rawValue: try reader.u16())
      body(handle, try reader.u16())
    }
  }

  static func list(from reader: inout ByteReader) throws(DecodeError) -> [CompletedPackets] {
    var entries: [CompletedPackets] = []
    for _ in 0..<(try reader.u8()) {
      let handle = ConnectionHandle(rawValue: try reader.u16())
      entries.append(CompletedPackets(connectionHandle: handle, numCompletedPackets: try reader.u16()))
    }
    return entries
  }

  static func encode(_ entries: [CompletedPackets], into writer: inout ByteWriter) {
    writer.u8(UInt8(min(entries.count, 63)))
    for entry in entries.prefix(63) {
      writer.u16(entry.connectionHandle.rawValue)
      writer.u16(entry.numCompletedPackets)
    }
  }
}
