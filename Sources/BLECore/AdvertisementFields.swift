// SPDX-License-Identifier: Apache-2.0

/// What an advertisement says, its scan response merged in.
///
/// Values that are malformed (too short, not UTF-8) are left out; the rest stands. Where a value comes twice the last
/// one counts, but a complete name is never replaced by a shortened one.
public struct AdvertisementFields: Hashable, Sendable {
  public var flags: ADFlags?
  /// May be empty.
  public var localName: String?
  /// Whether `localName` is the complete name of the device.
  public var isLocalNameComplete = false
  /// dBm; 127: unknown.
  public var txPowerLevel: Int8?
  /// In order of appearance, each once.
  public var serviceUUIDs: [BluetoothUUID] = []
  /// Services that the device looks for, in order of appearance, each once.
  public var solicitedServiceUUIDs: [BluetoothUUID] = []
  public var serviceData: [BluetoothUUID: [UInt8]] = [:]
  /// Company identifier (2 octets, least significant first) and data.
  public var manufacturerData: [UInt8]?
  public var appearance: UInt16?
  /// The connection intervals that the device likes best; nil for an end that it leaves open.
  public var connectionIntervalMin: ConnectionInterval?
  public var connectionIntervalMax: ConnectionInterval?
  /// The long form (of which the first counts) gives way to the short one.
  public var advertisingInterval: AdvertisingInterval?
  /// The addresses that are meant, in order of appearance.
  public var targetAddresses: [DeviceAddress] = []
  /// LE Bluetooth Device Address (out of band data).
  public var deviceAddress: DeviceAddress?
  /// LE Role: 0 Peripheral only, 1 Central only, 2 both, rather Peripheral, 3 both, rather Central.
  public var leRole: UInt8?
  /// The first character is the scheme's code (0x16 "http:", 0x17 "https:").
  public var uri: String?

  public init() {}

  /// The fields of one payload.
  public init(_ bytes: RawSpan) {
    self.init()
    merge(bytes)
  }

  /// The fields of one payload.
  public init(_ bytes: [UInt8]) { self.init(bytes.span.bytes) }

  /// The company of the manufacturer data.
  public var companyIdentifier: UInt16? {
    manufacturerData.flatMap { $0.count >= 2 ? UInt16($0[0]) | UInt16($0[1]) << 8 : nil }
  }

  /// The overflow area in the manufacturer data, if there is one.
  public var overflowArea: OverflowArea? { manufacturerData.flatMap { OverflowArea(manufacturerData: $0) } }

  /// Adds what another payload of the same device (its scan response) says. Returns how that payload ended.
  @discardableResult
  public mutating func merge(_ bytes: RawSpan) -> ADStructures.Ending {
    var structures = ADStructures(bytes)
    while let structure = structures.next() { merge(structure.type, structure.data) }
    return structures.ending ?? .complete
  }

  private mutating func merge(_ type: ADType, _ data: RawSpan) {
    switch type {
    case .incompleteServiceUUIDs16, .completeServiceUUIDs16: add(data, 2, to: \.serviceUUIDs)
    case .incompleteServiceUUIDs32, .completeServiceUUIDs32: add(data, 4, to: \.serviceUUIDs)
    case .incompleteServiceUUIDs128, .completeServiceUUIDs128: add(data, 16, to: \.serviceUUIDs)
    case .serviceSolicitation16: add(data, 2, to: \.solicitedServiceUUIDs)
    case .serviceSolicitation32: add(data, 4, to: \.solicitedServiceUUIDs)
    case .serviceSolicitation128: add(data, 16, to: \.solicitedServiceUUIDs)
    case .serviceData16: addServiceData(data, 2)
    case .serviceData32: addServiceData(data, 4)
    case .serviceData128: addServiceData(data, 16)
    case .shortenedLocalName: setName(data, isComplete: false)
    case .completeLocalName: setName(data, isComplete: true)
    case .manufacturerSpecificData: if data.byteCount >= 2 { manufacturerData = [UInt8](data) }
    case .uri: uri = String(validating: [UInt8](data), as: UTF8.self) ?? uri
    default: mergeNumber(type, data)
    }
  }

