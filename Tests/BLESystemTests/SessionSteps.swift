// SPDX-License-Identifier: Apache-2.0

import BLECore
import Testing

@testable import BLESystem

// What most tests of two devices begin with, each step run until it is done.
extension TestSession {
  func waitForPower(in world: SimulatedWorld) {
    #expect(world.run { state == .poweredOn }, "the adapter is \(state.map { "\($0)" } ?? "unknown")")
  }

  /// Adds services and advertises the first under `name`.
  func publish(_ services: [LocalService], name: String, in world: SimulatedWorld) {
    waitForPower(in: world)
    for service in services { add(service) }
    send(.startAdvertising(nextToken(), localName: name, services: services.prefix(1).map(\.uuid)))
  }

  func add(_ service: LocalService) {
    let token = nextToken()
    send(.addService(token, service))
    #expect(events.contains(.serviceAdded(token, nil)))
  }

  /// Finds the peer that advertises `name` and connects it.
  func connect(to name: String, in world: SimulatedWorld) throws -> LinkReference {
    waitForPower(in: world)
    send(.startScan(ScanOptions(services: nil)))
    #expect(world.run { discoveries.contains { $0.localName == name } }, "\(name) was not found")
    send(.stopScan)
    let peer = try #require(discoveries.first { $0.localName == name }).peer.identifier
    return try connect(to: peer, in: world)
  }

  func connect(to peer: PeerIdentifier, in world: SimulatedWorld) throws -> LinkReference {
    let before = link
    send(.connect(peer, ConnectOptions()))
    #expect(world.run { link?.peer == peer && link != before }, "not connected")
    return try #require(link)
  }

  func disconnect(_ link: LinkReference, in world: SimulatedWorld) {
    send(.cancelConnection(link.peer))
    #expect(world.run { events.contains(.disconnected(link.peer, nil, isReconnecting: false)) })
    forget()
  }

  /// Sends a request and gives its answer; at once: within no time at all, so without anything on air.
  private func answer<T>(
    atOnce: Bool, in world: SimulatedWorld, to request: (RequestToken) -> SystemRequest,
    _ match: (SystemEvent, RequestToken) -> Result<T, SystemError>?
  ) throws -> T {
    let token = nextToken()
    let start = events.count
    send(request(token))
    func found() -> Result<T, SystemError>? {
      for event in events[start...] {
        if let result = match(event, token) { return result }
      }
      return nil
    }
    if !atOnce { world.run(within: .seconds(60)) { found() != nil } }
    return try #require(found(), "no answer").get()
  }

  func services(
    _ link: LinkReference, _ uuids: [BluetoothUUID]? = nil, atOnce: Bool = false, in world: SimulatedWorld
  ) throws -> [ServiceRecord] {
    try answer(atOnce: atOnce, in: world, to: { .discoverServices($0, link, uuids) }) { event, token in
      if case .servicesDiscovered(token, link, let result) = event { result } else { nil }
    }
  }

  func characteristics(
    _ link: LinkReference, of service: ServiceRecord, atOnce: Bool = false, in world: SimulatedWorld
  ) throws -> [CharacteristicRecord] {
    try answer(
      atOnce: atOnce, in: world, to: { .discoverCharacteristics($0, link, service.handles, nil) },
      { event, token in if case .characteristicsDiscovered(token, link, let result) = event { result } else { nil } })
  }

  func descriptors(
    _ link: LinkReference, of characteristic: CharacteristicRecord, atOnce: Bool = false, in world: SimulatedWorld
  ) throws -> [DescriptorRecord] {
    try answer(
      atOnce: atOnce, in: world, to: { .discoverDescriptors($0, link, characteristic) },
      { event, token in if case .descriptorsDiscovered(token, link, let result) = event { result } else { nil } })
  }

  func includedServices(
    _ link: LinkReference, of service: ServiceRecord, atOnce: Bool = false, in world: SimulatedWorld
  ) throws -> [ServiceRecord] {
    try answer(
      atOnce: atOnce, in: world, to: { .discoverIncludedServices($0, link, service.handles, nil) },
      { event, token in if case .includedServicesDiscovered(token, link, let result) = event { result } else { nil } })
  }

  func read(_ link: LinkReference, _ handle: UInt16, atOnce: Bool = false, in world: SimulatedWorld) throws -> [UInt8] {
    try answer(
      atOnce: atOnce, in: world, to: { .readValue($0, link, handle) },
      { event, token in if case .valueRead(token, link, let result) = event { result } else { nil } })
  }

  func write(
    _ link: LinkReference, _ handle: UInt16, _ value: [UInt8], atOnce: Bool = false, in world: SimulatedWorld
  ) throws {
    try answer(
      atOnce: atOnce, in: world, to: { .writeValue($0, link, handle, value) },
      { event, token in
        if case .valueWritten(token, link, let error) = event {
          error.map { .failure($0) } ?? Result<Void, SystemError>.success(())
        } else {
          nil
        }
      })
  }

  func setNotify(
    _ link: LinkReference, _ characteristic: CharacteristicRecord, _ isOn: Bool, atOnce: Bool = false,
    in world: SimulatedWorld
  ) throws {
    try answer(
      atOnce: atOnce, in: world, to: { .setNotify($0, link, characteristic, isOn) },
      { event, token in
        if case .notifyStateChanged(token, link, _, let error) = event {
          error.map { .failure($0) } ?? Result<Void, SystemError>.success(())
        } else {
          nil
        }
      })
  }
}

extension LocalService {
  /// A service with one characteristic of everything; a value makes it the system's to answer.
  static func simple(
    _ uuid: BluetoothUUID, id: LocalAttributeID, characteristic: BluetoothUUID = 0x2A37, value: [UInt8]? = nil,
    includes: [LocalAttributeID] = []
  ) -> LocalService {
    LocalService(
      id: id, uuid: uuid, isPrimary: true, includedServices: includes,
      characteristics: [
        LocalCharacteristic(
          id: id + 1, uuid: characteristic, properties: value == nil ? 0x1E : 0x02, read: .open,
          write: value == nil ? .open : .never, value: value,
          descriptors: [LocalDescriptor(uuid: 0x2901, value: Array("text".utf8))])
      ])
  }
}
