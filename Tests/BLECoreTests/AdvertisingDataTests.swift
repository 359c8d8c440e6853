// SPDX-License-Identifier: Apache-2.0

import BLECore
import Foundation
import TestSupport
import Testing

/// The payloads of `Vectors/ad_structures.json`.
struct AdvertisingDataVectorTests {
  let cases: [VectorCase]

  init() throws { cases = try VectorFile("ad_structures").cases }

  @Test func structuresAndEndings() throws {
    #expect(cases.count == 95)
    for example in cases {
      let payload = try #require(example.bytes("data"))
      var types: [String] = []
      var data: [String] = []
      var structures = ADStructures(payload.span.bytes)
      while let structure = structures.next() {
        types.append([structure.type.rawValue].hex)
        data.append([UInt8](structure.data).hex)
      }
      // The structures of the scan response follow those of the advertisement in the example.
      let response = example.bytes("scan_response") ?? []
      var rest = ADStructures(response.span.bytes)
      while let structure = rest.next() {
        types.append([structure.type.rawValue].hex)
        data.append([UInt8](structure.data).hex)
      }
      let expected = example.objects("structures")
      #expect(types == expected.map { $0.string("type") }, "\(example.name)")
      #expect(data == expected.map { $0.string("data") }, "\(example.name)")
      let reached = structures.ending
      let ending = try #require(reached)
      #expect(ending.isMalformed == example.bool("malformed"), "\(example.name): \(ending)")
      switch ending {
      case .complete: #expect(example.string("termination") == nil, "\(example.name)")
      case .padding: #expect(example.string("termination")?.contains("padding") == true, "\(example.name)")
      case .earlyTermination: #expect(example.string("termination")?.contains("zero length") == true, "\(example.name)")
      case .overrun: #expect(example.string("termination")?.contains("overruns") == true, "\(example.name)")
      }
    }
  }

