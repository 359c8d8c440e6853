// SPDX-License-Identifier: Apache-2.0

import BLECore
import BLEProfile
import BLESystem

/// Everything that a peer's server shows, with the values that could be read.
struct PeerTree: Sendable {
  struct Descriptor: Sendable {
    var record: DescriptorRecord
    /// Why there is no value is a text.
    var value: Value
  }

  struct Characteristic: Sendable {
    var record: CharacteristicRecord
    var value: Value
    var descriptors: [Descriptor]
  }

  struct Service: Sendable {
    var record: ServiceRecord
    var included: [BluetoothUUID]
    var characteristics: [Characteristic]
  }

  enum Value: Sendable {
    case read([UInt8])
    case refused(String)
    /// It has not the property Read.
    case unreadable

    var octets: [UInt8]? { if case .read(let octets) = self { octets } else { nil } }
  }

  var peer: PeerInfo
  /// By handle.
  var services: [Service]
}

/// `ble explore`: connects, discovers everything, reads what is readable, shows the tree.
struct ExploreCommand {
  private let context: CommandContext
  private let selector: PeerSelector

  init(_ context: CommandContext) throws(Failure) {
    self.context = context
    selector = try PeerSelector(context.arguments)
  }

  func run() async throws(Failure) {
    let session = try await context.session()
    defer { session.close() }
    let peer = try await session.connect(to: selector)
    let tree: PeerTree
    do throws(Failure) { tree = try await explore(peer, session) } catch {
      await session.disconnect()
      throw error
    }
    await session.disconnect()
    let output = context.output
    if output.isJSON {
      output.emit(Self.json(tree), text: nil)
    } else {
      for line in Self.text(tree) { output.emit(.null, text: line) }
    }
  }

  // MARK: Discovery

  private func explore(_ peer: PeerInfo, _ session: CentralSession) async throws(Failure) -> PeerTree {
    let appView = context.arguments.has("--app-view")
    var open = try await session.services()
    var services: [PeerTree.Service] = []
    // Secondary services are found through those that include them.
    while !open.isEmpty {
      let record = open.removeFirst()
      guard !services.contains(where: { $0.record.handles == record.handles }) else { continue }
      if appView, record.uuid == 0x1800 || record.uuid == 0x1801 { continue }
      let included = try await session.includedServices(of: record)
      open += included
      let characteristics = try await characteristics(of: record, session)
      services.append(.init(record: record, included: included.map(\.uuid), characteristics: characteristics))
    }
    services.sort { $0.record.handles.lowerBound < $1.record.handles.lowerBound }
    return PeerTree(peer: peer, services: services)
  }

  private func characteristics(
    of service: ServiceRecord, _ session: CentralSession
  ) async throws(Failure) -> [PeerTree.Characteristic] {
    var characteristics: [PeerTree.Characteristic] = []
    for record in try await session.characteristics(of: service) {
      let isReadable = record.properties & CharacteristicProperty.read.rawValue != 0
      let value = isReadable ? try await value(record.valueHandle, "\(record.uuid)", session) : .unreadable
      var descriptors: [PeerTree.Descriptor] = []
      for descriptor in try await session.descriptors(of: record) {
        let value = try await self.value(descriptor.handle, "the descriptor \(descriptor.uuid)", session)
        descriptors.append(.init(record: descriptor, value: value))
      }
      characteristics.append(.init(record: record, value: value, descriptors: descriptors))
    }
    return characteristics
  }

  private func value(_ handle: UInt16, _ what: String, _ session: CentralSession) async throws(Failure)
    -> PeerTree.Value
  {
    switch try await session.read(handle, what) {
    case .success(let octets): .read(octets)
    case .failure(let error): .refused(session.describe(error))
    }
  }

  // MARK: Printing

  static func json(_ tree: PeerTree) -> JSONValue {
    [
      "name": .string(orNull: tree.peer.name), "identifier": .string(tree.peer.identifier.text),
      "address": .string(tree.peer.address.address.description), "services": .array(tree.services.map(json)),
    ]
  }

  private static func json(_ service: PeerTree.Service) -> JSONValue {
    [
      "uuid": .string(service.record.uuid.description),
      "name": .string(orNull: UUIDName.knownService(service.record.uuid)),
      "handle": .integer(Int(service.record.handles.lowerBound)), "primary": .bool(service.record.isPrimary),
      "included": .array(service.included.map { .string($0.description) }),
      "characteristics": .array(service.characteristics.map(json)),
    ]
  }

  private static func json(_ characteristic: PeerTree.Characteristic) -> JSONValue {
    [
      "uuid": .string(characteristic.record.uuid.description),
      "name": .string(orNull: UUIDName.knownCharacteristic(characteristic.record.uuid)),
      "handle": .integer(Int(characteristic.record.valueHandle)),
      "properties": .array(CharacteristicProperty.names(characteristic.record.properties).map { .string($0) }),
      "value": .string(orNull: characteristic.value.octets?.hex),
      "text": .string(orNull: characteristic.value.octets?.plainText),
      "descriptors": .array(
        characteristic.descriptors.map { descriptor in
          [
            "uuid": .string(descriptor.record.uuid.description), "handle": .integer(Int(descriptor.record.handle)),
            "value": .string(orNull: descriptor.value.octets?.hex),
          ]
        }),
    ]
  }

  static func text(_ tree: PeerTree) -> [String] {
    var lines = [
      harmless(tree.peer.name ?? "(no name)"), "identifier \(tree.peer.identifier.text)",
      "address    \(tree.peer.address)",
    ]
    for service in tree.services {
      let kind = service.record.isPrimary ? "service" : "secondary service"
      lines += ["", "\(handle(service.record.handles.lowerBound))  \(kind) \(UUIDName.service(service.record.uuid))"]
      for included in service.included { lines.append("        includes \(UUIDName.service(included))") }
      for characteristic in service.characteristics { lines += text(characteristic) }
    }
    return lines
  }

  private static func text(_ characteristic: PeerTree.Characteristic) -> [String] {
    let record = characteristic.record
    let properties = CharacteristicProperty.names(record.properties).joined(separator: ", ")
    var lines = ["\(handle(record.valueHandle))    \(UUIDName.characteristic(record.uuid))  [\(properties)]"]
    if let value = text(characteristic.value) { lines.append("          \(value)") }
    for descriptor in characteristic.descriptors {
      let value = text(descriptor.value).map { ": " + $0 } ?? ""
      lines.append("\(handle(descriptor.record.handle))      \(UUIDName.descriptor(descriptor.record.uuid))\(value)")
    }
    return lines
  }

  private static func text(_ value: PeerTree.Value) -> String? {
    switch value {
    case .unreadable: nil
    case .refused(let reason): "not readable: \(reason)"
    case .read(let octets): octets.forPeople
    }
  }

  private static func handle(_ handle: UInt16) -> String {
    let digits = String(handle, radix: 16)
    return "0x" + String(repeating: "0", count: 4 - digits.count) + digits
  }
}
