// SPDX-License-Identifier: Apache-2.0

import BLECore
import BLEHCI

/// A packet on a data channel that an AuxPtr points to, and what is known of its event.
struct Follow: Hashable {
  var channel: UInt8
  var phy: AirPHY
  /// It begins between these.
  var start: Instant
  var limit: Instant
  var primaryPHY: AirPHY
  var adi: AdvertisingDataInfo?
  /// Who advertises, as it is on air, if that was said before.
  var advertiser: DeviceAddress?
  /// AUX_CHAIN_IND: what of the event was reported, the data so far being incomplete, and how many octets that was.
  var report: ExtendedReport?
  var count = 0

  /// The most data of a chain (Vol 4 Part E 7.8.57).
  static let dataMax = 1650

  /// nil: the pointer says something that is not in the specification.
  init?(_ pointer: AuxiliaryPointer, of packet: AirPacket, primaryPHY: AirPHY, adi: AdvertisingDataInfo?) {
    guard let phy = pointer.phy, pointer.channel < LinkLayer.dataChannelCount else { return nil }
    channel = pointer.channel
    self.phy = phy
    start = packet.start + pointer.offset
    limit = start + pointer.unit
    self.primaryPHY = primaryPHY
    self.adi = adi
  }
}

/// Extended scanning and initiating: what ADV_EXT_IND points to is waited for while the scanner goes on scanning; from
/// then on the packets of the event are taken one after the other, and nothing else.
extension Observer {
  private var takesExtended: Bool { scan?.isExtended == true || initiation?.isExtended == true }

  // MARK: - ADV_EXT_IND

  func receivePointer(_ pdu: RawSpan, _ packet: AirPacket, _ rssi: Int8) {
    guard takesExtended, pending == nil, let (header, payload) = extended(pdu) else { return }
    let advertiser = payload.advA.map { DeviceAddress($0, type: header.txAdd ? .random : .publicDevice) }
    guard let pointer = payload.auxPtr else {
      guard payload.mode == .none, let advertiser, payload.targetA == nil else { return }
      return reportBare(advertiser, payload, rssi)
    }
    guard var follow = Follow(pointer, of: packet, primaryPHY: primaryPHY, adi: payload.adi) else { return }
    follow.advertiser = advertiser
    // For an initiator alone what cannot be connected to is not worth the time.
    guard scan?.isExtended == true || payload.mode == .connectable else { return }
    pending = follow
    armExchange(at: max(now, follow.start - LinkLayer.jitterAllowance))
  }

  /// ADV_EXT_IND with nothing behind it.
  private func reportBare(_ advertiser: DeviceAddress, _ payload: ExtendedAdvertisingPayload, _ rssi: Int8) {
    let resolved = controller.resolved(advertiser)
    guard let scan, scan.isExtended, passes(resolved, target: nil, scan),
      isNew(DuplicateKey(resolved, payload.adi, isScanResponse: false))
    else { return }
    var report = ExtendedReport(type: [], advertiser: resolved, primaryPHY: primaryPHY, secondaryPHY: nil, rssi: rssi)
    report.txPower = payload.txPower ?? 127
    controller.report(report)
  }

  private func extended(_ pdu: RawSpan) -> (AdvertisingHeader, ExtendedAdvertisingPayload)? {
    var reader = ByteReader(pdu)
    guard let header = try? AdvertisingHeader(from: &reader), header.type == .advExtInd,
      Int(header.length) == reader.remaining, let payload = try? ExtendedAdvertisingPayload(from: &reader),
      payload.mode.rawValue < 3
    else { return nil }
    return (header, payload)
  }

  /// The time of the pending packet has come.
  func followPending() {
    guard let follow = pending else { return }
    pending = nil
    guard controller.isRadioFree, takesExtended else { return tune() }
    waitFor(follow)
  }

  // MARK: - On data channels

  /// AUX_ADV_IND or AUX_CHAIN_IND.
  func receiveAuxiliary(_ pdu: RawSpan, _ follow: Follow, _ packet: AirPacket, _ rssi: Int8) {
    guard let (header, payload) = extended(pdu), isSameData(payload.adi, follow.adi) else { return endExchange() }
    if let report = follow.report { return reportPart(report, payload, follow, packet, rssi) }
    let advertiser =
      payload.advA.map { DeviceAddress($0, type: header.txAdd ? .random : .publicDevice) } ?? follow.advertiser
    let target = payload.targetA.map { DeviceAddress($0, type: header.rxAdd ? .random : .publicDevice) }
    let resolved = advertiser.map { controller.resolved($0) }
    var event = follow
    event.adi = payload.adi ?? follow.adi
    let isNew = takeAdvertisement(payload, resolved, target, event, packet, rssi)
    if let advertiser, let resolved {
      if connects(payload, resolved, target), let own = ownAddress(for: resolved, initiation?.ownAddressType) {
        let target = Target(advertiser: advertiser, own: own, channel: packet.channel, phy: packet.phy, follow: event)
        return begin(.connectRequest(target, usesAlgorithm2: true))
      }
      if requestsScan(payload, resolved, target, event), let own = ownAddress(for: resolved, scan?.ownAddressType) {
        let target = Target(advertiser: advertiser, own: own, channel: packet.channel, phy: packet.phy, follow: event)
        return begin(.scanRequest(target))
      }
    }
    if let report = isNew, report.status == .incomplete { return followChain(report, payload, event, packet) }
    finish()
  }

