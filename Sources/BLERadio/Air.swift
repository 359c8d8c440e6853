// SPDX-License-Identifier: Apache-2.0

import BLECore

/// A job of a controller that uses the air: a connection, the advertiser, the scanner.
protocol AirUser: AnyObject {
  /// The last bit of what was sent with ``RadioWorld/transmit(_:from:channel:accessAddress:crcInit:)`` is out.
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
  fileprivate(set) var start = Instant.zero
  fileprivate(set) var end = Instant.zero
  fileprivate(set) var channel: UInt8 = 0
  fileprivate(set) var accessAddress: UInt32 = 0
  fileprivate(set) var crcInit: UInt32 = 0
  fileprivate(set) var sender = RadioDeviceID(rawValue: 0)
  /// Counts the packets of `sender`.
  fileprivate(set) var number: UInt64 = 0
  /// Header and payload.
  fileprivate(set) var pdu: [UInt8] = []
  fileprivate var endpoint = EndpointID(index: 0, generation: 0)
  private unowned let world: RadioWorld
  private let simulator: Simulator
  fileprivate private(set) var event: SimulatorEvent?

  fileprivate init(_ world: RadioWorld) {
    self.world = world
    simulator = world.simulator
    pdu.reserveCapacity(LinkLayer.pduCountMax)
    event = simulator.makeEvent(self)
  }

  deinit {
    if let event { simulator.release(event) }
  }

  func handleEvent(_ argument: UInt32) { world.land(self) }
}

/// Names an ``Endpoint``; one that was given back names nothing.
struct EndpointID: Hashable {
  fileprivate let index: Int32
  fileprivate let generation: UInt32
}

/// The side of the air that one ``AirUser`` sees: what it listens to.
struct Endpoint {
  unowned var user: (any AirUser)?
  var device: RadioDeviceID
  var generation: UInt32
  /// The channel it listens on.
  var channel: UInt8?
  var accessAddress: UInt32 = 0
  var since = Instant.zero
}

extension RadioWorld {
  func makeEndpoint(_ user: any AirUser, _ device: RadioDeviceID) -> EndpointID {
    if let index = freeEndpoints.popLast() {
      let generation = endpoints[Int(index)].generation
      endpoints[Int(index)] = Endpoint(user: user, device: device, generation: generation)
      return EndpointID(index: index, generation: generation)
    }
    endpoints.append(Endpoint(user: user, device: device, generation: 0))
    return EndpointID(index: Int32(endpoints.count - 1), generation: 0)
  }

  /// Takes `id` back; a packet it is sending is broken off and reaches nobody.
  func release(_ id: EndpointID) {
    guard endpoints[Int(id.index)].generation == id.generation else { return }
    ignore(id)
    endpoints[Int(id.index)].user = nil
    endpoints[Int(id.index)].generation &+= 1
    freeEndpoints.append(id.index)
  }

  /// Listens for packets with `accessAddress` that begin on `channel` from now on, until ``ignore(_:)``.
  func listen(_ id: EndpointID, channel: UInt8, accessAddress: UInt32) {
    ignore(id)
    endpoints[Int(id.index)].channel = channel
    endpoints[Int(id.index)].accessAddress = accessAddress
    endpoints[Int(id.index)].since = simulator.now
    listeners[Int(channel)].append(id.index)
  }

  /// Stops listening.
  func ignore(_ id: EndpointID) {
    guard let channel = endpoints[Int(id.index)].channel else { return }
    endpoints[Int(id.index)].channel = nil
    guard let position = listeners[Int(channel)].firstIndex(of: id.index) else { return }
    listeners[Int(channel)].remove(at: position)
  }

  func isListening(_ id: EndpointID) -> Bool { endpoints[Int(id.index)].channel != nil }

  /// When the packet that `id` is receiving at this moment will end; nil if it hears none.
  func receptionEnd(_ id: EndpointID) -> Instant? {
    let endpoint = endpoints[Int(id.index)]
    guard let channel = endpoint.channel else { return nil }
    for packet in flights[Int(channel)] where hears(endpoint, packet) { return packet.end }
    return nil
  }

  private func hears(_ endpoint: Endpoint, _ packet: AirPacket) -> Bool {
    endpoint.accessAddress == packet.accessAddress && endpoint.since <= packet.start
      && endpoint.device != packet.sender && !isCut(endpoint.device, packet.sender)
  }

  /// Sends `pdu` now. Its user is told when the last bit is out.
  ///
  /// - Returns: when that is.
  @discardableResult
  func transmit(
    _ pdu: [UInt8], from id: EndpointID, channel: UInt8, accessAddress: UInt32, crcInit: UInt32
  ) -> Instant {
    let packet = idlePackets.popLast() ?? AirPacket(self)
    let sender = endpoints[Int(id.index)].device
    packet.start = simulator.now
    packet.end = simulator.now + airTime(pdu.count)
    packet.channel = channel
    packet.accessAddress = accessAddress
    packet.crcInit = crcInit
    packet.sender = sender
    packet.endpoint = id
    packet.pdu.removeAll(keepingCapacity: true)
    packet.pdu.append(contentsOf: pdu)
    sentCounts[Int(sender.rawValue)] &+= 1
    packet.number = sentCounts[Int(sender.rawValue)]
    packetCount &+= 1
    flights[Int(channel)].append(packet)
    if let event = packet.event { simulator.arm(event, at: packet.end) }
    return packet.end
  }

  /// How long a PDU of `count` octets, header and payload, is on air.
  func airTime(_ count: Int) -> TimeSpan {
    setting == .ideal ? .zero : LinkLayer.airTime(pduCount: count)
  }

  /// T_IFS, the time between two packets of an exchange.
  var interFrameSpace: TimeSpan { setting == .ideal ? .zero : LinkLayer.interFrameSpace }

  /// The packet's last bit: whoever heard all of it gets it.
  fileprivate func land(_ packet: AirPacket) {
    let channel = Int(packet.channel)
    if let position = flights[channel].firstIndex(where: { $0 === packet }) { flights[channel].remove(at: position) }
    defer { idlePackets.append(packet) }
    let sender = endpoints[Int(packet.endpoint.index)]
    guard sender.generation == packet.endpoint.generation else { return }
    receivers.removeAll(keepingCapacity: true)
    for index in listeners[channel] where hears(endpoints[Int(index)], packet) { receivers.append(index) }
    if let observer {
      let pdu = packet.pdu
      observer.observe(info(packet), pdu: pdu.span.bytes)
    }
    deliver(packet)
    endpoints[Int(packet.endpoint.index)].user?.transmissionEnded()
  }

  private func deliver(_ packet: AirPacket) {
    var position = 0
    // A receiver may make another stop listening, hence the second look; packets never land inside a landing.
    while position < receivers.count {
      let endpoint = endpoints[Int(receivers[position])]
      position += 1
      guard endpoint.channel == packet.channel, hears(endpoint, packet) else { continue }
      endpoint.user?.receive(packet, reception(of: packet, by: endpoint.device))
    }
  }

  private func info(_ packet: AirPacket) -> AirPacketInfo {
    AirPacketInfo(
      start: packet.start, end: packet.end, sender: packet.sender, channel: packet.channel,
      accessAddress: packet.accessAddress, crcInit: packet.crcInit, rssi: rssi, isCRCValid: true)
  }
}
