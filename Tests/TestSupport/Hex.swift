// SPDX-License-Identifier: Apache-2.0

extension [UInt8] {
  /// The octets of a string of hexadecimal digits; blanks between octets are allowed. Nil for anything else.
  public init?(hex text: String) {
    let digits = text.filter { !$0.isWhitespace }
    guard digits.count.isMultiple(of: 2) else { return nil }
    var bytes: [UInt8] = []
    var pending: UInt8?
    for character in digits {
      guard let value = character.hexDigitValue else { return nil }
      if let high = pending {
        bytes.append(high << 4 | UInt8(value))
        pending = nil
      } else {
        pending = UInt8(value)
      }
    }
    self = bytes
  }

  /// Two lower-case hexadecimal digits an octet.
  public var hex: String {
    map { byte in
      let digits = String(byte, radix: 16)
      return digits.count == 1 ? "0" + digits : digits
    }.joined()
  }
}
