// SPDX-License-Identifier: Apache-2.0

import BLECore
import BLEHCI
import Testing

@testable import BLERadio

@Suite struct ExtendedAdvertisingTests {
  let world = RadioWorld(seed: 21)
  let recorder = AirRecorder()
  let advertiser: ScriptedHost
  let scanner: ScriptedHost

  init() throws {
    world.observer = recorder
    advertiser = ScriptedHost(world, address: 0xA1)
    scanner = ScriptedHost(world, address: 0xB2)
    try advertiser.start()
    try scanner.start()
    for host in [advertiser, scanner] { try host.expect(LESetEventMask(leEventMask: .max)) }
  }

  private func payload(_ entry: AirRecorder.Entry) throws -> ExtendedAdvertisingPayload {
    try ExtendedAdvertisingPayload.decode(Array(entry.pdu.dropFirst(2)))
  }

  private func connections(_ host: ScriptedHost) -> [LEEnhancedConnectionComplete] {
    host.metaEvents(LEEnhancedConnectionComplete.self).map(\.event)
  }

  // MARK: - On air

  @Test func anEventIsThreePointersAndWhatTheyPointTo() throws {
    let data: [UInt8] = [4, 0xFF, 1, 2, 3]
    try advertiser.advertiseExtended(data: data, sid: 5)
    try scanner.scanExtended()
    world.simulator.advance(by: .milliseconds(500))
    let first = Array(recorder.entries.prefix(4))
    #expect(first.map(\.info.channel).prefix(3) == [37, 38, 39])
    #expect(first[3].info.channel < 37)
    #expect(first.allSatisfy { $0.type == 7 && $0.isAdvertising })
    for entry in first.prefix(3) {
      let pointer = try #require(try payload(entry).auxPtr)
      let offset = first[3].start - entry.start
      #expect(pointer.channel == first[3].info.channel)
      #expect((pointer.offset.nanoseconds..<(pointer.offset + pointer.unit).nanoseconds).contains(offset))
    }
    #expect(first[3].start - first[2].end >= 300_000)
    let auxiliary = try payload(first[3])
    #expect(auxiliary.advA == advertiser.controller.address)
    #expect(auxiliary.data == data)
    #expect(auxiliary.adi == (try payload(first[0])).adi)
    let report = try #require(scanner.extendedReports.first).report
    #expect(report.eventType == [])
    #expect(report.data == data)
    #expect(report.address == advertiser.controller.address && report.addressType == .publicDevice)
    #expect(report.primaryPHY == .le1M && report.secondaryPHY == .le1M)
    #expect(report.advertisingSID == 5)
    #expect(report.rssi == -60)
    #expect(scanner.extendedReports.count > 5)
    // Auxiliary packets use all data channels in time.
    world.simulator.advance(by: .seconds(20))
    #expect(Set(recorder.entries.map(\.info.channel)).count > 35)
  }

  @Test func withoutDataNothingIsBehindIt() throws {
    try advertiser.advertiseExtended([.includeTxPower])
    try scanner.scanExtended()
    world.simulator.advance(by: .seconds(1))
    #expect(recorder.entries.allSatisfy { $0.info.channel >= 37 })
    let report = try #require(scanner.extendedReports.first).report
    #expect(report.secondaryPHY == .none)
    #expect(report.txPower == 0)
    #expect(report.data == [])
    #expect(report.address == advertiser.controller.address)
  }

  @Test(arguments: [245, 246, 500, 1_650])
  func longDataComesInChains(count: Int) throws {
    let data = (0..<count).map { UInt8(truncatingIfNeeded: $0 * 7) }
    try advertiser.advertiseExtended(data: data)
    try scanner.scanExtended(interval: 0x4000, window: 0x4000)
    world.simulator.advance(by: .seconds(2))
    #expect(scanner.wholeData.count > 20)
    #expect(scanner.wholeData.allSatisfy { $0 == data })
    #expect(scanner.extendedReports.allSatisfy { $0.report.data.count <= 229 })
    let auxiliary = recorder.entries.filter { $0.info.channel < 37 }
    #expect(zip(auxiliary, auxiliary.dropFirst()).allSatisfy { $1.start - $0.end >= 300_000 })
    let perEvent = 1 + (count > 245 ? (count - 242 + 249) / 248 : 0)
    let events = recorder.entries.filter { $0.info.channel == 37 }.count
    #expect((auxiliary.count - events * perEvent).magnitude <= perEvent)
  }

