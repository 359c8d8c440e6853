// SPDX-License-Identifier: Apache-2.0

import BLECore

/// AdvMode of extended advertising (Vol 6 Part B 2.3.4.1); 3 is reserved.
struct AdvertisingMode: RawRepresentable, Hashable, Sendable {
  let rawValue: UInt8

  static let none = AdvertisingMode(rawValue: 0)
  static let connectable = AdvertisingMode(rawValue: 1)
  static let scannable = AdvertisingMode(rawValue: 2)
}

/// AdvDataInfo: which data of which set (Vol 6 Part B 2.3.4.4).
struct AdvertisingDataInfo: WireCodable, Hashable, Sendable {
  /// 12 bits, new with new data.
  var did: UInt16
  /// 4 bits.
  var sid: UInt8

  init(did: UInt16, sid: UInt8) {
    self.did = did & 0xFFF
    self.sid = sid & 0xF
  }

  init(from reader: inout ByteReader) throws(DecodeError) {
    let value = try reader.u16()
    self.init(did: value, sid: UInt8(value >> 12))
  }

  func encode(into writer: inout ByteWriter) { writer.u16(did | UInt16(sid) << 12) }
}

/// AuxPtr: where and when an auxiliary packet begins (Vol 6 Part B 2.3.4.5).
struct AuxiliaryPointer: WireCodable, Hashable, Sendable {
  /// 0-36.
  var channel: UInt8
  /// The advertiser's clock is better than 50 ppm.
  var isAccurate: Bool
  /// 30 us, or 300 us: the packet begins in the unit that ``offset`` names.
  var unit: TimeSpan
  /// From the start of the packet that has this pointer to the earliest start, in units; 13 bits.
  var units: UInt16
  /// nil: one that is not in the specification.
  var phy: AirPHY?

  var offset: TimeSpan { unit * Int(units) }

  /// A pointer to what begins `offset` after the packet with the pointer.
  init(channel: UInt8, offset: TimeSpan, phy: AirPHY) {
    let microseconds = max(0, offset.nanoseconds / 1_000)
    let isLong = microseconds >= 30 << 13
    self.channel = channel
    self.phy = phy
    isAccurate = LinkLayer.sleepClockPPM <= 50
    unit = .microseconds(isLong ? 300 : 30)
    units = UInt16(min(microseconds / (isLong ? 300 : 30), 0x1FFF))
  }

  init(from reader: inout ByteReader) throws(DecodeError) {
    let first = try reader.u8()
    channel = first & 0x3F
    isAccurate = first & 0x40 != 0
    unit = .microseconds(first & 0x80 != 0 ? 300 : 30)
    let rest = try reader.u16()
    units = rest & 0x1FFF
    phy = AirPHY(rawValue: UInt8(rest >> 13) + 1)
  }

  func encode(into writer: inout ByteWriter) {
    writer.u8(channel & 0x3F | (isAccurate ? 0x40 : 0) | (unit > .microseconds(30) ? 0x80 : 0))
    writer.u16(units & 0x1FFF | UInt16((phy ?? .le1M).rawValue - 1) << 13)
  }
}

/// The Common Extended Advertising Payload: what all PDUs of type 7 and AUX_CONNECT_RSP consist of (Vol 6 Part B 2.3.4).
struct ExtendedAdvertisingPayload: WireCodable, Hashable, Sendable {
  var mode = AdvertisingMode.none
  var advA: BDAddress?
  var targetA: BDAddress?
  var adi: AdvertisingDataInfo?
  var auxPtr: AuxiliaryPointer?
  /// dBm.
  var txPower: Int8?
  var data: [UInt8] = []

  /// The longest payload.
  static let countMax = 255

  private struct Flags {
    static let advA: UInt8 = 1 << 0
    static let targetA: UInt8 = 1 << 1
    static let cteInfo: UInt8 = 1 << 2
    static let adi: UInt8 = 1 << 3
    static let auxPtr: UInt8 = 1 << 4
    static let syncInfo: UInt8 = 1 << 5
    static let txPower: UInt8 = 1 << 6
  }

  init() {}

  /// Whatever else the extended header has is passed over; its length says how far.
  init(from reader: inout ByteReader) throws(DecodeError) {
    let first = try reader.u8()
    mode = AdvertisingMode(rawValue: first >> 6)
    var header = ByteReader(try reader.span(Int(first & 0x3F)))
    if !header.isAtEnd {
      let flags = try header.u8()
      if flags & Flags.advA != 0 { advA = try BDAddress(from: &header) }
      if flags & Flags.targetA != 0 { targetA = try BDAddress(from: &header) }
      if flags & Flags.cteInfo != 0 { try header.skip(1) }
      if flags & Flags.adi != 0 { adi = try AdvertisingDataInfo(from: &header) }
      if flags & Flags.auxPtr != 0 { auxPtr = try AuxiliaryPointer(from: &header) }
      if flags & Flags.syncInfo != 0 { try header.skip(18) }
      if flags & Flags.txPower != 0 { txPower = try header.i8() }
    }
    data = reader.restArray()
  }

  func encode(into writer: inout ByteWriter) {
    let length = headerCount
    writer.u8(UInt8(length - 1) | mode.rawValue << 6)
    if length > 1 {
      var flags: UInt8 = 0
      if advA != nil { flags |= Flags.advA }
      if targetA != nil { flags |= Flags.targetA }
      if adi != nil { flags |= Flags.adi }
      if auxPtr != nil { flags |= Flags.auxPtr }
      if txPower != nil { flags |= Flags.txPower }
      writer.u8(flags)
      advA?.encode(into: &writer)
      targetA?.encode(into: &writer)
      adi?.encode(into: &writer)
      auxPtr?.encode(into: &writer)
      if let txPower { writer.i8(txPower) }
    }
    writer.bytes(data)
  }

  /// Octets before the data.
  var headerCount: Int {
    let fields = (advA == nil ? 0 : 6) + (targetA == nil ? 0 : 6) + (adi == nil ? 0 : 2) + (auxPtr == nil ? 0 : 3)
    let all = fields + (txPower == nil ? 0 : 1)
    return all == 0 ? 1 : 2 + all
  }

  /// Octets in all.
  var count: Int { headerCount + data.count }
  /// Octets of data that there is room for.
  var room: Int { Self.countMax - headerCount }
}
