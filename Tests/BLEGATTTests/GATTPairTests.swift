// SPDX-License-Identifier: Apache-2.0

import BLECore
import BLEGATT
import TestSupport
import Testing

/// A random database, and what a client must find in it.
struct RandomDatabase {
  let database = AttributeDatabase()
  var services: [GATTService] = []
  /// By the service's handle.
  var includes: [UInt16: [GATTIncludedService]] = [:]
  var characteristics: [UInt16: [GATTCharacteristic]] = [:]
  /// By the characteristic's value handle.
  var descriptors: [UInt16: [GATTDescriptor]] = [:]
  private var random: SeededGenerator

  init(seed: UInt64) throws {
    random = SeededGenerator(seed: seed)
    for _ in 0..<Int.random(in: 0...12, using: &random) { try addService() }
  }

  private mutating func uuid() -> BluetoothUUID {
    Bool.random(using: &random)
      ? BluetoothUUID(UInt32.random(in: 0x2A00...0x2AFF, using: &random))
      : BluetoothUUID(high: random.next(), low: random.next())
  }

  private mutating func addService() throws {
    let included = services.filter { _ in Int.random(in: 0..<4, using: &random) == 0 }
    let definition = ServiceDefinition(
      uuid: uuid(), isPrimary: Int.random(in: 0..<5, using: &random) > 0,
      includedServices: included.map(\.range.lowerBound),
      characteristics: (0..<Int.random(in: 0...6, using: &random)).map { _ in characteristic() })
    // Gaps between services are legal.
    let last = Int(database.services.last?.range.upperBound ?? 0)
    let start = UInt16(last + 1 + Int.random(in: 0...3, using: &random))
    note(definition, try database.addService(definition, at: start), included)
  }

  private mutating func characteristic() -> CharacteristicDefinition {
    var properties = CharacteristicProperties(rawValue: UInt8.random(in: 0...255, using: &random))
    properties.remove(.broadcast)
    return CharacteristicDefinition(
      uuid: uuid(), properties: properties, permissions: .readWrite,
      value: Bool.random(using: &random) ? .owner : .fixed([1, 2, 3]),
      descriptors: (0..<Int.random(in: 0...3, using: &random)).map { _ in
        DescriptorDefinition(uuid: uuid(), value: .fixed([4]))
      })
  }

  private mutating func note(
    _ definition: ServiceDefinition, _ registration: ServiceRegistration, _ included: [GATTService]
  ) {
    services.append(
      GATTService(range: registration.range, uuid: definition.uuid, isPrimary: definition.isPrimary))
    includes[registration.handle] = zip(registration.includes, included).map {
      GATTIncludedService(handle: $0, range: $1.range, uuid: $1.uuid)
    }
    var list: [GATTCharacteristic] = []
    for (index, (defined, handles)) in zip(definition.characteristics, registration.characteristics).enumerated() {
      let isLast = index + 1 == definition.characteristics.count
      let end =
        isLast ? registration.range.upperBound : registration.characteristics[index + 1].declaration - 1
      list.append(
        GATTCharacteristic(
          declarationHandle: handles.declaration, valueHandle: handles.value, endHandle: end,
          properties: defined.properties, uuid: defined.uuid))
      var found: [GATTDescriptor] = []
      if let handle = handles.clientConfiguration { found.append(GATTDescriptor(handle: handle, uuid: 0x2902)) }
      if let handle = handles.extendedProperties { found.append(GATTDescriptor(handle: handle, uuid: 0x2900)) }
      found += zip(handles.descriptors, defined.descriptors).map { GATTDescriptor(handle: $0, uuid: $1.uuid) }
      descriptors[handles.value] = found
    }
    characteristics[registration.handle] = list
  }
}

/// Client and server wired to each other.
@Suite struct GATTPairTests {
  static func discovered<T>(_ pair: inout BearerPair, _ pick: (ATTEvent) -> Result<[T], GATTError>?) throws -> [T] {
    pair.run()
    return try #require(pair.clientEvents.compactMap(pick).first).get()
  }

