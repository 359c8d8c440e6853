// SPDX-License-Identifier: Apache-2.0

import BLECore
import BLEGATT
import BLEHost
import BLERadio
import Testing

@testable import BLESystem

/// Many clients, one adapter: what is merged below comes apart again above.
@Suite struct SharingTests {
  private static func service(_ uuid: BluetoothUUID, id: LocalAttributeID = 1) -> LocalService {
    LocalService(
      id: id, uuid: uuid, isPrimary: true,
      characteristics: [
        LocalCharacteristic(id: id + 1, uuid: 0x2A37, properties: 0x12, read: .open, write: .never, value: nil)
      ])
  }

  private static func publish(_ session: TestSession, _ uuid: BluetoothUUID, name: String, in world: SimulatedWorld) {
    #expect(world.run { session.state == .poweredOn })
    session.send(.addService(session.nextToken(), service(uuid)))
    session.send(.startAdvertising(session.nextToken(), localName: name, services: [uuid]))
  }

  private static func connect(_ session: TestSession, to name: String, in world: SimulatedWorld) throws -> LinkReference
  {
    #expect(world.run { session.state == .poweredOn })
    session.send(.startScan(ScanOptions(services: nil)))
    #expect(world.run { session.discoveries.contains { $0.localName == name } })
    session.send(.stopScan)
    let peer = try #require(session.discoveries.first { $0.localName == name }).peer.identifier
    return try connect(session, to: peer, in: world)
  }

  private static func connect(
    _ session: TestSession, to peer: PeerIdentifier, in world: SimulatedWorld
  ) throws -> LinkReference {
    session.send(.connect(peer, ConnectOptions()))
    #expect(world.run { session.link?.peer == peer })
    return try #require(session.link)
  }

  private static func characteristic(
    _ session: TestSession, _ link: LinkReference, _ uuid: BluetoothUUID, in world: SimulatedWorld
  ) throws -> CharacteristicRecord {
    let token = session.nextToken()
    session.send(.discoverServices(token, link, [uuid]))
    var service: ServiceRecord?
    #expect(
      world.run {
        for case .servicesDiscovered(token, _, .success(let found)) in session.events { service = found.first }
        return service != nil
      })
    let next = session.nextToken()
    session.send(.discoverCharacteristics(next, link, try #require(service).handles, nil))
    var record: CharacteristicRecord?
    #expect(
      world.run {
        for case .characteristicsDiscovered(next, _, .success(let found)) in session.events { record = found.first }
        return record != nil
      })
    return try #require(record)
  }

  @Test func eachScanSeesItsOwnAndCountsItsOwnDuplicates() throws {
    let world = SimulatedWorld()
    let (phone, heart, battery) = (try world.device("phone"), try world.device("heart"), try world.device("battery"))
    let (first, second, third) = (phone.session(), phone.session(), phone.session())
    Self.publish(heart.session(), 0x180D, name: "heart", in: world)
    Self.publish(battery.session(), 0x180F, name: "battery", in: world)
    #expect(world.run { first.state == .poweredOn })
    first.send(.startScan(ScanOptions(services: [0x180D])))
    second.send(.startScan(ScanOptions(services: [0x180D, 0x180F])))
    third.send(.startScan(ScanOptions(services: nil, allowDuplicates: true)))
    world.advance(.seconds(3))
    #expect(first.discoveries.map(\.localName) == ["heart"])
    #expect(Set(second.discoveries.map(\.localName)) == ["heart", "battery"])
    #expect(second.discoveries.count == 2)
    #expect(third.discoveries.count > 40)
    // A new scan starts the filter afresh, and the others go on.
    first.forget()
    first.send(.startScan(ScanOptions(services: [0x180D])))
    third.send(.stopScan)
    third.forget()
    world.advance(.seconds(3))
    #expect(first.discoveries.count == 1)
    #expect(third.discoveries.isEmpty)
  }

