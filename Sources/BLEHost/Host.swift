// SPDX-License-Identifier: Apache-2.0

public import BLECore
public import BLEGATT
public import BLEHCI
import BLEL2CAP
import BLESMP

/// The host of one controller (GAP, Vol 3 Part C): it starts the controller up, scans, advertises, connects, and runs
/// L2CAP, ATT/GATT and the Security Manager on each link.
///
/// Bytes and expired deadlines go in; HCI packets and events come out. Nothing here knows a thread, a lock or a clock
/// beside the scheduler's. The owner is told only when a call's effects are complete, so it may call back at once.
///
/// Plain values, lists and machines, during whose access nobody is called, are exempt from checks of exclusive access.
public final class Host: HCIReceiver {
  public private(set) var info = ControllerInfo()
  public weak var owner: (any HostOwner)? { didSet { hasOwner = owner != nil } }
  /// The one local database, shared by all links.
  public let database = AttributeDatabase()

  private enum State {
    case created
    case starting(ControllerSetup)
    case running
    case failed
  }

  let transport: any HCITransport
  private let scheduler: any Scheduler
  let configuration: HostConfiguration
  @exclusivity(unchecked) private var state = State.created
  @exclusivity(unchecked) private var timer: (any SchedulerTimer)?
  @exclusivity(unchecked) private var armedDeadline: Instant?

  @exclusivity(unchecked) var commands = HostCommands()
  @exclusivity(unchecked) var acl = ACLFlow(packetLength: 27, packetCount: 1)
  @exclusivity(unchecked) var progress: [ACLProgress] = []
  @exclusivity(unchecked) var scanner = Scanner()
  @exclusivity(unchecked) var advertiser = Advertiser()
  @exclusivity(unchecked) var connector: Connector
  /// What the transport is being given.
  @exclusivity(unchecked) private var leaving = PacketQueue<HCIPacketType>()
  @exclusivity(unchecked) private var clientScan: ScanSettings?
  var extendedReports = ExtendedReports()

  @exclusivity(unchecked) private var connections: [ConnectionHandle: Connection] = [:]
  /// Links with output or events to be handled.
  @exclusivity(unchecked) private var dirty: [Connection] = []
  @exclusivity(unchecked) private var events: [HostEvent] = []
  @exclusivity(unchecked) private var isPumping = false
  /// `owner` as the pump sees it, which looks the weak reference up once.
  @exclusivity(unchecked) private(set) var hasOwner = false
  /// The reported links in order of their handles.
  @exclusivity(unchecked) public private(set) var links: [Connection] = []

  public init(transport: any HCITransport, scheduler: any Scheduler, configuration: HostConfiguration) {
    self.transport = transport
    self.scheduler = scheduler
    self.configuration = configuration
    connector = Connector(info: ControllerInfo(), configuration: configuration)
    timer = scheduler.makeTimer { [weak self] in self?.handleTimeout() }
    transport.receiver = self
  }

  // MARK: - Verbs

  /// Starts the controller up; ends with ``HostEvent/ready(_:)`` or ``HostEvent/failed(_:)``.
  public func start() {
    guard case .created = state else { return }
    commands.now = scheduler.now
    let setup = ControllerSetup(configuration: configuration)
    state = .starting(setup)
    setup.enqueue(.reset, into: &commands)
    pump()
  }

  /// Ends everything and closes the transport; no event follows.
  public func close() {
    state = .failed
    owner = nil
    timer?.disarm()
    transport.close()
  }

  /// Scans actively until told otherwise; nil stops. `isContinuous`: listen all the time.
  public func setScanning(_ isScanning: Bool, isContinuous: Bool = false) {
    guard begin() else { return }
    clientScan = isScanning ? ScanSettings(isActive: true, isContinuous: isContinuous) : nil
    connector.clientScans(isScanning, now: scheduler.now, into: &commands)
    pump()
  }

  /// Advertises connectably, in place of what was advertised before.
  public func startAdvertising(_ content: AdvertisingContent) {
    guard begin() else { return }
    advertiser.start(content, own: info.ownAddress, configuration: configuration, into: &commands)
    pump()
  }

  public func stopAdvertising() {
    guard begin() else { return }
    advertiser.stop(into: &commands)
    pump()
  }

  /// Wants a link to `peer` in the Central role, for as long as it takes.
  public func connect(_ peer: DeviceAddress) {
    guard begin() else { return }
    connector.want(peer, now: scheduler.now, into: &commands)
    pump()
  }

  /// Does not want the link any more. One that has just been made is reported all the same.
  public func cancelConnect(_ peer: DeviceAddress) {
    guard begin() else { return }
    connector.unwant(peer, now: scheduler.now, into: &commands)
    pump()
  }

  /// Ends a link; the peer sees `reason` (Remote User Terminated Connection).
  public func disconnect(_ connection: Connection, reason: HCIStatus = .remoteUserTerminatedConnection) {
    guard begin(), !connection.isDisconnecting, connections[connection.handle] === connection else { return }
    connection.disconnectDeadline =
      scheduler.now + min(connection.parameters.supervisionTimeout.timeSpan, .seconds(32)) + Self.disconnectMargin
    commands.enqueue(
      Disconnect(connectionHandle: connection.handle, reason: reason), context: .disconnect(connection.handle))
    pump()
  }

