// SPDX-License-Identifier: Apache-2.0

import Foundation
import Testing

/// A scripted app, and the steps that most tests begin with.
struct App: Sendable {
  let program: ChildProgram

  init(_ program: ChildProgram) { self.program = program }

  func central(_ verb: String, _ members: [String: JSON] = [:]) {
    program.send(.object(members.merging(["central": .string(verb)]) { $1 }))
  }

  func peripheral(_ verb: String, _ members: [String: JSON] = [:]) {
    program.send(.object(members.merging(["peripheral": .string(verb)]) { $1 }))
  }

  @discardableResult
  func expect(_ event: String, _ members: [String: JSON] = [:], limit: TimeInterval = 60) async throws -> JSON {
    try await program.expect(event, members, limit: limit)
  }

  // MARK: Peripheral

  /// Makes the peripheral manager, publishes the services in order and advertises.
  func serve(_ services: [JSON], name: String, advertising: [JSON]) async throws {
    peripheral("create")
    try await expect("didUpdateState", ["role": "peripheral", "state": "poweredOn"])
    try await publish(services, name: name, advertising: advertising)
  }

  func publish(_ services: [JSON], name: String, advertising: [JSON]) async throws {
    for service in services {
      peripheral("add", ["service": service])
      try await expect("didAdd", ["error": nil])
    }
    peripheral("advertise", ["name": .string(name), "services": .array(advertising)])
    try await expect("didStartAdvertising", ["error": nil])
  }

  // MARK: Central

  func createCentral() async throws {
    central("create")
    try await expect("didUpdateState", ["role": "central", "state": "poweredOn"])
  }

  /// Scans for a service until a peer is found.
  func find(_ service: JSON) async throws -> JSON {
    central("scan", ["services": [service]])
    let found = try await expect("didDiscover")
    central("stopScan")
    return found["peer"]
  }

  func connect(_ peer: JSON) async throws {
    central("connect", ["peer": peer])
    try await expect("didConnect", ["peer": peer, "state": "connected"])
  }

  /// Finds the services, and the characteristics of each; `connecting` first if that is asked for.
  func discover(_ peer: JSON, connecting: Bool = false) async throws {
    if connecting { try await connect(peer) }
    central("discoverServices", ["peer": peer])
    let found = try await expect("didDiscoverServices", ["peer": peer, "error": nil])
    for service in found["services"].list {
      central("discoverCharacteristics", ["peer": peer, "service": service])
      try await expect("didDiscoverCharacteristics", ["peer": peer, "service": service, "error": nil])
    }
  }

  /// Makes the central manager, finds the peer with the service, connects it and discovers.
  func meet(_ service: JSON) async throws -> JSON {
    try await createCentral()
    let peer = try await find(service)
    try await connect(peer)
    try await discover(peer)
    return peer
  }

  /// Reads a value: the line, whether with an error or not.
  func read(_ peer: JSON, _ characteristic: JSON) async throws -> JSON {
    central("read", ["peer": peer, "characteristic": characteristic])
    return try await expect("didUpdateValue", ["peer": peer, "characteristic": characteristic])
  }

  func write(_ peer: JSON, _ characteristic: JSON, _ value: String) async throws -> JSON {
    central("write", ["peer": peer, "characteristic": characteristic, "value": .string(value)])
    return try await expect("didWriteValue", ["peer": peer, "characteristic": characteristic])
  }

  func notify(_ peer: JSON, _ characteristic: JSON, _ isOn: Bool) async throws {
    central("notify", ["peer": peer, "characteristic": characteristic, "on": .bool(isOn)])
    try await expect(
      "didUpdateNotificationState",
      ["peer": peer, "characteristic": characteristic, "notifying": .bool(isOn), "error": nil])
  }

  func cancel(_ peer: JSON) async throws {
    central("cancel", ["peer": peer])
    try await expect("didDisconnect", ["peer": peer, "error": nil, "state": "disconnected"])
  }
}

extension [UInt8] {
  /// The value number `number` of a scripted stream.
  static func ofStream(_ number: Int, length: Int) -> [UInt8] {
    let octets = (0..<4).map { UInt8(truncatingIfNeeded: number >> ($0 * 8)) }
    return octets + (4..<Swift.max(4, length)).map { UInt8(truncatingIfNeeded: $0 &+ number) }
  }
}