  @Test(arguments: 0..<60 as Range<UInt64>)
  func discoveryFindsExactlyTheDatabase(seed: UInt64) throws {
    let expected = try RandomDatabase(seed: seed)
    var pair = BearerPair(expected.database, clientMTU: [23, 24, 50, 185, 517][Int(seed % 5)])
    pair.client.bearer.exchangeMTU(token: 0, now: .zero)
    pair.client.bearer.discoverPrimaryServices(token: 1, now: .zero)
    let services = try Self.discovered(&pair) {
      if case .servicesDiscovered(1, let result) = $0 { result } else { nil }
    }
    #expect(services == expected.services.filter(\.isPrimary), "seed \(seed)")
    for service in expected.services {
      pair.client.bearer.discoverIncludedServices(in: service.range, token: 2, now: .zero)
      let includes = try Self.discovered(&pair) {
        if case .includedServicesDiscovered(2, let result) = $0 { result } else { nil }
      }
      #expect(includes == expected.includes[service.range.lowerBound], "seed \(seed)")
      pair.client.bearer.discoverCharacteristics(in: service.range, token: 3, now: .zero)
      let characteristics = try Self.discovered(&pair) {
        if case .characteristicsDiscovered(3, let result) = $0 { result } else { nil }
      }
      #expect(characteristics == expected.characteristics[service.range.lowerBound], "seed \(seed)")
      for characteristic in characteristics {
        var found: [GATTDescriptor] = []
        if let range = characteristic.descriptorRange {
          pair.client.bearer.discoverDescriptors(in: range, token: 4, now: .zero)
          found = try Self.discovered(&pair) {
            if case .descriptorsDiscovered(4, let result) = $0 { result } else { nil }
          }
        }
        #expect(found == expected.descriptors[characteristic.valueHandle], "seed \(seed)")
      }
    }
  }

  @Test(arguments: 0..<20 as Range<UInt64>)
  func discoveryByUUIDFindsTheServicesOfThatUUID(seed: UInt64) throws {
    let database = AttributeDatabase()
    var random = SeededGenerator(seed: seed)
    let uuids: [BluetoothUUID] = [0x180D, 0x180F, BluetoothUUID(high: 1, low: 2)]
    var expected: [GATTService] = []
    for _ in 0..<30 {
      let uuid = uuids.randomElement(using: &random) ?? uuids[0]
      let registration = try database.addService(ServiceDefinition(uuid: uuid))
      expected.append(GATTService(range: registration.range, uuid: uuid, isPrimary: true))
    }
    for uuid in uuids + [0x1234] {
      var pair = BearerPair(database)
      pair.client.bearer.discoverPrimaryServices(uuid: uuid, token: 1, now: .zero)
      let found = try Self.discovered(&pair) {
        if case .servicesDiscovered(1, let result) = $0 { result } else { nil }
      }
      #expect(found == expected.filter { $0.uuid == uuid }, "seed \(seed)")
    }
  }

  static func ownedDatabase() throws -> (AttributeDatabase, value: UInt16) {
    let database = AttributeDatabase()
    let registration = try database.addService(
      ServiceDefinition(
        uuid: 0x1234, owner: 1,
        characteristics: [
          CharacteristicDefinition(
            uuid: 0x2A00, properties: [.read, .write, .notify, .indicate], permissions: .readWrite, value: .owner)
        ]))
    return (database, registration.characteristics[0].value)
  }

  /// Every length around the limits of a PDU, and the longest value, at several MTUs, both ways.
  @Test(arguments: [23, 24, 64, 185, 247, 515, 516, 517] as [UInt16])
  func valuesOfAnyLengthArrive(mtu: UInt16) throws {
    let (database, handle) = try Self.ownedDatabase()
    var pair = BearerPair(database, clientMTU: mtu)
    pair.client.bearer.exchangeMTU(token: 0, now: .zero)
    pair.run()
    let limits = [Int(mtu) - 5, Int(mtu) - 3, Int(mtu) - 1, 2 * (Int(mtu) - 1)]
    let lengths = Set(limits.flatMap { $0 - 1...$0 + 1 } + [0, 1, 511, 512]).filter { $0 <= 512 }.sorted()
    for length in lengths {
      let value = (0..<length).map { UInt8(truncatingIfNeeded: $0 &* 7 &+ length) }
      pair.client.write(handle, value, token: 1)
      pair.client.read(handle, token: 2)
      pair.run()
      #expect(pair.owner.values[handle] == value, "MTU \(mtu), \(length) octets")
      guard case .written(1, nil)? = pair.clientEvents.first,
        case .valueRead(2, .success(let range))? = pair.clientEvents.last
      else {
        Issue.record("MTU \(mtu), \(length) octets: \(pair.clientEvents)")
        continue
      }
      #expect(Array(pair.clientBytes[range]) == value, "MTU \(mtu), \(length) octets")
    }
  }

