// SPDX-License-Identifier: Apache-2.0

import BLECore

extension Instant {
  /// Later than anything that happens.
  static let never = Instant(nanoseconds: .max)
}

/// Numbers of the Link Layer (Vol 6 Part B).
enum LinkLayer {
  static let channelCount: UInt8 = 40
  static let dataChannelCount: UInt8 = 37
  /// All 37 data channels.
  static let allDataChannels: UInt64 = 0x1F_FFFF_FFFF
  /// The longest PDU: header and 255 octets.
  static let pduCountMax = 257
  static let headerCount = 2

  static let advertisingAccessAddress: UInt32 = 0x8E89_BED6
  static let advertisingCRCInit: UInt32 = 0x55_5555

  /// T_IFS (4.1.1).
  static let interFrameSpace = TimeSpan.microseconds(150)
  /// By how much a space may be shorter than T_IFS (4.2.1): what an event that just fits is allowed, for the sake of clocks
  /// that differ.
  static let spaceTolerance = TimeSpan.microseconds(2)
  /// How much later than T_IFS, or than the latest anchor, a packet may begin (4.2.1, 4.2.4).
  static let jitterAllowance = TimeSpan.microseconds(16)
  /// The delay between the end of CONNECT_IND and the earliest transmit window (4.5.3).
  static let transmitWindowDelay = TimeSpan.microseconds(1250)
  /// That delay by the PDU that asked for the connection, and its PHY.
  static func transmitWindowDelay(isAuxiliary: Bool, _ phy: AirPHY) -> TimeSpan {
    guard isAuxiliary else { return transmitWindowDelay }
    return phy == .leCoded ? .microseconds(3_750) : .microseconds(2_500)
  }

  /// T_MAFS, the least time between packets of one extended advertising event (4.1.2).
  static let auxiliaryFrameSpace = TimeSpan.microseconds(300)
  /// The unit of window offsets and sizes, and of connection intervals.
  static let windowUnit = TimeSpan.microseconds(1250)
  /// Clock accuracy that all devices claim, and the code that CONNECT_IND has for it.
  static let sleepClockPPM: Int64 = 50
  static let sleepClockAccuracyCode: UInt8 = 5
  /// The worst accuracy that a code from a peer stands for (2.3.3.1).
  static func sleepClockPPM(_ code: UInt8) -> Int64 {
    switch code {
    case 0: 500
    case 1: 250
    case 2: 150
    case 3: 100
    case 4: 75
    case 5: 50
    case 6: 30
    case 7: 20
    default: 500
    }
  }
  /// Authenticated payload timeout until a host sets another (Vol 4 Part E 6.21).
  static let payloadTimeout = TimeSpan.seconds(30)
  /// The allowance for jitter when a receiver widens its window (4.2.4).
  static let windowJitter = TimeSpan.microseconds(16)
  /// Procedure response timeout (5.2).
  static let procedureTimeout = TimeSpan.seconds(40)
  /// Instants lie at least this many connection events ahead (5.5).
  static let instantDistance: UInt16 = 6

  /// Octets of the MIC of an encrypted PDU (2.4).
  static let micCount = 4

  /// Octets and microseconds of data PDUs without Data Length Update (4.5.10).
  static let dataOctetsMin: UInt16 = 27
  static let dataTimeMin: UInt16 = 328
  static let dataOctetsMax: UInt16 = 251
  /// The longest data PDU: 251 octets and MIC, with eight symbols per bit.
  static let dataTimeMax: UInt16 = 17_040
  /// The longest one on 1M.
  static let uncodedDataTimeMax: UInt16 = 2120
  /// The longest one of 27 octets on the coded PHY.
  static let codedDataTimeMin: UInt16 = 2704
}

/// The chosen channel of each connection event (Vol 6 Part B 4.5.8).
struct ChannelSelector {
  private enum Algorithm {
    /// #1: `unmapped` is that of the last event.
    case hop(increment: UInt8, unmapped: UInt8)
    /// #2: the channel identifier made from the access address.
    case permute(identifier: UInt16)
  }

