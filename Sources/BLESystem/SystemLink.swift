// SPDX-License-Identifier: Apache-2.0

public import BLECore
import Synchronization

/// One session of an app with the system that owns the adapter.
///
/// In process it hands values to the engine's loop; the same messages can travel to a daemon. `send` may be called
/// on any thread and never blocks; the events come on the engine's thread, in batches, through the handler that
/// the session was opened with.
public protocol SystemLink: AnyObject, Sendable {
  func send(_ request: SystemRequest)
  /// The next request may be carried out on the thread that sends it, where the engine sleeps: for a callback that is
  /// about to begin. An answer to what it reports is often all that comes, and a thread that is woken for it costs more
  /// than the request; of a stream of requests the engine takes many at a time.
  func expectAnswer()
  /// What can be asked without waiting.
  var replica: SystemReplica { get }
  /// Ends the session: its scan, advertising, services and connections are gone, no event follows. Idempotent;
  /// also done when the last reference goes.
  func close()
  /// The app's side is about to act on `event`, on the app's queue; for those who watch.
  func willDeliver(_ event: SystemEvent)
}

extension SystemLink {
  public func willDeliver(_ event: SystemEvent) {}
}

/// Receives a session's events, in order, on the engine's thread; must not block.
public typealias SystemEventHandler = @Sendable ([SystemEvent]) -> Void

/// A copy of what apps ask synchronously, kept current by the system; read on any thread.
public final class SystemReplica: Sendable {
  private struct State {
    var peers: [PeerIdentifier: PeerInfo] = [:]
    var connected: [PeerIdentifier: Set<BluetoothUUID>] = [:]
    var state: AdapterState?
    var problem: String?
  }

  private let state = Mutex(State())
  private let resolve: @Sendable (PeerIdentifier) -> DeviceAddress?

  /// `resolve` finds the address behind an identifier that this host gave out earlier (see `PeerIdentity`).
  public init(resolve: @escaping @Sendable (PeerIdentifier) -> DeviceAddress?) { self.resolve = resolve }

  /// nil until the adapter has been looked at.
  public var adapterState: AdapterState? { state.withLock { $0.state } }

  /// What is known of a peer that this host has met, now or in an earlier run; nil for a foreign identifier.
  public func peer(_ identifier: PeerIdentifier) -> PeerInfo? {
    if let known = state.withLock({ $0.peers[identifier] }) { return known }
    guard let address = resolve(identifier) else { return nil }
    return PeerInfo(identifier: identifier, name: nil, address: address)
  }

  /// The peers connected by anyone on this system that have one of the services (Generic Access: every peer).
  public func connectedPeers(withServices services: [BluetoothUUID]) -> [PeerInfo] {
    state.withLock { state in
      state.connected
        .filter {
          $0.value.isEmpty == false && services.contains(where: $0.value.contains) || services.contains(0x1800)
        }
        .compactMap { state.peers[$0.key] }
        .sorted { ($0.identifier.high, $0.identifier.low) < ($1.identifier.high, $1.identifier.low) }
    }
  }

  /// Why the adapter cannot be used, and what to try; nil while it can.
  public var adapterProblem: String? { state.withLock { $0.problem } }

  func update(state new: AdapterState, problem: String? = nil) {
    state.withLock { state in
      state.state = new
      state.problem = new == .poweredOn ? nil : problem ?? state.problem
    }
  }

  func update(peer: PeerInfo) { state.withLock { $0.peers[peer.identifier] = peer } }

  func forget(allBut kept: Set<PeerIdentifier>) {
    state.withLock { $0.peers = $0.peers.filter { kept.contains($0.key) } }
  }

  /// `services` nil: no longer connected.
  func update(connected peer: PeerIdentifier, services: Set<BluetoothUUID>?) {
    state.withLock { $0.connected[peer] = services }
  }
}
