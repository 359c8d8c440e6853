// SPDX-License-Identifier: Apache-2.0

import BLEProfile
import BLESystem

/// `ble subscribe`: a line for each value that the peer notifies or indicates.
struct SubscribeCommand {
  private let context: CommandContext
  private let count: Int?

  init(_ context: CommandContext) throws(Failure) {
    self.context = context
    count = try context.arguments.integer("--count", in: 1...Int.max)
  }

  func run() async throws(Failure) {
    try await context.withCharacteristic { session, characteristic throws(Failure) in
      try await session.setNotify(true, characteristic)
      context.runOn()
      var received = 0
      while received < count ?? .max, let value = try await session.notifiedValue(of: characteristic.valueHandle) {
        context.show(value)
        received += 1
      }
      context.inbox.setDeadline(after: 5)
      try await session.setNotify(false, characteristic)
    }
  }
}
