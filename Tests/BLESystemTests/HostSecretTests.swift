// SPDX-License-Identifier: Apache-2.0

import BLEStore
import Foundation
import Testing

/// The secret that outlives programs, and what may stand in its place.
@Suite struct HostSecretTests {
  private func inDirectory(_ body: (String) throws -> Void) throws {
    let name = "cb-secret-\(ProcessInfo.processInfo.processIdentifier)-\(UInt32.random(in: 0...UInt32.max))"
    let directory = FileManager.default.temporaryDirectory.appendingPathComponent(name).path
    try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(atPath: directory) }
    try body(directory)
  }

  @Test func aSecretIsMadeOnceAndKept() throws {
    try inDirectory { directory in
      let first = try HostSecret.load(directory: directory + "/a/b")
      #expect(first.count == HostSecret.byteCount)
      #expect(try HostSecret.load(directory: directory + "/a/b") == first)
      #expect(try FileManager.default.contentsOfDirectory(atPath: directory + "/a/b") == ["host-secret"])
    }
  }

  /// A named pipe without a writer is not waited for.
  @Test func aPipeInItsPlaceIsRefused() throws {
    try inDirectory { directory in
      try #require(mkfifo(directory + "/host-secret", 0o600) == 0)
      #expect(throws: HostSecret.Failure.self) { try HostSecret.load(directory: directory) }
    }
  }

  @Test(arguments: [0, 31, 33, 5_000]) func aFileOfAnotherLengthIsRefused(_ count: Int) throws {
    try inDirectory { directory in
      #expect(FileManager.default.createFile(atPath: directory + "/host-secret", contents: Data(count: count)))
      #expect(throws: HostSecret.Failure.self) { try HostSecret.load(directory: directory) }
    }
  }
}
