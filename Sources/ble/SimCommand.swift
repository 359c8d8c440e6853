// SPDX-License-Identifier: Apache-2.0

import BLECore
import BLEHCI
import BLEProfile
import BLESystem
import BLETransport
import Glibc

/// `ble sim`: hosts a virtual radio that other programs' hosts join over HCI.
struct SimCommand {
  private let context: CommandContext
  private let addresses: [SocketAddress]
  private let control: SocketAddress?
  private let seed: UInt64
  private let airCapture: String?

  init(_ context: CommandContext) throws(Failure) {
    self.context = context
    let arguments = context.arguments
    var addresses: [SocketAddress] = []
    for text in arguments.values("--listen") { addresses.append(try Self.address(text, allowsPortZero: true)) }
    guard !addresses.isEmpty else {
      throw .usage("--listen is missing: say where to accept HCI connections, such as --listen unix:/tmp/radio")
    }
    self.addresses = addresses
    if let text = arguments.value("--control") {
      control = try Self.address(text, allowsPortZero: true)
    } else {
      control = nil
    }
    if let text = arguments.value("--seed") {
      guard let number = UInt64(text) else {
        throw .usage("--seed takes a whole number from 0 to \(UInt64.max), not \"\(harmless(text))\"")
      }
      seed = number
    } else {
      seed = 0
    }
    if let speed = arguments.value("--speed"), !["real", "1"].contains(speed) {
      throw .usage(
        "--speed \(harmless(speed)) does not go with --listen: the hosts that join live in real time, and nobody could "
          + "wait for them. For apps in virtual time there is CoreBluetoothTesting (docs/testing.md)")
    }
    airCapture = arguments.value("--air-capture")
    if let airCapture { try Self.checkWritable(airCapture) }
  }

  /// Whoever names a file that cannot be written learns it before the radio is on.
  private static func checkWritable(_ file: String) throws(Failure) {
    var status = stat()
    // To open a pipe twice would show its reader an end.
    if unsafe stat(file, &status) == 0, status.st_mode & S_IFMT == S_IFIFO { return }
    let descriptor = open(file, O_WRONLY | O_CREAT | O_CLOEXEC, 0o644)
    guard descriptor >= 0 else {
      throw .failed("cannot write the capture \(harmless(file)): \(unsafe String(cString: strerror(errno)))")
    }
    close(descriptor)
  }

  static func address(_ text: String, allowsPortZero: Bool) throws(Failure) -> SocketAddress {
    // Port 0, which lets the system choose, is no adapter but a place to listen.
    let isPortZero = allowsPortZero && text.hasPrefix("tcp:") && text.hasSuffix(":0")
    do throws(AdapterSpec.ParseError) {
      switch try AdapterSpec(parsing: isPortZero ? text.dropLast() + "1" : text) {
      case .tcp(let host, let port): return .tcp(host: host, port: isPortZero ? 0 : port)
      case .unix(let path): return .unix(path: path)
      case .virtual, .hci, .usb, .serial, .daemon: break
      }
    } catch {}
    throw .usage("\"\(harmless(text))\" is no place to listen: use unix:PATH or tcp:HOST:PORT (port 0: any free one)")
  }

  func run() async throws(Failure) {
    context.inbox.catchSignals()
    context.inbox.setDeadline(after: context.timeout)
    guard let loop = EventLoop(name: "ble sim") else {
      throw .failed("the system has no thread or file descriptor left")
    }
    // Whoever read the lines may go, or stop reading; the radio goes on.
    signal(SIGPIPE, SIG_IGN)
    let (output, lines) = context.output.inBackground()
    defer { lines.finish() }
    let radio = RadioProcess(
      loop: loop, seed: seed, capture: context.arguments.value("--capture"), airCapture: airCapture, output: output)
    let outcome = await withCheckedContinuation { continuation in
      loop.execute { [addresses, control] in continuation.resume(returning: radio.start(addresses, control)) }
    }
    if case .failure(let error) = outcome { throw .failed(error.description) }
    while true {
      switch await context.inbox.next() {
      case .interrupted, .deadline:
        await radio.stop()
        return
      case .event, .tick: continue
      }
    }
  }
}

/// The radio of `ble sim` with its control, on a loop of its own.
///
/// `@unchecked Sendable`: all but the constants is touched on the loop alone.
final class RadioProcess: @unchecked Sendable {
  private let loop: EventLoop
  private let seed: UInt64
  private let capture: String?
  private let airCapture: String?
  private let output: Output
  private var pump: RadioPump?
  private(set) var server: RadioServer?
  private var control: LineServer?

