// SPDX-License-Identifier: Apache-2.0

import BLECore
import BLEHCI

/// The packets on data channels that belong to one extended advertising event.
struct AuxiliaryTrain: Hashable {
  /// There is a packet that ADV_EXT_IND points to.
  var isUsed = false
  /// Of the next packet.
  var channel: UInt8 = 0
  var start = Instant.zero
  /// Data that the packets sent so far had no room for.
  var rest: ArraySlice<UInt8> = []
}

/// Extended advertising events (Vol 6 Part B 4.4.2.2):
///
///     ADV_EXT_IND on each primary channel ─► AUX_ADV_IND ─► AUX_CHAIN_IND while there is data
///                                                       ├─ AUX_SCAN_REQ ─► AUX_SCAN_RSP ─► AUX_CHAIN_IND …
///                                                       └─ AUX_CONNECT_REQ ─► AUX_CONNECT_RSP: a connection
///
/// Auxiliary packets are T_MAFS and more apart, answers T_IFS. All ADV_EXT_IND of an event point to the same packet.
extension Advertiser {
  private var properties: AdvertisingEventProperties { parameters.properties }

  private var mode: AdvertisingMode { isConnectable ? .connectable : isScannable ? .scannable : .none }

  private var dataInfo: AdvertisingDataInfo { AdvertisingDataInfo(did: dataIdentifier, sid: parameters.sid) }

  /// What is only in ADV_EXT_IND needs nothing behind it: who it is, without data.
  private var needsAuxiliary: Bool {
    isConnectable || isScannable || isDirected || !data.isEmpty || properties.contains(.anonymous)
      || parameters.primaryPHY == .leCoded
  }

  private var pointerAirTime: TimeSpan {
    world.airTime(payloadCount: pointerPayload(offset: .zero).count, phy: parameters.primaryPHY)
  }

  private var usedChannels: Int { parameters.channels.rawValue.nonzeroBitCount }

  /// T_MAFS (4.1.2).
  private var frameSpace: TimeSpan { world.setting == .ideal ? .zero : LinkLayer.auxiliaryFrameSpace }

  /// From the start of an event to that of AUX_ADV_IND.
  private var auxiliaryDelay: TimeSpan {
    pointerAirTime * usedChannels + world.interFrameSpace * (usedChannels - 1) + frameSpace
  }

  /// What an event takes of the radio, with an answer, and without the rest of long data.
  var extendedSpan: TimeSpan {
    let count = min(data.count + 24, ExtendedAdvertisingPayload.countMax)
    let packet = world.airTime(payloadCount: count, phy: parameters.secondaryPHY)
    let answer = isConnectable || isScannable ? packet + world.interFrameSpace : .zero
    return auxiliaryDelay + packet + answer
  }

  /// Whether the data can be sent by an event of this kind at all.
  var fitsEvent: Bool {
    guard isConnectable, !isLegacy else { return true }
    return data.count <= auxiliaryPayload(data: []).room
  }

  /// The event that begins now.
  func planAuxiliary() {
    auxiliary.isUsed = needsAuxiliary
    auxiliary.channel = secondaryChannel()
    auxiliary.start = now + auxiliaryDelay
    auxiliary.rest = isScannable ? [] : data[...]
  }

  /// One of the data channels that the host has not excluded.
  private func secondaryChannel() -> UInt8 {
    let map = controller.settings.channelMap
    var left = random.below(UInt64(map.nonzeroBitCount))
    for channel in 0..<LinkLayer.dataChannelCount where map >> UInt64(channel) & 1 == 1 {
      if left == 0 { return channel }
      left -= 1
    }
    return 0
  }

  // MARK: - ADV_EXT_IND

  func encodePointer() {
    let payload = pointerPayload(offset: auxiliary.start - now)
    let header = AdvertisingHeader(
      type: .advExtInd, txAdd: payload.advA != nil && address.isRandom, length: payload.count)
    header.encode(into: &writer)
    payload.encode(into: &writer)
  }

