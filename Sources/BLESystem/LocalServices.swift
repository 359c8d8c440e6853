// SPDX-License-Identifier: Apache-2.0

import BLECore
import BLEGATT
import BLEHCI
import BLEHost

/// The published attributes and what is going on with them.
struct LocalServices {
  /// A published value: whose it is and how its owner calls it.
  struct Owned {
    var session: SessionID
    var id: LocalAttributeID
    var properties: CharacteristicProperties
  }

  /// A client's request that a session has not answered.
  struct Request {
    var connection: Connection
    var bearerID: UInt32
    var session: SessionID
    var handle: UInt16
    var isRead: Bool
  }

  /// A service of a session.
  struct Service {
    var session: SessionID
    var id: LocalAttributeID
    var handle: UInt16
    var values: [UInt16]
  }

  /// By value handle.
  var owned: [UInt16: Owned] = [:]
  var services: [Service] = []
  var requests: [RemoteRequestID: Request] = [:]
  var lastRequest: RemoteRequestID = 0
  /// The handles of the values, by whose they are.
  private var handles: [OwnID: UInt16] = [:]
  /// For each link, the updates whose notifications are on their way, oldest first.
  var notifications: [ConnectionHandle: UpdateQueue] = [:]
  /// The same for indications that wait for their confirmation.
  var indications: [ConnectionHandle: [UInt64]] = [:]
  /// Who is subscribed, by value handle.
  var subscribers: [UInt16: Set<PeerIdentifier>] = [:]
  /// What is on its way of each update.
  var updates = UpdateLedger()
  /// Who waits to hear that advertising has begun.
  var advertisingTokens: [(SessionID, RequestToken)] = []

  private struct OwnID: Hashable {
    var session: SessionID
    var id: LocalAttributeID
  }

  func handle(_ session: SessionID, _ id: LocalAttributeID) -> UInt16? { handles[OwnID(session: session, id: id)] }

  mutating func add(_ value: Owned, at handle: UInt16) {
    owned[handle] = value
    handles[OwnID(session: value.session, id: value.id)] = handle
  }

  mutating func removeValue(at handle: UInt16) {
    guard let value = owned.removeValue(forKey: handle) else { return }
    handles[OwnID(session: value.session, id: value.id)] = nil
  }

  /// Generic Access and Generic Attribute, which every device has (Vol 3 Part C 12, Part G 7).
  mutating func addFoundation(to database: AttributeDatabase, deviceName: String) {
    let name = Array(deviceName.utf8.prefix(248))
    let access = ServiceDefinition(
      uuid: 0x1800,
      characteristics: [
        CharacteristicDefinition(uuid: 0x2A00, properties: .read, permissions: .readable, value: .fixed(name)),
        CharacteristicDefinition(uuid: 0x2A01, properties: .read, permissions: .readable, value: .fixed([0, 0])),
      ])
    let attribute = ServiceDefinition(
      uuid: 0x1801,
      characteristics: [
        CharacteristicDefinition(
          uuid: 0x2A05, properties: .indicate, permissions: AttributePermissions(read: .never, write: .never),
          value: .fixed([1, 0, 0xFF, 0xFF])),
        CharacteristicDefinition(
          uuid: 0x2B29, properties: [.read, .write], permissions: .readWrite, value: .clientFeatures),
        CharacteristicDefinition(uuid: 0x2B2A, properties: .read, permissions: .readable, value: .databaseHash),
        // No enhanced bearers.
        CharacteristicDefinition(uuid: 0x2B3A, properties: .read, permissions: .readable, value: .fixed([0])),
      ])
    for service in [access, attribute] {
      do { _ = try database.addService(service) } catch {
        Log.write(.error, "system", "cannot publish service \(service.uuid): \(error)")
      }
    }
  }
}

/// Updates of one link, oldest first.
struct UpdateQueue {
  private var tokens: [UInt64] = []
  private var head = 0

  mutating func append(_ token: UInt64) { tokens.append(token) }

  mutating func removeFirst() -> UInt64? {
    guard head < tokens.count else { return nil }
    defer {
      head += 1
      if head == tokens.count {
        tokens.removeAll(keepingCapacity: true)
        head = 0
      } else if head >= 256 {
        tokens.removeSubrange(0..<head)
        head = 0
      }
    }
    return tokens[head]
  }

