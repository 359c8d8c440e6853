// SPDX-License-Identifier: Apache-2.0

import BLECore
import BLEHCI

// MARK: - Advertising physical channel

/// PDU types on the primary advertising channels (Vol 6 Part B 2.3).
struct AdvertisingPDUType: RawRepresentable, Hashable, Sendable {
  let rawValue: UInt8

  static let advInd = AdvertisingPDUType(rawValue: 0)
  static let advDirectInd = AdvertisingPDUType(rawValue: 1)
  static let advNonconnInd = AdvertisingPDUType(rawValue: 2)
  static let scanReq = AdvertisingPDUType(rawValue: 3)
  static let scanRsp = AdvertisingPDUType(rawValue: 4)
  static let connectInd = AdvertisingPDUType(rawValue: 5)
  static let advScanInd = AdvertisingPDUType(rawValue: 6)
  /// On data channels AUX_ADV_IND, AUX_SCAN_RSP, AUX_SYNC_IND or AUX_CHAIN_IND.
  static let advExtInd = AdvertisingPDUType(rawValue: 7)
  static let auxConnectRsp = AdvertisingPDUType(rawValue: 8)
}

/// The header of an advertising PDU (Vol 6 Part B 2.3).
struct AdvertisingHeader: WireCodable, Hashable, Sendable {
  var type: AdvertisingPDUType
  /// The sender supports channel selection algorithm #2.
  var chSel: Bool
  /// The first address of the payload is random.
  var txAdd: Bool
  /// The second one is.
  var rxAdd: Bool
  var length: UInt8

  init(type: AdvertisingPDUType, chSel: Bool = false, txAdd: Bool, rxAdd: Bool = false, length: Int) {
    self.type = type
    self.chSel = chSel
    self.txAdd = txAdd
    self.rxAdd = rxAdd
    self.length = UInt8(clamping: length)
  }

  init(from reader: inout ByteReader) throws(DecodeError) {
    let flags = try reader.u8()
    type = AdvertisingPDUType(rawValue: flags & 0x0F)
    chSel = flags & 0x20 != 0
    txAdd = flags & 0x40 != 0
    rxAdd = flags & 0x80 != 0
    length = try reader.u8()
  }

  func encode(into writer: inout ByteWriter) {
    writer.u8(type.rawValue & 0x0F | (chSel ? 0x20 : 0) | (txAdd ? 0x40 : 0) | (rxAdd ? 0x80 : 0))
    writer.u8(length)
  }
}

extension DeviceAddress {
  init(from reader: inout ByteReader, isRandom: Bool) throws(DecodeError) {
    self.init(try BDAddress(from: &reader), type: isRandom ? .random : .publicDevice)
  }

  /// TxAdd or RxAdd.
  var isRandom: Bool { type.onAir == .random }
}

/// LLData of CONNECT_IND (Vol 6 Part B 2.3.3.1).
struct ConnectionRequestData: WireCodable, Hashable, Sendable {
  var accessAddress: UInt32
  /// 24 bits.
  var crcInit: UInt32
  /// Units of 1.25 ms.
  var winSize: UInt8
  var winOffset: UInt16
  var interval: ConnectionInterval
  var latency: UInt16
  var timeout: SupervisionTimeout
  /// 40 bits, the upper 3 reserved.
  var channelMap: UInt64
  /// hopIncrement, 5 bits.
  var hop: UInt8
  /// Sleep clock accuracy, 3 bits.
  var sca: UInt8

  init(
    accessAddress: UInt32, crcInit: UInt32, winSize: UInt8, winOffset: UInt16, parameters: ConnectionParameters,
    channelMap: UInt64, hop: UInt8, sca: UInt8
  ) {
    self.accessAddress = accessAddress
    self.crcInit = crcInit
    self.winSize = winSize
    self.winOffset = winOffset
    interval = parameters.interval
    latency = parameters.latency
    timeout = parameters.supervisionTimeout
    self.channelMap = channelMap
    self.hop = hop
    self.sca = sca
  }

