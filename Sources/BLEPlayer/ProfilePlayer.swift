// SPDX-License-Identifier: Apache-2.0

public import BLECore
public import BLEProfile
public import BLESystem

/// A profile at work: its services as the system takes them, and the values of its characteristics as they are now.
public struct ProfilePlayer {
  /// An ATT error code (Vol 3 Part F 3.4.1.1) to answer a request with.
  public struct Refusal: Error, Hashable, Sendable {
    public var code: UInt8
    public static let readNotPermitted = Refusal(code: 0x02)
    public static let invalidOffset = Refusal(code: 0x07)
    public static let invalidHandle = Refusal(code: 0x01)
    public static let invalidLength = Refusal(code: 0x0D)
  }

  public let profile: Profile
  /// In the order in which they are to be added.
  public let services: [LocalService]
  private var values: [LocalAttributeID: LiveValue] = [:]
  private var owners: [LocalAttributeID: BluetoothUUID] = [:]
  private let start: ProfileTime

  private struct LiveValue {
    var characteristic: ProfileCharacteristic
    var sampler: ValueSampler?
    /// What a read shows; nil: none was made yet.
    var current: [UInt8]?
    /// Whether the step that is current was read.
    var wasShown = false
    /// From then on there are no steps.
    var wasWritten = false
  }

  /// `now` is when it begins: the profile's uptime counts from there.
  public init(_ profile: Profile, now: ProfileTime) {
    self.profile = profile
    start = now
    var lastID: LocalAttributeID = 0
    var ids: [Int: LocalAttributeID] = [:]
    var services: [LocalService] = []
    for index in profile.publicationOrder {
      let service = profile.services[index]
      lastID += 1
      ids[index] = lastID
      var local = LocalService(
        id: lastID, uuid: service.uuid, isPrimary: service.isPrimary,
        includedServices: service.includedServices.compactMap { ids[$0] })
      for characteristic in service.characteristics {
        lastID += 1
        owners[lastID] = service.uuid
        let sampler = characteristic.value.map { ValueSampler($0, seed: profile.seed, purpose: UInt64(lastID)) }
        var live = LiveValue(characteristic: characteristic, sampler: sampler)
        live.current = live.sampler?.next(at: Self.time(now, since: now))
        values[lastID] = live
        local.characteristics.append(Self.local(characteristic, lastID, live.current))
      }
      services.append(local)
    }
    self.services = services
  }

  private static func local(
    _ characteristic: ProfileCharacteristic, _ id: LocalAttributeID, _ first: [UInt8]?
  ) -> LocalCharacteristic {
    let isFixed = characteristic.value?.isConstant == true && characteristic.write == .never
    return LocalCharacteristic(
      id: id, uuid: characteristic.uuid, properties: characteristic.properties.rawValue,
      read: access(characteristic.read), write: access(characteristic.write),
      subscriptionNeedsEncryption: characteristic.subscriptionNeedsEncryption, value: isFixed ? first : nil,
      descriptors: characteristic.descriptors.map { LocalDescriptor(uuid: $0.uuid, value: $0.value) })
  }

  private static func access(_ access: ProfileAccess) -> AttributeAccess {
    switch access {
    case .never: .never
    case .open: .open
    case .encrypted: .encrypted
    }
  }

  private static func time(_ now: ProfileTime, since start: ProfileTime) -> ProfileTime {
    var time = now
    time.uptimeMilliseconds = max(0, now.uptimeMilliseconds - start.uptimeMilliseconds)
    return time
  }

  /// The characteristics that send by themselves, and how often; the numbers are for ``step(_:now:)``.
  public var periods: [(Int, TimeSpan)] {
    values.sorted { $0.key < $1.key }.compactMap { id, live in
      live.characteristic.notifyPeriod.map { (Int(id), $0) }
    }
  }

  /// What an attribute that ``services`` numbers is.
  public func uuids(of id: LocalAttributeID) -> (service: BluetoothUUID, characteristic: BluetoothUUID)? {
    guard let service = owners[id], let live = values[id] else { return nil }
    return (service, live.characteristic.uuid)
  }

  /// Whether its value goes to those who subscribe.
  public func notifies(_ id: LocalAttributeID) -> Bool {
    values[id].map { !$0.characteristic.properties.isDisjoint(with: [.notify, .indicate]) } ?? false
  }

  /// The next step of a value that sends by itself.
  public mutating func step(_ index: Int, now: ProfileTime) -> (LocalAttributeID, [UInt8])? {
    guard let id = LocalAttributeID(exactly: index), var live = values[id] else { return nil }
    if !live.wasWritten { live.current = live.sampler?.next(at: Self.time(now, since: start)) }
    values[id] = live
    return live.current.map { (id, $0) }
  }

  /// Answers a read from `offset` on. A value without a period takes a step with each read; the later parts of a long
  /// value belong to the step of the first.
  public mutating func read(_ id: LocalAttributeID, offset: Int, now: ProfileTime) -> Result<[UInt8], Refusal> {
    guard var live = values[id] else { return .failure(.invalidHandle) }
    if offset == 0, live.characteristic.notifyPeriod == nil, !live.wasWritten {
      if live.wasShown { live.current = live.sampler?.next(at: Self.time(now, since: start)) }
      live.wasShown = true
      values[id] = live
    }
    guard let value = live.current else { return .failure(.readNotPermitted) }
    guard 0...value.count ~= offset else { return .failure(.invalidOffset) }
    return .success(Array(value[offset...]))
  }

  /// Applies all writes of one request or none of them; the values that came of it, each characteristic once.
  public mutating func write(_ writes: [RemoteWrite]) -> Result<[(LocalAttributeID, [UInt8])], Refusal> {
    var results: [(LocalAttributeID, [UInt8])] = []
    for write in writes {
      guard let live = values[write.characteristic] else { return .failure(.invalidHandle) }
      let place = results.firstIndex { $0.0 == write.characteristic }
      let before = place.map { results[$0].1 } ?? live.current ?? []
      guard 0...before.count ~= write.offset else { return .failure(.invalidOffset) }
      // A write from the start is a new value; one from further on continues what is there.
      let value = Array(before[..<write.offset]) + write.value
      guard value.count <= live.characteristic.lengthMax else { return .failure(.invalidLength) }
      if let place { results[place].1 = value } else { results.append((write.characteristic, value)) }
    }
    for (id, value) in results {
      values[id]?.current = value
      values[id]?.wasWritten = true
    }
    return .success(results)
  }
}
