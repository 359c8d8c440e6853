// SPDX-License-Identifier: Apache-2.0

/// A small random generator whose sequence depends on its seed alone (SplitMix64). Not for keys.
public struct SeededGenerator: RandomNumberGenerator, Sendable {
  private var state: UInt64

  public init(seed: UInt64) { state = seed }

  /// A generator for one purpose, independent of those made from the same seed for other purposes.
  public init(seed: UInt64, purpose: UInt64) {
    var mixer = SeededGenerator(seed: seed ^ (purpose &* 0xD6E8_FEB8_6659_FD93))
    state = mixer.next()
  }

  public mutating func next() -> UInt64 {
    state &+= 0x9E37_79B9_7F4A_7C15
    var z = state
    z = (z ^ (z >> 30)) &* 0xBF58_476D_1CE4_E5B9
    z = (z ^ (z >> 27)) &* 0x94D0_49BB_1331_11EB
    return z ^ (z >> 31)
  }
}
