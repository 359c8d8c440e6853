// SPDX-License-Identifier: Apache-2.0

import Foundation
import Glibc

/// A connection to a Unix socket.
struct LocalSocket: ~Copyable {
  private let descriptor: Int32

  init(path: String) throws {
    descriptor = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
    var address = sockaddr_un()
    address.sun_family = sa_family_t(AF_UNIX)
    withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path.utf8.prefix(107)) }
    var limit = timeval(tv_sec: 60, tv_usec: 0)
    setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &limit, socklen_t(MemoryLayout<timeval>.size))
    let result = withUnsafePointer(to: &address) { pointer in
      pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
      }
    }
    guard result == 0 else { throw SiteFailure(description: "\(path) cannot be connected: errno \(errno)") }
  }

  deinit { close(descriptor) }

  /// Writes all of it; false if the other side takes no more.
  func send(_ bytes: [UInt8]) -> Bool {
    var rest = bytes[...]
    while !rest.isEmpty {
      let count = rest.withUnsafeBytes {
        Glibc.send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
      }
      guard count > 0 else { return false }
      rest = rest.dropFirst(count)
    }
    return true
  }

  /// The next octets, `count` of them, or fewer where the other side ends first; nil if none come for a minute.
  func receive(_ count: Int) -> [UInt8]? {
    var octets: [UInt8] = []
    var octet: UInt8 = 0
    while octets.count < count {
      let result = read(descriptor, &octet, 1)
      if result < 0, errno != ECONNRESET { return nil }
      guard result > 0 else { break }
      octets.append(octet)
    }
    return octets
  }

  /// Writes one line and reads one.
  func ask(_ line: String) throws -> String {
    guard send(Array((line + "\n").utf8)) else {
      throw SiteFailure(description: "nobody takes the line \(line)")
    }
    var answer: [UInt8] = []
    var octet: UInt8 = 0
    while read(descriptor, &octet, 1) == 1, octet != 0x0A { answer.append(octet) }
    return String(decoding: answer, as: UTF8.self)
  }
}
