// SPDX-License-Identifier: Apache-2.0

import BLECore
import BLECrypto

/// The session of an encrypted link at one end (Vol 6 Part B 5.1.3.1, Part E): its key, its two packet counters.
///
/// A PDU is header and payload; one without payload is neither sealed nor counted.
final class LinkCipher {
  /// The last packet counter, 39 bits.
  static let counterMax: UInt64 = 1 << 39 - 1
  /// The bits of a header's first octet that are authenticated: all but NESN, SN and MD.
  static let headerMask: UInt8 = 0xE3

  private let ccm: AESCCM
  private var txNonce: [UInt8]
  private var rxNonce: [UInt8]
  /// Counters of the next packet.
  var txCounter: UInt64 = 0
  var rxCounter: UInt64 = 0

  /// - Parameter longTermKey: 16 octets, least significant first, as in HCI.
  init?(
    longTermKey: [UInt8], central: LLControlPDU.SessionHalf, peripheral: LLControlPDU.SessionHalf, isCentral: Bool
  ) {
    var diversifier: [UInt8] = []
    for shift in stride(from: 56, through: 0, by: -8) {
      diversifier.append(UInt8(truncatingIfNeeded: peripheral.skd >> UInt64(shift)))
    }
    for shift in stride(from: 56, through: 0, by: -8) {
      diversifier.append(UInt8(truncatingIfNeeded: central.skd >> UInt64(shift)))
    }
    guard let cipher = try? AES128(key: longTermKey.reversed()), let key = try? cipher.encrypt(diversifier),
      let ccm = try? AESCCM(key: key)
    else { return nil }
    self.ccm = ccm
    var nonce = ByteWriter()
    nonce.bytes([0, 0, 0, 0, 0])
    nonce.u32(central.iv)
    nonce.u32(peripheral.iv)
    txNonce = nonce.bytes
    rxNonce = nonce.bytes
    // The direction bit stays as it is: the counter has 39 bits.
    txNonce[4] = isCentral ? 0x80 : 0
    rxNonce[4] = isCentral ? 0 : 0x80
  }

  /// Encrypts `pdu` and adds its MIC. `false`: the counter is used up.
  func seal(_ pdu: inout [UInt8]) -> Bool {
    guard pdu.count > LinkLayer.headerCount else { return true }
    guard txCounter <= Self.counterMax else { return false }
    Self.write(txCounter, into: &txNonce)
    txCounter += 1
    guard
      (try? ccm.seal(
        &pdu, from: LinkLayer.headerCount, nonce: txNonce, additional: pdu[0] & Self.headerMask)) != nil
    else { return false }
    pdu[1] = UInt8(truncatingIfNeeded: pdu.count - LinkLayer.headerCount)
    return true
  }

  /// Decrypts `pdu` and takes its MIC off. `false`: the MIC is wrong, or the counter is used up.
  func open(_ pdu: inout [UInt8]) -> Bool {
    guard pdu.count > LinkLayer.headerCount else { return true }
    guard rxCounter <= Self.counterMax else { return false }
    Self.write(rxCounter, into: &rxNonce)
    let additional = pdu[0] & Self.headerMask
    guard ccm.open(&pdu, from: LinkLayer.headerCount, nonce: rxNonce, additional: additional) else { return false }
    rxCounter += 1
    pdu[1] = UInt8(truncatingIfNeeded: pdu.count - LinkLayer.headerCount)
    return true
  }

  private static func write(_ counter: UInt64, into nonce: inout [UInt8]) {
    for index in 0..<4 { nonce[index] = UInt8(truncatingIfNeeded: counter >> UInt64(8 * index)) }
    nonce[4] = nonce[4] & 0x80 | UInt8(truncatingIfNeeded: counter >> 32) & 0x7F
  }
}
