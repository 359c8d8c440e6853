// SPDX-License-Identifier: Apache-2.0

public import BLECore
public import BLECrypto

/// Attribute types that the profile defines (Vol 3 Part G 3.4).
enum AttributeType {
  static let primaryService: UInt16 = 0x2800
  static let secondaryService: UInt16 = 0x2801
  static let include: UInt16 = 0x2802
  static let characteristic: UInt16 = 0x2803
  static let extendedProperties: UInt16 = 0x2900
  static let clientConfiguration: UInt16 = 0x2902
  static let genericAttribute: UInt16 = 0x1801
  static let serviceChanged: UInt16 = 0x2A05
  static let databaseHash: UInt16 = 0x2B2A
}

/// One attribute of the database.
struct Attribute {
  enum Kind: UInt8 {
    case service, include, characteristic, value, clientConfiguration, descriptor
    /// Values that nobody stores: one made from the whole database, one of each client.
    case databaseHash, clientFeatures
  }

  var handle: UInt16
  /// The type, if it is a 16-bit UUID; else zero.
  var type16: UInt16
  var kind: Kind
  /// Whether the owner is asked for the value.
  var isOwned = false
  var permissions = AttributePermissions.readable
  /// Of a characteristic value and its Client Characteristic Configuration.
  var properties: CharacteristicProperties = []
  var subscriptionAccess = AttributeAccess.open
  /// Service: its last handle. Include: the included service. Client configuration: the value's handle.
  /// Value: the client configuration's handle, or zero.
  var related: UInt16 = 0
  var owner: UInt32
  var type: BluetoothUUID
  /// Empty where the owner has it, and for a client configuration, which is each client's own.
  var value: [UInt8] = []

  init(handle: UInt16, type: BluetoothUUID, kind: Kind, owner: UInt32) {
    self.handle = handle
    self.type = type
    self.kind = kind
    self.owner = owner
    type16 = type.uuid16 ?? 0
  }
}

/// The attributes of one adapter's GATT server (Vol 3 Part F 3.2, Part G 2.6): all services of all apps, shared by all
/// connections, changed at run time.
///
/// Attributes lie in one array in handle order, with a table from handle to index beside it, so a read costs the same
/// whatever the size. What is a client's own (Client Characteristic Configurations, queued writes) is not here but in
/// each connection's ``ATTBearer``, which has to be told of changes (``ATTBearer/databaseChanged(_:database:now:)``).
public final class AttributeDatabase {
  /// A service that is in the database.
  public struct Service: Hashable, Sendable {
    public var range: ClosedRange<UInt16>
    public var uuid: BluetoothUUID
    public var isPrimary: Bool
    public var owner: UInt32
  }

  /// Counts the changes of the database's structure.
  public private(set) var version: UInt32 = 0
  /// The services in handle order.
  public private(set) var services: [Service] = []
  /// The handles that changed since the host last emptied the list, in no overlapping ranges, ascending: what Service
  /// Changed has to announce (Vol 3 Part G 7.1).
  public private(set) var changedRanges: [ClosedRange<UInt16>] = []

  private(set) var attributes: [Attribute] = []
  /// Where Service Changed is indicated from: the value of that characteristic in the Generic Attribute service.
  public private(set) var serviceChangedHandle: UInt16?
  /// The room for prepared writes that all clients share.
  let prepareBudget = PrepareBudget()
  /// Index of the attribute + 1 by handle; zero for none.
  private var slots: [UInt16] = []
  private var hasher: AESCMAC?
  /// The hash, once somebody has asked for it since the last change.
  private var knownHash: [UInt8]?

  public init() {}

  public var attributeCount: Int { attributes.count }

  /// Adds a service in the first free range of handles, or from handle `start`, and gives the handles it got.
  @discardableResult
  public func addService(
    _ definition: ServiceDefinition, at start: UInt16? = nil
  ) throws(DatabaseError) -> ServiceRegistration {
    try check(definition)
    let count = definition.handleCount
    guard let first = freeRange(of: count, at: start) else { throw .noHandles(needed: count) }
    var layout = ServiceLayout(definition, first: first, database: self)
    let range = first...UInt16(Int(first) + count - 1)
    layout.attributes[0].related = range.upperBound
    attributes.insert(contentsOf: layout.attributes, at: firstIndex(from: first))
    let service = Service(
      range: range, uuid: definition.uuid, isPrimary: definition.isPrimary, owner: definition.owner)
    services.insert(service, at: services.firstIndex { $0.range.lowerBound > first } ?? services.count)
    structureChanged(range)
    return ServiceRegistration(
      range: range, includes: layout.includes, characteristics: layout.characteristics)
  }

