// SPDX-License-Identifier: Apache-2.0

import BLESystem
public import Foundation

/// The domain of errors of connecting, scanning and publishing.
public let CBErrorDomain: String = "CBErrorDomain"

/// The domain of errors that a peer's attribute server answers with.
public let CBATTErrorDomain: String = "CBATTErrorDomain"

/// An error of connecting, scanning or publishing.
///
/// It crosses the API as itself: `error as? CBError`, `catch CBError.connectionTimeout` and
/// `(error as NSError).code` all work. `userInfo` may hold, under `NSDebugDescriptionErrorKey`, a sentence on what
/// was being done to which peer and what to try.
public struct CBError: CustomNSError, Hashable, @unchecked Sendable {  // Everything in it is immutable.
  /// What went wrong.
  public let code: Code
  /// What the error was made with.
  public let userInfo: [String: Any]

  /// An error of the given code.
  public init(_ code: Code, userInfo: [String: Any] = [:]) {
    self.code = code
    self.userInfo = userInfo
  }

  /// The same error as `error`, whose domain must be ``CBErrorDomain``; an unknown code becomes `unknown`.
  public init(_nsError error: NSError) {
    precondition(error.domain == CBErrorDomain, "An error of domain \(error.domain) is no CBError")
    self.init(Code(rawValue: error.code) ?? .unknown, userInfo: error.userInfo)
  }

  /// ``CBErrorDomain``.
  public static var errorDomain: String { CBErrorDomain }
  /// The code's raw value.
  public var errorCode: Int { code.rawValue }
  /// `userInfo` with a description in English where it has none.
  public var errorUserInfo: [String: Any] { userInfo.describing(code.text) }

  /// Errors are equal when their codes are.
  public static func == (a: CBError, b: CBError) -> Bool { a.code == b.code }
  public func hash(into hasher: inout Hasher) { hasher.combine(code) }

  /// What can go wrong with connecting, scanning and publishing.
  @nonexhaustive
  public enum Code: Int, Sendable {
    /// Nothing more is known.
    case unknown = 0
    /// A parameter has a value that cannot be used.
    case invalidParameters
    /// The attribute is not, or no longer, one of the peer's: discover again.
    case invalidHandle
    /// The peer is not connected.
    case notConnected
    /// No room for it is left.
    case outOfSpace
    /// It was cancelled.
    case operationCancelled
    /// Nothing was heard from the peer for the supervision timeout.
    case connectionTimeout
    /// The peer ended the connection.
    case peripheralDisconnected
    /// The UUID may not be used for this.
    case uuidNotAllowed
    /// Advertising was already on.
    case alreadyAdvertising
    /// The connection could not be made.
    case connectionFailed
    /// No more connections are possible at a time.
    case connectionLimitReached
    /// The peer is not known; the name's spelling is Apple's, see ``unknownDevice``.
    case unkownDevice
    /// Not supported here.
    case operationNotSupported
    /// The peer has lost its keys: remove the bond and pair again.
    case peerRemovedPairingInformation
    /// Encrypting the connection took too long.
    case encryptionTimedOut
    /// No more bonds can be kept.
    case tooManyLEPairedDevices
    /// Only on watches.
    case leGattExceededBackgroundNotificationLimit
    /// Only on watches.
    case leGattNearBackgroundNotificationLimit

    /// The peer is not known to this system.
    public static var unknownDevice: Code { .unkownDevice }

    var text: String {
      switch self {
      case .unknown: "Unknown error."
      case .invalidParameters: "One or more parameters were invalid."
      case .invalidHandle: "The specified handle was invalid."
      case .notConnected: "The specified device is not connected."
      case .outOfSpace: "The system is out of space."
      case .operationCancelled: "The operation was cancelled."
      case .connectionTimeout: "The connection has timed out unexpectedly."
      case .peripheralDisconnected: "The specified device has disconnected from us."
      case .uuidNotAllowed: "The specified UUID is not allowed for this operation."
      case .alreadyAdvertising: "Advertising has already started."
      case .connectionFailed: "The connection has failed unexpectedly."
      case .connectionLimitReached: "The system has reached the maximum number of connections."
      case .unkownDevice: "The specified device is unknown."
      case .operationNotSupported: "The operation is not supported."
      case .peerRemovedPairingInformation: "Peer removed pairing information"
      case .encryptionTimedOut: "Failed to encrypt the connection, the connection has timed out unexpectedly."
      case .tooManyLEPairedDevices: "The maximum number of paired devices has been reached."
      case .leGattExceededBackgroundNotificationLimit: "The limit of notifications in the background was exceeded."
      case .leGattNearBackgroundNotificationLimit: "The limit of notifications in the background is near."
      }
    }

