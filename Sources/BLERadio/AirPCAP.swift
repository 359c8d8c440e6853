// SPDX-License-Identifier: Apache-2.0

public import BLECore

/// Captures of the air as Wireshark reads and writes them: pcap with nanoseconds, link type 256, each packet behind the
/// pseudo-header "PHDR" that says how it was received. All integers are little-endian.
///
/// Whether the CRC is right is left for Wireshark to find out, where it can: the packets carry it.
public enum AirPCAP {
  static let magic: UInt32 = 0xA1B2_3C4D
  static let linkType: UInt32 = 256
  static let headerByteCount = 24
  static let recordHeaderByteCount = 16
  /// The pseudo-header before the access address.
  static let pseudoHeaderByteCount = 10
  static let snapLength: UInt32 = 0xFFFF

  /// What kind of packet it is, bits 7-9 of the flags.
  public enum Kind: UInt16, Hashable, Sendable {
    /// On an advertising channel, or of an unknown link.
    case advertising = 0
    /// Extended advertising's packets on data channels.
    case auxiliaryAdvertising = 1
    case centralToPeripheral = 2
    case peripheralToCentral = 3
  }

  /// What a PDU of type 7 on a data channel is, bits 12-13 of the flags: its own bits do not tell.
  public enum Auxiliary: UInt16, Hashable, Sendable {
    case auxAdvInd = 0
    case auxChainInd = 1
    case auxSyncInd = 2
    case auxScanRsp = 3
  }

  /// One packet.
  public struct Record: Hashable, Sendable {
    /// Since the capture's origin; for a simulated world its own time. Nanoseconds, not negative.
    public var time: Instant
    /// 0...39 as the Link Layer numbers them.
    public var channel: UInt8
    /// dBm.
    public var rssi: Int8
    public var accessAddress: UInt32
    public var kind: Kind
    public var auxiliary: Auxiliary
    /// The PDU was encrypted on air; here it is in clear, without its MIC.
    public var isDecrypted: Bool
    public var phy: AirPHY
    public var coding: AirCoding
    /// Header and payload.
    public var pdu: [UInt8]
    /// The first octet on air in the low bits.
    public var crc: UInt32

    public init(
      time: Instant, channel: UInt8, rssi: Int8, accessAddress: UInt32, kind: Kind = .advertising,
      auxiliary: Auxiliary = .auxAdvInd, isDecrypted: Bool = false, phy: AirPHY = .le1M, coding: AirCoding = .s8,
      pdu: [UInt8], crc: UInt32
    ) {
      self.time = time
      self.channel = channel
      self.rssi = rssi
      self.accessAddress = accessAddress
      self.kind = kind
      self.auxiliary = auxiliary
      self.isDecrypted = isDecrypted
      self.phy = phy
      self.coding = coding
      self.pdu = pdu
      self.crc = crc
    }

    /// Gives the packet the CRC that it has with the CRCInit `initial`.
    public mutating func setCRC(initial: UInt32) { crc = LinkLayerCRC.compute(pdu.span.bytes, initial: initial) }
  }

  /// Why a file could not be read.
  public enum ReadError: Error, Hashable, Sendable {
    /// It does not begin as a pcap file of this kind with nanoseconds.
    case unsupportedFormat
    /// The record that begins at this offset ends too early, or its lengths contradict each other.
    case damagedRecord(offset: Int)
  }

  // MARK: - Writing

  /// Writes what a file begins with.
  public static func encodeHeader(into writer: inout ByteWriter) {
    writer.u32(magic)
    writer.u16(2)
    writer.u16(4)
    writer.u32(0)
    writer.u32(0)
    writer.u32(snapLength)
    writer.u32(linkType)
  }

  /// Writes one packet.
  public static func encode(_ record: Record, into writer: inout ByteWriter) {
    let isCoded = record.phy == .leCoded
    let count = UInt32(pseudoHeaderByteCount + 4 + (isCoded ? 1 : 0) + record.pdu.count + 3)
    let time = UInt64(max(0, record.time.nanoseconds))
    writer.u32(UInt32(truncatingIfNeeded: time / 1_000_000_000))
    writer.u32(UInt32(time % 1_000_000_000))
    writer.u32(count)
    writer.u32(count)
    writer.u8(rfChannel(record.channel))
    writer.i8(record.rssi)
    // No noise, and no doubt about the access address.
    writer.i8(0)
    writer.u8(0)
    writer.u32(record.accessAddress)
    writer.u16(flags(record))
    writer.u32(record.accessAddress)
    if isCoded { writer.u8(record.coding.rawValue) }
    writer.bytes(record.pdu)
    writer.u24(record.crc)
  }

