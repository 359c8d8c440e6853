// SPDX-License-Identifier: Apache-2.0

import BLECore
import BLEGATT
import BLEHost
import Testing

@testable import BLESystem

/// A peer whose attributes change, seen from an app's session on another device; and what is known of a peer that has
/// not changed.
@Suite struct ServiceChangeTests {
  private struct Pair {
    let world: SimulatedWorld
    let phone: SimulatedDevice
    let sensor: SimulatedDevice
    let app: TestSession
    let server: TestSession
    var link: LinkReference

    /// The peer's server, as it sees the phone.
    var remote: ATTBearer? { sensor.system.host?.links.first?.bearer }
    var local: PeerLink? { phone.system.links[link.peer] }

    init(_ services: [LocalService] = [.simple(0x180D, id: 1)]) throws {
      world = SimulatedWorld()
      phone = try world.device("phone")
      sensor = try world.device("sensor")
      app = phone.session()
      server = sensor.session()
      server.publish(services, name: "sensor", in: world)
      link = try app.connect(to: "sensor", in: world)
    }

    /// Runs until the phone's system has asked what it wants to know itself before an app's first request.
    func settle() {
      if let local { phone.system.prepare(local) }
      let isDone = world.run {
        guard let local, case .done = local.preparation, case .idle = local.hashRead else { return false }
        return local.procedures.isEmpty
      }
      #expect(isDone)
    }

    mutating func reconnect() throws {
      app.disconnect(link, in: world)
      world.advance(.seconds(1))
      server.send(.stopAdvertising)
      server.send(.startAdvertising(server.nextToken(), localName: "sensor", services: []))
      link = try app.connect(to: link.peer, in: world)
    }

    func find(_ uuid: BluetoothUUID) throws -> (service: ServiceRecord, characteristic: CharacteristicRecord) {
      let service = try #require(try app.services(link, [uuid], in: world).first)
      return (service, try #require(try app.characteristics(link, of: service, in: world).first))
    }

    /// What the app was told of changes.
    var changes: [ClosedRange<UInt16>] {
      app.events.compactMap { if case .servicesModified(link, let range) = $0 { range } else { nil } }
    }
  }

  private func reason(_ body: () throws -> Void) -> SystemError.Reason? {
    do {
      try body()
      return nil
    } catch {
      return (error as? SystemError)?.reason
    }
  }

  // MARK: Before the app's first request

  @Test func theSystemSubscribesBeforeTheAppDiscovers() throws {
    let pair = try Pair()
    _ = try pair.app.services(pair.link, in: pair.world)
    let remote = try #require(pair.remote)
    #expect(remote.clientFeatures == [.robustCaching, .multipleHandleValueNotifications])
    let handles = try #require(pair.local?.cache.attributeService)
    let serviceChanged = try #require(handles.serviceChanged)
    #expect(remote.subscriptions == [GATTSubscription(valueHandle: serviceChanged, configuration: 2)])
    #expect(pair.local?.isSubscribedToChanges == true && pair.local?.isRobust == true)
    #expect(try pair.local?.cache.hash == pair.sensor.system.host?.database.hash())
  }

  @Test func apeerThatIsOnlyAClientIsAskedNothing() throws {
    let pair = try Pair()
    _ = try pair.app.services(pair.link, in: pair.world)
    let inbound = try #require(pair.sensor.system.links.values.first)
    #expect(inbound.procedures.isEmpty)
    guard case .none = inbound.preparation else {
      Issue.record("prepared without a user")
      return
    }
    // Until an app there uses it as a peripheral.
    let session = pair.sensor.session()
    session.send(.connect(inbound.reference.peer, ConnectOptions()))
    #expect(pair.world.run { session.link == inbound.reference })
    let services = try session.services(inbound.reference, in: pair.world)
    #expect(services.map(\.uuid) == [0x1800, 0x1801])
    #expect(inbound.isSubscribedToChanges)
  }

  // MARK: What is known

