// SPDX-License-Identifier: Apache-2.0

public import BLECore

// What an app and the system say to each other: value types, requests down and events up. In one process they are
// passed as they are; a daemon's socket would carry them encoded. Identifiers cross this seam, never references.

/// A peer as apps know it (`CBPeer.identifier`): 128 bits that look random, the same for one peer on one host.
public struct PeerIdentifier: Hashable, Sendable {
  public var high: UInt64
  public var low: UInt64

  public init(high: UInt64, low: UInt64) {
    self.high = high
    self.low = low
  }
}

/// One connection to one peer: a request that names an ended connection is refused, never sent to its successor.
public struct LinkReference: Hashable, Sendable {
  public var peer: PeerIdentifier
  /// Counts the connections of this process.
  public var epoch: UInt32

  public init(peer: PeerIdentifier, epoch: UInt32) {
    self.peer = peer
    self.epoch = epoch
  }
}

/// Chosen by the app's side, returned with the answer: each request with a token gets exactly one event with it,
/// unless the link ends first.
public typealias RequestToken = UInt64

/// Given by the app's side to each attribute it publishes; unique within its session.
public typealias LocalAttributeID = UInt32

/// Given by the system to each request of a remote client that the app must answer.
public typealias RemoteRequestID = UInt64

/// What can be said of the adapter (`CBManagerState` without `unknown`, which is the time before the first event).
public enum AdapterState: UInt8, Sendable {
  case resetting = 1
  case unsupported, unauthorized, poweredOff, poweredOn
}

/// Why something failed. `reason` decides which error the app sees, `detail` says it in words: what was being done,
/// to which peer, what to try.
public struct SystemError: Error, Hashable, Sendable, CustomStringConvertible {
  public enum Reason: Hashable, Sendable {
    /// The peer's Error Response, or the server's own refusal: an ATT error code (Vol 3 Part F 3.4.1.1).
    case att(UInt8)
    case unknown, invalidParameters, invalidHandle, notConnected, outOfSpace, operationCancelled
    case connectionTimeout, peripheralDisconnected, uuidNotAllowed, alreadyAdvertising, connectionFailed
    case connectionLimitReached, unknownDevice, operationNotSupported
  }

  public var reason: Reason
  public var detail: String

  public init(_ reason: Reason, _ detail: String = "") {
    self.reason = reason
    self.detail = detail
  }

  public var description: String { detail.isEmpty ? "\(reason)" : detail }
}

// MARK: - Central

public struct ScanOptions: Hashable, Sendable {
  /// Report only peers that advertise one of these; nil or empty: all.
  public var services: [BluetoothUUID]?
  /// One event per advertisement instead of one per peer (and per news of it).
  public var allowDuplicates: Bool
  /// Report also peers that solicit one of these.
  public var solicitedServices: [BluetoothUUID]

  public init(services: [BluetoothUUID]?, allowDuplicates: Bool = false, solicitedServices: [BluetoothUUID] = []) {
    self.services = services
    self.allowDuplicates = allowDuplicates
    self.solicitedServices = solicitedServices
  }
}

public struct ConnectOptions: Hashable, Sendable {
  /// Wait this long before the first attempt.
  public var startDelay: TimeSpan?
  /// After a loss (not after a cancel) connect again without being asked.
  public var autoReconnect: Bool

  public init(startDelay: TimeSpan? = nil, autoReconnect: Bool = false) {
    self.startDelay = startDelay
    self.autoReconnect = autoReconnect
  }
}

/// What is known of a peer without asking it.
public struct PeerInfo: Hashable, Sendable {
  public var identifier: PeerIdentifier
  /// The GAP Device Name if it has been read, else the advertised name.
  public var name: String?
  public var address: DeviceAddress

  public init(identifier: PeerIdentifier, name: String?, address: DeviceAddress) {
    self.identifier = identifier
    self.name = name
    self.address = address
  }
}

