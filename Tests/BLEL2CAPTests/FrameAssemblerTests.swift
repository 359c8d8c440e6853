// SPDX-License-Identifier: Apache-2.0

import BLECore
import BLEL2CAP
import TestSupport
import Testing

@Suite struct FrameAssemblerTests {
  static func frame(_ payload: [UInt8], cid: UInt16 = 4, length: UInt16? = nil) -> [UInt8] {
    var writer = ByteWriter()
    L2CAPHeader(length: length ?? UInt16(payload.count), channelID: ChannelID(rawValue: cid)).encode(into: &writer)
    writer.bytes(payload)
    return writer.bytes
  }

  static func receive(_ assembler: inout FrameAssembler, _ bytes: [UInt8], first: Bool) -> FrameAssembler.Outcome {
    assembler.receive(isFirst: first, bytes.span.bytes)
  }

  @Test func everyCutOfAFrameGivesTheSamePayload() {
    let payload = (0..<40).map { UInt8($0) }
    let frame = Self.frame(payload)
    var assembler = FrameAssembler()
    for first in 0...frame.count {
      for second in first...frame.count {
        var outcome = Self.receive(&assembler, Array(frame[..<first]), first: true)
        if first < frame.count {
          #expect(outcome == .incomplete)
          outcome = Self.receive(&assembler, Array(frame[first..<second]), first: false)
        }
        if first < frame.count, second < frame.count {
          #expect(outcome == .incomplete)
          outcome = Self.receive(&assembler, Array(frame[second...]), first: false)
        }
        #expect(outcome == .frame(.attribute))
        #expect([UInt8](assembler.payload) == payload)
      }
    }
    #expect(assembler.abandonedFrames == 0)
  }

  @Test func emptyPayloadIsAFrame() {
    var assembler = FrameAssembler()
    #expect(Self.receive(&assembler, Self.frame([], cid: 6), first: true) == .frame(.securityManager))
    #expect(assembler.payload.byteCount == 0)
  }

  @Test func continuationWithoutFirstIsDiscarded() {
    var assembler = FrameAssembler()
    #expect(Self.receive(&assembler, [1, 2, 3], first: false) == .discarded(.unexpectedContinuation))
    #expect(Self.receive(&assembler, Self.frame([1]), first: true) == .frame(.attribute))
    #expect(Self.receive(&assembler, [1], first: false) == .discarded(.unexpectedContinuation))
    #expect(assembler.payload.byteCount == 0)
  }

  @Test func moreOctetsThanAnnouncedCostTheFrameOnly() {
    var assembler = FrameAssembler()
    #expect(Self.receive(&assembler, Self.frame([1, 2, 3], length: 2), first: true) == .discarded(.tooLong))
    #expect(Self.receive(&assembler, Self.frame([1, 2], length: 4), first: true) == .incomplete)
    #expect(Self.receive(&assembler, [3, 4, 5], first: false) == .discarded(.tooLong))
    #expect(Self.receive(&assembler, Self.frame([7]), first: true) == .frame(.attribute))
    #expect([UInt8](assembler.payload) == [7])
  }

  @Test func newFirstFragmentReplacesAnIncompleteFrame() {
    var assembler = FrameAssembler()
    #expect(Self.receive(&assembler, Self.frame([1, 2], length: 4), first: true) == .incomplete)
    #expect(Self.receive(&assembler, Self.frame([9]), first: true) == .frame(.attribute))
    #expect([UInt8](assembler.payload) == [9])
    #expect(assembler.abandonedFrames == 1)
  }

  @Test func frameOverTheLimitIsSkippedToItsEnd() {
    var assembler = FrameAssembler(maximumPayload: 8)
    #expect(
      Self.receive(&assembler, Self.frame([1, 2, 3], length: 9), first: true) == .discarded(.overLimit(length: 9)))
    #expect(Self.receive(&assembler, [4, 5, 6], first: false) == .incomplete)
    #expect(Self.receive(&assembler, [7, 8, 9], first: false) == .incomplete)
    #expect(Self.receive(&assembler, [10], first: false) == .discarded(.unexpectedContinuation))
    #expect(Self.receive(&assembler, Self.frame([1, 2, 3, 4, 5, 6, 7, 8]), first: true) == .frame(.attribute))
  }

  @Test func nullChannelIsDiscarded() {
    var assembler = FrameAssembler()
    #expect(Self.receive(&assembler, Self.frame([1, 2], cid: 0), first: true) == .discarded(.nullChannel))
    #expect(Self.receive(&assembler, Self.frame([1, 2], cid: 0, length: 3), first: true) == .discarded(.nullChannel))
    #expect(Self.receive(&assembler, [3], first: false) == .incomplete)
    #expect(Self.receive(&assembler, Self.frame([9]), first: true) == .frame(.attribute))
  }

  /// Any fragments in any order: no payload beyond the limit, and a correct frame is taken right afterwards.
  @Test func anyFragmentsLeaveAWorkingAssembler() {
    let examples = [Self.frame([1, 2, 3]), Self.frame(Array(repeating: 7, count: 60)), Self.frame([])]
    let hostile = HostileBytes(seed: 0x12CA, count: 100_000, examples: examples)
    var random = SeededGenerator(seed: 0xF1A6)
    var assembler = FrameAssembler(maximumPayload: 64)
    for bytes in hostile {
      let outcome = Self.receive(&assembler, bytes, first: Bool.random(using: &random))
      let limit = if case .frame = outcome { 64 } else { 0 }
      if assembler.payload.byteCount > limit { Issue.record("seed \(hostile.seed): \(bytes.hex)") }
    }
    #expect(Self.receive(&assembler, Self.frame([5, 6]), first: true) == .frame(.attribute))
    #expect([UInt8](assembler.payload) == [5, 6])
  }
}
