// SPDX-License-Identifier: Apache-2.0

import BLECore
import BLEHCI
import BLEHost

/// Joins each advertisement with its scan response, so that an app sees one dictionary (`CBCentralManager` merges
/// both), before results are split again among the sessions.
///
/// An active scanner asks, and the answer is the very next thing the advertiser sends: a scannable advertisement is
/// held for a moment. Without an answer it is passed on with the last one known of that advertiser, if any.
struct ScanMerger {
  struct Result {
    var address: DeviceAddress
    var isConnectable: Bool
    var rssi: Int8
    var data: [UInt8]
    /// The latest scan response, perhaps of an earlier advertisement.
    var scanResponse: [UInt8]?
  }

  private struct Advertiser {
    var isConnectable: Bool
    var scanResponse: [UInt8]?
    /// An advertisement that waits for its scan response.
    var held: AdvertisingReport?
    var deadline = Instant.zero
  }

  private var advertisers: [DeviceAddress: Advertiser] = [:]
  /// Who has had something held until when, in this order, from `firstHolding` on; what was passed on since then, or
  /// replaced, is still in the line.
  private var holding: [(address: DeviceAddress, deadline: Instant)] = []
  private var firstHolding = 0
  private var results: [Result] = []
  private var nextResult = 0

  /// How long a scan response may take on its way through a controller.
  private static let patience = TimeSpan.milliseconds(10)
  /// Advertisers remembered; beyond it all are forgotten (addresses can be made up without end).
  private static let advertisersMax = 4096

  /// When ``handleTimeout(now:)`` is due; at times too early.
  var nextDeadline: Instant? { firstHolding < holding.count ? holding[firstHolding].deadline : nil }

  mutating func receive(_ report: AdvertisingReport, now: Instant) {
    switch report.type {
    case .scanResponse: receiveScanResponse(report)
    case .connectable, .scannable: hold(report, now: now)
    default:
      results.append(
        Result(
          address: report.address, isConnectable: report.isConnectable, rssi: report.rssi, data: report.data,
          scanResponse: nil))
    }
  }

  private mutating func hold(_ report: AdvertisingReport, now: Instant) {
    release(report.address)
    if advertisers.count >= Self.advertisersMax, advertisers[report.address] == nil {
      for entry in holding[firstHolding...] { release(entry.address) }
      holding.removeAll(keepingCapacity: true)
      firstHolding = 0
      advertisers.removeAll()
    }
    var advertiser = advertisers[report.address] ?? Advertiser(isConnectable: report.isConnectable)
    advertiser.isConnectable = report.isConnectable
    advertiser.held = report
    advertiser.deadline = now + Self.patience
    advertisers[report.address] = advertiser
    holding.append((report.address, advertiser.deadline))
  }

  private mutating func receiveScanResponse(_ report: AdvertisingReport) {
    guard advertisers[report.address] != nil else {
      // The advertisement itself was missed.
      results.append(
        Result(address: report.address, isConnectable: true, rssi: report.rssi, data: [], scanResponse: report.data))
      return
    }
    advertisers[report.address]?.scanResponse = report.data
    if advertisers[report.address]?.held != nil {
      release(report.address)
    } else if let advertiser = advertisers[report.address] {
      // Late: the advertisement has been passed on already.
      results.append(
        Result(
          address: report.address, isConnectable: advertiser.isConnectable, rssi: report.rssi, data: [],
          scanResponse: report.data))
    }
  }

  /// Passes on what is held of an advertiser.
  private mutating func release(_ address: DeviceAddress) {
    guard let advertiser = advertisers[address], let report = advertiser.held else { return }
    advertisers[address]?.held = nil
    results.append(
      Result(
        address: address, isConnectable: report.isConnectable, rssi: report.rssi, data: report.data,
        scanResponse: advertiser.scanResponse))
  }

  mutating func handleTimeout(now: Instant) {
    while firstHolding < holding.count, holding[firstHolding].deadline <= now {
      let entry = holding[firstHolding]
      firstHolding += 1
      if advertisers[entry.address]?.deadline == entry.deadline { release(entry.address) }
    }
    guard firstHolding * 2 >= holding.count else { return }
    holding.removeSubrange(0..<firstHolding)
    firstHolding = 0
  }

  /// The next result, oldest first.
  mutating func next() -> Result? {
    guard nextResult < results.count else {
      results.removeAll(keepingCapacity: true)
      nextResult = 0
      return nil
    }
    defer { nextResult += 1 }
    return results[nextResult]
  }
}

/// One session's scan: what it wants to see, and what it has seen.
struct ScanFilter {
  private let services: Set<BluetoothUUID>
  private let solicited: Set<BluetoothUUID>
  private let allowsDuplicates: Bool
  /// What was reported of each peer: a second report comes only with something new in it. Emptied when it has grown
  /// beyond ``PeerTable/peersMax``.
  private var reported: [PeerIdentifier: Seen] = [:]

  private struct Seen: Equatable {
    var name: String?
    var services: Set<BluetoothUUID>

    func adds(to earlier: Seen) -> Bool {
      name != nil && name != earlier.name || !services.isSubset(of: earlier.services)
    }
  }

