// SPDX-License-Identifier: Apache-2.0

public import BLECore

/// Who is called when an event of the ``Simulator`` is due. One object may own several events and tells them
/// apart by `argument`.
protocol SimulatorEventHandler: AnyObject {
  func handleEvent(_ argument: UInt32)
}

/// One event that its owner arms, re-arms and disarms; it costs memory once and nothing while it is disarmed.
struct SimulatorEvent: Hashable, Sendable {
  fileprivate let index: Int32
}

/// The discrete-event core: simulated time, and the events that make it pass.
///
/// Time stands still until ``run(until:maximumEvents:)``, ``step()`` or ``advance(by:)`` moves it to the next armed
/// event. Events run in the order of their times, those of one time in the order in which they were armed, so a run
/// depends on its inputs alone. Arming and firing allocate nothing; each costs O(log n) in the armed events.
///
/// Its properties are exempt from checks of exclusive access, which took a third of a simulation's time: nothing that is
/// called while one of them is accessed leaves this file.
public final class Simulator: Scheduler {
  /// Simulated time; it moves with the events and never back.
  @exclusivity(unchecked) public private(set) var now: Instant
  /// Called when something outside a run armed an event that is earlier than all others, so that whoever paces the
  /// simulator by a wall clock sets its alarm anew. Never called during a run.
  @exclusivity(unchecked) public var onNewEarliestEvent: (() -> Void)?
  /// How many events have fired since the beginning.
  @exclusivity(unchecked) public private(set) var firedEventCount: UInt64 = 0

  @exclusivity(unchecked) private var queue = EventQueue()
  @exclusivity(unchecked) private var isRunning = false

  /// A simulator whose clock shows `start`.
  public init(start: Instant = .zero) { now = start }

  /// When the next event is due; nil if nothing is armed.
  public var nextEventTime: Instant? { queue.firstTime.map { Instant(nanoseconds: $0) } }

  /// Fires every event that is due until `limit`, then sets the clock to `limit` (it never goes back).
  ///
  /// - Parameter maximumEvents: fires no more events than these, so that a caller gets its turn in a busy world.
  /// - Returns: true when all is done; false when `maximumEvents` have fired and more are due. The clock then shows the
  ///   time of the last one.
  @discardableResult
  public func run(until limit: Instant, maximumEvents: Int = .max) -> Bool {
    precondition(!isRunning, "an event must not run the simulator that fired it")
    isRunning = true
    defer { isRunning = false }
    var budget = maximumEvents
    while let time = queue.firstTime, time <= limit.nanoseconds {
      guard budget > 0 else { return false }
      budget -= 1
      fireFirst()
    }
    if now < limit { now = limit }
    return true
  }

  /// Fires the next event, whenever it is due; false if none is armed.
  @discardableResult
  public func step() -> Bool {
    precondition(!isRunning, "an event must not run the simulator that fired it")
    guard queue.firstTime != nil else { return false }
    isRunning = true
    defer { isRunning = false }
    fireFirst()
    return true
  }

  /// Fires what is due in the next `span` and sets the clock forward by it.
  public func advance(by span: TimeSpan) { run(until: now + span) }

  /// A timer in simulated time; see ``Scheduler``.
  public func makeTimer(_ action: @escaping () -> Void) -> any SchedulerTimer { Timer(self, action) }

  private func fireFirst() {
    guard let (time, handler, argument) = queue.beginFirst() else { return }
    now = Instant(nanoseconds: time)
    firedEventCount &+= 1
    handler?.handleEvent(argument)
    queue.endFirst()
  }

  // MARK: - Events

  /// A disarmed event of `handler`, to be given back with ``release(_:)`` before `handler` dies.
  func makeEvent(_ handler: any SimulatorEventHandler, argument: UInt32 = 0) -> SimulatorEvent {
    SimulatorEvent(index: queue.makeSlot(handler, argument))
  }

  /// Disarms `event` and takes it back.
  func release(_ event: SimulatorEvent) { queue.releaseSlot(event.index) }

  /// Fires `event` once at `time`, or next if that has passed; replaces an earlier arming.
  func arm(_ event: SimulatorEvent, at time: Instant) {
    let isEarliest = queue.arm(event.index, at: max(time, now).nanoseconds)
    if isEarliest, !isRunning { onNewEarliestEvent?() }
  }

  func disarm(_ event: SimulatorEvent) { queue.disarm(event.index) }

  func isArmed(_ event: SimulatorEvent) -> Bool { queue.isArmed(event.index) }
}

/// A binary heap of armed slots, ordered by time and then by arming; each slot knows its place in it. A struct of its
/// own, so that each use costs one check of exclusive access and not one for each element it touches.
///
/// The event that is firing stays at the top until it is over, or until an event that its handler arms takes its place:
/// nearly all handlers arm one, and so the heap is put in order once and not twice.
private struct EventQueue {
  private struct Slot {
    /// Given back by its owner before that dies, and so never looked at afterwards.
    unowned(unsafe) var handler: (any SimulatorEventHandler)?
    var argument: UInt32
    /// Where the event is in the heap; -1 while it is disarmed.
    var position: Int32
  }

  private struct Entry {
    var time: Int64
    var sequence: UInt64
    var slot: Int32

