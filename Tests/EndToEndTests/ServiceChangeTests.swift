// SPDX-License-Identifier: Apache-2.0

import Foundation
import Testing

/// An app that adds and removes services while another app's central is connected.
@Suite(.timeLimit(.minutes(10))) struct ServiceChangeTests {
  private static let added: JSON = "1815"

  @Test func aCentralIsToldOfServicesThatComeAndGo() async throws {
    try await withSite { site in
      let (sensor, central, peer) = try await site.meeting()
      try await central.notify(peer, Sensor.notified, true)

      // After an addition the list is empty, and what was found is as good as before.
      sensor.peripheral("add", ["service": ["uuid": Self.added, "characteristics": []]])
      try await sensor.expect("didAdd", ["error": nil])
      try await central.expect("didModifyServices", ["peer": peer, "services": []])
      #expect(try await central.read(peer, Sensor.cached)["error"] == nil)
      sensor.peripheral("update", ["characteristic": Sensor.notified, "value": "0102"])
      try await central.expect("didUpdateValue", ["characteristic": Sensor.notified, "value": "0102"])
      central.central("discoverServices", ["peer": peer])
      try await central.expect(
        "didDiscoverServices", ["services": [Sensor.battery, Sensor.service, Self.added], "error": nil])

      // After a removal it holds what is gone, and nothing of that is of use any more.
      sensor.peripheral("remove", ["service": Sensor.service])
      try await central.expect("didModifyServices", ["peer": peer, "services": [Sensor.service]])
      central.central("look", ["peer": peer])
      let tree = try await central.expect("looked")
      #expect(tree["services"].list.map { $0["uuid"] } == [Sensor.battery, Self.added])
      central.central("discoverServices", ["peer": peer])
      try await central.expect("didDiscoverServices", ["services": [Sensor.battery, Self.added], "error": nil])
      #expect(try await central.read(peer, Sensor.level)["error"] == nil)
    }
  }

  @Test func aPeerThatChangedBetweenConnectionsIsSeenAsItIs() async throws {
    try await withSite { site in
      let (sensor, central, peer) = try await site.meeting()
      try await central.cancel(peer)
      sensor.peripheral("add", ["service": ["uuid": Self.added, "characteristics": []]])
      try await sensor.expect("didAdd", ["error": nil])
      try await central.discover(peer, connecting: true)
      try await central.cancel(peer)
      try await central.connect(peer)
      central.central("discoverServices", ["peer": peer])
      try await central.expect(
        "didDiscoverServices", ["services": [Sensor.battery, Sensor.service, Self.added], "error": nil])
      #expect(
        !central.program.transcript.all.contains { $0["event"] == "didModifyServices" },
        "no change within a connection")
    }
  }
}
