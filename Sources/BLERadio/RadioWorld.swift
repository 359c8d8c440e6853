// SPDX-License-Identifier: Apache-2.0

public import BLECore

/// A device of one ``RadioWorld``, numbered from 0 in the order in which devices joined.
@frozen
public struct RadioDeviceID: RawRepresentable, Hashable, Comparable, Sendable {
  public let rawValue: Int32
  @inlinable public init(rawValue: Int32) { self.rawValue = rawValue }
  @inlinable public static func < (a: RadioDeviceID, b: RadioDeviceID) -> Bool { a.rawValue < b.rawValue }
}

/// How packets travel. The controllers run the same code in both.
public enum AirSetting: Hashable, Sendable {
  /// Packets take their time on air, responses follow after T_IFS, and packets may be lost.
  case physical
  /// Packets take no simulated time and none is lost, and a controller does all its jobs at once. Where a connection
  /// has data waiting its next event is at once, not one interval later: the speed of a stack on top is then its own.
  case ideal
}

/// What one receiver would have got of a packet; the radio's log entry.
public struct AirPacketInfo: Hashable, Sendable {
  /// When the first bit of the preamble left the antenna.
  public var start: Instant
  /// When the last bit of the CRC did.
  public var end: Instant
  public var sender: RadioDeviceID
  /// 0...39 (Vol 6 Part B 1.4.1).
  public var channel: UInt8
  public var accessAddress: UInt32
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
/// Losses are drawn from the seed, the two devices and the number of the sender's packet alone: another device, or
/// another setting for other devices, does not change a link's luck.
public final class RadioWorld {
  public let simulator: Simulator
  public let setting: AirSetting
  public let seed: UInt64
  /// The probability, 0...1, that a packet arrives with a wrong CRC, where no pair says otherwise. Ignored by
  /// ``AirSetting/ideal``.
  public var loss: Double = 0 { didSet { lossThreshold = Self.threshold(loss) } }
  /// Received signal strength in dBm where no pair says otherwise.
  public var rssi: Int8 = -60
  /// Gets every packet that is sent; held weakly.
  public weak var observer: (any AirObserver)?
  /// Packets sent since the beginning.
  public internal(set) var packetCount: UInt64 = 0

  /// What differs from the world's own settings between two devices.
  private struct Pair {
    var lossThreshold: UInt64?
    var rssi: Int8?
    var isCut = false
  }

  private var lossThreshold: UInt64 = 0
  private var pairs: [UInt64: Pair] = [:]
  private var deviceCount: Int32 = 0
  /// Packets sent per device: each is one draw of its luck.
  var sentCounts: [UInt64] = []
  var isolated: [Bool] = []

  var endpoints: [Endpoint] = []
  var freeEndpoints: [Int32] = []
  var listeners: [[Int32]] = Array(repeating: [], count: Int(LinkLayer.channelCount))
  var flights: [[AirPacket]] = Array(repeating: [], count: Int(LinkLayer.channelCount))
  var idlePackets: [AirPacket] = []
  var receivers: [Int32] = []
  /// Connections by access address, known to the world only where the air is ideal.
  var idealLinks: [UInt32: IdealLink] = [:]

  /// A world without devices.
  ///
  /// - Parameters:
  ///   - simulator: whose time it has; several worlds may share one.
  ///   - seed: all that is random in the world follows from it.
  public init(simulator: Simulator = Simulator(), seed: UInt64 = 0, setting: AirSetting = .physical) {
    self.simulator = simulator
    self.seed = seed
    self.setting = setting
  }

  // MARK: - Settings of pairs and devices

  /// The probability that a packet between `a` and `b`, either way, arrives with a wrong CRC; nil: as the world's.
  public func setLoss(_ probability: Double?, between a: RadioDeviceID, and b: RadioDeviceID) {
    pairs[Self.key(a, b), default: Pair()].lossThreshold = probability.map(Self.threshold)
  }

  /// The signal strength in dBm with which `a` and `b` hear each other; nil: as the world's.
  public func setRSSI(_ rssi: Int8?, between a: RadioDeviceID, and b: RadioDeviceID) {
    pairs[Self.key(a, b), default: Pair()].rssi = rssi
  }

  /// Whether nothing at all passes between `a` and `b`. Also in the ideal air.
  public func setCut(_ isCut: Bool, between a: RadioDeviceID, and b: RadioDeviceID) {
    pairs[Self.key(a, b), default: Pair()].isCut = isCut
  }

  /// Whether nothing passes between `device` and anyone: out of range, or in a metal box.
  public func setIsolated(_ isIsolated: Bool, _ device: RadioDeviceID) {
    guard isolated.indices.contains(Int(device.rawValue)) else { return }
    isolated[Int(device.rawValue)] = isIsolated
  }

  func addDevice() -> RadioDeviceID {
    defer { deviceCount += 1 }
    sentCounts.append(0)
    isolated.append(false)
    return RadioDeviceID(rawValue: deviceCount)
  }

  /// The random numbers of `device` for one purpose.
  func generator(_ device: RadioDeviceID, _ purpose: RandomPurpose) -> SeededGenerator {
    SeededGenerator(seed: seed, purpose: UInt64(UInt32(bitPattern: device.rawValue)) << 8 | purpose.rawValue)
  }

  // MARK: - Luck

  private static func key(_ a: RadioDeviceID, _ b: RadioDeviceID) -> UInt64 {
    UInt64(UInt32(bitPattern: min(a, b).rawValue)) << 32 | UInt64(UInt32(bitPattern: max(a, b).rawValue))
  }

  /// `probability` of 2^32.
  private static func threshold(_ probability: Double) -> UInt64 {
    guard probability > 0 else { return 0 }
    return probability >= 1 ? 1 << 32 : UInt64(probability * 4_294_967_296)
  }

  func isCut(_ a: RadioDeviceID, _ b: RadioDeviceID) -> Bool {
    isolated[Int(a.rawValue)] || isolated[Int(b.rawValue)] || (!pairs.isEmpty && pairs[Self.key(a, b)]?.isCut == true)
  }

  /// How `device` gets `packet`, if it listens and nothing is cut.
  func reception(of packet: AirPacket, by device: RadioDeviceID) -> Reception {
    let pair = pairs.isEmpty ? nil : pairs[Self.key(packet.sender, device)]
    let threshold = setting == .ideal ? 0 : pair?.lossThreshold ?? lossThreshold
    var isValid = true
    if threshold > 0 {
      let purpose =
        UInt64(UInt32(bitPattern: device.rawValue)) << 32 | UInt64(UInt32(bitPattern: packet.sender.rawValue))
      var luck = SeededGenerator(seed: seed &+ packet.number &* 0x9FB2_1C65_1E98_DF25, purpose: ~purpose)
      isValid = luck.next() >> 32 >= threshold
    }
    return Reception(rssi: pair?.rssi ?? rssi, isCRCValid: isValid)
  }
}

/// What a device draws random numbers for; each purpose has a generator of its own.
enum RandomPurpose: UInt64 {
  case advertisingDelay = 1
  case backoff, accessAddress, hop, hostRandom
}

extension SeededGenerator {
  /// A number in 0..<limit, for limits far below 2^32.
  mutating func below(_ limit: UInt64) -> UInt64 { ((next() >> 32) &* limit) >> 32 }
}
