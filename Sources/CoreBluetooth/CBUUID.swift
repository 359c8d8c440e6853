// SPDX-License-Identifier: Apache-2.0

import BLECore
public import CoreFoundation
public import Foundation

/// A Bluetooth UUID of 16, 32 or 128 bits.
///
/// Equality and hash are by value: the short forms stand for the Bluetooth Base UUID's family, so `180D` equals
/// `0000180D-0000-1000-8000-00805F9B34FB`. `data` and `uuidString` keep the length that the object was made with.
open class CBUUID: NSObject, NSCopying, @unchecked Sendable {  // Immutable.
  let value: BluetoothUUID
  /// Octets of the form it was made with: 2, 4 or 16.
  private let byteCount: Int

  private init(value: BluetoothUUID, byteCount: Int) {
    self.value = value
    self.byteCount = byteCount
    super.init()
  }

  /// The UUID of all zeros; no attribute has it.
  public override convenience init() {
    self.init(value: BluetoothUUID(high: 0, low: 0), byteCount: 16)
  }

  /// In the shortest form that names it.
  convenience init(_ value: BluetoothUUID) {
    self.init(value: value, byteCount: value.uuid16 != nil ? 2 : value.uuid32 != nil ? 4 : 16)
  }

  /// Reads 4 or 8 hexadecimal digits, or 36 characters with hyphens, in either case.
  ///
  /// Any other text ends the program, as Apple's exception does; check a text from outside by `UUID(uuidString:)`.
  public convenience init(string theString: String) {
    guard let value = BluetoothUUID(theString) else {
      fatalError("String \(theString) does not represent a valid UUID")  // own misuse
    }
    self.init(value: value, byteCount: theString.utf8.count == 36 ? 16 : theString.utf8.count / 2)
  }

  /// Reads 2, 4 or 16 octets, the most significant first; any other length ends the program.
  public convenience init(data theData: Data) {
    guard let value = BluetoothUUID(bigEndian: [UInt8](theData)) else {
      fatalError("Data of \(theData.count) bytes does not represent a valid UUID")  // own misuse
    }
    self.init(value: value, byteCount: theData.count)
  }

  /// The 128-bit UUID `theUUID`.
  public convenience init(nsuuid theUUID: UUID) {
    self.init(value: BluetoothUUID(high: theUUID.high, low: theUUID.low), byteCount: 16)
  }

  /// The 128-bit UUID `theUUID`.
  @available(*, deprecated, message: "use init(nsuuid:)")
  public convenience init(cfuuid theUUID: CFUUID) {
    let b = CFUUIDGetUUIDBytes(theUUID)
    self.init(
      nsuuid: UUID(
        uuid: (
          b.byte0, b.byte1, b.byte2, b.byte3, b.byte4, b.byte5, b.byte6, b.byte7, b.byte8, b.byte9, b.byte10, b.byte11,
          b.byte12, b.byte13, b.byte14, b.byte15
        )))
  }

  /// The octets, most significant first; as many as the form has that the object was made with.
  open var data: Data {
    switch byteCount {
    case 2: Data(value.bigEndianBytes[2..<4])
    case 4: Data(value.bigEndianBytes[0..<4])
    default: Data(value.bigEndianBytes)
    }
  }

  /// Upper case: 4 or 8 digits for the short forms, else 36 characters with hyphens.
  open var uuidString: String {
    switch byteCount {
    case 2: value.description
    case 4: String(value.longDescription.prefix(8))
    default: value.longDescription
    }
  }

  /// A name for the few UUIDs that Apple's framework names, `uuidString` for all others.
  open override var description: String { Self.names[value] ?? uuidString }

  open override func isEqual(_ object: Any?) -> Bool { (object as? CBUUID)?.value == value }
  open override var hash: Int { value.hashValue }

  /// The same object: it cannot change.
  open func copy(with zone: NSZone? = nil) -> Any { self }

  private static let names: [BluetoothUUID: String] = [
    0x1805: "Current Time", 0x180A: "Device Information", 0x180D: "Heart Rate", 0x180F: "Battery",
    0x2902: "Client Characteristic Configuration",
    0x2A0F: "Local Time Information", 0x2A19: "Battery Level", 0x2A23: "System ID", 0x2A24: "Model Number String",
    0x2A25: "Serial Number String", 0x2A26: "Firmware Revision String", 0x2A27: "Hardware Revision String",
    0x2A28: "Software Revision String", 0x2A29: "Manufacturer Name String", 0x2A2A: "IEEE Regulatory Certification",
    0x2A2B: "Current Time", 0x2A50: "PnP ID",
    BluetoothUUID(high: 0xD061_1E78_BBB4_4591, low: 0xA5F8_4879_10AE_4366): "Continuity",
    BluetoothUUID(high: 0x8667_556C_9A37_4C91, low: 0x84ED_54EE_27D9_0049): "Continuity",
  ]
}

extension UUID {
  /// The most significant 64 bits.
  var high: UInt64 {
    let b = uuid
    return [b.0, b.1, b.2, b.3, b.4, b.5, b.6, b.7].reduce(0) { $0 << 8 | UInt64($1) }
  }

  /// The least significant 64 bits.
  var low: UInt64 {
    let b = uuid
    return [b.8, b.9, b.10, b.11, b.12, b.13, b.14, b.15].reduce(0) { $0 << 8 | UInt64($1) }
  }

  init(high: UInt64, low: UInt64) {
    func octet(_ value: UInt64, _ index: Int) -> UInt8 { UInt8(truncatingIfNeeded: value >> UInt64(56 - 8 * index)) }
    self.init(
      uuid: (
        octet(high, 0), octet(high, 1), octet(high, 2), octet(high, 3), octet(high, 4), octet(high, 5), octet(high, 6),
        octet(high, 7), octet(low, 0), octet(low, 1), octet(low, 2), octet(low, 3), octet(low, 4), octet(low, 5),
        octet(low, 6), octet(low, 7)
      ))
  }
}
