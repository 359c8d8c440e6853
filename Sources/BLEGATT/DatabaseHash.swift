// SPDX-License-Identifier: Apache-2.0

import BLECore
import BLECrypto

/// How the Database Hash is made (Vol 3 Part G 7.3.1): AES-CMAC with a key of zeros over what the structure of a
/// database is.
enum DatabaseHash {
  /// What of the database is hashed, in handle order. Declarations and Extended Properties count with their values,
  /// the other descriptors of the profile with handle and type; values of characteristics and all else do not count.
  static func message(of attributes: [Attribute]) -> [UInt8] {
    var writer = ByteWriter(capacity: attributes.count * 8)
    for attribute in attributes {
      switch attribute.type16 {
      case 0x2800...0x2803, 0x2900:
        writer.u16(attribute.handle)
        writer.u16(attribute.type16)
        writer.bytes(attribute.value)
      case 0x2901...0x2905:
        writer.u16(attribute.handle)
        writer.u16(attribute.type16)
      default: break
      }
    }
    return writer.bytes
  }

  /// The characteristic's value: the code, least significant octet first as all numbers of the protocol are.
  static func value(of attributes: [Attribute], _ mac: AESCMAC) throws(CryptoError) -> [UInt8] {
    let key = [UInt8](repeating: 0, count: AES128.keyCount)
    return try mac.authenticate(message(of: attributes), key: key).reversed()
  }
}
