// SPDX-License-Identifier: Apache-2.0

import BLECore
import Foundation
import Testing

@testable import ble

@Suite struct DecryptCommandTests {
  private let key = "00112233445566778899aabbccddeeff"

  @Test func whatIsNoCaptureIsRefused() async throws {
    let file = NSTemporaryDirectory() + "decrypt-\(UInt64.random(in: 0 ... .max)).pcap"
    try Data([1, 2, 3]).write(to: URL(fileURLWithPath: file))
    defer { try? FileManager.default.removeItem(atPath: file) }
    let result = try await runTool(["decrypt", file, "--key", key], peer: nil)
    #expect(result.failure?.kind == .usage)
    #expect(result.failure?.description.contains("link type 256") == true)
  }

  @Test(arguments: [[], ["--key", "0011"], ["--key", "zz112233445566778899aabbccddeeff"]] as [[String]])
  func aKeyIsNeeded(options: [String]) async throws {
    let result = try await runTool(["decrypt", "air.pcap"] + options, peer: nil)
    #expect(result.failure?.kind == .usage)
    #expect(result.failure?.description.contains("32 hexadecimal digits") == true)
  }

  @Test func theCaptureItselfIsNotOverwritten() async throws {
    let result = try await runTool(["decrypt", "air.pcap", "--key", key, "--output", "air.pcap"], peer: nil)
    #expect(result.failure?.kind == .usage)
  }

  /// An advertisement stays as it is.
  @Test func whatIsNotEncryptedComesOutAsItWent() async throws {
    let record =
      "00000000000000001c0000001c00000000c40000d6be898e1300d6be898e0009a6a5a4a3a2a1020106d96be5"
    let header = "4d3cb2a1020004000000000000000000ffff000000010000"
    let file = NSTemporaryDirectory() + "decrypt-\(UInt64.random(in: 0 ... .max)).pcap"
    defer {
      try? FileManager.default.removeItem(atPath: file)
      try? FileManager.default.removeItem(atPath: file.dropLast(5) + ".decrypted.pcap")
    }
    let bytes = try #require([UInt8](hex: header + record))
    try Data(bytes).write(to: URL(fileURLWithPath: file))
    let result = try await runTool(["decrypt", file, "--key", key, "--json"], peer: nil)
    #expect(result.failure == nil)
    #expect(result.lines.first?.hasPrefix(#"{"packets":1,"decrypted":0,"failed":0,"file":""#) == true)
    let output = try Data(contentsOf: URL(fileURLWithPath: file.dropLast(5) + ".decrypted.pcap"))
    #expect([UInt8](output) == bytes)
  }
}
