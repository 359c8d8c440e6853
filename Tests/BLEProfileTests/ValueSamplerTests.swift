// SPDX-License-Identifier: Apache-2.0

import BLEProfile
import Testing

@Suite struct ValueSamplerTests {
  let noon = ProfileTime(unixMilliseconds: 1_709_208_000_500, utcOffset: 3600, uptimeMilliseconds: 0x0102_0304)

  /// The octets of the first steps of a value, given as in a file.
  func steps(_ json: String, _ count: Int, seed: UInt64 = 0) throws -> [[UInt8]] {
    let text = profile(characteristic: #""properties":["read"],"value":\#(json)"#)
    let value = try #require(try parse(text).services[0].characteristics[0].value)
    var sampler = ValueSampler(value, seed: seed)
    return (0..<count).map { _ in
      let octets = sampler.next(at: noon)
      #expect(octets.count <= value.byteCountMax)
      return octets
    }
  }

  @Test func constants() throws {
    #expect(
      try steps(#"[{"hex":"0A ff"},{"text":"é"},{"int16":-2},{"uint24":66051}]"#, 1) == [
        [0x0A, 0xFF, 0xC3, 0xA9, 0xFE, 0xFF, 0x03, 0x02, 0x01]
      ])
    #expect(try steps(#"[{"float32":1.5},{"float64":-2}]"#, 1) == [[0, 0, 0xC0, 0x3F, 0, 0, 0, 0, 0, 0, 0, 0xC0]])
    #expect(try steps(#"{"int64":-9223372036854775808}"#, 1) == [[0, 0, 0, 0, 0, 0, 0, 0x80]])
    #expect(try steps(#"[]"#, 1) == [[]])
  }

  @Test func countersBeginAgainBeforeTheEnd() throws {
    #expect(try steps(#"{"uint8":{"counter":{"from":1,"to":6,"step":2}}}"#, 5) == [[1], [3], [5], [1], [3]])
    #expect(try steps(#"{"int8":{"counter":{"from":1,"to":-1,"step":-1}}}"#, 4) == [[1], [0], [0xFF], [1]])
    #expect(try steps(#"{"uint8":{"counter":{}}}"#, 257).suffix(2) == [[255], [0]])
    #expect(try steps(#"{"uint8":{"counter":{"from":4,"to":4}}}"#, 2) == [[4], [4]])
  }

  @Test func rampsReachBothEnds() throws {
    #expect(try steps(#"{"uint8":{"ramp":{"from":0,"to":10,"period":5}}}"#, 6) == [[0], [3], [5], [8], [10], [0]])
    #expect(try steps(#"{"int8":{"ramp":{"from":2,"to":-2,"period":3}}}"#, 3) == [[2], [0], [0xFE]])
  }

  @Test func sinesTouchTheirBoundsAndTheMiddle() throws {
    let wave = try steps(#"{"uint8":{"sine":{"from":0,"to":200,"period":4}}}"#, 5)
    #expect(wave == [[100], [200], [100], [0], [100]])
    let twelfths = try steps(#"{"uint8":{"sine":{"from":0,"to":200,"period":12}}}"#, 12)
    #expect(twelfths.map { $0[0] }.max() == 200 && twelfths.map { $0[0] }.min() == 0)
    // sin 30 degrees is one half.
    #expect(twelfths[1] == [150])
  }

  @Test func randomWalksStayInBoundsAndFollowTheSeed() throws {
    let json = #"{"uint8":{"randomWalk":{"from":60,"to":65,"start":62,"step":2}}}"#
    let walk = try steps(json, 1000, seed: 3)
    #expect(walk[0] == [62])
    for (a, b) in zip(walk, walk.dropFirst()) {
      #expect(60...65 ~= b[0] && abs(Int(a[0]) - Int(b[0])) <= 2)
    }
    #expect(Set(walk).count == 6)
    #expect(try steps(json, 1000, seed: 3) == walk)
    #expect(try steps(json, 1000, seed: 4) != walk)
    let own = #"{"uint8":{"randomWalk":{"from":0,"to":255,"step":9,"seed":5}}}"#
    #expect(try steps(own, 100, seed: 1) == steps(own, 100, seed: 2))
  }

  @Test func cyclesOfNumbersAndOfValues() throws {
    #expect(try steps(#"{"uint8":{"cycle":[7,9]}}"#, 3) == [[7], [9], [7]])
    #expect(
      try steps(#"{"cycle":[{"text":"a"},[{"hex":"00"},{"uint8":{"counter":{}}}]]}"#, 4) == [
        [0x61], [0, 0], [0x61], [0, 1],
      ])
  }

  @Test func clocks() throws {
    // 29 February 2024, 12:00:00.5 UTC, a Thursday, shown an hour further east.
    #expect(try steps(#"{"clock":"currentTime"}"#, 1) == [[0xE8, 0x07, 2, 29, 13, 0, 0, 4, 128, 0]])
    #expect(try steps(#"{"uint32":{"clock":"unixTime"}}"#, 1) == [[0xC0, 0x71, 0xE0, 0x65]])
    #expect(try steps(#"{"uint32":{"clock":"uptime"}}"#, 1) == [[4, 3, 2, 1]])
  }

  @Test func absurdClocksAreHarmless() {
    for milliseconds in [Int64.min, -1, 0, .max] {
      for offset in [Int64.min, 0, .max] {
        let time = ProfileTime(unixMilliseconds: milliseconds, utcOffset: offset, uptimeMilliseconds: milliseconds)
        var sampler = ValueSampler(ProfileValue([.currentTime, .number(.uint16, .uptime)]), seed: 0)
        #expect(sampler.next(at: time).count == 12)
      }
    }
  }

  @Test func numbersAtTheLimitsDoNotOverflow() throws {
    let most = NumberSource.magnitudeMax
    for body in [
      #"{"ramp":{"from":\#(-most),"to":\#(most),"period":1000000}}"#,
      #"{"sine":{"from":\#(-most),"to":\#(most),"period":3}}"#,
      #"{"randomWalk":{"from":\#(-most),"to":\#(most),"step":\#(most)}}"#,
      #"{"counter":{"from":\#(most),"to":\#(-most),"step":\#(-most)}}"#,
    ] {
      #expect(try Set(steps(#"{"int64":\#(body)}"#, 50)).count > 1)
    }
  }
}