  /// Removes the service whose declaration is at `handle`, and the declarations that include it; their services are
  /// then among the ``changedRanges`` too. Returns the handles that are free now.
  @discardableResult
  public func removeService(_ handle: UInt16) throws(DatabaseError) -> ClosedRange<UInt16> {
    guard let index = services.firstIndex(where: { $0.range.lowerBound == handle }) else {
      throw .unknownService(handle: handle)
    }
    let range = services.remove(at: index).range
    let includers = attributes.filter { $0.kind == .include && $0.related == handle && !range.contains($0.handle) }
    attributes.removeAll { attribute in
      range.contains(attribute.handle) || includers.contains { $0.handle == attribute.handle }
    }
    for includer in includers {
      if let service = services.first(where: { $0.range.contains(includer.handle) }) { noteChange(service.range) }
    }
    structureChanged(range)
    return range
  }

  /// Removes all services of `owner`.
  public func removeServices(ofOwner owner: UInt32) {
    for service in services where service.owner == owner {
      _ = try? removeService(service.range.lowerBound)
    }
  }

  /// Replaces a value that the database keeps. No client is told.
  public func setValue(_ handle: UInt16, _ value: [UInt8]) throws(DatabaseError) {
    guard value.count <= ATTLimits.valueMax else { throw .valueTooLong(count: value.count) }
    guard let index = index(of: handle), hasStoredValue(attributes[index]) else { throw .unknownValue(handle: handle) }
    attributes[index].value = value
  }

  /// A value that the database keeps; nil for any other handle.
  public func value(_ handle: UInt16) -> [UInt8]? {
    guard let index = index(of: handle), !attributes[index].isOwned else { return nil }
    switch attributes[index].kind {
    case .service, .include, .characteristic, .value, .descriptor: return attributes[index].value
    case .clientConfiguration, .databaseHash, .clientFeatures: return nil
    }
  }

  /// The Database Hash (Vol 3 Part G 7.3): 16 octets that change with the structure of the database, in the order in
  /// which the characteristic has them. Made when it is asked for and kept until the next change.
  public func hash() throws(CryptoError) -> [UInt8] {
    if let knownHash { return knownHash }
    let mac: AESCMAC
    if let hasher { mac = hasher } else { mac = try AESCMAC() }
    hasher = mac
    let hash = try DatabaseHash.value(of: attributes, mac)
    knownHash = hash
    return hash
  }

  /// Gives the changed ranges and empties the list.
  public func takeChangedRanges() -> [ClosedRange<UInt16>] {
    defer { changedRanges.removeAll() }
    return changedRanges
  }

  // MARK: Lookup

  /// The index of the attribute with `handle`.
  @inline(__always)
  func index(of handle: UInt16) -> Int? {
    let slot = Int(handle)
    guard slot < slots.count, slots[slot] != 0 else { return nil }
    return Int(slots[slot]) - 1
  }

  /// The index of the first attribute whose handle is `handle` or more.
  func firstIndex(from handle: UInt16) -> Int {
    var low = 0
    var high = attributes.count
    while low < high {
      let middle = (low + high) / 2
      if attributes[middle].handle < handle { low = middle + 1 } else { high = middle }
    }
    return low
  }

  private func hasStoredValue(_ attribute: Attribute) -> Bool {
    switch attribute.kind {
    case .value, .descriptor: !attribute.isOwned
    case .service, .include, .characteristic, .clientConfiguration, .databaseHash, .clientFeatures: false
    }
  }

  // MARK: Changes

  private func check(_ definition: ServiceDefinition) throws(DatabaseError) {
    for handle in definition.includedServices
    where !services.contains(where: { $0.range.lowerBound == handle }) {
      throw .unknownService(handle: handle)
    }
    for characteristic in definition.characteristics {
      try check(characteristic.value)
      for descriptor in characteristic.descriptors {
        guard ![AttributeType.clientConfiguration, AttributeType.extendedProperties].contains(descriptor.uuid.uuid16)
        else { throw .reservedDescriptor(descriptor.uuid) }
        try check(descriptor.value)
      }
    }
  }

  private func check(_ value: AttributeValue) throws(DatabaseError) {
    if case .fixed(let bytes) = value, bytes.count > ATTLimits.valueMax { throw .valueTooLong(count: bytes.count) }
  }

  /// The first handle of a free range of `count` handles.
  private func freeRange(of count: Int, at start: UInt16?) -> UInt16? {
    var candidate = start.map(Int.init) ?? 1
    guard candidate >= 1 else { return nil }
    for service in services where Int(service.range.upperBound) >= candidate {
      if candidate + count <= Int(service.range.lowerBound) { break }
      if start != nil { return nil }
      candidate = Int(service.range.upperBound) + 1
    }
    return candidate + count - 1 <= 0xFFFF ? UInt16(candidate) : nil
  }

  private func structureChanged(_ range: ClosedRange<UInt16>) {
    version &+= 1
    knownHash = nil
    noteChange(range)
    findServiceChanged()
    let length = attributes.last.map { Int($0.handle) + 1 } ?? 0
    slots = [UInt16](repeating: 0, count: length)
    for (index, attribute) in attributes.enumerated() { slots[Int(attribute.handle)] = UInt16(index + 1) }
  }

