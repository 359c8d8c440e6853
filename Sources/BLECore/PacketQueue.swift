// SPDX-License-Identifier: Apache-2.0

/// A first-in first-out queue of byte strings, each with a tag, in one flat buffer that keeps its memory:
/// in steady state neither adding nor taking a packet allocates.
///
/// Inlinable, so that each layer gets it specialised for its own tag: unspecialised it costs ten times as much.
@frozen
public struct PacketQueue<Tag> {
  @usableFromInline
  @frozen
  struct Entry {
    @usableFromInline var tag: Tag
    @usableFromInline var start: Int
    @usableFromInline var end: Int

    @inlinable
    init(tag: Tag, start: Int, end: Int) {
      self.tag = tag
      self.start = start
      self.end = end
    }
  }

  @usableFromInline var storage: [UInt8] = []
  @usableFromInline var entries: [Entry] = []
  @usableFromInline var head = 0

  @inlinable public init() {}

  @inlinable public var isEmpty: Bool { head == entries.count }
  @inlinable public var count: Int { entries.count - head }

  /// Octets waiting, all packets together.
  @inlinable public var byteCount: Int { head == entries.count ? 0 : storage.count - entries[head].start }

  @inlinable
  public mutating func append(_ tag: Tag, _ bytes: RawSpan) {
    append(tag) { $0.bytes(bytes) }
  }

  /// Adds a packet that `body` writes.
  @inlinable
  public mutating func append(_ tag: Tag, _ body: (inout ByteWriter) -> Void) {
    var writer = ByteWriter()
    swap(&writer.bytes, &storage)
    let start = writer.count
    body(&writer)
    swap(&writer.bytes, &storage)
    entries.append(Entry(tag: tag, start: start, end: storage.count))
  }

  /// The tag of the oldest packet.
  @inlinable public var first: Tag? { isEmpty ? nil : entries[head].tag }
  /// The length of the oldest packet.
  @inlinable public var firstCount: Int { isEmpty ? 0 : entries[head].end - entries[head].start }

  /// Hands the oldest packet to `body` and removes it; false if there was none. `body` must not touch the queue.
  @inlinable
  @discardableResult
  public mutating func removeFirst(_ body: (Tag, RawSpan) -> Void) -> Bool {
    guard head < entries.count else { return false }
    let entry = entries[head]
    body(entry.tag, storage.span.bytes.extracting(entry.start..<entry.end))
    head += 1
    if head == entries.count {
      removeAll()
    } else if head >= 64, head * 2 >= entries.count {
      compact()
    }
    return true
  }

  @inlinable
  public mutating func removeAll() {
    entries.removeAll(keepingCapacity: true)
    storage.removeAll(keepingCapacity: true)
    head = 0
  }

  @usableFromInline
  mutating func compact() {
    let base = entries[head].start
    storage.removeSubrange(0..<base)
    entries.removeSubrange(0..<head)
    head = 0
    for index in entries.indices {
      entries[index].start -= base
      entries[index].end -= base
    }
  }
}
