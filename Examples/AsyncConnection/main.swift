// SPDX-License-Identifier: Apache-2.0
//
// A connection to one peripheral for async/await code, which outlives disconnects: each call that waits ends once,
// with its answer or with an error, also when the connection or Bluetooth goes away meanwhile.
//
//   AsyncConnection [SERVICE [ROUNDS]]    connects, reads all that is readable and disconnects, so many times

import CoreBluetooth

func say(_ text: String) { FileHandle.standardOutput.write(Data((text + "\n").utf8)) }

enum ConnectionError: Error { case bluetoothUnavailable, notConnected, busy, notFound }

/// Everything happens on `queue`, calls and callbacks alike.
final class AsyncConnection: NSObject, @unchecked Sendable {
  private let queue = DispatchQueue(label: "connection")
  private let service: CBUUID
  private var manager: CBCentralManager!
  private var peripheral: CBPeripheral?
  private var connecting: CheckedContinuation<Void, any Error>?
  private var disconnecting: [CheckedContinuation<Void, Never>] = []
  private var discovering: CheckedContinuation<[CBCharacteristic], any Error>?
  private var undiscovered = 0
  private var reading: [ObjectIdentifier: CheckedContinuation<Data, any Error>] = [:]

  init(service: CBUUID) {
    self.service = service
    super.init()
    manager = CBCentralManager(delegate: self, queue: queue)
  }

  /// Finds the first peripheral with the service, or the one found before, and connects it.
  func connect() async throws {
    try await withCheckedThrowingContinuation { waiting in
      queue.async { [self] in
        if peripheral?.state == .connected { return waiting.resume() }
        guard connecting == nil else { return waiting.resume(throwing: ConnectionError.busy) }
        connecting = waiting
        if manager.state != .unknown { proceed() }
      }
    }
  }

  /// Ends the connection; returns when it is over.
  func disconnect() async {
    await withCheckedContinuation { waiting in
      queue.async { [self] in
        guard let peripheral, peripheral.state != .disconnected, manager.state == .poweredOn else {
          return waiting.resume()
        }
        disconnecting.append(waiting)
        manager.cancelPeripheralConnection(peripheral)
      }
    }
  }

  /// All characteristics of the service.
  func characteristics() async throws -> [CBCharacteristic] {
    try await withCheckedThrowingContinuation { waiting in
      queue.async { [self] in
        guard let peripheral, peripheral.state == .connected else {
          return waiting.resume(throwing: ConnectionError.notConnected)
        }
        guard discovering == nil else { return waiting.resume(throwing: ConnectionError.busy) }
        discovering = waiting
        peripheral.discoverServices([service])
      }
    }
  }

  func read(_ characteristic: CBCharacteristic) async throws -> Data {
    try await withCheckedThrowingContinuation { waiting in
      queue.async { [self] in
        guard let peripheral, peripheral.state == .connected else {
          return waiting.resume(throwing: ConnectionError.notConnected)
        }
        let key = ObjectIdentifier(characteristic)
        guard reading[key] == nil else { return waiting.resume(throwing: ConnectionError.busy) }
        reading[key] = waiting
        peripheral.readValue(for: characteristic)
      }
    }
  }

  /// On the queue: takes the next step of a `connect()` that waits.
  private func proceed() {
    guard connecting != nil else { return }
    guard manager.state == .poweredOn else { return fail(ConnectionError.bluetoothUnavailable) }
    if let peripheral { manager.connect(peripheral) } else { manager.scanForPeripherals(withServices: [service]) }
  }

  /// On the queue: ends everything that waits. Each continuation is taken out before it is resumed.
  private func fail(_ error: any Error) {
    let connect = connecting
    let discovery = discovering
    let reads = reading
    let disconnects = disconnecting
    (connecting, discovering, reading, disconnecting, undiscovered) = (nil, nil, [:], [], 0)
    connect?.resume(throwing: error)
    discovery?.resume(throwing: error)
    for read in reads.values { read.resume(throwing: error) }
    for disconnect in disconnects { disconnect.resume() }
  }

  private func endDiscovery(_ result: Result<[CBCharacteristic], any Error>) {
    let waiting = discovering
    (discovering, undiscovered) = (nil, 0)
    waiting?.resume(with: result)
  }
}

extension AsyncConnection: CBCentralManagerDelegate {
  func centralManagerDidUpdateState(_ central: CBCentralManager) {
    if central.state == .poweredOn { return proceed() }
    if central.state.rawValue < CBManagerState.poweredOff.rawValue { peripheral = nil }  // Void from here on.
    fail(ConnectionError.bluetoothUnavailable)
  }

  func centralManager(
    _ central: CBCentralManager, didDiscover peripheral: CBPeripheral, advertisementData: [String: Any],
    rssi RSSI: NSNumber
  ) {
    guard self.peripheral == nil else { return }
    self.peripheral = peripheral
    peripheral.delegate = self
    central.stopScan()
    proceed()
  }

  func centralManager(_ central: CBCentralManager, didConnect peripheral: CBPeripheral) {
    let waiting = connecting
    connecting = nil
    waiting?.resume()
  }

  func centralManager(_ central: CBCentralManager, didFailToConnect peripheral: CBPeripheral, error: (any Error)?) {
    fail(error ?? ConnectionError.notConnected)
  }

  func centralManager(
    _ central: CBCentralManager, didDisconnectPeripheral peripheral: CBPeripheral, error: (any Error)?
  ) {
    fail(error ?? ConnectionError.notConnected)
  }
}

extension AsyncConnection: CBPeripheralDelegate {
  func peripheral(_ peripheral: CBPeripheral, didDiscoverServices error: (any Error)?) {
    let found = peripheral.services ?? []
    guard error == nil, !found.isEmpty else { return endDiscovery(.failure(error ?? ConnectionError.notFound)) }
    undiscovered = found.count
    for service in found { peripheral.discoverCharacteristics(nil, for: service) }
  }

  func peripheral(
    _ peripheral: CBPeripheral, didDiscoverCharacteristicsFor service: CBService, error: (any Error)?
  ) {
    if let error { return endDiscovery(.failure(error)) }
    undiscovered -= 1
    guard undiscovered == 0 else { return }
    endDiscovery(.success((peripheral.services ?? []).flatMap { $0.characteristics ?? [] }))
  }

  func peripheral(_ peripheral: CBPeripheral, didUpdateValueFor characteristic: CBCharacteristic, error: (any Error)?) {
    guard let waiting = reading.removeValue(forKey: ObjectIdentifier(characteristic)) else { return }
    if let error { waiting.resume(throwing: error) } else { waiting.resume(returning: characteristic.value ?? Data()) }
  }
}

let arguments = Array(CommandLine.arguments.dropFirst())
let connection = AsyncConnection(service: CBUUID(string: arguments.first ?? "180D"))
let rounds = arguments.dropFirst().first.flatMap { Int($0) } ?? 2
for round in stride(from: 1, through: rounds, by: 1) {
  do {
    try await connection.connect()
    say("round \(round): connected")
    for characteristic in try await connection.characteristics() where characteristic.properties.contains(.read) {
      let value = try await connection.read(characteristic)
      say("round \(round): \(characteristic.uuid) = \(value.map { String($0, radix: 16) }.joined(separator: " "))")
    }
    await connection.disconnect()
    say("round \(round): disconnected")
  } catch ConnectionError.bluetoothUnavailable {
    say("Bluetooth cannot be used; name an adapter with COREBLUETOOTH_ADAPTER")
    exit(3)
  } catch {
    say("round \(round): \(error)")
  }
}
