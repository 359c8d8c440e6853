// SPDX-License-Identifier: Apache-2.0

import BLECore
import BLESystem
public import Foundation
import Synchronization

/// What services, characteristics and descriptors have in common.
open class CBAttribute: NSObject, @unchecked Sendable {  // What changes in a subclass is behind a lock.
  private let type: CBUUID

  init(type: CBUUID) {
    self.type = type
    super.init()
  }

  /// The attribute's type.
  open var uuid: CBUUID { type }
}

// MARK: - Services

/// A service: of a remote peer, or, as a ``CBMutableService``, to publish.
///
/// A remote peer's service is valid for one connection; after it, or after the peer said that it has changed, discover
/// again.
open class CBService: CBAttribute, @unchecked Sendable {  // What changes is behind a lock.
  private struct State {
    weak var peripheral: CBPeripheral?
    var includedServices: [CBService]?
    var characteristics: [CBCharacteristic]?
  }

  private let content: Mutex<State>
  private let primary: Bool
  /// What the system knows it by; nil for a local service.
  let record: ServiceRecord?

  init(record: ServiceRecord, peripheral: CBPeripheral) {
    self.record = record
    primary = record.isPrimary
    content = Mutex(State(peripheral: peripheral))
    super.init(type: CBUUID(record.uuid))
  }

  init(type: CBUUID, isPrimary: Bool) {
    record = nil
    primary = isPrimary
    content = Mutex(State())
    super.init(type: type)
  }

  /// The peer that has the service; nil for a service to publish.
  weak open var peripheral: CBPeripheral? { content.withLock { $0.peripheral } }

  /// Primary, rather than only included in others.
  open var isPrimary: Bool { primary }

  /// The included services found so far; nil before a discovery.
  open var includedServices: [CBService]? { content.withLock { $0.includedServices } }

  /// The characteristics found so far; nil before a discovery.
  open var characteristics: [CBCharacteristic]? { content.withLock { $0.characteristics } }

  /// As in Apple's logs.
  open override var description: String {
    "<\(Swift.type(of: self)): \(address(of: self)), isPrimary = \(isPrimary ? "YES" : "NO"), UUID = \(uuid)>"
  }

  func setIncludedServices(_ services: [CBService]?) { content.withLock { $0.includedServices = services } }

  func setCharacteristics(_ characteristics: [CBCharacteristic]?) {
    let former = content.withLock { content in
      defer { content.characteristics = characteristics }
      return content.characteristics
    }
    let removed = (former ?? []).filter { old in characteristics?.contains { $0 === old } != true }
    for characteristic in removed { characteristic.setService(nil) }
    for characteristic in characteristics ?? [] { characteristic.setService(self) }
  }
}

/// A service to publish with a ``CBPeripheralManager``.
open class CBMutableService: CBService, @unchecked Sendable {  // Adds no state.
  /// A service without characteristics.
  public init(type UUID: CBUUID, primary isPrimary: Bool) { super.init(type: UUID, isPrimary: isPrimary) }

  /// Services to include; they must be published before this one.
  open override var includedServices: [CBService]? {
    get { super.includedServices }
    set { setIncludedServices(newValue) }
  }

  /// The service's characteristics. Changes after publishing have no effect.
  open override var characteristics: [CBCharacteristic]? {
    get { super.characteristics }
    set { setCharacteristics(newValue) }
  }
}

// MARK: - Characteristics

/// How a characteristic may be used (Vol 3 Part G 3.3.1.1); the last two are for published ones only.
public struct CBCharacteristicProperties: OptionSet, Sendable {
  public let rawValue: UInt

  public init(rawValue: UInt) { self.rawValue = rawValue }

  /// Not allowed in published characteristics.
  public static let broadcast = Self(rawValue: 0x01)
  public static let read = Self(rawValue: 0x02)
  public static let writeWithoutResponse = Self(rawValue: 0x04)
  public static let write = Self(rawValue: 0x08)
  public static let notify = Self(rawValue: 0x10)
  public static let indicate = Self(rawValue: 0x20)
  public static let authenticatedSignedWrites = Self(rawValue: 0x40)
  /// Not allowed in published characteristics.
  public static let extendedProperties = Self(rawValue: 0x80)
  /// Notifies those who subscribed on an encrypted link.
  public static let notifyEncryptionRequired = Self(rawValue: 0x100)
  /// Indicates to those who subscribed on an encrypted link.
  public static let indicateEncryptionRequired = Self(rawValue: 0x200)
}