/// One advertisement, the scan response merged into it.
public struct Discovery: Hashable, Sendable {
  public var peer: PeerInfo
  public var isConnectable: Bool
  /// dBm; 127: not available.
  public var rssi: Int8
  public var localName: String?
  /// dBm.
  public var txPowerLevel: Int8?
  public var services: [BluetoothUUID]
  /// From the overflow area of an Apple device.
  public var overflowServices: [BluetoothUUID]
  public var solicitedServices: [BluetoothUUID]
  public var serviceData: [BluetoothUUID: [UInt8]]
  /// Company identifier (little-endian) and data.
  public var manufacturerData: [UInt8]?

  public init(peer: PeerInfo, isConnectable: Bool, rssi: Int8) {
    self.peer = peer
    self.isConnectable = isConnectable
    self.rssi = rssi
    services = []
    overflowServices = []
    solicitedServices = []
    serviceData = [:]
  }
}

/// A service found on a peer.
public struct ServiceRecord: Hashable, Sendable {
  public var handles: ClosedRange<UInt16>
  public var uuid: BluetoothUUID
  public var isPrimary: Bool

  public init(handles: ClosedRange<UInt16>, uuid: BluetoothUUID, isPrimary: Bool) {
    self.handles = handles
    self.uuid = uuid
    self.isPrimary = isPrimary
  }
}

/// A characteristic found on a peer.
public struct CharacteristicRecord: Hashable, Sendable {
  public var declarationHandle: UInt16
  public var valueHandle: UInt16
  /// The last handle that can belong to it.
  public var endHandle: UInt16
  /// Characteristic Properties (Vol 3 Part G 3.3.1.1).
  public var properties: UInt8
  public var uuid: BluetoothUUID

  public init(
    declarationHandle: UInt16, valueHandle: UInt16, endHandle: UInt16, properties: UInt8, uuid: BluetoothUUID
  ) {
    self.declarationHandle = declarationHandle
    self.valueHandle = valueHandle
    self.endHandle = endHandle
    self.properties = properties
    self.uuid = uuid
  }
}

/// A descriptor found on a peer.
public struct DescriptorRecord: Hashable, Sendable {
  public var handle: UInt16
  public var uuid: BluetoothUUID

  public init(handle: UInt16, uuid: BluetoothUUID) {
    self.handle = handle
    self.uuid = uuid
  }
}

// MARK: - Peripheral

/// Who may read or write an attribute.
public enum AttributeAccess: UInt8, Sendable {
  case never, open, encrypted
}

/// A descriptor to publish; its value never changes.
public struct LocalDescriptor: Hashable, Sendable {
  public var uuid: BluetoothUUID
  public var value: [UInt8]

  public init(uuid: BluetoothUUID, value: [UInt8]) {
    self.uuid = uuid
    self.value = value
  }
}

/// A characteristic to publish. The system adds the Client Characteristic Configuration where it belongs.
public struct LocalCharacteristic: Hashable, Sendable {
  public var id: LocalAttributeID
  public var uuid: BluetoothUUID
  /// Characteristic Properties (Vol 3 Part G 3.3.1.1).
  public var properties: UInt8
  public var read: AttributeAccess
  public var write: AttributeAccess
  /// Whether subscribing needs an encrypted link.
  public var subscriptionNeedsEncryption: Bool
  /// Answered by the system; nil: each read becomes a request to the app.
  public var value: [UInt8]?
  public var descriptors: [LocalDescriptor]

  public init(
    id: LocalAttributeID, uuid: BluetoothUUID, properties: UInt8, read: AttributeAccess, write: AttributeAccess,
    subscriptionNeedsEncryption: Bool = false, value: [UInt8]?, descriptors: [LocalDescriptor] = []
  ) {
    self.id = id
    self.uuid = uuid
    self.properties = properties
    self.read = read
    self.write = write
    self.subscriptionNeedsEncryption = subscriptionNeedsEncryption
    self.value = value
    self.descriptors = descriptors
  }
}

/// A service to publish.
public struct LocalService: Hashable, Sendable {
  public var id: LocalAttributeID
  public var uuid: BluetoothUUID
  public var isPrimary: Bool
  /// Services of the same session that were added before.
  public var includedServices: [LocalAttributeID]
  public var characteristics: [LocalCharacteristic]

