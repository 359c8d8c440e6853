// SPDX-License-Identifier: Apache-2.0

import BLECore
import BLEHCI

/// Advertising, scanning and initiating come in two families of commands, and after Reset a host has to stay with the
/// one that it begins with (Vol 4 Part E 3.1.1).
enum CommandFamily: Hashable {
  case legacy, extended

  /// nil: the command is in neither.
  init?(_ opcode: UInt16) {
    switch opcode {
    case 0x2006...0x200D: self = .legacy
    case 0x2036...0x203D, 0x2041...0x2043: self = .extended
    default: return nil
    }
  }
}

/// The extended commands for advertising, scanning and initiating.
extension VirtualController {
  /// Advertising sets at most, and octets of data in each.
  static let advertisingSetsMax = 16
  static let advertisingDataMax = 1650

  /// Whether the host may use the command, having used what it has so far.
  func admits(_ opcode: UInt16) -> Bool {
    guard let family = CommandFamily(opcode) else { return true }
    if settings.commandFamily == nil { settings.commandFamily = family }
    return settings.commandFamily == family
  }

  /// `false`: not one of them.
  func dispatchLEExtended(_ opcode: UInt16, _ parameters: RawSpan) -> Bool {
    switch opcode {
    case 0x2035: status(LESetAdvertisingSetRandomAddress.self, parameters, setSetRandomAddress)
    case 0x2036: complete(LESetExtendedAdvertisingParameters.self, parameters, setExtendedParameters)
    case 0x2037:
      status(LESetExtendedAdvertisingData.self, parameters) {
        setData(DataChange(handle: $0.advertisingHandle, operation: $0.operation, octets: $0.advertisingData), false)
      }
    case 0x2038:
      status(LESetExtendedScanResponseData.self, parameters) {
        setData(DataChange(handle: $0.advertisingHandle, operation: $0.operation, octets: $0.scanResponseData), true)
      }
    case 0x2039: status(LESetExtendedAdvertisingEnable.self, parameters, setExtendedEnable)
    case 0x203A:
      complete(LEReadMaximumAdvertisingDataLength.self, parameters) { _ in
        .init(maxAdvertisingDataLength: UInt16(Self.advertisingDataMax))
      }
    case 0x203B:
      complete(LEReadNumberOfSupportedAdvertisingSets.self, parameters) { _ in
        .init(numSupportedAdvertisingSets: UInt8(Self.advertisingSetsMax))
      }
    case 0x203C: status(LERemoveAdvertisingSet.self, parameters, removeSet)
    case 0x203D:
      status(LEClearAdvertisingSets.self, parameters) { _ in
        guard !sets.contains(where: \.isOn) else { return .commandDisallowed }
        sets.removeAll()
        return .success
      }
    case 0x2041: status(LESetExtendedScanParameters.self, parameters, setExtendedScanParameters)
    case 0x2042: status(LESetExtendedScanEnable.self, parameters, setExtendedScanEnable)
    case 0x2043: extendedCreateConnection(parameters)
    default: return false
    }
    return true
  }

  func set(_ handle: UInt8) -> Advertiser? { sets.first { $0.handle == handle } }

  // MARK: - Advertising sets

  private func setSetRandomAddress(_ command: LESetAdvertisingSetRandomAddress) -> HCIStatus {
    guard let set = set(command.advertisingHandle) else { return .unknownAdvertisingIdentifier }
    // A connectable set's address is what its peers will know it by.
    guard !set.isOn || !set.isConnectable else { return .commandDisallowed }
    set.randomAddress = command.randomAddress
    if set.isOn, set.parameters.ownAddressType == .random {
      set.setAddress(DeviceAddress(command.randomAddress, type: .random))
    }
    return .success
  }