  init(_ options: ScanOptions) {
    services = Set(options.services ?? [])
    solicited = Set(options.solicitedServices)
    allowsDuplicates = options.allowDuplicates
  }

  /// What the session is to be told of a result; nil if nothing. An overflow area names no services: it can only be
  /// asked for those that the session looks for.
  mutating func admit(_ discovery: Discovery, overflow: OverflowArea?) -> Discovery? {
    var discovery = discovery
    if let overflow {
      discovery.overflowServices = services.filter { overflow.mayContain($0) }.sorted {
        $0.description < $1.description
      }
    }
    return admits(discovery) ? discovery : nil
  }

  private mutating func admits(_ discovery: Discovery) -> Bool {
    guard matches(discovery) else { return false }
    if allowsDuplicates { return true }
    let seen = Seen(name: discovery.localName, services: Set(discovery.services))
    guard let earlier = reported[discovery.peer.identifier] else {
      if reported.count >= PeerTable.peersMax { reported.removeAll() }
      reported[discovery.peer.identifier] = seen
      return true
    }
    guard seen.adds(to: earlier) else { return false }
    reported[discovery.peer.identifier] = Seen(
      name: seen.name ?? earlier.name, services: seen.services.union(earlier.services))
    return true
  }

  private func matches(_ discovery: Discovery) -> Bool {
    if services.isEmpty, solicited.isEmpty { return true }
    return !services.isDisjoint(with: discovery.services) || !services.isDisjoint(with: discovery.overflowServices)
      || !solicited.isDisjoint(with: discovery.solicitedServices)
  }
}

/// The peers this system has met: address, identifier, names.
struct PeerTable {
  private struct Peer {
    var info: PeerInfo
    /// Whether the name is the GAP Device Name, which an advertised one does not replace.
    var hasDeviceName = false
  }

  private let identity: PeerIdentity
  private let replica: SystemReplica
  private var identifiers: [DeviceAddress: PeerIdentifier] = [:]
  private var peers: [PeerIdentifier: Peer] = [:]

  /// Peers remembered at most: anybody can advertise under addresses without end.
  static let peersMax = 8192

  init(identity: PeerIdentity, replica: SystemReplica) {
    self.identity = identity
    self.replica = replica
  }

  var isFull: Bool { peers.count > Self.peersMax }

  /// Forgets all peers but those, and those whose Device Name has been read. Their identifiers stay what they are.
  mutating func forget(allBut kept: Set<PeerIdentifier>) {
    peers = peers.filter { kept.contains($0.key) || $0.value.hasDeviceName }
    if isFull { peers = peers.filter { kept.contains($0.key) } }
    identifiers = identifiers.filter { peers[$0.value] != nil }
    replica.forget(allBut: Set(peers.keys))
  }

  /// The identifier of an address; nil only if the cipher fails.
  mutating func identifier(of address: DeviceAddress) -> PeerIdentifier? {
    let key = DeviceAddress(address.address, type: address.type.onAir)
    if let known = identifiers[key] { return known }
    guard let made = identity.identifier(of: key) else { return nil }
    identifiers[key] = made
    if peers[made] == nil {
      peers[made] = Peer(info: PeerInfo(identifier: made, name: nil, address: key))
      replica.update(peer: PeerInfo(identifier: made, name: nil, address: key))
    }
    return made
  }

  /// The address behind an identifier this host made; nil for a foreign one.
  mutating func address(of identifier: PeerIdentifier) -> DeviceAddress? {
    if let known = peers[identifier] { return known.info.address }
    guard let address = identity.address(of: identifier) else { return nil }
    _ = self.identifier(of: address)
    return address
  }

  func info(_ identifier: PeerIdentifier) -> PeerInfo? { peers[identifier]?.info }
  func hasDeviceName(_ identifier: PeerIdentifier) -> Bool { peers[identifier]?.hasDeviceName == true }

  /// Notes the GAP Device Name; true if the peer's name changed by it.
  mutating func setDeviceName(_ name: String, of identifier: PeerIdentifier) -> Bool {
    guard var peer = peers[identifier] else { return false }
    let isNew = peer.info.name != name
    peer.info.name = name
    peer.hasDeviceName = true
    peers[identifier] = peer
    replica.update(peer: peer.info)
    return isNew
  }

  /// What a scan result says, in the app's terms.
  mutating func discovery(_ result: ScanMerger.Result) -> (Discovery, OverflowArea?)? {
    guard let identifier = identifier(of: result.address) else { return nil }
    var fields = AdvertisementFields(result.data)
    if let response = result.scanResponse { fields.merge(response.span.bytes) }
    if var peer = peers[identifier], !peer.hasDeviceName, let name = fields.localName, name != peer.info.name {
      peer.info.name = name
      peers[identifier] = peer
      replica.update(peer: peer.info)
    }
    guard let info = peers[identifier]?.info else { return nil }
    var discovery = Discovery(peer: info, isConnectable: result.isConnectable, rssi: result.rssi)
    discovery.localName = fields.localName
    discovery.txPowerLevel = fields.txPowerLevel
    discovery.services = fields.serviceUUIDs
    discovery.solicitedServices = fields.solicitedServiceUUIDs
    discovery.serviceData = fields.serviceData
    discovery.manufacturerData = fields.manufacturerData
    return (discovery, fields.overflowArea)
  }
}
