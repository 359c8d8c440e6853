// SPDX-License-Identifier: Apache-2.0

public import BLECore
public import BLEHCI
import BLEHost
public import BLERadio
import Glibc
import Synchronization

/// A radio of this process whose time somebody outside moves, for tests of apps in virtual time.
///
/// It has devices, each with a controller and a system of its own, which apps reach by name (see ``SteppedDevice``).
/// Nothing happens in it by itself: what apps ask waits in a mailbox until ``runWork()``, what is due waits for ``step()``.
/// Both are called by one thread at a time, the driving one, within ``drive(_:)``.
///
/// `@unchecked Sendable`: the mailbox is locked, all else is touched by the driving thread alone.
public final class SteppedRadio: @unchecked Sendable {
  /// What somebody who watches is told. Calls of apps and deliveries come on the apps' threads, the rest on the driving
  /// one. None of the closures may block.
  public struct Watch: Sendable {
    /// An app asked something of the device's system.
    public var called: @Sendable (_ device: String, SystemRequest) -> Void = { _, _ in }
    /// An app is about to be told something, on its queue.
    public var delivered: @Sendable (_ device: String, SystemEvent) -> Void = { _, _ in }
    /// Events have been handed over to an app.
    public var handedOver: @Sendable (_ device: String, _ count: Int) -> Void = { _, _ in }
    /// A packet between the device's host and its controller.
    public var hci: @Sendable (_ device: String, HCIDirection, HCIPacketType, [UInt8]) -> Void = { _, _, _, _ in }
    /// There is work in the mailbox, which was empty.
    public var workArrived: @Sendable () -> Void = {}

    public init() {}
  }

  private struct Mailbox {
    var work: [@Sendable () -> Void] = []
    var isStopped = false
  }

  /// Whose time it is.
  public let simulator: Simulator
  /// Its air and who is on it.
  public let world: RadioWorld
  let watch: Watch
  private let mailbox = Mutex(Mailbox())
  private let workIsThere = Atomic<Bool>(false)
  private let thread = Atomic<UInt>(0)
  private var turnEnd: [() -> Void] = []
  fileprivate var devices = 0

  /// A radio without devices, at time zero. All that is random in it follows from `seed`.
  public init(seed: UInt64, setting: AirSetting = .physical, watch: Watch) {
    simulator = Simulator()
    world = RadioWorld(simulator: simulator, seed: seed, setting: setting)
    self.watch = watch
  }

  // MARK: - Any thread

  /// Runs `work` at the present instant, in the order of the calls.
  public func execute(_ work: @escaping @Sendable () -> Void) {
    let isFirst = mailbox.withLock { mailbox in
      guard !mailbox.isStopped else { return false }
      mailbox.work.append(work)
      workIsThere.store(true, ordering: .releasing)
      return mailbox.work.count == 1
    }
    if isFirst { watch.workArrived() }
  }

  /// Nothing is run any more. Idempotent.
  public func stop() {
    // What is dropped may end objects that come back here.
    let dropped = mailbox.withLock { mailbox in
      mailbox.isStopped = true
      defer { mailbox.work = [] }
      return mailbox.work
    }
    withExtendedLifetime(dropped) {}
  }

  /// Whether anything is in the mailbox.
  public var hasWork: Bool { workIsThere.load(ordering: .acquiring) }

  /// Whether the calling thread drives the radio.
  public var isOnLoop: Bool { thread.load(ordering: .relaxed) == UInt(pthread_self()) }

  // MARK: - The driving thread

  /// Makes the calling thread the driving one while `body` runs.
  public func drive<Result>(_ body: () -> Result) -> Result {
    thread.store(UInt(pthread_self()), ordering: .relaxed)
    defer { thread.store(0, ordering: .relaxed) }
    return body()
  }

  /// Does what apps have asked for until now, at the present instant. False: nothing.
  @discardableResult
  public func runWork() -> Bool {
    guard hasWork else { return false }
    let work = mailbox.withLock { mailbox in
      defer { mailbox.work = [] }
      workIsThere.store(false, ordering: .releasing)
      return mailbox.work
    }
    for item in work { item() }
    runTurnEnd()
    return true
  }

  /// Has the next thing happen, whenever it is due; false: there is none.
  @discardableResult
  public func step() -> Bool {
    guard simulator.step() else { return false }
    if !turnEnd.isEmpty { runTurnEnd() }
    return true
  }

  func atEndOfTurn(_ action: @escaping () -> Void) { turnEnd.append(action) }

  private func runTurnEnd() {
    while !turnEnd.isEmpty {
      let actions = turnEnd
      turnEnd = []
      for action in actions { action() }
    }
  }
}

extension SteppedRadio: AdapterLoop {
  func executeHere(_ work: @escaping @Sendable () -> Void) { execute(work) }
}

