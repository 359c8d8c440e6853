// SPDX-License-Identifier: Apache-2.0

import BLECore
import BLEHCI

extension VirtualController {
  // MARK: - Sending

  /// Sends `event` unless the host has masked it.
  func send(_ event: some HCIEvent) {
    guard isWanted(type(of: event).code) else { return }
    writer.removeAll()
    event.encodePacket(into: &writer)
    flush(.event)
  }

  /// Sends `event` unless the host has masked it, or all LE events.
  func send(_ event: some LEMetaEvent) {
    guard isWanted(type(of: event).subevent) else { return }
    writer.removeAll()
    event.encodePacket(into: &writer)
    flush(.event)
  }

  /// Sends what is in the writer.
  func flush(_ type: HCIPacketType) {
    let bytes = writer.bytes
    transport.send(type, bytes.span.bytes)
  }

  private func isWanted(_ code: HCIEventCode) -> Bool {
    switch code {
    case .commandComplete, .commandStatus, .numberOfCompletedPackets: true
    case .authenticatedPayloadTimeoutExpired:
      settings.eventMaskPage2 & EventMask.authenticatedPayloadTimeoutExpired != 0
    case .encryptionChangeV2: settings.eventMaskPage2 & EventMask.encryptionChangeV2 != 0
    default: settings.eventMask & EventMask.bit(code) != 0
    }
  }

  private func isWanted(_ subevent: LESubevent) -> Bool {
    isWanted(HCIEventCode.leMeta) && settings.leEventMask & LEEventMask.bit(subevent) != 0
  }

  /// Number Of Completed Packets of one connection, written without an intermediate list.
  func sendCompleted(_ handle: ConnectionHandle, _ count: Int) {
    writer.removeAll()
    writer.u8(HCIEventCode.numberOfCompletedPackets.rawValue)
    writer.u8(5)
    writer.u8(1)
    writer.u16(handle.rawValue)
    writer.u16(UInt16(clamping: count))
    flush(.event)
  }

  // MARK: - Reports of the Link Layer

  func report(completedPackets link: LinkConnection) { sendCompleted(link.handle, link.takeCompletedPackets()) }

  /// LE Enhanced Connection Complete, or LE Connection Complete where that is masked.
  func report(connected link: LinkConnection, peerOnAir: DeviceAddress, clockAccuracy: UInt8) {
    let isPrivate = link.localAddress.kind == .resolvablePrivate && link.localAddress.address != settings.randomAddress
    sendConnectionComplete(
      .success, link.handle, link.role, link.peerAddress, link.parameters, clockAccuracy: clockAccuracy,
      localRPA: isPrivate ? link.localAddress.address : .zero,
      peerRPA: link.peerAddress.type.rawValue >= AddressType.publicIdentity.rawValue ? peerOnAir.address : .zero)
  }

  /// No connection came of it.
  func reportNotConnected(_ status: HCIStatus, _ role: ConnectionRole) {
    let none = ConnectionParameters(
      interval: ConnectionInterval(rawValue: 0), latency: 0, supervisionTimeout: SupervisionTimeout(rawValue: 0))
    sendConnectionComplete(
      status, ConnectionHandle(rawValue: 0), role, DeviceAddress(.zero, type: .publicDevice), none, clockAccuracy: 0)
  }

  private func sendConnectionComplete(
    _ status: HCIStatus, _ handle: ConnectionHandle, _ role: ConnectionRole, _ peer: DeviceAddress,
    _ parameters: ConnectionParameters, clockAccuracy: UInt8, localRPA: BDAddress = .zero, peerRPA: BDAddress = .zero
  ) {
    if settings.leEventMask & LEEventMask.bit(.enhancedConnectionComplete) != 0 {
      send(
        LEEnhancedConnectionComplete(
          status: status, connectionHandle: handle, role: role, peerAddressType: peer.type, peerAddress: peer.address,
          localResolvablePrivateAddress: localRPA, peerResolvablePrivateAddress: peerRPA,
          connectionInterval: parameters.interval, peripheralLatency: parameters.latency,
          supervisionTimeout: parameters.supervisionTimeout, centralClockAccuracy: clockAccuracy))
    } else {
      send(
        LEConnectionComplete(
          status: status, connectionHandle: handle, role: role, peerAddressType: peer.type, peerAddress: peer.address,
          connectionInterval: parameters.interval, peripheralLatency: parameters.latency,
          supervisionTimeout: parameters.supervisionTimeout, centralClockAccuracy: clockAccuracy))
    }
  }