  private static let disconnectMargin = TimeSpan.seconds(5)

  /// Asks the controller how strong the link is; answered by ``HostEvent/rssi(_:token:_:)``.
  public func readRSSI(_ connection: Connection, token: UInt64) {
    guard begin(), connections[connection.handle] === connection else { return }
    commands.enqueue(
      ReadRSSI(connectionHandle: connection.handle), context: .rssi(connection.handle, token: token))
    pump()
  }

  /// Wishes for other connection parameters: by Connection Update as Central, else by asking the Central.
  public func requestParameters(_ connection: Connection, _ range: ConnectionParameterRange) {
    guard begin(), connections[connection.handle] === connection, range.isValid else { return }
    if connection.role == .central {
      update(connection, range)
    } else {
      connection.signaling.requestParameterUpdate(range, now: scheduler.now)
      touch(connection)
    }
    pump()
  }

  /// Calls the link's ATT bearer and sends what comes out.
  public func perform<T>(on connection: Connection, _ body: (inout ATTBearer, Instant) -> T) -> T {
    commands.now = scheduler.now
    let result = body(&connection.bearer, scheduler.now)
    touch(connection)
    pump()
    return result
  }

  /// Runs `body`, which calls the verbs; what comes of them all moves at its end.
  public func gather(_ body: () -> Void) {
    guard !isPumping else { return body() }
    isPumping = true
    body()
    isPumping = false
    commands.now = scheduler.now
    pump()
  }

  /// Notes the time of a call; false if the host does not run.
  private func begin() -> Bool {
    commands.now = scheduler.now
    return isRunning
  }

  /// Whether start-up is over and the controller has not been given up.
  var isRunning: Bool { if case .running = state { true } else { false } }

  // MARK: - Inputs

  public func receive(_ type: HCIPacketType, _ payload: RawSpan) {
    guard !isFailed else { return }
    commands.now = scheduler.now
    switch type {
    case .event: receiveEvent(payload)
    case .aclData: receiveACL(payload)
    default: break  // A host of LE data has no use for anything else.
    }
    pump()
  }

  public func transportClosed(_ error: HCITransportError) {
    fail(HostError(error.description))
    pump()
  }

  private func handleTimeout() {
    armedDeadline = nil
    let now = scheduler.now
    commands.now = now
    commands.handleTimeout()
    connector.handleTimeout(now: now, into: &commands)
    if connector.isStuck { fail(HostError("the controller does not end LE Create Connection; it needs a reset")) }
    for connection in connections.values.sorted(by: { $0.handle < $1.handle }) {
      guard let deadline = connection.nextDeadline, deadline <= now else { continue }
      connection.bearer.handleTimeout(now: now)
      connection.signaling.handleTimeout(now: now)
      if let report = connection.reportDeadline, report <= now { self.report(connection) }
      if let end = connection.disconnectDeadline, end <= now {
        fail(HostError("the controller does not end the link to \(connection.peer); it needs a reset"))
        break
      }
      touch(connection)
    }
    pump()
  }

  func fail(_ error: HostError) {
    if case .failed = state { return }
    state = .failed
    connections.removeAll()
    links.removeAll()
    dirty.removeAll()
    events.append(.failed(error))
  }

  // MARK: - The pump

  func touch(_ connection: Connection) {
    if !dirty.contains(where: { $0 === connection }) { dirty.append(connection) }
  }

  /// Moves everything that can move: PDUs into ACL packets, packets and commands to the transport, events to the owner.
  private func pump() {
    guard !isPumping else { return }
    isPumping = true
    let owner = owner
    repeat {
      takeCommandOutcomes()
      settleRadio()
      while let connection = dirty.popLast() { drain(connection, owner) }
      send()
      deliverEvents(owner)
    } while !events.isEmpty || !dirty.isEmpty || commands.hasCompletions
    isPumping = false
    armTimer()
  }

  /// Scanning gives way to initiating; LE Create Connection waits until the controller does not scan.
  private func settleRadio() {
    guard isRunning else { return }
    var wanted = clientScan
    let needs = connector.needs
    if needs.silence {
      wanted = nil
    } else if needs.listens, wanted == nil {
      wanted = ScanSettings(isActive: false, isContinuous: true)
    }
    if scanner.wanted != wanted {
      scanner.want(wanted, own: info.ownAddress, configuration: configuration, into: &commands)
    }
    if scanner.isSilent { connector.sendOrder(into: &commands) }
  }

  private func send() {
    guard !isFailed else { return }
    acl.sendWaiting(out: &commands.out, progress: &progress)
    progress.removeAll(keepingCapacity: true)
    guard !commands.out.isEmpty else { return }
    swap(&leaving, &commands.out)
    var batch = PacketQueue<HCIPacketType>()
    swap(&batch, &leaving)
    while batch.removeFirst({ transport.send($0, $1) }) {}
    swap(&batch, &leaving)
  }

