// SPDX-License-Identifier: Apache-2.0

import BLECore
import BLEHCI
import BLERadio
import Testing

@Suite struct ConnectionTests {
  let world = RadioWorld(seed: 5)
  let recorder = AirRecorder()

  init() { world.observer = recorder }

  /// First packets of the connection events, by the Central.
  private func anchors(_ pair: Pair) -> [Int64] {
    var result: [Int64] = []
    let sent = recorder.data.filter { $0.info.sender == pair.central.controller.device }
    for entry in sent where (result.last.map { entry.start - $0 } ?? .max) > 5_000_000 { result.append(entry.start) }
    return result
  }

  // MARK: - Timing

  @Test func anchorsAreExactlyOneIntervalApart() throws {
    let pair = try Pair(world, interval: 24, clockErrors: (0, 0))
    pair.advance(.seconds(10))
    let starts = anchors(pair)
    #expect(starts.count > 340)
    #expect(zip(starts, starts.dropFirst()).allSatisfy { $1 - $0 == 30_000_000 })
    // Every empty packet is answered T_IFS later, on the same channel.
    let packets = recorder.data.filter { $0.start >= starts[100] }
    for (first, second) in zip(packets, packets.dropFirst())
    where first.info.sender == pair.central.controller.device {
      #expect(second.start - first.end == 150_000)
      #expect(second.info.channel == first.info.channel)
    }
    #expect(Set(packets.map(\.info.channel)).count > 30)
  }

  @Test func idleEventsAreTwoEmptyPackets() throws {
    let pair = try Pair(world)
    recorder.entries.removeAll()
    pair.advance(.seconds(3))
    #expect(recorder.entries.count == 200)
    #expect(recorder.entries.allSatisfy { $0.pdu.count == 2 && $0.end - $0.start == 80_000 })
  }

  @Test func latencySkipsEventsOnlyWhileThereIsNothingToSend() throws {
    let pair = try Pair(world, latency: 4, timeout: 200, clockErrors: (0, 0))
    recorder.entries.removeAll()
    pair.advance(.milliseconds(3_000))
    let answers = recorder.sent(by: pair.peripheral.controller.device)
    #expect(recorder.sent(by: pair.central.controller.device).count == 100)
    #expect(answers.count == 20)
    #expect(zip(answers, answers.dropFirst()).allSatisfy { $1.start - $0.start == 150_000_000 })
    // Data wakes the Peripheral for the next event.
    pair.advance(.milliseconds(40))
    let before = pair.world.simulator.now
    pair.peripheral.sendData(pair.peripheralHandle, [1, 0, 4, 0, 7])
    pair.advance(.milliseconds(70))
    #expect(pair.central.data == [[1, 0, 4, 0, 7]])
    let arrival = try #require(pair.central.log.first { $0.type == .aclData })
    #expect(arrival.time - before <= .milliseconds(31))
  }

  @Test func theSupervisionTimeoutComesAfterTheLastValidPacket() throws {
    let pair = try Pair(world, timeout: 100)
    world.setCut(true, between: pair.central.controller.device, and: pair.peripheral.controller.device)
    let cut = world.simulator.now.nanoseconds
    pair.advance(.milliseconds(1_500))
    for (host, peer) in [(pair.central, pair.peripheral), (pair.peripheral, pair.central)] {
      let end = try #require(host.events(DisconnectionComplete.self).first)
      #expect(end.event.reason == .connectionTimeout)
      // To the nanosecond one timeout after the end of the peer's last packet before the cut.
      let last = recorder.sent(by: peer.controller.device).last { $0.end <= cut }
      #expect(last?.end == end.time.nanoseconds - 1_000_000_000)
    }
    #expect(pair.central.controller.connections.isEmpty)
  }

  @Test func aConnectionThatWasNeverEstablishedEndsAfterSixIntervals() throws {
    let central = ScriptedHost(world, address: 1)
    let peripheral = ScriptedHost(world, address: 2)
    try central.start()
    try peripheral.start()
    try peripheral.advertise()
    #expect(try central.createConnection(to: peripheral.controller.address, interval: 40) == .success)
    while central.metaEvents(LEConnectionComplete.self).isEmpty { world.simulator.step() }
    world.setIsolated(true, central.controller.device)
    let start = try #require(recorder.entries.last { $0.type == 5 }).end
    world.simulator.advance(by: .seconds(1))
    for host in [central, peripheral] {
      let end = try #require(host.events(DisconnectionComplete.self).first)
      #expect(end.event.reason == .connectionFailedToBeEstablished)
      #expect(end.time.nanoseconds == start + 6 * 50_000_000)
    }
  }

