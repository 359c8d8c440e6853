// SPDX-License-Identifier: Apache-2.0

import CoreBluetooth

/// An app that knows nothing of tests: it finds a heart-rate sensor, follows its measurements, and connects again by
/// itself when the sensor has gone, or Bluetooth was off.
@MainActor final class HeartRateApp: NSObject {
  static let heartRate = CBUUID(string: "180D")
  static let measurement = CBUUID(string: "2A37")
  static let controlPoint = CBUUID(string: "2A39")

  private var manager: CBCentralManager!
  private(set) var sensor: CBPeripheral?
  private(set) var characteristics: [CBUUID: CBCharacteristic] = [:]
  private(set) var beats: [Int] = []
  private(set) var connections = 0
  private(set) var losses = 0
  private(set) var reads: [Result<Data, any Error>] = []
  private(set) var writes: [(any Error)?] = []
  private(set) var modifications = 0
  private(set) var states: [CBManagerState] = []

  var isConnected: Bool { sensor?.state == .connected }
  var isSubscribed: Bool { characteristics[Self.measurement]?.isNotifying == true }

  override init() {
    super.init()
    manager = CBCentralManager(delegate: self, queue: nil)
  }

  private func connect(_ peripheral: CBPeripheral) {
    manager.connect(peripheral, options: [CBConnectPeripheralOptionEnableAutoReconnect: true])
  }
}

extension HeartRateApp: @MainActor CBCentralManagerDelegate {
  func centralManagerDidUpdateState(_ central: CBCentralManager) {
    states.append(central.state)
    if central.state.rawValue < CBManagerState.poweredOff.rawValue { sensor = nil }
    guard central.state == .poweredOn else { return characteristics = [:] }
    if let sensor { connect(sensor) } else { central.scanForPeripherals(withServices: [Self.heartRate]) }
  }

  func centralManager(
    _ central: CBCentralManager, didDiscover peripheral: CBPeripheral, advertisementData: [String: Any],
    rssi RSSI: NSNumber
  ) {
    guard sensor == nil else { return }
    sensor = peripheral
    peripheral.delegate = self
    central.stopScan()
    connect(peripheral)
  }

  func centralManager(_ central: CBCentralManager, didConnect peripheral: CBPeripheral) {
    connections += 1
    peripheral.discoverServices([Self.heartRate])
  }

  func centralManager(
    _ central: CBCentralManager, didDisconnectPeripheral peripheral: CBPeripheral, timestamp: CFAbsoluteTime,
    isReconnecting: Bool, error: (any Error)?
  ) {
    losses += 1
    characteristics = [:]
    if !isReconnecting { connect(peripheral) }
  }
}

extension HeartRateApp: @MainActor CBPeripheralDelegate {
  func peripheral(_ peripheral: CBPeripheral, didDiscoverServices error: (any Error)?) {
    for service in peripheral.services ?? [] { peripheral.discoverCharacteristics(nil, for: service) }
  }

  func peripheral(_ peripheral: CBPeripheral, didModifyServices invalidatedServices: [CBService]) {
    modifications += 1
    characteristics = [:]
    peripheral.discoverServices([Self.heartRate])
  }

  func peripheral(
    _ peripheral: CBPeripheral, didDiscoverCharacteristicsFor service: CBService, error: (any Error)?
  ) {
    for characteristic in service.characteristics ?? [] {
      characteristics[characteristic.uuid] = characteristic
      if characteristic.properties.contains(.notify) { peripheral.setNotifyValue(true, for: characteristic) }
    }
  }

  func peripheral(_ peripheral: CBPeripheral, didUpdateValueFor characteristic: CBCharacteristic, error: (any Error)?) {
    if characteristic.uuid == Self.measurement, let value = characteristic.value, value.count > 1 {
      beats.append(Int(value[1]))
    } else {
      reads.append(error.map { .failure($0) } ?? .success(characteristic.value ?? Data()))
    }
  }

  func peripheral(_ peripheral: CBPeripheral, didWriteValueFor characteristic: CBCharacteristic, error: (any Error)?) {
    writes.append(error)
  }
}
