// SPDX-License-Identifier: Apache-2.0

public import BLECore

/// The unenhanced ATT bearer of one connection (Vol 3 Part F 3.2.11): one client and one server on the same channel.
///
/// Client and server know nothing of each other; they share ATT_MTU and what goes out. Responses, notifications and
/// indications go to the client; all else (requests, commands, the confirmation, what is unknown) to the server.
/// The bearer neither waits nor sends: it takes a PDU, a verb or an expired deadline, and leaves PDUs and events in
/// ``output``, which the host drains after each call. In steady state nothing is allocated for a PDU.
///
/// A request or indication without an answer for 30 s kills the bearer (3.3.3): it then ignores everything, and the
/// host disconnects the link.
public struct ATTBearer {
  /// PDUs to be sent and events to be handled.
  public var output: ATTOutput
  private var client = GATTClient()
  private var server = GATTServer()
  private var isDead = false

  /// A bearer that offers to receive PDUs of up to `rxMTU` octets (23-65535) once the MTU is exchanged.
  public init(rxMTU: UInt16 = ATTLimits.usefulMTU) {
    output = ATTOutput(rxMTU: rxMTU)
  }

  /// ATT_MTU: 23 until it is exchanged.
  public var mtu: Int { output.mtu }

  /// How the link is protected now; attributes are guarded by it.
  public var security: LinkSecurity {
    get { server.security }
    set { server.security = newValue }
  }

  /// The PDUs to be sent on the ATT channel.
  public var outgoing: PacketQueue<ATTPacketTag> {
    _read { yield output.outgoing }
    _modify { yield &output.outgoing }
  }

  /// When ``handleTimeout(now:)`` has to be called; nil for no time.
  public var nextDeadline: Instant? {
    switch (client.deadline, server.deadline) {
    case (let a?, let b?): min(a, b)
    case (let a, let b): a ?? b
    }
  }

  /// Takes a PDU of the peer.
  public mutating func receive(_ pdu: RawSpan, database: AttributeDatabase, now: Instant) {
    var reader = ByteReader(pdu)
    guard !isDead, let code = try? reader.u8() else { return }
    let opcode = ATTOpcode(rawValue: code)
    let isTooLong = pdu.byteCount > output.mtu
    let parameters = reader.rest()
    if !opcode.isFromServer {
      if isTooLong { return server.receiveTooLong(opcode, into: &output) }
      server.receive(opcode, parameters, database: database, now: now, into: &output)
    } else if isTooLong {
      client.receiveTooLong(opcode, now: now, into: &output)
    } else {
      client.receive(opcode, parameters, now: now, into: &output)
    }
  }

  /// Has to be called once ``nextDeadline`` has come.
  public mutating func handleTimeout(now: Instant) {
    guard !isDead, let failure = client.expired(now) ?? server.expired(now) else { return }
    output.events.append(.bearerFailed(failure))
    if case .responseTimedOut(let request) = failure {
      shutDown(activeError: .timedOut(request: request))
    } else {
      shutDown(activeError: .bearerClosed)
    }
  }

  /// The link is gone: every procedure under way or waiting ends with ``GATTError/bearerClosed``.
  public mutating func close() {
    guard !isDead else { return }
    shutDown(activeError: .bearerClosed)
  }

  private mutating func shutDown(activeError: GATTError) {
    isDead = true
    output.outgoing.removeAll()
    client.close(activeError: activeError, into: &output)
    server.close()
  }
}

// MARK: Client verbs

/// Each verb starts a procedure that waits for those before it and ends with one event that carries `token`.
extension ATTBearer {
  /// Exchange MTU (Vol 3 Part G 4.3.1): at most one request is sent in a bearer's life, later calls end at once.
  public mutating func exchangeMTU(token: UInt64, now: Instant) {
    client.start(.exchangeMTU, token: token, now: now, into: &output)
  }

  /// Discover All Primary Services, or those with `uuid` (4.4.1, 4.4.2).
  public mutating func discoverPrimaryServices(uuid: BluetoothUUID? = nil, token: UInt64, now: Instant) {
    let kind: DiscoveryKind = if let uuid { .primaryServicesByUUID(uuid) } else { .primaryServices }
    client.start(.discovery(kind, 1...0xFFFF), token: token, now: now, into: &output)
  }

  /// Find Included Services in the handles of a service (4.5.1).
  public mutating func discoverIncludedServices(in range: ClosedRange<UInt16>, token: UInt64, now: Instant) {
    client.start(.discovery(.includedServices, range), token: token, now: now, into: &output)
  }

