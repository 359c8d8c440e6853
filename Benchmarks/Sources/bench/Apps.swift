// SPDX-License-Identifier: Apache-2.0

import CoreBluetooth

/// The attributes of the peripherals that are measured.
enum Attributes {
  static func uuid(_ number: Int) -> CBUUID {
    CBUUID(string: "B3A1" + String(format: "%04X", number) + "-5D0C-4E7A-8F21-9C6D2E4B7A10")
  }

  static let service = uuid(1)
  static let cached = uuid(2)
  static let asked = uuid(3)
  static let notified = uuid(4)
  static let commands = uuid(5)
  static let readValue = Data((0..<20).map { UInt8($0) })
  /// As long as a PDU of ATT_MTU 247 can carry.
  static let longValueCount = 244
}

/// Several operations of one kind, until there have been so many.
final class Counter {
  let goal: Int
  private(set) var count = 0
  private let done: () -> Void

  init(_ goal: Int, done: @escaping () -> Void) {
    self.goal = goal
    self.done = done
  }

  /// Whether to go on.
  func add() -> Bool {
    count += 1
    if count == goal { done() }
    return count < goal
  }
}

/// A peripheral of an app: publishes, advertises, answers, sends.
///
/// `@unchecked Sendable`: all is touched on its queue, or before it is advertised.
final class PeripheralApp: NSObject, CBPeripheralManagerDelegate, @unchecked Sendable {
  private let queue: DispatchQueue
  private var manager: CBPeripheralManager?
  private let services: [CBMutableService]
  private let started = DispatchSemaphore(value: 0)
  private var added = 0
  let notified = CBMutableCharacteristic(
    type: Attributes.notified, properties: [.notify], value: nil, permissions: [.readable])
  /// Octets of each write command.
  var received: (Data) -> Void = { _ in }
  /// Values can be sent.
  var roomToSend: () -> Void = {}
  private(set) var isSubscribed = false

  init(adapter: String, services: [CBMutableService]) {
    queue = DispatchQueue(label: adapter)
    self.services = services
    notified.descriptors = [
      CBMutableDescriptor(type: CBUUID(string: CBUUIDCharacteristicUserDescriptionString), value: "name")
    ]
    super.init()
    let last = services[services.count - 1]
    if last.uuid == Attributes.service { last.characteristics?.append(notified) }
    manager = CBPeripheralManager(delegate: self, queue: queue, options: [CBManagerOptionAdapterKey: adapter])
  }

  /// Returns once it advertises.
  func waitUntilAdvertising() { started.wait() }

  func perform(_ body: @escaping @Sendable () -> Void) { queue.async(execute: body) }

  func send(_ value: Data) -> Bool {
    manager?.updateValue(value, for: notified, onSubscribedCentrals: nil) ?? false
  }

  func peripheralManagerDidUpdateState(_ peripheral: CBPeripheralManager) {
    guard peripheral.state == .poweredOn else { return }
    for service in services { peripheral.add(service) }
  }

  func peripheralManager(_ peripheral: CBPeripheralManager, didAdd service: CBService, error: (any Error)?) {
    if let error { fatalError("\(error)") }
    added += 1
    guard added == services.count else { return }
    peripheral.startAdvertising([CBAdvertisementDataServiceUUIDsKey: [Attributes.service]])
  }

  func peripheralManagerDidStartAdvertising(_ peripheral: CBPeripheralManager, error: (any Error)?) {
    started.signal()
  }

  func peripheralManager(_ peripheral: CBPeripheralManager, didReceiveRead request: CBATTRequest) {
    request.value = Attributes.readValue
    peripheral.respond(to: request, withResult: .success)
  }

  func peripheralManager(_ peripheral: CBPeripheralManager, didReceiveWrite requests: [CBATTRequest]) {
    for request in requests { received(request.value ?? Data()) }
  }

  func peripheralManager(
    _ peripheral: CBPeripheralManager, central: CBCentral, didSubscribeTo characteristic: CBCharacteristic
  ) {
    isSubscribed = true
    roomToSend()
  }

  func peripheralManagerIsReady(toUpdateSubscribers peripheral: CBPeripheralManager) { roomToSend() }

  /// The service that is read, written and subscribed to.
  static func service() -> CBMutableService {
    let service = CBMutableService(type: Attributes.service, primary: true)
    service.characteristics = [
      CBMutableCharacteristic(
        type: Attributes.cached, properties: [.read], value: Attributes.readValue, permissions: [.readable]),
      CBMutableCharacteristic(type: Attributes.asked, properties: [.read], value: nil, permissions: [.readable]),
      CBMutableCharacteristic(
        type: Attributes.commands, properties: [.writeWithoutResponse], value: nil, permissions: [.writeable]),
    ]
    return service
  }
}

