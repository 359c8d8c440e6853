// SPDX-License-Identifier: Apache-2.0

import BLECore
import BLEHCI
import Foundation
import Testing

@testable import BLETransport

/// Collects what a transport delivers; its last word comes through `changed`.
private final class Sink: HCIReceiver {
  var packets: [(HCIPacketType, [UInt8])] = []
  var error: HCITransportError?
  var changed: (Sink) -> Void = { _ in }

  func receive(_ type: HCIPacketType, _ payload: RawSpan) {
    packets.append((type, [UInt8](payload)))
    changed(self)
  }

  func transportClosed(_ error: HCITransportError) {
    self.error = error
    changed(self)
  }
}

/// A server and a client connected over a socket, all on one loop.
private final class Pair: @unchecked Sendable {
  let loop: EventLoop
  var server: SocketServer?
  var serverSide: SocketTransport?
  var clientSide: SocketTransport?
  let serverSink = Sink()
  let clientSink = Sink()
  var failure: HCITransportError?

  init() throws { loop = try #require(EventLoop(name: "test")) }

  /// Connects; the socket is bound where `address` says.
  func connect(_ address: SocketAddress) async {
    await withCheckedContinuation { continuation in
      loop.execute { [self] in
        let accepted = Box(0)
        let ready = {
          accepted.value += 1
          if accepted.value == 2 { continuation.resume() }
        }
        do throws(HCITransportError) {
          let server = try SocketServer(address: address, loop: loop) { [self] transport in
            serverSide = transport
            transport.receiver = serverSink
            ready()
          }
          self.server = server
          SocketTransport.connect(to: server.address, loop: loop) { [self] result in
            switch result {
            case .success(let transport):
              clientSide = transport
              transport.receiver = clientSink
              ready()
            case .failure(let error):
              failure = error
              continuation.resume()
            }
          }
        } catch {
          failure = error
          continuation.resume()
        }
      }
    }
  }

  /// Runs `start` on the loop and waits until `condition` holds of the sink.
  func wait(for sink: Sink, _ condition: @escaping @Sendable (Sink) -> Bool, start: @escaping @Sendable () -> Void)
    async
  {
    await withCheckedContinuation { continuation in
      let box = Box(sink)
      loop.execute {
        let isDone = Box(false)
        box.value.changed = { sink in
          guard !isDone.value, condition(sink) else { return }
          isDone.value = true
          continuation.resume()
        }
        start()
        box.value.changed(box.value)
      }
    }
  }

  deinit { loop.stop() }
}

private func temporaryPath(_ name: String) -> String {
  let directory = FileManager.default.temporaryDirectory.path
  return "\(directory)/cb-\(ProcessInfo.processInfo.processIdentifier)-\(UInt32.random(in: 0...UInt32.max))-\(name)"
}

@Suite struct SocketTests {
  private static func addresses() -> [SocketAddress] {
    [.tcp(host: "127.0.0.1", port: 0), .unix(path: temporaryPath("socket"))]
  }

  @Test(arguments: addresses())
  func packetsCrossBothWaysInOrder(_ address: SocketAddress) async throws {
    let pair = try Pair()
    await pair.connect(address)
    #expect(pair.failure == nil)
    await pair.wait(for: pair.serverSink) {
      $0.packets.count == 300
    } start: {
      for number in 0..<300 {
        let payload = [UInt8(number & 0xFF), UInt8(number >> 8), 0]
        pair.clientSide?.send(.command, payload.span.bytes)
      }
    }
    await onLoop(pair.loop) {
      for (number, packet) in pair.serverSink.packets.enumerated() {
        #expect(packet.0 == .command)
        #expect(packet.1 == [UInt8(number & 0xFF), UInt8(number >> 8), 0])
      }
    }
    await pair.wait(for: pair.clientSink) {
      $0.packets.count == 1
    } start: {
      let acl: [UInt8] = [0x40, 0x20, 1, 0, 7]
      pair.serverSide?.send(.aclData, acl.span.bytes)
    }
    let isTold = await onLoop(pair.loop) { pair.clientSink.packets.first?.0 == .aclData }
    #expect(isTold)
  }

