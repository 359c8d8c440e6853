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
  case unknownRsp(opcode: UInt8)
  case featureReq(UInt64)
  case featureRsp(UInt64)
  case versionInd(version: UInt8, company: UInt16, subversion: UInt16)
  case rejectInd(HCIStatus)
  case peripheralFeatureReq(UInt64)
  case rejectExtInd(opcode: UInt8, HCIStatus)
  case pingReq
  case pingRsp
  case lengthReq(DataLengths)
  case lengthRsp(DataLengths)
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

  var opcode: UInt8 {
    switch self {
    case .connectionUpdateInd: 0x00
    case .channelMapInd: 0x01
    case .terminateInd: 0x02
    case .unknownRsp: 0x07
    case .featureReq: 0x08
    case .featureRsp: 0x09
    case .versionInd: 0x0C
    case .rejectInd: 0x0D
    case .peripheralFeatureReq: 0x0E
    case .rejectExtInd: 0x11
    case .pingReq: 0x12
    case .pingRsp: 0x13
    case .lengthReq: 0x14
    case .lengthRsp: 0x15
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
      return .connectionUpdateInd(
        winSize: try reader.u8(), winOffset: try reader.u16(), interval: ConnectionInterval(rawValue: try reader.u16()),
        latency: try reader.u16(), timeout: SupervisionTimeout(rawValue: try reader.u16()), instant: try reader.u16())
    case 0x01: return .channelMapInd(channelMap: try readChannelMap(&reader), instant: try reader.u16())
    case 0x02: return .terminateInd(HCIStatus(rawValue: try reader.u8()))
    case 0x07: return .unknownRsp(opcode: try reader.u8())
    case 0x08: return .featureReq(try reader.u64())
    case 0x09: return .featureRsp(try reader.u64())
    case 0x0C:
      return .versionInd(version: try reader.u8(), company: try reader.u16(), subversion: try reader.u16())
    case 0x0D: return .rejectInd(HCIStatus(rawValue: try reader.u8()))
    case 0x0E: return .peripheralFeatureReq(try reader.u64())
    case 0x11: return .rejectExtInd(opcode: try reader.u8(), HCIStatus(rawValue: try reader.u8()))
    case 0x12: return .pingReq
    case 0x13: return .pingRsp
    case 0x14: return .lengthReq(try DataLengths(from: &reader))
    case 0x15: return .lengthRsp(try DataLengths(from: &reader))
    default:
      return .unknown(opcode: opcode, data: reader.restArray())
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
    case .terminateInd(let reason), .rejectInd(let reason): writer.u8(reason.rawValue)
    case .unknownRsp(let opcode): writer.u8(opcode)
    case .featureReq(let features), .featureRsp(let features), .peripheralFeatureReq(let features):
      writer.u64(features)
    case .versionInd(let version, let company, let subversion):
      writer.u8(version)
      writer.u16(company)
      writer.u16(subversion)
    case .rejectExtInd(let opcode, let reason):
      writer.u8(opcode)
      writer.u8(reason.rawValue)
    case .pingReq, .pingRsp: break
    case .unknown(_, let data): writer.bytes(data)
    case .lengthReq(let lengths), .lengthRsp(let lengths): lengths.encode(into: &writer)
    }
  }
}
