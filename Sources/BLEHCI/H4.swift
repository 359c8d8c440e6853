// SPDX-License-Identifier: Apache-2.0

public import BLECore

/// Why an H4 stream cannot be followed any further: it has no marks to find the next packet by (Vol 4 Part A 2).
public enum H4Error: Error, Hashable, Sendable, CustomStringConvertible {
  /// An octet that should have begun a packet is no packet indicator. `position` counts the stream's octets from 0.
  case unknownIndicator(UInt8, position: Int)

  public var description: String {
    switch self {
    case .unknownIndicator(let octet, let position):
      "octet \(position) of the HCI stream is 0x\(String(octet, radix: 16)), which begins no packet: "
        + "octets were lost or the other side does not speak H4; reopen the transport and reset the controller"
    }
  }
}

/// A stream of octets, cut anyhow, into HCI packets (Vol 4 Part A 2). Keeps at most one incomplete packet.
public struct H4Parser {
  private var pending: [UInt8] = []
  private var position = 0
  private var failure: H4Error?

  public init() {}

  /// Takes the next octets of the stream and hands every packet that is now complete to `body`, without its
  /// indicator. After an error all further octets are refused with the same error.
  public mutating func receive(
    _ bytes: RawSpan, _ body: (HCIPacketType, RawSpan) -> Void
  ) throws(H4Error) {
    if let failure { throw failure }
    var offset = 0
    while offset < bytes.byteCount {
      let rest = bytes.extracting(offset..<bytes.byteCount)
      do throws(H4Error) {
        offset += pending.isEmpty ? try takeWhole(rest, body) : try completePending(rest, body)
      } catch {
        failure = error
        throw error
      }
    }
  }

  /// Delivers the packet that `bytes` begins with, or keeps all of them for later. Returns how many were taken.
  private mutating func takeWhole(
    _ bytes: RawSpan, _ body: (HCIPacketType, RawSpan) -> Void
  ) throws(H4Error) -> Int {
    let length = try Self.requiredLength(bytes, at: position)
    guard bytes.byteCount >= length else {
      pending.append(contentsOf: [UInt8](bytes))
      return bytes.byteCount
    }
    deliver(bytes.extracting(0..<length), body)
    return length
  }

  private mutating func completePending(
    _ bytes: RawSpan, _ body: (HCIPacketType, RawSpan) -> Void
  ) throws(H4Error) -> Int {
    let length = try Self.requiredLength(pending.span.bytes, at: position)
    let count = min(length - pending.count, bytes.byteCount)
    pending.append(contentsOf: [UInt8](bytes.extracting(0..<count)))
    // With the head complete the length is known for sure, and may be more.
    if pending.count == length, try Self.requiredLength(pending.span.bytes, at: position) == length {
      var packet: [UInt8] = []
      swap(&packet, &pending)
      deliver(packet.span.bytes, body)
      swap(&packet, &pending)
      pending.removeAll(keepingCapacity: true)
    }
    return count
  }

  private mutating func deliver(_ packet: RawSpan, _ body: (HCIPacketType, RawSpan) -> Void) {
    position += packet.byteCount
    let indicator = packet.unsafeLoad(fromByteOffset: 0, as: UInt8.self)
    body(HCIPacketType(rawValue: indicator), packet.extracting(1..<packet.byteCount))
  }

  /// The length of the packet that `bytes` (not empty) begin, indicator included; the length of its head while
  /// that is not complete.
  private static func requiredLength(_ bytes: RawSpan, at position: Int) throws(H4Error) -> Int {
    func octet(_ index: Int) -> Int { Int(bytes.unsafeLoad(fromByteOffset: index, as: UInt8.self)) }
    let type = HCIPacketType(rawValue: UInt8(octet(0)))
    let head: Int
    switch type {
    case .command, .synchronousData: head = 4
    case .aclData, .isoData: head = 5
    case .event: head = 3
    default:
      throw .unknownIndicator(type.rawValue, position: position)
    }
    guard bytes.byteCount >= head else { return head }
    switch type {
    case .aclData: return head + octet(3) + octet(4) << 8
    case .isoData: return head + octet(3) + (octet(4) & 0x3F) << 8
    default: return head + octet(head - 1)
    }
  }
}

extension ByteWriter {
  /// Writes a packet with its H4 indicator.
  public mutating func h4(_ type: HCIPacketType, _ payload: RawSpan) {
    u8(type.rawValue)
    bytes(payload)
  }
}
