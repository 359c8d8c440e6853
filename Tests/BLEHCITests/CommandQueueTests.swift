// SPDX-License-Identifier: Apache-2.0

import BLECore
import BLEHCI
import TestSupport
import Testing

/// A queue with the controller's side played by the test.
private struct Fixture {
  var queue = CommandQueue<Int>()
  var out = PacketQueue<HCIPacketType>()
  var completions: [CommandCompletion<Int>] = []
  var now = Instant.zero

  mutating func enqueue(_ command: some HCICommand, _ context: Int) {
    queue.enqueue(command, context: context, now: now, out: &out)
  }

  /// The opcodes sent since the last call.
  mutating func sent() -> [HCIOpcode] {
    var opcodes: [HCIOpcode] = []
    while out.removeFirst({ type, packet in
      #expect(type == .command)
      opcodes.append((try? HCICommandPacket(packet))?.opcode ?? HCIOpcode(rawValue: 0xFFFF))
    }) {}
    return opcodes
  }

  mutating func complete(_ opcode: HCIOpcode, credits: UInt8 = 1, _ parameters: [UInt8] = [0]) throws {
    let event = CommandComplete(numHCICommandPackets: credits, commandOpcode: opcode)
    let bytes = event.encoded + parameters
    let isTaken = try queue.receive(.commandComplete, bytes.span.bytes, now: now, completions: &completions, out: &out)
    #expect(isTaken)
  }

  mutating func status(_ opcode: HCIOpcode, _ status: HCIStatus, credits: UInt8 = 1) throws {
    let bytes = CommandStatus(status: status, numHCICommandPackets: credits, commandOpcode: opcode).encoded
    let isTaken = try queue.receive(.commandStatus, bytes.span.bytes, now: now, completions: &completions, out: &out)
    #expect(isTaken)
  }

  mutating func timeout() {
    queue.handleTimeout(now: now, completions: &completions, out: &out)
  }

  /// Contexts and outcomes since the last call.
  mutating func results() -> [String] {
    defer { completions = [] }
    return completions.map { "\($0.context) \($0.outcome)" }
  }
}

struct CommandQueueTests {
  @Test func oneCommandIsOutstandingAtTheStart() throws {
    var fixture = Fixture()
    fixture.enqueue(Reset(), 1)
    fixture.enqueue(ReadBDADDR(), 2)
    fixture.enqueue(LERand(), 3)
    #expect(fixture.sent() == [Reset.opcode])
    try fixture.complete(Reset.opcode)
    #expect(fixture.sent() == [ReadBDADDR.opcode])
    #expect(fixture.results() == ["1 complete([0])"])
    try fixture.complete(ReadBDADDR.opcode, [0, 1, 2, 3, 4, 5, 6])
    #expect(fixture.sent() == [LERand.opcode])
    #expect(fixture.results() == ["2 complete([0, 1, 2, 3, 4, 5, 6])"])
    #expect(fixture.queue.count == 1)
  }

  @Test func asManyAsTheControllerTakes() throws {
    var fixture = Fixture()
    fixture.enqueue(Reset(), 1)
    try fixture.complete(Reset.opcode, credits: 3)
    for context in 2...6 { fixture.enqueue(LERand(), context) }
    #expect(fixture.sent() == [Reset.opcode, LERand.opcode, LERand.opcode, LERand.opcode])
    // Answers to the same command come in order.
    try fixture.complete(LERand.opcode, credits: 3, [0, 9])
    #expect(fixture.results() == ["1 complete([0])", "2 complete([0, 9])"])
    #expect(fixture.sent() == [LERand.opcode])
  }

  @Test func withoutCreditNothingIsSentUntilOneComes() throws {
    var fixture = Fixture()
    fixture.enqueue(LERand(), 1)
    try fixture.complete(LERand.opcode, credits: 0)
    fixture.enqueue(ReadBDADDR(), 2)
    #expect(fixture.sent() == [LERand.opcode])
    try fixture.complete(HCIOpcode(rawValue: 0), credits: 1, [])
    #expect(fixture.sent() == [ReadBDADDR.opcode])
    #expect(fixture.results() == ["1 complete([0])"])
    try fixture.status(ReadBDADDR.opcode, .unknownHCICommand, credits: 0)
    fixture.enqueue(LERand(), 3)
    #expect(fixture.sent() == [])
    try fixture.status(HCIOpcode(rawValue: 0), .success, credits: 1)
    #expect(fixture.sent() == [LERand.opcode])
  }

  @Test func resetNeedsNoCredit() throws {
    var fixture = Fixture()
    fixture.enqueue(LERand(), 1)
    try fixture.complete(LERand.opcode, credits: 0)
    fixture.enqueue(Reset(), 2)
    #expect(fixture.sent() == [LERand.opcode, Reset.opcode])
  }

  @Test func resetEndsWhatWasOutstanding() throws {
    var fixture = Fixture()
    fixture.enqueue(LERand(), 1)
    fixture.enqueue(Reset(), 2)
    #expect(fixture.sent() == [LERand.opcode, Reset.opcode])
    try fixture.complete(Reset.opcode)
    #expect(fixture.results() == ["1 timedOut", "2 complete([0])"])
    #expect(fixture.queue.nextDeadline == nil)
  }