  /// An advertiser ended by itself: LE Advertising Set Terminated for a set, for high duty cycle directed advertising of
  /// the legacy commands a connection that failed (7.7.65.1, 7.7.65.18).
  func advertisingEnded(_ advertiser: Advertiser, _ status: HCIStatus) {
    guard let handle = advertiser.handle else { return reportNotConnected(status, .peripheral) }
    send(
      LEAdvertisingSetTerminated(
        status: status, advertisingHandle: handle, connectionHandle: ConnectionHandle(rawValue: 0),
        numCompletedEvents: UInt8(clamping: advertiser.eventCount)))
  }

  func report(scanRequest scanner: DeviceAddress, _ handle: UInt8) {
    let scanner = resolved(scanner)
    send(
      LEScanRequestReceived(
        advertisingHandle: handle, scannerAddressType: scanner.type, scannerAddress: scanner.address))
  }

  func scanTimedOut() { send(LEScanTimeout()) }

  func report(connectionUpdate link: LinkConnection, _ status: HCIStatus = .success) {
    send(
      LEConnectionUpdateComplete(
        status: status, connectionHandle: link.handle, connectionInterval: link.parameters.interval,
        peripheralLatency: link.parameters.latency, supervisionTimeout: link.parameters.supervisionTimeout))
  }

  func report(dataLength link: LinkConnection) {
    let lengths = link.dataLengths
    send(
      LEDataLengthChange(
        connectionHandle: link.handle, maxTxOctets: lengths.maxTxOctets, maxTxTime: lengths.maxTxTime,
        maxRxOctets: lengths.maxRxOctets, maxRxTime: lengths.maxRxTime))
  }

  func report(phyUpdate link: LinkConnection, _ status: HCIStatus) {
    let phys = link.phys
    send(
      LEPHYUpdateComplete(
        status: status, connectionHandle: link.handle, txPHY: PHY(rawValue: phys.tx.rawValue),
        rxPHY: PHY(rawValue: phys.rx.rawValue)))
  }

  /// Encryption Change, its second version if the host wants that, or Encryption Key Refresh Complete.
  func report(encryption link: LinkConnection, _ status: HCIStatus, isRefresh: Bool) {
    if isRefresh { return send(EncryptionKeyRefreshComplete(status: status, connectionHandle: link.handle)) }
    let enabled = status == .success ? EncryptionEnabled.aesCCM : .off
    if isWanted(HCIEventCode.encryptionChangeV2) {
      send(
        EncryptionChangeV2(
          status: status, connectionHandle: link.handle, encryptionEnabled: enabled, encryptionKeySize: 16))
    } else {
      send(EncryptionChange(status: status, connectionHandle: link.handle, encryptionEnabled: enabled))
    }
  }

  func report(payloadTimeout link: LinkConnection) {
    send(AuthenticatedPayloadTimeoutExpired(connectionHandle: link.handle))
  }

  /// `false`: the host does not want to be asked.
  func report(keyRequest random: UInt64, _ diversifier: UInt16, _ link: LinkConnection) -> Bool {
    guard isWanted(LESubevent.longTermKeyRequest) else { return false }
    send(
      LELongTermKeyRequest(
        connectionHandle: link.handle, randomNumber: random, encryptedDiversifier: diversifier))
    return true
  }

  /// `false`: the host does not want to be asked.
  func report(parameterRequest range: ConnectionParameterRange, _ link: LinkConnection) -> Bool {
    guard isWanted(LESubevent.remoteConnectionParameterRequest) else { return false }
    send(
      LERemoteConnectionParameterRequest(
        connectionHandle: link.handle, intervalMin: range.intervalMin, intervalMax: range.intervalMax,
        maxLatency: range.latency, timeout: range.supervisionTimeout))
    return true
  }

  func report(remoteFeatures features: UInt64, _ status: HCIStatus, _ link: LinkConnection) {
    send(LEReadRemoteFeaturesComplete(status: status, connectionHandle: link.handle, leFeatures: features))
  }

  func report(
    remoteVersion version: UInt8, _ company: UInt16, _ subversion: UInt16, _ status: HCIStatus, _ link: LinkConnection
  ) {
    send(
      ReadRemoteVersionInformationComplete(
        status: status, connectionHandle: link.handle, version: version, companyIdentifier: company,
        subversion: subversion))
  }

