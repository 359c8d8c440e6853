// SPDX-License-Identifier: Apache-2.0

public import BLECore

/// L2CAP frames of one connection that moved on.
public struct ACLProgress: Hashable, Sendable {
  public var connectionHandle: ConnectionHandle
  /// Frames whose last packet went to the controller: their buffers here are free.
  public var handedOver: Int
  /// Frames whose last packet the controller has completed.
  public var completed: Int

  public init(connectionHandle: ConnectionHandle, handedOver: Int, completed: Int) {
    self.connectionHandle = connectionHandle
    self.handedOver = handedOver
    self.completed = completed
  }
}

/// ACL data from host to controller (Vol 4 Part E 4.1.1): cuts L2CAP frames into packets, never has more packets in
/// the controller than it has buffers, and serves the connections in turn, a packet each.
///
/// The controller's buffers are shared so that a peer that takes its packets slowly, or not at all, does not hold up
/// the others: a connection has no more of them than an even share among those that have something to send, half of
/// them if it is the only such one of several; and for each connection that has nothing in the controller one stays free,
/// as far as half of them go.
///
/// In steady state nothing is allocated.
public struct ACLFlow {
  /// Octets of data in one packet, at most.
  public let packetLength: Int
  /// Packets that fit in the controller.
  public let packetCount: Int

  private struct Packet {
    var isFirst: Bool
    var isLast: Bool
  }

  private struct Link {
    let handle: ConnectionHandle
    var packets = PacketQueue<Packet>()
    /// Frames not wholly handed over.
    var queuedFrames = 0
    /// For each packet in the controller, oldest first, whether it ends a frame.
    var inFlight = Fifo<Bool>()
  }

  private var links: [Link] = []
  private var inFlight = 0
  private var turn = 0
  private var scratch = ByteWriter()

  /// `packetLength` and `packetCount` are what LE Read Buffer Size (or Read Buffer Size) returned; neither may be 0.
  public init(packetLength: Int, packetCount: Int) {
    self.packetLength = max(1, min(packetLength, 0xFFFF))
    self.packetCount = max(1, packetCount)
  }

  /// Buffers of the controller that are free.
  public var freePackets: Int { packetCount - inFlight }

  /// Opens the flow of a new connection. A connection that has one is closed first.
  public mutating func connect(_ handle: ConnectionHandle) {
    disconnect(handle)
    links.append(Link(handle: handle))
  }

  /// Ends the flow of a connection that is gone: what waits is dropped, its packets in the controller count as
  /// completed (Vol 4 Part E 4.1.1). Call ``sendWaiting(out:progress:)`` afterwards.
  public mutating func disconnect(_ handle: ConnectionHandle) {
    guard let index = index(of: handle) else { return }
    inFlight -= links[index].inFlight.count
    links.remove(at: index)
    if turn > index { turn -= 1 }
  }

  /// Frames of `handle` that are not wholly handed over; 0 for an unknown handle.
  public func queuedFrames(_ handle: ConnectionHandle) -> Int {
    index(of: handle).map { links[$0].queuedFrames } ?? 0
  }

  /// Packets of `handle` in the controller; 0 for an unknown handle.
  public func packetsInFlight(_ handle: ConnectionHandle) -> Int {
    index(of: handle).map { links[$0].inFlight.count } ?? 0
  }

  /// Queues one L2CAP frame that `body` writes; false if the connection is unknown (or the frame empty).
  /// Call ``sendWaiting(out:progress:)`` afterwards.
  @discardableResult
  public mutating func enqueue(_ handle: ConnectionHandle, _ body: (inout ByteWriter) -> Void) -> Bool {
    var writer = ByteWriter()
    swap(&writer, &scratch)
    writer.removeAll()
    body(&writer)
    let isQueued = enqueue(handle, frame: writer.bytes.span.bytes)
    swap(&writer, &scratch)
    return isQueued
  }