  @Test func twoSessionsShareALinkThatEndsWithTheLast() throws {
    let world = SimulatedWorld()
    let (phone, heart) = (try world.device("phone"), try world.device("heart"))
    let (first, second) = (phone.session(), phone.session())
    let sensor = heart.session()
    Self.publish(sensor, 0x180D, name: "heart", in: world)
    let link = try Self.connect(first, to: "heart", in: world)
    #expect(try Self.connect(second, to: link.peer, in: world) == link)

    let record = try Self.characteristic(first, link, 0x180D, in: world)
    for session in [first, second] {
      let token = session.nextToken()
      session.send(.setNotify(token, link, record, true))
      #expect(world.run { session.events.contains(.notifyStateChanged(token, link, isNotifying: true, nil)) })
    }
    #expect(sensor.events.count { if case .subscribed = $0 { true } else { false } } == 1)
    sensor.send(.updateValue(2, [1], nil))
    #expect(world.run { first.events.contains(.valueNotified(link, record.valueHandle, [1])) })
    #expect(second.events.contains(.valueNotified(link, record.valueHandle, [1])))

    first.send(.cancelConnection(link.peer))
    #expect(first.events.contains(.disconnected(link.peer, nil, isReconnecting: false)))
    sensor.send(.updateValue(2, [2], nil))
    #expect(world.run { second.events.contains(.valueNotified(link, record.valueHandle, [2])) })
    #expect(!first.events.contains(.valueNotified(link, record.valueHandle, [2])))
    second.send(.cancelConnection(link.peer))
    #expect(world.run { second.events.contains(.disconnected(link.peer, nil, isReconnecting: false)) })
    #expect(world.run { sensor.events.contains { if case .unsubscribed = $0 { true } else { false } } })
  }

  @Test func manyLinksInBothRolesOnOneController() throws {
    let world = SimulatedWorld()
    let hub = try world.device("hub")
    let hubCentral = hub.session()
    let hubPeripheral = hub.session()
    Self.publish(hubPeripheral, 0x1815, name: "hub", in: world)
    var sensors: [SimulatedDevice] = []
    for number in 0..<3 {
      let sensor = try world.device("sensor\(number)")
      sensors.append(sensor)
      Self.publish(sensor.session(), 0x180D, name: "sensor\(number)", in: world)
    }
    var links: [LinkReference] = []
    for number in 0..<3 { links.append(try Self.connect(hubCentral, to: "sensor\(number)", in: world)) }
    var phones: [(SimulatedDevice, TestSession, LinkReference)] = []
    for number in 0..<2 {
      let phone = try world.device("phone\(number)")
      let session = phone.session()
      phones.append((phone, session, try Self.connect(session, to: "hub", in: world)))
    }
    #expect(hub.system.host?.links.count == 5)
    // Each of the five carries data.
    for link in links {
      let record = try Self.characteristic(hubCentral, link, 0x180D, in: world)
      let token = hubCentral.nextToken()
      hubCentral.send(.setNotify(token, link, record, true))
      #expect(world.run { hubCentral.events.contains(.notifyStateChanged(token, link, isNotifying: true, nil)) })
    }
    for (_, session, link) in phones {
      let record = try Self.characteristic(session, link, 0x1815, in: world)
      let token = session.nextToken()
      session.send(.setNotify(token, link, record, true))
      #expect(world.run { session.events.contains(.notifyStateChanged(token, link, isNotifying: true, nil)) })
      hubPeripheral.send(.updateValue(2, [7], nil))
      #expect(world.run { session.events.contains(.valueNotified(link, record.valueHandle, [7])) })
    }
  }

  @Test func aPendingConnectWaitsForThePeer() throws {
    let world = SimulatedWorld()
    let (phone, heart) = (try world.device("phone"), try world.device("heart"))
    let session = phone.session()
    Self.publish(heart.session(), 0x180D, name: "heart", in: world)
    let link = try Self.connect(session, to: "heart", in: world)
    heart.setPower(false)
    #expect(world.run { session.events.contains { if case .disconnected = $0 { true } else { false } } })
    session.send(.connect(link.peer, ConnectOptions()))
    world.advance(.seconds(120))
    #expect(session.link == link, "nothing to connect to yet")
    heart.setPower(true)
    Self.publish(heart.session(), 0x180D, name: "heart", in: world)
    #expect(world.run { session.link != link })
    #expect(session.link?.peer == link.peer)
  }

  @Test func aPeerThatIsBackIsTheSamePeer() throws {
    let world = SimulatedWorld()
    let (phone, heart) = (try world.device("phone"), try world.device("heart"))
    let session = phone.session()
    Self.publish(heart.session(), 0x180D, name: "heart", in: world)
    let link = try Self.connect(session, to: "heart", in: world)
    // Another run of the same host finds the peer by its identifier alone.
    let later = try world.device("phone")
    let again = later.session()
    #expect(world.run { again.state == .poweredOn })
    #expect(later.system.replica.peer(link.peer)?.address == phone.system.replica.peer(link.peer)?.address)
    #expect(later.system.replica.peer(PeerIdentifier(high: 1, low: 2)) == nil)
  }

