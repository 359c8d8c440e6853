// SPDX-License-Identifier: Apache-2.0

// An app imports CoreBluetooth alone: Foundation and Dispatch come with it, as they do on Apple's systems.
@_exported public import class CoreFoundation.CFUUID
@_exported public import Dispatch
@_exported public import Foundation

/// Seconds since 1 January 2001, 00:00 UTC.
public typealias CFAbsoluteTime = Double

/// The number of an L2CAP channel's service (SPSM, Vol 3 Part A 4.22).
public typealias CBL2CAPPSM = UInt16

// MARK: - Advertisement data

/// `String`: the name in the advertisement or the scan response.
public let CBAdvertisementDataLocalNameKey: String = "kCBAdvDataLocalName"
/// `NSNumber`: the transmit power in dBm.
public let CBAdvertisementDataTxPowerLevelKey: String = "kCBAdvDataTxPowerLevel"
/// `[CBUUID]`: the services advertised.
public let CBAdvertisementDataServiceUUIDsKey: String = "kCBAdvDataServiceUUIDs"
/// `[CBUUID: Data]`: service data by service.
public let CBAdvertisementDataServiceDataKey: String = "kCBAdvDataServiceData"
/// `Data`: the company identifier (two octets, little-endian) and the company's data.
public let CBAdvertisementDataManufacturerDataKey: String = "kCBAdvDataManufacturerData"
/// `[CBUUID]`: services found in the overflow area, best effort.
public let CBAdvertisementDataOverflowServiceUUIDsKey: String = "kCBAdvDataHashedServiceUUIDs"
/// `NSNumber` (`Bool`): whether the advertisement can be answered with a connection; always present.
public let CBAdvertisementDataIsConnectable: String = "kCBAdvDataIsConnectable"
/// `[CBUUID]`: the services that the peer looks for.
public let CBAdvertisementDataSolicitedServiceUUIDsKey: String = "kCBAdvDataSolicitedServiceUUIDs"

// MARK: - Options of managers

/// `String`: which adapter the manager uses, in the form that `COREBLUETOOTH_ADAPTER` has: `hci0`,
/// `tcp:HOST:PORT`, `unix:PATH`, `virtual:NAME`… Goes before ``Adapter/with(_:_:)-swift.type.method`` and the
/// environment. Not on Apple's systems.
public let CBManagerOptionAdapterKey: String = "CBManagerOptionAdapter"
/// `NSNumber` (`Bool`): accepted and ignored, as there is no system alert.
public let CBCentralManagerOptionShowPowerAlertKey: String = "kCBInitOptionShowPowerAlert"
/// `String`: names this manager among the app's for restoration.
public let CBCentralManagerOptionRestoreIdentifierKey: String = "kCBInitOptionRestoreIdentifier"
/// `NSNumber` (`Bool`): accepted and ignored.
public let CBCentralManagerOptionDeviceAccessForMedia: String = "kCBInitOptionDeviceAccessForMedia"
/// `NSNumber` (`Bool`): accepted and ignored, as there is no system alert.
public let CBPeripheralManagerOptionShowPowerAlertKey: String = "kCBInitOptionShowPowerAlert"
/// `String`: names this manager among the app's for restoration.
public let CBPeripheralManagerOptionRestoreIdentifierKey: String = "kCBInitOptionRestoreIdentifier"

// MARK: - Options of scanning and connecting

/// `NSNumber` (`Bool`): one callback per advertisement rather than one per peer.
public let CBCentralManagerScanOptionAllowDuplicatesKey: String = "kCBScanOptionAllowDuplicates"
/// `[CBUUID]`: find also peers that look for one of these services.
public let CBCentralManagerScanOptionSolicitedServiceUUIDsKey: String = "kCBScanOptionSolicitedServiceUUIDs"
/// `NSNumber` (`Bool`): accepted and ignored, as there is no system alert.
public let CBConnectPeripheralOptionNotifyOnConnectionKey: String = "kCBConnectOptionNotifyOnConnection"
/// `NSNumber` (`Bool`): accepted and ignored, as there is no system alert.
public let CBConnectPeripheralOptionNotifyOnDisconnectionKey: String = "kCBConnectOptionNotifyOnDisconnection"
/// `NSNumber` (`Bool`): accepted and ignored, as there is no system alert.
public let CBConnectPeripheralOptionNotifyOnNotificationKey: String = "kCBConnectOptionNotifyOnNotification"
/// `NSNumber`: seconds to wait before the first attempt.
public let CBConnectPeripheralOptionStartDelayKey: String = "kCBConnectOptionStartDelay"
/// `NSNumber` (`Bool`): accepted and ignored; there is no classic Bluetooth here.
public let CBConnectPeripheralOptionEnableTransportBridgingKey: String = "kCBConnectOptionEnableTransportBridging"
/// `NSNumber` (`Bool`): accepted and ignored; the service it needs exists on Apple's phones only.
public let CBConnectPeripheralOptionRequiresANCS: String = "kCBConnectOptionRequiresANCS"
/// `NSNumber` (`Bool`): connect again after a loss without being asked.
public let CBConnectPeripheralOptionEnableAutoReconnect: String = "kCBConnectOptionEnableAutoReconnect"

