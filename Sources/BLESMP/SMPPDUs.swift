// SPDX-License-Identifier: Apache-2.0

public import BLECore

/// The code of a Security Manager command (Vol 3 Part H 3.3).
@frozen
public struct SMPCode: RawRepresentable, Hashable, Sendable {
  public let rawValue: UInt8
  @inlinable public init(rawValue: UInt8) { self.rawValue = rawValue }

  public static let pairingRequest = SMPCode(rawValue: 0x01)
  public static let pairingResponse = SMPCode(rawValue: 0x02)
  public static let pairingConfirm = SMPCode(rawValue: 0x03)
  public static let pairingRandom = SMPCode(rawValue: 0x04)
  public static let pairingFailed = SMPCode(rawValue: 0x05)
  public static let encryptionInformation = SMPCode(rawValue: 0x06)
  public static let centralIdentification = SMPCode(rawValue: 0x07)
  public static let identityInformation = SMPCode(rawValue: 0x08)
  public static let identityAddressInformation = SMPCode(rawValue: 0x09)
  public static let signingInformation = SMPCode(rawValue: 0x0A)
  public static let securityRequest = SMPCode(rawValue: 0x0B)
  public static let pairingPublicKey = SMPCode(rawValue: 0x0C)
  public static let pairingDHKeyCheck = SMPCode(rawValue: 0x0D)
  public static let keypressNotification = SMPCode(rawValue: 0x0E)
}

/// Why pairing failed (Vol 3 Part H 3.5.5).
@frozen
public struct PairingFailureReason: RawRepresentable, Hashable, Sendable {
  public let rawValue: UInt8
  @inlinable public init(rawValue: UInt8) { self.rawValue = rawValue }

  public static let passkeyEntryFailed = PairingFailureReason(rawValue: 0x01)
  public static let oobNotAvailable = PairingFailureReason(rawValue: 0x02)
  public static let authenticationRequirements = PairingFailureReason(rawValue: 0x03)
  public static let confirmValueFailed = PairingFailureReason(rawValue: 0x04)
  public static let pairingNotSupported = PairingFailureReason(rawValue: 0x05)
  public static let encryptionKeySize = PairingFailureReason(rawValue: 0x06)
  public static let commandNotSupported = PairingFailureReason(rawValue: 0x07)
  public static let unspecifiedReason = PairingFailureReason(rawValue: 0x08)
  public static let repeatedAttempts = PairingFailureReason(rawValue: 0x09)
  public static let invalidParameters = PairingFailureReason(rawValue: 0x0A)
  public static let dhKeyCheckFailed = PairingFailureReason(rawValue: 0x0B)
  public static let numericComparisonFailed = PairingFailureReason(rawValue: 0x0C)
}

/// AuthReq (Vol 3 Part H 3.5.1, figure 3.3). Reserved bits are kept.
@frozen
public struct AuthenticationRequirements: OptionSet, Hashable, Sendable {
  public let rawValue: UInt8
  @inlinable public init(rawValue: UInt8) { self.rawValue = rawValue }

  public static let bonding = AuthenticationRequirements(rawValue: 0x01)
  public static let mitm = AuthenticationRequirements(rawValue: 0x04)
  public static let secureConnections = AuthenticationRequirements(rawValue: 0x08)
  public static let keypress = AuthenticationRequirements(rawValue: 0x10)
  public static let ct2 = AuthenticationRequirements(rawValue: 0x20)
}

/// The six parameters that Pairing Request and Pairing Response share (Vol 3 Part H 3.5.1, 3.5.2).
public struct PairingFeatures: WireCodable, Hashable, Sendable {
  /// IO Capability: 0x00-0x04.
  public var ioCapability: UInt8
  /// OOB Data Flag: 0x00 or 0x01.
  public var oobDataFlag: UInt8
  public var authReq: AuthenticationRequirements
  /// Maximum Encryption Key Size: 7-16 octets.
  public var maximumEncryptionKeySize: UInt8
  /// Initiator Key Distribution: bits EncKey, IdKey, SignKey, LinkKey.
  public var initiatorKeyDistribution: UInt8
  /// Responder Key Distribution: the same bits.
  public var responderKeyDistribution: UInt8

  public init(
    ioCapability: UInt8, oobDataFlag: UInt8, authReq: AuthenticationRequirements, maximumEncryptionKeySize: UInt8,
    initiatorKeyDistribution: UInt8, responderKeyDistribution: UInt8
  ) {
    self.ioCapability = ioCapability
    self.oobDataFlag = oobDataFlag
    self.authReq = authReq
    self.maximumEncryptionKeySize = maximumEncryptionKeySize
    self.initiatorKeyDistribution = initiatorKeyDistribution
    self.responderKeyDistribution = responderKeyDistribution
  }

  public init(from reader: inout ByteReader) throws(DecodeError) {
    ioCapability = try reader.u8()
    oobDataFlag = try reader.u8()
    authReq = AuthenticationRequirements(rawValue: try reader.u8())
    maximumEncryptionKeySize = try reader.u8()
    initiatorKeyDistribution = try reader.u8()
    responderKeyDistribution = try reader.u8()
  }

  public func encode(into writer: inout ByteWriter) {
    writer.u8(ioCapability)
    writer.u8(oobDataFlag)
    writer.u8(authReq.rawValue)
    writer.u8(maximumEncryptionKeySize)
    writer.u8(initiatorKeyDistribution)
    writer.u8(responderKeyDistribution)
  }
}

/// A Security Manager command with its code (Vol 3 Part H 3.3): what needs no cryptography is decoded, the rest is
/// kept as it came.
public enum SMPPDU: WireCodable, Hashable, Sendable {
  /// Pairing Request (3.5.1).
  case pairingRequest(PairingFeatures)
  /// Pairing Response (3.5.2).
  case pairingResponse(PairingFeatures)
  /// Pairing Failed (3.5.5).
  case pairingFailed(PairingFailureReason)
  /// Security Request (3.6.7).
  case securityRequest(AuthenticationRequirements)
  /// Any other command: its code and its parameters.
  case other(SMPCode, [UInt8])

  public init(from reader: inout ByteReader) throws(DecodeError) {
    switch SMPCode(rawValue: try reader.u8()) {
    case .pairingRequest: self = .pairingRequest(try PairingFeatures(from: &reader))
    case .pairingResponse: self = .pairingResponse(try PairingFeatures(from: &reader))
    case .pairingFailed: self = .pairingFailed(PairingFailureReason(rawValue: try reader.u8()))
    case .securityRequest: self = .securityRequest(AuthenticationRequirements(rawValue: try reader.u8()))
    case let code: self = .other(code, reader.restArray())
    }
  }

  public func encode(into writer: inout ByteWriter) {
    switch self {
    case .pairingRequest(let features):
      writer.u8(SMPCode.pairingRequest.rawValue)
      features.encode(into: &writer)
    case .pairingResponse(let features):
      writer.u8(SMPCode.pairingResponse.rawValue)
      features.encode(into: &writer)
    case .pairingFailed(let reason):
      writer.u8(SMPCode.pairingFailed.rawValue)
      writer.u8(reason.rawValue)
    case .securityRequest(let authReq):
      writer.u8(SMPCode.securityRequest.rawValue)
      writer.u8(authReq.rawValue)
    case .other(let code, let parameters):
      writer.u8(code.rawValue)
      writer.bytes(parameters)
    }
  }
}
