// SPDX-License-Identifier: Apache-2.0

public import BLECore

/// A PHY as HCI numbers it (Vol 4 Part E 7.8.47); 0 in a report: no packets on the secondary channel.
@frozen
public struct PHY: RawRepresentable, Hashable, Sendable {
  public let rawValue: UInt8
  @inlinable public init(rawValue: UInt8) { self.rawValue = rawValue }

  public static let none = PHY(rawValue: 0)
  public static let le1M = PHY(rawValue: 1)
  public static let le2M = PHY(rawValue: 2)
  public static let leCoded = PHY(rawValue: 3)
}

/// A set of PHYs, one bit each (Vol 4 Part E 7.8.48).
@frozen
public struct PHYMask: OptionSet, Hashable, Sendable {
  public let rawValue: UInt8
  @inlinable public init(rawValue: UInt8) { self.rawValue = rawValue }

  public static let le1M = PHYMask(rawValue: 1)
  public static let le2M = PHYMask(rawValue: 2)
  public static let leCoded = PHYMask(rawValue: 4)
}

/// The local device's role on a connection (Vol 4 Part E 7.7.65.1).
@frozen
public struct ConnectionRole: RawRepresentable, Hashable, Sendable {
  public let rawValue: UInt8
  @inlinable public init(rawValue: UInt8) { self.rawValue = rawValue }

  public static let central = ConnectionRole(rawValue: 0)
  public static let peripheral = ConnectionRole(rawValue: 1)
}

/// Advertising_Type of the legacy command (Vol 4 Part E 7.8.5).
@frozen
public struct AdvertisingType: RawRepresentable, Hashable, Sendable {
  public let rawValue: UInt8
  @inlinable public init(rawValue: UInt8) { self.rawValue = rawValue }

  /// ADV_IND: connectable and scannable.
  public static let connectable = AdvertisingType(rawValue: 0)
  /// ADV_DIRECT_IND, high duty cycle: ends by itself after 1.28 s.
  public static let directedHighDutyCycle = AdvertisingType(rawValue: 1)
  /// ADV_SCAN_IND.
  public static let scannable = AdvertisingType(rawValue: 2)
  /// ADV_NONCONN_IND.
  public static let nonConnectable = AdvertisingType(rawValue: 3)
  /// ADV_DIRECT_IND, low duty cycle.
  public static let directedLowDutyCycle = AdvertisingType(rawValue: 4)
}

/// Event_Type of a legacy advertising report (Vol 4 Part E 7.7.65.2).
@frozen
public struct AdvertisingReportType: RawRepresentable, Hashable, Sendable {
  public let rawValue: UInt8
  @inlinable public init(rawValue: UInt8) { self.rawValue = rawValue }

  /// ADV_IND.
  public static let connectable = AdvertisingReportType(rawValue: 0)
  /// ADV_DIRECT_IND.
  public static let directed = AdvertisingReportType(rawValue: 1)
  /// ADV_SCAN_IND.
  public static let scannable = AdvertisingReportType(rawValue: 2)
  /// ADV_NONCONN_IND.
  public static let nonConnectable = AdvertisingReportType(rawValue: 3)
  /// SCAN_RSP.
  public static let scanResponse = AdvertisingReportType(rawValue: 4)
}

/// Event_Type of an extended advertising report (Vol 4 Part E 7.7.65.13).
@frozen
public struct ExtendedAdvertisingEventType: OptionSet, Hashable, Sendable {
  public let rawValue: UInt16
  @inlinable public init(rawValue: UInt16) { self.rawValue = rawValue }

  public static let connectable = ExtendedAdvertisingEventType(rawValue: 1 << 0)
  public static let scannable = ExtendedAdvertisingEventType(rawValue: 1 << 1)
  public static let directed = ExtendedAdvertisingEventType(rawValue: 1 << 2)
  public static let scanResponse = ExtendedAdvertisingEventType(rawValue: 1 << 3)
  /// A legacy PDU.
  public static let legacy = ExtendedAdvertisingEventType(rawValue: 1 << 4)

  /// Whether the data of the event ends with this report.
  public enum DataStatus: Hashable, Sendable {
    case complete
    /// More data follows in the next report.
    case incomplete
    /// The rest was lost and will not follow.
    case truncated
    case reserved
  }