  private func findServiceChanged() {
    let service = services.first { $0.uuid.uuid16 == AttributeType.genericAttribute }
    serviceChangedHandle = service.flatMap { service in
      attributes[firstIndex(from: service.range.lowerBound)...]
        .prefix { $0.handle <= service.range.upperBound }
        .first { $0.type16 == AttributeType.serviceChanged && $0.properties.contains(.indicate) }?.handle
    }
  }

  private func noteChange(_ range: ClosedRange<UInt16>) {
    var merged = range
    changedRanges.removeAll { other in
      guard
        other.overlaps(merged) || Int(other.upperBound) + 1 == Int(merged.lowerBound)
          || Int(merged.upperBound) + 1 == Int(other.lowerBound)
      else { return false }
      merged = min(other.lowerBound, merged.lowerBound)...max(other.upperBound, merged.upperBound)
      return true
    }
    changedRanges.insert(
      merged, at: changedRanges.firstIndex { $0.lowerBound > merged.lowerBound } ?? changedRanges.count)
  }
}

/// Lays a service's attributes out from its first handle on (Vol 3 Part G 3): the declaration, the includes, each
/// characteristic with its value, then the descriptors that the database adds, then the defined ones.
private struct ServiceLayout {
  var attributes: [Attribute] = []
  var includes: [UInt16] = []
  var characteristics: [ServiceRegistration.Characteristic] = []
  private var next: Int
  private let owner: UInt32

  init(_ definition: ServiceDefinition, first: UInt16, database: AttributeDatabase) {
    next = Int(first)
    owner = definition.owner
    let type = definition.isPrimary ? AttributeType.primaryService : AttributeType.secondaryService
    var value = ByteWriter()
    definition.uuid.encode(into: &value)
    add(type: type, kind: .service) { $0.value = value.bytes }
    for handle in definition.includedServices { addInclude(handle, database) }
    for characteristic in definition.characteristics { addCharacteristic(characteristic) }
  }

  @discardableResult
  private mutating func add(type: BluetoothUUID, kind: Attribute.Kind, _ set: (inout Attribute) -> Void) -> UInt16 {
    var attribute = Attribute(handle: UInt16(truncatingIfNeeded: next), type: type, kind: kind, owner: owner)
    set(&attribute)
    attributes.append(attribute)
    next += 1
    return attribute.handle
  }

  @discardableResult
  private mutating func add(type: UInt16, kind: Attribute.Kind, _ set: (inout Attribute) -> Void) -> UInt16 {
    add(type: BluetoothUUID(UInt32(type)), kind: kind, set)
  }

  private mutating func addInclude(_ handle: UInt16, _ database: AttributeDatabase) {
    guard let service = database.services.first(where: { $0.range.lowerBound == handle }) else { return }
    var value = ByteWriter()
    value.u16(service.range.lowerBound)
    value.u16(service.range.upperBound)
    if let short = service.uuid.uuid16 { value.u16(short) }
    includes.append(
      add(type: AttributeType.include, kind: .include) {
        $0.value = value.bytes
        $0.related = handle
      })
  }

  private mutating func addCharacteristic(_ definition: CharacteristicDefinition) {
    var value = ByteWriter()
    value.u8(definition.properties.rawValue)
    value.u16(UInt16(truncatingIfNeeded: next + 1))
    definition.uuid.encode(into: &value)
    let declaration = add(type: AttributeType.characteristic, kind: .characteristic) { $0.value = value.bytes }
    let valueIndex = attributes.count
    let valueHandle = add(type: definition.uuid, kind: .value) {
      $0.permissions = definition.permissions
      $0.properties = definition.properties
      $0.subscriptionAccess = definition.subscriptionAccess
      $0.setValue(definition.value)
    }
    var handles = ServiceRegistration.Characteristic(
      declaration: declaration, value: valueHandle, clientConfiguration: nil, extendedProperties: nil, descriptors: [])
    if definition.needsClientConfiguration {
      let handle = add(type: AttributeType.clientConfiguration, kind: .clientConfiguration) {
        $0.permissions = AttributePermissions(read: .open, write: definition.subscriptionAccess)
        $0.properties = definition.properties
        $0.related = valueHandle
      }
      attributes[valueIndex].related = handle
      handles.clientConfiguration = handle
    }
    if definition.properties.contains(.extendedProperties) {
      handles.extendedProperties = add(type: AttributeType.extendedProperties, kind: .descriptor) {
        $0.value = [
          UInt8(truncatingIfNeeded: definition.extendedProperties),
          UInt8(truncatingIfNeeded: definition.extendedProperties >> 8),
        ]
      }
    }
    for descriptor in definition.descriptors {
      handles.descriptors.append(
        add(type: descriptor.uuid, kind: .descriptor) {
          $0.permissions = descriptor.permissions
          $0.setValue(descriptor.value)
        })
    }
    characteristics.append(handles)
  }
}

extension Attribute {
  fileprivate mutating func setValue(_ definition: AttributeValue) {
    switch definition {
    case .fixed(let bytes): value = bytes
    case .owner: isOwned = true
    case .databaseHash: kind = .databaseHash
    case .clientFeatures: kind = .clientFeatures
    }
  }
}
