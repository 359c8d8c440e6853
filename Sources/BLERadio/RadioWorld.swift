// SPDX-License-Identifier: Apache-2.0

public import BLECore

/// A device of one ``RadioWorld``, numbered from 0 in the order in which devices joined.
@frozen public struct RadioDeviceID: RawRepresentable, Hashable, Comparable, Sendable {
  public let rawValue: Int32
  @inlinable public init(rawValue: Int32) { self.rawValue = rawValue }
  @inlinable public static func < (a: RadioDeviceID, b: RadioDeviceID) -> Bool { a.rawValue < b.rawValue }
}

/// How packets travel. The controllers run the same code in both.
public enum AirSetting: Hashable, Sendable {
  /// Packets take their time on air, responses follow after T_IFS, and packets may be lost.
  case physical
  /// Packets take no simulated time and none is lost, and a controller does all its jobs at once. Where a connection
  /// has data waiting its next event is at once, not one interval later, and where somebody begins to scan or to
  /// initiate, so is the next event of all advertisers: the speed of a stack on top is then its own.
  case ideal
}

/// What a sniffer would have got of a packet; the radio's log entry.
public struct AirPacketInfo: Hashable, Sendable {
  /// When the first bit of the preamble left the antenna.
  public var start: Instant
  /// When the last bit of the CRC did.
  public var end: Instant
  /// The device whose packet it is.
  public var sender: RadioDeviceID
  /// 0...39 (Vol 6 Part B 1.4.1).
  public var channel: UInt8
  /// Of the link, or of all advertising.
  public var accessAddress: UInt32
  /// How it was sent.
  public var phy: AirPHY
  /// How it was coded, if ``phy`` is ``AirPHY/leCoded``.
  public var coding: AirCoding
  /// What the CRC started with, 24 bits.
  public var crcInit: UInt32
  /// dBm at a sniffer.
  public var rssi: Int8
  /// Whether a sniffer saw a right CRC.
  public var isCRCValid: Bool
}

/// Sees every packet of a world, in the order in which they end; for captures.
public protocol AirObserver: AnyObject {
  /// `pdu` is header and payload without the CRC, and valid only during the call.
  func observe(_ packet: AirPacketInfo, pdu: RawSpan)
}

/// One radio world: a ``Simulator`` and the air that the devices in it share. Worlds know nothing of each other.
///
/// Devices without a position hear each other as the world's ``rssi`` and ``loss`` say. Between those that have one,
/// strength follows from distance, walls and transmit power, and losses from strength. Packets that overlap on a channel
/// collide.
///
/// Losses are drawn from the seed, the two devices and the number of the sender's packet alone: another device, or
/// another setting for other devices, does not change a link's luck.
public final class RadioWorld {
  /// The world's clock, which alone makes things happen in it.
  public let simulator: Simulator
  /// How packets travel.
  public let setting: AirSetting
  /// All that is random in the world follows from it.
  public let seed: UInt64
  /// Gets every packet that is sent; held weakly.
  public weak var observer: (any AirObserver)? { didSet { hasObserver = observer != nil } }

  /// Where the sniffer is whose signal strengths ``AirPacketInfo`` has. It hears everything, wherever it is; nil: at no
  /// place, with the world's ``rssi``.
  public var sniffer: Position?

  @exclusivity(unchecked) var medium: Medium
  @exclusivity(unchecked) private var hasObserver = false
  /// Connections by access address, known to the world only where the air is ideal.
  @exclusivity(unchecked) var idealLinks: [UInt32: IdealLink] = [:]
  /// Advertisers that are on, known to the world only where the air is ideal.
  var idealAdvertisers: [IdealAdvertiser] = []

  /// A world without devices.
  ///
  /// - Parameters:
  ///   - simulator: whose time it has; several worlds may share one.
  ///   - seed: all that is random in the world follows from it.
  ///   - setting: how packets travel, for the life of the world.
  public init(simulator: Simulator = Simulator(), seed: UInt64 = 0, setting: AirSetting = .physical) {
    self.simulator = simulator
    self.seed = seed
    self.setting = setting
    medium = Medium(seed: seed, isIdeal: setting == .ideal)
  }

  // MARK: - Settings

  /// The probability, 0...1, that a packet arrives with a wrong CRC, where no pair says otherwise. Ignored by
  /// ``AirSetting/ideal``.
  public var loss: Double = 0 { didSet { medium.lossThreshold = Medium.threshold(loss) } }

  /// Received signal strength in dBm where no pair says otherwise, and where not both devices have a position.
  public var rssi: Int8 {
    get { medium.rssi }
    set { medium.rssi = newValue }
  }

  /// Packets sent since the beginning.
  public var packetCount: UInt64 { medium.packetCount }

  /// The probability that a packet between `a` and `b`, either way, arrives with a wrong CRC; nil: as the world's.
  public func setLoss(_ probability: Double?, between a: RadioDeviceID, and b: RadioDeviceID) {
    medium.changePair(a, b) { $0.lossThreshold = probability.map(Medium.threshold) }
  }

  /// The signal strength in dBm with which `a` and `b` hear each other, wherever they are, and without the losses that
  /// would follow from it; nil: as the world's, or as their positions make it.
  public func setRSSI(_ rssi: Int8?, between a: RadioDeviceID, and b: RadioDeviceID) {
    medium.changePair(a, b) { $0.rssi = rssi }
  }