  /// The types whose data are numbers and addresses; a value that is too short is left out.
  private mutating func mergeNumber(_ type: ADType, _ data: RawSpan) {
    var reader = ByteReader(data)
    switch type {
    case .flags: flags = (try? reader.u8()).map { ADFlags(rawValue: $0) } ?? flags
    case .txPowerLevel: txPowerLevel = (try? reader.i8()) ?? txPowerLevel
    case .appearance: appearance = (try? reader.u16()) ?? appearance
    case .leRole: leRole = (try? reader.u8()) ?? leRole
    case .peripheralConnectionIntervalRange:
      guard let low = try? reader.u16(), let high = try? reader.u16() else { return }
      connectionIntervalMin = low == 0xFFFF ? nil : ConnectionInterval(rawValue: low)
      connectionIntervalMax = high == 0xFFFF ? nil : ConnectionInterval(rawValue: high)
    case .advertisingInterval:
      if let value = try? reader.u16() { advertisingInterval = AdvertisingInterval(rawValue: UInt32(value)) }
    case .advertisingIntervalLong: setLongInterval(data)
    case .publicTargetAddress: addTargets(data, .publicDevice)
    case .randomTargetAddress: addTargets(data, .random)
    case .leBluetoothDeviceAddress:
      guard let address = try? BDAddress(from: &reader), let type = try? reader.u8() else { return }
      deviceAddress = DeviceAddress(address, type: type & 1 == 1 ? .random : .publicDevice)
    default: break
    }
  }

  private mutating func setName(_ data: RawSpan, isComplete: Bool) {
    guard isComplete || !isLocalNameComplete, let name = String(validating: [UInt8](data), as: UTF8.self) else {
      return
    }
    localName = name
    isLocalNameComplete = isComplete
  }

  private mutating func setLongInterval(_ data: RawSpan) {
    guard advertisingInterval == nil else { return }
    var reader = ByteReader(data)
    let value: UInt32? = data.byteCount >= 4 ? try? reader.u32() : try? reader.u24()
    if let value { advertisingInterval = AdvertisingInterval(rawValue: value) }
  }

  private mutating func add(
    _ data: RawSpan, _ size: Int, to list: WritableKeyPath<AdvertisementFields, [BluetoothUUID]>
  ) {
    var reader = ByteReader(data)
    while let uuid = try? BluetoothUUID(from: &reader, byteCount: size) {
      if !self[keyPath: list].contains(uuid) { self[keyPath: list].append(uuid) }
    }
  }

  private mutating func addServiceData(_ data: RawSpan, _ size: Int) {
    var reader = ByteReader(data)
    guard let uuid = try? BluetoothUUID(from: &reader, byteCount: size) else { return }
    serviceData[uuid] = reader.restArray()
  }

  private mutating func addTargets(_ data: RawSpan, _ type: AddressType) {
    var reader = ByteReader(data)
    while let address = try? BDAddress(from: &reader) { targetAddresses.append(DeviceAddress(address, type: type)) }
  }
}

/// The 128 bits with which Apple's systems advertise services that found no other room: one bit a service, several
/// services a bit, in Apple's manufacturer data of type 1.
///
/// Which bit Apple gives a service is not published. The bits set here are this project's own: they are
/// understood by devices that run it, and by no others.
public struct OverflowArea: Hashable, Sendable {
  /// The 16 octets, in order of transmission.
  public private(set) var bits: [UInt8]

  /// With no service.
  public init() { bits = [UInt8](repeating: 0, count: 16) }

  /// The area in manufacturer data; nil if these are others.
  public init?(manufacturerData: [UInt8]) {
    guard manufacturerData.starts(with: Self.head), manufacturerData.count >= Self.head.count + 16 else { return nil }
    bits = Array(manufacturerData[Self.head.count..<Self.head.count + 16])
  }

  /// Manufacturer data that hold the area.
  public var manufacturerData: [UInt8] { Self.head + bits }

  public var isEmpty: Bool { bits.allSatisfy { $0 == 0 } }

  public mutating func insert(_ service: BluetoothUUID) {
    let bit = Self.bit(service)
    bits[bit / 8] |= 0x80 >> UInt8(bit % 8)
  }

  /// Whether `service` may be among those inserted; false is certain, true is not.
  public func mayContain(_ service: BluetoothUUID) -> Bool {
    let bit = Self.bit(service)
    return bits[bit / 8] & 0x80 >> UInt8(bit % 8) != 0
  }

  /// Company 004C, type 01.
  private static let head: [UInt8] = [0x4C, 0x00, 0x01]

  /// 0-127, evenly spread (FNV-1a over the 16 octets).
  private static func bit(_ service: BluetoothUUID) -> Int {
    let hash = service.bigEndianBytes.reduce(0xCBF2_9CE4_8422_2325 as UInt64) { ($0 ^ UInt64($1)) &* 0x0100_0000_01B3 }
    return Int((hash ^ hash >> 32) & 0x7F)
  }
}
