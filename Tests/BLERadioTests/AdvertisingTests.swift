// SPDX-License-Identifier: Apache-2.0

import BLECore
import BLEHCI
import BLERadio
import Testing

@Suite struct AdvertisingTests {
  let world = RadioWorld(seed: 3)
  let recorder = AirRecorder()
  let advertiser: ScriptedHost
  let scanner: ScriptedHost

  init() throws {
    world.observer = recorder
    advertiser = ScriptedHost(world, address: 0xA1)
    scanner = ScriptedHost(world, address: 0xB2)
    try advertiser.start()
    try scanner.start()
  }

  @Test func eventsAreAnIntervalAndUpToTenMillisecondsApart() throws {
    try advertiser.advertise(interval: 0xA0)
    world.simulator.advance(by: .seconds(60))
    let starts = recorder.entries.filter { $0.info.channel == 37 }.map(\.start)
    let gaps = zip(starts, starts.dropFirst()).map { $1 - $0 }
    #expect(gaps.count > 500)
    #expect(gaps.allSatisfy { (100_000_000...110_000_000).contains($0) })
    // The delay spreads over its range.
    #expect((gaps.min() ?? 0) < 101_000_000)
    #expect((gaps.max() ?? 0) > 109_000_000)
    #expect(abs(gaps.reduce(0, +) / Int64(gaps.count) - 105_000_000) < 500_000)
  }

  @Test func eachEventUsesTheChannelsOfTheMapInTurn() throws {
    try advertiser.advertise()
    world.simulator.advance(by: .milliseconds(200))
    let channels = recorder.entries.map(\.info.channel)
    #expect(channels.prefix(6) == [37, 38, 39, 37, 38, 39])
    try advertiser.expect(LESetAdvertisingEnable(enable: false))
    world.simulator.advance(by: .milliseconds(1))
    recorder.entries.removeAll()
    try advertiser.advertise(channels: [.channel38])
    world.simulator.advance(by: .milliseconds(200))
    #expect(recorder.entries.count > 3)
    #expect(recorder.entries.allSatisfy { $0.info.channel == 38 })
  }

  @Test func anAdvertisementIsOnAirForItsLength() throws {
    try advertiser.advertise(data: Array(repeating: 7, count: 31))
    world.simulator.advance(by: .milliseconds(50))
    let first = try #require(recorder.entries.first)
    // Preamble, access address, header, 37 octets, CRC at 8 us an octet.
    #expect(first.end - first.start == (1 + 4 + 2 + 37 + 3) * 8_000)
    #expect(first.pdu.count == 39)
  }

  @Test func theScannerHearsEveryEventOnItsChannel() throws {
    try advertiser.advertise(interval: 0x20)
    try scanner.scan(interval: 0x4000, window: 0x4000)
    world.simulator.advance(by: .seconds(5))
    // One channel for 10.24 s: of each event the packet on that channel.
    #expect(scanner.reports.count == recorder.entries.filter { $0.info.channel == 37 }.count)
    #expect(scanner.reports.count > 150)
  }

  @Test func aClosedWindowHearsNothing() throws {
    try advertiser.advertise(interval: 0x20)
    // 10 ms of every 100 ms.
    try scanner.scan(interval: 0xA0, window: 0x10)
    let start = world.simulator.now.nanoseconds
    world.simulator.advance(by: .seconds(20))
    #expect(scanner.reports.count > 20)
    for entry in scanner.reports {
      let phase = (entry.time.nanoseconds - start) % 100_000_000
      #expect(phase <= 10_500_000)
    }
    let all = recorder.entries.filter { $0.info.channel == 37 }.count
    #expect(scanner.reports.count < all / 3)
  }

