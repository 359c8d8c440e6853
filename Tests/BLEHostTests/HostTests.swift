// SPDX-License-Identifier: Apache-2.0

import BLECore
import BLEGATT
import BLEHCI
import BLERadio
import Testing

@testable import BLEHost

private let peer: [UInt8] = [9, 8, 7, 6, 5, 4]
private let peerAddress = DeviceAddress(BDAddress(0x0405_0607_0809), type: .publicDevice)

/// Start-up of any controller: what it can do is used, what it cannot is not asked for, what it forgets is survived.
@Suite struct StartUpTests {
  @Test func plainControllerIsReady() {
    let bench = Bench()
    bench.start()
    #expect(bench.isReady)
    #expect(bench.host.info.ownAddress == DeviceAddress(BDAddress(0x0605_0403_0201), type: .publicDevice))
    #expect(bench.host.info.aclDataPacketLength == 251)
    #expect(bench.host.info.maximumTxOctets == 251)
    #expect(bench.controller.received.first == Reset.opcode)
    #expect(!bench.controller.received.contains(LESetRandomAddress.opcode))
  }

  @Test(arguments: [[0, 0, 0, 0, 0, 0, 0], [0, 255, 255, 255, 255, 255, 255], [1]] as [[UInt8]])
  func aBrokenPublicAddressIsReplacedByARandomOne(_ answer: [UInt8]) {
    let bench = Bench()
    bench.controller.answers[ReadBDADDR.opcode] = .complete(answer)
    bench.start()
    #expect(bench.isReady)
    #expect(bench.host.info.ownAddress == DeviceAddress(BDAddress(0xC0FF_EE00_0001), type: .random))
    #expect(bench.controller.parameters[LESetRandomAddress.opcode] == [1, 0, 0, 0xEE, 0xFF, 0xC0])
  }

  /// Every command but the vital ones may go unanswered.
  @Test(arguments: [
    ReadLocalVersionInformation.opcode, ReadLocalSupportedCommands.opcode, ReadBDADDR.opcode, SetEventMask.opcode,
    LEReadLocalSupportedFeatures.opcode, LEReadBufferSizeV2.opcode, LEReadFilterAcceptListSize.opcode,
    LEReadMaximumDataLength.opcode, LEWriteSuggestedDefaultDataLength.opcode, LESetEventMask.opcode,
  ])
  func aForgottenAnswerIsSurvived(_ opcode: HCIOpcode) {
    let bench = Bench()
    bench.controller.answers[opcode] = .silence
    bench.start()
    #expect(bench.isReady)
  }

  /// The same with refusals of both kinds, and answers too short to be read.
  @Test(arguments: [
    ReadLocalVersionInformation.opcode, ReadLocalSupportedCommands.opcode, ReadBDADDR.opcode, SetEventMask.opcode,
    LEReadLocalSupportedFeatures.opcode, LEReadBufferSizeV2.opcode, LEReadFilterAcceptListSize.opcode,
    LEReadMaximumDataLength.opcode, LESetEventMask.opcode,
  ])
  func aRefusalIsSurvived(_ opcode: HCIOpcode) {
    for answer: ScriptedController.Answer in [
      .complete([1]), .status(.unknownHCICommand), .complete([]), .complete([0]),
    ] {
      let bench = Bench()
      bench.controller.answers[opcode] = answer
      bench.start()
      #expect(bench.isReady)
    }
  }

  @Test func aControllerWithoutAnAnswerToResetFails() throws {
    let bench = Bench()
    bench.controller.answers[Reset.opcode] = .silence
    bench.start()
    #expect(!bench.isReady)
    #expect(try #require(bench.failure).description.contains("HCI Reset"))
  }

