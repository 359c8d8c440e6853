// SPDX-License-Identifier: Apache-2.0

import BLECore

/// Which way an HCI packet goes.
public enum HCIDirection: Hashable, Sendable {
  case hostToController, controllerToHost
}

/// Which end of a transport somebody holds.
public enum HCISide: Hashable, Sendable {
  case host, controller

  /// The way that packets go which this side sends.
  public var sends: HCIDirection { self == .host ? .hostToController : .controllerToHost }
  /// The way that packets go which this side receives.
  public var receives: HCIDirection { self == .host ? .controllerToHost : .hostToController }
}

/// A transport around another one. It stands in for that towards the receiver and passes everything on; what
/// happens on the way is up to ``outgoing(_:_:)`` and ``incoming(_:_:)``. It keeps the inner transport alive.
public class HCITransportWrapper: HCITransport, HCIReceiver {
  private let inner: any HCITransport
  /// The end that is wrapped.
  public let side: HCISide

  /// The inner transport gets a receiver only when this one has: until then it keeps what arrives.
  public weak var receiver: (any HCIReceiver)? {
    didSet { inner.receiver = receiver == nil ? nil : self }
  }

  fileprivate init(_ inner: any HCITransport, side: HCISide) {
    self.inner = inner
    self.side = side
  }

  public final func send(_ type: HCIPacketType, _ payload: RawSpan) { outgoing(type, payload) }
  public final func close() { inner.close() }
  public final func receive(_ type: HCIPacketType, _ payload: RawSpan) { incoming(type, payload) }
  public final func transportClosed(_ error: HCITransportError) { receiver?.transportClosed(error) }

  /// Called for each packet that the user sends; passes it on.
  fileprivate func outgoing(_ type: HCIPacketType, _ payload: RawSpan) { inner.send(type, payload) }
  /// Called for each packet that arrives; passes it on.
  fileprivate func incoming(_ type: HCIPacketType, _ payload: RawSpan) { receiver?.receive(type, payload) }
}

/// Shows every packet to a closure, before it is passed on: for captures.
public final class CapturingTransport: HCITransportWrapper {
  /// The payload is the packet without its H4 indicator, valid only during the call.
  public typealias Sink = (HCIDirection, HCIPacketType, RawSpan) -> Void
  private let sink: Sink

  /// Wraps the end `inner` of a transport, held by `side`.
  public init(_ inner: any HCITransport, side: HCISide = .host, sink: @escaping Sink) {
    self.sink = sink
    super.init(inner, side: side)
  }

  fileprivate override func outgoing(_ type: HCIPacketType, _ payload: RawSpan) {
    sink(side.sends, type, payload)
    super.outgoing(type, payload)
  }

  fileprivate override func incoming(_ type: HCIPacketType, _ payload: RawSpan) {
    sink(side.receives, type, payload)
    super.incoming(type, payload)
  }
}

/// Gives a closure one line of text for every packet (see ``HCITrace``).
public final class TracingTransport: HCITransportWrapper {
  private let log: (String) -> Void

  /// Wraps the end `inner` of a transport, held by `side`.
  public init(_ inner: any HCITransport, side: HCISide = .host, log: @escaping (String) -> Void) {
    self.log = log
    super.init(inner, side: side)
  }

  fileprivate override func outgoing(_ type: HCIPacketType, _ payload: RawSpan) {
    log(HCITrace.line(side.sends, type, payload))
    super.outgoing(type, payload)
  }

  fileprivate override func incoming(_ type: HCIPacketType, _ payload: RawSpan) {
    log(HCITrace.line(side.receives, type, payload))
    super.incoming(type, payload)
  }
}

/// Loses, doubles and damages packets by chance; the same seed and packets give the same faults. For tests.
public final class FaultInjectingTransport: HCITransportWrapper {
  /// How often what happens to a packet: each from 0 (never) to 1 (always).
  public struct Faults: Hashable, Sendable {
    /// The packet is not passed on.
    public var drop: Double
    /// The packet is passed on twice.
    public var duplicate: Double
    /// One bit of the packet is turned.
    public var corrupt: Double

    public init(drop: Double = 0, duplicate: Double = 0, corrupt: Double = 0) {
      self.drop = drop
      self.duplicate = duplicate
      self.corrupt = corrupt
    }
  }

  /// What has been done to packets so far.
  public struct Counts: Hashable, Sendable {
    public var dropped = 0
    public var duplicated = 0
    public var corrupted = 0
  }

  /// For packets that the user sends.
  public var outgoingFaults: Faults
  /// For packets that arrive.
  public var incomingFaults: Faults
  public private(set) var counts = Counts()
  private var random: SeededGenerator

  /// Wraps the end `inner` of a transport, held by `side`.
  public init(
    _ inner: any HCITransport, side: HCISide = .host, seed: UInt64, outgoing: Faults = Faults(),
    incoming: Faults = Faults()
  ) {
    outgoingFaults = outgoing
    incomingFaults = incoming
    random = SeededGenerator(seed: seed)
    super.init(inner, side: side)
  }

  fileprivate override func outgoing(_ type: HCIPacketType, _ payload: RawSpan) {
    let (copies, bytes) = disturb(payload, outgoingFaults)
    for _ in 0..<copies { super.outgoing(type, bytes.span.bytes) }
  }

  fileprivate override func incoming(_ type: HCIPacketType, _ payload: RawSpan) {
    let (copies, bytes) = disturb(payload, incomingFaults)
    for _ in 0..<copies { super.incoming(type, bytes.span.bytes) }
  }

  private func disturb(_ payload: RawSpan, _ faults: Faults) -> (copies: Int, bytes: [UInt8]) {
    var bytes = [UInt8](payload)
    if chance(faults.drop) {
      counts.dropped += 1
      return (0, bytes)
    }
    if chance(faults.corrupt), let index = bytes.indices.randomElement(using: &random) {
      counts.corrupted += 1
      bytes[index] ^= 1 << UInt8.random(in: 0..<8, using: &random)
    }
    guard chance(faults.duplicate) else { return (1, bytes) }
    counts.duplicated += 1
    return (2, bytes)
  }

  private func chance(_ probability: Double) -> Bool { Double.random(in: 0..<1, using: &random) < probability }
}
