// SPDX-License-Identifier: Apache-2.0

import BLECore
import BLEGATT
import BLEHost
import BLERadio
import Testing

@testable import BLESystem

/// Our server against clients that break the rules, one after the other, while a friend's link goes on.
final class RogueClientScene {
  private let world = SimulatedWorld(setting: .ideal)
  private let phone: SimulatedDevice
  private let app: TestSession
  private let friend: SimulatedDevice
  private let friendApp: TestSession
  private let friendLink: LinkReference
  private let rogue: RoguePeer
  private let phoneAddress: BDAddress
  private var current = ""

  /// Handles of the phone's own service: a value that the system keeps, one of the app, one that is notified and
  /// indicated, and its configuration.
  private let kept: UInt16
  private let asked: UInt16
  private let told: UInt16
  private var configuration: UInt16 { told + 1 }

  private static let service = LocalService(
    id: 1, uuid: 0x180D, isPrimary: true,
    characteristics: [
      LocalCharacteristic(id: 2, uuid: 0x2A38, properties: 0x02, read: .open, write: .never, value: [7]),
      LocalCharacteristic(id: 3, uuid: 0x2A39, properties: 0x0E, read: .open, write: .open, value: nil),
      LocalCharacteristic(id: 4, uuid: 0x2A37, properties: 0x20, read: .never, write: .never, value: nil),
    ])

  init() throws {
    let world = world
    phone = try world.device("phone")
    friend = try world.device("friend")
    app = phone.session()
    friendApp = friend.session()
    rogue = RoguePeer(AttributeDatabase(), in: world)
    app.publish([Self.service], name: "phone", in: world)
    friendLink = try friendApp.connect(to: "phone", in: world)
    let found = try #require(try friendApp.services(friendLink, [0x180D], in: world).first)
    let values = try friendApp.characteristics(friendLink, of: found, in: world).map(\.valueHandle)
    try #require(values.count == 3)
    (kept, asked, told) = (values[0], values[1], values[2])
    let controller = phone.system.host?.info.ownAddress.address
    phoneAddress = try #require(controller)
  }

  // MARK: - Steps

  private func connect() {
    rogue.forget()
    if !rogue.isConnected { rogue.connect(to: phoneAddress) }
    let isConnected = world.run(within: .seconds(5)) { rogue.isConnected }
    #expect(isConnected, "\(current): the rogue cannot connect")
    world.advance(.milliseconds(500))
    app.forget()
  }

  private func send(_ pdus: [[UInt8]], wait: TimeSpan = .seconds(2)) {
    for pdu in pdus { rogue.send(pdu) }
    world.advance(wait)
  }

  private func little(_ value: UInt16) -> [UInt8] { [UInt8(truncatingIfNeeded: value), UInt8(value >> 8)] }

  /// Answers what the app has been asked, until nothing more comes.
  private func answer() {
    var isBusy = true
    while isBusy {
      isBusy = false
      let events = app.events
      app.forget()
      for event in events {
        switch event {
        case .readRequested(let id, _, _, _): app.send(.respond(id, 0, [1]))
        case .writeRequested(let id, _, _, needsResponse: true): app.send(.respond(id, 0, nil))
        default: continue
        }
        isBusy = true
      }
      world.advance(.milliseconds(300))
    }
  }

  private func askFriend() {
    let token = friendApp.nextToken()
    friendApp.send(.readValue(token, friendLink, kept))
    let answers = world.run(within: .milliseconds(500)) {
      friendApp.events.contains(.valueRead(token, friendLink, .success([7])))
    }
    #expect(answers, "\(current): the friend's link suffers")
    friendApp.forget()
  }

  /// What the rogue got, by kind.
  private func responses() -> String {
    var order: [String] = []
    var counts: [String: Int] = [:]
    for pdu in rogue.received {
      let name =
        switch pdu.first {
        case 0x01: "error 0x" + String(pdu.count > 4 ? pdu[4] : 0, radix: 16, uppercase: true)
        case 0x03: "MTU response"
        case 0x1D: "indication"
        case .some(let opcode) where ATTOpcode(rawValue: opcode).isFromServer: "response"
        default: "other"
        }
      if counts[name] == nil { order.append(name) }
      counts[name, default: 0] += 1
    }
    rogue.forget()
    return order.isEmpty
      ? "nothing" : order.map { counts[$0] == 1 ? $0 : "\(counts[$0] ?? 0) × \($0)" }.joined(separator: ", ")
  }

  private func ending() -> String {
    guard rogue.isConnected else { return "link ended" }
    rogue.forget()
    send([[0x0A] + little(kept)])
    let works = rogue.received.contains([0x0B, 7])
    #expect(works, "\(current): the link is left of no use: \(rogue.received)")
    return works ? "link goes on" : "link is of no use"
  }

  // MARK: - The misbehaviours

  typealias Row = MisbehaviourTests.Row

