// SPDX-License-Identifier: Apache-2.0

import BLECore
import BLEHCI
import TestSupport
import Testing

/// Every decoder takes any bytes: it throws, or gives a value that encodes and decodes to itself.
struct HostileBytesTests {
  /// Decodes `bytes`; true if that gave a value.
  private func survives<T: WireCodable & Equatable>(_ type: T.Type, _ bytes: [UInt8], _ seed: UInt64) -> Bool {
    guard let value = try? type.decode(bytes) else { return false }
    let again = try? type.decode(value.encoded)
    #expect(again == value, "seed \(seed): \(type) from \(bytes.hex)")
    return true
  }

  private func commandSurvives<C: HCICommand>(_ type: C.Type, _ bytes: [UInt8], _ seed: UInt64) -> Bool {
    let isCommand = survives(type, bytes, seed)
    return survives(C.ReturnParameters.self, bytes, seed) || isCommand
  }

  @Test func commandsAndReturnParameters() throws {
    let examples = try parameters { type, payload in
      if type == .command { return Array(payload.dropFirst(3)) }
      return payload.first == HCIEventCode.commandComplete.rawValue ? Array(payload.dropFirst(5)) : nil
    }
    var values = 0
    for (index, type) in HCICatalog.commands.enumerated() {
      let seed = 1000 + UInt64(index)
      for bytes in HostileBytes(seed: seed, count: 700, examples: examples + valid(type)) {
        if commandSurvives(type, bytes, seed) { values += 1 }
      }
    }
    #expect(values > 5000)
  }

  /// One parameter string that `type` takes, if the vectors have one.
  private func valid(_ type: any HCICommand.Type) -> [[UInt8]] {
    let cases = (try? VectorFile("hci_packets").cases) ?? []
    return cases.compactMap { $0.bytes("packet") }.filter {
      $0.count >= 4 && $0[0] == 1 && UInt16($0[1]) | UInt16($0[2]) << 8 == type.opcode.rawValue
    }.map { Array($0.dropFirst(4)) }
  }

  @Test func events() throws {
    let examples = try parameters { type, payload in type == .event ? Array(payload.dropFirst(2)) : nil }
    var values = 0
    for (index, type) in HCICatalog.events.enumerated() {
      let seed = 2000 + UInt64(index)
      for bytes in HostileBytes(seed: seed, count: 2000, examples: examples) where survives(type, bytes, seed) {
        values += 1
      }
    }
    #expect(values > 1000)
  }

  @Test func leMetaEvents() throws {
    let examples = try parameters { type, payload in
      type == .event && payload.first == HCIEventCode.leMeta.rawValue ? Array(payload.dropFirst(3)) : nil
    }
    var values = 0
    for (index, type) in HCICatalog.leMetaEvents.enumerated() {
      let seed = 3000 + UInt64(index)
      for bytes in HostileBytes(seed: seed, count: 2000, examples: examples) where survives(type, bytes, seed) {
        values += 1
      }
    }
    #expect(values > 1000)
  }

  /// Whole packets: framing, and every trace is one line.
  @Test func packetsAndTraces() throws {
    let seed: UInt64 = 4000
    let examples = try VectorFile("hci_packets").cases.compactMap { $0.bytes("packet") }
    for bytes in HostileBytes(seed: seed, count: 20_000, examples: examples) {
      let payload = Array(bytes.dropFirst())
      let type = HCIPacketType(rawValue: bytes.first ?? 0)
      let line = HCITrace.line(.controllerToHost, type, payload.span.bytes)
      #expect(!line.contains("\n") && line.hasPrefix("<- "), "seed \(seed): \(bytes.hex)")
      _ = survives(ACLHeader.self, payload, seed)
      _ = survives(SupportedCommands.self, payload, seed)
    }
  }

  /// A cut of a valid packet never decodes, other than into what its type allows to be missing.
  @Test func everyTruncationOfAnEventThrows() throws {
    for example in try VectorFile("hci_packets").cases where example.bool("valid") == true {
      guard let packet = example.bytes("packet"), packet.first == 4 else { continue }
      let payload = Array(packet.dropFirst())
      for length in 0..<payload.count {
        let cut = Array(payload.prefix(length))
        #expect(throws: DecodeError.self, "\(example.name) cut to \(length)") {
          let bytes = cut.span.bytes
          let packet = try HCIEventPacket(bytes)
          _ = packet.code
        }
      }
    }
  }

  /// What `select` makes of the valid examples.
  private func parameters(_ select: (HCIPacketType, [UInt8]) -> [UInt8]?) throws -> [[UInt8]] {
    try VectorFile("hci_packets").cases.compactMap { example in
      guard let packet = example.bytes("packet"), let first = packet.first else { return nil }
      return select(HCIPacketType(rawValue: first), Array(packet.dropFirst()))
    }
  }
}
