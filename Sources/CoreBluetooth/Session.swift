// SPDX-License-Identifier: Apache-2.0

import BLECore
import BLESystem
import Dispatch
import Foundation
import Synchronization

/// A value that the compiler cannot know to be safe to send; whoever makes one says why it is.
struct Unchecked<Value>: @unchecked Sendable {
  var value: Value
}

extension Data {
  /// The octets as an array; several times as fast as the array's initializer for any sequence.
  var octets: [UInt8] { unsafe withUnsafeBytes { unsafe [UInt8]($0) } }
}

/// What waits for a manager's queue.
enum Delivery: Sendable {
  case event(SystemEvent)
  case local(@Sendable (CBManager) -> Void)
}

/// The way of events from the engine's thread to a manager's queue.
///
/// One queued block delivers everything that is pending when it runs, one after another, also on a concurrent queue.
/// Holds the manager weakly: after its end nothing is delivered.
final class Session: Sendable {
  private struct Inbox {
    var pending: [Delivery] = []
    var isScheduled = false
    var isStarted = false
    weak var owner: CBManager?

    /// Whether a block has to be queued now; it is taken to be.
    mutating func schedules() -> Bool {
      guard isStarted, !isScheduled, !pending.isEmpty else { return false }
      isScheduled = true
      return true
    }

    /// Takes all that is pending, and leaves the memory of an earlier batch for what comes next.
    mutating func takePending() -> [Delivery] {
      var taken: [Delivery] = []
      swap(&taken, &pending)
      swap(&pending, &spare)
      return taken
    }

    /// At the end of a block: whether another has to be queued for what has come meanwhile. Keeps the memory of the batch
    /// `delivered`, unless it was an uncommonly large one.
    mutating func goesOn(after delivered: inout [Delivery]) -> Bool {
      if delivered.count <= Self.keptCountMax {
        delivered.removeAll(keepingCapacity: true)
        swap(&spare, &delivered)
      }
      isScheduled = !pending.isEmpty
      return isScheduled
    }

    /// The memory of a batch that has been delivered.
    private var spare: [Delivery] = []
    private static let keptCountMax = 512
  }

  private let queue: DispatchQueue
  private let inbox = Mutex(Inbox())
  let credits = CreditTable()

  init(queue: DispatchQueue) { self.queue = queue }

  /// Deliveries, kept back until here, may begin: `owner` is ready.
  func start(owner: CBManager) {
    let isDue = inbox.withLock { inbox in
      inbox.owner = owner
      inbox.isStarted = true
      return inbox.schedules()
    }
    if isDue { schedule() }
  }

  /// Takes the system's events, on its thread.
  func receive(_ events: [SystemEvent]) {
    for event in events { credits.note(event) }
    enqueue(events.lazy.map(Delivery.event))
  }

  /// Has `action` run on the queue, after everything that is pending.
  func post(_ action: @escaping @Sendable (CBManager) -> Void) { enqueue(CollectionOfOne(.local(action))) }

  private func enqueue(_ deliveries: some Collection<Delivery>) {
    guard !deliveries.isEmpty else { return }
    let copies = Unchecked(value: deliveries)  // Used at once, on this thread.
    let isDue = inbox.withLock { inbox in
      inbox.pending.append(contentsOf: copies.value)
      return inbox.schedules()
    }
    if isDue { schedule() }
  }

  private func schedule() { queue.async { self.drain() } }

  private func drain() {
    var (batch, owner) = inbox.withLock { ($0.takePending(), $0.owner) }
    for delivery in batch {
      // A manager that nobody else holds any more has come to its end.
      guard owner != nil, !isKnownUniquelyReferenced(&owner), let owner else { return }
      switch delivery {
      case .event(let event):
        owner.link.willDeliver(event)
        owner.link.expectAnswer()
        owner.process(event)
      case .local(let action): action(owner)
      }
    }
    // What came meanwhile waits for its turn, so that a stream of events leaves the queue to others, too.
    if inbox.withLock({ $0.goesOn(after: &batch) }) { schedule() }
  }
}

/// The room that the system has granted for write commands and value updates.
///
/// Grants count from the moment they arrive, on the engine's thread; the calls of the app take from them.
final class CreditTable: Sendable {
  private struct Room {
    var epoch: UInt32
    var count: Int
    /// The app was shown, or has brought about, that there is no room.
    var ranOut = false
  }

  private struct State {
    var writes: [PeerIdentifier: Room] = [:]
    var updates = 0
    var updateWasRefused = false
  }

  private let state = Mutex(State())

  /// So many write commands an app that does not look at `canSendWriteWithoutResponse` may have waiting.
  private static let overdraftMax = 256

  func note(_ event: SystemEvent) {
    switch event {
    case .stateChanged:
      state.withLock { $0 = State() }
    case .connected(let link, _, let credits):
      state.withLock { $0.writes[link.peer] = Room(epoch: link.epoch, count: credits) }
    case .disconnected(let peer, _, _):
      state.withLock { $0.writes[peer] = nil }
    case .writeCreditsGranted(let link, let count):
      state.withLock { state in
        guard state.writes[link.peer]?.epoch == link.epoch else { return }
        state.writes[link.peer]?.count += count
      }
    case .updateCreditsGranted(let count):
      state.withLock { $0.updates += count }
    default:
      break  // Says nothing of room.
    }
  }

  /// Whether a write command would be taken now; remembers that the app saw a no.
  func canWrite(_ link: LinkReference) -> Bool {
    state.withLock { state in
      guard let room = state.writes[link.peer], room.epoch == link.epoch else { return false }
      if room.count <= 0 { state.writes[link.peer]?.ranOut = true }
      return room.count > 0
    }
  }

  /// Takes room for one write command. Without room it is overdrawn, as each command gives its room back in the end;
  /// false: by too much already, the command is to be dropped.
  func takeWrite(_ link: LinkReference) -> Bool {
    state.withLock { state in
      guard var room = state.writes[link.peer], room.epoch == link.epoch, room.count > -Self.overdraftMax else {
        return false
      }
      room.count -= 1
      room.ranOut = room.ranOut || room.count <= 0
      state.writes[link.peer] = room
      return true
    }
  }

  /// Whether the app is to be told that there is room for write commands again.
  func takeWriteReadiness(_ link: LinkReference) -> Bool {
    state.withLock { state in
      guard let room = state.writes[link.peer], room.epoch == link.epoch, room.ranOut, room.count > 0 else {
        return false
      }
      state.writes[link.peer]?.ranOut = false
      return true
    }
  }

  /// Takes room for one value update; false, and remembered, if there is none.
  func takeUpdate() -> Bool {
    state.withLock { state in
      guard state.updates > 0 else {
        state.updateWasRefused = true
        return false
      }
      state.updates -= 1
      return true
    }
  }

  /// Whether the app is to be told that there is room for value updates again.
  func takeUpdateReadiness() -> Bool {
    state.withLock { state in
      guard state.updateWasRefused, state.updates > 0 else { return false }
      state.updateWasRefused = false
      return true
    }
  }
}