  /// Whether it was there.
  mutating func remove(_ token: UInt64) -> Bool {
    guard let index = tokens[head...].lastIndex(of: token) else { return false }
    tokens.remove(at: index)
    return true
  }
}

/// How many notifications and indications of each update are on their way, and whose it is. Updates have numbers in a
/// row, and end about in that order.
struct UpdateLedger {
  private struct Entry {
    var session: SessionID
    /// The update itself counts for one until it has been offered to all.
    var count = 1
  }

  private var entries: [Entry] = []
  /// The first entry that has not ended.
  private var head = 0
  /// The number of the first entry.
  private var base: UInt64 = 1

  mutating func begin(_ session: SessionID) -> UInt64 {
    entries.append(Entry(session: session))
    return base + UInt64(entries.count - 1)
  }

  mutating func add(to update: UInt64) {
    if let index = index(of: update) { entries[index].count += 1 }
  }

  /// One part is out of the way. Returns whose the update is, if it was the last part.
  mutating func end(_ update: UInt64) -> SessionID? {
    guard let index = index(of: update), entries[index].count > 0 else { return nil }
    entries[index].count -= 1
    guard entries[index].count == 0 else { return nil }
    let session = entries[index].session
    while head < entries.count, entries[head].count == 0 { head += 1 }
    if head == entries.count || head >= 256 {
      base += UInt64(head)
      entries.removeSubrange(0..<head)
      head = 0
    }
    return session
  }

  private func index(of update: UInt64) -> Int? {
    guard update >= base, update - base < UInt64(entries.count) else { return nil }
    return Int(update - base)
  }
}

/// What a session wants to advertise.
struct AdvertisingWish {
  var localName: String?
  var services: [BluetoothUUID]
}

// Publishing.
extension BluetoothSystem {
  /// Updates a session may have on their way.
  static let updateCredits = 32

  func addService(_ token: RequestToken, _ service: LocalService, _ session: ClientSession) {
    guard let host else { return }
    let error = publish(service, session, host)
    if error == nil { session.services.append(service) }
    post(.serviceAdded(token, error), to: session)
  }

  /// After the adapter was switched off and on: what the apps had published is there again.
  func republishServices() {
    guard let host else { return }
    for session in orderedSessions {
      for service in session.services {
        guard let error = publish(service, session, host) else { continue }
        Log.write(.error, "system", "adapter \(name): service \(service.uuid) is not published again: \(error)")
      }
    }
  }

  private func publish(_ service: LocalService, _ session: ClientSession, _ host: Host) -> SystemError? {
    if let error = refusal(of: service, session) { return error }
    let includes = service.includedServices.compactMap { id in
      local.services.first { $0.session == session.id && $0.id == id }?.handle
    }
    let definition = ServiceDefinition(
      uuid: service.uuid, isPrimary: service.isPrimary, owner: session.id, includedServices: includes,
      characteristics: service.characteristics.map(CharacteristicDefinition.init))
    do {
      let registration = try host.database.addService(definition)
      for (characteristic, handles) in zip(service.characteristics, registration.characteristics) {
        let value = LocalServices.Owned(
          session: session.id, id: characteristic.id,
          properties: CharacteristicProperties(rawValue: characteristic.properties))
        local.add(value, at: handles.value)
      }
      local.services.append(
        LocalServices.Service(
          session: session.id, id: service.id, handle: registration.handle,
          values: registration.characteristics.map(\.value)))
      databaseChanged()
      return nil
    } catch {
      return Self.error(error, service)
    }
  }

  private func refusal(of service: LocalService, _ session: ClientSession) -> SystemError? {
    if service.uuid == 0x1800 || service.uuid == 0x1801 {
      return SystemError(.uuidNotAllowed, "service \(service.uuid) belongs to the system")
    }
    if local.services.contains(where: { $0.session == session.id && $0.id == service.id }) {
      return SystemError(.invalidParameters, "service \(service.uuid) is published already")
    }
    let known = Set(local.services.filter { $0.session == session.id }.map(\.id))
    if !known.isSuperset(of: service.includedServices) {
      return SystemError(
        .invalidParameters, "service \(service.uuid) includes one that is not published; add the included one first")
    }
    return nil
  }

