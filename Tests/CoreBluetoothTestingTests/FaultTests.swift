// SPDX-License-Identifier: Apache-2.0

import CoreBluetooth
import CoreBluetoothTesting
import Testing

/// Each of the things that a test can do to a world, as one line in a test.
@MainActor @Suite struct FaultTests {
  let world: VirtualRadio
  let sensor: VirtualDevice
  let phone: VirtualDevice
  let app: HeartRateApp

  init() async throws {
    world = try await VirtualRadio(seed: 2)
    sensor = try world.place(profileFile: heartRateSensor)
    phone = world.device("phone")
    app = phone.run { HeartRateApp() }
    try await world.run(until: { [app] in app.isSubscribed })
  }

  @Test func bluetoothOffAndOn() async throws {
    phone.bluetooth = .off
    #expect(phone.bluetooth == .off)
    try await world.run(until: { app.states == [.poweredOn, .poweredOff] })
    // The link ended in good order: the sensor did not have to find out, and is to be found again.
    try await world.run(until: { world.timeline.calls("startAdvertising", of: sensor) == 1 }, timeout: .seconds(1))
    phone.bluetooth = .on
    try await world.run(until: { app.isSubscribed })
    #expect(app.connections == 2 && app.losses == 0)
  }

  @Test func bluetoothOfThePeerOff() async throws {
    sensor.bluetooth = .off
    try await world.run(until: { app.losses == 1 }, timeout: .seconds(1))
    await world.advance(by: .seconds(30))
    #expect(app.connections == 1)
    sensor.bluetooth = .on
    try await world.run(until: { app.connections == 2 && app.isSubscribed })
  }

  @Test func resetOfTheController() async throws {
    phone.reset()
    try await world.run(until: { app.states == [.poweredOn, .resetting, .poweredOn] })
    try await world.run(until: { app.connections == 2 && app.isSubscribed })
  }

  @Test func resetOfThePeersController() async throws {
    sensor.reset()
    try await world.run(until: { app.losses == 1 })
    try await world.run(until: { app.connections == 2 && app.isSubscribed })
  }

  @Test func lossOfPackets() async throws {
    world.losePackets(0.3)
    let first = app.beats.count
    await world.advance(by: .seconds(20))
    // Lost packets are sent again: nothing is lost but time.
    #expect((19...21).contains(app.beats.count - first))
    #expect(app.losses == 0)
    world.losePackets(1, between: phone, and: sensor)
    try await world.run(until: { app.losses == 1 })
    world.losePackets(nil, between: phone, and: sensor)
    try await world.run(until: { app.isSubscribed })
  }

  @Test func cutAndRestored() async throws {
    world.cutLink(between: phone, and: sensor)
    let cut = world.now
    try await world.run(until: { app.losses == 1 })
    // The supervision timeout, to the event.
    #expect(world.now - cut > .milliseconds(1900) && world.now - cut < .milliseconds(2030), "\(world.now - cut)")
    world.restoreLink(between: phone, and: sensor)
    try await world.run(until: { app.isSubscribed })
  }

  @Test func rejectedRequest() async throws {
    let point = try #require(app.characteristics[HeartRateApp.controlPoint])
    sensor.reject(.write, of: HeartRateApp.controlPoint, with: .init(rawValue: 0x80) ?? .unlikelyError)
    app.sensor?.writeValue(Data([1]), for: point, type: .withResponse)
    app.sensor?.writeValue(Data([1]), for: point, type: .withResponse)
    try await world.run(until: { app.writes.count == 2 })
    #expect(app.writes[0] != nil)
    #expect(app.writes[1] == nil)
  }

  @Test func rejectedRead() async throws {
    let location = try #require(app.characteristics[CBUUID(string: "2A38")])
    sensor.reject(.read, of: CBUUID(string: "2A38"), with: .insufficientResources)
    app.sensor?.readValue(for: location)
    app.sensor?.readValue(for: location)
    try await world.run(until: { app.reads.count == 2 })
    #expect(throws: CBATTError.self) { try app.reads[0].get() }
    #expect(try app.reads[1].get() == Data([1]))
  }