  /// Commands the controller says it lacks are not sent.
  @Test func unsupportedCommandsAreNotSent() {
    let bench = Bench()
    bench.controller.answers[ReadLocalSupportedCommands.opcode] = .complete([0] + [UInt8](repeating: 0, count: 64))
    bench.start()
    #expect(bench.isReady)
    for opcode in [
      LEReadBufferSizeV2.opcode, LEReadFilterAcceptListSize.opcode, LEReadMaximumDataLength.opcode,
      LEWriteSuggestedDefaultDataLength.opcode,
    ] { #expect(!bench.controller.received.contains(opcode)) }
    #expect(bench.host.info.aclDataPacketLength == 251)
  }

  /// LE Read Buffer Size 0: the buffers are those of BR/EDR.
  @Test func sharedBuffersAreFound() {
    let bench = Bench()
    bench.controller.answers[LEReadBufferSizeV2.opcode] = .complete([0, 0, 0, 0, 0, 0, 0])
    bench.controller.answers[LEReadBufferSize.opcode] = .complete([0, 0, 0, 0])
    bench.controller.answers[ReadBufferSize.opcode] = .complete([0, 0xFD, 3, 64, 6, 0, 0, 0])
    bench.start()
    #expect(bench.isReady)
    #expect(bench.host.info.aclDataPacketLength == 0x3FD)
    #expect(bench.host.info.aclDataPacketCount == 6)
  }

  @Test func aHardwareErrorEndsTheHost() {
    let bench = Bench()
    bench.start()
    bench.controller.event(.hardwareError, [3])
    bench.simulator.advance(by: .seconds(1))
    #expect(bench.failure != nil)
  }
}

/// Pending connections: accept list first, scan and connect where it fails or is of no use.
@Suite struct ConnectingTests {
  private func bench() -> Bench {
    let bench = Bench()
    bench.start()
    return bench
  }

  @Test func thePeerIsConnectedByAcceptList() throws {
    let bench = bench()
    bench.host.connect(peerAddress)
    bench.simulator.advance(by: .milliseconds(10))
    #expect(bench.controller.parameters[LEAddDeviceToFilterAcceptList.opcode] == [0] + peer)
    #expect(bench.controller.parameters[LECreateConnection.opcode]?[4] == 1)
    bench.linkMade(peer)
    #expect(bench.connection == nil, "not before the peer has answered")
    bench.featuresRead()
    #expect(bench.connection?.peer == peerAddress)
    #expect(bench.controller.parameters[LESetDataLength.opcode]?.prefix(4) == [0x40, 0, 251, 0])
  }

  @Test func whileAClientScansThePeerIsConnectedWhenHeard() {
    let bench = bench()
    bench.host.setScanning(true)
    bench.host.connect(peerAddress)
    bench.simulator.advance(by: .seconds(1))
    #expect(!bench.controller.received.contains(LECreateConnection.opcode))
    bench.hear(peer)
    bench.simulator.advance(by: .milliseconds(10))
    #expect(bench.controller.parameters[LECreateConnection.opcode]?[4] == 0)
    // Scanning stops before LE Create Connection, for controllers that cannot do both.
    let tail = bench.controller.received.suffix(2)
    #expect(tail == [LESetScanEnable.opcode, LECreateConnection.opcode])
    bench.linkMade(peer)
    bench.featuresRead()
    bench.simulator.advance(by: .milliseconds(10))
    #expect(bench.controller.received.last == LESetScanEnable.opcode, "the client's scan goes on")
  }

  /// A controller that ignores its accept list: found out, then never trusted again.
  @Test func anAcceptListThatDoesNotWorkIsGivenUp() {
    let bench = bench()
    bench.host.connect(peerAddress)
    for _ in 0..<2 {
      bench.simulator.advance(by: .seconds(10))
      #expect(bench.controller.received.last == LECreateConnectionCancel.opcode)
      bench.controller.meta(.connectionComplete, [2] + [UInt8](repeating: 0, count: 17))
      bench.simulator.advance(by: .milliseconds(10))
      bench.hear(peer)
      bench.simulator.advance(by: .milliseconds(10))
      #expect(bench.controller.parameters[LECreateConnection.opcode]?[4] == 0)
      bench.linkMade(peer)
      bench.featuresRead()
      #expect(bench.connection?.peer == peerAddress)
      bench.controller.event(.disconnectionComplete, [0, 0x40, 0, 8])
      bench.simulator.advance(by: .seconds(5))
      bench.host.connect(peerAddress)
      bench.simulator.advance(by: .milliseconds(10))
    }
    #expect(bench.controller.received.last == LESetScanEnable.opcode)
    bench.hear(peer)
    bench.simulator.advance(by: .milliseconds(10))
    #expect(bench.controller.parameters[LECreateConnection.opcode]?[4] == 0)
  }

  /// 0x3E: the peer never heard the request. It stays wanted, and nobody is told.
  @Test func aLinkThatWasNeverEstablishedIsTriedAgain() {
    let bench = bench()
    bench.host.connect(peerAddress)
    bench.simulator.advance(by: .milliseconds(10))
    bench.linkMade(peer)
    bench.controller.event(.disconnectionComplete, [0, 0x40, 0, 0x3E])
    bench.simulator.advance(by: .milliseconds(10))
    #expect(bench.connection == nil)
    #expect(bench.controller.received.filter { $0 == LECreateConnection.opcode }.count == 2)
  }

