// SPDX-License-Identifier: Apache-2.0

import BLECore
import BLESystem
public import Dispatch
public import Foundation
import Synchronization

/// Finds and connects peers.
///
/// Commands are for `.poweredOn` only; at another time they are dropped with a line in the log, and nothing else.
/// Calls may come from any thread; the delegate is called on the queue given at the start (nil: the main queue).
open class CBCentralManager: CBManager, @unchecked Sendable {  // What changes is behind a lock.
  /// Abilities of the adapter.
  public struct Feature: OptionSet, Sendable {
    public let rawValue: UInt

    public init(rawValue: UInt) { self.rawValue = rawValue }

    /// Extended advertisements are scanned for and connected to.
    public static let extendedScanAndConnect = Feature(rawValue: 1)
  }

  /// A cancel that the system has been sent and will answer with one `disconnected`.
  private enum Cancel {
    /// By the app, which is told of the answer.
    case told
    case untold
  }

  /// The variant of didDisconnect that a class of delegates has: of three or of five arguments.
  private enum DisconnectVariant {
    case three, five
  }

  private struct WeakPeripheral {
    weak var object: CBPeripheral?
  }

  private struct State {
    weak var delegate: (any CBCentralManagerDelegate)?
    var isScanning = false
    var peripherals: [PeerIdentifier: WeakPeripheral] = [:]
    var cancels: [PeerIdentifier: [Cancel]] = [:]
    var variants: [ObjectIdentifier: DisconnectVariant] = [:]
    var wantedEvents: (services: [BluetoothUUID], peers: Set<PeerIdentifier>) = ([], [])
  }

  private let content: Mutex<State>

  /// A manager without delegate, for the main queue.
  public convenience init() { self.init(delegate: nil, queue: nil, options: nil) }

  /// A manager whose delegate is called on `queue`, nil: the main queue.
  public convenience init(delegate: (any CBCentralManagerDelegate)?, queue: DispatchQueue?) {
    self.init(delegate: delegate, queue: queue, options: nil)
  }

  /// A manager whose delegate is called on `queue`, nil: the main queue. The options are the
  /// `CBCentralManagerOption…` constants and ``CBManagerOptionAdapterKey``.
  public init(
    delegate: (any CBCentralManagerDelegate)?, queue: DispatchQueue?, options: [String: Any]? = nil
  ) {
    var state = State()
    state.delegate = delegate
    content = Mutex(Unchecked(value: state).value)
    super.init(queue: queue, options: options)
  }

  /// Who is told what happens.
  weak open var delegate: (any CBCentralManagerDelegate)? {
    get { content.withLock { Unchecked(value: $0.delegate) }.value }  // Callers share the object anyway.
    set {
      let delegate = Unchecked(value: newValue)
      content.withLock { $0.delegate = delegate.value }
    }
  }

  /// Whether this manager scans; changes with the call that starts or ends it, and when Bluetooth goes off.
  open var isScanning: Bool { content.withLock { $0.isScanning } }

  /// Whether the adapter has all of `features`; now false for every feature.
  open class func supports(_ features: CBCentralManager.Feature) -> Bool { features.isEmpty }

  // MARK: Finding

  /// The peers of these identifiers that are known on this system, in the order asked; others are left out.
  @discardableResult
  open func retrievePeripherals(withIdentifiers identifiers: [UUID]) -> [CBPeripheral] {
    guard acceptsCommands() else { return [] }
    return identifiers.compactMap { link.replica.peer(PeerIdentifier($0)).map(peripheral(for:)) }
  }

  /// The peers that any program of this system is connected to and that have one of the services (1800: all peers).
  /// Connect them before use.
  @discardableResult
  open func retrieveConnectedPeripherals(withServices serviceUUIDs: [CBUUID]) -> [CBPeripheral] {
    guard acceptsCommands() else { return [] }
    return link.replica.connectedPeers(withServices: serviceUUIDs.map(\.value)).map(peripheral(for:))
  }

