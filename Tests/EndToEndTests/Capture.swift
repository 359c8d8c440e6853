// SPDX-License-Identifier: Apache-2.0

import Foundation
import Testing

/// What programs have captured, for tshark to judge.
enum Capture {
  /// With `CAPTURE_DIR` set the files are kept there, and whoever set it has all judged together; else
  /// `Interop/check_capture.sh` has to find nothing wrong with them, and ATT requests in them. Files of programs that
  /// never had a controller are left out.
  static func judge(_ files: [String], of test: String) async throws {
    let captures = try files.filter { file in
      guard FileManager.default.fileExists(atPath: file) else { return false }
      let size = try FileManager.default.attributesOfItem(atPath: file)[.size] as? NSNumber
      return (size?.intValue ?? 0) > headerSize
    }
    guard !captures.isEmpty else { return }
    if let folder = ProcessInfo.processInfo.environment["CAPTURE_DIR"] {
      try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
      for file in captures {
        let kept = "\(folder)/endtoend-\(test)-\((file as NSString).lastPathComponent)"
        try? FileManager.default.removeItem(atPath: kept)
        try FileManager.default.copyItem(atPath: file, toPath: kept)
      }
    } else {
      let program = try ChildProgram(
        name: "check_capture", path: "/bin/bash",
        arguments: ["\(Build.repository)/Interop/check_capture.sh"] + captures,
        environment: [:])
      let code = await program.waitForExit(limit: 300)
      #expect(code == 0, "\(program.transcript.tail())")
    }
  }

  /// A btsnoop file without a packet.
  private static let headerSize = 16
}
