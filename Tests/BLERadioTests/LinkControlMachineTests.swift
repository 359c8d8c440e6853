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
}