  @Test func delayedRequest() async throws {
    let point = try #require(app.characteristics[HeartRateApp.controlPoint])
    sensor.delay(.write, of: HeartRateApp.controlPoint, by: .seconds(10))
    let asked = world.now
    app.sensor?.writeValue(Data([1]), for: point, type: .withResponse)
    try await world.run(until: { app.writes.count == 1 })
    #expect(world.now - asked > .seconds(10) && world.now - asked < .seconds(10.2))
  }

  @Test func updateOfTheFirmware() async throws {
    try sensor.update(
      toProfile: """
        {"name": "Heart Rate Sensor", "advertise": ["180D"], "services": [{"uuid": "180D", "characteristics": [
          {"uuid": "2A38", "properties": ["read"], "value": {"uint8": 2}},
          {"uuid": "2A37", "properties": ["notify"], "notifyEvery": 500, "value": {"hex": "06 40"}}]}]}
        """)
    try await world.run(until: { app.modifications > 0 && app.isSubscribed })
    let first = app.beats.count
    await world.advance(by: .seconds(10))
    #expect(app.beats.count - first == 20)
    #expect(app.beats.last == 0x40)
  }

  @Test func movedOutOfRange() async throws {
    phone.move(to: .at(0))
    sensor.move(to: .at(500))
    try await world.run(until: { app.losses == 1 })
    sensor.move(to: .at(0, 3))
    try await world.run(until: { app.isSubscribed })
  }

  @Test func behindAWall() async throws {
    phone.move(to: .at(0))
    sensor.move(to: .at(12))
    await world.advance(by: .seconds(10))
    #expect(app.losses == 0)
    world.addWall(from: .at(5, -50), to: .at(5, 50), attenuation: 60)
    try await world.run(until: { app.losses == 1 })
    sensor.setTransmitPower(20)
    phone.setTransmitPower(20)
    sensor.move(to: .at(4))
    try await world.run(until: { app.isSubscribed })
  }

  @Test func burstOfLoss() async throws {
    world.losePackets(for: .seconds(5))
    let begin = world.now
    try await world.run(until: { app.losses == 1 })
    #expect(world.now - begin < .seconds(2.1))
    try await world.run(until: { app.isSubscribed })
    #expect(world.now - begin > .seconds(5))
  }

  @Test func disturbedChannels() async throws {
    for channel in UInt8(0)..<37 { world.disturb(channel: channel, loss: 1) }
    try await world.run(until: { app.losses == 1 })
    await world.advance(by: .seconds(5))
    // What advertises is heard, what connects is not.
    #expect(!app.isSubscribed)
    for channel in UInt8(0)..<37 { world.disturb(channel: channel, loss: 0) }
    try await world.run(until: { app.isSubscribed })
  }

  @Test func openCountry() async throws {
    phone.move(to: .at(0))
    sensor.move(to: .at(200))
    try await world.run(until: { app.losses == 1 })
    world.setPathLoss(exponent: 2)
    try await world.run(until: { app.isSubscribed })
  }

  @Test func namesAreTakenOnce() throws {
    #expect(throws: DeviceNameTaken.self) { try world.place(profileFile: heartRateSensor, named: sensor.name) }
    try world.place(profileFile: heartRateSensor, named: "another")
    #expect(throws: NoProfilePlayed.self) { try phone.update(toProfile: "{}") }
  }

  @Test func failuresTellHowToReplayThem() async throws {
    var text = ""
    let line = #line + 2
    do {
      try await world.run(until: { app.connections == 7 }, timeout: .seconds(2))
    } catch let error as WorldTimeout {
      text = error.description
    }
    #expect(text.contains("VirtualRadio(seed: 2)"), "\(text)")
    #expect(text.hasPrefix("CoreBluetoothTestingTests/FaultTests.swift:\(line): "), "\(text)")
    #expect(
      text.contains(" phone ") && !text.contains("updateCredits"), "what happened to the app, not what the sensor did")
    #expect(text.contains("didUpdateValue"), "\(text)")
  }
}
