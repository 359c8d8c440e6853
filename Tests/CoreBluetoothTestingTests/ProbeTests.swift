// SPDX-License-Identifier: Apache-2.0

import CoreBluetooth
import CoreBluetoothTesting
import Testing

/// A peripheral app with one service whose one value it notifies each second once somebody has subscribed.
final class TickerPeripheral: NSObject, CBPeripheralManagerDelegate, @unchecked Sendable {
  static let service = CBUUID(string: "FFF0")
  static let ticks = CBUUID(string: "FFF1")
  private let queue = DispatchQueue(label: "ticker")
  private var manager: CBPeripheralManager!
  private var count: UInt32 = 0
  let characteristic = CBMutableCharacteristic(
    type: ticks, properties: [.notify, .read, .write], value: nil, permissions: [.readable, .writeable])

  override init() {
    super.init()
    manager = CBPeripheralManager(delegate: self, queue: queue)
  }

  func peripheralManagerDidUpdateState(_ peripheral: CBPeripheralManager) {
    guard peripheral.state == .poweredOn else { return }
    let service = CBMutableService(type: Self.service, primary: true)
    service.characteristics = [characteristic]
    peripheral.add(service)
  }

  func peripheralManager(_ peripheral: CBPeripheralManager, didAdd service: CBService, error: (any Error)?) {
    peripheral.startAdvertising([CBAdvertisementDataServiceUUIDsKey: [Self.service]])
  }

  func peripheralManager(
    _ peripheral: CBPeripheralManager, central: CBCentral, didSubscribeTo characteristic: CBCharacteristic
  ) { tick() }

  private func tick() {
    queue.asyncAfter(deadline: .now() + 1) { [weak self] in
      guard let self else { return }
      count += 1
      let value = withUnsafeBytes(of: count.littleEndian) { Data($0) }
      manager.updateValue(value, for: characteristic, onSubscribedCentrals: nil)
      tick()
    }
  }
}

/// What was seen, with the time at which it was.
final class Trace: @unchecked Sendable {
  private let lock = NSLock()
  private var lines: [String] = []
  private let clock: @Sendable () -> Duration

  init(_ clock: @escaping @Sendable () -> Duration) { self.clock = clock }
  func add(_ line: String) { lock.withLock { lines.append("\(clock()) \(line)") } }
  var all: [String] { lock.withLock { lines } }
}

/// A central app on a private queue, which finds the ticker and listens.
final class TickerCentral: NSObject, CBCentralManagerDelegate, CBPeripheralDelegate {
  private var manager: CBCentralManager!
  private var peripheral: CBPeripheral?
  private let trace: Trace
  private(set) var values: [UInt32] = []
  var onValue: (UInt32) -> Void = { _ in }

  init(_ trace: Trace, queue: DispatchQueue?) {
    self.trace = trace
    super.init()
    manager = CBCentralManager(delegate: self, queue: queue)
  }

  func centralManagerDidUpdateState(_ central: CBCentralManager) {
    trace.add("state \(central.state.rawValue)")
    if central.state == .poweredOn { central.scanForPeripherals(withServices: [TickerPeripheral.service]) }
  }

  func centralManager(
    _ central: CBCentralManager, didDiscover peripheral: CBPeripheral, advertisementData: [String: Any],
    rssi RSSI: NSNumber
  ) {
    trace.add("discovered")
    guard self.peripheral == nil else { return }
    self.peripheral = peripheral
    peripheral.delegate = self
    central.stopScan()
    central.connect(peripheral)
  }

  func centralManager(_ central: CBCentralManager, didConnect peripheral: CBPeripheral) {
    trace.add("connected")
    peripheral.discoverServices(nil)
  }

  func peripheral(_ peripheral: CBPeripheral, didDiscoverServices error: (any Error)?) {
    for service in peripheral.services ?? [] { peripheral.discoverCharacteristics(nil, for: service) }
  }

  func peripheral(
    _ peripheral: CBPeripheral, didDiscoverCharacteristicsFor service: CBService, error: (any Error)?
  ) {
    for characteristic in service.characteristics ?? [] { peripheral.setNotifyValue(true, for: characteristic) }
  }

