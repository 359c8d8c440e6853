// SPDX-License-Identifier: Apache-2.0

import BLECore
import BLEProfile
import BLESystem

/// `ble scan`: a line for each peer heard.
struct ScanCommand {
  private let context: CommandContext
  private let options: ScanOptions
  private let duration: Double?

  init(_ context: CommandContext) throws(Failure) {
    self.context = context
    duration = try context.arguments.number("--for", in: 0.001...1e6)
    var services: [BluetoothUUID] = []
    for text in context.arguments.values("--service") { services.append(try bluetoothUUID(text)) }
    let allowDuplicates = context.arguments.has("--duplicates")
    options = ScanOptions(services: services.isEmpty ? nil : services, allowDuplicates: allowDuplicates)
  }

  func run() async throws(Failure) {
    let session = try await context.session()
    defer { session.close() }
    let limit = context.timeout ?? .infinity
    let isBounded = duration.map { $0 <= limit } ?? false
    // The scan's own end, unless the time that the user allows is over before it.
    context.inbox.setDeadline(after: isBounded ? duration : context.timeout)
    session.send(.startScan(options))
    while true {
      switch await context.inbox.next() {
      case .event(.discovered(let discovery)): show(discovery)
      case .event(.stateChanged(let state)) where state != .poweredOn: throw CentralSession.noAdapter(state)
      case .interrupted: return
      case .deadline:
        if isBounded { return }
        throw .timedOut("the scan was ended by --timeout; --for ends one in good order")
      case .event, .tick: continue
      }
    }
  }

  private func show(_ discovery: Discovery) {
    context.output.emit(Self.json(discovery), text: Self.text(discovery))
  }

  static func json(_ discovery: Discovery) -> JSONValue {
    var members: [JSONValue.Member] = [
      .init("event", "discovered"),
      .init("name", .string(orNull: discovery.localName ?? discovery.peer.name)),
      .init("identifier", .string(discovery.peer.identifier.text)),
      .init("address", .string(discovery.peer.address.address.description)),
      .init("addressType", .string(discovery.peer.address.type.onAir == .random ? "random" : "public")),
      .init("rssi", discovery.rssi == 127 ? .null : .integer(Int(discovery.rssi))),
      .init("connectable", .bool(discovery.isConnectable)),
      .init("services", uuids(discovery.services)),
    ]
    if !discovery.overflowServices.isEmpty {
      members.append(.init("overflowServices", uuids(discovery.overflowServices)))
    }
    if !discovery.solicitedServices.isEmpty {
      members.append(.init("solicitedServices", uuids(discovery.solicitedServices)))
    }
    if let power = discovery.txPowerLevel { members.append(.init("txPowerLevel", .integer(Int(power)))) }
    if let data = discovery.manufacturerData { members.append(.init("manufacturerData", .string(data.hex))) }
    if !discovery.serviceData.isEmpty {
      let sorted = discovery.serviceData.sorted { $0.key.longDescription < $1.key.longDescription }
      members.append(.init("serviceData", .object(sorted.map { .init($0.key.description, .string($0.value.hex)) })))
    }
    return .object(members)
  }

  private static func uuids(_ uuids: [BluetoothUUID]) -> JSONValue { .array(uuids.map { .string($0.description) }) }

  static func text(_ discovery: Discovery) -> String {
    let peer = discovery.peer
    let rssi =
      discovery.rssi == 127
      ? "   ?" : String(repeating: " ", count: max(0, 4 - "\(discovery.rssi)".count)) + "\(discovery.rssi)"
    var parts = ["\(peer.identifier.text)  \(rssi) dBm  \(harmless(discovery.localName ?? peer.name ?? "(no name)"))"]
    let services = discovery.services + discovery.overflowServices
    if !services.isEmpty { parts.append(services.map { UUIDName.service($0) }.joined(separator: ", ")) }
    if let data = discovery.manufacturerData { parts.append("manufacturer \(UUIDName.manufacturer(data))") }
    for (uuid, data) in discovery.serviceData.sorted(by: { $0.key.longDescription < $1.key.longDescription }) {
      parts.append("data of \(uuid): \(data.hex)")
    }
    if !discovery.isConnectable { parts.append("not connectable") }
    return parts.joined(separator: "  ·  ")
  }
}
