// SPDX-License-Identifier: Apache-2.0

import BLECore
import BLECrypto
import BLEHCI
import BLEHost
import BLERadio
import BLEStore
import BLETransport
import Dispatch
import Glibc
import Synchronization

/// The composition root: opens sessions with the system that owns an adapter.
public enum Adapters {
  /// Opens a session on the adapter that `spec` names; nil: `COREBLUETOOTH_ADAPTER`, else none.
  ///
  /// Never fails: an adapter that cannot be had gives a session whose one event is `.stateChanged(.unsupported)`,
  /// and one line in the log saying why and what works.
  public static func open(_ spec: String?, handler: @escaping SystemEventHandler) -> any SystemLink {
    switch parse(spec) {
    case .success(let spec): AdapterPool.shared.open(spec, handler: handler)
    case .failure(let refusal):
      refuse(refusal, handler)
    }
  }

  /// Whether `spec` (nil: the environment's) names an adapter that can be used; the error says what does.
  public static func parse(_ spec: String?) -> Result<AdapterSpec, AdapterRefusal> {
    guard let text = spec ?? environment("COREBLUETOOTH_ADAPTER") else {
      return .failure(
        AdapterRefusal(
          "no adapter: name one with COREBLUETOOTH_ADAPTER or --adapter: \(usableForms)"))
    }
    do {
      let spec = try AdapterSpec(parsing: text)
      switch spec {
      case .tcp, .unix, .virtual, .hci: return .success(spec)
      case .usb, .serial, .daemon:
        return .failure(AdapterRefusal("adapter \(spec): not supported yet; what works is \(usableForms)"))
      }
    } catch {
      return .failure(AdapterRefusal(error.description))
    }
  }

  private static let usableForms = "hci0, tcp:HOST:PORT, unix:PATH (as of `ble sim --listen`) and virtual[:NAME]"

  private static func refuse(_ refusal: AdapterRefusal, _ handler: SystemEventHandler) -> any SystemLink {
    Log.line("CoreBluetooth: \(refusal)")
    return NoAdapterLink(handler: handler)
  }

  static func environment(_ name: String) -> String? {
    guard let value = unsafe getenv(name) else { return nil }
    let text = unsafe String(cString: value)
    return text.isEmpty ? nil : text
  }

  /// The GAP Device Name: `COREBLUETOOTH_NAME`, else the host's.
  static func deviceName() -> String {
    if let name = environment("COREBLUETOOTH_NAME") { return name }
    var buffer = [CChar](repeating: 0, count: 256)
    guard unsafe gethostname(&buffer, 255) == 0 else { return "Linux" }
    return String(decoding: buffer.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
  }
}

/// Why an adapter cannot be used, and what can.
public struct AdapterRefusal: Error, Hashable, Sendable, CustomStringConvertible {
  public var description: String
  init(_ description: String) { self.description = description }
}

/// The session of an app that has no adapter.
final class NoAdapterLink: SystemLink {
  let replica = SystemReplica { _ in nil }

  init(handler: SystemEventHandler) {
    replica.update(state: .unsupported)
    handler([.stateChanged(.unsupported)])
  }

  func send(_ request: SystemRequest) {}
  func expectAnswer() {}
  func close() {}
}

/// The adapters this process uses: managers that name the same one share it, the last to go closes it.
final class AdapterPool: Sendable {
  static let shared: AdapterPool = {
    // libcrypto cleans up at the end of a program as well, in the reverse order of beginnings: it has to begin before
    // this, or a link that is being closed would use what is gone.
    _ = try? SecureRandom.bytes(1)
    // A program that just ends leaves no peer waiting for its supervision timeout.
    atexit { AdapterPool.shared.closeAll() }
    return AdapterPool()
  }()

  /// How long the end of a program may be held up by its links.
  private static let exitLimit = 0.3

  private struct Weak { weak var adapter: LocalAdapter? }
  private struct State {
    var adapters: [AdapterSpec: Weak] = [:]
    var radio: VirtualRadioLoop?
    var captures = 0
    /// Devices of worlds that somebody outside moves, by the names that apps use.
    var hosted: [AdapterSpec: WeakDevice] = [:]
  }

  private struct WeakDevice { weak var device: SteppedDevice? }

  private let state = Mutex(State())

