// SPDX-License-Identifier: Apache-2.0

import BLECore

/// UUIDs and company identifiers with the names that the Assigned Numbers give them.
enum UUIDName {
  static func knownService(_ uuid: BluetoothUUID) -> String? { AssignedNumbers.serviceName(uuid) }
  static func knownCharacteristic(_ uuid: BluetoothUUID) -> String? { AssignedNumbers.characteristicName(uuid) }
  static func knownDescriptor(_ uuid: BluetoothUUID) -> String? { AssignedNumbers.descriptorName(uuid) }

  /// The UUID, and its name if it has one.
  static func service(_ uuid: BluetoothUUID) -> String { join(uuid, knownService(uuid)) }
  static func characteristic(_ uuid: BluetoothUUID) -> String { join(uuid, knownCharacteristic(uuid)) }
  static func descriptor(_ uuid: BluetoothUUID) -> String { join(uuid, knownDescriptor(uuid)) }

  /// Manufacturer data: the company by name if it has one, then the rest in hexadecimal.
  static func manufacturer(_ data: [UInt8]) -> String {
    guard data.count >= 2 else { return data.hex }
    let company = UInt16(data[0]) | UInt16(data[1]) << 8
    let name = AssignedNumbers.companyName(company) ?? "company 0x" + String(company, radix: 16)
    return "\(name): \(Array(data.dropFirst(2)).hex)"
  }

  private static func join(_ uuid: BluetoothUUID, _ name: String?) -> String {
    name.map { "\(uuid) \($0)" } ?? uuid.description
  }
}

/// Characteristic Properties (Vol 3 Part G 3.3.1.1).
enum CharacteristicProperty: UInt8, CaseIterable {
  case broadcast = 0x01
  case read = 0x02
  case writeWithoutResponse = 0x04
  case write = 0x08
  case notify = 0x10
  case indicate = 0x20
  case authenticatedSignedWrites = 0x40
  case extendedProperties = 0x80

  static func names(_ properties: UInt8) -> [String] {
    allCases.filter { properties & $0.rawValue != 0 }.map { "\($0)" }
  }
}