    /// Makes `catch CBError.connectionTimeout` work.
    public static func ~= (code: Code, error: any Error) -> Bool { (error as? CBError)?.code == code }
  }
}

extension CBError {
  public static var unknown: Code { .unknown }
  public static var invalidParameters: Code { .invalidParameters }
  public static var invalidHandle: Code { .invalidHandle }
  public static var notConnected: Code { .notConnected }
  public static var outOfSpace: Code { .outOfSpace }
  public static var operationCancelled: Code { .operationCancelled }
  public static var connectionTimeout: Code { .connectionTimeout }
  public static var peripheralDisconnected: Code { .peripheralDisconnected }
  public static var uuidNotAllowed: Code { .uuidNotAllowed }
  public static var alreadyAdvertising: Code { .alreadyAdvertising }
  public static var connectionFailed: Code { .connectionFailed }
  public static var connectionLimitReached: Code { .connectionLimitReached }
  public static var unkownDevice: Code { .unkownDevice }
  public static var unknownDevice: Code { .unkownDevice }
  public static var operationNotSupported: Code { .operationNotSupported }
  public static var peerRemovedPairingInformation: Code { .peerRemovedPairingInformation }
  public static var encryptionTimedOut: Code { .encryptionTimedOut }
  public static var tooManyLEPairedDevices: Code { .tooManyLEPairedDevices }
  public static var leGattExceededBackgroundNotificationLimit: Code { .leGattExceededBackgroundNotificationLimit }
  public static var leGattNearBackgroundNotificationLimit: Code { .leGattNearBackgroundNotificationLimit }
}

/// The answer of an attribute server that refused a request (Vol 3 Part F 3.4.1.1).
public struct CBATTError: CustomNSError, Hashable, @unchecked Sendable {  // Everything in it is immutable.
  /// The server's error code.
  public let code: Code
  /// What the error was made with.
  public let userInfo: [String: Any]

  /// An error of the given code.
  public init(_ code: Code, userInfo: [String: Any] = [:]) {
    self.code = code
    self.userInfo = userInfo
  }

  /// The same error as `error`, whose domain must be ``CBATTErrorDomain``.
  public init(_nsError error: NSError) {
    precondition(error.domain == CBATTErrorDomain, "An error of domain \(error.domain) is no CBATTError")
    self.init(Code(carrying: error.code), userInfo: error.userInfo)
  }

  /// ``CBATTErrorDomain``.
  public static var errorDomain: String { CBATTErrorDomain }
  /// The code's raw value.
  public var errorCode: Int { code.rawValue }
  /// `userInfo` with a description in English where it has none.
  public var errorUserInfo: [String: Any] { userInfo.describing(code.text) }

  /// Errors are equal when their codes are.
  public static func == (a: CBATTError, b: CBATTError) -> Bool { a.code == b.code }
  public func hash(into hasher: inout Hasher) { hasher.combine(code) }

  /// The error codes of the Attribute Protocol, and any other value that a profile may define.
  ///
  /// As with an imported C enumeration, `init(rawValue:)` never fails: an application's code (0x80 to 0x9F), a common
  /// profile code (0xE0 to 0xFF) or any other number is carried as it is, and matches `@unknown default` alone.
  @nonexhaustive
  public enum Code: RawRepresentable, Hashable, Sendable {
    /// No error.
    case success
    /// There is no such attribute.
    case invalidHandle
    case readNotPermitted
    case writeNotPermitted
    case invalidPdu
    /// The link must be authenticated first.
    case insufficientAuthentication
    case requestNotSupported
    /// The offset is past the value's end.
    case invalidOffset
    /// The server's own decision; pairing does not help.
    case insufficientAuthorization
    case prepareQueueFull
    case attributeNotFound
    case attributeNotLong
    case insufficientEncryptionKeySize
    case invalidAttributeValueLength
    case unlikelyError
    /// The link must be encrypted first.
    case insufficientEncryption
    case unsupportedGroupType
    case insufficientResources
    // Carries every other value. Unavailable, so that a switch over all the codes above and `@unknown default` is
    // complete without it, as it is on Apple's systems; made and read through `Layout`, whose shape is the same.
    @available(*, unavailable, message: "match with @unknown default and read rawValue")
    case _other(Int)
  }
}

