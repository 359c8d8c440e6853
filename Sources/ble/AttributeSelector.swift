// SPDX-License-Identifier: Apache-2.0

import BLECore
import BLEProfile
import BLESystem

/// The service and the characteristic that `read`, `write` and `subscribe` take.
struct AttributeSelector {
  let service: BluetoothUUID
  let characteristic: BluetoothUUID

  init(_ arguments: Arguments) throws(Failure) {
    service = try bluetoothUUID(arguments.operands[0])
    characteristic = try bluetoothUUID(arguments.operands[1])
  }

  /// Finds the characteristic on the connected peer, in the first service that has it.
  func find(in session: CentralSession) async throws(Failure) -> CharacteristicRecord {
    let services = try await session.services([service])
    guard !services.isEmpty else { throw .notFound("\(session.peerName) has no service \(UUIDName.service(service))") }
    for record in services {
      if let found = try await session.characteristics(of: record, [characteristic]).first { return found }
    }
    let name = UUIDName.characteristic(characteristic)
    throw .notFound("the service \(UUIDName.service(service)) of \(session.peerName) has no characteristic \(name)")
  }
}

extension CommandContext {
  /// Connects to the peer of the command line, does `body` with the characteristic, and disconnects whatever happens.
  func withCharacteristic(
    _ body: (CentralSession, CharacteristicRecord) async throws(Failure) -> Void
  ) async throws(Failure) {
    let selector = try PeerSelector(arguments)
    let attribute = try AttributeSelector(arguments)
    let session = try await session()
    defer { session.close() }
    _ = try await session.connect(to: selector)
    do throws(Failure) {
      try await body(session, try await attribute.find(in: session))
    } catch {
      await session.disconnect()
      throw error
    }
    await session.disconnect()
  }

  /// A value that was read or notified.
  func show(_ value: [UInt8]) {
    output.emit(["value": .string(value.hex), "text": .string(orNull: value.plainText)], text: value.forPeople)
  }
}