/// Who may read and write a published characteristic.
public struct CBAttributePermissions: OptionSet, Sendable {
  public let rawValue: UInt

  public init(rawValue: UInt) { self.rawValue = rawValue }

  public static let readable = Self(rawValue: 0x01)
  public static let writeable = Self(rawValue: 0x02)
  /// Readable on an encrypted link.
  public static let readEncryptionRequired = Self(rawValue: 0x04)
  /// Writeable on an encrypted link.
  public static let writeEncryptionRequired = Self(rawValue: 0x08)
}

/// Whether the peer confirms a write.
@nonexhaustive
public enum CBCharacteristicWriteType: Int, Sendable {
  /// Answered by `peripheral(_:didWriteValueFor:error:)`.
  case withResponse
  /// Never answered.
  case withoutResponse
}

/// A characteristic: of a remote peer, or, as a ``CBMutableCharacteristic``, to publish.
open class CBCharacteristic: CBAttribute, @unchecked Sendable {  // What changes is behind a lock.
  private struct State {
    weak var service: CBService?
    var properties: CBCharacteristicProperties
    var value: Data?
    var descriptors: [CBDescriptor]?
    var isNotifying = false
  }

  private let content: Mutex<State>
  /// What the system knows it by; nil for a local characteristic.
  let record: CharacteristicRecord?

  init(record: CharacteristicRecord, service: CBService) {
    self.record = record
    content = Mutex(
      State(service: service, properties: CBCharacteristicProperties(rawValue: UInt(record.properties))))
    super.init(type: CBUUID(record.uuid))
  }

  init(type: CBUUID, properties: CBCharacteristicProperties, value: Data?) {
    record = nil
    content = Mutex(State(properties: properties, value: value))
    super.init(type: type)
  }

  /// The service that it belongs to.
  weak open var service: CBService? { content.withLock { $0.service } }

  /// How it may be used.
  open var properties: CBCharacteristicProperties { content.withLock { $0.properties } }

  /// The value last read or notified; nil before. A write does not change it.
  open var value: Data? { content.withLock { $0.value } }

  /// The descriptors found; nil before a discovery.
  open var descriptors: [CBDescriptor]? { content.withLock { $0.descriptors } }

  /// Always false.
  @available(*, deprecated, message: "broadcasts are not offered")
  open var isBroadcasted: Bool { false }

  /// Whether this app is subscribed.
  open var isNotifying: Bool { content.withLock { $0.isNotifying } }

  /// As in Apple's logs.
  open override var description: String {
    let now = content.withLock { $0 }
    let value = now.value.map(brief) ?? "(null)"
    return "<\(Swift.type(of: self)): \(address(of: self)), UUID = \(uuid), "
      + "properties = 0x\(String(now.properties.rawValue, radix: 16, uppercase: true)), value = \(value), "
      + "notifying = \(now.isNotifying ? "YES" : "NO")>"
  }

  func setService(_ service: CBService?) { content.withLock { $0.service = service } }
  func setProperties(_ properties: CBCharacteristicProperties) { content.withLock { $0.properties = properties } }
  func setValue(_ value: Data?) { content.withLock { $0.value = value } }
  func setNotifying(_ isNotifying: Bool) { content.withLock { $0.isNotifying = isNotifying } }

  func setDescriptors(_ descriptors: [CBDescriptor]?) {
    content.withLock { $0.descriptors = descriptors }
    for descriptor in descriptors ?? [] { descriptor.setCharacteristic(self) }
  }
}

/// `{length = 2, bytes = 0x0048}`
private func brief(_ data: Data) -> String {
  let digits = data.map { octet in
    let text = String(octet, radix: 16)
    return text.utf8.count == 1 ? "0" + text : text
  }
  return "{length = \(data.count), bytes = 0x\(digits.joined())}"
}

/// A characteristic to publish with a ``CBPeripheralManager``.
///
/// With a value it is *cached*: the system answers reads itself, and it must be readable and nothing else. With nil
/// each read and write becomes a request to the delegate.
open class CBMutableCharacteristic: CBCharacteristic, @unchecked Sendable {  // What changes is behind a lock.
  private struct Publication {
    var permissions: CBAttributePermissions
    var subscribedCentrals: [CBCentral]?
  }

  private let publication: Mutex<Publication>

  /// A characteristic to put into a ``CBMutableService``.
  public init(
    type UUID: CBUUID, properties: CBCharacteristicProperties, value: Data?, permissions: CBAttributePermissions
  ) {
    publication = Mutex(Publication(permissions: permissions))
    super.init(type: UUID, properties: properties, value: value)
  }