  /// Bits 5 and 6.
  @inlinable
  public var dataStatus: DataStatus {
    switch rawValue >> 5 & 3 {
    case 0: .complete
    case 1: .incomplete
    case 2: .truncated
    default: .reserved
    }
  }
}

/// Advertising_Event_Properties of an advertising set (Vol 4 Part E 7.8.53).
@frozen
public struct AdvertisingEventProperties: OptionSet, Hashable, Sendable {
  public let rawValue: UInt16
  @inlinable public init(rawValue: UInt16) { self.rawValue = rawValue }

  public static let connectable = AdvertisingEventProperties(rawValue: 1 << 0)
  public static let scannable = AdvertisingEventProperties(rawValue: 1 << 1)
  public static let directed = AdvertisingEventProperties(rawValue: 1 << 2)
  public static let highDutyCycleDirected = AdvertisingEventProperties(rawValue: 1 << 3)
  public static let legacy = AdvertisingEventProperties(rawValue: 1 << 4)
  public static let anonymous = AdvertisingEventProperties(rawValue: 1 << 5)
  public static let includeTxPower = AdvertisingEventProperties(rawValue: 1 << 6)
}

/// The advertising channels to use (Vol 4 Part E 7.8.5).
@frozen
public struct AdvertisingChannelMap: OptionSet, Hashable, Sendable {
  public let rawValue: UInt8
  @inlinable public init(rawValue: UInt8) { self.rawValue = rawValue }

  public static let channel37 = AdvertisingChannelMap(rawValue: 1)
  public static let channel38 = AdvertisingChannelMap(rawValue: 2)
  public static let channel39 = AdvertisingChannelMap(rawValue: 4)
  public static let all = AdvertisingChannelMap(rawValue: 7)
}

/// Whose requests an advertiser answers (Vol 4 Part E 7.8.5).
@frozen
public struct AdvertisingFilterPolicy: RawRepresentable, Hashable, Sendable {
  public let rawValue: UInt8
  @inlinable public init(rawValue: UInt8) { self.rawValue = rawValue }

  public static let all = AdvertisingFilterPolicy(rawValue: 0)
  /// Scan requests from the Filter Accept List only.
  public static let acceptListScans = AdvertisingFilterPolicy(rawValue: 1)
  /// Connection requests from the Filter Accept List only.
  public static let acceptListConnections = AdvertisingFilterPolicy(rawValue: 2)
  /// Both from the Filter Accept List only.
  public static let acceptList = AdvertisingFilterPolicy(rawValue: 3)
}

/// Whose advertisements a scanner reports (Vol 4 Part E 7.8.10).
@frozen
public struct ScanningFilterPolicy: RawRepresentable, Hashable, Sendable {
  public let rawValue: UInt8
  @inlinable public init(rawValue: UInt8) { self.rawValue = rawValue }

  public static let all = ScanningFilterPolicy(rawValue: 0)
  public static let acceptList = ScanningFilterPolicy(rawValue: 1)
  /// All, also directed ones whose resolvable target address the controller cannot resolve.
  public static let allExtended = ScanningFilterPolicy(rawValue: 2)
  public static let acceptListExtended = ScanningFilterPolicy(rawValue: 3)
}

/// Whom to connect (Vol 4 Part E 7.8.12).
@frozen
public struct InitiatorFilterPolicy: RawRepresentable, Hashable, Sendable {
  public let rawValue: UInt8
  @inlinable public init(rawValue: UInt8) { self.rawValue = rawValue }

  /// The device of Peer_Address.
  public static let peerAddress = InitiatorFilterPolicy(rawValue: 0)
  /// Any device of the Filter Accept List; Peer_Address is ignored.
  public static let acceptList = InitiatorFilterPolicy(rawValue: 1)
}

/// LE_Scan_Type (Vol 4 Part E 7.8.10).
@frozen
public struct ScanType: RawRepresentable, Hashable, Sendable {
  public let rawValue: UInt8
  @inlinable public init(rawValue: UInt8) { self.rawValue = rawValue }

