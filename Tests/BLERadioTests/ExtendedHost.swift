// SPDX-License-Identifier: Apache-2.0

import BLECore
import BLEHCI
import BLERadio
import Testing

/// Extended advertising's commands, with what most tests want as defaults.
extension ScriptedHost {
  static let undirected: AdvertisingEventProperties = []

  func makeSet(
    _ handle: UInt8 = 0, _ properties: AdvertisingEventProperties = [], interval: UInt32 = 0x40,
    own: AddressType = .publicDevice, peer: DeviceAddress = DeviceAddress(.zero, type: .publicDevice),
    channels: AdvertisingChannelMap = .all, policy: AdvertisingFilterPolicy = .all, power: Int8 = 127,
    primary: PHY = .le1M, secondary: PHY = .le1M, sid: UInt8 = 0, notifies: Bool = false
  ) throws -> HCIStatus {
    try call(
      LESetExtendedAdvertisingParameters(
        advertisingHandle: handle, advertisingEventProperties: properties,
        primaryAdvertisingIntervalMin: AdvertisingInterval(rawValue: interval),
        primaryAdvertisingIntervalMax: AdvertisingInterval(rawValue: interval),
        primaryAdvertisingChannelMap: channels, ownAddressType: own, peerAddressType: peer.type,
        peerAddress: peer.address, advertisingFilterPolicy: policy, advertisingTxPower: power,
        primaryAdvertisingPHY: primary, secondaryAdvertisingMaxSkip: 0, secondaryAdvertisingPHY: secondary,
        advertisingSID: sid, scanRequestNotificationEnable: notifies)
    ).status
  }

  /// Sets data of any length, in as many fragments as it needs.
  func setData(_ data: [UInt8], handle: UInt8 = 0, isResponse: Bool = false) throws {
    var rest = data[...]
    var isFirst = true
    repeat {
      let part = Array(rest.prefix(251))
      rest = rest.dropFirst(part.count)
      let operation: AdvertisingDataOperation =
        isFirst ? (rest.isEmpty ? .complete : .firstFragment) : rest.isEmpty ? .lastFragment : .intermediateFragment
      #expect(try setPart(part, operation, handle: handle, isResponse: isResponse) == .success)
      isFirst = false
    } while !rest.isEmpty
  }

  func setPart(
    _ part: [UInt8], _ operation: AdvertisingDataOperation, handle: UInt8 = 0, isResponse: Bool = false
  ) throws -> HCIStatus {
    isResponse
      ? try call(
        LESetExtendedScanResponseData(
          advertisingHandle: handle, operation: operation, fragmentPreference: 0, scanResponseData: part)
      ).status
      : try call(
        LESetExtendedAdvertisingData(
          advertisingHandle: handle, operation: operation, fragmentPreference: 0, advertisingData: part)
      ).status
  }

  func enable(_ handles: [UInt8] = [0], _ isOn: Bool = true, duration: UInt16 = 0, events: UInt8 = 0) throws
    -> HCIStatus
  {
    try call(
      LESetExtendedAdvertisingEnable(
        enable: isOn,
        sets: handles.map {
          .init(
            advertisingHandle: $0, duration: AdvertisingDuration(rawValue: duration),
            maxExtendedAdvertisingEvents: events
          )
        })
    ).status
  }

  /// A set with data, on.
  func advertiseExtended(
    _ properties: AdvertisingEventProperties = [], data: [UInt8] = [], response: [UInt8] = [], primary: PHY = .le1M,
    secondary: PHY = .le1M, sid: UInt8 = 0, own: AddressType = .publicDevice,
    peer: DeviceAddress = DeviceAddress(.zero, type: .publicDevice), notifies: Bool = false
  ) throws {
    #expect(
      try makeSet(
        0, properties, own: own, peer: peer, primary: primary, secondary: secondary, sid: sid, notifies: notifies)
        == .success)
    if !data.isEmpty { try setData(data) }
    if !response.isEmpty { try setData(response, isResponse: true) }
    #expect(try enable() == .success)
  }

  func scanExtended(
    _ type: ScanType = .passive, phys: PHYMask = .le1M, interval: UInt16 = 0x60, window: UInt16 = 0x60,
    own: AddressType = .publicDevice, policy: ScanningFilterPolicy = .all, duplicates: DuplicateFilter = .off,
    duration: UInt16 = 0, period: UInt16 = 0
  ) throws {
    let parameters = LESetExtendedScanParameters.PHYParameters(
      scanType: type, scanInterval: ScanInterval(rawValue: interval), scanWindow: ScanInterval(rawValue: window))
    try expect(
      LESetExtendedScanParameters(
        ownAddressType: own, scanningFilterPolicy: policy, scanningPHYs: phys,
        phys: Array(repeating: parameters, count: phys.rawValue.nonzeroBitCount)))
    try expect(
      LESetExtendedScanEnable(
        enable: true, filterDuplicates: duplicates, duration: AdvertisingDuration(rawValue: duration),
        period: ScanPeriod(rawValue: period)))
  }

  func stopScanExtended() throws {
    try expect(
      LESetExtendedScanEnable(
        enable: false, filterDuplicates: .off, duration: AdvertisingDuration(rawValue: 0),
        period: ScanPeriod(rawValue: 0)))
  }

  func connectExtended(
    to peer: DeviceAddress?, phys: PHYMask = .le1M, own: AddressType = .publicDevice, interval: UInt16 = 24
  ) throws -> HCIStatus {
    let parameters = LEExtendedCreateConnection.PHYParameters(
      scanInterval: ScanInterval(rawValue: 0x60), scanWindow: ScanInterval(rawValue: 0x60),
      connectionIntervalMin: ConnectionInterval(rawValue: interval),
      connectionIntervalMax: ConnectionInterval(rawValue: interval), maxLatency: 0,
      supervisionTimeout: SupervisionTimeout(rawValue: 100), minCELength: ConnectionEventLength(rawValue: 0),
      maxCELength: ConnectionEventLength(rawValue: 0))
    return try request(
      LEExtendedCreateConnection(
        initiatorFilterPolicy: peer == nil ? .acceptList : .peerAddress, ownAddressType: own,
        peerAddressType: peer?.type ?? .publicDevice, peerAddress: peer?.address ?? .zero, initiatingPHYs: phys,
        phys: Array(repeating: parameters, count: phys.rawValue.nonzeroBitCount)))
  }

  var extendedReports: [(time: Instant, report: LEExtendedAdvertisingReport.Report)] {
    metaEvents(LEExtendedAdvertisingReport.self).flatMap { entry in entry.event.reports.map { (entry.time, $0) } }
  }

  /// The data of reports put together; only of those that came whole.
  var wholeData: [[UInt8]] {
    var whole: [[UInt8]] = []
    var parts: [UInt8] = []
    for (_, report) in extendedReports {
      parts += report.data
      switch report.eventType.dataStatus {
      case .complete: whole.append(parts)
      case .incomplete: continue
      case .truncated, .reserved: break
      }
      parts = []
    }
    return whole
  }

  var publicAddress: DeviceAddress { DeviceAddress(controller.address, type: .publicDevice) }
}
