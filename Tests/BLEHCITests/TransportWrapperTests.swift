// SPDX-License-Identifier: Apache-2.0

import BLECore
import BLEHCI
import TestSupport
import Testing

/// A transport without another side: remembers what is sent, delivers what it is told to.
private final class LoneTransport: HCITransport {
  weak var receiver: (any HCIReceiver)?
  var sent: [[UInt8]] = []
  var isClosed = false

  func send(_ type: HCIPacketType, _ payload: RawSpan) { sent.append([type.rawValue] + [UInt8](payload)) }
  func close() { isClosed = true }
}

private final class Listener: HCIReceiver {
  var received: [[UInt8]] = []
  var error: HCITransportError?

  func receive(_ type: HCIPacketType, _ payload: RawSpan) { received.append([type.rawValue] + [UInt8](payload)) }
  func transportClosed(_ error: HCITransportError) { self.error = error }
}

struct TransportWrapperTests {
  private let inner = LoneTransport()
  private let listener = Listener()
  private let reset: [UInt8] = [0x03, 0x0C, 0x00]
  private let answer: [UInt8] = [0x0E, 0x04, 0x01, 0x03, 0x0C, 0x00]

  @Test func aCaptureSeesBothWaysAndChangesNothing() {
    var seen: [String] = []
    let transport = CapturingTransport(inner) { direction, type, payload in
      seen.append("\(direction) \(type.rawValue) \([UInt8](payload).hex)")
    }
    #expect(inner.receiver == nil)
    transport.receiver = listener
    transport.send(.command, reset.span.bytes)
    inner.receiver?.receive(.event, answer.span.bytes)
    #expect(seen == ["hostToController 1 030c00", "controllerToHost 4 0e0401030c00"])
    #expect(inner.sent == [[1] + reset] && listener.received == [[4] + answer])
    inner.receiver?.transportClosed(HCITransportError("gone"))
    transport.close()
    #expect(listener.error == HCITransportError("gone") && inner.isClosed)
    transport.receiver = nil
    #expect(inner.receiver == nil)
  }

  @Test func theControllersSideIsTheOtherWayRound() {
    var seen: [HCIDirection] = []
    let transport = CapturingTransport(inner, side: .controller) { direction, _, _ in seen.append(direction) }
    transport.receiver = listener
    transport.send(.event, answer.span.bytes)
    inner.receiver?.receive(.command, reset.span.bytes)
    #expect(seen == [.controllerToHost, .hostToController])
  }

  @Test func aTraceIsReadable() {
    let disconnection: [UInt8] = [0x05, 0x04, 0x00, 0x40, 0x00, 0x13]
    let damaged: [UInt8] = [0x05, 0x04, 0x00]
    let data: [UInt8] = [0x40, 0x20, 0x01, 0x00, 0x07]
    var lines: [String] = []
    let transport = TracingTransport(inner) { lines.append($0) }
    transport.receiver = listener
    var writer = ByteWriter()
    let handle = ConnectionHandle(rawValue: 0x40)
    let key = [UInt8](repeating: 0xAB, count: 16)
    LESetScanEnable(enable: true, filterDuplicates: false).encodePacket(into: &writer)
    transport.send(.command, writer.bytes.span.bytes)
    writer.removeAll()
    LELongTermKeyRequestReply(connectionHandle: handle, longTermKey: key).encodePacket(into: &writer)
    transport.send(.command, writer.bytes.span.bytes)
    inner.receiver?.receive(.event, answer.span.bytes)
    inner.receiver?.receive(.event, disconnection.span.bytes)
    inner.receiver?.receive(.event, damaged.span.bytes)
    inner.receiver?.receive(.aclData, data.span.bytes)
    #expect(
      lines == [
        "-> LE Set Scan Enable (0x200C) enable=true filterDuplicates=false",
        "-> LE Long Term Key Request Reply (0x201A) connectionHandle=0x0040 longTermKey=(secret)",
        "<- CommandComplete Reset (0x0C03) status=Success credits=1",
        "<- DisconnectionComplete status=Success connectionHandle=0x0040 reason=Remote User Terminated Connection",
        "<- malformed event, 3 octets: truncated: 4 octets needed at offset 2, 1 there",
        "<- ACL data 0x0040 first 1 octets",
      ])
    #expect(inner.sent.count == 2 && listener.received.count == 4)
  }

  private func run(seed: UInt64, _ faults: FaultInjectingTransport.Faults) -> (FaultInjectingTransport, LoneTransport) {
    let inner = LoneTransport()
    let transport = FaultInjectingTransport(inner, seed: seed, outgoing: faults)
    for _ in 0..<1000 { transport.send(.command, reset.span.bytes) }
    return (transport, inner)
  }

  @Test func faultsComeAsOftenAsToldAndTheSameForASeed() {
    let faults = FaultInjectingTransport.Faults(drop: 0.1, duplicate: 0.2, corrupt: 0.3)
    let (transport, inner) = run(seed: 1, faults)
    #expect(inner.sent == run(seed: 1, faults).1.sent)
    #expect(inner.sent != run(seed: 2, faults).1.sent)
    let counts = transport.counts
    #expect((50...150).contains(counts.dropped) && (120...250).contains(counts.duplicated))
    #expect((200...350).contains(counts.corrupted))
    #expect(inner.sent.count == 1000 - counts.dropped + counts.duplicated)
    #expect(inner.sent.contains { $0 != [1] + reset })
    #expect(run(seed: 1, .init()).1.sent.count == 1000)
    #expect(run(seed: 1, .init(drop: 1)).1.sent.isEmpty)
  }

  @Test func faultsOnTheWayIn() {
    let transport = FaultInjectingTransport(inner, seed: 3, incoming: .init(duplicate: 1))
    transport.receiver = listener
    inner.receiver?.receive(.event, answer.span.bytes)
    transport.send(.command, reset.span.bytes)
    #expect(listener.received == [[4] + answer, [4] + answer] && inner.sent == [[1] + reset])
  }
}
