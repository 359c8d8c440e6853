// SPDX-License-Identifier: Apache-2.0

import BLECore
import BLESystem
public import Foundation
import Synchronization

/// Whether a peer is connected, for this app.
@nonexhaustive
public enum CBPeripheralState: Int, Sendable {
  case disconnected
  case connecting
  case connected
  case disconnecting
}

/// A remote device with services to use.
///
/// A ``CBCentralManager`` makes it, by scanning or retrieving, and there is one for a peer and a manager while
/// somebody holds it. Hold it as long as it is wanted: with the last reference its connection ends, a pending one too.
///
/// All calls may come from any thread. Those that ask the peer are answered by the delegate, on the manager's queue,
/// once each and in order; the connection's end takes the answers with it.
open class CBPeripheral: CBPeer, @unchecked Sendable {  // What changes is behind a lock.
  enum Phase {
    case disconnected
    case connecting
    case connected(ActiveLink)
    case disconnecting
  }

  private struct State {
    weak var delegate: (any CBPeripheralDelegate)?
    var name: String?
    var phase = Phase.disconnected
    var services: [CBService]?
    /// The manager went below `poweredOff`: the object cannot be connected any more.
    var isVoid = false

    /// Ends the link; its attributes are void and notify no more.
    mutating func leave(to next: Phase) {
      if case .connected(let active) = phase {
        for characteristic in active.characteristics.values { characteristic.setNotifying(false) }
      }
      phase = next
    }
  }

  private let content: Mutex<State>
  /// Set once.
  private(set) weak var manager: CBCentralManager?

  init(_ info: PeerInfo, manager: CBCentralManager) {
    content = Mutex(State(name: info.name))
    self.manager = manager
    super.init(peer: info.identifier)
  }

  deinit {
    switch state {
    case .connecting, .connected: manager?.abandon(peer, description)
    case .disconnected, .disconnecting: manager?.forget(peer)
    }
  }

  // MARK: What is known

  /// Who is told of the peer's answers.
  weak open var delegate: (any CBPeripheralDelegate)? {
    get { content.withLock { Unchecked(value: $0.delegate) }.value }  // Callers share the object anyway.
    set {
      let delegate = Unchecked(value: newValue)
      content.withLock { $0.delegate = delegate.value }
    }
  }

  /// The GAP Device Name if it has been read, else the name the peer advertises; nil without either.
  open var name: String? { content.withLock { $0.name } }

  /// Always nil.
  @available(*, deprecated, message: "use readRSSI() and its callback")
  open var rssi: NSNumber? { nil }

  /// Whether the peer is connected. A call of the app's shows at once, all else just before its callback.
  open var state: CBPeripheralState {
    content.withLock { content in
      switch content.phase {
      case .disconnected: .disconnected
      case .connecting: .connecting
      case .connected: .connected
      case .disconnecting: .disconnecting
      }
    }
  }

  /// The services found so far; nil before the first discovery. After a disconnect they are void: discover again.
  open var services: [CBService]? { content.withLock { $0.services } }

  /// Whether a write without response would be taken now. After a false,
  /// `peripheralIsReady(toSendWriteWithoutResponse:)` tells when there is room.
  open var canSendWriteWithoutResponse: Bool {
    guard let link = currentLink, let manager else { return false }
    return manager.session.credits.canWrite(link)
  }

  /// Always false: the service exists on Apple's phones only.
  open var ancsAuthorized: Bool { false }

  /// As in Apple's logs.
  open override var description: String {
    let (name, mtu) = content.withLock { content in
      guard case .connected(let active) = content.phase else { return (content.name, 0) }
      return (content.name, active.maximumWriteLength + 3)
    }
    return "<\(type(of: self)): \(address(of: self)), identifier = \(identifier), name = \(name ?? "(null)"), "
      + "mtu = \(mtu), state = \(state)>"
  }

  /// The octets that one write can have: without response ATT_MTU - 3, with response 512, in several packets if need
  /// be (Vol 3 Part F 3.4.6).
  open func maximumWriteValueLength(for type: CBCharacteristicWriteType) -> Int {
    switch type {
    case .withResponse: Self.attributeLengthMax
    case .withoutResponse: max(20, currentActive { $0.maximumWriteLength } ?? 20)
    }
  }

  // MARK: Asking the peer

  /// Reads the signal's strength; answered by `peripheral(_:didReadRSSI:error:)`.
  open func readRSSI() { submit(.readRSSI) { .readRSSI($0, $1) } }

