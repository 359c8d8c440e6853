// SPDX-License-Identifier: Apache-2.0

import BLECore
import BLEHCI

/// How to scan.
struct ScanSettings: Hashable, Sendable {
  /// Ask for scan responses.
  var isActive: Bool
  /// Listen all the time instead of half of it.
  var isContinuous: Bool
}

/// The scanning of one controller: what is wanted, what it does, and the commands from one to the other.
///
/// Duplicates are not filtered by the controller: several clients want different things, and a filter by address
/// would hide new data.
struct Scanner {
  enum Step { case stop, parameters, start }

  private enum State: Equatable {
    case off
    /// Commands are on their way; `settings` will be in force.
    case changing(ScanSettings?)
    case on(ScanSettings)
  }

  private var state = State.off
  /// What shall be: nil for no scanning.
  private(set) var wanted: ScanSettings?

  /// Whether the controller does not scan, or will not once it has answered.
  var isSilent: Bool {
    switch state {
    case .off, .changing(nil): true
    case .on, .changing: false
    }
  }

  mutating func want(
    _ settings: ScanSettings?, own: DeviceAddress, configuration: HostConfiguration,
    into commands: inout HostCommands
  ) {
    wanted = settings
    settle(own: own, configuration: configuration, into: &commands)
  }

  /// Sends the commands that lead to what is wanted, unless some are on their way.
  private mutating func settle(
    own: DeviceAddress, configuration: HostConfiguration, into commands: inout HostCommands
  ) {
    switch (state, wanted) {
    case (.changing, _), (.off, nil): return
    case (.on(let current), let wanted?) where current == wanted: return
    case (.on, nil):
      commands.enqueue(LESetScanEnable(enable: false, filterDuplicates: false), context: .scanning(.stop))
    case (.on, let wanted?):
      commands.enqueue(LESetScanEnable(enable: false, filterDuplicates: false), context: .other)
      start(wanted, own: own, configuration: configuration, into: &commands)
    case (.off, let wanted?):
      start(wanted, own: own, configuration: configuration, into: &commands)
    }
    state = .changing(wanted)
  }

  private func start(
    _ settings: ScanSettings, own: DeviceAddress, configuration: HostConfiguration,
    into commands: inout HostCommands
  ) {
    commands.enqueue(
      LESetScanParameters(
        scanType: settings.isActive ? .active : .passive, scanInterval: configuration.scanInterval,
        scanWindow: settings.isContinuous ? configuration.scanInterval : configuration.scanWindow,
        ownAddressType: own.type, scanningFilterPolicy: .all),
      context: .scanning(.parameters))
    commands.enqueue(LESetScanEnable(enable: true, filterDuplicates: false), context: .scanning(.start))
  }

  /// The controller answered; the status if scanning could not start.
  mutating func complete(
    _ step: Step, _ status: HCIStatus, own: DeviceAddress, configuration: HostConfiguration,
    into commands: inout HostCommands
  ) -> HCIStatus? {
    var failure: HCIStatus?
    switch step {
    case .parameters: return nil
    case .stop: state = .off
    case .start:
      if status == .success, case .changing(let settings?) = state {
        state = .on(settings)
      } else {
        state = .off
        wanted = nil
        failure = status
      }
    }
    settle(own: own, configuration: configuration, into: &commands)
    return failure
  }
}

/// Joins the parts of extended advertising reports (Vol 4 Part E 7.7.65.13) and says them in legacy terms.
struct ExtendedReports {
  private struct Source: Hashable {
    var address: DeviceAddress
    var sid: UInt8
  }

  private var parts: [Source: [UInt8]] = [:]

  /// The most that a chain can hold (Vol 4 Part E 7.7.65.13), and chains that may be under way.
  private static let dataMax = 1650
  private static let chainsMax = 64

  /// The report that is complete with this part; nil while more is to come, and for a chain that was cut off.
  mutating func join(_ report: LEExtendedAdvertisingReport.Report) -> AdvertisingReport? {
    let address = DeviceAddress(report.address, type: report.addressType)
    let source = Source(address: address, sid: report.advertisingSID)
    let data = (parts.removeValue(forKey: source) ?? []) + report.data
    switch report.eventType.dataStatus {
    case .complete:
      return AdvertisingReport(type: Self.legacyType(report.eventType), address: address, data: data, rssi: report.rssi)
    case .incomplete:
      if parts.count < Self.chainsMax, data.count <= Self.dataMax { parts[source] = data }
      return nil
    case .truncated, .reserved: return nil
    }
  }

  private static func legacyType(_ type: ExtendedAdvertisingEventType) -> AdvertisingReportType {
    if type.contains(.scanResponse) { return .scanResponse }
    if type.contains(.directed) { return type.contains(.connectable) ? .directed : .nonConnectable }
    if type.contains(.connectable) { return .connectable }
    return type.contains(.scannable) ? .scannable : .nonConnectable
  }
}