extension CBATTError.Code {
  /// The same cases in the same order as `CBATTError.Code`, so the same layout (`ATTErrorCodeTests` hold it to that).
  private enum Layout {
    case success, invalidHandle, readNotPermitted, writeNotPermitted, invalidPdu, insufficientAuthentication
    case requestNotSupported, invalidOffset, insufficientAuthorization, prepareQueueFull, attributeNotFound
    case attributeNotLong, insufficientEncryptionKeySize, invalidAttributeValueLength, unlikelyError
    case insufficientEncryption, unsupportedGroupType, insufficientResources
    case other(Int)
  }

  private static let known: [CBATTError.Code] = [
    .success, .invalidHandle, .readNotPermitted, .writeNotPermitted, .invalidPdu, .insufficientAuthentication,
    .requestNotSupported, .invalidOffset, .insufficientAuthorization, .prepareQueueFull, .attributeNotFound,
    .attributeNotLong, .insufficientEncryptionKeySize, .invalidAttributeValueLength, .unlikelyError,
    .insufficientEncryption, .unsupportedGroupType, .insufficientResources,
  ]

  init(carrying value: Int) {
    self =
      Self.known.indices.contains(value) ? Self.known[value] : unsafe unsafeBitCast(Layout.other(value), to: Self.self)
  }

  /// The code with this value; never nil.
  public init?(rawValue: Int) { self.init(carrying: rawValue) }

  /// The code's value on the air, 0 to 255.
  public var rawValue: Int {
    switch unsafe unsafeBitCast(self, to: Layout.self) {
    case .success: 0
    case .invalidHandle: 1
    case .readNotPermitted: 2
    case .writeNotPermitted: 3
    case .invalidPdu: 4
    case .insufficientAuthentication: 5
    case .requestNotSupported: 6
    case .invalidOffset: 7
    case .insufficientAuthorization: 8
    case .prepareQueueFull: 9
    case .attributeNotFound: 10
    case .attributeNotLong: 11
    case .insufficientEncryptionKeySize: 12
    case .invalidAttributeValueLength: 13
    case .unlikelyError: 14
    case .insufficientEncryption: 15
    case .unsupportedGroupType: 16
    case .insufficientResources: 17
    case .other(let value): value
    }
  }

  public static func == (a: Self, b: Self) -> Bool { a.rawValue == b.rawValue }
  public func hash(into hasher: inout Hasher) { hasher.combine(rawValue) }

  /// Makes `catch CBATTError.readNotPermitted` work.
  public static func ~= (code: Self, error: any Error) -> Bool { (error as? CBATTError)?.code == code }

  var text: String {
    switch rawValue {
    case 1: "The handle is invalid."
    case 2: "Reading is not permitted."
    case 3: "Writing is not permitted."
    case 4: "The command is invalid."
    case 5: "Authentication is insufficient."
    case 6: "The request is not supported."
    case 7: "The offset is invalid."
    case 8: "Authorization is insufficient."
    case 9: "The prepare queue is full."
    case 10: "The attribute could not be found."
    case 11: "The attribute is not long."
    case 12: "The encryption key size is insufficient."
    case 13: "The value's length is invalid."
    case 14: "Unlikely error."
    case 15: "Encryption is insufficient."
    case 16: "The group type is unsupported."
    case 17: "Resources are insufficient."
    default: "Unknown ATT error."
    }
  }
}

