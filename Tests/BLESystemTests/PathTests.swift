// SPDX-License-Identifier: Apache-2.0

import BLECore
import BLERadio
import Testing

@testable import BLESystem

/// The main job, seen from two apps' sessions: found, connected, explored, read, written, notified, gone.
@Suite struct PathTests {
  private let service = LocalService(
    id: 1, uuid: 0x180D, isPrimary: true,
    characteristics: [
      LocalCharacteristic(id: 2, uuid: 0x2A37, properties: 0x10, read: .never, write: .never, value: nil),
      LocalCharacteristic(id: 3, uuid: 0x2A38, properties: 0x02, read: .open, write: .never, value: [1]),
      LocalCharacteristic(
        id: 4, uuid: 0x2A39, properties: 0x0E, read: .open, write: .open, value: nil,
        descriptors: [LocalDescriptor(uuid: 0x2901, value: Array("Control".utf8))]),
    ])

  private struct Pair {
    var world: SimulatedWorld
    var central: TestSession
    var peripheral: TestSession
    var phone: SimulatedDevice
    var sensor: SimulatedDevice
  }

  private func pair() throws -> Pair {
    let world = SimulatedWorld()
    let phone = try world.device("phone")
    let sensor = try world.device("sensor")
    let pair = Pair(
      world: world, central: phone.session(), peripheral: sensor.session(), phone: phone, sensor: sensor)
    #expect(world.run { pair.central.state == .poweredOn && pair.peripheral.state == .poweredOn })
    pair.peripheral.send(.addService(pair.peripheral.nextToken(), service))
    pair.peripheral.send(
      .startAdvertising(pair.peripheral.nextToken(), localName: "Heart Sensor X", services: [0x180D]))
    return pair
  }

  private func connectedPair() throws -> (Pair, LinkReference) {
    let pair = try pair()
    pair.central.send(.startScan(ScanOptions(services: [0x180D])))
    #expect(pair.world.run { !pair.central.discoveries.isEmpty })
    let peer = try #require(pair.central.discoveries.first).peer.identifier
    pair.central.send(.stopScan)
    pair.central.send(.connect(peer, ConnectOptions()))
    #expect(pair.world.run { pair.central.link != nil })
    return (pair, try #require(pair.central.link))
  }

  @Test func findsTheAdvertisementMergedWithItsScanResponse() throws {
    let pair = try pair()
    pair.central.send(.startScan(ScanOptions(services: [0x180D])))
    #expect(pair.world.run { !pair.central.discoveries.isEmpty })
    let found = try #require(pair.central.discoveries.first)
    #expect(found.services == [0x180D])
    #expect(found.localName == "Heart Sensor X")
    #expect(found.isConnectable)
    pair.world.advance(.seconds(5))
    #expect(pair.central.discoveries.count == 1)
  }

  @Test func exploresReadsWritesAndIsNotified() throws {
    let (pair, link) = try connectedPair()
    let central = pair.central
    central.send(.discoverServices(central.nextToken(), link, nil))
    var services: [ServiceRecord] = []
    #expect(
      pair.world.run {
        for case .servicesDiscovered(_, _, .success(let found)) in central.events { services = found }
        return !services.isEmpty
      })
    #expect(services.map(\.uuid) == [0x1800, 0x1801, 0x180D])
    let heartRate = try #require(services.last)
    central.send(.discoverCharacteristics(central.nextToken(), link, heartRate.handles, nil))
    var characteristics: [CharacteristicRecord] = []
    #expect(
      pair.world.run {
        for case .characteristicsDiscovered(_, _, .success(let found)) in central.events { characteristics = found }
        return !characteristics.isEmpty
      })
    #expect(characteristics.map(\.uuid) == [0x2A37, 0x2A38, 0x2A39])

    let read = central.nextToken()
    central.send(.readValue(read, link, characteristics[1].valueHandle))
    #expect(pair.world.run { central.events.contains(.valueRead(read, link, .success([1]))) })

