// SPDX-License-Identifier: Apache-2.0

public import BLECore

/// A channel identifier (Vol 3 Part A 2.1).
@frozen
public struct ChannelID: RawRepresentable, Hashable, Sendable {
  public let rawValue: UInt16
  @inlinable public init(rawValue: UInt16) { self.rawValue = rawValue }

  /// The Attribute Protocol's fixed channel.
  public static let attribute = ChannelID(rawValue: 0x0004)
  /// The LE signalling channel.
  public static let signaling = ChannelID(rawValue: 0x0005)
  /// The Security Manager's fixed channel.
  public static let securityManager = ChannelID(rawValue: 0x0006)

  /// Whether LE allocates the identifier to credit-based channels: 0x0040-0x007F (Vol 3 Part A 2.1).
  @inlinable public var isDynamic: Bool { (0x0040...0x007F).contains(rawValue) }
}

extension ChannelID: CustomStringConvertible {
  public var description: String {
    switch self {
    case .attribute: "ATT"
    case .signaling: "signalling"
    case .securityManager: "SMP"
    default: "CID 0x" + String(rawValue, radix: 16)
    }
  }
}

/// The basic L2CAP header (Vol 3 Part A 3.1): in front of every frame.
public struct L2CAPHeader: WireCodable, Hashable, Sendable {
  /// Octets of the header itself.
  public static let byteCount = 4
  /// Octets of payload that follow the header.
  public var length: UInt16
  public var channelID: ChannelID

  public init(length: UInt16, channelID: ChannelID) {
    self.length = length
    self.channelID = channelID
  }

  public init(from reader: inout ByteReader) throws(DecodeError) {
    length = try reader.u16()
    channelID = ChannelID(rawValue: try reader.u16())
  }

  public func encode(into writer: inout ByteWriter) {
    writer.u16(length)
    writer.u16(channelID.rawValue)
  }
}

/// Puts the frames of one connection together from the fragments that HCI ACL packets carry
/// (Vol 3 Part A 7.2.2).
///
/// A frame is complete with exactly the octets its header announces. Whatever breaks that rule costs the frame it
/// happens in and nothing else: the next first fragment starts afresh. The buffer is reused and never grows beyond
/// ``maximumPayload``.
public struct FrameAssembler {
  /// What a fragment did.
  public enum Outcome: Hashable, Sendable {
    /// The frame is not complete yet.
    case incomplete
    /// A frame is complete: its octets are ``payload`` until the next call of ``receive(isFirst:_:)``.
    case frame(ChannelID)
    /// The fragment, or what had been collected of its frame, was thrown away.
    case discarded(Reason)
  }

  /// Which rule a fragment broke.
  public enum Reason: Hashable, Sendable {
    /// A continuation without the first fragment of a frame.
    case unexpectedContinuation
    /// More octets than the frame's header announced.
    case tooLong
    /// The header announces more than ``FrameAssembler/maximumPayload``; the rest of the frame is skipped silently.
    case overLimit(length: UInt16)
    /// The channel identifier 0x0000, which no channel has.
    case nullChannel
  }

  private enum State {
    case idle
    /// Fewer than four octets are there.
    case header
    case payload(L2CAPHeader)
    /// The frame is complete and on offer.
    case complete
    /// The frame is refused; `remaining` octets of it are still to come.
    case skipping(remaining: Int)
  }

  /// The longest payload that is put together; a frame that announces more is skipped.
  public let maximumPayload: Int
  /// How many frames were left incomplete because a new one began.
  public private(set) var abandonedFrames = 0
  private var state = State.idle
  private var buffer = ByteWriter()

  /// An assembler for frames of up to `maximumPayload` octets (0-65535). The default holds an ATT PDU of any MTU in
  /// use (517) and a large frame of a credit-based channel.
  public init(maximumPayload: Int = 4096) {
    self.maximumPayload = min(max(maximumPayload, 0), 0xFFFF)
  }

  /// The payload of the frame that the last call completed, without the header. Empty in any other case.
  public var payload: RawSpan {
    @_lifetime(borrow self)
    borrowing get {
      let start = if case .complete = state { L2CAPHeader.byteCount } else { buffer.bytes.count }
      return buffer.bytes.span.bytes.extracting(start..<buffer.bytes.count)
    }
  }

  /// Takes the data of one ACL packet; `isFirst` tells a first fragment (PB 00 or 10) from a continuation (PB 01).
  public mutating func receive(isFirst: Bool, _ fragment: RawSpan) -> Outcome {
    if isFirst {
      switch state {
      case .idle, .complete: break
      case .header, .payload, .skipping: abandonedFrames &+= 1
      }
      buffer.removeAll()
      state = .header
      return collect(fragment, of: nil)
    }
    switch state {
    case .idle, .complete:
      return discard(.unexpectedContinuation)
    case .header:
      return collect(fragment, of: nil)
    case .payload(let header):
      return collect(fragment, of: header)
    case .skipping(let remaining):
      let left = remaining - fragment.byteCount
      state = left > 0 ? .skipping(remaining: left) : .idle
      return .incomplete
    }
  }

  /// Forgets everything collected, for a link that starts again.
  public mutating func reset() {
    buffer.removeAll()
    state = .idle
  }

  private mutating func collect(_ fragment: RawSpan, of known: L2CAPHeader?) -> Outcome {
    let collected = buffer.count + fragment.byteCount
    guard let header = known ?? header(before: fragment) else {
      buffer.bytes(fragment)
      return .incomplete
    }
    let missing = Int(header.length) + L2CAPHeader.byteCount - collected
    guard Int(header.length) <= maximumPayload else {
      _ = discard(.tooLong)
      if missing > 0 { state = .skipping(remaining: missing) }
      return .discarded(.overLimit(length: header.length))
    }
    guard missing >= 0 else { return discard(.tooLong) }
    guard header.channelID.rawValue != 0 else {
      _ = discard(.nullChannel)
      if missing > 0 { state = .skipping(remaining: missing) }
      return .discarded(.nullChannel)
    }
    buffer.bytes(fragment)
    state = missing == 0 ? .complete : .payload(header)
    return missing == 0 ? .frame(header.channelID) : .incomplete
  }

  private mutating func discard(_ reason: Reason) -> Outcome {
    reset()
    return .discarded(reason)
  }

  /// The header that what is collected and `fragment` begin with; nil while it is cut.
  private func header(before fragment: RawSpan) -> L2CAPHeader? {
    guard buffer.count + fragment.byteCount >= L2CAPHeader.byteCount else { return nil }
    if buffer.count == 0 {
      var reader = ByteReader(fragment)
      return try? L2CAPHeader(from: &reader)
    }
    // A header in two pieces is rare.
    var start = ByteWriter(capacity: L2CAPHeader.byteCount)
    start.bytes(buffer.bytes.span.bytes)
    start.bytes(fragment.extracting(0..<L2CAPHeader.byteCount - buffer.count))
    var reader = ByteReader(start.bytes.span.bytes)
    return try? L2CAPHeader(from: &reader)
  }
}
