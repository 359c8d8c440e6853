// SPDX-License-Identifier: Apache-2.0

import BLECore
import TestSupport
import Testing

struct BluetoothUUIDTests {
  @Test func textForms() throws {
    #expect(BluetoothUUID("180d") == 0x180D && BluetoothUUID("180D")?.description == "180D")
    #expect(BluetoothUUID("12345678") == 0x1234_5678 && BluetoothUUID("12345678")?.description == "12345678")
    let text = "6E400001-B5A3-F393-E0A9-E50E24DCCA9E"
    let uuid = try #require(BluetoothUUID(text.lowercased()))
    #expect(uuid.description == text && uuid.longDescription == text)
    #expect(uuid.uuid16 == nil && uuid.uuid32 == nil && uuid.attByteCount == 16)
    #expect(BluetoothUUID(0x180D).longDescription == "0000180D-0000-1000-8000-00805F9B34FB")
  }

  @Test func oneUUIDHasOneValue() {
    #expect(BluetoothUUID("0000180D-0000-1000-8000-00805F9B34FB") == 0x180D)
    #expect(BluetoothUUID("0000180D") == 0x180D)
    #expect(BluetoothUUID("0000180D")?.description == "180D")
    #expect(BluetoothUUID(0x0001_0000).uuid16 == nil && BluetoothUUID(0x0001_0000).uuid32 == 0x0001_0000)
  }

  @Test(arguments: [
    "", "1", "180", "180DD", "18-D", "GGGG", "180D ", "+80D", "1234567", "12345678-1234-1234-1234-1234567890",
    "12345678x1234-1234-1234-123456789012", "123456781234-1234-1234-12345678901234", "１２３４",
    "12345678-1234-1234-1234-12345678901G", "12345678123412341234123456789012",
  ])
  func otherTextIsRefused(text: String) { #expect(BluetoothUUID(text) == nil) }

  @Test func octetsRoundTrip() throws {
    let uuid = try #require(BluetoothUUID("6E400001-B5A3-F393-E0A9-E50E24DCCA9E"))
    #expect(uuid.bigEndianBytes.hex == "6e400001b5a3f393e0a9e50e24dcca9e")
    #expect(BluetoothUUID(bigEndian: uuid.bigEndianBytes) == uuid)
    #expect(BluetoothUUID(bigEndian: [0x18, 0x0D]) == 0x180D && BluetoothUUID(bigEndian: [1, 2, 3]) == nil)
    var writer = ByteWriter()
    uuid.encode(into: &writer)
    #expect(writer.bytes == Array(uuid.bigEndianBytes.reversed()))
    var reader = ByteReader(writer.bytes.span.bytes)
    let read = try BluetoothUUID(from: &reader, byteCount: 16)
    #expect(read == uuid)
    writer.removeAll()
    BluetoothUUID(0x180D).encode(into: &writer)
    #expect(writer.bytes == [0x0D, 0x18])
  }

  @Test func lengthsThatAreNoUUIDsThrow() {
    for count in [-1, 0, 1, 3, 5, 8, 15, 17] {
      #expect(throws: DecodeError.self) {
        let bytes = [UInt8](repeating: 0, count: 20)
        var reader = ByteReader(bytes.span.bytes)
        _ = try BluetoothUUID(from: &reader, byteCount: count)
      }
    }
  }

