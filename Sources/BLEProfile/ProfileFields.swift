// SPDX-License-Identifier: Apache-2.0

import BLECore

/// The members of one object of a profile, all of known names; each is asked for by name and type.
struct ProfileFields {
  private let bytes: [UInt8]
  private let members: [JSONMember]
  /// What the object is, for messages.
  private let what: String
  let offset: Int

  /// Fails where `node` is no object, or has a member that is not in `names`.
  init(_ node: JSONNode, _ what: String, names: [String], in bytes: [UInt8]) throws(ProfileError) {
    guard case .object(let members) = node.content else {
      throw ProfileError("\(what) is an object, not \(node.kind)", at: node.offset, in: bytes)
    }
    self.bytes = bytes
    self.members = members
    self.what = what
    offset = node.offset
    for member in members where !names.contains(member.key) {
      let advice = Spelling.advice(for: member.key, in: names)
      throw ProfileError("\(what) has no \"\(member.key)\"\(advice)", at: member.keyOffset, in: bytes)
    }
  }

  /// The names that are there.
  var keys: [String] { members.map(\.key) }

  subscript(name: String) -> JSONNode? { members.first { $0.key == name }?.value }

  func required(_ name: String) throws(ProfileError) -> JSONNode {
    guard let node = self[name] else { throw error("\(what) needs \"\(name)\"", at: offset) }
    return node
  }

  func string(_ name: String) throws(ProfileError) -> String? {
    guard let node = self[name] else { return nil }
    guard case .string(let text) = node.content else { throw wrong(node, name, "a string") }
    return text
  }

  func bool(_ name: String) throws(ProfileError) -> Bool? {
    guard let node = self[name] else { return nil }
    guard case .bool(let value) = node.content else { throw wrong(node, name, "true or false") }
    return value
  }

  func list(_ name: String) throws(ProfileError) -> [JSONNode]? {
    guard let node = self[name] else { return nil }
    guard case .array(let elements) = node.content else { throw wrong(node, name, "a list") }
    return elements
  }

  func integer(_ name: String, in range: ClosedRange<Int64>) throws(ProfileError) -> Int64? {
    guard let node = self[name] else { return nil }
    return try node.integer("\"\(name)\"", in: range, bytes)
  }

  func uuid(_ name: String) throws(ProfileError) -> BluetoothUUID {
    try required(name).uuid("\"\(name)\"", bytes)
  }

  func error(_ message: String, at offset: Int) -> ProfileError { ProfileError(message, at: offset, in: bytes) }

  private func wrong(_ node: JSONNode, _ name: String, _ type: String) -> ProfileError {
    error("\"\(name)\" is \(type), not \(node.kind)", at: node.offset)
  }
}

extension JSONNode {
  /// The node as a whole number of `range`.
  func integer(_ what: String, in range: ClosedRange<Int64>, _ bytes: [UInt8]) throws(ProfileError) -> Int64 {
    guard case .number(let spelling) = content else {
      throw ProfileError("\(what) is a whole number, not \(kind)", at: offset, in: bytes)
    }
    guard let value = Int64(spelling) else {
      let problem = spelling.contains(where: { ".eE".contains($0) }) ? "is a whole number, not" : "is out of range:"
      throw ProfileError("\(what) \(problem) \(spelling)", at: offset, in: bytes)
    }
    guard range.contains(value) else {
      let message = "\(what) is from \(range.lowerBound) to \(range.upperBound), not \(value)"
      throw ProfileError(message, at: offset, in: bytes)
    }
    return value
  }

  func uuid(_ what: String, _ bytes: [UInt8]) throws(ProfileError) -> BluetoothUUID {
    guard case .string(let text) = content else {
      throw ProfileError("\(what) is a UUID in double quotes, not \(kind)", at: offset, in: bytes)
    }
    guard let uuid = BluetoothUUID(text) else {
      let forms = "4 or 8 hexadecimal digits, or 32 as 8-4-4-4-12"
      throw ProfileError("\"\(text)\" is no UUID: write \(forms)", at: offset, in: bytes)
    }
    return uuid
  }
}
