// SPDX-License-Identifier: Apache-2.0

import BLECore
public import BLEHCI
import Glibc

/// HCI packets with H4 framing (Vol 4 Part A) over a connected stream socket, either end.
///
/// What is sent in one turn of the loop leaves with one system call. A peer that does not read makes the queue
/// grow to ``sendLimit`` octets, then the transport closes.
public final class SocketTransport: HCITransport {
  /// Octets that may wait to be sent.
  public static let sendLimit = 4 << 20
  /// Octets that have been sent and whose memory is kept for want of a pause.
  static let sentLimit = 64 << 10

  public weak var receiver: (any HCIReceiver)? { didSet { resume() } }

  private let loop: EventLoop
  private let name: String
  private var descriptor: Int32
  private var watch: FileWatch?
  private var parser = H4Parser()
  private var inbox = PacketQueue<HCIPacketType>()
  private var outgoing = ByteWriter()
  private var sent = 0
  private var isFlushPending = false
  private var ending: HCITransportError?
  private var input = [UInt8](repeating: 0, count: 64 << 10)

  /// Takes over a connected, non-blocking socket. `name` stands for it in messages.
  init(loop: EventLoop, descriptor: Int32, name: String) {
    self.loop = loop
    self.descriptor = descriptor
    self.name = name
    watch = loop.watch(descriptor) { [weak self] in self?.ready($0) }
  }

  deinit { end() }

  /// The process at the other end of a Unix socket (SO_PEERCRED); nil for TCP.
  public private(set) lazy var peerProcess: Int32? = {
    // struct ucred: pid, uid, gid.
    var credentials: [Int32] = [0, 0, 0]
    var size = socklen_t(MemoryLayout<Int32>.size * credentials.count)
    guard unsafe getsockopt(descriptor, SOL_SOCKET, SO_PEERCRED, &credentials, &size) == 0 else { return nil }
    return credentials[0] > 0 ? credentials[0] : nil
  }()

  /// Connects to `address`; the outcome comes on the loop, never inside the call.
  public static func connect(
    to address: SocketAddress, loop: EventLoop,
    completion: @escaping (Result<SocketTransport, HCITransportError>) -> Void
  ) {
    do {
      let descriptor = try address.makeSocket("connect to") { unsafe Glibc.connect($0, $1, $2) }
      var pending: FileWatch?
      pending = loop.watch(descriptor) { _ in
        pending?.cancel()
        pending = nil
        var number: Int32 = 0
        var size = socklen_t(MemoryLayout<Int32>.size)
        unsafe getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &number, &size)
        guard number == 0 else {
          Glibc.close(descriptor)
          completion(.failure(address.connectFailure(number)))
          return
        }
        completion(.success(SocketTransport(loop: loop, descriptor: descriptor, name: address.description)))
      }
      pending?.wantsWrite = true
    } catch {
      loop.atEndOfTurn { completion(.failure(error)) }
    }
  }

  public func send(_ type: HCIPacketType, _ payload: RawSpan) {
    guard descriptor >= 0, ending == nil else { return }
    guard outgoing.count - sent + payload.byteCount < Self.sendLimit else {
      fail(HCITransportError("\(name): the other side reads nothing; \(Self.sendLimit) octets wait for it"))
      return
    }
    outgoing.u8(type.rawValue)
    outgoing.bytes(payload)
    guard !isFlushPending else { return }
    isFlushPending = true
    loop.atEndOfTurn { [weak self] in self?.flush() }
  }

  public func close() {
    flush()
    end()
  }

  private func end() {
    guard descriptor >= 0 else { return }
    watch?.cancel()
    watch = nil
    Glibc.close(descriptor)
    descriptor = -1
  }

  private func flush() {
    isFlushPending = false
    guard descriptor >= 0 else { return }
    while sent < outgoing.count {
      let count = unsafe outgoing.bytes.withUnsafeBytes { bytes in
        guard let base = bytes.baseAddress else { return 0 }
        return unsafe Glibc.send(descriptor, base + sent, bytes.count - sent, Int32(MSG_NOSIGNAL))
      }
      if count < 0, errno == EINTR { continue }
      guard count > 0 else {
        if errno == EAGAIN || errno == EWOULDBLOCK {
          watch?.wantsWrite = true
        } else {
          fail(HCITransportError("\(name): sending failed: \(errorText(errno))"))
        }
        return
      }
      sent += count
      // A peer that always leaves something unread must not make the memory grow.
      if sent > Self.sentLimit { outgoing.bytes.removeFirst(sent); sent = 0 }
    }
    outgoing.removeAll()
    sent = 0
    watch?.wantsWrite = false
  }

  private func ready(_ events: FileWatch.Events) {
    if events.contains(.writable) { flush() }
    guard !events.isDisjoint(with: [.readable, .error, .hangUp]), descriptor >= 0 else { return }
    let count = unsafe input.withUnsafeMutableBytes { unsafe read(descriptor, $0.baseAddress, $0.count) }
    if count > 0 {
      parse(count)
    } else if count == 0 {
      fail(HCITransportError("\(name): the other side closed the connection"))
    } else if errno != EAGAIN, errno != EINTR {
      fail(HCITransportError("\(name): receiving failed: \(errorText(errno))"))
    }
    deliver()
  }

  private func parse(_ count: Int) {
    // Taken out of the object for the time of the parse.
    var octets: [UInt8] = []
    swap(&octets, &input)
    defer { swap(&octets, &input) }
    do {
      let bytes = octets.span.bytes
      try parser.receive(bytes.extracting(0..<count)) { inbox.append($0, $1) }
    } catch {
      fail(HCITransportError("\(name): not an HCI stream: \(error)"))
    }
  }

  /// Remembers why the transport ended; the receiver is told after the packets that came before.
  private func fail(_ error: HCITransportError) {
    guard ending == nil else { return }
    ending = error
    end()
    resume()
  }

  /// Octets that the memory of what is to be sent holds, those that have been sent included.
  var octetsHeld: Int { outgoing.count }

  private func resume() {
    guard receiver != nil, !inbox.isEmpty || ending != nil else { return }
    loop.atEndOfTurn { [weak self] in self?.deliver() }
  }

  private func deliver() {
    while let receiver {
      var isDelivered = false
      var batch = PacketQueue<HCIPacketType>()
      swap(&batch, &inbox)
      while batch.removeFirst({ receiver.receive($0, $1) }) { isDelivered = true }
      if inbox.isEmpty { swap(&batch, &inbox) }
      if !isDelivered { break }
    }
    guard let ending, inbox.isEmpty, let receiver else { return }
    self.receiver = nil
    receiver.transportClosed(ending)
  }
}

