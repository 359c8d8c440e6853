// SPDX-License-Identifier: Apache-2.0

import BLECore
import BLEHCI

/// The PHYs that a host prefers for a connection, and the coding for its packets on the coded one (Vol 4 Part E 7.8.48,
/// 7.8.49).
struct PHYPreference: Hashable {
  static let all: PHYMask = [.le1M, .le2M, .leCoded]

  var tx = all
  var rx = all
  var coding = AirCoding.s8
}

extension AirPHY {
  /// The PHY that is meant by the only bit of `mask`.
  init?(_ mask: PHYMask) {
    switch mask {
    case .le1M: self = .le1M
    case .le2M: self = .le2M
    case .leCoded: self = .leCoded
    default: return nil
    }
  }

  var mask: PHYMask {
    switch self {
    case .le1M: .le1M
    case .le2M: .le2M
    case .leCoded: .leCoded
    }
  }

  /// The fastest of those in `mask`; nil if there is none.
  fileprivate static func best(_ mask: PHYMask) -> AirPHY? {
    if mask.contains(.le2M) { return .le2M }
    if mask.contains(.le1M) { return .le1M }
    return mask.contains(.leCoded) ? .leCoded : nil
  }
}

/// Procedures that change something at an instant: Connection Update, Connection Parameters Request, Channel Map
/// Update and PHY Update (Vol 6 Part B 5.1.1, 5.1.2, 5.1.7, 5.1.10).
extension LinkControl {
  // MARK: - Instants

  /// Queues the indication of a change; its instant is chosen when it is sent.
  mutating func indicate(_ content: Change.Content, isLocal: Bool, into actions: inout [Action]) {
    indication = (content, isLocal)
    switch content {
    case .parameters(let parameters, let winSize, let winOffset):
      send(
        .connectionUpdateInd(
          winSize: winSize, winOffset: winOffset, interval: parameters.interval, latency: parameters.latency,
          timeout: parameters.supervisionTimeout, instant: 0), into: &actions)
    case .channelMap(let map): send(.channelMapInd(channelMap: map, instant: 0), into: &actions)
    case .phys(let tx, let rx):
      send(
        .phyUpdateInd(
          central: tx == txPHY ? [] : tx.mask, peripheral: rx == rxPHY ? [] : rx.mask, instant: 0), into: &actions)
    }
  }

  /// The indication goes out for the first time in the event `eventCounter`.
  ///
  /// - Returns: the instant to write into it.
  mutating func chooseInstant(eventCounter: UInt16, latency: UInt16) -> UInt16? {
    guard let (content, isLocal) = indication else { return nil }
    indication = nil
    let instant = eventCounter &+ LinkLayer.instantDistance &+ latency
    change = Change(content: content, instant: instant, isLocal: isLocal)
    return instant
  }

  /// The event `eventCounter` begins: the change that is due, if any.
  mutating func takeChange(eventCounter: UInt16, now: Instant, into actions: inout [Action]) -> Change? {
    guard let due = change, due.instant == eventCounter else { return nil }
    change = nil
    switch due.content {
    case .parameters(let new, _, _): parameters = new
    case .channelMap: break
    case .phys(let tx, let rx):
      txPHY = tx
      rxPHY = rx
      updateLengths(into: &actions)
    }
    if due.isLocal { state = .idle } else { remote = .none }
    startNext(now: now, into: &actions)
    return due
  }

  /// Peripheral: the Central says what changes, and when.
  mutating func receiveIndication(
    _ pdu: LLControlPDU, _ eventCounter: UInt16, now: Instant, into actions: inout [Action]
  ) {
    switch pdu {
    case .connectionUpdateInd(let winSize, let winOffset, let interval, let latency, let timeout, let instant):
      let range = ConnectionParameterRange(
        intervalMin: interval, intervalMax: interval, latency: latency, supervisionTimeout: timeout)
      guard range.isValid, (1...8).contains(winSize), winOffset <= interval.rawValue else {
        return actions.append(.lose(.invalidLLParameters))
      }
      let new = ConnectionParameters(interval: interval, latency: latency, supervisionTimeout: timeout)
      accept(.parameters(new, winSize: winSize, winOffset: winOffset), instant, eventCounter, into: &actions)
    case .channelMapInd(let map, let instant):
      guard (map & LinkLayer.allDataChannels).nonzeroBitCount >= 2 else {
        return actions.append(.lose(.invalidLLParameters))
      }
      accept(.channelMap(map), instant, eventCounter, into: &actions)
    case .phyUpdateInd(let central, let peripheral, let instant):
      guard central != [] || peripheral != [] else { return physStay(now: now, into: &actions) }
      guard let rx = central == [] ? rxPHY : AirPHY(central), let tx = peripheral == [] ? txPHY : AirPHY(peripheral)
      else { return actions.append(.lose(.unsupportedLLParameterValue)) }
      accept(.phys(tx: tx, rx: rx), instant, eventCounter, into: &actions)
    default: break
    }
  }