  func rows() throws -> [Row] {
    let read = [0x0A] + little(kept)
    let readApp = [0x0A] + little(asked)
    let prepare = [0x16] + little(asked) + [0, 0] + [UInt8](repeating: 1, count: 18)
    let script: [(String, String, Int, [UInt8])] = [
      ("a value that the system keeps", "does not wait for responses", 1000, read),
      ("anything", "sends a request of a wrong length", 20, [0x0A, 1]),
      ("anything", "sends an unknown request", 20, [0x3F, 1]),
      ("anything", "sends an unknown command", 20, [0x7F, 1]),
      ("anything", "signs what nobody has the key for", 20, [0xD2] + little(asked) + [UInt8](repeating: 0, count: 13)),
      ("anything", "sends an empty PDU", 20, []),
      ("anything", "exceeds ATT_MTU", 20, read + [UInt8](repeating: 0, count: 30)),
      ("anything", "responds to what nobody asked", 20, [0x0B, 1]),
      ("anything", "reports an error of what nobody asked", 20, [0x01, 0x0A, 3, 0, 1]),
      ("anything", "confirms what nobody indicated", 20, [0x1E]),
      ("anything", "indicates without end", 500, [0x1D, 1, 0, 1]),
      ("anything", "notifies without end", 500, [0x1B, 1, 0, 1]),
      ("MTU", "offers 1", 2, [0x02, 1, 0]),
      ("MTU", "offers 65535, again and again", 3, [0x02, 0xFF, 0xFF]),
      ("a handle", "names 0", 2, [0x0A, 0, 0]),
      ("a handle", "names one that is not there", 2, [0x12, 0xFF, 0xFF, 1]),
      ("a range", "gives it backwards", 2, [0x04, 9, 0, 1, 0]),
      ("a group", "asks for groups of what is none", 2, [0x10, 1, 0, 0xFF, 0xFF, 0x03, 0x28]),
      ("the configuration", "sets reserved bits", 2, [0x12] + little(configuration) + [0xFC, 0xFF]),
      ("the configuration", "wants notifications where there are none", 2, [0x12] + little(configuration) + [1, 0]),
      ("the configuration", "writes an octet too few", 2, [0x12] + little(configuration) + [2]),
      ("queued writes", "queues more than there is room for", 200, prepare),
      ("queued writes", "executes with reserved flags", 2, [0x18, 7]),
      ("queued writes", "executes beyond the end of the value", 1, [0x18, 1]),
    ]
    var rows: [Row] = []
    for (asked, what, count, pdu) in script {
      current = what
      connect()
      if what.hasPrefix("executes beyond") { send([[0x16] + little(self.asked) + [0xFF, 0xFF, 1]]) }
      rogue.forget()
      send([[UInt8]](repeating: pdu, count: count), wait: .milliseconds(200))
      askFriend()
      world.advance(.seconds(5))
      rows.append(row(asked, what, count, responses() + "; " + ending()))
    }
    rows.append(impatience(readApp))
    rows.append(commandFlood())
    rows.append(vanishing(readApp, "a value of the app", "leaves before the answer"))
    rows.append(vanishing(prepare, "queued writes", "leaves before executing"))
    rows.append(silence())
    return rows
  }

  private func row(_ asked: String, _ what: String, _ count: Int, _ outcome: String) -> Row {
    Row(procedure: asked, misbehaviour: what, point: count == 1 ? "once" : "\(count) times", outcome: outcome)
  }

  private func impatience(_ pdu: [UInt8]) -> Row {
    current = "does not wait for the app"
    connect()
    send([[UInt8]](repeating: pdu, count: 100))
    let before = app.events.count { if case .readRequested = $0 { true } else { false } }
    #expect(before == 1, "the app is asked one thing at a time")
    askFriend()
    answer()
    let count = rogue.received.count
    #expect(rogue.received.allSatisfy { $0 == [0x0B, 1] })
    return row(
      "a value of the app", "does not wait for the response", 100,
      "\(count) are answered, the others dropped; " + ending())
  }

  private func commandFlood() -> Row {
    current = "floods commands"
    connect()
    for number in 0..<1000 { rogue.send([0x52] + little(asked) + [UInt8(number & 0xFF), UInt8(number >> 8)]) }
    world.advance(.milliseconds(300))
    askFriend()
    world.advance(.seconds(20))
    let numbers = app.events.compactMap { event -> Int? in
      guard case .writeRequested(_, _, let writes, needsResponse: false) = event, let value = writes.first?.value,
        value.count == 2
      else { return nil }
      return Int(value[0]) | Int(value[1]) << 8
    }
    #expect(numbers == Array(0..<1000))
    return row("a value of the app", "writes commands without end", 1000, "all reach the app, in order; " + ending())
  }

  private func vanishing(_ pdu: [UInt8], _ asked: String, _ what: String) -> Row {
    current = what
    connect()
    send([pdu])
    rogue.disconnect()
    #expect(world.run(within: .seconds(5)) { !rogue.isConnected })
    world.advance(.seconds(1))
    answer()
    connect()
    // What was queued or asked before is not this connection's.
    send([[0x18, 1]])
    let isFresh =
      rogue.received == [[0x19]] && !app.events.contains { if case .writeRequested = $0 { true } else { false } }
    #expect(isFresh, "\(what)")
    askFriend()
    return row(asked, what, 1, (isFresh ? "forgotten; the next " : "remembered; the next ") + ending())
  }

  /// A client that subscribes and never confirms.
  private func silence() -> Row {
    current = "never confirms"
    connect()
    send([[0x12] + little(configuration) + [2, 0]])
    rogue.intercept = { $0.first == 0x1D }
    app.forget()
    for value: UInt8 in 0..<10 { app.send(.updateValue(4, [value], nil)) }
    world.advance(.seconds(29))
    askFriend()
    let wasThere = rogue.isConnected
    world.advance(.seconds(2))
    askFriend()
    rogue.intercept = nil
    let credits = app.events.reduce(0) { sum, event in
      if case .updateCreditsGranted(let count) = event { sum + count } else { sum }
    }
    #expect(wasThere && credits == 10, "\(current): \(credits) credits came back")
    let outcome =
      "\(responses()), no other; after 30 s " + (rogue.isConnected ? "link goes on" : "link ended")
      + ", and the app may send again"
    return row("indications", "never confirms", 10, outcome)
  }
}
