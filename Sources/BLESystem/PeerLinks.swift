// SPDX-License-Identifier: Apache-2.0

import BLECore
import BLEGATT
import BLEHCI
import BLEHost

/// One link to a peer, shared by the sessions that use it.
final class PeerLink {
  let connection: Connection
  let reference: LinkReference
  /// Sessions that are connected to the peer in the app's sense.
  var users: Set<SessionID> = []
  /// Procedures on their way, by the token the bearer returns.
  var procedures: [UInt64: Procedure] = [:]
  /// By the characteristic's value handle.
  var subscriptions: [UInt16: Subscription] = [:]
  /// Who sent the write commands that the controller has not yet let go, oldest first.
  private var commandOwners = SessionQueue()
  /// The primary services found.
  var primaryServices: [ClosedRange<UInt16>: BluetoothUUID] = [:]

  /// Whether the system's own first procedures are over; `isOutdated`: and have to be done again, since the peer's
  /// database changed meanwhile.
  enum Preparation { case none, underWay(isOutdated: Bool), done }
  /// Whether the peer's Database Hash is being read; `isOutdated`: and has to be read again, since it changed meanwhile.
  enum HashRead { case idle, underWay(isOutdated: Bool) }

  var isGreeted = false
  var preparation = Preparation.none
  var preparationCount = 0
  var hashRead = HashRead.idle
  /// Whether the peer has a Database Hash.
  var hasHash = false
  /// Whether the peer knows that this client takes Database Out Of Sync for an answer, and whether it tells changes.
  var isRobust = false
  var isSubscribedToChanges = false
  var cache = GATTCache()
  /// What each session knows from before a change.
  var stale: [SessionID: StaleHandles] = [:]

  /// A subscription takes two procedures; until the second is queued, later requests wait here, so that the peer gets
  /// all in the order of the calls. They also wait until the link is prepared.
  var isFindingConfiguration = false
  var held: [(SystemRequest, SessionID)] = []
  var isHolding: Bool {
    if case .underWay = preparation { true } else { isFindingConfiguration }
  }
  /// Set once the system has ended the link and waits for the controller to say so.
  var isEnding = false

  init(connection: Connection, reference: LinkReference) {
    self.connection = connection
    self.reference = reference
  }

  var maximumWriteLength: Int { connection.bearer.mtu - 3 }

  func commandQueued(by session: SessionID) { commandOwners.append(session) }

  /// The command that was queued last is not sent after all.
  func commandDropped(in system: BluetoothSystem) {
    if let session = commandOwners.removeLast() { system.post(.writeCreditsGranted(reference, 1), to: session) }
  }

  func commandsSent(_ count: Int, in system: BluetoothSystem) {
    for _ in 0..<count {
      guard let session = commandOwners.removeFirst() else { return }
      system.post(.writeCreditsGranted(reference, 1), to: session)
    }
  }
}

/// A procedure on the link, and whose it is. `token` is the app's.
enum Procedure {
  case exchangeMTU
  case deviceName
  case own(OwnProcedure)
  case services(SessionID, RequestToken, [BluetoothUUID]?)
  case includedServices(SessionID, RequestToken, ClosedRange<UInt16>, [BluetoothUUID]?)
  case characteristics(SessionID, RequestToken, ClosedRange<UInt16>, [BluetoothUUID]?)
  case descriptors(SessionID, RequestToken, ClosedRange<UInt16>)
  /// A discovery whose answer is known, when it is its turn.
  case cached(SystemRequest, SessionID)
  case read(SessionID, RequestToken)
  case write(SessionID, RequestToken)
  /// Looks for the Client Characteristic Configuration, to write it then.
  case findConfiguration(SessionID, RequestToken, CharacteristicRecord, Bool)
  case writeConfiguration(SessionID, RequestToken, valueHandle: UInt16, Bool)
}

/// What the system asks of a peer's Generic Attribute service for itself.
enum OwnProcedure {
  case readHash
  case findAttributeService
  case findAttributeHandles(ClosedRange<UInt16>)
  case enableFeatures
  case enableServiceChanged
  case endPreparation
}

/// Who is subscribed to a characteristic.
struct Subscription {
  var sessions: Set<SessionID> = []
  /// The handle of the Client Characteristic Configuration, once found.
  var configuration: UInt16?
  /// Whether the peer has been told to send.
  var isOn = false
  /// Writes of the configuration that the peer has not answered: `isOn` may be about to change.
  var pendingWrites = 0
}

