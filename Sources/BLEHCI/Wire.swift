// SPDX-License-Identifier: Apache-2.0

public import BLECore

/// A command of Vol 4 Part E 7. The type's name is the specification's without spaces; the fields are its
/// parameters in order.
public protocol HCICommand: WireCodable, Hashable, Sendable {
  static var opcode: HCIOpcode { get }
  /// What Command Complete carries, from Status on; ``StatusReturn`` where that is all. For commands answered
  /// by Command Status it is ``StatusReturn`` too.
  associatedtype ReturnParameters: HCIReturnParameters
}

/// Return parameters of one command, beginning with Status.
///
/// With a status other than success a controller may send Status alone: then the remaining fields are zero.
public protocol HCIReturnParameters: WireCodable, Hashable, Sendable {
  var status: HCIStatus { get set }
  /// Everything else zero: the answer to a command that failed.
  init(status: HCIStatus)
}

/// Return parameters that are Status alone.
public struct StatusReturn: HCIReturnParameters {
  public var status: HCIStatus

  public init(status: HCIStatus) { self.status = status }

  public init(from reader: inout ByteReader) throws(DecodeError) {
    status = HCIStatus(rawValue: try reader.u8())
  }

  public func encode(into writer: inout ByteWriter) { writer.u8(status.rawValue) }
}

/// An event of Vol 4 Part E 7.7.
public protocol HCIEvent: WireCodable, Hashable, Sendable {
  static var code: HCIEventCode { get }
}

/// An LE Meta event of Vol 4 Part E 7.7.65; decoding starts after Subevent_Code.
public protocol LEMetaEvent: WireCodable, Hashable, Sendable {
  static var subevent: LESubevent { get }
}

/// An event code (Vol 4 Part E 7.7).
@frozen
public struct HCIEventCode: RawRepresentable, Hashable, Sendable {
  public let rawValue: UInt8
  @inlinable public init(rawValue: UInt8) { self.rawValue = rawValue }

  public static let disconnectionComplete = HCIEventCode(rawValue: 0x05)
  public static let encryptionChange = HCIEventCode(rawValue: 0x08)
  public static let readRemoteVersionInformationComplete = HCIEventCode(rawValue: 0x0C)
  public static let commandComplete = HCIEventCode(rawValue: 0x0E)
  public static let commandStatus = HCIEventCode(rawValue: 0x0F)
  public static let hardwareError = HCIEventCode(rawValue: 0x10)
  public static let numberOfCompletedPackets = HCIEventCode(rawValue: 0x13)
  public static let dataBufferOverflow = HCIEventCode(rawValue: 0x1A)
  public static let encryptionKeyRefreshComplete = HCIEventCode(rawValue: 0x30)
  public static let leMeta = HCIEventCode(rawValue: 0x3E)
  public static let authenticatedPayloadTimeoutExpired = HCIEventCode(rawValue: 0x57)
  public static let encryptionChangeV2 = HCIEventCode(rawValue: 0x59)
}

/// An LE Meta subevent code (Vol 4 Part E 7.7.65).
@frozen
public struct LESubevent: RawRepresentable, Hashable, Sendable {
  public let rawValue: UInt8
  @inlinable public init(rawValue: UInt8) { self.rawValue = rawValue }

  public static let connectionComplete = LESubevent(rawValue: 0x01)
  public static let advertisingReport = LESubevent(rawValue: 0x02)
  public static let connectionUpdateComplete = LESubevent(rawValue: 0x03)
  public static let readRemoteFeaturesComplete = LESubevent(rawValue: 0x04)
  public static let longTermKeyRequest = LESubevent(rawValue: 0x05)
  public static let remoteConnectionParameterRequest = LESubevent(rawValue: 0x06)
  public static let dataLengthChange = LESubevent(rawValue: 0x07)
  public static let readLocalP256PublicKeyComplete = LESubevent(rawValue: 0x08)
  public static let generateDHKeyComplete = LESubevent(rawValue: 0x09)
  public static let enhancedConnectionComplete = LESubevent(rawValue: 0x0A)
  public static let directedAdvertisingReport = LESubevent(rawValue: 0x0B)
  public static let phyUpdateComplete = LESubevent(rawValue: 0x0C)
  public static let extendedAdvertisingReport = LESubevent(rawValue: 0x0D)
  public static let scanTimeout = LESubevent(rawValue: 0x11)
  public static let advertisingSetTerminated = LESubevent(rawValue: 0x12)
  public static let scanRequestReceived = LESubevent(rawValue: 0x13)
  public static let channelSelectionAlgorithm = LESubevent(rawValue: 0x14)
  public static let enhancedConnectionCompleteV2 = LESubevent(rawValue: 0x29)
}
