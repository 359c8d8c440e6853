// SPDX-License-Identifier: Apache-2.0

import BLECore

/// Makes the octets of a ``ProfileValue``, step after step.
///
/// The octets of step n depend on the value, the seed, n, and (for clocks) the time alone, so a profile behaves the
/// same in every run. A sampler costs memory only where the value walks at random.
public struct ValueSampler: Sendable {
  private var parts: [PartSampler]

  /// `seed` is used by the random walks that have none of their own; `purpose` tells two values with one seed apart.
  public init(_ value: ProfileValue, seed: UInt64, purpose: UInt64 = 0) {
    var generator = SeededGenerator(seed: seed, purpose: purpose)
    parts = value.parts.map { PartSampler($0, seed: generator.next()) }
  }

  /// The octets of the next step; the first call makes step 0.
  public mutating func next(at time: ProfileTime) -> [UInt8] {
    var octets: [UInt8] = []
    for index in parts.indices { octets += parts[index].next(at: time) }
    return octets
  }
}

/// One part of a value and how far it has come.
private struct PartSampler: Sendable {
  private enum State: Sendable {
    case octets([UInt8])
    case number(NumberFormat, NumberSampler)
    case cycle([ValueSampler], next: Int)
    case currentTime
  }

  private var state: State

  init(_ part: ProfileValue.Part, seed: UInt64) {
    switch part {
    case .octets(let octets): state = .octets(octets)
    case .number(let format, let source): state = .number(format, NumberSampler(source, seed: seed))
    case .cycle(let values):
      let samplers = values.enumerated().map { ValueSampler($1, seed: seed, purpose: UInt64($0)) }
      state = .cycle(samplers, next: 0)
    case .currentTime: state = .currentTime
    }
  }

  mutating func next(at time: ProfileTime) -> [UInt8] {
    switch state {
    case .octets(let octets): return octets
    case .number(let format, var sampler):
      let octets = sampler.next(at: time, format)
      state = .number(format, sampler)
      return octets
    case .cycle(var samplers, let index):
      guard samplers.indices.contains(index) else { return [] }
      let octets = samplers[index].next(at: time)
      state = .cycle(samplers, next: (index + 1) % samplers.count)
      return octets
    case .currentTime: return CurrentTime(time).octets
    }
  }
}

private struct NumberSampler: Sendable {
  private let source: NumberSource
  private var step: Int64 = 0
  private var walk: Int64 = 0
  private var generator: SeededGenerator

  init(_ source: NumberSource, seed: UInt64) {
    self.source = source
    var seed = seed
    if case .randomWalk(_, _, let start, _, let own) = source {
      walk = start
      seed = own ?? seed
    }
    generator = SeededGenerator(seed: seed)
  }

  mutating func next(at time: ProfileTime, _ format: NumberFormat) -> [UInt8] {
    defer { step &+= 1 }
    switch source {
    case .constant(let value): return format.encode(value)
    case .fraction(let value): return format.encode(value)
    case .counter(let from, let to, let stride):
      let count = stride == 0 ? 1 : (to - from) / stride + 1
      return format.encode(from + remainder(count) * stride)
    case .ramp(let from, let to, let period):
      guard period > 1 else { return format.encode(from) }
      return format.encode(from + Self.scale(to - from, remainder(Int64(period)), Int64(period - 1)))
    case .sine(let low, let high, let period):
      let wave = Int64(Sine.value(step: remainder(Int64(period)), period: Int64(period)))
      return format.encode(low + Self.scale(high - low, wave + Sine.one, 2 * Sine.one))
    case .randomWalk(let low, let high, _, let stride, _):
      let here = walk
      // Not the library's `random(in:)`, whose numbers another version may change.
      let move = Int64(generator.next() % UInt64(2 * stride.magnitude + 1)) - Int64(stride.magnitude)
      walk = min(max(here + move, low), high)
      return format.encode(here)
    case .cycle(let values): return format.encode(values.isEmpty ? 0 : values[Int(remainder(Int64(values.count)))])
    case .unixTime: return format.encode(time.unixMilliseconds / 1000)
    case .uptime: return format.encode(time.uptimeMilliseconds)
    }
  }

  private func remainder(_ count: Int64) -> Int64 { count > 0 ? (step & .max) % count : 0 }

  /// `span` x `part` / `whole`, to the nearest.
  private static func scale(_ span: Int64, _ part: Int64, _ whole: Int64) -> Int64 {
    let product = span.multipliedFullWidth(by: part)
    let (quotient, remainder) = whole.dividingFullWidth(product)
    if remainder.magnitude >= whole.magnitude - remainder.magnitude { return quotient + (span < 0 ? -1 : 1) }
    return quotient
  }
}

/// A sine in integers: no library function may decide what a seeded run shows.
enum Sine {
  /// The amplitude.
  static let one: Int64 = 1 << 15

  /// The sine of `step` / `period` of a whole turn.
  static func value(step: Int64, period: Int64) -> Int64 {
    guard period > 0 else { return 0 }
    // The turn is cut into 2^16 parts, so that a quarter has 2^14.
    let turn = (step % period) * 65536 / period
    let quarter = turn >> 14
    let inside = turn & 0x3FFF
    let magnitude = rising(quarter & 1 == 0 ? inside : 0x4000 - inside)
    return quarter < 2 ? magnitude : -magnitude
  }

  /// The first quarter, by Bhaskara's approximation (error below 0.2 %), which is exact at 0, 30 and 90 degrees.
  private static func rising(_ angle: Int64) -> Int64 {
    // With p = x (pi - x): sin x = 16 p / (5 pi^2 - 4 p); here pi is 2^15.
    let p = angle * (0x8000 - angle)
    return (16 * p * one + (5 << 30 - 4 * p) / 2) / (5 << 30 - 4 * p)
  }
}

/// Current Time: Exact Time 256 and Adjust Reason, from a count of seconds (proleptic Gregorian calendar).
private struct CurrentTime {
  let octets: [UInt8]

  init(_ time: ProfileTime) {
    // From 2 January 1970 to the year 9999, so that any offset keeps within what the format holds.
    let utc = min(max(time.unixMilliseconds, 86_400_000), 253_370_764_800_000)
    let milliseconds = utc + min(max(time.utcOffset, -86_400), 86_400) * 1000
    let seconds = milliseconds / 1000
    let (days, second) = (seconds / 86_400, seconds % 86_400)
    let (year, month, day) = Self.date(days)
    // 1 January 1970 was a Thursday; Monday is 1.
    let weekday = (days + 3) % 7 + 1
    octets =
      NumberFormat.octets(UInt64(year), 2)
      + [month, day, second / 3600, second / 60 % 60, second % 60, weekday, milliseconds % 1000 * 256 / 1000, 0]
      .map { UInt8(truncatingIfNeeded: $0) }
  }

  /// The civil date of a day since 1970, counted from 1 March, so that the leap day comes last.
  private static func date(_ days: Int64) -> (year: Int64, month: Int64, day: Int64) {
    let shifted = days + 719_468
    let era = shifted / 146_097
    let dayOfEra = shifted % 146_097
    let yearOfEra = (dayOfEra - dayOfEra / 1460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
    let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
    let marchMonth = (5 * dayOfYear + 2) / 153
    let day = dayOfYear - (153 * marchMonth + 2) / 5 + 1
    let month = marchMonth < 10 ? marchMonth + 3 : marchMonth - 9
    return (yearOfEra + era * 400 + (month <= 2 ? 1 : 0), month, day)
  }
}
