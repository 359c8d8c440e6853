// SPDX-License-Identifier: Apache-2.0

/// A JSON value and where in its text it began, so that what is wrong with its meaning can be pointed at too.
public struct JSONNode: Hashable, Sendable {
  public enum Content: Hashable, Sendable {
    case null
    case bool(Bool)
    /// In the spelling of the text.
    case number(String)
    case string(String)
    case array([JSONNode])
    case object([JSONMember])
  }

  public var content: Content
  /// Octets before the value.
  public var offset: Int

  public init(_ content: Content, offset: Int) {
    self.content = content
    self.offset = offset
  }

  /// Parses one JSON text (RFC 8259, UTF-8, a byte order mark is skipped).
  ///
  /// Stricter than the RFC asks for: two members of one name are an error. Nesting ends at ``depthMax``.
  public init(parsing bytes: [UInt8]) throws(ProfileError) {
    var parser = JSONParser(bytes)
    self = try parser.document()
  }

  /// Arrays and objects may be inside each other so many times.
  public static let depthMax = 64

  /// What the value is, for messages: "a string", "an object".
  public var kind: String {
    switch content {
    case .null: "null"
    case .bool: "true or false"
    case .number: "a number"
    case .string: "a string"
    case .array: "a list"
    case .object: "an object"
    }
  }

  /// The value without its places.
  public var value: JSONValue {
    switch content {
    case .null: .null
    case .bool(let value): .bool(value)
    case .number(let spelling): Int(spelling).map(JSONValue.integer) ?? .number(spelling)
    case .string(let text): .string(text)
    case .array(let elements): .array(elements.map(\.value))
    case .object(let members): .object(members.map { .init($0.key, $0.value.value) })
    }
  }
}

/// A member of a JSON object.
public struct JSONMember: Hashable, Sendable {
  public var key: String
  /// Octets before the key.
  public var keyOffset: Int
  public var value: JSONNode

  public init(key: String, keyOffset: Int, value: JSONNode) {
    self.key = key
    self.keyOffset = keyOffset
    self.value = value
  }
}

/// Recursive descent over the octets; the depth limit bounds the stack.
private struct JSONParser {
  private let bytes: [UInt8]
  private var offset = 0
  private var depth = 0

  init(_ bytes: [UInt8]) {
    self.bytes = bytes
    if bytes.starts(with: [0xEF, 0xBB, 0xBF]) { offset = 3 }
  }

  mutating func document() throws(ProfileError) -> JSONNode {
    skipSpace()
    let node = try value()
    skipSpace()
    if let byte = peek { throw error("unexpected \(Self.name(byte)) after the end of the JSON value") }
    return node
  }

  // MARK: Values

  private mutating func value() throws(ProfileError) -> JSONNode {
    let start = offset
    switch peek {
    case nil: throw error("the text ends where a value was expected")
    case UInt8(ascii: "{"):
      return JSONNode(.object(try nested { p throws(ProfileError) in try p.object() }), offset: start)
    case UInt8(ascii: "["):
      return JSONNode(.array(try nested { p throws(ProfileError) in try p.array() }), offset: start)
    case UInt8(ascii: "\""): return JSONNode(.string(try string()), offset: start)
    case let byte? where byte == UInt8(ascii: "-") || UInt8(ascii: "0")...UInt8(ascii: "9") ~= byte:
      return JSONNode(.number(try number()), offset: start)
    case let byte?: return JSONNode(try word(startingWith: byte), offset: start)
    }
  }

  private mutating func nested<T>(
    _ body: (inout JSONParser) throws(ProfileError) -> T
  ) throws(ProfileError) -> T {
    guard depth < JSONNode.depthMax else { throw error("nested deeper than \(JSONNode.depthMax) levels") }
    depth += 1
    offset += 1
    let result = try body(&self)
    depth -= 1
    return result
  }

  private mutating func object() throws(ProfileError) -> [JSONMember] {
    var members: [JSONMember] = []
    var keys: Set<String> = []
    skipSpace()
    if take("}") { return members }
    while true {
      skipSpace()
      let start = offset
      guard peek == UInt8(ascii: "\"") else { throw error("expected a member's name in double quotes, found \(found)") }
      let key = try string()
      guard keys.insert(key).inserted else { throw error("\"\(key)\" is given twice", at: start) }
      skipSpace()
      guard take(":") else { throw error("expected a colon after \"\(key)\", found \(found)") }
      skipSpace()
      members.append(JSONMember(key: key, keyOffset: start, value: try value()))
      skipSpace()
      if take("}") { return members }
      guard take(",") else { throw error("expected a comma or } after the value of \"\(key)\", found \(found)") }
    }
  }

  private mutating func array() throws(ProfileError) -> [JSONNode] {
    var elements: [JSONNode] = []
    skipSpace()
    if take("]") { return elements }
    while true {
      skipSpace()
      elements.append(try value())
      skipSpace()
      if take("]") { return elements }
      guard take(",") else { throw error("expected a comma or ] after a list's element, found \(found)") }
    }
  }

