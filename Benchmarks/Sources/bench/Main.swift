// SPDX-License-Identifier: Apache-2.0

import Foundation

/// `bench ROW`: measures one row in this process and prints it as one JSON object. `bench` lists the rows.
@main
enum Main {
  static var rows: [(name: String, run: () throws -> Row)] {
    [
      ("read", { APIRows.reads(answeredByApp: false) }),
      ("read-by-delegate", { APIRows.reads(answeredByApp: true) }),
      ("notify", { APIRows.notifications() }),
      ("write-command", { APIRows.writeCommands() }),
      ("discovery", { APIRows.discovery() }),
      ("connect", { APIRows.connections() }),
      ("advertising", { try FeedRows.advertising() }),
      ("hci", { try LayerRows.hciPackets() }),
      ("att", { try LayerRows.attServer() }),
      ("links", { try LinkRows.pairs() }),
      ("memory", { try LayerRows.memory() }),
      ("crowd", { try ScaleRows.crowd() }),
      ("growth", { try ScaleRows.growth() }),
      ("allocations-layers", { try LayerRows.allocations() }),
      ("allocations-api", { try FeedRows.allocations() }),
      ("power-on", { APIRows.powerOn() }),
    ]
  }

  static func main() {
    guard CommandLine.arguments.count == 2, let row = rows.first(where: { $0.name == CommandLine.arguments[1] }) else {
      print(rows.map(\.name).joined(separator: "\n"))
      exit(CommandLine.arguments.count == 1 ? 0 : 2)
    }
    do {
      print(try row.run().json(row.name))
      exit(0)
    } catch {
      FileHandle.standardError.write(Data("bench \(row.name): \(error)\n".utf8))
      exit(1)
    }
  }
}

/// What was measured.
struct Row {
  /// Operations done.
  var count: Int
  /// Seconds by the clock, and seconds that the process had a processor.
  var wall: Double
  var cpu: Double
  /// What else there is to say, by unit.
  var extra: [String: Double] = [:]

  func json(_ name: String) -> String {
    var fields = ["\"row\": \"\(name)\"", "\"count\": \(count)", "\"wall\": \(wall)", "\"cpu\": \(cpu)"]
    fields += extra.sorted { $0.key < $1.key }.map { "\"\($0.key)\": \($0.value)" }
    return "{" + fields.joined(separator: ", ") + "}"
  }
}

struct Failure: Error, CustomStringConvertible {
  var description: String
  init(_ description: String) { self.description = description }
}

/// Wall and processor time since it was made.
struct Meter {
  private let wall = Self.seconds(CLOCK_MONOTONIC)
  private let cpu = Self.seconds(CLOCK_PROCESS_CPUTIME_ID)

  func stop(_ count: Int, extra: [String: Double] = [:]) -> Row {
    Row(
      count: count, wall: Self.seconds(CLOCK_MONOTONIC) - wall, cpu: Self.seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu,
      extra: extra)
  }

  static func seconds(_ clock: clockid_t) -> Double {
    var time = timespec()
    clock_gettime(clock, &time)
    return Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
  }
}
