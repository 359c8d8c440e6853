// SPDX-License-Identifier: Apache-2.0

import BLECore
import BLECrypto
import BLEHCI

extension VirtualController {
  /// The commands that this controller does; every other is refused with Unknown HCI Command.
  static let supportedCommands: SupportedCommands = {
    let opcodes: [UInt16] = [
      0x0406, 0x041D, 0x0C01, 0x0C03, 0x0C2D, 0x0C63, 0x0C6D, 0x0C7B, 0x0C7C, 0x1001, 0x1002, 0x1003, 0x1005, 0x1009,
      0x1405, 0x2001,
      0x2002, 0x2003, 0x2005, 0x2006, 0x2007, 0x2008, 0x2009, 0x200A, 0x200B, 0x200C, 0x200D, 0x200E, 0x200F, 0x2010,
      0x2011, 0x2012, 0x2013, 0x2014, 0x2015, 0x2016, 0x2017, 0x2018, 0x2019, 0x201A, 0x201B, 0x201C, 0x2020, 0x2021,
      0x2022, 0x2023, 0x2024, 0x2027, 0x2028, 0x2029, 0x202A, 0x202B, 0x202C, 0x202D, 0x202E, 0x202F, 0x2030, 0x2031,
      0x2032, 0x2035, 0x2036, 0x2037, 0x2038, 0x2039, 0x203A, 0x203B, 0x203C, 0x203D, 0x2041, 0x2042, 0x2043, 0x204B,
      0x204E, 0x2060,
    ]
    var commands = SupportedCommands()
    for opcode in opcodes { commands.insert(HCIOpcode(rawValue: opcode)) }
    return commands
  }()

  /// Commands that are answered by Command Status also when they are unknown here.
  private static let statusCommands: Set<UInt16> = [
    0x0406, 0x041D, 0x200D, 0x2013, 0x2016, 0x2019, 0x2025, 0x2026, 0x2032, 0x2043, 0x205E,
  ]
  /// All combinations of legacy states (Vol 4 Part E 7.8.27).
  private static let supportedStates: UInt64 = 0x3FF_FFFF_FFFF
  /// BR/EDR Not Supported and LE Supported (Controller) (Vol 2 Part C 3.3).
  private static let lmpFeatures: UInt64 = 0x60 << 32

  // MARK: - Frame

  func receiveCommand(_ payload: RawSpan) {
    var reader = ByteReader(payload)
    guard let opcode = try? reader.u16() else { return }
    guard let length = try? reader.u8(), Int(length) == reader.remaining else {
      return refuse(HCIOpcode(rawValue: opcode), .invalidHCICommandParameters)
    }
    dispatch(opcode, reader.rest())
  }

  private func refuse(_ opcode: HCIOpcode, _ status: HCIStatus) {
    if Self.statusCommands.contains(opcode.rawValue) {
      sendStatus(opcode, status)
    } else {
      writer.removeAll()
      CommandComplete(numHCICommandPackets: 1, commandOpcode: opcode).encodePacket(
        StatusReturn(status: status), into: &writer)
      flush(.event)
    }
  }

  private func sendStatus(_ opcode: HCIOpcode, _ status: HCIStatus) {
    send(CommandStatus(status: status, numHCICommandPackets: 1, commandOpcode: opcode))
  }

  /// A command that is answered by Command Complete with what `body` returns; `then` comes after the answer.
  func complete<C: HCICommand>(
    _ type: C.Type, _ parameters: RawSpan, _ body: (C) -> C.ReturnParameters,
    then: (C, C.ReturnParameters) -> Void = { _, _ in }
  ) {
    let command = try? C.decode(parameters)
    let answer = command.map(body) ?? C.ReturnParameters(status: .invalidHCICommandParameters)
    writer.removeAll()
    CommandComplete(numHCICommandPackets: 1, commandOpcode: C.opcode).encodePacket(answer, into: &writer)
    flush(.event)
    if let command { then(command, answer) }
  }

  /// A command that is answered by Command Complete with the status that `body` returns.
  func status<C: HCICommand>(_ type: C.Type, _ parameters: RawSpan, _ body: (C) -> HCIStatus)
  where C.ReturnParameters == StatusReturn { complete(type, parameters) { StatusReturn(status: body($0)) } }

  /// A command that is answered by Command Status: `check`, and after the answer, on success, `body`.
  func start<C: HCICommand>(_ type: C.Type, _ parameters: RawSpan, check: (C) -> HCIStatus, then body: (C) -> Void) {
    guard let command = try? C.decode(parameters) else { return sendStatus(C.opcode, .invalidHCICommandParameters) }
    let status = check(command)
    sendStatus(C.opcode, status)
    if status == .success { body(command) }
  }