  private func setExtendedParameters(_ command: LESetExtendedAdvertisingParameters)
    -> LESetExtendedAdvertisingParameters.ReturnParameters
  {
    let existing = set(command.advertisingHandle)
    guard existing?.isOn != true else { return .init(status: .commandDisallowed) }
    let status = check(command)
    guard status == .success else { return .init(status: status) }
    guard existing != nil || sets.count < Self.advertisingSetsMax else { return .init(status: .memoryCapacityExceeded) }
    let advertiser =
      existing ?? Advertiser(controller: self, world: world, device: device, handle: command.advertisingHandle)
    let power = command.advertisingTxPower == 127 ? Self.txPower : min(command.advertisingTxPower, Self.txPower)
    let properties = command.advertisingEventProperties
    // Data that the new kind of advertising cannot have.
    if properties.contains(.legacy) {
      guard advertiser.data.count <= 31, advertiser.scanResponse.count <= 31 else {
        return .init(status: .invalidHCICommandParameters)
      }
    }
    let phys = (
      AirPHY(rawValue: command.primaryAdvertisingPHY.rawValue),
      AirPHY(rawValue: command.secondaryAdvertisingPHY.rawValue)
    )
    advertiser.parameters = Advertiser.Parameters(
      properties: properties, interval: command.primaryAdvertisingIntervalMin, ownAddressType: command.ownAddressType,
      peer: DeviceAddress(command.peerAddress, type: command.peerAddressType.onAir),
      channels: command.primaryAdvertisingChannelMap, filterPolicy: command.advertisingFilterPolicy, txPower: power,
      primaryPHY: phys.0 ?? .le1M, secondaryPHY: properties.contains(.legacy) ? .le1M : phys.1 ?? .le1M,
      sid: command.advertisingSID, notifiesScanRequests: command.scanRequestNotificationEnable)
    if existing == nil { sets.append(advertiser) }
    return .init(selectedTxPower: power)
  }

  private func check(_ command: LESetExtendedAdvertisingParameters) -> HCIStatus {
    let properties = command.advertisingEventProperties
    let isHighDutyCycle = properties.contains(.highDutyCycleDirected)
    let range: ClosedRange<UInt32> = 0x20...0xFF_FFFF
    guard command.advertisingHandle <= 0xEF, properties.rawValue & ~0x7F == 0,
      (1...7).contains(command.primaryAdvertisingChannelMap.rawValue), command.ownAddressType.rawValue <= 3,
      command.peerAddressType.rawValue <= 3, command.advertisingFilterPolicy.rawValue <= 3,
      command.advertisingTxPower == 127 || (-127...20).contains(command.advertisingTxPower),
      command.advertisingSID <= 15,
      isHighDutyCycle
        || range.contains(command.primaryAdvertisingIntervalMin.rawValue)
          && range.contains(command.primaryAdvertisingIntervalMax.rawValue)
          && command.primaryAdvertisingIntervalMin <= command.primaryAdvertisingIntervalMax
    else { return .invalidHCICommandParameters }
    if properties.contains(.legacy) {
      // ADV_IND, ADV_DIRECT_IND of both kinds, ADV_SCAN_IND, ADV_NONCONN_IND; all on 1M.
      guard [0x13, 0x15, 0x1D, 0x12, 0x10].contains(properties.rawValue), command.primaryAdvertisingPHY == .le1M else {
        return .invalidHCICommandParameters
      }
      return .success
    }
    guard !isHighDutyCycle, !properties.isSuperset(of: [.connectable, .scannable]),
      !properties.contains(.anonymous) || properties.isDisjoint(with: [.connectable, .scannable])
    else { return .invalidHCICommandParameters }
    guard [PHY.le1M, .leCoded].contains(command.primaryAdvertisingPHY),
      [PHY.le1M, .le2M, .leCoded].contains(command.secondaryAdvertisingPHY)
    else { return .unsupportedFeatureOrParameterValue }
    return .success
  }

  /// LE Set Extended Advertising Data or Scan Response Data.
  private struct DataChange {
    var handle: UInt8
    var operation: AdvertisingDataOperation
    var octets: [UInt8]
  }

  private func setData(_ change: DataChange, _ isResponse: Bool) -> HCIStatus {
    guard let set = set(change.handle) else { return .unknownAdvertisingIdentifier }
    guard change.operation.rawValue <= 4, change.octets.count <= 251 else { return .invalidHCICommandParameters }
    if !isResponse, change.operation == .unchanged {
      guard set.isOn, !set.isLegacy, !set.data.isEmpty, change.octets.isEmpty else {
        return .invalidHCICommandParameters
      }
      set.dataIdentifier = UInt16(truncatingIfNeeded: set.random.next() >> 52)
      return .success
    }
    guard change.operation != .unchanged else { return .invalidHCICommandParameters }
    if set.isOn, change.operation != .complete { return .commandDisallowed }
    if let status = refusal(of: change, for: set, isResponse) { return status }
    let begun = isResponse ? set.responseFragments : set.fragments
    var octets = change.octets
    switch change.operation {
    case .firstFragment, .complete: break
    default:
      guard let begun, !change.octets.isEmpty else { return .invalidHCICommandParameters }
      octets = begun + change.octets
    }
    let isWhole = change.operation == .complete || change.operation == .lastFragment
    guard octets.count <= Self.advertisingDataMax else {
      take(nil, nil, set, isResponse)
      return .memoryCapacityExceeded
    }
    if isWhole, set.isOn, !isResponse {
      let old = set.data
      set.data = octets
      guard set.fitsEvent else {
        set.data = old
        return .packetTooLong
      }
    }
    take(isWhole ? octets : nil, isWhole ? nil : octets, set, isResponse)
    return .success
  }

