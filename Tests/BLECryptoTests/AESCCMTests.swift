// SPDX-License-Identifier: Apache-2.0

import BLECrypto
import Foundation
import TestSupport
import Testing

@Suite struct AESCCMTests {
  private struct Sample {
    var name: String
    var key: [UInt8]
    var nonce: [UInt8]
    var additional: UInt8
    var plaintext: [UInt8]
    var ciphertext: [UInt8]
  }

  /// All packets of the specification's sample (Vol 6 Part C 1) and of those made beside it.
  private static func samples() throws -> [Sample] {
    let sessions = try #require(try document()["session_samples"] as? [[String: Any]])
    return try sessions.flatMap { session in
      let key = try octets(session["session_key"])
      return try #require(session["packets"] as? [[String: Any]]).map { packet in
        Sample(
          name: "\(session["name"] ?? "") \(packet["name"] ?? packet["packet_counter"] ?? "")", key: key,
          nonce: try octets(packet["nonce"]), additional: try #require(try octets(packet["aad"]).first),
          plaintext: try octets(packet["plaintext"]), ciphertext: try octets(packet["ciphertext_and_mic"]))
      }
    }
  }

  private static func document() throws -> [String: Any] {
    let file = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
      .appendingPathComponent("../../Vectors/ll_encryption.json")
    return try #require(try JSONSerialization.jsonObject(with: Data(contentsOf: file)) as? [String: Any])
  }

  private static func octets(_ hex: Any?) throws -> [UInt8] {
    let text = try #require(hex as? String)
    return try #require([UInt8](hex: text))
  }

  @Test func sessionKeyVectors() throws {
    let sessions = try #require(try Self.document()["session_samples"] as? [[String: Any]])
    #expect(sessions.count >= 5)
    for session in sessions {
      let cipher = try AES128(key: Self.octets(session["ltk"]))
      #expect(try cipher.encrypt(Self.octets(session["skd"])) == Self.octets(session["session_key"]))
    }
  }

  @Test func packetVectors() throws {
    let samples = try Self.samples()
    #expect(samples.count >= 20)
    for sample in samples {
      let cipher = try AESCCM(key: sample.key)
      // Twice, so that a context that keeps state between packets is found out, and behind a header.
      for _ in 0..<2 {
        var bytes: [UInt8] = [1, 2] + sample.plaintext
        try cipher.seal(&bytes, from: 2, nonce: sample.nonce, additional: sample.additional)
        #expect(bytes == [1, 2] + sample.ciphertext, "\(sample.name)")
        #expect(cipher.open(&bytes, from: 2, nonce: sample.nonce, additional: sample.additional), "\(sample.name)")
        #expect(bytes == [1, 2] + sample.plaintext, "\(sample.name)")
      }
    }
  }

  @Test func anythingChangedIsRefused() throws {
    let sample = try #require(try Self.samples().first { $0.plaintext.count == 27 })
    let cipher = try AESCCM(key: sample.key)
    for bit in 0..<sample.ciphertext.count * 8 {
      var bytes = sample.ciphertext
      bytes[bit / 8] ^= 1 << UInt8(bit % 8)
      #expect(!cipher.open(&bytes, from: 0, nonce: sample.nonce, additional: sample.additional), "bit \(bit)")
    }
    for bit in 0..<sample.nonce.count * 8 {
      var nonce = sample.nonce
      nonce[bit / 8] ^= 1 << UInt8(bit % 8)
      var bytes = sample.ciphertext
      #expect(!cipher.open(&bytes, from: 0, nonce: nonce, additional: sample.additional))
    }
    var bytes = sample.ciphertext
    #expect(!cipher.open(&bytes, from: 0, nonce: sample.nonce, additional: sample.additional ^ 1))
    // And afterwards it still opens what is right.
    bytes = sample.ciphertext
    #expect(cipher.open(&bytes, from: 0, nonce: sample.nonce, additional: sample.additional))
  }

  @Test func negativeVectors() throws {
    let document = try Self.document()
    let session = try #require((document["session_samples"] as? [[String: Any]])?.first)
    let cipher = try AESCCM(key: Self.octets(session["session_key"]))
    let cases = try #require(document["ccm_negative"] as? [[String: Any]])
    #expect(cases.count == 7)
    for sample in cases {
      var bytes = try Self.octets(sample["ciphertext_and_mic"])
      let additional = try #require(try Self.octets(sample["aad"]).first)
      let isOpen = try cipher.open(&bytes, from: 0, nonce: Self.octets(sample["nonce"]), additional: additional)
      #expect(isOpen == (sample["accept"] as? Bool), "\(sample["name"] ?? "")")
    }
  }

  @Test func theLengthsOfLinksAreSealedAndOpened() throws {
    let cipher = try AESCCM(key: [UInt8](repeating: 7, count: 16))
    for count in 0...251 {
      let text = (0..<count).map { UInt8(truncatingIfNeeded: $0) }
      let nonce = [UInt8](repeating: UInt8(truncatingIfNeeded: count), count: 13)
      var bytes = text
      try cipher.seal(&bytes, from: 0, nonce: nonce, additional: 2)
      #expect(bytes.count == count + 4)
      #expect(cipher.open(&bytes, from: 0, nonce: nonce, additional: 2))
      #expect(bytes == text)
    }
    for count in 0..<4 {
      var short = [UInt8](repeating: 1, count: count)
      #expect(!cipher.open(&short, from: 0, nonce: [UInt8](repeating: 0, count: 13), additional: 2))
    }
  }

  @Test func wrongLengthsAreRefused() throws {
    #expect(throws: CryptoError.invalidKeyLength(count: 15)) { try AESCCM(key: [UInt8](repeating: 0, count: 15)) }
    let cipher = try AESCCM(key: [UInt8](repeating: 0, count: 16))
    var bytes: [UInt8] = [1]
    #expect(throws: CryptoError.self) { try cipher.seal(&bytes, from: 0, nonce: [1], additional: 0) }
  }
}