  private func fields(_ example: VectorCase) throws -> AdvertisementFields {
    var fields = AdvertisementFields(try #require(example.bytes("data")))
    if let response = example.bytes("scan_response") { fields.merge(response.span.bytes) }
    return fields
  }

  @Test func fieldsAreWhatCoreBluetoothShows() throws {
    for example in cases {
      let fields = try fields(example)
      let expected = try #require(example.child("expected"))
      #expect(fields.localName == expected.string("kCBAdvDataLocalName"), "\(example.name)")
      #expect(fields.manufacturerData == expected.bytes("kCBAdvDataManufacturerData"), "\(example.name)")
      #expect(fields.txPowerLevel.map(Int.init) == expected.int("kCBAdvDataTxPowerLevel"), "\(example.name)")
      let services = expected.strings("kCBAdvDataServiceUUIDs").map { BluetoothUUID($0) }
      #expect(fields.serviceUUIDs == services, "\(example.name)")
      let solicited = expected.strings("kCBAdvDataSolicitedServiceUUIDs").map { BluetoothUUID($0) }
      #expect(fields.solicitedServiceUUIDs == solicited, "\(example.name)")
      let data = expected.object["kCBAdvDataServiceData"] as? [String: String] ?? [:]
      let serviceData = Dictionary(uniqueKeysWithValues: data.map { (BluetoothUUID($0), [UInt8](hex: $1)) })
      #expect(fields.serviceData.count == serviceData.count, "\(example.name)")
      for (uuid, bytes) in fields.serviceData { #expect(serviceData[uuid] == bytes, "\(example.name)") }
    }
  }

  @Test func otherFields() throws {
    var checked: Set<String> = []
    for example in cases {
      guard let decoded = example.child("decoded") else { continue }
      let fields = try fields(example)
      for key in decoded.object.keys where check(fields, key, decoded, example.name) { checked.insert(key) }
    }
    #expect(
      checked == [
        "flags", "company_id", "appearance", "connection_interval_ms", "le_role", "le_address", "uri",
        "target_addresses", "advertising_interval_ms",
      ])
  }

  /// False for keys that are the matter of a beacon's own format.
  private func check(_ fields: AdvertisementFields, _ key: String, _ decoded: VectorCase, _ name: String) -> Bool {
    switch key {
    case "flags": check(fields.flags, decoded.child(key), name)
    case "company_id": #expect(fields.companyIdentifier == UInt16(decoded.string(key) ?? "", radix: 16), "\(name)")
    case "appearance":
      #expect(fields.appearance == UInt16(decoded.child(key)?.string("value") ?? "", radix: 16), "\(name)")
    case "connection_interval_ms":
      let values = decoded.object[key] as? [Any] ?? []
      let interval = [fields.connectionIntervalMin, fields.connectionIntervalMax].map { $0.map(milliseconds) }
      #expect(interval == values.map { ($0 as? NSNumber)?.doubleValue }, "\(name)")
    case "le_role": #expect(fields.leRole.map(Int.init) == decoded.int(key), "\(name)")
    case "le_address":
      let address = decoded.child(key)
      #expect(fields.deviceAddress?.address.description == address?.string("address"), "\(name)")
      #expect((fields.deviceAddress?.type == .random) == address?.bool("random"), "\(name)")
    case "uri":
      let scheme = UInt32(decoded.child(key)?.string("scheme_code") ?? "", radix: 16)
      #expect(fields.uri?.unicodeScalars.first?.value == scheme, "\(name)")
      #expect(fields.uri.map { String($0.dropFirst()) } == decoded.child(key)?.string("rest"), "\(name)")
    case "target_addresses":
      #expect(fields.targetAddresses.map(\.address.description) == decoded.strings(key), "\(name)")
    case "advertising_interval_ms":
      let value = (decoded.object[key] as? NSNumber)?.doubleValue
      #expect(fields.advertisingInterval.map(milliseconds) == value, "\(name)")
    default: return false
    }
    return true
  }

  private func check(_ flags: ADFlags?, _ json: VectorCase?, _ name: String) {
    guard let flags, let json else {
      Issue.record("\(name): no flags")
      return
    }
    #expect([flags.rawValue].hex == json.string("value"), "\(name)")
    #expect(flags.contains(.leLimitedDiscoverable) == json.bool("le_limited"), "\(name)")
    #expect(flags.contains(.leGeneralDiscoverable) == json.bool("le_general"), "\(name)")
    #expect(flags.contains(.brEDRNotSupported) == json.bool("bredr_not_supported"), "\(name)")
    #expect(flags.contains(.simultaneousController) == json.bool("simultaneous_controller"), "\(name)")
    #expect(flags.contains(.simultaneousHost) == json.bool("simultaneous_host"), "\(name)")
  }

  private func milliseconds(_ time: some TimeQuantity) -> Double { Double(time.timeSpan.nanoseconds) / 1_000_000 }

  @Test func anyPayloadIsSurvived() throws {
    let seed: UInt64 = 31
    let examples = cases.compactMap { $0.bytes("data") }
    for bytes in HostileBytes(seed: seed, count: 100_000, examples: examples) {
      var structures = ADStructures(bytes.span.bytes)
      var octets = 0
      while let structure = structures.next() { octets += structure.data.byteCount + 2 }
      let ending = structures.ending
      #expect(octets <= bytes.count && ending != nil, "seed \(seed): \(bytes.hex)")
      let fields = AdvertisementFields(bytes)
      _ = (fields.companyIdentifier, fields.overflowArea)
      // What was parsed can be built, and parses to the same again.
      #expect(AdvertisementFields(rebuilt(bytes)) == fields, "seed \(seed): \(bytes.hex)")
    }
  }

  /// The structures of `bytes`, put together again.
  private func rebuilt(_ bytes: [UInt8]) -> [UInt8] {
    var builder = ADBuilder(limit: 1650)
    var structures = ADStructures(bytes.span.bytes)
    while let structure = structures.next() { builder.append(structure.type, [UInt8](structure.data)) }
    return builder.bytes
  }
}

struct ADBuilderTests {
  private let long = BluetoothUUID("6E400001-B5A3-F393-E0A9-E50E24DCCA9E") ?? 0
  private let other = BluetoothUUID("12345678-1234-5678-1234-56789ABCDEF0") ?? 0

