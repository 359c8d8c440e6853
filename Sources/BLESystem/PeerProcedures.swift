// SPDX-License-Identifier: Apache-2.0

import BLECore
import BLEGATT
import BLEHost

// GATT as a client: the sessions' requests become procedures of the link's bearer, their ends become events.
extension BluetoothSystem {
  /// Starts a procedure under a token of its own.
  func perform(_ link: PeerLink, _ procedure: Procedure, _ body: (inout ATTBearer, UInt64, Instant) -> Void) {
    lastToken += 1
    let token = lastToken
    link.procedures[token] = procedure
    host?.perform(on: link.connection) { bearer, now in body(&bearer, token, now) }
  }

  func handleGATT(_ request: SystemRequest, _ session: ClientSession) {
    guard let reference = request.link else { return }
    guard let link = usable(reference, session) else {
      return refuse(request, session, Self.notConnected(reference))
    }
    prepare(link)
    if link.isHolding {
      link.held.append((request, session.id))
      return
    }
    if let stale = link.stale[session.id], Self.isVoid(request, stale) {
      return refuse(request, session, Self.staleHandle(link))
    }
    if cacheAnswers(request, link) {
      perform(link, .cached(request, session.id)) { $0.passBarrier(token: $1, now: $2) }
    } else {
      performGATT(request, link, session)
    }
  }

  /// Whether the request names handles that its session knows from before a change.
  private static func isVoid(_ request: SystemRequest, _ stale: StaleHandles) -> Bool {
    switch request {
    case .discoverIncludedServices(_, _, let range, _), .discoverCharacteristics(_, _, let range, _):
      stale.containsService(range)
    case .discoverDescriptors(_, _, let characteristic), .setNotify(_, _, let characteristic, _):
      stale.contains(characteristic.valueHandle)
    case .readValue(_, _, let handle), .writeValue(_, _, let handle, _), .writeCommand(_, let handle, _):
      stale.contains(handle)
    default: false
    }
  }

  /// What is kept of a request that becomes a procedure of the same name; nil for any other.
  static func procedure(_ request: SystemRequest, _ session: SessionID) -> Procedure? {
    switch request {
    case .discoverServices(let token, _, let uuids): .services(session, token, uuids)
    case .discoverIncludedServices(let token, _, let range, let uuids): .includedServices(session, token, range, uuids)
    case .discoverCharacteristics(let token, _, let range, let uuids): .characteristics(session, token, range, uuids)
    case .discoverDescriptors(let token, _, let characteristic):
      descriptorRange(characteristic).map { .descriptors(session, token, $0) }
    case .readValue(let token, _, _): .read(session, token)
    case .writeValue(let token, _, _, _): .write(session, token)
    default: nil
    }
  }

  /// The UUID to be searched for: several cost less as a filter over all.
  static func onlyUUID(_ uuids: [BluetoothUUID]?) -> BluetoothUUID? { uuids?.count == 1 ? uuids?.first : nil }

  private func performGATT(_ request: SystemRequest, _ link: PeerLink, _ session: ClientSession) {
    switch request {
    case .writeCommand(_, let handle, let value): return writeCommand(link, handle, value, session)
    case .setNotify(let token, _, let characteristic, let isOn):
      return setNotify(link, token, characteristic, isOn, session)
    case .discoverDescriptors(let token, let reference, let characteristic)
    where Self.descriptorRange(characteristic) == nil:
      return post(.descriptorsDiscovered(token, reference, .success([])), to: session)
    default: break
    }
    guard let procedure = Self.procedure(request, session.id) else { return }
    perform(link, procedure) { bearer, token, now in
      switch request {
      case .discoverServices(_, _, let uuids):
        bearer.discoverPrimaryServices(uuid: Self.onlyUUID(uuids), token: token, now: now)
      case .discoverIncludedServices(_, _, let range, _):
        bearer.discoverIncludedServices(in: range, token: token, now: now)
      case .discoverCharacteristics(_, _, let range, _):
        bearer.discoverCharacteristics(in: range, token: token, now: now)
      case .discoverDescriptors(_, _, let characteristic):
        if let range = Self.descriptorRange(characteristic) {
          bearer.discoverDescriptors(in: range, token: token, now: now)
        }
      case .readValue(_, _, let handle): bearer.read(handle, token: token, now: now)
      case .writeValue(_, _, let handle, let value):
        bearer.write(handle, value.span.bytes, token: token, now: now)
      default: break
      }
    }
  }

