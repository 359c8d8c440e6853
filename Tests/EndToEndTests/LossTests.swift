// SPDX-License-Identifier: Apache-2.0

import Foundation
import Testing

@Suite(.timeLimit(.minutes(10))) struct LossTests {
  @Test func theCentralDisconnectsAndConnectsAgain() async throws {
    try await withSite { site in
      let (sensor, central, peer) = try await site.meeting()
      try await central.notify(peer, Sensor.notified, true)
      try await sensor.expect("didSubscribe")
      try await central.cancel(peer)
      try await sensor.expect("didUnsubscribe", ["characteristic": Sensor.notified])
      try await central.connect(peer)
      try await central.discover(peer)
      #expect(try await central.read(peer, Sensor.level)["value"] == "62")
    }
  }

  @Test func thePeripheralManagerIsReleasedItsConnectionIsOver() async throws {
    try await withSite { site in
      let (sensor, central, peer) = try await site.meeting()
      sensor.peripheral("release")
      try await sensor.expect("released")
      let lost = try await central.expect("didDisconnect", ["peer": peer, "state": "disconnected"])
      #expect(lost["error"]["domain"] == "CBErrorDomain")
      #expect([6, 7].contains(lost["error"]["code"].int))
    }
  }

  @Test func thePeripheralsProgramEndsItsConnectionIsOver() async throws {
    try await withSite { site in
      let (sensor, central, peer) = try await site.meeting()
      sensor.program.send(["app": "exit"])
      #expect(await sensor.program.waitForExit() == 0)
      let lost = try await central.expect("didDisconnect", ["peer": peer])
      #expect(lost["error"]["domain"] == "CBErrorDomain")
      #expect([6, 7].contains(lost["error"]["code"].int))
    }
  }

  @Test func aKilledPeripheralTimesOutAndIsFoundAgainAsTheSamePeer() async throws {
    try await withSite { site in
      let (sensor, central, peer) = try await site.meeting()
      let clock = ContinuousClock()
      let start = clock.now
      sensor.program.signal(SIGKILL)
      let lost = try await central.expect("didDisconnect", ["peer": peer, "state": "disconnected"])
      let time = clock.now - start
      #expect(lost["error"]["domain"] == "CBErrorDomain")
      #expect(lost["error"]["code"] == 6)
      // The supervision timeout is 2 s; the rest is for a machine that does much else.
      #expect(time < .seconds(12), "\(time)")
      #expect(await sensor.program.waitForExit() == -SIGKILL)
      _ = try await site.sensor()
      #expect(try await central.find(Sensor.service) == peer)
      try await central.connect(peer)
      try await central.discover(peer)
      #expect(try await central.read(peer, Sensor.level)["value"] == "62")
    }
  }

  @Test func aRequestThatIsOpenWhenThePeerIsKilledGetsNoAnswerButTheDisconnect() async throws {
    try await withSite { site in
      let (sensor, central, peer) = try await site.meeting()
      sensor.program.signal(SIGSTOP)
      central.central("read", ["peer": peer, "characteristic": Sensor.value])
      sensor.program.signal(SIGKILL)
      try await central.expect("didDisconnect", ["peer": peer])
      #expect(central.program.transcript.all.allSatisfy { $0["event"] != "didUpdateValue" })
    }
  }

  @Test func aConnectionWaitsUntilThePeerAppears() async throws {
    try await withSite { site in
      let (sensor, central, peer) = try await site.meeting()
      try await central.cancel(peer)
      sensor.program.signal(SIGKILL)
      _ = await sensor.program.waitForExit()
      central.central("connect", ["peer": peer])
      central.central("look", ["peer": peer])
      try await central.expect("looked", ["state": "connecting"])
      _ = try await site.sensor()
      try await central.expect("didConnect", ["peer": peer])
      try await central.discover(peer)
      #expect(try await central.read(peer, Sensor.level)["value"] == "62")
    }
  }

  @Test func aConnectionThatWaitsIsCancelled() async throws {
    try await withSite { site in
      let (sensor, central, peer) = try await site.meeting()
      try await central.cancel(peer)
      sensor.peripheral("stopAdvertising")
      sensor.peripheral("state")
      try await sensor.expect("state", ["isAdvertising": false])
      central.central("connect", ["peer": peer])
      central.central("look", ["peer": peer])
      try await central.expect("looked", ["state": "connecting"])
      try await central.cancel(peer)
      // The peer is there again: found, but not connected.
      sensor.peripheral("advertise", ["name": "sensor", "services": [Sensor.service]])
      try await sensor.expect("didStartAdvertising", ["error": nil])
      #expect(try await central.find(Sensor.service) == peer)
      central.central("look", ["peer": peer])
      try await central.expect("looked", ["state": "disconnected"])
      #expect(central.program.transcript.all.filter { $0["event"] == "didConnect" }.count == 1)
      try await central.connect(peer)
    }
  }

  @Test func theRadioDropsADeviceBothAppsSeeItGoAndComeBack() async throws {
    try await withSite { site in
      let (_, central, peer) = try await site.meeting()
      try site.control(["command": "drop", "slot": 2])  // The central's: it came second.
      try await central.expect("didUpdateState", ["state": "resetting"])
      try await central.expect("didUpdateState", ["state": "poweredOn"])
      #expect(try await central.find(Sensor.service) == peer)
    }
  }
}