// MARK: - Restored state

/// `[CBPeripheral]`: the peers that were connected or wanted.
public let CBCentralManagerRestoredStatePeripheralsKey: String = "kCBRestoredPeripherals"
/// `[CBUUID]`: the services that were scanned for.
public let CBCentralManagerRestoredStateScanServicesKey: String = "kCBRestoredScanServices"
/// `[String: Any]`: the options of the scan.
public let CBCentralManagerRestoredStateScanOptionsKey: String = "kCBRestoredScanOptions"
/// `[CBMutableService]`: the services that were published.
public let CBPeripheralManagerRestoredStateServicesKey: String = "kCBRestoredServices"
/// `[String: Any]`: what was advertised.
public let CBPeripheralManagerRestoredStateAdvertisementDataKey: String = "kCBRestoredAdvertisement"

// MARK: - Well-known UUIDs

/// Characteristic Extended Properties; the descriptor's value is an `NSNumber`.
public let CBUUIDCharacteristicExtendedPropertiesString: String = "2900"
/// Characteristic User Description; the descriptor's value is a `String`.
public let CBUUIDCharacteristicUserDescriptionString: String = "2901"
/// Client Characteristic Configuration; the descriptor's value is an `NSNumber`.
public let CBUUIDClientCharacteristicConfigurationString: String = "2902"
/// Server Characteristic Configuration; the descriptor's value is an `NSNumber`.
public let CBUUIDServerCharacteristicConfigurationString: String = "2903"
/// Characteristic Presentation Format; the descriptor's value is `Data` of 7 octets.
public let CBUUIDCharacteristicFormatString: String = "2904"
/// Characteristic Aggregate Format; the descriptor's value is `Data`.
public let CBUUIDCharacteristicAggregateFormatString: String = "2905"
/// Valid Range; the descriptor's value is `Data`.
public let CBUUIDCharacteristicValidRangeString: String = "2906"
/// Observation Schedule; the descriptor's value is `Data`.
public let CBUUIDCharacteristicObservationScheduleString: String = "2910"
/// The characteristic by which a peer tells the PSM of an L2CAP service, a little-endian `UInt16`.
public let CBUUIDL2CAPPSMCharacteristicString: String = "ABDD3056-28FA-441D-A470-55A75A52553A"

// MARK: - Connection events

/// What happened to a peer in `centralManager(_:connectionEventDidOccur:for:)`.
@nonexhaustive
public enum CBConnectionEvent: Int, Sendable {
  case peerDisconnected
  case peerConnected
}

/// A key of the dictionary that `registerForConnectionEvents(options:)` takes.
public struct CBConnectionEventMatchingOption: Hashable, RawRepresentable, Sendable {
  public var rawValue: String

  public init(rawValue: String) { self.rawValue = rawValue }

  /// `[CBUUID]`, at most four: peers with one of these services.
  public static let serviceUUIDs = Self(rawValue: "kCBConnectionEventMatchingOptionServiceUUIDs")
  /// `[UUID]`: peers with one of these identifiers.
  public static let peripheralUUIDs = Self(rawValue: "kCBConnectionEventMatchingOptionPeripheralUUIDs")
}

// MARK: - L2CAP

/// A stream of bytes with a peer.
///
/// The properties are nil in an object that an app made itself.
open class CBL2CAPChannel: NSObject, @unchecked Sendable {  // Immutable.
  private let remote: CBPeer?
  private let number: CBL2CAPPSM

  /// A channel to nobody.
  public override init() {
    remote = nil
    number = 0
    super.init()
  }

  /// The other end: a ``CBPeripheral`` or a ``CBCentral``.
  open var peer: CBPeer! { remote }
  /// What the peer sends.
  open var inputStream: InputStream! { nil }
  /// What is sent to the peer.
  open var outputStream: OutputStream! { nil }
  /// The number that the channel was opened with.
  open var psm: CBL2CAPPSM { number }
}