  /// Who may read and write it.
  open var permissions: CBAttributePermissions {
    get { publication.withLock { $0.permissions } }
    set { publication.withLock { $0.permissions = newValue } }
  }

  /// The centrals that are subscribed now; nil before the first.
  open var subscribedCentrals: [CBCentral]? { publication.withLock { $0.subscribedCentrals } }

  /// How it may be used.
  open override var properties: CBCharacteristicProperties {
    get { super.properties }
    set { setProperties(newValue) }
  }

  /// The cached value, or nil.
  open override var value: Data? {
    get { super.value }
    set { setValue(newValue) }
  }

  /// Descriptors to publish: a User Description, a Presentation Format, or ones of your own.
  open override var descriptors: [CBDescriptor]? {
    get { super.descriptors }
    set { setDescriptors(newValue) }
  }

  /// False if it was subscribed already.
  func addSubscriber(_ central: CBCentral) -> Bool {
    publication.withLock { publication in
      var centrals = publication.subscribedCentrals ?? []
      guard !centrals.contains(where: { $0.peer == central.peer }) else { return false }
      centrals.append(central)
      publication.subscribedCentrals = centrals
      return true
    }
  }

  /// The central that was subscribed, if it was.
  func removeSubscriber(_ peer: PeerIdentifier) -> CBCentral? {
    publication.withLock { publication in
      guard let index = publication.subscribedCentrals?.firstIndex(where: { $0.peer == peer }) else {
        return nil
      }
      return publication.subscribedCentrals?.remove(at: index)
    }
  }

  func removeAllSubscribers() {
    publication.withLock { if $0.subscribedCentrals != nil { $0.subscribedCentrals = [] } }
  }
}

// MARK: - Descriptors

/// A descriptor: of a remote peer, or, as a ``CBMutableDescriptor``, to publish.
open class CBDescriptor: CBAttribute, @unchecked Sendable {  // What changes is behind a lock.
  private struct State {
    weak var characteristic: CBCharacteristic?
    var value: Unchecked<Any?>  // A number, a string or data, which nobody changes.
  }

  private let content: Mutex<State>
  /// What the system knows it by; nil for a local descriptor.
  let record: DescriptorRecord?

  init(record: DescriptorRecord, characteristic: CBCharacteristic) {
    self.record = record
    content = Mutex(State(characteristic: characteristic, value: Unchecked(value: nil)))
    super.init(type: CBUUID(record.uuid))
  }

  init(type: CBUUID, value: Any?) {
    record = nil
    content = Mutex(State(value: Unchecked(value: value)))
    super.init(type: type)
  }

  /// The characteristic that it belongs to.
  weak open var characteristic: CBCharacteristic? { content.withLock { $0.characteristic } }

  /// The value last read: an `NSNumber` for 2900, 2902 and 2903, a `String` for 2901, `Data` for all others.
  open var value: Any? { content.withLock { $0.value }.value }

  /// As in Apple's logs.
  open override var description: String {
    let value = self.value.map { ($0 as? Data).map(brief) ?? "\($0)" } ?? "(null)"
    return "<\(Swift.type(of: self)): \(address(of: self)), UUID = \(uuid), value = \(value)>"
  }

  func setCharacteristic(_ characteristic: CBCharacteristic?) {
    content.withLock { $0.characteristic = characteristic }
  }

  /// Takes the octets that were read, as the type of value that the descriptor has.
  func setValue(_ octets: [UInt8]) {
    let value: Any
    switch uuid.value {
    case 0x2900, 0x2902, 0x2903:
      value = NSNumber(value: octets.prefix(2).reversed().reduce(UInt16(0)) { $0 << 8 | UInt16($1) })
    case 0x2901: value = String(decoding: octets, as: UTF8.self)
    default: value = Data(octets)
    }
    let checked = Unchecked<Any?>(value: value)
    content.withLock { $0.value = checked }
  }
}

/// A descriptor to publish with its characteristic.
///
/// The system makes 2900, 2902 and 2903 itself. 2901 takes a `String`, 2904 and descriptors of your own take `Data`.
open class CBMutableDescriptor: CBDescriptor, @unchecked Sendable {  // Adds no state.
  /// A descriptor of this type and value.
  public override init(type UUID: CBUUID, value: Any?) { super.init(type: UUID, value: value) }
}