  @Test func scanRequestAndResponseFollowAtTIFS() throws {
    try advertiser.advertise(response: [2, 10, 0])
    try scanner.scan(.active)
    world.simulator.advance(by: .milliseconds(100))
    let request = try #require(recorder.entries.firstIndex { $0.type == 3 })
    let packets = recorder.entries[request - 1...request + 1]
    #expect(packets.map(\.type) == [0, 3, 4])
    #expect(Set(packets.map(\.info.channel)).count == 1)
    for (first, second) in zip(packets, packets.dropFirst()) { #expect(second.start - first.end == 150_000) }
    #expect(recorder.entries[request].pdu.count == 14)
  }

  @Test func aPassiveScannerSendsNothing() throws {
    try advertiser.advertise()
    try scanner.scan(.passive)
    world.simulator.advance(by: .seconds(2))
    #expect(recorder.sent(by: scanner.controller.device).isEmpty)
    #expect(scanner.reports.allSatisfy { $0.report.eventType == .connectable })
  }

  @Test func duplicatesAreFilteredUntilScanningStartsAnew() throws {
    try advertiser.advertise(response: [2, 10, 0])
    try scanner.scan(.active, duplicates: true)
    world.simulator.advance(by: .seconds(3))
    #expect(scanner.reports.map(\.report.eventType) == [.connectable, .scanResponse])
    try scanner.expect(LESetScanEnable(enable: false, filterDuplicates: true))
    try scanner.expect(LESetScanEnable(enable: true, filterDuplicates: true))
    world.simulator.advance(by: .seconds(3))
    #expect(scanner.reports.count == 4)
  }

  @Test(arguments: [
    (AdvertisingType.connectable, AdvertisingReportType.connectable, UInt8(0), true),
    (.scannable, .scannable, 6, true), (.nonConnectable, .nonConnectable, 2, false),
  ])
  func undirectedTypes(
    type: AdvertisingType, report: AdvertisingReportType, pduType: UInt8, answersScans: Bool
  ) throws {
    try advertiser.advertise(type, data: [1, 2, 3], response: [4, 5])
    try scanner.scan(.active)
    world.simulator.advance(by: .seconds(1))
    #expect(recorder.sent(by: advertiser.controller.device).first?.type == pduType)
    let kinds = Set(scanner.reports.map(\.report.eventType))
    #expect(kinds == (answersScans ? [report, .scanResponse] : [report]))
    #expect(try scanner.createConnection(to: advertiser.controller.address) == .success)
    world.simulator.advance(by: .seconds(2))
    #expect(scanner.metaEvents(LEConnectionComplete.self).count == (type == .connectable ? 1 : 0))
  }

  @Test func directedAdvertisingConnectsItsTargetOnly() throws {
    let other = ScriptedHost(world, address: 0xC3)
    try other.start()
    try advertiser.advertise(.directedLowDutyCycle, peer: scanner.controller.address)
    #expect(try other.createConnection(to: advertiser.controller.address) == .success)
    try other.scan()
    world.simulator.advance(by: .seconds(2))
    #expect(other.metaEvents(LEConnectionComplete.self).isEmpty)
    // Not reported to whom it is not for.
    #expect(other.reports.isEmpty)
    try scanner.scan()
    world.simulator.advance(by: .milliseconds(100))
    #expect(scanner.reports.first?.report.eventType == .directed)
    #expect(scanner.reports.first?.report.data == [])
    #expect(try scanner.createConnection(to: advertiser.controller.address) == .success)
    world.simulator.advance(by: .seconds(1))
    #expect(scanner.metaEvents(LEConnectionComplete.self).count == 1)
    #expect(advertiser.metaEvents(LEConnectionComplete.self).count == 1)
  }

  @Test func highDutyCycleDirectedAdvertisingEndsAfter1280Milliseconds() throws {
    let start = world.simulator.now
    try advertiser.advertise(.directedHighDutyCycle, peer: BDAddress(0xDD))
    world.simulator.advance(by: .seconds(3))
    let complete = try #require(advertiser.metaEvents(LEConnectionComplete.self).first)
    #expect(complete.event.status == .advertisingTimeout)
    #expect(complete.event.role == .peripheral)
    #expect(complete.time - start >= .microseconds(1_280_000))
    #expect(complete.time - start < .microseconds(1_284_000))
    let starts = recorder.entries.filter { $0.info.channel == 37 }.map(\.start)
    #expect(zip(starts, starts.dropFirst()).allSatisfy { $1 - $0 <= 3_750_000 })
    #expect(starts.count > 300)
    // It has ended, so it may start again.
    try advertiser.expect(LESetAdvertisingEnable(enable: true))
  }

  @Test func anAdvertiserAnswersWhomItsPolicyAllows() throws {
    let other = ScriptedHost(world, address: 0xC3)
    try other.start()
    try advertiser.expect(
      LEAddDeviceToFilterAcceptList(addressType: .publicDevice, address: other.controller.address))
    try advertiser.advertise(response: [1], policy: .acceptList)
    try scanner.scan(.active)
    world.simulator.advance(by: .seconds(2))
    #expect(scanner.reports.contains { $0.report.eventType == .connectable })
    #expect(!scanner.reports.contains { $0.report.eventType == .scanResponse })
    #expect(try scanner.createConnection(to: advertiser.controller.address) == .success)
    world.simulator.advance(by: .seconds(2))
    // The initiator believes it is connected until six intervals have passed in silence.
    #expect(scanner.events(DisconnectionComplete.self).first?.event.reason == .connectionFailedToBeEstablished)
    #expect(advertiser.metaEvents(LEConnectionComplete.self).isEmpty)
    #expect(try other.createConnection(to: advertiser.controller.address) == .success)
    world.simulator.advance(by: .seconds(2))
    #expect(advertiser.metaEvents(LEConnectionComplete.self).count == 1)
    // In use while advertising; not any more.
    try advertiser.expect(LEClearFilterAcceptList())
  }

  @Test func aScannerReportsWhomItsPolicyAllows() throws {
    let other = ScriptedHost(world, address: 0xC3)
    try other.start()
    try other.advertise()
    try advertiser.advertise()
    try scanner.expect(LEAddDeviceToFilterAcceptList(addressType: .publicDevice, address: other.controller.address))
    try scanner.scan(.active, policy: .acceptList)
    #expect(try scanner.call(LEClearFilterAcceptList()).status == .commandDisallowed)
    world.simulator.advance(by: .seconds(2))
    #expect(scanner.reports.count > 10)
    #expect(scanner.reports.allSatisfy { $0.report.address == other.controller.address })
  }

  @Test func initiatingByTheAcceptListTakesWhoComes() throws {
    for address: UInt64 in [0x77, 0xA1] {
      try scanner.expect(LEAddDeviceToFilterAcceptList(addressType: .publicDevice, address: BDAddress(address)))
    }
    #expect(try scanner.createConnection(to: nil) == .success)
    world.simulator.advance(by: .seconds(2))
    #expect(scanner.metaEvents(LEConnectionComplete.self).isEmpty)
    try advertiser.advertise()
    world.simulator.advance(by: .seconds(1))
    #expect(scanner.metaEvents(LEConnectionComplete.self).first?.event.peerAddress == BDAddress(0xA1))
  }

  @Test func aCancelledConnectionIsReportedOnce() throws {
    #expect(try scanner.createConnection(to: BDAddress(0x99)) == .success)
    #expect(try scanner.createConnection(to: BDAddress(0x98)) == .commandDisallowed)
    world.simulator.advance(by: .seconds(1))
    try scanner.expect(LECreateConnectionCancel())
    let complete = scanner.metaEvents(LEConnectionComplete.self).map(\.event.status)
    #expect(complete == [.unknownConnectionIdentifier])
    #expect(try scanner.call(LECreateConnectionCancel()).status == .commandDisallowed)
    world.simulator.advance(by: .seconds(1))
    #expect(scanner.metaEvents(LEConnectionComplete.self).count == 1)
  }

  @Test func scanningGoesOnWhileInitiating() throws {
    let other = ScriptedHost(world, address: 0xC3)
    try other.start()
    try other.advertise()
    try scanner.scan(interval: 0x140, window: 0x20)
    #expect(try scanner.createConnection(to: advertiser.controller.address) == .success)
    world.simulator.advance(by: .seconds(2))
    // The initiator listens all the time, so the scanner hears all.
    #expect(scanner.reports.count > 40)
    try advertiser.advertise()
    world.simulator.advance(by: .seconds(1))
    #expect(scanner.metaEvents(LEConnectionComplete.self).count == 1)
    scanner.forget()
    world.simulator.advance(by: .seconds(5))
    // Now it listens in its own windows, a tenth of the time.
    #expect((3...40).contains(scanner.reports.count))
  }

  @Test func connectIndFollowsAtTIFSAndTheFirstAnchorInItsWindow() throws {
    try advertiser.advertise()
    #expect(try scanner.createConnection(to: advertiser.controller.address) == .success)
    world.simulator.advance(by: .milliseconds(200))
    let index = try #require(recorder.entries.firstIndex { $0.type == 5 && $0.isAdvertising })
    #expect(recorder.entries[index].start - recorder.entries[index - 1].end == 150_000)
    #expect(recorder.entries[index].pdu.count == 36)
    let first = try #require(recorder.data.first)
    #expect(first.start - recorder.entries[index].end == 1_250_000)
    #expect(recorder.entries.filter { $0.isAdvertising && $0.start > first.start }.isEmpty)
  }

  @Test func lossesHideAdvertisementsInProportion() throws {
    world.loss = 0.3
    try advertiser.advertise()
    try scanner.scan(interval: 0x4000, window: 0x4000)
    world.simulator.advance(by: .seconds(60))
    let sent = recorder.entries.filter { $0.info.channel >= 37 }
    let heardable = sent.count / 3
    let ratio = Double(scanner.reports.count) / Double(heardable)
    #expect(abs(ratio - 0.7) < 0.05)
  }

  @Test func aCutPairHearsNothingUntilItIsRestored() throws {
    try advertiser.advertise()
    try scanner.scan()
    world.setCut(true, between: scanner.controller.device, and: advertiser.controller.device)
    world.simulator.advance(by: .seconds(2))
    #expect(scanner.reports.isEmpty)
    world.setCut(false, between: advertiser.controller.device, and: scanner.controller.device)
    world.setRSSI(-75, between: advertiser.controller.device, and: scanner.controller.device)
    world.simulator.advance(by: .seconds(2))
    #expect(scanner.reports.count > 10)
    #expect(scanner.reports.allSatisfy { $0.report.rssi == -75 })
    scanner.forget()
    world.setIsolated(true, scanner.controller.device)
    world.simulator.advance(by: .seconds(2))
    #expect(scanner.reports.isEmpty)
  }

  /// Their requests collide until the backoff parts them. It favours the one that is lucky first: as long as both hear all
  /// the same, the other one gets through rarely.
  @Test func twoActiveScannersBothGetTheirResponses() throws {
    let other = ScriptedHost(world, address: 0xC3)
    try other.start()
    try advertiser.advertise(response: [1, 2])
    try scanner.scan(.active)
    try other.scan(.active)
    world.simulator.advance(by: .seconds(60))
    let counts = [scanner, other].map { host in
      host.reports.filter { $0.report.eventType == .scanResponse }.count
    }
    #expect((counts.min() ?? 0) >= 3)
    #expect(counts.reduce(0, +) > 1_000)
    let requests = recorder.entries.filter { $0.type == 3 }
    #expect(requests.count - Set(requests.map(\.start)).count > 5)
  }
}
