// SPDX-License-Identifier: Apache-2.0

import CoreBluetooth
import Foundation

/// What an explored world is made of: values that say who sent them, and as which.
enum Explored {
  static let service = CBUUID(string: "FFE0")
  /// Written with response.
  static let log = CBUUID(string: "FFE1")
  /// Written without.
  static let commands = CBUUID(string: "FFE2")
  /// Notifies ascending numbers.
  static let stream = CBUUID(string: "FFE3")

  static func value(_ phone: Int, _ serial: UInt32) -> Data {
    Data([UInt8(truncatingIfNeeded: phone)]) + withUnsafeBytes(of: serial.littleEndian) { Data($0) }
  }

  static func serial(_ value: Data) -> UInt32 { value.dropFirst().reversed().reduce(0) { $0 << 8 | UInt32($1) } }
}

/// Everything happens on its queue, or while nothing else runs.
final class ExploredSensor: NSObject, CBPeripheralManagerDelegate, @unchecked Sendable {
  let name: String
  private let queue: DispatchQueue
  private var manager: CBPeripheralManager!
  private let stream = CBMutableCharacteristic(
    type: Explored.stream, properties: [.notify], value: nil, permissions: [.readable])
  private(set) var violations: [String] = []
  /// Serials of the writes of each phone that were applied, in order.
  private(set) var applied: [UInt8: [UInt32]] = [:]
  private(set) var commands: [UInt8: [UInt32]] = [:]
  private(set) var subscribers: Set<UUID> = []
  /// The last number that was sent.
  private(set) var sent: UInt32 = 0
  private var isTicking = false

  init(_ name: String) {
    self.name = name
    queue = DispatchQueue(label: name)
    super.init()
    manager = CBPeripheralManager(delegate: self, queue: queue)
  }

  func peripheralManagerDidUpdateState(_ peripheral: CBPeripheralManager) {
    subscribers = []
    guard peripheral.state == .poweredOn else {
      if peripheral.state == .resetting { isPublished = false }
      return
    }
    if !isTicking {
      isTicking = true
      tick()
    }
    if isPublished { return advertise() }
    isPublished = true
    let service = CBMutableService(type: Explored.service, primary: true)
    service.characteristics = [
      CBMutableCharacteristic(type: Explored.log, properties: [.write], value: nil, permissions: [.writeable]),
      CBMutableCharacteristic(
        type: Explored.commands, properties: [.writeWithoutResponse], value: nil, permissions: [.writeable]),
      stream,
    ]
    peripheral.add(service)
  }

  private var isPublished = false

  private func advertise() { manager.startAdvertising([CBAdvertisementDataServiceUUIDsKey: [Explored.service]]) }

  func peripheralManager(_ peripheral: CBPeripheralManager, didAdd service: CBService, error: (any Error)?) {
    if let error { violations.append("\(name) could not publish: \(error)") }
    advertise()
  }

  private func tick() {
    queue.asyncAfter(deadline: .now() + .milliseconds(300)) { [weak self] in
      guard let self else { return }
      // A number that finds no room is not used.
      let value = withUnsafeBytes(of: (sent + 1).littleEndian) { Data($0) }
      if manager.state == .poweredOn, manager.updateValue(value, for: stream, onSubscribedCentrals: nil) { sent += 1 }
      tick()
    }
  }

  func peripheralManager(_ peripheral: CBPeripheralManager, didReceiveWrite requests: [CBATTRequest]) {
    for request in requests {
      guard let value = request.value, value.count == 5 else {
        violations.append("\(name) got a write that nobody made")
        continue
      }
      let (phone, serial) = (value[value.startIndex], Explored.serial(value))
      if request.characteristic.uuid == Explored.log {
        applied[phone, default: []].append(serial)
      } else {
        commands[phone, default: []].append(serial)
      }
    }
    if let first = requests.first, first.characteristic.uuid == Explored.log {
      peripheral.respond(to: first, withResult: .success)
    }
  }

  func peripheralManager(
    _ peripheral: CBPeripheralManager, central: CBCentral, didSubscribeTo characteristic: CBCharacteristic
  ) {
    if !subscribers.insert(central.identifier).inserted { violations.append("\(name): subscribed twice") }
  }

  func peripheralManager(
    _ peripheral: CBPeripheralManager, central: CBCentral, didUnsubscribeFrom characteristic: CBCharacteristic
  ) {
    if subscribers.remove(central.identifier) == nil { violations.append("\(name): unsubscribed without being") }
  }
}

/// Connects all sensors that it hears of, and keeps books of what it has asked each. Everything happens on its queue, or
/// while nothing else runs.
final class ExploredPhone: NSObject, CBCentralManagerDelegate, CBPeripheralDelegate, @unchecked Sendable {
  /// What is known of one sensor.
  private struct Book {
    var peripheral: CBPeripheral
    var characteristics: [CBUUID: CBCharacteristic] = [:]
    /// Writes that were sent on this connection and are not answered.
    var unanswered: [UInt32] = []
    var lastNumber: UInt32 = 0
  }

  let number: Int
  let queue: DispatchQueue
  private(set) var manager: CBCentralManager!
  private var books: [UUID: Book] = [:]
  private(set) var violations: [String] = []
  /// Writes that were answered without an error, and with the error of a rule, by sensor.
  private(set) var confirmed: [UUID: [UInt32]] = [:]
  private(set) var refused: [UUID: [UInt32]] = [:]
  private(set) var commandsSent: [UUID: [UInt32]] = [:]
  private(set) var numbers: [UUID: [UInt32]] = [:]
  private var serial: UInt32 = 0

