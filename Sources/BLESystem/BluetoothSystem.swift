// SPDX-License-Identifier: Apache-2.0

import BLECore
import BLEGATT
import BLEHCI
import BLEHost

/// Has an action run when everything that is there to be handled now has been handled: on an event loop, at the end of
/// its turn.
typealias TurnEnd = (_ action: @escaping () -> Void) -> Void

/// Opens a transport to the adapter's controller; the outcome comes later, on the adapter's executor.
typealias TransportOpener = (@escaping (Result<any HCITransport, HCITransportError>) -> Void) -> Void

/// What `bluetoothd` is on a phone: the one owner of an adapter, with many apps as clients.
///
/// Requests of the sessions come in, events go out to them. Scans are merged and their results split again; a link is
/// shared by the sessions that use it and ends with the last; local services of all sessions make one database.
/// Everything runs on the adapter's executor.
///
///     opening ──► starting ──► on ──► resetting ──► off ──┐
///        │            │                   ▲          ▲    │ retried
///        └────────────┴── failed ─────────┴──────────┘◄───┘
final class BluetoothSystem: HostOwner {
  private enum Power {
    case opening
    case starting(Host)
    case on(Host)
    /// Waits to open the transport anew.
    case waiting
    /// Switched off by the user: the links are being ended.
    case switchingOff(Host)
    case switchedOff
    /// Nobody uses the adapter any more: the links are ended before the transport.
    case closing(Host)
    case closed
  }

  let scheduler: any Scheduler
  let name: String
  let identity: PeerIdentity
  let replica: SystemReplica
  private let opener: TransportOpener
  private let turnEnd: TurnEnd?
  private let configuration: HostConfiguration
  let deviceName: String
  private var power = Power.opening
  private var state: AdapterState?
  private var retryTimer: (any SchedulerTimer)?
  private var closeTimer: (any SchedulerTimer)?
  private var closed: (() -> Void)?
  /// Attempts to open that failed in a row.
  private var failures = 0

  private(set) var sessions: [SessionID: ClientSession] = [:]
  private var nextSession: SessionID = 1
  /// Sessions with events to be handed over.
  private var talking: [ClientSession] = []
  private var isHandOverDue = false

  var peers: PeerTable
  var scan: ScanMerger
  private var scanTimer: (any SchedulerTimer)?
  /// Links by peer.
  var links: [PeerIdentifier: PeerLink] = [:]
  var linkEpoch: UInt32 = 0
  var caches = GATTCacheTable()
  /// Who waits for a link to a peer.
  var wanted: [PeerIdentifier: Set<SessionID>] = [:]
  var local = LocalServices()
  var lastToken: UInt64 = 0
  var rssiReads: [UInt64: (SessionID, RequestToken, LinkReference)] = [:]

  private static let retryPeriod = TimeSpan.milliseconds(500)
  private static let closeLimit = TimeSpan.milliseconds(500)
  private static let firstRetry = TimeSpan.milliseconds(100)

  /// Without `turnEnd` the sessions get the events of each call at its end; with it those of a whole turn in one batch,
  /// which spares the apps a thread switch for each.
  init(
    name: String, scheduler: any Scheduler, identity: PeerIdentity, replica: SystemReplica, deviceName: String,
    configuration: HostConfiguration, turnEnd: TurnEnd? = nil, opener: @escaping TransportOpener
  ) {
    self.name = name
    self.scheduler = scheduler
    self.identity = identity
    self.deviceName = deviceName
    self.configuration = configuration
    self.opener = opener
    self.turnEnd = turnEnd
    self.replica = replica
    peers = PeerTable(identity: identity, replica: replica)
    scan = ScanMerger()
  }

  /// The running host.
  var host: Host? { if case .on(let host) = power { host } else { nil } }

  // MARK: - Life

  func start() {
    retryTimer = scheduler.makeTimer { [weak self] in self?.open() }
    scanTimer = scheduler.makeTimer { [weak self] in self?.scanDeadline() }
    open()
  }

  private func open() {
    switch power {
    case .closed, .switchedOff, .switchingOff: return
    case .opening, .starting, .on, .waiting, .closing: break
    }
    power = .opening
    opener { [weak self] result in self?.opened(result) }
  }

  private func opened(_ result: Result<any HCITransport, HCITransportError>) {
    guard case .opening = power else {
      if case .success(let transport) = result { transport.close() }
      return
    }
    switch result {
    case .success(let transport):
      let host = Host(transport: transport, scheduler: scheduler, configuration: configuration)
      host.owner = self
      power = .starting(host)
      host.start()
    case .failure(let error): cannotUse(error.description)
    }
    flush()
  }