  @Test func powerOffIsNoticedByTheSupervisionTimeoutOnly() throws {
    let pair = try Pair(world, timeout: 50)
    pair.peripheral.controller.powerOff()
    pair.advance(.milliseconds(400))
    #expect(pair.peripheral.closed != nil)
    #expect(pair.central.events(DisconnectionComplete.self).isEmpty)
    pair.advance(.milliseconds(200))
    #expect(pair.central.events(DisconnectionComplete.self).map(\.event.reason) == [.connectionTimeout])
    recorder.entries.removeAll()
    pair.advance(.seconds(1))
    #expect(recorder.entries.isEmpty)
    #expect(world.simulator.nextEventTime == nil)
  }

  @Test func aHostThatDiesTakesItsControllerOffTheAir() throws {
    let pair = try Pair(world, timeout: 50)
    pair.peripheral.transport.close()
    pair.advance(.seconds(1))
    #expect(!pair.peripheral.controller.isPoweredOn)
    #expect(pair.central.events(DisconnectionComplete.self).map(\.event.reason) == [.connectionTimeout])
  }

  @Test func resetEndsLinksWithoutAnEvent() throws {
    let pair = try Pair(world, timeout: 50)
    pair.central.forget()
    try pair.central.expect(Reset())
    pair.advance(.seconds(1))
    #expect(pair.central.events(DisconnectionComplete.self).isEmpty)
    #expect(pair.peripheral.events(DisconnectionComplete.self).map(\.event.reason) == [.connectionTimeout])
  }

  // MARK: - Data

  @Test(arguments: [27, 100, 251] as [UInt16])
  func packetsAreCutToTheDataLengthAndArriveInOrder(octets: UInt16) throws {
    let pair = try Pair(world, octets: octets)
    let packet = (0..<251).map { UInt8($0) }
    for _ in 0..<8 { pair.central.sendData(pair.centralHandle, packet) }
    pair.advance(.seconds(1))
    #expect(pair.central.completed == 8)
    #expect(Array(pair.peripheral.data.joined()) == Array(Array(repeating: packet, count: 8).joined()))
    #expect(pair.peripheral.data.map(\.count).max() == Int(octets))
    let starts = pair.peripheral.log.filter { $0.type == .aclData && $0.bytes[1] >> 4 & 3 == 2 }
    #expect(starts.count == 8)
  }

  @Test func aContinuationOfTheHostStaysOne() throws {
    let pair = try Pair(world)
    pair.central.sendData(pair.centralHandle, [30, 0, 4, 0] + Array(repeating: 1, count: 20))
    pair.central.sendData(pair.centralHandle, Array(repeating: 2, count: 10), .continuing)
    pair.advance(.milliseconds(200))
    let flags = pair.peripheral.log.filter { $0.type == .aclData }.map { $0.bytes[1] >> 4 & 3 }
    #expect(flags == [2, 1])
  }

  @Test(arguments: [0.02, 0.1, 0.3, 0.5], [1, 2] as [UInt64])
  func lossIsMadeGoodByRetransmission(loss: Double, seed: UInt64) throws {
    let world = RadioWorld(seed: seed)
    let pair = try Pair(world, timeout: 3200, octets: 251, settle: .seconds(2))
    world.setLoss(loss, between: pair.central.controller.device, and: pair.peripheral.controller.device)
    var sent = [[UInt8]](repeating: [], count: 2)
    var random = SeededGenerator(seed: seed)
    for _ in 0..<200 {
      for (index, (host, handle)) in [(pair.central, pair.centralHandle), (pair.peripheral, pair.peripheralHandle)]
        .enumerated() where host.freeBuffers > 0
      {
        let packet = (0..<Int.random(in: 1...251, using: &random)).map { _ in UInt8.random(in: 0...255, using: &random)
        }
        sent[index] += packet
        host.sendData(handle, packet)
      }
      pair.advance(.milliseconds(30))
    }
    pair.advance(.seconds(10))
    #expect(Array(pair.peripheral.data.joined()) == sent[0], "seed \(seed), loss \(loss)")
    #expect(Array(pair.central.data.joined()) == sent[1], "seed \(seed), loss \(loss)")
    #expect(sent[0].count > 1_000)
    #expect(pair.central.freeBuffers == 8)
    #expect(pair.peripheral.freeBuffers == 8)
  }

