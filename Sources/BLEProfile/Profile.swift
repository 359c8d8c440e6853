// SPDX-License-Identifier: Apache-2.0

public import BLECore

/// A peripheral as a file describes it: what it advertises, its services, and how its values come about.
///
/// The format is documented in `docs/profiles.md`. Only profiles that can be published exist: everything that is
/// wrong with a file is an error of ``init(parsing:)``.
public struct Profile: Hashable, Sendable {
  /// The local name that is advertised; 1 to 248 octets.
  public var name: String
  public var advertisedServices: [BluetoothUUID]
  /// What the random walks without a seed of their own start from.
  public var seed: UInt64
  /// In the file's order; see ``publicationOrder``.
  public var services: [ProfileService]

  public init(name: String, advertisedServices: [BluetoothUUID], seed: UInt64 = 0, services: [ProfileService]) {
    self.name = name
    self.advertisedServices = advertisedServices
    self.seed = seed
    self.services = services
  }

  /// Reads a profile file: JSON of at most ``fileSizeMax`` octets.
  public init(parsing bytes: [UInt8]) throws(ProfileError) {
    guard bytes.count <= Self.fileSizeMax else {
      throw ProfileError("a profile has at most \(Self.fileSizeMax) octets", at: 0, in: bytes)
    }
    let root = try JSONNode(parsing: bytes)
    self = try ProfileDecoder(bytes: bytes).profile(root)
  }

  public static let fileSizeMax = 1 << 20

  /// The longest value of an attribute (Vol 3 Part F 3.2.9).
  public static let valueLengthMax = 512

  /// Indices of ``services`` such that every service comes after those it includes, else as in the file.
  public var publicationOrder: [Int] {
    var order: [Int] = []
    var placed: Set<Int> = []
    // Each round places at least one, as no service includes itself through others.
    while order.count < services.count {
      let ready = services.indices.filter {
        !placed.contains($0) && services[$0].includedServices.allSatisfy(placed.contains)
      }
      guard let next = ready.first else { break }
      order.append(next)
      placed.insert(next)
    }
    return order
  }
}

public struct ProfileService: Hashable, Sendable {
  /// What `includes` of other services may call it.
  public var id: String?
  public var uuid: BluetoothUUID
  public var isPrimary: Bool
  /// Indices in ``Profile/services``; never in a circle.
  public var includedServices: [Int]
  public var characteristics: [ProfileCharacteristic]

  public init(
    id: String? = nil, uuid: BluetoothUUID, isPrimary: Bool = true, includedServices: [Int] = [],
    characteristics: [ProfileCharacteristic]
  ) {
    self.id = id
    self.uuid = uuid
    self.isPrimary = isPrimary
    self.includedServices = includedServices
    self.characteristics = characteristics
  }
}

/// Characteristic Properties (Vol 3 Part G 3.3.1.1), with the names of the file.
public struct ProfileProperties: OptionSet, Hashable, Sendable {
  public var rawValue: UInt8
  public init(rawValue: UInt8) { self.rawValue = rawValue }

  public static let read = ProfileProperties(rawValue: 0x02)
  public static let writeWithoutResponse = ProfileProperties(rawValue: 0x04)
  public static let write = ProfileProperties(rawValue: 0x08)
  public static let notify = ProfileProperties(rawValue: 0x10)
  public static let indicate = ProfileProperties(rawValue: 0x20)
}

/// Who may read or write a value, or subscribe to it.
public enum ProfileAccess: Hashable, Sendable {
  case never, open, encrypted
}

public struct ProfileCharacteristic: Hashable, Sendable {
  public var uuid: BluetoothUUID
  public var properties: ProfileProperties
  public var read: ProfileAccess
  public var write: ProfileAccess
  public var subscriptionNeedsEncryption: Bool
  /// nil: it can only be written.
  public var value: ProfileValue?
  /// A longer write is refused with Invalid Attribute Value Length; at most 512.
  public var lengthMax: Int
  /// How often the next step of the value is made and sent to whoever subscribed.
  public var notifyPeriod: TimeSpan?
  public var descriptors: [ProfileDescriptor]

  public init(
    uuid: BluetoothUUID, properties: ProfileProperties, read: ProfileAccess, write: ProfileAccess,
    subscriptionNeedsEncryption: Bool = false, value: ProfileValue?, lengthMax: Int = Profile.valueLengthMax,
    notifyPeriod: TimeSpan? = nil, descriptors: [ProfileDescriptor] = []
  ) {
    self.uuid = uuid
    self.properties = properties
    self.read = read
    self.write = write
    self.subscriptionNeedsEncryption = subscriptionNeedsEncryption
    self.value = value
    self.lengthMax = lengthMax
    self.notifyPeriod = notifyPeriod
    self.descriptors = descriptors
  }
}

/// A descriptor that never changes. Those that the system makes itself (2900, 2902, 2903) are not among them.
public struct ProfileDescriptor: Hashable, Sendable {
  public var uuid: BluetoothUUID
  public var value: [UInt8]

  public init(uuid: BluetoothUUID, value: [UInt8]) {
    self.uuid = uuid
    self.value = value
  }
}
