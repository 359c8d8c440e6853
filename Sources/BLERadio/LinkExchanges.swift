// SPDX-License-Identifier: Apache-2.0

import BLECore
import BLEHCI

/// Procedures that are a question and an answer (Vol 6 Part B 5.1.4, 5.1.5, 5.1.8, 5.1.9, 5.1.11, 5.1.14), and
/// refusals.
extension LinkControl {
  mutating func receiveExchange(_ pdu: LLControlPDU, now: Instant, into actions: inout [Action]) {
    switch pdu {
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
      send(.lengthRsp(local), into: &actions)
    case .lengthRsp(let lengths):
      guard isAwaiting(.dataLength) else { return }
      setRemote(lengths, into: &actions)
      finish(now: now, into: &actions)
    case .pingReq: send(.pingRsp, into: &actions)
    case .pingRsp: if isAwaiting(.ping) { finish(now: now, into: &actions) }
    case .clockAccuracyReq(let accuracy):
      actions.append(.usePeerClock(accuracy))
      send(.clockAccuracyRsp(LinkLayer.sleepClockAccuracyCode), into: &actions)
    case .clockAccuracyRsp(let accuracy):
      guard isAwaiting(.clockAccuracy) else { return }
      actions.append(.usePeerClock(accuracy))
      finish(now: now, into: &actions)
    case .minUsedChannelsInd(let phys, let count):
      guard isCentral else { return reject(pdu, into: &actions) }
      let mine = PHYMask(rawValue: txPHY.mask.rawValue | rxPHY.mask.rawValue)
      if (2...37).contains(count), phys.rawValue & mine.rawValue != 0 { actions.append(.useChannels(count)) }
    default: break
    }
  }

  private mutating func answerFeatures(_ features: UInt64, into actions: inout [Action]) {
    remoteFeatures = features
    send(.featureRsp(features & LEFeatures.local.rawValue), into: &actions)
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
  mutating func sendVersion(into actions: inout [Action]) {
    guard !versionSent else { return }
    versionSent = true
    send(
      .versionInd(version: LocalVersion.version, company: LocalVersion.company, subversion: LocalVersion.subversion),
      into: &actions)
  }

  func reportVersion(into actions: inout [Action]) {
    guard let remoteVersion else { return }
    actions.append(
      .reportVersion(
        .success, version: remoteVersion.version, company: remoteVersion.company,
        subversion: remoteVersion.subversion))
  }

  /// The peer does not do what was asked by the PDU `opcode` (nil: whatever was asked last).
  mutating func refused(_ opcode: UInt8?, _ reason: HCIStatus, now: Instant, into actions: inout [Action]) {
    if opcode == 0x10 || opcode == 0x17, case .awaitingIndication = remote {
      // This side's answer to the peer's own question.
      remote = .none
      return startNext(now: now, into: &actions)
    }
    guard case .awaitingAnswer(let procedure, _) = state, opcode == nil || procedure.opcodes.contains(opcode ?? 0)
    else { return }
    switch procedure {
    case .featureExchange: actions.append(.reportFeatures(reason, 0))
    case .versionExchange: actions.append(.reportVersion(reason, version: 0, company: 0, subversion: 0))
    case .parameterRequest(let range): return parameterRequestRefused(range, reason, now: now, into: &actions)
    case .phyUpdate: actions.append(.reportPHY(reason))
    case .encryption: guard encryption.refused(reason, into: &actions) else { return }
    case .dataLength, .ping, .clockAccuracy: break
    case .connectionUpdate, .channelMap: return
    }
    finish(now: now, into: &actions)
  }

  // MARK: - Data length

  /// Values below the minimum count as the minimum (4.5.10).
  private mutating func setRemote(_ lengths: LLControlPDU.DataLengths, into actions: inout [Action]) {
    let minimum = LLControlPDU.DataLengths.minimum
    remoteLengths = LLControlPDU.DataLengths(
      maxRxOctets: max(lengths.maxRxOctets, minimum.maxRxOctets), maxRxTime: max(lengths.maxRxTime, minimum.maxRxTime),
      maxTxOctets: max(lengths.maxTxOctets, minimum.maxTxOctets), maxTxTime: max(lengths.maxTxTime, minimum.maxTxTime))
    updateLengths(into: &actions)
  }

  /// What holds may have changed.
  mutating func updateLengths(into actions: inout [Action]) {
    let agreed = agreedLengths()
    guard agreed != effective else { return }
    effective = agreed
    actions.append(.reportDataLength)
  }

  func agreedLengths() -> LLControlPDU.DataLengths {
    LLControlPDU.DataLengths(
      maxRxOctets: min(local.maxRxOctets, remoteLengths.maxTxOctets),
      maxRxTime: rxPHY.effectiveTime(min(local.maxRxTime, remoteLengths.maxTxTime)),
      maxTxOctets: min(local.maxTxOctets, remoteLengths.maxRxOctets),
      maxTxTime: txPHY.effectiveTime(min(local.maxTxTime, remoteLengths.maxRxTime)))
  }

  /// Sets what the host wants for transmission, and tells the peer.
  mutating func setDataLength(octets: UInt16, time: UInt16, now: Instant, into actions: inout [Action]) {
    guard (local.maxTxOctets, local.maxTxTime) != (octets, time) else { return }
    local.maxTxOctets = octets
    local.maxTxTime = time
    start(.dataLength, now: now, into: &actions)
  }

  /// Octets that one PDU sent may have, without a MIC.
  var txOctets: Int { octets(effective.maxTxOctets, effective.maxTxTime, txPHY, preference.coding) }
  /// Octets that one PDU received may have, without a MIC.
  var rxOctets: Int { octets(effective.maxRxOctets, effective.maxRxTime, rxPHY, .s2) }

  /// By number and by time, which counts a MIC always.
  private func octets(_ count: UInt16, _ time: UInt16, _ phy: AirPHY, _ coding: AirCoding) -> Int {
    let fit = phy.payloadCount(in: Int64(time) * 1_000, coding: coding) - LinkLayer.micCount
    return max(Int(LinkLayer.dataOctetsMin), min(Int(count), fit))
  }
}

extension LinkControl.Procedure {
  /// PDUs with which it asks.
  fileprivate var opcodes: [UInt8] {
    switch self {
    case .connectionUpdate: [0x00]
    case .channelMap: [0x01]
    case .encryption: [0x03, 0x0A]
    case .featureExchange: [0x08, 0x0E]
    case .versionExchange: [0x0C]
    case .parameterRequest: [0x0F]
    case .ping: [0x12]
    case .dataLength: [0x14]
    case .phyUpdate: [0x16]
    case .clockAccuracy: [0x1D]
    }
  }
}

extension AirPHY {
  /// The longest time of a PDU where both sides allow `time`, in microseconds: on the uncoded PHYs that of 251 octets on
  /// 1M, on the coded one at least that of 27 octets (Vol 6 Part B 4.5.10).
  fileprivate func effectiveTime(_ time: UInt16) -> UInt16 {
    switch self {
    case .le1M, .le2M: min(time, LinkLayer.uncodedDataTimeMax)
    case .leCoded: max(time, LinkLayer.codedDataTimeMin)
    }
  }
}

extension LLControlPDU.DataLengths {
  /// What holds until Data Length Update says otherwise.
  static let minimum = LLControlPDU.DataLengths(
    maxRxOctets: LinkLayer.dataOctetsMin, maxRxTime: LinkLayer.dataTimeMin, maxTxOctets: LinkLayer.dataOctetsMin,
    maxTxTime: LinkLayer.dataTimeMin)
}
