// SPDX-License-Identifier: Apache-2.0

import BLECore
import BLEHCI
import TestSupport
import Testing

@testable import BLERadio

/// Privacy in the controller: A hides behind A's key, B knows it.
@Suite struct PrivacyTests {
  let world = RadioWorld(seed: 31)
  let recorder = AirRecorder()
  let a: ScriptedHost
  let b: ScriptedHost
  static let keyA = (1...16).map { UInt8($0) }
  static let keyB = (33...48).map { UInt8($0) }
  static let none = [UInt8](repeating: 0, count: 16)

  init() throws {
    world.observer = recorder
    a = ScriptedHost(world, address: 0xA1)
    b = ScriptedHost(world, address: 0xB2)
    for host in [a, b] {
      try host.start()
      try host.expect(LESetEventMask(leEventMask: .max))
    }
  }

  private func add(_ host: ScriptedHost, peer: ScriptedHost, peerKey: [UInt8], localKey: [UInt8]) throws {
    try host.expect(
      LEAddDeviceToResolvingList(
        peerIdentityAddressType: .publicDevice, peerIdentityAddress: peer.controller.address, peerIRK: peerKey,
        localIRK: localKey))
  }

  /// Both know each other, and resolve.
  private func introduce() throws {
    try add(a, peer: b, peerKey: Self.keyB, localKey: Self.keyA)
    try add(b, peer: a, peerKey: Self.keyA, localKey: Self.keyB)
    for host in [a, b] { try host.expect(LESetAddressResolutionEnable(enable: true)) }
  }

  private func advertise(
    _ own: AddressType = .publicIdentity,
    _ properties: AdvertisingEventProperties = [.legacy, .connectable, .scannable]
  ) throws {
    #expect(try a.makeSet(0, properties, own: own, peer: b.publicAddress) == .success)
    #expect(try a.enable() == .success)
  }

  /// AdvA of what A sends.
  private var addressesOnAir: Set<BDAddress> {
    Set(
      recorder.sent(by: a.controller.device).filter { $0.isAdvertising && $0.type != 5 && $0.pdu.count >= 8 }.compactMap
      {
        try? BDAddress.decode(Array($0.pdu[2..<8]))
      })
  }

  // MARK: - The function

  @Test func vectorsOfAh() throws {
    let cases = try VectorFile("smp_crypto").root.objects("ah")
    #expect(cases.count == 10)
    for vector in cases {
      let key = try #require(vector.bytes("irk"))
      let wire = try #require(vector.bytes("rpa_wire"))
      var resolver = AddressResolver()
      resolver.isEnabled = true
      let identity = DeviceAddress(BDAddress(77), type: .random)
      resolver.add(DeviceAddress(BDAddress(1), type: .publicDevice), peerKey: Self.none, localKey: Self.none)
      resolver.add(identity, peerKey: key.reversed(), localKey: Self.none)
      let address = DeviceAddress(try BDAddress.decode(wire), type: .random)
      guard address.kind == .resolvablePrivate else { continue }
      #expect(resolver.resolved(address) == DeviceAddress(identity.address, type: .randomIdentity), "\(vector)")
      let other = DeviceAddress(BDAddress(address.address.value ^ 1), type: .random)
      #expect(resolver.resolved(other) == other)
      #expect(resolver.resolved(DeviceAddress(address.address, type: .publicDevice)).type == .publicDevice)
    }
  }