  private static func error(_ error: DatabaseError, _ service: LocalService) -> SystemError {
    switch error {
    case .noHandles(let needed):
      SystemError(.outOfSpace, "no \(needed) handles in a row are free for service \(service.uuid)")
    case .valueTooLong(let count):
      SystemError(.invalidParameters, "a value of service \(service.uuid) has \(count) octets; at most 512 fit")
    case .reservedDescriptor(let uuid):
      SystemError(.uuidNotAllowed, "descriptor \(uuid) is made by the system")
    case .unknownService, .unknownValue:
      SystemError(.invalidParameters, "service \(service.uuid) refers to one that is not there")
    }
  }

  func removeService(_ id: LocalAttributeID, _ session: ClientSession) {
    session.services.removeAll { $0.id == id }
    guard let index = local.services.firstIndex(where: { $0.session == session.id && $0.id == id }) else { return }
    let service = local.services.remove(at: index)
    for value in service.values {
      local.removeValue(at: value)
      local.subscribers[value] = nil
    }
    guard (try? host?.database.removeService(service.handle)) != nil else { return }
    databaseChanged()
  }

  func removeServices(_ session: ClientSession) {
    for service in local.services.reversed() where service.session == session.id { removeService(service.id, session) }
  }

  /// Tells every link's server what the last change touched.
  private func databaseChanged() {
    guard let host else { return }
    let database = host.database
    for range in database.takeChangedRanges() {
      for connection in host.links {
        host.perform(on: connection) { bearer, now in bearer.databaseChanged(range, database: database, now: now) }
      }
    }
  }

  // MARK: - Requests of clients

  func receiveServerEvent(_ event: ATTEvent, on connection: Connection) {
    switch event {
    case .readRequest(let id, let handle, let offset, let owner):
      guard let remote = remember(connection, id, handle, owner, isRead: true), let owned = local.owned[handle] else {
        return refuse(connection, id, handle)
      }
      post(.readRequested(remote, central(connection), owned.id, offset: offset), to: owner)
    case .writeRequest(let id, let entries, let owner):
      let writes = remoteWrites(connection, entries)
      let first = connection.bearer.output.eventWrites[entries].first?.handle ?? 0
      guard writes.count == entries.count, !writes.isEmpty,
        let remote = remember(connection, id, first, owner, isRead: false)
      else { return refuse(connection, id, first) }
      post(.writeRequested(remote, central(connection), writes, needsResponse: true), to: owner)
    case .writeCommand(let handle, let value, let owner):
      guard let owned = local.owned[handle] else { return }
      local.lastRequest += 1
      let write = RemoteWrite(
        characteristic: owned.id, offset: 0, value: [UInt8](connection.bearer.output.eventBytes[value]))
      post(.writeRequested(local.lastRequest, central(connection), [write], needsResponse: false), to: owner)
    case .subscriptionChanged(let handle, let configuration, let owner):
      subscriptionChanged(connection, handle, configuration, owner)
    case .indicationConfirmed(_, let token):
      if local.indications[connection.handle]?.first == token { local.indications[connection.handle]?.removeFirst() }
      updateSent(token)
    case .updateDropped(let token):
      updateDropped(token, connection.handle)
    default: break
    }
  }

  /// An update that waited in the bearer is not sent after all.
  private func updateDropped(_ update: UInt64, _ handle: ConnectionHandle) {
    if local.notifications[handle]?.remove(update) == true {
      // It was one of these.
    } else if let index = local.indications[handle]?.firstIndex(of: update) {
      local.indications[handle]?.remove(at: index)
    }
    updateSent(update)
  }

  private func remoteWrites(_ connection: Connection, _ entries: Range<Int>) -> [RemoteWrite] {
    connection.bearer.output.eventWrites[entries].compactMap { entry in
      local.owned[entry.handle].map {
        RemoteWrite(
          characteristic: $0.id, offset: entry.offset,
          value: [UInt8](connection.bearer.output.eventBytes[entry.value]))
      }
    }
  }

