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
  /// How much weaker than its device can it is sent.
  var reduction = Decibels.zero
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

  deinit { if let event { simulator.release(event) } }

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

  private struct Device {
    var position: Position?
    var cell = CellGrid.everywhere
    var power = Decibels.zero
    /// Packets sent: each is one draw of its luck.
    var sentCount: UInt64 = 0
    var isIsolated = false
    /// Pairs of it have a signal strength of their own, at any distance.
    var isHeardAnywhere = false
    /// Counts its moves, for ``Medium/losses``.
    var moves: UInt32 = 0
    var endpoints: [Int32] = []
  }

  private struct Endpoint {
    /// Not counted: it is set to nil before its object dies, by ``Medium/release(_:)``.
    unowned(unsafe) var user: (any AirUser)?
    var device: RadioDeviceID
    var generation: UInt32
    /// The channel it listens on.
    var channel: UInt8?
    var accessAddress: UInt32 = 0
    var phy = AirPHY.le1M
    var since = Instant.zero
  }

  private struct KnownLoss {
    var loss: Decibels
    var moves: UInt32
  }

  private struct Receiver {
    var endpoint: Int32
    var strength: Decibels
  }

  /// The probability of a wrong CRC, of 2^32.
  var lossThreshold: UInt64 = 0
  var rssi: Int8 = -60
  var collisions = CollisionModel.capture(threshold: 8)
  var bursts: [LossBurst] = []
  private var interference: [Interference?]
  private(set) var hasInterference = false
  private(set) var packetCount: UInt64 = 0
  private(set) var propagation: Propagation

  private let seed: UInt64
  private let isIdeal: Bool
  private var pairs: [UInt64: Pair] = [:]
  private var devices: [Device] = []
  private var endpoints: [Endpoint] = []
  private var freeEndpoints: [Int32] = []
  private var grid = CellGrid(width: 1)
  /// Of each cell all channels.
  private var slots: [AirSlot]
  /// All there are, on air or not: the simulator does not keep them.
  private var packets: [AirPacket] = []
  private var idlePackets: [AirPacket] = []
  private var receivers: [Receiver] = []
  /// What is known between devices where that takes a while to calculate.
  private var losses: [UInt64: KnownLoss] = [:]
  /// The longest packet so far: what ended longer ago has overlapped with nothing that is on air.
  private var longest: Int64 = 0
  private var reach = Reach()

  /// What the width of the cells follows from.
  private struct Reach: Equatable {
    var power = Decibels.zero
    var usesCoded = false
    var isInUse = false
  }

  private static let channels = Int(LinkLayer.channelCount)

  init(seed: UInt64, isIdeal: Bool) {
    self.seed = seed
    self.isIdeal = isIdeal
    propagation = Propagation(seed: seed)
    interference = Array(repeating: nil, count: Self.channels)
    slots = Array(repeating: AirSlot(), count: Self.channels)
  }

  // MARK: - Devices

  mutating func addDevice() -> RadioDeviceID {
    devices.append(Device())
    return RadioDeviceID(rawValue: Int32(devices.count - 1))
  }

  mutating func setIsolated(_ isIsolated: Bool, _ device: RadioDeviceID) {
    guard devices.indices.contains(Int(device.rawValue)) else { return }
    devices[Int(device.rawValue)].isIsolated = isIsolated
  }

  mutating func changePair(_ a: RadioDeviceID, _ b: RadioDeviceID, _ body: (inout Pair) -> Void) {
    body(&pairs[Self.key(a, b), default: Pair()])
    guard pairs[Self.key(a, b)]?.rssi != nil else { return }
    for device in [a, b] where devices.indices.contains(Int(device.rawValue)) {
      devices[Int(device.rawValue)].isHeardAnywhere = true
      settle(device)
    }
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
    devices[Int(a.rawValue)].isIsolated || devices[Int(b.rawValue)].isIsolated
      || (!pairs.isEmpty && pairs[Self.key(a, b)]?.isCut == true)
  }

  // MARK: - Places

  func position(of device: RadioDeviceID) -> Position? {
    devices.indices.contains(Int(device.rawValue)) ? devices[Int(device.rawValue)].position : nil
  }

  mutating func setPosition(_ position: Position?, of device: RadioDeviceID) {
    let index = Int(device.rawValue)
    guard devices.indices.contains(index), devices[index].position != position else { return }
    devices[index].position = position
    devices[index].moves &+= 1
    if !reach.isInUse, position != nil {
      reach.isInUse = true
      rebuild()
    } else {
      settle(device)
    }
  }

  func power(of device: RadioDeviceID) -> Decibels {
    devices.indices.contains(Int(device.rawValue)) ? devices[Int(device.rawValue)].power : .zero
  }

  mutating func setPower(_ power: Decibels, of device: RadioDeviceID) {
    guard devices.indices.contains(Int(device.rawValue)) else { return }
    devices[Int(device.rawValue)].power = power
    guard power > reach.power else { return }
    reach.power = power
    if reach.isInUse { rebuild() }
  }

  mutating func changePropagation(_ body: (inout Propagation) -> Void) {
    body(&propagation)
    losses.removeAll()
    if reach.isInUse { rebuild() }
  }

  mutating func setInterference(_ new: Interference?, on channel: UInt8) {
    guard interference.indices.contains(Int(channel)) else { return }
    interference[Int(channel)] = new
    hasInterference = interference.contains { $0 != nil }
  }

  /// Cells as wide as packets reach, and everybody in them anew.
  private mutating func rebuild() {
    let old = slots
    grid = CellGrid(width: propagation.range(power: reach.power, includingCoded: reach.usesCoded))
    slots = Array(repeating: AirSlot(), count: Self.channels)
    for index in devices.indices {
      devices[index].cell = CellGrid.everywhere
      for endpoint in devices[index].endpoints {
        guard let channel = endpoints[Int(endpoint)].channel else { continue }
        slots[Int(channel)].listeners.append(endpoint)
      }
    }
    for index in devices.indices { settle(RadioDeviceID(rawValue: Int32(index))) }
    for (number, slot) in old.enumerated() {
      for index in slot.recent {
        let footprint = slot.footprints[index]
        let cell = Int(devices[Int(footprint.sender)].cell)
        slots[cell * Self.channels + number % Self.channels].append(footprint, horizon: .min)
      }
    }
  }

  /// Puts `device` into the cell where it is, with what it listens for.
  private mutating func settle(_ device: RadioDeviceID) {
    let index = Int(device.rawValue)
    var cell = CellGrid.everywhere
    if let position = devices[index].position, !devices[index].isHeardAnywhere { cell = grid.cell(of: position) }
    let old = devices[index].cell
    guard cell != old else { return }
    while slots.count < grid.count * Self.channels { slots.append(AirSlot()) }
    devices[index].cell = cell
    for endpoint in devices[index].endpoints {
      guard let channel = endpoints[Int(endpoint)].channel else { continue }
      let slot = Int(old) * Self.channels + Int(channel)
      if let place = slots[slot].listeners.firstIndex(of: endpoint) { slots[slot].listeners.remove(at: place) }
      slots[Int(cell) * Self.channels + Int(channel)].listeners.append(endpoint)
    }
  }

  /// The strength with which `device` gets what `sender` sends, and whether that follows from where they are.
  private mutating func strength(from sender: RadioDeviceID, at device: RadioDeviceID, reduction: Decibels) -> (
    value: Decibels, isPhysical: Bool
  ) {
    if !pairs.isEmpty, let rssi = pairs[Self.key(sender, device)]?.rssi {
      return (Decibels(hundredths: Int32(rssi) * 100), false)
    }
    guard reach.isInUse, let from = devices[Int(sender.rawValue)].position,
      let to = devices[Int(device.rawValue)].position
    else { return (Decibels(hundredths: Int32(rssi) * 100), false) }
    let power = devices[Int(sender.rawValue)].power - reduction
    guard propagation.isCostly else {
      return (power - propagation.pathLoss.loss(squaredDistance: from.squaredDistance(to: to)), true)
    }
    let key = Self.key(sender, device)
    let moves = devices[Int(sender.rawValue)].moves &+ devices[Int(device.rawValue)].moves
    if let known = losses[key], known.moves == moves { return (power - known.loss, true) }
    let loss = propagation.loss(sender, from, device, to)
    losses[key] = KnownLoss(loss: loss, moves: moves)
    return (power - loss, true)
  }

  /// dBm at `receiver` of what `sender` sends; nil if it does not get there.
  mutating func signalStrength(from sender: RadioDeviceID, to receiver: RadioDeviceID) -> Decibels? {
    let known = devices.indices
    guard known.contains(Int(sender.rawValue)), known.contains(Int(receiver.rawValue)), sender != receiver,
      !isCut(sender, receiver)
    else { return nil }
    return strength(from: sender, at: receiver, reduction: .zero).value
  }

  /// dBm of what `sender` sends at a place where no device is.
  func signalStrength(from sender: RadioDeviceID, reduction: Decibels, at place: Position?) -> Decibels {
    let device = devices[Int(sender.rawValue)]
    guard let place, let position = device.position else { return Decibels(hundredths: Int32(rssi) * 100) }
    var strength = device.power - reduction
    strength = strength - propagation.pathLoss.loss(squaredDistance: position.squaredDistance(to: place))
    for wall in propagation.walls where wall.separates(position, place) {
      strength = strength - Decibels(wall.attenuation)
    }
    return strength
  }

  // MARK: - Endpoints

  mutating func makeEndpoint(_ user: any AirUser, _ device: RadioDeviceID) -> EndpointID {
    let id: EndpointID
    if let index = freeEndpoints.popLast() {
      let generation = endpoints[Int(index)].generation
      endpoints[Int(index)] = Endpoint(user: user, device: device, generation: generation)
      id = EndpointID(index: index, generation: generation)
    } else {
      endpoints.append(Endpoint(user: user, device: device, generation: 0))
      id = EndpointID(index: Int32(endpoints.count - 1), generation: 0)
    }
    devices[Int(device.rawValue)].endpoints.append(id.index)
    return id
  }

  mutating func release(_ id: EndpointID) {
    guard endpoints[Int(id.index)].generation == id.generation else { return }
    ignore(id)
    devices[Int(endpoints[Int(id.index)].device.rawValue)].endpoints.removeAll { $0 == id.index }
    endpoints[Int(id.index)].user = nil
    endpoints[Int(id.index)].generation &+= 1
    freeEndpoints.append(id.index)
  }

  /// nil: given back.
  mutating func user(_ id: EndpointID) -> (any AirUser)? {
    endpoints[Int(id.index)].generation == id.generation ? endpoints[Int(id.index)].user : nil
  }

  mutating func listen(_ id: EndpointID, channel: UInt8, accessAddress: UInt32, phy: AirPHY, now: Instant) {
    if phy == .leCoded, !reach.usesCoded { useCoded() }
    let index = Int(id.index)
    let slot = slot(of: endpoints[index].device, channel)
    if endpoints[index].channel != channel {
      ignore(id)
      slots[slot].listeners.append(id.index)
    }
    endpoints[index].channel = channel
    endpoints[index].accessAddress = accessAddress
    endpoints[index].phy = phy
    endpoints[index].since = now
  }

  mutating func ignore(_ id: EndpointID) {
    guard let channel = endpoints[Int(id.index)].channel else { return }
    endpoints[Int(id.index)].channel = nil
    let slot = slot(of: endpoints[Int(id.index)].device, channel)
    guard let position = slots[slot].listeners.firstIndex(of: id.index) else { return }
    slots[slot].listeners.remove(at: position)
  }

  private func slot(of device: RadioDeviceID, _ channel: UInt8) -> Int {
    Int(devices[Int(device.rawValue)].cell) * Self.channels + Int(channel)
  }

  /// Coded packets reach farther.
  private mutating func useCoded() {
    reach.usesCoded = true
    if reach.isInUse { rebuild() }
  }

  /// When the packet ends that comes in at `id`.
  mutating func receptionEnd(_ id: EndpointID, now: Instant) -> Instant? {
    let endpoint = endpoints[Int(id.index)]
    guard let channel = endpoint.channel else { return nil }
    let cell = Int(devices[Int(endpoint.device.rawValue)].cell)
    for number in grid.neighbours[cell].indices {
      let slot = Int(grid.neighbours[cell][number]) * Self.channels + Int(channel)
      for index in slots[slot].recent {
        let footprint = slots[slot].footprints[index]
        guard footprint.end >= now.nanoseconds, footprint.accessAddress == endpoint.accessAddress,
          footprint.phy == endpoint.phy, endpoint.since.nanoseconds <= footprint.start
        else { continue }
        let sender = RadioDeviceID(rawValue: footprint.sender)
        guard sender != endpoint.device, !isCut(endpoint.device, sender), isNoticed(footprint, by: endpoint.device)
        else { continue }
        return Instant(nanoseconds: footprint.end)
      }
    }
    return nil
  }

  /// Whether `device` can tell that there is a packet.
  private mutating func isNoticed(_ footprint: Footprint, by device: RadioDeviceID) -> Bool {
    guard reach.isInUse else { return true }
    let sender = RadioDeviceID(rawValue: footprint.sender)
    let strength = strength(from: sender, at: device, reduction: footprint.reduction)
    return !strength.isPhysical || strength.value >= propagation.floor(footprint.phy, footprint.coding)
  }

  private func isTuned(_ index: Int32, to packet: AirPacket) -> Bool {
    let endpoint = endpoints[Int(index)]
    return endpoint.channel == packet.channel && endpoint.accessAddress == packet.accessAddress
      && endpoint.phy == packet.phy && endpoint.since <= packet.start && endpoint.device != packet.sender
      && !isCut(endpoint.device, packet.sender)
  }

  // MARK: - Packets

  mutating func keep(_ packet: AirPacket) { packets.append(packet) }
  mutating func takeIdlePacket() -> AirPacket? { idlePackets.popLast() }
  mutating func recycle(_ packet: AirPacket) { idlePackets.append(packet) }

  mutating func launch(_ packet: AirPacket, from id: EndpointID) {
    let device = endpoints[Int(id.index)].device
    packet.endpoint = id
    packet.sender = device
    devices[Int(device.rawValue)].sentCount &+= 1
    packet.number = devices[Int(device.rawValue)].sentCount
    packetCount &+= 1
    if packet.phy == .leCoded, !reach.usesCoded { useCoded() }
    let footprint = Footprint(
      start: packet.start.nanoseconds, end: packet.end.nanoseconds, accessAddress: packet.accessAddress,
      sender: device.rawValue, reduction: packet.reduction, phy: packet.phy, coding: packet.coding)
    longest = max(longest, footprint.end - footprint.start)
    slots[slot(of: device, packet.channel)].append(footprint, horizon: footprint.start - longest)
  }

  /// The end of `packet`. Returns how many may have heard it; -1 if its sender broke it off.
  mutating func land(_ packet: AirPacket) -> Int {
    guard endpoints[Int(packet.endpoint.index)].generation == packet.endpoint.generation else { return -1 }
    receivers.removeAll(keepingCapacity: true)
    let cell = Int(devices[Int(packet.sender.rawValue)].cell)
    for number in grid.neighbours[cell].indices {
      let slot = Int(grid.neighbours[cell][number]) * Self.channels + Int(packet.channel)
      for position in slots[slot].listeners.indices {
        let index = slots[slot].listeners[position]
        guard isTuned(index, to: packet) else { continue }
        let strength = strength(from: packet.sender, at: endpoints[Int(index)].device, reduction: packet.reduction)
        guard !strength.isPhysical || strength.value >= propagation.floor(packet.phy, packet.coding) else { continue }
        receivers.append(Receiver(endpoint: index, strength: strength.value))
      }
    }
    return receivers.count
  }

  /// The receiver `index` of those that ``land(_:)`` found, if it still listens.
  mutating func receiver(_ index: Int, of packet: AirPacket) -> (any AirUser)? {
    let endpoint = receivers[index].endpoint
    return isTuned(endpoint, to: packet) ? endpoints[Int(endpoint)].user : nil
  }

  // MARK: - How it arrives

  /// How the receiver `index` of those that ``land(_:)`` found gets `packet`.
  mutating func reception(_ index: Int, of packet: AirPacket) -> Reception {
    let strength = receivers[index].strength
    let device = endpoints[Int(receivers[index].endpoint)].device
    let isValid = isIdeal || !(isLost(packet, device, strength) || isDisturbed(packet, device, strength))
    return Reception(rssi: strength.rssi, isCRCValid: isValid)
  }

  /// Whether bad luck damages `packet`: what was asked for, noise, interference, a burst. Each has a draw of its own.
  private mutating func isLost(_ packet: AirPacket, _ device: RadioDeviceID, _ strength: Decibels) -> Bool {
    let asked = pairs.isEmpty ? nil : pairs[Self.key(packet.sender, device)]?.lossThreshold
    if isUnlucky(asked ?? lossThreshold, packet, device, .loss) { return true }
    if !bursts.isEmpty {
      for burst in bursts where burst.start < packet.end && packet.start < burst.start + burst.duration {
        if isUnlucky(Self.threshold(burst.probability), packet, device, .burst) { return true }
      }
    }
    if hasInterference, case .loss(let probability) = interference[Int(packet.channel)],
      isUnlucky(Self.threshold(probability), packet, device, .interference)
    {
      return true
    }
    guard asked == nil, reach.isInUse || hasInterference else { return false }
    let margin = strength - weakest(packet, device)
    // Preamble and access address have to be right too.
    let octets = packet.pdu.count + 8
    return isUnlucky((1 << 32) - BitErrors.success(margin: margin, octets: octets), packet, device, .noise)
  }

  /// The sensitivity of `device` for `packet`, as the noise on its channel leaves it.
  private func weakest(_ packet: AirPacket, _ device: RadioDeviceID) -> Decibels {
    let isPhysical =
      devices[Int(packet.sender.rawValue)].position != nil && devices[Int(device.rawValue)].position != nil
      && (pairs.isEmpty || pairs[Self.key(packet.sender, device)]?.rssi == nil)
    let own = isPhysical ? propagation.threshold(packet.phy, packet.coding) : .none
    guard hasInterference, case .noise(let level) = interference[Int(packet.channel)] else { return own }
    return Decibels.sum(own, Decibels(level) + BitErrors.ratioAtSensitivity)
  }

  private func isUnlucky(_ threshold: UInt64, _ packet: AirPacket, _ device: RadioDeviceID, _ purpose: RandomPurpose)
    -> Bool
  {
    guard threshold > 0 else { return false }
    let link = UInt64(UInt32(bitPattern: device.rawValue)) << 32 | UInt64(UInt32(bitPattern: packet.sender.rawValue))
    let start = seed &+ packet.number &* 0x9FB2_1C65_1E98_DF25 &+ (purpose.rawValue - RandomPurpose.loss.rawValue) << 56
    var luck = SeededGenerator(seed: start, purpose: ~link)
    return luck.next() >> 32 < threshold
  }

  /// Whether another packet on the channel damages `packet`.
  private mutating func isDisturbed(_ packet: AirPacket, _ device: RadioDeviceID, _ strength: Decibels) -> Bool {
    let limit: Decibels
    switch collisions {
    case .ignored: return false
    case .bothLost: limit = .none
    case .capture(let threshold): limit = strength - Decibels(threshold)
    }
    let (start, end) = (packet.start.nanoseconds, packet.end.nanoseconds)
    let cell = Int(devices[Int(device.rawValue)].cell)
    for number in grid.neighbours[cell].indices {
      let slot = Int(grid.neighbours[cell][number]) * Self.channels + Int(packet.channel)
      for index in slots[slot].recent {
        let other = slots[slot].footprints[index]
        guard other.start < end, start < other.end, other.sender != packet.sender.rawValue,
          other.sender != device.rawValue
        else { continue }
        if disturbs(other, device, limit) { return true }
      }
    }
    return false
  }

  private mutating func disturbs(_ other: Footprint, _ device: RadioDeviceID, _ limit: Decibels) -> Bool {
    let sender = RadioDeviceID(rawValue: other.sender)
    guard !isCut(sender, device) else { return false }
    let strength = strength(from: sender, at: device, reduction: other.reduction)
    guard !strength.isPhysical || strength.value >= propagation.floor(other.phy, other.coding) else { return false }
    return strength.value > limit
  }
}