  /// A controller that gives up at once is asked again, after longer and longer pauses.
  @Test func aControllerThatGivesUpIsNotAskedWithoutPause() {
    let bench = bench()
    bench.host.connect(peerAddress)
    var asked = 0
    for _ in 0..<1000 {
      bench.simulator.advance(by: .milliseconds(10))
      let count = bench.controller.received.filter { $0 == LECreateConnection.opcode }.count
      if count > asked { bench.controller.meta(.connectionComplete, [0x3E] + [UInt8](repeating: 0, count: 17)) }
      asked = count
    }
    #expect((8...12).contains(asked), "\(asked) times in ten seconds")
    bench.simulator.advance(by: .seconds(3))
    bench.linkMade(peer)
    bench.featuresRead()
    #expect(bench.connection?.peer == peerAddress)
  }

  @Test func aRefusalForGoodIsReported() {
    let bench = bench()
    bench.host.setScanning(true)
    bench.controller.answers[LECreateConnection.opcode] = .status(.connectionLimitExceeded)
    bench.host.connect(peerAddress)
    bench.simulator.advance(by: .milliseconds(10))
    bench.hear(peer)
    bench.simulator.advance(by: .milliseconds(10))
    let refused = bench.events.contains {
      if case .connectFailed(peerAddress, .connectionLimitExceeded) = $0 { true } else { false }
    }
    #expect(refused)
  }

