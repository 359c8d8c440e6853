// SPDX-License-Identifier: Apache-2.0

import BLECore
public import BLECrypto

/// Follows the connections of a capture of the air, and decrypts those whose key is known.
///
/// A connection is followed from its CONNECT_IND on, a session key from the LL_ENC_REQ that it begins with, through each
/// change of key; what was recorded without its beginning stays as it is. All packets of a link must be in the capture,
/// in their order; those that were damaged on the way to their receiver may be in it as well.
public struct AirDecryption {
  /// How many packets were decrypted, and how many were encrypted and stayed so, since no key was right.
  public private(set) var decryptedCount = 0
  public private(set) var failedCount = 0

  private let keys: [[UInt8]]
  private var links: [UInt32: Link] = [:]

  /// - Parameter longTermKeys: keys that links may have been encrypted with, each of 16 octets, most significant first.
  public init(longTermKeys: [[UInt8]]) throws(CryptoError) {
    for key in longTermKeys where key.count != AES128.keyCount { throw .invalidKeyLength(count: key.count) }
    // The Link Layer has them in the order of HCI.
    keys = longTermKeys.map { $0.reversed() }
  }

  /// Takes the capture's next packet, and gives it back, in clear if that is possible: without MIC, with the length and
  /// the CRC of what it says.
  public mutating func decrypt(_ record: AirPCAP.Record) -> AirPCAP.Record {
    guard record.accessAddress != LinkLayer.advertisingAccessAddress else {
      follow(record)
      return record
    }
    guard !record.isDecrypted, let direction = Direction(record.kind), var link = links[record.accessAddress],
      LinkLayerCRC.compute(record.pdu.span.bytes, initial: link.crcInit) == record.crc,
      record.pdu.count > LinkLayer.headerCount
    else {
      note(record)
      return record
    }
    let outcome = link.take(record.pdu, direction, keys)
    links[record.accessAddress] = link
    switch outcome {
    case .clear: return record
    case .failed:
      failedCount += 1
      return record
    case .opened(let pdu):
      decryptedCount += 1
      var opened = record
      opened.pdu = pdu
      opened.isDecrypted = true
      opened.setCRC(initial: link.crcInit)
      return opened
    }
  }

  /// A connection begins with its CONNECT_IND or AUX_CONNECT_REQ.
  private mutating func follow(_ record: AirPCAP.Record) {
    var reader = ByteReader(record.pdu.span.bytes)
    guard let header = try? AdvertisingHeader(from: &reader), header.type == .connectInd, (try? reader.skip(12)) != nil,
      let accessAddress = try? reader.u32(), let crcInit = try? reader.u24()
    else { return }
    links[accessAddress] = Link(crcInit: crcInit)
  }

  /// An empty packet has a sequence number too.
  private mutating func note(_ record: AirPCAP.Record) {
    guard let direction = Direction(record.kind), record.pdu.count == LinkLayer.headerCount,
      let link = links[record.accessAddress],
      LinkLayerCRC.compute(record.pdu.span.bytes, initial: link.crcInit) == record.crc
    else { return }
    links[record.accessAddress]?.noteEmpty(record.pdu, direction)
  }

  // MARK: - One link

  private enum Direction: Int {
    case toPeripheral, toCentral

    init?(_ kind: AirPCAP.Kind) {
      switch kind {
      case .centralToPeripheral: self = .toPeripheral
      case .peripheralToCentral: self = .toCentral
      case .advertising, .auxiliaryAdvertising: return nil
      }
    }
  }

  private enum Outcome {
    case clear
    case opened([UInt8])
    case failed
  }

  /// One direction of a link.
  private struct Way {
    var isEncrypted = false
    /// The last packet as it was on air, and what became of it.
    var last: (pdu: [UInt8], outcome: Outcome)?
    /// What may open the packets; one, once a packet was opened.
    var ciphers: [LinkCipher] = []
  }

  private struct Link {
    let crcInit: UInt32
    var ways = [Way(), Way()]
    var central: LLControlPDU.SessionHalf?

    init(crcInit: UInt32) { self.crcInit = crcInit }

    mutating func noteEmpty(_ pdu: [UInt8], _ direction: Direction) { ways[direction.rawValue].last = (pdu, .clear) }

    mutating func take(_ pdu: [UInt8], _ direction: Direction, _ keys: [[UInt8]]) -> Outcome {
      let index = direction.rawValue
      if let last = ways[index].last, DataHeader(last.pdu[0]).sn == DataHeader(pdu[0]).sn,
        last.pdu.dropFirst() == pdu.dropFirst()
      {
        // The same again, with another NESN or MD.
        guard case .opened(var opened) = last.outcome else { return last.outcome }
        opened[0] = pdu[0]
        return .opened(opened)
      }
      let opened = ways[index].isEncrypted ? open(pdu, index) : nil
      let outcome = opened.map { Outcome.opened($0) } ?? (ways[index].isEncrypted ? .failed : .clear)
      ways[index].last = (pdu, outcome)
      if case .failed = outcome { return outcome }
      if pdu[0] & 3 == LLID.control.rawValue { control(opened ?? pdu, direction, keys) }
      return outcome
    }

    private mutating func open(_ pdu: [UInt8], _ index: Int) -> [UInt8]? {
      for cipher in ways[index].ciphers {
        var opened = pdu
        if cipher.open(&opened) {
          ways[index].ciphers = [cipher]
          return opened
        }
      }
      return nil
    }

    /// A control PDU in clear, or decrypted.
    private mutating func control(_ pdu: [UInt8], _ direction: Direction, _ keys: [[UInt8]]) {
      let payload = pdu.span.bytes.extracting(LinkLayer.headerCount..<pdu.count)
      guard let control = try? LLControlPDU.decode(payload) else { return }
      switch (control, direction) {
      case (.encReq(let request), .toPeripheral): central = request.half
      case (.encRsp(let peripheral), .toCentral): startSession(peripheral, keys)
      case (.startEncReq, .toCentral): ways[Direction.toPeripheral.rawValue].isEncrypted = true
      case (.startEncRsp, .toPeripheral): ways[Direction.toCentral.rawValue].isEncrypted = true
      case (.pauseEncRsp, .toCentral): ways[Direction.toPeripheral.rawValue].isEncrypted = false
      case (.pauseEncRsp, .toPeripheral): ways[Direction.toCentral.rawValue].isEncrypted = false
      default: break
      }
    }

    private mutating func startSession(_ peripheral: LLControlPDU.SessionHalf, _ keys: [[UInt8]]) {
      guard let central else { return }
      // Who receives is who can open.
      for (way, isCentral) in [(Direction.toPeripheral, false), (.toCentral, true)] {
        ways[way.rawValue].ciphers = keys.compactMap { key in
          LinkCipher(longTermKey: key, central: central, peripheral: peripheral, isCentral: isCentral)
        }
      }
    }
  }
}
