// SPDX-License-Identifier: Apache-2.0

/// Where a device is, in metres from an origin that the world's author chose.
public struct Position: Hashable, Sendable {
  /// Metres in the plane in which ``Wall``s stand.
  public var x: Double { didSet { x = Self.confine(x) } }
  /// Metres in the plane in which ``Wall``s stand.
  public var y: Double { didSet { y = Self.confine(y) } }
  /// Metres above the plane.
  public var z: Double { didSet { z = Self.confine(z) } }

  /// A position; coordinates that are no numbers or farther than 10,000 km away count as that far, also later on.
  public init(x: Double, y: Double, z: Double = 0) {
    self.x = Self.confine(x)
    self.y = Self.confine(y)
    self.z = Self.confine(z)
  }

  private static let limit = 1e7

  private static func confine(_ value: Double) -> Double { value.isNaN ? limit : min(max(value, -limit), limit) }

  /// Square metres between two positions. Additions and multiplications alone: the same on every machine.
  func squaredDistance(to other: Position) -> Double {
    let (dx, dy, dz) = (x - other.x, y - other.y, z - other.z)
    return dx * dx + dy * dy + dz * dz
  }
}

/// A wall, as seen from above: a straight line that weakens what passes through it, at any height.
public struct Wall: Hashable, Sendable {
  /// One end; its height does not matter.
  public var start: Position
  /// The other end; its height does not matter.
  public var end: Position
  /// How much a signal loses by it, dB; some 3 for plasterboard, 6 for brick, 12 and more for concrete.
  public var attenuation: Double

  /// A wall between two points of the plane.
  public init(from start: Position, to end: Position, attenuation: Double) {
    self.start = start
    self.end = end
    self.attenuation = attenuation
  }

  /// Whether the straight way between `a` and `b` passes through, or touches it.
  func separates(_ a: Position, _ b: Position) -> Bool {
    let sides = (Self.side(start, end, a), Self.side(start, end, b))
    let ends = (Self.side(a, b, start), Self.side(a, b, end))
    // On one line with the wall: along it, not through it.
    if sides.0 == 0, sides.1 == 0 { return false }
    return Self.differ(sides) && Self.differ(ends)
  }

  /// On which side of the line from `a` to `b` `c` is: the sign; zero on it.
  private static func side(_ a: Position, _ b: Position, _ c: Position) -> Double {
    (b.x - a.x) * (c.y - a.y) - (b.y - a.y) * (c.x - a.x)
  }

  private static func differ(_ sides: (Double, Double)) -> Bool {
    (sides.0 <= 0 && sides.1 >= 0) || (sides.0 >= 0 && sides.1 <= 0)
  }
}
