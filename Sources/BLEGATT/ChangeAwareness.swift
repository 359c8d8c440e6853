// SPDX-License-Identifier: Apache-2.0

import BLECore

/// What a client supports (Client Supported Features, Vol 3 Part G 7.2).
@frozen
public struct ClientSupportedFeatures: OptionSet, Hashable, Sendable {
  public let rawValue: UInt8
  @inlinable public init(rawValue: UInt8) { self.rawValue = rawValue }

  /// It knows what Database Out Of Sync means.
  public static let robustCaching = ClientSupportedFeatures(rawValue: 0x01)
  public static let enhancedATTBearer = ClientSupportedFeatures(rawValue: 0x02)
  /// It may be sent several values in one notification.
  public static let multipleHandleValueNotifications = ClientSupportedFeatures(rawValue: 0x04)

  /// The bits that are defined; the others read as zero, whatever a client writes.
  static let defined: ClientSupportedFeatures = [.robustCaching, .enhancedATTBearer, .multipleHandleValueNotifications]
}

/// Whether a client knows the database as it is (robust caching, Vol 3 Part G 2.5.2.1), on its one bearer.
///
///     aware ◀─────────────── next request ─────────────┬──────────────┐
///       │  ▲                                           │              │
///       │  └ Service Changed confirmed (by all three)  │              │
///       ▼ database changes (in all four)               │              │
///     unaware ── Database Hash read ─────────────────▶ hashRead       │
///       └─────── a request refused: out of sync ────────────────▶ refused
///
/// A client that set the robust caching bit and does not know the database is refused one request that names handles,
/// its commands are ignored, and its notifications and indications wait, but for Service Changed. For a client that
/// did not, the state is kept, and nothing follows from it.
enum ChangeAwareness { case aware, unaware, refused, hashRead }

extension GATTServer {
  /// Whether commands are served and updates sent: the client knows the database, or never asked to be held off.
  var knowsDatabase: Bool { awareness == .aware || !clientFeatures.contains(.robustCaching) }

  /// A request of a client that is not aware: it becomes so, or is refused, or neither.
  mutating func checkAwareness(
    _ opcode: ATTOpcode, _ parameters: RawSpan, _ database: AttributeDatabase, now: Instant,
    into output: inout ATTOutput
  ) throws(ATTRefusal) {
    switch awareness {
    case .aware: break
    case .refused, .hashRead: becomeAware(database, now: now, into: &output)
    case .unaware:
      guard !knowsDatabase, Self.namesAttributes(opcode, parameters) else { return }
      awareness = .refused
      throw ATTRefusal(.databaseOutOfSync)
    }
  }

  /// Whether a request is one that a client must not make with handles of another database (Vol 3 Part G 2.5.2.1); a
  /// malformed one is refused for that.
  private static func namesAttributes(_ opcode: ATTOpcode, _ parameters: RawSpan) -> Bool {
    switch opcode {
    case .readRequest: parameters.byteCount == 2
    case .readBlobRequest: parameters.byteCount == 4
    case .readMultipleRequest, .readMultipleVariableRequest:
      parameters.byteCount >= 4 && parameters.byteCount.isMultiple(of: 2)
    case .writeRequest: parameters.byteCount >= 2
    case .prepareWriteRequest: parameters.byteCount >= 4
    case .readByTypeRequest:
      if let request = try? ATTReadByTypeRequest.decode(parameters) {
        request.attributeType.uuid16 != AttributeType.include
          && request.attributeType.uuid16 != AttributeType.characteristic
          && (request.range.start != 1 || request.range.end != 0xFFFF)
      } else {
        false
      }
    default: false
    }
  }

  /// The client got the Database Hash: with its next request it is aware.
  mutating func databaseHashRead() {
    switch awareness {
    case .unaware: awareness = .hashRead
    case .aware, .refused, .hashRead: break
    }
  }

  /// What was held back goes out.
  mutating func becomeAware(_ database: AttributeDatabase, now: Instant, into output: inout ATTOutput) {
    awareness = .aware
    sendHeldUpdates(database, now: now, into: &output)
  }

  /// Writes Client Supported Features (Vol 3 Part G 7.2): at least one octet, and no bit that was set is cleared.
  mutating func setClientFeatures(
    _ value: RawSpan, _ handle: UInt16
  ) throws(ATTRefusal) {
    var reader = ByteReader(value)
    guard let octet = try? reader.u8() else { throw ATTRefusal(.invalidAttributeValueLength, handle) }
    let features = ClientSupportedFeatures(rawValue: octet).intersection(.defined)
    guard features.isSuperset(of: clientFeatures) else { throw ATTRefusal(.valueNotAllowed, handle) }
    clientFeatures = features
  }
}