extension CBATTError {
  public static var success: Code { .success }
  public static var invalidHandle: Code { .invalidHandle }
  public static var readNotPermitted: Code { .readNotPermitted }
  public static var writeNotPermitted: Code { .writeNotPermitted }
  public static var invalidPdu: Code { .invalidPdu }
  public static var insufficientAuthentication: Code { .insufficientAuthentication }
  public static var requestNotSupported: Code { .requestNotSupported }
  public static var invalidOffset: Code { .invalidOffset }
  public static var insufficientAuthorization: Code { .insufficientAuthorization }
  public static var prepareQueueFull: Code { .prepareQueueFull }
  public static var attributeNotFound: Code { .attributeNotFound }
  public static var attributeNotLong: Code { .attributeNotLong }
  public static var insufficientEncryptionKeySize: Code { .insufficientEncryptionKeySize }
  public static var invalidAttributeValueLength: Code { .invalidAttributeValueLength }
  public static var unlikelyError: Code { .unlikelyError }
  public static var insufficientEncryption: Code { .insufficientEncryption }
  public static var unsupportedGroupType: Code { .unsupportedGroupType }
  public static var insufficientResources: Code { .insufficientResources }
}

// MARK: - Texts, and errors from below

extension CBError: CustomStringConvertible {
  /// As an `NSError` prints itself.
  public var description: String { describe(CBErrorDomain, code.rawValue, errorUserInfo) }
}

extension CBATTError: CustomStringConvertible {
  /// As an `NSError` prints itself.
  public var description: String { describe(CBATTErrorDomain, code.rawValue, errorUserInfo) }
}

private func describe(_ domain: String, _ code: Int, _ userInfo: [String: Any]) -> String {
  let text = userInfo[NSLocalizedDescriptionKey].map { "\($0)" } ?? ""
  let detail = userInfo[NSDebugDescriptionErrorKey].map { " (\($0))" } ?? ""
  return "Error Domain=\(domain) Code=\(code) \"\(text)\"\(detail)"
}

extension [String: Any] {
  fileprivate func describing(_ text: String) -> [String: Any] {
    merging([NSLocalizedDescriptionKey: text]) { own, _ in own }
  }

  fileprivate static func userInfo(_ text: String, _ detail: String) -> [String: Any] {
    detail.isEmpty
      ? [NSLocalizedDescriptionKey: text]
      : [NSLocalizedDescriptionKey: text, NSDebugDescriptionErrorKey: detail]
  }
}

extension CBError {
  /// An error that this framework reports, with its text and a sentence on what happened.
  static func reported(_ code: Code, _ detail: String = "") -> CBError {
    CBError(code, userInfo: .userInfo(code.text, detail))
  }
}

extension CBATTError {
  /// An error that this framework reports, with its text and a sentence on what happened.
  static func reported(_ code: Code, _ detail: String = "") -> CBATTError {
    CBATTError(code, userInfo: .userInfo(code.text, detail))
  }
}

extension SystemError {
  /// The error as the app sees it.
  var asAppError: any Error {
    switch reason {
    case .att(let code): CBATTError.reported(CBATTError.Code(carrying: Int(code)), detail)
    case .unknown: CBError.reported(.unknown, detail)
    case .invalidParameters: CBError.reported(.invalidParameters, detail)
    case .invalidHandle: CBError.reported(.invalidHandle, detail)
    case .notConnected: CBError.reported(.notConnected, detail)
    case .outOfSpace: CBError.reported(.outOfSpace, detail)
    case .operationCancelled: CBError.reported(.operationCancelled, detail)
    case .connectionTimeout: CBError.reported(.connectionTimeout, detail)
    case .peripheralDisconnected: CBError.reported(.peripheralDisconnected, detail)
    case .uuidNotAllowed: CBError.reported(.uuidNotAllowed, detail)
    case .alreadyAdvertising: CBError.reported(.alreadyAdvertising, detail)
    case .connectionFailed: CBError.reported(.connectionFailed, detail)
    case .connectionLimitReached: CBError.reported(.connectionLimitReached, detail)
    case .unknownDevice: CBError.reported(.unkownDevice, detail)
    case .operationNotSupported: CBError.reported(.operationNotSupported, detail)
    }
  }
}
