// SPDX-License-Identifier: Apache-2.0

public import BLECore

/// How a signal weakens with distance: 40.2 dB over the first metre at 2.44 GHz, then 10 x exponent dB with every tenfold
/// distance.
public struct PathLoss: Hashable, Sendable {
  /// 2 in free space, 1.6-1.8 along corridors, 2.5-4 indoors; 1...8.
  public var exponent: Double { didSet { exponent = Self.confineExponent(exponent) } }
  /// Standard deviation in dB of what furniture and people make of it: log-normal, drawn once for each pair of devices,
  /// the same both ways, and never more than three times that. 0: none; at most 20.
  public var shadowing: Double { didSet { shadowing = Self.confineShadowing(shadowing) } }

  /// Log-distance path loss; values out of range count as the nearest in it.
  public init(exponent: Double = 2, shadowing: Double = 0) {
    self.exponent = Self.confineExponent(exponent)
    self.shadowing = Self.confineShadowing(shadowing)
  }

  private static func confineExponent(_ value: Double) -> Double { value.isNaN ? 2 : min(max(value, 1), 8) }
  private static func confineShadowing(_ value: Double) -> Double { value.isNaN ? 0 : min(max(value, 0), 20) }

  /// Nothing in the way: the exponent 2, no shadowing.
  public static let freeSpace = PathLoss()

  /// 20 log10(4 pi f / c) for a metre at 2.44 GHz.
  private static let firstMetre = Decibels(hundredths: 4_020)
  /// Nearer than 10 cm a signal gets no stronger.
  private static let squaredDistanceMin = 0.01

  /// The loss over a distance, without shadowing.
  func loss(squaredDistance: Double) -> Decibels {
    let ratio = Decibels.tenThousandths(ofRatio: max(squaredDistance, Self.squaredDistanceMin))
    let slope = Int64((exponent * 1_000).rounded())
    return Decibels(hundredths: Self.firstMetre.hundredths + Int32(clamping: ratio * slope / 200_000))
  }

  /// The distance in metres at which the loss is `loss`, rounded up to 1/8 of itself; at least one metre.
  func range(_ loss: Decibels) -> Double {
    var metres = 1.0
    while metres < 3e7, self.loss(squaredDistance: metres * metres) < loss { metres *= 1.125 }
    return metres
  }
}

/// The weakest signals that receivers take: those of which one bit in a thousand arrives wrong (Vol 6 Part A 4.1), dBm.
public struct ReceiverSensitivity: Hashable, Sendable {
  public var le1M: Double
  public var le2M: Double
  public var codedS2: Double
  public var codedS8: Double

  /// What common controllers have, unless told otherwise.
  public init(le1M: Double = -96, le2M: Double = -93, codedS2: Double = -99, codedS8: Double = -103) {
    self.le1M = le1M
    self.le2M = le2M
    self.codedS2 = codedS2
    self.codedS8 = codedS8
  }
}

/// What comes of packets that overlap in time on one channel, whatever their PHYs and access addresses, at a receiver that
/// hears both.
public enum CollisionModel: Hashable, Sendable {
  /// They do not disturb each other.
  case ignored
  /// None arrives undamaged.
  case bothLost
  /// One that is stronger than each of the others by at least so many dB arrives as if it were alone.
  case capture(threshold: Double)
}

/// What other radio users do to a channel, everywhere in the world.
public enum Interference: Hashable, Sendable {
  /// The probability that a packet arrives with a wrong CRC, 0...1.
  case loss(Double)
  /// Power in dBm that receivers take for noise.
  case noise(Double)
}

/// A time in which packets are lost more often: a door that opens, a microwave oven.
public struct LossBurst: Hashable, Sendable {
  public var start: Instant
  public var duration: TimeSpan
  /// The probability that a packet that is on air meanwhile arrives with a wrong CRC, 0...1; 1: all of them.
  public var probability: Double

  public init(start: Instant, duration: TimeSpan, probability: Double = 1) {
    self.start = start
    self.duration = duration
    self.probability = probability
  }
}

/// The physics between devices that have positions.
struct Propagation {
  var pathLoss = PathLoss.freeSpace
  var walls: [Wall] = []
  var sensitivity = ReceiverSensitivity() { didSet { updateThresholds() } }

  private let seed: UInt64
  /// Sensitivities by PHY and coding.
  private var thresholds: [Decibels] = []

  init(seed: UInt64) {
    self.seed = seed
    updateThresholds()
  }

  private mutating func updateThresholds() {
    thresholds = [sensitivity.le1M, sensitivity.le2M, sensitivity.codedS8, sensitivity.codedS2].map { Decibels($0) }
  }

  func threshold(_ phy: AirPHY, _ coding: AirCoding) -> Decibels {
    switch phy {
    case .le1M: thresholds[0]
    case .le2M: thresholds[1]
    case .leCoded: thresholds[coding == .s8 ? 2 : 3]
    }
  }

  /// What is weaker than this is not noticed.
  func floor(_ phy: AirPHY, _ coding: AirCoding) -> Decibels { threshold(phy, coding) - BitErrors.depth }

  /// Whether the loss between two devices is more than a short calculation.
  var isCostly: Bool { !walls.isEmpty || pathLoss.shadowing > 0 }

  /// What a signal loses between two devices; the same both ways.
  func loss(_ a: RadioDeviceID, _ from: Position, _ b: RadioDeviceID, _ to: Position) -> Decibels {
    var loss = pathLoss.loss(squaredDistance: from.squaredDistance(to: to))
    if pathLoss.shadowing > 0 { loss = loss + shadow(min(a, b), max(a, b)) }
    for wall in walls where wall.separates(from, to) { loss = loss + Decibels(wall.attenuation) }
    return loss
  }

  /// The pair's shadowing, of a normal distribution by the sum of twelve uniform ones, cut at three deviations.
  private func shadow(_ a: RadioDeviceID, _ b: RadioDeviceID) -> Decibels {
    let pair = UInt64(UInt32(bitPattern: a.rawValue)) << 32 | UInt64(UInt32(bitPattern: b.rawValue))
    var random = SeededGenerator(seed: seed &+ RandomPurpose.shadowing.rawValue, purpose: pair)
    var deviation = -6 * Int64(1 << 16)
    for _ in 0..<12 { deviation += Int64(random.next() >> 48) }
    deviation = min(max(deviation, -3 << 16), 3 << 16)
    let sigma = Int64((pathLoss.shadowing * 100).rounded())
    return Decibels(hundredths: Int32(clamping: (deviation * sigma) >> 16))
  }

  /// How far, in metres, packets of a device with `power` can matter.
  func range(power: Decibels, includingCoded: Bool) -> Double {
    let floors =
      [floor(.le1M, .s8), floor(.le2M, .s8)] + (includingCoded ? [floor(.leCoded, .s8), floor(.leCoded, .s2)] : [])
    let weakest = floors.min() ?? .zero
    // Walls that strengthen a signal would be an odd thing to have, yet must not be out of reach.
    let gain = walls.reduce(Decibels.zero) { $0 + max(Decibels.zero, Decibels(-$1.attenuation)) }
    return pathLoss.range(power - weakest + Decibels(pathLoss.shadowing * 3) + gain)
  }
}
