// SPDX-License-Identifier: Apache-2.0

import BLECore
import BLESystem
public import Dispatch
public import Foundation
import Synchronization

/// How often a central should be able to exchange data: shorter is faster and costs more energy.
@nonexhaustive
public enum CBPeripheralManagerConnectionLatency: Int, Sendable {
  case low
  case medium
  case high
}

/// Publishes services, advertises them and serves the centrals that use them.
///
/// Commands are for `.poweredOn` only; at another time they are dropped with a line in the log, and nothing else.
/// Calls may come from any thread; the delegate is called on the queue given at the start (nil: the main queue).
open class CBPeripheralManager: CBManager, @unchecked Sendable {  // What changes is behind a lock.
  private enum Advertising {
    case off
    case starting(RequestToken)
    case on
  }

  private struct WeakCentral {
    weak var object: CBCentral?
  }

  private struct State {
    weak var delegate: (any CBPeripheralManagerDelegate)?
    var advertising = Advertising.off
    var database = LocalDatabase()
    /// Services whose publication is not confirmed yet.
    var additions: [RequestToken: CBMutableService] = [:]
    var centrals: [PeerIdentifier: WeakCentral] = [:]
    /// Requests that the app owes an answer to.
    var unanswered: Set<RemoteRequestID> = []
  }

  private let content: Mutex<State>

  /// A manager without delegate, for the main queue.
  public convenience init() { self.init(delegate: nil, queue: nil, options: nil) }

  /// A manager whose delegate is called on `queue`, nil: the main queue.
  public convenience init(delegate: (any CBPeripheralManagerDelegate)?, queue: DispatchQueue?) {
    self.init(delegate: delegate, queue: queue, options: nil)
  }

  /// A manager whose delegate is called on `queue`, nil: the main queue. The options are the
  /// `CBPeripheralManagerOption…` constants and ``CBManagerOptionAdapterKey``.
  public init(
    delegate: (any CBPeripheralManagerDelegate)?, queue: DispatchQueue?, options: [String: Any]? = nil
  ) {
    var state = State()
    state.delegate = delegate
    content = Mutex(Unchecked(value: state).value)
    super.init(queue: queue, options: options)
  }

  /// Who is told what happens.
  weak open var delegate: (any CBPeripheralManagerDelegate)? {
    get { content.withLock { Unchecked(value: $0.delegate) }.value }  // Callers share the object anyway.
    set {
      let delegate = Unchecked(value: newValue)
      content.withLock { $0.delegate = delegate.value }
    }
  }

  /// Whether this manager advertises: true from just before the call that says so, false with the call that ends it.
  open var isAdvertising: Bool {
    content.withLock { content in
      if case .on = content.advertising { true } else { false }
    }
  }

  /// Whether this program may use Bluetooth.
  @available(*, deprecated, message: "use CBManager.authorization")
  open class func authorizationStatus() -> CBPeripheralManagerAuthorizationStatus {
    authorization == .allowedAlways ? .authorized : .denied
  }

  // MARK: Advertising

  /// Advertises; answered by `peripheralManagerDidStartAdvertising(_:error:)`, with `CBError.alreadyAdvertising` if
  /// it was on already.
  ///
  /// Takes a name (``CBAdvertisementDataLocalNameKey``) and services (``CBAdvertisementDataServiceUUIDsKey``), which
  /// share the 28 octets of the advertisement; a name that finds no room there has 29 in the scan response. Other
  /// keys are ignored with a line in the log.
  open func startAdvertising(_ advertisementData: [String: Any]?) {
    guard acceptsCommands() else { return }
    let data = advertisementData ?? [:]
    let honoured = [CBAdvertisementDataLocalNameKey, CBAdvertisementDataServiceUUIDsKey]
    for key in data.keys.sorted() where !honoured.contains(key) {
      Diagnostics.line("WARNING: \(self) does not advertise \(key); it takes a local name and service UUIDs")
    }
    let token = nextToken()
    let isOff = content.withLock { content in
      guard case .off = content.advertising else { return false }
      content.advertising = .starting(token)
      return true
    }
    guard isOff else {
      let error = CBError.reported(.alreadyAdvertising, "what is advertised stays as it was")
      return post { $0.delegate?.peripheralManagerDidStartAdvertising($0, error: error) }
    }
    let services = data[CBAdvertisementDataServiceUUIDsKey] as? [CBUUID] ?? []
    let name = data[CBAdvertisementDataLocalNameKey] as? String
    link.send(.startAdvertising(token, localName: name, services: services.map(\.value)))
  }

