// SPDX-License-Identifier: Apache-2.0

public import BLECore
public import BLECrypto
import Synchronization

/// Turns peer addresses into the identifiers that apps see, and back.
///
/// An identifier is the address, encrypted with a key of this host: it looks like a random UUID (version 4), is the
/// same for one peer on one host, differs between hosts, tells nobody the address, and needs no store, not even
/// for `retrievePeripherals(withIdentifiers:)` in a later run. A counter beside the address is raised until the
/// six version and variant bits of RFC 9562 come out right by themselves.
public final class PeerIdentity: Sendable {
  private static let magic: [UInt8] = [0x43, 0x42, 0x50, 0x31]  // "CBP1"

  private let cipher: Mutex<AES128>

  /// `secret` has at least 16 octets (see `HostSecret`).
  public init(secret: [UInt8]) throws(CryptoError) {
    cipher = Mutex(try AES128(key: Array(secret.prefix(AES128.keyCount))))
  }

  /// The identifier of the peer with `address`; nil only if the cipher fails.
  public func identifier(of address: DeviceAddress) -> PeerIdentifier? {
    for counter in UInt16.min...UInt16.max {
      var block = ByteWriter(capacity: AES128.blockCount)
      block.bytes(Self.magic)
      block.u8(address.type.onAir.rawValue)
      address.address.encode(into: &block)
      block.u16(counter)
      block.bytes([], paddedTo: AES128.blockCount - block.count)
      let plain = block.bytes
      guard let octets = cipher.withLock({ try? $0.encrypt(plain) }), octets.count == 16 else { return nil }
      if octets[6] >> 4 == 4, octets[8] >> 6 == 2 { return PeerIdentifier(bigEndian: octets) }
    }
    return nil
  }

  /// The address behind an identifier that this host made; nil for any other.
  public func address(of identifier: PeerIdentifier) -> DeviceAddress? {
    let octets = identifier.bigEndianBytes
    guard let plain = cipher.withLock({ try? $0.decrypt(octets) }) else { return nil }
    var reader = ByteReader(plain.span.bytes)
    guard let magic = try? reader.array(4), magic == Self.magic, let type = try? reader.u8(), type <= 1,
      let address = try? BDAddress(from: &reader), (try? reader.u16()) != nil,
      reader.restArray().allSatisfy({ $0 == 0 })
    else { return nil }
    return DeviceAddress(address, type: AddressType(rawValue: type))
  }
}

extension PeerIdentifier {
  /// 16 octets, most significant first.
  public init?(bigEndian octets: [UInt8]) {
    guard octets.count == 16 else { return nil }
    self.init(
      high: octets[0..<8].reduce(0) { $0 << 8 | UInt64($1) }, low: octets[8..<16].reduce(0) { $0 << 8 | UInt64($1) })
  }

  public var bigEndianBytes: [UInt8] { BluetoothUUID(high: high, low: low).bigEndianBytes }
}

extension PeerIdentifier: CustomStringConvertible, LosslessStringConvertible {
  /// Upper case, 8-4-4-4-12.
  public var description: String { BluetoothUUID(high: high, low: low).longDescription }

  /// Such a text, in either case; nil for anything else.
  public init?(_ description: String) {
    guard description.utf8.count == 36, let uuid = BluetoothUUID(description) else { return nil }
    self.init(high: uuid.high, low: uuid.low)
  }
}