  /// Discover All Characteristics of a Service (4.6.1).
  public mutating func discoverCharacteristics(in range: ClosedRange<UInt16>, token: UInt64, now: Instant) {
    client.start(.discovery(.characteristics, range), token: token, now: now, into: &output)
  }

  /// Discover All Characteristic Descriptors (4.7.1) in a ``GATTCharacteristic/descriptorRange``.
  public mutating func discoverDescriptors(in range: ClosedRange<UInt16>, token: UInt64, now: Instant) {
    client.start(.discovery(.descriptors, range), token: token, now: now, into: &output)
  }

  /// Read Using Characteristic UUID (4.8.2): one request; values longer than MTU - 4 come cut, and values that do not
  /// fit the response have to be asked for again from the last handle + 1 on.
  public mutating func readByUUID(
    _ uuid: BluetoothUUID, in range: ClosedRange<UInt16> = 1...0xFFFF, token: UInt64, now: Instant
  ) {
    client.start(.readByUUID(uuid, range), token: token, now: now, into: &output)
  }

  /// Read Characteristic Value or Descriptor, as a long read where the value is long (4.8.1, 4.8.3).
  public mutating func read(_ handle: UInt16, token: UInt64, now: Instant) {
    client.start(.read(handle), token: token, now: now, into: &output)
  }

  /// Read Multiple Characteristic Values (4.8.4, 4.8.5): of `variable` length each, or as one run of octets. At least
  /// two handles, and no more than fit a request.
  public mutating func readMultiple(_ handles: [UInt16], variable: Bool, token: UInt64, now: Instant) {
    var bytes = ByteWriter(capacity: handles.count * 2)
    for handle in handles { bytes.u16(handle) }
    client.start(.readMultiple(variable: variable), bytes.bytes.span.bytes, token: token, now: now, into: &output)
  }

  /// Write Characteristic Value or Descriptor with response; as a long write, each part checked against its echo,
  /// where `value` does not fit one request (4.9.3, 4.9.4). Up to 512 octets.
  public mutating func write(_ handle: UInt16, _ value: RawSpan, token: UInt64, now: Instant) {
    client.start(.write(handle), value, token: token, now: now, into: &output)
  }

  /// Write Without Response (4.9.1): at once, whatever is waiting, but for a look at the Database Hash (then it may
  /// end as ``ATTEvent/commandDropped(token:)``). False, and nothing is sent, if `value` is longer than MTU - 3 or the
  /// bearer is dead. The token comes back in the packet's ``ATTPacketTag``.
  @discardableResult
  public mutating func writeCommand(_ handle: UInt16, _ value: RawSpan, token: UInt64 = 0) -> Bool {
    client.writeCommand(handle, value, token: token, into: &output)
  }

  /// Reliable Writes (4.9.5): all values or none, each part checked against its echo. ``GATTError/valueTooLong(count:)``
  /// if a value would end beyond 512 octets; the server decides how many its queue holds.
  public mutating func reliableWrite(_ writes: [GATTQueuedWrite], token: UInt64, now: Instant) {
    var bytes = ByteWriter()
    for write in writes {
      let end = Int(write.offset) + write.value.count
      guard end <= ATTLimits.valueMax else {
        return output.events.append(.written(token: token, .valueTooLong(count: end)))
      }
      write.encode(into: &bytes)
    }
    client.start(.reliableWrite, bytes.bytes.span.bytes, token: token, now: now, into: &output)
  }

  /// Asks nothing of the server: ends, with ``ATTEvent/barrierPassed(token:)``, when all procedures before it have.
  public mutating func passBarrier(token: UInt64, now: Instant) {
    client.start(.barrier, token: token, now: now, into: &output)
  }

  /// The server's Database Hash, if its owner relies on what belongs to it: then a server that says Database Out Of Sync
  /// is asked for it (see ``ATTEvent/databaseOutOfSync(hash:)``), and nothing ends if it is still the same.
  public var knownDatabaseHash: [UInt8]? {
    get { client.knownHash }
    set { client.knownHash = newValue }
  }

  /// The server has said that its attributes in `range` are not what they were: procedures that name one of them end
  /// with ``GATTError/databaseChanged``, unsent where they wait. Searches through all services begin again.
  public mutating func invalidate(_ range: ClosedRange<UInt16>, now: Instant) {
    guard !isDead else { return }
    client.invalidate(range, now: now, into: &output)
  }
}

// MARK: Server verbs

extension ATTBearer {
  /// Answers a ``ATTEvent/readRequest(id:handle:offset:owner:)`` with the value from the event's offset on; what does
  /// not fit is cut. An answer to anything but the request under way is ignored.
  public mutating func respondToRead(_ id: UInt32, value: RawSpan, database: AttributeDatabase, now: Instant) {
    guard !isDead else { return }
    server.respondToRead(id, value, database: database, now: now, into: &output)
  }