  @Test func totalLossEndsTheConnection() throws {
    let pair = try Pair(world, timeout: 100)
    world.loss = 1
    pair.advance(.seconds(2))
    #expect(pair.central.events(DisconnectionComplete.self).map(\.event.reason) == [.connectionTimeout])
    #expect(pair.peripheral.events(DisconnectionComplete.self).map(\.event.reason) == [.connectionTimeout])
  }

  /// floor(interval / cycle) x 244 x 8 / interval, a cycle being 2468 us on 1M with 251 octets.
  @Test(arguments: [(24, 780.8), (12, 780.8), (6, 780.8), (9, 694.0), (3200, 790.9)], [true, false])
  func throughputIsWhatTheFormulaSays(setting: (interval: UInt16, expected: Double), fromCentral: Bool) throws {
    let span = ConnectionInterval(rawValue: setting.interval).timeSpan
    let events = setting.interval == 3200 ? 5 : 300
    let pair = try Pair(
      world, interval: setting.interval, timeout: 3200, octets: 251, settle: span * 10)
    world.observer = nil
    let (sender, handle, receiver) =
      fromCentral
      ? (pair.central, pair.centralHandle, pair.peripheral) : (pair.peripheral, pair.peripheralHandle, pair.central)
    let packet = [UInt8](repeating: 0x55, count: 251)
    func fill() { while sender.freeBuffers > 0 { sender.sendData(handle, packet) } }
    sender.onCompleted = fill
    sender.isRecording = false
    receiver.isRecording = false
    fill()
    pair.advance(span * 2)
    let before = receiver.octetsReceived
    pair.advance(span * events)
    let bits = Double(receiver.octetsReceived - before) / 251 * 244 * 8
    let rate = bits / Double(span.nanoseconds * Int64(events)) * 1_000_000
    #expect(abs(rate - setting.expected) / setting.expected < 0.01, "\(rate) kbit/s")
  }

  @Test func theIdealAirMovesDataInNoTime() throws {
    let world = RadioWorld(seed: 5, setting: .ideal)
    let pair = try Pair(world, octets: 251)
    let start = world.simulator.now
    var left = 1_000
    func fill() {
      while pair.peripheral.freeBuffers > 0, left > 0 {
        left -= 1
        pair.peripheral.sendData(pair.peripheralHandle, [UInt8](repeating: 1, count: 251))
      }
    }
    pair.peripheral.onCompleted = fill
    fill()
    // And both ways at once.
    for index in 0..<8 { pair.central.sendData(pair.centralHandle, [UInt8(index)]) }
    world.simulator.run(until: start)
    #expect(pair.central.octetsReceived == 251_000)
    #expect(pair.peripheral.data == (0..<8).map { [UInt8($0)] })
    #expect(world.simulator.now == start)
    #expect(pair.central.freeBuffers == 8)
    #expect(pair.peripheral.freeBuffers == 8)
    // And goes on as any connection afterwards.
    pair.advance(.seconds(5))
    #expect(pair.central.events(DisconnectionComplete.self).isEmpty)
  }

  @Test func completedPacketsAreBatched() throws {
    let pair = try Pair(world, octets: 251)
    for _ in 0..<8 { pair.central.sendData(pair.centralHandle, [1, 2, 3]) }
    pair.advance(.milliseconds(100))
    let events = pair.central.events(NumberOfCompletedPackets.self)
    #expect(events.map { $0.event.handles.map(\.numCompletedPackets) } == [[4], [4]])
  }

  // MARK: - Several connections

