// SPDX-License-Identifier: Apache-2.0

/// The features of a Link Layer (Vol 6 Part B 4.6), as LE Read Local Supported Features and LE Read Remote
/// Features Complete carry them.
@frozen
public struct LEFeatures: OptionSet, Hashable, Sendable {
  public let rawValue: UInt64
  @inlinable public init(rawValue: UInt64) { self.rawValue = rawValue }

  public static let encryption = LEFeatures(rawValue: 1 << 0)
  public static let connectionParametersRequest = LEFeatures(rawValue: 1 << 1)
  public static let extendedRejectIndication = LEFeatures(rawValue: 1 << 2)
  public static let peripheralInitiatedFeaturesExchange = LEFeatures(rawValue: 1 << 3)
  public static let ping = LEFeatures(rawValue: 1 << 4)
  public static let dataPacketLengthExtension = LEFeatures(rawValue: 1 << 5)
  public static let llPrivacy = LEFeatures(rawValue: 1 << 6)
  public static let extendedScannerFilterPolicies = LEFeatures(rawValue: 1 << 7)
  public static let phy2M = LEFeatures(rawValue: 1 << 8)
  public static let stableModulationIndexTransmitter = LEFeatures(rawValue: 1 << 9)
  public static let stableModulationIndexReceiver = LEFeatures(rawValue: 1 << 10)
  public static let phyCoded = LEFeatures(rawValue: 1 << 11)
  public static let extendedAdvertising = LEFeatures(rawValue: 1 << 12)
  public static let periodicAdvertising = LEFeatures(rawValue: 1 << 13)
  public static let channelSelectionAlgorithm2 = LEFeatures(rawValue: 1 << 14)
  public static let powerClass1 = LEFeatures(rawValue: 1 << 15)
  public static let minimumNumberOfUsedChannels = LEFeatures(rawValue: 1 << 16)
  public static let sleepClockAccuracyUpdates = LEFeatures(rawValue: 1 << 26)
  public static let remotePublicKeyValidation = LEFeatures(rawValue: 1 << 27)
  public static let isochronousChannelsHost = LEFeatures(rawValue: 1 << 32)
  public static let powerControlRequest = LEFeatures(rawValue: 1 << 33)
  public static let powerChangeIndication = LEFeatures(rawValue: 1 << 34)
  public static let pathLossMonitoring = LEFeatures(rawValue: 1 << 35)
  public static let connectionSubrating = LEFeatures(rawValue: 1 << 37)
  public static let connectionSubratingHost = LEFeatures(rawValue: 1 << 38)
  public static let channelClassification = LEFeatures(rawValue: 1 << 39)
  public static let extendedFeatureSet = LEFeatures(rawValue: 1 << 63)
}

/// Event_Mask of Set Event Mask and Set Event Mask Page 2 (Vol 4 Part E 7.3.1, 7.3.69). Command Complete, Command
/// Status and Number Of Completed Packets cannot be masked.
public enum EventMask {
  /// After Reset. LE Meta events are off.
  public static let initial: UInt64 = 0x0000_1FFF_FFFF_FFFF
  /// Page 2 after Reset.
  public static let initialPage2: UInt64 = 0

  /// The bit of an event with a code up to 0x40 on page 1; 0 for the others.
  public static func bit(_ code: HCIEventCode) -> UInt64 {
    code.rawValue >= 1 && code.rawValue <= 0x40 ? 1 << UInt64(code.rawValue - 1) : 0
  }

  /// What an LE host needs: disconnections, encryption, remote version, hardware errors, LE Meta.
  public static let leHost =
    bit(.disconnectionComplete) | bit(.encryptionChange) | bit(.readRemoteVersionInformationComplete)
    | bit(.hardwareError) | bit(.dataBufferOverflow) | bit(.encryptionKeyRefreshComplete) | bit(.leMeta)

  /// Page 2: Authenticated Payload Timeout Expired.
  public static let authenticatedPayloadTimeoutExpired: UInt64 = 1 << 23
  /// Page 2: Encryption Change [v2], which replaces v1.
  public static let encryptionChangeV2: UInt64 = 1 << 25
}

/// LE_Event_Mask of LE Set Event Mask (Vol 4 Part E 7.8.1).
public enum LEEventMask {
  /// After Reset: the first five events.
  public static let initial: UInt64 = 0x1F

  /// The bit of an LE Meta subevent; 0 for a code that has none.
  public static func bit(_ subevent: LESubevent) -> UInt64 {
    subevent.rawValue >= 1 && subevent.rawValue <= 64 ? 1 << UInt64(subevent.rawValue - 1) : 0
  }

  /// The bits of several.
  public static func bits(_ subevents: [LESubevent]) -> UInt64 { subevents.reduce(0) { $0 | bit($1) } }
}