  /// Has sessions on `spec` open on `device` for as long as that lives.
  func host(_ device: SteppedDevice, as spec: AdapterSpec) {
    state.withLock { state in
      state.hosted = state.hosted.filter { $0.value.device != nil }
      state.hosted[spec] = WeakDevice(device: device)
    }
  }

  func open(_ spec: AdapterSpec, handler: @escaping SystemEventHandler) -> any SystemLink {
    if let device = state.withLock({ $0.hosted[spec]?.device }) { return device.openSession(handler: handler) }
    let adapter: LocalAdapter? = state.withLock { state in
      if let running = state.adapters[spec]?.adapter { return running }
      let made = Self.make(spec, &state)
      state.adapters[spec] = Weak(adapter: made)
      return made
    }
    guard let adapter else {
      Log.line("CoreBluetooth: the system has no thread or file descriptor left for adapter \(spec)")
      return NoAdapterLink(handler: handler)
    }
    return LocalSystemLink(adapter: adapter, handler: handler)
  }

  /// Ends the links of all adapters and waits for it, briefly.
  private func closeAll() {
    let adapters = state.withLock { $0.adapters.values.compactMap(\.adapter) }
    let waiting = DispatchGroup()
    for adapter in adapters where !adapter.loop.isOnLoop {
      waiting.enter()
      adapter.loop.execute { adapter.close { waiting.leave() } }
    }
    _ = waiting.wait(timeout: .now() + Self.exitLimit)
  }

  private static func make(_ spec: AdapterSpec, _ state: inout State) -> LocalAdapter? {
    guard let identity = makeIdentity(), let secret = identity.identity else { return nil }
    let capture = capturePath(&state)
    let configuration = HostConfiguration(staticRandomAddress: identity.randomAddress(for: spec))
    switch spec {
    case .virtual(let name):
      if state.radio == nil { state.radio = VirtualRadioLoop() }
      guard let radio = state.radio else { return nil }
      return LocalAdapter(loop: radio.loop, ownsLoop: false, identity: secret) { replica in
        radio.system(name, spec, secret, replica, configuration, capture)
      }
    case .tcp(let host, let port):
      return remote(.tcp(host: host, port: port), spec, secret, configuration, capture)
    case .unix(let path): return remote(.unix(path: path), spec, secret, configuration, capture)
    case .hci(let index):
      return onOwnLoop(spec, secret, configuration, capture) { loop, completion in
        HCIUserChannel.open(index: index, loop: loop) { completion($0.map { $0 }) }
      }
    case .usb, .serial, .daemon: return nil
    }
  }

  private static func remote(
    _ address: SocketAddress, _ spec: AdapterSpec, _ identity: PeerIdentity, _ configuration: HostConfiguration,
    _ capture: String?
  ) -> LocalAdapter? {
    onOwnLoop(spec, identity, configuration, capture) { loop, completion in
      SocketTransport.connect(to: address, loop: loop) { completion($0.map { $0 }) }
    }
  }

  /// An adapter whose transport `open` opens on a loop that belongs to the adapter alone.
  private static func onOwnLoop(
    _ spec: AdapterSpec, _ identity: PeerIdentity, _ configuration: HostConfiguration, _ capture: String?,
    open: @escaping @Sendable (EventLoop, @escaping (Result<any HCITransport, HCITransportError>) -> Void) -> Void
  ) -> LocalAdapter? {
    guard let loop = EventLoop(name: "ble \(spec)", lendsTurns: true) else { return nil }
    return LocalAdapter(loop: loop, ownsLoop: true, identity: identity) { replica in
      let file = openCapture(capture, loop)
      return BluetoothSystem(
        name: spec.description, scheduler: loop, identity: identity, replica: replica,
        deviceName: Adapters.deviceName(), configuration: configuration,
        turnEnd: { [unowned loop] in loop.atEndOfTurn($0) }
      ) { completion in
        open(loop) { result in completion(result.map { wrap($0, file) }) }
      }
    }
  }

  static func openCapture(_ path: String?, _ loop: EventLoop) -> CaptureFile? {
    guard let path else { return nil }
    do {
      return try CaptureFile(path: path, loop: loop) { Log.line("CoreBluetooth: \($0)") }
    } catch {
      Log.line("CoreBluetooth: \(error)")
      return nil
    }
  }

