// SPDX-License-Identifier: Apache-2.0

import BLECore
import BLEHCI
import Testing

@testable import BLERadio

/// The machine alone, with a peer that does what our own controllers never do.
@Suite struct LinkControlMachineTests {
  private func machine(isCentral: Bool) -> LinkControl {
    LinkControl(
      isCentral: isCentral,
      parameters: ConnectionParameters(
        interval: ConnectionInterval(rawValue: 24), latency: 0, supervisionTimeout: SupervisionTimeout(rawValue: 200)),
      maxTxOctets: 251, maxTxTime: 2120)
  }

  private func receive(
    _ pdu: LLControlPDU, _ machine: inout LinkControl, event: UInt16 = 100, now: Instant = .zero
  ) -> [LinkControl.Action] {
    var actions: [LinkControl.Action] = []
    machine.receive(pdu, eventCounter: event, now: now, into: &actions)
    return actions
  }

  private func start(_ procedure: LinkControl.Procedure, _ machine: inout LinkControl) -> [LinkControl.Action] {
    var actions: [LinkControl.Action] = []
    machine.start(procedure, now: .zero, into: &actions)
    return actions
  }

  private func update(instant: UInt16, interval: UInt16 = 24, winSize: UInt8 = 1) -> LLControlPDU {
    .connectionUpdateInd(
      winSize: winSize, winOffset: 0, interval: ConnectionInterval(rawValue: interval), latency: 0,
      timeout: SupervisionTimeout(rawValue: 200), instant: instant)
  }

  @Test func whatIsNotUnderstoodGetsUnknownRsp() {
    for isCentral in [true, false] {
      var control = machine(isCentral: isCentral)
      let unknown = LLControlPDU.unknown(opcode: 0x0F, data: [1, 2, 3])
      #expect(receive(unknown, &control) == [.send(.unknownRsp(opcode: 0x0F))])
      // These are never answered, however malformed.
      for opcode: UInt8 in [0x02, 0x07, 0x0D, 0x11] {
        #expect(receive(.unknown(opcode: opcode, data: []), &control).isEmpty)
      }
    }
  }

