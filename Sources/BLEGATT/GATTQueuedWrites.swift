// SPDX-License-Identifier: Apache-2.0

public import BLECore

/// One value of a reliable write (Vol 3 Part G 4.9.5).
public struct GATTQueuedWrite: Hashable, Sendable {
  public var handle: UInt16
  /// Where in the attribute's value `value` goes.
  public var offset: UInt16
  public var value: [UInt8]

  public init(handle: UInt16, offset: UInt16 = 0, value: [UInt8]) {
    self.handle = handle
    self.offset = offset
    self.value = value
  }
}

extension GATTQueuedWrite: WireCodable {
  /// A record of a procedure's octets: handle, offset, length, value.
  public init(from reader: inout ByteReader) throws(DecodeError) {
    handle = try reader.u16()
    offset = try reader.u16()
    value = try reader.array(Int(try reader.u16()))
  }

  public func encode(into writer: inout ByteWriter) {
    writer.u16(handle)
    writer.u16(offset)
    writer.u16(UInt16(truncatingIfNeeded: value.count))
    writer.bytes(value)
  }
}

/// What one Prepare Write Request carries: a part of a value that lies in ``GATTClient/work``.
struct QueuedPart {
  var handle: UInt16
  var offset: UInt16
  /// Where in `work` the part lies.
  var range: Range<Int>
  /// Where in `work` its value ends; the next record, if any, begins there.
  var valueEnd: Int
  /// Whether the server's queue is empty before it.
  var isFirst: Bool
}

// MARK: Long and reliable writes (Vol 3 Part G 4.9.4, 4.9.5)

extension GATTClient {
  /// The first part of a long write, whose value is all of `work`.
  func firstPart(of handle: UInt16, _ mtu: Int) -> QueuedPart {
    QueuedPart(
      handle: handle, offset: 0, range: 0..<min(work.count, mtu - 5), valueEnd: work.count, isFirst: true)
  }

  /// The first part of the record of a reliable write that begins at `position`; nil at the end.
  func recordedPart(at position: Int, _ mtu: Int) -> QueuedPart? {
    guard position < work.count else { return nil }
    var reader = ByteReader(work.bytes.span.bytes.extracting(position..<work.count))
    guard let handle = try? reader.u16(), let offset = try? reader.u16(), let count = try? reader.u16() else {
      return nil
    }
    let start = position + reader.offset
    let end = min(work.count, start + Int(count))
    return QueuedPart(
      handle: handle, offset: offset, range: start..<min(end, start + mtu - 5), valueEnd: end,
      isFirst: position == 0)
  }

  private func part(after part: QueuedPart, _ mtu: Int) -> QueuedPart? {
    let start = part.range.upperBound
    guard start < part.valueEnd else { return recordedPart(at: start, mtu) }
    return QueuedPart(
      handle: part.handle, offset: part.offset &+ UInt16(truncatingIfNeeded: part.range.count),
      range: start..<min(part.valueEnd, start + mtu - 5), valueEnd: part.valueEnd, isFirst: false)
  }

  mutating func sendPart(_ part: QueuedPart, of job: Job, now: Instant, into output: inout ATTOutput) {
    let value = work.bytes
    send(.prepareWriteRequest, job, .prepareWrite(part), now: now, into: &output) { writer in
      writer.u16(part.handle)
      writer.u16(part.offset)
      writer.bytes(value.span.bytes.extracting(part.range))
    }
  }

  /// The server repeats each part; one that comes back different must not be executed.
  mutating func receiveEcho(
    _ active: Active, _ part: QueuedPart, _ parameters: RawSpan, now: Instant, into output: inout ATTOutput
  ) {
    guard isEcho(parameters, of: part) else {
      return sendExecute(active.job, .cancelWrite(.echoMismatch(handle: part.handle)), now: now, into: &output)
    }
    if let next = self.part(after: part, output.mtu) {
      sendPart(next, of: active.job, now: now, into: &output)
    } else {
      sendExecute(active.job, .executeWrite, now: now, into: &output)
    }
  }

  private func isEcho(_ parameters: RawSpan, of part: QueuedPart) -> Bool {
    var reader = ByteReader(parameters)
    guard let handle = try? reader.u16(), let offset = try? reader.u16() else { return false }
    guard handle == part.handle, offset == part.offset, reader.remaining == part.range.count else { return false }
    for index in part.range where (try? reader.u8()) != work.bytes[index] { return false }
    return true
  }

  mutating func sendExecute(_ job: Job, _ phase: Phase, now: Instant, into output: inout ATTOutput) {
    let isWrite = if case .executeWrite = phase { true } else { false }
    send(.executeWriteRequest, job, phase, now: now, into: &output) { $0.u8(isWrite ? 1 : 0) }
  }
}
