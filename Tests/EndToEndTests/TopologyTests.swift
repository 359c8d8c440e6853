// SPDX-License-Identifier: Apache-2.0

import TestSupport
import Testing

@Suite(.timeLimit(.minutes(10))) struct TopologyTests {
  @Test func twoCentralsUseOnePeripheralAtOnce() async throws {
    try await withSite { site in
      let sensor = try await site.sensor()
      let first = try await site.app("first")
      let second = try await site.app("second")
      let peer = try await first.meet(Sensor.service)
      // Connected it does not advertise any more by itself; it does if the app asks again, or it has been all along.
      let same = try await second.meet(Sensor.service)
      try await first.notify(peer, Sensor.notified, true)
      try await second.notify(same, Sensor.notified, true)
      let one = try await sensor.expect("didSubscribe")
      let two = try await sensor.expect("didSubscribe")
      #expect(one["central"] != two["central"])
      sensor.peripheral("update", ["characteristic": Sensor.notified, "value": "abcd"])
      try await sensor.expect("updated", ["accepted": true, "subscribers": 2])
      try await first.expect("didUpdateValue", ["value": "abcd"])
      try await second.expect("didUpdateValue", ["value": "abcd"])
      #expect(try await first.write(peer, Sensor.value, "01")["error"] == .null)
      #expect(try await second.read(same, Sensor.value)["value"] == "01")
      try await first.cancel(peer)
      try await sensor.expect("didUnsubscribe", ["central": one["central"]])
      #expect(try await second.read(same, Sensor.level)["value"] == "62")
    }
  }

  @Test func oneCentralUsesThreePeripheralsAtOnce() async throws {
    try await withSite { site in
      var sensors: [App] = []
      for number in 0..<3 {
        let app = try await site.app("sensor\(number)")
        try await app.serve(Sensor.services, name: "sensor\(number)", advertising: [Sensor.service])
        app.peripheral("set", ["characteristic": Sensor.value, "value": .string("0\(number)")])
        sensors.append(app)
      }
      let central = try await site.app("central")
      try await central.createCentral()
      central.central("scan", ["services": [Sensor.service]])
      var peers: [JSON] = []
      for number in 0..<3 {
        peers.append(try await central.expect("didDiscover", ["name": .string("sensor\(number)")])["peer"])
      }
      central.central("stopScan")
      #expect(Set(peers).count == 3)
      for peer in peers { central.central("connect", ["peer": peer]) }
      for peer in peers { try await central.expect("didConnect", ["peer": peer]) }
      for peer in peers {
        try await central.discover(peer)
        try await central.notify(peer, Sensor.notified, true)
      }
      for (number, peer) in peers.enumerated() {
        #expect(try await central.read(peer, Sensor.value)["value"] == .string("0\(number)"))
        sensors[number].peripheral("update", ["characteristic": Sensor.notified, "value": .string("f\(number)")])
        try await central.expect("didUpdateValue", ["peer": peer, "value": .string("f\(number)")])
      }
      try await central.cancel(peers[1])
      for number in [0, 2] {
        #expect(try await central.read(peers[number], Sensor.value)["value"] == .string("0\(number)"))
      }
    }
  }

  @Test func twoProgramsAreCentralAndPeripheralToEachOther() async throws {
    try await withSite { site in
      let names = ["left", "right"]
      var apps: [App] = []
      for name in names {
        let app = try await site.app(name)
        try await app.serve(Sensor.services, name: name, advertising: [Sensor.service])
        app.peripheral("set", ["characteristic": Sensor.value, "value": .string(Array(name.utf8).hex)])
        apps.append(app)
      }
      for (index, app) in apps.enumerated() {
        let other = names[1 - index]
        let peer = try await app.meet(Sensor.service)
        #expect(try await app.read(peer, Sensor.value)["value"] == .string(Array(other.utf8).hex))
        try await app.notify(peer, Sensor.notified, true)
      }
      for (index, app) in apps.enumerated() {
        app.peripheral("update", ["characteristic": Sensor.notified, "value": .string("0\(index)")])
        try await apps[1 - index].expect("didUpdateValue", ["value": .string("0\(index)")])
      }
    }
  }
}