/// What a simulated peer does with requests instead of answering them as its app would.
public struct RequestRule: Sendable {
  /// Which requests.
  public enum Kind: Hashable, Sendable { case read, write }
  /// What happens to them.
  public enum Outcome: Hashable, Sendable {
    /// The ATT error code (Vol 3 Part F 3.4.1.1) of the answer; the app never sees the request.
    case reject(UInt8)
    /// The app sees the request so much later.
    case delay(TimeSpan)
  }

  public var kind: Kind
  /// The characteristic's UUID.
  public var characteristic: BluetoothUUID
  public var outcome: Outcome
  /// How many requests it is for; then it is over.
  public var count: Int

  public init(_ kind: Kind, _ characteristic: BluetoothUUID, _ outcome: Outcome, count: Int) {
    self.kind = kind
    self.characteristic = characteristic
    self.outcome = outcome
    self.count = count
  }
}

/// A device on a ``SteppedRadio``: managers that name its ``spec`` as their adapter are apps on it.
///
/// `@unchecked Sendable`: what is not constant is locked or touched by the radio's driving thread alone.
public final class SteppedDevice: @unchecked Sendable {
  public let name: String
  /// What `CBManagerOptionAdapterKey`, `Adapter.with` and `COREBLUETOOTH_ADAPTER` take for it.
  public let spec: String
  private let radio: SteppedRadio
  private let hardware: Hardware
  private let adapter: LocalAdapter
  private let rules = Mutex<[RequestRule]>([])

  /// The controller and what decides whether there is one; on the driving thread.
  private final class Hardware {
    var controller: VirtualController?
    var transport: (any HCITransport)?
    var controllerChanged: (RadioDeviceID) -> Void = { _ in }
    var random = SeededGenerator(seed: 0)
    var start: (any SchedulerTimer)?
  }

  /// A controller takes up to this long to start. Without, devices that are switched on together would scan in step, and
  /// two that connect to one peer would disturb each other for ever.
  private static let startMax = 60_000_000

  /// A device that is switched on as soon as the radio runs. `controllerChanged` is told, on the driving thread, by which
  /// number the air knows it: another one after each reset and each time that it was switched off.
  ///
  /// Nil: the system's random generator or cipher fails.
  public init?(
    _ name: String, spec: String, on radio: SteppedRadio, number: Int, seed: UInt64,
    controllerChanged: @escaping @Sendable (RadioDeviceID) -> Void
  ) {
    var random = SeededGenerator(seed: seed, purpose: UInt64(truncatingIfNeeded: number))
    var secret: [UInt8] = []
    while secret.count < 16 { secret.append(UInt8(truncatingIfNeeded: random.next())) }
    guard let identity = try? PeerIdentity(secret: secret), let adapterSpec = try? AdapterSpec(parsing: spec) else {
      return nil
    }
    self.name = name
    self.spec = spec
    self.radio = radio
    let hardware = Hardware()
    self.hardware = hardware
    hardware.controllerChanged = controllerChanged
    hardware.random = random
    let box = OnLoop(hardware)
    let configuration = HostConfiguration(staticRandomAddress: .staticRandom(using: &random))
    let address = RadioServer.address(ofSlot: number)
    adapter = LocalAdapter(loop: radio, ownsLoop: false, identity: identity) { [unowned radio] replica in
      BluetoothSystem(
        name: name, scheduler: radio.simulator, identity: identity, replica: replica, deviceName: name,
        configuration: configuration, turnEnd: { [unowned radio] in radio.atEndOfTurn($0) }
      ) { completion in
        let delay = box.value.random.next() % UInt64(Self.startMax)
        let start = radio.simulator.makeTimer { [unowned radio] in
          let pair = HCITransportPair(scheduler: radio.simulator)
          let controller = VirtualController(world: radio.world, address: address, transport: pair.controller)
          box.value.controller = controller
          box.value.transport = pair.controller
          box.value.controllerChanged(controller.device)
          completion(
            .success(
              CapturingTransport(pair.host) { direction, type, payload in
                radio.watch.hci(name, direction, type, [UInt8](payload))
              }))
        }
        box.value.start = start
        start.arm(at: radio.simulator.now + .nanoseconds(Int64(delay)))
      }
    }
    AdapterPool.shared.host(self, as: adapterSpec)
  }

  func openSession(handler: @escaping SystemEventHandler) -> any SystemLink {
    SteppedLink(device: self, radio: radio, adapter: adapter, handler: handler)
  }

  /// Opens a session for an app that is no Core Bluetooth app.
  public func open(_ handler: @escaping SystemEventHandler) -> any SystemLink { openSession(handler: handler) }

