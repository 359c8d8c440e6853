// SPDX-License-Identifier: Apache-2.0

import BLECore

/// The queue of one client's prepared writes (Vol 3 Part F 3.3.1, 3.4.6), in arrival order, of bounded size.
struct PreparedWrites {
  /// One Prepare Write Request.
  struct Entry {
    var handle: UInt16
    var offset: UInt16
    /// Where its part lies in `bytes`.
    var part: Range<Int>
  }

  /// Enough for four values of 512 octets at the smallest MTU.
  static let entriesMax = 128
  static let bytesMax = 4 * ATTLimits.valueMax

  private(set) var entries: [Entry] = []
  private(set) var bytes: [UInt8] = []
  /// The first handle of the queue whose attribute is gone: what was to be written all together cannot be any more.
  private(set) var lostHandle: UInt16?
  private var lease: PrepareLease?

  var isEmpty: Bool { entries.isEmpty }

  /// False, and the queue stays as it is, if there is no room in it or in what all clients share.
  mutating func append(_ handle: UInt16, _ offset: UInt16, _ part: RawSpan, budget: PrepareBudget) -> Bool {
    guard entries.count < Self.entriesMax, bytes.count + part.byteCount <= Self.bytesMax else { return false }
    let lease = lease ?? PrepareLease(budget)
    self.lease = lease
    guard lease.take(part.byteCount + PrepareBudget.entryOverhead) else { return false }
    let start = bytes.count
    var writer = ByteWriter()
    swap(&writer.bytes, &bytes)
    writer.bytes(part)
    swap(&writer.bytes, &bytes)
    entries.append(Entry(handle: handle, offset: offset, part: start..<bytes.count))
    return true
  }

  mutating func removeAll() {
    entries.removeAll(keepingCapacity: true)
    bytes.removeAll(keepingCapacity: true)
    lostHandle = nil
    lease?.giveBack()
  }

  /// Notes that the attributes in `range` are gone.
  mutating func lose(_ range: ClosedRange<UInt16>) {
    lostHandle = lostHandle ?? entries.first { range.contains($0.handle) }?.handle
  }
}

/// What the queues of prepared writes of all clients of a database may take together.
final class PrepareBudget {
  /// Octets for all; one client's full queue takes a tenth.
  static let octetsMax = 32 * 1024
  /// What a queued part takes beside its octets.
  static let entryOverhead = 8
  fileprivate(set) var octets = 0
}

/// One client's share of a ``PrepareBudget``. What it took goes back with it, however the client goes.
final class PrepareLease {
  private let budget: PrepareBudget
  private var octets = 0

  init(_ budget: PrepareBudget) { self.budget = budget }
  deinit { giveBack() }

  func take(_ count: Int) -> Bool {
    guard budget.octets + count <= PrepareBudget.octetsMax else { return false }
    budget.octets += count
    octets += count
    return true
  }

  func giveBack() {
    budget.octets -= octets
    octets = 0
  }
}
