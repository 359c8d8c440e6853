// SPDX-License-Identifier: Apache-2.0

import BLECore
import BLERadio
import BLESystem

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

/// What the test has set for devices and between them, kept for the controllers that come when one is switched on again.
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

  private struct Place {
    var position: Position?
    var transmitPower: Double = 0
    var walk: (any SchedulerTimer)?
  }

  private let world: RadioWorld
  private let simulator: Simulator
  /// By the devices' names.
  private var controllers: [String: RadioDeviceID] = [:]
  private var names: [RadioDeviceID: String] = [:]
  private var pairs: [Pair: Setting] = [:]
  private var places: [String: Place] = [:]

  private static let walkStep = TimeSpan.milliseconds(100)

  init(_ radio: SteppedRadio) {
    world = radio.world
    simulator = radio.simulator
    world.pathLoss = PathLoss(exponent: 3)
  }

  func name(of id: RadioDeviceID) -> String { names[id] ?? "" }

  func controllerChanged(_ device: String, _ id: RadioDeviceID) {
    if let former = controllers[device] { world.setPosition(nil, of: former) }
    controllers[device] = id
    names[id] = device
    applyPlace(device)
    for other in controllers.keys.sorted() where other != device { apply(Pair(device, other)) }
  }

  // MARK: - Between devices

  func setLoss(_ probability: Double) { world.loss = probability }

  func setLoss(_ probability: Double?, _ a: String, _ b: String) {
    pairs[Pair(a, b), default: Setting()].loss = probability
    apply(Pair(a, b))
  }

  func setCut(_ isCut: Bool, _ a: String, _ b: String) {
    pairs[Pair(a, b), default: Setting()].isCut = isCut
    apply(Pair(a, b))
  }

  func addBurst(_ probability: Double, _ span: TimeSpan) {
    world.lossBursts.removeAll { $0.start + $0.duration < simulator.now }
    world.lossBursts.append(LossBurst(start: simulator.now, duration: span, probability: probability))
  }

  func setPathLoss(exponent: Double, shadowing: Double) {
    world.pathLoss = PathLoss(exponent: exponent, shadowing: shadowing)
  }

  func addWall(_ start: Position, _ end: Position, _ attenuation: Double) {
    world.walls.append(Wall(from: start.onAir, to: end.onAir, attenuation: attenuation))
  }

  func setInterference(_ interference: Interference?, _ channel: UInt8) {
    world.setInterference(interference, on: channel)
  }

  private func apply(_ pair: Pair) {
    guard let a = controllers[pair.low], let b = controllers[pair.high], let setting = pairs[pair] else { return }
    world.setLoss(setting.loss, between: a, and: b)
    world.setCut(setting.isCut, between: a, and: b)
  }

  // MARK: - Places

  /// At once, or in steps, in a straight line.
  func move(_ device: String, to end: Position, over span: TimeSpan) {
    places[device, default: Place()].walk = nil
    guard span > .zero, let start = places[device]?.position else { return place(device, end) }
    let begin = simulator.now
    let timer = simulator.makeTimer { [weak self] in
      guard let self else { return }
      let part = Double((simulator.now - begin).nanoseconds) / Double(span.nanoseconds)
      place(device, start.moved(to: end, part: min(1, part)))
      if part < 1 { places[device]?.walk?.arm(at: min(begin + span, simulator.now + Self.walkStep)) }
    }
    places[device]?.walk = timer
    timer.arm(at: simulator.now)
  }

  func setTransmitPower(_ power: Double, _ device: String) {
    places[device, default: Place()].transmitPower = power
    applyPlace(device)
  }

  private func place(_ device: String, _ position: Position) {
    places[device, default: Place()].position = position
    applyPlace(device)
  }

  private func applyPlace(_ device: String) {
    guard let id = controllers[device], let place = places[device] else { return }
    world.setPosition(place.position?.onAir, of: id)
    world.setTransmitPower(place.transmitPower, of: id)
  }
}

extension Position {
  fileprivate var onAir: BLERadio.Position { BLERadio.Position(x: x, y: y, z: z) }
}
