// SPDX-License-Identifier: Apache-2.0

import BLECore
import BLEHCI
import Testing

@testable import BLERadio

/// Procedures that are interrupted, or collide, at every point of their way.
@Suite struct InterruptionTests {
  private static let key = (0..<16).map { UInt8($0 + 1) }

  enum Interruption: CaseIterable {
    case centralDisconnects, peripheralDisconnects, centralOff, peripheralOff, centralReset, peripheralReset
    case silence, longSilence, cut
  }

  // MARK: - Hosts

  /// Answers what the controllers ask.
  private static func answer(_ pair: Pair, refuses: Bool = false) {
    if let link = pair.peripheral.controller.links.first, link.isAwaitingKey {
      if refuses {
        pair.peripheral.send(LELongTermKeyRequestNegativeReply(connectionHandle: link.handle))
      } else {
        pair.peripheral.send(LELongTermKeyRequestReply(connectionHandle: link.handle, longTermKey: key))
      }
    }
    for host in [pair.central, pair.peripheral] {
      guard let link = host.controller.links.first, link.isAskingHost,
        let request = host.metaEvents(LERemoteConnectionParameterRequest.self).last?.event
      else { continue }
      host.send(
        LERemoteConnectionParameterRequestReply(
          connectionHandle: link.handle, intervalMin: request.intervalMin, intervalMax: request.intervalMax,
          maxLatency: request.maxLatency, timeout: request.timeout, minCELength: ConnectionEventLength(rawValue: 0),
          maxCELength: ConnectionEventLength(rawValue: 0)))
    }
  }

  private static func run(_ pair: Pair, _ span: TimeSpan, refuses: Bool = false) {
    let end = pair.world.simulator.now + span
    while pair.world.simulator.now < end {
      answer(pair, refuses: refuses)
      pair.advance(.milliseconds(5))
    }
  }

  /// Whether both sides are gone, or both are there, agree on everything, and data passes.
  private static func complaint(_ pair: Pair) -> String? {
    let own = pair.central.controller.links.first
    let peer = pair.peripheral.controller.links.first
    if own == nil, peer == nil { return nil }
    guard let own, let peer else { return "one side only: central \(own != nil), peripheral \(peer != nil)" }
    if own.isEncrypted != peer.isEncrypted { return "encrypted: \(own.isEncrypted) \(peer.isEncrypted)" }
    if own.isEncryptionBusy || peer.isEncryptionBusy { return "encryption does not end" }
    if own.parameters != peer.parameters { return "parameters \(own.parameters) \(peer.parameters)" }
    if own.usedChannels != peer.usedChannels { return "channels \(own.usedChannels) \(peer.usedChannels)" }
    if own.phys.tx != peer.phys.rx || own.phys.rx != peer.phys.tx { return "PHYs \(own.phys) \(peer.phys)" }
    let (a, b) = (own.dataLengths, peer.dataLengths)
    if a.maxTxOctets != b.maxRxOctets || a.maxRxOctets != b.maxTxOctets { return "lengths \(a) \(b)" }
    pair.central.forget()
    pair.peripheral.forget()
    pair.central.sendData(pair.centralHandle, [1, 2, 3, 4])
    pair.peripheral.sendData(pair.peripheralHandle, [5, 6, 7])
    run(pair, .seconds(6))
    if pair.peripheral.data != [[1, 2, 3, 4]] || pair.central.data != [[5, 6, 7]] {
      return "data \(pair.peripheral.data) \(pair.central.data)"
    }
    return nil
  }

  private static func interrupt(_ pair: Pair, _ interruption: Interruption) {
    let (central, peripheral) = (pair.central, pair.peripheral)
    let devices = (central.controller.device, peripheral.controller.device)
    func silence(_ span: TimeSpan) {
      pair.world.setCut(true, between: devices.0, and: devices.1)
      run(pair, span)
      pair.world.setCut(false, between: devices.0, and: devices.1)
    }
    switch interruption {
    case .centralDisconnects:
      central.send(Disconnect(connectionHandle: pair.centralHandle, reason: .remoteUserTerminatedConnection))
    case .peripheralDisconnects:
      peripheral.send(Disconnect(connectionHandle: pair.peripheralHandle, reason: .remoteUserTerminatedConnection))
    case .centralOff: central.controller.powerOff()
    case .peripheralOff: peripheral.controller.powerOff()
    case .centralReset: central.send(Reset())
    case .peripheralReset: peripheral.send(Reset())
    case .silence: silence(.milliseconds(100))
    case .longSilence: silence(.milliseconds(700))
    case .cut: silence(.seconds(3))
    }
  }

  // MARK: - Encryption

  @Test(arguments: Interruption.allCases, [false, true])
  func encryptionInterruptedAtEachStep(_ interruption: Interruption, isRefresh: Bool) throws {
    for refuses in [false, true] {
      for step in stride(from: 0, to: 90, by: 9) {
        let world = RadioWorld(seed: 31)
        let pair = try Pair(world, interval: 6, timeout: 100, settle: .milliseconds(200))
        if isRefresh {
          try pair.encrypt(Self.key, peerKey: Self.key)
          pair.advance(.milliseconds(200))
        }
        pair.central.forget()
        pair.peripheral.forget()
        pair.central.send(
          LEEnableEncryption(
            connectionHandle: pair.centralHandle, randomNumber: 1, encryptedDiversifier: 2, longTermKey: Self.key))
        world.simulator.run(until: world.simulator.now)
        for _ in 0..<step {
          world.simulator.step()
          Self.answer(pair, refuses: refuses)
        }
        Self.interrupt(pair, interruption)
        Self.run(pair, .seconds(3), refuses: refuses)
        let name: Comment = "\(interruption), refresh \(isRefresh), refuses \(refuses), step \(step)"
        // The host that asked hears the outcome, unless its controller is gone.
        let changes = pair.central.events(EncryptionChange.self).count
        let refreshes = pair.central.events(EncryptionKeyRefreshComplete.self).count
        let ends = pair.central.events(DisconnectionComplete.self).count
        if interruption != .centralOff, interruption != .centralReset {
          #expect(changes + refreshes + ends > 0, name)
        }
        let complaint = Self.complaint(pair)
        #expect(complaint == nil, name)
      }
    }
  }