  public init(
    id: LocalAttributeID, uuid: BluetoothUUID, isPrimary: Bool, includedServices: [LocalAttributeID] = [],
    characteristics: [LocalCharacteristic] = []
  ) {
    self.id = id
    self.uuid = uuid
    self.isPrimary = isPrimary
    self.includedServices = includedServices
    self.characteristics = characteristics
  }
}

/// A remote client, as it is now.
public struct CentralInfo: Hashable, Sendable {
  public var identifier: PeerIdentifier
  /// ATT_MTU - 3.
  public var maximumUpdateValueLength: Int

  public init(identifier: PeerIdentifier, maximumUpdateValueLength: Int) {
    self.identifier = identifier
    self.maximumUpdateValueLength = maximumUpdateValueLength
  }
}

/// One write of a remote client's request.
public struct RemoteWrite: Hashable, Sendable {
  public var characteristic: LocalAttributeID
  public var offset: Int
  public var value: [UInt8]

  public init(characteristic: LocalAttributeID, offset: Int, value: [UInt8]) {
    self.characteristic = characteristic
    self.offset = offset
    self.value = value
  }
}

/// A wish for the connection interval (`CBPeripheralManagerConnectionLatency`).
public enum DesiredLatency: UInt8, Sendable { case low, medium, high }

// MARK: - Requests

/// What an app asks of the system. None blocks, all may come from any thread; order is kept within a session.
///
/// Requests that need the adapter powered on are dropped by the system when it is not; the app's side says so
/// (`API MISUSE`) before it sends them.
public enum SystemRequest: Hashable, Sendable {
  // Central. A new scan replaces the session's running one and starts its duplicate filter afresh.
  case startScan(ScanOptions)
  case stopScan
  /// Stays wanted until ``SystemEvent/connected(_:maximumWriteLength:writeCredits:)``, a failure or a cancel.
  case connect(PeerIdentifier, ConnectOptions)
  /// Ends the session's use of the peer, pending or connected; answered by ``SystemEvent/disconnected(_:_:isReconnecting:)``
  /// with no error. The physical link ends when no session uses it.
  case cancelConnection(PeerIdentifier)
  case readRSSI(RequestToken, LinkReference)
  /// Primary services: all, or those with one of the UUIDs.
  case discoverServices(RequestToken, LinkReference, [BluetoothUUID]?)
  case discoverIncludedServices(RequestToken, LinkReference, ClosedRange<UInt16>, [BluetoothUUID]?)
  case discoverCharacteristics(RequestToken, LinkReference, ClosedRange<UInt16>, [BluetoothUUID]?)
  case discoverDescriptors(RequestToken, LinkReference, CharacteristicRecord)
  /// Reads the whole value, by blobs where it is long.
  case readValue(RequestToken, LinkReference, UInt16)
  /// Writes with response, by prepared writes where the value is long.
  case writeValue(RequestToken, LinkReference, UInt16, [UInt8])
  /// Writes without response. Takes one of the write credits that were granted; without credit it may be dropped.
  case writeCommand(LinkReference, UInt16, [UInt8])
  /// Subscribes the session to the characteristic or ends that; the peer's Client Characteristic Configuration is
  /// written when the first session comes or the last goes.
  case setNotify(RequestToken, LinkReference, CharacteristicRecord, Bool)

  // Peripheral.
  case addService(RequestToken, LocalService)
  case removeService(LocalAttributeID)
  case removeAllServices
  case startAdvertising(RequestToken, localName: String?, services: [BluetoothUUID])
  case stopAdvertising
  /// Answers a read (with the bytes from the request's offset on) or a write (value nil): an ATT error code, 0 success.
  case respond(RemoteRequestID, UInt8, [UInt8]?)
  /// Notifies or indicates to the named subscribers, nil: to all. Takes one of the update credits that were granted.
  case updateValue(LocalAttributeID, [UInt8], [PeerIdentifier]?)
  case setDesiredLatency(DesiredLatency, PeerIdentifier)
}

