// SPDX-License-Identifier: Apache-2.0

/// A time that the Core Specification counts in units: the raw value is what goes on the wire.
public protocol TimeQuantity: RawRepresentable, Hashable, Comparable, Sendable where RawValue: FixedWidthInteger {
  /// Nanoseconds in one unit.
  static var unit: Int64 { get }
  init(rawValue: RawValue)
}

extension TimeQuantity {
  @inlinable public var timeSpan: TimeSpan { TimeSpan(nanoseconds: Int64(rawValue) * Self.unit) }
  @inlinable public static func < (a: Self, b: Self) -> Bool { a.rawValue < b.rawValue }
}

/// Connection_Interval: 6-3200 x 1.25 ms (Vol 4 Part E 7.8.12).
@frozen
public struct ConnectionInterval: TimeQuantity {
  public var rawValue: UInt16
  @inlinable public init(rawValue: UInt16) { self.rawValue = rawValue }
  @inlinable public static var unit: Int64 { 1_250_000 }
  public static let validRange: ClosedRange<UInt16> = 6...3200
}

/// Supervision_Timeout: 10-3200 x 10 ms.
@frozen
public struct SupervisionTimeout: TimeQuantity {
  public var rawValue: UInt16
  @inlinable public init(rawValue: UInt16) { self.rawValue = rawValue }
  @inlinable public static var unit: Int64 { 10_000_000 }
  public static let validRange: ClosedRange<UInt16> = 10...3200
}

/// Advertising interval, scan interval and scan window: units of 0.625 ms.
@frozen
public struct AdvertisingInterval: TimeQuantity {
  public var rawValue: UInt32
  @inlinable public init(rawValue: UInt32) { self.rawValue = rawValue }
  @inlinable public static var unit: Int64 { 625_000 }
}

/// Scan interval or scan window: units of 0.625 ms, the window no longer than the interval.
@frozen
public struct ScanInterval: TimeQuantity {
  public var rawValue: UInt16
  @inlinable public init(rawValue: UInt16) { self.rawValue = rawValue }
  @inlinable public static var unit: Int64 { 625_000 }
}

/// The parameters of a connection as its Central sets them.
@frozen
public struct ConnectionParameters: Hashable, Sendable {
  public var interval: ConnectionInterval
  /// Events that the Peripheral may skip: 0-499.
  public var latency: UInt16
  public var supervisionTimeout: SupervisionTimeout

  @inlinable
  public init(interval: ConnectionInterval, latency: UInt16, supervisionTimeout: SupervisionTimeout) {
    self.interval = interval
    self.latency = latency
    self.supervisionTimeout = supervisionTimeout
  }
}

/// A wish for connection parameters: a range of intervals, the rest as it shall be.
@frozen
public struct ConnectionParameterRange: Hashable, Sendable {
  public var intervalMin: ConnectionInterval
  public var intervalMax: ConnectionInterval
  /// Events that the Peripheral may skip: 0-499.
  public var latency: UInt16
  public var supervisionTimeout: SupervisionTimeout

  @inlinable
  public init(
    intervalMin: ConnectionInterval, intervalMax: ConnectionInterval, latency: UInt16,
    supervisionTimeout: SupervisionTimeout
  ) {
    self.intervalMin = intervalMin
    self.intervalMax = intervalMax
    self.latency = latency
    self.supervisionTimeout = supervisionTimeout
  }

  /// Whether every value is in its range and the timeout outlasts the latency: more than
  /// (1 + latency) x intervalMax x 2 (Vol 4 Part E 7.8.12).
  public var isValid: Bool {
    ConnectionInterval.validRange.contains(intervalMin.rawValue)
      && ConnectionInterval.validRange.contains(intervalMax.rawValue) && intervalMin <= intervalMax && latency <= 499
      && SupervisionTimeout.validRange.contains(supervisionTimeout.rawValue)
      && supervisionTimeout.timeSpan.nanoseconds > intervalMax.timeSpan.nanoseconds * Int64(1 + latency) * 2
  }
}
