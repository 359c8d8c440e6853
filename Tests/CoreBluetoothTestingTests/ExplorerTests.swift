// SPDX-License-Identifier: Apache-2.0

import CoreBluetooth
import CoreBluetoothTesting
import Foundation
import Testing

/// Worlds in which anything may happen, and what has to hold in all of them.
///
/// `EXPLORER_SEED` is the first world's seed, `EXPLORER_WORLDS` how many there are.
@Suite struct ExplorerTests {
  @Test func whateverHappens() async throws {
    let environment = ProcessInfo.processInfo.environment
    let first = environment["EXPLORER_SEED"].flatMap { UInt64($0) } ?? 1
    let count = environment["EXPLORER_WORLDS"].flatMap { UInt64($0) } ?? 6
    for seed in first..<first + count {
      let violations = try await Explorer.explore(seed)
      #expect(
        violations.isEmpty,
        """
        \(violations.prefix(10).joined(separator: "\n"))
        repeat: EXPLORER_SEED=\(seed) EXPLORER_WORLDS=1 swift test --filter ExplorerTests
        """)
      if !violations.isEmpty { return }
    }
  }
}

/// One world, what is done to it, and the looks at it afterwards.
private struct Explorer {
  private var random: UInt64
  private let world: VirtualRadio
  private var devices: [VirtualDevice] = []
  private var phones: [ExploredPhone] = []
  private var sensors: [ExploredSensor] = []

  /// Returns what does not hold.
  static func explore(_ seed: UInt64) async throws -> [String] {
    var explorer = try await Explorer(seed)
    return try await explorer.run()
  }

  private init(_ seed: UInt64) async throws {
    random = seed
    world = try await VirtualRadio(seed: seed, recording: .apps)
    let phoneCount = 1 + next(3)
    for number in 0..<phoneCount {
      let device = world.device("phone \(number)")
      devices.append(device)
      phones.append(device.run { ExploredPhone(number) })
    }
    for number in 0..<1 + next(3) {
      let device = world.device("sensor \(number)")
      devices.append(device)
      sensors.append(device.run { ExploredSensor("sensor \(number)") })
    }
    for device in devices { device.move(to: place(20)) }
  }

  private mutating func next(_ limit: Int) -> Int {
    random = random &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
    return Int(truncatingIfNeeded: (random >> 33) % UInt64(limit))
  }

  private mutating func place(_ size: Int) -> Position {
    .at(Double(next(size * 10)) / 10, Double(next(size * 10)) / 10)
  }

  private mutating func run() async throws -> [String] {
    try await Task.sleep(for: .seconds(3))
    for _ in 0..<60 {
      try await Task.sleep(for: .milliseconds(next(1000)))
      if next(3) == 0 { disturb() } else { use() }
    }
    return try await rest()
  }

  private mutating func use() {
    let phone = phones[next(phones.count)]
    switch next(8) {
    case 0: phone.sendCommands(1 + next(40), to: next(4))
    case 1: phone.cancel(next(4))
    default: for _ in 0...next(6) { phone.write(to: next(4)) }
    }
  }

  private mutating func disturb() {
    let (one, other) = (devices[next(devices.count)], devices[next(devices.count)])
    switch next(9) {
    case 0: one.move(to: place(120), over: .seconds(next(20)))
    case 1: world.losePackets(Double(next(40)) / 100)
    case 2: world.losePackets(Double(1 + next(9)) / 10, for: .milliseconds(next(5000)))
    case 3: if one.name != other.name { world.cutLink(between: one, and: other) }
    case 4: if one.name != other.name { world.restoreLink(between: one, and: other) }
    case 5: one.bluetooth = one.bluetooth == .on ? .off : .on
    case 6: one.reset()
    case 7: one.reject(.write, of: Explored.log, with: .insufficientResources, times: 1 + next(3))
    default: one.delay(.write, of: Explored.log, by: .milliseconds(next(8000)), times: 1 + next(2))
    }
  }

  /// Nothing goes wrong any more: all that can be connected has to be, and the books have to agree.
  private mutating func rest() async throws -> [String] {
    world.losePackets(0)
    for device in devices {
      device.bluetooth = .on
      device.move(to: place(10))
      for other in devices where other.name != device.name { world.restoreLink(between: device, and: other) }
    }
    var violations: [String] = []
    do {
      try await world.run(
        until: { [phones, sensors] in
          phones.allSatisfy { $0.readyCount == sensors.count && $0.unansweredCount == 0 }
        }, timeout: .seconds(300))
    } catch let error as WorldTimeout {
      let counts = phones.map {
        "phone \($0.number) has \($0.readyCount) of \(sensors.count), \($0.unansweredCount) unanswered"
      }
      violations += ["not all are connected again: \(counts)", error.description]
    }
    // Whatever room there was for commands is there again.
    let before = phones.map(\.commandsSent)
    for phone in phones { for index in 0..<sensors.count { phone.sendCommands(10, to: index) } }
    await world.advance(by: .seconds(20))
    for (phone, before) in zip(phones, before) where violations.isEmpty {
      for id in phone.sensors {
        let sent = (phone.commandsSent[id]?.count ?? 0) - (before[id]?.count ?? 0)
        if sent != 10 { violations.append("phone \(phone.number) had room for \(sent) of 10 commands at rest") }
      }
    }
    violations += phones.flatMap(\.violations) + sensors.flatMap(\.violations)
    for sensor in sensors where sensor.subscribers.count != phones.count {
      violations.append("\(sensor.name) has \(sensor.subscribers.count) subscribers, \(phones.count) phones have it")
    }
    return violations + compareBooks()
  }

  private func compareBooks() -> [String] {
    var violations: [String] = []
    for phone in phones {
      let key = UInt8(truncatingIfNeeded: phone.number)
      // Who is who is not known here: serials are unique in a phone, so all sensors together have each once.
      let applied = sensors.flatMap { $0.applied[key] ?? [] }
      for sensor in sensors {
        for (what, list) in [("writes", sensor.applied[key] ?? []), ("commands", sensor.commands[key] ?? [])]
        where !zip(list, list.dropFirst()).allSatisfy({ $0 < $1 }) {
          violations.append("\(sensor.name) got the \(what) of phone \(phone.number) as \(list)")
        }
      }
      if Set(applied).count != applied.count { violations.append("phone \(phone.number): a write was applied twice") }
      let lost = Set(phone.confirmed.values.joined()).subtracting(applied)
      if !lost.isEmpty { violations.append("phone \(phone.number): confirmed, but not applied: \(lost.sorted())") }
      let both = Set(phone.refused.values.joined()).intersection(applied)
      if !both.isEmpty { violations.append("phone \(phone.number): refused, but applied: \(both.sorted())") }
      let sent = Set(phone.commandsSent.values.joined())
      let invented = Set(sensors.flatMap { $0.commands[key] ?? [] }).subtracting(sent)
      if !invented.isEmpty {
        violations.append("phone \(phone.number): commands it did not send: \(invented.sorted())")
      }
      let most = sensors.map(\.sent).max() ?? 0
      if let number = phone.numbers.values.joined().max(), number > most {
        violations.append("phone \(phone.number) was notified of \(number), which nobody sent")
      }
    }
    return violations
  }
}
