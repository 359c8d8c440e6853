// SPDX-License-Identifier: Apache-2.0

import BLECore
import BLEHCI

extension LEFeatures {
  /// Everything that this controller does.
  static let local: LEFeatures = [
    .extendedRejectIndication, .peripheralInitiatedFeaturesExchange, .dataPacketLengthExtension,
    .llPrivacy, .extendedScannerFilterPolicies, .extendedAdvertising, .channelSelectionAlgorithm2,
  ]
}

/// What LL_VERSION_IND says of this controller: 5.3, no assigned company.
enum LocalVersion {
  static let version: UInt8 = 0x0C
  static let company: UInt16 = 0xFFFF
  static let subversion: UInt16 = 0x0001
}

/// The LL control procedures of one connection (Vol 6 Part B 5.1): at most one started here at a time, the others wait;
/// beside it those of the peer.
///
/// Both sides may start Data Length Update and Feature Exchange at once; each answers the other's request. Procedures
/// with an instant are started by the Central alone, since the Connection Parameters Request procedure is not supported:
/// they cannot collide.
struct LinkControl {
  /// A procedure that this side can start.
  enum Procedure: Hashable {
    case connectionUpdate(ConnectionParameters)
    case channelMap(UInt64)
    case featureExchange
    case versionExchange
    case dataLength
  }

  /// A change that both sides make at the connection event `instant`.
  struct Change: Hashable {
    enum Content: Hashable {
      case parameters(ConnectionParameters, winSize: UInt8, winOffset: UInt16)
      case channelMap(UInt64)
    }
    var content: Content
    var instant: UInt16
    /// Started here: then its host hears of it in any case.
    var isLocal: Bool
  }

  /// What the connection is to do; done in order.
  enum Action: Hashable {
    case send(LLControlPDU)
    case reportFeatures(HCIStatus, UInt64)
    case reportVersion(HCIStatus, version: UInt8, company: UInt16, subversion: UInt16)
    case reportDataLength
    /// The peer ends the connection: acknowledge, then leave.
    case leave(HCIStatus)
    /// The connection is lost at once.
    case lose(HCIStatus)
  }

  private enum State: Hashable {
    case idle
    /// Waits for the peer's answer until `deadline`.
    case awaitingAnswer(Procedure, deadline: Instant)
    /// The indication is queued; its instant is chosen when it is sent for the first time.
    case awaitingTransmission(Procedure)
    /// Both sides change at the instant.
    case awaitingInstant
  }

  private static let waitingMax = 16

  let isCentral: Bool
  private var state = State.idle
  private var waiting: [Procedure] = []
  private(set) var change: Change?
  private var remoteFeatures: UInt64?
  private var remoteVersion: (version: UInt8, company: UInt16, subversion: UInt16)?
  private var versionSent = false
  /// The peer has started Data Length Update.
  private(set) var peerStartedDataLength = false
  /// What this side wants, and what the peer said.
  private(set) var local: LLControlPDU.DataLengths
  private var remote = LLControlPDU.DataLengths.minimum
  /// What holds for the link.
  private(set) var effective = LLControlPDU.DataLengths.minimum

  init(isCentral: Bool, maxTxOctets: UInt16, maxTxTime: UInt16) {
    self.isCentral = isCentral
    local = LLControlPDU.DataLengths(
      maxRxOctets: LinkLayer.dataOctetsMax, maxRxTime: LinkLayer.dataTimeMax, maxTxOctets: maxTxOctets,
      maxTxTime: maxTxTime)
  }

  /// When the procedure that waits for an answer has failed.
  var deadline: Instant? {
    if case .awaitingAnswer(_, let deadline) = state { return deadline }
    return nil
  }

  /// Whether so many procedures wait that the host must ask again later.
  var isFull: Bool { waiting.count >= Self.waitingMax }

  /// Whether the Peripheral must not sleep: something is under way that needs its answer or its instant.
  var isBusy: Bool { state != .idle || change != nil }

  // MARK: - Started here

  /// Starts `procedure`, or remembers it until its turn.
  mutating func start(_ procedure: Procedure, now: Instant, into actions: inout [Action]) {
    waiting.append(procedure)
    startNext(now: now, into: &actions)
  }

  /// LE Set Data Length.
  mutating func setDataLength(octets: UInt16, time: UInt16, now: Instant, into actions: inout [Action]) {
    guard (local.maxTxOctets, local.maxTxTime) != (octets, time) else { return }
    local.maxTxOctets = octets
    local.maxTxTime = time
    start(.dataLength, now: now, into: &actions)
  }

  private mutating func startNext(now: Instant, into actions: inout [Action]) {
    while state == .idle, !waiting.isEmpty {
      begin(waiting.removeFirst(), now: now, into: &actions)
    }
  }