  /// Finds services: those with one of the UUIDs, or (nil or empty) all, which takes longer. They are added to
  /// ``services``; answered by `peripheral(_:didDiscoverServices:)`. Generic Access and Generic Attribute stay hidden.
  open func discoverServices(_ serviceUUIDs: [CBUUID]?) {
    submit(.discoverServices) { .discoverServices($0, $1, filter(serviceUUIDs)) }
  }

  /// Finds the services that a service includes; answered by
  /// `peripheral(_:didDiscoverIncludedServicesFor:error:)`.
  open func discoverIncludedServices(_ includedServiceUUIDs: [CBUUID]?, for service: CBService) {
    submit(.discoverIncludedServices(service)) {
      .discoverIncludedServices($0, $1, service.record?.handles ?? 1...1, filter(includedServiceUUIDs))
    }
  }

  /// Finds characteristics of a service; answered by `peripheral(_:didDiscoverCharacteristicsFor:error:)`.
  open func discoverCharacteristics(_ characteristicUUIDs: [CBUUID]?, for service: CBService) {
    submit(.discoverCharacteristics(service)) {
      .discoverCharacteristics($0, $1, service.record?.handles ?? 1...1, filter(characteristicUUIDs))
    }
  }

  /// Finds a characteristic's descriptors; answered by `peripheral(_:didDiscoverDescriptorsFor:error:)`.
  open func discoverDescriptors(for characteristic: CBCharacteristic) {
    guard let record = characteristic.record else { return refuseForeign(.discoverDescriptors(characteristic)) }
    submit(.discoverDescriptors(characteristic)) { .discoverDescriptors($0, $1, record) }
  }

  /// Reads a value, whole; answered by `peripheral(_:didUpdateValueFor:error:)`, as notifications are.
  open func readValue(for characteristic: CBCharacteristic) {
    submit(.read(characteristic)) { .readValue($0, $1, characteristic.record?.valueHandle ?? 0) }
  }

  /// Reads a descriptor's value; answered by `peripheral(_:didUpdateValueFor:error:)`.
  open func readValue(for descriptor: CBDescriptor) {
    submit(.readDescriptor(descriptor)) { .readValue($0, $1, descriptor.record?.handle ?? 0) }
  }

  /// Writes a value.
  ///
  /// With response: up to 512 octets, answered by `peripheral(_:didWriteValueFor:error:)`. Without: up to
  /// ``maximumWriteValueLength(for:)``, never answered; longer data, and data for a characteristic that does not take
  /// such writes, is dropped with a line in the log. While ``canSendWriteWithoutResponse`` is false it may get lost.
  open func writeValue(_ data: Data, for characteristic: CBCharacteristic, type: CBCharacteristicWriteType) {
    switch type {
    case .withResponse:
      let operation = Operation.write(characteristic)
      guard data.count <= Self.attributeLengthMax else { return refuse(operation, tooLong(data)) }
      submit(operation) { .writeValue($0, $1, characteristic.record?.valueHandle ?? 0, data.octets) }
    case .withoutResponse:
      writeCommand(data, for: characteristic)
    }
  }

  /// Writes a descriptor's value; answered by `peripheral(_:didWriteValueFor:error:)`. The Client Characteristic
  /// Configuration (2902) is refused with `CBError.uuidNotAllowed`: use ``setNotifyValue(_:for:)``.
  open func writeValue(_ data: Data, for descriptor: CBDescriptor) {
    let operation = Operation.writeDescriptor(descriptor)
    if descriptor.uuid.value == 0x2902 {
      misuse("Client Characteristic Configuration descriptors must be configured using setNotifyValue(_:for:)")
      return refuse(operation, CBError.reported(.uuidNotAllowed, "use setNotifyValue(_:for:)"))
    }
    guard data.count <= Self.attributeLengthMax else { return refuse(operation, tooLong(data)) }
    submit(operation) { .writeValue($0, $1, descriptor.record?.handle ?? 0, data.octets) }
  }

