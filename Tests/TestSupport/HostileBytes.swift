// SPDX-License-Identifier: Apache-2.0

import BLECore
import Foundation

/// Byte strings that decoders must survive: valid examples, cut, stretched, flipped, overwritten and spliced,
/// and pure noise. The sequence depends on the seed alone; print ``seed`` when a test fails.
public struct HostileBytes: Sequence, IteratorProtocol {
  public let seed: UInt64
  /// `HOSTILE_SEED`, added to every seed: the same tests with other octets (see `scripts/soak.sh`).
  public static let seedOffset = ProcessInfo.processInfo.environment["HOSTILE_SEED"].flatMap { UInt64($0) } ?? 0
  private let examples: [[UInt8]]
  private let maxLength: Int
  private var random: SeededGenerator
  private var left: Int

  /// `count` strings made from `examples` (valid byte strings; may be empty), none longer than `maxLength`.
  public init(seed: UInt64, count: Int, examples: [[UInt8]], maxLength: Int = 300) {
    let seed = seed &+ Self.seedOffset
    self.seed = seed
    self.examples = examples
    self.maxLength = maxLength
    random = SeededGenerator(seed: seed)
    left = count
  }

  public mutating func next() -> [UInt8]? {
    guard left > 0 else { return nil }
    left -= 1
    var bytes = make()
    if bytes.count > maxLength { bytes.removeLast(bytes.count - maxLength) }
    return bytes
  }

  private mutating func make() -> [UInt8] {
    guard let example = examples.randomElement(using: &random) else { return noise() }
    switch Int.random(in: 0..<8, using: &random) {
    case 0: return Array(example.prefix(Int.random(in: 0...example.count, using: &random)))
    case 1: return example + noise()
    case 2: return flipped(example)
    case 3: return overwritten(example)
    case 4: return spliced(example)
    case 5: return shortened(example)
    case 6: return flipped(spliced(overwritten(example)))
    default: return noise()
    }
  }

  /// Random octets; small values, which are lengths and counts, as often as all others.
  private mutating func noise() -> [UInt8] {
    let count = Int.random(in: 0...Swift.min(40, maxLength), using: &random)
    return (0..<count).map { _ in octet() }
  }

  private mutating func octet() -> UInt8 {
    switch Int.random(in: 0..<4, using: &random) {
    case 0: UInt8.random(in: 0...8, using: &random)
    case 1: [0x00, 0x01, 0x7F, 0x80, 0xFE, 0xFF].randomElement(using: &random) ?? 0
    default: UInt8.random(in: 0...255, using: &random)
    }
  }

  private mutating func flipped(_ bytes: [UInt8]) -> [UInt8] {
    var bytes = bytes
    for _ in 0..<Int.random(in: 1...3, using: &random) {
      guard let index = bytes.indices.randomElement(using: &random) else { break }
      bytes[index] ^= 1 << UInt8.random(in: 0..<8, using: &random)
    }
    return bytes
  }

  private mutating func overwritten(_ bytes: [UInt8]) -> [UInt8] {
    var bytes = bytes
    for _ in 0..<Int.random(in: 1...4, using: &random) {
      guard let index = bytes.indices.randomElement(using: &random) else { break }
      bytes[index] = octet()
    }
    return bytes
  }

  /// The beginning of one example and the end of another.
  private mutating func spliced(_ bytes: [UInt8]) -> [UInt8] {
    guard let other = examples.randomElement(using: &random) else { return bytes }
    let head = Int.random(in: 0...bytes.count, using: &random)
    let tail = Int.random(in: 0...other.count, using: &random)
    return Array(bytes.prefix(head)) + Array(other.suffix(tail))
  }

  /// One octet taken out of the middle.
  private mutating func shortened(_ bytes: [UInt8]) -> [UInt8] {
    var bytes = bytes
    if let index = bytes.indices.randomElement(using: &random) { bytes.remove(at: index) }
    return bytes
  }
}