  /// Reports peers that advertise one of the services, or, nil or empty, all; a second call replaces the first.
  open func scanForPeripherals(withServices serviceUUIDs: [CBUUID]?, options: [String: Any]? = nil) {
    guard acceptsCommands() else { return }
    let solicited = options?[CBCentralManagerScanOptionSolicitedServiceUUIDsKey] as? [CBUUID] ?? []
    let services = serviceUUIDs?.map(\.value) ?? []
    content.withLock { $0.isScanning = true }
    link.send(
      .startScan(
        ScanOptions(
          services: services.isEmpty ? nil : services,
          allowDuplicates: flag(options, CBCentralManagerScanOptionAllowDuplicatesKey) ?? false,
          solicitedServices: solicited.map(\.value))))
  }

  /// Ends the scan; nothing more is reported.
  open func stopScan() {
    guard acceptsCommands() else { return }
    content.withLock { $0.isScanning = false }
    link.send(.stopScan)
  }

  // MARK: Connecting

  /// Connects a peer, as soon as it is there: never gives up by itself. Answered by `didConnect` or, rarely,
  /// `didFailToConnect`; the options are the `CBConnectPeripheralOption…` constants.
  open func connect(_ peripheral: CBPeripheral, options: [String: Any]? = nil) {
    guard acceptsCommands(), isOwn(peripheral) else { return }
    guard let options = ConnectOptions(options) else {
      let error = CBError.reported(.invalidParameters, "connecting \(peripheral.identifier): an option of a wrong type")
      return post { $0.delegate?.centralManager($0, didFailToConnect: peripheral, error: error) }
    }
    switch peripheral.beginConnecting() {
    case .begins: link.send(.connect(peripheral.peer, options))
    case .isPending: break
    case .isConnected:
      post { if peripheral.state == .connected { $0.delegate?.centralManager($0, didConnect: peripheral) } }
    case .isVoid:
      let detail = "\(peripheral.identifier) is of a time before the adapter was lost: retrieve or discover it again"
      let error = CBError.reported(.unkownDevice, detail)
      post { $0.delegate?.centralManager($0, didFailToConnect: peripheral, error: error) }
    }
  }

  /// Ends a connection, a pending one too, for this app; answered by `didDisconnectPeripheral` without error. A peer
  /// that is not connected gives no answer.
  open func cancelPeripheralConnection(_ peripheral: CBPeripheral) {
    guard acceptsCommands(), isOwn(peripheral), peripheral.beginDisconnecting() else { return }
    cancel(peripheral.peer, .told)
  }

  /// Has `connectionEventDidOccur` called for this app's peers that match; nil ends that.
  open func registerForConnectionEvents(options: [CBConnectionEventMatchingOption: Any]? = nil) {
    let services = (options?[.serviceUUIDs] as? [CBUUID] ?? []).map(\.value)
    let peers = Set((options?[.peripheralUUIDs] as? [UUID] ?? []).map { PeerIdentifier($0) })
    content.withLock { $0.wantedEvents = (services, peers) }
  }

  private func isOwn(_ peripheral: CBPeripheral) -> Bool {
    if peripheral.manager === self { return true }
    misuse("\(peripheral) belongs to another manager than \(self); the command is ignored")
    return false
  }

  private func cancel(_ peer: PeerIdentifier, _ kind: Cancel) {
    content.withLock { $0.cancels[peer, default: []].append(kind) }
    link.send(.cancelConnection(peer))
  }

  private func post(_ action: @escaping @Sendable (CBCentralManager) -> Void) {
    session.post { if let central = $0 as? CBCentralManager { action(central) } }
  }

  // MARK: - Events