  /// Subscribes to a characteristic's notifications or indications, or ends that; answered by
  /// `peripheral(_:didUpdateNotificationStateFor:error:)`, at once if it is so already.
  open func setNotifyValue(_ enabled: Bool, for characteristic: CBCharacteristic) {
    let operation = Operation.setNotify(characteristic, enabled)
    guard let record = characteristic.record else { return refuseForeign(operation) }
    guard !characteristic.properties.isDisjoint(with: [.notify, .indicate]) else {
      let detail = "\(characteristic) neither notifies nor indicates"
      return refuse(operation, CBATTError.reported(.requestNotSupported, detail))
    }
    let isPending = currentActive { $0.isChangingNotification(of: characteristic) } ?? false
    if !isPending, characteristic.isNotifying == enabled { return refuse(operation, nil) }
    submit(operation) { .setNotify($0, $1, record, enabled) }
  }

  /// Opens a channel; answered by `peripheral(_:didOpen:error:)`, now always with `CBError.operationNotSupported`.
  open func openL2CAPChannel(_ PSM: CBL2CAPPSM) {
    let detail = "opening channel \(PSM) to \(identifier): L2CAP channels are not offered yet"
    refuse(.openChannel, CBError.reported(.operationNotSupported, detail))
  }
}

// MARK: - Requests

extension CBPeripheral {
  /// The longest value that an attribute has (Vol 3 Part F 3.2.9).
  private static let attributeLengthMax = 512

  /// What the peer was asked and owes an answer for.
  enum Operation {
    case readRSSI
    case discoverServices
    case discoverIncludedServices(CBService)
    case discoverCharacteristics(CBService)
    case discoverDescriptors(CBCharacteristic)
    case read(CBCharacteristic)
    case readDescriptor(CBDescriptor)
    case write(CBCharacteristic)
    case writeDescriptor(CBDescriptor)
    case setNotify(CBCharacteristic, Bool)
    case openChannel
  }

  private enum Verdict {
    case send(RequestToken, LinkReference)
    case void
    case notConnected
  }

  private var currentLink: LinkReference? { currentActive { $0.reference } }

  private func currentActive<Result: Sendable>(_ body: (ActiveLink) -> Result) -> Result? {
    content.withLock { content in
      guard case .connected(let active) = content.phase else { return nil }
      return body(active)
    }
  }

  private func submit(_ operation: Operation, _ request: (RequestToken, LinkReference) -> SystemRequest) {
    guard let manager else { return misuseNotConnected() }
    let verdict: Verdict = content.withLock { content in
      guard case .connected(let active) = content.phase else { return .notConnected }
      guard active.holds(operation) else { return .void }
      let token = manager.nextToken()
      active.pending[token] = operation
      return .send(token, active.reference)
    }
    switch verdict {
    case .send(let token, let link): manager.link.send(request(token, link))
    case .void: refuseForeign(operation)
    case .notConnected: misuseNotConnected()
    }
  }

  private func writeCommand(_ data: Data, for characteristic: CBCharacteristic) {
    guard let manager, let link = currentLink else { return misuseNotConnected() }
    guard currentActive({ $0.holds(.write(characteristic)) }) == true, let record = characteristic.record else {
      return misuse("\(characteristic) is not, or no longer, one of \(self); its write is ignored")
    }
    guard characteristic.properties.contains(.writeWithoutResponse) else {
      return Diagnostics.line(
        "WARNING: Characteristic \(characteristic) does not specify the \"Write Without Response\" property - "
          + "ignoring response-less write")
    }
    let limit = maximumWriteValueLength(for: .withoutResponse)
    guard data.count <= limit else {
      return Diagnostics.line(
        "WARNING: \(data.count) bytes for \(characteristic) are more than the \(limit) of a write without response - "
          + "ignoring it")
    }
    guard manager.session.credits.takeWrite(link) else {
      return Log.write(.debug, "api", "no room for a write without response to \(characteristic): dropped")
    }
    manager.link.send(.writeCommand(link, record.valueHandle, data.octets))
  }

  private func misuseNotConnected() {
    misuse("\(self) can only accept commands while in the connected state")
  }

  /// An attribute of an earlier connection, of another peer, or of the app's own.
  private func refuseForeign(_ operation: Operation) {
    let detail = "the attribute is not, or no longer, one of \(identifier): discover again"
    refuse(operation, CBError.reported(.invalidHandle, detail))
  }

  /// Answers without asking the peer: with an error, or, nil, as done.
  private func refuse(_ operation: Operation, _ error: (any Error)?) {
    guard let manager, let link = currentLink else { return misuseNotConnected() }
    manager.session.post { [self] _ in
      if currentLink == link { report(operation, error) }
    }
  }

  private func tooLong(_ data: Data) -> any Error {
    let detail = "\(data.count) octets are more than the \(Self.attributeLengthMax) of an attribute"
    return CBATTError.reported(.invalidAttributeValueLength, detail)
  }
}