  private func dispatch(_ opcode: UInt16, _ parameters: RawSpan) {
    switch opcode >> 10 {
    case 0x08:
      guard admits(opcode) else { return refuse(HCIOpcode(rawValue: opcode), .commandDisallowed) }
      if dispatchLE(opcode, parameters) || dispatchLEConnection(opcode, parameters)
        || dispatchLEExtended(opcode, parameters) || dispatchLEPrivacy(opcode, parameters)
      {
        return
      }
    default: if dispatchGeneral(opcode, parameters) { return }
    }
    refuse(HCIOpcode(rawValue: opcode), .unknownHCICommand)
  }

  // MARK: - Link control, baseband, informational and status commands

  private func dispatchGeneral(_ opcode: UInt16, _ parameters: RawSpan) -> Bool {
    switch opcode {
    case 0x0406: disconnect(parameters)
    case 0x041D: readRemoteVersion(parameters)
    case 0x0C01:
      status(SetEventMask.self, parameters) {
        settings.eventMask = $0.eventMask
        return .success
      }
    case 0x0C03: reset(parameters)
    case 0x0C2D: readTransmitPowerLevel(parameters)
    case 0x0C63:
      status(SetEventMaskPage2.self, parameters) {
        settings.eventMaskPage2 = $0.eventMaskPage2; return .success
      }
    case 0x0C7B: complete(ReadAuthenticatedPayloadTimeout.self, parameters, readPayloadTimeout)
    case 0x0C7C: complete(WriteAuthenticatedPayloadTimeout.self, parameters, writePayloadTimeout)
    case 0x0C6D: status(WriteLEHostSupport.self, parameters) { _ in .success }
    case 0x1001: readLocalVersion(parameters)
    case 0x1002:
      complete(ReadLocalSupportedCommands.self, parameters) { _ in .init(supportedCommands: Self.supportedCommands) }
    case 0x1003: complete(ReadLocalSupportedFeatures.self, parameters) { _ in .init(lmpFeatures: Self.lmpFeatures) }
    case 0x1005: readBufferSize(parameters)
    case 0x1009: complete(ReadBDADDR.self, parameters) { _ in .init(bdADDR: address) }
    case 0x1405:
      complete(ReadRSSI.self, parameters) { command in
        guard let link = link(command.connectionHandle) else { return .init(status: .unknownConnectionIdentifier) }
        return .init(connectionHandle: link.handle, rssi: link.rssi)
      }
    default: return false
    }
    return true
  }

  private func reset(_ parameters: RawSpan) {
    status(Reset.self, parameters) { _ in
      forgetEverything()
      return .success
    }
  }

  private func disconnect(_ parameters: RawSpan) {
    start(Disconnect.self, parameters) { command in
      guard link(command.connectionHandle) != nil else { return .unknownConnectionIdentifier }
      switch command.reason.rawValue {
      case 0x05, 0x13, 0x14, 0x15, 0x1A, 0x29, 0x3B: return .success
      default: return .invalidHCICommandParameters
      }
    } then: { command in
      link(command.connectionHandle)?.terminate(command.reason)
    }
  }

  /// Whether a link control procedure can be started on a connection.
  func checkProcedure(on handle: ConnectionHandle) -> HCIStatus {
    guard let link = link(handle) else { return .unknownConnectionIdentifier }
    return link.isControlFull ? .controllerBusy : .success
  }

  private func readRemoteVersion(_ parameters: RawSpan) {
    start(ReadRemoteVersionInformation.self, parameters) {
      checkProcedure(on: $0.connectionHandle)
    } then: { command in
      link(command.connectionHandle)?.start(.versionExchange)
    }
  }

  private func readTransmitPowerLevel(_ parameters: RawSpan) {
    complete(ReadTransmitPowerLevel.self, parameters) { command in
      guard let link = link(command.connectionHandle) else { return .init(status: .unknownConnectionIdentifier) }
      guard command.type <= 1 else { return .init(status: .invalidHCICommandParameters) }
      return .init(connectionHandle: link.handle, txPowerLevel: Self.txPower)
    }
  }

  private func readLocalVersion(_ parameters: RawSpan) {
    complete(ReadLocalVersionInformation.self, parameters) { _ in
      .init(
        hciVersion: LocalVersion.version, hciSubversion: LocalVersion.subversion, lmpVersion: LocalVersion.version,
        companyIdentifier: LocalVersion.company, lmpSubversion: LocalVersion.subversion)
    }
  }