  /// The adapter cannot be used now; it is tried again.
  private func cannotUse(_ reason: String) {
    failures += 1
    if failures == 1 { Log.write(.error, "system", "adapter \(name): \(reason); trying again") }
    power = .waiting
    change(to: .poweredOff, problem: reason)
    retryTimer?.arm(at: scheduler.now + Self.retryPeriod)
  }

  /// Ends everything; no event follows. Links are ended in good order, so that the peers need not wait for their
  /// supervision timeouts; `done` is called when that is over, soon in any case.
  func close(done: @escaping () -> Void) {
    retryTimer?.disarm()
    scanTimer?.disarm()
    sessions.removeAll()
    closed = done
    switch power {
    case .on(let host) where !host.links.isEmpty:
      power = .closing(host)
      // Kept alive by its own timer until then.
      closeTimer = scheduler.makeTimer { self.finishClosing() }
      closeTimer?.arm(at: scheduler.now + Self.closeLimit)
      host.stopAdvertising()
      for connection in host.links { host.disconnect(connection, reason: .remoteUserTerminatedConnection) }
    case .starting(let host), .on(let host), .closing(let host), .switchingOff(let host):
      host.close()
      finishClosing()
    case .opening, .waiting, .closed, .switchedOff: finishClosing()
    }
  }

  // MARK: - The switch

  /// Switches Bluetooth off, as a user does, or on again. Off: links end in good order, apps see `poweredOff`, their
  /// services come back with `poweredOn`.
  func setSwitch(isOn: Bool) {
    switch (isOn, power) {
    case (false, .on(let host)):
      forgetEverything(keepingServices: true)
      power = .switchingOff(host)
      change(to: .poweredOff, problem: Self.switchedOff)
      host.stopAdvertising()
      for connection in host.links { host.disconnect(connection, reason: .remoteUserTerminatedConnection) }
      closeTimer = scheduler.makeTimer { [weak self] in self?.finishSwitchingOff() }
      closeTimer?.arm(at: scheduler.now + (host.links.isEmpty ? .zero : Self.closeLimit))
    case (false, .starting(let host)):
      host.owner = nil
      host.close()
      power = .switchedOff
      change(to: .poweredOff, problem: Self.switchedOff)
    case (false, .opening), (false, .waiting):
      power = .switchedOff
      change(to: .poweredOff, problem: Self.switchedOff)
    case (true, .switchedOff):
      power = .waiting
      open()
    case (true, .switchingOff(let host)):
      end(host)
      power = .waiting
      open()
    case (true, .opening), (true, .starting), (true, .on), (true, .waiting), (false, .switchedOff),
      (false, .switchingOff), (_, .closing), (_, .closed):
      break
    }
    flush()
  }

  private static let switchedOff = "Bluetooth is switched off"

  private func end(_ host: Host) {
    host.owner = nil
    host.close()
    closeTimer?.disarm()
    closeTimer = nil
  }

  private func finishSwitchingOff() {
    guard case .switchingOff(let host) = power else { return }
    end(host)
    power = .switchedOff
  }

  private func finishClosing() {
    if case .closing(let host) = power { host.close() }
    power = .closed
    closeTimer?.disarm()
    closeTimer = nil
    let done = closed
    closed = nil
    done?()
  }

  private func change(to new: AdapterState, problem: String? = nil) {
    replica.update(state: new, problem: problem)
    guard state != new else { return }
    state = new
    Log.write(.info, "system", "adapter \(name): \(new)")
    for session in orderedSessions { tellState(session) }
  }

  /// The state, and with `poweredOn` the room for updates.
  private func tellState(_ session: ClientSession) {
    guard let state else { return }
    post(.stateChanged(state), to: session)
    if state == .poweredOn { post(.updateCreditsGranted(Self.updateCredits), to: session) }
  }

  var orderedSessions: [ClientSession] { sessions.values.sorted { $0.id < $1.id } }

  /// A dictionary's order is another in each run; what reaches the air or an app must not be.
  func inOrder(_ peers: some Sequence<PeerIdentifier>) -> [PeerIdentifier] {
    peers.sorted { ($0.high, $0.low) < ($1.high, $1.low) }
  }

  // MARK: - Host

