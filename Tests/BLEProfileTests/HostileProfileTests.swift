// SPDX-License-Identifier: Apache-2.0

import BLECore
import BLEProfile
import TestSupport
import Testing

/// Any octets either are refused with a place inside them, or make a profile that can be played.
@Suite struct HostileProfileTests {
  static let seed: UInt64 = 0xB1E &+ HostileBytes.seedOffset

  @Test func anyOctetsAreSurvived() throws {
    let ready = [try readyProfile("heart-rate-sensor"), try readyProfile("environment-sensor")]
    var generator = SeededGenerator(seed: Self.seed)
    var accepted = 0
    var refused = 0
    for round in 0..<100_000 {
      let bytes = Self.mutate(round % 50 == 0 ? ready[round / 50 % 2] : Array(Self.small.utf8), &generator)
      do throws(ProfileError) {
        let node = try JSONNode(parsing: bytes)
        // What parses can be written, and what was written parses to the same.
        let value = node.value
        let again = try JSONNode(parsing: Array(value.text.utf8))
        #expect(again.value == value, "seed \(Self.seed), round \(round)")
        let profile = try Profile(parsing: bytes)
        Self.play(profile)
        accepted += 1
      } catch {
        refused += 1
        #expect(error.line >= 1 && error.column >= 1, "seed \(Self.seed), round \(round)")
        #expect(error.line <= bytes.count { $0 == 0x0A } + 1, "seed \(Self.seed), round \(round)")
      }
    }
    // Both happen often, else the attack is none.
    #expect(accepted > 1000 && refused > 50_000, "\(accepted) accepted, \(refused) refused")
    // And the originals still load.
    for original in ready + [Array(Self.small.utf8)] { _ = try Profile(parsing: original) }
  }

  /// Most of the format in little text: what is mutated most often, as the ready ones take long to parse.
  static let small = #"""
    {"name":"N","advertise":["180F"],"seed":3,"services":[{"id":"b","uuid":"180F"},
    {"uuid":"181A","includes":["b"],"characteristics":[{"uuid":"2A6E","properties":["read","notify"],
    "notifyEvery":20,"value":[{"hex":"06"},{"int16":{"sine":{"from":-5,"to":90,"period":7}}}],
    "descriptors":[{"uuid":"2904","format":{"type":4}}]}]}]}
    """#

  static func play(_ profile: Profile) {
    #expect(Set(profile.publicationOrder) == Set(profile.services.indices))
    for value in profile.services.flatMap(\.characteristics).compactMap(\.value) {
      var sampler = ValueSampler(value, seed: profile.seed)
      for step in 0..<3 {
        let time = ProfileTime(unixMilliseconds: Int64(step), uptimeMilliseconds: 0)
        #expect(sampler.next(at: time).count <= value.byteCountMax && value.byteCountMax <= 512)
      }
    }
  }

  /// A truncation, a few changed octets, a moved slice, a replaced word or number, or noise.
  static func mutate(_ original: [UInt8], _ generator: inout SeededGenerator) -> [UInt8] {
    var bytes = original
    func place(_ generator: inout SeededGenerator) -> Int { Int.random(in: 0..<bytes.count, using: &generator) }
    switch generator.next() % 6 {
    case 0: bytes.removeSubrange(place(&generator)...)
    case 1:
      for _ in 0..<Int.random(in: 1...4, using: &generator) {
        let index = place(&generator)
        bytes[index] = UInt8.random(in: 0...255, using: &generator)
      }
    case 2:
      let start = place(&generator)
      let slice = Array(bytes[start..<min(bytes.count, start + Int.random(in: 1...40, using: &generator))])
      bytes.insert(contentsOf: slice, at: place(&generator))
    case 3, 4:
      // Another number where a digit was: the file mostly stays JSON, its meaning changes.
      let digits = bytes.indices.filter { UInt8(ascii: "0")...UInt8(ascii: "9") ~= bytes[$0] }
      if let index = digits.randomElement(using: &generator) {
        let words = ["9", "-1", "1e9", "99999999999999999999", "null", "2.5", "\"a\"", "[]", "0", "A"]
        bytes.replaceSubrange(index...index, with: Array((words.randomElement(using: &generator) ?? "0").utf8))
      }
    default:
      bytes = (0..<Int.random(in: 0...64, using: &generator)).map { _ in
        let alphabet = Array("{}[]\",:\\u0123eE+-.truefalsn \n\u{1}".utf8)
        return alphabet.randomElement(using: &generator) ?? 0
      }
    }
    return bytes
  }
}
