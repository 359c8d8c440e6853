// SPDX-License-Identifier: Apache-2.0

import BLECore
import Synchronization

@testable import BLESystem
@testable import CoreBluetooth

/// A system in the place of the real one: keeps what it was asked, and says what a test has it say.
final class FakeLink: SystemLink {
  private struct State {
    var requests: [SystemRequest] = []
    var isClosed = false
    var spec: String?
  }

  let replica = SystemReplica { _ in nil }
  private let state = Mutex(State())
  private let handler: SystemEventHandler

  init(spec: String?, handler: @escaping SystemEventHandler) {
    self.handler = handler
    state.withLock { $0.spec = spec }
  }

  func expectAnswer() {}
  func send(_ request: SystemRequest) { state.withLock { $0.requests.append(request) } }
  func close() { state.withLock { $0.isClosed = true } }

  var isClosed: Bool { state.withLock { $0.isClosed } }
  var spec: String? { state.withLock { $0.spec } }
  func emit(_ events: SystemEvent...) { handler(events) }

  /// What was asked since the last call.
  func takeRequests() -> [SystemRequest] {
    state.withLock { state in
      defer { state.requests = [] }
      return state.requests
    }
  }
}

/// Collects lines from any thread.
final class Lines: Sendable {
  private let lines = Mutex<[String]>([])
  func add(_ line: String) { lines.withLock { $0.append(line) } }
  /// The lines since the last call.
  func take() -> [String] {
    lines.withLock { lines in
      defer { lines = [] }
      return lines
    }
  }
}

/// Runs `body` with managers on fake links; returns the last link made.
@discardableResult
func onFakeLink(_ body: () -> Void) -> FakeLink {
  let made = Mutex<FakeLink?>(nil)
  Adapter.$open.withValue({ spec, handler in
    let link = FakeLink(spec: spec, handler: handler)
    made.withLock { $0 = link }
    return link
  }) { body() }
  return made.withLock { $0 } ?? FakeLink(spec: nil) { _ in }
}

/// The lines that `body` has shown whatever the log's level.
func diagnostics(_ body: () -> Void) -> [String] {
  let lines = Lines()
  Diagnostics.$line.withValue({ lines.add($0) }) { body() }
  return lines.take()
}

/// Writes down what a delegate is told, and what was visible then. Touched on the manager's queue alone.
class Recorder: NSObject, CBPeripheralDelegate, @unchecked Sendable {
  let lines = Lines()
  var peripherals: [CBPeripheral] = []
  var advertisements: [[String: Any]] = []
  var errors: [any Error] = []
  var onEvent: (() -> Void)?

  func note(_ text: String, _ error: (any Error)? = nil) {
    if let error { errors.append(error) }
    lines.add(text + (error.map { " error \(($0 as NSError).domain) \(($0 as NSError).code)" } ?? ""))
    onEvent?()
  }

  func centralManagerDidUpdateState(_ central: CBCentralManager) { note("state \(central.state)") }
  func centralManager(
    _ central: CBCentralManager, didDiscover peripheral: CBPeripheral, advertisementData: [String: Any],
    rssi RSSI: NSNumber
  ) {
    peripherals.append(peripheral)
    advertisements.append(advertisementData)
    note("discovered \(peripheral.name ?? "-") \(RSSI)")
  }
  func centralManager(_ central: CBCentralManager, didConnect peripheral: CBPeripheral) {
    note("connected \(peripheral.state)")
  }
  func centralManager(_ central: CBCentralManager, didFailToConnect peripheral: CBPeripheral, error: (any Error)?) {
    note("failed \(peripheral.state)", error)
  }
  func centralManager(
    _ central: CBCentralManager, connectionEventDidOccur event: CBConnectionEvent, for peripheral: CBPeripheral
  ) { note("\(event)") }

