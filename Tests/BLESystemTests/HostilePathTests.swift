// SPDX-License-Identifier: Apache-2.0

import BLECore
import BLEHCI
import BLERadio
import TestSupport
import Testing

@testable import BLESystem

/// A stack that is at work is fed what no honest peer or controller sends; a correct exchange right after succeeds.
@Suite struct HostilePathTests {
  /// Whose host is attacked.
  enum Victim: CaseIterable, Sendable { case central, peripheral }

  private static let service: BluetoothUUID = 0x180D
  private static let characteristic: BluetoothUUID = 0x2A39
  private static let value: [UInt8] = [0xCA, 0xFE]

  /// A central and a peripheral on one radio, with somebody between each controller and its host.
  private struct Scene {
    let world: SimulatedWorld
    let phone: SimulatedDevice
    let sensor: SimulatedDevice
    let central: TestSession
    let peripheral: TestSession
    let phoneTap = Tap()
    let sensorTap = Tap()

    init() throws {
      world = SimulatedWorld()
      phone = try SimulatedDevice("phone", in: world, wrap: phoneTap.wrap)
      sensor = try SimulatedDevice("sensor", in: world, wrap: sensorTap.wrap)
      central = phone.session()
      peripheral = sensor.session()
      let (central, peripheral) = (central, peripheral)
      let isOn = world.run { central.state == .poweredOn && peripheral.state == .poweredOn }
      try #require(isOn)
      publish()
    }

    func publish() {
      let service = LocalService(
        id: 1, uuid: HostilePathTests.service, isPrimary: true,
        characteristics: [
          LocalCharacteristic(
            id: 2, uuid: HostilePathTests.characteristic, properties: 0x3E, read: .open, write: .open, value: nil)
        ])
      peripheral.send(.removeAllServices)
      peripheral.send(.addService(peripheral.nextToken(), service))
      peripheral.send(
        .startAdvertising(peripheral.nextToken(), localName: "sensor", services: [HostilePathTests.service]))
    }

    /// Lets time pass, the peripheral's app answering what it is asked.
    func serve(_ span: TimeSpan) {
      world.advance(span)
      answer()
    }

    private func answer() {
      for event in peripheral.events {
        switch event {
        case .readRequested(let id, _, _, _): peripheral.send(.respond(id, 0, HostilePathTests.value))
        case .writeRequested(let id, _, _, needsResponse: true): peripheral.send(.respond(id, 0, nil))
        default: break
        }
      }
      peripheral.forget()
    }

    /// Runs until the central has been told what `pick` takes; nil if it is not within a minute.
    func wait<Found>(_ pick: (SystemEvent) -> Found?) -> Found? {
      var found: Found?
      world.run(within: .seconds(60)) {
        answer()
        found = central.events.lazy.compactMap(pick).first
        return found != nil
      }
      return found
    }

    /// Finds, connects, discovers and reads; the value.
    func exchange() throws -> [UInt8] {
      central.forget()
      central.send(.startScan(ScanOptions(services: [HostilePathTests.service])))
      let discovery = wait { if case .discovered(let found) = $0 { found } else { nil } }
      let peer = try #require(discovery, "the peripheral is not heard").peer.identifier
      central.send(.stopScan)
      central.send(.connect(peer, ConnectOptions()))
      let connected = wait { if case .connected(let link, _, _) = $0 { link } else { nil } }
      let link = try #require(connected, "no connection")
      central.send(.discoverServices(central.nextToken(), link, [HostilePathTests.service]))
      let services = wait { if case .servicesDiscovered(_, link, .success(let found)) = $0 { found } else { nil } }
      let service = try #require(services?.first, "no service")
      central.send(.discoverCharacteristics(central.nextToken(), link, service.handles, nil))
      let characteristics = wait {
        if case .characteristicsDiscovered(_, link, .success(let found)) = $0 { found } else { nil }
      }
      let characteristic = try #require(characteristics?.first, "no characteristic")
      let read = central.nextToken()
      central.send(.readValue(read, link, characteristic.valueHandle))
      let value = wait { if case .valueRead(read, link, .success(let value)) = $0 { value } else { nil } }
      return try #require(value, "no value")
    }

    /// Has the central read something over its last connection, so that what follows meets an open request.
    func ask() {
      guard let link = central.link else { return }
      central.send(.readValue(central.nextToken(), link, 0x0003))
    }

    /// Ends the connection, if there still is one.
    func part() {
      for case .connected(let link, _, _) in central.events { central.send(.cancelConnection(link.peer)) }
      serve(.seconds(3))
    }
  }

  @Test(arguments: Victim.allCases) func hostilePeersOnALiveLink(_ victim: Victim) throws {
    let scene = try Scene()
    for round in UInt64(0)..<10 {
      #expect(try scene.exchange() == Self.value, "before round \(round)")
      let tap = victim == .central ? scene.phoneTap : scene.sensorTap
      let handle = try #require(tap.lastHandle)
      var packets = HostileACL(seed: 100 + round, count: 2_000, handle: handle, examples: tap.acl + tap.sentACL)
      let before = tap.sentACL.count
      var count = 0
      while let packet = packets.next() {
        tap.inject(.aclData, packet)
        count += 1
        guard count.isMultiple(of: 20) else { continue }
        scene.serve(.milliseconds(40))
        scene.ask()
      }
      // It was the stack that was attacked, not a link long gone: very much was answered.
      #expect(tap.sentACL.count - before > 100, "round \(round)")
      scene.part()
      #expect(try scene.exchange() == Self.value, "after round \(round)")
      scene.part()
    }
  }

