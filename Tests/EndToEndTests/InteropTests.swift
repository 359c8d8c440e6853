// SPDX-License-Identifier: Apache-2.0

import Foundation
import Testing

/// Our stack with a foreign one (`Interop/`): both roles, on our radio and on the foreign controllers.
@Suite(.timeLimit(.minutes(20))) struct InteropTests {
  /// A Python that has the foreign stack. Without one the tests fail: what they show is part of what is promised.
  private static func python() throws -> String {
    let own = "\(Build.repository)/.build/interop-venv/bin/python"
    let path = ProcessInfo.processInfo.environment["BLE_PYTHON"] ?? own
    guard FileManager.default.isExecutableFile(atPath: path) else {
      throw SiteFailure(
        description: "\(path) is missing: scripts/setup makes .build/interop-venv with what Interop/requirements.txt "
          + "names; or name a Python that has it with BLE_PYTHON")
    }
    return path
  }

  @Test(arguments: [
    "our-peripheral", "foreign-peripheral", "our-peripheral-on-foreign-controllers",
    "our-central-on-foreign-controllers",
  ])
  func bothStacksUnderstandEachOther(_ scenario: String) async throws {
    let python = try Self.python()
    try await withSite(radio: false) { site in
      let captures = "\(site.directory)/captures"
      let run = try site.start(
        "interop", python,
        [
          "\(Build.repository)/Interop/run.py", "--ble", "\(Build.products)/ble", "--captures", captures, scenario,
        ])
      let code = await run.waitForExit(limit: 600)
      let checks = run.transcript.all.compactMap(\.string)
      #expect(code == 0, "\(run.transcript.tail())")
      #expect(!checks.contains { $0.hasPrefix("FAIL") }, "\(run.transcript.tail())")
      let done = checks.filter { $0.hasPrefix("ok \(scenario): ") }
      #expect(done.contains { $0.hasSuffix("our central explores it") }, "\(run.transcript.tail())")
      let files = try FileManager.default.contentsOfDirectory(atPath: captures).filter { $0.hasSuffix(".btsnoop") }
      #expect(!files.isEmpty)
      try await Capture.check(files.sorted().map { "\(captures)/\($0)" })
    }
  }
}