  /// Whether nothing at all passes between `a` and `b`. Also in the ideal air.
  public func setCut(_ isCut: Bool, between a: RadioDeviceID, and b: RadioDeviceID) {
    medium.changePair(a, b) { $0.isCut = isCut }
  }

  /// Whether nothing passes between `device` and anyone: out of range, or in a metal box.
  public func setIsolated(_ isIsolated: Bool, _ device: RadioDeviceID) { medium.setIsolated(isIsolated, device) }

  // MARK: - For the controllers

  func addDevice() -> RadioDeviceID { medium.addDevice() }

  /// The random numbers of `device` for one purpose.
  func generator(_ device: RadioDeviceID, _ purpose: RandomPurpose) -> SeededGenerator {
    SeededGenerator(seed: seed, purpose: UInt64(UInt32(bitPattern: device.rawValue)) << 8 | purpose.rawValue)
  }

  func makeEndpoint(_ user: any AirUser, _ device: RadioDeviceID) -> EndpointID { medium.makeEndpoint(user, device) }

  /// Takes `id` back; a packet it is sending is broken off and reaches nobody.
  func release(_ id: EndpointID) { medium.release(id) }

  /// Listens for packets with `accessAddress` that begin on `channel` from now on, until ``ignore(_:)``.
  func listen(_ id: EndpointID, channel: UInt8, accessAddress: UInt32, phy: AirPHY = .le1M) {
    medium.listen(id, channel: channel, accessAddress: accessAddress, phy: phy, now: simulator.now)
  }

  /// Stops listening.
  func ignore(_ id: EndpointID) { medium.ignore(id) }

  /// When the packet that `id` is receiving at this moment will end; nil if it hears none.
  func receptionEnd(_ id: EndpointID) -> Instant? { medium.receptionEnd(id, now: simulator.now) }

  /// How long a PDU with `count` octets of payload is on air.
  func airTime(payloadCount count: Int, phy: AirPHY = .le1M, coding: AirCoding = .s8) -> TimeSpan {
    setting == .ideal ? .zero : phy.airTime(payloadCount: count, coding: coding)
  }

  /// T_IFS, the time between two packets of an exchange.
  var interFrameSpace: TimeSpan { setting == .ideal ? .zero : LinkLayer.interFrameSpace }

  /// How long a receiver waits beyond the time at which a packet must begin, until it knows that there is none: preamble,
  /// access address, and the jitter that the specification allows. In the ideal air it begins at that time, and an
  /// instant later is late enough.
  func detectionTime(_ phy: AirPHY) -> TimeSpan {
    setting == .ideal ? .nanoseconds(1) : phy.synchronizationTime + LinkLayer.jitterAllowance
  }

  /// Sends `pdu` now. Its user is told when the last bit is out.
  func transmit(
    _ pdu: [UInt8], from id: EndpointID, channel: UInt8, accessAddress: UInt32, crcInit: UInt32, phy: AirPHY = .le1M,
    coding: AirCoding = .s8, reduction: Decibels = .zero
  ) {
    let packet = medium.takeIdlePacket() ?? makePacket()
    packet.start = simulator.now
    packet.end = simulator.now + airTime(payloadCount: pdu.count - LinkLayer.headerCount, phy: phy, coding: coding)
    packet.phy = phy
    packet.coding = coding
    packet.reduction = reduction
    packet.channel = channel
    packet.accessAddress = accessAddress
    packet.crcInit = crcInit
    packet.set(pdu)
    medium.launch(packet, from: id)
    if let event = packet.event { simulator.arm(event, at: packet.end) }
  }

  private func makePacket() -> AirPacket {
    let packet = AirPacket(self)
    medium.keep(packet)
    return packet
  }

  /// The packet's last bit: whoever heard all of it gets it, then its sender knows that it is out.
  func land(_ packet: AirPacket) {
    let count = medium.land(packet)
    if count >= 0 {
      if hasObserver { observe(packet) }
      // A receiver may make another stop listening, hence the second look at each; nothing lands inside a landing.
      for index in 0..<count {
        guard let user = medium.receiver(index, of: packet) else { continue }
        user.receive(packet, medium.reception(index, of: packet))
      }
      medium.user(packet.endpoint)?.transmissionEnded()
    }
    medium.recycle(packet)
  }

  private func observe(_ packet: AirPacket) {
    let pdu = packet.pdu
    let info = AirPacketInfo(
      start: packet.start, end: packet.end, sender: packet.sender, channel: packet.channel,
      accessAddress: packet.accessAddress, phy: packet.phy, coding: packet.coding, crcInit: packet.crcInit,
      rssi: medium.signalStrength(from: packet.sender, reduction: packet.reduction, at: sniffer).rssi, isCRCValid: true)
    observer?.observe(info, pdu: pdu.span.bytes)
  }
}

/// What a device draws random numbers for; each purpose has a generator of its own.
enum RandomPurpose: UInt64 {
  case advertisingDelay = 1
  case backoff, accessAddress, hop, hostRandom, session, clock
  case shadowing
  // Draws for one packet at one receiver.
  case loss, burst, interference, noise
  case initiation
}

extension SeededGenerator {
  /// A number in 0..<limit, for limits far below 2^32.
  mutating func below(_ limit: UInt64) -> UInt64 { ((next() >> 32) &* limit) >> 32 }
}