  /// Queues one L2CAP frame; false if the connection is unknown (or the frame empty).
  @discardableResult
  public mutating func enqueue(_ handle: ConnectionHandle, frame: RawSpan) -> Bool {
    guard let index = index(of: handle), !frame.isEmpty else { return false }
    var offset = 0
    while offset < frame.byteCount {
      let end = min(offset + packetLength, frame.byteCount)
      let packet = Packet(isFirst: offset == 0, isLast: end == frame.byteCount)
      let header = ACLHeader(
        connectionHandle: handle, boundary: packet.isFirst ? .firstNonFlushable : .continuing,
        dataLength: UInt16(truncatingIfNeeded: end - offset))
      let part = frame.extracting(offset..<end)
      links[index].packets.append(packet) {
        header.encode(into: &$0)
        $0.bytes(part)
      }
      offset = end
    }
    links[index].queuedFrames += 1
    return true
  }

  /// Hands over as many packets as the controller has room for, and says in `progress` which frames are done.
  public mutating func sendWaiting(out: inout PacketQueue<HCIPacketType>, progress: inout [ACLProgress]) {
    guard inFlight < packetCount else { return }
    let share = share
    var absent = links.count { $0.inFlight.count == 0 }
    var idle = 0
    while inFlight < packetCount, idle < links.count {
      if turn >= links.count { turn = 0 }
      let index = turn
      turn += 1
      guard let packet = links[index].packets.first,
        links[index].inFlight.count == 0
          || links[index].inFlight.count < share && freePackets > min(absent, packetCount / 2)
      else {
        idle += 1
        continue
      }
      idle = 0
      if links[index].inFlight.count == 0 { absent -= 1 }
      links[index].packets.removeFirst { _, bytes in out.append(.aclData, bytes) }
      links[index].inFlight.append(packet.isLast)
      inFlight += 1
      guard packet.isLast else { continue }
      links[index].queuedFrames -= 1
      note(links[index].handle, handedOver: 1, completed: 0, in: &progress)
    }
  }

  /// The buffers that one connection may have.
  private var share: Int {
    guard links.count > 1 else { return packetCount }
    let busy = links.count { !$0.packets.isEmpty || $0.inFlight.count > 0 }
    return max(1, packetCount / max(2, busy))
  }

  /// Takes the parameters of a Number Of Completed Packets event. Unknown handles are ignored, and a count beyond
  /// what is in the controller frees only that. Throws if the event is malformed: then nothing has changed.
  public mutating func receiveNumberOfCompletedPackets(
    _ parameters: RawSpan, out: inout PacketQueue<HCIPacketType>, progress: inout [ACLProgress]
  ) throws(DecodeError) {
    try CompletedPackets.forEach(in: parameters) { handle, count in
      completePackets(handle, Int(count), progress: &progress)
    }
    sendWaiting(out: &out, progress: &progress)
  }

  private mutating func completePackets(_ handle: ConnectionHandle, _ count: Int, progress: inout [ACLProgress]) {
    guard let index = index(of: handle) else { return }
    let count = min(count, links[index].inFlight.count)
    var frames = 0
    for _ in 0..<count where links[index].inFlight.removeFirst() == true { frames += 1 }
    inFlight -= count
    if frames > 0 { note(handle, handedOver: 0, completed: frames, in: &progress) }
  }

  private func index(of handle: ConnectionHandle) -> Int? { links.firstIndex { $0.handle == handle } }

  private func note(
    _ handle: ConnectionHandle, handedOver: Int, completed: Int, in progress: inout [ACLProgress]
  ) {
    if let index = progress.firstIndex(where: { $0.connectionHandle == handle }) {
      progress[index].handedOver += handedOver
      progress[index].completed += completed
    } else {
      progress.append(ACLProgress(connectionHandle: handle, handedOver: handedOver, completed: completed))
    }
  }
}

/// A first-in first-out line in a ring that grows by doubling and keeps its memory.
struct Fifo<Element> {
  private var ring: [Element?] = []
  private var head = 0
  private(set) var count = 0

  mutating func append(_ element: Element) {
    if count == ring.count { grow() }
    ring[(head + count) % ring.count] = element
    count += 1
  }

  mutating func removeFirst() -> Element? {
    guard count > 0 else { return nil }
    let element = ring[head]
    ring[head] = nil
    head = (head + 1) % ring.count
    count -= 1
    return element
  }

  private mutating func grow() {
    var larger: [Element?] = []
    larger.reserveCapacity(max(8, ring.count * 2))
    for index in 0..<count { larger.append(ring[(head + index) % ring.count]) }
    while larger.count < max(8, ring.count * 2) { larger.append(nil) }
    ring = larger
    head = 0
  }
}
