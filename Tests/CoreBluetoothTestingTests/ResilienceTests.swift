// SPDX-License-Identifier: Apache-2.0

import CoreBluetooth
import CoreBluetoothTesting
import Foundation
import Testing

/// Tests that do what no test should, and apps that nobody would write: no crash comes of it, and time goes on as it should.
@MainActor @Suite(.serialized) struct ResilienceTests {
  private func setUp(_ seed: UInt64 = 1) async throws -> (VirtualRadio, VirtualDevice, HeartRateApp) {
    let world = try await VirtualRadio(seed: seed, recording: .apps)
    try world.place(profileFile: heartRateSensor)
    let phone = world.device("phone")
    let app = phone.run { HeartRateApp() }
    return (world, phone, app)
  }

  @Test(.timeLimit(.minutes(1))) func extremeSettings() async throws {
    let (world, phone, app) = try await setUp()
    try await world.run(until: { app.isSubscribed })
    let other = world.device("other")
    let start = world.now
    for x in [Double.nan, .infinity, -.infinity, 1e300, -1e300, 0, 1] {
      phone.move(to: .at(x, x, x))
      other.move(to: .at(-x, x), over: .seconds(1))
      phone.setTransmitPower(x)
      world.losePackets(x)
      world.losePackets(x, between: phone, and: other)
      world.losePackets(x, for: .seconds(Int64.max))
      world.losePackets(x, for: .seconds(-1))
      world.disturb(channel: 200, loss: x)
      world.disturb(channel: 3, loss: x)
      world.setPathLoss(exponent: x, shadowing: x)
      world.addWall(from: .at(x), to: .at(x), attenuation: x)
      world.cutLink(between: phone, and: phone)
      phone.delay(.read, of: CBUUID(string: "2A38"), by: .seconds(Int64.max), times: Int.min)
      phone.reject(.read, of: CBUUID(string: "2A38"), with: .invalidHandle, times: -1)
      await world.advance(by: .seconds(2))
    }
    await world.advance(to: .seconds(-5))
    await world.advance(by: .seconds(-5))
    await world.advance(to: .nanoseconds(Int64.min))
    await world.advance(to: .seconds(Int64.min))
    #expect(world.now - start == .seconds(14))
  }

  @Test(.timeLimit(.minutes(1))) func allTimeHasAnEnd() async throws {
    let world = try await VirtualRadio(seed: 1)
    for _ in 0..<6 { await world.advance(by: .seconds(Int64.max)) }
    await world.advance(to: .seconds(Int64.max))
    await world.advance(by: .seconds(100))
    #expect(world.now == .nanoseconds(Int64.max / 4))
    await #expect(throws: WorldTimeout.self) { try await world.run(until: { false }, timeout: .seconds(10)) }
  }

  @Test(.timeLimit(.minutes(1))) func structures() async throws {
    let (world, _, app) = try await setUp()
    let (stream, continuation) = AsyncStream<Int>.makeStream()
    let consumer = Task {
      var sum = 0
      for await value in stream { sum += value }
      return sum
    }
    await withTaskGroup(of: Void.self) { group in
      for index in 0..<50 {
        group.addTask {
          try? await Task.sleep(for: .milliseconds(index * 10))
          continuation.yield(index)
        }
      }
    }
    continuation.finish()
    #expect(await consumer.value == 49 * 25)
    #expect(world.now == .milliseconds(490))
    // Two at once, and from a detached task.
    async let a: Void = world.advance(by: .seconds(3))
    async let b: Void = world.advance(by: .seconds(5))
    let c = Task.detached { await world.advance(by: .seconds(7)) }
    _ = await (a, b, c.value)
    #expect(world.now == .milliseconds(7490))
    let inner = Task { @MainActor in try await world.run(until: { app.beats.count > 20 }) }
    try await world.run(until: { app.beats.count > 10 })
    try await inner.value
    // Cancelled.
    let sleeper = Task { try await Task.sleep(for: .seconds(1000)) }
    let clocked = Task { try await world.clock.sleep(for: .seconds(1000)) }
    let runner = Task { @MainActor in try await world.run(until: { Task.isCancelled }, timeout: .seconds(5000)) }
    await world.advance(by: .seconds(1))
    sleeper.cancel()
    clocked.cancel()
    runner.cancel()
    await #expect(throws: CancellationError.self) { try await sleeper.value }
    await #expect(throws: CancellationError.self) { try await clocked.value }
    try await runner.value
    #expect(world.now < .seconds(200))
  }

  @Test(.timeLimit(.minutes(1))) func nestedAndOutliving() async throws {
    var apps: [HeartRateApp] = []
    do {
      let (world, phone, app) = try await setUp()
      apps.append(app)
      try await world.run(until: { app.isSubscribed })
      let nested = try await phone.run { try await VirtualRadio(seed: 2) }
      let device = nested.device("phone")
      try nested.place(profileFile: heartRateSensor)
      let second = device.run { HeartRateApp() }
      apps.append(second)
      try await nested.run(until: { second.isSubscribed })
      let count = app.beats.count
      await world.advance(by: .seconds(5))
      #expect(app.beats.count == count + 5)
      await nested.advance(by: .seconds(5))
    }
    // Both worlds are gone; their apps are there.
    let manager = CBCentralManager(delegate: nil, queue: nil)
    _ = manager
    for app in apps { app.poke() }
    let (world, _, third) = try await setUp(9)
    try await world.run(until: { third.isSubscribed })
    for app in apps { app.poke() }
    await world.advance(by: .seconds(5))
    apps = []
  }

  @Test(.timeLimit(.minutes(3))) func parallelWorlds() async throws {
    let tasks = (0..<10).map { index in Task { try await Self.one(UInt64(index)) } }
    for task in tasks { try await task.value }
  }

  private static func one(_ seed: UInt64) async throws {
    let world = try await VirtualRadio(seed: seed, recording: .apps)
    try world.place(profileFile: heartRateSensor)
    let app = world.device("phone").run { HeartRateApp() }
    try await world.run(until: { app.isSubscribed })
    let first = app.beats.count
    await world.advance(by: .seconds(20))
    #expect(app.beats.count - first == 20)
  }
}

extension HeartRateApp {
  @MainActor func poke() {
    if let sensor {
      sensor.readRSSI()
      for characteristic in characteristics.values { sensor.readValue(for: characteristic) }
    }
  }
}