  @Test func theSameDatabaseIsNotAskedTwice() throws {
    let services: [LocalService] = [
      .simple(0x180F, id: 1, value: [50]), .simple(0x180D, id: 11, includes: [1]),
    ]
    var pair = try Pair(services)
    func explore(atOnce: Bool) throws -> [String] {
      var found: [String] = []
      let (app, link, world) = (pair.app, pair.link, pair.world)
      for service in try app.services(link, atOnce: atOnce, in: world) {
        found.append("\(service.uuid) \(service.handles)")
        for included in try app.includedServices(link, of: service, atOnce: atOnce, in: world) {
          found.append("includes \(included.uuid) \(included.isPrimary)")
        }
        for record in try app.characteristics(link, of: service, atOnce: atOnce, in: world) {
          found.append("\(record.uuid) \(record.properties) \(record.valueHandle)-\(record.endHandle)")
          for descriptor in try app.descriptors(link, of: record, atOnce: atOnce, in: world) {
            found.append("\(descriptor.uuid) \(descriptor.handle)")
          }
        }
      }
      return found
    }
    let first = try explore(atOnce: false)
    #expect(first.count > 15 && first.contains("includes 180F true"))
    #expect(try explore(atOnce: true) == first, "in the same connection")
    try pair.reconnect()
    pair.settle()
    #expect(try explore(atOnce: true) == first, "and in the next one")
    #expect(try pair.app.services(pair.link, [0x180F], atOnce: true, in: pair.world).map(\.uuid) == [0x180F])
    // A subscription needs no search either: one write.
    let record = try pair.find(0x180D).characteristic
    try pair.app.setNotify(pair.link, record, true, in: pair.world)
    #expect(pair.remote?.subscription(record.valueHandle) == 1)
  }

  @Test func anAnswerThatIsKnownDoesNotOvertake() throws {
    let pair = try Pair([.simple(0x180D, id: 1, value: [7])])
    let (_, record) = try pair.find(0x180D)
    pair.app.forget()
    let (read, discover) = (pair.app.nextToken(), pair.app.nextToken())
    pair.app.send(.readValue(read, pair.link, record.valueHandle))
    pair.app.send(.discoverServices(discover, pair.link, [0x180D]))
    #expect(pair.app.events.isEmpty)
    #expect(pair.world.run { pair.app.events.count == 2 })
    #expect(pair.app.events.first == .valueRead(read, pair.link, .success([7])))
  }

  @Test func aDatabaseThatChangedMeanwhileIsAskedAnew() throws {
    var pair = try Pair()
    let old = try pair.find(0x180D)
    pair.app.disconnect(pair.link, in: pair.world)
    pair.server.send(.removeService(1))
    pair.server.add(.simple(0x180F, id: 11, value: [50]))
    pair.world.advance(.seconds(1))
    pair.server.send(.stopAdvertising)
    pair.server.send(.startAdvertising(pair.server.nextToken(), localName: "sensor", services: []))
    pair.link = try pair.app.connect(to: pair.link.peer, in: pair.world)
    #expect(try pair.app.services(pair.link, in: pair.world).map(\.uuid) == [0x1800, 0x1801, 0x180F])
    let new = try pair.find(0x180F)
    #expect(new.service.handles.lowerBound == old.service.handles.lowerBound)
    #expect(try pair.app.read(pair.link, new.characteristic.valueHandle, in: pair.world) == [50])
    #expect(pair.changes == [], "a change between connections is none of this one")
  }

  @Test func whatIsKnownEndsWithTheAdapter() throws {
    let pair = try Pair()
    _ = try pair.find(0x180D)
    pair.phone.setPower(false)
    #expect(pair.world.run { pair.app.state == .poweredOff })
    pair.phone.setPower(true)
    #expect(pair.world.run { pair.app.state == .poweredOn })
    #expect(pair.phone.system.caches.cache(of: pair.link.peer, hash: []) == nil)
  }

  // MARK: Changes

  @Test func anAdditionIsToldWithItsRange() throws {
    let pair = try Pair()
    let (_, kept) = try pair.find(0x180D)
    pair.server.add(.simple(0x180F, id: 11, value: [50]))
    #expect(pair.world.run { !pair.changes.isEmpty })
    let added = try #require(pair.sensor.system.host?.database.services.last)
    #expect(pair.changes == [added.range])
    #expect(added.uuid == 0x180F)
    // What did not change is as good as before; what was found is still known.
    pair.settle()
    let heart = try #require(try pair.app.services(pair.link, [0x180D], in: pair.world).first)
    #expect(try pair.app.characteristics(pair.link, of: heart, atOnce: true, in: pair.world) == [kept])
    #expect(try pair.app.services(pair.link, in: pair.world).map(\.uuid) == [0x1800, 0x1801, 0x180D, 0x180F])
    let (_, battery) = try pair.find(0x180F)
    #expect(try pair.app.read(pair.link, battery.valueHandle, in: pair.world) == [50])
    #expect(pair.remote?.isClientChangeAware == true)
  }