  private mutating func accept(
    _ content: Change.Content, _ instant: UInt16, _ eventCounter: UInt16, into actions: inout [Action]
  ) {
    let distance = instant &- eventCounter
    guard distance > 0, distance < 32767 else { return actions.append(.lose(.instantPassed)) }
    guard change == nil else { return actions.append(.lose(.differentTransactionCollision)) }
    let isLocal =
      switch (content, state) {
      case (.parameters, .awaitingAnswer(.parameterRequest, _)), (.phys, .awaitingAnswer(.phyUpdate, _)): true
      default: false
      }
    if isLocal, case .awaitingAnswer(let procedure, _) = state {
      state = .indicating(procedure)
    } else {
      remote = .indicating
    }
    change = Change(content: content, instant: instant, isLocal: isLocal)
  }

  // MARK: - Collisions

  /// Why the Central cannot take part in a procedure with an instant that the Peripheral starts; `isSame` tells whether
  /// its own one is the same.
  private func collision(_ isSame: (Procedure) -> Bool) -> HCIStatus? {
    switch state {
    case .awaitingAnswer(let own, _) where isCentral && own.hasInstant, .indicating(let own) where isCentral:
      return isSame(own) ? .llProcedureCollision : .differentTransactionCollision
    case .idle, .awaitingAnswer, .indicating: break
    }
    return remote != .none || change != nil ? .differentTransactionCollision : nil
  }

  // MARK: - Connection parameters

  mutating func beginParameterRequest(_ range: ConnectionParameterRange, into actions: inout [Action]) {
    // The reference only serves the offsets, and none is preferred.
    send(.connectionParamReq(LLControlPDU.ConnectionParam(range, referenceEventCount: 0)), into: &actions)
  }

  mutating func receiveParameterRequest(
    _ request: LLControlPDU.ConnectionParam, now: Instant, into actions: inout [Action]
  ) {
    let collision = collision { own in
      switch own {
      case .connectionUpdate, .parameterRequest: true
      default: false
      }
    }
    if let collision { return send(.rejectExtInd(opcode: 0x0F, collision), into: &actions) }
    guard request.isValid else { return send(.rejectExtInd(opcode: 0x0F, .invalidLLParameters), into: &actions) }
    remote = .askingHost(request)
    let range = request.range
    if range.latency == parameters.latency, range.supervisionTimeout == parameters.supervisionTimeout,
      range.intervalMin <= parameters.interval, parameters.interval <= range.intervalMax
    {
      // What there is will do; only the anchor points might move.
      answerParameterRequest(range, now: now, into: &actions)
    } else {
      actions.append(.askHost(range))
    }
  }

  /// Whether the host has been asked for its consent.
  var isAskingHost: Bool {
    if case .askingHost = remote { return true }
    return false
  }

  /// The host consents to parameters in `range`.
  mutating func answerParameterRequest(
    _ range: ConnectionParameterRange, now: Instant, into actions: inout [Action]
  ) {
    guard case .askingHost(let request) = remote else { return }
    if isCentral {
      remote = .indicating
      indicate(.parameters(chosen(range), winSize: 1, winOffset: 0), isLocal: false, into: &actions)
    } else {
      remote = .awaitingIndication(deadline: now + LinkLayer.procedureTimeout)
      let answer = LLControlPDU.ConnectionParam(range, referenceEventCount: request.referenceEventCount)
      send(.connectionParamRsp(answer), into: &actions)
    }
  }

  /// The host does not consent, or cannot be asked.
  mutating func refuseParameterRequest(_ reason: HCIStatus, now: Instant, into actions: inout [Action]) {
    guard case .askingHost = remote else { return }
    remote = .none
    send(.rejectExtInd(opcode: 0x0F, reason), into: &actions)
    startNext(now: now, into: &actions)
  }

