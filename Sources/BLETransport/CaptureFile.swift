// SPDX-License-Identifier: Apache-2.0

import BLECore
public import BLEHCI
import Glibc

/// A capture that is being written: a btsnoop file with the HCI packets of one host, for Wireshark and `btmon -r`, or
/// one of another format whose records somebody else makes.
///
/// What is recorded in one turn of the loop is written at its end, so that a program that is killed leaves at most
/// its last packets out.
public final class CaptureFile {
  private let descriptor: Int32
  private let path: String
  private let loop: EventLoop
  private var pending = ByteWriter()
  private var isFlushPending = false
  private var hasFailed = false
  private let failed: (HCITransportError) -> Void

  /// So many octets wait for a slow reader; beyond that the capture ends.
  private static let pendingMax = 16 << 20

  /// Makes a btsnoop file, replacing an older one. `failed` is called once, on the loop, if it cannot be written further:
  /// it then ends there.
  public convenience init(
    path: String, loop: EventLoop, failed: @escaping (HCITransportError) -> Void
  ) throws(HCITransportError) {
    try self.init(emptyAt: path, loop: loop, failed: failed)
    BTSnoop.encodeHeader(into: &pending)
    flush()
  }

  /// Makes an empty file, replacing an older one, for ``append(_:)`` to fill.
  public init(
    emptyAt path: String, loop: EventLoop, failed: @escaping (HCITransportError) -> Void
  ) throws(HCITransportError) {
    // Nobody waits for the reader of a pipe: one that is not there is an error, one that is slow has the packets kept.
    descriptor = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NONBLOCK, 0o644)
    guard descriptor >= 0 else {
      throw HCITransportError("cannot write the capture \(path): \(errorText(errno))")
    }
    self.path = path
    self.loop = loop
    self.failed = failed
  }

  deinit {
    flush()
    close(descriptor)
  }

  /// Adds one packet, with the present time.
  public func record(_ direction: HCIDirection, _ type: HCIPacketType, _ payload: RawSpan) {
    var now = timespec()
    unsafe clock_gettime(CLOCK_REALTIME, &now)
    let microseconds = Int64(now.tv_sec) * 1_000_000 + Int64(now.tv_nsec) / 1_000
    BTSnoop.encodeRecord(direction, type, timestamp: microseconds, payload: payload, into: &pending)
    flushAtEndOfTurn()
  }

  /// Adds the next octets of a file of another format.
  public func append(_ bytes: RawSpan) {
    pending.bytes(bytes)
    flushAtEndOfTurn()
  }

  private func flushAtEndOfTurn() {
    guard !isFlushPending else { return }
    isFlushPending = true
    loop.atEndOfTurn { [weak self] in self?.flush() }
  }

  private func flush() {
    isFlushPending = false
    var written = 0
    while written < pending.count, !hasFailed {
      let count = pending.bytes.withUnsafeBytes { bytes in
        bytes.baseAddress.map { unsafe write(descriptor, $0 + written, bytes.count - written) } ?? 0
      }
      if count < 0, errno == EINTR { continue }
      if count < 0, errno == EAGAIN, pending.count - written < Self.pendingMax {
        pending.bytes.removeFirst(written)
        return
      }
      // A full disk ends the capture, not the program.
      if count <= 0 {
        hasFailed = true
        failed(HCITransportError("the capture \(path) ends here: \(errorText(errno))"))
      } else {
        written += count
      }
    }
    pending.removeAll()
  }
}
