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
    /// A level that is none.
    var unknown: String?

    init(_ text: String?) {
      for (index, part) in (text ?? "").split(separator: ",").enumerated() {
        switch (index, part) {
        case (0, "error"): level = .error
        case (0, "info"): level = .info
        case (0, "debug"): level = .debug
        case (0, "trace"): level = .trace
        case (0, _): unknown = String(part)
        default: layers.insert(String(part))
        }
      }
    }
  }

  private static let settings: Settings = {
    let settings = Settings(getenv("COREBLUETOOTH_LOG").map { unsafe String(cString: $0) })
    if let unknown = settings.unknown {
      line("CoreBluetooth: COREBLUETOOTH_LOG begins with error, info, debug or trace, not \"\(unknown)\"")
    }
    return settings
  }()

  /// Whether a message would be written; asked first where making the text costs.
  public static func isOn(_ level: Level, _ layer: String) -> Bool {
    level == .error || level <= settings.level && (settings.layers.isEmpty || settings.layers.contains(layer))
  }

  public static func write(_ level: Level, _ layer: String, _ text: @autoclosure () -> String) {
    guard isOn(level, layer) else { return }
    line("\(level) \(layer): \(text())")
  }

  private static func digits(_ number: Int, _ count: Int) -> String {
    let text = String(number)
    return String(repeating: "0", count: max(0, count - text.utf8.count)) + text
  }

  /// A line that Apple's framework logs whatever the level, such as `API MISUSE: …`.
  public static func line(_ text: String) {
    var now = timespec()
    unsafe clock_gettime(CLOCK_REALTIME, &now)
    var day = tm()
    unsafe localtime_r(&now.tv_sec, &day)
    let clock = [day.tm_hour, day.tm_min, day.tm_sec].map { digits(Int($0), 2) }.joined(separator: ":")
    let output = "\(clock).\(digits(now.tv_nsec / 1_000_000, 3)) \(text)\n"
    output.utf8.withContiguousStorageIfAvailable { bytes in
      if let base = bytes.baseAddress { _ = unsafe Glibc.write(2, base, bytes.count) }
    }
  }
}
