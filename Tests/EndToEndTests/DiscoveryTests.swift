// SPDX-License-Identifier: Apache-2.0

import Foundation
import Testing

@Suite(.timeLimit(.minutes(10))) struct DiscoveryTests {
  @Test func aPeerIsFoundWithAdvertisementAndScanResponseInOne() async throws {
    try await withSite { site in
      let sensor = try await site.app("sensor")
      // The service takes 18 of the 28 octets: ten octets of name go into the scan response.
      try await sensor.serve(Sensor.services, name: "Long name!", advertising: [Sensor.service])
      let central = try await site.app("central")
      try await central.createCentral()
      central.central("scan", ["services": [Sensor.service]])
      let found = try await central.expect("didDiscover")
      #expect(found["name"] == "Long name!")
      #expect(found["peerName"] == "Long name!")
      #expect(found["services"] == [Sensor.service])
      #expect(found["connectable"] == true)
      #expect((-127...20).contains(found["rssi"].int ?? 127))
      central.central("connect", ["peer": found["peer"]])
      try await central.expect("didConnect", ["peer": found["peer"], "state": "connected"])
      try await central.cancel(found["peer"])
    }
  }

  @Test func aScanWithoutDuplicatesReportsAPeerOnceOneWithDuplicatesEachTime() async throws {
    try await withSite { site in
      _ = try await site.sensor()
      let central = try await site.app("central")
      try await central.createCentral()
      central.central("scan", ["services": [Sensor.service], "duplicates": true])
      for _ in 0..<5 { try await central.expect("didDiscover", ["services": [Sensor.service]]) }
      central.central("stopScan")
      central.central("state")
      try await central.expect("state", ["isScanning": false])
      let before = central.program.transcript.all.filter { $0["event"] == "didDiscover" }.count
      // A second peer ends the wait: by then the first one has been heard as often.
      central.central("scan", ["services": [Sensor.service]])
      try await central.expect("didDiscover")
      let other = try await site.app("other")
      try await other.serve(Sensor.services, name: "other", advertising: [Sensor.service])
      let second = try await central.expect("didDiscover", ["name": "other"])
      let after = central.program.transcript.all.filter { $0["event"] == "didDiscover" }.count
      #expect(after == before + 2)
      try await central.connect(second["peer"])
      try await central.discover(second["peer"])
    }
  }

  @Test func theWholeTreeIsDiscoveredWithIncludedServicesAndDescriptors() async throws {
    try await withSite { site in
      let (_, central, peer) = try await site.meeting()
      central.central("discoverIncludedServices", ["peer": peer, "service": Sensor.service])
      try await central.expect("didDiscoverIncludedServices", ["included": [Sensor.battery], "error": nil])
      for characteristic in [
        Sensor.level, Sensor.value, Sensor.notified, Sensor.indicated, Sensor.secret, Sensor.cached,
      ] {
        central.central("discoverDescriptors", ["peer": peer, "characteristic": characteristic])
        try await central.expect("didDiscoverDescriptors", ["characteristic": characteristic, "error": nil])
      }
      for descriptor: JSON in ["2901", "2904", "2902", Sensor.ownDescriptor] {
        central.central(
          "readDescriptor", ["peer": peer, "characteristic": Sensor.notified, "descriptor": descriptor])
        try await central.expect("didUpdateDescriptorValue", ["descriptor": descriptor, "error": nil])
      }
      central.central("look", ["peer": peer])
      let tree = try await central.expect("looked")
      #expect(tree["services"] == Self.tree)
      #expect(tree["name"] == "sensor")
    }
  }

  private static func characteristic(_ uuid: JSON, _ properties: JSON, _ descriptors: JSON = []) -> JSON {
    ["uuid": uuid, "properties": properties, "value": nil, "notifying": false, "descriptors": descriptors]
  }

  /// What Core Bluetooth shows of the sensor: neither Generic Access nor Generic Attribute.
  private static let tree: JSON = [
    ["uuid": Sensor.battery, "primary": true, "included": [], "characteristics": [characteristic(Sensor.level, 2)]],
    [
      "uuid": Sensor.service, "primary": true, "included": [Sensor.battery],
      "characteristics": [
        characteristic(Sensor.value, 0x0E),
        characteristic(
          Sensor.notified, 0x12,
          [
            ["uuid": "2902", "value": "NSNumber 0"], ["uuid": "2901", "value": "String Température"],
            ["uuid": "2904", "value": "Data 0efe2f27010000"], ["uuid": Sensor.ownDescriptor, "value": "Data c0ffee"],
          ]),
        characteristic(Sensor.indicated, 0x20, [["uuid": "2902", "value": nil]]),
        characteristic(Sensor.secret, 0x02), characteristic(Sensor.cached, 0x02),
      ],
    ],
  ]

  @Test func whatWasFilteredIsNotDiscovered() async throws {
    try await withSite { site in
      _ = try await site.sensor()
      let central = try await site.app("central")
      try await central.createCentral()
      let peer = try await central.find(Sensor.service)
      try await central.connect(peer)
      central.central("discoverServices", ["peer": peer, "services": [Sensor.service, "1234"]])
      try await central.expect("didDiscoverServices", ["services": [Sensor.service], "error": nil])
      central.central(
        "discoverCharacteristics",
        ["peer": peer, "service": Sensor.service, "characteristics": [Sensor.notified, Sensor.cached]])
      try await central.expect(
        "didDiscoverCharacteristics", ["characteristics": [Sensor.notified, Sensor.cached], "error": nil])
    }
  }

  @Test func aConnectedPeerIsRetrievedAndItsSignalMeasured() async throws {
    try await withSite { site in
      let (_, central, peer) = try await site.meeting()
      central.central("retrieveConnected", ["services": [Sensor.service]])
      try await central.expect("retrieved", ["peers": [peer]])
      central.central("retrieveConnected", ["services": ["1234"]])
      try await central.expect("retrieved", ["peers": []])
      central.central("readRSSI", ["peer": peer])
      let rssi = try await central.expect("didReadRSSI", ["error": nil])
      #expect((-127...20).contains(rssi["rssi"].int ?? 127))
    }
  }

  @Test func afterARestartOfTheCentralsProgramThePeerIsRetrievedByItsIdentifier() async throws {
    try await withSite { site in
      let (_, first, peer) = try await site.meeting()
      first.program.signal(SIGTERM)
      _ = await first.program.waitForExit()
      let second = try await site.app("central")
      try await second.createCentral()
      second.central("retrieve", ["peers": [peer, "00000000-0000-4000-8000-000000000000"]])
      try await second.expect("retrieved", ["peers": [peer]])
      try await second.connect(peer)
      try await second.discover(peer)
      #expect(try await second.read(peer, Sensor.level)["value"] == "62")
    }
  }
}
