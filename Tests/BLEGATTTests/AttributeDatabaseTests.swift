// SPDX-License-Identifier: Apache-2.0

import BLECore
import BLEGATT
import TestSupport
import Testing

@Suite struct AttributeDatabaseTests {
  static let battery = ServiceDefinition(
    uuid: 0x180F, owner: 7,
    characteristics: [
      CharacteristicDefinition(
        uuid: 0x2A19, properties: [.read, .notify], permissions: .readable, value: .owner,
        descriptors: [DescriptorDefinition(uuid: 0x2901, value: .fixed([0x42]))])
    ])

  @Test func handlesAreLaidOutAsTheProfileSays() throws {
    let database = AttributeDatabase()
    let first = try database.addService(Self.battery)
    let second = try database.addService(
      ServiceDefinition(
        uuid: 0x1816, includedServices: [first.handle],
        characteristics: [
          CharacteristicDefinition(
            uuid: 0x2A5B, properties: [.indicate, .extendedProperties], permissions: .readable, value: .owner,
            extendedProperties: 1)
        ]))
    #expect(first.range == 1...5)
    #expect(first.characteristics.map(\.value) == [3])
    #expect(first.characteristics[0].clientConfiguration == 4)
    #expect(first.characteristics[0].descriptors == [5])
    #expect(second.range == 6...11)
    #expect(second.includes == [7])
    #expect(second.characteristics[0].declaration == 8)
    #expect(second.characteristics[0].clientConfiguration == 10)
    #expect(second.characteristics[0].extendedProperties == 11)
    #expect(database.value(1) == [0x0F, 0x18])
    #expect(database.value(2) == [0x12, 0x03, 0x00, 0x19, 0x2A])
    #expect(database.value(3) == nil)
    #expect(database.value(5) == [0x42])
    #expect(database.value(7) == [0x01, 0x00, 0x05, 0x00, 0x0F, 0x18])
    #expect(database.value(11) == [0x01, 0x00])
    #expect(database.attributeCount == 11)
    #expect(database.services.map(\.owner) == [7, 0])
  }

  @Test func freedHandlesAreUsedAgain() throws {
    let database = AttributeDatabase()
    let services = try (0..<3).map { _ in try database.addService(Self.battery) }
    try database.removeService(services[1].handle)
    let larger = ServiceDefinition(
      uuid: 1, includedServices: [1, 1, 11, 11], characteristics: Self.battery.characteristics)
    #expect(try database.addService(larger).range == 16...24)
    #expect(try database.addService(Self.battery).range == 6...10)
    #expect(database.services.map(\.range.lowerBound) == [1, 6, 11, 16])
  }

  @Test func aRangeMayBeAskedFor() throws {
    let database = AttributeDatabase()
    #expect(try database.addService(Self.battery, at: 0xFFFB).range == 0xFFFB...0xFFFF)
    #expect(try database.addService(Self.battery, at: 0x20).range == 0x20...0x24)
    for start: UInt16 in [0, 0x1C, 0x20, 0x24, 0xFFFC] {
      #expect(throws: DatabaseError.noHandles(needed: 5)) { try database.addService(Self.battery, at: start) }
    }
    #expect(try database.addService(Self.battery).range == 1...5)
  }

  @Test func removingAnIncludedServiceRemovesItsIncludes() throws {
    let database = AttributeDatabase()
    let included = try database.addService(Self.battery)
    let other = try database.addService(ServiceDefinition(uuid: 0x180D))
    let including = try database.addService(ServiceDefinition(uuid: 0x1816, includedServices: [1, 6]))
    _ = database.takeChangedRanges()
    try database.removeService(included.handle)
    #expect(database.value(including.includes[0]) == nil)
    #expect(database.value(including.includes[1]) != nil)
    #expect(database.takeChangedRanges() == [included.range, including.range])
    #expect(database.services.map(\.range) == [other.range, including.range])
  }

  @Test func changesAreCountedAndMerged() throws {
    let database = AttributeDatabase()
    try database.addService(Self.battery)
    try database.addService(Self.battery)
    try database.addService(Self.battery, at: 0x100)
    #expect(database.version == 3)
    #expect(database.changedRanges == [1...10, 0x100...0x104])
    #expect(database.takeChangedRanges() == [1...10, 0x100...0x104])
    #expect(database.takeChangedRanges() == [])
    database.removeServices(ofOwner: 7)
    #expect(database.attributeCount == 0)
    #expect(database.services == [])
  }

  @Test func wrongDefinitionsAreRefused() throws {
    let database = AttributeDatabase()
    func definition(_ value: AttributeValue, _ descriptor: BluetoothUUID = 0x2901) -> ServiceDefinition {
      ServiceDefinition(
        uuid: 1,
        characteristics: [
          CharacteristicDefinition(
            uuid: 2, properties: .read, permissions: .readable, value: value,
            descriptors: [DescriptorDefinition(uuid: descriptor, value: .owner)])
        ])
    }
    let long = AttributeValue.fixed([UInt8](repeating: 0, count: 513))
    #expect(throws: DatabaseError.valueTooLong(count: 513)) { try database.addService(definition(long)) }
    for reserved: BluetoothUUID in [0x2900, 0x2902] {
      #expect(throws: DatabaseError.reservedDescriptor(reserved)) {
        try database.addService(definition(.owner, reserved))
      }
    }
    #expect(throws: DatabaseError.unknownService(handle: 9)) {
      try database.addService(ServiceDefinition(uuid: 1, includedServices: [9]))
    }
    #expect(throws: DatabaseError.unknownService(handle: 9)) { try database.removeService(9) }
    #expect(throws: DatabaseError.unknownValue(handle: 1)) { try database.setValue(1, []) }
    #expect(database.attributeCount == 0 && database.version == 0)
  }

  @Test func theHandlesRunOut() throws {
    let database = AttributeDatabase()
    let large = ServiceDefinition(
      uuid: 1,
      characteristics: Array(
        repeating: CharacteristicDefinition(uuid: 2, properties: [], permissions: .readable, value: .owner),
        count: 16_383))
    #expect(large.handleCount == 32_767)
    try database.addService(large)
    try database.addService(large)
    #expect(throws: DatabaseError.noHandles(needed: 32_767)) { try database.addService(large) }
    #expect(try database.addService(ServiceDefinition(uuid: 3)).range == 0xFFFF...0xFFFF)
    #expect(throws: DatabaseError.noHandles(needed: 1)) { try database.addService(ServiceDefinition(uuid: 3)) }
  }

  @Test func onlyKeptValuesAreSet() throws {
    let database = AttributeDatabase()
    try database.addService(Self.battery)
    try database.setValue(5, [1, 2, 3])
    #expect(database.value(5) == [1, 2, 3])
    for handle: UInt16 in [1, 2, 3, 4, 6] {
      #expect(throws: DatabaseError.unknownValue(handle: handle)) { try database.setValue(handle, []) }
    }
  }
}
