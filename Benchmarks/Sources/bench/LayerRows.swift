// SPDX-License-Identifier: Apache-2.0

import AllocationCounter
import BLECore
import BLEGATT
import BLEHCI
import BLEHost
import BLERadio
import Foundation

/// Rows below the API, on one thread.
enum LayerRows {
  // MARK: HCI

  /// The packets of `hci-packets.txt` again and again, as an H4 stream, each into its typed value.
  static func hciPackets() throws -> Row {
    let file = URL(fileURLWithPath: #filePath).appendingPathComponent("../../../hci-packets.txt").standardized
    let lines = try String(contentsOf: file, encoding: .utf8).split(separator: "\n")
    let packets = try lines.map { try octets($0) }
    var stream: [UInt8] = []
    let repeats = 100
    for _ in 0..<repeats { for packet in packets { stream += packet } }
    var parser = H4Parser()
    let digest = Digest()
    var row = Row(count: 0, wall: 0, cpu: 0)
    for rounds in [100, 1_000] {
      digest.value = 0
      let meter = Meter()
      for _ in 0..<rounds { try parser.receive(stream.span.bytes) { digest.take($0, $1) } }
      row = meter.stop(rounds * repeats * packets.count)
      guard digest.refused == 0, digest.value == rounds * repeats * digest.one else { throw Failure("wrongly parsed") }
    }
    return row
  }

  private static func octets(_ hex: Substring) throws -> [UInt8] {
    let digits = Array(hex)
    return try stride(from: 0, to: digits.count, by: 2).map { index in
      guard let octet = UInt8(String(digits[index...index + 1]), radix: 16) else { throw Failure("not hexadecimal") }
      return octet
    }
  }

  /// Uses a field of each packet, so that none can be left out; `one` is what all of them together come to.
  private final class Digest {
    var value = 0
    var refused = 0
    let one = 31 + 251 + 1 + 7 + 1 + 24 + 0x13 + 251

    func take(_ type: HCIPacketType, _ payload: RawSpan) {
      do throws(DecodeError) {
        switch type {
        case .aclData:
          var reader = ByteReader(payload)
          value += Int(try ACLHeader(from: &reader).dataLength)
        case .event: try takeEvent(HCIEventPacket(payload))
        default: refused += 1
        }
      } catch {
        refused += 1
      }
    }

    private func takeEvent(_ packet: borrowing HCIEventPacket) throws(DecodeError) {
      switch packet.code {
      case .leMeta:
        var reader = ByteReader(packet.parameters)
        let subevent = LESubevent(rawValue: try reader.u8())
        try takeMeta(subevent, reader.rest())
      case .numberOfCompletedPackets: value += try NumberOfCompletedPackets.decode(packet.parameters).handles.count
      case .commandComplete:
        var reader = ByteReader(packet.parameters)
        _ = try CommandComplete(from: &reader)
        value += try ReadRSSI.ReturnParameters(from: &reader).status == .success ? 7 : 0
      case .commandStatus: value += Int(try CommandStatus.decode(packet.parameters).numHCICommandPackets)
      case .disconnectionComplete: value += Int(try DisconnectionComplete.decode(packet.parameters).reason.rawValue)
      default: refused += 1
      }
    }

    private func takeMeta(_ subevent: LESubevent, _ parameters: RawSpan) throws(DecodeError) {
      switch subevent {
      case .advertisingReport:
        for report in try LEAdvertisingReport.decode(parameters).reports { value += report.data.count + 6 }
      case .connectionComplete: value += Int(try LEConnectionComplete.decode(parameters).connectionInterval.rawValue)
      case .dataLengthChange: value += Int(try LEDataLengthChange.decode(parameters).maxTxOctets)
      default: refused += 1
      }
    }
  }

  // MARK: ATT

  /// One Read Request for an attribute in the middle of 54, bytes in to bytes out.
  static func attServer() throws -> Row {
    let database = AttributeDatabase()
    var handle: UInt16 = 0
    for number in 0..<6 {
      // A service, and four characteristics: nine attributes.
      let characteristics = (0..<4).map { index in
        CharacteristicDefinition(
          uuid: BluetoothUUID(UInt32(0xFF00 + number * 4 + index)), properties: .read, permissions: .readable,
          value: .fixed(Array(0..<20)))
      }
      let service = try database.addService(
        ServiceDefinition(uuid: BluetoothUUID(UInt32(0xFE00 + number)), characteristics: characteristics))
      if number == 3 { handle = service.characteristics[1].value }
    }
    guard database.attributeCount == 54 else { throw Failure("\(database.attributeCount) attributes") }
    var bearer = ATTBearer()
    let request: [UInt8] = [0x0A, UInt8(handle & 0xFF), UInt8(handle >> 8)]
    var answered = 0
    var row = Row(count: 0, wall: 0, cpu: 0)
    for count in [200_000, 3_000_000] {
      answered = 0
      let meter = Meter()
      for _ in 0..<count {
        bearer.receive(request.span.bytes, database: database, now: .zero)
        bearer.outgoing.removeFirst { _, response in if response.byteCount == 21 { answered += 1 } }
      }
      row = meter.stop(count)
      guard answered == count else { throw Failure("\(answered) answers to \(count) requests") }
    }
    return row
  }

  // MARK: Memory

  /// Devices that are ready to be used, each a controller and a host with the services GAP and GATT.
  static func memory() throws -> Row {
    let world = RadioWorld(setting: .ideal)
    var devices: [Device] = []
    let count = 1_000
    devices.reserveCapacity(count)
    // The first ones bring what is there once.
    for number in 0..<10 { devices.append(try Device(world, number: UInt64(number))) }
    world.simulator.advance(by: .seconds(1))
    let before = allocated_octets()
    let meter = Meter()
    for number in 10..<count { devices.append(try Device(world, number: UInt64(number))) }
    world.simulator.advance(by: .seconds(1))
    let octets = Double(allocated_octets() - before) / Double(count - 10)
    guard devices.allSatisfy(\.isReady) else { throw Failure("not all devices are ready") }
    return meter.stop(count - 10, extra: ["octets": octets])
  }

  // MARK: Allocations

  /// Notifications from host to host, in steady state.
  static func allocations() throws -> Row {
    let world = RadioWorld(setting: .ideal)
    let peripheral = try Device(world, number: 1)
    let central = try Device(world, number: 2)
    let handles = try peripheral.publish(0xFFF0)
    world.simulator.advance(by: .seconds(1))
    peripheral.advertise([])
    central.host.connect(DeviceAddress(peripheral.controller.address, type: .publicDevice))
    world.simulator.advance(by: .seconds(1))
    guard let connection = central.connection else { throw Failure("no connection") }
    let on: [UInt8] = [1, 0]
    central.host.perform(on: connection) { bearer, now in
      bearer.exchangeMTU(token: 1, now: now)
      bearer.write(handles.configuration, on.span.bytes, token: 2, now: now)
    }
    world.simulator.advance(by: .seconds(1))
    guard peripheral.isSubscribed else { throw Failure("no subscription") }
    var octets = 0
    central.notified = { octets += $0 }
    let value = [UInt8](repeating: 7, count: 244)
    var row = Row(count: 0, wall: 0, cpu: 0)
    for count in [20_000, 20_000] {
      octets = 0
      let before = allocation_count_of_thread()
      let meter = Meter()
      for _ in 0..<count / 4 {
        for _ in 0..<4 { guard peripheral.notify(handles.value, value.span.bytes) else { throw Failure("refused") } }
        world.simulator.advance(by: .microseconds(1))
      }
      row = meter.stop(count)
      let allocations = Double(allocation_count_of_thread() - before)
      row.extra["allocations"] = allocations / Double(count)
      guard octets == count * value.count else { throw Failure("\(octets) octets of \(count) notifications came") }
    }
    return row
  }
}