  @Test func theOtherSideIsToldOfTheEndAfterThePacketsBeforeIt() async throws {
    let pair = try Pair()
    await pair.connect(.unix(path: temporaryPath("end")))
    await pair.wait(for: pair.serverSink) {
      $0.error != nil
    } start: {
      let payload: [UInt8] = [3, 0x0C, 0]
      pair.clientSide?.send(.command, payload.span.bytes)
      pair.clientSide?.close()
    }
    let (count, error) = await onLoop(pair.loop) { (pair.serverSink.packets.count, pair.serverSink.error) }
    #expect(count == 1)
    #expect(error?.description.contains("closed the connection") == true)
  }

  @Test func octetsThatAreNoHCIEndTheTransportWithAReason() async throws {
    let pair = try Pair()
    await pair.connect(.unix(path: temporaryPath("garbage")))
    await pair.wait(for: pair.serverSink) {
      $0.error != nil
    } start: {
      let payload: [UInt8] = []
      pair.clientSide?.send(HCIPacketType(rawValue: 0x7F), payload.span.bytes)
    }
    let error = await onLoop(pair.loop) { pair.serverSink.error }
    #expect(error?.description.contains("0x7f") == true)
  }

  @Test func aRefusedConnectionSaysWhatToLookFor() async throws {
    let loop = try #require(EventLoop(name: "test"))
    defer { loop.stop() }
    let path = temporaryPath("nobody")
    let error: HCITransportError? = await withCheckedContinuation { continuation in
      loop.execute {
        SocketTransport.connect(to: .unix(path: path), loop: loop) { result in
          if case .failure(let error) = result {
            continuation.resume(returning: error)
          } else {
            continuation.resume(returning: nil)
          }
        }
      }
    }
    #expect(error?.description.contains(path) == true)
    #expect(error?.description.contains("ble sim") == true)
  }