/// A first-in first-out queue of session identifiers.
struct SessionQueue {
  private var ids: [SessionID] = []
  private var head = 0

  mutating func append(_ id: SessionID) { ids.append(id) }

  mutating func removeLast() -> SessionID? { ids.count > head ? ids.removeLast() : nil }

  mutating func removeFirst() -> SessionID? {
    guard head < ids.count else { return nil }
    defer {
      head += 1
      if head == ids.count {
        ids.removeAll(keepingCapacity: true)
        head = 0
      } else if head >= 256 {
        ids.removeSubrange(0..<head)
        head = 0
      }
    }
    return ids[head]
  }
}

// Connecting and disconnecting.
extension BluetoothSystem {
  /// Write commands a session may have on their way (Apple's framework takes about as many).
  static let writeCredits = 32

  func connect(_ peer: PeerIdentifier, _ options: ConnectOptions, _ session: ClientSession) {
    guard let address = peers.address(of: peer) else {
      post(
        .connectFailed(
          peer, SystemError(.unknownDevice, "peer \(peer) is not known to this host; find it by scanning first")),
        to: session)
      return
    }
    session.wantedPeers[peer] = options
    if session.leaving.remove(peer) != nil {
      // Wanted again before the link's end answered the cancel: answered now, each cancel has its event.
      post(.disconnected(peer, nil, isReconnecting: false), to: session)
    }
    if let delay = options.startDelay, delay > .zero {
      delayConnect(peer, address, by: delay, session)
    } else {
      want(peer, address, session)
    }
  }

  private func delayConnect(
    _ peer: PeerIdentifier, _ address: DeviceAddress, by delay: TimeSpan, _ session: ClientSession
  ) {
    let timer = scheduler.makeTimer { [weak self, weak session] in
      guard let self, let session else { return }
      session.delays[peer] = nil
      if session.wantedPeers[peer] != nil { want(peer, address, session) }
      flush()
    }
    session.delays[peer] = timer
    timer.arm(at: scheduler.now + delay)
  }

  private func want(_ peer: PeerIdentifier, _ address: DeviceAddress, _ session: ClientSession) {
    if let link = links[peer] {
      if link.isEnding {
        wanted[peer, default: []].insert(session.id)
      } else {
        join(link, session)
      }
      return
    }
    wanted[peer, default: []].insert(session.id)
    host?.connect(address)
  }

  /// Makes the session a user of a link that is there.
  private func join(_ link: PeerLink, _ session: ClientSession) {
    greet(link)
    link.users.insert(session.id)
    post(
      .connected(link.reference, maximumWriteLength: link.maximumWriteLength, writeCredits: Self.writeCredits),
      to: session)
  }

  func connected(_ connection: Connection) {
    guard let peer = peers.identifier(of: connection.peer) else { return }
    // A second link to the same peer serves that peer's requests, and is no business of the sessions here.
    if let existing = links[peer], !existing.isEnding { return }
    linkEpoch += 1
    let link = PeerLink(connection: connection, reference: LinkReference(peer: peer, epoch: linkEpoch))
    links[peer] = link
    replica.update(connected: peer, services: [])
    Log.write(
      .info, "system", "link to \(connection.peer) as \(connection.role == .central ? "Central" : "Peripheral")")
    let waiting = wanted.removeValue(forKey: peer) ?? []
    if connection.role == .central {
      if waiting.isEmpty {
        // Cancelled while the connection was made.
        end(link)
        return
      }
    } else if !waiting.isEmpty {
      host?.cancelConnect(connection.peer)
    }
    for id in waiting.sorted() { if let session = sessions[id] { join(link, session) } }
  }

  private func end(_ link: PeerLink) {
    link.isEnding = true
    host?.disconnect(link.connection)
  }

  func connectFailed(_ address: DeviceAddress, _ status: HCIStatus) {
    guard let peer = peers.identifier(of: address) else { return }
    let reason: SystemError.Reason =
      switch status {
      case .connectionLimitExceeded, .rejectedLimitedResources, .memoryCapacityExceeded: .connectionLimitReached
      default: .connectionFailed
      }
    let error = SystemError(reason, "the controller refuses to connect \(address): \(status)")
    for id in (wanted.removeValue(forKey: peer) ?? []).sorted() {
      sessions[id]?.wantedPeers[peer] = nil
      post(.connectFailed(peer, error), to: id)
    }
  }

