// SPDX-License-Identifier: Apache-2.0

import BLECore

/// Why a request is refused: what the Error Response says.
struct ATTRefusal: Error {
  var error: ATTError
  var handle: UInt16

  init(_ error: ATTError, _ handle: UInt16 = 0) {
    self.error = error
    self.handle = handle
  }
}

/// The server half of an ATT bearer (Vol 3 Part F 3.3-3.4, Part G 4): requests of one client in, responses out.
///
/// Checks come in the order length, handle or range, access, security, value, owner. A value that its
/// owner keeps makes the request wait: the event carries an id, the answer is given with it, and an answer with any
/// other id is ignored. A client that sends a request while one waits breaks the protocol; up to
/// ``deferredRequestsMax`` such requests are kept for their turn, more are dropped. What needs no answer (commands, the
/// confirmation) is served meanwhile.
///
/// A client that does not know of the last change of the database is held off as ``ChangeAwareness`` says.
struct GATTServer {
  /// The request that waits for owners.
  enum Pending {
    case none
    case read(id: UInt32, handle: UInt16, opcode: ATTOpcode)
    /// `handles` from `next` on are to be read; the values before are in `scratch`.
    case readMultiple(id: UInt32, handles: [UInt16], next: Int, opcode: ATTOpcode)
    case write(id: UInt32, handle: UInt16)
    /// The owners in `asked`, but for the last, have accepted their parts of the queued writes.
    case execute(id: UInt32, asked: [UInt32], handle: UInt16)
  }

  static let deferredRequestsMax = 4

  var security = LinkSecurity.none
  private(set) var subscriptions: [GATTSubscription] = []
  var pending = Pending.none
  var prepared = PreparedWrites()
  /// A response in the making.
  var scratch = ByteWriter()
  private var lastID: UInt32 = 0
  private var deferred = PacketQueue<ATTOpcode>()
  /// What the client says of itself in Client Supported Features.
  var clientFeatures: ClientSupportedFeatures = []
  var awareness = ChangeAwareness.aware
  var updates = UpdateQueues()

  var deadline: Instant? { updates.indicating?.deadline }

  // MARK: Inputs

  /// Takes a PDU that is none of those a server sends.
  mutating func receive(
    _ opcode: ATTOpcode, _ parameters: RawSpan, database: AttributeDatabase, now: Instant, into output: inout ATTOutput
  ) {
    if opcode.isCommand {
      // Signed writes need a key that no peer has yet; like unknown commands they are ignored.
      if opcode == .writeCommand, knowsDatabase { receiveWriteCommand(parameters, database, into: &output) }
      return
    }
    if opcode == .handleValueConfirmation {
      return receiveConfirmation(parameters, database, now: now, into: &output)
    }
    guard opcode.rawValue != 0 else { return }
    if case .none = pending {
      return serve(opcode, parameters, database, now: now, into: &output)
    }
    if deferred.count < Self.deferredRequestsMax { deferred.append(opcode, parameters) }
  }

  /// A PDU longer than ATT_MTU. A request is refused, so that its client does not wait for nothing.
  mutating func receiveTooLong(_ opcode: ATTOpcode, into output: inout ATTOutput) {
    guard !opcode.isCommand, opcode != .handleValueConfirmation, case .none = pending else { return }
    send(ATTRefusal(.invalidPDU), to: opcode, into: &output)
  }

  mutating func respondToRead(
    _ id: UInt32, _ value: RawSpan, database: AttributeDatabase, now: Instant, into output: inout ATTOutput
  ) {
    switch pending {
    case .read(id, let handle, let opcode):
      pending = .none
      sendValue(value, handle: handle, opcode, into: &output)
    case .readMultiple(id, let handles, let next, let opcode):
      pending = .none
      gather(value, opcode, mtu: output.mtu)
      continueReadMultiple(handles, from: next + 1, opcode, database, into: &output)
    case .none, .read, .readMultiple, .write, .execute:
      return
    }
    serveDeferred(database, now: now, into: &output)
  }

  mutating func respondToWrite(
    _ id: UInt32, database: AttributeDatabase, now: Instant, into output: inout ATTOutput
  ) {
    switch pending {
    case .write(id, _):
      pending = .none
      send(.writeResponse, into: &output)
    case .execute(id, let asked, _):
      pending = .none
      continueExecute(asked: asked, database, into: &output)
    case .none, .read, .readMultiple, .write, .execute:
      return
    }
    serveDeferred(database, now: now, into: &output)
  }

