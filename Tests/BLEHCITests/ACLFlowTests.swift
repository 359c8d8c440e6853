// SPDX-License-Identifier: Apache-2.0

import BLECore
import BLEHCI
import TestSupport
import Testing

private let one = ConnectionHandle(rawValue: 0x0001)
private let two = ConnectionHandle(rawValue: 0x0002)

/// A flow with the controller's side played by the test.
private struct Fixture {
  var flow: ACLFlow
  var out = PacketQueue<HCIPacketType>()
  var progress: [ACLProgress] = []

  init(length: Int, count: Int, handles: [ConnectionHandle] = [one, two]) {
    flow = ACLFlow(packetLength: length, packetCount: count)
    for handle in handles { flow.connect(handle) }
  }

  mutating func enqueue(_ handle: ConnectionHandle, _ count: Int) {
    let frame = (0..<count).map { UInt8(truncatingIfNeeded: $0) }
    let isQueued = flow.enqueue(handle, frame: frame.span.bytes)
    #expect(isQueued)
    flow.sendWaiting(out: &out, progress: &progress)
  }

  mutating func complete(_ entries: (ConnectionHandle, UInt16)...) throws {
    let event = NumberOfCompletedPackets(
      handles: entries.map { CompletedPackets(connectionHandle: $0.0, numCompletedPackets: $0.1) })
    let bytes = event.encoded
    try flow.receiveNumberOfCompletedPackets(bytes.span.bytes, out: &out, progress: &progress)
  }

  /// Each packet since the last call as "handle boundary length".
  mutating func sent() -> [String] {
    var packets: [String] = []
    while out.removeFirst({ type, bytes in
      #expect(type == .aclData)
      var reader = ByteReader(bytes)
      guard let header = try? ACLHeader(from: &reader) else { return }
      #expect(reader.remaining == Int(header.dataLength))
      packets.append("\(header.connectionHandle.rawValue) \(header.boundary) \(header.dataLength)")
    }) {}
    return packets
  }

  /// Since the last call, each as "handle +handed over -completed".
  mutating func moved() -> [String] {
    defer { progress = [] }
    return progress.map { "\($0.connectionHandle.rawValue) +\($0.handedOver) -\($0.completed)" }
  }
}