    @inline(__always)
    static func < (a: Entry, b: Entry) -> Bool {
      a.time != b.time ? a.time < b.time : a.sequence < b.sequence
    }
  }

  private var slots: [Slot] = []
  private var freeSlots: [Int32] = []
  private var heap: [Entry] = []
  private var sequence: UInt64 = 0
  /// Whether the entry at the top belongs to the event that is firing.
  private var isTopFiring = false

  var firstTime: Int64? {
    guard isTopFiring else { return heap.first?.time }
    return heap.count > 2 ? min(heap[1].time, heap[2].time) : heap.dropFirst().first?.time
  }

  func isArmed(_ slot: Int32) -> Bool { slots[Int(slot)].position >= 0 }

  mutating func makeSlot(_ handler: any SimulatorEventHandler, _ argument: UInt32) -> Int32 {
    let slot = Slot(handler: handler, argument: argument, position: -1)
    if let index = freeSlots.popLast() {
      slots[Int(index)] = slot
      return index
    }
    slots.append(slot)
    return Int32(slots.count - 1)
  }

  mutating func releaseSlot(_ slot: Int32) {
    disarm(slot)
    slots[Int(slot)].handler = nil
    freeSlots.append(slot)
  }

  /// `true`: it comes before all others now.
  mutating func arm(_ slot: Int32, at time: Int64) -> Bool {
    sequence &+= 1
    let entry = Entry(time: time, sequence: sequence, slot: slot)
    let position = Int(slots[Int(slot)].position)
    if position < 0, isTopFiring {
      isTopFiring = false
      Self.siftDown(&heap, &slots, 0, entry)
    } else if position < 0 {
      heap.append(entry)
      Self.siftUp(&heap, &slots, heap.count - 1, entry)
    } else if entry < heap[position] {
      Self.siftUp(&heap, &slots, position, entry)
    } else {
      Self.siftDown(&heap, &slots, position, entry)
    }
    return heap[0].slot == slot
  }

  mutating func disarm(_ slot: Int32) {
    let position = Int(slots[Int(slot)].position)
    if position >= 0 { remove(at: position) }
  }

  /// The first event fires; ``endFirst()`` follows.
  mutating func beginFirst() -> (time: Int64, handler: (any SimulatorEventHandler)?, argument: UInt32)? {
    guard let first = heap.first else { return nil }
    let index = Int(first.slot)
    slots[index].position = -1
    isTopFiring = true
    return unsafe (first.time, slots[index].handler, slots[index].argument)
  }

  mutating func endFirst() {
    guard isTopFiring else { return }
    isTopFiring = false
    removeTop()
  }

  private mutating func removeTop() {
    guard let last = heap.popLast(), !heap.isEmpty else { return }
    Self.siftDown(&heap, &slots, 0, last)
  }

  private mutating func remove(at position: Int) {
    slots[Int(heap[position].slot)].position = -1
    guard let last = heap.popLast(), position < heap.count else { return }
    if position > 0, last < heap[(position - 1) / 2] {
      Self.siftUp(&heap, &slots, position, last)
    } else {
      Self.siftDown(&heap, &slots, position, last)
    }
  }

  // Static, and over spans, so that each array is looked at once and not for each element.

  /// Puts `entry` where the hole at `start` rises to.
  private static func siftUp(_ heap: inout [Entry], _ slots: inout [Slot], _ start: Int, _ entry: Entry) {
    var heap = heap.mutableSpan
    var slots = slots.mutableSpan
    var position = start
    while position > 0 {
      let parent = (position - 1) / 2
      let above = heap[parent]
      guard entry < above else { break }
      heap[position] = above
      slots[Int(above.slot)].position = Int32(truncatingIfNeeded: position)
      position = parent
    }
    heap[position] = entry
    slots[Int(entry.slot)].position = Int32(truncatingIfNeeded: position)
  }

  /// Puts `entry` where the hole at `start` sinks to.
  private static func siftDown(_ heap: inout [Entry], _ slots: inout [Slot], _ start: Int, _ entry: Entry) {
    var heap = heap.mutableSpan
    var slots = slots.mutableSpan
    var position = start
    while true {
      var child = 2 * position + 1
      guard child < heap.count else { break }
      if child + 1 < heap.count, heap[child + 1] < heap[child] { child += 1 }
      let below = heap[child]
      guard below < entry else { break }
      heap[position] = below
      slots[Int(below.slot)].position = Int32(truncatingIfNeeded: position)
      position = child
    }
    heap[position] = entry
    slots[Int(entry.slot)].position = Int32(truncatingIfNeeded: position)
  }
}

/// A host's timer: an event whose owner is itself.
private final class Timer: SchedulerTimer, SimulatorEventHandler {
  private let simulator: Simulator
  private let action: () -> Void
  private var event: SimulatorEvent?

  init(_ simulator: Simulator, _ action: @escaping () -> Void) {
    self.simulator = simulator
    self.action = action
    event = simulator.makeEvent(self)
  }

  deinit {
    if let event { simulator.release(event) }
  }

  func arm(at instant: Instant) {
    if let event { simulator.arm(event, at: instant) }
  }

  func disarm() {
    if let event { simulator.disarm(event) }
  }

  func handleEvent(_ argument: UInt32) { action() }
}