  private func readBufferSize(_ parameters: RawSpan) {
    complete(ReadBufferSize.self, parameters) { _ in
      .init(
        aclDataPacketLength: UInt16(Self.aclPacketLength), synchronousDataPacketLength: 0,
        totalNumACL: UInt16(Self.aclPacketCount), totalNumSync: 0)
    }
  }

  // MARK: - LE commands about the device

  private func dispatchLE(_ opcode: UInt16, _ parameters: RawSpan) -> Bool {
    switch opcode {
    case 0x2001:
      status(LESetEventMask.self, parameters) {
        settings.leEventMask = $0.leEventMask
        return .success
      }
    case 0x2002:
      complete(LEReadBufferSize.self, parameters) { _ in
        .init(leACLDataPacketLength: UInt16(Self.aclPacketLength), totalNumLEACLDataPackets: UInt8(Self.aclPacketCount))
      }
    case 0x2060:
      complete(LEReadBufferSizeV2.self, parameters) { _ in
        .init(
          leACLDataPacketLength: UInt16(Self.aclPacketLength), totalNumLEACLDataPackets: UInt8(Self.aclPacketCount),
          isoDataPacketLength: 0, totalNumISODataPackets: 0)
      }
    case 0x2003:
      complete(LEReadLocalSupportedFeatures.self, parameters) { _ in .init(leFeatures: LEFeatures.local.rawValue) }
    case 0x201C: complete(LEReadSupportedStates.self, parameters) { _ in .init(leStates: Self.supportedStates) }
    case 0x2017: encrypt(parameters)
    case 0x2018: complete(LERand.self, parameters) { _ in .init(randomNumber: hostRandom.next()) }
    case 0x204B:
      complete(LEReadTransmitPower.self, parameters) { _ in .init(minTxPower: Self.txPower, maxTxPower: Self.txPower) }
    case 0x2005: status(LESetRandomAddress.self, parameters, setRandomAddress)
    case 0x2006: status(LESetAdvertisingParameters.self, parameters, setAdvertisingParameters)
    case 0x2007:
      complete(LEReadAdvertisingPhysicalChannelTxPower.self, parameters) { _ in .init(txPowerLevel: Self.txPower) }
    case 0x2008:
      status(LESetAdvertisingData.self, parameters) {
        advertiser.data = $0.data
        return .success
      }
    case 0x2009:
      status(LESetScanResponseData.self, parameters) {
        advertiser.scanResponse = $0.data
        return .success
      }
    case 0x200A: status(LESetAdvertisingEnable.self, parameters, setAdvertisingEnable)
    case 0x200B: status(LESetScanParameters.self, parameters, setScanParameters)
    case 0x200C: status(LESetScanEnable.self, parameters, setScanEnable)
    case 0x200F: complete(LEReadFilterAcceptListSize.self, parameters) { _ in .init(size: UInt8(Self.acceptListSize)) }
    case 0x2010: status(LEClearFilterAcceptList.self, parameters) { _ in clearAcceptList() }
    case 0x2011: status(LEAddDeviceToFilterAcceptList.self, parameters, addToAcceptList)
    case 0x2012: status(LERemoveDeviceFromFilterAcceptList.self, parameters, removeFromAcceptList)
    default: return false
    }
    return true
  }

  /// Key, plaintext and ciphertext are least significant octet first.
  private func encrypt(_ parameters: RawSpan) {
    complete(LEEncrypt.self, parameters) { command in
      guard let cipher = try? AES128(key: command.key.reversed()),
        let block = try? cipher.encrypt(command.plaintextData.reversed())
      else { return .init(status: .hardwareFailure) }
      return .init(encryptedData: block.reversed())
    }
  }

  private func setRandomAddress(_ command: LESetRandomAddress) -> HCIStatus {
    guard !advertiser.isOn, observer.scan == nil, observer.initiation == nil else { return .commandDisallowed }
    settings.randomAddress = command.randomAddress
    return .success
  }

  // MARK: Advertising

  private func setAdvertisingParameters(_ command: LESetAdvertisingParameters) -> HCIStatus {
    guard !advertiser.isOn else { return .commandDisallowed }
    let range: ClosedRange<UInt32> = 0x20...0x4000
    let isHighDuty = command.advertisingType == .directedHighDutyCycle
    guard command.advertisingType.rawValue <= 4, command.advertisingFilterPolicy.rawValue <= 3,
      command.peerAddressType.rawValue <= 1, (1...7).contains(command.advertisingChannelMap.rawValue),
      isHighDuty
        || range.contains(command.advertisingIntervalMin.rawValue)
          && range.contains(command.advertisingIntervalMax.rawValue)
          && command.advertisingIntervalMin <= command.advertisingIntervalMax
    else { return .invalidHCICommandParameters }
    guard command.ownAddressType.rawValue <= 3 else { return .invalidHCICommandParameters }
    advertiser.parameters = Advertiser.Parameters(
      properties: Self.properties(command.advertisingType), interval: command.advertisingIntervalMin,
      ownAddressType: command.ownAddressType, peer: DeviceAddress(command.peerAddress, type: command.peerAddressType),
      channels: command.advertisingChannelMap, filterPolicy: command.advertisingFilterPolicy)
    return .success
  }