  private func take(_ whole: [UInt8]?, _ fragments: [UInt8]?, _ set: Advertiser, _ isResponse: Bool) {
    if isResponse { set.responseFragments = fragments } else { set.fragments = fragments }
    guard let whole else { return }
    if isResponse { set.scanResponse = whole } else { set.data = whole }
    set.dataIdentifier = UInt16(truncatingIfNeeded: set.random.next() >> 52)
  }

  /// Data of a kind that a set cannot have (7.8.54, 7.8.55).
  private func refusal(of change: DataChange, for set: Advertiser, _ isResponse: Bool) -> HCIStatus? {
    if set.isLegacy {
      guard change.operation == .complete, change.octets.count <= 31 else { return .invalidHCICommandParameters }
      if !isResponse, set.isDirected { return .invalidHCICommandParameters }
      if isResponse, !set.isScannable { return .invalidHCICommandParameters }
      return nil
    }
    if isResponse {
      guard set.isScannable else { return .invalidHCICommandParameters }
      if set.isOn, change.octets.isEmpty { return .commandDisallowed }
      return nil
    }
    return set.isScannable ? .invalidHCICommandParameters : nil
  }

  // MARK: - Enabling

  private func setExtendedEnable(_ command: LESetExtendedAdvertisingEnable) -> HCIStatus {
    guard command.enable else { return disable(command.sets.map(\.advertisingHandle)) }
    guard !command.sets.isEmpty, command.sets.count <= Self.advertisingSetsMax,
      Set(command.sets.map(\.advertisingHandle)).count == command.sets.count
    else { return .invalidHCICommandParameters }
    var starts: [(Advertiser, DeviceAddress, LESetExtendedAdvertisingEnable.AdvertisingSet)] = []
    for entry in command.sets {
      guard let set = set(entry.advertisingHandle) else { return .unknownAdvertisingIdentifier }
      let status = check(set, entry)
      guard status == .success else { return status }
      guard let own = address(of: set) else { return .invalidHCICommandParameters }
      starts.append((set, own, entry))
    }
    for (set, own, entry) in starts {
      if set.isOn { set.stop() }
      set.start(address: own, duration: entry.duration.timeSpan, eventsMax: entry.maxExtendedAdvertisingEvents)
    }
    return .success
  }

  private func check(_ set: Advertiser, _ entry: LESetExtendedAdvertisingEnable.AdvertisingSet) -> HCIStatus {
    if set.isHighDutyCycle {
      // 1.28 s is the most, and it has to be said.
      guard (1...128).contains(entry.duration.rawValue) else { return .invalidHCICommandParameters }
    }
    guard set.fragments == nil, set.responseFragments == nil else { return .commandDisallowed }
    if !set.isLegacy, set.isScannable, set.scanResponse.isEmpty { return .commandDisallowed }
    guard set.fitsEvent else { return .packetTooLong }
    guard !set.isConnectable || links.count < Self.connectionCountMax else { return .connectionLimitExceeded }
    return .success
  }

  private func disable(_ handles: [UInt8]) -> HCIStatus {
    guard !handles.isEmpty else {
      for set in sets { set.stop() }
      return .success
    }
    guard Set(handles).count == handles.count else { return .invalidHCICommandParameters }
    guard handles.allSatisfy({ set($0) != nil }) else { return .unknownAdvertisingIdentifier }
    for handle in handles { set(handle)?.stop() }
    return .success
  }

  private func removeSet(_ command: LERemoveAdvertisingSet) -> HCIStatus {
    guard let set = set(command.advertisingHandle) else { return .unknownAdvertisingIdentifier }
    guard !set.isOn else { return .commandDisallowed }
    sets.removeAll { $0 === set }
    return .success
  }

  // MARK: - Scanning

