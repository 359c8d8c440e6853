// SPDX-License-Identifier: Apache-2.0

import CoreBluetooth
import CoreBluetoothTesting
import Foundation
import Testing

/// An app in modern style: delegates feed a stream, one task follows it, others poll and write.
private actor Collector {
  private let listener: Listener
  private var task: Task<Void, Never>?
  private(set) var lines: [String] = []
  private var serial = 0

  init(_ number: Int) {
    listener = Listener(label: "collector \(number)")
  }

  func start() {
    task = Task { [weak self, events = listener.events] in
      for await event in events { await self?.handle(event) }
    }
    Task { [weak self] in
      while let self, !Task.isCancelled {
        try? await Task.sleep(for: .milliseconds(700))
        await poll()
      }
    }
  }

  private func handle(_ event: String) async {
    serial += 1
    let mark = await MainActor.run { event.hashOfOctets }
    lines.append("\(serial) \(event) \(mark)")
  }

  private func poll() {
    serial += 1
    listener.write(UInt8(truncatingIfNeeded: serial))
  }
}

extension String {
  /// FNV-1a: the same in each process.
  var hashOfOctets: UInt64 { utf8.reduce(0xCBF2_9CE4_8422_2325) { ($0 ^ UInt64($1)) &* 0x100_0000_01B3 } }
}

/// The delegate side of ``Collector``. Everything happens on its queue, or while nothing else runs.
private final class Listener: NSObject, CBCentralManagerDelegate, CBPeripheralDelegate, @unchecked Sendable {
  let events: AsyncStream<String>
  private let continuation: AsyncStream<String>.Continuation
  private let queue: DispatchQueue
  private var manager: CBCentralManager!
  private var peripheral: CBPeripheral?
  private var characteristic: CBCharacteristic?

  init(label: String) {
    (events, continuation) = AsyncStream.makeStream()
    queue = DispatchQueue(label: label)
    super.init()
    manager = CBCentralManager(delegate: self, queue: queue)
  }

  func write(_ value: UInt8) {
    queue.async { [self] in
      guard let peripheral, let characteristic, peripheral.state == .connected else { return }
      peripheral.writeValue(Data([value]), for: characteristic, type: .withResponse)
    }
  }

  func centralManagerDidUpdateState(_ central: CBCentralManager) {
    continuation.yield("state \(central.state.rawValue)")
    characteristic = nil
    if central.state != .poweredOn { peripheral = nil }
    if central.state == .poweredOn { central.scanForPeripherals(withServices: [TickerPeripheral.service]) }
  }

  func centralManager(
    _ central: CBCentralManager, didDiscover peripheral: CBPeripheral, advertisementData: [String: Any],
    rssi RSSI: NSNumber
  ) {
    guard self.peripheral == nil else { return }
    self.peripheral = peripheral
    peripheral.delegate = self
    central.stopScan()
    central.connect(peripheral)
  }

  func centralManager(_ central: CBCentralManager, didConnect peripheral: CBPeripheral) {
    continuation.yield("connected \(peripheral.identifier)")
    peripheral.discoverServices([TickerPeripheral.service])
  }

  func centralManager(
    _ central: CBCentralManager, didDisconnectPeripheral peripheral: CBPeripheral, error: (any Error)?
  ) {
    continuation.yield("lost \(peripheral.identifier)")
    characteristic = nil
    central.connect(peripheral)
  }

  func peripheral(_ peripheral: CBPeripheral, didDiscoverServices error: (any Error)?) {
    for service in peripheral.services ?? [] { peripheral.discoverCharacteristics(nil, for: service) }
  }

  func peripheral(_ peripheral: CBPeripheral, didModifyServices invalidatedServices: [CBService]) {
    characteristic = nil
    peripheral.discoverServices([TickerPeripheral.service])
  }

  func peripheral(
    _ peripheral: CBPeripheral, didDiscoverCharacteristicsFor service: CBService, error: (any Error)?
  ) {
    characteristic = service.characteristics?.first
    if let characteristic { peripheral.setNotifyValue(true, for: characteristic) }
  }

  func peripheral(_ peripheral: CBPeripheral, didUpdateValueFor characteristic: CBCharacteristic, error: (any Error)?) {
    continuation.yield("value \(characteristic.value.map { Array($0) } ?? [])")
  }