  init(_ number: Int) {
    self.number = number
    queue = DispatchQueue(label: "phone \(number)")
    super.init()
    manager = CBCentralManager(delegate: self, queue: queue)
  }

  var sensors: [UUID] { books.keys.sorted { $0.uuidString < $1.uuidString } }
  var readyCount: Int { books.values.count { $0.characteristics[Explored.stream]?.isNotifying == true } }
  var unansweredCount: Int { books.values.reduce(0) { $0 + $1.unanswered.count } }

  private func violation(_ text: String) { violations.append("phone \(number): \(text)") }

  // MARK: - Asking

  func write(to index: Int) {
    queue.async { [self] in
      guard let (id, book) = book(index), let log = book.characteristics[Explored.log] else { return }
      serial += 1
      books[id]?.unanswered.append(serial)
      book.peripheral.writeValue(Explored.value(number, serial), for: log, type: .withResponse)
    }
  }

  func sendCommands(_ count: Int, to index: Int) {
    queue.async { [self] in
      guard let (id, book) = book(index), let commands = book.characteristics[Explored.commands] else { return }
      for _ in 0..<count where book.peripheral.canSendWriteWithoutResponse {
        serial += 1
        commandsSent[id, default: []].append(serial)
        book.peripheral.writeValue(Explored.value(number, serial), for: commands, type: .withoutResponse)
      }
    }
  }

  /// Cancels; it is connected again when that is answered.
  func cancel(_ index: Int) {
    queue.async { [self] in
      if manager.state == .poweredOn, let (_, book) = book(index), book.peripheral.state == .connected {
        manager.cancelPeripheralConnection(book.peripheral)
      }
    }
  }

  private func book(_ index: Int) -> (UUID, Book)? {
    let ids = sensors
    guard !ids.isEmpty, let book = books[ids[index % ids.count]], book.peripheral.state == .connected else {
      return nil
    }
    return (ids[index % ids.count], book)
  }

  // MARK: - Being told

  func centralManagerDidUpdateState(_ central: CBCentralManager) {
    for id in books.keys { forgetLink(id) }
    if central.state.rawValue < CBManagerState.poweredOff.rawValue { books = [:] }
    guard central.state == .poweredOn else { return }
    central.scanForPeripherals(withServices: [Explored.service])
    for id in sensors { if let book = books[id] { central.connect(book.peripheral) } }
  }

  private func forgetLink(_ id: UUID) {
    books[id]?.characteristics = [:]
    books[id]?.unanswered = []
  }

  func centralManager(
    _ central: CBCentralManager, didDiscover peripheral: CBPeripheral, advertisementData: [String: Any],
    rssi RSSI: NSNumber
  ) {
    guard books[peripheral.identifier] == nil else { return }
    books[peripheral.identifier] = Book(peripheral: peripheral, lastNumber: numbers[peripheral.identifier]?.last ?? 0)
    peripheral.delegate = self
    central.connect(peripheral)
  }

  func centralManager(_ central: CBCentralManager, didConnect peripheral: CBPeripheral) {
    peripheral.discoverServices([Explored.service])
  }

  func centralManager(_ central: CBCentralManager, didFailToConnect peripheral: CBPeripheral, error: (any Error)?) {
    central.connect(peripheral)
  }

  func centralManager(
    _ central: CBCentralManager, didDisconnectPeripheral peripheral: CBPeripheral, error: (any Error)?
  ) {
    forgetLink(peripheral.identifier)
    central.connect(peripheral)
  }

  func peripheral(_ peripheral: CBPeripheral, didDiscoverServices error: (any Error)?) {
    for service in peripheral.services ?? [] { peripheral.discoverCharacteristics(nil, for: service) }
  }

  func peripheral(_ peripheral: CBPeripheral, didModifyServices invalidatedServices: [CBService]) {
    books[peripheral.identifier]?.characteristics = [:]
    peripheral.discoverServices([Explored.service])
  }

  func peripheral(
    _ peripheral: CBPeripheral, didDiscoverCharacteristicsFor service: CBService, error: (any Error)?
  ) {
    for characteristic in service.characteristics ?? [] {
      books[peripheral.identifier]?.characteristics[characteristic.uuid] = characteristic
      if characteristic.uuid == Explored.stream { peripheral.setNotifyValue(true, for: characteristic) }
    }
  }

  func peripheral(_ peripheral: CBPeripheral, didWriteValueFor characteristic: CBCharacteristic, error: (any Error)?) {
    let id = peripheral.identifier
    guard let serial = books[id]?.unanswered.first else {
      return violation("an answer to no write: \(String(describing: error))")
    }
    books[id]?.unanswered.removeFirst()
    if error == nil {
      confirmed[id, default: []].append(serial)
    } else if (error as? CBATTError)?.code == .insufficientResources {
      refused[id, default: []].append(serial)
    }
  }

  func peripheral(_ peripheral: CBPeripheral, didUpdateValueFor characteristic: CBCharacteristic, error: (any Error)?) {
    let id = peripheral.identifier
    guard let value = characteristic.value, value.count == 4 else { return violation("a notification of no number") }
    let number = value.reversed().reduce(UInt32(0)) { $0 << 8 | UInt32($1) }
    if number <= books[id]?.lastNumber ?? 0 {
      violation("number \(number) after \(books[id]?.lastNumber ?? 0) of \(id)")
    }
    books[id]?.lastNumber = number
    numbers[id, default: []].append(number)
  }
}