  private var isFailed: Bool { if case .failed = state { true } else { false } }

  private func deliverEvents(_ owner: (any HostOwner)?) {
    guard !events.isEmpty else { return }
    var index = 0
    while index < events.count {
      if hasOwner { owner?.host(self, did: events[index]) }
      index += 1
    }
    events.removeAll(keepingCapacity: true)
  }

  private func armTimer() {
    var deadline: Instant?
    if !isFailed { deadline = earliestDeadline }
    guard deadline != armedDeadline else { return }
    armedDeadline = deadline
    if let deadline { timer?.arm(at: deadline) } else { timer?.disarm() }
  }

  private var earliestDeadline: Instant? {
    var deadline = earlier(commands.nextDeadline, connector.nextDeadline)
    for connection in connections.values { deadline = earlier(deadline, connection.nextDeadline) }
    return deadline
  }

  func post(_ event: HostEvent) { events.append(event) }

  // MARK: - Commands' outcomes

  private func takeCommandOutcomes() {
    while commands.hasCompletions {
      for completion in commands.takeCompletions() { complete(completion.context, completion.outcome) }
    }
  }

  private func complete(_ context: HostCommand, _ outcome: CommandOutcome) {
    let now = scheduler.now
    switch context {
    case .setup(let step): setupComplete(step, outcome)
    case .advertising(let step, let generation):
      let result = advertiser.complete(
        step, generation: generation, outcome.statusCode, hasLinks: !connections.isEmpty)
      switch result {
      case .started: post(.advertisingStarted)
      case .failed(let status): post(.advertisingFailed(status))
      case nil: break
      }
    case .scanning(let step):
      if let failure = scanner.complete(
        step, outcome.statusCode, own: info.ownAddress, configuration: configuration, into: &commands)
      {
        clientScan = nil
        post(.scanFailed(failure))
      }
    case .connecting(let step):
      if let refused = connector.complete(step, outcome.statusCode, now: now) {
        post(.connectFailed(refused, outcome.statusCode))
      }
    case .remoteFeatures(let handle):
      if outcome.statusCode != .success, let connection = connections[handle] { report(connection) }
    case .rssi(let handle, let token): rssiComplete(handle, token, outcome)
    case .disconnect(let handle):
      // The controller has no such link: nothing else will tell of its end.
      if outcome.statusCode == .unknownConnectionIdentifier, connections[handle]?.isDisconnecting == true {
        disconnected(
          DisconnectionComplete(
            status: .success, connectionHandle: handle, reason: .connectionTerminatedByLocalHost))
      }
    case .other: break
    }
  }

  private func setupComplete(_ step: ControllerSetup.Step, _ outcome: CommandOutcome) {
    guard case .starting(var setup) = state else { return }
    let progress = setup.complete(step, outcome)
    state = .starting(setup)
    switch progress {
    case .send(let next): setup.enqueue(next, into: &commands)
    case .failed(let error): fail(error)
    case .ready:
      info = setup.info
      acl = ACLFlow(packetLength: info.aclDataPacketLength, packetCount: info.aclDataPacketCount)
      connector = Connector(info: info, configuration: configuration)
      state = .running
      post(.ready(info))
    }
  }

  private func rssiComplete(_ handle: ConnectionHandle, _ token: UInt64, _ outcome: CommandOutcome) {
    guard let connection = connections[handle] else { return }
    guard case .complete(let bytes) = outcome, outcome.statusCode == .success,
      let parameters = try? ReadRSSI.ReturnParameters.decode(bytes)
    else {
      post(.rssi(connection, token: token, nil, outcome.statusCode))
      return
    }
    post(.rssi(connection, token: token, parameters.rssi, .success))
  }

  // MARK: - Links

  func add(_ connection: Connection) {
    connections[connection.handle] = connection
    acl.connect(connection.handle)
  }

  func connection(_ handle: ConnectionHandle) -> Connection? { connections[handle] }

  func remove(_ handle: ConnectionHandle) -> Connection? {
    guard let connection = connections.removeValue(forKey: handle) else { return nil }
    acl.disconnect(handle)
    links.removeAll { $0 === connection }
    dirty.removeAll { $0 === connection }
    return connection
  }

  /// Tells the owner of a link, once.
  func report(_ connection: Connection) {
    connection.reportDeadline = nil
    guard !connection.isReported else { return }
    connection.isReported = true
    links.insert(connection, at: links.firstIndex { $0.handle > connection.handle } ?? links.count)
    post(.connected(connection))
    touch(connection)
  }

  func update(_ connection: Connection, _ range: ConnectionParameterRange) {
    commands.enqueue(
      LEConnectionUpdate(
        connectionHandle: connection.handle, connectionIntervalMin: range.intervalMin,
        connectionIntervalMax: range.intervalMax, maxLatency: range.latency,
        supervisionTimeout: range.supervisionTimeout, minCELength: ConnectionEventLength(rawValue: 0),
        maxCELength: ConnectionEventLength(rawValue: 0)),
      context: .other)
  }

  /// The time of the input that is being handled.
  var now: Instant { commands.now }
}
