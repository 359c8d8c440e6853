// SPDX-License-Identifier: Apache-2.0

import BLEProfile
import BLESystem

/// `ble write`: one value, with a response or without.
struct WriteCommand {
  private let context: CommandContext
  private let value: [UInt8]

  init(_ context: CommandContext) throws(Failure) {
    self.context = context
    let hex = context.arguments.operands.count > 2 ? context.arguments.operands[2] : nil
    switch (hex, context.arguments.value("--text")) {
    case (let hex?, nil):
      guard let octets = [UInt8](hex: hex) else {
        throw .usage("\"\(harmless(hex))\" is no value: write pairs of hexadecimal digits, or --text T")
      }
      value = octets
    case (nil, let text?): value = Array(text.utf8)
    case (nil, nil): throw .usage("write needs a value: HEX or --text T")
    case (_?, _?): throw .usage("HEX and --text both give a value: write one of them")
    }
    guard value.count <= 512 else { throw .usage("a value has at most 512 octets, this one \(value.count)") }
  }

  func run() async throws(Failure) {
    let withoutResponse = context.arguments.has("--without-response")
    try await context.withCharacteristic { session, characteristic throws(Failure) in
      let name = UUIDName.characteristic(characteristic.uuid)
      if withoutResponse {
        guard characteristic.properties & CharacteristicProperty.writeWithoutResponse.rawValue != 0 else {
          throw .failed("\(name) does not have the property writeWithoutResponse")
        }
        try await session.writeCommand(value, to: characteristic.valueHandle, name)
        // Commands have no answer: that a later request is answered says that the peer took it from the link.
        _ = try await session.services([characteristic.uuid])
      } else {
        try await session.write(value, to: characteristic.valueHandle, name)
      }
      context.output.emit(
        ["event": "written", "value": .string(value.hex), "response": .bool(!withoutResponse)], text: nil)
    }
  }
}