  @Test func aControllerIsCentralAndPeripheralManyTimesOver() throws {
    let hub = ScriptedHost(world, address: 0x100)
    try hub.start(octets: 251)
    var handles: [ConnectionHandle] = []
    var others: [(host: ScriptedHost, handle: ConnectionHandle)] = []
    for index in 0..<8 {
      let other = ScriptedHost(world, address: 0x200 + UInt64(index))
      hub.forget()
      if index.isMultiple(of: 2) {
        let (own, peer) = try Self.join(hub, other)
        handles.append(own)
        others.append((other, peer))
      } else {
        let (peer, own) = try Self.join(other, hub)
        handles.append(own)
        others.append((other, peer))
      }
    }
    #expect(Set(handles).count == 8)
    #expect(hub.controller.connections.count == 8)
    hub.forget()
    for round in 0..<20 {
      for (index, other) in others.enumerated() {
        if hub.freeBuffers > 0 { hub.sendData(handles[index], [UInt8(round), UInt8(index)]) }
        other.host.sendData(other.handle, [UInt8(round), UInt8(index)])
      }
      world.simulator.advance(by: .milliseconds(200))
    }
    world.simulator.advance(by: .seconds(2))
    for (index, other) in others.enumerated() {
      #expect(other.host.events(DisconnectionComplete.self).isEmpty)
      #expect(other.host.data == (0..<20).map { [UInt8($0), UInt8(index)] })
    }
    #expect(hub.data.count == 160)
  }

  /// Connects started hosts: Central first.
  private static func join(
    _ central: ScriptedHost, _ peripheral: ScriptedHost
  ) throws -> (ConnectionHandle, ConnectionHandle) {
    for host in [central, peripheral] where host.log.isEmpty && host.controller.connections.isEmpty {
      try host.start(octets: 251)
    }
    try peripheral.advertise()
    #expect(try central.createConnection(to: peripheral.controller.address, timeout: 200) == .success)
    central.world.simulator.advance(by: .seconds(1))
    let first = try #require(central.metaEvents(LEConnectionComplete.self).last).event
    let second = try #require(peripheral.metaEvents(LEConnectionComplete.self).last).event
    #expect(first.status == .success)
    return (first.connectionHandle, second.connectionHandle)
  }

  @Test func advertisingAndScanningGoOnBesideAConnection() throws {
    let pair = try Pair(world)
    let other = ScriptedHost(world, address: 0x300)
    try other.start()
    try other.advertise()
    try pair.central.scan()
    try pair.central.advertise(.nonConnectable)
    try other.scan()
    recorder.entries.removeAll()
    pair.advance(.seconds(10))
    #expect(pair.central.reports.count > 100)
    #expect(other.reports.count > 100)
    // No connection event was given up for it, and no device sends two packets at once.
    #expect(anchors(pair).count >= 333)
    let sent = recorder.sent(by: pair.central.controller.device)
    #expect(zip(sent, sent.dropFirst()).allSatisfy { $0.end <= $1.start })
  }

  /// A connection that always has more data leaves the radio to the other jobs of either side.
  @Test(arguments: [6, 24, 80] as [UInt16])
  func aBusyConnectionStarvesNobody(interval: UInt16) throws {
    // It is about who has a device's radio, not about whose packets meet on a channel.
    world.collisions = .ignored
    let pair = try Pair(world, interval: interval, timeout: 400, octets: 251)
    let packet = [UInt8](repeating: 1, count: 251)
    func fill() { while pair.peripheral.freeBuffers > 0 { pair.peripheral.sendData(pair.peripheralHandle, packet) } }
    pair.peripheral.onCompleted = fill
    fill()
    let third = ScriptedHost(world, address: 0x300)
    let fourth = ScriptedHost(world, address: 0x400)
    for host in [third, fourth] { try host.start() }
    // Another Central comes to the sender, and the receiver goes to another Peripheral.
    try pair.peripheral.advertise(interval: 0x40)
    #expect(try third.createConnection(to: pair.peripheral.controller.address, interval: 40) == .success)
    try fourth.advertise(interval: 0x40)
    #expect(try pair.central.createConnection(to: fourth.controller.address, interval: 40) == .success)
    pair.advance(.seconds(8))
    #expect(third.metaEvents(LEConnectionComplete.self).count == 1)
    #expect(fourth.metaEvents(LEConnectionComplete.self).count == 1)
    let before = pair.central.octetsReceived
    pair.advance(.seconds(2))
    // The anchors of the other links end its events.
    #expect(pair.central.octetsReceived - before > 40_000)
    for host in [pair.central, pair.peripheral, third, fourth] {
      #expect(host.events(DisconnectionComplete.self).isEmpty)
    }
  }

  @Test func theSamePeerIsNotConnectedTwice() throws {
    let pair = try Pair(world)
    try pair.peripheral.advertise()
    let status = try pair.central.createConnection(to: pair.peripheral.controller.address)
    #expect(status == .connectionAlreadyExists)
  }
}