  override func process(_ event: SystemEvent) {
    switch event {
    case .stateChanged(let state): adapterChanged(state)
    case .discovered(let discovery): discovered(discovery)
    case .connected(let link, let length, _): connected(link, length)
    case .connectFailed(let peer, let error): connectFailed(peer, error.asAppError)
    case .disconnected(let peer, let error, let isReconnecting):
      disconnected(peer, error?.asAppError, isReconnecting: isReconnecting)
    case .nameChanged(let peer, let name): known(peer)?.receiveName(name)
    case .maximumWriteLengthChanged(let link, let length): known(link.peer)?.receiveMaximumWriteLength(link, length)
    case .valueNotified(let link, let handle, let value): known(link.peer)?.receiveNotification(link, handle, value)
    case .writeCreditsGranted(let link, _): known(link.peer)?.receiveWriteCredits(link)
    case .servicesModified(let link, let handles): known(link.peer)?.receiveServicesModified(link, handles)
    case .rssiRead(let token, let link, let result): finish(token, link, result) { .rssi($0) }
    case .servicesDiscovered(let token, let link, let result): finish(token, link, result) { .services($0) }
    case .includedServicesDiscovered(let token, let link, let result): finish(token, link, result) { .services($0) }
    case .characteristicsDiscovered(let token, let link, let result):
      finish(token, link, result) { .characteristics($0) }
    case .descriptorsDiscovered(let token, let link, let result): finish(token, link, result) { .descriptors($0) }
    case .valueRead(let token, let link, let result): finish(token, link, result) { .value($0) }
    case .valueWritten(let token, let link, let error):
      known(link.peer)?.finish(token, link, error.map { .failed($0) } ?? .written)
    case .notifyStateChanged(let token, let link, let isNotifying, let error):
      known(link.peer)?.finish(token, link, .notifying(isNotifying, error))
    case .serviceAdded, .advertisingStarted, .readRequested, .writeRequested, .subscribed, .unsubscribed,
      .centralChanged, .updateCreditsGranted:
      break  // Of the other role.
    }
  }

  private func finish<Value>(
    _ token: RequestToken, _ link: LinkReference, _ result: Result<Value, SystemError>,
    _ outcome: (Value) -> CBPeripheral.Outcome
  ) {
    guard let peripheral = known(link.peer) else { return }
    switch result {
    case .success(let value): peripheral.finish(token, link, outcome(value))
    case .failure(let error): peripheral.finish(token, link, .failed(error))
    }
  }

  private func adapterChanged(_ new: AdapterState) {
    if new != .poweredOn { loseAdapter(isVoid: CBManagerState(new).rawValue < CBManagerState.poweredOff.rawValue) }
    setState(new)
    delegate?.centralManagerDidUpdateState(self)
  }

  private func loseAdapter(isVoid: Bool) {
    let (wasScanning, live) = content.withLock { content in
      let before = (content.isScanning, content.peripherals.values.compactMap(\.object))
      content.isScanning = false
      content.cancels = [:]
      if isVoid { content.peripherals = [:] }
      return before
    }
    if wasScanning { link.send(.stopScan) }  // The call may have met an adapter that was on again.
    for peripheral in live { peripheral.loseAdapter(isVoid: isVoid) }
  }

  private func discovered(_ discovery: Discovery) {
    guard isScanning, let delegate else { return }
    let peripheral = peripheral(for: discovery.peer)
    delegate.centralManager(
      self, didDiscover: peripheral, advertisementData: discovery.advertisementData,
      rssi: NSNumber(value: Int(discovery.rssi)))
  }

  private func connected(_ link: LinkReference, _ maximumWriteLength: Int) {
    let isCancelled = content.withLock { $0.cancels[link.peer] != nil }
    guard !isCancelled, let peripheral = known(link.peer),
      peripheral.becomeConnected(link, maximumWriteLength: maximumWriteLength)
    else { return }
    delegate?.centralManager(self, didConnect: peripheral)
    reportEvent(.peerConnected, peripheral)
  }

  private func connectFailed(_ peer: PeerIdentifier, _ error: any Error) {
    if let cancel = takeCancel(peer) { return answer(cancel, peer) }
    guard let peripheral = known(peer), peripheral.becomeDisconnected() else { return }
    delegate?.centralManager(self, didFailToConnect: peripheral, error: error)
  }

