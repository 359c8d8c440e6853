// SPDX-License-Identifier: Apache-2.0

import BLECore
import BLEHCI
import BLERadio
import Foundation

/// Many devices on one air: beacons spread over a plain, scanners that hear some of them, connections in between.
enum ScaleRows {
  /// Metres along which a signal fades to sensitivity: -96 dBm with the exponent 3.5.
  private static let reach = 39.0
  /// Advertisers that a scanner has within reach in the mean.
  private static let neighbours = 120.0

  /// A controller that is told what to do by bare HCI commands.
  private final class Node: HCIReceiver {
    let controller: VirtualController
    private let transport: any HCITransport
    private let world: RadioWorld
    private(set) var reports = 0
    private(set) var advertisers = Set<BDAddress>()
    private(set) var isConnected = false

    init(_ world: RadioWorld, _ number: Int, _ position: Position) {
      self.world = world
      let pair = HCITransportPair(scheduler: world.simulator)
      transport = pair.host
      controller = VirtualController(
        world: world, address: BDAddress(0x02_CB_00_00_00_00 | UInt64(number)), transport: pair.controller)
      transport.receiver = self
      world.setPosition(position, of: controller.device)
      send(SetEventMask(eventMask: .max))
    }

    func send(_ command: some HCICommand) {
      var writer = ByteWriter()
      command.encodePacket(into: &writer)
      let bytes = writer.bytes
      transport.send(.command, bytes.span.bytes)
    }

    func receive(_ type: HCIPacketType, _ payload: RawSpan) {
      var reader = ByteReader(payload)
      guard type == .event, let code = try? reader.u8(), code == 0x3E, (try? reader.u8()) != nil,
        let subevent = try? reader.u8()
      else { return }
      switch LESubevent(rawValue: subevent) {
      case .advertisingReport:
        reports += 1
        if (try? reader.skip(3)) != nil, let address = try? BDAddress(from: &reader) { advertisers.insert(address) }
      case .connectionComplete: isConnected = true
      default: break
      }
    }

    func transportClosed(_ error: HCITransportError) {}

    func advertise(_ type: AdvertisingType, interval: UInt32) {
      send(
        LESetAdvertisingParameters(
          advertisingIntervalMin: AdvertisingInterval(rawValue: interval),
          advertisingIntervalMax: AdvertisingInterval(rawValue: interval), advertisingType: type,
          ownAddressType: .publicDevice, peerAddressType: .publicDevice, peerAddress: .zero,
          advertisingChannelMap: .all, advertisingFilterPolicy: .all))
      send(LESetAdvertisingData(data: Array(repeating: 0x16, count: 31)))
      send(LESetAdvertisingEnable(enable: true))
    }

    func scan() {
      send(
        LESetScanParameters(
          scanType: .passive, scanInterval: ScanInterval(rawValue: 0x60), scanWindow: ScanInterval(rawValue: 0x60),
          ownAddressType: .publicDevice, scanningFilterPolicy: .all))
      send(LESetScanEnable(enable: true, filterDuplicates: false))
    }

    func connect(to peer: Node) {
      send(
        LECreateConnection(
          scanInterval: ScanInterval(rawValue: 0x60), scanWindow: ScanInterval(rawValue: 0x60),
          initiatorFilterPolicy: .peerAddress, peerAddressType: .publicDevice, peerAddress: peer.controller.address,
          ownAddressType: .publicDevice, connectionIntervalMin: ConnectionInterval(rawValue: 80),
          connectionIntervalMax: ConnectionInterval(rawValue: 80), maxLatency: 0,
          supervisionTimeout: SupervisionTimeout(rawValue: 400), minCELength: ConnectionEventLength(rawValue: 0),
          maxCELength: ConnectionEventLength(rawValue: 0)))
    }
  }

  private struct Plain {
    let world = RadioWorld(seed: 1)
    var nodes: [Node] = []
    var scanners: [Node] = []
    var centrals: [Node] = []
    private var random = SeededGenerator(seed: 7)
    private let side: Double

    init(advertisers: Int) {
      world.pathLoss = PathLoss(exponent: 3.5)
      side = (Double(advertisers) / neighbours * Double.pi * reach * reach).squareRoot()
    }

