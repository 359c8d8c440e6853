// SPDX-License-Identifier: Apache-2.0

import Foundation
import Synchronization

/// The lines that a program has printed, for those who wait for one.
///
/// Each wait takes the first matching line that no wait has taken yet, so the order in which a test asks for lines of
/// different kinds does not matter. A wait is woken by the line it waits for; the clock only ends a wait in vain.
final class Transcript: Sendable {
  struct Line: Sendable {
    var number: Int
    /// A line that is no JSON is a string.
    var json: JSON
  }

  /// What a wait in vain throws.
  struct NotSeen: Error, CustomStringConvertible {
    var description: String
  }

  private struct Wait {
    var id: Int
    var what: String
    var matches: @Sendable (JSON) -> Bool
    var continuation: CheckedContinuation<Line, any Error>
  }

  private struct State {
    var lines: [JSON] = []
    var isTaken: [Bool] = []
    /// Lines before this one are all taken.
    var firstOpen = 0
    var waits: [Wait] = []
    var ended: String?
    var lastID = 0
  }

  let name: String
  private let state = Mutex(State())

  init(name: String) { self.name = name }

  func append(_ text: String) {
    let json = JSON(parsing: text) ?? .string(text)
    let woken = state.withLock { state -> (Wait, Line)? in
      state.lines.append(json)
      let index = state.waits.firstIndex { $0.matches(json) }
      state.isTaken.append(index != nil)
      return index.map { (state.waits.remove(at: $0), Line(number: state.lines.count - 1, json: json)) }
    }
    if let (wait, line) = woken { wait.continuation.resume(returning: line) }
  }

  /// The program is gone: nothing more will come.
  func end(_ reason: String) {
    let waits = state.withLock { state in
      state.ended = reason
      defer { state.waits = [] }
      return state.waits
    }
    for wait in waits { wait.continuation.resume(throwing: failure(wait.what, reason)) }
  }

  /// All lines so far, taken or not.
  var all: [JSON] { state.withLock { $0.lines } }

  /// The last lines, as text.
  func tail(_ count: Int = 60) -> String {
    let (lines, ended) = state.withLock { (Array($0.lines.suffix(count)), $0.ended) }
    let texts = lines.map { line in "    " + (line.string ?? line.text).prefix(300) }
    return "  \(name)\(ended.map { " (\($0))" } ?? ""):\n" + texts.joined(separator: "\n")
  }

  private func failure(_ what: String, _ reason: String) -> NotSeen {
    NotSeen(description: "\(name) did not print \(what): \(reason)")
  }

  /// The next line that matches, `limit` seconds from now at the latest.
  func next(
    _ what: String, limit: TimeInterval, where matches: @escaping @Sendable (JSON) -> Bool
  ) async throws -> Line {
    try await withCheckedThrowingContinuation { continuation in
      let outcome: Result<Line, any Error>? = state.withLock { state in
        if let found = Self.take(&state, matches) { return .success(found) }
        if let reason = state.ended { return .failure(NotSeen(description: reason)) }
        state.lastID += 1
        state.waits.append(Wait(id: state.lastID, what: what, matches: matches, continuation: continuation))
        arm(state.lastID, limit)
        return nil
      }
      switch outcome {
      case .success(let line): continuation.resume(returning: line)
      case .failure(let error): continuation.resume(throwing: failure(what, "\(error)"))
      case nil: break
      }
    }
  }

  private static func take(_ state: inout State, _ matches: (JSON) -> Bool) -> Line? {
    while state.firstOpen < state.lines.count, state.isTaken[state.firstOpen] { state.firstOpen += 1 }
    for index in state.firstOpen..<state.lines.count where !state.isTaken[index] && matches(state.lines[index]) {
      state.isTaken[index] = true
      return Line(number: index, json: state.lines[index])
    }
    return nil
  }

  private func arm(_ id: Int, _ limit: TimeInterval) {
    DispatchQueue.global().asyncAfter(deadline: .now() + limit) { [weak self] in
      guard let self else { return }
      let wait = state.withLock { state in
        state.waits.firstIndex { $0.id == id }.map { state.waits.remove(at: $0) }
      }
      wait?.continuation.resume(throwing: failure(wait?.what ?? "", "not within \(limit) s"))
    }
  }
}
