// SPDX-License-Identifier: Apache-2.0
//
// Finds a heart-rate sensor, reads where it is worn and its battery, follows its measurements, tells it to reset its
// energy count, and connects again when the connection is lost.
//
//   HeartRateCentral [MEASUREMENTS]    ends after so many measurements; without a number it goes on

import CoreBluetooth

func say(_ text: String) { FileHandle.standardOutput.write(Data((text + "\n").utf8)) }

final class HeartRateCentral: NSObject {
  static let heartRate = CBUUID(string: "180D")
  static let measurement = CBUUID(string: "2A37")
  static let sensorLocation = CBUUID(string: "2A38")
  static let controlPoint = CBUUID(string: "2A39")
  static let battery = CBUUID(string: "180F")
  static let batteryLevel = CBUUID(string: "2A19")

  private var manager: CBCentralManager!
  private var sensor: CBPeripheral?
  private var remaining: Int?

  init(measurements: Int?) {
    remaining = measurements
    super.init()
    manager = CBCentralManager(delegate: self, queue: nil)
  }

  private func count(_ beats: Int) {
    say("heart rate \(beats) bpm")
    guard let left = remaining else { return }
    remaining = left - 1
    if left == 1, let sensor {
      say("enough, disconnecting")
      manager.cancelPeripheralConnection(sensor)
    }
  }
}

extension HeartRateCentral: CBCentralManagerDelegate {
  func centralManagerDidUpdateState(_ central: CBCentralManager) {
    switch central.state {
    case .poweredOn:
      say("Bluetooth is on, scanning for heart-rate sensors")
      central.scanForPeripherals(withServices: [Self.heartRate])
    case .unsupported, .unauthorized:
      say("Bluetooth cannot be used; name an adapter with COREBLUETOOTH_ADAPTER")
      exit(3)
    case .unknown, .resetting, .poweredOff:
      say("Bluetooth is off")
      sensor = nil
    @unknown default: break
    }
  }

  func centralManager(
    _ central: CBCentralManager, didDiscover peripheral: CBPeripheral, advertisementData: [String: Any],
    rssi RSSI: NSNumber
  ) {
    guard sensor == nil else { return }
    let name = advertisementData[CBAdvertisementDataLocalNameKey] as? String ?? peripheral.name ?? "a sensor"
    say("found \(name), RSSI \(RSSI) dBm, connecting")
    sensor = peripheral
    peripheral.delegate = self
    central.stopScan()
    central.connect(peripheral)
  }

  func centralManager(_ central: CBCentralManager, didConnect peripheral: CBPeripheral) {
    say("connected, discovering services")
    peripheral.discoverServices([Self.heartRate, Self.battery])
  }

  func centralManager(_ central: CBCentralManager, didFailToConnect peripheral: CBPeripheral, error: (any Error)?) {
    say("could not connect: \(error?.localizedDescription ?? "no reason given"), trying again")
    central.connect(peripheral)
  }

  func centralManager(
    _ central: CBCentralManager, didDisconnectPeripheral peripheral: CBPeripheral, error: (any Error)?
  ) {
    guard let error else {
      say("disconnected, done")
      exit(0)
    }
    say("connection lost: \(error.localizedDescription) Connecting again")
    central.connect(peripheral)  // Stays wanted until the sensor is back.
  }
}

extension HeartRateCentral: CBPeripheralDelegate {
  func peripheral(_ peripheral: CBPeripheral, didDiscoverServices error: (any Error)?) {
    for service in peripheral.services ?? [] {
      say("service \(service.uuid)")
      peripheral.discoverCharacteristics(nil, for: service)
    }
  }

  func peripheral(_ peripheral: CBPeripheral, didModifyServices invalidatedServices: [CBService]) {
    say("services have changed, discovering again")
    peripheral.discoverServices([Self.heartRate, Self.battery])
  }

  func peripheral(
    _ peripheral: CBPeripheral, didDiscoverCharacteristicsFor service: CBService, error: (any Error)?
  ) {
    for characteristic in service.characteristics ?? [] {
      say("characteristic \(characteristic.uuid)")
      switch characteristic.uuid {
      case Self.sensorLocation, Self.batteryLevel: peripheral.readValue(for: characteristic)
      case Self.measurement: peripheral.setNotifyValue(true, for: characteristic)
      case Self.controlPoint: peripheral.writeValue(Data([1]), for: characteristic, type: .withResponse)
      default: break
      }
    }
  }

  func peripheral(
    _ peripheral: CBPeripheral, didUpdateNotificationStateFor characteristic: CBCharacteristic, error: (any Error)?
  ) {
    say(error.map { "could not subscribe: \($0.localizedDescription)" } ?? "subscribed to \(characteristic.uuid)")
  }

  func peripheral(_ peripheral: CBPeripheral, didWriteValueFor characteristic: CBCharacteristic, error: (any Error)?) {
    say(error.map { "the sensor refused the write: \($0.localizedDescription)" } ?? "energy expended was reset")
  }

  func peripheral(_ peripheral: CBPeripheral, didUpdateValueFor characteristic: CBCharacteristic, error: (any Error)?) {
    guard error == nil, let value = characteristic.value, let first = value.first else {
      return say("no value of \(characteristic.uuid): \(error?.localizedDescription ?? "it is empty")")
    }
    switch characteristic.uuid {
    case Self.sensorLocation:
      let places = ["other", "chest", "wrist", "finger", "hand", "ear lobe", "foot"]
      say("worn on: \(places.indices.contains(Int(first)) ? places[Int(first)] : "an unknown place")")
    case Self.batteryLevel: say("battery \(first) %")
    case Self.measurement where first & 1 == 0 && value.count >= 2: count(Int(value[1]))
    case Self.measurement where value.count >= 3: count(Int(value[1]) | Int(value[2]) << 8)
    default: break
    }
  }
}

let central = HeartRateCentral(measurements: CommandLine.arguments.dropFirst().first.flatMap { Int($0) })
dispatchMain()
