// SPDX-License-Identifier: Apache-2.0

import Foundation
import Testing

/// Checks what programs have captured with tshark.
enum Capture {
  /// `Interop/check_capture.sh` finds nothing wrong with the files, and ATT requests in them.
  static func check(_ files: [String]) async throws {
    let program = try ChildProgram(
      name: "check_capture", path: "/bin/sh", arguments: ["\(Build.repository)/Interop/check_capture.sh"] + files,
      environment: [:])
    let code = await program.waitForExit(limit: 300)
    #expect(code == 0, "\(program.transcript.tail())")
  }
}