  /// The transport, its packets also going to the capture and to the log, where these want them.
  static func wrap(_ transport: any HCITransport, _ capture: CaptureFile?) -> any HCITransport {
    var wrapped = transport
    if let capture { wrapped = CapturingTransport(wrapped) { capture.record($0, $1, $2) } }
    if Log.isOn(.trace, "hci") { wrapped = TracingTransport(wrapped) { Log.write(.trace, "hci", $0) } }
    return wrapped
  }

  /// `COREBLUETOOTH_CAPTURE`; the second adapter of a process gets `-2` before the extension, and so on.
  private static func capturePath(_ state: inout State) -> String? {
    guard let path = Adapters.environment("COREBLUETOOTH_CAPTURE") else { return nil }
    state.captures += 1
    return state.captures > 1 ? numbered(path, state.captures) : path
  }

  /// A file's path with a number before the extension.
  static func numbered(_ path: String, _ number: Int) -> String {
    let slash = path.lastIndex(of: "/") ?? path.startIndex
    guard let dot = path[slash...].lastIndex(of: ".") else { return "\(path)-\(number)" }
    return "\(path[..<dot])-\(number)\(path[dot...])"
  }

  private struct HostIdentity {
    var secret: [UInt8]
    var identity: PeerIdentity?

    /// The host's static random address on an adapter: the same each time, another on each adapter.
    func randomAddress(for spec: AdapterSpec) -> BDAddress {
      let mac = try? AESCMAC().authenticate(Array(spec.description.utf8), key: Array(secret.suffix(16)))
      var generator = SeededGenerator(seed: (mac ?? []).prefix(8).reduce(0) { $0 << 8 | UInt64($1) })
      return .staticRandom(using: &generator)
    }
  }

  private static func makeIdentity() -> HostIdentity? {
    var secret: [UInt8]?
    if let directory = HostSecret.stateDirectory() {
      do { secret = try HostSecret.load(directory: directory) } catch {
        Log.line("CoreBluetooth: \(error); identifiers of peers will not be the same in the next run")
      }
    }
    if secret == nil { secret = try? SecureRandom.bytes(HostSecret.byteCount) }
    guard let secret else { return nil }
    return HostIdentity(secret: secret, identity: try? PeerIdentity(secret: secret))
  }
}

/// The process's one private radio, in real time on a loop of its own. `COREBLUETOOTH_VIRTUAL_AIR` says how packets
/// travel there: `physical` (the default), or `ideal`, in no time and without loss, for speed tests of what is above.
///
/// `@unchecked Sendable`: what is not constant is touched on the loop alone.
final class VirtualRadioLoop: @unchecked Sendable {
  let loop: EventLoop
  private var pump: RadioPump?
  private var world: RadioWorld?
  private var addresses: [String: BDAddress] = [:]

  init?() {
    guard let loop = EventLoop(name: "ble virtual", lendsTurns: true) else { return nil }
    self.loop = loop
  }

  private static func air() -> AirSetting {
    switch Adapters.environment("COREBLUETOOTH_VIRTUAL_AIR") {
    case nil, "physical": return .physical
    case "ideal": return .ideal
    case .some(let other):
      Log.line("CoreBluetooth: COREBLUETOOTH_VIRTUAL_AIR is \"\(other)\"; there are physical and ideal; physical it is")
      return .physical
    }
  }

  /// A system on the controller `name`. On the loop.
  func system(
    _ name: String, _ spec: AdapterSpec, _ identity: PeerIdentity, _ replica: SystemReplica,
    _ configuration: HostConfiguration, _ capture: String?
  ) -> BluetoothSystem {
    let air = Self.air()
    let pump = pump ?? RadioPump(loop: loop, isIdeal: air == .ideal)
    self.pump = pump
    let world = world ?? RadioWorld(simulator: pump.simulator, setting: air)
    self.world = world
    let address = addresses[name] ?? RadioServer.address(ofSlot: addresses.count + 1)
    addresses[name] = address
    let file = AdapterPool.openCapture(capture, loop)
    var controllers: [VirtualController] = []
    return BluetoothSystem(
      name: spec.description, scheduler: pump.simulator, identity: identity, replica: replica,
      deviceName: Adapters.deviceName(), configuration: configuration,
      turnEnd: { [unowned loop] in loop.atEndOfTurn($0) }
    ) { completion in
      let pair = HCITransportPair(scheduler: pump.simulator)
      controllers.removeAll()
      controllers.append(VirtualController(world: world, address: address, transport: pair.controller))
      completion(.success(AdapterPool.wrap(pair.host, file)))
    }
  }
}

/// Where an adapter and everything above it up to the system runs: one thing at a time.
protocol AdapterLoop: AnyObject, Sendable {
  /// Runs `work` there, in the order of the calls; dropped after ``stop()``. On any thread.
  func execute(_ work: @escaping @Sendable () -> Void)
  /// The same; where nothing else happens there, it may be done by the calling thread.
  func executeHere(_ work: @escaping @Sendable () -> Void)
  /// Whether the calling code runs there.
  var isOnLoop: Bool { get }
  func stop()
}

extension EventLoop: AdapterLoop {}

/// An adapter with its system, for as long as somebody has a session on it.
///
/// `@unchecked Sendable`: `system` is touched on the loop alone, the rest is constant.
final class LocalAdapter: @unchecked Sendable {
  let loop: any AdapterLoop
  private let ownsLoop: Bool
  let replica: SystemReplica
  private(set) var system: BluetoothSystem?

