// SPDX-License-Identifier: Apache-2.0

import BLECore
import BLEGATT
import BLEHost
import BLERadio
import Testing

@testable import BLESystem

/// A phone with an app, a peer that breaks rules, and a friend on a second link that must not feel any of it.
final class MisbehaviourScene {
  let world = SimulatedWorld(setting: .ideal)
  let phone: SimulatedDevice
  let app: TestSession
  let rogue: RoguePeer
  let handles: RogueHandles
  private let friend: SimulatedDevice
  private let friendServer: TestSession
  private let friendLink: LinkReference
  private let friendValue: UInt16
  private var roguePeer: PeerIdentifier?
  /// Named in messages.
  var current = ""

  init() throws {
    let world = world
    // The tests are mostly silence: with long intervals it is cheap.
    phone = try SimulatedDevice("phone", in: world, interval: ConnectionInterval(rawValue: 80))
    friend = try world.device("friend")
    app = phone.session()
    friendServer = friend.session()
    friendServer.publish([.simple(0x180F, id: 1, characteristic: 0x2A19, value: [50])], name: "friend", in: world)
    friendLink = try app.connect(to: "friend", in: world)
    let service = try #require(try app.services(friendLink, [0x180F], in: world).first)
    friendValue = try #require(try app.characteristics(friendLink, of: service, in: world).first).valueHandle
    let database = AttributeDatabase()
    handles = try RogueHandles(database)
    rogue = RoguePeer(database, in: world, rxMTU: 23)
    _ = try rogueLink()
  }

  // MARK: - The links

  /// The link to the rogue, as an honest peer if it has to be made.
  func rogueLink() throws -> LinkReference {
    if let peer = roguePeer, let link = phone.system.links[peer], link.users.isEmpty == false, !link.isEnding {
      return link.reference
    }
    rogue.rewrite = nil
    return try connectRogue()
  }

  private func connectRogue() throws -> LinkReference {
    #expect(world.run(within: .seconds(5)) { !rogue.isConnected }, "\(current): the rogue is still connected")
    rogue.advertise("rogue")
    if let roguePeer { return try app.connect(to: roguePeer, in: world) }
    let link = try app.connect(to: "rogue", in: world)
    roguePeer = link.peer
    return link
  }

  private func leaveRogue() throws {
    let link = try rogueLink()
    app.disconnect(link, in: world)
  }

  /// The friend must answer at once, whatever the rogue does.
  func askFriend() {
    let token = app.nextToken()
    app.send(.readValue(token, friendLink, friendValue))
    let answers = world.run(within: .milliseconds(500)) {
      app.events.contains(.valueRead(token, friendLink, .success([50])))
    }
    #expect(answers, "\(current): the link to the friend suffers")
  }

  // MARK: - Our client, a rogue server

  /// How many responses an honest peer gives in the procedure.
  func responseCount(_ procedure: DisturbedProcedure) throws -> Int {
    var count = 0
    let outcome = try run(procedure) { response, _ in
      count += 1
      return .send([response])
    }
    #expect(outcome == "succeeds; link goes on", "\(current): \(procedure.rawValue) without misbehaviour")
    return count
  }

  /// The outcome of the procedure with the misbehaviour from response number `index` on; nil where it makes no sense.
  func run(_ procedure: DisturbedProcedure, _ misbehaviour: Misbehaviour, at index: Int) throws -> String? {
    var number = 0
    var isDone = false
    var last: [UInt8] = []
    let serviceChanged = try #require(rogue.database.serviceChangedHandle)
    let outcome = try run(procedure) { [rogue] response, request in
      defer { number += 1 }
      guard number == index || number > index && misbehaviour.isPersistent else {
        return .send([response])
      }
      if misbehaviour == .standstill {
        // The first list again, in place of each later answer.
        if number == index { last = response }
        guard ListResponse(last) != nil, number > index, [last[0], 0x01].contains(response[0]) else {
          return .send([response])
        }
        isDone = true
        return .send([last])
      }
      let reaction = misbehaviour.reaction(
        response, to: request, mtu: rogue.mtu, serviceChanged: serviceChanged)
      if reaction != nil { isDone = true }
      return reaction ?? .send([response])
    }
    return isDone ? outcome : nil
  }