  init(loop: EventLoop, seed: UInt64, capture: String? = nil, airCapture: String? = nil, output: Output) {
    self.loop = loop
    self.capture = capture
    self.airCapture = airCapture
    self.seed = seed
    self.output = output
  }

  /// On the loop.
  func start(_ addresses: [SocketAddress], _ controlAddress: SocketAddress?) -> Result<Void, HCITransportError> {
    let pump = RadioPump(loop: loop)
    let output = output
    let server = RadioServer(pump: pump, seed: seed, capture: capture, airCapture: airCapture) {
      Self.show($0, output)
    }
    self.pump = pump
    self.server = server
    do throws(HCITransportError) {
      for address in addresses { listening("hci", try server.listen(on: address)) }
      if let controlAddress {
        let control = try LineServer(address: controlAddress, loop: loop) { [weak self] in self?.obey($0) ?? [] }
        self.control = control
        listening("control", control.address)
      }
      return .success(())
    } catch {
      close()
      return .failure(error)
    }
  }

  func stop() async {
    await withCheckedContinuation { continuation in
      loop.execute {
        self.close()
        continuation.resume()
      }
    }
    loop.stop()
  }

  private func close() {
    control?.close()
    server?.close()
    control = nil
    server = nil
  }

  private func listening(_ purpose: String, _ address: SocketAddress) {
    output.emit(
      ["event": "listening", "for": .string(purpose), "address": .string(address.description)],
      text: "listening for \(purpose == "hci" ? "HCI" : purpose) on \(address)")
  }

  private static func show(_ event: RadioServer.Event, _ output: Output) {
    switch event {
    case .joined(let slot, let address):
      output.emit(
        ["event": "joined", "slot": .integer(slot), "address": .string(address.description)],
        text: "device \(slot) (\(address)) joined")
    case .left(let slot, let address, let reason):
      output.emit(
        [
          "event": "left", "slot": .integer(slot), "address": .string(address.description),
          "reason": .string(reason),
        ],
        text: "device \(slot) (\(address)) left: \(reason)")
    case .refused(let slot):
      output.emit(
        ["event": "refused", "slot": .integer(slot)], text: "a connection for device \(slot), which is off, was refused"
      )
    }
  }

  // MARK: Control

  /// Carries out one line of JSON and answers with one.
  private func obey(_ line: String) -> [String] {
    guard line.contains(where: { !$0.isWhitespace }) else { return [] }
    do throws(ProfileError) {
      let node = try JSONNode(parsing: Array(line.utf8))
      return [carryOut(node).text]
    } catch {
      return [Self.refusal("not a line of JSON: \(error)").text]
    }
  }

  private static func refusal(_ text: String) -> JSONValue { ["ok": false, "error": .string(text)] }

  private func carryOut(_ node: JSONNode) -> JSONValue {
    guard let server else { return Self.refusal("the radio is being closed") }
    guard case .object(let members) = node.content else { return Self.refusal("expected an object") }
    func member(_ key: String) -> JSONNode.Content? { members.last { $0.key == key }?.value.content }
    guard case .string(let command)? = member("command") else {
      return Self.refusal("\"command\" is missing: list, power or drop")
    }
    switch command {
    case "list":
      return ["ok": true, "devices": .array(server.info.map(Self.json))]
    case "power":
      guard let slot = Self.slot(member("slot")) else { return Self.refusal("\"slot\" has to be a slot's number") }
      guard case .bool(let isOn)? = member("on") else { return Self.refusal("\"on\" has to be true or false") }
      return server.setPower(slot: slot, isOn: isOn) ? ["ok": true] : Self.refusal("there is no slot \(slot)")
    case "drop":
      guard let slot = Self.slot(member("slot")) else { return Self.refusal("\"slot\" has to be a slot's number") }
      return server.drop(slot: slot) ? ["ok": true] : Self.refusal("nothing is connected to slot \(slot)")
    default: return Self.refusal("no command is called \"\(harmless(command))\": list, power and drop are")
    }
  }

  private static func slot(_ content: JSONNode.Content?) -> Int? {
    if case .number(let spelling)? = content { return Int(spelling) }
    return nil
  }

  private static func json(_ info: RadioServer.SlotInfo) -> JSONValue {
    [
      "slot": .integer(info.slot), "address": .string(info.address.description), "on": .bool(info.isPoweredOn),
      "connected": .bool(info.isConnected),
    ]
  }
}
