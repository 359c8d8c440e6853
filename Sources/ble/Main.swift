// SPDX-License-Identifier: Apache-2.0

import BLESystem
import Glibc

/// What a command works with.
struct CommandContext {
  var arguments: Arguments
  var output: Output
  var inbox: Inbox
  var open: LinkOpener

  /// The time the whole command may take, where the user said so.
  var timeout: Double? { arguments.value("--timeout").flatMap(Double.init) }

  /// A session whose steps end with the time allowed, its adapter powered on.
  func session() async throws(Failure) -> CentralSession {
    inbox.catchSignals()
    inbox.setDeadline(after: timeout ?? Self.defaultTimeout)
    let session = CentralSession(inbox: inbox, open: open)
    try await session.powerOn()
    return session
  }

  /// From now on only a time that the user gave ends the command.
  func runOn() {
    if timeout == nil { inbox.setDeadline(after: nil) }
  }

  static let defaultTimeout = 30.0
}

@main
struct Main {
  static func main() async {
    exit(await run(Array(CommandLine.arguments.dropFirst())))
  }

  /// Runs one command line; the result is the exit code.
  static func run(_ words: [String]) async -> Int32 {
    do throws(Failure) {
      switch try Arguments.parse(words) {
      case .help(nil): Output.write(Help.overview + "\n", to: STDOUT_FILENO)
      case .help(let command?): Output.write(Help.text(of: command) + "\n", to: STDOUT_FILENO)
      case .version: Output.write("ble \(CommandTable.version)\n", to: STDOUT_FILENO)
      case .manualPage: Output.write(ManualPage.text, to: STDOUT_FILENO)
      case .run(let arguments): try await run(arguments)
      }
      return 0
    } catch {
      Output.write("ble: \(error)\n", to: STDERR_FILENO)
      return error.kind.rawValue
    }
  }

  private static func run(_ arguments: Arguments) async throws(Failure) {
    let spec = try adapter(arguments.value("--adapter"))
    // The stack itself writes the capture; this is how every program asks for one.
    if let file = arguments.value("--capture") { try capture(to: file) }
    let context = CommandContext(
      arguments: arguments, output: Output(isJSON: arguments.has("--json")), inbox: Inbox(),
      open: { Adapters.open(spec, handler: $0) })
    try await Commands.run(context)
  }

  private static func capture(to file: String) throws(Failure) {
    let descriptor = open(file, O_WRONLY | O_CREAT | O_CLOEXEC, 0o644)
    guard descriptor >= 0 else {
      throw .failed("cannot write the capture \(harmless(file)): \(unsafe String(cString: strerror(errno)))")
    }
    close(descriptor)
    setenv("COREBLUETOOTH_CAPTURE", file, 1)
  }

  /// Checks the adapter of the command line, or of the environment, before anything is opened, so that what is wrong
  /// with it is said in full.
  static func adapter(_ option: String?) throws(Failure) -> String? {
    let variable = getenv("COREBLUETOOTH_ADAPTER").map { unsafe String(cString: $0) }
    guard let text = option ?? variable, !text.isEmpty else { return nil }
    let spec: AdapterSpec
    do throws(AdapterSpec.ParseError) { spec = try AdapterSpec(parsing: text) } catch {
      throw .usage(harmless(error.description))
    }
    switch spec {
    case .tcp, .unix, .virtual, .hci: return text
    case .usb, .serial, .daemon:
      throw .noAdapter(
        "\(harmless(text)) is not supported yet. What works is hci0 and so on, an adapter of this machine; tcp:HOST:PORT and "
          + "unix:PATH, a controller that speaks HCI there (ble sim offers such); and virtual[:NAME]")
    }
  }
}

/// The commands by name.
enum Commands {
  static func run(_ context: CommandContext) async throws(Failure) {
    switch context.arguments.command.name {
    case "scan": try await ScanCommand(context).run()
    case "explore": try await ExploreCommand(context).run()
    case "read": try await ReadCommand(context).run()
    case "write": try await WriteCommand(context).run()
    case "subscribe": try await SubscribeCommand(context).run()
    case "serve": try await ServeCommand(context).run()
    case "sim": try await SimCommand(context).run()
    case "decrypt": try DecryptCommand(context).run()
    case "demo": try await DemoCommand(context).run()
    case let name: throw .failed("the command \(name) is not part of this build")
    }
  }
}