  /// Ends advertising; ``isAdvertising`` is false at once.
  open func stopAdvertising() {
    guard acceptsCommands() else { return }
    content.withLock { $0.advertising = .off }
    link.send(.stopAdvertising)
  }

  /// Wishes for shorter or longer intervals on the connection with a central.
  open func setDesiredConnectionLatency(
    _ latency: CBPeripheralManagerConnectionLatency, for central: CBCentral
  ) {
    guard acceptsCommands() else { return }
    let wish: DesiredLatency =
      switch latency {
      case .low: .low
      case .medium: .medium
      case .high: .high
      }
    link.send(.setDesiredLatency(wish, central.peer))
  }

  // MARK: Services

  /// Publishes a service; answered by `peripheralManager(_:didAdd:error:)`.
  ///
  /// Refused are: one that is published already, one that includes a service that is not, properties and descriptors
  /// that the system makes itself (`CBError.invalidParameters`), Generic Access and Generic Attribute
  /// (`CBError.uuidNotAllowed`). A characteristic with a value that is not read-only ends the program.
  open func add(_ service: CBMutableService) {
    guard acceptsCommands() else { return }
    let token = nextToken()
    do {
      let local = try content.withLock { content throws(CBError) in
        let local = try content.database.publish(service)
        content.additions[token] = service
        return local
      }
      link.send(.addService(token, local))
    } catch {
      post { [error] in $0.delegate?.peripheralManager($0, didAdd: service, error: error) }
    }
  }

  /// Takes a service back; one that is not published is ignored.
  open func remove(_ service: CBMutableService) {
    guard acceptsCommands() else { return }
    let removed = content.withLock { content in
      content.database.id(of: service).map { ($0, content.database.remove($0)) }
    }
    guard let (id, characteristics) = removed else { return }
    for characteristic in characteristics { characteristic.removeAllSubscribers() }
    link.send(.removeService(id))
  }

  /// Takes all services back.
  open func removeAllServices() {
    guard acceptsCommands() else { return }
    clearDatabase()
    link.send(.removeAllServices)
  }

  // MARK: Serving

  /// Answers a request of `didReceiveRead` or `didReceiveWrite`, once; of several write requests that came together
  /// any one stands for all. A request that was answered already, or of another manager, is ignored with a line in
  /// the log. A request never answered ends the central's connection after 30 s.
  open func respond(to request: CBATTRequest, withResult result: CBATTError.Code) {
    guard acceptsCommands(), request.needsResponse else { return }
    guard content.withLock({ $0.unanswered.remove(request.id) }) != nil else {
      return misuse("\(self) ignores an answer to \(request): it was answered already, or is of another manager")
    }
    let value = result == .success ? request.value.map { [UInt8]($0) } : nil
    link.send(.respond(request.id, UInt8(clamping: result.rawValue), value))
  }

