// SPDX-License-Identifier: Apache-2.0

public import BLECore
public import BLEGATT
public import BLEHCI

/// How a host shall behave.
public struct HostConfiguration: Sendable {
  /// Which own address goes on air.
  public enum AddressPolicy: Sendable {
    /// The public address; where it is absent or broken, the static random one.
    case automatic
    /// Always the static random address.
    case staticRandom
  }

  public var addressPolicy: AddressPolicy
  /// A static random address of this host (Vol 6 Part B 1.3.2.1); the same each time.
  public var staticRandomAddress: BDAddress
  /// What is asked for when a connection is made: 30 ms, no latency, 2 s until a silent peer is given up.
  public var connectionParameters = ConnectionParameters(
    interval: ConnectionInterval(rawValue: 24), latency: 0, supervisionTimeout: SupervisionTimeout(rawValue: 200))
  /// Advertising interval (0.625 ms): 30-60 ms, TGAP(adv_fast_interval1) (Vol 3 Part C Appendix A).
  public var advertisingInterval = AdvertisingInterval(rawValue: 48)...AdvertisingInterval(rawValue: 96)
  /// Scan interval and window (0.625 ms): 60 and 30 ms, TGAP(scan_fast_interval) and (scan_fast_window).
  public var scanInterval = ScanInterval(rawValue: 96)
  public var scanWindow = ScanInterval(rawValue: 48)

  public init(staticRandomAddress: BDAddress, addressPolicy: AddressPolicy = .automatic) {
    self.staticRandomAddress = staticRandomAddress
    self.addressPolicy = addressPolicy
  }
}

/// What to put on air as an advertiser; each part at most 31 octets.
public struct AdvertisingContent: Hashable, Sendable {
  public var data: [UInt8]
  public var scanResponse: [UInt8]

  public init(data: [UInt8], scanResponse: [UInt8]) {
    self.data = data
    self.scanResponse = scanResponse
  }
}

/// One advertising report, as the controller gave it.
public struct AdvertisingReport: Hashable, Sendable {
  public var type: AdvertisingReportType
  public var address: DeviceAddress
  public var data: [UInt8]
  /// dBm; 127: not available.
  public var rssi: Int8

  public init(type: AdvertisingReportType, address: DeviceAddress, data: [UInt8], rssi: Int8) {
    self.type = type
    self.address = address
    self.data = data
    self.rssi = rssi
  }

  public var isConnectable: Bool { type == .connectable || type == .directed }
}

/// What a host tells its owner.
public enum HostEvent {
  case ready(ControllerInfo)
  /// The controller is of no use any more, or never was; the host does nothing from now on.
  case failed(HostError)
  case advertising(AdvertisingReport)
  case scanFailed(HCIStatus)
  case advertisingStarted
  case advertisingFailed(HCIStatus)
  /// A link in either role; it has proved that the peer answers.
  case connected(Connection)
  /// The controller refuses to connect: the address is not wanted any more.
  case connectFailed(DeviceAddress, HCIStatus)
  /// The link is gone; the reason is that of Disconnection Complete (Vol 4 Part E 7.7.5).
  case disconnected(Connection, HCIStatus)
  case connectionParametersChanged(Connection)
  /// The answer to ``Host/readRSSI(_:token:)``; the status where the controller gives none.
  case rssi(Connection, token: UInt64, Int8?, HCIStatus)
  /// Write commands and notifications that have left the controller, or its buffers have room for more.
  case commandsSent(Connection, Int)
  case notificationsSent(Connection, Int)
}

/// Who a host belongs to. Called on the adapter's executor when the host's own state is settled, so that any verb of
/// the host may be called from inside.
public protocol HostOwner: AnyObject {
  func host(_ host: Host, did event: HostEvent)
  /// `event`'s ranges are of `connection.bearer.output`, valid during the call.
  func host(_ host: Host, connection: Connection, did event: ATTEvent)
}

/// Why a command was sent: comes back with its outcome.
enum HostCommand {
  case setup(ControllerSetup.Step)
  case advertising(Advertiser.Step, generation: Int)
  case scanning(Scanner.Step)
  case connecting(Connector.Step)
  case remoteFeatures(ConnectionHandle)
  case rssi(ConnectionHandle, token: UInt64)
  case disconnect(ConnectionHandle)
  /// Nothing depends on the outcome.
  case other
}