    private mutating func place() -> Position {
      Position(x: Double(random.next() >> 11) * side * 0x1p-53, y: Double(random.next() >> 11) * side * 0x1p-53)
    }

    mutating func addConnections(_ count: Int) throws {
      for _ in 0..<count {
        let place = place()
        let peripheral = Node(world, nodes.count, place)
        nodes.append(peripheral)
        let central = Node(world, nodes.count, Position(x: place.x + 3, y: place.y))
        nodes.append(central)
        centrals.append(central)
        peripheral.advertise(.connectable, interval: 0x20)
        central.connect(to: peripheral)
        world.simulator.advance(by: .microseconds(1_700))
      }
      world.simulator.advance(by: .seconds(3))
      let connected = centrals.count { !$0.controller.connections.isEmpty }
      guard connected >= count * 99 / 100 else { throw Failure("\(connected) of \(count) connections") }
    }

    mutating func addAdvertisers(_ count: Int) {
      for index in 0..<count {
        let node = Node(world, nodes.count, place())
        nodes.append(node)
        node.advertise(.nonConnectable, interval: 0xA0)
        // Not in step: as many a millisecond as there are in 105 of them.
        let (now, next) = (105_000 * index / count, 105_000 * (index + 1) / count)
        world.simulator.advance(by: .microseconds(next - now))
      }
    }

    /// In the middle of the plain, where a scanner has neighbours on all sides.
    mutating func addScanners(_ count: Int) {
      for index in 0..<count {
        let x = side * (0.3 + 0.4 * Double(index) / Double(count))
        let node = Node(world, nodes.count, Position(x: x, y: side * (index % 2 == 0 ? 0.4 : 0.6)))
        nodes.append(node)
        scanners.append(node)
        node.scan()
      }
      world.simulator.advance(by: .seconds(1))
    }
  }

  /// 10,000 advertisers, ten scanners, 1,000 connections.
  static func crowd() throws -> Row {
    var plain = Plain(advertisers: 10_000)
    try plain.addConnections(1_000)
    plain.addScanners(10)
    plain.addAdvertisers(10_000)
    plain.world.simulator.advance(by: .seconds(1))
    let (packets, events) = (plain.world.packetCount, plain.world.simulator.firedEventCount)
    let seconds = 10
    let meter = Meter()
    plain.world.simulator.advance(by: .seconds(seconds))
    var row = meter.stop(Int(plain.world.packetCount - packets))
    let heard = plain.scanners.map { Double($0.advertisers.count) }
    guard let least = heard.min(), let most = heard.max(), least >= 50, most <= 200 else {
      throw Failure("the scanners hear \(heard)")
    }
    row.extra["times-real"] = Double(seconds) / row.wall
    row.extra["events"] = Double(plain.world.simulator.firedEventCount - events)
    row.extra["megabytes"] = resident()
    row.extra["heard-min"] = least
    row.extra["heard-max"] = most
    row.extra["connections"] = Double(plain.centrals.count { !$0.controller.connections.isEmpty })
    return row
  }

  /// What an event costs in worlds of different sizes and the same density.
  static func growth() throws -> Row {
    var row = Row(count: 0, wall: 0, cpu: 0)
    for count in [100, 300, 1_000, 3_000, 10_000] {
      var plain = Plain(advertisers: count)
      plain.addScanners(max(1, count / 1_000))
      plain.addAdvertisers(count)
      // As many events in each world, and a tenth of them beforehand.
      plain.world.simulator.advance(by: .milliseconds(4_000_000 / count))
      let events = plain.world.simulator.firedEventCount
      let meter = Meter()
      plain.world.simulator.advance(by: .milliseconds(40_000_000 / count))
      let fired = plain.world.simulator.firedEventCount - events
      row = meter.stop(Int(fired), extra: row.extra)
      row.extra["nanoseconds-\(count)"] = row.cpu * 1e9 / Double(fired)
    }
    return row
  }

  /// Megabytes of memory that the process occupies.
  private static func resident() -> Double {
    guard let text = try? String(contentsOfFile: "/proc/self/statm", encoding: .utf8),
      let pages = text.split(separator: " ").dropFirst().first.flatMap({ Double($0) })
    else { return 0 }
    return pages * 4_096 / 1e6
  }
}