/// nil and an empty list both mean: all.
private func filter(_ uuids: [CBUUID]?) -> [BluetoothUUID]? {
  guard let uuids, !uuids.isEmpty else { return nil }
  return uuids.map(\.value)
}

// MARK: - Answers, on the manager's queue

extension CBPeripheral {
  /// What came of an operation.
  enum Outcome {
    case rssi(Int8)
    case services([ServiceRecord])
    case characteristics([CharacteristicRecord])
    case descriptors([DescriptorRecord])
    case value([UInt8])
    case written
    case notifying(Bool, SystemError?)
    case failed(SystemError)
  }

  func finish(_ token: RequestToken, _ link: LinkReference, _ outcome: Outcome) {
    let answered = content.withLock { content -> Operation? in
      guard case .connected(let active) = content.phase, active.reference == link else { return nil }
      return active.pending.removeValue(forKey: token)
    }
    guard let operation = answered else { return }
    switch (operation, outcome) {
    case (_, .failed(let error)): report(operation, error.asAppError)
    case (.readRSSI, .rssi(let value)): report(operation, nil, rssi: Int(value))
    case (.discoverServices, .services(let records)):
      addServices(records)
      report(operation, nil)
    case (.discoverIncludedServices(let service), .services(let records)):
      addIncludedServices(records, to: service)
      report(operation, nil)
    case (.discoverCharacteristics(let service), .characteristics(let records)):
      addCharacteristics(records, to: service)
      report(operation, nil)
    case (.discoverDescriptors(let characteristic), .descriptors(let records)):
      addDescriptors(records, to: characteristic)
      report(operation, nil)
    case (.read(let characteristic), .value(let octets)):
      characteristic.setValue(Data(octets))
      report(operation, nil)
    case (.readDescriptor(let descriptor), .value(let octets)):
      descriptor.setValue(octets)
      report(operation, nil)
    case (.write, .written), (.writeDescriptor, .written): report(operation, nil)
    case (.setNotify(let characteristic, _), .notifying(let isNotifying, let error)):
      characteristic.setNotifying(isNotifying)
      report(operation, error?.asAppError)
    default: report(operation, CBError.reported(.unknown, "an answer of another kind: \(outcome)"))
    }
  }

  private func report(_ operation: Operation, _ error: (any Error)?, rssi: Int = 127) {
    guard let delegate else { return }
    switch operation {
    case .readRSSI: delegate.peripheral(self, didReadRSSI: NSNumber(value: rssi), error: error)
    case .discoverServices: delegate.peripheral(self, didDiscoverServices: error)
    case .discoverIncludedServices(let service):
      delegate.peripheral(self, didDiscoverIncludedServicesFor: service, error: error)
    case .discoverCharacteristics(let service):
      delegate.peripheral(self, didDiscoverCharacteristicsFor: service, error: error)
    case .discoverDescriptors(let characteristic):
      delegate.peripheral(self, didDiscoverDescriptorsFor: characteristic, error: error)
    case .read(let characteristic): delegate.peripheral(self, didUpdateValueFor: characteristic, error: error)
    case .readDescriptor(let descriptor): delegate.peripheral(self, didUpdateValueFor: descriptor, error: error)
    case .write(let characteristic): delegate.peripheral(self, didWriteValueFor: characteristic, error: error)
    case .writeDescriptor(let descriptor): delegate.peripheral(self, didWriteValueFor: descriptor, error: error)
    case .setNotify(let characteristic, _):
      delegate.peripheral(self, didUpdateNotificationStateFor: characteristic, error: error)
    case .openChannel: delegate.peripheral(self, didOpen: nil, error: error)
    }
  }

  func receiveNotification(_ link: LinkReference, _ handle: UInt16, _ octets: [UInt8]) {
    let known = content.withLock { content -> CBCharacteristic? in
      guard case .connected(let active) = content.phase, active.reference == link else { return nil }
      return active.characteristics[handle]
    }
    guard let characteristic = known else { return }
    characteristic.setValue(Data(octets))
    delegate?.peripheral(self, didUpdateValueFor: characteristic, error: nil)
  }

  func receiveWriteCredits(_ link: LinkReference) {
    guard let manager, currentLink == link, manager.session.credits.takeWriteReadiness(link) else { return }
    delegate?.peripheralIsReady(toSendWriteWithoutResponse: self)
  }

