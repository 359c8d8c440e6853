// SPDX-License-Identifier: Apache-2.0

import BLESystem

/// `ble read`: one value, however long.
struct ReadCommand {
  private let context: CommandContext

  init(_ context: CommandContext) { self.context = context }

  func run() async throws(Failure) {
    try await context.withCharacteristic { session, characteristic throws(Failure) in
      let name = UUIDName.characteristic(characteristic.uuid)
      switch try await session.read(characteristic.valueHandle, name) {
      case .success(let value): context.show(value)
      case .failure(let error): throw .failed("reading \(name) failed: \(session.describe(error))")
      }
    }
  }
}
