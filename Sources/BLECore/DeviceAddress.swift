// SPDX-License-Identifier: Apache-2.0

/// BD_ADDR: the 48 bits of a Bluetooth device address (Vol 2 Part B 1.2).
///
/// Printed most significant octet first, `C0:11:22:33:44:55`; on air and in HCI least significant octet first.
@frozen
public struct BDAddress: Hashable, Comparable, Sendable, WireCodable {
  /// The address as a number; the upper 16 bits are zero.
  public let value: UInt64

  /// The low 48 bits of `value`.
  @inlinable public init(_ value: UInt64) { self.value = value & 0xFFFF_FFFF_FFFF }

  @inlinable
  public init(from reader: inout ByteReader) throws(DecodeError) {
    try reader.need(6)
    let low = try reader.u32()
    let high = try reader.u16()
    value = UInt64(high) << 32 | UInt64(low)
  }

  @inlinable
  public func encode(into writer: inout ByteWriter) {
    writer.u32(UInt32(truncatingIfNeeded: value))
    writer.u16(UInt16(truncatingIfNeeded: value >> 32))
  }

  public static let zero = BDAddress(0)
  /// All ones; like zero, what a controller without an address of its own reports.
  public static let allOnes = BDAddress(0xFFFF_FFFF_FFFF)

  @inlinable public static func < (a: BDAddress, b: BDAddress) -> Bool { a.value < b.value }

  /// A static random address (Vol 6 Part B 1.3.2.1) from 46 random bits of `generator`.
  public static func staticRandom(using generator: inout some RandomNumberGenerator) -> BDAddress {
    let mask: UInt64 = 0x3FFF_FFFF_FFFF
    var random: UInt64
    repeat { random = generator.next() & mask } while random == 0 || random == mask
    return BDAddress(random | 0xC000_0000_0000)
  }
}

extension BDAddress: CustomStringConvertible, LosslessStringConvertible {
  public var description: String {
    var text = ""
    for index in stride(from: 40, through: 0, by: -8) {
      let octet = UInt8(truncatingIfNeeded: value >> UInt64(index))
      if !text.isEmpty { text += ":" }
      text += hex(octet)
    }
    return text
  }

  /// Six pairs of hexadecimal digits with colons; nil for anything else.
  public init?(_ description: String) {
    let parts = description.split(separator: ":", omittingEmptySubsequences: false)
    guard parts.count == 6 else { return nil }
    var value: UInt64 = 0
    for part in parts {
      guard part.utf8.count == 2, part.allSatisfy(\.isHexDigit), let octet = UInt8(part, radix: 16) else { return nil }
      value = value << 8 | UInt64(octet)
    }
    self.init(value)
  }
}

/// Address_Type as HCI carries it (Vol 4 Part E 7.7.65.2).
@frozen
public struct AddressType: RawRepresentable, Hashable, Sendable {
  public let rawValue: UInt8
  @inlinable public init(rawValue: UInt8) { self.rawValue = rawValue }

  public static let publicDevice = AddressType(rawValue: 0)
  public static let random = AddressType(rawValue: 1)
  /// A public identity address that the controller resolved.
  public static let publicIdentity = AddressType(rawValue: 2)
  /// A static random identity address that the controller resolved.
  public static let randomIdentity = AddressType(rawValue: 3)
  /// Extended advertising without an address.
  public static let anonymous = AddressType(rawValue: 0xFF)

  /// Public or random, whether resolved or not: the one bit that goes on air (TxAdd).
  @inlinable public var onAir: AddressType { rawValue & 1 == 0 ? .publicDevice : .random }
}

/// A device address with its type: what identifies a device on air.
@frozen
public struct DeviceAddress: Hashable, Sendable {
  public var type: AddressType
  public var address: BDAddress

  @inlinable
  public init(_ address: BDAddress, type: AddressType) {
    self.address = address
    self.type = type
  }

  /// What kind of random address the two most significant bits say (Vol 6 Part B 1.3.2).
  public enum Kind: Hashable, Sendable {
    case publicDevice, staticRandom, resolvablePrivate, nonResolvablePrivate, reserved
  }

  public var kind: Kind {
    guard type.onAir == .random else { return .publicDevice }
    return switch address.value >> 46 {
    case 3: .staticRandom
    case 1: .resolvablePrivate
    case 0: .nonResolvablePrivate
    default: .reserved
    }
  }
}

extension DeviceAddress: CustomStringConvertible {
  public var description: String {
    type.onAir == .random ? "\(address) (random)" : "\(address) (public)"
  }
}

/// Two upper-case hexadecimal digits.
func hex(_ octet: UInt8) -> String {
  let digits = String(octet, radix: 16, uppercase: true)
  return digits.utf8.count == 1 ? "0" + digits : digits
}