  mutating func reject(
    _ id: UInt32, _ error: ATTError, handle: UInt16?, database: AttributeDatabase, now: Instant,
    into output: inout ATTOutput
  ) {
    switch pending {
    case .read(id, let first, let opcode):
      send(ATTRefusal(error, handle ?? first), to: opcode, into: &output)
    case .readMultiple(id, let handles, let next, let opcode):
      send(ATTRefusal(error, handle ?? handles[next]), to: opcode, into: &output)
    case .write(id, let first):
      send(ATTRefusal(error, handle ?? first), to: .writeRequest, into: &output)
    case .execute(id, _, let first):
      prepared.removeAll()
      send(ATTRefusal(error, handle ?? first), to: .executeWriteRequest, into: &output)
    case .none, .read, .readMultiple, .write, .execute:
      return
    }
    pending = .none
    serveDeferred(database, now: now, into: &output)
  }

  func expired(_ now: Instant) -> ATTBearerFailure? {
    guard let indicating = updates.indicating, indicating.deadline <= now else { return nil }
    return .confirmationTimedOut(handle: indicating.handle)
  }

  /// The link is gone: answers that are still to come find nothing, the queue of writes is lost.
  mutating func close() {
    pending = .none
    prepared.removeAll()
    deferred.removeAll()
    updates = UpdateQueues()
  }

  mutating func databaseChanged(
    _ range: ClosedRange<UInt16>, database: AttributeDatabase, now: Instant, into output: inout ATTOutput
  ) {
    func isGone(_ handle: UInt16) -> Bool { range.contains(handle) }
    subscriptions.removeAll { isGone($0.valueHandle) }
    prepared.lose(range)
    awareness = .unaware
    dropUpdates(into: &output, where: isGone)
    indicateServiceChanged(range, database, now: now, into: &output)
    switch pending {
    case .read(let id, let handle, _) where isGone(handle), .write(let id, let handle) where isGone(handle):
      reject(id, .unlikelyError, handle: nil, database: database, now: now, into: &output)
    case .readMultiple(let id, let handles, let next, _) where handles[next...].contains(where: isGone):
      reject(id, .unlikelyError, handle: nil, database: database, now: now, into: &output)
    case .execute(let id, _, _) where prepared.lostHandle != nil:
      reject(id, .unlikelyError, handle: nil, database: database, now: now, into: &output)
    case .none, .read, .readMultiple, .write, .execute:
      break
    }
  }

  // MARK: Requests

  private mutating func serve(
    _ opcode: ATTOpcode, _ parameters: RawSpan, _ database: AttributeDatabase, now: Instant,
    into output: inout ATTOutput
  ) {
    do throws(ATTRefusal) {
      if awareness != .aware { try checkAwareness(opcode, parameters, database, now: now, into: &output) }
      try answer(opcode, parameters, database, into: &output)
    } catch {
      send(error, to: opcode, into: &output)
    }
  }

  private mutating func answer(
    _ opcode: ATTOpcode, _ parameters: RawSpan, _ database: AttributeDatabase, into output: inout ATTOutput
  ) throws(ATTRefusal) {
    switch opcode {
    case .readRequest:
      let request = try Self.decode(ATTReadRequest.self, parameters)
      try read(request.handle, from: 0, opcode, database, into: &output)
    case .readBlobRequest:
      let request = try Self.decode(ATTReadBlobRequest.self, parameters)
      try read(request.handle, from: Int(request.offset), opcode, database, into: &output)
    case .writeRequest:
      try write(parameters, database, into: &output)
    case .exchangeMTURequest:
      try exchangeMTU(parameters, into: &output)
    case .findInformationRequest:
      try findInformation(parameters, database, into: &output)
    case .findByTypeValueRequest:
      try findByTypeValue(parameters, database, into: &output)
    case .readByTypeRequest:
      try readByType(parameters, database, into: &output)
    case .readByGroupTypeRequest:
      try readByGroupType(parameters, database, into: &output)
    case .readMultipleRequest:
      let request = try Self.decode(ATTReadMultipleRequest.self, parameters)
      try readMultiple(request.handles, opcode, database, into: &output)
    case .readMultipleVariableRequest:
      let request = try Self.decode(ATTReadMultipleVariableRequest.self, parameters)
      try readMultiple(request.handles, opcode, database, into: &output)
    case .prepareWriteRequest:
      try prepareWrite(parameters, database, into: &output)
    case .executeWriteRequest:
      try executeWrite(parameters, database, into: &output)
    default:
      throw ATTRefusal(.requestNotSupported)
    }
  }

  /// Serves requests that came too early, until one waits or none is left.
  private mutating func serveDeferred(_ database: AttributeDatabase, now: Instant, into output: inout ATTOutput) {
    while case .none = pending, let opcode = deferred.first {
      var parameters = ByteWriter()
      deferred.removeFirst { _, bytes in parameters.bytes(bytes) }
      serve(opcode, parameters.bytes.span.bytes, database, now: now, into: &output)
    }
  }

