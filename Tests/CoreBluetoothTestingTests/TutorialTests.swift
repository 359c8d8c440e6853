// SPDX-License-Identifier: Apache-2.0
//
// The test that docs/testing.md tells step by step.

import CoreBluetooth
import CoreBluetoothTesting
import Foundation
import Testing

/// Of this package; in another one it is a file of the test's.
let heartRateSensor = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
  .appendingPathComponent("../../Examples/Profiles/heart-rate-sensor.json").standardized.path

@MainActor @Suite struct TutorialTests {
  @Test func connectsAgainAfterEachLoss() async throws {
    let world = try await VirtualRadio(seed: 1, recording: .apps)
    let sensor = try world.place(profileFile: heartRateSensor, at: .at(2))
    let phone = world.device("phone")
    phone.move(to: .at(0))
    let app = phone.run { HeartRateApp() }

    // One measurement each second.
    try await world.run(until: { app.isSubscribed })
    let first = app.beats.count
    await world.advance(by: .seconds(60))
    #expect(app.beats.count - first == 60)

    // The sensor walks off. Some metres on nothing is heard of it, and a second later the link is lost.
    sensor.move(to: .at(100), over: .seconds(60))
    try await world.run(until: { app.losses == 1 })
    #expect(!app.isConnected)
    await world.advance(to: .seconds(240))
    #expect(app.connections == 1)

    // It comes back, and the app does not have to do anything.
    sensor.move(to: .at(2), over: .seconds(60))
    try await world.run(until: { app.connections == 2 && app.isSubscribed })

    // The user switches Bluetooth off for a minute.
    phone.bluetooth = .off
    try await world.run(until: { app.states.last == .poweredOff })
    let heard = app.beats.count
    await world.advance(by: .seconds(60))
    #expect(app.beats.count == heard)
    phone.bluetooth = .on
    try await world.run(until: { app.connections == 3 && app.isSubscribed })

    await world.advance(to: .seconds(600))
    #expect(world.now == .seconds(600))
    #expect(app.isConnected)
    #expect(app.losses == 1)
    #expect(world.timeline.callbacks("didConnect", of: phone) == 3)
    #expect(world.timeline.calls("scanForPeripherals", of: phone) == 1)
  }
}
