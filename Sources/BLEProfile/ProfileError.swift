// SPDX-License-Identifier: Apache-2.0

/// What is wrong with a profile file, and where: its syntax or its meaning.
public struct ProfileError: Error, Hashable, Sendable, CustomStringConvertible {
  /// What is wrong, and what to write instead where that is known.
  public var message: String
  /// From 1; lines end at line feeds.
  public var line: Int
  /// From 1, in characters (Unicode scalars), as editors count.
  public var column: Int

  /// An error at `offset` octets into `bytes`.
  public init(_ message: String, at offset: Int, in bytes: [UInt8]) {
    let before = bytes[..<min(max(0, offset), bytes.count)]
    let lineStart = before.lastIndex(of: UInt8(ascii: "\n")).map { $0 + 1 } ?? 0
    self.message = message
    line = 1 + before.count { $0 == UInt8(ascii: "\n") }
    // An octet that continues a UTF-8 sequence is no character of its own; neither is a byte order mark.
    column = 1 + before[lineStart...].count { $0 & 0xC0 != 0x80 }
    if lineStart == 0, before.starts(with: [0xEF, 0xBB, 0xBF]) { column -= 1 }
  }

  /// `LINE:COLUMN: message`, to be put after the file's name and a colon.
  public var description: String { "\(line):\(column): \(message)" }
}

/// Finds what somebody may have meant.
public enum Spelling {
  /// The candidate nearest to `word` if it is near enough to be a slip: a third of its letters wrong at most.
  public static func nearest(to word: String, in candidates: some Sequence<String>) -> String? {
    var best: (distance: Int, candidate: String)?
    // A long word is nobody's slip, and the comparison is quadratic.
    guard word.unicodeScalars.count <= 64 else { return nil }
    for candidate in candidates {
      let distance = distance(word.lowercased(), candidate.lowercased())
      if distance < best?.distance ?? .max { best = (distance, candidate) }
    }
    guard let best, best.distance <= max(1, best.candidate.unicodeScalars.count / 3) else { return nil }
    return best.candidate
  }

  /// `: did you mean "X"?`, or a list of what there is.
  public static func advice(for word: String, in candidates: [String]) -> String {
    if let nearest = nearest(to: word, in: candidates) { return ": did you mean \"\(nearest)\"?" }
    return candidates.isEmpty ? "" : "; known are \(candidates.joined(separator: ", "))"
  }

  /// Insertions, deletions, replacements and swaps of neighbours that lead from one word to the other.
  private static func distance(_ a: String, _ b: String) -> Int {
    let (a, b) = (Array(a.unicodeScalars), Array(b.unicodeScalars))
    var beforeLast: [Int] = []
    var last = Array(0...b.count)
    for i in 0..<a.count {
      var row = [i + 1]
      for j in 0..<b.count {
        var cost = min(row[j] + 1, last[j + 1] + 1, last[j] + (a[i] == b[j] ? 0 : 1))
        if i > 0, j > 0, a[i] == b[j - 1], a[i - 1] == b[j] { cost = min(cost, beforeLast[j - 1] + 1) }
        row.append(cost)
      }
      (beforeLast, last) = (last, row)
    }
    return last[b.count]
  }
}