  /// Accepts a ``ATTEvent/writeRequest(id:entries:owner:)``.
  public mutating func respondToWrite(_ id: UInt32, database: AttributeDatabase, now: Instant) {
    guard !isDead else { return }
    server.respondToWrite(id, database: database, now: now, into: &output)
  }

  /// Refuses a request; `handle` names the attribute that is to blame, by default the first of the request.
  public mutating func reject(
    _ id: UInt32, error: ATTError, handle: UInt16? = nil, database: AttributeDatabase, now: Instant
  ) {
    guard !isDead else { return }
    server.reject(id, error, handle: handle, database: database, now: now, into: &output)
  }

  /// Notifies the client of a value, cut to MTU - 3 octets; later, where the client has first to learn of a change of
  /// the database (then it may end as ``ATTEvent/updateDropped(token:)``). False if the client did not ask for
  /// notifications of it, or the link is not protected as the value wants it.
  @discardableResult
  public mutating func notify(
    _ handle: UInt16, _ value: RawSpan, token: UInt64 = 0, database: AttributeDatabase
  ) -> Bool {
    guard !isDead else { return false }
    return server.notify(handle, value, token: token, database: database, into: &output)
  }

  /// Notifies the client of several values at once, none cut, all or none (Vol 3 Part G 4.10.2). False, and nothing is
  /// sent, if the client has not said that it takes such notifications, does not know the database as it is, or did
  /// not ask for all of them; if they are not two at least, or do not fit ATT_MTU.
  @discardableResult
  public mutating func notifyMultiple(
    _ values: [(handle: UInt16, value: [UInt8])], token: UInt64 = 0, database: AttributeDatabase
  ) -> Bool {
    guard !isDead else { return false }
    return server.notifyMultiple(values, token: token, database: database, into: &output)
  }

  /// Indicates a value to the client, cut to MTU - 3 octets when it is sent; one indication at a time is under way,
  /// the others wait. False as for ``notify(_:_:token:database:)``.
  @discardableResult
  public mutating func indicate(
    _ handle: UInt16, _ value: RawSpan, token: UInt64 = 0, database: AttributeDatabase, now: Instant
  ) -> Bool {
    guard !isDead else { return false }
    return server.indicate(handle, value, token: token, database: database, now: now, into: &output)
  }

  /// How many indications have not been confirmed, the one under way included.
  public var unconfirmedIndications: Int { server.unconfirmedIndications }

  /// The client's configuration for the characteristic value `handle`: bit 0 notifications, bit 1 indications.
  public func subscription(_ handle: UInt16) -> UInt16 { server.subscription(ofValue: handle) }

  /// All values the client subscribed to, in handle order: what a bond keeps.
  public var subscriptions: [GATTSubscription] { server.subscriptions }

  /// What the client wrote to Client Supported Features: what a bond keeps.
  public var clientFeatures: ClientSupportedFeatures { server.clientFeatures }

  /// Whether the client knows the database as it is (Vol 3 Part G 2.5.2.1): what a bond keeps.
  public var isClientChangeAware: Bool { server.awareness == .aware }

  /// Sets what a bond kept of the client. No event follows.
  public mutating func restoreClient(features: ClientSupportedFeatures, isChangeAware: Bool) {
    server.clientFeatures = features
    server.awareness = isChangeAware ? .aware : .unaware
  }

  /// Sets a configuration that a bond kept. No event follows.
  public mutating func restoreSubscription(_ subscription: GATTSubscription) {
    server.setSubscription(subscription.configuration, ofValue: subscription.valueHandle)
  }

  /// Has to be called after `range` of the database was changed: subscriptions and queued writes of attributes that
  /// are gone end, and a request that waits for one is answered. The client is told by Service Changed if it wants
  /// to be; until it knows of the change it may be held off (Vol 3 Part G 2.5.2.1).
  public mutating func databaseChanged(_ range: ClosedRange<UInt16>, database: AttributeDatabase, now: Instant) {
    guard !isDead else { return }
    server.databaseChanged(range, database: database, now: now, into: &output)
  }
}

/// A client's configuration for one characteristic value.
public struct GATTSubscription: Hashable, Sendable {
  public var valueHandle: UInt16
  /// Bit 0 notifications, bit 1 indications; never zero.
  public var configuration: UInt16

  public init(valueHandle: UInt16, configuration: UInt16) {
    self.valueHandle = valueHandle
    self.configuration = configuration
  }
}
