// SPDX-License-Identifier: Apache-2.0

/// The type of an AD structure (Assigned Numbers 2.3).
@frozen
public struct ADType: RawRepresentable, Hashable, Sendable {
  public let rawValue: UInt8
  @inlinable public init(rawValue: UInt8) { self.rawValue = rawValue }

  public static let flags = ADType(rawValue: 0x01)
  public static let incompleteServiceUUIDs16 = ADType(rawValue: 0x02)
  public static let completeServiceUUIDs16 = ADType(rawValue: 0x03)
  public static let incompleteServiceUUIDs32 = ADType(rawValue: 0x04)
  public static let completeServiceUUIDs32 = ADType(rawValue: 0x05)
  public static let incompleteServiceUUIDs128 = ADType(rawValue: 0x06)
  public static let completeServiceUUIDs128 = ADType(rawValue: 0x07)
  public static let shortenedLocalName = ADType(rawValue: 0x08)
  public static let completeLocalName = ADType(rawValue: 0x09)
  public static let txPowerLevel = ADType(rawValue: 0x0A)
  public static let peripheralConnectionIntervalRange = ADType(rawValue: 0x12)
  public static let serviceSolicitation16 = ADType(rawValue: 0x14)
  public static let serviceSolicitation128 = ADType(rawValue: 0x15)
  public static let serviceData16 = ADType(rawValue: 0x16)
  public static let publicTargetAddress = ADType(rawValue: 0x17)
  public static let randomTargetAddress = ADType(rawValue: 0x18)
  public static let appearance = ADType(rawValue: 0x19)
  public static let advertisingInterval = ADType(rawValue: 0x1A)
  public static let leBluetoothDeviceAddress = ADType(rawValue: 0x1B)
  public static let leRole = ADType(rawValue: 0x1C)
  public static let serviceSolicitation32 = ADType(rawValue: 0x1F)
  public static let serviceData32 = ADType(rawValue: 0x20)
  public static let serviceData128 = ADType(rawValue: 0x21)
  public static let uri = ADType(rawValue: 0x24)
  public static let leSupportedFeatures = ADType(rawValue: 0x27)
  public static let advertisingIntervalLong = ADType(rawValue: 0x2F)
  public static let manufacturerSpecificData = ADType(rawValue: 0xFF)
}

/// The Flags AD structure (Supplement Part A 1.3).
@frozen
public struct ADFlags: OptionSet, Hashable, Sendable {
  public let rawValue: UInt8
  @inlinable public init(rawValue: UInt8) { self.rawValue = rawValue }

  public static let leLimitedDiscoverable = ADFlags(rawValue: 1 << 0)
  public static let leGeneralDiscoverable = ADFlags(rawValue: 1 << 1)
  public static let brEDRNotSupported = ADFlags(rawValue: 1 << 2)
  public static let simultaneousController = ADFlags(rawValue: 1 << 3)
  public static let simultaneousHost = ADFlags(rawValue: 1 << 4)
}

/// One AD structure: type and data, not copied.
@frozen
public struct ADStructure: ~Escapable {
  public let type: ADType
  public let data: RawSpan

  @inlinable
  @_lifetime(copy data)
  init(type: ADType, data: RawSpan) {
    self.type = type
    self.data = data
  }
}

/// Walks the AD structures of an advertisement or scan response (Vol 3 Part C 11), without allocating.
///
/// Never fails: a length of zero ends the significant part, a length beyond the end ends the walk, and what came
/// before counts.
public struct ADStructures: ~Escapable {
  /// Why the walk ended.
  public enum Ending: Hashable, Sendable {
    /// With the last octet.
    case complete
    /// With a zero length and nothing but zeros after it.
    case padding
    /// With a zero length, though other octets follow, which do not count.
    case earlyTermination(offset: Int)
    /// With a structure that is longer than what is left.
    case overrun(offset: Int)

    /// Whether the sender broke the format.
    public var isMalformed: Bool {
      switch self {
      case .complete, .padding: false
      case .earlyTermination, .overrun: true
      }
    }
  }

  private var reader: ByteReader
  /// Nil until ``next()`` has returned nil.
  public private(set) var ending: Ending?

  @_lifetime(copy bytes)
  public init(_ bytes: RawSpan) {
    reader = ByteReader(bytes)
    ending = nil
  }

  /// The next structure; nil at the end.
  @_lifetime(copy self)
  @_lifetime(self: copy self)
  public mutating func next() -> ADStructure? {
    guard ending == nil else { return nil }
    guard !reader.isAtEnd else {
      ending = .complete
      return nil
    }
    let start = reader.offset
    guard let length = try? reader.u8(), length > 0 else {
      ending = endingAtZero(start)
      return nil
    }
    guard let type = try? reader.u8(), let data = try? reader.span(Int(length) - 1) else {
      ending = .overrun(offset: start)
      return nil
    }
    return ADStructure(type: ADType(rawValue: type), data: data)
  }