  @Test func autoReconnectConnectsAgainByItself() throws {
    let world = SimulatedWorld()
    let (phone, heart) = (try world.device("phone"), try world.device("heart"))
    let session = phone.session()
    Self.publish(heart.session(), 0x180D, name: "heart", in: world)
    let link = try Self.connect(session, to: "heart", in: world)
    session.send(.cancelConnection(link.peer))
    #expect(world.run { session.events.contains(.disconnected(link.peer, nil, isReconnecting: false)) })
    session.send(.connect(link.peer, ConnectOptions(autoReconnect: true)))
    #expect(world.run { session.link != link })
    heart.setPower(false)
    let isReconnecting = {
      session.events.contains { if case .disconnected(_, _?, isReconnecting: true) = $0 { true } else { false } }
    }
    #expect(world.run(until: isReconnecting))
    let lost = session.link
    heart.setPower(true)
    Self.publish(heart.session(), 0x180D, name: "heart", in: world)
    #expect(world.run { session.link != lost })
  }

  @Test func aSessionThatClosesLeavesNothing() throws {
    let world = SimulatedWorld()
    let (phone, heart) = (try world.device("phone"), try world.device("heart"))
    let (session, sensor) = (phone.session(), heart.session())
    Self.publish(sensor, 0x180D, name: "heart", in: world)
    _ = try Self.connect(session, to: "heart", in: world)
    let before = heart.system.host?.database.attributeCount ?? 0
    session.close()
    #expect(world.run { phone.system.links.isEmpty })
    sensor.close()
    #expect(heart.system.host?.database.attributeCount ?? 0 == before - 4)
    let late = phone.session()
    late.send(.startScan(ScanOptions(services: nil)))
    world.advance(.seconds(2))
    #expect(late.discoveries.isEmpty, "nobody advertises any more")
  }

  @Test func requestsForAnEndedLinkAreRefused() throws {
    let world = SimulatedWorld()
    let (phone, heart) = (try world.device("phone"), try world.device("heart"))
    let session = phone.session()
    Self.publish(heart.session(), 0x180D, name: "heart", in: world)
    let link = try Self.connect(session, to: "heart", in: world)
    session.send(.cancelConnection(link.peer))
    #expect(world.run { session.events.contains(.disconnected(link.peer, nil, isReconnecting: false)) })
    session.forget()
    let next = try Self.connect(session, to: link.peer, in: world)
    #expect(next != link)
    let token = session.nextToken()
    session.send(.writeValue(token, link, 3, [1]))
    let refused = session.events.contains {
      if case .valueWritten(token, link, let error?) = $0 { error.reason == .notConnected } else { false }
    }
    #expect(refused)
  }

  /// A request that nobody can answer any more, since its app is gone, is answered by the system.
  @Test func theRequestOfAnAppThatIsGoneIsAnswered() throws {
    let world = SimulatedWorld()
    let (phone, heart) = (try world.device("phone"), try world.device("heart"))
    let (session, sensor) = (phone.session(), heart.session())
    Self.publish(sensor, 0x180D, name: "heart", in: world)
    let link = try Self.connect(session, to: "heart", in: world)
    let record = try Self.characteristic(session, link, 0x180D, in: world)
    let token = session.nextToken()
    session.send(.readValue(token, link, record.valueHandle))
    #expect(world.run { sensor.events.contains { if case .readRequested = $0 { true } else { false } } })
    sensor.close()
    #expect(
      world.run(within: .seconds(5)) {
        session.events.contains { if case .valueRead(token, link, .failure) = $0 { true } else { false } }
      })
  }
}

/// Apple's layout of legacy advertising: 28 octets for services and name, 10 more for the name alone.
@Suite struct AdvertisingLayoutTests {
  @Test func nameBesideServicesWhereItFits() {
    let content = AdvertisingLayout.content(name: "Sensor", services: [0x180D])
    #expect(content.data == [2, 1, 6, 3, 3, 0x0D, 0x18, 7, 9] + Array("Sensor".utf8))
    #expect(content.scanResponse.isEmpty)
  }

  @Test func nameInTheScanResponseCutToTen() throws {
    let long = try #require(BluetoothUUID("7E570001-B5A3-4F3E-A1D2-0C0FFEE00001"))
    let content = AdvertisingLayout.content(name: "Environment Sensor", services: [long])
    #expect(content.data.count == 21)
    #expect(content.scanResponse == [11, 8] + Array("Environmen".utf8))
  }

  @Test func withoutAnythingOnlyFlags() {
    #expect(AdvertisingLayout.content(name: nil, services: []).data == [2, 1, 6])
  }

  @Test func servicesBeyondTheRoomGoToTheOverflowArea() throws {
    let uuids = try (1...3).map { try #require(BluetoothUUID("7E57000\($0)-B5A3-4F3E-A1D2-0C0FFEE00001")) }
    let content = AdvertisingLayout.content(name: nil, services: uuids)
    #expect(content.data.count <= 31 && content.scanResponse.count <= 31)
    let fields = AdvertisementFields(content.scanResponse)
    let area = try #require(fields.overflowArea)
    #expect(area.mayContain(uuids[1]) && area.mayContain(uuids[2]))
  }
}
