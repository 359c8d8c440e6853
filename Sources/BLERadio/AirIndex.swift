// SPDX-License-Identifier: Apache-2.0

/// What is on air or was a moment ago, as a receiver in its way sees it.
struct Footprint {
  var start: Int64
  var end: Int64
  var accessAddress: UInt32
  var sender: Int32
  /// How much weaker than its device can it was sent.
  var reduction: Decibels
  var phy: AirPHY
  var coding: AirCoding
}

/// Who listens on one channel in one cell, and what was sent from there.
struct AirSlot {
  var listeners: [Int32] = []
  private(set) var footprints: [Footprint] = []
  /// Those before it are too old to matter.
  private(set) var first = 0

  var recent: Range<Int> { first..<footprints.count }

  /// Adds `footprint`, and forgets what ended before `horizon`.
  mutating func append(_ footprint: Footprint, horizon: Int64) {
    while first < footprints.count, footprints[first].end < horizon { first += 1 }
    if first == footprints.count {
      footprints.removeAll(keepingCapacity: true)
      first = 0
    } else if first >= 64, first * 2 >= footprints.count {
      footprints.removeSubrange(0..<first)
      first = 0
    }
    footprints.append(footprint)
  }
}

/// The plane in square cells, so wide that no packet matters beyond the neighbours of the cell that it was sent from. Cell
/// 0 is everywhere: it is for devices without a position, and neighbour to all.
struct CellGrid {
  private struct Key: Hashable {
    var x: Int32
    var y: Int32
  }

  /// Metres along a side.
  let width: Double
  private var numbers: [Key: Int32] = [:]
  /// Cells that can hear a cell, itself included, in the order in which they were made.
  private(set) var neighbours: [[Int32]] = [[0]]

  static let everywhere: Int32 = 0

  init(width: Double) { self.width = width }

  var count: Int { neighbours.count }

  /// The cell that `position` is in, made if need be.
  mutating func cell(of position: Position) -> Int32 {
    let key = Key(x: Self.coordinate(position.x / width), y: Self.coordinate(position.y / width))
    if let number = numbers[key] { return number }
    let number = Int32(neighbours.count)
    numbers[key] = number
    var around = [Self.everywhere]
    for x in key.x - 1...key.x + 1 {
      for y in key.y - 1...key.y + 1 {
        guard let other = numbers[Key(x: x, y: y)] else { continue }
        around.append(other)
        if other != number { neighbours[Int(other)].append(number) }
      }
    }
    neighbours[Int(Self.everywhere)].append(number)
    neighbours.append(around)
    return number
  }

  private static func coordinate(_ value: Double) -> Int32 { Int32(min(max(value.rounded(.down), -1e9), 1e9)) }
}
