// SPDX-License-Identifier: Apache-2.0

public import BLECore

/// Supported_Commands: 64 octets, a bit for each command of the controller (Vol 4 Part E 6.27).
public struct SupportedCommands: WireCodable, Hashable, Sendable {
  private var words: InlineArray<8, UInt64>

  /// No command.
  public init() { words = InlineArray(repeating: 0) }

  public init(from reader: inout ByteReader) throws(DecodeError) {
    words = InlineArray(repeating: 0)
    guard reader.remaining >= 64 else {
      throw .truncated(needed: 64, available: reader.remaining, offset: reader.offset)
    }
    for index in 0..<8 { words[index] = try reader.u64() }
  }

  public func encode(into writer: inout ByteWriter) {
    for index in 0..<8 { writer.u64(words[index]) }
  }

  public static func == (a: SupportedCommands, b: SupportedCommands) -> Bool {
    for index in 0..<8 where a.words[index] != b.words[index] { return false }
    return true
  }

  public func hash(into hasher: inout Hasher) {
    for index in 0..<8 { hasher.combine(words[index]) }
  }

  /// The bit `octet`.`bit` of the table.
  public subscript(octet octet: UInt8, bit bit: UInt8) -> Bool {
    get { octet < 64 && words[Int(octet / 8)] >> UInt64(octet % 8 * 8 + bit % 8) & 1 == 1 }
    set {
      guard octet < 64 else { return }
      let mask: UInt64 = 1 << UInt64(octet % 8 * 8 + bit % 8)
      if newValue { words[Int(octet / 8)] |= mask } else { words[Int(octet / 8)] &= ~mask }
    }
  }

  /// Whether the bit of `opcode` is set; false for a command that has no bit (vendor commands) or is unknown here.
  public func contains(_ opcode: HCIOpcode) -> Bool {
    guard let position = Self.position(of: opcode) else { return false }
    return self[octet: position.octet, bit: position.bit]
  }

  /// Sets the bit of `opcode`, if it has one.
  public mutating func insert(_ opcode: HCIOpcode) {
    guard let position = Self.position(of: opcode) else { return }
    self[octet: position.octet, bit: position.bit] = true
  }

  /// Clears the bit of `opcode`, if it has one.
  public mutating func remove(_ opcode: HCIOpcode) {
    guard let position = Self.position(of: opcode) else { return }
    self[octet: position.octet, bit: position.bit] = false
  }

  private static func position(of opcode: HCIOpcode) -> (octet: UInt8, bit: UInt8)? {
    guard let entry = commandTable[opcode.rawValue] else { return nil }
    return (entry.octet, entry.bit)
  }
}