  /// The interval that there is if it will do, else the longest.
  private func chosen(_ range: ConnectionParameterRange) -> ConnectionParameters {
    let isWithin = range.intervalMin <= parameters.interval && parameters.interval <= range.intervalMax
    return ConnectionParameters(
      interval: isWithin ? parameters.interval : range.intervalMax, latency: range.latency,
      supervisionTimeout: range.supervisionTimeout)
  }

  mutating func receiveParameterResponse(
    _ response: LLControlPDU.ConnectionParam, now: Instant, into actions: inout [Action]
  ) {
    guard isCentral, case .awaitingAnswer(.parameterRequest(let range), _) = state else { return }
    guard response.isValid else {
      send(.rejectExtInd(opcode: 0x10, .invalidLLParameters), into: &actions)
      actions.append(.reportUpdateFailed(.invalidLLParameters))
      return finish(now: now, into: &actions)
    }
    var agreed = response.range
    if max(agreed.intervalMin, range.intervalMin) <= min(agreed.intervalMax, range.intervalMax) {
      agreed.intervalMin = max(agreed.intervalMin, range.intervalMin)
      agreed.intervalMax = min(agreed.intervalMax, range.intervalMax)
    }
    state = .indicating(.parameterRequest(range))
    indicate(
      .parameters(
        ConnectionParameters(
          interval: agreed.intervalMax, latency: agreed.latency, supervisionTimeout: agreed.supervisionTimeout),
        winSize: 1, winOffset: 0), isLocal: true, into: &actions)
  }

  /// Where the Peripheral does not know the procedure, or cannot ask its host, the Central does not ask any more
  /// (5.1.7).
  mutating func parameterRequestRefused(
    _ range: ConnectionParameterRange, _ reason: HCIStatus, now: Instant, into actions: inout [Action]
  ) {
    if isCentral, reason == .unsupportedRemoteFeature {
      let parameters = ConnectionParameters(
        interval: range.intervalMax, latency: range.latency, supervisionTimeout: range.supervisionTimeout)
      return begin(.connectionUpdate(parameters), now: now, into: &actions)
    }
    actions.append(.reportUpdateFailed(reason))
    finish(now: now, into: &actions)
  }

  // MARK: - PHY

  mutating func receivePHYRequest(_ tx: PHYMask, _ rx: PHYMask, now: Instant, into actions: inout [Action]) {
    if let collision = collision({ $0 == .phyUpdate }) {
      return send(.rejectExtInd(opcode: 0x16, collision), into: &actions)
    }
    if isCentral {
      let (newTx, newRx) = choosePHYs(peerTx: tx, peerRx: rx)
      guard newTx != txPHY || newRx != rxPHY else {
        return send(.phyUpdateInd(central: [], peripheral: [], instant: 0), into: &actions)
      }
      remote = .indicating
      indicate(.phys(tx: newTx, rx: newRx), isLocal: false, into: &actions)
    } else {
      remote = .awaitingIndication(deadline: now + LinkLayer.procedureTimeout)
      send(.phyRsp(tx: preference.tx, rx: preference.rx), into: &actions)
    }
  }

  mutating func receivePHYResponse(_ tx: PHYMask, _ rx: PHYMask, now: Instant, into actions: inout [Action]) {
    guard isCentral, isAwaiting(.phyUpdate) else { return }
    let (newTx, newRx) = choosePHYs(peerTx: tx, peerRx: rx)
    if newTx == txPHY, newRx == rxPHY {
      send(.phyUpdateInd(central: [], peripheral: [], instant: 0), into: &actions)
      actions.append(.reportPHY(.success))
      finish(now: now, into: &actions)
    } else {
      state = .indicating(.phyUpdate)
      indicate(.phys(tx: newTx, rx: newRx), isLocal: true, into: &actions)
    }
  }

  /// The fastest PHYs that both sides like, for each direction; where there is none, what there is.
  private func choosePHYs(peerTx: PHYMask, peerRx: PHYMask) -> (tx: AirPHY, rx: AirPHY) {
    (
      AirPHY.best(preference.tx.intersection(peerRx)) ?? txPHY,
      AirPHY.best(preference.rx.intersection(peerTx)) ?? rxPHY
    )
  }

  /// Peripheral: the Central changes nothing.
  private mutating func physStay(now: Instant, into actions: inout [Action]) {
    if isAwaiting(.phyUpdate) {
      actions.append(.reportPHY(.success))
      finish(now: now, into: &actions)
    } else if case .awaitingIndication = remote {
      remote = .none
      startNext(now: now, into: &actions)
    }
  }
}