  @Test func refusalsOfTheOwnerReachTheClient() throws {
    let (database, handle) = try Self.ownedDatabase()
    var pair = BearerPair(database)
    pair.owner.refused[handle] = .insufficientAuthorization
    pair.client.read(handle, token: 1)
    pair.client.write(handle, [1], token: 2)
    pair.client.write(handle, [UInt8](repeating: 1, count: 100), token: 3)
    pair.run()
    let events = pair.clientEvents.map { ScriptedBearer.text($0, pair.client.bearer.output) }
    #expect(events == ["1 read error 08 at 3", "2 written error 08 at 3", "3 written error 08 at 3"])
    #expect(pair.owner.values.isEmpty)
  }

  @Test func subscriptionNotificationIndicationAndEnd() throws {
    let (database, handle) = try Self.ownedDatabase()
    var pair = BearerPair(database)
    pair.client.write(handle + 1, [3, 0], token: 1)
    pair.run()
    #expect(pair.owner.log == ["subscription 3=3 of 1"])
    let notified = pair.server.notify(handle, [1, 2])
    let indicated = pair.server.indicate(handle, [3, 4], token: 8)
    #expect(notified && indicated)
    pair.run()
    #expect(pair.clientEvents.count == 2)
    #expect(pair.clientBytes == [1, 2, 3, 4])
    #expect(pair.owner.log.count == 2 && pair.owner.log.last == "confirmed 3 8")
    pair.client.write(handle + 1, [0, 0], token: 2)
    pair.run()
    let stillNotified = pair.server.notify(handle, [5])
    #expect(!stillNotified)
  }

  /// Many procedures of all kinds, queued at once: each ends once, in order.
  @Test func proceduresEndOnceAndInOrder() throws {
    let (database, handle) = try Self.ownedDatabase()
    var pair = BearerPair(database)
    for token in 1...200 as ClosedRange<UInt64> {
      if token.isMultiple(of: 2) {
        pair.client.read(handle, token: token)
      } else {
        pair.client.write(handle, [UInt8](repeating: UInt8(token), count: Int(token)), token: token)
      }
    }
    pair.run()
    let tokens = pair.clientEvents.map { event -> UInt64 in
      switch event {
      case .valueRead(let token, .success), .written(let token, nil): token
      default: 0
      }
    }
    #expect(tokens == Array(1...200))
  }
}

/// Bytes that no honest peer sends, at live machines; then a correct exchange.
@Suite struct GATTHostileTests {
  static func examples() throws -> [[UInt8]] {
    try VectorFile("att_pdus").cases.compactMap { $0.bytes("pdu") }
  }

  @Test func serverSurvivesAnyBytes() throws {
    let hostile = HostileBytes(seed: 0x5E7E, count: 100_000, examples: try Self.examples(), maxLength: 40)
    var random = SeededGenerator(seed: 0x0113)
    var server = ScriptedBearer(try GATTServerTests.database())
    var lastID: UInt32 = 0
    for bytes in hostile {
      server.bearer.receive(bytes.span.bytes, database: server.database, now: .zero)
      for event in server.bearer.output.events {
        switch event {
        case .readRequest(let id, _, _, _), .writeRequest(let id, _, _): lastID = id
        default: break
        }
      }
      server.bearer.output.removeEvents()
      if Int.random(in: 0..<4, using: &random) == 0 {
        switch Int.random(in: 0..<3, using: &random) {
        case 0: server.respondToRead(lastID, [UInt8](repeating: 1, count: Int.random(in: 0...40, using: &random)))
        case 1: server.respondToWrite(lastID)
        default: server.reject(lastID, .unlikelyError)
        }
      }
      let isTooLong = server.rawSent().contains { $0.count > server.bearer.mtu || $0.isEmpty }
      if isTooLong { Issue.record("seed \(hostile.seed): answer to \(bytes.hex) exceeds the MTU") }
    }
    for _ in 0..<8 {
      for id in lastID...lastID + 8 { server.reject(id, .unlikelyError) }
    }
    _ = server.sent()
    server.bearer.output.removeEvents()
    try server.database.setValue(3, Array("Test".utf8))
    #expect(server.receive("0a0300") == ["0b54657374"])
    #expect(server.receive("1800") == ["19"])
    server.receive("120d0001")
    #expect(server.events().first?.hasSuffix("write [13[0]=01] of 5") == true)
  }