extension SystemRequest {
  /// The connection that the request is for, if it is for one.
  var link: LinkReference? {
    switch self {
    case .readRSSI(_, let link), .discoverServices(_, let link, _), .discoverIncludedServices(_, let link, _, _),
      .discoverCharacteristics(_, let link, _, _), .discoverDescriptors(_, let link, _), .readValue(_, let link, _),
      .writeValue(_, let link, _, _), .writeCommand(let link, _, _), .setNotify(_, let link, _, _):
      link
    case .startScan, .stopScan, .connect, .cancelConnection, .addService, .removeService, .removeAllServices,
      .startAdvertising, .stopAdvertising, .respond, .updateValue, .setDesiredLatency:
      nil
    }
  }
}

// MARK: - Events

/// What the system tells an app; in order within a session.
public enum SystemEvent: Hashable, Sendable {
  /// The first event of every session, and again on each change. Anything but `poweredOn` means: scans,
  /// advertising, connections and pending connects are gone, without events of their own; `poweredOff` leaves the
  /// published services, everything below it has removed them.
  case stateChanged(AdapterState)

  // Central.
  case discovered(Discovery)
  /// `maximumWriteLength` is ATT_MTU - 3 after the MTU exchange.
  case connected(LinkReference, maximumWriteLength: Int, writeCredits: Int)
  case connectFailed(PeerIdentifier, SystemError)
  /// Error nil: the session's own cancel.
  case disconnected(PeerIdentifier, SystemError?, isReconnecting: Bool)
  case nameChanged(PeerIdentifier, String?)
  case maximumWriteLengthChanged(LinkReference, Int)
  case rssiRead(RequestToken, LinkReference, Result<Int8, SystemError>)
  case servicesDiscovered(RequestToken, LinkReference, Result<[ServiceRecord], SystemError>)
  case includedServicesDiscovered(RequestToken, LinkReference, Result<[ServiceRecord], SystemError>)
  case characteristicsDiscovered(RequestToken, LinkReference, Result<[CharacteristicRecord], SystemError>)
  case descriptorsDiscovered(RequestToken, LinkReference, Result<[DescriptorRecord], SystemError>)
  case valueRead(RequestToken, LinkReference, Result<[UInt8], SystemError>)
  case valueWritten(RequestToken, LinkReference, SystemError?)
  /// A notification or a (confirmed) indication of a characteristic the session subscribed to, by its value handle.
  case valueNotified(LinkReference, UInt16, [UInt8])
  case notifyStateChanged(RequestToken, LinkReference, isNotifying: Bool, SystemError?)
  /// Room for so many more write commands.
  case writeCreditsGranted(LinkReference, Int)
  /// Service Changed: what was known within these handles is void.
  case servicesModified(LinkReference, ClosedRange<UInt16>)

  // Peripheral.
  case serviceAdded(RequestToken, SystemError?)
  case advertisingStarted(RequestToken, SystemError?)
  case readRequested(RemoteRequestID, CentralInfo, LocalAttributeID, offset: Int)
  /// `needsResponse` is false for a write command: no answer is owed, ``SystemRequest/respond(_:_:_:)`` is ignored.
  case writeRequested(RemoteRequestID, CentralInfo, [RemoteWrite], needsResponse: Bool)
  case subscribed(CentralInfo, LocalAttributeID)
  case unsubscribed(PeerIdentifier, LocalAttributeID)
  /// The central's MTU grew.
  case centralChanged(CentralInfo)
  /// Room for so many more ``SystemRequest/updateValue(_:_:_:)``; the first grant comes with `poweredOn`.
  case updateCreditsGranted(Int)
}

extension SystemEvent {
  /// Takes `event` in, which follows directly, if the two say the same as one: grants of room add up.
  mutating func absorb(_ event: SystemEvent) -> Bool {
    switch (self, event) {
    case (.updateCreditsGranted(let count), .updateCreditsGranted(let more)):
      self = .updateCreditsGranted(count + more)
      return true
    case (.writeCreditsGranted(let link, let count), .writeCreditsGranted(let other, let more)) where link == other:
      self = .writeCreditsGranted(link, count + more)
      return true
    default:
      return false
    }
  }
}