/// A central of an app.
///
/// `@unchecked Sendable`: all is touched on its queue, or before it scans.
final class CentralApp: NSObject, CBCentralManagerDelegate, CBPeripheralDelegate, @unchecked Sendable {
  private let queue: DispatchQueue
  private var manager: CBCentralManager?
  private let isOn = DispatchSemaphore(value: 0)
  private let isReady = DispatchSemaphore(value: 0)
  private(set) var peripheral: CBPeripheral?
  private(set) var characteristics: [CBUUID: CBCharacteristic] = [:]
  /// Peers found and not yet asked for.
  private var found: [CBPeripheral] = []
  /// Discover the service of the rows after connecting, and be ready with that.
  var discovers = true
  var valueRead: (CBCharacteristic) -> Void = { _ in }
  var roomToWrite: () -> Void = {}
  var connected: () -> Void = {}
  var disconnected: () -> Void = {}
  var servicesFound: ([CBService]) -> Void = { _ in }
  var characteristicsFound: ([CBCharacteristic]) -> Void = { _ in }
  var descriptorsFound: (CBCharacteristic) -> Void = { _ in }
  var discovered: (CBPeripheral, [String: Any]) -> Void = { _, _ in }

  init(adapter: String) {
    queue = DispatchQueue(label: adapter)
    super.init()
    manager = CBCentralManager(delegate: self, queue: queue, options: [CBManagerOptionAdapterKey: adapter])
  }

  func waitUntilOn() { isOn.wait() }
  func perform(_ body: @escaping @Sendable () -> Void) { queue.async(execute: body) }

  /// Scans for as long as nothing else is asked for.
  func scan(services: [CBUUID]?, duplicates: Bool) {
    manager?.scanForPeripherals(
      withServices: services, options: [CBCentralManagerScanOptionAllowDuplicatesKey: duplicates])
  }

  func stopScan() { manager?.stopScan() }

  /// Finds a peripheral and connects it; returns when all of it is known.
  func findAndConnect() {
    waitUntilOn()
    discovered = { [unowned self] peripheral, _ in
      guard self.peripheral == nil else { return }
      use(peripheral)
      manager?.stopScan()
      connect()
    }
    perform { self.scan(services: [Attributes.service], duplicates: false) }
    isReady.wait()
  }

  func use(_ peripheral: CBPeripheral) {
    self.peripheral = peripheral
    peripheral.delegate = self
  }

  func connect() { if let peripheral { manager?.connect(peripheral) } }
  func disconnect() { if let peripheral { manager?.cancelPeripheralConnection(peripheral) } }

  func centralManagerDidUpdateState(_ central: CBCentralManager) {
    if central.state == .poweredOn { isOn.signal() }
  }

  func centralManager(
    _ central: CBCentralManager, didDiscover peripheral: CBPeripheral, advertisementData: [String: Any], rssi: NSNumber
  ) {
    discovered(peripheral, advertisementData)
  }

  func centralManager(_ central: CBCentralManager, didConnect peripheral: CBPeripheral) {
    connected()
    if discovers { peripheral.discoverServices([Attributes.service]) }
  }

  func centralManager(
    _ central: CBCentralManager, didDisconnectPeripheral peripheral: CBPeripheral, error: (any Error)?
  ) {
    disconnected()
  }

  func peripheral(_ peripheral: CBPeripheral, didDiscoverServices error: (any Error)?) {
    guard discovers else { return servicesFound(peripheral.services ?? []) }
    for service in peripheral.services ?? [] { peripheral.discoverCharacteristics(nil, for: service) }
  }

  func peripheral(
    _ peripheral: CBPeripheral, didDiscoverCharacteristicsFor service: CBService, error: (any Error)?
  ) {
    guard discovers else { return characteristicsFound(service.characteristics ?? []) }
    for one in service.characteristics ?? [] { characteristics[one.uuid] = one }
    isReady.signal()
  }

  func peripheral(
    _ peripheral: CBPeripheral, didDiscoverDescriptorsFor characteristic: CBCharacteristic, error: (any Error)?
  ) {
    descriptorsFound(characteristic)
  }

  func peripheral(_ peripheral: CBPeripheral, didUpdateValueFor characteristic: CBCharacteristic, error: (any Error)?) {
    valueRead(characteristic)
  }

  func peripheralIsReady(toSendWriteWithoutResponse peripheral: CBPeripheral) { roomToWrite() }
}