  @Test func commandStatusEndsACommand() throws {
    var fixture = Fixture()
    fixture.enqueue(LEReadRemoteFeatures(connectionHandle: ConnectionHandle(rawValue: 1)), 1)
    try fixture.status(LEReadRemoteFeatures.opcode, .success)
    fixture.enqueue(LEReadRemoteFeatures(connectionHandle: ConnectionHandle(rawValue: 1)), 2)
    try fixture.status(LEReadRemoteFeatures.opcode, .unknownConnectionIdentifier)
    let outcomes = fixture.completions.map(\.outcome)
    #expect(outcomes == [.status(.success), .status(.unknownConnectionIdentifier)])
    #expect(fixture.queue.count == 0)
  }

  @Test func eachCommandHasADeadlineFromItsSending() throws {
    var fixture = Fixture()
    fixture.enqueue(ReadBDADDR(), 1)
    fixture.enqueue(LERand(), 2)
    #expect(fixture.queue.nextDeadline == .zero + .seconds(2))
    fixture.now = .zero + .milliseconds(1999)
    fixture.timeout()
    #expect(fixture.results() == [])
    fixture.now = .zero + .seconds(2)
    fixture.timeout()
    #expect(fixture.results() == ["1 timedOut"])
    #expect(fixture.sent() == [ReadBDADDR.opcode, LERand.opcode])
    #expect(fixture.queue.nextDeadline == .zero + .seconds(4))
    // The late answer is nobody's.
    try fixture.complete(ReadBDADDR.opcode, [0, 1, 2, 3, 4, 5, 6])
    #expect(fixture.results() == [])
    try fixture.complete(LERand.opcode)
    #expect(fixture.results() == ["2 complete([0])"])
    #expect(fixture.queue.nextDeadline == nil)
  }

  @Test func aControllerThatNeverGivesACreditDoesNotHoldUpForever() throws {
    var fixture = Fixture()
    fixture.enqueue(LERand(), 1)
    try fixture.complete(LERand.opcode, credits: 0)
    _ = fixture.results()
    fixture.enqueue(ReadBDADDR(), 2)
    fixture.enqueue(LERand(), 3)
    #expect(fixture.queue.nextDeadline == .zero + .seconds(2))
    fixture.now = .zero + .seconds(2)
    fixture.timeout()
    #expect(fixture.results() == ["2 timedOut"])
    #expect(fixture.queue.nextDeadline == .zero + .seconds(4))
    fixture.now = .zero + .seconds(4)
    fixture.timeout()
    #expect(fixture.results() == ["3 timedOut"])
    #expect(fixture.queue.nextDeadline == nil)
    #expect(fixture.sent() == [LERand.opcode])
  }

  @Test func unsolicitedAnswersOnlyChangeTheCredits() throws {
    var fixture = Fixture()
    try fixture.complete(LERand.opcode, credits: 2)
    #expect(fixture.results() == [])
    fixture.enqueue(LERand(), 1)
    fixture.enqueue(ReadBDADDR(), 2)
    #expect(fixture.sent() == [LERand.opcode, ReadBDADDR.opcode])
  }

  @Test func otherAndMalformedEventsChangeNothing() throws {
    var fixture = Fixture()
    fixture.enqueue(LERand(), 1)
    let short: [UInt8] = [1]
    #expect(throws: DecodeError.self) {
      _ = try fixture.queue.receive(
        .commandComplete, short.span.bytes, now: .zero, completions: &fixture.completions, out: &fixture.out)
    }
    let other = try fixture.queue.receive(
      .hardwareError, short.span.bytes, now: .zero, completions: &fixture.completions, out: &fixture.out)
    #expect(!other && fixture.queue.count == 1)
  }

  @Test func removeAllStartsAnew() throws {
    var fixture = Fixture()
    fixture.enqueue(LERand(), 1)
    try fixture.complete(LERand.opcode, credits: 0)
    fixture.enqueue(LERand(), 2)
    fixture.queue.removeAll()
    #expect(fixture.queue.count == 0 && fixture.queue.nextDeadline == nil)
    fixture.enqueue(ReadBDADDR(), 3)
    #expect(fixture.sent() == [LERand.opcode, ReadBDADDR.opcode])
  }

  @Test func returnParametersAreDecodedFromTheOutcome() throws {
    let answer = CommandOutcome.complete([0, 1, 0, 0xC3])
    let value = try #require(try answer.returnParameters(of: ReadRSSI.self))
    #expect(value.rssi == -61 && value.status == .success && answer.status == .success)
    // Octets of a later version are ignored, missing ones are an error, those of a failure are zero.
    #expect(try CommandOutcome.complete([0, 1, 0, 0xC3, 9]).returnParameters(of: ReadRSSI.self) == value)
    #expect(throws: DecodeError.self) {
      _ = try CommandOutcome.complete([0, 1]).returnParameters(of: ReadRSSI.self)
    }
    let failed = try CommandOutcome.complete([2]).returnParameters(of: ReadRSSI.self)
    #expect(failed == ReadRSSI.ReturnParameters(status: .unknownConnectionIdentifier))
    #expect(
      try CommandOutcome.status(.commandDisallowed).returnParameters(of: ReadRSSI.self)?.status == .commandDisallowed)
    #expect(try CommandOutcome.timedOut.returnParameters(of: ReadRSSI.self) == nil)
    #expect(CommandOutcome.timedOut.status == nil)
  }
}
