// SPDX-License-Identifier: Apache-2.0

public import BLECore

/// The Security Manager of one connection of a device that does not pair (Vol 3 Part H 2.3).
///
/// Such a device answers a Pairing Request with Pairing Failed, reason Pairing Not Supported (3.5.5), and the peer
/// goes on with the unencrypted link. All else belongs to a pairing that cannot be under way here, or asks for one
/// (Security Request), and is ignored: an answer would only prolong it.
public struct SecurityManager {
  /// Commands to be sent on the fixed channel 0x0006, oldest first.
  public var outgoing = PacketQueue<SMPCode>()

  public init() {}

  /// Takes one command of the peer; nothing in it is trusted, and no form of it is an error.
  public mutating func receive(_ pdu: RawSpan) {
    var reader = ByteReader(pdu)
    guard let code = try? reader.u8(), SMPCode(rawValue: code) == .pairingRequest else { return }
    outgoing.append(.pairingFailed) { SMPPDU.pairingFailed(.pairingNotSupported).encode(into: &$0) }
  }
}