    // A long write becomes prepared writes, and one request to the app.
    let long = (0..<512).map { UInt8(truncatingIfNeeded: $0) }
    let write = central.nextToken()
    central.send(.writeValue(write, link, characteristics[2].valueHandle, long))
    var request: (RemoteRequestID, [RemoteWrite])?
    #expect(
      pair.world.run {
        for case .writeRequested(let id, _, let writes, needsResponse: true) in pair.peripheral.events {
          request = (id, writes)
        }
        return request != nil
      })
    let (id, writes) = try #require(request)
    #expect(writes.flatMap(\.value) == long)
    pair.peripheral.send(.respond(id, 0, nil))
    #expect(pair.world.run { central.events.contains(.valueWritten(write, link, nil)) })

    let subscribe = central.nextToken()
    central.send(.setNotify(subscribe, link, characteristics[0], true))
    #expect(
      pair.world.run { central.events.contains(.notifyStateChanged(subscribe, link, isNotifying: true, nil)) })
    for value: UInt8 in 0..<100 { pair.peripheral.send(.updateValue(2, [0, value], nil)) }
    #expect(
      pair.world.run {
        central.events.count { if case .valueNotified = $0 { true } else { false } } == 100
      })
    let values = central.events.compactMap { event -> UInt8? in
      if case .valueNotified(_, characteristics[0].valueHandle, let value) = event { value[1] } else { nil }
    }
    #expect(values == Array(0..<100))
  }

  @Test func aKilledPeripheralIsAConnectionTimeout() throws {
    let (pair, link) = try connectedPair()
    let before = pair.world.simulator.now
    pair.sensor.setPower(false)
    var error: SystemError?
    #expect(
      pair.world.run {
        for case .disconnected(link.peer, let found, isReconnecting: false) in pair.central.events { error = found }
        return error != nil
      })
    #expect(error?.reason == .connectionTimeout)
    #expect(pair.world.simulator.now - before < .milliseconds(2_100))
  }

  @Test func powerOffIsSeenAndOverAgain() throws {
    let pair = try pair()
    pair.phone.setPower(false)
    #expect(pair.world.run { pair.central.state == .poweredOff })
    let states = pair.central.events.compactMap { if case .stateChanged(let state) = $0 { state } else { nil } }
    #expect(states == [.poweredOn, .resetting, .poweredOff])
    pair.phone.setPower(true)
    #expect(pair.world.run { pair.central.state == .poweredOn })
  }

  /// The characteristic that notifies, as the central knows it.
  private func notifying(_ pair: Pair, _ link: LinkReference) throws -> CharacteristicRecord {
    let central = pair.central
    central.send(.discoverServices(central.nextToken(), link, [0x180D]))
    var service: ServiceRecord?
    var found: CharacteristicRecord?
    _ = pair.world.run {
      for case .servicesDiscovered(_, _, .success(let services)) in central.events { service = services.first }
      return service != nil
    }
    central.send(.discoverCharacteristics(central.nextToken(), link, try #require(service).handles, [0x2A37]))
    _ = pair.world.run {
      for case .characteristicsDiscovered(_, _, .success(let all)) in central.events { found = all.first }
      return found != nil
    }
    return try #require(found)
  }

  /// Each call is answered in its turn, and the last one holds, however fast they come.
  @Test(arguments: [[true, false], [true, false, true, false], [true, false, true], [false, true]])
  func subscribingAndUnsubscribingAtOnceEndsAsTheLastCallSays(_ calls: [Bool]) throws {
    let (pair, link) = try connectedPair()
    let central = pair.central
    let characteristic = try notifying(pair, link)
    for isOn in calls { central.send(.setNotify(central.nextToken(), link, characteristic, isOn)) }
    func answers() -> [Bool] {
      central.events.compactMap { event in
        if case .notifyStateChanged(_, _, let isNotifying, nil) = event { isNotifying } else { nil }
      }
    }
    #expect(pair.world.run { answers().count == calls.count })
    pair.world.advance(.seconds(1))
    #expect(answers() == calls)
    pair.peripheral.send(.updateValue(2, [7], nil))
    pair.world.advance(.seconds(1))
    let isNotified = central.events.contains { if case .valueNotified = $0 { true } else { false } }
    #expect(isNotified == calls.last)
  }

  @Test func ownCancelIsADisconnectWithoutError() throws {
    let (pair, link) = try connectedPair()
    pair.central.send(.cancelConnection(link.peer))
    #expect(pair.world.run { pair.central.events.contains(.disconnected(link.peer, nil, isReconnecting: false)) })
    #expect(pair.phone.system.links.isEmpty)
  }
}