  init(from reader: inout ByteReader) throws(DecodeError) {
    accessAddress = try reader.u32()
    crcInit = try reader.u24()
    winSize = try reader.u8()
    winOffset = try reader.u16()
    interval = ConnectionInterval(rawValue: try reader.u16())
    latency = try reader.u16()
    timeout = SupervisionTimeout(rawValue: try reader.u16())
    channelMap = try readChannelMap(&reader)
    let last = try reader.u8()
    hop = last & 0x1F
    sca = last >> 5
  }

  func encode(into writer: inout ByteWriter) {
    writer.u32(accessAddress)
    writer.u24(crcInit)
    writer.u8(winSize)
    writer.u16(winOffset)
    writer.u16(interval.rawValue)
    writer.u16(latency)
    writer.u16(timeout.rawValue)
    writeChannelMap(channelMap, &writer)
    writer.u8(hop & 0x1F | sca << 5)
  }

  var parameters: ConnectionParameters {
    ConnectionParameters(interval: interval, latency: latency, supervisionTimeout: timeout)
  }

  /// Whether every field is in its range (2.3.3.1); what is not is ignored by the advertiser.
  var isValid: Bool {
    let range = ConnectionParameterRange(
      intervalMin: interval, intervalMax: interval, latency: latency, supervisionTimeout: timeout)
    return range.isValid && AccessAddress.isValid(accessAddress) && (1...8).contains(winSize)
      && UInt16(winSize) < interval.rawValue && winOffset <= interval.rawValue && (5...16).contains(hop)
      && (channelMap & LinkLayer.allDataChannels).nonzeroBitCount >= 2
  }
}

private func readChannelMap(_ reader: inout ByteReader) throws(DecodeError) -> UInt64 {
  let low = try reader.u32()
  return UInt64(low) | UInt64(try reader.u8()) << 32
}

private func writeChannelMap(_ map: UInt64, _ writer: inout ByteWriter) {
  writer.u32(UInt32(truncatingIfNeeded: map))
  writer.u8(UInt8(truncatingIfNeeded: map >> 32))
}

// MARK: - Data physical channel

/// LLID of a data PDU (Vol 6 Part B 2.4).
enum LLID: UInt8, Hashable, Sendable {
  case reserved = 0
  /// A further fragment, or nothing at all.
  case continuation = 1
  /// The first fragment of an L2CAP frame.
  case start = 2
  case control = 3
}

/// The first octet of a data PDU's header (Vol 6 Part B 2.4).
struct DataHeader: Hashable, Sendable {
  var llid: LLID
  var nesn: Bool
  var sn: Bool
  /// More data.
  var md: Bool

  init(llid: LLID, nesn: Bool, sn: Bool, md: Bool) {
    self.llid = llid
    self.nesn = nesn
    self.sn = sn
    self.md = md
  }

  init(_ octet: UInt8) {
    llid =
      switch octet & 3 {
      case 1: .continuation
      case 2: .start
      case 3: .control
      default: .reserved
      }
    nesn = octet & 4 != 0
    sn = octet & 8 != 0
    md = octet & 16 != 0
  }

  var octet: UInt8 { llid.rawValue | (nesn ? 4 : 0) | (sn ? 8 : 0) | (md ? 16 : 0) }
}