  /// A socket file left by a program that was killed does not keep the next one from listening.
  @Test func aStaleSocketFileIsReplaced() async throws {
    let path = temporaryPath("stale")
    let descriptor = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
    var address = sockaddr_un()
    address.sun_family = sa_family_t(AF_UNIX)
    withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: Array(path.utf8)) }
    let bound = withUnsafePointer(to: &address) {
      $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        bind(descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
      }
    }
    #expect(bound == 0)
    close(descriptor)
    let pair = try Pair()
    await pair.connect(.unix(path: path))
    #expect(pair.failure == nil)
    // One that somebody listens on is not taken away.
    let second = try Pair()
    await second.connect(.unix(path: path))
    #expect(second.failure != nil)
  }

  /// A socket of another kind cannot be connected to either, and is somebody's all the same.
  @Test func aSocketOfAnotherKindIsNotTakenAway() async throws {
    let path = temporaryPath("datagram")
    let descriptor = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue), 0)
    defer {
      close(descriptor)
      unlink(path)
    }
    var address = sockaddr_un()
    address.sun_family = sa_family_t(AF_UNIX)
    withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: Array(path.utf8)) }
    let bound = withUnsafePointer(to: &address) {
      $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        bind(descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
      }
    }
    try #require(bound == 0)
    let pair = try Pair()
    await pair.connect(.unix(path: path))
    #expect(pair.failure != nil)
    #expect(FileManager.default.fileExists(atPath: path))
  }

  /// What has been sent gives its memory back although there is always something left.
  @Test func aReaderThatIsAlwaysBehindDoesNotMakeTheMemoryGrow() async throws {
    let loop = try #require(EventLoop(name: "test"))
    defer { loop.stop() }
    var ends: [Int32] = [0, 0]
    try #require(socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0, &ends) == 0)
    let (own, other) = (ends[0], ends[1])
    defer { close(other) }
    _ = fcntl(own, F_SETFL, O_NONBLOCK)
    let transport = Box<SocketTransport?>(nil)
    await onLoop(loop) { transport.value = SocketTransport(loop: loop, descriptor: own, name: "pair") }
    let payload = [UInt8](repeating: 0, count: 60_000)
    for round in 0..<48 {
      await onLoop(loop) {
        for _ in 0..<(round == 0 ? 16 : 4) { transport.value?.send(.aclData, payload.span.bytes) }
      }
      try readAll(4 * (payload.count + 1), from: other)
    }
    let held = await onLoop(loop) { transport.value?.octetsHeld ?? .max }
    #expect(held < 2_000_000, "of \(48 * 4 * payload.count) octets that were sent")
    await onLoop(loop) { transport.value = nil }
  }

  private func readAll(_ count: Int, from descriptor: Int32) throws {
    var chunk = [UInt8](repeating: 0, count: 65_536)
    var rest = count
    while rest > 0 {
      let taken = read(descriptor, &chunk, min(rest, chunk.count))
      try #require(taken > 0)
      rest -= taken
    }
  }

  @Test func aCaptureOnAFullDiskEndsWithOneMessage() async throws {
    let loop = try #require(EventLoop(name: "test"))
    defer { loop.stop() }
    let messages = Box<[String]>([])
    await onLoop(loop) {
      let file = try? CaptureFile(path: "/dev/full", loop: loop) { messages.value.append($0.description) }
      let reset: [UInt8] = [3, 0x0C, 0]
      file?.record(.hostToController, .command, reset.span.bytes)
    }
    let told = await onLoop(loop) { messages.value }
    #expect(told.count == 1)
    #expect(told.first?.contains("/dev/full") == true)
  }

  /// Nobody waits for who reads a pipe: not for its coming, and not for its reading on.
  @Test func aCaptureIntoAPipeHoldsNothingUp() async throws {
    let loop = try #require(EventLoop(name: "test"))
    defer { loop.stop() }
    let path = temporaryPath("pipe")
    defer { unlink(path) }
    #expect(mkfifo(path, 0o600) == 0)
    let messages = Box<[String]>([])
    let isOpen = await onLoop(loop) { (try? CaptureFile(path: path, loop: loop) { _ in }) != nil }
    #expect(!isOpen)
    let reader = open(path, O_RDONLY | O_NONBLOCK)
    defer { close(reader) }
    let files = Box<[CaptureFile]>([])
    let payload = [UInt8](repeating: 7, count: 200)
    await onLoop(loop) {
      guard let file = try? CaptureFile(path: path, loop: loop, failed: { messages.value.append($0.description) })
      else {
        return
      }
      files.value = [file]
    }
    // More than a pipe holds.
    for _ in 0..<50 {
      await onLoop(loop) {
        for _ in 0..<20 { files.value.first?.record(.hostToController, .aclData, payload.span.bytes) }
      }
    }
    var taken: [UInt8] = []
    var chunk = [UInt8](repeating: 0, count: 1 << 20)
    for _ in 0..<100 {
      let count = read(reader, &chunk, chunk.count)
      if count > 0 { taken += chunk.prefix(count) }
      // What was kept follows with the next packets.
      await onLoop(loop) { files.value.first?.record(.hostToController, .aclData, payload.span.bytes) }
    }
    #expect(await onLoop(loop) { messages.value }.isEmpty)
    #expect(taken.count > 16 + 1_000 * 225)
    #expect(taken.prefix(8) == Array("btsnoop\0".utf8)[...])
    #expect((taken.count - 16) % 225 == 0)
    await onLoop(loop) { files.value = [] }
  }

  @Test func controlLinesAreAnswered() async throws {
    let loop = try #require(EventLoop(name: "test"))
    defer { loop.stop() }
    let path = temporaryPath("control")
    let server = Box<LineServer?>(nil)
    let isListening = await onLoop(loop) {
      server.value = try? LineServer(address: .unix(path: path), loop: loop) { ["you said \($0)"] }
      return server.value != nil
    }
    #expect(isListening)
    let answer = try talk(path, "hello\nagain\n", until: 2)
    #expect(answer == ["you said hello", "you said again"])
    await onLoop(loop) { server.value = nil }
    #expect(!FileManager.default.fileExists(atPath: path))
  }

  /// Sends lines over a plain blocking socket and reads as many back.
  private func talk(_ path: String, _ text: String, until count: Int) throws -> [String] {
    let descriptor = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
    defer { close(descriptor) }
    var address = sockaddr_un()
    address.sun_family = sa_family_t(AF_UNIX)
    withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: Array(path.utf8)) }
    let connected = withUnsafePointer(to: &address) {
      $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
      }
    }
    try #require(connected == 0)
    _ = write(descriptor, text, text.utf8.count)
    var input: [UInt8] = []
    while input.count(where: { $0 == 10 }) < count {
      var chunk = [UInt8](repeating: 0, count: 256)
      let read = read(descriptor, &chunk, chunk.count)
      try #require(read > 0)
      input += chunk.prefix(read)
    }
    return String(decoding: input, as: UTF8.self).split(separator: "\n").map(String.init)
  }
}