  @Test func whatTheSendersRoleMustNotSendGetsUnknownRsp() {
    var central = machine(isCentral: true)
    #expect(receive(update(instant: 110), &central) == [.send(.unknownRsp(opcode: 0x00))])
    #expect(
      receive(.channelMapInd(channelMap: 7, instant: 110), &central) == [.send(.unknownRsp(opcode: 0x01))])
    #expect(receive(.featureReq(0), &central) == [.send(.unknownRsp(opcode: 0x08))])
    var peripheral = machine(isCentral: false)
    #expect(receive(.peripheralFeatureReq(0), &peripheral) == [.send(.unknownRsp(opcode: 0x0E))])
  }

  @Test(arguments: [(100, true), (99, true), (100 &- 32_767, true), (101, false), (32_000, false)] as [(UInt16, Bool)])
  func anInstantThatHasPassedLosesTheLink(instant: UInt16, isLost: Bool) {
    var control = machine(isCentral: false)
    let expected: [LinkControl.Action] = isLost ? [.lose(.instantPassed)] : []
    #expect(receive(update(instant: instant), &control) == expected)
    #expect((control.change == nil) == isLost)
  }

  @Test func aSecondInstantCollides() {
    var control = machine(isCentral: false)
    #expect(receive(update(instant: 106), &control).isEmpty)
    #expect(
      receive(.channelMapInd(channelMap: 0xFF, instant: 107), &control) == [.lose(.differentTransactionCollision)])
  }

  @Test func impossibleParametersLoseTheLink() {
    var control = machine(isCentral: false)
    #expect(receive(update(instant: 106, interval: 5), &control) == [.lose(.invalidLLParameters)])
    #expect(receive(update(instant: 106, winSize: 0), &control) == [.lose(.invalidLLParameters)])
    #expect(receive(.channelMapInd(channelMap: 1, instant: 106), &control) == [.lose(.invalidLLParameters)])
  }

  @Test func theInstantIsChosenWhenTheIndicationGoesOut() {
    var control = machine(isCentral: true)
    let parameters = ConnectionParameters(
      interval: ConnectionInterval(rawValue: 12), latency: 0, supervisionTimeout: SupervisionTimeout(rawValue: 100))
    #expect(start(.connectionUpdate(parameters), &control).count == 1)
    #expect(start(.channelMap(0xFF), &control).isEmpty)
    #expect(control.change == nil)
    #expect(control.chooseInstant(eventCounter: 65_533, latency: 2) == 5)
    var actions: [LinkControl.Action] = []
    #expect(control.takeChange(eventCounter: 4, now: .zero, into: &actions) == nil)
    #expect(control.takeChange(eventCounter: 5, now: .zero, into: &actions)?.isLocal == true)
    // The one that waited is sent now.
    #expect(actions == [.send(.channelMapInd(channelMap: 0xFF, instant: 0))])
  }

  @Test func aRefusalEndsTheProcedureAndTheNextBegins() {
    var control = machine(isCentral: true)
    #expect(start(.featureExchange, &control) == [.send(.featureReq(LEFeatures.local.rawValue))])
    #expect(start(.dataLength, &control).isEmpty)
    #expect(control.deadline == Instant.zero + .seconds(40))
    // About something else: not the answer.
    #expect(receive(.unknownRsp(opcode: 0x14), &control).isEmpty)
    let actions = receive(.unknownRsp(opcode: 0x08), &control)
    #expect(actions.first == .reportFeatures(.unsupportedRemoteFeature, 0))
    #expect(actions.count == 2)
    #expect(receive(.rejectExtInd(opcode: 0x14, .llProcedureCollision), &control).isEmpty)
    #expect(control.deadline == nil)
    #expect(!control.isBusy)
  }

  @Test func answersNobodyAskedForAreIgnored() {
    var control = machine(isCentral: true)
    let lengths = LLControlPDU.DataLengths(maxRxOctets: 251, maxRxTime: 2120, maxTxOctets: 251, maxTxTime: 2120)
    #expect(receive(.featureRsp(1), &control).isEmpty)
    #expect(receive(.lengthRsp(lengths), &control).isEmpty)
    #expect(receive(.rejectInd(.llProcedureCollision), &control).isEmpty)
    #expect(receive(.pingRsp, &control).isEmpty)
    #expect(control.effective == .minimum)
    #expect(receive(.pingReq, &control) == [.send(.pingRsp)])
  }

  @Test func lengthsBelowTheMinimumCountAsTheMinimum() {
    var control = machine(isCentral: false)
    let tiny = LLControlPDU.DataLengths(maxRxOctets: 1, maxRxTime: 1, maxTxOctets: 0, maxTxTime: 0)
    #expect(receive(.lengthReq(tiny), &control) == [.send(.lengthRsp(control.local))])
    #expect(control.effective == .minimum)
    #expect(control.txOctets == 27)
    let huge = LLControlPDU.DataLengths(maxRxOctets: .max, maxRxTime: .max, maxTxOctets: .max, maxTxTime: .max)
    #expect(receive(.lengthReq(huge), &control).first == .reportDataLength)
    #expect(control.txOctets == 251)
    #expect(control.rxOctets == 251)
  }

  @Test func anyScriptOfPDUsIsSurvived() {
    var random = SeededGenerator(seed: 41)
    for round in 0..<30 {
      var control = machine(isCentral: round.isMultiple(of: 2))
      var event: UInt16 = 0
      for _ in 0..<500 {
        var actions: [LinkControl.Action] = []
        let count = Int.random(in: 1...26, using: &random)
        var bytes = (0..<count).map { _ in UInt8.random(in: 0...255, using: &random) }
        bytes[0] %= 0x16
        if let pdu = try? LLControlPDU.decode(bytes) {
          control.receive(pdu, eventCounter: event, now: .zero, into: &actions)
          // An answer, and the request of the procedure whose turn it is.
          let sent = actions.filter { if case .send = $0 { true } else { false } }
          #expect(sent.count <= 2, "seed 41")
        }
        if control.isFull { continue }
        switch Int.random(in: 0..<4, using: &random) {
        case 0: control.start(.dataLength, now: .zero, into: &actions)
        case 1: control.start(.versionExchange, now: .zero, into: &actions)
        case 2: _ = control.chooseInstant(eventCounter: event, latency: 3)
        default: _ = control.takeChange(eventCounter: event, now: .zero, into: &actions)
        }
        event &+= UInt16.random(in: 0...3, using: &random)
        #expect((27...251).contains(control.txOctets), "seed 41")
      }
    }
  }

  // MARK: - Collisions

  private func parameters(_ interval: UInt16, latency: UInt16 = 0) -> ConnectionParameterRange {
    ConnectionParameterRange(
      intervalMin: ConnectionInterval(rawValue: interval), intervalMax: ConnectionInterval(rawValue: interval),
      latency: latency, supervisionTimeout: SupervisionTimeout(rawValue: 200))
  }

  private func request(_ interval: UInt16) -> LLControlPDU {
    .connectionParamReq(.init(parameters(interval), referenceEventCount: 0))
  }

  @Test func theCentralRejectsTheSameProcedure() {
    var phy = machine(isCentral: true)
    _ = start(.phyUpdate, &phy)
    let asked = LLControlPDU.phyReq(tx: .le2M, rx: .le2M)
    #expect(receive(asked, &phy) == [.send(.rejectExtInd(opcode: 0x16, .llProcedureCollision))])
    #expect(phy.isAwaiting(.phyUpdate))
    for procedure in [
      LinkControl.Procedure.parameterRequest(parameters(40)),
      .connectionUpdate(
        .init(
          interval: ConnectionInterval(rawValue: 40), latency: 0, supervisionTimeout: SupervisionTimeout(rawValue: 200))
      ),
    ] {
      var update = machine(isCentral: true)
      _ = start(procedure, &update)
      #expect(receive(request(80), &update) == [.send(.rejectExtInd(opcode: 0x0F, .llProcedureCollision))])
    }
  }

  @Test func theCentralRejectsAnotherProcedureWithAnInstant() {
    var map = machine(isCentral: true)
    _ = start(.channelMap(0xFF), &map)
    #expect(receive(request(80), &map) == [.send(.rejectExtInd(opcode: 0x0F, .differentTransactionCollision))])
    let asked = LLControlPDU.phyReq(tx: .le2M, rx: .le2M)
    #expect(receive(asked, &map) == [.send(.rejectExtInd(opcode: 0x16, .differentTransactionCollision))])
    // And on to the instant; then it may be asked again.
    #expect(map.chooseInstant(eventCounter: 10, latency: 0) == 16)
    #expect(receive(asked, &map) == [.send(.rejectExtInd(opcode: 0x16, .differentTransactionCollision))])
    var actions: [LinkControl.Action] = []
    #expect(map.takeChange(eventCounter: 16, now: .zero, into: &actions)?.content == .channelMap(0xFF))
    #expect(receive(asked, &map) == [.send(.phyUpdateInd(central: .le2M, peripheral: .le2M, instant: 0))])
  }

  @Test func thePeripheralGivesWay() {
    var peripheral = machine(isCentral: false)
    _ = start(.parameterRequest(parameters(80)), &peripheral)
    // The Central's own update is taken for the answer, and its rejection then has nothing to reject.
    #expect(receive(update(instant: 106), &peripheral).isEmpty)
    #expect(peripheral.change?.isLocal == true)
    #expect(receive(.rejectExtInd(opcode: 0x0F, .llProcedureCollision), &peripheral).isEmpty)
    var phy = machine(isCentral: false)
    _ = start(.phyUpdate, &phy)
    let all = PHYPreference.all
    #expect(receive(.phyReq(tx: .le2M, rx: .le2M), &phy) == [.send(.phyRsp(tx: all, rx: all))])
    let rejected = receive(.rejectExtInd(opcode: 0x16, .llProcedureCollision), &phy)
    #expect(rejected == [.reportPHY(.llProcedureCollision)])
    #expect(receive(.phyUpdateInd(central: .le2M, peripheral: [], instant: 120), &phy).isEmpty)
    #expect(phy.change?.content == .phys(tx: .le1M, rx: .le2M))
    #expect(phy.change?.isLocal == false)
  }

  @Test func procedureWithoutInstantsGoOnBesideTheOthers() {
    var central = machine(isCentral: true)
    _ = start(.channelMap(0xFF), &central)
    #expect(receive(.pingReq, &central) == [.send(.pingRsp)])
    #expect(receive(.peripheralFeatureReq(0), &central).count == 1)
    #expect(receive(.clockAccuracyReq(7), &central) == [.usePeerClock(7), .send(.clockAccuracyRsp(5))])
  }

  // MARK: - Others

  @Test func physThatAreNoneLoseTheLink() {
    var peripheral = machine(isCentral: false)
    let two = LLControlPDU.phyUpdateInd(central: [.le1M, .le2M], peripheral: [], instant: 120)
    #expect(receive(two, &peripheral) == [.lose(.unsupportedLLParameterValue)])
    let unknown = LLControlPDU.phyUpdateInd(central: PHYMask(rawValue: 0x10), peripheral: [], instant: 120)
    #expect(receive(unknown, &peripheral) == [.lose(.unsupportedLLParameterValue)])
    let passed = LLControlPDU.phyUpdateInd(central: .le2M, peripheral: [], instant: 90)
    #expect(receive(passed, &peripheral) == [.lose(.instantPassed)])
  }

  @Test func parametersThatMakeNoSenseAreRejected() {
    var central = machine(isCentral: true)
    #expect(receive(request(5), &central) == [.send(.rejectExtInd(opcode: 0x0F, .invalidLLParameters))])
    var short = LLControlPDU.ConnectionParam(parameters(40, latency: 100), referenceEventCount: 0)
    #expect(
      receive(.connectionParamReq(short), &central)
        == [.send(.rejectExtInd(opcode: 0x0F, .invalidLLParameters))])
    short = LLControlPDU.ConnectionParam(parameters(40), referenceEventCount: 0)
    short.preferredPeriodicity = 41
    #expect(
      receive(.connectionParamReq(short), &central)
        == [.send(.rejectExtInd(opcode: 0x0F, .invalidLLParameters))])
  }

  @Test func thePeerMayWantMoreChannels() {
    var central = machine(isCentral: true)
    #expect(receive(.minUsedChannelsInd(phys: .le1M, count: 20), &central) == [.useChannels(20)])
    // Of a PHY that is not used, or out of range.
    #expect(receive(.minUsedChannelsInd(phys: .le2M, count: 20), &central).isEmpty)
    #expect(receive(.minUsedChannelsInd(phys: .le1M, count: 1), &central).isEmpty)
    #expect(receive(.minUsedChannelsInd(phys: .le1M, count: 38), &central).isEmpty)
    var peripheral = machine(isCentral: false)
    #expect(
      receive(.minUsedChannelsInd(phys: .le1M, count: 20), &peripheral) == [.send(.unknownRsp(opcode: 0x19))])
  }

  // MARK: - Encryption

  private let key = [UInt8](repeating: 7, count: 16)

  private func enable(_ central: inout LinkControl) -> [LinkControl.Action] {
    start(.encryption(.init(randomNumber: 1, diversifier: 2, longTermKey: key)), &central)
  }

  /// Data and control PDUs between LL_ENC_RSP and the end of the procedure: somebody else's.
  @Test func whatComesInBetweenLosesTheLink() {
    let half = LLControlPDU.SessionHalf(skd: 3, iv: 4)
    let failure = [LinkControl.Action.lose(.terminatedDueToMICFailure)]
    for pdu in [LLControlPDU.pingReq, .featureReq(0), .versionInd(version: 1, company: 2, subversion: 3)] {
      var central = machine(isCentral: true)
      _ = enable(&central)
      // Before it the Peripheral may not know yet; the answer waits.
      #expect(receive(pdu, &central).isEmpty || pdu.opcode == 0x08)
      _ = receive(.encRsp(half), &central)
      #expect(receive(pdu, &central) == failure)
      var peripheral = machine(isCentral: false)
      _ = receive(.encReq(.init(randomNumber: 1, diversifier: 2, half: half)), &peripheral)
      #expect(receive(pdu, &peripheral) == failure)
    }
    var central = machine(isCentral: true)
    _ = enable(&central)
    var actions: [LinkControl.Action] = []
    let isTaken = central.receiveData(into: &actions)
    #expect(isTaken)
    _ = receive(.encRsp(half), &central)
    let isTakenLater = central.receiveData(into: &actions)
    #expect(!isTakenLater)
    #expect(actions == failure)
  }

  @Test func whatMayComeInBetweenDoes() {
    let half = LLControlPDU.SessionHalf(skd: 3, iv: 4)
    var central = machine(isCentral: true)
    #expect(enable(&central).first == .holdData)
    _ = receive(.encRsp(half), &central)
    #expect(receive(.terminateInd(.remoteUserTerminatedConnection), &central).count == 1)
    #expect(receive(.unknownRsp(opcode: 0x14), &central).isEmpty)
    let refused = receive(.rejectExtInd(opcode: 0x03, .pinOrKeyMissing), &central)
    #expect(refused == [.reportEncryption(.pinOrKeyMissing, isRefresh: false), .encryptionEnded])
    #expect(!central.encryption.isBusy)
  }

  @Test func aPeerWithoutEncryptionDoesNotKnowTheRequest() {
    var central = machine(isCentral: true)
    _ = enable(&central)
    let refused = receive(.unknownRsp(opcode: 0x03), &central)
    #expect(refused == [.reportEncryption(.unsupportedRemoteFeature, isRefresh: false), .encryptionEnded])
  }

  @Test func encryptionPDUsOutOfPlaceAreIgnoredOrUnknown() {
    let half = LLControlPDU.SessionHalf(skd: 3, iv: 4)
    for pdu in [LLControlPDU.encRsp(half), .startEncReq, .startEncRsp, .pauseEncRsp] {
      var central = machine(isCentral: true)
      #expect(receive(pdu, &central).isEmpty)
      var peripheral = machine(isCentral: false)
      #expect(receive(pdu, &peripheral).isEmpty)
    }
    var peripheral = machine(isCentral: false)
    #expect(receive(.pauseEncReq, &peripheral) == [.send(.unknownRsp(opcode: 0x0A))])
    var central = machine(isCentral: true)
    let request = LLControlPDU.encReq(.init(randomNumber: 1, diversifier: 2, half: half))
    #expect(receive(request, &central) == [.send(.unknownRsp(opcode: 0x03))])
  }
}
