// SPDX-License-Identifier: Apache-2.0

import Foundation
import Synchronization
import Testing

/// The repository and what has been built of it.
enum Build {
  static let repository: String = {
    var url = URL(fileURLWithPath: #filePath)
    while url.path.count > 1, url.lastPathComponent != "Tests" { url.deleteLastPathComponent() }
    return url.deletingLastPathComponent().path
  }()

  /// The folder of this test program, in which the products are too.
  static let products = URL(fileURLWithPath: "/proc/self/exe").resolvingSymlinksInPath().deletingLastPathComponent()
    .path

  /// Tests with programs at a time: more would only wait for each other.
  static let placesMax = 4
  static let gate = Gate(placesMax)
}

/// Has a number of places for tasks, given in the order of asking.
actor Gate {
  private var free: Int
  private var waits: [(places: Int, continuation: CheckedContinuation<Void, Never>)] = []

  init(_ places: Int) { free = places }

  func enter(_ places: Int) async {
    if waits.isEmpty, free >= places {
      free -= places
    } else {
      await withCheckedContinuation { waits.append((places, $0)) }
    }
  }

  func leave(_ places: Int) {
    free += places
    while let first = waits.first, free >= first.places {
      waits.removeFirst()
      free -= first.places
      first.continuation.resume()
    }
  }
}

/// What went wrong on a site, with the last lines of all its programs.
struct SiteFailure: Error, CustomStringConvertible {
  var description: String
}

/// One test's radio (`ble sim`) with the programs on it, in a directory of its own.
final class Site: Sendable {
  let directory: String
  /// The test's name.
  private let test: String
  private let programs = Mutex<[ChildProgram]>([])
  private let captures = Mutex<[String]>([])

  init(_ test: String) throws {
    self.test = test
    var template = Array("/tmp/ble-e2e-XXXXXX".utf8CString)
    guard mkdtemp(&template) != nil else { throw CocoaError(.fileWriteUnknown) }
    directory = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
  }

  var radio: String { "unix:\(directory)/radio" }

  /// Starts a program; it gets its own capture and a state directory that programs of its name share.
  func start(
    _ name: String, _ path: String, _ arguments: [String] = [], adapter: String? = nil,
    environment: [String: String] = [:], linesMax: Int = .max
  ) throws -> ChildProgram {
    let count = programs.withLock { programs in programs.filter { $0.name == name }.count }
    let capture = "\(directory)/\(name)\(count == 0 ? "" : "-run\(count + 1)").btsnoop"
    var variables = [
      "COREBLUETOOTH_ADAPTER": adapter ?? radio, "COREBLUETOOTH_STATE_DIR": "\(directory)/state-\(name)",
      "COREBLUETOOTH_CAPTURE": capture, "COREBLUETOOTH_NAME": name,
    ]
    variables.merge(environment) { $1 }
    let program = try ChildProgram(
      name: name, path: path, arguments: arguments, environment: variables, linesMax: linesMax)
    programs.withLock { $0.append(program) }
    captures.withLock { $0.append(capture) }
    return program
  }

  /// Starts the tool with `--json`.
  func tool(_ name: String, _ arguments: [String], adapter: String? = nil) throws -> ChildProgram {
    try start(name, "\(Build.products)/ble", ["--json"] + arguments, adapter: adapter)
  }

  /// Starts an example.
  func example(_ program: String, _ arguments: [String] = [], as name: String? = nil) throws -> ChildProgram {
    try start(name ?? program, "\(Build.products)/\(program)", arguments)
  }

  /// Starts an app that does what the test says.
  func app(_ name: String) async throws -> App {
    let program = try start(name, "\(Build.products)/ScriptedApp")
    try await program.expect("ready")
    return App(program)
  }

  /// Runs the tool to its end: its lines and exit code.
  func run(_ name: String, _ arguments: [String], adapter: String? = nil) async throws -> (lines: [JSON], code: Int32) {
    let program = try tool(name, arguments, adapter: adapter)
    let code = await program.waitForExit()
    return (program.transcript.all, code)
  }

  /// The radio that was started last.
  var simulator: ChildProgram {
    get throws {
      guard let last = programs.withLock({ $0.last { $0.name == "sim" } }) else {
        throw SiteFailure(description: "there is no radio")
      }
      return last
    }
  }

  /// Has more files judged at the end.
  func keepCaptures(_ files: [String]) { captures.withLock { $0 += files } }

  /// Starts the radio; `listen` adds addresses. The lines `listening` have been seen, and are given.
  @discardableResult
  func startRadio(listen: [String] = []) async throws -> [JSON] {
    let places = ([radio] + listen).flatMap { ["--listen", $0] }
    let arguments = ["sim"] + places + ["--control", "unix:\(directory)/control"]
    let sim = try ChildProgram(
      name: "sim", path: "\(Build.products)/ble", arguments: ["--json"] + arguments, environment: [:])
    programs.withLock { $0.append(sim) }
    var lines: [JSON] = []
    for _ in 0...listen.count { lines.append(try await sim.expect("listening", ["for": "hci"])) }
    try await sim.expect("listening", ["for": "control"])
    return lines
  }

  /// One command of the radio's control, answered with `"ok": true`.
  @discardableResult
  func control(_ command: JSON) throws -> JSON {
    let answer = try LocalSocket(path: "\(directory)/control").ask(command.text)
    guard let json = JSON(parsing: answer), json["ok"] == true else {
      throw SiteFailure(description: "the radio answered \(command.text) with \(answer)")
    }
    return json
  }

  /// Ends all programs, the radio last and well, and checks what they have captured.
  fileprivate func end() async throws {
    let all = programs.withLock { $0 }
    for program in all where program.name != "sim" {
      program.signal(SIGTERM)
      _ = await program.waitForExit()
    }
    for sim in all where sim.name == "sim" {
      sim.signal(SIGTERM)
      let code = await sim.waitForExit()
      #expect(code == 0, "ble sim has to end with 0 on SIGTERM\n\(sim.transcript.tail())")
    }
    try await Capture.judge(captures.withLock { $0 }, of: test)
  }

  fileprivate func kill() async {
    for program in programs.withLock({ $0 }) {
      program.signal(SIGKILL)
      _ = await program.waitForExit()
    }
  }

  var transcripts: String { programs.withLock { $0 }.map { $0.transcript.tail() }.joined(separator: "\n") }
}

/// Runs a test on a site of its own, `alone` of all that have one; the directory stays where the test fails.
func withSite(
  radio: Bool = true, alone: Bool = false, _ test: String = #function, _ body: (Site) async throws -> Void
) async throws {
  let places = alone ? Build.placesMax : 1
  await Build.gate.enter(places)
  do {
    try await runSite(radio: radio, String(test.prefix { $0 != "(" }), body)
  } catch {
    await Build.gate.leave(places)
    throw error
  }
  await Build.gate.leave(places)
}

private func runSite(radio: Bool, _ test: String, _ body: (Site) async throws -> Void) async throws {
  let site = try Site(test)
  do {
    if radio { try await site.startRadio() }
    try await body(site)
    try await site.end()
    try FileManager.default.removeItem(atPath: site.directory)
  } catch {
    await site.kill()
    throw SiteFailure(description: "\(error)\nAll programs (files in \(site.directory)):\n\(site.transcripts)")
  }
}
