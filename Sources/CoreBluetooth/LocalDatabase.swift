// SPDX-License-Identifier: Apache-2.0

import BLECore
import BLESystem
import Foundation

/// What one ``CBPeripheralManager`` has published, by the identifiers that the system was given for it.
struct LocalDatabase {
  private var services: [LocalAttributeID: CBMutableService] = [:]
  private(set) var characteristics: [LocalAttributeID: CBMutableCharacteristic] = [:]
  private var ids: [ObjectIdentifier: LocalAttributeID] = [:]
  /// The characteristics of each service.
  private var members: [LocalAttributeID: [LocalAttributeID]] = [:]
  private var lastID: LocalAttributeID = 0

  /// nil: not published.
  func id(of attribute: CBAttribute) -> LocalAttributeID? { ids[ObjectIdentifier(attribute)] }

  /// Takes a service in, as the system is to have it.
  mutating func publish(_ service: CBMutableService) throws(CBError) -> LocalService {
    guard service.uuid.value != 0x1800, service.uuid.value != 0x1801 else {
      throw .reported(.uuidNotAllowed, "adding \(service): the system has this service itself")
    }
    guard id(of: service) == nil else {
      throw .reported(.invalidParameters, "adding \(service): it is published already")
    }
    var included: [LocalAttributeID] = []
    for other in service.includedServices ?? [] {
      guard let id = id(of: other) else {
        throw .reported(.invalidParameters, "adding \(service): add \(other), which it includes, first")
      }
      included.append(id)
    }
    var local = LocalService(
      id: nextID(), uuid: service.uuid.value, isPrimary: service.isPrimary, includedServices: included)
    var published: [(LocalAttributeID, CBMutableCharacteristic)] = []
    for characteristic in service.characteristics ?? [] {
      guard let characteristic = characteristic as? CBMutableCharacteristic, id(of: characteristic) == nil,
        !published.contains(where: { $0.1 === characteristic })
      else { throw .reported(.invalidParameters, "adding \(service): \(characteristic) is not there to be published") }
      let id = nextID()
      local.characteristics.append(try characteristic.asLocal(id))
      published.append((id, characteristic))
    }
    insert(service, local.id, published)
    return local
  }

  /// Takes a service out; the characteristics that went with it.
  mutating func remove(_ service: LocalAttributeID) -> [CBMutableCharacteristic] {
    if let object = services.removeValue(forKey: service) { ids[ObjectIdentifier(object)] = nil }
    let removed = (members.removeValue(forKey: service) ?? []).compactMap { characteristics.removeValue(forKey: $0) }
    for characteristic in removed { ids[ObjectIdentifier(characteristic)] = nil }
    return removed
  }

  /// Takes everything out; identifiers are not used again.
  mutating func removeAll() -> [CBMutableCharacteristic] {
    let removed = Array(characteristics.values)
    let last = lastID
    self = LocalDatabase()
    lastID = last
    return removed
  }

  private mutating func insert(
    _ service: CBMutableService, _ id: LocalAttributeID, _ published: [(LocalAttributeID, CBMutableCharacteristic)]
  ) {
    services[id] = service
    ids[ObjectIdentifier(service)] = id
    members[id] = published.map(\.0)
    for (id, characteristic) in published {
      characteristics[id] = characteristic
      ids[ObjectIdentifier(characteristic)] = id
    }
  }

  private mutating func nextID() -> LocalAttributeID {
    lastID &+= 1
    return lastID
  }
}

extension CBMutableCharacteristic {
  /// The characteristic as the system is to have it.
  fileprivate func asLocal(_ id: LocalAttributeID) throws(CBError) -> LocalCharacteristic {
    let properties = properties
    let permissions = permissions
    if value != nil {
      let isReadOnly =
        properties.subtracting(.read).isEmpty
        && permissions.subtracting([.readable, .readEncryptionRequired]).isEmpty
      // As Apple's framework does: the app is wrong, and its peers would be told of writes that nobody sees.
      guard isReadOnly else {
        fatalError("Characteristics with cached values must be read-only: \(self)")  // own misuse
      }
    }
    guard properties.isDisjoint(with: [.broadcast, .extendedProperties]) else {
      throw .reported(.invalidParameters, "\(self): broadcast and extendedProperties are the system's own")
    }
    var bits = properties
    if bits.contains(.notifyEncryptionRequired) { bits.insert(.notify) }
    if bits.contains(.indicateEncryptionRequired) { bits.insert(.indicate) }
    var descriptors: [LocalDescriptor] = []
    for descriptor in self.descriptors ?? [] { descriptors.append(try descriptor.asLocal()) }
    return LocalCharacteristic(
      id: id, uuid: uuid.value, properties: UInt8(truncatingIfNeeded: bits.rawValue),
      read: permissions.access(.readable, .readEncryptionRequired),
      write: permissions.access(.writeable, .writeEncryptionRequired),
      subscriptionNeedsEncryption: !properties.isDisjoint(with: [
        .notifyEncryptionRequired, .indicateEncryptionRequired,
      ]), value: value.map { [UInt8]($0) }, descriptors: descriptors)
  }
}

extension CBAttributePermissions {
  fileprivate func access(_ open: Self, _ encrypted: Self) -> AttributeAccess {
    contains(encrypted) ? .encrypted : contains(open) ? .open : .never
  }
}

extension CBDescriptor {
  /// The descriptor as the system is to have it.
  fileprivate func asLocal() throws(CBError) -> LocalDescriptor {
    switch (uuid.value, value) {
    case (0x2900, _), (0x2902, _), (0x2903, _):
      throw .reported(.invalidParameters, "\(self): the system makes this descriptor itself")
    case (0x2901, let text as String): LocalDescriptor(uuid: uuid.value, value: Array(text.utf8))
    case (0x2901, _): throw .reported(.invalidParameters, "\(self): a User Description has a String")
    case (_, let data as Data): LocalDescriptor(uuid: uuid.value, value: [UInt8](data))
    default: throw .reported(.invalidParameters, "\(self): a descriptor of this type has Data")
    }
  }
}
