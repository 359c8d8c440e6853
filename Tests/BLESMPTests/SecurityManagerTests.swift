// SPDX-License-Identifier: Apache-2.0

import BLECore
import BLESMP
import TestSupport
import Testing

@Suite struct SecurityManagerTests {
  static func answers(_ manager: inout SecurityManager, _ pdu: [UInt8]) -> [[UInt8]] {
    manager.receive(pdu.span.bytes)
    var sent: [[UInt8]] = []
    while manager.outgoing.removeFirst({ sent.append([UInt8]($1)) }) {}
    return sent
  }

  static func vectors() throws -> [VectorCase] { try VectorFile("smp_pairing").root.objects("pdus") }

  @Test func pairingRequestIsAnsweredWithPairingNotSupported() {
    var manager = SecurityManager()
    #expect(Self.answers(&manager, [0x01, 0x03, 0x00, 0x01, 0x10, 0x07, 0x07]) == [[0x05, 0x05]])
    #expect(Self.answers(&manager, [0x01]) == [[0x05, 0x05]])
  }

  @Test func everythingElseIsIgnored() throws {
    var manager = SecurityManager()
    var tested = 0
    for example in try Self.vectors() where example.string("code") != "01" {
      #expect(Self.answers(&manager, try #require(example.bytes("pdu"))) == [], "\(example)")
      tested += 1
    }
    #expect(tested > 20)
    #expect(Self.answers(&manager, []) == [])
  }

  @Test func validVectorsDecodeAndEncodeToThemselves() throws {
    var requests = 0
    for example in try Self.vectors() where example.bool("valid") == true {
      let pdu = try #require(example.bytes("pdu"))
      let decoded = try SMPPDU.decode(pdu)
      #expect(decoded.encoded == pdu, "\(example)")
      guard case .pairingRequest(let features) = decoded, let fields = example.child("decoded") else { continue }
      requests += 1
      #expect(Int(features.ioCapability) == fields.int("io_capability"), "\(example)")
      #expect(Int(features.oobDataFlag) == fields.int("oob"), "\(example)")
      #expect([features.authReq.rawValue].hex == fields.string("auth_req"), "\(example)")
      #expect(features.authReq.contains(.mitm) == fields.bool("mitm"), "\(example)")
      #expect(features.authReq.contains(.secureConnections) == fields.bool("sc"), "\(example)")
      #expect(Int(features.maximumEncryptionKeySize) == fields.int("max_key_size"), "\(example)")
      #expect([features.initiatorKeyDistribution].hex == fields.string("initiator_keys"), "\(example)")
      #expect([features.responderKeyDistribution].hex == fields.string("responder_keys"), "\(example)")
    }
    #expect(requests > 0)
  }

  @Test func anyBytesAreSurvived() throws {
    let hostile = HostileBytes(
      seed: 0x5A1B, count: 100_000, examples: try Self.vectors().compactMap { $0.bytes("pdu") })
    var manager = SecurityManager()
    for bytes in hostile {
      if let pdu = try? SMPPDU.decode(bytes), try SMPPDU.decode(pdu.encoded) != pdu {
        Issue.record("seed \(hostile.seed): \(bytes.hex)")
      }
      let isRequest = bytes.first == SMPCode.pairingRequest.rawValue
      if Self.answers(&manager, bytes) != (isRequest ? [[0x05, 0x05]] : []) {
        Issue.record("seed \(hostile.seed): \(bytes.hex)")
      }
    }
  }
}
