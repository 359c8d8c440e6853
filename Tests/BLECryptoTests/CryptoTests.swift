// SPDX-License-Identifier: Apache-2.0

import BLECrypto
import Foundation
import Testing

private typealias Case = [String: String]

private func cases(_ family: String) throws -> [Case] {
  let file = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
    .appendingPathComponent("../../Vectors/smp_crypto.json")
  let document = try JSONSerialization.jsonObject(with: Data(contentsOf: file)) as? [String: Any]
  return try #require(document?[family] as? [Case])
}

private func octets(_ hex: String?) throws -> [UInt8] {
  let digits = Array(try #require(hex).utf8)
  try #require(digits.count.isMultiple(of: 2))
  return try stride(from: 0, to: digits.count, by: 2).map { start in
    try #require(UInt8(String(decoding: digits[start...start + 1], as: UTF8.self), radix: 16))
  }
}

@Suite struct CryptoTests {
  @Test func aes128Vectors() throws {
    let vectors = try cases("aes128_encrypt")
    #expect(vectors.count == 16)
    let reused = try AES128(key: [UInt8](repeating: 0, count: 16))
    for vector in vectors {
      let plaintext = try octets(vector["plaintext"])
      let ciphertext = try octets(vector["ciphertext"])
      try reused.setKey(octets(vector["key"]))
      // Twice, so that a context that keeps state between blocks is found out.
      #expect(try reused.encrypt(plaintext) == ciphertext, "\(vector["name"] ?? "")")
      #expect(try reused.encrypt(plaintext) == ciphertext)
      #expect(try reused.decrypt(ciphertext) == plaintext)
      #expect(try reused.decrypt(ciphertext) == plaintext)
    }
  }

  @Test func cmacVectors() throws {
    let vectors = try cases("aes_cmac")
    #expect(vectors.count == 16)
    let cmac = try AESCMAC()
    for vector in vectors {
      let code = try cmac.authenticate(octets(vector["message"]), key: octets(vector["key"]))
      #expect(code == (try octets(vector["mac"])), "\(vector["name"] ?? "")")
    }
  }

  @Test(arguments: [0, 1, 15, 17, 32]) func wrongLengthsAreRefused(count: Int) throws {
    let bytes = [UInt8](repeating: 1, count: count)
    #expect(throws: CryptoError.invalidKeyLength(count: count)) { try AES128(key: bytes) }
    let cipher = try AES128(key: [UInt8](repeating: 0, count: 16))
    #expect(throws: CryptoError.invalidKeyLength(count: count)) { try cipher.setKey(bytes) }
    #expect(throws: CryptoError.invalidBlockLength(count: count)) { try cipher.encrypt(bytes) }
    #expect(throws: CryptoError.invalidBlockLength(count: count)) { try cipher.decrypt(bytes) }
    let cmac = try AESCMAC()
    #expect(throws: CryptoError.invalidKeyLength(count: count)) { try cmac.authenticate([], key: bytes) }
  }

  @Test func randomBytesHaveTheirCountAndDiffer() throws {
    #expect(try SecureRandom.bytes(0).isEmpty)
    #expect(try SecureRandom.bytes(-1).isEmpty)
    let first = try SecureRandom.bytes(32)
    #expect(first.count == 32)
    #expect(try first != SecureRandom.bytes(32))
  }
}