  /// An advertisement that passed the scanner's filters. `advertiser` is its address, resolved where that was possible.
  func report(_ advertisement: Advertisement, _ advertiser: DeviceAddress, _ rssi: Int8, isExtended: Bool) {
    if isExtended { return report(ExtendedReport(advertisement, advertiser, rssi)) }
    if let target = advertisement.target, target.kind == .resolvablePrivate,
      !isOwn(target, settings.scan.ownAddressType), settings.scan.filterPolicy.rawValue & 2 != 0
    {
      let report = LEDirectedAdvertisingReport.Report(
        eventType: .directed, addressType: advertiser.type, address: advertiser.address, directAddressType: target.type,
        directAddress: target.address, rssi: rssi)
      return send(LEDirectedAdvertisingReport(reports: [report]))
    }
    guard isWanted(LESubevent.advertisingReport) else { return }
    // By hand: one report per event, and no lists, for the sake of worlds with thousands of advertisers.
    writer.removeAll()
    writer.u8(HCIEventCode.leMeta.rawValue)
    writer.u8(UInt8(clamping: 12 + advertisement.data.count))
    writer.u8(LESubevent.advertisingReport.rawValue)
    writer.u8(1)
    writer.u8(advertisement.type.rawValue)
    writer.u8(advertiser.type.rawValue)
    advertiser.address.encode(into: &writer)
    writer.u8(UInt8(clamping: advertisement.data.count))
    writer.bytes(advertisement.data)
    writer.i8(rssi)
    flush(.event)
  }

  /// What extended scanning heard, in as many events as its data needs.
  func report(_ report: ExtendedReport) {
    var rest = report.data[...]
    repeat {
      let part = rest.prefix(ExtendedReport.dataMax)
      rest = rest.dropFirst(part.count)
      let status: ExtendedReport.DataStatus = rest.isEmpty ? report.status : .incomplete
      let type = report.type.rawValue | status.rawValue << 5
      let address = report.advertiser ?? .anonymous
      let target = report.target ?? DeviceAddress(.zero, type: .publicDevice)
      send(
        LEExtendedAdvertisingReport(reports: [
          LEExtendedAdvertisingReport.Report(
            eventType: ExtendedAdvertisingEventType(rawValue: type), addressType: address.type,
            address: address.address, primaryPHY: PHY(rawValue: report.primaryPHY.rawValue),
            secondaryPHY: report.secondaryPHY.map { PHY(rawValue: $0.rawValue) } ?? .none, advertisingSID: report.sid,
            txPower: report.txPower, rssi: report.rssi, periodicAdvertisingInterval: 0, directAddressType: target.type,
            directAddress: target.address, data: Array(part))
        ]))
    } while !rest.isEmpty
  }
}

/// One part of LE Extended Advertising Report (Vol 4 Part E 7.7.65.13).
struct ExtendedReport: Hashable {
  /// Data_Status.
  enum DataStatus: UInt16, Hashable {
    case complete = 0
    case incomplete = 1
    case truncated = 2
  }

  /// Without the data's status.
  var type: ExtendedAdvertisingEventType
  /// Resolved; nil: anonymous.
  var advertiser: DeviceAddress?
  var primaryPHY: AirPHY
  /// nil: nothing was on a data channel.
  var secondaryPHY: AirPHY?
  /// FF: none.
  var sid: UInt8 = 0xFF
  /// 127: not said.
  var txPower: Int8 = 127
  var rssi: Int8
  var target: DeviceAddress?
  var data: [UInt8] = []
  var status = DataStatus.complete

  /// Octets of data in one event.
  static let dataMax = 229

  init(
    type: ExtendedAdvertisingEventType, advertiser: DeviceAddress?, primaryPHY: AirPHY, secondaryPHY: AirPHY?,
    rssi: Int8
  ) {
    self.type = type
    self.advertiser = advertiser
    self.primaryPHY = primaryPHY
    self.secondaryPHY = secondaryPHY
    self.rssi = rssi
  }

  /// A legacy PDU.
  init(_ advertisement: Advertisement, _ advertiser: DeviceAddress, _ rssi: Int8) {
    let type: ExtendedAdvertisingEventType =
      switch advertisement.type {
      case .connectable: [.connectable, .scannable]
      case .directed: [.connectable, .directed]
      case .scannable: .scannable
      case .scanResponse:
        advertisement.isConnectable ? [.connectable, .scannable, .scanResponse] : [.scannable, .scanResponse]
      default: []
      }
    self.init(type: type.union(.legacy), advertiser: advertiser, primaryPHY: .le1M, secondaryPHY: nil, rssi: rssi)
    target = advertisement.target
    data = advertisement.data
  }
}