  private var algorithm: Algorithm
  /// Bit k: data channel k is used.
  private(set) var channelMap: UInt64
  /// The used channels in ascending order.
  private var used: [UInt8] = []

  /// Algorithm #1 with hopIncrement 5-16.
  init(hopIncrement: UInt8, channelMap: UInt64) {
    algorithm = .hop(increment: hopIncrement, unmapped: 0)
    self.channelMap = 0
    setChannelMap(channelMap)
  }

  /// Algorithm #2.
  init(accessAddress: UInt32, channelMap: UInt64) {
    algorithm = .permute(identifier: UInt16(truncatingIfNeeded: accessAddress ^ accessAddress >> 16))
    self.channelMap = 0
    setChannelMap(channelMap)
  }

  /// Bits beyond the data channels are ignored, and so is a map without any channel.
  mutating func setChannelMap(_ map: UInt64) {
    let valid = map & LinkLayer.allDataChannels
    channelMap = valid == 0 ? LinkLayer.allDataChannels : valid
    used.removeAll(keepingCapacity: true)
    for channel in 0..<LinkLayer.dataChannelCount where channelMap >> UInt64(channel) & 1 == 1 { used.append(channel) }
  }

  /// The channel of the event `eventCounter`, which is `distance` events after the last one asked for (1 if none was
  /// skipped; the first event is 1 after none).
  mutating func advance(to eventCounter: UInt16, distance: Int) -> UInt8 {
    switch algorithm {
    case .hop(let increment, let last):
      let count = Int(LinkLayer.dataChannelCount)
      let unmapped = UInt8((Int(last) + Int(increment) * (distance % count)) % count)
      algorithm = .hop(increment: increment, unmapped: unmapped)
      return isUsed(unmapped) ? unmapped : used[Int(unmapped) % used.count]
    case .permute(let identifier):
      let prn = Self.permuted(eventCounter, identifier)
      let unmapped = UInt8(prn % UInt16(LinkLayer.dataChannelCount))
      return isUsed(unmapped) ? unmapped : used[(used.count * Int(prn)) >> 16]
    }
  }

  private func isUsed(_ channel: UInt8) -> Bool { channelMap >> UInt64(channel) & 1 == 1 }

  /// prn_e (4.5.8.3.3).
  static func permuted(_ eventCounter: UInt16, _ identifier: UInt16) -> UInt16 {
    var value = eventCounter ^ identifier
    for _ in 0..<3 {
      value = reverse(UInt8(value >> 8)) << 8 | reverse(UInt8(truncatingIfNeeded: value))
      value = value &* 17 &+ identifier
    }
    return value ^ identifier
  }

  private static func reverse(_ octet: UInt8) -> UInt16 {
    var octet = octet
    octet = octet >> 4 | octet << 4
    octet = (octet & 0xCC) >> 2 | (octet & 0x33) << 2
    return UInt16((octet & 0xAA) >> 1 | (octet & 0x55) << 1)
  }
}

/// Access addresses of connections (Vol 6 Part B 2.1.2).
enum AccessAddress {
  /// An access address that keeps all the rules.
  static func random(using generator: inout SeededGenerator) -> UInt32 {
    while true {
      let candidate = UInt32(truncatingIfNeeded: generator.next())
      if isValid(candidate) { return candidate }
    }
  }

  static func isValid(_ address: UInt32) -> Bool {
    let difference = address ^ LinkLayer.advertisingAccessAddress
    guard difference.nonzeroBitCount > 1 else { return false }
    let octet = address & 0xFF
    guard address != octet &* 0x0101_0101 else { return false }
    let changes = (address ^ address >> 1) & 0x7FFF_FFFF
    guard changes.nonzeroBitCount <= 24, (changes >> 26).nonzeroBitCount >= 2 else { return false }
    var run = 1
    for bit in 0..<31 {
      run = changes >> UInt32(bit) & 1 == 0 ? run + 1 : 1
      if run > 6 { return false }
    }
    return true
  }
}