  @Test func whatIsMadeIsResolvable() {
    var resolver = AddressResolver()
    resolver.isEnabled = true
    resolver.add(DeviceAddress(BDAddress(5), type: .publicDevice), peerKey: Self.keyA, localKey: Self.keyB)
    var random = SeededGenerator(seed: 1)
    var seen = Set<BDAddress>()
    for second in 0..<50 {
      let now = Instant.zero + .seconds(second * 900)
      guard let peer = resolver.peerAddress(0, now: now, &random), let own = resolver.localAddress(0, now: now, &random)
      else { return #expect(Bool(false), "none made") }
      #expect(resolver.resolved(DeviceAddress(peer, type: .random)).type == .publicIdentity)
      #expect(resolver.isLocal(DeviceAddress(own, type: .random)))
      #expect(!resolver.isLocal(DeviceAddress(peer, type: .random)))
      #expect(resolver.peerAddress(0, now: now + .seconds(899), &random) == peer)
      seen.insert(peer)
      seen.insert(own)
    }
    #expect(seen.count == 100)
  }

  // MARK: - Advertising and scanning

  @Test func advertisersHideAndWhoKnowsThemSeesTheIdentity() throws {
    try introduce()
    try advertise()
    try b.scanExtended()
    world.simulator.advance(by: .seconds(1))
    let address = try #require(addressesOnAir.first)
    #expect(addressesOnAir.count == 1)
    #expect(DeviceAddress(address, type: .random).kind == .resolvablePrivate)
    let reports = b.extendedReports.map(\.report)
    #expect(!reports.isEmpty)
    #expect(reports.allSatisfy { $0.address == a.controller.address && $0.addressType == .publicIdentity })
    let read = LEReadLocalResolvableAddress(
      peerIdentityAddressType: .publicDevice, peerIdentityAddress: b.controller.address)
    #expect(try a.call(read).localResolvableAddress == address)
    let peer = LEReadPeerResolvableAddress(
      peerIdentityAddressType: .publicDevice, peerIdentityAddress: a.controller.address)
    #expect(try b.call(peer).peerResolvableAddress == address)
    // A stranger sees the private address.
    let stranger = ScriptedHost(world, address: 0xC3)
    try stranger.start()
    try stranger.scan()
    world.simulator.advance(by: .seconds(1))
    #expect(stranger.reports.allSatisfy { $0.report.address == address && $0.report.addressType == .random })
    #expect(!stranger.reports.isEmpty)
  }

  @Test(arguments: [1, 60])
  func privateAddressesChangeAfterTheTimeout(seconds: Int) throws {
    try introduce()
    try a.expect(LESetResolvablePrivateAddressTimeout(rpaTimeout: UInt16(seconds)))
    #expect(try a.call(LESetResolvablePrivateAddressTimeout(rpaTimeout: 0)).status == .invalidHCICommandParameters)
    #expect(try a.call(LESetResolvablePrivateAddressTimeout(rpaTimeout: 3601)).status == .invalidHCICommandParameters)
    try advertise()
    try b.scanExtended(duplicates: .on)
    world.simulator.advance(by: .seconds(seconds * 10) - .milliseconds(200))
    #expect((9...10).contains(addressesOnAir.count))
    // They are all the same device.
    #expect(b.extendedReports.count == 1)
  }

  @Test func withoutAnEntryTheChosenAddressIsUsed() throws {
    try a.expect(LESetAddressResolutionEnable(enable: true))
    #expect(try a.makeSet(0, .legacy, own: .randomIdentity, peer: b.publicAddress) == .success)
    #expect(try a.enable() == .invalidHCICommandParameters)
    let address = BDAddress(0xC000_0000_0009)
    try a.expect(LESetAdvertisingSetRandomAddress(advertisingHandle: 0, randomAddress: address))
    #expect(try a.enable() == .success)
    world.simulator.advance(by: .milliseconds(100))
    #expect(addressesOnAir == [address])
    #expect(try a.enable([0], false) == .success)
    recorder.entries.removeAll()
    try advertise()
    world.simulator.advance(by: .milliseconds(100))
    #expect(addressesOnAir == [a.controller.address])
  }

  @Test func activeScannersHideToo() throws {
    try introduce()
    try advertise()
    try b.scanExtended(.active, own: .publicIdentity)
    world.simulator.advance(by: .seconds(1))
    let request = try #require(recorder.entries.first { $0.type == 3 })
    let own = DeviceAddress(try BDAddress.decode(Array(request.pdu[2..<8])), type: .random)
    #expect(own.kind == .resolvablePrivate && own.address != b.controller.address)
    #expect(
      b.extendedReports.contains {
        $0.report.eventType.contains(.scanResponse) && $0.report.addressType == .publicIdentity
      })
  }

  @Test func theAcceptListMeansIdentities() throws {
    try introduce()
    try b.expect(LEAddDeviceToFilterAcceptList(addressType: .publicDevice, address: a.controller.address))
    try advertise()
    try b.scanExtended(policy: .acceptList)
    world.simulator.advance(by: .seconds(1))
    #expect(!b.extendedReports.isEmpty)
    try b.stopScanExtended()
    #expect(try b.connectExtended(to: nil, own: .publicIdentity) == .success)
    world.simulator.advance(by: .seconds(1))
    #expect(b.controller.connections.count == 1)
  }

  @Test func networkPrivacyIgnoresWhoShowsItself() throws {
    try introduce()
    try advertise(.publicDevice)
    try b.scanExtended()
    world.simulator.advance(by: .seconds(1))
    #expect(b.extendedReports.isEmpty)
    let mode = LESetPrivacyMode(
      peerIdentityAddressType: .publicDevice, peerIdentityAddress: a.controller.address, privacyMode: .device)
    #expect(try b.call(mode).status == .commandDisallowed)
    try b.stopScanExtended()
    try b.expect(mode)
    try b.scanExtended()
    world.simulator.advance(by: .seconds(1))
    #expect(b.extendedReports.count > 5)
    #expect(b.extendedReports.allSatisfy { $0.report.addressType == .publicDevice })
  }

  // MARK: - Connections

