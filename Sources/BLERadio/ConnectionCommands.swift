// SPDX-License-Identifier: Apache-2.0

import BLECore
import BLEHCI

/// LE commands about connections.
extension VirtualController {
  /// `false`: not one of them.
  func dispatchLEConnection(_ opcode: UInt16, _ parameters: RawSpan) -> Bool {
    switch opcode {
    case 0x200D: createConnection(parameters)
    case 0x200E: cancelConnection(parameters)
    case 0x2013: updateConnection(parameters)
    case 0x2014: status(LESetHostChannelClassification.self, parameters, setChannelClassification)
    case 0x2015:
      complete(LEReadChannelMap.self, parameters) { command in
        guard let link = link(command.connectionHandle) else { return .init(status: .unknownConnectionIdentifier) }
        return .init(connectionHandle: link.handle, channelMap: link.usedChannels)
      }
    case 0x2016:
      start(LEReadRemoteFeatures.self, parameters) {
        checkProcedure(on: $0.connectionHandle)
      } then: { command in
        link(command.connectionHandle)?.start(.featureExchange)
      }
    case 0x2022: complete(LESetDataLength.self, parameters, setDataLength)
    case 0x2023:
      complete(LEReadSuggestedDefaultDataLength.self, parameters) { _ in
        .init(suggestedMaxTxOctets: settings.suggestedMaxTxOctets, suggestedMaxTxTime: settings.suggestedMaxTxTime)
      }
    case 0x2024: status(LEWriteSuggestedDefaultDataLength.self, parameters, setSuggestedDataLength)
    case 0x202F:
      complete(LEReadMaximumDataLength.self, parameters) { _ in
        .init(
          supportedMaxTxOctets: LinkLayer.dataOctetsMax, supportedMaxTxTime: LinkLayer.dataTimeMax,
          supportedMaxRxOctets: LinkLayer.dataOctetsMax, supportedMaxRxTime: LinkLayer.dataTimeMax)
      }
    case 0x2020...0x2021, 0x2030...0x2032: dispatchLinkUpdate(opcode, parameters)
    case 0x2019...0x201B: dispatchEncryption(opcode, parameters)
    default: return false
    }
    return true
  }

  // MARK: - Making connections

  private func createConnection(_ parameters: RawSpan) {
    start(LECreateConnection.self, parameters, check: checkCreateConnection) { command in
      let peer = DeviceAddress(command.peerAddress, type: command.peerAddressType.onAir)
      observer.startInitiating(
        Observer.Initiation(
          phys: [
            Observer.InitiationPHY(
              interval: command.scanInterval, window: command.scanWindow,
              parameters: ConnectionParameters(
                interval: command.connectionIntervalMax, latency: command.maxLatency,
                supervisionTimeout: command.supervisionTimeout))
          ], peer: command.initiatorFilterPolicy == .peerAddress ? peer : nil, ownAddressType: command.ownAddressType))
    }
  }

  private func checkCreateConnection(_ command: LECreateConnection) -> HCIStatus {
    guard observer.initiation == nil else { return .commandDisallowed }
    let range = ConnectionParameterRange(
      intervalMin: command.connectionIntervalMin, intervalMax: command.connectionIntervalMax,
      latency: command.maxLatency, supervisionTimeout: command.supervisionTimeout)
    guard range.isValid, isValid(command.scanInterval, command.scanWindow), command.initiatorFilterPolicy.rawValue <= 1,
      command.minCELength <= command.maxCELength
    else { return .invalidHCICommandParameters }
    guard command.ownAddressType.rawValue <= 3, ownAddress(command.ownAddressType, for: nil) != nil else {
      return .invalidHCICommandParameters
    }
    return checkPeer(command.initiatorFilterPolicy == .peerAddress, command.peerAddress, command.peerAddressType)
  }