  private static func staleHandle(_ link: PeerLink) -> SystemError {
    SystemError(
      .invalidHandle,
      "\(link.connection.peer) has changed its services since this attribute was found; discover them again")
  }

  static func descriptorRange(_ characteristic: CharacteristicRecord) -> ClosedRange<UInt16>? {
    characteristic.valueHandle < characteristic.endHandle
      ? characteristic.valueHandle + 1...characteristic.endHandle : nil
  }

  private func writeCommand(_ link: PeerLink, _ handle: UInt16, _ value: [UInt8], _ session: ClientSession) {
    link.commandQueued(by: session.id)
    let isSent = host?.perform(on: link.connection) { bearer, _ in bearer.writeCommand(handle, value.span.bytes) }
    if isSent != true {
      // Too long: dropped; its credit goes back in its turn.
      Log.write(
        .error, "system",
        "a write without response of \(value.count) octets to \(link.connection.peer) was dropped: "
          + "at most \(link.maximumWriteLength) octets fit")
      link.commandDropped(in: self)
    }
  }

  /// Answers a request that cannot be made.
  private func refuse(_ request: SystemRequest, _ session: ClientSession, _ error: SystemError) {
    switch request {
    case .discoverServices(let token, let link, _):
      post(.servicesDiscovered(token, link, .failure(error)), to: session)
    case .discoverIncludedServices(let token, let link, _, _):
      post(.includedServicesDiscovered(token, link, .failure(error)), to: session)
    case .discoverCharacteristics(let token, let link, _, _):
      post(.characteristicsDiscovered(token, link, .failure(error)), to: session)
    case .discoverDescriptors(let token, let link, _):
      post(.descriptorsDiscovered(token, link, .failure(error)), to: session)
    case .readValue(let token, let link, _):
      post(.valueRead(token, link, .failure(error)), to: session)
    case .writeValue(let token, let link, _, _):
      post(.valueWritten(token, link, error), to: session)
    case .setNotify(let token, let link, _, _):
      post(.notifyStateChanged(token, link, isNotifying: false, error), to: session)
    case .writeCommand(let link, _, _): post(.writeCreditsGranted(link, 1), to: session)
    default: break
    }
  }

  // MARK: - Subscriptions

  private func setNotify(
    _ link: PeerLink, _ token: RequestToken, _ characteristic: CharacteristicRecord, _ isOn: Bool,
    _ session: ClientSession
  ) {
    let handle = characteristic.valueHandle
    var subscription = link.subscriptions[handle] ?? Subscription()
    let others = subscription.sessions.subtracting([session.id])
    if isOn { subscription.sessions.insert(session.id) } else { subscription.sessions.remove(session.id) }
    link.subscriptions[handle] = subscription
    let isSettled = subscription.pendingWrites == 0 && subscription.isOn == isOn
    if isSettled || !isOn && !others.isEmpty {
      // The peer sends already, or has to go on for others, or never sent.
      post(.notifyStateChanged(token, link.reference, isNotifying: isOn, nil), to: session)
      return
    }
    if let configuration = subscription.configuration {
      writeConfiguration(link, token, characteristic, configuration, isOn, session.id)
    } else if let range = Self.descriptorRange(characteristic) {
      if let known = link.cache.descriptors(in: range), link.cache.hash != nil {
        return configurationFound(.success(known), link, session.id, token, characteristic, isOn)
      }
      link.isFindingConfiguration = true
      perform(link, .findConfiguration(session.id, token, characteristic, isOn)) {
        $0.discoverDescriptors(in: range, token: $1, now: $2)
      }
    } else {
      failSubscription(link, token, handle, isOn, session.id, Self.noConfiguration(characteristic))
    }
  }

