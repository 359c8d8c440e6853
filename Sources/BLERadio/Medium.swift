// SPDX-License-Identifier: Apache-2.0

import BLECore

/// A job of a controller that uses the air: a connection, the advertiser, the scanner.
protocol AirUser: AnyObject {
  /// The last bit of what was sent with ``RadioWorld/transmit(_:from:channel:accessAddress:crcInit:phy:coding:)`` is out.
  func transmissionEnded()
  /// A packet that began while the user listened has ended.
  func receive(_ packet: AirPacket, _ reception: Reception)
}

/// How one receiver got a packet.
struct Reception {
  var rssi: Int8
  var isCRCValid: Bool
}

/// A packet in flight. The objects and their buffers are used again.
final class AirPacket: SimulatorEventHandler {
  var start = Instant.zero
  var end = Instant.zero
  var channel: UInt8 = 0
  var accessAddress: UInt32 = 0
  var crcInit: UInt32 = 0
  var phy = AirPHY.le1M
  var coding = AirCoding.s8
  fileprivate(set) var sender = RadioDeviceID(rawValue: 0)
  /// Counts the packets of `sender`.
  fileprivate(set) var number: UInt64 = 0
  /// Header and payload.
  private(set) var pdu: [UInt8] = []
  fileprivate(set) var endpoint = EndpointID(index: 0, generation: 0)
  private(set) var event: SimulatorEvent?
  private unowned let world: RadioWorld
  private let simulator: Simulator

  init(_ world: RadioWorld) {
    self.world = world
    simulator = world.simulator
    pdu.reserveCapacity(LinkLayer.pduCountMax)
    event = simulator.makeEvent(self)
  }

  deinit {
    if let event { simulator.release(event) }
  }

  func set(_ bytes: [UInt8]) {
    pdu.removeAll(keepingCapacity: true)
    pdu.append(contentsOf: bytes)
  }

  func handleEvent(_ argument: UInt32) { world.land(self) }
}

/// Names the side of the air that one ``AirUser`` sees; one that was given back names nothing.
struct EndpointID: Hashable {
  fileprivate let index: Int32
  fileprivate let generation: UInt32
}

/// What there is between the devices of a world: who listens where, what flies, and who hears whom how well. A struct of
/// its own, so that each use costs one check of exclusive access; for the same reason its readers are `mutating`: a
/// reader of a class's property would work on a copy, and retain all there is. It calls nobody, so the world's property is
/// exempt from that check.
struct Medium {
  /// What differs from the world's own settings between two devices.
  struct Pair {
    var lossThreshold: UInt64?
    var rssi: Int8?
    var isCut = false
  }

  private struct Endpoint {
    unowned var user: (any AirUser)?
    var device: RadioDeviceID
    var generation: UInt32
    /// The channel it listens on.
    var channel: UInt8?
    var accessAddress: UInt32 = 0
    var phy = AirPHY.le1M
    var since = Instant.zero
  }

  /// The probability of a wrong CRC, of 2^32.
  var lossThreshold: UInt64 = 0
  var rssi: Int8 = -60
  private(set) var packetCount: UInt64 = 0

  private let seed: UInt64
  private var pairs: [UInt64: Pair] = [:]
  /// Packets sent per device: each is one draw of its luck.
  private var sentCounts: [UInt64] = []
  private var isolated: [Bool] = []
  private var endpoints: [Endpoint] = []
  private var freeEndpoints: [Int32] = []
  /// Endpoints by the channel that they listen on, and packets by theirs.
  private var listeners: [[Int32]]
  private var flights: [[AirPacket]]
  private var idlePackets: [AirPacket] = []
  private var receivers: [Int32] = []

  init(seed: UInt64) {
    self.seed = seed
    listeners = Array(repeating: [], count: Int(LinkLayer.channelCount))
    flights = Array(repeating: [], count: Int(LinkLayer.channelCount))
  }

  // MARK: - Devices

  mutating func addDevice() -> RadioDeviceID {
    sentCounts.append(0)
    isolated.append(false)
    return RadioDeviceID(rawValue: Int32(sentCounts.count - 1))
  }

  mutating func setIsolated(_ isIsolated: Bool, _ device: RadioDeviceID) {
    guard isolated.indices.contains(Int(device.rawValue)) else { return }
    isolated[Int(device.rawValue)] = isIsolated
  }

  mutating func changePair(_ a: RadioDeviceID, _ b: RadioDeviceID, _ body: (inout Pair) -> Void) {
    body(&pairs[Self.key(a, b), default: Pair()])
  }

  private static func key(_ a: RadioDeviceID, _ b: RadioDeviceID) -> UInt64 {
    UInt64(UInt32(bitPattern: min(a, b).rawValue)) << 32 | UInt64(UInt32(bitPattern: max(a, b).rawValue))
  }

  /// `probability` of 2^32.
  static func threshold(_ probability: Double) -> UInt64 {
    guard probability > 0 else { return 0 }
    return probability >= 1 ? 1 << 32 : UInt64(probability * 4_294_967_296)
  }