  /// Whether there is room for a connection, and none to `address` yet if that is whom it is for.
  func checkPeer(_ isNamed: Bool, _ address: BDAddress, _ type: AddressType) -> HCIStatus {
    guard links.count < Self.connectionCountMax else { return .connectionLimitExceeded }
    guard isNamed else { return .success }
    guard type.rawValue <= 3 else { return .invalidHCICommandParameters }
    let peer = DeviceAddress(address, type: type)
    return links.contains { $0.peerAddress.isSameDevice(as: peer) } ? .connectionAlreadyExists : .success
  }

  /// The event follows the answer, unless CONNECT_IND is on air: then the connection is made, and its event comes.
  private func cancelConnection(_ parameters: RawSpan) {
    var isCancelled = false
    status(LECreateConnectionCancel.self, parameters) { _ in
      guard observer.initiation != nil else { return .commandDisallowed }
      isCancelled = observer.stopInitiating()
      return .success
    }
    if isCancelled { reportNotConnected(.unknownConnectionIdentifier, .central) }
  }

  // MARK: - Changing connections

  private func updateConnection(_ parameters: RawSpan) {
    start(LEConnectionUpdate.self, parameters) { command in
      guard let link = link(command.connectionHandle) else { return .unknownConnectionIdentifier }
      let range = ConnectionParameterRange(
        intervalMin: command.connectionIntervalMin, intervalMax: command.connectionIntervalMax,
        latency: command.maxLatency, supervisionTimeout: command.supervisionTimeout)
      guard range.isValid, command.minCELength <= command.maxCELength else { return .invalidHCICommandParameters }
      // A Peripheral can only ask.
      if link.role == .peripheral, let features = link.remoteFeatures, !features.contains(.connectionParametersRequest)
      {
        return .unsupportedRemoteFeature
      }
      return checkProcedure(on: link.handle)
    } then: { command in
      guard let link = link(command.connectionHandle) else { return }
      let range = ConnectionParameterRange(
        intervalMin: command.connectionIntervalMin, intervalMax: command.connectionIntervalMax,
        latency: command.maxLatency, supervisionTimeout: command.supervisionTimeout)
      let asks = link.role == .peripheral || link.remoteFeatures?.contains(.connectionParametersRequest) ?? false
      let parameters = ConnectionParameters(
        interval: command.connectionIntervalMax, latency: command.maxLatency,
        supervisionTimeout: command.supervisionTimeout)
      link.start(asks ? .parameterRequest(range) : .connectionUpdate(parameters))
    }
  }

  private func setChannelClassification(_ command: LESetHostChannelClassification) -> HCIStatus {
    let map = command.channelMap
    guard map & ~LinkLayer.allDataChannels == 0, map.nonzeroBitCount >= 2 else { return .invalidHCICommandParameters }
    settings.channelMap = map
    for link in links where link.role == .central && link.usedChannels != map && !link.isControlFull {
      link.start(.channelMap(map))
    }
    return .success
  }

  private func setDataLength(_ command: LESetDataLength) -> LESetDataLength.ReturnParameters {
    guard let link = link(command.connectionHandle) else { return .init(status: .unknownConnectionIdentifier) }
    guard isValidDataLength(command.txOctets, command.txTime) else {
      return .init(status: .invalidHCICommandParameters)
    }
    guard !link.isControlFull else { return .init(status: .controllerBusy) }
    link.setDataLength(octets: command.txOctets, time: min(command.txTime, LinkLayer.dataTimeMax))
    return .init(connectionHandle: link.handle)
  }

  private func setSuggestedDataLength(_ command: LEWriteSuggestedDefaultDataLength) -> HCIStatus {
    guard isValidDataLength(command.suggestedMaxTxOctets, command.suggestedMaxTxTime) else {
      return .invalidHCICommandParameters
    }
    settings.suggestedMaxTxOctets = command.suggestedMaxTxOctets
    settings.suggestedMaxTxTime = command.suggestedMaxTxTime
    return .success
  }

  private func isValidDataLength(_ octets: UInt16, _ time: UInt16) -> Bool {
    (27...251).contains(octets) && (328...17040).contains(time)
  }
}
