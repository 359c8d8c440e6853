// SPDX-License-Identifier: Apache-2.0

/// The CRC of Link Layer packets: x^24 + x^10 + x^9 + x^6 + x^4 + x^3 + x + 1 (Vol 6 Part B 3.1.1).
enum LinkLayerCRC {
  /// The CRC of `pdu` as three octets on air, the first in the low bits.
  static func compute(_ pdu: RawSpan, initial: UInt32) -> UInt32 {
    var state = reversed(initial)
    for index in 0..<pdu.byteCount {
      let octet = pdu.unsafeLoad(fromByteOffset: index, as: UInt8.self)
      state = state >> 8 ^ table[Int((state ^ UInt32(octet)) & 0xFF)]
    }
    return state
  }

  /// The low 24 bits in the opposite order.
  private static func reversed(_ value: UInt32) -> UInt32 {
    var result: UInt32 = 0
    for bit in 0..<24 where value >> UInt32(bit) & 1 == 1 { result |= 1 << UInt32(23 - bit) }
    return result
  }

  private static let table: [UInt32] = (0..<256).map { octet in
    var state = UInt32(octet)
    for _ in 0..<8 { state = state & 1 == 1 ? state >> 1 ^ 0xDA_6000 : state >> 1 }
    return state
  }
}
