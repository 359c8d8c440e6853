// SPDX-License-Identifier: Apache-2.0

public import BLEHCI
import Glibc

/// A listening socket whose clients send lines of text and get lines back: the control of a long-running program.
///
/// A line of more than ``lineMax`` octets ends its client. Everything runs on the loop.
public final class LineServer {
  public static let lineMax = 64 << 10
  /// Clients at a time; more are turned away.
  public static let clientsMax = 64

  public let address: SocketAddress
  private let loop: EventLoop
  private let descriptor: Int32
  private var watch: FileWatch?
  private var clients: [Int32: LineClient] = [:]
  private let answer: (String) -> [String]

  /// Listens at once; `answer` gets each line without its end, and returns the lines to send back.
  public init(
    address: SocketAddress, loop: EventLoop, answer: @escaping (String) -> [String]
  ) throws(HCITransportError) {
    descriptor = try SocketServer.makeListener(address)
    self.address = SocketServer.bound(descriptor, address)
    self.loop = loop
    self.answer = answer
    watch = loop.watch(descriptor) { [weak self] _ in self?.accept() }
  }

  deinit { close() }

  /// Ends all clients and stops listening.
  public func close() {
    guard let watch else { return }
    watch.cancel()
    self.watch = nil
    Glibc.close(descriptor)
    if case .unix(let path) = address { unlink(path) }
    for client in clients.values { client.end() }
    clients.removeAll()
  }

  private func accept() {
    while true {
      let accepted = Glibc.accept(descriptor, nil, nil)
      guard accepted >= 0 else { return }
      guard clients.count < Self.clientsMax else {
        Glibc.close(accepted)
        continue
      }
      SocketServer.prepare(accepted)
      clients[accepted] = LineClient(accepted, loop: loop, answer: answer) { [weak self] in
        self?.clients[accepted] = nil
      }
    }
  }
}

/// One client of a ``LineServer``.
private final class LineClient {
  private var descriptor: Int32
  private var watch: FileWatch?
  private var input: [UInt8] = []
  private var output: [UInt8] = []
  private let answer: (String) -> [String]
  private let ended: () -> Void

  init(_ descriptor: Int32, loop: EventLoop, answer: @escaping (String) -> [String], ended: @escaping () -> Void) {
    self.descriptor = descriptor
    self.answer = answer
    self.ended = ended
    watch = loop.watch(descriptor) { [weak self] in self?.ready($0) }
  }

  deinit { end() }

  func end() {
    guard descriptor >= 0 else { return }
    watch?.cancel()
    watch = nil
    close(descriptor)
    descriptor = -1
  }

  private func fail() {
    end()
    ended()
  }

  private func ready(_ events: FileWatch.Events) {
    if events.contains(.writable) { flush() }
    guard !events.isDisjoint(with: [.readable, .error, .hangUp]), descriptor >= 0 else { return }
    var chunk = [UInt8](repeating: 0, count: 4096)
    let count = unsafe read(descriptor, &chunk, chunk.count)
    guard count > 0 else {
      if count == 0 || errno != EAGAIN && errno != EINTR { fail() }
      return
    }
    input += chunk.prefix(count)
    while let end = input.firstIndex(of: UInt8(ascii: "\n")) {
      let line = String(decoding: input[..<end], as: UTF8.self)
      input.removeSubrange(...end)
      for reply in answer(line) { output += Array((reply + "\n").utf8) }
    }
    if input.count > LineServer.lineMax || output.count > LineServer.lineMax * 16 { return fail() }
    flush()
  }

  private func flush() {
    while !output.isEmpty, descriptor >= 0 {
      let count = output.withUnsafeBytes { unsafe send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL)) }
      if count < 0, errno == EINTR { continue }
      guard count > 0 else {
        if errno == EAGAIN { watch?.wantsWrite = true } else { fail() }
        return
      }
      output.removeFirst(count)
    }
    watch?.wantsWrite = false
  }
}