  /// Apple's framework reports ATT error 6 for a characteristic that can neither notify nor indicate.
  private static func noConfiguration(_ characteristic: CharacteristicRecord) -> SystemError {
    SystemError(
      .att(ATTError.requestNotSupported.rawValue),
      "characteristic \(characteristic.uuid) has no Client Characteristic Configuration: it cannot be subscribed to")
  }

  private func writeConfiguration(
    _ link: PeerLink, _ token: RequestToken, _ characteristic: CharacteristicRecord, _ configuration: UInt16,
    _ isOn: Bool, _ session: SessionID
  ) {
    let notifies = characteristic.properties & CharacteristicProperties.notify.rawValue != 0
    let value: [UInt8] = [isOn ? (notifies ? 1 : 2) : 0, 0]
    link.subscriptions[characteristic.valueHandle]?.pendingWrites += 1
    perform(link, .writeConfiguration(session, token, valueHandle: characteristic.valueHandle, isOn)) {
      $0.write(configuration, value.span.bytes, token: $1, now: $2)
    }
  }

  private func failSubscription(
    _ link: PeerLink, _ token: RequestToken, _ handle: UInt16, _ isOn: Bool, _ session: SessionID, _ error: SystemError
  ) {
    if isOn { link.subscriptions[handle]?.sessions.remove(session) }
    let isNotifying = link.subscriptions[handle]?.sessions.contains(session) == true
    post(.notifyStateChanged(token, link.reference, isNotifying: isNotifying, error), to: session)
  }

  /// A session leaves a link that others go on using: what only it had subscribed to is unsubscribed.
  func unsubscribe(_ session: SessionID, from link: PeerLink) {
    for handle in link.subscriptions.keys.sorted() {
      guard link.subscriptions[handle]?.sessions.remove(session) != nil, !link.users.isEmpty,
        let subscription = link.subscriptions[handle], subscription.sessions.isEmpty, subscription.isOn,
        let configuration = subscription.configuration
      else { continue }
      link.subscriptions[handle]?.isOn = false
      link.subscriptions[handle]?.pendingWrites += 1
      let off: [UInt8] = [0, 0]
      perform(link, .writeConfiguration(0, 0, valueHandle: handle, false)) {
        $0.write(configuration, off.span.bytes, token: $1, now: $2)
      }
    }
  }

  // MARK: - Events of the bearer

  func receive(_ event: ATTEvent, on connection: Connection) {
    switch event {
    case .readRequest, .writeRequest, .writeCommand, .subscriptionChanged, .indicationConfirmed, .updateDropped:
      receiveServerEvent(event, on: connection)
    case .mtuChanged: mtuChanged(connection)
    case .bearerFailed(let failure):
      Log.write(.error, "system", "ATT with \(connection.peer) failed: \(failure); the link is ended")
    case .notification(let handle, let value):
      guard let link = link(of: connection) else { return }
      notified(link, handle, connection.bearer.output.eventBytes[value])
    case .indication(let handle, let value):
      guard let link = link(of: connection) else { return }
      notified(link, handle, connection.bearer.output.eventBytes[value])
      receiveServiceChanged(link, handle, connection.bearer.output.eventBytes[value])
    case .databaseOutOfSync: if let link = link(of: connection) { serviceChanged(link, 1...0xFFFF) }
    case .commandDropped: link(of: connection)?.commandDropped(in: self)
    case .mtuExchanged(let token, _), .servicesDiscovered(let token, _), .includedServicesDiscovered(let token, _),
      .characteristicsDiscovered(let token, _), .descriptorsDiscovered(let token, _), .valueRead(let token, _),
      .valuesRead(let token, _), .written(let token, _), .barrierPassed(let token):
      guard let link = link(of: connection), let procedure = link.procedures.removeValue(forKey: token) else { return }
      complete(procedure, event, link)
    }
  }