  private func disconnected(_ peer: PeerIdentifier, _ error: (any Error)?, isReconnecting: Bool) {
    // A loss that the system reconnects after, crossing with a cancel: the cancel will be answered.
    if isReconnecting, content.withLock({ $0.cancels[peer] != nil }) { return }
    if let cancel = takeCancel(peer) { return answer(cancel, peer) }
    guard let peripheral = known(peer), peripheral.state != .disconnected else { return }
    if isReconnecting {
      lost(peripheral, error)
    } else {
      peripheral.becomeDisconnected()
      reportDisconnect(peripheral, error)
    }
    reportEvent(.peerDisconnected, peripheral)
  }

  /// The first cancel of those for `peer` that are not answered yet.
  private func takeCancel(_ peer: PeerIdentifier) -> Cancel? {
    content.withLock { content in
      guard var waiting = content.cancels[peer], !waiting.isEmpty else { return nil }
      let first = waiting.removeFirst()
      content.cancels[peer] = waiting.isEmpty ? nil : waiting
      return first
    }
  }

  private func answer(_ cancel: Cancel, _ peer: PeerIdentifier) {
    guard let peripheral = known(peer) else { return }
    peripheral.endDisconnecting()
    switch cancel {
    case .told:
      reportDisconnect(peripheral, nil)
      reportEvent(.peerDisconnected, peripheral)
    case .untold: break
    }
  }

  private func reportDisconnect(_ peripheral: CBPeripheral, _ error: (any Error)?) {
    guard let delegate else { return }
    if variant(of: delegate) != .five {
      if callThree(delegate, peripheral, error) { return }
    }
    callFive(delegate, peripheral, isReconnecting: false, error)
  }

  /// A loss after which the system reconnects: that goes on only if the delegate has the variant of five arguments
  /// and not that of three, which is known once a delegate of its class has been called.
  private func lost(_ peripheral: CBPeripheral, _ error: (any Error)?) {
    let delegate = delegate
    guard let delegate, variant(of: delegate) != .five else {
      peripheral.becomeDisconnected(connectingAgain: true)
      if let delegate { callFive(delegate, peripheral, isReconnecting: true, error) }
      return
    }
    peripheral.becomeDisconnected()
    cancel(peripheral.peer, .untold)
    if callThree(delegate, peripheral, error) { return }
    if peripheral.beginConnecting() == .begins {
      link.send(.connect(peripheral.peer, ConnectOptions(autoReconnect: true)))
    }
    callFive(delegate, peripheral, isReconnecting: true, error)
  }

  private func variant(of delegate: any CBCentralManagerDelegate) -> DisconnectVariant? {
    let type = ObjectIdentifier(type(of: delegate as AnyObject))
    return content.withLock { $0.variants[type] }
  }

  /// False, and remembered: the delegate does not have the method.
  private func callThree(
    _ delegate: any CBCentralManagerDelegate, _ peripheral: CBPeripheral, _ error: (any Error)?
  ) -> Bool {
    let type = ObjectIdentifier(type(of: delegate as AnyObject))
    let isThree = isImplemented { delegate.centralManager(self, didDisconnectPeripheral: peripheral, error: error) }
    content.withLock { $0.variants[type] = isThree ? .three : .five }
    return isThree
  }

  private func callFive(
    _ delegate: any CBCentralManagerDelegate, _ peripheral: CBPeripheral, isReconnecting: Bool, _ error: (any Error)?
  ) {
    delegate.centralManager(
      self, didDisconnectPeripheral: peripheral, timestamp: Date().timeIntervalSinceReferenceDate,
      isReconnecting: isReconnecting, error: error)
  }

  private func reportEvent(_ event: CBConnectionEvent, _ peripheral: CBPeripheral) {
    let wanted = content.withLock { $0.wantedEvents }
    guard !wanted.services.isEmpty || !wanted.peers.isEmpty else { return }
    let isWanted =
      wanted.peers.contains(peripheral.peer)
      || peripheral.services?.contains { wanted.services.contains($0.uuid.value) } == true
      || link.replica.connectedPeers(withServices: wanted.services).contains { $0.identifier == peripheral.peer }
    if isWanted { delegate?.centralManager(self, connectionEventDidOccur: event, for: peripheral) }
  }

