// SPDX-License-Identifier: Apache-2.0

public import BLECore

/// One packet of a btsnoop capture.
public struct BTSnoopRecord: Hashable, Sendable {
  public var direction: HCIDirection
  public var type: HCIPacketType
  /// Microseconds since 1970-01-01 00:00 UTC; negative before.
  public var timestamp: Int64
  /// The packet without its H4 indicator.
  public var payload: [UInt8]

  public init(direction: HCIDirection, type: HCIPacketType, timestamp: Int64, payload: [UInt8]) {
    self.direction = direction
    self.type = type
    self.timestamp = timestamp
    self.payload = payload
  }
}

/// The btsnoop file format (RFC 1761 with Bluetooth's data link types), version 1: what `btmon`, Android and Wireshark
/// read and write. All integers are big-endian.
public enum BTSnoop {
  static let magic: [UInt8] = [0x62, 0x74, 0x73, 0x6E, 0x6F, 0x6F, 0x70, 0x00]
  static let version: UInt32 = 1
  /// Un-encapsulated HCI: packets without H4 indicator.
  static let formatHCI: UInt32 = 1001
  /// HCI UART (H4): packets with H4 indicator.
  static let formatH4: UInt32 = 1002
  static let headerByteCount = 16
  static let recordHeaderByteCount = 24
  /// A record longer than any HCI packet with its indicator is damage.
  static let recordByteCountMax = 1 + 4 + 0xFFFF
  /// Microseconds from the format's year 0 to 1970.
  static let epoch: Int64 = 0x00DC_DDB3_0F2F_8000

  /// Writes what a file begins with.
  public static func encodeHeader(into writer: inout ByteWriter) {
    writer.bytes(magic)
    writer.u32(version.byteSwapped)
    writer.u32(formatH4.byteSwapped)
  }

  /// Writes one record. `payload` is the packet without its H4 indicator, `timestamp` microseconds since 1970.
  public static func encodeRecord(
    _ direction: HCIDirection, _ type: HCIPacketType, timestamp: Int64, payload: RawSpan, into writer: inout ByteWriter
  ) {
    let length = UInt32(truncatingIfNeeded: payload.byteCount + 1)
    let isReceived: UInt32 = direction == .controllerToHost ? 1 : 0
    let isCommandOrEvent: UInt32 = type == .command || type == .event ? 2 : 0
    writer.u32(length.byteSwapped)
    writer.u32(length.byteSwapped)
    writer.u32((isReceived | isCommandOrEvent).byteSwapped)
    writer.u32(0)
    writer.u64(UInt64(bitPattern: timestamp &+ epoch).byteSwapped)
    writer.h4(type, payload)
  }
}

/// What is wrong with a btsnoop file, and where.
public enum BTSnoopError: Error, Hashable, Sendable, CustomStringConvertible {
  /// The file does not begin with "btsnoop".
  case notBTSnoop
  case unsupportedVersion(UInt32)
  /// The data link type is neither 1001 nor 1002.
  case unsupportedFormat(UInt32)
  /// The file ends within a record. Records count from 1, `offset` is where the record begins.
  case truncated(record: Int, offset: Int, needed: Int, available: Int)
  /// A record's length is impossible.
  case invalidLength(record: Int, offset: Int, length: UInt32)
  /// A record begins with an octet that is no packet indicator.
  case unknownIndicator(record: Int, offset: Int, indicator: UInt8)

  public var description: String {
    switch self {
    case .notBTSnoop: "not a btsnoop file: it does not begin with \"btsnoop\""
    case .unsupportedVersion(let version): "btsnoop version \(version) is not supported, only 1 is"
    case .unsupportedFormat(let format):
      "btsnoop data link type \(format) is not supported, only 1001 (HCI) and 1002 (H4) are"
    case .truncated(let record, let offset, let needed, let available):
      "record \(record) at octet \(offset) is cut off: \(needed) octets needed, \(available) there"
    case .invalidLength(let record, let offset, let length):
      "record \(record) at octet \(offset) is damaged: it cannot be \(length) octets long"
    case .unknownIndicator(let record, let offset, let indicator):
      "record \(record) at octet \(offset) is damaged: 0x\(String(indicator, radix: 16)) is no packet type"
    }
  }
}

/// Reads a btsnoop file, of format 1001 or 1002, record by record.
public struct BTSnoopReader {
  private let file: [UInt8]
  private let format: UInt32
  private var offset = BTSnoop.headerByteCount
  private var record = 0

  /// `file` is the whole file. Throws if its head is wrong.
  public init(_ file: [UInt8]) throws(BTSnoopError) {
    guard file.starts(with: BTSnoop.magic) else { throw .notBTSnoop }
    guard file.count >= BTSnoop.headerByteCount else {
      throw .truncated(record: 0, offset: 0, needed: BTSnoop.headerByteCount, available: file.count)
    }
    self.file = file
    let version = Self.u32(file, 8)
    guard version == BTSnoop.version else { throw .unsupportedVersion(version) }
    format = Self.u32(file, 12)
    guard format == BTSnoop.formatHCI || format == BTSnoop.formatH4 else { throw .unsupportedFormat(format) }
  }

  /// The next record, nil at the end of the file. After an error there is nothing more to read.
  public mutating func next() throws(BTSnoopError) -> BTSnoopRecord? {
    guard offset < file.count else { return nil }
    record += 1
    let start = offset
    offset = file.count
    let available = file.count - start
    guard available >= BTSnoop.recordHeaderByteCount else {
      throw .truncated(record: record, offset: start, needed: BTSnoop.recordHeaderByteCount, available: available)
    }
    let length = Self.u32(file, start + 4)
    guard length >= (format == BTSnoop.formatH4 ? 1 : 0), length <= UInt32(BTSnoop.recordByteCountMax),
      length <= Self.u32(file, start)
    else { throw .invalidLength(record: record, offset: start, length: length) }
    let end = start + BTSnoop.recordHeaderByteCount + Int(length)
    guard end <= file.count else {
      throw .truncated(record: record, offset: start, needed: end - start, available: available)
    }
    let result = try decode(start, end)
    offset = end
    return result
  }

  /// All records that are left.
  public mutating func readAll() throws(BTSnoopError) -> [BTSnoopRecord] {
    var records: [BTSnoopRecord] = []
    while let record = try next() { records.append(record) }
    return records
  }

  private func decode(_ start: Int, _ end: Int) throws(BTSnoopError) -> BTSnoopRecord {
    let flags = Self.u32(file, start + 8)
    let time = UInt64(Self.u32(file, start + 16)) << 32 | UInt64(Self.u32(file, start + 20))
    let direction: HCIDirection = flags & 1 == 1 ? .controllerToHost : .hostToController
    var body = start + BTSnoop.recordHeaderByteCount
    let type: HCIPacketType
    if format == BTSnoop.formatH4 {
      type = HCIPacketType(rawValue: file[body])
      body += 1
    } else if flags & 2 == 0 {
      type = .aclData
    } else {
      type = direction == .hostToController ? .command : .event
    }
    guard (1...5).contains(type.rawValue) else {
      throw .unknownIndicator(record: record, offset: start, indicator: type.rawValue)
    }
    return BTSnoopRecord(
      direction: direction, type: type, timestamp: Int64(bitPattern: time) &- BTSnoop.epoch,
      payload: Array(file[body..<end]))
  }

  /// Four octets at `offset`, which the caller knows to be there.
  private static func u32(_ bytes: [UInt8], _ offset: Int) -> UInt32 {
    bytes[offset..<offset + 4].reduce(0) { $0 << 8 | UInt32($1) }
  }
}
