// SPDX-License-Identifier: Apache-2.0

import CCrypto

/// AES-128 in counter mode with CBC-MAC (RFC 3610), as links are encrypted (Vol 6 Part E): nonces of 13 octets, one octet
/// of additional data, a code (MIC) of 4 octets.
///
/// All octets are in the order of RFC 3610. The cipher contexts are made once and keep the key; sealing and opening
/// allocate nothing. One instance belongs to one executor.
public final class AESCCM {
  /// Octets of a nonce.
  public static let nonceCount = 13
  /// Octets of a MIC.
  public static let micCount = 4

  private let sealer: OpaquePointer
  private let opener: OpaquePointer

  /// A cipher with `key`, 16 octets.
  public init(key: [UInt8]) throws(CryptoError) {
    guard key.count == AES128.keyCount else { throw .invalidKeyLength(count: key.count) }
    guard let sealer = EVP_CIPHER_CTX_new() else { throw .libraryFailure(function: "EVP_CIPHER_CTX_new") }
    guard let opener = EVP_CIPHER_CTX_new() else {
      EVP_CIPHER_CTX_free(sealer)
      throw .libraryFailure(function: "EVP_CIPHER_CTX_new")
    }
    self.sealer = sealer
    self.opener = opener
    try Self.prepare(sealer, key, isSealer: 1)
    try Self.prepare(opener, key, isSealer: 0)
  }

  deinit {
    EVP_CIPHER_CTX_free(sealer)
    EVP_CIPHER_CTX_free(opener)
  }

  private static func prepare(_ context: OpaquePointer, _ key: [UInt8], isSealer: Int32) throws(CryptoError) {
    guard EVP_CipherInit_ex(context, EVP_aes_128_ccm(), nil, nil, nil, isSealer) == 1,
      EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_SET_IVLEN, Int32(nonceCount), nil) == 1,
      EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_SET_TAG, Int32(micCount), nil) == 1,
      EVP_CipherInit_ex(context, nil, nil, key, nil, isSealer) == 1
    else { throw .libraryFailure(function: "EVP_CipherInit_ex") }
  }

  /// Encrypts `bytes` from `start` on, in place, and appends the MIC.
  ///
  /// - Parameters:
  ///   - nonce: 13 octets, never the same twice under one key.
  ///   - additional: authenticated, not encrypted.
  public func seal(
    _ bytes: inout [UInt8], from start: Int, nonce: [UInt8], additional: UInt8
  ) throws(CryptoError) {
    guard nonce.count == Self.nonceCount, start >= 0, start <= bytes.count else {
      throw .invalidBlockLength(count: nonce.count)
    }
    let count = bytes.count - start
    for _ in 0..<Self.micCount { bytes.append(0) }
    let context = sealer
    let isSealed = unsafe bytes.withUnsafeMutableBytes { buffer in
      guard let base = unsafe buffer.baseAddress?.assumingMemoryBound(to: UInt8.self) else { return false }
      let text = unsafe base + start
      var additional = additional
      var length: Int32 = 0
      return unsafe EVP_CipherInit_ex(context, nil, nil, nil, nonce, 1) == 1
        && EVP_CipherUpdate(context, nil, &length, nil, Int32(count)) == 1
        && EVP_CipherUpdate(context, nil, &length, &additional, 1) == 1
        && EVP_CipherUpdate(context, text, &length, text, Int32(count)) == 1
        && EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_GET_TAG, Int32(Self.micCount), text + count) == 1
    }
    guard isSealed else { throw .libraryFailure(function: "EVP_CipherUpdate") }
  }

  /// Decrypts `bytes` from `start` on, in place, and takes the MIC off.
  ///
  /// - Returns: `false` if the MIC is wrong or missing; what `bytes` then has from `start` on is of no use.
  public func open(_ bytes: inout [UInt8], from start: Int, nonce: [UInt8], additional: UInt8) -> Bool {
    let count = bytes.count - start - Self.micCount
    guard nonce.count == Self.nonceCount, start >= 0, count >= 0 else { return false }
    let context = opener
    let isOpen = unsafe bytes.withUnsafeMutableBytes { buffer in
      guard let base = unsafe buffer.baseAddress?.assumingMemoryBound(to: UInt8.self) else { return false }
      let text = unsafe base + start
      var additional = additional
      var length: Int32 = 0
      return unsafe EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_SET_TAG, Int32(Self.micCount), text + count) == 1
        && EVP_CipherInit_ex(context, nil, nil, nil, nonce, 0) == 1
        && EVP_CipherUpdate(context, nil, &length, nil, Int32(count)) == 1
        && EVP_CipherUpdate(context, nil, &length, &additional, 1) == 1
        && EVP_CipherUpdate(context, text, &length, text, Int32(count)) == 1
    }
    bytes.removeLast(Self.micCount)
    return isOpen
  }
}