  @Test(arguments: [AdvertisingEventProperties([.legacy, .connectable, .scannable]), .connectable])
  func bothEndsLearnIdentitiesAndPrivateAddresses(properties: AdvertisingEventProperties) throws {
    try introduce()
    try advertise(.publicIdentity, properties)
    #expect(try b.connectExtended(to: a.publicAddress, own: .publicIdentity) == .success)
    world.simulator.advance(by: .seconds(1))
    let atB = try #require(b.metaEvents(LEEnhancedConnectionComplete.self).first).event
    let atA = try #require(a.metaEvents(LEEnhancedConnectionComplete.self).first).event
    #expect(atB.peerAddress == a.controller.address && atB.peerAddressType == .publicIdentity)
    #expect(atA.peerAddress == b.controller.address && atA.peerAddressType == .publicIdentity)
    #expect(atB.localResolvablePrivateAddress == atA.peerResolvablePrivateAddress)
    #expect(atA.localResolvablePrivateAddress == atB.peerResolvablePrivateAddress)
    for address in [atA.localResolvablePrivateAddress, atB.localResolvablePrivateAddress] {
      #expect(DeviceAddress(address, type: .random).kind == .resolvablePrivate)
    }
    world.simulator.advance(by: .seconds(3))
    #expect(b.controller.connections.count == 1)
    // Known by its identity it is not connected twice.
    #expect(try b.connectExtended(to: a.publicAddress, own: .publicIdentity) == .connectionAlreadyExists)
  }

  @Test(arguments: [AdvertisingEventProperties([.legacy, .connectable, .directed]), [.connectable, .directed]])
  func directedAdvertisingHidesBoth(properties: AdvertisingEventProperties) throws {
    try introduce()
    try advertise(.publicIdentity, properties)
    let stranger = ScriptedHost(world, address: 0xC3)
    try stranger.start()
    try stranger.scanExtended()
    try b.scanExtended(own: .publicIdentity)
    world.simulator.advance(by: .seconds(1))
    #expect(stranger.extendedReports.isEmpty)
    let report = try #require(b.extendedReports.first).report
    #expect(report.eventType.isSuperset(of: [.connectable, .directed]))
    #expect(report.address == a.controller.address)
    let directed = recorder.entries.contains { entry in
      entry.pdu.count >= 14
        && (0..<entry.pdu.count - 5).contains { Array(entry.pdu[$0..<$0 + 6]) == b.controller.address.encoded }
    }
    #expect(!directed, "the target's public address is on air")
    try b.stopScanExtended()
    #expect(try b.connectExtended(to: a.publicAddress, own: .publicIdentity) == .success)
    world.simulator.advance(by: .seconds(1))
    #expect(b.controller.connections.count == 1 && a.controller.connections.count == 1)
  }

  // MARK: - Commands

  @Test func theListIsChecked() throws {
    #expect(try a.call(LEReadResolvingListSize()).size == 32)
    try add(a, peer: b, peerKey: Self.keyB, localKey: Self.none)
    let add = LEAddDeviceToResolvingList(
      peerIdentityAddressType: .publicDevice, peerIdentityAddress: b.controller.address, peerIRK: Self.keyB,
      localIRK: Self.none)
    #expect(try a.call(add).status == .invalidHCICommandParameters)
    var other = add
    for number in 0..<31 {
      other.peerIdentityAddress = BDAddress(UInt64(1_000 + number))
      try a.expect(other)
    }
    other.peerIdentityAddress = BDAddress(5_000)
    #expect(try a.call(other).status == .memoryCapacityExceeded)
    other.peerIdentityAddressType = .publicIdentity
    #expect(try a.call(other).status == .invalidHCICommandParameters)
    let remove = LERemoveDeviceFromResolvingList(
      peerIdentityAddressType: .publicDevice, peerIdentityAddress: b.controller.address)
    try a.expect(LESetAddressResolutionEnable(enable: true))
    try a.advertise()
    for status in [
      try a.call(add).status, try a.call(remove).status, try a.call(LEClearResolvingList()).status,
      try a.call(LESetAddressResolutionEnable(enable: false)).status,
    ] { #expect(status == .commandDisallowed) }
    try a.expect(LESetAdvertisingEnable(enable: false))
    try a.expect(remove)
    #expect(try a.call(remove).status == .unknownConnectionIdentifier)
    try a.expect(LEClearResolvingList())
    for status in [
      try a.call(
        LEReadPeerResolvableAddress(peerIdentityAddressType: .publicDevice, peerIdentityAddress: b.controller.address)
      ).status,
      try a.call(
        LEReadLocalResolvableAddress(peerIdentityAddressType: .publicDevice, peerIdentityAddress: b.controller.address)
      ).status,
      try a.call(
        LESetPrivacyMode(
          peerIdentityAddressType: .publicDevice, peerIdentityAddress: b.controller.address, privacyMode: .device)
      ).status,
    ] { #expect(status == .unknownConnectionIdentifier) }
  }
}
