// SPDX-License-Identifier: Apache-2.0

import BLECore
import BLEHCI
import TestSupport
import Testing

@testable import BLERadio

/// Peers that send what no Link Layer would.
@Suite struct HostileLinkTests {
  private static let key = [UInt8](repeating: 9, count: 16)

  /// Control PDUs of all kinds, to begin with.
  private static let examples: [[UInt8]] = (0..<0x2B).map { opcode in
    [UInt8(opcode)] + [UInt8](repeating: 0, count: [11, 7, 1, 22, 12, 0, 0, 1, 8, 8, 0, 0, 5, 1, 8, 23][opcode % 16])
  }

  /// A central and a peripheral that connect, and encrypt their link, whenever they are not connected.
  private struct Couple {
    let central: ScriptedHost
    let peripheral: ScriptedHost
    var pair: (LinkConnection, LinkConnection)?

    init(_ world: RadioWorld, _ address: UInt64) throws {
      central = ScriptedHost(world, address: address)
      peripheral = ScriptedHost(world, address: address + 1)
      try central.start(octets: 251)
      try peripheral.start(octets: 251)
    }

    /// `false`: not yet; the world must go on.
    mutating func prepare() throws -> Bool {
      let own = central.controller.links.first
      let peer = peripheral.controller.links.first
      if let own, let peer, own.accessAddress == peer.accessAddress {
        if own.isEncrypted, peer.isEncrypted {
          pair = (own, peer)
          return true
        }
        if peer.isAwaitingKey {
          peripheral.send(LELongTermKeyRequestReply(connectionHandle: peer.handle, longTermKey: HostileLinkTests.key))
        } else if !own.isEncryptionBusy, !peer.isEncryptionBusy {
          central.send(
            LEEnableEncryption(
              connectionHandle: own.handle, randomNumber: 0, encryptedDiversifier: 0,
              longTermKey: HostileLinkTests.key))
        }
      } else if own == nil, peer == nil {
        peripheral.send(LESetAdvertisingEnable(enable: true))
        _ = try central.createConnection(to: peripheral.controller.address, interval: 6, timeout: 50)
      }
      pair = nil
      central.forget()
      peripheral.forget()
      return false
    }
  }

  /// 100,000 PDUs, sealed as the peer would seal them, into links that are encrypted again whenever they end; and beside
  /// them another link that notices nothing.
  @Test func liveEncryptedLinksSurviveHostilePDUs() throws {
    let seed: UInt64 = 71
    let world = RadioWorld(seed: seed)
    let quiet = try Pair(world, timeout: 400)
    try quiet.encrypt(Self.key, peerKey: Self.key)
    quiet.advance(.seconds(1))
    quiet.central.isRecording = false
    quiet.peripheral.isRecording = false
    var couple = try Couple(world, 0x300)
    var bytes = HostileBytes(seed: seed, count: 100_000, examples: Self.examples, maxLength: 251)
    var random = SeededGenerator(seed: bytes.seed)
    var endings = 0
    var isDone = false
    while !isDone {
      guard try couple.prepare(), let (central, peripheral) = couple.pair else {
        endings += couple.central.controller.links.isEmpty ? 1 : 0
        world.simulator.advance(by: .milliseconds(50))
        continue
      }
      let sender = Bool.random(using: &random) ? central : peripheral
      for _ in 0..<60 {
        guard let pdu = bytes.next() else {
          isDone = true
          break
        }
        guard let opcode = pdu.first else { continue }
        // Those that end a link by right are few, or nothing else would be tried.
        if opcode == 0x02, Int.random(in: 0..<20, using: &random) > 0 { continue }
        sender.send(.unknown(opcode: opcode, data: Array(pdu.dropFirst())))
      }
      world.simulator.advance(by: .milliseconds(30))
    }
    world.simulator.advance(by: .seconds(1))
    #expect(endings > 0)
    // The other link: as if nothing had been.
    quiet.central.isRecording = true
    quiet.peripheral.isRecording = true
    quiet.central.forget()
    quiet.peripheral.forget()
    quiet.central.sendData(quiet.centralHandle, [1, 2, 3])
    quiet.peripheral.sendData(quiet.peripheralHandle, [4, 5])
    quiet.advance(.milliseconds(300))
    #expect(quiet.peripheral.data == [[1, 2, 3]], "seed \(bytes.seed)")
    #expect(quiet.central.data == [[4, 5]], "seed \(bytes.seed)")
    #expect(quiet.central.controller.links.count == 1)
  }