  private func mtuChanged(_ connection: Connection) {
    if let link = link(of: connection) {
      for user in link.users.sorted() {
        post(.maximumWriteLengthChanged(link.reference, link.maximumWriteLength), to: user)
      }
    }
    centralChanged(connection)
  }

  private func notified(_ link: PeerLink, _ handle: UInt16, _ value: ArraySlice<UInt8>) {
    guard let subscription = link.subscriptions[handle] else { return }
    let bytes = [UInt8](value)
    if subscription.sessions.count == 1, let session = subscription.sessions.first {
      if link.users.contains(session) { post(.valueNotified(link.reference, handle, bytes), to: session) }
      return
    }
    for session in subscription.sessions.sorted() where link.users.contains(session) {
      post(.valueNotified(link.reference, handle, bytes), to: session)
    }
  }

  func complete(_ procedure: Procedure, _ event: ATTEvent, _ link: PeerLink) {
    let reference = link.reference
    remember(procedure, event, link)
    switch (procedure, event) {
    case (.own(let own), _): complete(own: own, event, link)
    case (.cached(let request, let session), _): answerFromCache(request, session, link)
    case (.services(let session, let token, let filter), .servicesDiscovered(_, let result)):
      let records = services(result, filter, link)
      for record in (try? records.get()) ?? [] { link.stale[session]?.serviceFound(record.handles) }
      post(.servicesDiscovered(token, reference, records), to: session)
    case (.includedServices(let session, let token, _, let filter), .includedServicesDiscovered(_, let result)):
      let records = mapped(result, link) { services in
        services.filter { filter?.contains($0.uuid) ?? true }
          .map { ServiceRecord(handles: $0.range, uuid: $0.uuid, isPrimary: isPrimary($0.range, link)) }
      }
      for record in (try? records.get()) ?? [] { link.stale[session]?.serviceFound(record.handles) }
      post(.includedServicesDiscovered(token, reference, records), to: session)
    case (.characteristics(let session, let token, let range, let filter), .characteristicsDiscovered(_, let result)):
      let records = mapped(result, link) { characteristics in
        characteristics.filter { filter?.contains($0.uuid) ?? true }.map(CharacteristicRecord.init)
      }
      if case .success = records { link.stale[session]?.attributesFound(range) }
      post(.characteristicsDiscovered(token, reference, records), to: session)
    case (.descriptors(let session, let token, _), .descriptorsDiscovered(_, let result)):
      let records = mapped(result, link) { $0.map { DescriptorRecord(handle: $0.handle, uuid: $0.uuid) } }
      post(.descriptorsDiscovered(token, reference, records), to: session)
    case (.read(let session, let token), .valueRead(_, let result)):
      let value = mapped(result, link) { [UInt8](link.connection.bearer.output.eventBytes[$0]) }
      post(.valueRead(token, reference, value), to: session)
    case (.write(let session, let token), .written(_, let error)):
      post(.valueWritten(token, reference, error.map { Self.error($0, link) }), to: session)
    case (.findConfiguration(let session, let token, let record, let isOn), .descriptorsDiscovered(_, let result)):
      configurationFound(result, link, session, token, record, isOn)
      link.isFindingConfiguration = false
      releaseHeld(link)
    case (.writeConfiguration(let session, let token, let handle, let isOn), .written(_, let error)):
      configurationWritten(error, link, session, token, handle, isOn)
    case (.deviceName, .valuesRead(_, let result)):
      if case .success(let values) = result, let first = values.first { deviceNameRead(first, link) }
    default: break
    }
  }

  private func services(
    _ result: Result<[GATTService], GATTError>, _ filter: [BluetoothUUID]?, _ link: PeerLink
  ) -> Result<[ServiceRecord], SystemError> {
    mapped(result, link) { services in
      for service in services { link.primaryServices[service.range] = service.uuid }
      replica.update(connected: link.reference.peer, services: Set(link.primaryServices.values))
      return services.filter { filter?.contains($0.uuid) ?? true }
        .map { ServiceRecord(handles: $0.range, uuid: $0.uuid, isPrimary: $0.isPrimary) }
    }
  }