  @Test func anyTextIsSurvived() {
    let seed: UInt64 = 8
    let examples = ["180D", "6E400001-B5A3-F393-E0A9-E50E24DCCA9E", "12345678"].map { Array($0.utf8) }
    for bytes in HostileBytes(seed: seed, count: 20_000, examples: examples) {
      let text = String(decoding: bytes, as: UTF8.self)
      if let uuid = BluetoothUUID(text) {
        #expect(BluetoothUUID(uuid.description) == uuid, "seed \(seed): \(text)")
        #expect(BluetoothUUID(uuid.longDescription) == uuid, "seed \(seed): \(text)")
      }
      if let address = BDAddress(text) { #expect(BDAddress(address.description) == address, "seed \(seed): \(text)") }
    }
  }
}

struct DeviceAddressTests {
  @Test func textForms() {
    #expect(BDAddress("C0:11:22:33:44:55")?.value == 0xC011_2233_4455)
    #expect(BDAddress("c0:11:22:33:44:0f")?.description == "C0:11:22:33:44:0F")
    #expect(BDAddress.zero.description == "00:00:00:00:00:00")
    for text in [
      "", "C0:11:22:33:44", "C0:11:22:33:44:55:66", "C0-11-22-33-44-55", "C0:11:22:33:44:5", "C0:11:22:33:44:GG",
      "C0:11:22:33:44:+5", ":::::", "C01122334455", "C0:11:22:33:44:55 ",
    ] {
      #expect(BDAddress(text) == nil, "\(text)")
    }
  }

  @Test func octetsAreLeastSignificantFirst() throws {
    let address = try #require(BDAddress("C0:11:22:33:44:55"))
    #expect(address.encoded == [0x55, 0x44, 0x33, 0x22, 0x11, 0xC0])
    #expect(try BDAddress.decode(address.encoded) == address)
    #expect(throws: DecodeError.truncated(needed: 6, available: 5, offset: 0)) {
      try BDAddress.decode([1, 2, 3, 4, 5])
    }
    #expect(BDAddress(0xFFFF_C011_2233_4455) == address)
  }

  @Test func kinds() {
    func kind(_ value: UInt64, _ type: AddressType = .random) -> DeviceAddress.Kind {
      DeviceAddress(BDAddress(value), type: type).kind
    }
    #expect(kind(0xC000_0000_0001) == .staticRandom && kind(0x4000_0000_0001) == .resolvablePrivate)
    #expect(kind(0x0000_0000_0001) == .nonResolvablePrivate && kind(0x8000_0000_0001) == .reserved)
    #expect(kind(0xC000_0000_0001, .publicDevice) == .publicDevice)
    #expect(
      kind(0xC000_0000_0001, .publicIdentity) == .publicDevice
        && kind(0xC000_0000_0001, .randomIdentity) == .staticRandom)
  }

  @Test func staticRandomAddressesAreStaticRandom() {
    var random = SeededGenerator(seed: 1)
    var seen: Set<BDAddress> = []
    for _ in 0..<1000 {
      let address = BDAddress.staticRandom(using: &random)
      #expect(DeviceAddress(address, type: .random).kind == .staticRandom)
      seen.insert(address)
    }
    #expect(seen.count == 1000)
  }
}

struct QuantityTests {
  @Test func unitsAreTheSpecifications() {
    #expect(ConnectionInterval(rawValue: 24).timeSpan == .milliseconds(30))
    #expect(SupervisionTimeout(rawValue: 42).timeSpan == .milliseconds(420))
    #expect(AdvertisingInterval(rawValue: 160).timeSpan == .milliseconds(100))
    #expect(ScanInterval(rawValue: 96).timeSpan == .milliseconds(60))
  }

  @Test(
    arguments: [
      (24, 40, 0, 42, true), (6, 6, 0, 10, true), (5, 6, 0, 10, false), (6, 3201, 0, 3200, false),
      (40, 24, 0, 42, false),
      (24, 40, 500, 3200, false), (24, 40, 0, 9, false), (24, 40, 0, 3201, false),
      // The timeout must be longer than (1 + latency) x interval x 2: equal is too short.
      (6, 12, 9, 30, false), (6, 12, 9, 31, true), (3200, 3200, 499, 3200, false),
    ] as [(UInt16, UInt16, UInt16, UInt16, Bool)])
  func ranges(low: UInt16, high: UInt16, latency: UInt16, timeout: UInt16, isValid: Bool) {
    let range = ConnectionParameterRange(
      intervalMin: ConnectionInterval(rawValue: low), intervalMax: ConnectionInterval(rawValue: high), latency: latency,
      supervisionTimeout: SupervisionTimeout(rawValue: timeout))
    #expect(range.isValid == isValid)
  }
}
