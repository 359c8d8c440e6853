// SPDX-License-Identifier: Apache-2.0

import CoreBluetooth
import CoreBluetoothTesting
import Foundation
import Testing

@MainActor @Suite struct TimelineTests {
  private func world() async throws -> (VirtualRadio, VirtualDevice) {
    let world = try await VirtualRadio(seed: 4)
    let sensor = try world.place(profileFile: heartRateSensor, named: "sensor")
    let phone = world.device("phone")
    let app = phone.run { HeartRateApp() }
    try await world.run(until: { app.beats.count == 2 })
    world.cutLink(between: phone, and: sensor)
    try await world.run(until: { app.losses == 1 })
    return (world, phone)
  }

  @Test func oneListWithOneTime() async throws {
    let (world, phone) = try await world()
    let entries = world.timeline.entries
    #expect(zip(entries, entries.dropFirst()).allSatisfy { $0.time <= $1.time })
    for kind in [Timeline.Entry.Kind.call, .callback, .att, .hci, .air, .fault] {
      #expect(entries.contains { $0.kind == kind }, "\(kind)")
    }
    let names = world.timeline.entries(.callback, of: phone).map(\.name)
    let order = ["didUpdateState", "didDiscover", "didConnect", "didDiscoverServices", "didDisconnectPeripheral"]
    let firsts = order.map { names.firstIndex(of: $0) ?? -1 }
    #expect(firsts == firsts.sorted() && firsts[0] == 0, "\(names)")
    // Each value once over HCI, and at the app at that very time.
    let notifications = world.timeline.entries(.att, of: phone, named: "Handle Value Notification")
    let values = world.timeline.entries(.callback, of: phone, named: "didUpdateValue")
    #expect(notifications.count == 2 && notifications.map(\.time) == values.map(\.time))
  }

  @Test func linesOfJSON() async throws {
    let (world, _) = try await world()
    let lines = world.timeline.jsonLines.split(separator: "\n")
    #expect(lines.count == world.timeline.entries.count)
    struct Line: Decodable {
      var time: Double
      var device: String
      var kind: String
      var name: String
    }
    let decoded = try lines.map { try JSONDecoder().decode(Line.self, from: Data($0.utf8)) }
    #expect(decoded.contains { $0.kind == "fault" && $0.name == "nothing passes between phone and sensor" })
    #expect(
      decoded.contains { $0.kind == "callback" && $0.name == "didConnect" && $0.device == "phone" && $0.time > 0 })
  }

  @Test func capturesAreTheSameInEachRun() async throws {
    let (first, phone) = try await world()
    let capture = first.timeline.hciCapture(of: phone)
    #expect(capture.starts(with: Data("btsnoop\0".utf8)) && capture.count > 1000)
    let air = first.timeline.airCapture()
    #expect(air.starts(with: [0x4D, 0x3C, 0xB2, 0xA1]) && air.count > 10_000)
    // Of one clock, and in order: seconds and nanoseconds of each record, after the file's 24 octets.
    var times: [UInt64] = []
    var position = 24
    while position < air.count {
      let field = { (offset: Int) in
        (0..<4).reduce(UInt64(0)) { $0 | UInt64(air[position + offset + $1]) << (8 * UInt64($1)) }
      }
      times.append(field(0) * 1_000_000_000 + field(4))
      position += 16 + Int(field(8))
    }
    #expect(times == times.sorted() && times.first.map { $0 / 1_000_000_000 } == 1_767_225_600)
    let (second, again) = try await world()
    #expect(second.timeline.hciCapture(of: again) == capture)
    #expect(second.timeline.airCapture() == air)
    let (here, there) = (first.timeline.entries.map(\.json), second.timeline.entries.map(\.json))
    let difference = zip(here, there).first { $0 != $1 }
    #expect(difference == nil && here.count == there.count, "\(String(describing: difference))")
  }

  @Test func recordsWhatIsWanted() async throws {
    let world = try await VirtualRadio(recording: .apps)
    try world.place(profileFile: heartRateSensor)
    let app = world.device("phone").run { HeartRateApp() }
    try await world.run(until: { app.isSubscribed })
    #expect(Set(world.timeline.entries.map(\.kind)) == [.call, .callback])
  }
}