  /// `make` runs on the loop.
  init(
    loop: any AdapterLoop, ownsLoop: Bool, identity: PeerIdentity,
    make: @escaping @Sendable (SystemReplica) -> BluetoothSystem
  ) {
    self.loop = loop
    self.ownsLoop = ownsLoop
    replica = SystemReplica { identity.address(of: $0) }
    let replica = replica
    loop.execute { [weak self] in
      guard let self else { return }
      let system = make(replica)
      self.system = system
      system.start()
    }
  }

  /// Ends the system in good order; a new one cannot be had. On the loop.
  func close(done: @escaping () -> Void) {
    guard let system else { return done() }
    self.system = nil
    system.close(done: done)
  }

  deinit {
    let box = OnLoop(system)
    let loop = loop
    let stopsLoop = ownsLoop
    loop.execute {
      let end = { if stopsLoop { loop.stop() } }
      if let system = box.value { system.close(done: end) } else { end() }
    }
  }
}

/// Carries a value that belongs to the loop to the loop.
///
/// `@unchecked Sendable`: the value is used only there.
struct OnLoop<Value>: @unchecked Sendable {
  let value: Value
  init(_ value: Value) { self.value = value }
}

/// A session with a system in this process: requests are handed over as values, in batches.
///
/// `@unchecked Sendable`: `session` is touched on the loop alone, `mailbox` is locked, the rest is constant.
final class LocalSystemLink: SystemLink, @unchecked Sendable {
  private struct Mailbox {
    var requests: [SystemRequest] = []
    var isClosed = false
  }

  private let adapter: LocalAdapter
  private let mailbox = Mutex(Mailbox())
  private let expectsAnswer = Atomic(false)
  /// Only on the loop.
  private final class Session: @unchecked Sendable { var id: SessionID? }
  private let session = Session()

  var replica: SystemReplica { adapter.replica }

  init(adapter: LocalAdapter, handler: @escaping SystemEventHandler) {
    self.adapter = adapter
    let session = session
    adapter.loop.execute { [weak adapter] in session.id = adapter?.system?.addSession(handler: handler) }
  }

  deinit { close() }

  func send(_ request: SystemRequest) {
    let mustWake = mailbox.withLock { mailbox in
      guard !mailbox.isClosed else { return false }
      mailbox.requests.append(request)
      return mailbox.requests.count == 1
    }
    guard mustWake else { return }
    if expectsAnswer.exchange(false, ordering: .relaxed) {
      adapter.loop.executeHere { [weak self] in self?.drain() }
    } else {
      adapter.loop.execute { [weak self] in self?.drain() }
    }
  }

  func expectAnswer() { expectsAnswer.store(true, ordering: .relaxed) }

  private func drain() {
    let requests = mailbox.withLock { mailbox in
      defer { mailbox.requests = [] }
      return mailbox.requests
    }
    guard let id = session.id, let system = adapter.system else { return }
    system.handle(requests, of: id)
  }

  func close() {
    let isFirst = mailbox.withLock { mailbox in
      defer {
        mailbox.isClosed = true
        mailbox.requests = []
      }
      return !mailbox.isClosed
    }
    guard isFirst else { return }
    let session = session
    let adapter = adapter
    adapter.loop.execute {
      if let id = session.id { adapter.system?.removeSession(id) }
      session.id = nil
    }
  }
}
