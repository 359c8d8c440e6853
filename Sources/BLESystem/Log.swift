// SPDX-License-Identifier: Apache-2.0

import Glibc
import Synchronization

/// The log on standard error, steered by `COREBLUETOOTH_LOG=error|info|debug|trace[,layer…]` (default: error).
///
/// One line per message, `time level layer: text`. Never keys.
public enum Log {
  public enum Level: Int, Comparable, Sendable {
    case error, info, debug, trace
    public static func < (a: Level, b: Level) -> Bool { a.rawValue < b.rawValue }
  }

  private struct Settings: Sendable {
    var level = Level.error
    /// Empty: all layers.
    var layers: Set<String> = []

    init(_ text: String?) {
      for (index, part) in (text ?? "").split(separator: ",").enumerated() {
        switch (index, part) {
        case (0, "error"): level = .error
        case (0, "info"): level = .info
        case (0, "debug"): level = .debug
        case (0, "trace"): level = .trace
        default: layers.insert(String(part))
        }
      }
    }
  }

  private static let settings = Settings(getenv("COREBLUETOOTH_LOG").map { unsafe String(cString: $0) })

  /// Whether a message would be written; asked first where making the text costs.
  public static func isOn(_ level: Level, _ layer: String) -> Bool {
    level == .error || level <= settings.level && (settings.layers.isEmpty || settings.layers.contains(layer))
  }

  public static func write(_ level: Level, _ layer: String, _ text: @autoclosure () -> String) {
    guard isOn(level, layer) else { return }
    line("\(level) \(layer): \(text())")
  }

  /// A line that Apple's framework logs whatever the level, such as `API MISUSE: …`.
  public static func line(_ text: String) {
    var now = timespec()
    unsafe clock_gettime(CLOCK_REALTIME, &now)
    let milliseconds = String(now.tv_nsec / 1_000_000)
    let padded = String(repeating: "0", count: 3 - milliseconds.utf8.count) + milliseconds
    let output = "\(now.tv_sec).\(padded) \(text)\n"
    output.utf8.withContiguousStorageIfAvailable { bytes in
      if let base = bytes.baseAddress { _ = unsafe Glibc.write(2, base, bytes.count) }
    }
  }
}
