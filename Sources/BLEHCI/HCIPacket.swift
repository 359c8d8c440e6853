// SPDX-License-Identifier: Apache-2.0

/// The H4 packet indicator (Vol 4 Part A 2), also used to tell packets apart on transports that have another framing.
@frozen
public struct HCIPacketType: RawRepresentable, Hashable, Sendable {
  public let rawValue: UInt8
  @inlinable public init(rawValue: UInt8) { self.rawValue = rawValue }

  public static let command = HCIPacketType(rawValue: 0x01)
  public static let aclData = HCIPacketType(rawValue: 0x02)
  public static let synchronousData = HCIPacketType(rawValue: 0x03)
  public static let event = HCIPacketType(rawValue: 0x04)
  public static let isoData = HCIPacketType(rawValue: 0x05)
}

/// A command opcode: OGF in the upper 6 bits, OCF in the lower 10 (Vol 4 Part E 5.4.1).
@frozen
public struct HCIOpcode: RawRepresentable, Hashable, Sendable {
  public let rawValue: UInt16
  @inlinable public init(rawValue: UInt16) { self.rawValue = rawValue }
}

/// A connection handle: 0x0000-0x0EFF (Vol 4 Part E 5.3.1).
@frozen
public struct ConnectionHandle: RawRepresentable, Hashable, Comparable, Sendable {
  public let rawValue: UInt16
  @inlinable public init(rawValue: UInt16) { self.rawValue = rawValue }
  /// The highest handle a connection can have.
  public static let max: UInt16 = 0x0EFF
  @inlinable public static func < (a: ConnectionHandle, b: ConnectionHandle) -> Bool { a.rawValue < b.rawValue }
}
