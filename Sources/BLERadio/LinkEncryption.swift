// SPDX-License-Identifier: Apache-2.0

import BLECore
import BLEHCI

/// The encryption of one connection: its start, its pause and the change of its key (Vol 6 Part B 5.1.3).
///
///      Central:    off --> requesting --ENC_RSP--> awaiting start --START_ENC_REQ--> confirming --START_ENC_RSP--> on
///                  on --> pausing --PAUSE_ENC_RSP--> requesting ...
///      Peripheral: off --ENC_REQ--> awaiting key --the host's key--> starting --START_ENC_RSP--> on
///                  on --PAUSE_ENC_REQ--> paused ... --ENC_REQ--> awaiting key ...
///
/// From the first PDU to the end neither side sends data, nor control PDUs of other procedures. Whoever gets one from a
/// peer that knows of the procedure leaves at once with MIC failure: it would have been sent in clear by somebody else.
struct LinkEncryption {
  /// LE Enable Encryption.
  struct Request: Hashable {
    var randomNumber: UInt64
    var diversifier: UInt16
    /// Least significant octet first.
    var longTermKey: [UInt8]
  }

  private enum Phase: Hashable {
    case off
    case on
    // Central
    case pausing(Request)
    case requesting(Request, LLControlPDU.SessionHalf)
    case awaitingStart
    case confirming
    // Peripheral
    /// `isClear`: the Central's answer has come, in clear.
    case paused(isClear: Bool)
    case awaitingKey(central: LLControlPDU.SessionHalf, own: LLControlPDU.SessionHalf)
    case starting
  }

  private let isCentral: Bool
  private var phase = Phase.off
  /// The link was encrypted before: the host hears of a new key, not of a start.
  private var isRefresh = false
  /// The session's key and counters, from the moment when both halves and the key are known.
  private(set) var cipher: LinkCipher?
  /// When the peer's next PDU of this procedure is late, at the Peripheral.
  private(set) var deadline: Instant?

  init(isCentral: Bool) { self.isCentral = isCentral }

  /// Whether the procedure is under way: other PDUs wait.
  var isBusy: Bool { phase != .off && phase != .on }
  /// Whether data is encrypted both ways.
  var isOn: Bool { phase == .on }
  /// Whether the host is asked for a key.
  var isAwaitingKey: Bool {
    if case .awaitingKey = phase { return true }
    return false
  }

  /// Whether the peer knows of the procedure, and so sends nothing but its PDUs.
  var isGuarded: Bool {
    switch phase {
    case .off, .on, .pausing: false
    case .requesting: isRefresh
    case .awaitingStart, .confirming, .paused, .awaitingKey, .starting: true
    }
  }

  // MARK: - From the host

  /// Central: starts encryption, or changes the key.
  mutating func start(_ request: Request, half: LLControlPDU.SessionHalf, into actions: inout [LinkControl.Action]) {
    isRefresh = phase == .on
    actions.append(.holdData)
    if isRefresh {
      phase = .pausing(request)
      actions.append(.send(.pauseEncReq))
    } else {
      sendRequest(request, half, into: &actions)
    }
  }

  private mutating func sendRequest(
    _ request: Request, _ half: LLControlPDU.SessionHalf, into actions: inout [LinkControl.Action]
  ) {
    phase = .requesting(request, half)
    actions.append(
      .send(
        .encReq(
          LLControlPDU.EncryptionRequest(
            randomNumber: request.randomNumber, diversifier: request.diversifier, half: half))))
  }

  /// Peripheral: the host's answer; `nil`: it has no key.
  mutating func answer(
    _ longTermKey: [UInt8]?, usesExtendedReject: Bool, now: Instant, into actions: inout [LinkControl.Action]
  ) {
    guard case .awaitingKey(let central, let own) = phase else { return }
    if let longTermKey {
      cipher = LinkCipher(longTermKey: longTermKey, central: central, peripheral: own, isCentral: false)
      guard cipher != nil else { return actions.append(.lose(.hardwareFailure)) }
      phase = .starting
      deadline = now + LinkLayer.procedureTimeout
      actions.append(.send(.startEncReq))
    } else if isRefresh {
      phase = .paused(isClear: true)
      actions.append(.terminate(.pinOrKeyMissing))
    } else {
      phase = .off
      actions.append(
        .send(
          usesExtendedReject ? .rejectExtInd(opcode: 0x03, .pinOrKeyMissing) : .rejectInd(.pinOrKeyMissing)))
      actions.append(.encryptionEnded)
    }
  }