  @_lifetime(self: copy self)
  private mutating func endingAtZero(_ start: Int) -> Ending {
    while let octet = try? reader.u8() {
      if octet != 0 { return .earlyTermination(offset: start) }
    }
    return .padding
  }
}

/// Puts AD structures together within a size limit. What does not fit changes nothing.
public struct ADBuilder: Sendable {
  /// Octets there may be: 31 for legacy advertising.
  public let limit: Int
  /// The structures so far.
  public private(set) var bytes: [UInt8] = []

  public init(limit: Int = 31) { self.limit = limit }

  /// Octets that are free, the head of the next structure included.
  public var remaining: Int { limit - bytes.count }

  /// Adds a structure; false if it does not fit (or is longer than 254 octets).
  @discardableResult
  public mutating func append(_ type: ADType, _ data: [UInt8]) -> Bool {
    guard data.count <= 254, data.count + 2 <= remaining else { return false }
    bytes += [UInt8(data.count + 1), type.rawValue]
    bytes += data
    return true
  }

  @discardableResult
  public mutating func append(_ flags: ADFlags) -> Bool { append(.flags, [flags.rawValue]) }

  /// Adds a power level in dBm.
  @discardableResult
  public mutating func append(txPowerLevel: Int8) -> Bool {
    append(.txPowerLevel, [UInt8(bitPattern: txPowerLevel)])
  }

  /// Adds data of a service, in the shortest form of its UUID.
  @discardableResult
  public mutating func append(serviceData data: [UInt8], of service: BluetoothUUID) -> Bool {
    let size = UUIDSize(service)
    return append(size.serviceData, size.octets(service) + data)
  }

  /// Adds services, each in the shortest form of its UUID, one list per size. Returns those that did not fit; the
  /// list they belong to then says that it is incomplete.
  public mutating func append(services: [BluetoothUUID]) -> [BluetoothUUID] {
    var leftOver: [BluetoothUUID] = []
    for size in UUIDSize.allCases {
      let members = services.filter { UUIDSize($0) == size }
      guard !members.isEmpty else { continue }
      let room = max(0, min(remaining - 2, 254) / size.rawValue)
      let fitting = members.prefix(room)
      if !fitting.isEmpty {
        append(fitting.count == members.count ? size.completeList : size.incompleteList, fitting.flatMap(size.octets))
      }
      leftOver += members.dropFirst(fitting.count)
    }
    return leftOver
  }

  /// How much of a name went in.
  public enum NameFit: Hashable, Sendable {
    case complete
    /// The first so many octets, cut between two characters.
    case shortened(Int)
    /// Not even one character.
    case none
  }

  /// Adds a name, shortened to what fits in `limit` octets (without the head) and here.
  public mutating func append(localName: String, limit: Int = 248) -> NameFit {
    let room = min(remaining - 2, limit, 254)
    guard room >= 0 else { return .none }
    if localName.utf8.count <= room {
      append(.completeLocalName, Array(localName.utf8))
      return .complete
    }
    var prefix: [UInt8] = []
    for character in localName {
      guard prefix.count + character.utf8.count <= room else { break }
      prefix += Array(character.utf8)
    }
    guard !prefix.isEmpty else { return .none }
    append(.shortenedLocalName, prefix)
    return .shortened(prefix.count)
  }
}

/// The three lengths of a UUID in AD structures, and the types that go with each.
enum UUIDSize: Int, CaseIterable {
  case short = 2
  case medium = 4
  case long = 16

  /// The shortest for `uuid`.
  init(_ uuid: BluetoothUUID) {
    self = uuid.uuid16 != nil ? .short : uuid.uuid32 != nil ? .medium : .long
  }

  var completeList: ADType {
    switch self {
    case .short: .completeServiceUUIDs16
    case .medium: .completeServiceUUIDs32
    case .long: .completeServiceUUIDs128
    }
  }

  var incompleteList: ADType {
    switch self {
    case .short: .incompleteServiceUUIDs16
    case .medium: .incompleteServiceUUIDs32
    case .long: .incompleteServiceUUIDs128
    }
  }

  var serviceData: ADType {
    switch self {
    case .short: .serviceData16
    case .medium: .serviceData32
    case .long: .serviceData128
    }
  }

  /// The octets of `uuid`, least significant first.
  func octets(_ uuid: BluetoothUUID) -> [UInt8] {
    var writer = ByteWriter(capacity: 16)
    switch self {
    case .short: writer.u16(uuid.uuid16 ?? 0)
    case .medium: writer.u32(uuid.uuid32 ?? 0)
    case .long: uuid.encode128(into: &writer)
    }
    return writer.bytes
  }
}