  func peripheralDidUpdateName(_ peripheral: CBPeripheral) { note("name \(peripheral.name ?? "-")") }
  func peripheral(_ peripheral: CBPeripheral, didReadRSSI RSSI: NSNumber, error: (any Error)?) {
    note("rssi \(RSSI)", error)
  }
  func peripheral(_ peripheral: CBPeripheral, didModifyServices invalidatedServices: [CBService]) {
    note("modified \(invalidatedServices.map(\.uuid.uuidString))")
  }
  func peripheral(_ peripheral: CBPeripheral, didDiscoverServices error: (any Error)?) {
    note("services \(peripheral.services?.map(\.uuid.uuidString) ?? [])", error)
  }
  func peripheral(
    _ peripheral: CBPeripheral, didDiscoverIncludedServicesFor service: CBService, error: (any Error)?
  ) { note("included \(service.includedServices?.map(\.uuid.uuidString) ?? [])", error) }
  func peripheral(
    _ peripheral: CBPeripheral, didDiscoverCharacteristicsFor service: CBService, error: (any Error)?
  ) { note("characteristics \(service.characteristics?.map(\.uuid.uuidString) ?? [])", error) }
  func peripheral(
    _ peripheral: CBPeripheral, didDiscoverDescriptorsFor characteristic: CBCharacteristic, error: (any Error)?
  ) { note("descriptors \(characteristic.descriptors?.map(\.uuid.uuidString) ?? [])", error) }
  func peripheral(
    _ peripheral: CBPeripheral, didUpdateValueFor characteristic: CBCharacteristic, error: (any Error)?
  ) { note("value \(characteristic.uuid.uuidString) \(characteristic.value.map { [UInt8]($0) } ?? [])", error) }
  func peripheral(_ peripheral: CBPeripheral, didUpdateValueFor descriptor: CBDescriptor, error: (any Error)?) {
    note("descriptor \(descriptor.uuid.uuidString)", error)
  }
  func peripheral(
    _ peripheral: CBPeripheral, didWriteValueFor characteristic: CBCharacteristic, error: (any Error)?
  ) { note("wrote \(characteristic.uuid.uuidString)", error) }
  func peripheral(_ peripheral: CBPeripheral, didWriteValueFor descriptor: CBDescriptor, error: (any Error)?) {
    note("wrote \(descriptor.uuid.uuidString)", error)
  }
  func peripheral(
    _ peripheral: CBPeripheral, didUpdateNotificationStateFor characteristic: CBCharacteristic, error: (any Error)?
  ) { note("notifying \(characteristic.isNotifying)", error) }
  func peripheralIsReady(toSendWriteWithoutResponse peripheral: CBPeripheral) { note("ready") }
  func peripheral(_ peripheral: CBPeripheral, didOpen channel: CBL2CAPChannel?, error: (any Error)?) {
    note("channel \(channel == nil ? "none" : "some")", error)
  }
}

/// Has the variant of didDisconnect of three arguments.
final class ThreeRecorder: Recorder, CBCentralManagerDelegate, @unchecked Sendable {
  func centralManager(
    _ central: CBCentralManager, didDisconnectPeripheral peripheral: CBPeripheral, error: (any Error)?
  ) { note("disconnected \(peripheral.state)", error) }
}

/// A central manager on a fake link, with a peer to work on.
final class CentralWorld {
  static let peer = PeerIdentifier(high: 0x1111_2222_3333_4444, low: 0x5555_6666_7777_8888)
  static let info = PeerInfo(
    identifier: peer, name: "Sensor", address: DeviceAddress(BDAddress(0x02CB_0000_0001), type: .publicDevice))

  let queue = DispatchQueue(label: "test")
  let recorder: any Recorder & CBCentralManagerDelegate
  private(set) var manager: CBCentralManager
  let link: FakeLink
  private var epoch: UInt32 = 0

  init(_ recorder: any Recorder & CBCentralManagerDelegate = ThreeRecorder(), poweredOn: Bool = true) {
    self.recorder = recorder
    let queue = queue
    let holder = Mutex<CBCentralManager?>(nil)
    link = onFakeLink {
      let made = CBCentralManager(delegate: recorder, queue: queue)
      holder.withLock { $0 = made }
    }
    manager = holder.withLock { $0 } ?? CBCentralManager()
    if poweredOn {
      link.emit(.stateChanged(.poweredOn))
      _ = calls()
    }
  }

