// SPDX-License-Identifier: Apache-2.0

/// A first-in first-out queue of byte strings, each with a tag, in one flat buffer that keeps its memory:
/// in steady state neither adding nor taking a packet allocates.
public struct PacketQueue<Tag> {
  private var storage: [UInt8] = []
  private var entries: [(tag: Tag, range: Range<Int>)] = []
  private var head = 0

  public init() {}

  public var isEmpty: Bool { head == entries.count }
  public var count: Int { entries.count - head }

  /// Octets waiting, all packets together.
  public var byteCount: Int { head == entries.count ? 0 : storage.count - entries[head].range.lowerBound }

  public mutating func append(_ tag: Tag, _ bytes: RawSpan) {
    append(tag) { $0.bytes(bytes) }
  }

  /// Adds a packet that `body` writes.
  public mutating func append(_ tag: Tag, _ body: (inout ByteWriter) -> Void) {
    var writer = ByteWriter()
    swap(&writer.bytes, &storage)
    let start = writer.count
    body(&writer)
    swap(&writer.bytes, &storage)
    entries.append((tag, start..<storage.count))
  }

  /// The tag of the oldest packet.
  public var first: Tag? { isEmpty ? nil : entries[head].tag }
  /// The length of the oldest packet.
  public var firstCount: Int { isEmpty ? 0 : entries[head].range.count }

  /// Hands the oldest packet to `body` and removes it; false if there was none. `body` must not touch the queue.
  @discardableResult
  public mutating func removeFirst(_ body: (Tag, RawSpan) -> Void) -> Bool {
    guard head < entries.count else { return false }
    let entry = entries[head]
    body(entry.tag, storage.span.bytes.extracting(entry.range))
    head += 1
    if head == entries.count {
      removeAll()
    } else if head >= 64, head * 2 >= entries.count {
      compact()
    }
    return true
  }

  public mutating func removeAll() {
    entries.removeAll(keepingCapacity: true)
    storage.removeAll(keepingCapacity: true)
    head = 0
  }

  private mutating func compact() {
    let base = entries[head].range.lowerBound
    storage.removeSubrange(0..<base)
    entries.removeSubrange(0..<head)
    head = 0
    for index in entries.indices {
      let range = entries[index].range
      entries[index].range = range.lowerBound - base..<range.upperBound - base
    }
  }
}