  /// The same in the terms of extended advertising.
  private static func properties(_ type: AdvertisingType) -> AdvertisingEventProperties {
    switch type {
    case .connectable: [.legacy, .connectable, .scannable]
    case .directedHighDutyCycle: [.legacy, .connectable, .directed, .highDutyCycleDirected]
    case .directedLowDutyCycle: [.legacy, .connectable, .directed]
    case .scannable: [.legacy, .scannable]
    default: .legacy
    }
  }

  private func setAdvertisingEnable(_ command: LESetAdvertisingEnable) -> HCIStatus {
    guard command.enable else {
      advertiser.stop()
      return .success
    }
    guard let own = address(of: advertiser) else { return .invalidHCICommandParameters }
    guard !advertiser.isConnectable || links.count < Self.connectionCountMax else { return .connectionLimitExceeded }
    if advertiser.isOn { advertiser.stop() }
    advertiser.start(address: own, duration: advertiser.isHighDutyCycle ? Advertiser.highDutyCycleDuration : .zero)
    return .success
  }

  // MARK: Scanning

  private func setScanParameters(_ command: LESetScanParameters) -> HCIStatus {
    guard observer.scan == nil else { return .commandDisallowed }
    guard command.scanType.rawValue <= 1, isValid(command.scanInterval, command.scanWindow),
      command.scanningFilterPolicy.rawValue <= 3
    else { return .invalidHCICommandParameters }
    guard command.ownAddressType.rawValue <= 3 else { return .invalidHCICommandParameters }
    settings.scan = Observer.Scan(
      phys: [Observer.ScanPHY(type: command.scanType, interval: command.scanInterval, window: command.scanWindow)],
      ownAddressType: command.ownAddressType, filterPolicy: command.scanningFilterPolicy)
    return .success
  }

  func isValid(_ interval: ScanInterval, _ window: ScanInterval) -> Bool {
    let range: ClosedRange<UInt16> = 0x0004...0x4000
    return range.contains(interval.rawValue) && range.contains(window.rawValue) && window <= interval
  }

  private func setScanEnable(_ command: LESetScanEnable) -> HCIStatus {
    guard command.enable else {
      observer.stopScanning()
      return .success
    }
    guard ownAddress(settings.scan.ownAddressType, for: nil) != nil else { return .invalidHCICommandParameters }
    settings.scan.filterDuplicates = command.filterDuplicates ? .on : .off
    observer.startScanning(settings.scan)
    return .success
  }

  // MARK: Filter Accept List

  /// Whether advertising, scanning or initiating filters by the list, which then must not be changed (7.8.15).
  private var isAcceptListInUse: Bool {
    if advertiser.isOn, advertiser.parameters.filterPolicy != .all { return true }
    if sets.contains(where: { $0.isOn && $0.parameters.filterPolicy != .all }) { return true }
    if let scan = observer.scan, scan.filterPolicy.rawValue & 1 != 0 { return true }
    if let initiation = observer.initiation, initiation.peer == nil { return true }
    return false
  }

  private func clearAcceptList() -> HCIStatus {
    guard !isAcceptListInUse else { return .commandDisallowed }
    settings.acceptList.removeAll()
    return .success
  }

  private func addToAcceptList(_ command: LEAddDeviceToFilterAcceptList) -> HCIStatus {
    guard !isAcceptListInUse else { return .commandDisallowed }
    guard command.addressType.rawValue <= 1 || command.addressType == .anonymous else {
      return .invalidHCICommandParameters
    }
    let entry = DeviceAddress(command.address, type: command.addressType)
    guard !settings.acceptList.contains(entry) else { return .success }
    guard settings.acceptList.count < Self.acceptListSize else { return .memoryCapacityExceeded }
    settings.acceptList.append(entry)
    return .success
  }

  private func removeFromAcceptList(_ command: LERemoveDeviceFromFilterAcceptList) -> HCIStatus {
    guard !isAcceptListInUse else { return .commandDisallowed }
    guard command.addressType.rawValue <= 1 || command.addressType == .anonymous else {
      return .invalidHCICommandParameters
    }
    settings.acceptList.removeAll { $0 == DeviceAddress(command.address, type: command.addressType) }
    return .success
  }
}