  /// What the delegate was told since the last call.
  func calls() -> [String] {
    queue.settle()
    return recorder.lines.take()
  }

  /// The peer, as found by scanning.
  func found(_ info: PeerInfo = CentralWorld.info) -> CBPeripheral {
    manager.scanForPeripherals(withServices: nil)
    link.emit(.discovered(Discovery(peer: info, isConnectable: true, rssi: -40)))
    queue.settle()
    manager.stopScan()
    _ = link.takeRequests()
    _ = recorder.lines.take()
    let peripheral = recorder.peripherals.removeLast()
    recorder.peripherals = []
    peripheral.delegate = recorder
    return peripheral
  }

  var reference: LinkReference { LinkReference(peer: Self.peer, epoch: epoch) }

  func connect(_ peripheral: CBPeripheral, credits: Int = 20, options: [String: Any]? = nil) {
    manager.connect(peripheral, options: options)
    epoch += 1
    link.emit(.connected(reference, maximumWriteLength: 182, writeCredits: credits))
    queue.settle()
    _ = link.takeRequests()
    _ = recorder.lines.take()
  }

  func connected(credits: Int = 20) -> CBPeripheral {
    let peripheral = found()
    connect(peripheral, credits: credits)
    return peripheral
  }

  /// Answers the one request that is waiting.
  func answer(_ make: (RequestToken, LinkReference) -> SystemEvent) {
    guard let token = link.takeRequests().compactMap(\.token).last else { return }
    link.emit(make(token, reference))
  }

  func discoverServices(_ peripheral: CBPeripheral, _ records: ServiceRecord..., filter: [CBUUID]? = nil) {
    peripheral.discoverServices(filter)
    answer { .servicesDiscovered($0, $1, .success(records)) }
    queue.settle()
  }

  func discoverCharacteristics(_ peripheral: CBPeripheral, _ service: CBService, _ records: CharacteristicRecord...) {
    peripheral.discoverCharacteristics(nil, for: service)
    answer { .characteristicsDiscovered($0, $1, .success(records)) }
    queue.settle()
  }

  /// A connected peer with one service and one characteristic of these properties.
  func characteristic(_ properties: CBCharacteristicProperties, credits: Int = 20) -> (CBPeripheral, CBCharacteristic)?
  {
    let peripheral = connected(credits: credits)
    discoverServices(peripheral, .heartRate)
    guard let service = peripheral.services?.first else { return nil }
    discoverCharacteristics(peripheral, service, .measurement(properties))
    _ = calls()
    return service.characteristics?.first.map { (peripheral, $0) }
  }
}

extension ServiceRecord {
  static let heartRate = ServiceRecord(handles: 10...20, uuid: 0x180D, isPrimary: true)
  static let battery = ServiceRecord(handles: 30...40, uuid: 0x180F, isPrimary: true)
}

extension CharacteristicRecord {
  static func measurement(_ properties: CBCharacteristicProperties) -> CharacteristicRecord {
    CharacteristicRecord(
      declarationHandle: 11, valueHandle: 12, endHandle: 14, properties: UInt8(properties.rawValue), uuid: 0x2A37)
  }
}

extension SystemRequest {
  var token: RequestToken? {
    switch self {
    case .readRSSI(let token, _), .discoverServices(let token, _, _), .discoverIncludedServices(let token, _, _, _),
      .discoverCharacteristics(let token, _, _, _), .discoverDescriptors(let token, _, _), .readValue(let token, _, _),
      .writeValue(let token, _, _, _), .setNotify(let token, _, _, _), .addService(let token, _),
      .startAdvertising(let token, _, _):
      token
    default: nil
    }
  }
}

extension DispatchQueue {
  /// Waits until what has been posted is delivered: what comes while a block delivers goes with a block after it, and
  /// an answer of the manager's own with one more.
  func settle() {
    for _ in 0..<4 { sync {} }
  }
}