  @Test(arguments: Victim.allCases) func hostileControllersUnderALiveHost(_ victim: Victim) throws {
    let scene = try Scene()
    let (tap, device) = victim == .central ? (scene.phoneTap, scene.phone) : (scene.sensorTap, scene.sensor)
    for round in UInt64(0)..<10 {
      #expect(try scene.exchange() == Self.value, "before round \(round)")
      let examples = Array(tap.events.suffix(400))
      var count = 0
      for packet in HostileBytes(seed: 200 + round, count: 2_000, examples: examples, maxLength: 255) {
        tap.inject(.event, packet)
        count += 1
        if count.isMultiple(of: 20) { scene.serve(.milliseconds(10)) }
      }
      // What such a controller has said of itself is void with its end.
      device.setPower(false)
      scene.serve(.seconds(5))
      device.setPower(true)
      let session = victim == .central ? scene.central : scene.peripheral
      session.forget()
      #expect(scene.world.run(within: .seconds(60)) { session.state == .poweredOn }, "after round \(round)")
      if victim == .peripheral { scene.publish() }
      #expect(try scene.exchange() == Self.value, "after round \(round)")
      scene.part()
    }
  }

  @Test func aHostileHostOnTheRadioDisturbsNobodyElse() throws {
    let scene = try Scene()
    let pair = HCITransportPair(scheduler: scene.world.simulator)
    let controller = scene.world.controller(address: 0x02CB_0000_FFFF, transport: pair.controller)
    let examples = scene.phoneTap.commands + scene.phoneTap.sentACL
    for round in UInt64(0)..<10 {
      var count = 0
      for packet in HostileBytes(seed: 300 + round, count: 2_000, examples: examples, maxLength: 300) {
        let type: HCIPacketType = count % 4 == 0 ? .aclData : .command
        pair.host.send(type, packet.span.bytes)
        count += 1
        if count.isMultiple(of: 20) { scene.serve(.milliseconds(10)) }
      }
      // Nothing of what it may have begun goes on.
      pair.host.send(.command, ([0x03, 0x0C, 0x00] as [UInt8]).span.bytes)
      #expect(try scene.exchange() == Self.value, "after round \(round)")
      scene.part()
    }
    controller.powerOff()
  }
}

/// ACL packets of a peer that keeps to nothing: some as random as they come, most with a header that gets them as far
/// as a channel.
private struct HostileACL: IteratorProtocol {
  private let handle: UInt16
  private var bytes: HostileBytes
  private var random: SeededGenerator

  init(seed: UInt64, count: Int, handle: UInt16, examples: [[UInt8]]) {
    self.handle = handle
    random = SeededGenerator(seed: seed, purpose: 1)
    // Behind the headers of ACL (4) and L2CAP (4).
    let payloads = examples.map { Array($0.dropFirst(8)) } + [[0x16, 3, 0, 0, 0, 1], [0x18, 1], [0x20, 3, 0, 4, 0]]
    bytes = HostileBytes(seed: seed, count: count, examples: payloads, maxLength: 240)
  }

  mutating func next() -> [UInt8]? {
    guard let payload = bytes.next() else { return nil }
    let kind = Int.random(in: 0..<10, using: &random)
    guard kind > 0 else { return payload }
    let channel: UInt16 = [4, 4, 4, 4, 4, 5, 6, 0x40, 0].randomElement(using: &random) ?? 4
    let claimed = kind == 1 ? UInt16.random(in: 0...600, using: &random) : UInt16(payload.count)
    let frame = Self.octets(claimed) + Self.octets(channel) + payload
    // A start that may be flushed, seldom a continuation.
    let flags: UInt16 = kind == 2 ? 0x1000 : 0x2000
    return Self.octets(handle | flags) + Self.octets(UInt16(frame.count)) + frame
  }

  private static func octets(_ number: UInt16) -> [UInt8] {
    [UInt8(truncatingIfNeeded: number), UInt8(truncatingIfNeeded: number >> 8)]
  }
}

/// Somebody between a host and its controllers, one after the other: sees all, and can speak in the controller's name.
private final class Tap {
  fileprivate(set) var events: [[UInt8]] = []
  fileprivate(set) var acl: [[UInt8]] = []
  fileprivate(set) var commands: [[UInt8]] = []
  fileprivate(set) var sentACL: [[UInt8]] = []
  private weak var current: Transport?

  func wrap(_ inner: any HCITransport) -> any HCITransport {
    let transport = Transport(inner, self)
    current = transport
    return transport
  }

  func inject(_ type: HCIPacketType, _ bytes: [UInt8]) { current?.receiver?.receive(type, bytes.span.bytes) }

  /// The connection of the last packet that arrived.
  var lastHandle: UInt16? { acl.last.map { UInt16($0[0]) | UInt16($0[1] & 0x0F) << 8 } }

  private final class Transport: HCITransport, HCIReceiver {
    private let inner: any HCITransport
    private let tap: Tap
    weak var receiver: (any HCIReceiver)? { didSet { inner.receiver = receiver == nil ? nil : self } }

    init(_ inner: any HCITransport, _ tap: Tap) {
      self.inner = inner
      self.tap = tap
    }

    func send(_ type: HCIPacketType, _ payload: RawSpan) {
      if type == .command { tap.commands.append(octets(payload)) } else { tap.sentACL.append(octets(payload)) }
      inner.send(type, payload)
    }

    func receive(_ type: HCIPacketType, _ payload: RawSpan) {
      if type == .event { tap.events.append(octets(payload)) } else { tap.acl.append(octets(payload)) }
      receiver?.receive(type, payload)
    }

    func close() { inner.close() }
    func transportClosed(_ error: HCITransportError) { receiver?.transportClosed(error) }

    private func octets(_ span: RawSpan) -> [UInt8] { span.withUnsafeBytes { Array($0) } }
  }
}