  /// Sends a value to subscribed centrals: to those listed, or, nil, to all. What is longer than a central's
  /// ``CBCentral/maximumUpdateValueLength`` is cut.
  ///
  /// - Returns: false if there is no room; `peripheralManagerIsReady(toUpdateSubscribers:)` tells when there is.
  ///   True without effect if nobody listed is subscribed.
  @discardableResult
  open func updateValue(
    _ value: Data, for characteristic: CBMutableCharacteristic, onSubscribedCentrals centrals: [CBCentral]?
  ) -> Bool {
    guard acceptsCommands() else { return false }
    guard let id = content.withLock({ $0.database.id(of: characteristic) }) else {
      misuse("\(characteristic) is not published by \(self); its update is ignored")
      return true
    }
    let subscribed = characteristic.subscribedCentrals ?? []
    let named = centrals.map { centrals in subscribed.filter { one in centrals.contains { $0.peer == one.peer } } }
    guard !(named ?? subscribed).isEmpty else { return true }
    guard session.credits.takeUpdate() else { return false }
    link.send(.updateValue(id, value.octets, named?.map(\.peer)))
    return true
  }

  // MARK: L2CAP

  /// Offers a channel; answered by `peripheralManager(_:didPublishL2CAPChannel:error:)`, now always with
  /// `CBError.operationNotSupported`.
  open func publishL2CAPChannel(withEncryption encryptionRequired: Bool) {
    guard acceptsCommands() else { return }
    let error = CBError.reported(.operationNotSupported, "L2CAP channels are not offered yet")
    post { $0.delegate?.peripheralManager($0, didPublishL2CAPChannel: 0, error: error) }
  }

  /// Offers a channel no more; answered by `peripheralManager(_:didUnpublishL2CAPChannel:error:)`, now always with
  /// `CBError.operationNotSupported`.
  open func unpublishL2CAPChannel(_ PSM: CBL2CAPPSM) {
    guard acceptsCommands() else { return }
    let error = CBError.reported(.operationNotSupported, "L2CAP channels are not offered yet")
    post { $0.delegate?.peripheralManager($0, didUnpublishL2CAPChannel: PSM, error: error) }
  }

  private func post(_ action: @escaping @Sendable (CBPeripheralManager) -> Void) {
    session.post { if let manager = $0 as? CBPeripheralManager { action(manager) } }
  }

  // MARK: - Events

  override func process(_ event: SystemEvent) {
    switch event {
    case .stateChanged(let state): adapterChanged(state)
    case .serviceAdded(let token, let error): serviceAdded(token, error?.asAppError)
    case .advertisingStarted(let token, let error): advertisingStarted(token, error?.asAppError)
    case .readRequested(let id, let central, let characteristic, let offset):
      readRequested(id, central, characteristic, offset)
    case .writeRequested(let id, let central, let writes, let needsResponse):
      writeRequested(id, central, writes, needsResponse: needsResponse)
    case .subscribed(let central, let id): subscribed(central, id)
    case .unsubscribed(let peer, let id): unsubscribed(peer, id)
    case .centralChanged(let info): knownCentral(info.identifier)?.update(info)
    case .updateCreditsGranted:
      if session.credits.takeUpdateReadiness() { delegate?.peripheralManagerIsReady(toUpdateSubscribers: self) }
    case .discovered, .connected, .connectFailed, .disconnected, .nameChanged, .maximumWriteLengthChanged, .rssiRead,
      .servicesDiscovered, .includedServicesDiscovered, .characteristicsDiscovered, .descriptorsDiscovered,
      .valueRead, .valueWritten, .valueNotified, .notifyStateChanged, .writeCreditsGranted, .servicesModified:
      break  // Of the other role.
    }
  }

  private func adapterChanged(_ new: AdapterState) {
    if new != .poweredOn { loseAdapter(keepingServices: new == .poweredOff) }
    setState(new)
    delegate?.peripheralManagerDidUpdateState(self)
  }

  private func loseAdapter(keepingServices: Bool) {
    let (wasAdvertising, characteristics) = content.withLock { content in
      let wasAdvertising = if case .off = content.advertising { false } else { true }
      content.advertising = .off
      content.unanswered = []
      return (wasAdvertising, Array(content.database.characteristics.values))
    }
    if wasAdvertising { link.send(.stopAdvertising) }  // The call may have met an adapter that was on again.
    for characteristic in characteristics { characteristic.removeAllSubscribers() }
    if !keepingServices { clearDatabase() }
  }

