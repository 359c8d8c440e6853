// SPDX-License-Identifier: Apache-2.0

import BLECore
import BLEHCI

extension LEFeatures {
  /// Everything that this controller does.
  static let local: LEFeatures = [
    .encryption, .connectionParametersRequest, .extendedRejectIndication, .peripheralInitiatedFeaturesExchange, .ping,
    .dataPacketLengthExtension, .llPrivacy, .phy2M, .phyCoded, .extendedAdvertising, .minimumNumberOfUsedChannels,
    .sleepClockAccuracyUpdates, .extendedScannerFilterPolicies, .channelSelectionAlgorithm2,
  ]
}

/// What LL_VERSION_IND says of this controller: 5.3, no assigned company.
enum LocalVersion {
  static let version: UInt8 = 0x0C
  static let company: UInt16 = 0xFFFF
  static let subversion: UInt16 = 0x0001
}

/// The LL control procedures of one connection (Vol 6 Part B 5.1): at most one started here at a time, the others wait;
/// beside it one of the peer.
///
/// Procedures that change something at an instant exclude each other. Where both sides start one at a time the Central's
/// goes on and the Peripheral's is rejected: with LL Procedure Collision if it is the same, else with Different
/// Transaction Collision (5.3). All others go on in parallel; each side answers the other's request.
struct LinkControl {
  /// A procedure that this side can start.
  enum Procedure: Hashable {
    /// Central.
    case connectionUpdate(ConnectionParameters)
    case parameterRequest(ConnectionParameterRange)
    /// Central.
    case channelMap(UInt64)
    case phyUpdate
    /// Central.
    case encryption(LinkEncryption.Request)
    case featureExchange
    case versionExchange
    case dataLength
    case ping
    case clockAccuracy

    var hasInstant: Bool {
      switch self {
      case .connectionUpdate, .parameterRequest, .channelMap, .phyUpdate: true
      case .encryption, .featureExchange, .versionExchange, .dataLength, .ping, .clockAccuracy: false
      }
    }
  }

  /// A change that both sides make at the connection event `instant`.
  struct Change: Hashable {
    enum Content: Hashable {
      case parameters(ConnectionParameters, winSize: UInt8, winOffset: UInt16)
      case channelMap(UInt64)
      /// What this side sends on, and what it receives on.
      case phys(tx: AirPHY, rx: AirPHY)
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
    /// The update that the host asked for did not happen.
    case reportUpdateFailed(HCIStatus)
    /// The answer to the host that asked for other PHYs, where nothing changes.
    case reportPHY(HCIStatus)
    /// The peer wants other parameters: the host decides.
    case askHost(ConnectionParameterRange)
    /// The Central encrypts the link: the host has the key, or has not.
    case askForKey(UInt64, UInt16)
    case holdData
    /// From the next PDU on.
    case encryptTransmission(Bool)
    case encryptReception(Bool)
    case reportEncryption(HCIStatus, isRefresh: Bool)
    /// The encryption procedure is over, either way: what waited goes on.
    case encryptionEnded
    /// The peer asks for that many channels.
    case useChannels(UInt8)
    /// Code of the peer's sleep clock accuracy.
    case usePeerClock(UInt8)
    /// The peer ends the connection: acknowledge, then leave.
    case leave(HCIStatus)
    /// This side ends the connection in good order.
    case terminate(HCIStatus)
    /// The connection is lost at once.
    case lose(HCIStatus)
  }

  enum State: Hashable {
    case idle
    /// Waits for the peer's answer until `deadline`.
    case awaitingAnswer(Procedure, deadline: Instant)
    /// The indication is queued or sent; both sides change at its instant.
    case indicating(Procedure)
  }

  /// A procedure with an instant that the peer has started.
  enum Remote: Hashable {
    case none
    case askingHost(LLControlPDU.ConnectionParam)
    /// The Peripheral has answered; LL_CONNECTION_UPDATE_IND or LL_PHY_UPDATE_IND comes.
    case awaitingIndication(deadline: Instant)
    /// As in ``State/indicating(_:)``.
    case indicating
  }

  static let waitingMax = 16

