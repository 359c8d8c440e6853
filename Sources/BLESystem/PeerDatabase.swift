// SPDX-License-Identifier: Apache-2.0

import BLECore
import BLEGATT
import BLEHost

// The system's own dealings with a peer's GATT server, before and beside those of the apps: its Database Hash, what it
// is told of this client, Service Changed.
extension BluetoothSystem {
  /// What this client says of itself (Vol 3 Part G 7.2).
  private static let clientFeatures: ClientSupportedFeatures = [.robustCaching, .multipleHandleValueNotifications]

  /// The first things asked of a peer that an app is connected to.
  func greet(_ link: PeerLink) {
    guard !link.isGreeted else { return }
    link.isGreeted = true
    perform(link, .exchangeMTU) { $0.exchangeMTU(token: $1, now: $2) }
    if !peers.hasDeviceName(link.reference.peer) {
      perform(link, .deviceName) { $0.readByUUID(0x2A00, in: 0x0001...0xFFFF, token: $1, now: $2) }
    }
  }

  /// What comes before the first request of an app that concerns attributes; the requests wait until it is done. A link
  /// that nobody asks anything of is spared it: there is nothing that could be out of date.
  ///
  ///     Database Hash ─┬─ known ─────────────────────────────┬─▶ tell features, subscribe ─▶ done
  ///                    └─ new ─▶ find Generic Attribute ─────┘
  func prepare(_ link: PeerLink) {
    guard case .none = link.preparation else { return }
    link.preparation = .underWay(isOutdated: false)
    readDatabaseHash(link)
  }

  private func readDatabaseHash(_ link: PeerLink) {
    guard case .idle = link.hashRead else {
      link.hashRead = .underWay(isOutdated: true)
      return
    }
    link.hashRead = .underWay(isOutdated: false)
    perform(link, .own(.readHash)) { $0.readByUUID(0x2B2A, in: 0x0001...0xFFFF, token: $1, now: $2) }
  }

  /// Takes the ends of the procedures that are the system's own.
  func complete(own procedure: OwnProcedure, _ event: ATTEvent, _ link: PeerLink) {
    switch (procedure, event) {
    case (.readHash, .valuesRead(_, let result)): hashRead(result, link)
    case (.findAttributeService, .servicesDiscovered(_, let result)):
      guard case .success(let services) = result, let range = services.first?.range,
        range.lowerBound < range.upperBound
      else { return endPreparation(link) }
      perform(link, .own(.findAttributeHandles(range))) {
        $0.discoverDescriptors(in: range.lowerBound + 1...range.upperBound, token: $1, now: $2)
      }
    case (.findAttributeHandles(let range), .descriptorsDiscovered(_, let result)):
      guard case .success(let attributes) = result else { return endPreparation(link) }
      link.cache.attributeService = AttributeServiceHandles(range, attributes)
      enable(link)
    case (.enableFeatures, .written(_, nil)): link.isRobust = true
    case (.enableServiceChanged, .written(_, nil)): link.isSubscribedToChanges = true
    case (.endPreparation, _): preparationEnded(link)
    default: break
    }
  }

  /// A peer that changes all the time is prepared as well as can be.
  private static let preparationsMax = 4

  private func preparationEnded(_ link: PeerLink) {
    link.preparationCount += 1
    if case .underWay(isOutdated: true) = link.preparation, link.preparationCount < Self.preparationsMax {
      link.preparation = .underWay(isOutdated: false)
      return readDatabaseHash(link)
    }
    link.preparation = .done
    releaseHeld(link)
  }

  private func hashRead(_ result: Result<[GATTReadValue], GATTError>, _ link: PeerLink) {
    if case .underWay(isOutdated: true) = link.hashRead {
      // The database has changed again meanwhile.
      link.hashRead = .idle
      return readDatabaseHash(link)
    }
    link.hashRead = .idle
    var hash: [UInt8]?
    if case .success(let values) = result, let value = values.first {
      let octets = [UInt8](link.connection.bearer.output.eventBytes[value.value])
      if octets.count == 16 { hash = octets }
    }
    link.hasHash = hash != nil
    link.cache.hash = hash
    host?.perform(on: link.connection) { bearer, _ in bearer.knownDatabaseHash = hash }
    guard case .underWay = link.preparation else { return }
    if let hash, let known = caches.cache(of: link.reference.peer, hash: hash) { link.cache = known }
    if link.cache.attributeService != nil {
      enable(link)
    } else {
      perform(link, .own(.findAttributeService)) { $0.discoverPrimaryServices(uuid: 0x1801, token: $1, now: $2) }
    }
  }

  /// Tells the peer what this client can, and to be told of changes.
  private func enable(_ link: PeerLink) {
    if let handle = link.cache.attributeService?.clientSupportedFeatures {
      let features = [Self.clientFeatures.rawValue]
      perform(link, .own(.enableFeatures)) { $0.write(handle, features.span.bytes, token: $1, now: $2) }
    }
    if let handle = link.cache.attributeService?.serviceChangedConfiguration {
      let indications: [UInt8] = [2, 0]
      perform(link, .own(.enableServiceChanged)) { $0.write(handle, indications.span.bytes, token: $1, now: $2) }
    }
    endPreparation(link)
  }