  @Test func aRemovalEndsWhatIsUnderWayOnIt() throws {
    let pair = try Pair([.simple(0x180D, id: 1), .simple(0x180F, id: 11, value: [50])])
    let (_, heart) = try pair.find(0x180D)
    let (_, battery) = try pair.find(0x180F)
    try pair.app.setNotify(pair.link, heart, true, in: pair.world)
    let (read, other) = (pair.app.nextToken(), pair.app.nextToken())
    // The first waits for the peer's app, the second for the first.
    pair.app.send(.readValue(read, pair.link, heart.valueHandle))
    pair.app.send(.readValue(other, pair.link, battery.valueHandle))
    #expect(pair.world.run { pair.server.events.contains { if case .readRequested = $0 { true } else { false } } })
    pair.server.send(.removeService(1))
    #expect(pair.world.run { !pair.changes.isEmpty })
    let failed = pair.app.events.compactMap { event -> SystemError.Reason? in
      if case .valueRead(read, pair.link, .failure(let error)) = event { error.reason } else { nil }
    }
    // The peer answers the request (Unlikely Error) and tells the change; either may come first.
    #expect(failed == [.att(ATTError.unlikelyError.rawValue)] || failed == [.invalidHandle])
    #expect(pair.world.run { pair.app.events.contains(.valueRead(other, pair.link, .success([50]))) })
    #expect(pair.local?.subscriptions.isEmpty == true)

    // Old handles are refused without asking.
    #expect(
      reason { _ = try pair.app.read(pair.link, heart.valueHandle, atOnce: true, in: pair.world) } == .invalidHandle)
    #expect(
      reason { try pair.app.write(pair.link, heart.valueHandle, [1], atOnce: true, in: pair.world) } == .invalidHandle)
    #expect(reason { try pair.app.setNotify(pair.link, heart, true, atOnce: true, in: pair.world) } == .invalidHandle)
    #expect(
      reason { _ = try pair.app.descriptors(pair.link, of: heart, atOnce: true, in: pair.world) } == .invalidHandle)
    pair.app.forget()
    pair.app.send(.writeCommand(pair.link, heart.valueHandle, [1]))
    #expect(pair.app.events == [.writeCreditsGranted(pair.link, 1)], "its credit comes back")
  }

  @Test func aNewServiceAtOldHandlesIsNotTakenForTheOld() throws {
    let pair = try Pair()
    let old = try pair.find(0x180D)
    let second = pair.phone.session()
    pair.world.run { second.state == .poweredOn }
    #expect(try second.connect(to: pair.link.peer, in: pair.world) == pair.link)
    let seen = try #require(try second.services(pair.link, [0x180D], in: pair.world).first)
    _ = try second.characteristics(pair.link, of: seen, in: pair.world)
    try pair.app.setNotify(pair.link, old.characteristic, true, in: pair.world)

    pair.server.send(.removeService(1))
    pair.server.add(.simple(0x180D, id: 21))
    #expect(pair.world.run { pair.changes.count == 2 })
    let new = try pair.find(0x180D)
    #expect(new == old, "the same handles, as it happens")
    // The first app has found it again, the second has not.
    try pair.app.setNotify(pair.link, new.characteristic, true, in: pair.world)
    #expect(pair.remote?.subscription(new.characteristic.valueHandle) == 1, "the configuration was written again")
    #expect(pair.server.events.count { if case .subscribed(_, 22) = $0 { true } else { false } } == 1)
    #expect(
      reason { _ = try second.read(pair.link, new.characteristic.valueHandle, atOnce: true, in: pair.world) }
        == .invalidHandle)
    #expect(
      reason { _ = try second.characteristics(pair.link, of: seen, atOnce: true, in: pair.world) } == .invalidHandle)
    _ = try second.services(pair.link, in: pair.world)
    _ = try second.characteristics(pair.link, of: seen, in: pair.world)
    try second.setNotify(pair.link, new.characteristic, true, in: pair.world)
    pair.server.send(.updateValue(22, [5], nil))
    #expect(pair.world.run { second.events.contains(.valueNotified(pair.link, new.characteristic.valueHandle, [5])) })
  }

  @Test func manyChangesAreToldInFewAndNoneIsLost() throws {
    let pair = try Pair()
    pair.settle()
    for number in 0..<20 { pair.server.add(.simple(0x180F, id: LocalAttributeID(100 + number * 10), value: [1])) }
    pair.settle()
    pair.world.advance(.seconds(1))
    pair.settle()
    #expect((1...3).contains(pair.changes.count), "\(pair.changes.count) indications")
    let services = try #require(pair.sensor.system.host?.database.services)
    for service in services.suffix(20) {
      #expect(pair.changes.contains { $0.contains(service.range.lowerBound) && $0.contains(service.range.upperBound) })
    }
    #expect(try pair.app.services(pair.link, in: pair.world).count == services.count)
    #expect(try pair.local?.cache.hash == pair.sensor.system.host?.database.hash())
  }

  /// Updates for a client that has not confirmed a change wait, and their credits with them.
  @Test func updatesSurviveAChange() throws {
    let pair = try Pair()
    let (_, heart) = try pair.find(0x180D)
    try pair.app.setNotify(pair.link, heart, true, in: pair.world)
    pair.settle()
    pair.server.forget()
    pair.server.add(.simple(0x180F, id: 11, value: [50]))
    for value: UInt8 in 0..<30 { pair.server.send(.updateValue(2, [value], nil)) }
    #expect(!pair.server.events.contains { if case .updateCreditsGranted = $0 { true } else { false } })
    #expect(
      pair.world.run { pair.app.events.count { if case .valueNotified = $0 { true } else { false } } == 30 })
    let values = pair.app.events.compactMap { event -> UInt8? in
      if case .valueNotified(_, _, let value) = event { value.first } else { nil }
    }
    #expect(values == Array(0..<30))
    pair.world.advance(.seconds(1))
    let credits = pair.server.events.reduce(0) { sum, event in
      if case .updateCreditsGranted(let count) = event { sum + count } else { sum }
    }
    #expect(credits == 30)
  }

  // MARK: Out of sync

  /// A peer with a Database Hash, and the phone connected to it; the handle of a value of one octet.
  private func rogue() throws -> (world: SimulatedWorld, app: TestSession, rogue: RoguePeer, LinkReference, UInt16) {
    let world = SimulatedWorld()
    let phone = try world.device("phone")
    let app = phone.session()
    let database = AttributeDatabase()
    try database.addService(
      ServiceDefinition(
        uuid: 0x1801,
        characteristics: [
          CharacteristicDefinition(
            uuid: 0x2B29, properties: [.read, .write], permissions: .readWrite, value: .clientFeatures),
          CharacteristicDefinition(uuid: 0x2B2A, properties: .read, permissions: .readable, value: .databaseHash),
        ]))
    let service = try database.addService(
      ServiceDefinition(
        uuid: 0x180F,
        characteristics: [
          CharacteristicDefinition(uuid: 0x2A19, properties: .read, permissions: .readWrite, value: .fixed([7]))
        ]))
    let rogue = RoguePeer(database, in: world)
    rogue.advertise("rogue")
    let link = try app.connect(to: "rogue", in: world)
    _ = try app.services(link, in: world)
    #expect(rogue.bearer.clientFeatures.contains(.robustCaching))
    rogue.forget()
    return (world, app, rogue, link, service.characteristics[0].value)
  }

  /// A peer that has forgotten that this client knows its database (as one does that was restarted) costs two requests.
  @Test func aPeerOutOfSyncWithTheSameHashIsAskedAgain() throws {
    let (world, app, rogue, link, value) = try rogue()
    var refusals = 1
    rogue.rewrite = { pdu in
      guard pdu[0] == 0x0B, refusals > 0 else { return .send([pdu]) }
      refusals -= 1
      return .send([[0x01, 0x0A, 0, 0, 0x12]])
    }
    #expect(try app.read(link, value, in: world) == [7])
    #expect(rogue.received.map(\.first) == [0x0A, 0x08, 0x0A])
    #expect(!app.events.contains { if case .servicesModified = $0 { true } else { false } })
    // What was found is still known.
    #expect(try app.services(link, atOnce: true, in: world).map(\.uuid) == [0x1801, 0x180F])
  }

  @Test func aPeerOutOfSyncWithAnotherHashIsAnotherDatabase() throws {
    let (world, app, rogue, link, value) = try rogue()
    try rogue.database.removeService(value - 2)
    let other = try rogue.database.addService(
      ServiceDefinition(
        uuid: 0x1811,
        characteristics: [
          CharacteristicDefinition(uuid: 0x2A46, properties: .write, permissions: .readWrite, value: .fixed([9]))
        ]))
    #expect(other.characteristics[0].value == value, "the same handle, another value")
    rogue.perform { bearer, now in
      bearer.databaseChanged(value - 2...value, database: rogue.database, now: now)
    }
    let written = app.nextToken()
    app.send(.writeValue(written, link, value, [1]))
    app.send(.writeCommand(link, value, [2]))
    app.send(.writeValue(app.nextToken(), link, value, [3]))
    #expect(reason { try app.write(link, value, [4], in: world) } == .invalidHandle)
    #expect(rogue.database.value(value) == [9], "an old handle is never written")
    #expect(app.events.contains(.servicesModified(link, 1...0xFFFF)))
    #expect(try app.services(link, in: world).map(\.uuid) == [0x1801, 0x1811])
  }
}
