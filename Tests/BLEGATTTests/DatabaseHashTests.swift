// SPDX-License-Identifier: Apache-2.0

import BLECore
import BLECrypto
import TestSupport
import Testing

@testable import BLEGATT

/// The Database Hash by the vectors, and of databases that are built.
@Suite struct DatabaseHashTests {
  private static func attributes(_ example: VectorCase) throws -> [Attribute] {
    try example.objects("attributes").map { object in
      let handle = try #require(object.string("handle").flatMap { UInt16($0, radix: 16) })
      let name = try #require(object.string("type"))
      let type: BluetoothUUID
      if name.count == 4 {
        type = BluetoothUUID(try #require(UInt32(name, radix: 16)))
      } else {
        let octets = try #require([UInt8](hex: name))
        var reader = ByteReader(octets.span.bytes)
        type = try BluetoothUUID(from: &reader, byteCount: 16)
      }
      var attribute = Attribute(handle: handle, type: type, kind: .value, owner: 0)
      attribute.value = try #require(object.bytes("value_wire"))
      return attribute
    }
  }

  @Test func vectors() throws {
    let cases = try VectorFile("gatt_db_hash").cases
    #expect(cases.count >= 10)
    let mac = try AESCMAC()
    for example in cases {
      let attributes = try Self.attributes(example)
      #expect(DatabaseHash.message(of: attributes) == example.bytes("hash_input"), "\(example)")
      let hash = try DatabaseHash.value(of: attributes, mac)
      #expect(hash == example.bytes("characteristic_value_wire"), "\(example)")
      #expect(hash.reversed() == example.bytes("hash_msb_first"), "\(example)")
    }
  }

  /// The specification's sample (Vol 3 Part G Appendix B), as a host would build it.
  private func sample() throws -> AttributeDatabase {
    func characteristic(
      _ uuid: BluetoothUUID, _ properties: CharacteristicProperties, _ value: AttributeValue = .fixed([])
    ) -> CharacteristicDefinition {
      CharacteristicDefinition(uuid: uuid, properties: properties, permissions: .readWrite, value: value)
    }
    let database = AttributeDatabase()
    try database.addService(
      ServiceDefinition(
        uuid: 0x1800,
        characteristics: [characteristic(0x2A00, [.read, .write]), characteristic(0x2A01, .read)]),
      at: 0x0001)
    // The sample's properties of Device Name and Appearance are read and write, and read.
    try database.addService(
      ServiceDefinition(
        uuid: 0x1801,
        characteristics: [
          characteristic(0x2A05, .indicate), characteristic(0x2B29, [.read, .write], .clientFeatures),
          characteristic(0x2B2A, .read, .databaseHash),
        ]),
      at: 0x0006)
    let battery = try database.addService(
      ServiceDefinition(uuid: 0x180F, isPrimary: false, characteristics: [characteristic(0x2A19, .read)]),
      at: 0x0014)
    try database.addService(
      ServiceDefinition(
        uuid: 0x1808, includedServices: [battery.handle],
        characteristics: [characteristic(0x2A18, [.read, .indicate, .extendedProperties])]),
      at: 0x000E)
    return database
  }

  @Test func theSampleDatabaseHasTheSampleHash() throws {
    let example = try #require(try VectorFile("gatt_db_hash").cases.first)
    let database = try sample()
    #expect(DatabaseHash.message(of: database.attributes) == example.bytes("hash_input"))
    #expect(try database.hash() == example.bytes("characteristic_value_wire"))
  }

  @Test func clientsReadTheHashOfTheDatabaseAsItIs() throws {
    let database = try sample()
    var server = ScriptedBearer(database)
    server.receive("02f700")
    let first = try database.hash().hex
    #expect(server.receive("080100ffff2a2b") == ["09120d00" + first])
    #expect(server.receive("0a0d00") == ["0b" + first])
    #expect(server.receive("0c0d000f00") == ["0d" + String(first.suffix(2))])
    #expect(server.receive("0c0d001100") == ["010c0d0007"])
    #expect(server.receive("120d00" + first) == ["01120d0003"])
    // Its value is not one to be searched for.
    #expect(server.receive("060100ffff2a2b" + first) == ["010601000a"])
    let added = try database.addService(ServiceDefinition(uuid: 0x180A))
    let second = try database.hash().hex
    #expect(second != first)
    #expect(server.receive("0a0d00") == ["0b" + second])
    try database.removeService(added.handle)
    #expect(try database.hash().hex == first, "the same structure, the same hash")
  }
}
