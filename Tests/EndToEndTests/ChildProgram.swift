// SPDX-License-Identifier: Apache-2.0

import Foundation
import Glibc
import Synchronization

/// A process that a test has started.
///
/// `@unchecked Sendable`: the process is started before anybody else has it, and then only signalled.
final class ChildProgram: @unchecked Sendable {
  let name: String
  let transcript: Transcript
  private let process = Process()
  private let input = Pipe()
  /// Kept, as a program whose output nobody holds is ended by its next line.
  private let output = Pipe()
  private let exit = Exit()

  /// The exit code of a process; a signal is its number below zero.
  private final class Exit: Sendable {
    private struct State {
      var code: Int32?
      var openOutputs = 2
      var waits: [CheckedContinuation<Int32, Never>] = []
    }

    private let state = Mutex(State())

    /// Notes an end of output or the exit; the code once all three are there.
    func note(_ code: Int32?) -> Int32? {
      let (final, waits) = state.withLock { state -> (Int32?, [CheckedContinuation<Int32, Never>]) in
        if let code { state.code = code } else { state.openOutputs -= 1 }
        guard let code = state.code, state.openOutputs == 0 else { return (nil, []) }
        defer { state.waits = [] }
        return (code, state.waits)
      }
      if let final { for wait in waits { wait.resume(returning: final) } }
      return final
    }

    func wait() async -> Int32 {
      await withCheckedContinuation { continuation in
        let code = state.withLock { state -> Int32? in
          guard let code = state.code, state.openOutputs == 0 else {
            state.waits.append(continuation)
            return nil
          }
          return code
        }
        if let code { continuation.resume(returning: code) }
      }
    }
  }

  /// Starts the program at `path`; what is in `environment` comes on top of this process's own. `linesMax`: so many
  /// lines of its standard output are read, and then no more.
  init(
    name: String, path: String, arguments: [String], environment: [String: String], linesMax: Int = .max
  ) throws {
    _ = Self.ignoresBrokenPipes
    self.name = name
    transcript = Transcript(name: name)
    var variables = ProcessInfo.processInfo.environment.filter { !$0.key.hasPrefix("COREBLUETOOTH_") }
    variables["SWIFT_BACKTRACE"] = "enable=no"
    process.executableURL = URL(fileURLWithPath: path)
    process.arguments = arguments
    process.environment = variables.merging(environment) { $1 }
    let errors = Pipe()
    process.standardInput = input
    process.standardOutput = output
    process.standardError = errors
    let (transcript, exit) = (transcript, exit)
    @Sendable func note(_ code: Int32?) {
      if let final = exit.note(code) { transcript.end("it has ended with code \(final)") }
    }
    process.terminationHandler = { process in
      note(process.terminationReason == .exit ? process.terminationStatus : -process.terminationStatus)
    }
    try process.run()
    for (pipe, limit) in [(output, linesMax), (errors, .max)] {
      Thread.detachNewThread {
        readLines(pipe.fileHandleForReading, limit) { transcript.append($0) }
        note(nil)
      }
    }
  }

  private static let ignoresBrokenPipes: Bool = {
    _ = Glibc.signal(SIGPIPE, SIG_IGN)
    return true
  }()

  /// Writes one line to its standard input; nothing happens if it is gone.
  func send(_ line: JSON) { try? input.fileHandleForWriting.write(contentsOf: Data((line.text + "\n").utf8)) }

  /// Sends it a signal.
  func signal(_ number: Int32) {
    if process.isRunning { kill(process.processIdentifier, number) }
  }

  /// Waits until it has ended; killed if that takes more than `limit` seconds. A signal is a code below zero.
  func waitForExit(limit: TimeInterval = 60) async -> Int32 {
    let guardian = DispatchWorkItem { [self] in signal(SIGKILL) }
    DispatchQueue.global().asyncAfter(deadline: .now() + limit, execute: guardian)
    defer { guardian.cancel() }
    return await exit.wait()
  }

  /// The next line with this event and these members.
  @discardableResult
  func expect(
    _ event: String, _ members: [String: JSON] = [:], limit: TimeInterval = 60
  ) async throws -> JSON {
    try await line(event, members, limit: limit).json
  }

  /// The same, with the line's number.
  func line(_ event: String, _ members: [String: JSON] = [:], limit: TimeInterval = 60) async throws
    -> Transcript.Line
  {
    var wanted = members
    wanted["event"] = .string(event)
    let all = wanted
    return try await transcript.next("\(JSON.object(all).text)", limit: limit) { $0.has(all) }
  }

  /// The next line of text that begins so.
  @discardableResult
  func expectText(_ start: String, limit: TimeInterval = 60) async throws -> String {
    let line = try await transcript.next("a line that starts with \"\(start)\"", limit: limit) {
      $0.string?.hasPrefix(start) == true
    }
    return line.json.string ?? ""
  }
}

/// Calls `line` with each line until the end of the file, or until there were `limit`.
private func readLines(_ handle: FileHandle, _ limit: Int, _ line: (String) -> Void) {
  var rest: [UInt8] = []
  var count = 0
  var buffer = [UInt8](repeating: 0, count: 65_536)
  while count < limit {
    let taken = read(handle.fileDescriptor, &buffer, buffer.count)
    if taken < 0, errno == EINTR { continue }
    guard taken > 0 else { break }
    rest += buffer.prefix(taken)
    var start = rest.startIndex
    while let end = rest[start...].firstIndex(of: 0x0A) {
      line(String(decoding: rest[start..<end], as: UTF8.self))
      count += 1
      start = end + 1
    }
    rest.removeFirst(start)
  }
  if !rest.isEmpty { line(String(decoding: rest, as: UTF8.self)) }
}
