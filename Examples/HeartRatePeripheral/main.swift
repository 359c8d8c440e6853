// SPDX-License-Identifier: Apache-2.0
//
// A heart-rate sensor: publishes Heart Rate and Battery, advertises them, and sends a measurement each second to
// whoever has subscribed. Ends on SIGTERM or SIGINT.
//
//   HeartRatePeripheral [NAME]

import CoreBluetooth

func say(_ text: String) { FileHandle.standardOutput.write(Data((text + "\n").utf8)) }

final class HeartRatePeripheral: NSObject {
  private let measurement = CBMutableCharacteristic(
    type: CBUUID(string: "2A37"), properties: .notify, value: nil, permissions: [])
  private let sensorLocation = CBMutableCharacteristic(
    type: CBUUID(string: "2A38"), properties: .read, value: Data([1]), permissions: .readable)
  private let controlPoint = CBMutableCharacteristic(
    type: CBUUID(string: "2A39"), properties: .write, value: nil, permissions: .writeable)
  private let batteryLevel = CBMutableCharacteristic(
    type: CBUUID(string: "2A19"), properties: [.read, .notify], value: nil, permissions: .readable)

  private let name: String
  private var manager: CBPeripheralManager!
  private var timer: (any DispatchSourceTimer)?
  private var beat = 0
  private var battery: UInt8 = 100
  private var unsent: Data?

  init(name: String) {
    self.name = name
    super.init()
    manager = CBPeripheralManager(delegate: self, queue: nil)
  }

  private func publish() {
    let heartRate = CBMutableService(type: CBUUID(string: "180D"), primary: true)
    heartRate.characteristics = [measurement, sensorLocation, controlPoint]
    let power = CBMutableService(type: CBUUID(string: "180F"), primary: true)
    power.characteristics = [batteryLevel]
    manager.removeAllServices()
    manager.add(heartRate)
    manager.add(power)
  }

  private func startMeasuring() {
    guard timer == nil else { return }
    let timer = DispatchSource.makeTimerSource(queue: .main)
    timer.schedule(deadline: .now() + 1, repeating: 1)
    timer.setEventHandler { [weak self] in self?.measure() }
    timer.resume()
    self.timer = timer
  }

  private func measure() {
    guard measurement.subscribedCentrals?.isEmpty == false else { return }
    beat += 1
    send(Data([0, UInt8(62 + beat * 7 % 23)]))
  }

  private func send(_ value: Data) {
    if manager.updateValue(value, for: measurement, onSubscribedCentrals: nil) {
      unsent = nil
      say("sent \(value[1]) bpm")
    } else {
      unsent = value
      say("no room for \(value[1]) bpm, waiting")
    }
  }

  func end() {
    say("ending")
    if manager.state == .poweredOn { manager.stopAdvertising() }
    exit(0)
  }
}

extension HeartRatePeripheral: CBPeripheralManagerDelegate {
  func peripheralManagerDidUpdateState(_ peripheral: CBPeripheralManager) {
    switch peripheral.state {
    case .poweredOn:
      say("Bluetooth is on, publishing services")
      publish()
    case .unsupported, .unauthorized:
      say("Bluetooth cannot be used; name an adapter with COREBLUETOOTH_ADAPTER")
      exit(3)
    case .unknown, .resetting, .poweredOff: say("Bluetooth is off")
    @unknown default: break
    }
  }

  func peripheralManager(_ peripheral: CBPeripheralManager, didAdd service: CBService, error: (any Error)?) {
    say(error.map { "could not publish \(service.uuid): \($0.localizedDescription)" } ?? "published \(service.uuid)")
    guard error == nil, service.uuid == CBUUID(string: "180F") else { return }
    peripheral.startAdvertising([
      CBAdvertisementDataLocalNameKey: name,
      CBAdvertisementDataServiceUUIDsKey: [CBUUID(string: "180D"), CBUUID(string: "180F")],
    ])
  }

  func peripheralManagerDidStartAdvertising(_ peripheral: CBPeripheralManager, error: (any Error)?) {
    say(error.map { "could not advertise: \($0.localizedDescription)" } ?? "advertising as \(name)")
    startMeasuring()
  }

  func peripheralManager(
    _ peripheral: CBPeripheralManager, central: CBCentral, didSubscribeTo characteristic: CBCharacteristic
  ) {
    say("a central subscribed to \(characteristic.uuid), up to \(central.maximumUpdateValueLength) octets each")
  }

  func peripheralManager(
    _ peripheral: CBPeripheralManager, central: CBCentral, didUnsubscribeFrom characteristic: CBCharacteristic
  ) {
    say("a central is no longer subscribed to \(characteristic.uuid)")
  }

  func peripheralManager(_ peripheral: CBPeripheralManager, didReceiveRead request: CBATTRequest) {
    guard request.characteristic == batteryLevel else {
      return peripheral.respond(to: request, withResult: .readNotPermitted)
    }
    let value = Data([battery])
    guard request.offset <= value.count else { return peripheral.respond(to: request, withResult: .invalidOffset) }
    request.value = value.dropFirst(request.offset)
    say("battery was read: \(battery) %")
    battery = battery > 1 ? battery - 1 : 100
    peripheral.respond(to: request, withResult: .success)
  }

  func peripheralManager(_ peripheral: CBPeripheralManager, didReceiveWrite requests: [CBATTRequest]) {
    for request in requests {
      // 1 resets the energy expended; the profile gives other commands the error 0x80.
      guard request.characteristic == controlPoint, request.value == Data([1]) else {
        say("an unknown command was refused")
        return peripheral.respond(to: request, withResult: CBATTError.Code(rawValue: 0x80) ?? .unlikelyError)
      }
    }
    say("energy expended was reset")
    if let first = requests.first { peripheral.respond(to: first, withResult: .success) }
  }

  func peripheralManagerIsReady(toUpdateSubscribers peripheral: CBPeripheralManager) {
    if let unsent { send(unsent) }
  }
}

/// Runs `action` on the main queue when the signal comes.
func onSignal(_ number: Int32, _ action: @escaping @Sendable () -> Void) -> any DispatchSourceSignal {
  signal(number, SIG_IGN)
  let source = DispatchSource.makeSignalSource(signal: number, queue: .main)
  source.setEventHandler(handler: action)
  source.resume()
  return source
}

let sensor = HeartRatePeripheral(name: CommandLine.arguments.dropFirst().first ?? "Heart Rate")
let signals = [SIGTERM, SIGINT].map { number in onSignal(number) { MainActor.assumeIsolated { sensor.end() } } }
dispatchMain()