  private mutating func word(startingWith byte: UInt8) throws(ProfileError) -> JSONNode.Content {
    let words: [(String, JSONNode.Content)] = [("null", .null), ("true", .bool(true)), ("false", .bool(false))]
    for (word, content) in words where bytes[offset...].starts(with: word.utf8) {
      offset += word.utf8.count
      return content
    }
    throw error("expected a value, found \(Self.name(byte))")
  }

  private mutating func number() throws(ProfileError) -> String {
    let start = offset
    _ = take("-")
    guard digits() > 0 else { throw error("expected a digit, found \(found)") }
    let first = bytes[start] == UInt8(ascii: "-") ? start + 1 : start
    if bytes[first] == UInt8(ascii: "0"), offset > first + 1 {
      throw error("a number has no leading zero", at: start)
    }
    if take(".") {
      guard digits() > 0 else { throw error("expected a digit after the point, found \(found)") }
    }
    if take("e") || take("E") {
      if !take("+") { _ = take("-") }
      guard digits() > 0 else { throw error("expected a digit of the exponent, found \(found)") }
    }
    return String(decoding: bytes[start..<offset], as: UTF8.self)
  }

  private mutating func digits() -> Int {
    let start = offset
    while let byte = peek, UInt8(ascii: "0")...UInt8(ascii: "9") ~= byte { offset += 1 }
    return offset - start
  }

  // MARK: Strings

  private mutating func string() throws(ProfileError) -> String {
    let start = offset
    offset += 1
    var text = ""
    while true {
      guard let byte = peek else { throw error("this string has no end", at: start) }
      switch byte {
      case UInt8(ascii: "\""):
        offset += 1
        return text
      case UInt8(ascii: "\\"): text.unicodeScalars.append(try escape())
      case ..<0x20: throw error("a string holds \(Self.name(byte)): write it as an escape")
      default: text += try run()
      }
    }
  }

  /// The octets up to the next quote, escape or control character, which must be UTF-8.
  private mutating func run() throws(ProfileError) -> String {
    let start = offset
    while let byte = peek, byte >= 0x20, byte != UInt8(ascii: "\""), byte != UInt8(ascii: "\\") { offset += 1 }
    guard let text = String(validating: bytes[start..<offset], as: UTF8.self) else {
      throw error("this string is not UTF-8", at: start)
    }
    return text
  }

  private mutating func escape() throws(ProfileError) -> Unicode.Scalar {
    let start = offset
    offset += 1
    guard let byte = peek else { throw error("the text ends inside a string") }
    offset += 1
    switch byte {
    case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"): return Unicode.Scalar(byte)
    case UInt8(ascii: "b"): return "\u{08}"
    case UInt8(ascii: "f"): return "\u{0C}"
    case UInt8(ascii: "n"): return "\n"
    case UInt8(ascii: "r"): return "\r"
    case UInt8(ascii: "t"): return "\t"
    case UInt8(ascii: "u"): return try unicodeEscape(from: start)
    default: throw error("no such escape: \\ and \(Self.name(byte))", at: start)
    }
  }

  private mutating func unicodeEscape(from start: Int) throws(ProfileError) -> Unicode.Scalar {
    let unit = try hexDigits(from: start)
    if let scalar = Unicode.Scalar(unit) { return scalar }
    // A surrogate: only the high one, and only before a low one.
    guard unit < 0xDC00, take("\\"), take("u") else { throw error("half of a surrogate pair", at: start) }
    let low = try hexDigits(from: start)
    guard 0xDC00...0xDFFF ~= low, let scalar = Unicode.Scalar(0x10000 + (unit - 0xD800) << 10 + (low - 0xDC00)) else {
      throw error("half of a surrogate pair", at: start)
    }
    return scalar
  }

  private mutating func hexDigits(from start: Int) throws(ProfileError) -> UInt32 {
    var value: UInt32 = 0
    for _ in 0..<4 {
      guard let byte = peek, let digit = Character(Unicode.Scalar(byte)).hexDigitValue, byte < 0x80 else {
        throw error("\\u needs four hexadecimal digits", at: start)
      }
      value = value << 4 | UInt32(digit)
      offset += 1
    }
    return value
  }

  // MARK: Octets

  private var peek: UInt8? { offset < bytes.count ? bytes[offset] : nil }

  private var found: String { peek.map(Self.name) ?? "the end of the text" }

  private mutating func take(_ character: Unicode.Scalar) -> Bool {
    guard let byte = peek, UInt32(byte) == character.value else { return false }
    offset += 1
    return true
  }

  private mutating func skipSpace() {
    while let byte = peek, byte == 0x20 || byte == 0x0A || byte == 0x0D || byte == 0x09 { offset += 1 }
  }

  private func error(_ message: String, at place: Int? = nil) -> ProfileError {
    ProfileError(message, at: place ?? offset, in: bytes)
  }

  private static func name(_ byte: UInt8) -> String {
    switch byte {
    case 0x21...0x7E: "'\(Character(Unicode.Scalar(byte)))'"
    case 0x20: "a space"
    case 0x0A, 0x0D: "the end of the line"
    default: "the octet 0x" + (byte < 16 ? "0" : "") + String(byte, radix: 16)
    }
  }
}
