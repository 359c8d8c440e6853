// SPDX-License-Identifier: Apache-2.0

/// Why bytes could not be decoded, and where. Every decoder of every layer throws this and nothing else.
public enum DecodeError: Error, Hashable, Sendable {
  /// `needed` more octets were wanted at `offset`, `available` were there.
  case truncated(needed: Int, available: Int, offset: Int)
  /// The value ended at `offset`, `count` octets follow it.
  case trailingBytes(count: Int, offset: Int)
  /// A field holds a value its definition excludes (`field` is the specification's name for it).
  case invalidValue(field: String, value: UInt64, offset: Int)
}

extension DecodeError: CustomStringConvertible {
  public var description: String {
    switch self {
    case .truncated(let needed, let available, let offset):
      "truncated: \(needed) octets needed at offset \(offset), \(available) there"
    case .trailingBytes(let count, let offset):
      "\(count) octets too many at offset \(offset)"
    case .invalidValue(let field, let value, let offset):
      "\(field) must not be 0x\(String(value, radix: 16)) (offset \(offset))"
    }
  }
}

/// A bounds-checked little-endian cursor over bytes that somebody else owns.
///
/// Each read moves the cursor; a read past the end throws and moves nothing. Reading never allocates, except
/// for ``array(_:)`` and ``restArray()``.
@frozen
public struct ByteReader: ~Escapable {
  @usableFromInline let bytes: RawSpan
  /// The octet that the next read starts with.
  public var offset: Int

  @inlinable
  @_lifetime(copy bytes)
  public init(_ bytes: RawSpan) {
    self.bytes = bytes
    self.offset = 0
  }

  /// How many octets are left.
  @inlinable public var remaining: Int { bytes.byteCount - offset }
  @inlinable public var isAtEnd: Bool { offset == bytes.byteCount }

  @inlinable
  func need(_ count: Int) throws(DecodeError) {
    guard count <= bytes.byteCount - offset else {
      throw .truncated(needed: count, available: bytes.byteCount - offset, offset: offset)
    }
  }

  @inlinable
  @_lifetime(self: copy self)
  public mutating func u8() throws(DecodeError) -> UInt8 {
    try need(1)
    let value = bytes.unsafeLoadUnaligned(fromUncheckedByteOffset: offset, as: UInt8.self)
    offset += 1
    return value
  }

  /// An octet in two's complement (RSSI, power levels).
  @inlinable
  @_lifetime(self: copy self)
  public mutating func i8() throws(DecodeError) -> Int8 { Int8(bitPattern: try u8()) }

  @inlinable
  @_lifetime(self: copy self)
  public mutating func u16() throws(DecodeError) -> UInt16 {
    try need(2)
    let value = bytes.unsafeLoadUnaligned(fromUncheckedByteOffset: offset, as: UInt16.self)
    offset += 2
    return UInt16(littleEndian: value)
  }

  @inlinable
  @_lifetime(self: copy self)
  public mutating func u24() throws(DecodeError) -> UInt32 {
    try need(3)
    let low = bytes.unsafeLoadUnaligned(fromUncheckedByteOffset: offset, as: UInt16.self)
    let high = bytes.unsafeLoadUnaligned(fromUncheckedByteOffset: offset + 2, as: UInt8.self)
    offset += 3
    return UInt32(UInt16(littleEndian: low)) | UInt32(high) << 16
  }

  @inlinable
  @_lifetime(self: copy self)
  public mutating func u32() throws(DecodeError) -> UInt32 {
    try need(4)
    let value = bytes.unsafeLoadUnaligned(fromUncheckedByteOffset: offset, as: UInt32.self)
    offset += 4
    return UInt32(littleEndian: value)
  }

  @inlinable
  @_lifetime(self: copy self)
  public mutating func u64() throws(DecodeError) -> UInt64 {
    try need(8)
    let value = bytes.unsafeLoadUnaligned(fromUncheckedByteOffset: offset, as: UInt64.self)
    offset += 8
    return UInt64(littleEndian: value)
  }

  /// The next `count` octets, not copied.
  @inlinable
  @_lifetime(copy self)
  @_lifetime(self: copy self)
  public mutating func span(_ count: Int) throws(DecodeError) -> RawSpan {
    try need(count)
    let part = bytes.extracting(offset..<offset + count)
    offset += count
    return part
  }

  /// Everything that is left, not copied.
  @inlinable
  @_lifetime(copy self)
  @_lifetime(self: copy self)
  public mutating func rest() -> RawSpan {
    let part = bytes.extracting(offset..<bytes.byteCount)
    offset = bytes.byteCount
    return part
  }

  /// The next `count` octets as an array of their own.
  @inlinable
  @_lifetime(self: copy self)
  public mutating func array(_ count: Int) throws(DecodeError) -> [UInt8] {
    let part = try span(count)
    return [UInt8](part)
  }

  /// Everything that is left as an array of its own.
  @inlinable
  @_lifetime(self: copy self)
  public mutating func restArray() -> [UInt8] {
    let part = rest()
    return [UInt8](part)
  }

  @inlinable
  @_lifetime(self: copy self)
  public mutating func skip(_ count: Int) throws(DecodeError) {
    try need(count)
    offset += count
  }

  /// Throws ``DecodeError/trailingBytes(count:offset:)`` if anything is left.
  @inlinable
  public func expectEnd() throws(DecodeError) {
    guard isAtEnd else { throw .trailingBytes(count: remaining, offset: offset) }
  }
}

extension [UInt8] {
  /// A copy of the bytes of `span`.
  @inlinable
  public init(_ span: RawSpan) {
    self = unsafe span.withUnsafeBytes { unsafe [UInt8]($0) }
  }
}