  private func endPreparation(_ link: PeerLink) {
    perform(link, .own(.endPreparation)) { $0.passBarrier(token: $1, now: $2) }
  }

  // MARK: - Changes

  /// If the value is an indication of Service Changed, does what it demands.
  func receiveServiceChanged(_ link: PeerLink, _ handle: UInt16, _ value: ArraySlice<UInt8>) {
    guard handle == link.cache.attributeService?.serviceChanged else { return }
    let octets = [UInt8](value)
    var reader = ByteReader(octets.span.bytes)
    guard let start = try? reader.u16(), let end = try? reader.u16(), start <= end, reader.isAtEnd else {
      Log.write(.error, "system", "\(link.connection.peer) indicated a range of changed services that is none; ignored")
      return
    }
    serviceChanged(link, start...end)
  }

  /// What was known of the peer's attributes within `range` is void.
  func serviceChanged(_ link: PeerLink, _ range: ClosedRange<UInt16>) {
    Log.write(
      .info, "system",
      "\(link.connection.peer) has changed its attributes within handles \(range.lowerBound)-\(range.upperBound)")
    host?.perform(on: link.connection) { bearer, now in
      bearer.knownDatabaseHash = nil
      bearer.invalidate(range, now: now)
    }
    let hadAttributeService = link.cache.attributeService != nil
    link.cache.drop(range)
    caches.forget(link.reference.peer)
    link.subscriptions = link.subscriptions.filter { !range.contains($0.key) }
    link.primaryServices = link.primaryServices.filter { !$0.key.overlaps(range) }
    replica.update(connected: link.reference.peer, services: Set(link.primaryServices.values))
    for session in link.users.sorted() {
      link.stale[session, default: StaleHandles()].insert(range)
      post(.servicesModified(link.reference, range), to: session)
    }
    switch link.preparation {
    case .none: break
    case .underWay: link.preparation = .underWay(isOutdated: true)
    case .done where hadAttributeService && link.cache.attributeService == nil:
      // The service that tells of changes has itself changed: all over again, but for MTU and name.
      link.preparation = .underWay(isOutdated: false)
      link.preparationCount = 0
      readDatabaseHash(link)
    case .done: if link.hasHash { readDatabaseHash(link) }
    }
  }

  // MARK: - Discovery without asking

  /// Whether what is known of the peer answers the request.
  func cacheAnswers(_ request: SystemRequest, _ link: PeerLink) -> Bool { cachedAnswer(request, link) != nil }

  /// The answer to a discovery from what is known, as long as the peer would have told of a change.
  private func cachedAnswer(_ request: SystemRequest, _ link: PeerLink) -> ATTEvent? {
    guard link.cache.hash != nil, link.isSubscribedToChanges || link.isRobust else { return nil }
    switch request {
    case .discoverServices(_, _, let uuids):
      return link.cache.services(Self.onlyUUID(uuids)).map { .servicesDiscovered(token: 0, .success($0)) }
    case .discoverIncludedServices(_, _, let range, _):
      return link.cache.includedServices(in: range).map { .includedServicesDiscovered(token: 0, .success($0)) }
    case .discoverCharacteristics(_, _, let range, _):
      return link.cache.characteristics(in: range).map { .characteristicsDiscovered(token: 0, .success($0)) }
    case .discoverDescriptors(_, _, let characteristic):
      guard let range = Self.descriptorRange(characteristic) else { return nil }
      return link.cache.descriptors(in: range).map { .descriptorsDiscovered(token: 0, .success($0)) }
    default: return nil
    }
  }

  /// The turn of a discovery that the cache answered when it was asked for: now, or over the air after all.
  func answerFromCache(_ request: SystemRequest, _ id: SessionID, _ link: PeerLink) {
    guard let session = sessions[id] else { return }
    guard usable(link.reference, session) != nil, !link.isHolding, let event = cachedAnswer(request, link),
      let procedure = Self.procedure(request, id)
    else { return handleGATT(request, session) }
    complete(procedure, event, link)
  }

  /// Keeps what a discovery found, if a hash can tell later whether it still holds.
  func remember(_ procedure: Procedure, _ event: ATTEvent, _ link: PeerLink) {
    guard link.hasHash else { return }
    switch (procedure, event) {
    case (.services(_, _, let uuids), .servicesDiscovered(_, .success(let found))):
      link.cache.keep(found, uuid: Self.onlyUUID(uuids))
    case (.includedServices(_, _, let range, _), .includedServicesDiscovered(_, .success(let found))):
      link.cache.keep(found, in: range)
    case (.characteristics(_, _, let range, _), .characteristicsDiscovered(_, .success(let found))):
      link.cache.keep(found, in: range)
    case (.descriptors(_, _, let range), .descriptorsDiscovered(_, .success(let found))):
      link.cache.keep(found, in: range)
    case (.findConfiguration(_, _, let record, _), .descriptorsDiscovered(_, .success(let found))):
      if let range = Self.descriptorRange(record) { link.cache.keep(found, in: range) }
    default: break
    }
  }
}
