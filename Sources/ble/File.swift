// SPDX-License-Identifier: Apache-2.0

import BLEProfile
import Glibc

/// What the tool asks of the operating system about files.
enum File {
  /// The first `limit` octets of a file.
  static func read(_ path: String, limit: Int) throws(Failure) -> [UInt8] {
    let descriptor = unsafe Glibc.open(path, O_RDONLY | O_CLOEXEC)
    guard descriptor >= 0 else { throw .usage("\(harmless(path)) cannot be read: \(reason())") }
    defer { Glibc.close(descriptor) }
    var bytes: [UInt8] = []
    var chunk = [UInt8](repeating: 0, count: 1 << 16)
    while bytes.count < limit {
      let count = unsafe chunk.withUnsafeMutableBytes { unsafe Glibc.read(descriptor, $0.baseAddress, $0.count) }
      if count < 0 && errno == EINTR { continue }
      guard count >= 0 else { throw .usage("\(harmless(path)) cannot be read: \(reason())") }
      guard count > 0 else { break }
      bytes += chunk[..<count]
    }
    return Array(bytes.prefix(limit))
  }

  /// Makes a file of `bytes`, in place of one that there is.
  static func write(_ bytes: [UInt8], to path: String) throws(Failure) {
    let descriptor = unsafe Glibc.open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o644)
    guard descriptor >= 0 else { throw .failed("\(harmless(path)) cannot be written: \(reason())") }
    defer { Glibc.close(descriptor) }
    var start = 0
    while start < bytes.count {
      let count = unsafe bytes.withUnsafeBytes { buffer in
        unsafe Glibc.write(descriptor, buffer.baseAddress.map { unsafe $0 + start }, buffer.count - start)
      }
      if count < 0 && errno == EINTR { continue }
      guard count > 0 else { throw .failed("\(harmless(path)) cannot be written: \(reason())") }
      start += count
    }
  }

  private static func reason() -> String {
    unsafe strerror(errno).map { unsafe String(cString: $0) } ?? "error \(errno)"
  }
}

/// The computer's clocks, for profiles.
enum SystemClock {
  static func now() -> ProfileTime {
    var wall = timespec()
    var uptime = timespec()
    unsafe clock_gettime(CLOCK_REALTIME, &wall)
    unsafe clock_gettime(CLOCK_MONOTONIC, &uptime)
    var seconds = wall.tv_sec
    var local = tm()
    unsafe localtime_r(&seconds, &local)
    return ProfileTime(
      unixMilliseconds: milliseconds(wall), utcOffset: Int64(local.tm_gmtoff), uptimeMilliseconds: milliseconds(uptime))
  }

  private static func milliseconds(_ time: timespec) -> Int64 {
    Int64(time.tv_sec) * 1000 + Int64(time.tv_nsec) / 1_000_000
  }
}
