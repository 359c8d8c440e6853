// SPDX-License-Identifier: Apache-2.0

import BLECore
import BLEGATT

/// The handles of a peer's Generic Attribute service that the system itself uses.
struct AttributeServiceHandles: Hashable {
  var range: ClosedRange<UInt16>
  /// The value of Service Changed, and its Client Characteristic Configuration.
  var serviceChanged: UInt16?
  var serviceChangedConfiguration: UInt16?
  var clientSupportedFeatures: UInt16?

  /// Takes what Find Information told of the service.
  init(_ range: ClosedRange<UInt16>, _ attributes: [GATTDescriptor]) {
    self.range = range
    var characteristic: BluetoothUUID?
    for attribute in attributes {
      switch attribute.uuid {
      case 0x2803: characteristic = nil
      case 0x2A05:
        serviceChanged = attribute.handle
        characteristic = attribute.uuid
      case 0x2B29: clientSupportedFeatures = attribute.handle
      case 0x2902 where characteristic == 0x2A05: serviceChangedConfiguration = attribute.handle
      default: break
      }
    }
  }
}

/// What discoveries found on a peer, for as long as its database is the same.
struct GATTCache {
  /// The Database Hash that the rest belongs to; nil while it is not known.
  var hash: [UInt8]?
  var attributeService: AttributeServiceHandles?
  private var primaryServices: [GATTService]?
  private var servicesByUUID: [BluetoothUUID: [GATTService]] = [:]
  private var includedServices: [ClosedRange<UInt16>: [GATTIncludedService]] = [:]
  private var characteristics: [ClosedRange<UInt16>: [GATTCharacteristic]] = [:]
  private var descriptors: [ClosedRange<UInt16>: [GATTDescriptor]] = [:]
  private var entryCount = 0

  /// Beyond that many attributes nothing more is kept of a peer.
  static let entriesMax = 4096

  init(hash: [UInt8]? = nil) { self.hash = hash }

  private mutating func hasRoom(for count: Int, replacing old: Int?) -> Bool {
    let total = entryCount + count + 1 - (old.map { $0 + 1 } ?? 0)
    guard total <= Self.entriesMax else { return false }
    entryCount = total
    return true
  }

  /// All primary services, or those with `uuid`; nil if they have not been searched for.
  func services(_ uuid: BluetoothUUID?) -> [GATTService]? {
    guard let uuid else { return primaryServices }
    return primaryServices.map { $0.filter { $0.uuid == uuid } } ?? servicesByUUID[uuid]
  }

  mutating func keep(_ services: [GATTService], uuid: BluetoothUUID?) {
    let old = if let uuid { servicesByUUID[uuid] } else { primaryServices }
    guard hasRoom(for: services.count, replacing: old?.count) else { return }
    if let uuid { servicesByUUID[uuid] = services } else { primaryServices = services }
  }

  func includedServices(in range: ClosedRange<UInt16>) -> [GATTIncludedService]? { includedServices[range] }

  mutating func keep(_ includes: [GATTIncludedService], in range: ClosedRange<UInt16>) {
    if hasRoom(for: includes.count, replacing: includedServices[range]?.count) { includedServices[range] = includes }
  }

  func characteristics(in range: ClosedRange<UInt16>) -> [GATTCharacteristic]? { characteristics[range] }

  mutating func keep(_ found: [GATTCharacteristic], in range: ClosedRange<UInt16>) {
    if hasRoom(for: found.count, replacing: characteristics[range]?.count) { characteristics[range] = found }
  }

  func descriptors(in range: ClosedRange<UInt16>) -> [GATTDescriptor]? { descriptors[range] }

  mutating func keep(_ found: [GATTDescriptor], in range: ClosedRange<UInt16>) {
    if hasRoom(for: found.count, replacing: descriptors[range]?.count) { descriptors[range] = found }
  }

  /// Forgets what a change within `range` touches. The lists of services may miss some from now on, so all go.
  mutating func drop(_ range: ClosedRange<UInt16>) {
    hash = nil
    primaryServices = nil
    servicesByUUID = [:]
    if attributeService?.range.overlaps(range) == true { attributeService = nil }
    includedServices = includedServices.filter { service, includes in
      !service.overlaps(range) && !includes.contains { $0.range.overlaps(range) }
    }
    characteristics = characteristics.filter { !$0.key.overlaps(range) }
    descriptors = descriptors.filter { !$0.key.overlaps(range) }
    entryCount =
      includedServices.values.reduce(0) { $0 + $1.count + 1 } + characteristics.values.reduce(0) { $0 + $1.count + 1 }
      + descriptors.values.reduce(0) { $0 + $1.count + 1 }
  }
}

/// The caches of the peers met last. In memory: they end with the process and with a reset of the adapter. What a store
/// would keep is exactly this, a value by peer, good for one hash.
struct GATTCacheTable {
  private var caches: [PeerIdentifier: GATTCache] = [:]
  /// Oldest first.
  private var order: [PeerIdentifier] = []
  static let peersMax = 64

  /// What is known of the peer, if its database is still the one with `hash`.
  func cache(of peer: PeerIdentifier, hash: [UInt8]) -> GATTCache? {
    caches[peer].flatMap { $0.hash == hash ? $0 : nil }
  }

  /// Keeps a cache that has a hash, in place of the one before.
  mutating func keep(_ cache: GATTCache, of peer: PeerIdentifier) {
    forget(peer)
    guard cache.hash != nil else { return }
    if order.count >= Self.peersMax { forget(order[0]) }
    caches[peer] = cache
    order.append(peer)
  }

  mutating func forget(_ peer: PeerIdentifier) {
    guard caches.removeValue(forKey: peer) != nil else { return }
    order.removeAll { $0 == peer }
  }
}

/// Handles that a session knows from before a change of the peer's database. What it asks with them is refused: they
/// may name something else by now.
struct StaleHandles {
  private var services = RangeSet<Int>()
  private var attributes = RangeSet<Int>()

  mutating func insert(_ range: ClosedRange<UInt16>) {
    services.insert(contentsOf: Self.range(range))
    attributes.insert(contentsOf: Self.range(range))
  }

  /// The session has been told of a service anew.
  mutating func serviceFound(_ range: ClosedRange<UInt16>) { services.remove(contentsOf: Self.range(range)) }

  /// The session has been told of the characteristics in `range` anew.
  mutating func attributesFound(_ range: ClosedRange<UInt16>) { attributes.remove(contentsOf: Self.range(range)) }

  func containsService(_ range: ClosedRange<UInt16>) -> Bool {
    services.ranges.contains { $0.overlaps(Self.range(range)) }
  }

  func contains(_ handle: UInt16) -> Bool { attributes.contains(Int(handle)) }

  private static func range(_ range: ClosedRange<UInt16>) -> Range<Int> {
    Int(range.lowerBound)..<Int(range.upperBound) + 1
  }
}