  func peripheral(_ peripheral: CBPeripheral, didUpdateValueFor characteristic: CBCharacteristic, error: (any Error)?) {
    let value = characteristic.value?.reversed().reduce(UInt32(0)) { $0 << 8 | UInt32($1) } ?? 0
    values.append(value)
    onValue(value)
    trace.add("value \(value)")
  }
}

@Suite struct ProbeTests {
  @Test(arguments: [true, false]) func delegate(isOnMain: Bool) async throws {
    var traces: [[String]] = []
    for _ in 0..<3 {
      let world = try await VirtualRadio(seed: 7)
      let trace = Trace { [weak world] in world?.now ?? .zero }
      let sensor = world.device("sensor").run { TickerPeripheral() }
      let app = world.device("phone").run { TickerCentral(trace, queue: isOnMain ? nil : DispatchQueue(label: "app")) }
      await world.advance(by: .seconds(600))
      #expect(world.now == .seconds(600))
      #expect(app.values.count >= 590)
      #expect(app.values == Array(1...UInt32(app.values.count)))
      traces.append(trace.all)
      withExtendedLifetime(sensor) {}
    }
    #expect(traces[0] == traces[1] && traces[1] == traces[2])
  }

  @Test func sleep() async throws {
    let world = try await VirtualRadio(seed: 7)
    let start = ContinuousClock.now
    try await Task.sleep(for: .seconds(60))
    #expect(world.now == .seconds(60))
    #expect(ContinuousClock.now - start == .seconds(60))
  }
}

/// Counts on an actor of its own.
private actor Counter {
  private var count = 0
  func next() -> Int {
    count += 1
    return count
  }
}

/// A central app whose work is in tasks: an async sequence of the delegate's values, an actor, the main actor, sleeps.
@MainActor final class TaskApp: NSObject {
  private let central: TickerCentral
  private let counter = Counter()
  private let trace: Trace
  private(set) var lines: [String] = []
  private(set) var isDone = false

  init(_ trace: Trace) {
    self.trace = trace
    central = TickerCentral(trace, queue: DispatchQueue(label: "tasks"))
    super.init()
    central.onValue = { [weak self] value in
      Task { await self?.handle(value) }
    }
    Task { await beat() }
    DispatchQueue.main.asyncAfter(deadline: .now() + 100) { [weak self] in
      self?.trace.add("a hundred seconds")
    }
  }

  private func beat() async {
    while !Task.isCancelled, lines.count < 1000 {
      try? await Task.sleep(for: .milliseconds(1500))
      trace.add("beat \(await counter.next())")
    }
  }

  private func handle(_ value: UInt32) async {
    let number = await counter.next()
    lines.append("\(value) is \(number)")
    trace.add("handled \(value) as \(number)")
    let results = await withTaskGroup(of: Int.self) { group in
      for step in 1...3 { group.addTask { [counter] in await counter.next() * step } }
      var sum = 0
      for await value in group { sum += value }
      return sum
    }
    trace.add("sum \(results)")
    if value % 10 == 0 {
      try? await Task.sleep(nanoseconds: 250_000_000)
      trace.add("slept after \(value)")
    }
  }
}

@Suite struct TaskProbeTests {
  @Test func tasks() async throws {
    var traces: [[String]] = []
    for _ in 0..<3 {
      let world = try await VirtualRadio(seed: 3)
      let trace = Trace { [weak world] in world?.now ?? .zero }
      let sensor = world.device("sensor").run { TickerPeripheral() }
      let app = await world.device("phone").run { await TaskApp(trace) }
      await world.advance(by: .seconds(300))
      #expect(world.now == .seconds(300))
      #expect(await app.lines.count >= 290)
      traces.append(trace.all)
      withExtendedLifetime(sensor) {}
    }
    for (index, line) in traces[0].enumerated() where traces[1].count <= index || traces[1][index] != line {
      Issue.record("\(index): \(line) or \(traces[1].count > index ? traces[1][index] : "nothing")")
      break
    }
    #expect(traces[0] == traces[1] && traces[1] == traces[2])
    #expect(traces[0].contains("100.0 seconds a hundred seconds"))
    #expect(traces[0].contains { $0.hasPrefix("1.5 seconds beat") })
  }
}
