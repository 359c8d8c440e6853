// SPDX-License-Identifier: Apache-2.0

import BLECore
import BLERadio
import BLESystem
import Foundation

/// Where something is, in metres.
public struct Position: Hashable, Sendable {
  public var x: Double
  public var y: Double
  public var z: Double

  public init(x: Double, y: Double = 0, z: Double = 0) {
    self.x = x
    self.y = y
    self.z = z
  }

  /// A point in the plane.
  public static func at(_ x: Double, _ y: Double = 0, _ z: Double = 0) -> Position { Position(x: x, y: y, z: z) }

  func moved(to end: Position, part: Double) -> Position {
    Position(x: x + (end.x - x) * part, y: y + (end.y - y) * part, z: z + (end.z - z) * part)
  }
}

/// What the test has set between the devices, kept for the controllers that come when one is switched on again.
///
/// `@unchecked Sendable`: touched by the conductor alone.
final class Surroundings: @unchecked Sendable {
  private struct Pair: Hashable {
    var low: String
    var high: String
    init(_ a: String, _ b: String) { (low, high) = a < b ? (a, b) : (b, a) }
  }

  private struct Setting {
    var loss: Double?
    var isCut = false
  }

  private let world: RadioWorld
  private let simulator: Simulator
  /// By the devices' names.
  private var controllers: [String: RadioDeviceID] = [:]
  private var names: [RadioDeviceID: String] = [:]
  private var pairs: [Pair: Setting] = [:]
  private var positions: [String: Position] = [:]
  private var walks: [String: any SchedulerTimer] = [:]

  private static let walkStep = TimeSpan.milliseconds(100)

  init(_ radio: SteppedRadio) {
    world = radio.world
    simulator = radio.simulator
  }

  func name(of id: RadioDeviceID) -> String { names[id] ?? "" }

  func controllerChanged(_ device: String, _ id: RadioDeviceID) {
    controllers[device] = id
    names[id] = device
    for other in controllers.keys.sorted() where other != device { apply(Pair(device, other)) }
  }

  func setLoss(_ probability: Double) { world.loss = probability }

  func setLoss(_ probability: Double?, _ a: String, _ b: String) {
    pairs[Pair(a, b), default: Setting()].loss = probability
    apply(Pair(a, b))
  }

  func setCut(_ isCut: Bool, _ a: String, _ b: String) {
    pairs[Pair(a, b), default: Setting()].isCut = isCut
    apply(Pair(a, b))
  }

  /// At once, or in steps, in a straight line.
  func move(_ device: String, to end: Position, over span: TimeSpan) {
    walks[device] = nil
    guard span > .zero, let start = positions[device] else { return place(device, end) }
    let begin = simulator.now
    let timer = simulator.makeTimer { [weak self] in
      guard let self else { return }
      let part = Double((simulator.now - begin).nanoseconds) / Double(span.nanoseconds)
      place(device, start.moved(to: end, part: min(1, part)))
      if part < 1 { walks[device]?.arm(at: min(begin + span, simulator.now + Self.walkStep)) }
    }
    walks[device] = timer
    timer.arm(at: simulator.now)
  }

  private func place(_ device: String, _ position: Position) {
    positions[device] = position
    for other in controllers.keys.sorted() where other != device { apply(Pair(device, other)) }
  }

  private func apply(_ pair: Pair) {
    guard let a = controllers[pair.low], let b = controllers[pair.high] else { return }
    let setting = pairs[pair] ?? Setting()
    var isCut = setting.isCut
    if let here = positions[pair.low], let there = positions[pair.high] {
      let rssi = Self.rssi(here, there)
      isCut = isCut || rssi < Self.sensitivity
      world.setRSSI(Int8(clamping: rssi), between: a, and: b)
    }
    world.setLoss(setting.loss, between: a, and: b)
    world.setCut(isCut, between: a, and: b)
  }

  /// dBm; what is weaker is not heard.
  private static let sensitivity = -90

  /// Log-distance with exponent 3, as indoors, from -45 dBm at one metre.
  private static func rssi(_ a: Position, _ b: Position) -> Int {
    let (x, y, z) = (a.x - b.x, a.y - b.y, a.z - b.z)
    let distance = max(0.1, (x * x + y * y + z * z).squareRoot())
    return Int((-45 - 30 * log10(distance)).rounded())
  }
}
