// SPDX-License-Identifier: Apache-2.0

import Foundation
import TestSupport
import Testing

/// `ble sim` itself: its slots, its control, and connections that speak no HCI.
@Suite(.timeLimit(.minutes(10))) struct RadioTests {
  @Test func slotsAreTakenAgainAndKeepTheirAddresses() async throws {
    try await withSite { site in
      let apps = [try await site.app("one"), try await site.app("two"), try await site.app("three")]
      for app in apps { try await app.createCentral() }
      let before = try site.control(["command": "list"])["devices"]
      #expect(before.list.map { $0["slot"] } == [1, 2, 3])
      #expect(Set(before.list.map { $0["address"] }).count == 3)
      #expect(before.list.allSatisfy { $0["on"] == true && $0["connected"] == true })
      apps[1].program.signal(SIGKILL)
      try await site.simulator.expect("left", ["slot": 2])
      let without = try site.control(["command": "list"])["devices"]
      #expect(without.list.map { $0["connected"] } == [true, false, true])
      let again = try await site.app("two")
      try await again.createCentral()
      #expect(try site.control(["command": "list"])["devices"] == before)
      // So that there is something to judge in the captures.
      _ = try await site.sensor()
      try await again.discover(again.find(Sensor.service), connecting: true)
    }
  }

  @Test func theControlRefusesWhatItDoesNotKnow() async throws {
    try await withSite { site in
      let lines = [
        "nonsense", "[]", "{}", "{\"command\": 7}", "{\"command\": \"explode\"}",
        "{\"command\": \"power\", \"slot\": 9}",
        "{\"command\": \"power\", \"slot\": 9, \"on\": true}", "{\"command\": \"drop\", \"slot\": -1}",
        "{\"command\": \"drop\", \"slot\": 99999999999999999999}", String(repeating: "[", count: 5_000),
      ]
      let socket = try LocalSocket(path: "\(site.directory)/control")
      for line in lines {
        let answer = JSON(parsing: try socket.ask(line)) ?? .null
        #expect(answer["ok"] == false, "\(line.prefix(60))")
        #expect(answer["error"].string?.isEmpty == false, "\(line.prefix(60))")
      }
      #expect(JSON(parsing: try socket.ask("{\"command\": \"list\"}"))?["ok"] == true)
    }
  }

  @Test func connectionsThatSpeakNoHCIDisturbNobody() async throws {
    try await withSite { site in
      let (_, central, peer) = try await site.meeting()
      let path = "\(site.directory)/radio"
      let reset: [UInt8] = [0x01, 0x03, 0x0C, 0x00]
      for seed in UInt64(0)..<8 {
        let socket = try LocalSocket(path: path)
        // A closed connection takes nothing more; that is the radio's right.
        for bytes in HostileBytes(seed: seed, count: 300, examples: [reset, [0x02, 0x01, 0x20, 0x00, 0x00]]) {
          guard socket.send(bytes) else { break }
        }
        #expect(try await central.read(peer, Sensor.level)["value"] == "62", "seed \(seed)")
      }
      #expect(try await central.write(peer, Sensor.value, "aa")["error"] == .null)
    }
  }

  @Test(arguments: [SIGINT, SIGTERM]) func theRadioEndsWellOnASignal(_ signal: Int32) async throws {
    try await withSite { site in
      let app = try await site.app("app")
      try await app.createCentral()
      let radio = try site.simulator
      radio.signal(signal)
      #expect(await radio.waitForExit() == 0)
      try await app.expect("didUpdateState", ["state": "resetting"])
      try await app.expect("didUpdateState", ["state": "poweredOff"])
      // The sockets are gone too; a new radio brings the app back.
      #expect(!FileManager.default.fileExists(atPath: "\(site.directory)/radio"))
      try await site.startRadio()
      try await app.expect("didUpdateState", ["state": "poweredOn"])
      _ = try await site.sensor()
      try await app.discover(app.find(Sensor.service), connecting: true)
    }
  }
}