  // MARK: - Collisions

  enum Procedure: CaseIterable {
    case update, phy, dataLength, features, version, channels, encryption, disconnect
  }

  private static func start(_ procedure: Procedure, _ host: ScriptedHost, _ handle: ConnectionHandle) {
    switch procedure {
    case .update:
      host.send(
        LEConnectionUpdate(
          connectionHandle: handle, connectionIntervalMin: ConnectionInterval(rawValue: 12),
          connectionIntervalMax: ConnectionInterval(rawValue: 16), maxLatency: 1,
          supervisionTimeout: SupervisionTimeout(rawValue: 300), minCELength: ConnectionEventLength(rawValue: 0),
          maxCELength: ConnectionEventLength(rawValue: 0)))
    case .phy:
      host.send(LESetPHY(connectionHandle: handle, allPHYs: 0, txPHYs: .le2M, rxPHYs: .le2M, phyOptions: 0))
    case .dataLength: host.send(LESetDataLength(connectionHandle: handle, txOctets: 200, txTime: 2000))
    case .features: host.send(LEReadRemoteFeatures(connectionHandle: handle))
    case .version: host.send(ReadRemoteVersionInformation(connectionHandle: handle))
    case .channels: host.send(LESetHostChannelClassification(channelMap: 0x0F_0F0F_0F0F))
    case .encryption:
      host.send(
        LEEnableEncryption(connectionHandle: handle, randomNumber: 1, encryptedDiversifier: 2, longTermKey: key))
    case .disconnect: host.send(Disconnect(connectionHandle: handle, reason: .remoteUserTerminatedConnection))
    }
  }

  /// Whether the host was told what came of `procedure`.
  private static func isReported(_ procedure: Procedure, _ host: ScriptedHost) -> Bool {
    if !host.events(DisconnectionComplete.self).isEmpty { return true }
    return switch procedure {
    case .update: !host.metaEvents(LEConnectionUpdateComplete.self).isEmpty
    case .phy: !host.metaEvents(LEPHYUpdateComplete.self).isEmpty
    case .features: !host.metaEvents(LEReadRemoteFeaturesComplete.self).isEmpty
    case .version: !host.events(ReadRemoteVersionInformationComplete.self).isEmpty
    case .encryption:
      !host.events(EncryptionChange.self).isEmpty || !host.events(EncryptionKeyRefreshComplete.self).isEmpty
    case .disconnect: false
    case .dataLength, .channels: true
    }
  }

  @Test(arguments: Procedure.allCases, Procedure.allCases)
  func proceduresOfBothSidesCollide(_ ofCentral: Procedure, _ ofPeripheral: Procedure) throws {
    for loss in [0.0, 0.3] {
      for offset in [-13, 0, 5] {
        let world = RadioWorld(seed: 77 &+ UInt64(bitPattern: Int64(offset)))
        let pair = try Pair(world, interval: 6, timeout: 300, settle: .milliseconds(200))
        pair.central.forget()
        pair.peripheral.forget()
        world.loss = loss
        let isCentralFirst = offset < 0
        for isCentral in isCentralFirst ? [true, false] : [false, true] {
          if isCentral {
            Self.start(ofCentral, pair.central, pair.centralHandle)
          } else {
            Self.start(ofPeripheral, pair.peripheral, pair.peripheralHandle)
          }
          world.simulator.run(until: world.simulator.now)
          for _ in 0..<abs(offset) {
            world.simulator.step()
            Self.answer(pair)
          }
        }
        Self.run(pair, .seconds(8))
        let name: Comment = "\(ofCentral) \(ofPeripheral) loss \(loss) offset \(offset)"
        #expect(Self.isReported(ofCentral, pair.central), name)
        if ofPeripheral != .encryption { #expect(Self.isReported(ofPeripheral, pair.peripheral), name) }
        if ofCentral != .disconnect, ofPeripheral != .disconnect {
          let reasons = pair.central.events(DisconnectionComplete.self).map(\.event.reason)
          #expect(reasons.isEmpty, "\(name): \(reasons)")
        }
        world.loss = 0
        let complaint = Self.complaint(pair)
        #expect(complaint == nil, name)
      }
    }
  }

  /// Instants on the other side of connEventCount's wrap.
  @Test(arguments: [Procedure.update, .phy, .channels])
  func instantsPassTheEndOfTheCounter(_ procedure: Procedure) throws {
    let world = RadioWorld(seed: 5)
    let pair = try Pair(world, interval: 6, timeout: 300)
    let link = try #require(pair.central.controller.links.first)
    while link.lastEvent < 65_525 { pair.advance(.milliseconds(7)) }
    pair.central.forget()
    pair.peripheral.forget()
    world.loss = 0.3
    Self.start(procedure, pair.central, pair.centralHandle)
    Self.run(pair, .seconds(3))
    world.loss = 0
    #expect(Self.isReported(procedure, pair.central))
    #expect(pair.central.events(DisconnectionComplete.self).isEmpty)
    #expect(Self.complaint(pair) == nil)
    switch procedure {
    case .phy: #expect(link.phys.tx == .le2M)
    case .channels: #expect(link.usedChannels == 0x0F_0F0F_0F0F)
    default: #expect(link.parameters.interval.rawValue == 16)
    }
  }
}
