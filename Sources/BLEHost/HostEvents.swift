// SPDX-License-Identifier: Apache-2.0

import BLECore
import BLEHCI

// What the controller tells: events of Vol 4 Part E 7.7. A malformed event is ignored.
extension Host {
  func receiveEvent(_ payload: RawSpan) {
    var reader = ByteReader(payload)
    guard let code = try? reader.u8(), let length = try? reader.u8(), Int(length) <= reader.remaining,
      let parameters = try? reader.span(Int(length))
    else { return }
    switch HCIEventCode(rawValue: code) {
    case .commandComplete, .commandStatus: commands.receive(HCIEventCode(rawValue: code), parameters)
    case .numberOfCompletedPackets: packetsCompleted(parameters)
    case .disconnectionComplete:
      if let event = try? DisconnectionComplete.decode(parameters) { disconnected(event) }
    case .leMeta: receiveMeta(parameters)
    case .hardwareError:
      let code = parameters.byteCount > 0 ? parameters.unsafeLoad(fromByteOffset: 0, as: UInt8.self) : 0
      fail(HostError("the controller reports a hardware error (code \(code)); it needs a reset"))
    default: break
    }
  }

  private func receiveMeta(_ parameters: RawSpan) {
    var reader = ByteReader(parameters)
    guard let subevent = try? reader.u8() else { return }
    let body = reader.rest()
    switch LESubevent(rawValue: subevent) {
    case .advertisingReport: receiveReports(body)
    case .extendedAdvertisingReport: receiveExtendedReports(body)
    case .connectionComplete:
      guard let event = try? LEConnectionComplete.decode(body) else { return }
      linkMade(
        event.status, event.connectionHandle, event.role, DeviceAddress(event.peerAddress, type: event.peerAddressType),
        ConnectionParameters(
          interval: event.connectionInterval, latency: event.peripheralLatency,
          supervisionTimeout: event.supervisionTimeout))
    case .enhancedConnectionComplete:
      guard let event = try? LEEnhancedConnectionComplete.decode(body) else { return }
      linkMade(
        event.status, event.connectionHandle, event.role, DeviceAddress(event.peerAddress, type: event.peerAddressType),
        ConnectionParameters(
          interval: event.connectionInterval, latency: event.peripheralLatency,
          supervisionTimeout: event.supervisionTimeout))
    case .connectionUpdateComplete:
      guard let event = try? LEConnectionUpdateComplete.decode(body), event.status == .success,
        let connection = connection(event.connectionHandle)
      else { return }
      connection.parameters = ConnectionParameters(
        interval: event.connectionInterval, latency: event.peripheralLatency,
        supervisionTimeout: event.supervisionTimeout)
      post(.connectionParametersChanged(connection))
    case .readRemoteFeaturesComplete:
      guard let event = try? LEReadRemoteFeaturesComplete.decode(body) else { return }
      if let connection = connection(event.connectionHandle), event.status != .connectionFailedToBeEstablished {
        report(connection)
      }
    case .longTermKeyRequest:
      guard let event = try? LELongTermKeyRequest.decode(body) else { return }
      commands.enqueue(
        LELongTermKeyRequestNegativeReply(connectionHandle: event.connectionHandle), context: .other)
    case .remoteConnectionParameterRequest:
      guard let event = try? LERemoteConnectionParameterRequest.decode(body) else { return }
      answer(event)
    default: break
    }
  }

  private func receiveReports(_ body: RawSpan) {
    guard let event = try? LEAdvertisingReport.decode(body) else { return }
    for report in event.reports {
      let address = DeviceAddress(report.address, type: report.addressType)
      heard(AdvertisingReport(type: report.eventType, address: address, data: report.data, rssi: report.rssi))
    }
  }

  /// Some controllers report so although scanning was started by the legacy commands.
  private func receiveExtendedReports(_ body: RawSpan) {
    guard let event = try? LEExtendedAdvertisingReport.decode(body) else { return }
    for report in event.reports {
      if let whole = extendedReports.join(report) { heard(whole) }
    }
  }