  let isCentral: Bool
  var state = State.idle
  var remote = Remote.none
  var waiting: [Procedure] = []
  /// Answers that must not be sent before the encryption procedure is over.
  var held: [LLControlPDU] = []
  /// What an indication says that has not been sent yet.
  var indication: (content: Change.Content, isLocal: Bool)?
  var change: Change?
  var encryption: LinkEncryption
  var parameters: ConnectionParameters
  var remoteFeatures: UInt64?
  var remoteVersion: (version: UInt8, company: UInt16, subversion: UInt16)?
  var versionSent = false
  /// The peer has started Data Length Update.
  var peerStartedDataLength = false
  /// What this side wants, and what the peer said.
  var local: LLControlPDU.DataLengths
  var remoteLengths = LLControlPDU.DataLengths.minimum
  /// What holds for the link.
  var effective = LLControlPDU.DataLengths.minimum
  /// What the host prefers, and what holds.
  var preference: PHYPreference
  var txPHY: AirPHY
  var rxPHY: AirPHY
  /// Session key diversifiers and initialization vectors.
  var random: SeededGenerator

  init(
    isCentral: Bool, parameters: ConnectionParameters, maxTxOctets: UInt16, maxTxTime: UInt16,
    preference: PHYPreference = PHYPreference(), phy: AirPHY = .le1M, random: SeededGenerator = SeededGenerator(seed: 0)
  ) {
    self.isCentral = isCentral
    self.parameters = parameters
    self.preference = preference
    self.random = random
    encryption = LinkEncryption(isCentral: isCentral)
    txPHY = phy
    rxPHY = phy
    local = LLControlPDU.DataLengths(
      maxRxOctets: LinkLayer.dataOctetsMax, maxRxTime: LinkLayer.dataTimeMax, maxTxOctets: maxTxOctets,
      maxTxTime: maxTxTime)
    effective = agreedLengths()
  }

  /// When a procedure that waits for the peer has failed.
  var deadline: Instant? {
    var earliest = encryption.deadline
    if case .awaitingAnswer(_, let deadline) = state { earliest = min(deadline, earliest ?? deadline) }
    if case .awaitingIndication(let deadline) = remote { earliest = min(deadline, earliest ?? deadline) }
    return earliest
  }

  /// Whether so many procedures wait that the host must ask again later.
  var isFull: Bool { waiting.count >= Self.waitingMax }

  /// Whether the Peripheral must not sleep: something is under way that needs its answer or its instant.
  var isBusy: Bool { state != .idle || remote != .none || change != nil || encryption.isBusy }

  // MARK: - Started here

  /// Starts `procedure`, or remembers it until its turn.
  mutating func start(_ procedure: Procedure, now: Instant, into actions: inout [Action]) {
    if case .channelMap = procedure {
      waiting.removeAll { waits in
        if case .channelMap = waits { true } else { false }
      }
    }
    guard !isFull else { return }
    waiting.append(procedure)
    startNext(now: now, into: &actions)
  }

  mutating func startNext(now: Instant, into actions: inout [Action]) {
    guard state == .idle, !encryption.isBusy, let next = waiting.first else { return }
    guard !next.hasInstant || remote == .none && change == nil && indication == nil else { return }
    waiting.removeFirst()
    begin(next, now: now, into: &actions)
  }

  mutating func begin(_ procedure: Procedure, now: Instant, into actions: inout [Action]) {
    state = .awaitingAnswer(procedure, deadline: now + LinkLayer.procedureTimeout)
    switch procedure {
    case .connectionUpdate(let parameters):
      state = .indicating(procedure)
      indicate(.parameters(parameters, winSize: 1, winOffset: 0), isLocal: true, into: &actions)
    case .channelMap(let map):
      state = .indicating(procedure)
      indicate(.channelMap(map), isLocal: true, into: &actions)
    case .parameterRequest(let range): beginParameterRequest(range, into: &actions)
    case .phyUpdate: send(.phyReq(tx: preference.tx, rx: preference.rx), into: &actions)
    case .encryption(let request): encryption.start(request, half: makeHalf(), into: &actions)
    case .featureExchange:
      if let remoteFeatures {
        actions.append(.reportFeatures(.success, remoteFeatures))
        return finish(now: now, into: &actions)
      }
      let features = LEFeatures.local.rawValue
      send(isCentral ? .featureReq(features) : .peripheralFeatureReq(features), into: &actions)
    case .versionExchange:
      if remoteVersion != nil {
        reportVersion(into: &actions)
        finish(now: now, into: &actions)
      } else {
        sendVersion(into: &actions)
      }
    case .dataLength: send(.lengthReq(local), into: &actions)
    case .ping: send(.pingReq, into: &actions)
    case .clockAccuracy: send(.clockAccuracyReq(LinkLayer.sleepClockAccuracyCode), into: &actions)
    }
  }