  // MARK: - From the link

  /// A PDU of this procedure went out for the first time.
  mutating func transmitted(_ opcode: UInt8, into actions: inout [LinkControl.Action]) {
    switch (opcode, phase) {
    case (0x05, .starting): actions.append(.encryptReception(true))
    case (0x0B, .paused(isClear: false)): actions.append(.encryptReception(false))
    default: break
    }
  }

  /// A PDU came that is none of this procedure's, nor one that may come at any time.
  mutating func receiveOther(into actions: inout [LinkControl.Action]) {
    actions.append(.lose(.terminatedDueToMICFailure))
  }

  /// One of 0x03-0x06, 0x0A and 0x0B. `half` is random.
  ///
  /// - Returns: `false` if it makes no sense now and is to be answered as one that is not understood.
  mutating func receive(
    _ pdu: LLControlPDU, half: LLControlPDU.SessionHalf, now: Instant, into actions: inout [LinkControl.Action]
  ) -> Bool {
    switch (pdu, phase) {
    case (.encReq(let request), .off) where !isCentral:
      isRefresh = false
      receiveRequest(request, half, into: &actions)
    case (.encReq(let request), .paused(isClear: true)): receiveRequest(request, half, into: &actions)
    case (.encRsp(let peer), .requesting(let request, let own)):
      cipher = LinkCipher(longTermKey: request.longTermKey, central: own, peripheral: peer, isCentral: true)
      phase = .awaitingStart
    case (.startEncReq, .awaitingStart):
      phase = .confirming
      actions += [.encryptTransmission(true), .encryptReception(true), .send(.startEncRsp)]
    case (.startEncRsp, .confirming): succeed(into: &actions)
    case (.startEncRsp, .starting):
      actions += [.encryptTransmission(true), .send(.startEncRsp)]
      succeed(into: &actions)
    case (.pauseEncReq, .on) where !isCentral:
      isRefresh = true
      phase = .paused(isClear: false)
      deadline = now + LinkLayer.procedureTimeout
      actions += [.holdData, .send(.pauseEncRsp)]
    case (.pauseEncRsp, .pausing(let request)):
      actions += [.encryptTransmission(false), .encryptReception(false), .send(.pauseEncRsp)]
      sendRequest(request, half, into: &actions)
    case (.pauseEncRsp, .paused(isClear: false)):
      phase = .paused(isClear: true)
      deadline = now + LinkLayer.procedureTimeout
      actions.append(.encryptTransmission(false))
    default:
      guard isGuarded else { return false }
      receiveOther(into: &actions)
    }
    return true
  }

  private mutating func receiveRequest(
    _ request: LLControlPDU.EncryptionRequest, _ half: LLControlPDU.SessionHalf,
    into actions: inout [LinkControl.Action]
  ) {
    phase = .awaitingKey(central: request.half, own: half)
    deadline = nil
    if !isRefresh { actions.append(.holdData) }
    actions += [.send(.encRsp(half)), .askForKey(request.randomNumber, request.diversifier)]
  }

  private mutating func succeed(into actions: inout [LinkControl.Action]) {
    phase = .on
    deadline = nil
    actions += [.reportEncryption(.success, isRefresh: isRefresh), .encryptionEnded]
  }

  /// The Peripheral does not encrypt the link. `false`: that was not the question.
  mutating func refused(_ reason: HCIStatus, into actions: inout [LinkControl.Action]) -> Bool {
    switch phase {
    case .requesting, .awaitingStart:
      guard !isRefresh else {
        actions.append(.terminate(reason))
        return true
      }
      phase = .off
    case .pausing: phase = .on
    case .off, .on, .confirming, .paused, .awaitingKey, .starting: return false
    }
    actions += [.reportEncryption(reason, isRefresh: isRefresh), .encryptionEnded]
    return true
  }
}