  func host(_ host: Host, did event: HostEvent) {
    if case .closing = power {
      if case .disconnected = event, host.links.isEmpty { finishClosing() }
      if case .failed = event { finishClosing() }
      return
    }
    if case .switchingOff = power {
      if case .disconnected = event, host.links.isEmpty { finishSwitchingOff() }
      if case .failed = event { finishSwitchingOff() }
      return
    }
    switch event {
    case .ready(let info): ready(host, info)
    case .failed(let error): hostFailed(host, error)
    case .advertising(let report): heard(report)
    case .scanFailed(let status): Log.write(.error, "system", "adapter \(name): scanning failed: \(status)")
    case .advertisingStarted: advertisingStarted(nil)
    case .advertisingFailed(let status):
      advertisingStarted(SystemError(.unknown, "the controller refuses to advertise: \(status)"))
    case .connected(let connection): connected(connection)
    case .connectFailed(let address, let status): connectFailed(address, status)
    case .disconnected(let connection, let reason): disconnected(connection, reason)
    case .connectionParametersChanged: break
    case .rssi(let connection, let token, let value, let status): rssiRead(connection, token, value, status)
    case .commandsSent(let connection, let count): link(of: connection)?.commandsSent(count, in: self)
    case .notificationsSent(let connection, let count): notificationsSent(connection, count)
    }
    flush()
  }

  func host(_ host: Host, connection: Connection, did event: ATTEvent) {
    guard case .on = power else { return }
    receive(event, on: connection)
    flush()
  }

  private func ready(_ host: Host, _ info: ControllerInfo) {
    failures = 0
    power = .on(host)
    Log.write(
      .info, "system",
      "adapter \(name): company \(info.companyIdentifier), version \(info.hciVersion), own address \(info.ownAddress)")
    local = LocalServices()
    local.addFoundation(to: host.database, deviceName: deviceName)
    republishServices()
    change(to: .poweredOn)
  }

  private func hostFailed(_ host: Host, _ error: HostError) {
    let wasOn = if case .on = power { true } else { false }
    host.owner = nil
    host.close()
    guard wasOn else {
      cannotUse(error.description)
      return
    }
    Log.write(.error, "system", "adapter \(name): \(error)")
    failures = 1
    forgetEverything()
    power = .waiting
    change(to: .resetting, problem: error.description)
    retryTimer?.arm(at: scheduler.now + Self.firstRetry)
  }

  /// Links, scans, advertising and services are gone with the controller.
  private func forgetEverything(keepingServices: Bool = false) {
    for peer in links.keys { replica.update(connected: peer, services: nil) }
    links.removeAll()
    caches = GATTCacheTable()
    rssiReads.removeAll()
    wanted.removeAll()
    scan = ScanMerger()
    scanTimer?.disarm()
    local = LocalServices()
    for session in sessions.values { session.reset(keepingServices: keepingServices) }
  }

  // MARK: - Sessions

  func addSession(handler: @escaping SystemEventHandler) -> SessionID {
    let session = ClientSession(id: nextSession, handler: handler)
    nextSession += 1
    sessions[session.id] = session
    tellState(session)
    flush()
    return session.id
  }

  func removeSession(_ id: SessionID) {
    guard let session = sessions[id] else { return }
    stopScan(session)
    stopAdvertising(session)
    removeServices(session)
    for peer in inOrder(session.wantedPeers.keys) { leave(peer, session: session, notify: false) }
    for peer in inOrder(links.keys) where links[peer]?.users.contains(id) == true {
      leave(peer, session: session, notify: false)
    }
    sessions[id] = nil
    talking.removeAll { $0 === session }
    flush()
  }

  func post(_ event: SystemEvent, to session: ClientSession) {
    if session.pending.isEmpty {
      talking.append(session)
    } else if session.pending[session.pending.count - 1].absorb(event) {
      return
    }
    session.pending.append(event)
  }

  func post(_ event: SystemEvent, to id: SessionID) {
    if let session = sessions[id] { post(event, to: session) }
  }

  /// Hands each session its events in one batch, now or when the turn ends.
  func flush() {
    guard let turnEnd else { return handOver() }
    guard !talking.isEmpty, !isHandOverDue else { return }
    isHandOverDue = true
    turnEnd { [weak self] in self?.handOver() }
  }

  private func handOver() {
    isHandOverDue = false
    while let session = talking.popLast() {
      var batch: [SystemEvent] = []
      swap(&batch, &session.pending)
      session.handler(batch)
      session.takeBack(&batch)
    }
  }