  /// Raw packets of a third device with the link's access address, on all channels at once: damaged framing, no MIC.
  @Test(arguments: 0..<8 as Range<UInt64>) func forgedPacketsEndAnEncryptedLinkAtWorst(seed: UInt64) throws {
    let world = RadioWorld(seed: seed)
    let pair = try Pair(world, timeout: 100)
    try pair.encrypt(Self.key, peerKey: Self.key)
    pair.advance(.milliseconds(300))
    let rogue = ScriptedHost(world, address: 0x999)
    let link = try #require(pair.peripheral.controller.links.first)
    // The Central is silenced, so that the Peripheral takes what it hears for it.
    world.setCut(true, between: pair.central.controller.device, and: pair.peripheral.controller.device)
    let receiver = Silent()
    let endpoints = (0..<37).map { _ in world.makeEndpoint(receiver, rogue.controller.device) }
    var hostile = HostileBytes(seed: 72 + seed, count: 100, examples: [[2, 3, 1, 2, 3], [3, 1, 5], [7, 2, 2, 0x13]])
    var delivered = 0
    pair.peripheral.onData = { _, _, _ in delivered += 1 }
    while pair.peripheral.controller.links.contains(where: { $0 === link }), let bytes = hostile.next() {
      let at = link.nextStart + .microseconds(20)
      world.simulator.run(until: at)
      for (channel, endpoint) in endpoints.enumerated() where bytes.count >= 2 {
        world.transmit(
          bytes, from: endpoint, channel: UInt8(channel), accessAddress: link.accessAddress, crcInit: 0)
      }
      world.simulator.advance(by: .milliseconds(10))
    }
    pair.advance(.seconds(2))
    // Nothing that it said has reached the host.
    #expect(delivered == 0, "seed \(seed)")
    let reason = pair.peripheral.events(DisconnectionComplete.self).map(\.event.reason)
    #expect(reason == [.terminatedDueToMICFailure] || reason == [.connectionTimeout], "seed \(seed): \(reason)")
    for endpoint in endpoints { world.release(endpoint) }
  }

  private final class Silent: AirUser {
    func transmissionEnded() {}
    func receive(_ packet: AirPacket, _ reception: Reception) {}
  }

  /// The machine alone, in all its states, in both roles.
  @Test(arguments: [true, false]) func anyPDUsInAnyState(isCentral: Bool) {
    let hostile = HostileBytes(seed: 73, count: 100_000, examples: Self.examples, maxLength: 60)
    let parameters = ConnectionParameters(
      interval: ConnectionInterval(rawValue: 24), latency: 0, supervisionTimeout: SupervisionTimeout(rawValue: 200))
    let range = ConnectionParameterRange(
      intervalMin: ConnectionInterval(rawValue: 6), intervalMax: ConnectionInterval(rawValue: 40), latency: 0,
      supervisionTimeout: SupervisionTimeout(rawValue: 200))
    let procedures: [LinkControl.Procedure] = [
      .parameterRequest(range), .phyUpdate, .featureExchange, .versionExchange, .dataLength, .ping, .clockAccuracy,
    ]
    let request = LinkEncryption.Request(randomNumber: 0, diversifier: 0, longTermKey: Self.key)
    let ofCentral: [LinkControl.Procedure] = [
      .connectionUpdate(parameters), .channelMap(0xFF), .encryption(request),
    ]
    var random = SeededGenerator(seed: hostile.seed)
    func fresh() -> LinkControl {
      LinkControl(isCentral: isCentral, parameters: parameters, maxTxOctets: 251, maxTxTime: 17_040)
    }
    var control = fresh()
    var counter: UInt16 = 0
    var lost = 0
    for bytes in hostile {
      var actions: [LinkControl.Action] = []
      counter &+= 1
      if Int.random(in: 0..<4, using: &random) == 0 {
        let choice = isCentral ? procedures + ofCentral : procedures
        control.start(choice[Int.random(in: 0..<choice.count, using: &random)], now: .zero, into: &actions)
      }
      if let pdu = try? LLControlPDU.decode(bytes) {
        control.receive(pdu, eventCounter: counter, now: .zero, into: &actions)
      }
      _ = control.chooseInstant(eventCounter: counter, latency: 0)
      _ = control.takeChange(eventCounter: counter, now: .zero, into: &actions)
      if control.isAskingHost { control.answerParameterRequest(range, now: .zero, into: &actions) }
      if control.encryption.isAwaitingKey {
        control.encryption.answer(Self.key, usesExtendedReject: true, now: .zero, into: &actions)
      }
      var isOver = false
      for action in actions {
        switch action {
        case .lose, .leave, .terminate: isOver = true
        case .encryptionEnded: control.encryptionEnded(now: .zero, into: &actions)
        default: break
        }
      }
      if isOver {
        lost += 1
        control = fresh()
      }
    }
    #expect(lost > 100, "seed \(hostile.seed)")
  }
}
