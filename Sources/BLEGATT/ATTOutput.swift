// SPDX-License-Identifier: Apache-2.0

public import BLECore

/// What kind of PDU waits in ``ATTOutput/outgoing``, for the host's accounting.
public enum ATTPacketTag: Hashable, Sendable {
  case request
  case response
  case indication
  case confirmation
  /// A Handle Value Notification, or one of several values; the token is that of
  /// ``ATTBearer/notify(_:_:token:database:)`` or ``ATTBearer/notifyMultiple(_:token:database:)``.
  case notification(token: UInt64)
  /// A Write Command; the token is that of ``ATTBearer/writeCommand(_:_:token:)``.
  case command(token: UInt64)
}

/// A discovered service (Vol 3 Part G 3.1).
public struct GATTService: Hashable, Sendable {
  /// From the declaration to the last attribute of the service.
  public var range: ClosedRange<UInt16>
  public var uuid: BluetoothUUID
  public var isPrimary: Bool

  public init(range: ClosedRange<UInt16>, uuid: BluetoothUUID, isPrimary: Bool) {
    self.range = range
    self.uuid = uuid
    self.isPrimary = isPrimary
  }
}

/// A discovered include declaration (Vol 3 Part G 3.2).
public struct GATTIncludedService: Hashable, Sendable {
  /// The handle of the declaration.
  public var handle: UInt16
  /// The handles of the included service.
  public var range: ClosedRange<UInt16>
  public var uuid: BluetoothUUID

  public init(handle: UInt16, range: ClosedRange<UInt16>, uuid: BluetoothUUID) {
    self.handle = handle
    self.range = range
    self.uuid = uuid
  }
}

/// A discovered characteristic (Vol 3 Part G 3.3).
public struct GATTCharacteristic: Hashable, Sendable {
  public var declarationHandle: UInt16
  public var valueHandle: UInt16
  /// The last handle that may belong to the characteristic: the one before the next declaration, or the end of the
  /// range that was searched.
  public var endHandle: UInt16
  public var properties: CharacteristicProperties
  public var uuid: BluetoothUUID

  public init(
    declarationHandle: UInt16, valueHandle: UInt16, endHandle: UInt16, properties: CharacteristicProperties,
    uuid: BluetoothUUID
  ) {
    self.declarationHandle = declarationHandle
    self.valueHandle = valueHandle
    self.endHandle = endHandle
    self.properties = properties
    self.uuid = uuid
  }

  /// Where the characteristic's descriptors may be; nil if there is room for none.
  public var descriptorRange: ClosedRange<UInt16>? {
    valueHandle < endHandle ? valueHandle + 1...endHandle : nil
  }
}

/// A discovered descriptor (Vol 3 Part G 3.3.3).
public struct GATTDescriptor: Hashable, Sendable {
  public var handle: UInt16
  public var uuid: BluetoothUUID

  public init(handle: UInt16, uuid: BluetoothUUID) {
    self.handle = handle
    self.uuid = uuid
  }
}

/// One value of a read of several attributes; `value` is a range of ``ATTOutput/eventBytes``.
public struct GATTReadValue: Hashable, Sendable {
  public var handle: UInt16
  public var value: Range<Int>
}

/// One part of a write that a client asks for; `value` is a range of ``ATTOutput/eventBytes``.
public struct GATTWriteEntry: Hashable, Sendable {
  public var handle: UInt16
  /// Where in the attribute's value the part goes; 0 unless the client queued the write.
  public var offset: Int
  public var value: Range<Int>
}

/// What a bearer has to say. A `Range<Int>` named `value` is one of ``ATTOutput/eventBytes``.
///
/// Each procedure that a client verb starts ends with exactly one event that carries its token.
public enum ATTEvent: Sendable {
  // Both halves.

  /// ATT_MTU has changed, for both directions.
  case mtuChanged(Int)
  /// The bearer is dead; the link is to be disconnected.
  case bearerFailed(ATTBearerFailure)

  // The client's half.

  case mtuExchanged(token: UInt64, Result<Int, GATTError>)
  case servicesDiscovered(token: UInt64, Result<[GATTService], GATTError>)
  case includedServicesDiscovered(token: UInt64, Result<[GATTIncludedService], GATTError>)
  case characteristicsDiscovered(token: UInt64, Result<[GATTCharacteristic], GATTError>)
  case descriptorsDiscovered(token: UInt64, Result<[GATTDescriptor], GATTError>)
  /// A read, or a read of several values that came as one, ended.
  case valueRead(token: UInt64, Result<Range<Int>, GATTError>)
  /// A read by UUID, or of several values with their lengths, ended.
  case valuesRead(token: UInt64, Result<[GATTReadValue], GATTError>)
  /// A write ended; nil is success.
  case written(token: UInt64, GATTError?)
  /// All procedures started before ``ATTBearer/passBarrier(token:now:)`` have ended.
  case barrierPassed(token: UInt64)
  /// The server said Database Out Of Sync, and its Database Hash (nil: it has none to show) is not the one known: all
  /// that was known of its attributes is void. Procedures with handles have ended, write commands are dropped.
  case databaseOutOfSync(hash: Range<Int>?)
  /// A write command that was accepted is not sent: its handle has lost its meaning.
  case commandDropped(token: UInt64)
  case notification(handle: UInt16, value: Range<Int>)
  /// An indication; it has been confirmed already.
  case indication(handle: UInt16, value: Range<Int>)