/// LL control PDUs that this controller sends or understands (Vol 6 Part B 2.4.2).
enum LLControlPDU: Hashable, Sendable {
  case connectionUpdateInd(
    winSize: UInt8, winOffset: UInt16, interval: ConnectionInterval, latency: UInt16, timeout: SupervisionTimeout,
    instant: UInt16)
  case channelMapInd(channelMap: UInt64, instant: UInt16)
  case terminateInd(HCIStatus)
  case encReq(EncryptionRequest)
  /// SKD_P and IV_P.
  case encRsp(SessionHalf)
  case startEncReq
  case startEncRsp
  case unknownRsp(opcode: UInt8)
  case featureReq(UInt64)
  case featureRsp(UInt64)
  case pauseEncReq
  case pauseEncRsp
  case versionInd(version: UInt8, company: UInt16, subversion: UInt16)
  case rejectInd(HCIStatus)
  case peripheralFeatureReq(UInt64)
  case connectionParamReq(ConnectionParam)
  case connectionParamRsp(ConnectionParam)
  case rejectExtInd(opcode: UInt8, HCIStatus)
  case pingReq
  case pingRsp
  case lengthReq(DataLengths)
  case lengthRsp(DataLengths)
  case phyReq(tx: PHYMask, rx: PHYMask)
  case phyRsp(tx: PHYMask, rx: PHYMask)
  /// What the Central sends on from the instant, and what the Peripheral does; ``PHYMask`` with one bit, or none: as it is.
  case phyUpdateInd(central: PHYMask, peripheral: PHYMask, instant: UInt16)
  case minUsedChannelsInd(phys: PHYMask, count: UInt8)
  /// Sleep clock accuracy, 0-7.
  case clockAccuracyReq(UInt8)
  case clockAccuracyRsp(UInt8)
  /// An opcode not understood here, or one with another length than it must have.
  case unknown(opcode: UInt8, data: [UInt8])

  /// Max_RX_Octets to Max_TX_Time (2.4.2.21).
  struct DataLengths: Hashable, Sendable {
    var maxRxOctets: UInt16
    var maxRxTime: UInt16
    var maxTxOctets: UInt16
    var maxTxTime: UInt16

    init(maxRxOctets: UInt16, maxRxTime: UInt16, maxTxOctets: UInt16, maxTxTime: UInt16) {
      self.maxRxOctets = maxRxOctets
      self.maxRxTime = maxRxTime
      self.maxTxOctets = maxTxOctets
      self.maxTxTime = maxTxTime
    }

    fileprivate init(from reader: inout ByteReader) throws(DecodeError) {
      maxRxOctets = try reader.u16()
      maxRxTime = try reader.u16()
      maxTxOctets = try reader.u16()
      maxTxTime = try reader.u16()
    }

    fileprivate func encode(into writer: inout ByteWriter) {
      writer.u16(maxRxOctets)
      writer.u16(maxRxTime)
      writer.u16(maxTxOctets)
      writer.u16(maxTxTime)
    }
  }

  /// What one side brings into the session key: session key diversifier and initialization vector (2.4.2.4, 2.4.2.5).
  struct SessionHalf: Hashable, Sendable {
    var skd: UInt64
    var iv: UInt32

    init(skd: UInt64, iv: UInt32) {
      self.skd = skd
      self.iv = iv
    }

    fileprivate init(from reader: inout ByteReader) throws(DecodeError) {
      skd = try reader.u64()
      iv = try reader.u32()
    }

    fileprivate func encode(into writer: inout ByteWriter) {
      writer.u64(skd)
      writer.u32(iv)
    }
  }

  /// Rand to IV_C (2.4.2.4).
  struct EncryptionRequest: Hashable, Sendable {
    var randomNumber: UInt64
    var diversifier: UInt16
    var half: SessionHalf

    init(randomNumber: UInt64, diversifier: UInt16, half: SessionHalf) {
      self.randomNumber = randomNumber
      self.diversifier = diversifier
      self.half = half
    }

    fileprivate init(from reader: inout ByteReader) throws(DecodeError) {
      randomNumber = try reader.u64()
      diversifier = try reader.u16()
      half = try SessionHalf(from: &reader)
    }

    fileprivate func encode(into writer: inout ByteWriter) {
      writer.u64(randomNumber)
      writer.u16(diversifier)
      half.encode(into: &writer)
    }
  }

  /// Interval_Min to Offset5 (2.4.2.16).
  struct ConnectionParam: Hashable, Sendable {
    var range: ConnectionParameterRange
    /// Units of 1.25 ms; 0: none.
    var preferredPeriodicity: UInt8
    var referenceEventCount: UInt16
    /// Anchor points in the order of preference, units of 1.25 ms; 0xFFFF: none.
    var offsets: [UInt16]