/// A listening socket: somebody's hosts connect to our controllers.
public final class SocketServer {
  /// Where it listens; the port is the real one also where 0 was asked for.
  public let address: SocketAddress
  private let descriptor: Int32
  private var watch: FileWatch?
  /// Kept back for the moment in which the process has no other left.
  private var spare = SocketServer.openSpare()

  /// Listens at once; `accepted` gets each connection. A stale Unix socket nobody listens on is replaced.
  public init(
    address: SocketAddress, loop: EventLoop, accepted: @escaping (SocketTransport) -> Void
  ) throws(HCITransportError) {
    descriptor = try Self.makeListener(address)
    self.address = Self.bound(descriptor, address)
    let name = self.address.description
    watch = loop.watch(descriptor) { [weak self] _ in
      while let self, let descriptor = acceptNext() {
        Self.prepare(descriptor)
        accepted(SocketTransport(loop: loop, descriptor: descriptor, name: name))
      }
    }
  }

  /// The next connection that waits. One that no descriptor is left for is closed: it would keep the loop awake, and
  /// its program waiting.
  private func acceptNext() -> Int32? {
    while watch != nil {
      let accepted = accept(descriptor, nil, nil)
      if accepted >= 0 { return accepted }
      guard errno == EMFILE || errno == ENFILE, spare >= 0 else { return nil }
      Glibc.close(spare)
      let refused = accept(descriptor, nil, nil)
      if refused >= 0 { Glibc.close(refused) }
      spare = Self.openSpare()
      guard refused >= 0 else { return nil }
    }
    return nil
  }

  private static func openSpare() -> Int32 { open("/dev/null", O_RDONLY | O_CLOEXEC) }

  deinit { close() }

  /// Stops listening; a Unix socket's file is removed. Accepted connections live on.
  public func close() {
    guard let watch else { return }
    watch.cancel()
    self.watch = nil
    Glibc.close(descriptor)
    if spare >= 0 { Glibc.close(spare) }
    if case .unix(let path) = address { unlink(path) }
  }

  /// A socket that listens on `address`.
  static func makeListener(_ address: SocketAddress) throws(HCITransportError) -> Int32 {
    if case .unix(let path) = address { removeStale(path) }
    return try address.makeSocket("listen on") { descriptor, address, length in
      let bound = unsafe bind(descriptor, address, length)
      return bound == 0 ? listen(descriptor, 64) : bound
    }
  }

  static func prepare(_ descriptor: Int32) {
    var one: Int32 = 1
    unsafe setsockopt(descriptor, Int32(IPPROTO_TCP), TCP_NODELAY, &one, 4)
    unsafe setsockopt(descriptor, SOL_SOCKET, SO_KEEPALIVE, &one, 4)
    _ = fcntl(descriptor, F_SETFL, O_NONBLOCK)
    _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC)
  }

  /// Removes a socket file that refuses connections: its program was killed.
  private static func removeStale(_ path: String) {
    var status = stat()
    guard unsafe stat(path, &status) == 0, status.st_mode & S_IFMT == S_IFSOCK else { return }
    var refusal: Int32 = 0
    let descriptor = try? SocketAddress.unix(path: path).makeSocket("connect to") { descriptor, address, length in
      let result = unsafe connect(descriptor, address, length)
      if result != 0 { refusal = errno }
      return result
    }
    if let descriptor { Glibc.close(descriptor) }
    // Any other error says nothing of its owner: a socket of another kind, or another user's.
    if descriptor == nil, refusal == ECONNREFUSED { unlink(path) }
  }

  /// The address with the port that the system chose, where it had to.
  static func bound(_ descriptor: Int32, _ address: SocketAddress) -> SocketAddress {
    guard case .tcp(let host, 0) = address else { return address }
    var storage = sockaddr_storage()
    var length = socklen_t(MemoryLayout<sockaddr_storage>.size)
    let port = unsafe withUnsafeMutablePointer(to: &storage) { pointer -> UInt16 in
      unsafe pointer.withMemoryRebound(to: sockaddr_in.self, capacity: 1) { address in
        _ = unsafe address.withMemoryRebound(to: sockaddr.self, capacity: 1) {
          unsafe getsockname(descriptor, $0, &length)
        }
        // The port stands at the same place in sockaddr_in and sockaddr_in6.
        return UInt16(bigEndian: unsafe address.pointee.sin_port)
      }
    }
    return .tcp(host: host, port: port)
  }
}
