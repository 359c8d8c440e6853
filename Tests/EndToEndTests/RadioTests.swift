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
        "{\"command\": \"drop\", \"slot\": 99999999999999999999}",
        "{\"command\": \"drop\", \"slot\": -9223372036854775808}",
        "{\"command\": \"power\", \"slot\": -9223372036854775808, \"on\": false}",
        "{\"command\": \"power\", \"slot\": 9223372036854775807, \"on\": false}", String(repeating: "[", count: 5_000),
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

  /// Lines that nobody reads must neither stop the radio nor keep it from ending. Its reader takes one, and then it is
  /// either stuck or gone.
  @Test(arguments: ["", " > >(read -r line; echo \"$line\")"])
  func theRadioNeedsNobodyToReadItsLines(_ output: String) async throws {
    try await withSite(radio: false) { site in
      let path = "\(site.directory)/unread"
      let tool = "env --default-signal=PIPE '\(Build.products)/ble' --json"
      let radio = try site.start(
        "radio", "/bin/bash", ["-c", "exec \(tool) sim --listen unix:\(path)\(output)"], linesMax: 1)
      try await radio.expect("listening")
      // Two lines each: more than a pipe holds.
      for number in 0..<1_000 {
        let host = try LocalSocket(path: path)
        guard host.send([0x01, 0x03, 0x0C, 0x00]), host.receive(7) == [0x04, 0x0E, 0x04, 0x01, 0x03, 0x0C, 0x00] else {
          throw SiteFailure(description: "connection \(number) gets no answer to Reset")
        }
      }
      radio.signal(SIGTERM)
      #expect(await radio.waitForExit() == 0)
      #expect(!FileManager.default.fileExists(atPath: path))
    }
  }

  /// A connection that no descriptor is left for is closed, rather than left to wait with the loop spinning.
  @Test func aRadioWithoutDescriptorsTurnsConnectionsAway() async throws {
    try await withSite(radio: false) { site in
      let path = "\(site.directory)/narrow"
      let radio = try site.start(
        "narrow", "/bin/sh", ["-c", "ulimit -n 40; exec '\(Build.products)/ble' --json sim --listen unix:\(path)"])
      try await radio.expect("listening")
      var hosts: [SocketHolder] = []
      for _ in 0..<60 { hosts.append(SocketHolder(try LocalSocket(path: path))) }
      let octets = hosts.last.flatMap { $0.socket.receive(1) }
      #expect(octets == [], "the last is closed")
      hosts.removeAll()
      try await radio.expect("left")
      let host = try LocalSocket(path: path)
      let isAnswered = host.send([0x01, 0x03, 0x0C, 0x00]) && host.receive(7)?.count == 7
      #expect(isAnswered, "room again, and the radio answers")
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

/// An array cannot hold what cannot be copied.
private final class SocketHolder {
  let socket: LocalSocket
  init(_ socket: consuming LocalSocket) { self.socket = socket }
}
