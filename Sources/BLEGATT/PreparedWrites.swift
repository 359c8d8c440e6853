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

  var isEmpty: Bool { entries.isEmpty }

  /// False, and the queue stays as it is, if there is no room.
  mutating func append(_ handle: UInt16, _ offset: UInt16, _ part: RawSpan) -> Bool {
    guard entries.count < Self.entriesMax, bytes.count + part.byteCount <= Self.bytesMax else { return false }
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
  }

  /// Forgets the writes of attributes that `isGone`.
  mutating func removeAll(where isGone: (UInt16) -> Bool) {
    entries.removeAll { isGone($0.handle) }
    if entries.isEmpty { bytes.removeAll(keepingCapacity: true) }
  }
}