  mutating func finish(now: Instant, into actions: inout [Action]) {
    state = .idle
    startNext(now: now, into: &actions)
  }

  func isAwaiting(_ procedure: Procedure) -> Bool {
    if case .awaitingAnswer(procedure, _) = state { return true }
    return false
  }

  /// Sends a PDU that belongs to no encryption procedure: at once, or when that is over.
  mutating func send(_ pdu: LLControlPDU, into actions: inout [Action]) {
    if encryption.isBusy {
      // The peer knows that nothing is answered now; one that asks on and on is not remembered for ever.
      if held.count < Self.waitingMax { held.append(pdu) }
    } else {
      actions.append(.send(pdu))
    }
  }

  /// The encryption procedure is over.
  mutating func encryptionEnded(now: Instant, into actions: inout [Action]) {
    for pdu in held { actions.append(.send(pdu)) }
    held.removeAll()
    if case .awaitingAnswer(.encryption, _) = state { state = .idle }
    startNext(now: now, into: &actions)
  }

  mutating func makeHalf() -> LLControlPDU.SessionHalf {
    LLControlPDU.SessionHalf(skd: random.next(), iv: UInt32(truncatingIfNeeded: random.next()))
  }

  // MARK: - From the peer

  /// A data PDU with a payload came.
  ///
  /// - Returns: whether it is the host's; else the link is lost.
  mutating func receiveData(into actions: inout [Action]) -> Bool {
    guard encryption.isGuarded else { return true }
    encryption.receiveOther(into: &actions)
    return false
  }

  mutating func receive(_ pdu: LLControlPDU, eventCounter: UInt16, now: Instant, into actions: inout [Action]) {
    if encryption.isGuarded {
      switch pdu.opcode {
      case 0x02...0x07, 0x0A, 0x0B, 0x0D, 0x11: break
      default: return encryption.receiveOther(into: &actions)
      }
    }
    switch pdu {
    case .connectionUpdateInd, .channelMapInd, .phyUpdateInd:
      guard !isCentral else { return reject(pdu, into: &actions) }
      receiveIndication(pdu, eventCounter, now: now, into: &actions)
    case .connectionParamReq(let parameters): receiveParameterRequest(parameters, now: now, into: &actions)
    case .connectionParamRsp(let parameters): receiveParameterResponse(parameters, now: now, into: &actions)
    case .phyReq(let tx, let rx): receivePHYRequest(tx, rx, now: now, into: &actions)
    case .phyRsp(let tx, let rx): receivePHYResponse(tx, rx, now: now, into: &actions)
    case .terminateInd(let reason): actions.append(.leave(reason))
    case .encReq, .encRsp, .startEncReq, .startEncRsp, .pauseEncReq, .pauseEncRsp:
      receiveEncryption(pdu, now: now, into: &actions)
    case .featureReq, .featureRsp, .peripheralFeatureReq, .versionInd, .lengthReq, .lengthRsp, .pingReq, .pingRsp,
      .clockAccuracyReq, .clockAccuracyRsp, .minUsedChannelsInd:
      receiveExchange(pdu, now: now, into: &actions)
    case .unknownRsp(let opcode): refused(opcode, .unsupportedRemoteFeature, now: now, into: &actions)
    case .rejectExtInd(let opcode, let reason): refused(opcode, reason, now: now, into: &actions)
    case .rejectInd(let reason): refused(nil, reason, now: now, into: &actions)
    case .unknown: reject(pdu, into: &actions)
    }
  }

  private mutating func receiveEncryption(_ pdu: LLControlPDU, now: Instant, into actions: inout [Action]) {
    guard encryption.receive(pdu, half: makeHalf(), now: now, into: &actions) else {
      switch pdu {
      case .encReq, .pauseEncReq: reject(pdu, into: &actions)
      default: break  // Answers nobody asked for.
      }
      return
    }
    // The procedure goes on: its timer starts anew (5.2).
    if case .awaitingAnswer(.encryption(let request), _) = state {
      state = .awaitingAnswer(.encryption(request), deadline: now + LinkLayer.procedureTimeout)
    }
  }

  /// A PDU that this side does not understand, or that its sender's role must not send.
  mutating func reject(_ pdu: LLControlPDU, into actions: inout [Action]) {
    switch pdu.opcode {
    case 0x02, 0x07, 0x0D, 0x11: break  // Never answered, lest two devices answer each other for ever.
    default: send(.unknownRsp(opcode: pdu.opcode), into: &actions)
    }
  }
}