  // The server's half.

  /// A client reads a value of `owner`: to be answered by ``ATTBearer/respondToRead(_:value:database:)`` with the
  /// octets from `offset` on, or by ``ATTBearer/reject(_:error:handle:database:)``.
  case readRequest(id: UInt32, handle: UInt16, offset: Int, owner: UInt32)
  /// A client writes values of `owner`, all or none: `entries` is a range of ``ATTOutput/eventWrites``, in the client's
  /// order. To be answered by ``ATTBearer/respondToWrite(_:database:)`` or ``ATTBearer/reject(_:error:handle:database:)``.
  case writeRequest(id: UInt32, entries: Range<Int>, owner: UInt32)
  /// A client wrote without wanting an answer.
  case writeCommand(handle: UInt16, value: Range<Int>, owner: UInt32)
  /// A client's Client Characteristic Configuration changed: bit 0 notifications, bit 1 indications.
  case subscriptionChanged(valueHandle: UInt16, configuration: UInt16, owner: UInt32)
  /// The client confirmed an indication.
  case indicationConfirmed(handle: UInt16, token: UInt64)
  /// A notification or indication that waited is not sent: the client does not want it any more, or its attribute is
  /// gone.
  case updateDropped(token: UInt64)
}

/// Everything that comes out of a bearer. The host drains it after each call and keeps the memory:
/// `events`, `eventBytes` and `eventWrites` with ``removeEvents()``, `outgoing` packet by packet.
public struct ATTOutput {
  /// PDUs for the ATT channel, oldest first.
  public var outgoing = PacketQueue<ATTPacketTag>()
  public var events: [ATTEvent] = []
  /// The octets that `events` refers to.
  public var eventBytes: [UInt8] = []
  /// The parts of writes that `events` refers to.
  public var eventWrites: [GATTWriteEntry] = []
  /// ATT_MTU as it is now.
  private(set) var mtu = ATTLimits.defaultMTU
  /// The largest PDU that this side takes once the MTU is exchanged.
  let rxMTU: UInt16
  /// Whether either side's exchange has completed: there is one ATT_MTU for both directions, set once.
  private(set) var isMTUExchanged = false

  init(rxMTU: UInt16) { self.rxMTU = max(rxMTU, UInt16(ATTLimits.defaultMTU)) }

  /// Completes the exchange of the MTU with what the peer offered (Vol 3 Part F 3.4.2.2).
  mutating func exchangeMTU(peer: UInt16) {
    guard !isMTUExchanged else { return }
    isMTUExchanged = true
    let agreed = max(ATTLimits.defaultMTU, Int(min(peer, rxMTU)))
    guard agreed != mtu else { return }
    mtu = agreed
    events.append(.mtuChanged(agreed))
  }

  /// Empties the events and what they refer to; the memory stays.
  public mutating func removeEvents() {
    events.removeAll(keepingCapacity: true)
    eventBytes.removeAll(keepingCapacity: true)
    eventWrites.removeAll(keepingCapacity: true)
  }

  /// Keeps `bytes` for an event and says where.
  mutating func keep(_ bytes: RawSpan) -> Range<Int> {
    let start = eventBytes.count
    var writer = ByteWriter()
    swap(&writer.bytes, &eventBytes)
    writer.bytes(bytes)
    swap(&writer.bytes, &eventBytes)
    return start..<eventBytes.count
  }
}

/// Numbers of the Attribute Protocol.
public enum ATTLimits {
  /// ATT_MTU of an LE bearer until it is exchanged (Vol 3 Part G 5.2.1).
  public static let defaultMTU = 23
  /// The largest MTU that is of use: a Prepare Write Request with 512 octets.
  public static let usefulMTU: UInt16 = 517
  /// The longest attribute value (Vol 3 Part F 3.2.9).
  public static let valueMax = 512
  /// After that long without a response or confirmation a bearer is dead (Vol 3 Part F 3.3.3).
  public static let transactionTimeout = TimeSpan.seconds(30)
}

/// How a link is protected, as far as attributes care (Vol 3 Part C 10.3.1).
public struct LinkSecurity: Hashable, Sendable {
  /// What the link is now, or what an attribute wants it to be at least.
  public enum Level: UInt8, Comparable, Sendable {
    case none, encrypted, authenticated
    public static func < (a: Level, b: Level) -> Bool { a.rawValue < b.rawValue }
  }

  public var level: Level
  /// Whether a key of the peer is stored, so that encryption could be started.
  public var hasKey: Bool

  public init(level: Level, hasKey: Bool) {
    self.level = level
    self.hasKey = hasKey
  }

  /// No encryption, no key.
  public static let none = LinkSecurity(level: .none, hasKey: false)
}
