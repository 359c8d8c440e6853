// SPDX-License-Identifier: Apache-2.0

import BLEHCI
import Glibc

/// Where a stream socket connects to or listens.
public enum SocketAddress: Hashable, Sendable, CustomStringConvertible {
  /// A host name or a numeric address. Port 0 lets the system choose when listening.
  case tcp(host: String, port: UInt16)
  case unix(path: String)

  public var description: String {
    switch self {
    case .tcp(let host, let port): host.contains(":") ? "tcp:[\(host)]:\(port)" : "tcp:\(host):\(port)"
    case .unix(let path): "unix:\(path)"
    }
  }
}

extension SocketAddress {
  /// One socket made from the address, with the address in the kernel's form for `body` (bind or connect).
  ///
  /// A host name with several addresses is tried in order until `body` returns 0 or sets EINPROGRESS.
  func makeSocket(
    _ what: String, _ body: (Int32, UnsafePointer<sockaddr>, socklen_t) -> Int32
  ) throws(HCITransportError) -> Int32 {
    switch self {
    case .unix(let path): try makeUnixSocket(path, what, body)
    case .tcp(let host, let port): try makeTCPSocket(host, port, what, body)
    }
  }

  private func failure(_ what: String, _ number: Int32) -> HCITransportError {
    let advice =
      switch number {
      case ECONNREFUSED,
        ENOENT where what == "connect to":
        "; is the other side (such as `ble sim --listen \(self)`) running?"
      case EADDRINUSE: "; another program listens there already"
      case EACCES, EPERM: "; this user may not use it"
      default: ""
      }
    return HCITransportError("cannot \(what) \(self): \(errorText(number))\(advice)")
  }

  private func makeUnixSocket(
    _ path: String, _ what: String, _ body: (Int32, UnsafePointer<sockaddr>, socklen_t) -> Int32
  ) throws(HCITransportError) -> Int32 {
    var address = sockaddr_un()
    address.sun_family = sa_family_t(AF_UNIX)
    let octets = Array(path.utf8)
    let capacity = MemoryLayout.size(ofValue: address.sun_path)
    guard !octets.isEmpty, octets.count < capacity else {
      throw HCITransportError("cannot \(what) \(self): a socket's path has 1 to \(capacity - 1) octets")
    }
    unsafe withUnsafeMutableBytes(of: &address.sun_path) { unsafe $0.copyBytes(from: octets) }
    let descriptor = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue | SOCK_NONBLOCK.rawValue | SOCK_CLOEXEC.rawValue), 0)
    guard descriptor >= 0 else { throw failure(what, errno) }
    let result = unsafe withUnsafePointer(to: &address) {
      unsafe $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        unsafe body(descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
      }
    }
    guard result == 0 || errno == EINPROGRESS || errno == EAGAIN else {
      let number = errno
      close(descriptor)
      throw failure(what, number)
    }
    return descriptor
  }

  private func makeTCPSocket(
    _ host: String, _ port: UInt16, _ what: String, _ body: (Int32, UnsafePointer<sockaddr>, socklen_t) -> Int32
  ) throws(HCITransportError) -> Int32 {
    var hints = addrinfo()
    hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
    hints.ai_flags = AI_ADDRCONFIG
    var list: UnsafeMutablePointer<addrinfo>?
    let looked = unsafe getaddrinfo(host, String(port), &hints, &list)
    guard looked == 0 else {
      throw HCITransportError("cannot \(what) \(self): \(unsafe String(cString: gai_strerror(looked)))")
    }
    defer { if let list = unsafe list { unsafe freeaddrinfo(list) } }
    var last: Int32 = EADDRNOTAVAIL
    var entry = unsafe list
    while let info = unsafe entry?.pointee {
      unsafe entry = info.ai_next
      let descriptor = unsafe socket(
        info.ai_family, Int32(SOCK_STREAM.rawValue | SOCK_NONBLOCK.rawValue | SOCK_CLOEXEC.rawValue), 0)
      guard descriptor >= 0, let address = unsafe info.ai_addr else {
        last = errno
        continue
      }
      var one: Int32 = 1
      unsafe setsockopt(descriptor, Int32(IPPROTO_TCP), TCP_NODELAY, &one, 4)
      unsafe setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &one, 4)
      if unsafe body(descriptor, address, info.ai_addrlen) == 0 || errno == EINPROGRESS { return descriptor }
      last = errno
      close(descriptor)
    }
    throw failure(what, last)
  }

  /// What `connect` answered later (SO_ERROR), as the error to report.
  func connectFailure(_ number: Int32) -> HCITransportError { failure("connect to", number) }
}

/// The system's words for an error number.
func errorText(_ number: Int32) -> String { unsafe String(cString: strerror(number)) }
