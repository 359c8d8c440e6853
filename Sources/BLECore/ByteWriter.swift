// SPDX-License-Identifier: Apache-2.0

/// An append-only little-endian writer into a buffer that is reused: ``removeAll()`` keeps the memory.
@frozen
public struct ByteWriter: Sendable {
  /// What has been written.
  public var bytes: [UInt8]

  @inlinable
  public init(capacity: Int = 0) {
    bytes = []
    bytes.reserveCapacity(capacity)
  }

  @inlinable public var count: Int { bytes.count }

  @inlinable
  public mutating func removeAll() { bytes.removeAll(keepingCapacity: true) }

  @inlinable
  public mutating func u8(_ value: UInt8) { bytes.append(value) }

  @inlinable
  public mutating func i8(_ value: Int8) { bytes.append(UInt8(bitPattern: value)) }

  @inlinable
  public mutating func u16(_ value: UInt16) {
    bytes.append(UInt8(truncatingIfNeeded: value))
    bytes.append(UInt8(truncatingIfNeeded: value >> 8))
  }

  /// The low 24 bits of `value`.
  @inlinable
  public mutating func u24(_ value: UInt32) {
    u16(UInt16(truncatingIfNeeded: value))
    u8(UInt8(truncatingIfNeeded: value >> 16))
  }

  @inlinable
  public mutating func u32(_ value: UInt32) {
    u16(UInt16(truncatingIfNeeded: value))
    u16(UInt16(truncatingIfNeeded: value >> 16))
  }

  @inlinable
  public mutating func u64(_ value: UInt64) {
    u32(UInt32(truncatingIfNeeded: value))
    u32(UInt32(truncatingIfNeeded: value >> 32))
  }

  @inlinable
  public mutating func bytes(_ span: RawSpan) {
    unsafe span.withUnsafeBytes { unsafe bytes.append(contentsOf: $0) }
  }

  @inlinable
  public mutating func bytes(_ array: [UInt8]) { bytes.append(contentsOf: array) }

  /// `array`, cut or padded with zeros to exactly `count` octets.
  @inlinable
  public mutating func bytes(_ array: [UInt8], paddedTo count: Int) {
    bytes.append(contentsOf: array.prefix(count))
    if array.count < count { bytes.append(contentsOf: repeatElement(0, count: count - array.count)) }
  }

  /// Overwrites two octets written before (a length field that is known only afterwards).
  @inlinable
  public mutating func patch(u16 value: UInt16, at offset: Int) {
    bytes[offset] = UInt8(truncatingIfNeeded: value)
    bytes[offset + 1] = UInt8(truncatingIfNeeded: value >> 8)
  }

  /// Overwrites one octet written before.
  @inlinable
  public mutating func patch(u8 value: UInt8, at offset: Int) { bytes[offset] = value }
}

/// A wire type: its decoder and its encoder stand side by side, in the specification's field order.
///
/// `init(from:)` consumes exactly the octets of the value; who knows that nothing may follow calls
/// ``decode(_:)``. `encode(into:)` of a decoded value writes octets that decode to the same value.
public protocol WireCodable {
  init(from reader: inout ByteReader) throws(DecodeError)
  func encode(into writer: inout ByteWriter)
}

extension WireCodable {
  /// Decodes the whole of `bytes`; throws if anything is left over.
  @inlinable
  public static func decode(_ bytes: RawSpan) throws(DecodeError) -> Self {
    var reader = ByteReader(bytes)
    let value = try Self(from: &reader)
    try reader.expectEnd()
    return value
  }

  /// Decodes the whole of `bytes`; throws if anything is left over.
  @inlinable
  public static func decode(_ bytes: [UInt8]) throws(DecodeError) -> Self {
    try decode(bytes.span.bytes)
  }

  /// The value's octets in an array of their own. Hot paths encode into a reused writer instead.
  @inlinable
  public var encoded: [UInt8] {
    var writer = ByteWriter()
    encode(into: &writer)
    return writer.bytes
  }
}
