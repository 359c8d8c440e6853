// SPDX-License-Identifier: Apache-2.0

import AllocationCounter
import BLECore
import BLEHCI
import BLERadio
import Foundation
import Synchronization

/// The controller's side of a Unix socket, on a thread of its own: a virtual controller, and whatever HCI bytes a row
/// wants to come from it.
///
/// `@unchecked Sendable`: what is not atomic or constant is touched on its thread, `used` before the last byte is read
/// by anybody.
final class Feeder: @unchecked Sendable {
  let path: String
  let world = RadioWorld(setting: .ideal)
  /// Seconds of processor time that feeding took.
  var used = 0.0
  private(set) var isScanning = false
  private let listener: Int32
  private var socket: Int32 = -1
  private let transport = Transport()
  private var parser = H4Parser()
  private var input = [UInt8](repeating: 0, count: 64 << 10)
  private let asks = Atomic<Int>(0)
  private let counted = Atomic<Int>(0)
  private let over = Atomic<Bool>(false)

  private final class Transport: HCITransport {
    weak var receiver: (any HCIReceiver)?
    var outgoing = ByteWriter(capacity: 1 << 20)
    func send(_ type: HCIPacketType, _ payload: RawSpan) { outgoing.h4(type, payload) }
    func close() {}
  }

  /// Listens, and runs `body` on the thread once a host has connected.
  init(_ body: @escaping @Sendable (Feeder) throws -> Void) throws {
    path = NSTemporaryDirectory() + "corebluetooth-bench-\(getpid())"
    setenv("COREBLUETOOTH_STATE_DIR", NSTemporaryDirectory() + "corebluetooth-bench", 1)
    unlink(path)
    listener = Glibc.socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
    var address = sockaddr_un()
    address.sun_family = sa_family_t(AF_UNIX)
    let octets = Array(path.utf8)
    withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: octets) }
    let bound = withUnsafePointer(to: &address) { pointer in
      pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        bind(listener, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
      }
    }
    guard bound == 0, listen(listener, 1) == 0 else { throw Failure("cannot listen on \(path)") }
    Thread { [self] in
      socket = accept(listener, nil, nil)
      unlink(path)
      let controller = VirtualController(world: world, address: BDAddress(0x02_CB_00_00_00_01), transport: transport)
      do { try withExtendedLifetime(controller) { try body(self) } } catch {
        // Once all is measured the host may go.
        if isOver { return }
        FileHandle.standardError.write(Data("bench: the controller's side: \(error)\n".utf8))
        exit(1)
      }
    }.start()
  }

  // MARK: Any thread

  /// Asks the feeder for more.
  func ask() { asks.wrappingAdd(1, ordering: .sequentiallyConsistent) }
  var asked: Int { asks.load(ordering: .sequentiallyConsistent) }
  var isAsked: Bool { asked > 0 }
  /// Heap allocations of the feeder's thread until it last flushed.
  var allocations: UInt64 { UInt64(counted.load(ordering: .sequentiallyConsistent)) }

  /// Nothing more is wanted of the feeder.
  func end() { over.store(true, ordering: .sequentiallyConsistent) }
  private var isOver: Bool { over.load(ordering: .sequentiallyConsistent) }

  // MARK: The feeder's thread

  /// Is a controller until `condition` holds.
  func serve(until condition: () -> Bool) throws {
    while !condition() {
      var descriptor = pollfd(fd: socket, events: Int16(POLLIN), revents: 0)
      if poll(&descriptor, 1, 1) > 0 {
        // Taken out of the object for the time of the parse.
        var octets: [UInt8] = []
        swap(&octets, &input)
        defer { swap(&octets, &input) }
        let count = octets.withUnsafeMutableBytes { read(socket, $0.baseAddress, $0.count) }
        guard count > 0 else { throw Failure("the host went away") }
        let bytes = octets.span.bytes
        try parser.receive(bytes.extracting(0..<count)) { type, packet in
          note(type, packet)
          transport.receiver?.receive(type, packet)
        }
      }
      world.simulator.advance(by: .milliseconds(1))
      if transport.outgoing.count > 0 { try flush() }
    }
  }

  /// LE Set Scan Enable.
  private func note(_ type: HCIPacketType, _ packet: RawSpan) {
    guard type == .command, let command = try? HCICommandPacket(packet), command.opcode == LESetScanEnable.opcode,
      let parameters = try? LESetScanEnable.decode(command.parameters)
    else { return }
    isScanning = parameters.enable
  }

  func flush() throws {
    counted.store(Int(allocation_count_of_thread()), ordering: .sequentiallyConsistent)
    try write(transport.outgoing.bytes)
    transport.outgoing.removeAll()
  }

  func write(_ octets: [UInt8]) throws {
    try octets.withUnsafeBytes { bytes in
      var sent = 0
      while sent < bytes.count {
        let count = send(socket, bytes.baseAddress.map { $0 + sent }, bytes.count - sent, Int32(MSG_NOSIGNAL))
        guard count > 0 else { throw Failure("the host reads no more") }
        sent += count
      }
    }
  }

  /// LE Advertising Report of a connectable advertiser.
  func encodeReport(_ number: Int, into writer: inout ByteWriter) {
    let name = Array("Sensor \(number)".utf8)
    var data: [UInt8] = [2, 1, 6, 3, 3, 0x0D, 0x18, 7, 0xFF, 0x4C, 0, 1, 2, 3, 4, UInt8(name.count + 1), 9]
    data += name
    let report = LEAdvertisingReport(reports: [
      .init(
        eventType: .connectable, addressType: .random, address: BDAddress(0xC0_00_00_00_00_00 | UInt64(number)),
        data: data, rssi: -60)
    ])
    writer.u8(HCIPacketType.event.rawValue)
    report.encodePacket(into: &writer)
  }
}