  private func remember(
    _ connection: Connection, _ id: UInt32, _ handle: UInt16, _ owner: SessionID, isRead: Bool
  ) -> RemoteRequestID? {
    guard sessions[owner] != nil else { return nil }
    local.lastRequest += 1
    local.requests[local.lastRequest] = LocalServices.Request(
      connection: connection, bearerID: id, session: owner, handle: handle, isRead: isRead)
    return local.lastRequest
  }

  /// Nobody is there to answer.
  private func refuse(_ connection: Connection, _ id: UInt32, _ handle: UInt16) {
    guard let host else { return }
    host.perform(on: connection) { bearer, now in
      bearer.reject(id, error: .unlikelyError, handle: handle, database: host.database, now: now)
    }
  }

  func respond(_ id: RemoteRequestID, _ code: UInt8, _ value: [UInt8]?, _ session: ClientSession) {
    guard let host, let request = local.requests[id], request.session == session.id else { return }
    local.requests[id] = nil
    let database = host.database
    let octets = value ?? []
    host.perform(on: request.connection) { bearer, now in
      if code != 0 {
        bearer.reject(
          request.bearerID, error: ATTError(rawValue: code), handle: request.handle, database: database, now: now)
      } else if request.isRead {
        bearer.respondToRead(request.bearerID, value: octets.span.bytes, database: database, now: now)
      } else {
        bearer.respondToWrite(request.bearerID, database: database, now: now)
      }
    }
  }

  private func central(_ connection: Connection) -> CentralInfo {
    let identifier = peers.identifier(of: connection.peer) ?? PeerIdentifier(high: 0, low: 0)
    return CentralInfo(identifier: identifier, maximumUpdateValueLength: connection.bearer.mtu - 3)
  }

  func centralChanged(_ connection: Connection) {
    let info = central(connection)
    for session in orderedSessions where local.services.contains(where: { $0.session == session.id }) {
      post(.centralChanged(info), to: session)
    }
  }

  // MARK: - Subscribers

  private func subscriptionChanged(
    _ connection: Connection, _ handle: UInt16, _ configuration: UInt16, _ owner: SessionID
  ) {
    guard let owned = local.owned[handle] else { return }
    let info = central(connection)
    if configuration == 0 {
      if local.subscribers[handle]?.remove(info.identifier) != nil {
        post(.unsubscribed(info.identifier, owned.id), to: owner)
      }
    } else if local.subscribers[handle, default: []].insert(info.identifier).inserted {
      post(.subscribed(info, owned.id), to: owner)
    }
  }

  /// A link is gone: its client's subscriptions end, its requests need no answer, its updates are out of the way.
  func forgetClient(_ connection: Connection) {
    local.requests = local.requests.filter { $0.value.connection !== connection }
    var notifications = local.notifications.removeValue(forKey: connection.handle) ?? UpdateQueue()
    while let update = notifications.removeFirst() { updateSent(update) }
    for update in local.indications.removeValue(forKey: connection.handle) ?? [] { updateSent(update) }
    guard let identifier = peers.identifier(of: connection.peer) else { return }
    for handle in local.subscribers.keys.sorted() where local.subscribers[handle]?.remove(identifier) != nil {
      if let owned = local.owned[handle] { post(.unsubscribed(identifier, owned.id), to: owned.session) }
    }
  }

  func updateValue(
    _ attribute: LocalAttributeID, _ value: [UInt8], _ centrals: [PeerIdentifier]?, _ session: ClientSession
  ) {
    guard let host else { return }
    let update = local.updates.begin(session.id)
    if let handle = local.handle(session.id, attribute) {
      for connection in host.links { send(update, handle, value, centrals, to: connection, host) }
    }
    // The update itself counts for one, so that one without subscribers is over at once.
    updateSent(update)
  }