  private mutating func begin(_ procedure: Procedure, now: Instant, into actions: inout [Action]) {
    let awaiting = State.awaitingAnswer(procedure, deadline: now + LinkLayer.procedureTimeout)
    switch procedure {
    case .connectionUpdate(let parameters):
      state = .awaitingTransmission(procedure)
      actions.append(
        .send(
          .connectionUpdateInd(
            winSize: 1, winOffset: 0, interval: parameters.interval, latency: parameters.latency,
            timeout: parameters.supervisionTimeout, instant: 0)))
    case .channelMap(let map):
      state = .awaitingTransmission(procedure)
      actions.append(.send(.channelMapInd(channelMap: map, instant: 0)))
    case .featureExchange:
      if let remoteFeatures {
        actions.append(.reportFeatures(.success, remoteFeatures))
      } else {
        state = awaiting
        actions.append(
          .send(isCentral ? .featureReq(LEFeatures.local.rawValue) : .peripheralFeatureReq(LEFeatures.local.rawValue)))
      }
    case .versionExchange:
      if remoteVersion != nil {
        reportVersion(into: &actions)
      } else {
        state = awaiting
        sendVersion(into: &actions)
      }
    case .dataLength:
      state = awaiting
      actions.append(.send(.lengthReq(local)))
    }
  }

  /// The indication of a procedure with an instant goes out for the first time in the event `eventCounter`.
  ///
  /// - Returns: the instant to write into it.
  mutating func chooseInstant(eventCounter: UInt16, latency: UInt16) -> UInt16? {
    guard case .awaitingTransmission(let procedure) = state else { return nil }
    let instant = eventCounter &+ LinkLayer.instantDistance &+ latency
    switch procedure {
    case .connectionUpdate(let parameters):
      change = Change(content: .parameters(parameters, winSize: 1, winOffset: 0), instant: instant, isLocal: true)
    case .channelMap(let map): change = Change(content: .channelMap(map), instant: instant, isLocal: true)
    case .featureExchange, .versionExchange, .dataLength: return nil
    }
    state = .awaitingInstant
    return instant
  }

  /// The event `eventCounter` begins: the change that is due, if any.
  mutating func takeChange(eventCounter: UInt16, now: Instant, into actions: inout [Action]) -> Change? {
    guard let due = change, due.instant == eventCounter else { return nil }
    change = nil
    if due.isLocal {
      state = .idle
      startNext(now: now, into: &actions)
    }
    return due
  }

  // MARK: - From the peer

  mutating func receive(_ pdu: LLControlPDU, eventCounter: UInt16, now: Instant, into actions: inout [Action]) {
    switch pdu {
    case .connectionUpdateInd(let winSize, let winOffset, let interval, let latency, let timeout, let instant):
      guard !isCentral else { return reject(pdu, into: &actions) }
      let range = ConnectionParameterRange(
        intervalMin: interval, intervalMax: interval, latency: latency, supervisionTimeout: timeout)
      guard range.isValid, (1...8).contains(winSize), winOffset <= interval.rawValue else {
        return actions.append(.lose(.invalidLLParameters))
      }
      let parameters = ConnectionParameters(interval: interval, latency: latency, supervisionTimeout: timeout)
      accept(
        .parameters(parameters, winSize: winSize, winOffset: winOffset), instant, eventCounter, into: &actions)
    case .channelMapInd(let map, let instant):
      guard !isCentral else { return reject(pdu, into: &actions) }
      guard (map & LinkLayer.allDataChannels).nonzeroBitCount >= 2 else {
        return actions.append(.lose(.invalidLLParameters))
      }
      accept(.channelMap(map), instant, eventCounter, into: &actions)
    case .terminateInd(let reason): actions.append(.leave(reason))
    case .featureReq(let features):
      guard !isCentral else { return reject(pdu, into: &actions) }
      answerFeatures(features, into: &actions)
    case .peripheralFeatureReq(let features):
      guard isCentral else { return reject(pdu, into: &actions) }
      answerFeatures(features, into: &actions)
    case .featureRsp(let features):
      guard isAwaiting(.featureExchange) else { return }
      remoteFeatures = features
      actions.append(.reportFeatures(.success, features))
      finish(now: now, into: &actions)
    case .versionInd(let version, let company, let subversion):
      receiveVersion((version, company, subversion), now: now, into: &actions)
    case .lengthReq(let lengths):
      peerStartedDataLength = true
      waiting.removeAll { $0 == .dataLength }
      setRemote(lengths, into: &actions)
      actions.append(.send(.lengthRsp(local)))
    case .lengthRsp(let lengths):
      guard isAwaiting(.dataLength) else { return }
      setRemote(lengths, into: &actions)
      finish(now: now, into: &actions)
    case .pingReq: actions.append(.send(.pingRsp))
    case .pingRsp: break
    case .unknownRsp(let opcode): refused(opcode, .unsupportedRemoteFeature, now: now, into: &actions)
    case .rejectExtInd(let opcode, let reason): refused(opcode, reason, now: now, into: &actions)
    case .rejectInd(let reason): refused(nil, reason, now: now, into: &actions)
    case .unknown: reject(pdu, into: &actions)
    }
  }