  public static let passive = ScanType(rawValue: 0)
  /// With scan requests.
  public static let active = ScanType(rawValue: 1)
}

/// Filter_Duplicates of extended scanning (Vol 4 Part E 7.8.65).
@frozen
public struct DuplicateFilter: RawRepresentable, Hashable, Sendable {
  public let rawValue: UInt8
  @inlinable public init(rawValue: UInt8) { self.rawValue = rawValue }

  public static let off = DuplicateFilter(rawValue: 0)
  public static let on = DuplicateFilter(rawValue: 1)
  public static let resetEachPeriod = DuplicateFilter(rawValue: 2)
}

/// Privacy_Mode (Vol 4 Part E 7.8.77).
@frozen
public struct PrivacyMode: RawRepresentable, Hashable, Sendable {
  public let rawValue: UInt8
  @inlinable public init(rawValue: UInt8) { self.rawValue = rawValue }

  /// Only private addresses of the peer are accepted.
  public static let network = PrivacyMode(rawValue: 0)
  /// Its identity address is accepted too.
  public static let device = PrivacyMode(rawValue: 1)
}

/// Operation: which part of an advertising set's data a command carries (Vol 4 Part E 7.8.54).
@frozen
public struct AdvertisingDataOperation: RawRepresentable, Hashable, Sendable {
  public let rawValue: UInt8
  @inlinable public init(rawValue: UInt8) { self.rawValue = rawValue }

  public static let intermediateFragment = AdvertisingDataOperation(rawValue: 0)
  public static let firstFragment = AdvertisingDataOperation(rawValue: 1)
  public static let lastFragment = AdvertisingDataOperation(rawValue: 2)
  public static let complete = AdvertisingDataOperation(rawValue: 3)
  /// The data stays, only its DID is new.
  public static let unchanged = AdvertisingDataOperation(rawValue: 4)
}

/// Encryption_Enabled (Vol 4 Part E 7.7.8). Only ``aesCCM`` means an encrypted LE link, whatever else a controller says.
@frozen
public struct EncryptionEnabled: RawRepresentable, Hashable, Sendable {
  public let rawValue: UInt8
  @inlinable public init(rawValue: UInt8) { self.rawValue = rawValue }

  public static let off = EncryptionEnabled(rawValue: 0)
  public static let aesCCM = EncryptionEnabled(rawValue: 1)
}

/// Channel_Selection_Algorithm (Vol 4 Part E 7.7.65.20).
@frozen
public struct ChannelSelectionAlgorithm: RawRepresentable, Hashable, Sendable {
  public let rawValue: UInt8
  @inlinable public init(rawValue: UInt8) { self.rawValue = rawValue }

  public static let algorithm1 = ChannelSelectionAlgorithm(rawValue: 0)
  public static let algorithm2 = ChannelSelectionAlgorithm(rawValue: 1)
}

/// CE_Length: 0-FFFF x 0.625 ms; a hint for the controller's schedule.
@frozen
public struct ConnectionEventLength: TimeQuantity {
  public var rawValue: UInt16
  @inlinable public init(rawValue: UInt16) { self.rawValue = rawValue }
  @inlinable public static var unit: Int64 { 625_000 }
}

/// Authenticated_Payload_Timeout: 1-FFFF x 10 ms.
@frozen
public struct AuthenticatedPayloadTimeout: TimeQuantity {
  public var rawValue: UInt16
  @inlinable public init(rawValue: UInt16) { self.rawValue = rawValue }
  @inlinable public static var unit: Int64 { 10_000_000 }
}

/// Duration of extended advertising or scanning: 1-FFFF x 10 ms; 0: no limit.
@frozen
public struct AdvertisingDuration: TimeQuantity {
  public var rawValue: UInt16
  @inlinable public init(rawValue: UInt16) { self.rawValue = rawValue }
  @inlinable public static var unit: Int64 { 10_000_000 }
}

/// Period of extended scanning: 1-FFFF x 1.28 s; 0: not periodic.
@frozen
public struct ScanPeriod: TimeQuantity {
  public var rawValue: UInt16
  @inlinable public init(rawValue: UInt16) { self.rawValue = rawValue }
  @inlinable public static var unit: Int64 { 1_280_000_000 }
}
