// SPDX-License-Identifier: Apache-2.0

public import BLECore

/// The Characteristic Properties octet (Vol 3 Part G 3.3.1.1).
@frozen
public struct CharacteristicProperties: OptionSet, Hashable, Sendable {
  public let rawValue: UInt8
  @inlinable public init(rawValue: UInt8) { self.rawValue = rawValue }

  public static let broadcast = CharacteristicProperties(rawValue: 0x01)
  public static let read = CharacteristicProperties(rawValue: 0x02)
  public static let writeWithoutResponse = CharacteristicProperties(rawValue: 0x04)
  public static let write = CharacteristicProperties(rawValue: 0x08)
  public static let notify = CharacteristicProperties(rawValue: 0x10)
  public static let indicate = CharacteristicProperties(rawValue: 0x20)
  public static let authenticatedSignedWrites = CharacteristicProperties(rawValue: 0x40)
  public static let extendedProperties = CharacteristicProperties(rawValue: 0x80)
}

/// What a client's link needs for one kind of access to an attribute (Vol 3 Part F 3.2.5).
public enum AttributeAccess: UInt8, Hashable, Sendable {
  /// No client has it.
  case never
  case open
  case encrypted
  /// Encrypted with a key that is safe from a man in the middle.
  case authenticated

  /// The security a link must have; nil if none is enough.
  var requiredLevel: LinkSecurity.Level? {
    switch self {
    case .never: nil
    case .open: LinkSecurity.Level.none
    case .encrypted: .encrypted
    case .authenticated: .authenticated
    }
  }
}

/// The access permissions of an attribute.
public struct AttributePermissions: Hashable, Sendable {
  public var read: AttributeAccess
  public var write: AttributeAccess

  public init(read: AttributeAccess, write: AttributeAccess) {
    self.read = read
    self.write = write
  }

  public static let readable = AttributePermissions(read: .open, write: .never)
  public static let writeable = AttributePermissions(read: .never, write: .open)
  public static let readWrite = AttributePermissions(read: .open, write: .open)
}

/// Where an attribute's value is.
public enum AttributeValue: Hashable, Sendable {
  /// In the database, which answers by itself. Up to 512 octets.
  case fixed([UInt8])
  /// With the service's owner, who is asked for each access.
  case owner
  /// The hash of the database as it is (Database Hash, Vol 3 Part G 7.3).
  case databaseHash
  /// Each client's own, kept by its bearer (Client Supported Features, Vol 3 Part G 7.2).
  case clientFeatures
}

/// A descriptor to be added. The Client Characteristic Configuration (0x2902) and Extended Properties (0x2900)
/// descriptors are made by the database and may not be defined.
public struct DescriptorDefinition: Hashable, Sendable {
  public var uuid: BluetoothUUID
  public var permissions: AttributePermissions
  public var value: AttributeValue

  public init(uuid: BluetoothUUID, permissions: AttributePermissions = .readable, value: AttributeValue) {
    self.uuid = uuid
    self.permissions = permissions
    self.value = value
  }
}

/// A characteristic to be added (Vol 3 Part G 3.3).
public struct CharacteristicDefinition: Hashable, Sendable {
  public var uuid: BluetoothUUID
  /// With `notify` or `indicate` a Client Characteristic Configuration descriptor is added; with
  /// `extendedProperties` a Characteristic Extended Properties descriptor.
  public var properties: CharacteristicProperties
  public var permissions: AttributePermissions
  public var value: AttributeValue
  /// What a client needs in order to subscribe, and to be sent values.
  public var subscriptionAccess: AttributeAccess
  /// Bit 0 reliable write, bit 1 writable auxiliaries (Vol 3 Part G 3.3.3.1).
  public var extendedProperties: UInt16
  public var descriptors: [DescriptorDefinition]

  public init(
    uuid: BluetoothUUID, properties: CharacteristicProperties, permissions: AttributePermissions,
    value: AttributeValue, subscriptionAccess: AttributeAccess = .open, extendedProperties: UInt16 = 0,
    descriptors: [DescriptorDefinition] = []
  ) {
    self.uuid = uuid
    self.properties = properties
    self.permissions = permissions
    self.value = value
    self.subscriptionAccess = subscriptionAccess
    self.extendedProperties = extendedProperties
    self.descriptors = descriptors
  }
}

/// A service to be added (Vol 3 Part G 3.1).
public struct ServiceDefinition: Hashable, Sendable {
  public var uuid: BluetoothUUID
  public var isPrimary: Bool
  /// Whom the service belongs to; comes back in the events of accesses to it.
  public var owner: UInt32
  /// The handles of the services it includes; they must be there already.
  public var includedServices: [UInt16]
  public var characteristics: [CharacteristicDefinition]

  public init(
    uuid: BluetoothUUID, isPrimary: Bool = true, owner: UInt32 = 0, includedServices: [UInt16] = [],
    characteristics: [CharacteristicDefinition] = []
  ) {
    self.uuid = uuid
    self.isPrimary = isPrimary
    self.owner = owner
    self.includedServices = includedServices
    self.characteristics = characteristics
  }

  /// How many handles the service takes.
  public var handleCount: Int {
    characteristics.reduce(1 + includedServices.count) { $0 + 2 + $1.addedDescriptorCount + $1.descriptors.count }
  }
}

extension CharacteristicDefinition {
  var needsClientConfiguration: Bool { !properties.isDisjoint(with: [.notify, .indicate]) }
  var addedDescriptorCount: Int {
    (needsClientConfiguration ? 1 : 0) + (properties.contains(.extendedProperties) ? 1 : 0)
  }
}

/// The handles of a service that was added; orders are those of its definition.
public struct ServiceRegistration: Hashable, Sendable {
  /// The handles of one characteristic.
  public struct Characteristic: Hashable, Sendable {
    public var declaration: UInt16
    public var value: UInt16
    public var clientConfiguration: UInt16?
    public var extendedProperties: UInt16?
    public var descriptors: [UInt16]
  }

  /// From the declaration, whose handle identifies the service, to the last attribute.
  public var range: ClosedRange<UInt16>
  public var includes: [UInt16]
  public var characteristics: [Characteristic]

  /// The handle of the service declaration.
  public var handle: UInt16 { range.lowerBound }
}

/// Why the database refused a change.
public enum DatabaseError: Error, Hashable, Sendable {
  /// No free range of handles is long enough, or the range asked for is not free.
  case noHandles(needed: Int)
  /// No service begins at `handle`.
  case unknownService(handle: UInt16)
  /// No attribute with a value in the database has `handle`.
  case unknownValue(handle: UInt16)
  /// A value is longer than 512 octets.
  case valueTooLong(count: Int)
  /// The database makes descriptors of this type itself, each at most once for a characteristic.
  case reservedDescriptor(BluetoothUUID)
}
