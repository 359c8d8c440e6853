// SPDX-License-Identifier: Apache-2.0
//
// One program, either role: as `peripheral` it publishes a text that can be read, written and followed; as `central`
// it finds such a peripheral, reads the text, writes a new one and waits to be told of it.
//
//   TwoRoles -role central|peripheral    or the setting `role` in the program's UserDefaults

import CoreBluetooth

func say(_ text: String) { FileHandle.standardOutput.write(Data((text + "\n").utf8)) }

let serviceUUID = CBUUID(string: "7A1D0001-53E0-4B8B-9C52-6B1F0B6C1D10")
let textUUID = CBUUID(string: "7A1D0002-53E0-4B8B-9C52-6B1F0B6C1D10")

final class Publisher: NSObject, CBPeripheralManagerDelegate {
  private var manager: CBPeripheralManager!
  private var text = Data("hello".utf8)
  private let characteristic = CBMutableCharacteristic(
    type: textUUID, properties: [.read, .write, .notify], value: nil, permissions: [.readable, .writeable])

  override init() {
    super.init()
    manager = CBPeripheralManager(delegate: self, queue: DispatchQueue(label: "publisher"))
  }

  func peripheralManagerDidUpdateState(_ peripheral: CBPeripheralManager) {
    say("peripheral: state \(peripheral.state)")
    if peripheral.state == .unsupported { exit(3) }
    guard peripheral.state == .poweredOn else { return }
    let service = CBMutableService(type: serviceUUID, primary: true)
    service.characteristics = [characteristic]
    peripheral.removeAllServices()
    peripheral.add(service)
  }

  func peripheralManager(_ peripheral: CBPeripheralManager, didAdd service: CBService, error: (any Error)?) {
    peripheral.startAdvertising([CBAdvertisementDataServiceUUIDsKey: [serviceUUID]])
  }

  func peripheralManagerDidStartAdvertising(_ peripheral: CBPeripheralManager, error: (any Error)?) {
    say(error.map { "peripheral: cannot advertise: \($0.localizedDescription)" } ?? "peripheral: advertising")
  }

  func peripheralManager(_ peripheral: CBPeripheralManager, didReceiveRead request: CBATTRequest) {
    guard request.offset <= text.count else { return peripheral.respond(to: request, withResult: .invalidOffset) }
    request.value = text.subdata(in: request.offset..<text.count)
    peripheral.respond(to: request, withResult: .success)
    say("peripheral: text was read")
  }

  func peripheralManager(_ peripheral: CBPeripheralManager, didReceiveWrite requests: [CBATTRequest]) {
    var new = text
    for request in requests {
      guard request.offset <= new.count else { return peripheral.respond(to: request, withResult: .invalidOffset) }
      new = new.prefix(request.offset) + (request.value ?? Data())
    }
    text = Data(new)
    say("peripheral: text is now \"\(String(decoding: text, as: UTF8.self))\"")
    if let first = requests.first { peripheral.respond(to: first, withResult: .success) }
    peripheral.updateValue(text, for: characteristic, onSubscribedCentrals: nil)
  }
}

final class Reader: NSObject, CBCentralManagerDelegate, CBPeripheralDelegate {
  private var manager: CBCentralManager!
  private var peer: CBPeripheral?
  private let answer = "written at \(Int(Date().timeIntervalSince1970))"

  override init() {
    super.init()
    manager = CBCentralManager(delegate: self, queue: DispatchQueue(label: "reader"))
  }

  func centralManagerDidUpdateState(_ central: CBCentralManager) {
    say("central: state \(central.state)")
    if central.state == .unsupported { exit(3) }
    if central.state == .poweredOn { central.scanForPeripherals(withServices: [serviceUUID]) }
  }

  func centralManager(
    _ central: CBCentralManager, didDiscover peripheral: CBPeripheral, advertisementData: [String: Any],
    rssi RSSI: NSNumber
  ) {
    say("central: found \(peripheral.identifier)")
    peer = peripheral
    peripheral.delegate = self
    central.stopScan()
    central.connect(peripheral)
  }

  func centralManager(_ central: CBCentralManager, didConnect peripheral: CBPeripheral) {
    peripheral.discoverServices([serviceUUID])
  }

  func centralManager(
    _ central: CBCentralManager, didDisconnectPeripheral peripheral: CBPeripheral, error: (any Error)?
  ) {
    say("central: disconnected")
    exit(error == nil ? 0 : 1)
  }

  func peripheral(_ peripheral: CBPeripheral, didDiscoverServices error: (any Error)?) {
    peripheral.services?.forEach { peripheral.discoverCharacteristics([textUUID], for: $0) }
  }

  func peripheral(
    _ peripheral: CBPeripheral, didDiscoverCharacteristicsFor service: CBService, error: (any Error)?
  ) {
    guard let text = service.characteristics?.first else { return }
    peripheral.readValue(for: text)
    peripheral.setNotifyValue(true, for: text)
  }

  func peripheral(
    _ peripheral: CBPeripheral, didUpdateNotificationStateFor characteristic: CBCharacteristic, error: (any Error)?
  ) {
    peripheral.writeValue(Data(answer.utf8), for: characteristic, type: .withResponse)
  }

  func peripheral(_ peripheral: CBPeripheral, didUpdateValueFor characteristic: CBCharacteristic, error: (any Error)?) {
    let text = String(decoding: characteristic.value ?? Data(), as: UTF8.self)
    say("central: text is \"\(text)\"")
    if text == answer { manager.cancelPeripheralConnection(peripheral) }
  }
}

let role: NSObject
switch UserDefaults.standard.string(forKey: "role") {
case "central": role = Reader()
case "peripheral": role = Publisher()
default:
  say("usage: TwoRoles -role central|peripheral")
  exit(2)
}
dispatchMain()