  /// An include names no kind: a service that was found as a primary one is one.
  private func isPrimary(_ range: ClosedRange<UInt16>, _ link: PeerLink) -> Bool { link.primaryServices[range] != nil }

  private func mapped<A, B>(
    _ result: Result<A, GATTError>, _ link: PeerLink, _ body: (A) -> B
  ) -> Result<B, SystemError> {
    switch result {
    case .success(let value): .success(body(value))
    case .failure(let error): .failure(Self.error(error, link))
    }
  }

  /// What was asked behind a subscription goes on behind its write.
  func releaseHeld(_ link: PeerLink) {
    guard !link.isHolding else { return }
    let held = link.held
    link.held = []
    for (request, id) in held { if let session = sessions[id] { handleGATT(request, session) } }
  }

  private func configurationFound(
    _ result: Result<[GATTDescriptor], GATTError>, _ link: PeerLink, _ session: SessionID, _ token: RequestToken,
    _ record: CharacteristicRecord, _ isOn: Bool
  ) {
    switch result {
    case .failure(let error):
      failSubscription(link, token, record.valueHandle, isOn, session, Self.error(error, link))
    case .success(let descriptors):
      guard let found = descriptors.first(where: { $0.uuid == 0x2902 }) else {
        failSubscription(link, token, record.valueHandle, isOn, session, Self.noConfiguration(record))
        return
      }
      link.subscriptions[record.valueHandle]?.configuration = found.handle
      writeConfiguration(link, token, record, found.handle, isOn, session)
    }
  }

  private func configurationWritten(
    _ error: GATTError?, _ link: PeerLink, _ session: SessionID, _ token: RequestToken, _ handle: UInt16, _ isOn: Bool
  ) {
    link.subscriptions[handle]?.pendingWrites -= 1
    if let error {
      failSubscription(link, token, handle, isOn, session, Self.error(error, link))
      return
    }
    link.subscriptions[handle]?.isOn = isOn
    post(.notifyStateChanged(token, link.reference, isNotifying: isOn, nil), to: session)
  }

  private func deviceNameRead(_ value: GATTReadValue, _ link: PeerLink) {
    let bytes = link.connection.bearer.output.eventBytes[value.value]
    // A response's first value is cut at MTU - 4; a name that may go on is of no use.
    guard bytes.count < link.connection.bearer.mtu - 4, let name = String(validating: bytes, as: UTF8.self) else {
      return
    }
    let peer = link.reference.peer
    guard peers.setDeviceName(name, of: peer) else { return }
    for session in link.users.sorted() { post(.nameChanged(peer, name), to: session) }
  }

  /// The app's view of why a procedure failed.
  static func error(_ error: GATTError, _ link: PeerLink) -> SystemError {
    let peer = link.connection.peer
    return switch error {
    case .att(let code, let handle):
      SystemError(.att(code.rawValue), "\(peer) answered with ATT error \(code) for handle \(handle)")
    case .invalidResponse(let request):
      SystemError(.unknown, "\(peer) answered \(request) with a response that breaks the rules")
    case .echoMismatch(let handle):
      SystemError(
        .unknown, "\(peer) did not repeat the queued write to handle \(handle) as it was sent; it was cancelled")
    case .valueTooLong(let count):
      SystemError(
        .att(ATTError.invalidAttributeValueLength.rawValue),
        "a value has at most \(ATTLimits.valueMax) octets, not \(count)")
    case .timedOut(let request):
      SystemError(.connectionTimeout, "\(peer) did not answer \(request) within 30 s; the link is ended")
    case .databaseChanged: staleHandle(link)
    case .bearerClosed: SystemError(.notConnected, "the link to \(peer) ended before the answer came")
    }
  }
}

extension CharacteristicRecord {
  fileprivate init(_ characteristic: GATTCharacteristic) {
    self.init(
      declarationHandle: characteristic.declarationHandle, valueHandle: characteristic.valueHandle,
      endHandle: characteristic.endHandle, properties: characteristic.properties.rawValue, uuid: characteristic.uuid)
  }
}