  /// Switches Bluetooth off, as its user does, or on. At the present instant.
  public func setSwitch(isOn: Bool) {
    radio.execute { [weak adapter] in adapter?.system?.setSwitch(isOn: isOn) }
  }

  /// Has the controller fail and start again: links end without a word, apps see `resetting`.
  public func resetController() {
    radio.execute { [hardware = OnLoop(hardware)] in
      hardware.value.controller?.powerOff()
      hardware.value.transport?.close()
      hardware.value.controller = nil
      hardware.value.transport = nil
    }
  }

  /// Adds a rule, which goes after those that there are.
  public func add(_ rule: RequestRule) { rules.withLock { $0.append(rule) } }

  /// Whether a client still waits for the answer to a request. On the driving thread.
  fileprivate func isOwed(_ id: RemoteRequestID) -> Bool { adapter.system?.local.requests[id] != nil }

  fileprivate func outcome(_ kind: RequestRule.Kind, _ characteristic: BluetoothUUID) -> RequestRule.Outcome? {
    rules.withLock { rules in
      guard let index = rules.firstIndex(where: { $0.kind == kind && $0.characteristic == characteristic }) else {
        return nil
      }
      rules[index].count -= 1
      let outcome = rules[index].outcome
      if rules[index].count <= 0 { rules.remove(at: index) }
      return outcome
    }
  }
}

/// A session on a ``SteppedDevice``: tells who watches, and keeps the device's rules.
///
/// `@unchecked Sendable`: what is not constant is locked or touched by the radio's driving thread alone.
private final class SteppedLink: SystemLink, @unchecked Sendable {
  private let name: String
  private let watch: SteppedRadio.Watch
  private let inner: LocalSystemLink
  private let filter: RequestFilter

  init(device: SteppedDevice, radio: SteppedRadio, adapter: LocalAdapter, handler: @escaping SystemEventHandler) {
    name = device.name
    watch = radio.watch
    let (name, watch) = (name, watch)
    let filter = RequestFilter(device: device, radio: radio) { events in
      watch.handedOver(name, events.count)
      handler(events)
    }
    self.filter = filter
    inner = LocalSystemLink(adapter: adapter) { filter.receive($0) }
    filter.attach(inner)
  }

  var replica: SystemReplica { inner.replica }

  func send(_ request: SystemRequest) {
    watch.called(name, request)
    if case .addService(_, let service) = request { filter.note(service) }
    inner.send(request)
  }

  func expectAnswer() {}
  func close() { inner.close() }
  func willDeliver(_ event: SystemEvent) { watch.delivered(name, event) }
}

/// Takes out of a session's events those that a rule of its device is for.
private final class RequestFilter: @unchecked Sendable {
  private weak var device: SteppedDevice?
  private unowned let radio: SteppedRadio
  private let handler: SystemEventHandler
  private let uuids = Mutex<[LocalAttributeID: BluetoothUUID]>([:])
  private weak var link: LocalSystemLink?
  private var delays: [RemoteRequestID: any SchedulerTimer] = [:]

  init(device: SteppedDevice, radio: SteppedRadio, handler: @escaping SystemEventHandler) {
    self.device = device
    self.radio = radio
    self.handler = handler
  }

  func attach(_ link: LocalSystemLink) { self.link = link }

  func note(_ service: LocalService) {
    uuids.withLock { uuids in
      for characteristic in service.characteristics { uuids[characteristic.id] = characteristic.uuid }
    }
  }

  func receive(_ events: [SystemEvent]) {
    let kept = events.filter { event in
      switch event {
      case .stateChanged:
        delays = [:]
        return true
      case .readRequested(let id, _, let attribute, _):
        return !intercepts(.read, id, attribute, event, needsResponse: true)
      case .writeRequested(let id, _, let writes, let needsResponse):
        return !intercepts(.write, id, writes.first?.characteristic ?? 0, event, needsResponse: needsResponse)
      default: return true  // No request.
      }
    }
    if !kept.isEmpty { handler(kept) }
  }

  private func intercepts(
    _ kind: RequestRule.Kind, _ id: RemoteRequestID, _ attribute: LocalAttributeID, _ event: SystemEvent,
    needsResponse: Bool
  ) -> Bool {
    guard let uuid = uuids.withLock({ $0[attribute] }), let outcome = device?.outcome(kind, uuid) else { return false }
    switch outcome {
    case .reject(let code):
      if needsResponse { link?.send(.respond(id, code, nil)) }
    case .delay(let span):
      let timer = radio.simulator.makeTimer { [weak self] in
        guard let self else { return }
        delays[id] = nil
        // A client that is gone in the meantime has taken its request with it.
        if !needsResponse || device?.isOwed(id) == true { handler([event]) }
      }
      delays[id] = timer
      timer.arm(at: radio.simulator.now + span)
    }
    return true
  }
}