  @Test func cancellingEndsInitiating() {
    let bench = bench()
    bench.host.connect(peerAddress)
    bench.simulator.advance(by: .milliseconds(10))
    bench.host.cancelConnect(peerAddress)
    bench.simulator.advance(by: .milliseconds(10))
    #expect(bench.controller.received.last == LECreateConnectionCancel.opcode)
    // A controller that cannot be brought out of initiating needs a reset.
    bench.simulator.advance(by: .seconds(3))
    #expect(bench.failure != nil)
  }
}

/// One link: data both ways, signalling, the Security Manager's refusal, disconnection.
@Suite struct LinkTests {
  private func connected(role: UInt8 = 1) throws -> (Bench, Connection) {
    let bench = Bench()
    bench.start()
    bench.linkMade(peer, role: role)
    if role == 0 { bench.featuresRead() }
    return (bench, try #require(bench.connection))
  }

  @Test func aPairingRequestIsRefused() throws {
    let (bench, _) = try connected()
    let sent = ACLSpy(bench)
    bench.controller.sendACL([0x40, 0x20, 11, 0, 7, 0, 6, 0, 1, 3, 0, 5, 16, 0, 1])
    bench.simulator.advance(by: .milliseconds(10))
    #expect(sent.packets == [[0x40, 0, 6, 0, 2, 0, 6, 0, 5, 5]])
  }

  @Test func aParameterUpdateRequestIsAcceptedAndCarriedOut() throws {
    let (bench, _) = try connected(role: 0)
    let sent = ACLSpy(bench)
    bench.controller.sendACL([0x40, 0x20, 16, 0, 12, 0, 5, 0, 0x12, 1, 8, 0, 6, 0, 12, 0, 0, 0, 200, 0])
    bench.simulator.advance(by: .milliseconds(10))
    #expect(sent.packets == [[0x40, 0, 10, 0, 6, 0, 5, 0, 0x13, 1, 2, 0, 0, 0]])
    #expect(bench.controller.parameters[LEConnectionUpdate.opcode]?.prefix(6) == [0x40, 0, 6, 0, 12, 0])
  }

  /// The request comes in three fragments, the answer goes out.
  @Test func fragmentsAreJoined() throws {
    let (bench, _) = try connected()
    let sent = ACLSpy(bench)
    bench.controller.sendACL([0x40, 0x20, 2, 0, 3, 0])
    bench.controller.sendACL([0x40, 0x10, 3, 0, 4, 0, 2])
    bench.controller.sendACL([0x40, 0x10, 2, 0, 0xF7, 0])
    bench.simulator.advance(by: .milliseconds(10))
    #expect(sent.packets == [[0x40, 0, 7, 0, 3, 0, 4, 0, 3, 5, 2]])
  }

  /// No more packets than buffers; the rest follows as Number Of Completed Packets says.
  @Test func buffersAreNeverOverrun() throws {
    let (bench, connection) = try connected()
    let sent = ACLSpy(bench)
    for value: UInt8 in 0..<20 {
      let octets = [value]
      bench.host.perform(on: connection) { bearer, _ in _ = bearer.writeCommand(3, octets.span.bytes) }
    }
    bench.simulator.advance(by: .milliseconds(10))
    #expect(sent.packets.count == 8)
    bench.controller.event(.numberOfCompletedPackets, [1, 0x40, 0, 5, 0])
    bench.simulator.advance(by: .milliseconds(10))
    #expect(sent.packets.count == 13)
    let credited = bench.events.reduce(0) { if case .commandsSent(_, let count) = $1 { $0 + count } else { $0 } }
    #expect(credited == 5)
  }

  @Test func theReasonOfADisconnectionIsReported() throws {
    let (bench, _) = try connected()
    bench.controller.event(.disconnectionComplete, [0, 0x40, 0, 0x13])
    bench.simulator.advance(by: .milliseconds(10))
    let ended = bench.events.contains {
      if case .disconnected(_, .remoteUserTerminatedConnection) = $0 { true } else { false }
    }
    #expect(ended)
    #expect(bench.host.links.isEmpty)
  }

  @Test func advertisingGoesOnWithALink() {
    let bench = Bench()
    bench.start()
    bench.host.startAdvertising(AdvertisingContent(data: [2, 1, 6], scanResponse: []))
    bench.simulator.advance(by: .milliseconds(10))
    let before = bench.controller.received.count { $0 == LESetAdvertisingEnable.opcode }
    bench.linkMade(peer, role: 1)
    bench.simulator.advance(by: .milliseconds(10))
    #expect(bench.controller.received.count { $0 == LESetAdvertisingEnable.opcode } == before + 1)
  }

  /// A controller that cannot advertise beside a link is asked again when the link ends.
  @Test func advertisingWaitsForTheEndOfTheLinkWhereItMust() {
    let bench = Bench()
    bench.start()
    bench.host.startAdvertising(AdvertisingContent(data: [2, 1, 6], scanResponse: []))
    bench.simulator.advance(by: .milliseconds(10))
    bench.controller.answers[LESetAdvertisingEnable.opcode] = .complete([0x0C])
    bench.linkMade(peer, role: 1)
    bench.simulator.advance(by: .milliseconds(10))
    bench.controller.answers[LESetAdvertisingEnable.opcode] = nil
    let before = bench.controller.received.count { $0 == LESetAdvertisingEnable.opcode }
    bench.controller.event(.disconnectionComplete, [0, 0x40, 0, 0x13])
    bench.simulator.advance(by: .milliseconds(10))
    #expect(bench.controller.received.count { $0 == LESetAdvertisingEnable.opcode } == before + 1)
  }
}

/// The end of a link that a controller does not tell of.
@Suite struct DisconnectTests {
  private func disconnecting(_ answer: ScriptedController.Answer) throws -> Bench {
    let bench = Bench()
    bench.start()
    bench.controller.answers[Disconnect.opcode] = answer
    bench.linkMade(peer, role: 1)
    bench.host.disconnect(try #require(bench.connection))
    bench.simulator.advance(by: .milliseconds(10))
    return bench
  }

  private func isOver(_ bench: Bench) -> Bool {
    bench.events.contains { if case .disconnected = $0 { true } else { false } }
  }

  @Test func aLinkThatTheControllerDoesNotKnowIsOver() throws {
    let bench = try disconnecting(.status(.unknownConnectionIdentifier))
    #expect(isOver(bench))
    #expect(bench.host.links.isEmpty)
    bench.simulator.advance(by: .seconds(60))
    #expect(bench.isAlive)
  }

  /// Otherwise nobody would ever be told of the end.
  @Test(arguments: [.status(.success), .status(.commandDisallowed), .silence] as [ScriptedController.Answer])
  func aControllerThatDoesNotEndALinkIsGivenUp(_ answer: ScriptedController.Answer) throws {
    let bench = try disconnecting(answer)
    // The supervision timeout is 2 s.
    bench.simulator.advance(by: .seconds(6))
    #expect(bench.isAlive && !isOver(bench))
    bench.simulator.advance(by: .seconds(2))
    #expect(try #require(bench.failure).description.contains("does not end the link"))
  }

  @Test func theEndInTimeLeavesTheControllerInPeace() throws {
    let bench = try disconnecting(.status(.success))
    bench.controller.event(.disconnectionComplete, [0, 0x40, 0, 0x16])
    bench.simulator.advance(by: .seconds(60))
    #expect(isOver(bench) && bench.isAlive)
  }
}
