// SPDX-License-Identifier: Apache-2.0

/// A Bluetooth UUID (Vol 3 Part B 2.5.1). 16-, 32- and 128-bit spellings of one UUID are one value.
@frozen
public struct BluetoothUUID: Hashable, Sendable {
  /// The most significant 64 of the 128 bits.
  public let high: UInt64
  /// The least significant 64 bits.
  public let low: UInt64

  @inlinable
  public init(high: UInt64, low: UInt64) {
    self.high = high
    self.low = low
  }

  /// The 16- or 32-bit UUID `short`: `short` * 2^96 + the Bluetooth Base UUID.
  @inlinable
  public init(_ short: UInt32) {
    high = UInt64(short) << 32 | 0x0000_1000
    low = 0x8000_0080_5F9B_34FB
  }

  /// The value as a 32-bit UUID, if it is one of the Base UUID's family.
  @inlinable
  public var uuid32: UInt32? {
    high & 0xFFFF_FFFF == 0x0000_1000 && low == 0x8000_0080_5F9B_34FB ? UInt32(truncatingIfNeeded: high >> 32) : nil
  }

  /// The value as a 16-bit UUID, if it is one.
  @inlinable
  public var uuid16: UInt16? {
    guard let short = uuid32, short <= 0xFFFF else { return nil }
    return UInt16(truncatingIfNeeded: short)
  }

  /// Octets of the shortest form that ATT allows: 2 or 16 (Vol 3 Part F 3.2.1).
  @inlinable public var attByteCount: Int { uuid16 == nil ? 16 : 2 }

  /// Writes the shortest form that ATT allows, least significant octet first.
  @inlinable
  public func encode(into writer: inout ByteWriter) {
    if let short = uuid16 {
      writer.u16(short)
    } else {
      encode128(into: &writer)
    }
  }

  /// Writes all 16 octets, least significant first.
  @inlinable
  public func encode128(into writer: inout ByteWriter) {
    writer.u64(low)
    writer.u64(high)
  }

  /// Reads a UUID of `byteCount` octets, least significant first; 2, 4 and 16 are lengths of a UUID.
  @inlinable
  public init(from reader: inout ByteReader, byteCount: Int) throws(DecodeError) {
    switch byteCount {
    case 2: self.init(UInt32(try reader.u16()))
    case 4: self.init(try reader.u32())
    case 16:
      try reader.need(16)
      let low = try reader.u64()
      self.init(high: try reader.u64(), low: low)
    default: throw .invalidValue(field: "UUID length", value: UInt64(max(0, byteCount)), offset: reader.offset)
    }
  }

  /// The 16 octets, most significant first.
  public var bigEndianBytes: [UInt8] {
    (0..<16).map { index in
      UInt8(truncatingIfNeeded: (index < 8 ? high : low) >> UInt64(56 - index % 8 * 8))
    }
  }

  /// A UUID of 2, 4 or 16 octets, most significant first; nil for another length.
  public init?(bigEndian bytes: [UInt8]) {
    switch bytes.count {
    case 2, 4: self.init(bytes.reduce(0) { $0 << 8 | UInt32($1) })
    case 16:
      self.init(
        high: bytes[0..<8].reduce(0) { $0 << 8 | UInt64($1) }, low: bytes[8..<16].reduce(0) { $0 << 8 | UInt64($1) })
    default: return nil
    }
  }
}

extension BluetoothUUID: CustomStringConvertible, LosslessStringConvertible {
  /// Upper case; 4 digits for a 16-bit UUID, 8 for a 32-bit one, else 8-4-4-4-12.
  public var description: String {
    if let short = uuid16 { return Self.digits(UInt64(short), 4) }
    if let short = uuid32 { return Self.digits(UInt64(short), 8) }
    return longDescription
  }

  /// Upper case, 8-4-4-4-12, also for a short UUID.
  public var longDescription: String {
    let parts = [
      Self.digits(high >> 32, 8), Self.digits(high >> 16 & 0xFFFF, 4), Self.digits(high & 0xFFFF, 4),
      Self.digits(low >> 48, 4), Self.digits(low & 0xFFFF_FFFF_FFFF, 12),
    ]
    return parts.joined(separator: "-")
  }

  /// Four or eight hexadecimal digits, or 8-4-4-4-12 with hyphens, in either case; nil for anything else.
  public init?(_ text: String) {
    let utf8 = Array(text.utf8)
    var digits: [UInt8] = []
    digits.reserveCapacity(32)
    for (index, character) in utf8.enumerated() {
      if utf8.count == 36, [8, 13, 18, 23].contains(index) {
        guard character == UInt8(ascii: "-") else { return nil }
        continue
      }
      guard let digit = Character(UnicodeScalar(character)).hexDigitValue else { return nil }
      digits.append(UInt8(digit))
    }
    guard [4, 8, 36].contains(utf8.count) else { return nil }
    let octets = stride(from: 0, to: digits.count, by: 2).map { digits[$0] << 4 | digits[$0 + 1] }
    self.init(bigEndian: octets)
  }

  private static func digits(_ value: UInt64, _ count: Int) -> String {
    let text = String(value, radix: 16, uppercase: true)
    return String(repeating: "0", count: count - text.utf8.count) + text
  }
}

extension BluetoothUUID: ExpressibleByIntegerLiteral {
  /// A 16- or 32-bit UUID: `let battery: BluetoothUUID = 0x180F`.
  @inlinable public init(integerLiteral value: UInt32) { self.init(value) }
}