  private static func flags(_ record: Record) -> UInt16 {
    // Dewhitened; signal power and reference access address are valid.
    var flags: UInt16 = 1 << 0 | 1 << 1 | 1 << 4
    flags |= record.kind.rawValue << 7
    switch record.kind {
    case .auxiliaryAdvertising: flags |= record.auxiliary.rawValue << 12
    case .centralToPeripheral, .peripheralToCentral:
      // The MIC was checked, and right.
      if record.isDecrypted { flags |= 1 << 3 | 1 << 12 | 1 << 13 }
    case .advertising: break
    }
    // Wireshark 4.0 counts octets of a PDU in eight bits, and of coded advertising PDUs the indicator as well, when it works
    // out the CRC: of these it is told that the CRC was checked, and right.
    if record.pdu.count > 255 || (record.phy == .leCoded && record.kind.rawValue <= Kind.auxiliaryAdvertising.rawValue)
    {
      flags |= 1 << 10 | 1 << 11
    }
    return flags | UInt16(record.phy.rawValue - 1) << 14
  }

  /// The channel by frequency: 0 is 2402 MHz, each further one 2 MHz more (Vol 6 Part B 1.4.1).
  static func rfChannel(_ channel: UInt8) -> UInt8 {
    switch channel {
    case 0...10: channel + 1
    case 11...36: channel + 2
    case 37: 0
    case 38: 12
    default: 39
    }
  }

  private static func channel(rf: UInt8) -> UInt8? {
    switch rf {
    case 0: 37
    case 1...11: rf - 1
    case 12: 38
    case 13...38: rf - 2
    case 39: 39
    default: nil
    }
  }

  // MARK: - Reading

  /// Reads a whole file and calls `body` for every packet in it.
  public static func read(_ file: RawSpan, _ body: (Record) throws -> Void) throws {
    var reader = ByteReader(file)
    guard file.byteCount >= headerByteCount, try reader.u32() == magic else { throw ReadError.unsupportedFormat }
    try reader.skip(16)
    guard try reader.u32() & 0x0FFF_FFFF == linkType else { throw ReadError.unsupportedFormat }
    while reader.remaining > 0 {
      let offset = reader.offset
      guard let record = record(&reader) else { throw ReadError.damagedRecord(offset: offset) }
      try body(record)
    }
  }

  private static func record(_ reader: inout ByteReader) -> Record? {
    guard let seconds = try? reader.u32(), let nanoseconds = try? reader.u32(), let count = try? reader.u32(),
      let original = try? reader.u32(), count == original, let content = try? reader.array(Int(count))
    else { return nil }
    let time = Instant(nanoseconds: Int64(seconds) * 1_000_000_000 + Int64(nanoseconds))
    return try? Record(time: time, content: content)
  }
}

extension AirPCAP.Record {
  fileprivate init(time: Instant, content: [UInt8]) throws {
    var reader = ByteReader(content.span.bytes)
    guard let channel = AirPCAP.channel(ofRF: try reader.u8()) else { throw AirPCAP.ReadError.unsupportedFormat }
    let rssi = try reader.i8()
    try reader.skip(6)
    let flags = try reader.u16()
    guard let phy = AirPHY(rawValue: UInt8(flags >> 14) + 1) else { throw AirPCAP.ReadError.unsupportedFormat }
    let accessAddress = try reader.u32()
    let coding = phy == .leCoded ? AirCoding(rawValue: try reader.u8()) ?? .s8 : .s8
    guard reader.remaining >= 5 else { throw AirPCAP.ReadError.unsupportedFormat }
    let pdu = try reader.array(reader.remaining - 3)
    let kind = AirPCAP.Kind(rawValue: flags >> 7 & 7) ?? .advertising
    // Elsewhere these bits tell of the MIC.
    let auxiliary = kind == .auxiliaryAdvertising ? AirPCAP.Auxiliary(rawValue: flags >> 12 & 3) : nil
    self.init(
      time: time, channel: channel, rssi: rssi, accessAddress: accessAddress, kind: kind,
      auxiliary: auxiliary ?? .auxAdvInd, isDecrypted: flags & 1 << 3 != 0, phy: phy,
      coding: coding, pdu: pdu, crc: try reader.u24())
  }
}

extension AirPCAP { fileprivate static func channel(ofRF number: UInt8) -> UInt8? { channel(rf: number) } }
