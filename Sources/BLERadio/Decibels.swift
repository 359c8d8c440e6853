// SPDX-License-Identifier: Apache-2.0

/// A ratio of powers in dB, or a power in dBm, in steps of 0.01.
///
/// Whole numbers, and tables in place of logarithms: what happens on air must not depend on a machine's mathematics
/// library.
struct Decibels: Hashable, Comparable {
  var hundredths: Int32

  static let zero = Decibels(hundredths: 0)
  /// No power at all.
  static let none = Decibels(hundredths: -1_000_000)

  init(hundredths: Int32) { self.hundredths = hundredths }

  /// The nearest step; beyond +-10,000 dB, and for what is no number, the limit.
  init(_ value: Double) {
    let steps = (value * 100).rounded()
    hundredths = steps.isNaN ? 0 : Int32(min(max(steps, -1_000_000), 1_000_000))
  }

  static func < (a: Decibels, b: Decibels) -> Bool { a.hundredths < b.hundredths }
  static func + (a: Decibels, b: Decibels) -> Decibels { Decibels(hundredths: a.hundredths &+ b.hundredths) }
  static func - (a: Decibels, b: Decibels) -> Decibels { Decibels(hundredths: a.hundredths &- b.hundredths) }

  var value: Double { Double(hundredths) / 100 }

  /// The nearest whole number that HCI can carry: -127...20, as its RSSI.
  var rssi: Int8 {
    let whole = hundredths >= 0 ? (hundredths + 50) / 100 : (hundredths - 50) / 100
    return Int8(min(max(whole, -127), 20))
  }

  /// 10 log10 of `ratio`, a positive normal number, in steps of 0.0001 dB.
  static func tenThousandths(ofRatio ratio: Double) -> Int64 {
    let position = (ratio.significand - 1) * 64
    let index = min(max(Int(position), 0), 63)
    let rest = position - Double(index)
    let (low, high) = (logarithms[index], logarithms[index + 1])
    return Int64(ratio.exponent) * 30_103 + low + Int64(rest * Double(high - low))
  }

  /// What two powers come to together.
  static func sum(_ a: Decibels, _ b: Decibels) -> Decibels {
    let larger = max(a, b)
    let distance = Int(larger.hundredths &- min(a, b).hundredths)
    guard distance < 2_500 else { return larger }
    let index = distance / 100
    let (high, low) = (sums[index], sums[index + 1])
    return Decibels(hundredths: larger.hundredths + high - (high - low) * Int32(distance % 100) / 100)
  }

  /// 10 log10(1 + k / 64) in 0.0001 dB, k = 0...64.
  private static let logarithms: [Int64] = [
    0, 673, 1336, 1989, 2633, 3267, 3892, 4508, 5115, 5714, 6305, 6888, 7463, 8031, 8591, 9145, 9691, 10231, 10763,
    11290, 11810, 12324, 12832, 13334, 13830, 14321, 14806, 15286, 15761, 16230, 16695, 17154, 17609, 18059, 18505,
    18946, 19382, 19814, 20242, 20666, 21085, 21501, 21913, 22320, 22724, 23125, 23521, 23914, 24304, 24690, 25072,
    25452, 25828, 26201, 26570, 26937, 27300, 27661, 28018, 28373, 28724, 29073, 29419, 29762, 30103,
  ]

  /// 10 log10(1 + 10^(-d / 10)) in 0.01 dB for a difference of d dB, d = 0...25.
  private static let sums: [Int32] = [
    301, 254, 212, 176, 146, 119, 97, 79, 64, 51, 41, 33, 27, 21, 17, 14, 11, 9, 7, 5, 4, 3, 3, 2, 2, 1,
  ]
}

/// How many bits arrive wrong, and how many packets for it.
enum BitErrors {
  /// Signal over noise that gives the bit error rate of 0.1 % by which sensitivity is defined (Vol 6 Part A 4.1), for
  /// non-coherent detection: 0.5 exp(-snr / 2) = 0.001.
  static let ratioAtSensitivity = Decibels(hundredths: 1_094)
  /// Signals weaker than sensitivity by more than this are not noticed at all.
  static let depth = Decibels(hundredths: 600)

  /// The probability, of 2^32, that `octets` in a row arrive without a wrong bit, by how much stronger than sensitivity
  /// the signal is.
  static func success(margin: Decibels, octets: Int) -> UInt64 {
    guard margin.hundredths >= -600 else { return 0 }
    let index = Int(margin.hundredths + 600) / 10
    guard index < rates.count else { return 1 << 32 }
    // (1 - rate)^bits by squaring, of 2^62.
    var power: UInt64 = (1 << 62) - rates[index] << 22
    var result: UInt64 = 1 << 62
    var exponent = octets * 8
    while exponent > 0 {
      if exponent & 1 == 1 { result = multiply(result, power) }
      power = multiply(power, power)
      exponent >>= 1
    }
    return result >> 30
  }

  private static func multiply(_ a: UInt64, _ b: UInt64) -> UInt64 {
    let product = a.multipliedFullWidth(by: b)
    return product.high << 2 | product.low >> 62
  }

  /// 0.5 exp(-6.2146 * 10^(m / 10)) of 2^40, for m = -6.0, -5.9 ... 4.9 dB above sensitivity. Better than that no packet
  /// in a million is lost.
  private static let rates: [UInt64] = [
    115_403_562_968, 111_282_716_611, 107_218_169_741, 103_212_586_261, 99_268_569_866, 95_388_656_382, 91_575_306_065,
    87_830_895_913, 84_157_712_022, 80_557_942_029, 77_033_667_670, 73_586_857_516, 70_219_359_907, 66_932_896_150,
    63_729_054_010, 60_609_281_546, 57_574_881_343, 54_627_005_173, 51_766_649_144, 48_994_649_366, 46_311_678_194,
    43_718_241_064, 41_214_673_989, 38_801_141_723, 36_477_636_642, 34_243_978_361, 32_099_814_115, 30_044_619_915,
    28_077_702_506, 26_198_202_115, 24_405_096_005, 22_697_202_835, 21_073_187_788, 19_531_568_485, 18_070_721_628,
    16_688_890_364, 15_384_192_316, 14_154_628_240, 12_998_091_260, 11_912_376_622, 10_895_191_892, 9_944_167_549,
    9_056_867_876, 8_230_802_094, 7_463_435_636, 6_752_201_494, 6_094_511_545, 5_487_767_776, 4_929_373_312,
    4_416_743_175, 3_947_314_694, 3_518_557_467, 3_127_982_837, 2_773_152_774, 2_451_688_140, 2_161_276_254,
    1_899_677_729, 1_664_732_530, 1_454_365_240, 1_266_589_501, 1_099_511_626, 951_333_387, 820_353_978, 704_971_185,
    603_681_780, 515_081_175, 437_862_392, 370_814_383, 312_819_764, 262_852_021, 219_972_254, 183_325_523, 152_136_855,
    125_707_003, 103_407_992, 84_678_541, 69_019_410, 55_988_735, 45_197_397, 36_304_481, 29_012_867, 23_064_977,
    18_238_728, 14_343_699, 11_217_537, 8_722_622, 6_742_979, 5_181_464, 3_957_205, 3_003_293, 2_264_731, 1_696_604,
    1_262_473, 932984, 684647, 498803, 360734, 258921, 184413, 130312, 91341, 63496, 43768, 29909, 20258, 13597, 9042,
    5956, 3885, 2509,
  ]
}