  private func heard(_ report: AdvertisingReport) {
    if report.isConnectable { connector.hear(report.address, now: now) }
    post(.advertising(report))
  }

  private func packetsCompleted(_ parameters: RawSpan) {
    progress.removeAll(keepingCapacity: true)
    try? acl.receiveNumberOfCompletedPackets(parameters, out: &commands.out, progress: &progress)
    for entry in progress where entry.completed > 0 {
      if let connection = connection(entry.connectionHandle) { credit(connection, frames: entry.completed) }
    }
    progress.removeAll(keepingCapacity: true)
  }

  private func credit(_ connection: Connection, frames: Int) {
    var sentCommands = 0
    var notifications = 0
    for _ in 0..<frames {
      switch connection.sentTags.removeFirst() {
      case .command: sentCommands += 1
      case .notification: notifications += 1
      case .answer: connection.answersOnTheWay -= 1
      case .other, nil: break
      }
    }
    guard connection.isReported else { return }
    if sentCommands > 0 { post(.commandsSent(connection, sentCommands)) }
    if notifications > 0 { post(.notificationsSent(connection, notifications)) }
  }

  // MARK: - Links

  private func linkMade(
    _ status: HCIStatus, _ handle: ConnectionHandle, _ role: ConnectionRole, _ peer: DeviceAddress,
    _ parameters: ConnectionParameters
  ) {
    // A failure names no role that could be relied on: it ends what the connector was doing.
    guard status == .success else {
      connector.connectionComplete(nil, now: now)
      return
    }
    // Not a handle that ACL data could carry (Vol 4 Part E 5.3.1).
    guard handle.rawValue <= ConnectionHandle.max else { return }
    if role == .central { connector.connectionComplete(peer, now: now) }
    if role == .peripheral { advertiser.linkMade(into: &commands) }
    _ = remove(handle)
    let connection = Connection(handle: handle, role: role, peer: peer, parameters: parameters)
    add(connection)
    if role == .central, info.supports(LEReadRemoteFeatures.opcode) {
      // The answer proves that the peer is there: a CONNECT_IND may have gone unheard.
      connection.reportDeadline = now + .seconds(2)
      commands.enqueue(LEReadRemoteFeatures(connectionHandle: handle), context: .remoteFeatures(handle))
    } else {
      report(connection)
    }
    if info.maximumTxOctets > 27, info.supports(LESetDataLength.opcode) {
      commands.enqueue(
        LESetDataLength(
          connectionHandle: handle, txOctets: info.maximumTxOctets, txTime: min(info.maximumTxTime, 2120)),
        context: .other)
    }
  }

  func disconnected(_ event: DisconnectionComplete) {
    guard event.status == .success, let connection = remove(event.connectionHandle) else { return }
    advertiser.linkEnded(into: &commands)
    if connection.isReported {
      post(.disconnected(connection, event.reason))
    } else if connection.role == .central, !connection.isDisconnecting {
      // Never established, so never reported: the peer is as wanted as before.
      connector.want(connection.peer, now: now, into: &commands)
    }
  }

  private func answer(_ event: LERemoteConnectionParameterRequest) {
    let range = ConnectionParameterRange(
      intervalMin: event.intervalMin, intervalMax: event.intervalMax, latency: event.maxLatency,
      supervisionTimeout: event.timeout)
    guard range.isValid else {
      commands.enqueue(
        LERemoteConnectionParameterRequestNegativeReply(
          connectionHandle: event.connectionHandle, reason: .unacceptableConnectionParameters),
        context: .other)
      return
    }
    commands.enqueue(
      LERemoteConnectionParameterRequestReply(
        connectionHandle: event.connectionHandle, intervalMin: event.intervalMin, intervalMax: event.intervalMax,
        maxLatency: event.maxLatency, timeout: event.timeout, minCELength: ConnectionEventLength(rawValue: 0),
        maxCELength: ConnectionEventLength(rawValue: 0)),
      context: .other)
  }
}