  private mutating func exchangeMTU(_ parameters: RawSpan, into output: inout ATTOutput) throws(ATTRefusal) {
    let request = try Self.decode(ATTExchangeMTURequest.self, parameters)
    let rxMTU = output.rxMTU
    output.outgoing.append(.response) { writer in
      writer.u8(ATTOpcode.exchangeMTUResponse.rawValue)
      writer.u16(rxMTU)
    }
    output.exchangeMTU(peer: request.clientRxMTU)
  }

  // MARK: Sending

  mutating func send(_ opcode: ATTOpcode, into output: inout ATTOutput) {
    output.outgoing.append(.response) { $0.u8(opcode.rawValue) }
  }

  func send(_ refusal: ATTRefusal, to opcode: ATTOpcode, into output: inout ATTOutput) {
    output.outgoing.append(.response) { writer in
      writer.u8(ATTOpcode.errorResponse.rawValue)
      ATTErrorResponse(requestOpcode: opcode, handle: refusal.handle, error: refusal.error).encode(into: &writer)
    }
  }

  /// A new id for a request that waits; never zero.
  mutating func nextID() -> UInt32 {
    lastID = lastID == .max ? 1 : lastID + 1
    return lastID
  }

  /// Decodes the parameters of a request; any fault of their form is Invalid PDU.
  static func decode<T: ATTParameters>(_ type: T.Type, _ parameters: RawSpan) throws(ATTRefusal) -> T {
    do throws(DecodeError) {
      return try T.decode(parameters)
    } catch {
      throw ATTRefusal(.invalidPDU)
    }
  }

  // MARK: Permissions

  func checkRead(_ attribute: borrowing Attribute) throws(ATTRefusal) {
    try check(attribute.permissions.read, .readNotPermitted, attribute.handle)
  }

  func checkWrite(_ attribute: borrowing Attribute) throws(ATTRefusal) {
    try check(attribute.permissions.write, .writeNotPermitted, attribute.handle)
  }

  /// Access first, then security (Vol 3 Part C 10.3.1): a link without encryption lacks it where a key is known, and
  /// authentication where none is; an encrypted link that is not good enough lacks authentication.
  private func check(_ access: AttributeAccess, _ refusal: ATTError, _ handle: UInt16) throws(ATTRefusal) {
    guard let required = access.requiredLevel else { throw ATTRefusal(refusal, handle) }
    guard security.level < required else { return }
    let lacksOnlyEncryption = security.level == .none && security.hasKey
    throw ATTRefusal(lacksOnlyEncryption ? .insufficientEncryption : .insufficientAuthentication, handle)
  }

  // MARK: Subscriptions

  func subscription(ofValue handle: UInt16) -> UInt16 {
    subscriptions.first { $0.valueHandle == handle }?.configuration ?? 0
  }

  mutating func setSubscription(_ configuration: UInt16, ofValue handle: UInt16) {
    let index = subscriptions.firstIndex { $0.valueHandle >= handle } ?? subscriptions.count
    let isThere = index < subscriptions.count && subscriptions[index].valueHandle == handle
    switch (isThere, configuration) {
    case (true, 0): subscriptions.remove(at: index)
    case (true, _): subscriptions[index].configuration = configuration
    case (false, 0): break
    case (false, _):
      subscriptions.insert(GATTSubscription(valueHandle: handle, configuration: configuration), at: index)
    }
  }

  /// Writes a Client Characteristic Configuration (Part G 3.3.3.3): two octets, no bit that the characteristic's
  /// properties do not offer. The owner is told of changes only.
  mutating func configure(
    _ attribute: Attribute, _ value: RawSpan, into output: inout ATTOutput
  ) throws(ATTRefusal) {
    var reader = ByteReader(value)
    guard value.byteCount == 2, let configuration = try? reader.u16() else {
      throw ATTRefusal(.invalidAttributeValueLength, attribute.handle)
    }
    let offered: UInt16 =
      (attribute.properties.contains(.notify) ? 1 : 0) | (attribute.properties.contains(.indicate) ? 2 : 0)
    guard configuration & ~offered == 0 else { throw ATTRefusal(.cccdImproperlyConfigured, attribute.handle) }
    guard configuration != subscription(ofValue: attribute.related) else { return }
    setSubscription(configuration, ofValue: attribute.related)
    output.events.append(
      .subscriptionChanged(valueHandle: attribute.related, configuration: configuration, owner: attribute.owner))
  }
}
