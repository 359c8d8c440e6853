// SPDX-License-Identifier: Apache-2.0

import BLECore
import BLEHCI

/// An advertising PDU or a scan response that a scanner heard.
struct Advertisement {
  var type: AdvertisingReportType
  var address: DeviceAddress
  /// Whom ADV_DIRECT_IND is for.
  var target: DeviceAddress?
  var chSel: Bool
  /// Of a scan response: what it belongs to can be connected to.
  var isConnectable = false
  var data: [UInt8]

  /// nil for other PDUs and malformed ones.
  init?(_ pdu: RawSpan) {
    var reader = ByteReader(pdu)
    do throws(DecodeError) {
      let header = try AdvertisingHeader(from: &reader)
      guard Int(header.length) == reader.remaining else { return nil }
      switch header.type {
      case .advInd: type = .connectable
      case .advDirectInd: type = .directed
      case .advNonconnInd: type = .nonConnectable
      case .advScanInd: type = .scannable
      case .scanRsp: type = .scanResponse
      default: return nil
      }
      chSel = header.chSel
      address = try DeviceAddress(from: &reader, isRandom: header.txAdd)
      target = type == .directed ? try DeviceAddress(from: &reader, isRandom: header.rxAdd) : nil
      guard reader.remaining <= (type == .directed ? 0 : 31) else { return nil }
      data = reader.restArray()
    } catch { return nil }
  }
}

/// The backoff of scan requests, which keeps scanners from asking all at once for ever (4.4.3.2).
struct ScanBackoff {
  private var upperLimit: UInt64 = 1
  private var count: UInt64 = 1
  private var failures = 0
  private var successes = 0

  /// An advertisement that could be answered. Whether it is.
  mutating func mayRequest() -> Bool {
    count -= count > 0 ? 1 : 0
    return count == 0
  }

  mutating func failed(_ random: inout SeededGenerator) {
    successes = 0
    failures += 1
    if failures == 2 {
      failures = 0
      upperLimit = min(upperLimit * 2, 256)
    }
    draw(&random)
  }

  mutating func succeeded(_ random: inout SeededGenerator) {
    failures = 0
    successes += 1
    if successes == 2 {
      successes = 0
      upperLimit = max(upperLimit / 2, 1)
    }
    draw(&random)
  }

  private mutating func draw(_ random: inout SeededGenerator) {
    count = upperLimit == 1 ? 1 : random.below(upperLimit) + 1
  }
}

/// What the duplicate filter takes for the same.
struct DuplicateKey: Hashable {
  private let device: UInt64
  private let info: UInt16

  /// An advertiser, resolved; nil: anonymous. `adi`: its data, if extended.
  init(_ device: DeviceAddress?, _ adi: AdvertisingDataInfo? = nil, isScanResponse: Bool) {
    let address = device.map { $0.address.value | ($0.isRandom ? 1 << 48 : 0) } ?? 1 << 49
    self.device = address | (isScanResponse ? 1 << 50 : 0) | (adi == nil ? 0 : 1 << 51)
    info = adi.map { $0.did | UInt16($0.sid) << 12 } ?? 0
  }
}