  private func clearDatabase() {
    let former = content.withLock { content in
      content.database.removeAll()
    }
    for characteristic in former { characteristic.removeAllSubscribers() }
  }

  private func serviceAdded(_ token: RequestToken, _ error: (any Error)?) {
    let added = content.withLock { content in
      let service = content.additions.removeValue(forKey: token)
      if error != nil, let service, let id = content.database.id(of: service) {
        _ = content.database.remove(id)
      }
      return service
    }
    guard let service = added else { return }
    delegate?.peripheralManager(self, didAdd: service, error: error)
  }

  private func advertisingStarted(_ token: RequestToken, _ error: (any Error)?) {
    content.withLock { content in
      guard case .starting(token) = content.advertising else { return }  // Stopped since.
      content.advertising = error == nil ? .on : .off
    }
    delegate?.peripheralManagerDidStartAdvertising(self, error: error)
  }

  private func readRequested(
    _ id: RemoteRequestID, _ info: CentralInfo, _ attribute: LocalAttributeID, _ offset: Int
  ) {
    guard let delegate, let characteristic = published(attribute) else {
      let code: CBATTError.Code = published(attribute) == nil ? .invalidHandle : .requestNotSupported
      return link.send(.respond(id, UInt8(clamping: code.rawValue), nil))
    }
    let request = CBATTRequest(
      id: id, central: central(for: info), characteristic: characteristic, offset: offset, value: nil,
      needsResponse: true)
    content.withLock { _ = $0.unanswered.insert(id) }
    delegate.peripheralManager(self, didReceiveRead: request)
  }

  private func writeRequested(
    _ id: RemoteRequestID, _ info: CentralInfo, _ writes: [RemoteWrite], needsResponse: Bool
  ) {
    let central = central(for: info)
    let requests = writes.compactMap { write in
      published(write.characteristic).map { characteristic in
        CBATTRequest(
          id: id, central: central, characteristic: characteristic, offset: write.offset, value: Data(write.value),
          needsResponse: needsResponse)
      }
    }
    let isComplete = !requests.isEmpty && requests.count == writes.count
    guard let delegate, isComplete else {
      let code: CBATTError.Code = isComplete ? .requestNotSupported : .invalidHandle
      if needsResponse { link.send(.respond(id, UInt8(clamping: code.rawValue), nil)) }
      return
    }
    if needsResponse { content.withLock { _ = $0.unanswered.insert(id) } }
    delegate.peripheralManager(self, didReceiveWrite: requests)
  }

  private func subscribed(_ info: CentralInfo, _ attribute: LocalAttributeID) {
    let central = central(for: info)
    guard let characteristic = published(attribute), characteristic.addSubscriber(central) else { return }
    delegate?.peripheralManager(self, central: central, didSubscribeTo: characteristic)
  }

  private func unsubscribed(_ peer: PeerIdentifier, _ attribute: LocalAttributeID) {
    guard let characteristic = published(attribute), let central = characteristic.removeSubscriber(peer) else { return }
    delegate?.peripheralManager(self, central: central, didUnsubscribeFrom: characteristic)
  }

  private func published(_ attribute: LocalAttributeID) -> CBMutableCharacteristic? {
    content.withLock { $0.database.characteristics[attribute] }
  }

  private func knownCentral(_ peer: PeerIdentifier) -> CBCentral? {
    content.withLock { $0.centrals[peer]?.object }
  }

  /// The one object for a central, as it is now.
  private func central(for info: CentralInfo) -> CBCentral {
    let central = content.withLock { content in
      if let known = content.centrals[info.identifier]?.object { return known }
      content.centrals = content.centrals.filter { $0.value.object != nil }
      let made = CBCentral(info)
      content.centrals[info.identifier] = WeakCentral(object: made)
      return made
    }
    central.update(info)
    return central
  }
}
