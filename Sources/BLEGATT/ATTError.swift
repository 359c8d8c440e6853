// SPDX-License-Identifier: Apache-2.0

/// An ATT error code (Vol 3 Part F 3.4.1.1). Any octet survives: 0x80-0x9F are an application's own.
@frozen
public struct ATTError: RawRepresentable, Error, Hashable, Sendable {
  public let rawValue: UInt8
  @inlinable public init(rawValue: UInt8) { self.rawValue = rawValue }

  public static let invalidHandle = ATTError(rawValue: 0x01)
  public static let readNotPermitted = ATTError(rawValue: 0x02)
  public static let writeNotPermitted = ATTError(rawValue: 0x03)
  public static let invalidPDU = ATTError(rawValue: 0x04)
  public static let insufficientAuthentication = ATTError(rawValue: 0x05)
  public static let requestNotSupported = ATTError(rawValue: 0x06)
  public static let invalidOffset = ATTError(rawValue: 0x07)
  public static let insufficientAuthorization = ATTError(rawValue: 0x08)
  public static let prepareQueueFull = ATTError(rawValue: 0x09)
  public static let attributeNotFound = ATTError(rawValue: 0x0A)
  public static let attributeNotLong = ATTError(rawValue: 0x0B)
  public static let encryptionKeySizeTooShort = ATTError(rawValue: 0x0C)
  public static let invalidAttributeValueLength = ATTError(rawValue: 0x0D)
  public static let unlikelyError = ATTError(rawValue: 0x0E)
  public static let insufficientEncryption = ATTError(rawValue: 0x0F)
  public static let unsupportedGroupType = ATTError(rawValue: 0x10)
  public static let insufficientResources = ATTError(rawValue: 0x11)
  public static let databaseOutOfSync = ATTError(rawValue: 0x12)
  public static let valueNotAllowed = ATTError(rawValue: 0x13)
  public static let writeRequestRejected = ATTError(rawValue: 0xFC)
  public static let cccdImproperlyConfigured = ATTError(rawValue: 0xFD)
  public static let procedureAlreadyInProgress = ATTError(rawValue: 0xFE)
  public static let outOfRange = ATTError(rawValue: 0xFF)

  private static let names: [UInt8: String] = [
    0x01: "Invalid Handle", 0x02: "Read Not Permitted", 0x03: "Write Not Permitted", 0x04: "Invalid PDU",
    0x05: "Insufficient Authentication", 0x06: "Request Not Supported", 0x07: "Invalid Offset",
    0x08: "Insufficient Authorization", 0x09: "Prepare Queue Full", 0x0A: "Attribute Not Found",
    0x0B: "Attribute Not Long", 0x0C: "Encryption Key Size Too Short", 0x0D: "Invalid Attribute Value Length",
    0x0E: "Unlikely Error", 0x0F: "Insufficient Encryption", 0x10: "Unsupported Group Type",
    0x11: "Insufficient Resources", 0x12: "Database Out Of Sync", 0x13: "Value Not Allowed",
    0xFC: "Write Request Rejected", 0xFD: "Client Characteristic Configuration Descriptor Improperly Configured",
    0xFE: "Procedure Already in Progress", 0xFF: "Out of Range",
  ]
}

extension ATTError: CustomStringConvertible {
  public var description: String { Self.names[rawValue] ?? "ATT error 0x" + String(rawValue, radix: 16) }
}

/// Why a client's procedure did not succeed.
public enum GATTError: Error, Hashable, Sendable {
  /// The server answered with an Error Response; `handle` is the attribute it names, zero where it names none.
  case att(ATTError, handle: UInt16)
  /// The server's response breaks the rules for responses to `request` (its form, handles out of order or outside the
  /// range asked for).
  case invalidResponse(request: ATTOpcode)
  /// A Prepare Write Response did not repeat what was sent; the queued write was cancelled.
  case echoMismatch(handle: UInt16)
  /// The value is longer than any attribute may be (512 octets); nothing was sent.
  case valueTooLong(count: Int)
  /// No response came within 30 s: the bearer carries nothing any more (Vol 3 Part F 3.3.3).
  case timedOut(request: ATTOpcode)
  /// The server's attributes have changed: the handle that the procedure names has lost its meaning.
  case databaseChanged
  /// The bearer ended, or had ended, before the procedure was done.
  case bearerClosed
}

/// Why a bearer carries nothing any more. The link is to be disconnected.
public enum ATTBearerFailure: Hashable, Sendable {
  /// A request of ours got no response within 30 s.
  case responseTimedOut(request: ATTOpcode)
  /// An indication of ours got no confirmation within 30 s.
  case confirmationTimedOut(handle: UInt16)
}

extension ATTBearerFailure: CustomStringConvertible {
  public var description: String {
    switch self {
    case .responseTimedOut(let request): "no answer to \(request) within 30 s"
    case .confirmationTimedOut(let handle): "no confirmation of an indication of handle \(handle) within 30 s"
    }
  }
}
