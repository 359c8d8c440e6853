// SPDX-License-Identifier: Apache-2.0

import CCrypto

/// Why a cryptographic operation did not happen.
public enum CryptoError: Error, Hashable, Sendable {
  /// A key of `count` octets where 16 are needed.
  case invalidKeyLength(count: Int)
  /// A block of `count` octets where 16 are needed.
  case invalidBlockLength(count: Int)
  /// libcrypto refused `function` (out of memory, a missing provider, a broken entropy source).
  case libraryFailure(function: String)
}

extension CryptoError: CustomStringConvertible {
  public var description: String {
    switch self {
    case .invalidKeyLength(let count): "an AES-128 key has 16 octets, not \(count)"
    case .invalidBlockLength(let count): "an AES block has 16 octets, not \(count)"
    case .libraryFailure(let function): "libcrypto's \(function) failed; check the OpenSSL installation"
    }
  }
}

/// AES-128 on single blocks (FIPS-197): security function *e* (Vol 3 Part H 2.2.1) and its inverse.
///
/// All octets are most significant first. The cipher contexts are made once and kept; one instance belongs to
/// one executor.
public final class AES128 {
  /// Octets of a key.
  public static let keyCount = 16
  /// Octets of a block.
  public static let blockCount = 16

  private let encryptor: OpaquePointer
  private let decryptor: OpaquePointer

  /// A cipher with `key`, 16 octets.
  public init(key: [UInt8]) throws(CryptoError) {
    guard let encryptor = EVP_CIPHER_CTX_new() else { throw .libraryFailure(function: "EVP_CIPHER_CTX_new") }
    guard let decryptor = EVP_CIPHER_CTX_new() else {
      EVP_CIPHER_CTX_free(encryptor)
      throw .libraryFailure(function: "EVP_CIPHER_CTX_new")
    }
    self.encryptor = encryptor
    self.decryptor = decryptor
    try setKey(key)
  }

  deinit {
    EVP_CIPHER_CTX_free(encryptor)
    EVP_CIPHER_CTX_free(decryptor)
  }

  /// Replaces the key; nothing changes if this throws ``CryptoError/invalidKeyLength(count:)``.
  public func setKey(_ key: [UInt8]) throws(CryptoError) {
    guard key.count == Self.keyCount else { throw .invalidKeyLength(count: key.count) }
    guard EVP_CipherInit_ex(encryptor, EVP_aes_128_ecb(), nil, key, nil, 1) == 1,
      EVP_CipherInit_ex(decryptor, EVP_aes_128_ecb(), nil, key, nil, 0) == 1
    else { throw .libraryFailure(function: "EVP_CipherInit_ex") }
    EVP_CIPHER_CTX_set_padding(encryptor, 0)
    EVP_CIPHER_CTX_set_padding(decryptor, 0)
  }

  /// The ciphertext of one block of 16 octets.
  public func encrypt(_ block: [UInt8]) throws(CryptoError) -> [UInt8] { try transform(block, with: encryptor) }

  /// The plaintext of one block of 16 octets.
  public func decrypt(_ block: [UInt8]) throws(CryptoError) -> [UInt8] { try transform(block, with: decryptor) }

  private func transform(_ block: [UInt8], with context: OpaquePointer) throws(CryptoError) -> [UInt8] {
    guard block.count == Self.blockCount else { throw .invalidBlockLength(count: block.count) }
    var output = [UInt8](repeating: 0, count: Self.blockCount)
    var count: Int32 = 0
    guard EVP_CipherUpdate(context, &output, &count, block, Int32(Self.blockCount)) == 1, count == Self.blockCount
    else { throw .libraryFailure(function: "EVP_CipherUpdate") }
    return output
  }
}

/// AES-CMAC (RFC 4493), which SMP's functions f4 to h7 and ATT signatures are made of (Vol 3 Part H 2.2.5).
///
/// All octets are most significant first. The context is made once and kept; one instance belongs to one executor.
public final class AESCMAC {
  private let context: OpaquePointer

  public init() throws(CryptoError) {
    guard let algorithm = EVP_MAC_fetch(nil, "CMAC", nil) else { throw .libraryFailure(function: "EVP_MAC_fetch") }
    defer { EVP_MAC_free(algorithm) }
    guard let context = EVP_MAC_CTX_new(algorithm) else { throw .libraryFailure(function: "EVP_MAC_CTX_new") }
    self.context = context
  }

  deinit { EVP_MAC_CTX_free(context) }

  /// The 16 octets of the code of `message` under `key`, 16 octets.
  public func authenticate(_ message: [UInt8], key: [UInt8]) throws(CryptoError) -> [UInt8] {
    guard key.count == AES128.keyCount else { throw .invalidKeyLength(count: key.count) }
    guard start(with: key) == 1 else { throw .libraryFailure(function: "EVP_MAC_init") }
    guard EVP_MAC_update(context, message, message.count) == 1 else {
      throw .libraryFailure(function: "EVP_MAC_update")
    }
    var code = [UInt8](repeating: 0, count: AES128.blockCount)
    var count = 0
    guard EVP_MAC_final(context, &code, &count, code.count) == 1, count == code.count else {
      throw .libraryFailure(function: "EVP_MAC_final")
    }
    return code
  }

  private func start(with key: [UInt8]) -> Int32 {
    // The parameters keep pointers to both the name and the value, so both must outlive the call that made them.
    let name = Array(OSSL_MAC_PARAM_CIPHER.utf8CString)
    var cipher = Array("AES-128-CBC".utf8CString)
    return unsafe name.withUnsafeBufferPointer { name in
      unsafe cipher.withUnsafeMutableBufferPointer { cipher in
        let parameters = unsafe [
          OSSL_PARAM_construct_utf8_string(name.baseAddress, cipher.baseAddress, 0), OSSL_PARAM_construct_end(),
        ]
        return unsafe EVP_MAC_init(context, key, key.count, parameters)
      }
    }
  }
}

/// Random octets fit for keys, from libcrypto's generator (seeded by the operating system).
public enum SecureRandom {
  /// `count` random octets; none for a count below 1.
  public static func bytes(_ count: Int) throws(CryptoError) -> [UInt8] {
    guard count > 0 else { return [] }
    var bytes = [UInt8](repeating: 0, count: count)
    guard RAND_bytes(&bytes, Int32(clamping: count)) == 1 else { throw .libraryFailure(function: "RAND_bytes") }
    return bytes
  }
}
