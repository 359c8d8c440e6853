// SPDX-License-Identifier: Apache-2.0

/// The value of a characteristic or descriptor as the file describes it: parts, one after the other.
public struct ProfileValue: Hashable, Sendable {
  public var parts: [Part]

  public enum Part: Hashable, Sendable {
    /// Octets that never change: `hex` and `text`.
    case octets([UInt8])
    /// A number in a format, little-endian as the Core Specification wants it.
    case number(NumberFormat, NumberSource)
    /// Whole values, one per step, over and over.
    case cycle([ProfileValue])
    /// Current Time (GATT Specification Supplement 3.62): 10 octets.
    case currentTime
  }

  public init(_ parts: [Part]) { self.parts = parts }

  /// Octets of the longest value that any step makes.
  public var byteCountMax: Int {
    parts.reduce(0) { sum, part in
      switch part {
      case .octets(let octets): sum + octets.count
      case .number(let format, _): sum + format.byteCount
      case .cycle(let values): sum + (values.map(\.byteCountMax).max() ?? 0)
      case .currentTime: sum + 10
      }
    }
  }

  /// Whether a later step, or a later time, can give other octets.
  public var isConstant: Bool {
    parts.allSatisfy { part in
      switch part {
      case .octets, .number(_, .constant): true
      case .number, .cycle, .currentTime: false
      }
    }
  }
}

/// How a number becomes octets.
public enum NumberFormat: String, CaseIterable, Hashable, Sendable {
  case uint8, int8, uint16, int16, uint24, int24, uint32, int32, uint64, int64, float32, float64

  public var byteCount: Int {
    switch self {
    case .uint8, .int8: 1
    case .uint16, .int16: 2
    case .uint24, .int24: 3
    case .uint32, .int32, .float32: 4
    case .uint64, .int64, .float64: 8
    }
  }

  /// The integers that fit. The file's integers are 64-bit and signed, so the upper half of `uint64` needs `hex`.
  public var range: ClosedRange<Int64> {
    switch self {
    case .uint8: 0...0xFF
    case .int8: -0x80...0x7F
    case .uint16: 0...0xFFFF
    case .int16: -0x8000...0x7FFF
    case .uint24: 0...0xFF_FFFF
    case .int24: -0x80_0000...0x7F_FFFF
    case .uint32: 0...0xFFFF_FFFF
    case .int32: -0x8000_0000...0x7FFF_FFFF
    case .uint64: 0...Int64.max
    case .int64: Int64.min...Int64.max
    // What the format holds exactly.
    case .float32: -0x100_0000...0x100_0000
    case .float64: -0x20_0000_0000_0000...0x20_0000_0000_0000
    }
  }

  /// The octets of `value`, least significant first. An integer outside ``range`` keeps its low octets.
  func encode(_ value: Int64) -> [UInt8] {
    switch self {
    case .float32: Self.octets(UInt64(Float(value).bitPattern), 4)
    case .float64: Self.octets(Double(value).bitPattern, 8)
    default: Self.octets(UInt64(bitPattern: value), byteCount)
    }
  }

  func encode(_ value: Double) -> [UInt8] {
    self == .float32 ? Self.octets(UInt64(Float(value).bitPattern), 4) : Self.octets(value.bitPattern, 8)
  }

  static func octets(_ value: UInt64, _ count: Int) -> [UInt8] {
    (0..<count).map { UInt8(truncatingIfNeeded: value >> UInt64($0 * 8)) }
  }
}

/// Where a number comes from at each step.
public enum NumberSource: Hashable, Sendable {
  case constant(Int64)
  /// A fraction; only in `float32` and `float64`.
  case fraction(Double)
  /// `from`, `from` + `step`, …; begins again before it would leave the range between `from` and `to`.
  case counter(from: Int64, to: Int64, step: Int64)
  /// From `from` to `to` in equal strides within `period` steps, then again.
  case ramp(from: Int64, to: Int64, period: Int)
  /// Between `low` and `high`, one wave in `period` steps, rising from the middle.
  case sine(low: Int64, high: Int64, period: Int)
  /// Starts at `start` and moves at most `step` up or down at each step, never out of `low` to `high`.
  case randomWalk(low: Int64, high: Int64, start: Int64, step: Int64, seed: UInt64?)
  case cycle([Int64])
  /// Seconds since 1970, UTC.
  case unixTime
  /// Milliseconds since the profile started.
  case uptime

  /// No generator's number may be beyond this, so that no sum or difference can overflow.
  public static let magnitudeMax: Int64 = 1 << 48
  public static let periodMax = 1_000_000
}

/// What the clocks of a profile show; the caller reads them.
public struct ProfileTime: Hashable, Sendable {
  /// Milliseconds since 1970, UTC.
  public var unixMilliseconds: Int64
  /// What to add to UTC for the local time: seconds.
  public var utcOffset: Int64
  /// Milliseconds since the profile started.
  public var uptimeMilliseconds: Int64

  public init(unixMilliseconds: Int64, utcOffset: Int64 = 0, uptimeMilliseconds: Int64) {
    self.unixMilliseconds = unixMilliseconds
    self.utcOffset = utcOffset
    self.uptimeMilliseconds = uptimeMilliseconds
  }
}