  private func isCut(_ a: RadioDeviceID, _ b: RadioDeviceID) -> Bool {
    isolated[Int(a.rawValue)] || isolated[Int(b.rawValue)] || (!pairs.isEmpty && pairs[Self.key(a, b)]?.isCut == true)
  }

  /// How `device` gets `packet`, which it hears.
  mutating func reception(of packet: AirPacket, by device: RadioDeviceID, isIdeal: Bool) -> Reception {
    let pair = pairs.isEmpty ? nil : pairs[Self.key(packet.sender, device)]
    let threshold = isIdeal ? 0 : pair?.lossThreshold ?? lossThreshold
    var isValid = true
    if threshold > 0 {
      let link = UInt64(UInt32(bitPattern: device.rawValue)) << 32 | UInt64(UInt32(bitPattern: packet.sender.rawValue))
      var luck = SeededGenerator(seed: seed &+ packet.number &* 0x9FB2_1C65_1E98_DF25, purpose: ~link)
      isValid = luck.next() >> 32 >= threshold
    }
    return Reception(rssi: pair?.rssi ?? rssi, isCRCValid: isValid)
  }

  // MARK: - Endpoints

  mutating func makeEndpoint(_ user: any AirUser, _ device: RadioDeviceID) -> EndpointID {
    if let index = freeEndpoints.popLast() {
      let generation = endpoints[Int(index)].generation
      endpoints[Int(index)] = Endpoint(user: user, device: device, generation: generation)
      return EndpointID(index: index, generation: generation)
    }
    endpoints.append(Endpoint(user: user, device: device, generation: 0))
    return EndpointID(index: Int32(endpoints.count - 1), generation: 0)
  }

  mutating func release(_ id: EndpointID) {
    guard endpoints[Int(id.index)].generation == id.generation else { return }
    ignore(id)
    endpoints[Int(id.index)].user = nil
    endpoints[Int(id.index)].generation &+= 1
    freeEndpoints.append(id.index)
  }

  /// nil: given back.
  mutating func user(_ id: EndpointID) -> (any AirUser)? {
    endpoints[Int(id.index)].generation == id.generation ? endpoints[Int(id.index)].user : nil
  }

  mutating func listen(_ id: EndpointID, channel: UInt8, accessAddress: UInt32, phy: AirPHY, now: Instant) {
    ignore(id)
    endpoints[Int(id.index)].channel = channel
    endpoints[Int(id.index)].accessAddress = accessAddress
    endpoints[Int(id.index)].phy = phy
    endpoints[Int(id.index)].since = now
    listeners[Int(channel)].append(id.index)
  }

  mutating func ignore(_ id: EndpointID) {
    guard let channel = endpoints[Int(id.index)].channel else { return }
    endpoints[Int(id.index)].channel = nil
    guard let position = listeners[Int(channel)].firstIndex(of: id.index) else { return }
    listeners[Int(channel)].remove(at: position)
  }

  mutating func receptionEnd(_ id: EndpointID) -> Instant? {
    guard let channel = endpoints[Int(id.index)].channel else { return nil }
    for packet in flights[Int(channel)] where hears(id.index, packet) { return packet.end }
    return nil
  }

  private func hears(_ index: Int32, _ packet: AirPacket) -> Bool {
    let endpoint = endpoints[Int(index)]
    return endpoint.channel == packet.channel && endpoint.accessAddress == packet.accessAddress
      && endpoint.phy == packet.phy && endpoint.since <= packet.start && endpoint.device != packet.sender
      && !isCut(endpoint.device, packet.sender)
  }

  // MARK: - Packets

  mutating func takeIdlePacket() -> AirPacket? { idlePackets.popLast() }
  mutating func recycle(_ packet: AirPacket) { idlePackets.append(packet) }

  mutating func launch(_ packet: AirPacket, from id: EndpointID) {
    let device = endpoints[Int(id.index)].device
    packet.endpoint = id
    packet.sender = device
    sentCounts[Int(device.rawValue)] &+= 1
    packet.number = sentCounts[Int(device.rawValue)]
    packetCount &+= 1
    flights[Int(packet.channel)].append(packet)
  }

  /// Takes `packet` out of the air. Returns how many may have heard it; -1 if its sender broke it off.
  mutating func land(_ packet: AirPacket) -> Int {
    let channel = Int(packet.channel)
    if let position = flights[channel].firstIndex(where: { $0 === packet }) { flights[channel].remove(at: position) }
    guard user(packet.endpoint) != nil else { return -1 }
    receivers.removeAll(keepingCapacity: true)
    for index in listeners[channel] where hears(index, packet) { receivers.append(index) }
    return receivers.count
  }

  /// The receiver `index` of those that ``land(_:)`` found, if it still listens.
  mutating func receiver(_ index: Int, of packet: AirPacket) -> (user: any AirUser, device: RadioDeviceID)? {
    let endpoint = receivers[index]
    guard hears(endpoint, packet), let user = endpoints[Int(endpoint)].user else { return nil }
    return (user, endpoints[Int(endpoint)].device)
  }
}
