// SPDX-License-Identifier: Apache-2.0

import BLECore
import BLERadio
import Foundation
import Testing

@testable import BLESystem

/// Much data, both ways at once, over bad links: what was accepted arrives, once and in order.
///
/// `TRANSFER_OCTETS` is how much each end of each link sends: a million in all each way by default, ten million on each
/// link each way in `scripts/soak.sh`.
@Suite struct TransferTests {
  private static let length = 244
  private static let service = LocalService(
    id: 1, uuid: 0x180D, isPrimary: true,
    characteristics: [
      LocalCharacteristic(id: 2, uuid: 0x2A37, properties: 0x14, read: .never, write: .open, value: nil)
    ])

  /// Octets that no other value of the link and direction has at that place.
  struct Stream {
    private static let pattern: [UInt8] = {
      var random = SeededGenerator(seed: 5)
      return (0..<4096).map { _ in UInt8.random(in: 0...255, using: &random) }
    }()
    var start: Int

    func value(_ number: Int) -> [UInt8] {
      let offset = (start + number * 7) % (Self.pattern.count - TransferTests.length)
      return [UInt8(number & 0xFF), UInt8(number >> 8 & 0xFF), UInt8(number >> 16 & 0xFF)]
        + Self.pattern[offset..<offset + TransferTests.length - 3]
    }
  }

  /// One end of one link: an app's session that sends while it has credits and checks what it gets.
  final class End: @unchecked Sendable {  // Everything runs on the test's thread.
    let sends: Stream
    let receives: Stream
    private(set) var sent = 0
    private(set) var received = 0
    private(set) var wrong: [Int] = []
    var credits = 0

    init(_ sends: Stream, _ receives: Stream) {
      self.sends = sends
      self.receives = receives
    }

    func next() -> [UInt8] {
      defer {
        sent += 1
        credits -= 1
      }
      return sends.value(sent)
    }

    func receive(_ value: [UInt8]) {
      if value != receives.value(received) { wrong.append(received) }
      received += 1
    }
  }

  /// A central with links to several peripherals.
  private final class Site {
    let world: SimulatedWorld
    let phone: SimulatedDevice
    let app: TestSession
    var peers: [Peer] = []

    struct Peer {
      let device: SimulatedDevice
      let session: TestSession
      let link: LinkReference
      let handle: UInt16
      let central = TransferTests.End(Stream(start: 1), Stream(start: 2))
      let peripheral = TransferTests.End(Stream(start: 2), Stream(start: 1))
    }

    init(count: Int, seed: UInt64) throws {
      world = SimulatedWorld(seed: seed)
      phone = try world.device("phone")
      app = phone.session()
      for number in 0..<count { peers.append(try connect(number)) }
      app.forget()
      for peer in peers {
        peer.session.forget()
        peer.central.credits = BluetoothSystem.writeCredits
        peer.peripheral.credits = BluetoothSystem.updateCredits
      }
    }

    private func connect(_ number: Int) throws -> Peer {
      let device = try world.device("sensor\(number)")
      let session = device.session()
      session.publish([TransferTests.service], name: "sensor\(number)", in: world)
      let link = try app.connect(to: "sensor\(number)", in: world)
      let service = try #require(try app.services(link, [0x180D], in: world).first)
      let record = try #require(try app.characteristics(link, of: service, in: world).first)
      try app.setNotify(link, record, true, in: world)
      return Peer(device: device, session: session, link: link, handle: record.valueHandle)
    }

    /// Lets each end send what it may, up to `limit` values, and take what came.
    func exchange(_ limit: Int, _ isSending: (Int) -> Bool = { _ in true }) {
      for (index, peer) in peers.enumerated() where isSending(index) {
        while peer.central.credits > 0, peer.central.sent < limit {
          app.send(.writeCommand(peer.link, peer.handle, peer.central.next()))
        }
        while peer.peripheral.credits > 0, peer.peripheral.sent < limit {
          peer.session.send(.updateValue(2, peer.peripheral.next(), nil))
        }
      }
      for event in app.take() {
        switch event {
        case .writeCreditsGranted(let link, let count): peer(link)?.central.credits += count
        case .valueNotified(let link, _, let value): peer(link)?.central.receive(value)
        default: break
        }
      }
      for peer in peers {
        for event in peer.session.take() {
          switch event {
          case .updateCreditsGranted(let count): peer.peripheral.credits += count
          case .writeRequested(_, _, let writes, needsResponse: false):
            for write in writes { peer.peripheral.receive(write.value) }
          default: break
          }
        }
      }
    }

    private func peer(_ link: LinkReference) -> Peer? { peers.first { $0.link == link } }

    var received: Int { peers.reduce(0) { $0 + $1.central.received + $1.peripheral.received } }
  }

  private static let octets =
    ProcessInfo.processInfo.environment["TRANSFER_OCTETS"].flatMap { Int($0) } ?? 250_000

  @Test func fourLossyLinksBothWaysAtOnce() throws {
    let site = try Site(count: 4, seed: 3)
    site.world.world.loss = 0.05
    let count = (Self.octets + Self.length - 1) / Self.length
    let total = count * 8
    var last = (received: 0, time: site.world.simulator.now)
    while site.received < total {
      site.exchange(count)
      guard site.world.simulator.step() else { break }
      if site.received > last.received {
        last = (site.received, site.world.simulator.now)
      } else if site.world.simulator.now - last.time > .seconds(5) {
        Issue.record("nothing has moved for 5 s, at \(site.received) of \(total) values")
        return
      }
    }
    site.world.advance(.seconds(1))
    site.exchange(count)
    for (index, peer) in site.peers.enumerated() {
      for (name, end) in [("central", peer.central), ("peripheral", peer.peripheral)] {
        #expect(end.received == count && end.wrong.isEmpty, "link \(index), \(name): \(end.wrong.prefix(5)) are wrong")
        #expect(end.sent == count)
      }
      #expect(peer.central.credits == BluetoothSystem.writeCredits, "all credits have come back")
      #expect(peer.peripheral.credits == BluetoothSystem.updateCredits)
    }
  }

  /// A peer that has gone silent holds its own data, until its link is given up, and nobody else's.
  @Test func aSilentPeerHoldsUpNobodyElse() throws {
    let site = try Site(count: 3, seed: 4)
    func progress(_ span: TimeSpan) -> [Int] {
      let before = site.peers.map { $0.peripheral.received }
      let end = site.world.simulator.now + span
      while let next = site.world.simulator.nextEventTime, next < end {
        site.exchange(.max)
        _ = site.world.simulator.step()
      }
      return zip(site.peers, before).map { $0.peripheral.received - $1 }
    }
    _ = progress(.milliseconds(300))
    let whole = progress(.milliseconds(1500))
    site.peers[0].device.setAudible(false)
    _ = progress(.milliseconds(100))
    let without = progress(.milliseconds(1500))
    #expect(whole.allSatisfy { $0 >= 25 }, "\(whole)")
    #expect(without[0] == 0)
    for index in 1...2 { #expect(without[index] >= whole[index], "\(without) after \(whole)") }
    #expect(site.peers.dropFirst().allSatisfy { $0.central.wrong.isEmpty && $0.peripheral.wrong.isEmpty })
    // What is queued for it is bounded by its credits.
    #expect(site.peers[0].central.credits == 0)
  }
}