  /// Ends a session's use of a peer, pending or connected.
  func leave(_ peer: PeerIdentifier, session: ClientSession, notify: Bool) {
    session.delays[peer]?.disarm()
    session.delays[peer] = nil
    let wasWanted = session.wantedPeers.removeValue(forKey: peer) != nil
    if wanted[peer]?.remove(session.id) != nil, wanted[peer]?.isEmpty == true {
      wanted[peer] = nil
      if let address = peers.address(of: peer) { host?.cancelConnect(address) }
    }
    guard let link = links[peer], link.users.remove(session.id) != nil else {
      if wasWanted, notify, !session.leaving.contains(peer) {
        post(.disconnected(peer, nil, isReconnecting: false), to: session)
      }
      return
    }
    link.stale[session.id] = nil
    unsubscribe(session.id, from: link)
    if link.users.isEmpty, link.connection.role == .central {
      if notify { session.leaving.insert(peer) }
      end(link)
    } else if notify {
      post(.disconnected(peer, nil, isReconnecting: false), to: session)
    }
  }

  func disconnected(_ connection: Connection, _ reason: HCIStatus) {
    forgetClient(connection)
    guard let (peer, link) = links.first(where: { $0.value.connection === connection }) else { return }
    links[peer] = nil
    if case .idle = link.hashRead { caches.keep(link.cache, of: peer) }
    replica.update(connected: peer, services: nil)
    Log.write(.info, "system", "link to \(connection.peer) ended: \(reason)")
    for session in orderedSessions {
      if session.leaving.remove(peer) != nil {
        post(.disconnected(peer, nil, isReconnecting: false), to: session)
      } else if link.users.contains(session.id) {
        let reconnects = session.wantedPeers[peer]?.autoReconnect == true
        if reconnects {
          wanted[peer, default: []].insert(session.id)
        } else {
          session.wantedPeers[peer] = nil
        }
        let error = Self.error(for: reason, connection.peer)
        post(.disconnected(peer, error, isReconnecting: reconnects), to: session)
      }
    }
    if wanted[peer]?.isEmpty == false { host?.connect(connection.peer) }
  }

  /// Apple's error for a reason of Disconnection Complete.
  static func error(for reason: HCIStatus, _ peer: DeviceAddress) -> SystemError {
    let mapped: SystemError.Reason =
      switch reason {
      case .connectionTimeout, .llResponseTimeout, .instantPassed: .connectionTimeout
      case .remoteUserTerminatedConnection, .remoteLowResources, .remotePowerOff, .connectionTerminatedByLocalHost,
        .authenticationFailure, .terminatedDueToMICFailure:
        .peripheralDisconnected
      case .connectionFailedToBeEstablished: .connectionFailed
      default: .unknown
      }
    return SystemError(mapped, "the link to \(peer) ended: \(reason)")
  }

  func link(of connection: Connection) -> PeerLink? {
    guard let peer = peers.identifier(of: connection.peer), let link = links[peer], link.connection === connection
    else { return nil }
    return link
  }

  // MARK: - RSSI

  func readRSSI(_ token: RequestToken, _ reference: LinkReference, _ session: ClientSession) {
    guard let link = usable(reference, session) else {
      post(.rssiRead(token, reference, .failure(Self.notConnected(reference))), to: session)
      return
    }
    lastToken += 1
    rssiReads[lastToken] = (session.id, token, reference)
    host?.readRSSI(link.connection, token: lastToken)
  }

  func rssiRead(_ connection: Connection, _ token: UInt64, _ value: Int8?, _ status: HCIStatus) {
    guard let (session, appToken, reference) = rssiReads.removeValue(forKey: token) else { return }
    if let value {
      post(.rssiRead(appToken, reference, .success(value)), to: session)
    } else {
      let error = SystemError(
        .operationNotSupported, "the controller cannot read the RSSI of the link to \(connection.peer): \(status)")
      post(.rssiRead(appToken, reference, .failure(error)), to: session)
    }
  }

  /// The link that a session's request names, if it is that one and the session uses it.
  func usable(_ reference: LinkReference, _ session: ClientSession) -> PeerLink? {
    guard let link = links[reference.peer], link.reference == reference, link.users.contains(session.id) else {
      return nil
    }
    return link
  }

  static func notConnected(_ reference: LinkReference) -> SystemError {
    SystemError(.notConnected, "the connection to \(reference.peer) that this request is for has ended")
  }
}
