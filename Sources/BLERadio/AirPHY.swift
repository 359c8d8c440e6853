// SPDX-License-Identifier: Apache-2.0

public import BLECore

/// The modulation of a packet on air (Vol 6 Part B 2.1, 2.2); raw values as in HCI.
public enum AirPHY: UInt8, Hashable, Sendable, CaseIterable {
  /// LE 1M: 8 us an octet.
  case le1M = 1
  /// LE 2M: 4 us an octet.
  case le2M = 2
  /// LE Coded: 16 or 64 us an octet, as ``AirCoding`` says; a receiver takes both.
  case leCoded = 3
}

/// The coding scheme of a packet on ``AirPHY/leCoded``; without meaning on the others. Raw values are those of the coding
/// indicator (Vol 6 Part B 2.2.3).
public enum AirCoding: UInt8, Hashable, Sendable, CaseIterable {
  /// Eight symbols per bit: 125 kbit/s.
  case s8 = 0
  /// Two symbols per bit: 500 kbit/s.
  case s2 = 1
}

extension AirPHY {
  /// How long a packet is on air, preamble to CRC or TERM2.
  ///
  /// - Parameters:
  ///   - payloadCount: octets after the header of two, a MIC included.
  ///   - coding: how the payload is coded, if it is.
  public func airTime(payloadCount: Int, coding: AirCoding = .s8) -> TimeSpan {
    switch (self, coding) {
    case (.le1M, _): .microseconds((payloadCount + 10) * 8)
    case (.le2M, _): .microseconds((payloadCount + 11) * 4)
    // Preamble 80, access address 256, CI 16, TERM1 24; then header, payload and CRC, and TERM2 of 3 bits.
    case (.leCoded, .s8): .microseconds(720 + 64 * payloadCount)
    case (.leCoded, .s2): .microseconds(462 + 16 * payloadCount)
    }
  }

  /// The most octets of payload whose packet is on air for at most `nanoseconds`; negative if not even an empty one is.
  func payloadCount(in nanoseconds: Int64, coding: AirCoding = .s8) -> Int {
    let microseconds = Int(nanoseconds / 1_000)
    return switch (self, coding) {
    case (.le1M, _): microseconds / 8 - 10
    case (.le2M, _): microseconds / 4 - 11
    case (.leCoded, .s8): microseconds < 720 ? -1 : (microseconds - 720) / 64
    case (.leCoded, .s2): microseconds < 462 ? -1 : (microseconds - 462) / 16
    }
  }

  /// Preamble and access address: after them a receiver knows that there is a packet for it.
  var synchronizationTime: TimeSpan {
    switch self {
    case .le1M: .microseconds(40)
    case .le2M: .microseconds(24)
    case .leCoded: .microseconds(336)
    }
  }
}