  private func run(
    _ procedure: DisturbedProcedure, _ rewrite: @escaping ([UInt8], [UInt8]) -> RoguePeer.Reaction
  ) throws -> String {
    app.forget()
    let link: LinkReference
    func arm() {
      rogue.rewrite = { [rogue] pdu in
        guard [0x1B, 0x1D, 0x1E].contains(pdu[0]) || !ATTOpcode(rawValue: pdu[0]).isFromServer else {
          return rewrite(pdu, rogue.received.last ?? [])
        }
        return .send([pdu])
      }
    }
    if procedure == .connect {
      try leaveRogue()
      arm()
      link = try connectRogue()
      prepare(link)
    } else {
      link = try rogueLink()
      settle(link)
      arm()
    }
    let token = app.nextToken()
    app.send(procedure.request(token, link, handles))
    let outcome = observe(link, token)
    rogue.rewrite = nil
    if procedure == .subscribe, phone.system.links[link.peer]?.reference == link {
      // The next one is to find it as it was.
      app.send(.cancelConnection(link.peer))
      world.run(within: .seconds(5)) { !rogue.isConnected }
    }
    return outcome
  }

  /// Asks what the system wants to know itself before an app's first request.
  private func prepare(_ link: LinkReference) {
    if let link = phone.system.links[link.peer] { phone.system.prepare(link) }
  }

  /// Runs until nothing more is asked of the rogue.
  private func settle(_ link: LinkReference) {
    prepare(link)
    let isQuiet = world.run(within: .seconds(40)) {
      guard let link = phone.system.links[link.peer] else { return true }
      guard case .done = link.preparation else { return false }
      return link.procedures.isEmpty
    }
    #expect(isQuiet, "\(current): the link does not settle")
  }

  private func observe(_ link: LinkReference, _ token: RequestToken) -> String {
    var answer: SystemError??
    var end: SystemError??
    func look() -> Bool {
      for event in app.events {
        if answer == nil, let found = DisturbedProcedure.answer(event, token) { answer = .some(found) }
        if case .disconnected(link.peer, let error, _) = event { end = .some(error) }
      }
      return answer != nil || end != nil
    }
    world.run(within: .milliseconds(600), until: look)
    askFriend()
    world.run(within: .seconds(70), until: look)
    if answer != nil, end == nil {
      // What the peer did may still end the link.
      world.advance(.milliseconds(500))
      settle(link)
      _ = look()
    }
    let text =
      switch (answer, end) {
      case (.some(nil), _): "succeeds"
      case (.some(.some(let error)), _): "fails (\(Self.text(error)))"
      case (nil, .some(let error)): "ends with the link (\(error.map(Self.text) ?? "cancelled"))"
      case (nil, nil): "hangs"
      }
    #expect(text != "hangs", "\(current): no answer, and no end")
    if answer != nil, end != nil { return text + "; link ended" }
    return end == nil ? text + (probe(link) ? "; link goes on" : "; link is of no use") : text
  }

  /// Whether the link to the rogue, honest again, is as good as before.
  private func probe(_ link: LinkReference) -> Bool {
    rogue.rewrite = nil
    for procedure in [DisturbedProcedure.services, .characteristics] {
      app.send(procedure.request(app.nextToken(), link, handles))
      settle(link)
    }
    let token = app.nextToken()
    app.send(.readValue(token, link, handles.value))
    let works = world.run(within: .seconds(5)) {
      app.events.contains { DisturbedProcedure.answer($0, token).map { $0 == nil } ?? false }
    }
    #expect(works, "\(current): the link is left of no use")
    return works
  }

  private static func text(_ error: SystemError) -> String {
    switch error.reason {
    case .att(let code): "ATT error 0x" + String(code, radix: 16, uppercase: true)
    case .unknown: "breaks the rules"
    case .invalidHandle: "handle void"
    case .connectionTimeout: "timeout"
    case .peripheralDisconnected: "peer ended it"
    default: "\(error.reason)"
    }
  }
}
