// SPDX-License-Identifier: Apache-2.0

import Foundation

/// A JSON value that can be compared, sent between tasks and written as a literal.
indirect enum JSON: Hashable, Sendable {
  case null
  case bool(Bool)
  case int(Int)
  case string(String)
  case array([JSON])
  case object([String: JSON])

  /// Nil for what is no JSON.
  init?(parsing text: String) {
    let options: JSONSerialization.ReadingOptions = [.fragmentsAllowed]
    guard let value = try? JSONSerialization.jsonObject(with: Data(text.utf8), options: options) else { return nil }
    self.init(value)
  }

  private init(_ value: Any) {
    switch value {
    case let text as String: self = .string(text)
    case let list as [Any]: self = .array(list.map { JSON($0) })
    case let members as [String: Any]: self = .object(members.mapValues { JSON($0) })
    case let number as NSNumber:
      self = CFBooleanKind.isBoolean(number) ? .bool(number.boolValue) : .int(number.intValue)
    default: self = .null
    }
  }

  /// One line.
  var text: String {
    switch self {
    case .null: "null"
    case .bool(let value): "\(value)"
    case .int(let value): "\(value)"
    case .string(let text):
      (try? JSONSerialization.data(withJSONObject: text, options: [.fragmentsAllowed, .withoutEscapingSlashes]))
        .map { String(decoding: $0, as: UTF8.self) } ?? "\"\""
    case .array(let list): "[" + list.map(\.text).joined(separator: ", ") + "]"
    case .object(let members):
      "{" + members.sorted { $0.key < $1.key }.map { "\"\($0.key)\": \($0.value.text)" }.joined(separator: ", ") + "}"
    }
  }

  subscript(key: String) -> JSON {
    if case .object(let members) = self { members[key] ?? .null } else { .null }
  }

  subscript(index: Int) -> JSON { list.indices.contains(index) ? list[index] : .null }

  var string: String? { if case .string(let text) = self { text } else { nil } }
  var int: Int? { if case .int(let number) = self { number } else { nil } }
  var bool: Bool? { if case .bool(let value) = self { value } else { nil } }
  var list: [JSON] { if case .array(let list) = self { list } else { [] } }
  var strings: [String] { list.compactMap(\.string) }
  var members: [String: JSON] { if case .object(let members) = self { members } else { [:] } }

  /// Whether this object has all of `members`, and these values.
  func has(_ members: [String: JSON]) -> Bool { members.allSatisfy { self[$0.key] == $0.value } }
}

/// How `JSONSerialization` marks true and false.
private enum CFBooleanKind {
  static func isBoolean(_ number: NSNumber) -> Bool { type(of: number) == type(of: NSNumber(value: true)) }
}

extension JSON: ExpressibleByStringLiteral, ExpressibleByIntegerLiteral, ExpressibleByBooleanLiteral,
  ExpressibleByArrayLiteral, ExpressibleByDictionaryLiteral, ExpressibleByNilLiteral
{
  init(stringLiteral value: String) { self = .string(value) }
  init(integerLiteral value: Int) { self = .int(value) }
  init(booleanLiteral value: Bool) { self = .bool(value) }
  init(arrayLiteral elements: JSON...) { self = .array(elements) }
  init(dictionaryLiteral elements: (String, JSON)...) {
    self = .object(Dictionary(elements, uniquingKeysWith: { $1 }))
  }
  init(nilLiteral: ()) { self = .null }
}
