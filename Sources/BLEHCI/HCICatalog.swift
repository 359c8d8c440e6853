// SPDX-License-Identifier: Apache-2.0

/// All commands and events that have a type here, for what must deal with any of them: traces, controllers, tests.
public enum HCICatalog {
  /// In the order of their opcodes.
  public static let commands: [any HCICommand.Type] = [
    Disconnect.self,
    ReadRemoteVersionInformation.self,
    SetEventMask.self,
    Reset.self,
    ReadTransmitPowerLevel.self,
    SetControllerToHostFlowControl.self,
    HostBufferSize.self,
    HostNumberOfCompletedPackets.self,
    SetEventMaskPage2.self,
    WriteLEHostSupport.self,
    ReadAuthenticatedPayloadTimeout.self,
    WriteAuthenticatedPayloadTimeout.self,
    ReadLocalVersionInformation.self,
    ReadLocalSupportedCommands.self,
    ReadLocalSupportedFeatures.self,
    ReadBufferSize.self,
    ReadBDADDR.self,
    ReadRSSI.self,
    LESetEventMask.self,
    LEReadBufferSize.self,
    LEReadLocalSupportedFeatures.self,
    LESetRandomAddress.self,
    LESetAdvertisingParameters.self,
    LEReadAdvertisingPhysicalChannelTxPower.self,
    LESetAdvertisingData.self,
    LESetScanResponseData.self,
    LESetAdvertisingEnable.self,
    LESetScanParameters.self,
    LESetScanEnable.self,
    LECreateConnection.self,
    LECreateConnectionCancel.self,
    LEReadFilterAcceptListSize.self,
    LEClearFilterAcceptList.self,
    LEAddDeviceToFilterAcceptList.self,
    LERemoveDeviceFromFilterAcceptList.self,
    LEConnectionUpdate.self,
    LESetHostChannelClassification.self,
    LEReadChannelMap.self,
    LEReadRemoteFeatures.self,
    LEEncrypt.self,
    LERand.self,
    LEEnableEncryption.self,
    LELongTermKeyRequestReply.self,
    LELongTermKeyRequestNegativeReply.self,
    LEReadSupportedStates.self,
    LERemoteConnectionParameterRequestReply.self,
    LERemoteConnectionParameterRequestNegativeReply.self,
    LESetDataLength.self,
    LEReadSuggestedDefaultDataLength.self,
    LEWriteSuggestedDefaultDataLength.self,
    LEReadLocalP256PublicKey.self,
    LEGenerateDHKey.self,
    LEAddDeviceToResolvingList.self,
    LERemoveDeviceFromResolvingList.self,
    LEClearResolvingList.self,
    LEReadResolvingListSize.self,
    LEReadPeerResolvableAddress.self,
    LEReadLocalResolvableAddress.self,
    LESetAddressResolutionEnable.self,
    LESetResolvablePrivateAddressTimeout.self,
    LEReadMaximumDataLength.self,
    LEReadPHY.self,
    LESetDefaultPHY.self,
    LESetPHY.self,
    LESetAdvertisingSetRandomAddress.self,
    LESetExtendedAdvertisingParameters.self,
    LESetExtendedAdvertisingData.self,
    LESetExtendedScanResponseData.self,
    LESetExtendedAdvertisingEnable.self,
    LEReadMaximumAdvertisingDataLength.self,
    LEReadNumberOfSupportedAdvertisingSets.self,
    LERemoveAdvertisingSet.self,
    LEClearAdvertisingSets.self,
    LESetExtendedScanParameters.self,
    LESetExtendedScanEnable.self,
    LEExtendedCreateConnection.self,
    LEReadTransmitPower.self,
    LESetPrivacyMode.self,
    LEGenerateDHKeyV2.self,
    LEReadBufferSizeV2.self,
    LESetHostFeature.self,
  ]

  public static let events: [any HCIEvent.Type] = [
    DisconnectionComplete.self,
    EncryptionChange.self,
    ReadRemoteVersionInformationComplete.self,
    CommandComplete.self,
    CommandStatus.self,
    HardwareError.self,
    NumberOfCompletedPackets.self,
    DataBufferOverflow.self,
    EncryptionKeyRefreshComplete.self,
    AuthenticatedPayloadTimeoutExpired.self,
    EncryptionChangeV2.self,
  ]

  public static let leMetaEvents: [any LEMetaEvent.Type] = [
    LEAdvertisingReport.self,
    LEDirectedAdvertisingReport.self,
    LEExtendedAdvertisingReport.self,
    LEScanTimeout.self,
    LEAdvertisingSetTerminated.self,
    LEScanRequestReceived.self,
    LEConnectionComplete.self,
    LEConnectionUpdateComplete.self,
    LEReadRemoteFeaturesComplete.self,
    LELongTermKeyRequest.self,
    LERemoteConnectionParameterRequest.self,
    LEDataLengthChange.self,
    LEReadLocalP256PublicKeyComplete.self,
    LEGenerateDHKeyComplete.self,
    LEEnhancedConnectionComplete.self,
    LEPHYUpdateComplete.self,
    LEChannelSelectionAlgorithm.self,
    LEEnhancedConnectionCompleteV2.self,
  ]

  /// The type of a command; nil for an opcode that has none here.
  public static func command(_ opcode: HCIOpcode) -> (any HCICommand.Type)? { commandsByOpcode[opcode] }

  /// The type of an event; nil for LE Meta and for a code that has none here.
  public static func event(_ code: HCIEventCode) -> (any HCIEvent.Type)? { eventsByCode[code] }

  /// The type of an LE Meta event; nil for a subevent that has none here.
  public static func leMetaEvent(_ subevent: LESubevent) -> (any LEMetaEvent.Type)? { leMetaEventsBySubevent[subevent] }

  private static let commandsByOpcode = index(commands) { $0.opcode }
  private static let eventsByCode = index(events) { $0.code }
  private static let leMetaEventsBySubevent = index(leMetaEvents) { $0.subevent }

  private static func index<Key: Hashable, Value>(_ values: [Value], by key: (Value) -> Key) -> [Key: Value] {
    Dictionary(values.map { (key($0), $0) }, uniquingKeysWith: { first, _ in first })
  }
}