    init(_ range: ConnectionParameterRange, referenceEventCount: UInt16) {
      self.range = range
      preferredPeriodicity = 0
      self.referenceEventCount = referenceEventCount
      offsets = Array(repeating: 0xFFFF, count: 6)
    }

    /// Whether every field is in its range.
    var isValid: Bool {
      range.isValid && UInt16(preferredPeriodicity) <= range.intervalMax.rawValue
        && offsets.allSatisfy { $0 == 0xFFFF || $0 < range.intervalMax.rawValue }
    }

    fileprivate init(from reader: inout ByteReader) throws(DecodeError) {
      range = ConnectionParameterRange(
        intervalMin: ConnectionInterval(rawValue: try reader.u16()),
        intervalMax: ConnectionInterval(rawValue: try reader.u16()), latency: try reader.u16(),
        supervisionTimeout: SupervisionTimeout(rawValue: try reader.u16()))
      preferredPeriodicity = try reader.u8()
      referenceEventCount = try reader.u16()
      offsets = []
      for _ in 0..<6 { offsets.append(try reader.u16()) }
    }

    fileprivate func encode(into writer: inout ByteWriter) {
      writer.u16(range.intervalMin.rawValue)
      writer.u16(range.intervalMax.rawValue)
      writer.u16(range.latency)
      writer.u16(range.supervisionTimeout.rawValue)
      writer.u8(preferredPeriodicity)
      writer.u16(referenceEventCount)
      for offset in offsets { writer.u16(offset) }
    }
  }

  var opcode: UInt8 {
    switch self {
    case .connectionUpdateInd: 0x00
    case .channelMapInd: 0x01
    case .terminateInd: 0x02
    case .encReq: 0x03
    case .encRsp: 0x04
    case .startEncReq: 0x05
    case .startEncRsp: 0x06
    case .unknownRsp: 0x07
    case .featureReq: 0x08
    case .featureRsp: 0x09
    case .pauseEncReq: 0x0A
    case .pauseEncRsp: 0x0B
    case .versionInd: 0x0C
    case .rejectInd: 0x0D
    case .peripheralFeatureReq: 0x0E
    case .connectionParamReq: 0x0F
    case .connectionParamRsp: 0x10
    case .rejectExtInd: 0x11
    case .pingReq: 0x12
    case .pingRsp: 0x13
    case .lengthReq: 0x14
    case .lengthRsp: 0x15
    case .phyReq: 0x16
    case .phyRsp: 0x17
    case .phyUpdateInd: 0x18
    case .minUsedChannelsInd: 0x19
    case .clockAccuracyReq: 0x1D
    case .clockAccuracyRsp: 0x1E
    case .unknown(let opcode, _): opcode
    }
  }
}

extension LLControlPDU: WireCodable {
  /// Decodes all that is left. Only an empty PDU throws: whatever else cannot be read is ``unknown(opcode:data:)``.
  init(from reader: inout ByteReader) throws(DecodeError) {
    let opcode = try reader.u8()
    let start = reader.offset
    do throws(DecodeError) {
      self = try Self.known(opcode, &reader)
      try reader.expectEnd()
    } catch {
      reader.offset = start
      self = .unknown(opcode: opcode, data: reader.restArray())
    }
  }