  func receiveMaximumWriteLength(_ link: LinkReference, _ length: Int) {
    _ = currentActive { active in
      if active.reference == link { active.maximumWriteLength = length }
    }
  }

  func receiveName(_ name: String?) {
    guard setName(name) else { return }
    delegate?.peripheralDidUpdateName(self)
  }

  /// False if it had that name already.
  @discardableResult
  func setName(_ name: String?) -> Bool {
    content.withLock { content in
      defer { content.name = name }
      return content.name != name
    }
  }

  /// Service Changed: what was known within `handles` is void.
  func receiveServicesModified(_ link: LinkReference, _ handles: ClosedRange<UInt16>) {
    let invalidated = content.withLock { content -> [CBService]? in
      guard case .connected(let active) = content.phase, active.reference == link else { return nil }
      let invalidated = active.removeServices(overlapping: handles)
      content.services?.removeAll { service in invalidated.contains { $0 === service } }
      return invalidated
    }
    guard let invalidated else { return }
    delegate?.peripheral(self, didModifyServices: invalidated)
  }

  private func addServices(_ records: [ServiceRecord]) {
    content.withLock { content in
      guard case .connected(let active) = content.phase else { return }
      let found = records.filter { $0.uuid != 0x1800 && $0.uuid != 0x1801 }.map { active.service(for: $0, of: self) }
      content.services = adding(found, to: active.hasListedServices ? content.services : nil)
      active.hasListedServices = true
    }
  }

  private func addIncludedServices(_ records: [ServiceRecord], to service: CBService) {
    let found = currentActive { active in records.map { active.service(for: $0, of: self) } }
    service.setIncludedServices(adding(found ?? [], to: service.includedServices))
  }

  private func addCharacteristics(_ records: [CharacteristicRecord], to service: CBService) {
    let found = currentActive { active in records.map { active.characteristic(for: $0, in: service) } }
    service.setCharacteristics(adding(found ?? [], to: service.characteristics))
  }

  private func addDescriptors(_ records: [DescriptorRecord], to characteristic: CBCharacteristic) {
    let found = currentActive { active in records.map { active.descriptor(for: $0, in: characteristic) } }
    characteristic.setDescriptors(adding(found ?? [], to: characteristic.descriptors))
  }
}

/// Appends what is not there yet.
private func adding<Object: AnyObject>(_ found: [Object], to known: [Object]?) -> [Object] {
  var all = known ?? []
  var identities = Set(all.map { ObjectIdentifier($0) })
  for object in found where identities.insert(ObjectIdentifier(object)).inserted { all.append(object) }
  return all
}

// MARK: - The connection, as the manager tells it

extension CBPeripheral {
  /// What a call of `connect` finds.
  enum ConnectVerdict {
    case begins, isPending, isConnected, isVoid
  }

  func beginConnecting() -> ConnectVerdict {
    content.withLock { content in
      if content.isVoid { return .isVoid }
      switch content.phase {
      case .disconnected, .disconnecting:
        content.phase = .connecting
        return .begins
      case .connecting: return .isPending
      case .connected: return .isConnected
      }
    }
  }

  /// False if there is nothing to end.
  func beginDisconnecting() -> Bool {
    content.withLock { content in
      switch content.phase {
      case .connecting, .connected:
        content.leave(to: .disconnecting)
        return true
      case .disconnected, .disconnecting: return false
      }
    }
  }

  /// False if it was not being connected.
  func becomeConnected(_ link: LinkReference, maximumWriteLength: Int) -> Bool {
    content.withLock { content in
      guard case .connecting = content.phase else { return false }
      content.phase = .connected(ActiveLink(link, maximumWriteLength: maximumWriteLength))
      return true
    }
  }

  /// The peer is gone or going; false if it was so before.
  @discardableResult
  func becomeDisconnected(connectingAgain: Bool = false) -> Bool {
    content.withLock { content in
      if case .disconnected = content.phase { return false }
      content.leave(to: connectingAgain ? .connecting : .disconnected)
      return true
    }
  }

  /// After the app's cancel has been answered; a `connect` since then goes on.
  func endDisconnecting() {
    content.withLock { content in
      if case .disconnecting = content.phase { content.phase = .disconnected }
    }
  }

  /// The adapter went off, or, `isVoid`, further.
  func loseAdapter(isVoid: Bool) {
    content.withLock { content in
      content.leave(to: .disconnected)
      content.isVoid = content.isVoid || isVoid
    }
  }
}