  private func send(
    _ update: UInt64, _ handle: UInt16, _ value: [UInt8], _ centrals: [PeerIdentifier]?, to connection: Connection,
    _ host: Host
  ) {
    let configuration = connection.bearer.subscription(handle)
    guard configuration != 0, let identifier = peers.identifier(of: connection.peer),
      centrals?.contains(identifier) ?? true
    else { return }
    let notifies = configuration & 1 != 0
    let database = host.database
    // Counted first: sending may come back with the acknowledgement of an earlier one.
    if notifies {
      local.notifications[connection.handle, default: UpdateQueue()].append(update)
    } else {
      local.indications[connection.handle, default: []].append(update)
    }
    local.updates.add(to: update)
    let isSent = host.perform(on: connection) { bearer, now in
      notifies
        ? bearer.notify(handle, value.span.bytes, token: update, database: database)
        : bearer.indicate(handle, value.span.bytes, token: update, database: database, now: now)
    }
    guard !isSent else { return }
    if notifies { _ = local.notifications[connection.handle]?.remove(update) }
    if !notifies { local.indications[connection.handle]?.removeLast() }
    updateSent(update)
  }

  func notificationsSent(_ connection: Connection, _ count: Int) {
    for _ in 0..<count {
      guard let update = local.notifications[connection.handle]?.removeFirst() else { return }
      updateSent(update)
    }
  }

  /// One part of an update is out of the way; with the last its credit goes back.
  private func updateSent(_ update: UInt64) {
    if let session = local.updates.end(update) { post(.updateCreditsGranted(1), to: session) }
  }

  // MARK: - Advertising

  func startAdvertising(
    _ token: RequestToken, _ name: String?, _ services: [BluetoothUUID], _ session: ClientSession
  ) {
    if session.advertising != nil {
      post(
        .advertisingStarted(token, SystemError(.alreadyAdvertising, "advertising has been started already")),
        to: session)
      return
    }
    session.advertising = AdvertisingWish(localName: name, services: services)
    local.advertisingTokens.append((session.id, token))
    settleAdvertising()
  }

  func stopAdvertising(_ session: ClientSession) {
    guard session.advertising != nil else { return }
    session.advertising = nil
    local.advertisingTokens.removeAll { $0.0 == session.id }
    settleAdvertising()
  }

  /// The content that all sessions want together, as Apple lays it out.
  private func settleAdvertising() {
    let wishes = orderedSessions.compactMap(\.advertising)
    guard !wishes.isEmpty else {
      host?.stopAdvertising()
      return
    }
    var services: [BluetoothUUID] = []
    for service in wishes.flatMap(\.services) where !services.contains(service) { services.append(service) }
    host?.startAdvertising(
      AdvertisingLayout.content(name: wishes.lazy.compactMap(\.localName).first, services: services))
  }

  func advertisingStarted(_ error: SystemError?) {
    for (id, token) in local.advertisingTokens {
      if error != nil { sessions[id]?.advertising = nil }
      post(.advertisingStarted(token, error), to: id)
    }
    local.advertisingTokens.removeAll()
  }

  func setLatency(_ latency: DesiredLatency, _ central: PeerIdentifier) {
    guard let host, let address = peers.address(of: central) else { return }
    let (low, high, skips): (UInt16, UInt16, UInt16) =
      switch latency {
      case .low: (12, 24, 0)  // 15-30 ms
      case .medium: (72, 96, 0)  // 90-120 ms
      case .high: (216, 240, 1)  // 270-300 ms
      }
    let range = ConnectionParameterRange(
      intervalMin: ConnectionInterval(rawValue: low), intervalMax: ConnectionInterval(rawValue: high), latency: skips,
      supervisionTimeout: SupervisionTimeout(rawValue: 400))
    for connection in host.links where connection.peer == address { host.requestParameters(connection, range) }
  }
}

extension CharacteristicDefinition {
  fileprivate init(_ characteristic: LocalCharacteristic) {
    self.init(
      uuid: characteristic.uuid, properties: CharacteristicProperties(rawValue: characteristic.properties),
      permissions: AttributePermissions(read: .init(characteristic.read), write: .init(characteristic.write)),
      value: characteristic.value.map { .fixed($0) } ?? .owner,
      subscriptionAccess: characteristic.subscriptionNeedsEncryption ? .encrypted : .open,
      descriptors: characteristic.descriptors.map {
        DescriptorDefinition(uuid: $0.uuid, permissions: .readable, value: .fixed($0.value))
      })
  }
}

extension BLEGATT.AttributeAccess {
  fileprivate init(_ access: AttributeAccess) {
    self =
      switch access {
      case .never: .never
      case .open: .open
      case .encrypted: .encrypted
      }
  }
}