  private func setExtendedScanParameters(_ command: LESetExtendedScanParameters) -> HCIStatus {
    guard observer.scan == nil else { return .commandDisallowed }
    guard command.ownAddressType.rawValue <= 3, command.scanningFilterPolicy.rawValue <= 3,
      !command.scanningPHYs.isEmpty, command.phys.count == command.scanningPHYs.rawValue.nonzeroBitCount,
      command.phys.allSatisfy({ $0.scanType.rawValue <= 1 && isValid($0.scanInterval, $0.scanWindow) })
    else { return .invalidHCICommandParameters }
    guard command.scanningPHYs.isSubset(of: [.le1M, .leCoded]) else { return .unsupportedFeatureOrParameterValue }
    let phys = Self.phys(command.scanningPHYs)
    settings.scan = Observer.Scan(
      phys: zip(phys, command.phys).map {
        Observer.ScanPHY(phy: $0, type: $1.scanType, interval: $1.scanInterval, window: $1.scanWindow)
      }, ownAddressType: command.ownAddressType, filterPolicy: command.scanningFilterPolicy, isExtended: true)
    return .success
  }

  /// The PHYs of the bits of a mask, in their order.
  private static func phys(_ mask: PHYMask) -> [AirPHY] {
    AirPHY.allCases.filter { mask.rawValue >> ($0.rawValue - 1) & 1 == 1 }
  }

  private func setExtendedScanEnable(_ command: LESetExtendedScanEnable) -> HCIStatus {
    guard command.enable else {
      observer.stopScanning()
      return .success
    }
    guard command.filterDuplicates.rawValue <= 2,
      command.filterDuplicates != .resetEachPeriod || command.period.rawValue > 0
    else { return .invalidHCICommandParameters }
    if command.period.rawValue > 0 {
      guard command.duration.rawValue > 0, command.duration.timeSpan < command.period.timeSpan else {
        return .invalidHCICommandParameters
      }
    }
    guard ownAddress(settings.scan.ownAddressType, for: nil) != nil else { return .invalidHCICommandParameters }
    settings.scan.isExtended = true
    settings.scan.filterDuplicates = command.filterDuplicates
    settings.scan.duration = command.duration.timeSpan
    settings.scan.period = command.period.timeSpan
    observer.startScanning(settings.scan)
    return .success
  }

  // MARK: - Initiating

  private func extendedCreateConnection(_ parameters: RawSpan) {
    start(LEExtendedCreateConnection.self, parameters, check: check) { command in
      let peer = DeviceAddress(command.peerAddress, type: command.peerAddressType.onAir)
      let phys = zip(Self.phys(command.initiatingPHYs), command.phys).map { phy, parameters in
        Observer.InitiationPHY(
          phy: phy, interval: parameters.scanInterval, window: parameters.scanWindow,
          parameters: ConnectionParameters(
            interval: parameters.connectionIntervalMax, latency: parameters.maxLatency,
            supervisionTimeout: parameters.supervisionTimeout))
      }
      observer.startInitiating(
        Observer.Initiation(
          phys: phys, peer: command.initiatorFilterPolicy == .peerAddress ? peer : nil,
          ownAddressType: command.ownAddressType, isExtended: true))
    }
  }

  private func check(_ command: LEExtendedCreateConnection) -> HCIStatus {
    guard observer.initiation == nil else { return .commandDisallowed }
    guard command.initiatorFilterPolicy.rawValue <= 1, command.ownAddressType.rawValue <= 3,
      !command.initiatingPHYs.isDisjoint(with: [.le1M, .leCoded]),
      command.phys.count == command.initiatingPHYs.rawValue.nonzeroBitCount
    else { return .invalidHCICommandParameters }
    guard command.initiatingPHYs.isSubset(of: [.le1M, .le2M, .leCoded]) else {
      return .unsupportedFeatureOrParameterValue
    }
    for (phy, parameters) in zip(Self.phys(command.initiatingPHYs), command.phys) {
      let range = ConnectionParameterRange(
        intervalMin: parameters.connectionIntervalMin, intervalMax: parameters.connectionIntervalMax,
        latency: parameters.maxLatency, supervisionTimeout: parameters.supervisionTimeout)
      guard range.isValid, parameters.minCELength <= parameters.maxCELength,
        phy == .le2M || isValid(parameters.scanInterval, parameters.scanWindow)
      else { return .invalidHCICommandParameters }
    }
    guard ownAddress(command.ownAddressType, for: nil) != nil else { return .invalidHCICommandParameters }
    return checkPeer(command.initiatorFilterPolicy == .peerAddress, command.peerAddress, command.peerAddressType)
  }
}