  private func isSameData(_ a: AdvertisingDataInfo?, _ b: AdvertisingDataInfo?) -> Bool {
    guard let a, let b else { return true }
    return a == b
  }

  /// Reports an AUX_ADV_IND that passes the filters; returns what it reported.
  private func takeAdvertisement(
    _ payload: ExtendedAdvertisingPayload, _ advertiser: DeviceAddress?, _ target: DeviceAddress?, _ event: Follow,
    _ packet: AirPacket, _ rssi: Int8
  ) -> ExtendedReport? {
    guard let scan, scan.isExtended, passes(advertiser, target: target, scan),
      isNew(DuplicateKey(advertiser, event.adi, isScanResponse: false))
    else { return nil }
    var type: ExtendedAdvertisingEventType = []
    if payload.mode == .connectable { type.insert(.connectable) }
    if payload.mode == .scannable { type.insert(.scannable) }
    if target != nil { type.insert(.directed) }
    var report = ExtendedReport(
      type: type, advertiser: advertiser, primaryPHY: event.primaryPHY, secondaryPHY: packet.phy, rssi: rssi)
    report.sid = event.adi?.sid ?? 0xFF
    report.txPower = payload.txPower ?? 127
    report.target = target
    report.data = payload.data
    report.status = payload.auxPtr == nil ? .complete : .incomplete
    controller.report(report)
    return report
  }

  private func connects(_ payload: ExtendedAdvertisingPayload, _ advertiser: DeviceAddress, _ target: DeviceAddress?)
    -> Bool
  {
    guard initiation?.isExtended == true, payload.mode == .connectable, wantsToConnect(advertiser) else { return false }
    return target.map { isOwn($0, initiation?.ownAddressType) } ?? true
  }

  private func requestsScan(
    _ payload: ExtendedAdvertisingPayload, _ advertiser: DeviceAddress, _ target: DeviceAddress?, _ event: Follow
  ) -> Bool {
    guard let scan, scan.isExtended, payload.mode == .scannable, scan.isActive(event.primaryPHY),
      passes(advertiser, target: target, scan), target.map({ isOwn($0, scan.ownAddressType) }) ?? true,
      !isKnown(DuplicateKey(advertiser, event.adi, isScanResponse: true))
    else { return false }
    return backoff.mayRequest()
  }

  // MARK: - Answers

  /// AUX_SCAN_RSP. `false`: it is none.
  func receiveAuxiliaryResponse(_ pdu: RawSpan, _ target: Target, _ event: Follow, _ packet: AirPacket, _ rssi: Int8)
    -> Bool
  {
    guard let scan, scan.isExtended, let (header, payload) = extended(pdu), isSameData(payload.adi, event.adi),
      payload.advA == target.advertiser.address, header.txAdd == target.advertiser.isRandom
    else { return false }
    let advertiser = controller.resolved(target.advertiser)
    guard isNew(DuplicateKey(advertiser, event.adi, isScanResponse: true)) else {
      finish()
      return true
    }
    var report = ExtendedReport(
      type: [.scannable, .scanResponse], advertiser: advertiser, primaryPHY: event.primaryPHY, secondaryPHY: packet.phy,
      rssi: rssi)
    report.sid = event.adi?.sid ?? 0xFF
    report.txPower = payload.txPower ?? 127
    report.data = payload.data
    report.status = payload.auxPtr == nil ? .complete : .incomplete
    controller.report(report)
    if report.status == .incomplete { followChain(report, payload, event, packet) } else { finish() }
    return true
  }

  func isConnectResponse(_ pdu: RawSpan, _ target: Target) -> Bool {
    var reader = ByteReader(pdu)
    guard let header = try? AdvertisingHeader(from: &reader), header.type == .auxConnectRsp,
      let payload = try? ExtendedAdvertisingPayload(from: &reader)
    else { return false }
    return payload.advA == target.advertiser.address && header.txAdd == target.advertiser.isRandom
      && payload.targetA == target.own.address && header.rxAdd == target.own.isRandom
  }

  // MARK: - Chains

  /// Goes on with the packet that `payload` points to.
  private func followChain(
    _ report: ExtendedReport, _ payload: ExtendedAdvertisingPayload, _ event: Follow, _ packet: AirPacket
  ) {
    guard let pointer = payload.auxPtr, event.count + payload.data.count <= Follow.dataMax,
      var next = Follow(pointer, of: packet, primaryPHY: event.primaryPHY, adi: event.adi)
    else {
      cutOff(report)
      return finish()
    }
    next.advertiser = event.advertiser
    next.report = report
    next.count = event.count + payload.data.count
    waitFor(next)
  }

  private func reportPart(
    _ first: ExtendedReport, _ payload: ExtendedAdvertisingPayload, _ follow: Follow, _ packet: AirPacket, _ rssi: Int8
  ) {
    var report = first
    report.rssi = rssi
    report.data = payload.data
    report.status = payload.auxPtr == nil ? .complete : .incomplete
    controller.report(report)
    if report.status == .incomplete { followChain(report, payload, follow, packet) } else { finish() }
  }

  /// What was waited for did not come: what was reported of it ends here.
  func lost(_ follow: Follow) { if let report = follow.report { cutOff(report) } }

  private func cutOff(_ first: ExtendedReport) {
    guard scan?.isExtended == true else { return }
    var report = first
    report.data = []
    report.status = .truncated
    controller.report(report)
  }
}