@Suite(.timeLimit(.minutes(10))) struct PowerTests {
  /// The numbers of the lines with these states of the central, in the order given.
  private func numbers(_ app: App, _ states: [JSON]) async throws -> [Int] {
    var numbers: [Int] = []
    for state in states {
      numbers.append(try await app.program.line("didUpdateState", ["state": state]).number)
    }
    return numbers
  }

  @Test func bluetoothOfTheCentralGoesOffAndOn() async throws {
    try await withSite { site in
      let (sensor, central, peer) = try await site.meeting()
      try site.control(["command": "power", "slot": 2, "on": false])
      let off = try await numbers(central, ["resetting", "poweredOff"])
      central.central("look", ["peer": peer])
      try site.control(["command": "power", "slot": 2, "on": true])
      let on = try await numbers(central, ["poweredOn"])
      #expect(off[0] < off[1] && off[1] < on[0])
      let resetting = central.program.transcript.all[off[0]]
      #expect(resetting["peers"].strings.allSatisfy { $0.hasSuffix("disconnected") })
      // No disconnect was reported, and the sensor is found again as the same peer.
      #expect(central.program.transcript.all.allSatisfy { $0["event"] != "didDisconnect" })
      #expect(try await central.find(Sensor.service) == peer)
      try await central.connect(peer)
      try await central.discover(peer)
      #expect(try await central.read(peer, Sensor.level)["value"] == "62")
      try await sensor.expect("didReceiveRead", ["characteristic": Sensor.level])
    }
  }

  @Test func bluetoothOfThePeripheralGoesOffAndOn() async throws {
    try await withSite { site in
      let (sensor, central, peer) = try await site.meeting()
      try await central.notify(peer, Sensor.notified, true)
      try await sensor.expect("didSubscribe")
      try site.control(["command": "power", "slot": 1, "on": false])
      let lost = try await central.expect("didDisconnect", ["peer": peer])
      #expect(lost["error"]["code"] == 6)
      let off = try await numbers(sensor, ["resetting", "poweredOff"])
      #expect(sensor.program.transcript.all[off[1]]["isAdvertising"] == false)
      try site.control(["command": "power", "slot": 1, "on": true])
      try await sensor.expect("didUpdateState", ["state": "poweredOn"])
      // Below poweredOff the services are void: the app publishes them again.
      try await sensor.publish(Sensor.services, name: "sensor", advertising: [Sensor.service])
      #expect(try await central.find(Sensor.service) == peer)
      try await central.connect(peer)
      try await central.discover(peer)
      #expect(try await central.read(peer, Sensor.level)["value"] == "62")
    }
  }

  @Test func aProgramThatStartsWhileBluetoothIsOffWaitsForIt() async throws {
    try await withSite { site in
      let first = try await site.app("first")
      try await first.createCentral()
      try site.control(["command": "power", "slot": 1, "on": false])
      try await first.expect("didUpdateState", ["state": "poweredOff"])
      let list = try site.control(["command": "list"])
      #expect(list["devices"][0]["on"] == false)
      #expect(list["devices"][0]["connected"] == false)
      try site.control(["command": "power", "slot": 1, "on": true])
      try await first.expect("didUpdateState", ["state": "poweredOn"])
      _ = try await site.sensor()
      let peer = try await first.find(Sensor.service)
      try await first.connect(peer)
      try await first.discover(peer)
    }
  }
}