  @Test func structuresAreWrittenAsTheyAreRead() throws {
    var builder = ADBuilder()
    #expect(builder.append([.leGeneralDiscoverable, .brEDRNotSupported]) == true)
    #expect(builder.append(services: [0x180D, 0x180F]) == [])
    #expect(builder.append(localName: "Heart") == .complete)
    #expect(builder.append(txPowerLevel: -4) == true)
    #expect(builder.append(serviceData: [0x64], of: 0x180F) == true)
    #expect(builder.bytes.hex == "02010605030d180f180609486561727402" + "0afc" + "04160f1864")
    #expect(builder.remaining == 31 - builder.bytes.count)
  }

  @Test func servicesThatDoNotFitAreReturned() {
    var builder = ADBuilder()
    builder.append([.leGeneralDiscoverable])
    #expect(builder.append(services: [long, 0x180D, other, 0x1234_5678]) == [other])
    // 16-bit, 32-bit, then 128-bit: 3 + 4 + 6 + 18 = 31 octets.
    #expect(builder.remaining == 0)
    #expect(builder.bytes.suffix(18).prefix(2) == [17, ADType.incompleteServiceUUIDs128.rawValue])
    #expect(builder.append(services: [0x180F]) == [0x180F])
    #expect(AdvertisementFields(builder.bytes).serviceUUIDs == [0x180D, 0x1234_5678, long])
  }

  @Test func namesAreShortenedBetweenCharacters() {
    var builder = ADBuilder(limit: 8)
    #expect(builder.append(localName: "Café crème") == .shortened(6))
    #expect(builder.bytes == [7, 8] + Array("Café ".utf8))
    builder = ADBuilder(limit: 6)
    #expect(builder.append(localName: "Café") == .shortened(3))
    builder = ADBuilder(limit: 4)
    #expect(builder.append(localName: "👩‍👩‍👧") == .none)
    #expect(builder.bytes.isEmpty)
    builder = ADBuilder(limit: 1)
    #expect(builder.append(localName: "") == .none)
    builder = ADBuilder()
    #expect(builder.append(localName: "0123456789AB", limit: 10) == .shortened(10))
    #expect(builder.append(localName: "", limit: 10) == .complete)
  }

  @Test func whatDoesNotFitChangesNothing() {
    var builder = ADBuilder(limit: 4)
    #expect(builder.append(.manufacturerSpecificData, [1, 2, 3]) == false)
    #expect(builder.bytes.isEmpty)
    #expect(builder.append(.manufacturerSpecificData, [1, 2]) == true)
    #expect(builder.remaining == 0)
    builder = ADBuilder(limit: 1650)
    #expect(builder.append(.uri, [UInt8](repeating: 0x41, count: 255)) == false)
    #expect(builder.append(.uri, [UInt8](repeating: 0x41, count: 254)) == true)
  }

  @Test func theOverflowAreaFindsItsServices() {
    var area = OverflowArea()
    #expect(area.isEmpty && !area.mayContain(0x180D))
    area.insert(0x180D)
    area.insert(long)
    let read = OverflowArea(manufacturerData: area.manufacturerData)
    #expect(read == area && area.mayContain(0x180D) && area.mayContain(long))
    let all = (0x1800..<0x1860 as Range<UInt32>).map { BluetoothUUID($0) }
    #expect(all.filter { area.mayContain($0) }.count < 8)
    #expect(OverflowArea(manufacturerData: [0x4C, 0x00, 0x02, 0x15]) == nil)
    #expect(OverflowArea(manufacturerData: [0x4C, 0x00, 0x01, 0x15]) == nil)
    #expect(area.manufacturerData.count == 19)
  }
}
