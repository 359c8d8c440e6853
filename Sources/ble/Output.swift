// SPDX-License-Identifier: Apache-2.0

import BLEProfile
import Dispatch
import Glibc
import Synchronization

/// Where a command's results go: lines of text for people, or one JSON object a line for programs.
final class Output: Sendable {
  let isJSON: Bool
  private let sink: @Sendable (String) -> Void
  private let lock = Mutex(())

  /// `sink` gets each line without its end; without one they go to standard output, at once.
  init(isJSON: Bool, sink: (@Sendable (String) -> Void)? = nil) {
    self.isJSON = isJSON
    self.sink = sink ?? { Self.write($0 + "\n", to: STDOUT_FILENO) }
  }

  /// One result in both forms; only the one that is asked for is made.
  func emit(_ json: @autoclosure () -> JSONValue, text: @autoclosure () -> String?) {
    let line = isJSON ? json().text : text()
    guard let line else { return }
    lock.withLock { _ in sink(line) }
  }

  /// The same, but `emit` never waits for whoever reads: the lines are written on a queue of their own.
  func inBackground() -> (Output, BackgroundLines) {
    let lines = BackgroundLines(sink: sink)
    return (Output(isJSON: isJSON) { lines.add($0) }, lines)
  }

  /// Writes the whole text, however often the descriptor takes only part of it.
  static func write(_ text: String, to descriptor: Int32) {
    var rest = Array(text.utf8)[...]
    while !rest.isEmpty {
      let count = unsafe rest.withUnsafeBytes { bytes in unsafe Glibc.write(descriptor, bytes.baseAddress, bytes.count)
      }
      if count < 0 && errno == EINTR { continue }
      guard count > 0 else { return }
      rest = rest.dropFirst(count)
    }
  }
}

/// Lines on their way to a sink that may be slow, or stuck: beyond ``waitingMax`` they are dropped.
final class BackgroundLines: Sendable {
  static let waitingMax = 10_000
  private let queue = DispatchQueue(label: "output")
  private let waiting = Mutex(0)
  private let sink: @Sendable (String) -> Void

  init(sink: @escaping @Sendable (String) -> Void) { self.sink = sink }

  func add(_ line: String) {
    let isTaken = waiting.withLock { waiting in
      guard waiting < Self.waitingMax else { return false }
      waiting += 1
      return true
    }
    guard isTaken else { return }
    queue.async { [self] in
      sink(line)
      waiting.withLock { $0 -= 1 }
    }
  }

  /// Waits until all lines are written, a second at most.
  func finish() {
    let isDone = DispatchSemaphore(value: 0)
    queue.async { isDone.signal() }
    _ = isDone.wait(timeout: .now() + 1)
  }
}

/// A peer's text as it may be shown on a terminal: what would move the cursor, change colours or turn the writing
/// direction is spelled out.
func harmless(_ text: String) -> String {
  var output = ""
  for scalar in text.unicodeScalars {
    switch scalar.properties.generalCategory {
    case .control, .format, .lineSeparator, .paragraphSeparator, .surrogate, .privateUse, .unassigned:
      output += "\\u{" + String(scalar.value, radix: 16) + "}"
    default: output.unicodeScalars.append(scalar)
    }
  }
  return output
}

extension [UInt8] {
  /// Two lower-case hexadecimal digits an octet.
  var hex: String { map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined() }

  /// Pairs of hexadecimal digits, blanks and colons between them allowed; nil for anything else.
  init?(hex text: String) {
    let digits = text.filter { $0 != " " && $0 != ":" }
    guard digits.count.isMultiple(of: 2) else { return nil }
    var bytes: [UInt8] = []
    var high: Int?
    for character in digits {
      guard character.isASCII, let digit = character.hexDigitValue else { return nil }
      if let first = high {
        bytes.append(UInt8(first << 4 | digit))
        high = nil
      } else {
        high = digit
      }
    }
    self = bytes
  }

  /// The value for people: hexadecimal, then as text where it plainly is one.
  var forPeople: String {
    if isEmpty { return "(empty)" }
    guard let text = plainText else { return hex }
    return "\(hex)  \"\(text)\""
  }

  /// The value as text where it plainly is one: UTF-8 of at least one character, none of which needs spelling out.
  /// One octet is more often a number. One zero at the end, which many devices send, is left out.
  var plainText: String? {
    let octets = last == 0 ? dropLast() : self[...]
    guard octets.count > 1, let text = String(validating: octets, as: UTF8.self), harmless(text) == text else {
      return nil
    }
    return text
  }
}