  private func isAwaiting(_ procedure: Procedure) -> Bool {
    if case .awaitingAnswer(procedure, _) = state { return true }
    return false
  }

  /// A PDU that this side does not understand, or that its sender's role must not send.
  private func reject(_ pdu: LLControlPDU, into actions: inout [Action]) {
    switch pdu.opcode {
    case 0x02, 0x07, 0x0D, 0x11: break  // Never answered, lest two devices answer each other for ever.
    default: actions.append(.send(.unknownRsp(opcode: pdu.opcode)))
    }
  }

  private mutating func accept(
    _ content: Change.Content, _ instant: UInt16, _ eventCounter: UInt16, into actions: inout [Action]
  ) {
    let distance = instant &- eventCounter
    guard distance > 0, distance < 32767 else { return actions.append(.lose(.instantPassed)) }
    guard change == nil else { return actions.append(.lose(.differentTransactionCollision)) }
    change = Change(content: content, instant: instant, isLocal: false)
  }

  private mutating func answerFeatures(_ features: UInt64, into actions: inout [Action]) {
    remoteFeatures = features
    actions.append(.send(.featureRsp(features & LEFeatures.local.rawValue)))
  }

  private mutating func receiveVersion(
    _ version: (version: UInt8, company: UInt16, subversion: UInt16), now: Instant, into actions: inout [Action]
  ) {
    remoteVersion = version
    sendVersion(into: &actions)
    guard isAwaiting(.versionExchange) else { return }
    reportVersion(into: &actions)
    finish(now: now, into: &actions)
  }

  /// Each side says its version once.
  private mutating func sendVersion(into actions: inout [Action]) {
    guard !versionSent else { return }
    versionSent = true
    actions.append(
      .send(
        .versionInd(
          version: LocalVersion.version, company: LocalVersion.company, subversion: LocalVersion.subversion)))
  }

  private func reportVersion(into actions: inout [Action]) {
    guard let remoteVersion else { return }
    actions.append(
      .reportVersion(
        .success, version: remoteVersion.version, company: remoteVersion.company,
        subversion: remoteVersion.subversion))
  }

  /// The peer does not do what was asked by the PDU `opcode` (nil: whatever was asked last).
  private mutating func refused(_ opcode: UInt8?, _ reason: HCIStatus, now: Instant, into actions: inout [Action]) {
    guard case .awaitingAnswer(let procedure, _) = state else { return }
    switch procedure {
    case .featureExchange:
      guard opcode == nil || opcode == 0x08 || opcode == 0x0E else { return }
      actions.append(.reportFeatures(reason, 0))
    case .versionExchange:
      guard opcode == nil || opcode == 0x0C else { return }
      actions.append(.reportVersion(reason, version: 0, company: 0, subversion: 0))
    case .dataLength:
      guard opcode == nil || opcode == 0x14 else { return }
    case .connectionUpdate, .channelMap: return
    }
    finish(now: now, into: &actions)
  }

  private mutating func finish(now: Instant, into actions: inout [Action]) {
    state = .idle
    startNext(now: now, into: &actions)
  }

  // MARK: - Data length

  /// Values below the minimum count as the minimum (4.5.10).
  private mutating func setRemote(_ lengths: LLControlPDU.DataLengths, into actions: inout [Action]) {
    let minimum = LLControlPDU.DataLengths.minimum
    remote = LLControlPDU.DataLengths(
      maxRxOctets: max(lengths.maxRxOctets, minimum.maxRxOctets), maxRxTime: max(lengths.maxRxTime, minimum.maxRxTime),
      maxTxOctets: max(lengths.maxTxOctets, minimum.maxTxOctets), maxTxTime: max(lengths.maxTxTime, minimum.maxTxTime))
    let agreed = LLControlPDU.DataLengths(
      maxRxOctets: min(local.maxRxOctets, remote.maxTxOctets), maxRxTime: min(local.maxRxTime, remote.maxTxTime),
      maxTxOctets: min(local.maxTxOctets, remote.maxRxOctets), maxTxTime: min(local.maxTxTime, remote.maxRxTime))
    guard agreed != effective else { return }
    effective = agreed
    actions.append(.reportDataLength)
  }

  /// Octets that one PDU sent may have: by number and by time (which counts 4 octets of MIC and 10 of frame).
  var txOctets: Int { max(27, min(Int(effective.maxTxOctets), Int(effective.maxTxTime) / 8 - 14)) }
  /// Octets that one PDU received may have.
  var rxOctets: Int { max(27, min(Int(effective.maxRxOctets), Int(effective.maxRxTime) / 8 - 14)) }
}

extension LLControlPDU.DataLengths {
  /// What holds until Data Length Update says otherwise.
  static let minimum = LLControlPDU.DataLengths(
    maxRxOctets: LinkLayer.dataOctetsMin, maxRxTime: LinkLayer.dataTimeMin, maxTxOctets: LinkLayer.dataOctetsMin,
    maxTxTime: LinkLayer.dataTimeMin)
}
