// SPDX-License-Identifier: Apache-2.0

import BLECore
import TestSupport
import Testing

struct AssignedNumbersTests {
  @Test func namesOfEachKind() {
    #expect(AssignedNumbers.serviceName(0x180D) == "Heart Rate")
    #expect(AssignedNumbers.characteristicName(0x2A37) == "Heart Rate Measurement")
    #expect(AssignedNumbers.descriptorName(0x2902) == "Client Characteristic Configuration")
    #expect(AssignedNumbers.declarationName(0x2803) == "Characteristic")
    #expect(AssignedNumbers.companyName(0x004C) == "Apple, Inc.")
    #expect(AssignedNumbers.companyName(0xFFFF) == nil)
    #expect(AssignedNumbers.adTypeName(.manufacturerSpecificData) == "Manufacturer Specific Data")
    #expect(AssignedNumbers.adTypeName(ADType(rawValue: 0x77)) == nil)
  }

  @Test func aNameBelongsToOneKindAndToShortUUIDsOnly() throws {
    #expect(AssignedNumbers.serviceName(0x2A37) == nil && AssignedNumbers.characteristicName(0x180D) == nil)
    let long = try #require(BluetoothUUID("0000180D-0000-1000-8000-00805F9B34FB"))
    #expect(AssignedNumbers.name(long) == "Heart Rate")
    let other = try #require(BluetoothUUID("0000180D-0000-1000-8000-00805F9B34FC"))
    #expect(AssignedNumbers.name(other) == nil)
    #expect(AssignedNumbers.name(0x0001_180D) == nil)
  }

  /// The tables are literals: a number twice in one would trap when it is first used.
  @Test func theTablesAreWhole() {
    let uuids = (0...0xFFFF as ClosedRange<UInt32>).map { BluetoothUUID($0) }
    #expect(uuids.count { AssignedNumbers.serviceName($0) != nil } >= 70)
    #expect(uuids.count { AssignedNumbers.characteristicName($0) != nil } >= 460)
    #expect(uuids.count { AssignedNumbers.descriptorName($0) != nil } == 18)
    #expect((0...0xFFFF as ClosedRange<UInt16>).count { AssignedNumbers.companyName($0) != nil } >= 150)
    for uuid in uuids {
      let kinds = [
        AssignedNumbers.serviceName(uuid), AssignedNumbers.characteristicName(uuid),
        AssignedNumbers.descriptorName(uuid), AssignedNumbers.declarationName(uuid),
      ]
      #expect(kinds.compactMap { $0 }.count <= 1, "\(uuid)")
    }
  }
}