  @Test(arguments: [
    (PHY.le1M, PHY.le2M), (.le1M, .leCoded), (.leCoded, .leCoded), (.leCoded, .le1M), (.leCoded, .le2M),
  ])
  func physOfBothKindsOfChannels(primary: PHY, secondary: PHY) throws {
    let data = Array(repeating: UInt8(9), count: 300)
    try advertiser.advertiseExtended(data: data, primary: primary, secondary: secondary, sid: 3)
    try scanner.scanExtended(phys: [.le1M, .leCoded])
    world.simulator.advance(by: .seconds(3))
    #expect(scanner.wholeData.count > 5)
    #expect(scanner.wholeData.allSatisfy { $0 == data })
    #expect(
      scanner.extendedReports.allSatisfy { $0.report.primaryPHY == primary && $0.report.secondaryPHY == secondary })
    for entry in recorder.entries {
      #expect(entry.info.phy.rawValue == (entry.info.channel >= 37 ? primary : secondary).rawValue)
      let time = entry.info.phy.airTime(payloadCount: entry.pdu.count - 2, coding: entry.info.coding)
      #expect(entry.end - entry.start == time.nanoseconds)
    }
    // Who scans on the other primary PHY hears nothing.
    scanner.forget()
    try scanner.stopScanExtended()
    try scanner.scanExtended(phys: primary == .le1M ? .leCoded : .le1M)
    world.simulator.advance(by: .seconds(1))
    #expect(scanner.extendedReports.isEmpty)
  }

  @Test func anonymousAdvertisersHaveNoAddress() throws {
    try advertiser.advertiseExtended(.anonymous, data: [1, 2, 3])
    try scanner.scanExtended()
    world.simulator.advance(by: .seconds(1))
    let report = try #require(scanner.extendedReports.first).report
    #expect(report.addressType == .anonymous)
    #expect(report.address == .zero)
    #expect(report.data == [1, 2, 3])
    #expect(try recorder.entries.allSatisfy { try payload($0).advA == nil })
    // The accept list knows nobody, and everybody without a name.
    try scanner.stopScanExtended()
    scanner.forget()
    try scanner.scanExtended(policy: .acceptList)
    world.simulator.advance(by: .seconds(1))
    #expect(scanner.extendedReports.isEmpty)
    try scanner.stopScanExtended()
    try scanner.expect(LEAddDeviceToFilterAcceptList(addressType: .anonymous, address: .zero))
    try scanner.scanExtended(policy: .acceptList)
    world.simulator.advance(by: .seconds(1))
    #expect(!scanner.extendedReports.isEmpty)
  }

  // MARK: - Scan requests

  @Test(arguments: [10, 600])
  func scanResponsesFollowOnDataChannels(count: Int) throws {
    let response = (0..<count).map { UInt8(truncatingIfNeeded: $0) }
    try advertiser.advertiseExtended(.scannable, response: response, secondary: .le2M, sid: 7, notifies: true)
    try scanner.scanExtended(.active)
    world.simulator.advance(by: .seconds(1))
    let request = try #require(recorder.entries.firstIndex { $0.type == 3 })
    let exchange = recorder.entries[request - 1...request + 1]
    #expect(exchange.map(\.type) == [7, 3, 7])
    #expect(Set(exchange.map(\.info.channel)).count == 1 && exchange.allSatisfy { $0.info.phy == .le2M })
    for (one, next) in zip(exchange, exchange.dropFirst()) { #expect(next.start - one.end == 150_000) }
    let reports = scanner.extendedReports.map(\.report)
    #expect(reports.contains { $0.eventType == .scannable && $0.data.isEmpty && $0.advertisingSID == 7 })
    let responses = scanner.wholeData.filter { !$0.isEmpty }
    #expect(responses.count > 3)
    #expect(responses.allSatisfy { $0 == response })
    #expect(
      reports.filter { !$0.data.isEmpty }.allSatisfy { $0.eventType.isSuperset(of: [.scannable, .scanResponse]) })
    let received = advertiser.metaEvents(LEScanRequestReceived.self).map(\.event)
    #expect(received.count >= responses.count)
    #expect(received.allSatisfy { $0.scannerAddress == scanner.controller.address && $0.advertisingHandle == 0 })
  }

  @Test func aPassiveScannerSendsNothing() throws {
    try advertiser.advertiseExtended(.scannable, response: [1])
    try scanner.scanExtended(.passive)
    world.simulator.advance(by: .seconds(1))
    #expect(recorder.sent(by: scanner.controller.device).isEmpty)
    #expect(!scanner.extendedReports.isEmpty)
  }

  // MARK: - Connections

  @Test(arguments: [PHY.le1M, .le2M, .leCoded])
  func connectRequestsAreAnsweredAndTheLinkBegins(secondary: PHY) throws {
    try advertiser.advertiseExtended(.connectable, data: [1, 2], secondary: secondary)
    #expect(try scanner.connectExtended(to: advertiser.publicAddress, phys: [.le1M, .le2M, .leCoded]) == .success)
    world.simulator.advance(by: .seconds(1))
    let request = try #require(recorder.entries.firstIndex { $0.type == 5 && $0.isAdvertising })
    let exchange = recorder.entries[request - 1...request + 1]
    #expect(exchange.map(\.type) == [7, 5, 8])
    for (one, next) in zip(exchange, exchange.dropFirst()) { #expect(next.start - one.end == 150_000) }
    let first = try #require(recorder.data.first)
    let delay: Int64 = secondary == .leCoded ? 3_750_000 : 2_500_000
    #expect((first.start - recorder.entries[request].end - delay).magnitude < 2_000)
    #expect(first.info.phy.rawValue == secondary.rawValue)
    let (atCentral, atPeripheral) = (
      try #require(connections(scanner).first), try #require(connections(advertiser).first)
    )
    #expect(atCentral.status == .success && atCentral.role == .central)
    #expect(atCentral.peerAddress == advertiser.controller.address)
    #expect(atPeripheral.role == .peripheral && atPeripheral.peerAddress == scanner.controller.address)
    for host in [scanner, advertiser] {
      let algorithms = host.metaEvents(LEChannelSelectionAlgorithm.self).map(\.event.channelSelectionAlgorithm)
      #expect(algorithms == [.algorithm2])
    }
    let terminated = try #require(advertiser.metaEvents(LEAdvertisingSetTerminated.self).first).event
    #expect(terminated.status == .success && terminated.advertisingHandle == 0)
    #expect(terminated.connectionHandle == atPeripheral.connectionHandle)
    // Data passes both ways, and the link lives.
    scanner.sendData(atCentral.connectionHandle, [1, 0, 4, 0, 9])
    advertiser.sendData(atPeripheral.connectionHandle, [1, 0, 4, 0, 8])
    world.simulator.advance(by: .seconds(5))
    #expect(advertiser.data == [[1, 0, 4, 0, 9]])
    #expect(scanner.data == [[1, 0, 4, 0, 8]])
    #expect(scanner.events(DisconnectionComplete.self).isEmpty)
    let phy = try scanner.call(LEReadPHY(connectionHandle: atCentral.connectionHandle))
    #expect(phy.txPHY == secondary && phy.rxPHY == secondary)
    // The set is off, and may be switched on again.
    #expect(try advertiser.makeSet(0, .connectable) == .success)
    #expect(try advertiser.enable() == .success)
  }

  @Test func directedSetsConnectTheirTargetOnly() throws {
    let other = ScriptedHost(world, address: 0xC3)
    try other.start()
    try advertiser.advertiseExtended([.connectable, .directed], peer: scanner.publicAddress)
    #expect(try other.connectExtended(to: advertiser.publicAddress) == .success)
    try other.scanExtended()
    world.simulator.advance(by: .seconds(1))
    #expect(other.metaEvents(LEConnectionComplete.self).isEmpty && other.extendedReports.isEmpty)
    try scanner.scanExtended()
    world.simulator.advance(by: .milliseconds(300))
    let report = try #require(scanner.extendedReports.first).report
    #expect(report.eventType == [.connectable, .directed])
    #expect(report.directAddress == scanner.controller.address)
    #expect(try scanner.connectExtended(to: advertiser.publicAddress) == .success)
    world.simulator.advance(by: .seconds(1))
    #expect(connections(scanner).count == 1)
  }

  @Test func extendedInitiatorsTakeLegacyAdvertisersToo() throws {
    try advertiser.advertise()
    try scanner.expect(
      LEAddDeviceToFilterAcceptList(addressType: .publicDevice, address: advertiser.controller.address))
    #expect(try scanner.connectExtended(to: nil, phys: [.le1M, .leCoded]) == .success)
    #expect(try scanner.connectExtended(to: nil) == .commandDisallowed)
    world.simulator.advance(by: .seconds(1))
    #expect(connections(scanner).map(\.status) == [.success])
    #expect(try scanner.connectExtended(to: DeviceAddress(BDAddress(0x99), type: .publicDevice)) == .success)
    world.simulator.advance(by: .seconds(1))
    try scanner.expect(LECreateConnectionCancel())
    #expect(connections(scanner).last?.status == .unknownConnectionIdentifier)
  }

  // MARK: - Legacy PDUs

  @Test func setsSendLegacyPDUs() throws {
    #expect(try advertiser.makeSet(3, [.legacy, .connectable, .scannable]) == .success)
    #expect(
      try advertiser.setPart(Array(repeating: 1, count: 32), .complete, handle: 3) == .invalidHCICommandParameters)
    #expect(try advertiser.setPart([1], .firstFragment, handle: 3) == .invalidHCICommandParameters)
    try advertiser.setData([2, 1, 6], handle: 3)
    try advertiser.setData([1, 9], handle: 3, isResponse: true)
    #expect(try advertiser.enable([3]) == .success)
    let old = ScriptedHost(world, address: 0xC3)
    try old.start()
    try old.scan(.active)
    world.simulator.advance(by: .seconds(1))
    #expect(Set(old.reports.map(\.report.eventType)) == [.connectable, .scanResponse])
    try old.expect(LESetScanEnable(enable: false, filterDuplicates: false))
    try scanner.scanExtended(.active)
    world.simulator.advance(by: .seconds(1))
    let reports = scanner.extendedReports.map(\.report)
    #expect(Set(reports.map(\.eventType.rawValue)) == [0x13, 0x1B])
    #expect(reports.allSatisfy { $0.secondaryPHY == .none && $0.advertisingSID == 0xFF && $0.txPower == 127 })
    #expect(reports.contains { $0.data == [1, 9] } && reports.contains { $0.data == [2, 1, 6] })
    #expect(recorder.entries.allSatisfy { $0.type != 7 })
    // Its requests would collide with the other's.
    try scanner.stopScanExtended()
    #expect(try old.createConnection(to: advertiser.controller.address) == .success)
    world.simulator.advance(by: .seconds(1))
    #expect(old.metaEvents(LEConnectionComplete.self).count == 1)
    #expect(advertiser.metaEvents(LEAdvertisingSetTerminated.self).first?.event.advertisingHandle == 3)
  }

  @Test func oldScannersDoNotHearExtendedPDUs() throws {
    try advertiser.advertiseExtended(.connectable, data: [1])
    try scanner.scan()
    #expect(try scanner.createConnection(to: advertiser.controller.address) == .success)
    world.simulator.advance(by: .seconds(2))
    #expect(scanner.reports.isEmpty && scanner.extendedReports.isEmpty)
    #expect(connections(scanner).isEmpty)
  }

  // MARK: - Duration, events, sets

  @Test func setsEndByThemselves() throws {
    for handle in [UInt8(0), 1, 2] { #expect(try advertiser.makeSet(handle, .legacy) == .success) }
    let start = world.simulator.now
    #expect(try advertiser.enable([0], duration: 50) == .success)
    #expect(try advertiser.enable([1], events: 7) == .success)
    #expect(try advertiser.enable([2]) == .success)
    world.simulator.advance(by: .seconds(3))
    let ends = advertiser.metaEvents(LEAdvertisingSetTerminated.self)
    #expect(Set(ends.map(\.event.advertisingHandle)) == [0, 1])
    let timed = try #require(ends.first { $0.event.advertisingHandle == 0 })
    #expect(timed.event.status == .advertisingTimeout)
    #expect((timed.time - start) == .milliseconds(500))
    #expect((8...13).contains(timed.event.numCompletedEvents))
    let counted = try #require(ends.first { $0.event.advertisingHandle == 1 }).event
    #expect(counted.status == .limitReached && counted.numCompletedEvents == 7)
    #expect(recorder.entries.last.map { (world.simulator.now.nanoseconds - $0.end) < 60_000_000 } ?? false)
  }

  @Test func highDutyCycleSetsNeedAnEnd() throws {
    let properties: AdvertisingEventProperties = [.legacy, .connectable, .directed, .highDutyCycleDirected]
    #expect(try advertiser.makeSet(0, properties, interval: 0, peer: scanner.publicAddress) == .success)
    #expect(try advertiser.enable() == .invalidHCICommandParameters)
    #expect(try advertiser.enable(duration: 129) == .invalidHCICommandParameters)
    #expect(try advertiser.enable(duration: 100) == .success)
    world.simulator.advance(by: .seconds(2))
    #expect(advertiser.metaEvents(LEAdvertisingSetTerminated.self).map(\.event.status) == [.advertisingTimeout])
    #expect(connections(advertiser).isEmpty)
    #expect(recorder.entries.filter { $0.info.channel == 37 }.count > 260)
  }

  @Test func setsHaveTheirOwnAddressesAndData() throws {
    let addresses = (0..<4).map { BDAddress(0xC000_0000_0000 + UInt64($0)) }
    for handle in UInt8(0)..<4 {
      #expect(try advertiser.makeSet(handle, own: .random, sid: handle) == .success)
      #expect(try advertiser.enable([handle]) == .invalidHCICommandParameters)
      try advertiser.expect(
        LESetAdvertisingSetRandomAddress(advertisingHandle: handle, randomAddress: addresses[Int(handle)]))
      try advertiser.setData([handle, 1], handle: handle)
    }
    #expect(try advertiser.enable([0, 1, 2, 3]) == .success)
    try scanner.scanExtended()
    world.simulator.advance(by: .seconds(3))
    for handle in UInt8(0)..<4 {
      let own = scanner.extendedReports.filter { $0.report.advertisingSID == handle }
      #expect(own.count > 5)
      #expect(own.allSatisfy { $0.report.address == addresses[Int(handle)] && $0.report.data == [handle, 1] })
    }
    // No two packets of one device at once.
    let sent = recorder.sent(by: advertiser.controller.device)
    #expect(zip(sent, sent.dropFirst()).allSatisfy { $0.end <= $1.start })
    #expect(try advertiser.call(LERemoveAdvertisingSet(advertisingHandle: 1)).status == .commandDisallowed)
    #expect(try advertiser.call(LEClearAdvertisingSets()).status == .commandDisallowed)
    #expect(try advertiser.enable([1], false) == .success)
    try advertiser.expect(LERemoveAdvertisingSet(advertisingHandle: 1))
    #expect(try advertiser.enable([1]) == .unknownAdvertisingIdentifier)
    #expect(try advertiser.enable([], false) == .success)
    recorder.entries.removeAll()
    world.simulator.advance(by: .seconds(1))
    #expect(recorder.entries.isEmpty)
    try advertiser.expect(LEClearAdvertisingSets())
    #expect(try advertiser.enable([0]) == .unknownAdvertisingIdentifier)
  }

  @Test func reducedPowerIsHeardWeaker() throws {
    world.setPosition(Position(x: 0, y: 0), of: advertiser.controller.device)
    world.setPosition(Position(x: 10, y: 0), of: scanner.controller.device)
    let parameters = LESetExtendedAdvertisingParameters(
      advertisingHandle: 0, advertisingEventProperties: .includeTxPower,
      primaryAdvertisingIntervalMin: AdvertisingInterval(rawValue: 0x40),
      primaryAdvertisingIntervalMax: AdvertisingInterval(rawValue: 0x40), primaryAdvertisingChannelMap: .all,
      ownAddressType: .publicDevice, peerAddressType: .publicDevice, peerAddress: .zero, advertisingFilterPolicy: .all,
      advertisingTxPower: -20, primaryAdvertisingPHY: .le1M, secondaryAdvertisingMaxSkip: 0,
      secondaryAdvertisingPHY: .le1M, advertisingSID: 0, scanRequestNotificationEnable: false)
    #expect(try advertiser.call(parameters).selectedTxPower == -20)
    #expect(try advertiser.enable() == .success)
    try scanner.scanExtended()
    world.simulator.advance(by: .seconds(1))
    #expect(!scanner.extendedReports.isEmpty)
    #expect(scanner.extendedReports.allSatisfy { $0.report.rssi == -80 && $0.report.txPower == -20 })
  }

  // MARK: - Scanning

  @Test func scanningEndsAfterItsDuration() throws {
    try advertiser.advertiseExtended(data: [1])
    let start = world.simulator.now
    try scanner.scanExtended(duration: 60)
    world.simulator.advance(by: .seconds(3))
    let ends = scanner.metaEvents(LEScanTimeout.self)
    #expect(ends.count == 1)
    #expect(ends.first.map { $0.time - start } == .milliseconds(600))
    #expect(scanner.extendedReports.allSatisfy { $0.time - start <= .milliseconds(610) })
    try scanner.scanExtended(duration: 60)
  }

  @Test func periodicScanningPausesAndForgets() throws {
    try advertiser.advertiseExtended(data: [1])
    let start = world.simulator.now
    // 0.3 s of every 1.28 s.
    try scanner.scanExtended(duplicates: .resetEachPeriod, duration: 30, period: 1)
    world.simulator.advance(by: .milliseconds(6_300))
    #expect(scanner.metaEvents(LEScanTimeout.self).isEmpty)
    let periods = scanner.extendedReports.map { ($0.time - start).nanoseconds / 1_280_000_000 }
    #expect(periods == [0, 1, 2, 3, 4])
    #expect(scanner.extendedReports.allSatisfy { ($0.time - start).nanoseconds % 1_280_000_000 < 320_000_000 })
  }

  @Test func newDataIsNoDuplicate() throws {
    try advertiser.advertiseExtended(data: [1])
    try scanner.scanExtended(duplicates: .on)
    world.simulator.advance(by: .seconds(1))
    #expect(scanner.wholeData == [[1]])
    try advertiser.setData([2])
    world.simulator.advance(by: .seconds(1))
    #expect(scanner.wholeData == [[1], [2]])
    #expect(try advertiser.setPart([], .unchanged) == .success)
    world.simulator.advance(by: .seconds(1))
    #expect(scanner.wholeData == [[1], [2], [2]])
  }

  @Test func brokenChainsAreSaidToBeTruncated() throws {
    let data = (0..<1_000).map { UInt8(truncatingIfNeeded: $0) }
    try advertiser.advertiseExtended(data: data)
    try scanner.scanExtended(interval: 0x4000, window: 0x4000)
    world.loss = 0.2
    world.simulator.advance(by: .seconds(30))
    let states = scanner.extendedReports.map(\.report.eventType.dataStatus)
    #expect(states.filter { $0 == .truncated }.count > 20)
    #expect(scanner.wholeData.count > 20)
    #expect(scanner.wholeData.allSatisfy { $0 == data })
  }

  @Test func advertisersAndScannersLiveBesideConnections() throws {
    let pair = try Pair(world)
    for host in [pair.central, pair.peripheral] {
      try host.expect(Reset())
    }
    let (central, peripheral) = (pair.central, pair.peripheral)
    for host in [central, peripheral] {
      try host.expect(SetEventMask(eventMask: .max))
      try host.expect(LESetEventMask(leEventMask: .max))
    }
    try peripheral.advertiseExtended(.connectable)
    #expect(try central.connectExtended(to: peripheral.publicAddress) == .success)
    world.simulator.advance(by: .seconds(1))
    #expect(central.controller.connections.count == 1)
    let data = Array(repeating: UInt8(3), count: 700)
    try peripheral.advertiseExtended(data: data)
    try scanner.scanExtended()
    try central.scanExtended()
    world.simulator.advance(by: .seconds(10))
    #expect(scanner.wholeData.count > 50 && central.wholeData.count > 10)
    #expect(central.events(DisconnectionComplete.self).isEmpty)
    let sent = recorder.sent(by: peripheral.controller.device)
    #expect(zip(sent, sent.dropFirst()).allSatisfy { $0.end <= $1.start })
  }

  // MARK: - What is refused

  @Test func bothFamiliesOfCommandsExcludeEachOther() throws {
    try advertiser.expect(LESetAdvertisingData(data: []))
    #expect(try advertiser.makeSet() == .commandDisallowed)
    #expect(try advertiser.connectExtended(to: scanner.publicAddress) == .commandDisallowed)
    try advertiser.expect(LEReadFilterAcceptListSize())
    try advertiser.expect(Reset())
    #expect(try advertiser.call(LEReadMaximumAdvertisingDataLength()).maxAdvertisingDataLength == 1_650)
    #expect(try advertiser.call(LEReadNumberOfSupportedAdvertisingSets()).numSupportedAdvertisingSets == 16)
    #expect(try advertiser.call(LESetAdvertisingEnable(enable: false)).status == .commandDisallowed)
    #expect(try advertiser.createConnection(to: BDAddress(1)) == .commandDisallowed)
    #expect(try advertiser.makeSet() == .success)
  }

  @Test func parametersAreChecked() throws {
    let bad = HCIStatus.invalidHCICommandParameters
    #expect(try advertiser.makeSet(0xF0) == bad)
    #expect(try advertiser.makeSet(interval: 0x1F) == bad)
    #expect(try advertiser.makeSet(channels: []) == bad)
    #expect(try advertiser.makeSet(sid: 16) == bad)
    #expect(try advertiser.makeSet(power: 21) == bad)
    #expect(try advertiser.makeSet(0, [.connectable, .scannable]) == bad)
    #expect(try advertiser.makeSet(0, [.anonymous, .connectable]) == bad)
    #expect(try advertiser.makeSet(0, [.legacy, .connectable]) == bad)
    #expect(try advertiser.makeSet(0, .highDutyCycleDirected) == bad)
    #expect(try advertiser.makeSet(0, AdvertisingEventProperties(rawValue: 0x80)) == bad)
    #expect(try advertiser.makeSet(primary: .le2M) == .unsupportedFeatureOrParameterValue)
    #expect(try advertiser.makeSet(secondary: PHY(rawValue: 4)) == .unsupportedFeatureOrParameterValue)
    for handle in UInt8(0)..<16 { #expect(try advertiser.makeSet(handle) == .success) }
    #expect(try advertiser.makeSet(16) == .memoryCapacityExceeded)
    #expect(try advertiser.enable() == .success)
    #expect(try advertiser.makeSet() == .commandDisallowed)
    #expect(try advertiser.enable([1, 1]) == bad)
    #expect(try advertiser.enable([]) == bad)
    #expect(try advertiser.enable([1, 77]) == .unknownAdvertisingIdentifier)
  }

  @Test func dataIsChecked() throws {
    let bad = HCIStatus.invalidHCICommandParameters
    #expect(try advertiser.setPart([1], .complete) == .unknownAdvertisingIdentifier)
    #expect(try advertiser.makeSet() == .success)
    #expect(try advertiser.setPart([1], .lastFragment) == bad)
    #expect(try advertiser.setPart([1], .intermediateFragment) == bad)
    #expect(try advertiser.setPart([], .unchanged) == bad)
    #expect(try advertiser.setPart([1], AdvertisingDataOperation(rawValue: 5)) == bad)
    #expect(try advertiser.setPart([1], .complete, isResponse: true) == bad)
    #expect(try advertiser.setPart([1], .firstFragment) == .success)
    #expect(try advertiser.enable() == .commandDisallowed)
    let part = Array(repeating: UInt8(1), count: 251)
    for _ in 0..<6 { #expect(try advertiser.setPart(part, .intermediateFragment) == .success) }
    #expect(try advertiser.setPart(part, .lastFragment) == .memoryCapacityExceeded)
    #expect(try advertiser.setPart([1], .complete) == .success)
    #expect(try advertiser.enable() == .success)
    #expect(try advertiser.setPart([1], .firstFragment) == .commandDisallowed)
    #expect(try advertiser.setPart([2], .complete) == .success)
    #expect(try advertiser.enable([0], false) == .success)
    // What is connectable has no chain.
    try advertiser.setData(Array(repeating: 1, count: 246))
    #expect(try advertiser.makeSet(0, .connectable) == .success)
    #expect(try advertiser.enable() == .packetTooLong)
    try advertiser.setData(Array(repeating: 1, count: 245))
    #expect(try advertiser.enable() == .success)
    #expect(try advertiser.makeSet(1, .scannable) == .success)
    #expect(try advertiser.enable([1]) == .commandDisallowed)
    #expect(try advertiser.setPart([1], .complete, handle: 1) == bad)
    try advertiser.setData([1], handle: 1, isResponse: true)
    #expect(try advertiser.enable([1]) == .success)
    #expect(try advertiser.setPart([], .complete, handle: 1, isResponse: true) == .commandDisallowed)
  }
}
