// SPDX-License-Identifier: Apache-2.0

import BLECore
import Foundation
import Testing

@testable import BLESystem

/// Every procedure against every misbehaviour at every point, in virtual time. What came of it is the table of
/// `docs/misbehaviour.md`, which has to be what the tests saw.
///
/// `MISBEHAVIOUR_TABLE=write swift test --filter MisbehaviourTests` writes it anew.
@Suite struct MisbehaviourTests {
  /// One line of the table.
  struct Row: Equatable {
    var procedure: String
    var misbehaviour: String
    var point: String
    var outcome: String

    var line: String { "| \(procedure) | \(misbehaviour) | \(point) | \(outcome) |" }
  }

  @Test func theTableIsWhatHappens() throws {
    let client = try clientRows()
    let server = try RogueClientScene().rows()
    #expect(client.count > 200 && server.count > 15)
    let text = Self.page(client, server)
    var url = URL(fileURLWithPath: #filePath)
    for _ in 0..<3 { url.deleteLastPathComponent() }
    url.append(path: "docs/misbehaviour.md")
    if ProcessInfo.processInfo.environment["MISBEHAVIOUR_TABLE"] == "write" {
      try text.write(to: url, atomically: true, encoding: .utf8)
      return
    }
    let kept = try String(contentsOf: url, encoding: .utf8)
    let (new, old) = (text.split(separator: "\n"), kept.split(separator: "\n"))
    for line in new where !old.contains(line) { Issue.record("not in docs/misbehaviour.md: \(line)") }
    for line in old where !new.contains(line) { Issue.record("did not happen: \(line)") }
    #expect(text == kept, "MISBEHAVIOUR_TABLE=write swift test --filter MisbehaviourTests writes the table anew")
  }

  private func clientRows() throws -> [Row] {
    let scene = try MisbehaviourScene()
    // So that the name, which is asked for once, is no part of what follows.
    _ = try scene.responseCount(.connect)
    var rows: [Row] = []
    for procedure in DisturbedProcedure.allCases {
      let count = try scene.responseCount(procedure)
      for misbehaviour in Misbehaviour.allCases {
        var outcomes: [(index: Int, outcome: String)] = []
        for index in 0..<(misbehaviour.isAtFirstOnly ? 1 : count) {
          scene.current = "\(procedure.rawValue), the peer \(misbehaviour.rawValue) (response \(index + 1) of \(count))"
          if let outcome = try scene.run(procedure, misbehaviour, at: index) { outcomes.append((index, outcome)) }
        }
        rows += Self.merged(outcomes, of: count, procedure.rawValue, misbehaviour.rawValue)
      }
    }
    return rows
  }

  /// One row for all points with the same outcome.
  private static func merged(
    _ outcomes: [(index: Int, outcome: String)], of count: Int, _ procedure: String, _ misbehaviour: String
  ) -> [Row] {
    var order: [String] = []
    var points: [String: [Int]] = [:]
    for (index, outcome) in outcomes {
      if points[outcome] == nil { order.append(outcome) }
      points[outcome, default: []].append(index + 1)
    }
    return order.map { outcome in
      let numbers = points[outcome] ?? []
      let point = numbers.count == count ? "any of \(count)" : Self.list(numbers) + " of \(count)"
      return Row(procedure: procedure, misbehaviour: misbehaviour, point: point, outcome: outcome)
    }
  }

  private static func list(_ numbers: [Int]) -> String {
    var parts: [ClosedRange<Int>] = []
    for number in numbers {
      if let last = parts.last, last.upperBound == number - 1 {
        parts[parts.count - 1] = last.lowerBound...number
      } else {
        parts.append(number...number)
      }
    }
    return parts.map { $0.count == 1 ? "\($0.lowerBound)" : "\($0.lowerBound)-\($0.upperBound)" }
      .joined(separator: ", ")
  }

  private static func page(_ client: [Row], _ server: [Row]) -> String {
    """
    # What a peer that breaks the rules can do

    Each line is a test that ran, in virtual time: the table is written by `MisbehaviourTests`, and they fail where it is
    not what happens (`MISBEHAVIOUR_TABLE=write swift test --filter MisbehaviourTests` writes it anew). During each of
    them, and after, a second link of the same adapter is asked for a value and has to answer within half a second; a link that
    goes on is used for a discovery and a read, which have to succeed.

    ## Our client, the peer's server

    The point is the number of the response in the procedure that the misbehaviour replaces, comes before, or begins with.
    MTU 23, so that lists take several responses.

    | procedure | the peer | at response | the procedure |
    | --- | --- | --- | --- |
    \(client.map(\.line).joined(separator: "\n"))

    ## Our server, the peer's client

    | what is asked | the peer | how often | outcome |
    | --- | --- | --- | --- |
    \(server.map(\.line).joined(separator: "\n"))

    """
  }
}
