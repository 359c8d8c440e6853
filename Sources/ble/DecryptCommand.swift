// SPDX-License-Identifier: Apache-2.0

import BLECore
import BLEProfile
import BLERadio

/// `ble decrypt`: writes a capture of the air again, with encrypted links in clear.
struct DecryptCommand {
  private let context: CommandContext
  private let keys: [[UInt8]]
  private let source: String
  private let destination: String
  private static let fileSizeMax = 1 << 32

  init(_ context: CommandContext) throws(Failure) {
    self.context = context
    let arguments = context.arguments
    var keys: [[UInt8]] = []
    for text in arguments.values("--key") { keys.append(try Self.key(text)) }
    guard !keys.isEmpty else { throw .usage("--key is missing: the link's long term key, 32 hexadecimal digits") }
    self.keys = keys
    let source = arguments.operands[0]
    self.source = source
    let stem = source.hasSuffix(".pcap") ? String(source.dropLast(5)) : source
    destination = arguments.value("--output") ?? stem + ".decrypted.pcap"
    guard destination != source else { throw .usage("--output names the capture itself: give another file") }
  }

  private static func key(_ text: String) throws(Failure) -> [UInt8] {
    guard let key = [UInt8](hex: text), key.count == 16 else {
      // Not what was given: it may be a key with a slip in it.
      throw .usage("--key takes 32 hexadecimal digits, the most significant first")
    }
    return key
  }

  func run() throws(Failure) {
    let file = try File.read(source, limit: Self.fileSizeMax)
    guard var decryption = try? AirDecryption(longTermKeys: keys) else {
      throw .failed("the cryptographic library does not work")
    }
    var writer = ByteWriter(capacity: file.count)
    AirPCAP.encodeHeader(into: &writer)
    var count = 0
    do {
      try AirPCAP.read(file.span.bytes) { record in
        count += 1
        AirPCAP.encode(decryption.decrypt(record), into: &writer)
      }
    } catch AirPCAP.ReadError.damagedRecord(let offset) {
      throw .usage("\(harmless(source)) is damaged at octet \(offset)")
    } catch {
      throw .usage(
        "\(harmless(source)) is no capture of the air: pcap with nanoseconds and link type 256 is, as ble sim "
          + "--air-capture writes it")
    }
    try File.write(writer.bytes, to: destination)
    report(count, decryption)
  }

  private func report(_ count: Int, _ decryption: AirDecryption) {
    context.output.emit(
      [
        "packets": .integer(count), "decrypted": .integer(decryption.decryptedCount),
        "failed": .integer(decryption.failedCount), "file": .string(destination),
      ],
      text: "\(count) packets, \(decryption.decryptedCount) decrypted, \(decryption.failedCount) encrypted otherwise: "
        + harmless(destination))
  }
}