  /// A server that answers each request with noise; with the right opcode half of the time.
  @Test func clientSurvivesAnyBytes() throws {
    let hostile = HostileBytes(seed: 0xC11E, count: 100_000, examples: try Self.examples(), maxLength: 40)
    var random = SeededGenerator(seed: 0x0114)
    var client = ScriptedBearer()
    var lastRequest: [UInt8] = []
    var started: UInt64 = 0
    var ended: UInt64 = 0
    for var bytes in hostile {
      if started == ended {
        started += 1
        Self.start(&client, started, &random)
      }
      lastRequest = client.rawSent().last { $0.first != 0x1E } ?? lastRequest
      if Bool.random(using: &random), let opcode = lastRequest.first, !bytes.isEmpty { bytes[0] = opcode + 1 }
      client.bearer.receive(bytes.span.bytes, database: client.database, now: .zero)
      for event in client.bearer.output.events where Self.token(event) != nil {
        ended += 1
        if Self.token(event) != started { Issue.record("seed \(hostile.seed): wrong procedure ended") }
      }
      client.bearer.output.removeEvents()
    }
    #expect(started > 10_000)
    if started != ended { client.receive("01" + [lastRequest[0]].hex + "00000a") }
    _ = client.sent()
    client.bearer.output.removeEvents()
    client.read(3, token: 7)
    while let request = client.sent().last, request != "0a0300" { client.receive("01" + request.prefix(2) + "00000a") }
    client.bearer.output.removeEvents()
    client.receive("0b0102")
    #expect(client.events() == ["7 read 0102"])
  }

  static func start(_ client: inout ScriptedBearer, _ token: UInt64, _ random: inout SeededGenerator) {
    switch Int.random(in: 0..<12, using: &random) {
    case 0: client.bearer.discoverPrimaryServices(token: token, now: .zero)
    case 1: client.bearer.discoverPrimaryServices(uuid: 0x180D, token: token, now: .zero)
    case 2: client.bearer.discoverIncludedServices(in: 1...0x40, token: token, now: .zero)
    case 3: client.bearer.discoverCharacteristics(in: 1...0x40, token: token, now: .zero)
    case 4: client.bearer.discoverDescriptors(in: 1...0x40, token: token, now: .zero)
    case 5: client.bearer.readByUUID(0x2A00, token: token, now: .zero)
    case 6: client.bearer.readMultiple([3, 5], variable: Bool.random(using: &random), token: token, now: .zero)
    case 7: client.write(3, [1], token: token)
    case 9:
      let writes = [GATTQueuedWrite(handle: 3, value: [1]), GATTQueuedWrite(handle: 5, offset: 1, value: [2])]
      client.bearer.reliableWrite(writes, token: token, now: .zero)
    case 10: client.bearer.passBarrier(token: token, now: .zero)
    case 8: client.write(3, [UInt8](repeating: 1, count: 60), token: token)
    default: client.read(3, token: token)
    }
  }

  static func token(_ event: ATTEvent) -> UInt64? {
    switch event {
    case .mtuExchanged(let token, _), .servicesDiscovered(let token, _), .includedServicesDiscovered(let token, _),
      .characteristicsDiscovered(let token, _), .descriptorsDiscovered(let token, _), .valueRead(let token, _),
      .valuesRead(let token, _), .written(let token, _), .barrierPassed(let token):
      token
    case .mtuChanged, .bearerFailed, .notification, .indication, .readRequest, .writeRequest, .writeCommand,
      .subscriptionChanged, .indicationConfirmed, .databaseOutOfSync, .commandDropped, .updateDropped:
      nil
    }
  }
}
