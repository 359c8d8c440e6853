// SPDX-License-Identifier: Apache-2.0

import BLECore
import TestSupport
import Testing

@testable import BLERadio

@Suite struct LinkCipherTests {
  private func ciphers(_ session: VectorCase) throws -> (central: LinkCipher, peripheral: LinkCipher) {
    func number(_ name: String) throws -> UInt64 {
      try #require(session.bytes(name)).reduce(0) { $0 << 8 | UInt64($1) }
    }
    let central = LLControlPDU.SessionHalf(skd: try number("skd_m"), iv: UInt32(truncatingIfNeeded: try number("iv_m")))
    let peripheral = LLControlPDU.SessionHalf(
      skd: try number("skd_s"), iv: UInt32(truncatingIfNeeded: try number("iv_s")))
    let key = Array(try #require(session.bytes("ltk")).reversed())
    return (
      try #require(LinkCipher(longTermKey: key, central: central, peripheral: peripheral, isCentral: true)),
      try #require(LinkCipher(longTermKey: key, central: central, peripheral: peripheral, isCentral: false))
    )
  }

  /// Every packet of the specification's sample and of those made beside it, with header, both ways.
  @Test func vectors() throws {
    let sessions = try VectorFile("ll_encryption").root.objects("session_samples")
    #expect(sessions.count >= 5)
    for session in sessions {
      for packet in session.objects("packets") {
        let (central, peripheral) = try ciphers(session)
        let isCentral = packet.int("direction_bit") == 1
        let (sender, receiver) = isCentral ? (central, peripheral) : (peripheral, central)
        let counter = UInt64(try #require(packet.int("packet_counter")))
        sender.txCounter = counter
        receiver.rxCounter = counter
        let plaintext = try #require(packet.bytes("plaintext"))
        let header = try #require(packet.bytes("header_octet0")).first ?? 0
        var pdu = [header, UInt8(plaintext.count)] + plaintext
        let clear = pdu
        #expect(sender.seal(&pdu))
        let sealed = try #require(packet.bytes("ciphertext_and_mic"))
        #expect(pdu == [header, UInt8(sealed.count)] + sealed, "\(session.name) \(packet.name)")
        #expect(receiver.open(&pdu), "\(session.name) \(packet.name)")
        #expect(pdu == clear)
      }
    }
  }

  @Test func theRequestsOfTheSample() throws {
    let session = try #require(try VectorFile("ll_encryption").root.objects("session_samples").first)
    let request = try LLControlPDU.decode(#require(session.bytes("ll_enc_req_wire")))
    #expect(
      request
        == .encReq(
          .init(
            randomNumber: 0xABCD_EF12_3456_7890, diversifier: 0x2474,
            half: .init(skd: 0xACBD_CEDF_E0F1_0213, iv: 0xBADC_AB24))))
    let response = try LLControlPDU.decode(#require(session.bytes("ll_enc_rsp_wire")))
    #expect(response == .encRsp(.init(skd: 0x0213_2435_4657_6879, iv: 0xDEAF_BABE)))
  }

  @Test func emptyPDUsAreNotSealedNorCounted() throws {
    let session = try #require(try VectorFile("ll_encryption").root.objects("session_samples").first)
    let (central, peripheral) = try ciphers(session)
    var empty: [UInt8] = [1, 0]
    #expect(central.seal(&empty))
    #expect(peripheral.open(&empty))
    #expect(empty == [1, 0])
    #expect(central.txCounter == 0)
    #expect(peripheral.rxCounter == 0)
  }

  @Test func nesnSnAndMDAreNotAuthenticated() throws {
    let session = try #require(try VectorFile("ll_encryption").root.objects("session_samples").first)
    let (central, peripheral) = try ciphers(session)
    var pdu: [UInt8] = [2, 3, 7, 8, 9]
    #expect(central.seal(&pdu))
    pdu[0] |= 0x1C
    #expect(peripheral.open(&pdu))
    #expect(pdu == [0x1E, 3, 7, 8, 9])
  }

  @Test func aReplayedPacketIsRefused() throws {
    let session = try #require(try VectorFile("ll_encryption").root.objects("session_samples").first)
    let (central, peripheral) = try ciphers(session)
    var pdu: [UInt8] = [2, 3, 7, 8, 9]
    #expect(central.seal(&pdu))
    var again = pdu
    #expect(peripheral.open(&pdu))
    #expect(!peripheral.open(&again))
  }

  @Test func theCounterHas39Bits() throws {
    let session = try #require(try VectorFile("ll_encryption").root.objects("session_samples").first)
    let (central, peripheral) = try ciphers(session)
    central.txCounter = LinkCipher.counterMax
    peripheral.rxCounter = LinkCipher.counterMax
    var pdu: [UInt8] = [2, 1, 7]
    #expect(central.seal(&pdu))
    #expect(peripheral.open(&pdu))
    var next: [UInt8] = [2, 1, 7]
    #expect(!central.seal(&next))
    next = [2, 5, 1, 2, 3, 4, 5]
    #expect(!peripheral.open(&next))
  }
}