  /// One session's requests in order; what comes of them moves when all have been taken.
  func handle(_ requests: [SystemRequest], of id: SessionID) {
    guard requests.count > 1, let host else {
      for request in requests { handle(request, of: id) }
      return
    }
    host.gather {
      for request in requests { handle(request, of: id) }
    }
  }

  func handle(_ request: SystemRequest, of id: SessionID) {
    guard let session = sessions[id] else { return }
    guard host != nil else { return }  // Not powered on: dropped, as the seam says.
    switch request {
    case .startScan(let options): startScan(options, session)
    case .stopScan: stopScan(session)
    case .connect(let peer, let options): connect(peer, options, session)
    case .cancelConnection(let peer): leave(peer, session: session, notify: true)
    case .readRSSI(let token, let link): readRSSI(token, link, session)
    case .discoverServices, .discoverIncludedServices, .discoverCharacteristics, .discoverDescriptors, .readValue,
      .writeValue, .writeCommand, .setNotify:
      handleGATT(request, session)
    case .addService(let token, let service): addService(token, service, session)
    case .removeService(let service): removeService(service, session)
    case .removeAllServices: removeServices(session)
    case .startAdvertising(let token, let name, let services): startAdvertising(token, name, services, session)
    case .stopAdvertising: stopAdvertising(session)
    case .respond(let id, let code, let value): respond(id, code, value, session)
    case .updateValue(let attribute, let value, let centrals): updateValue(attribute, value, centrals, session)
    case .setDesiredLatency(let latency, let central): setLatency(latency, central)
    }
    flush()
  }

  // MARK: - Scanning

  private func startScan(_ options: ScanOptions, _ session: ClientSession) {
    session.scan = ScanFilter(options)
    settleScan()
  }

  func stopScan(_ session: ClientSession) {
    guard session.scan != nil else { return }
    session.scan = nil
    settleScan()
  }

  private func settleScan() {
    let scanning = sessions.values.contains { $0.scan != nil }
    if !scanning {
      scan = ScanMerger()
      scanTimer?.disarm()
    }
    host?.setScanning(scanning, isContinuous: true)
  }

  private func heard(_ report: AdvertisingReport) {
    scan.receive(report, now: scheduler.now)
    deliverScanResults()
  }

  private func scanDeadline() {
    scan.handleTimeout(now: scheduler.now)
    deliverScanResults()
    flush()
  }

  private func deliverScanResults() {
    while let result = scan.next() {
      guard let (discovery, overflow) = peers.discovery(result) else { continue }
      for session in orderedSessions {
        if let admitted = session.scan?.admit(discovery, overflow: overflow) {
          post(.discovered(admitted), to: session)
        }
      }
    }
    if peers.isFull {
      let inUse = sessions.values.reduce(into: Set(links.keys)) { $0.formUnion($1.wantedPeers.keys) }
      peers.forget(allBut: inUse)
    }
    if let deadline = scan.nextDeadline { scanTimer?.arm(at: deadline) }
  }
}

/// Identifies a session within its system.
typealias SessionID = UInt32

/// What the system knows of one session.
final class ClientSession {
  let id: SessionID
  let handler: SystemEventHandler
  var pending: [SystemEvent] = []
  var scan: ScanFilter?
  /// Peers the session wants or uses, with how.
  var wantedPeers: [PeerIdentifier: ConnectOptions] = [:]
  /// Peers whose link the session has given up; it waits for the end.
  var leaving: Set<PeerIdentifier> = []
  /// Peers that are to be connected only later.
  var delays: [PeerIdentifier: any SchedulerTimer] = [:]
  var advertising: AdvertisingWish?
  /// In the order in which they were added.
  var services: [LocalService] = []

  init(id: SessionID, handler: @escaping SystemEventHandler) {
    self.id = id
    self.handler = handler
  }

  /// Keeps the memory of a batch that has been handed over for the next one, unless it was an uncommonly large one.
  func takeBack(_ batch: inout [SystemEvent]) {
    guard pending.isEmpty, batch.count <= Self.keptEventsMax else { return }
    batch.removeAll(keepingCapacity: true)
    swap(&batch, &pending)
  }

  private static let keptEventsMax = 512

  /// The adapter is gone, and with it all that the session had on it.
  func reset(keepingServices: Bool) {
    if !keepingServices { services = [] }
    scan = nil
    wantedPeers = [:]
    leaving = []
    delays = [:]
    advertising = nil
  }
}
