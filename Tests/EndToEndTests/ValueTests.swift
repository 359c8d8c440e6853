// SPDX-License-Identifier: Apache-2.0

import TestSupport
import Testing

@Suite(.timeLimit(.minutes(10))) struct ValueTests {
  @Test func valuesAreReadAndWrittenByTheAppAndByTheSystem() async throws {
    try await withSite { site in
      let (sensor, central, peer) = try await site.meeting()
      #expect(try await central.read(peer, Sensor.value)["value"] == "68656c6c6f")
      try await sensor.expect("didReceiveRead", ["characteristic": Sensor.value, "offset": 0])
      #expect(try await central.read(peer, Sensor.cached)["value"] == "050607")
      #expect(try await central.write(peer, Sensor.value, "beef")["error"] == .null)
      let write = try await sensor.expect("didReceiveWrite")
      #expect(write["requests"] == [["characteristic": Sensor.value, "offset": 0, "value": "beef"]])
      #expect(try await central.read(peer, Sensor.value)["value"] == "beef")
      let reads = sensor.program.transcript.all.filter { $0["event"] == "didReceiveRead" }
      #expect(reads.allSatisfy { $0["characteristic"] != Sensor.cached })
    }
  }

  @Test func aValueOf512OctetsIsWrittenAndRead() async throws {
    try await withSite { site in
      let (sensor, central, peer) = try await site.meeting()
      central.central("limits", ["peer": peer])
      let limits = try await central.expect("limits")
      #expect(limits["withResponse"] == 512)
      let long = [UInt8].ofStream(7, length: 512).hex
      #expect(try await central.write(peer, Sensor.value, long)["error"] == .null)
      #expect(try await central.read(peer, Sensor.value)["value"] == .string(long))
      // All parts of the write came at once.
      let write = try await sensor.expect("didReceiveWrite")
      #expect(write["requests"].list.compactMap { $0["value"].string }.joined() == long)
      // One octet more than any attribute has.
      let error = try await central.write(peer, Sensor.value, long + "00")["error"]
      #expect(error["domain"] == "CBATTErrorDomain" && error["code"] == 13, "\(error.text)")
    }
  }

  @Test func twoThousandWritesWithoutResponseArriveOnceEachInOrder() async throws {
    try await withSite { site in
      let (sensor, central, peer) = try await site.meeting()
      let count = 2_000
      central.central(
        "stream", ["peer": peer, "characteristic": Sensor.value, "count": .int(count), "length": 100])
      let sent = try await central.expect("streamed", ["count": .int(count)], limit: 300)
      #expect((sent["waits"].int ?? 0) > 0, "without a wait the flow control was not tried")
      for number in 0..<count {
        let write = try await sensor.expect("didReceiveWrite", limit: 120)
        let value = write["requests"][0]["value"].string
        try #require(value == [UInt8].ofStream(number, length: 100).hex, "write \(number)")
      }
    }
  }

  @Test func aThousandNotificationsArriveOnceEachInOrder() async throws {
    try await withSite { site in
      let (sensor, central, peer) = try await site.meeting()
      try await central.notify(peer, Sensor.notified, true)
      let subscription = try await sensor.expect("didSubscribe", ["characteristic": Sensor.notified])
      let limit = subscription["maximumUpdateValueLength"].int ?? 0
      try #require((20...514).contains(limit))
      let count = 1_000
      sensor.peripheral("stream", ["characteristic": Sensor.notified, "count": .int(count), "length": 20])
      let sent = try await sensor.expect("streamed", ["count": .int(count)], limit: 300)
      #expect((sent["waits"].int ?? 0) > 0, "without a wait the flow control was not tried")
      for number in 0..<count {
        let value = try await central.expect("didUpdateValue", ["error": nil], limit: 120)["value"].string
        try #require(value == [UInt8].ofStream(number, length: 20).hex, "notification \(number)")
      }
      // What is too long is cut.
      sensor.peripheral(
        "update", ["characteristic": Sensor.notified, "value": .string([UInt8].ofStream(1, length: 600).hex)])
      let cut = try await central.expect("didUpdateValue", ["error": nil])["value"].string ?? ""
      #expect(cut == [UInt8].ofStream(1, length: limit).hex)
    }
  }

  @Test func indicationsArriveAndNoneAfterTheSubscriptionHasEnded() async throws {
    try await withSite { site in
      let (sensor, central, peer) = try await site.meeting()
      try await central.notify(peer, Sensor.indicated, true)
      try await sensor.expect("didSubscribe", ["characteristic": Sensor.indicated])
      for value: JSON in ["aa", "bb", "cc"] {
        sensor.peripheral("update", ["characteristic": Sensor.indicated, "value": value])
        try await sensor.expect("updated", ["accepted": true, "subscribers": 1])
        try await central.expect("didUpdateValue", ["characteristic": Sensor.indicated, "value": value])
      }
      try await central.notify(peer, Sensor.indicated, false)
      try await sensor.expect("didUnsubscribe", ["characteristic": Sensor.indicated])
      sensor.peripheral("update", ["characteristic": Sensor.indicated, "value": "dd"])
      try await sensor.expect("updated", ["accepted": true, "subscribers": 0])
      // A read comes after everything that was sent before it.
      #expect(try await central.read(peer, Sensor.cached)["value"] == "050607")
      #expect(central.program.transcript.all.allSatisfy { $0["value"] != "dd" })
    }
  }

  @Test func notificationsAndIndicationsTakeTurns() async throws {
    try await withSite { site in
      let (sensor, central, peer) = try await site.meeting()
      try await central.notify(peer, Sensor.notified, true)
      try await central.notify(peer, Sensor.indicated, true)
      let values = (0..<20).map { [UInt8].ofStream($0, length: 8).hex }
      for (number, value) in values.enumerated() {
        let characteristic = number.isMultiple(of: 2) ? Sensor.notified : Sensor.indicated
        sensor.peripheral("update", ["characteristic": characteristic, "value": .string(value)])
        try await sensor.expect("updated", ["accepted": true])
        try await central.expect("didUpdateValue", ["characteristic": characteristic, "value": .string(value)])
      }
    }
  }

  @Test func errorsOfReadsAndWritesReachTheAppWithTheirCodes() async throws {
    try await withSite { site in
      let (sensor, central, peer) = try await site.meeting()
      #expect(try await central.read(peer, Sensor.secret)["error"]["code"] == 5)
      sensor.peripheral("refuse", ["characteristic": Sensor.value, "code": 0x80])
      let refused = try await central.read(peer, Sensor.value)
      #expect(refused["error"]["domain"] == "CBATTErrorDomain")
      #expect(refused["error"]["code"] == 0x80)
      #expect(refused["value"] == .null)
      #expect(try await central.write(peer, Sensor.value, "00")["error"]["code"] == 0x80)
      // Neither is permitted, so the app is not asked.
      #expect(try await central.write(peer, Sensor.cached, "00")["error"]["code"] == 3)
      #expect(try await central.read(peer, Sensor.indicated)["error"]["code"] == .null)
      sensor.peripheral("refuse", ["characteristic": Sensor.value, "code": 14])
      #expect(try await central.read(peer, Sensor.value)["error"]["code"] == 14)
      // The link has survived all that.
      #expect(try await central.read(peer, Sensor.level)["value"] == "62")
    }
  }

  @Test func aWriteTooLongForOnePacketIsOneCallWithItsParts() async throws {
    try await withSite { site in
      let (sensor, central, peer) = try await site.meeting()
      central.central("limits", ["peer": peer])
      let single = try await central.expect("limits")["withoutResponse"].int ?? 0
      try #require((20..<600).contains(single))
      let long = [UInt8].ofStream(3, length: min(512, single + 1)).hex
      #expect(try await central.write(peer, Sensor.value, long)["error"] == .null)
      let requests = try await sensor.expect("didReceiveWrite")["requests"].list
      var value = ""
      for request in requests {
        #expect(request["characteristic"] == Sensor.value)
        #expect(request["offset"].int == value.utf8.count / 2)
        value += request["value"].string ?? ""
      }
      #expect(value == long)
      #expect(sensor.program.transcript.all.filter { $0["event"] == "didReceiveWrite" }.count == 1)
    }
  }

  @Test func aDescriptorThatTheAppHasMadeIsReadWritingOneNeedsTheRightCall() async throws {
    try await withSite { site in
      let (_, central, peer) = try await site.meeting()
      central.central("discoverDescriptors", ["peer": peer, "characteristic": Sensor.notified])
      try await central.expect("didDiscoverDescriptors", ["error": nil])
      let own: [String: JSON] = ["peer": peer, "characteristic": Sensor.notified, "descriptor": Sensor.ownDescriptor]
      central.central("readDescriptor", own)
      try await central.expect("didUpdateDescriptorValue", ["value": "Data c0ffee", "error": nil])
      central.central("writeDescriptor", own.merging(["value": "00"]) { $1 })
      let refused = try await central.expect("didWriteDescriptorValue", ["descriptor": Sensor.ownDescriptor])
      #expect(refused["error"]["domain"] == "CBATTErrorDomain")
      let cccd: [String: JSON] = ["peer": peer, "characteristic": Sensor.notified, "descriptor": "2902"]
      central.central("writeDescriptor", cccd.merging(["value": "0100"]) { $1 })
      let reserved = try await central.expect("didWriteDescriptorValue", ["descriptor": "2902"])
      #expect(reserved["error"]["domain"] == "CBErrorDomain")
      #expect(reserved["error"]["code"] == 8)
    }
  }
}