  func peripheral(_ peripheral: CBPeripheral, didWriteValueFor characteristic: CBCharacteristic, error: (any Error)?) {
    continuation.yield("written \(error.map { "\(($0 as NSError).code)" } ?? "")")
  }
}

/// What a run of a busy world came to.
struct Outcome: CustomStringConvertible {
  var hash: UInt64 = 0xCBF2_9CE4_8422_2325
  var packets = 0
  var faults = 0
  var values = 0

  mutating func add(_ octets: some Sequence<UInt8>) {
    for octet in octets { hash = (hash ^ UInt64(octet)) &* 0x100_0000_01B3 }
  }

  var description: String { "hash \(String(hash, radix: 16)) packets \(packets) faults \(faults) values \(values)" }
}

/// Twenty devices, ten apps that use tasks, and something going wrong all the time.
func busyWorld(seed: UInt64, faults: Int = 110) async throws -> Outcome {
  let world = try await VirtualRadio(seed: seed)
  var phones: [VirtualDevice] = []
  var sensors: [VirtualDevice] = []
  var collectors: [Collector] = []
  for number in 0..<10 {
    sensors.append(world.place("sensor \(number)") { TickerPeripheral() })
    let phone = world.device("phone \(number)")
    let collector = phone.run { Collector(number) }
    await collector.start()
    phones.append(phone)
    collectors.append(collector)
  }
  var random = seed
  func next(_ limit: Int) -> Int {
    random = random &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
    return Int(truncatingIfNeeded: (random >> 33) % UInt64(limit))
  }
  world.losePackets(0.02)
  var off: [VirtualDevice] = []
  for _ in 0..<faults {
    // Whoever was switched off comes back some faults later.
    if off.count > 2 { off.removeFirst().bluetooth = .on }
    try await Task.sleep(for: .milliseconds(100 + next(300)))
    let (phone, sensor) = (phones[next(10)], sensors[next(10)])
    switch next(8) {
    case 0: world.losePackets(Double(next(30)) / 100, between: phone, and: sensor)
    case 1: world.cutLink(between: phone, and: sensor)
    case 2: world.restoreLink(between: phone, and: sensor)
    case 3, 4:
      let device = next(2) == 0 ? phone : sensor
      if device.bluetooth == .on { off.append(device) }
      device.bluetooth = .off
    case 5: (next(2) == 0 ? phone : sensor).reset()
    case 6: sensor.reject(.write, of: TickerPeripheral.ticks, with: .unlikelyError)
    default: sensor.delay(.write, of: TickerPeripheral.ticks, by: .milliseconds(next(2000)))
    }
  }
  await world.advance(by: .seconds(5))
  var outcome = Outcome()
  outcome.add(world.timeline.jsonLines.utf8)
  for device in phones + sensors { outcome.add(world.timeline.hciCapture(of: device)) }
  for collector in collectors {
    for line in await collector.lines {
      outcome.add(line.utf8)
      if line.contains("value") { outcome.values += 1 }
    }
  }
  outcome.packets = world.timeline.entries(.air).count
  outcome.faults = world.timeline.entries(.fault).count
  return outcome
}

@Suite struct DeterminismTests {
  /// In processes of their own, as the order of sets and dictionaries is another one in each; `DETERMINISM_RUNS` of them.
  @Test func sameHashInEachProcess() async throws {
    var outcomes: Set<String> = []
    let runs = ProcessInfo.processInfo.environment["DETERMINISM_RUNS"].flatMap { Int($0) } ?? 2
    for _ in 0..<runs {
      let result = try await #require(processExitsWith: .success, observing: [\.standardOutputContent]) {
        let outcome = try await busyWorld(seed: 5)
        print("outcome: \(outcome)")
      }
      let output = String(decoding: result.standardOutputContent, as: UTF8.self)
      outcomes.insert(output.split(separator: "\n").first { $0.hasPrefix("outcome: ") }.map(String.init) ?? output)
    }
    let here = try await busyWorld(seed: 5)
    outcomes.insert("outcome: \(here)")
    #expect(outcomes.count == 1, "\(outcomes)")
    #expect(here.packets >= 10_000 && here.faults >= 100 && here.values >= 100, "\(here)")
    #expect(try await busyWorld(seed: 6).hash != here.hash)
  }
}
