// SPDX-License-Identifier: Apache-2.0

import BLECore
import Foundation
import TestSupport
import Testing

@testable import BLERadio

/// The tables against the functions that they stand for.
@Suite struct DecibelsTests {
  @Test func logarithms() {
    var ratio = 1e-6
    while ratio < 1e15 {
      let exact = 10 * log10(ratio)
      #expect(abs(Double(Decibels.tenThousandths(ofRatio: ratio)) / 10_000 - exact) < 0.001, "\(ratio)")
      ratio *= 1.0173
    }
    #expect(Decibels.tenThousandths(ofRatio: 1) == 0)
  }

  @Test func sumsOfPowers() {
    for difference in stride(from: 0.0, through: 30, by: 0.37) {
      let exact = 10 * log10(pow(10, -70.0 / 10) + pow(10, (-70 - difference) / 10))
      let sum = Decibels.sum(Decibels(-70), Decibels(-70 - difference))
      #expect(abs(sum.value - exact) < 0.03, "\(difference)")
      #expect(sum == Decibels.sum(Decibels(-70 - difference), Decibels(-70)))
    }
    #expect(Decibels.sum(.none, Decibels(-80)) == Decibels(-80))
  }

  @Test func successOfPackets() {
    for octets in [10, 47, 265] {
      for margin in stride(from: -6.0, through: 6.0, by: 0.1) {
        let rate = 0.5 * exp(-6.2146081 * pow(10, margin / 10))
        let exact = pow(1 - rate, Double(octets * 8))
        let success = Double(BitErrors.success(margin: Decibels(margin), octets: octets)) / 4_294_967_296
        #expect(abs(success - exact) < 0.001, "\(margin) dB, \(octets) octets")
      }
    }
    #expect(BitErrors.success(margin: Decibels(-6.01), octets: 10) == 0)
    #expect(BitErrors.success(margin: Decibels(90), octets: 265) == 1 << 32)
  }

  @Test func pathLossOverDistance() {
    for (exponent, metres, loss) in [
      (2.0, 1.0, 40.2), (2, 10, 60.2), (2, 2, 46.22), (2, 100, 80.2), (3, 10, 70.2), (3.5, 36.8, 95.0), (2, 0.1, 20.2),
      (2, 0.001, 20.2),
    ] {
      let path = PathLoss(exponent: exponent)
      #expect(abs(path.loss(squaredDistance: metres * metres).value - loss) < 0.03, "\(exponent), \(metres) m")
      if metres >= 1 {
        let range = path.range(Decibels(loss))
        #expect(range >= metres * 0.999 && range < metres * 1.13)
      }
    }
  }

  @Test func oddNumbersAreTamed() {
    #expect(Position(x: .nan, y: .infinity, z: -.infinity) == Position(x: 1e7, y: 1e7, z: -1e7))
    #expect(PathLoss(exponent: .nan, shadowing: .nan) == .freeSpace)
    #expect(Decibels(.nan) == .zero)
    #expect(Decibels(.infinity).value == 10_000)
    #expect(Decibels(-129).rssi == -127)
    #expect(Decibels(-60.49).rssi == -60)
    #expect(Decibels(-60.51).rssi == -61)
    #expect(Decibels(3.5).rssi == 4)
  }

  @Test func wallsAreBetween() {
    let wall = Wall(from: Position(x: 5, y: -2), to: Position(x: 5, y: 2), attenuation: 6)
    #expect(wall.separates(Position(x: 0, y: 0), Position(x: 10, y: 0)))
    #expect(wall.separates(Position(x: 10, y: 1), Position(x: 0, y: -1)))
    #expect(!wall.separates(Position(x: 0, y: 0), Position(x: 4, y: 0)))
    #expect(!wall.separates(Position(x: 0, y: 3), Position(x: 10, y: 3)))
    #expect(!wall.separates(Position(x: 0, y: 0), Position(x: 10, y: 5)))
    // Along it, and touching it.
    #expect(!wall.separates(Position(x: 5, y: -5), Position(x: 5, y: 5)))
    #expect(wall.separates(Position(x: 0, y: 2), Position(x: 10, y: 2)))
  }

  @Test func crcOfPackets() throws {
    let cases = try VectorFile("ll_encryption").root.objects("crc_and_whitening")
    #expect(cases.count == 3)
    for vector in cases {
      let pdu = try #require(vector.bytes("pdu"))
      let initial = try #require(vector.bytes("crc_init")).reduce(UInt32(0)) { $0 << 8 | UInt32($1) }
      let air = try #require(vector.bytes("crc_air")).enumerated().reduce(UInt32(0)) {
        $0 | UInt32($1.element) << UInt32(8 * $1.offset)
      }
      #expect(LinkLayerCRC.compute(pdu.span.bytes, initial: initial) == air, "\(vector)")
    }
  }
}