struct ACLFlowTests {
  @Test func framesAreCutToThePacketLength() {
    var fixture = Fixture(length: 27, count: 10, handles: [one])
    fixture.enqueue(one, 27)
    fixture.enqueue(one, 28)
    fixture.enqueue(one, 60)
    #expect(
      fixture.sent() == [
        "1 firstNonFlushable 27", "1 firstNonFlushable 27", "1 continuing 1", "1 firstNonFlushable 27",
        "1 continuing 27", "1 continuing 6",
      ])
    #expect(fixture.moved() == ["1 +3 -0"])
    #expect(fixture.flow.queuedFrames(one) == 0 && fixture.flow.packetsInFlight(one) == 6)
  }

  @Test func thePiecesAreTheFrame() {
    var fixture = Fixture(length: 10, count: 100)
    let frame = (0..<95).map { UInt8($0) }
    fixture.flow.enqueue(one) { $0.bytes(frame) }
    fixture.flow.sendWaiting(out: &fixture.out, progress: &fixture.progress)
    var joined: [UInt8] = []
    while fixture.out.removeFirst({ joined += [UInt8]($1).dropFirst(ACLHeader.byteCount) }) {}
    #expect(joined == frame)
  }

  @Test func neverMoreThanTheBuffers() throws {
    var fixture = Fixture(length: 27, count: 3, handles: [one])
    fixture.enqueue(one, 100)
    #expect(fixture.sent().count == 3)
    #expect(fixture.flow.freePackets == 0 && fixture.flow.queuedFrames(one) == 1)
    #expect(fixture.moved() == [])
    try fixture.complete((one, 1))
    #expect(fixture.sent() == ["1 continuing 19"])
    #expect(fixture.moved() == ["1 +1 -0"])
    try fixture.complete((one, 2))
    #expect(fixture.moved() == [])
    try fixture.complete((one, 1))
    #expect(fixture.moved() == ["1 +0 -1"])
    #expect(fixture.flow.freePackets == 3)
  }

  @Test func connectionsTakeTurns() throws {
    var fixture = Fixture(length: 27, count: 2)
    for _ in 0..<3 { fixture.enqueue(one, 5) }
    for _ in 0..<3 { fixture.enqueue(two, 6) }
    #expect(fixture.sent() == ["1 firstNonFlushable 5", "2 firstNonFlushable 6"])
    try fixture.complete((one, 1))
    #expect(fixture.sent() == ["1 firstNonFlushable 5"])
    try fixture.complete((one, 1), (two, 1))
    #expect(fixture.sent() == ["2 firstNonFlushable 6", "1 firstNonFlushable 5"])
    #expect(fixture.moved() == ["1 +3 -2", "2 +2 -1"])
  }

  /// A peer that takes nothing more holds buffers of the controller, but never all.
  @Test func aPeerThatTakesNothingLeavesBuffersToTheOthers() throws {
    let three = ConnectionHandle(rawValue: 0x0003)
    var fixture = Fixture(length: 27, count: 8, handles: [one, two, three])
    for _ in 0..<20 { fixture.enqueue(one, 5) }
    #expect(fixture.flow.packetsInFlight(one) == 4, "the only one with something to send: half")
    for _ in 0..<20 { fixture.enqueue(two, 5) }
    #expect(fixture.flow.packetsInFlight(two) == 3, "one stays free for the third")
    _ = fixture.sent()
    fixture.enqueue(three, 6)
    #expect(fixture.sent() == ["3 firstNonFlushable 6"])
    // Only the first does not move.
    for _ in 0..<10 { try fixture.complete((two, UInt16(fixture.flow.packetsInFlight(two)))) }
    #expect(fixture.flow.queuedFrames(two) == 0)
    try fixture.complete((three, 1))
    #expect(fixture.flow.packetsInFlight(one) == 4 && fixture.flow.queuedFrames(one) == 16)
  }

  @Test func aConnectionAloneHasAllBuffers() {
    var fixture = Fixture(length: 27, count: 8, handles: [one])
    for _ in 0..<20 { fixture.enqueue(one, 5) }
    #expect(fixture.flow.packetsInFlight(one) == 8)
  }

  @Test func unknownHandlesAndExcessAreIgnored() throws {
    var fixture = Fixture(length: 27, count: 2)
    try fixture.complete((one, 5))
    #expect(fixture.flow.freePackets == 2)
    fixture.enqueue(one, 5)
    try fixture.complete((ConnectionHandle(rawValue: 0x0EFF), 5), (two, 3))
    #expect(fixture.flow.freePackets == 1)
    try fixture.complete((one, 0xFFFF))
    #expect(fixture.flow.freePackets == 2)
    #expect(fixture.moved() == ["1 +1 -1"])
    let frame: [UInt8] = [1]
    let isQueued = fixture.flow.enqueue(ConnectionHandle(rawValue: 9), frame: frame.span.bytes)
    #expect(!isQueued)
    let isEmptyQueued = fixture.flow.enqueue(one) { _ in }
    #expect(!isEmptyQueued)
  }

  @Test func aDisconnectReturnsTheBuffers() throws {
    var fixture = Fixture(length: 27, count: 2)
    fixture.enqueue(one, 100)
    fixture.enqueue(two, 5)
    #expect(fixture.sent().count == 2)
    fixture.enqueue(two, 6)
    #expect(fixture.sent() == [], "no buffer is free")
    fixture.flow.disconnect(one)
    fixture.flow.sendWaiting(out: &fixture.out, progress: &fixture.progress)
    #expect(fixture.sent() == ["2 firstNonFlushable 6"])
    try fixture.complete((two, 1))
    #expect(fixture.flow.freePackets == 1 && fixture.flow.queuedFrames(one) == 0)
    // A report that crossed the disconnection.
    try fixture.complete((one, 2))
    #expect(fixture.flow.freePackets == 1)
    fixture.flow.connect(one)
    #expect(fixture.flow.packetsInFlight(one) == 0)
  }

  @Test func aMalformedReportChangesNothing() throws {
    var fixture = Fixture(length: 27, count: 2)
    fixture.enqueue(one, 5)
    for bytes in [[3, 1, 0, 1, 0], [], [1, 1, 0, 1], [1, 1, 0, 1, 0, 9]] as [[UInt8]] {
      #expect(throws: DecodeError.self) {
        try fixture.flow.receiveNumberOfCompletedPackets(
          bytes.span.bytes, out: &fixture.out, progress: &fixture.progress)
      }
    }
    #expect(fixture.flow.freePackets == 1)
  }

  /// Whatever happens, the controller is never given more than it has room for, nothing is lost or reordered, and in
  /// the end all is handed over and completed.
  @Test(arguments: 0..<100 as Range<UInt64>)
  func creditsBalance(seed: UInt64) throws {
    var random = SeededGenerator(seed: seed)
    let count = Int.random(in: 1...5, using: &random)
    var fixture = Fixture(length: Int.random(in: 1...30, using: &random), count: count)
    var inController: [ConnectionHandle: Int] = [one: 0, two: 0]
    var queued = 0
    var handedOver = 0
    var completed = 0

    func take() {
      while fixture.out.removeFirst({ _, bytes in
        var reader = ByteReader(bytes)
        guard let header = try? ACLHeader(from: &reader) else { return }
        inController[header.connectionHandle, default: 0] += 1
      }) {}
      for entry in fixture.progress {
        handedOver += entry.handedOver
        completed += entry.completed
      }
      fixture.progress = []
      #expect(inController.values.reduce(0, +) == count - fixture.flow.freePackets, "seed \(seed)")
      #expect(fixture.flow.freePackets >= 0, "seed \(seed)")
    }

    for _ in 0..<300 {
      let handle = Bool.random(using: &random) ? one : two
      if Bool.random(using: &random) {
        fixture.enqueue(handle, Int.random(in: 1...80, using: &random))
        queued += 1
      } else {
        let done = Int.random(in: 0...(inController[handle] ?? 0), using: &random)
        inController[handle, default: 0] -= done
        try fixture.complete((handle, UInt16(done)))
      }
      take()
    }
    for _ in 0..<10_000 where completed < queued {
      for handle in [one, two] {
        let done = inController[handle] ?? 0
        inController[handle] = 0
        try fixture.complete((handle, UInt16(done)))
        take()
      }
    }
    #expect(handedOver == queued && completed == queued, "seed \(seed)")
    #expect(fixture.flow.freePackets == count, "seed \(seed)")
  }
}
