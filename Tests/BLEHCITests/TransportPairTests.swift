// SPDX-License-Identifier: Apache-2.0

import BLECore
import BLEHCI
import TestSupport
import Testing

/// Remembers what arrives, and may answer it from inside `receive`.
private final class Peer: HCIReceiver {
  let transport: any HCITransport
  var received: [UInt8] = []
  var errors: [HCITransportError] = []
  var onReceive: (UInt8) -> Void = { _ in }

  init(_ transport: any HCITransport) { self.transport = transport }

  func receive(_ type: HCIPacketType, _ payload: RawSpan) {
    let value = [UInt8](payload).first ?? 0
    received.append(value)
    onReceive(value)
  }

  func transportClosed(_ error: HCITransportError) { errors.append(error) }

  func send(_ value: UInt8) {
    let bytes = [value]
    transport.send(.aclData, bytes.span.bytes)
  }
}

struct TransportPairTests {
  private let scheduler = ManualScheduler()
  private let host: Peer
  private let controller: Peer

  init() {
    let pair = HCITransportPair(scheduler: scheduler)
    host = Peer(pair.host)
    controller = Peer(pair.controller)
  }

  private func attach() {
    host.transport.receiver = host
    controller.transport.receiver = controller
  }

  @Test func packetsArriveInOrderAndNeverInsideSend() {
    attach()
    for value in 1...5 as ClosedRange<UInt8> { host.send(value) }
    #expect(controller.received == [])
    scheduler.run()
    #expect(controller.received == [1, 2, 3, 4, 5] && host.received == [])
  }

  @Test func anAnswerComesAfterTheCall() {
    attach()
    let (host, controller) = (host, controller)
    var depth = 0
    controller.onReceive = { value in
      depth += 1
      #expect(depth == 1)
      controller.send(value + 100)
      depth -= 1
    }
    host.onReceive = { value in if value < 103 { host.send(value - 99) } }
    host.send(1)
    scheduler.run()
    #expect(controller.received == [1, 2, 3] && host.received == [101, 102, 103])
  }

  @Test func packetsWaitForAReceiver() {
    host.send(1)
    host.send(2)
    scheduler.run()
    controller.transport.receiver = controller
    scheduler.run()
    #expect(controller.received == [1, 2])
  }

  @Test func aReceiverThatLeavesLosesNothing() {
    attach()
    let controller = controller
    controller.onReceive = { value in if value == 2 { controller.transport.receiver = nil } }
    for value in 1...4 as ClosedRange<UInt8> { host.send(value) }
    scheduler.run()
    host.send(5)
    #expect(controller.received == [1, 2])
    controller.transport.receiver = controller
    scheduler.run()
    #expect(controller.received == [1, 2, 3, 4, 5])
  }

  @Test func closingTellsTheOtherSideOnce() {
    attach()
    host.send(1)
    host.transport.close()
    host.send(2)
    controller.send(3)
    scheduler.run()
    #expect(controller.received == [1] && host.received == [])
    #expect(controller.errors.count == 1 && host.errors.isEmpty)
    controller.transport.close()
    scheduler.run()
    #expect(controller.errors.count == 1 && host.errors.isEmpty)
  }

  @Test func closingInsideReceiveEndsDelivery() {
    attach()
    let controller = controller
    controller.onReceive = { _ in controller.transport.close() }
    for value in 1...3 as ClosedRange<UInt8> { host.send(value) }
    scheduler.run()
    #expect(controller.received == [1] && controller.errors.isEmpty && host.errors.count == 1)
  }

  @Test func aCommandTimesOutOnTheScheduler() {
    attach()
    var queue = CommandQueue<Int>()
    var out = PacketQueue<HCIPacketType>()
    var completions: [CommandCompletion<Int>] = []
    queue.enqueue(Reset(), context: 1, now: scheduler.now, out: &out)
    scheduler.advance(by: .seconds(2))
    queue.handleTimeout(now: scheduler.now, completions: &completions, out: &out)
    #expect(completions.map(\.outcome) == [.timedOut])
  }
}