  private static func known(_ opcode: UInt8, _ reader: inout ByteReader) throws(DecodeError) -> LLControlPDU {
    switch opcode {
    case 0x00:
      .connectionUpdateInd(
        winSize: try reader.u8(), winOffset: try reader.u16(), interval: ConnectionInterval(rawValue: try reader.u16()),
        latency: try reader.u16(), timeout: SupervisionTimeout(rawValue: try reader.u16()), instant: try reader.u16())
    case 0x01: .channelMapInd(channelMap: try readChannelMap(&reader), instant: try reader.u16())
    case 0x02: .terminateInd(HCIStatus(rawValue: try reader.u8()))
    case 0x03: .encReq(try EncryptionRequest(from: &reader))
    case 0x04: .encRsp(try SessionHalf(from: &reader))
    case 0x05: .startEncReq
    case 0x06: .startEncRsp
    case 0x07: .unknownRsp(opcode: try reader.u8())
    case 0x08: .featureReq(try reader.u64())
    case 0x09: .featureRsp(try reader.u64())
    case 0x0A: .pauseEncReq
    case 0x0B: .pauseEncRsp
    case 0x0C: .versionInd(version: try reader.u8(), company: try reader.u16(), subversion: try reader.u16())
    case 0x0D: .rejectInd(HCIStatus(rawValue: try reader.u8()))
    case 0x0E: .peripheralFeatureReq(try reader.u64())
    case 0x0F: .connectionParamReq(try ConnectionParam(from: &reader))
    case 0x10: .connectionParamRsp(try ConnectionParam(from: &reader))
    case 0x11: .rejectExtInd(opcode: try reader.u8(), HCIStatus(rawValue: try reader.u8()))
    case 0x12: .pingReq
    case 0x13: .pingRsp
    case 0x14: .lengthReq(try DataLengths(from: &reader))
    case 0x15: .lengthRsp(try DataLengths(from: &reader))
    case 0x16: .phyReq(tx: PHYMask(rawValue: try reader.u8()), rx: PHYMask(rawValue: try reader.u8()))
    case 0x17: .phyRsp(tx: PHYMask(rawValue: try reader.u8()), rx: PHYMask(rawValue: try reader.u8()))
    case 0x18:
      .phyUpdateInd(
        central: PHYMask(rawValue: try reader.u8()), peripheral: PHYMask(rawValue: try reader.u8()),
        instant: try reader.u16())
    case 0x19: .minUsedChannelsInd(phys: PHYMask(rawValue: try reader.u8()), count: try reader.u8())
    case 0x1D: .clockAccuracyReq(try reader.u8())
    case 0x1E: .clockAccuracyRsp(try reader.u8())
    default: .unknown(opcode: opcode, data: reader.restArray())
    }
  }

  func encode(into writer: inout ByteWriter) {
    writer.u8(opcode)
    switch self {
    case .connectionUpdateInd(let winSize, let winOffset, let interval, let latency, let timeout, let instant):
      writer.u8(winSize)
      writer.u16(winOffset)
      writer.u16(interval.rawValue)
      writer.u16(latency)
      writer.u16(timeout.rawValue)
      writer.u16(instant)
    case .channelMapInd(let map, let instant):
      writeChannelMap(map, &writer)
      writer.u16(instant)
    case .encReq(let request): request.encode(into: &writer)
    case .encRsp(let half): half.encode(into: &writer)
    case .terminateInd(let reason), .rejectInd(let reason): writer.u8(reason.rawValue)
    case .unknownRsp(let opcode): writer.u8(opcode)
    case .featureReq(let features), .featureRsp(let features), .peripheralFeatureReq(let features):
      writer.u64(features)
    case .versionInd(let version, let company, let subversion):
      writer.u8(version)
      writer.u16(company)
      writer.u16(subversion)
    case .connectionParamReq(let parameters), .connectionParamRsp(let parameters): parameters.encode(into: &writer)
    case .rejectExtInd(let opcode, let reason):
      writer.u8(opcode)
      writer.u8(reason.rawValue)
    case .startEncReq, .startEncRsp, .pauseEncReq, .pauseEncRsp, .pingReq, .pingRsp: break
    case .lengthReq(let lengths), .lengthRsp(let lengths): lengths.encode(into: &writer)
    case .phyReq(let tx, let rx), .phyRsp(let tx, let rx):
      writer.u8(tx.rawValue)
      writer.u8(rx.rawValue)
    case .phyUpdateInd(let central, let peripheral, let instant):
      writer.u8(central.rawValue)
      writer.u8(peripheral.rawValue)
      writer.u16(instant)
    case .minUsedChannelsInd(let phys, let count):
      writer.u8(phys.rawValue)
      writer.u8(count)
    case .clockAccuracyReq(let accuracy), .clockAccuracyRsp(let accuracy): writer.u8(accuracy)
    case .unknown(_, let data): writer.bytes(data)
    }
  }
}
