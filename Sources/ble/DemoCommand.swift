// SPDX-License-Identifier: Apache-2.0

import BLEHCI
import BLEProfile
import BLESystem
import BLETransport
import Glibc

/// `ble demo`: a radio and two example programs, each a process of its own, meet; what each sees is shown.
struct DemoCommand {
  private let context: CommandContext

  init(_ context: CommandContext) throws(Failure) { self.context = context }

  /// The demo takes about three seconds; a machine that needs more than this is stuck.
  private static let limit = 30.0

  func run() async throws(Failure) {
    let programs = try Self.programDirectory()
    let directory = try Self.makeDirectory()
    context.inbox.catchSignals()
    context.inbox.setDeadline(after: context.timeout ?? Self.limit)
    guard let loop = EventLoop(name: "ble demo") else {
      throw .failed("the system has no thread or file descriptor left")
    }
    let demo = Demo(
      loop: loop, directory: directory, programs: programs, centralCapture: context.arguments.value("--capture"),
      output: context.output)
    let inbox = context.inbox.ticker
    let outcome = await withCheckedContinuation { continuation in
      loop.execute { continuation.resume(returning: demo.start { inbox($0) }) }
    }
    if case .failure(let failure) = outcome { throw failure }
    let result = await wait()
    await demo.stop()
    switch result {
    case .success: demo.tellCaptures()
    case .failure(let failure): throw failure
    }
  }

  private func wait() async -> Result<Void, Failure> {
    while true {
      switch await context.inbox.next() {
      case .tick(0): return .success(())
      case .tick(let code): return .failure(.failed("the central ended with exit code \(code); see its lines above"))
      case .deadline: return .failure(.timedOut("the two programs did not get done in time"))
      case .interrupted: return .failure(.failed("interrupted"))
      case .event: continue
      }
    }
  }

  /// Where the captures go and the radio listens: a new directory for temporary files.
  private static func makeDirectory() throws(Failure) -> String {
    let base = getenv("TMPDIR").map { unsafe String(cString: $0) } ?? "/tmp"
    var template = Array("\(base)/corebluetooth-demo-XXXXXX".utf8CString)
    guard unsafe mkdtemp(&template) != nil else {
      throw .failed("cannot make a directory in \(base): \(unsafe String(cString: strerror(errno)))")
    }
    return String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
  }

  /// Where the example programs are: beside this one.
  private static func programDirectory() throws(Failure) -> String {
    var buffer = [CChar](repeating: 0, count: 4096)
    let count = unsafe readlink("/proc/self/exe", &buffer, buffer.count - 1)
    guard count > 0 else { throw .failed("/proc/self/exe cannot be read") }
    let path = String(decoding: buffer.prefix(count).map { UInt8(bitPattern: $0) }, as: UTF8.self)
    let directory = String(path[..<(path.lastIndex(of: "/") ?? path.startIndex)])
    for program in ["HeartRatePeripheral", "HeartRateCentral"] where access("\(directory)/\(program)", X_OK) != 0 {
      throw .failed("the example program \(directory)/\(program) is missing; `swift build` or `make demo` builds it")
    }
    return directory
  }
}

/// The processes of the demo.
///
/// `@unchecked Sendable`: all but the constants is touched on the loop alone.
private final class Demo: @unchecked Sendable {
  private let loop: EventLoop
  private let directory: String
  private let programs: String
  private let output: Output
  private let radio: RadioProcess
  private var peripheral: ChildProcess?
  private var central: ChildProcess?

  private let centralCapture: String?

  init(loop: EventLoop, directory: String, programs: String, centralCapture: String?, output: Output) {
    self.loop = loop
    self.centralCapture = centralCapture
    self.directory = directory
    self.programs = programs
    self.output = output
    radio = RadioProcess(loop: loop, seed: 1, output: output)
  }

  /// `done` gets the central's exit code. On the loop.
  func start(done: @escaping @Sendable (Int32) -> Void) -> Result<Void, Failure> {
    if case .failure(let error) = radio.start([.unix(path: "\(directory)/radio")], nil) {
      return .failure(.failed(error.description))
    }
    do throws(Failure) {
      peripheral = try child("peripheral", "HeartRatePeripheral", []) { _ in }
      central = try child("central", "HeartRateCentral", ["4"], ended: done)
      return .success(())
    } catch {
      return .failure(error)
    }
  }

  private func child(
    _ name: String, _ program: String, _ arguments: [String], ended: @escaping (Int32) -> Void
  ) throws(Failure) -> ChildProcess {
    let output = output
    return try ChildProcess(
      name: name, path: "\(programs)/\(program)", arguments: arguments,
      environment: [
        "COREBLUETOOTH_ADAPTER": "unix:\(directory)/radio",
        "COREBLUETOOTH_CAPTURE": capture(name), "COREBLUETOOTH_NAME": name,
      ],
      loop: loop,
      line: { line in
        output.emit(
          ["event": "line", "program": .string(name), "text": .string(line)],
          text: "\(name == "central" ? "   central" : "peripheral") | \(harmless(line))")
      }, ended: ended)
  }

  /// Where a program's capture goes.
  private func capture(_ name: String) -> String {
    name == "central" ? centralCapture ?? "\(directory)/central.btsnoop" : "\(directory)/\(name).btsnoop"
  }

  func stop() async {
    await withCheckedContinuation { continuation in
      loop.execute {
        self.central?.terminate()
        self.peripheral?.terminate()
        continuation.resume()
      }
    }
    await radio.stop()
  }

  func tellCaptures() {
    output.emit(
      [
        "event": "captures",
        "files": [.string(capture("central")), .string(capture("peripheral"))],
      ],
      text: "Captures for Wireshark: \(capture("central")) and \(capture("peripheral"))")
  }
}