  private func pointerPayload(offset: TimeSpan) -> ExtendedAdvertisingPayload {
    var payload = ExtendedAdvertisingPayload()
    payload.mode = mode
    if needsAuxiliary {
      payload.adi = dataInfo
      payload.auxPtr = AuxiliaryPointer(channel: auxiliary.channel, offset: offset, phy: parameters.secondaryPHY)
    } else {
      payload.advA = address.address
      if properties.contains(.includeTxPower) { payload.txPower = parameters.txPower }
    }
    return payload
  }

  // MARK: - On data channels

  func sendAuxiliary(_ kind: Auxiliary) {
    phase = .sendingAuxiliary(kind)
    writer.removeAll()
    if case .connectResponse(let attempt) = kind {
      encodeConnectResponse(attempt)
      return transmit(auxiliary.channel, parameters.secondaryPHY)
    }
    var payload: ExtendedAdvertisingPayload
    switch kind {
    case .advertisement: payload = auxiliaryPayload(data: auxiliary.rest)
    case .scanResponse:
      auxiliary.rest = scanResponse[...]
      payload = ExtendedAdvertisingPayload()
      payload.advA = address.address
      payload.adi = dataInfo
    case .chain, .connectResponse:
      payload = ExtendedAdvertisingPayload()
      payload.adi = dataInfo
    }
    let channel = auxiliary.channel
    load(&payload)
    let end = now + world.airTime(payloadCount: payload.count, phy: parameters.secondaryPHY)
    // What a connection event would cut off is not begun.
    guard controller.isRadioFree(until: end) else { return endEvent() }
    let header = AdvertisingHeader(
      type: .advExtInd, txAdd: payload.advA != nil && address.isRandom,
      rxAdd: payload.targetA != nil && target.isRandom, length: payload.count)
    header.encode(into: &writer)
    payload.encode(into: &writer)
    transmit(channel, parameters.secondaryPHY)
  }

  private func auxiliaryPayload(data: ArraySlice<UInt8>) -> ExtendedAdvertisingPayload {
    var payload = ExtendedAdvertisingPayload()
    payload.mode = mode
    if !properties.contains(.anonymous) { payload.advA = address.address }
    if isDirected { payload.targetA = target.address }
    payload.adi = dataInfo
    if properties.contains(.includeTxPower) { payload.txPower = parameters.txPower }
    return payload
  }

  /// Takes as much of the rest as there is room for, and points to where more will be.
  private func load(_ payload: inout ExtendedAdvertisingPayload) {
    if auxiliary.rest.count > payload.room {
      // The pointer is filled in when the length is known; it takes room itself.
      payload.auxPtr = AuxiliaryPointer(channel: 0, offset: .zero, phy: parameters.secondaryPHY)
      payload.data = Array(auxiliary.rest.prefix(payload.room))
      let next = world.airTime(payloadCount: payload.count, phy: parameters.secondaryPHY) + frameSpace
      auxiliary.channel = secondaryChannel()
      auxiliary.start = now + next
      payload.auxPtr = AuxiliaryPointer(channel: auxiliary.channel, offset: next, phy: parameters.secondaryPHY)
    } else {
      payload.data = Array(auxiliary.rest)
    }
    auxiliary.rest = auxiliary.rest.dropFirst(payload.data.count)
  }

  private func encodeConnectResponse(_ attempt: ConnectionAttempt) {
    var payload = ExtendedAdvertisingPayload()
    payload.advA = address.address
    payload.targetA = attempt.initiator.address
    let header = AdvertisingHeader(
      type: .auxConnectRsp, txAdd: address.isRandom, rxAdd: attempt.initiator.isRandom, length: payload.count)
    header.encode(into: &writer)
    payload.encode(into: &writer)
  }

  func auxiliarySent(_ kind: Auxiliary) {
    if case .connectResponse(let attempt) = kind {
      stop()
      return controller.connected(
        .peripheral, local: address, peer: attempt.initiator, attempt.request,
        ConnectionStart(end: attempt.end, phy: parameters.secondaryPHY, isAuxiliary: true, usesAlgorithm2: true),
        by: self)
    }
    if kind == .advertisement, isConnectable || isScannable {
      return listen(.listeningAuxiliary, auxiliary.channel, parameters.secondaryPHY)
    }
    guard !auxiliary.rest.isEmpty else { return endEvent() }
    schedule(.chain, at: auxiliary.start)
  }
}