  // MARK: - Peers

  private func known(_ peer: PeerIdentifier) -> CBPeripheral? {
    content.withLock { $0.peripherals[peer]?.object }
  }

  /// The one object for a peer.
  private func peripheral(for info: PeerInfo) -> CBPeripheral {
    let (peripheral, isNew) = content.withLock { content in
      if let known = content.peripherals[info.identifier]?.object { return (known, false) }
      let made = CBPeripheral(info, manager: self)
      content.peripherals[info.identifier] = WeakPeripheral(object: made)
      return (made, true)
    }
    if !isNew, let name = info.name { peripheral.setName(name) }
    return peripheral
  }

  /// The last reference to a peer's object is gone.
  func forget(_ peer: PeerIdentifier) {
    // Another object may have taken the place; it is returned so that it does not end under the lock.
    _ = content.withLock { content -> CBPeripheral? in
      let successor = content.peripherals[peer]?.object
      if successor == nil { content.peripherals[peer] = nil }
      return successor
    }
  }

  /// The last reference to a peer's object is gone, and it was connected or wanted.
  func abandon(_ peer: PeerIdentifier, _ description: String) {
    forget(peer)
    misuse(
      "Cancelling connection for unused peripheral \(description), Did you forget to keep a reference to it?")
    cancel(peer, .untold)
  }
}

// MARK: - Options and dictionaries

/// A number or truth value of an options dictionary as a truth value.
private func flag(_ options: [String: Any]?, _ key: String) -> Bool? {
  guard let value = options?[key] else { return nil }
  return value as? Bool ?? (value as? NSNumber)?.boolValue
}

extension ConnectOptions {
  /// nil: an option has a value of a wrong type, or a negative delay.
  fileprivate init?(_ options: [String: Any]?) {
    let flags = [
      CBConnectPeripheralOptionNotifyOnConnectionKey, CBConnectPeripheralOptionNotifyOnDisconnectionKey,
      CBConnectPeripheralOptionNotifyOnNotificationKey, CBConnectPeripheralOptionEnableTransportBridgingKey,
      CBConnectPeripheralOptionRequiresANCS, CBConnectPeripheralOptionEnableAutoReconnect,
    ]
    for key in flags where options?[key] != nil && flag(options, key) == nil { return nil }
    self.init(autoReconnect: flag(options, CBConnectPeripheralOptionEnableAutoReconnect) ?? false)
    if let delay = options?[CBConnectPeripheralOptionStartDelayKey] {
      guard let seconds = delay as? Double ?? (delay as? NSNumber)?.doubleValue, (0...1e9).contains(seconds) else {
        return nil
      }
      startDelay = TimeSpan.nanoseconds(Int64(seconds * 1e9))
    }
  }
}

extension Discovery {
  /// As `centralManager(_:didDiscover:advertisementData:rssi:)` gets it: without the keys of what was not sent.
  fileprivate var advertisementData: [String: Any] {
    var data: [String: Any] = [CBAdvertisementDataIsConnectable: NSNumber(value: isConnectable)]
    data[CBAdvertisementDataLocalNameKey] = localName
    data[CBAdvertisementDataTxPowerLevelKey] = txPowerLevel.map { NSNumber(value: Int($0)) }
    data[CBAdvertisementDataManufacturerDataKey] = manufacturerData.map { Data($0) }
    func list(_ key: String, _ uuids: [BluetoothUUID]) {
      if !uuids.isEmpty { data[key] = uuids.map { CBUUID($0) } }
    }
    list(CBAdvertisementDataServiceUUIDsKey, services)
    list(CBAdvertisementDataOverflowServiceUUIDsKey, overflowServices)
    list(CBAdvertisementDataSolicitedServiceUUIDsKey, solicitedServices)
    if !serviceData.isEmpty {
      let pairs = serviceData.map { (CBUUID($0.key), Data($0.value)) }
      data[CBAdvertisementDataServiceDataKey] = Dictionary(pairs, uniquingKeysWith: { first, _ in first })
    }
    return data
  }
}
