// SPDX-License-Identifier: Apache-2.0

import BLECore

/// Values: `{"hex": …}`, `{"text": …}`, `{"uint16": NUMBER}`, `{"cycle": […]}`, `{"clock": "currentTime"}`, or a list
/// of these, put one after the other.
struct ProfileValueDecoder {
  let bytes: [UInt8]

  func value(_ node: JSONNode) throws(ProfileError) -> ProfileValue {
    let value = ProfileValue(try parts(node))
    guard value.byteCountMax <= Profile.valueLengthMax else {
      let message = "a value has at most \(Profile.valueLengthMax) octets, this one \(value.byteCountMax)"
      throw error(message, at: node)
    }
    return value
  }

  /// A value that no step changes: what descriptors have.
  func constant(_ node: JSONNode) throws(ProfileError) -> [UInt8] {
    let value = try value(node)
    guard value.isConstant else { throw error("a descriptor's value is constant", at: node) }
    var sampler = ValueSampler(value, seed: 0)
    return sampler.next(at: ProfileTime(unixMilliseconds: 0, uptimeMilliseconds: 0))
  }

  private static let formats = NumberFormat.allCases.map(\.rawValue)
  private static let kinds = ["hex", "text"] + formats + ["cycle", "clock"]

  private func parts(_ node: JSONNode) throws(ProfileError) -> [ProfileValue.Part] {
    switch node.content {
    case .array(let elements):
      var parts: [ProfileValue.Part] = []
      for element in elements { parts += try self.parts(element) }
      return parts
    case .string(let text):
      throw error("a value says what it is: write {\"text\": …} or {\"hex\": …} around \"\(text)\"", at: node)
    case .object: return [try part(try single(node, "a value", names: Self.kinds))]
    case .null, .bool, .number: throw error("a value is an object or a list of objects, not \(node.kind)", at: node)
    }
  }

  /// An object of exactly one member.
  private func single(_ node: JSONNode, _ what: String, names: [String]) throws(ProfileError) -> (String, JSONNode) {
    let fields = try ProfileFields(node, what, names: names, in: bytes)
    guard let name = fields.keys.first, fields.keys.count == 1, let member = fields[name] else {
      let all = names.joined(separator: ", ")
      throw error("\(what) has exactly one of \(all)", at: node)
    }
    return (name, member)
  }

  private func part(_ member: (name: String, node: JSONNode)) throws(ProfileError) -> ProfileValue.Part {
    let node = member.node
    if let format = NumberFormat(rawValue: member.name) { return .number(format, try number(node, format)) }
    switch (member.name, node.content) {
    case ("hex", .string(let text)): return .octets(try hex(text, node))
    case ("text", .string(let text)): return .octets(Array(text.utf8))
    case ("cycle", .array(let elements)):
      guard !elements.isEmpty else { throw error("\"cycle\" needs at least one value", at: node) }
      var values: [ProfileValue] = []
      for element in elements { values.append(try value(element)) }
      return .cycle(values)
    case ("clock", .string("currentTime")): return .currentTime
    case ("clock", _):
      throw error(
        "as a whole value \"clock\" is \"currentTime\"; others are numbers, {\"uint32\": {\"clock\": …}}", at: node)
    case ("cycle", _): throw error("\"cycle\" is a list of values, not \(node.kind)", at: node)
    default: throw error("\"\(member.name)\" is a string, not \(node.kind)", at: node)
    }
  }

  private func hex(_ text: String, _ node: JSONNode) throws(ProfileError) -> [UInt8] {
    var digits: [UInt8] = []
    for character in text where character != " " {
      guard let digit = character.hexDigitValue, character.isASCII else {
        throw error("\"\(text)\" is not hexadecimal: '\(character)' is no digit", at: node)
      }
      digits.append(UInt8(digit))
    }
    guard digits.count.isMultiple(of: 2) else {
      throw error("\"\(text)\" has \(digits.count) hexadecimal digits, and an octet has two", at: node)
    }
    return stride(from: 0, to: digits.count, by: 2).map { digits[$0] << 4 | digits[$0 + 1] }
  }

  // MARK: Numbers

  private static let generators = ["counter", "ramp", "sine", "randomWalk", "cycle", "clock"]

  private func number(_ node: JSONNode, _ format: NumberFormat) throws(ProfileError) -> NumberSource {
    switch node.content {
    case .object:
      let (name, member) = try single(node, "a number's generator", names: Self.generators)
      return try generator(name, member, format)
    case .number(let spelling) where format == .float32 || format == .float64:
      if let value = Int64(spelling), format.range.contains(value) { return .constant(value) }
      guard let value = Double(spelling), value.isFinite, format == .float64 || Float(value).isFinite else {
        throw error("\(spelling) does not fit into a \(format)", at: node)
      }
      return .fraction(value)
    case .number: return .constant(try node.integer("\"\(format)\"", in: format.range, bytes))
    default: throw error("\"\(format)\" is a number or a generator, not \(node.kind)", at: node)
    }
  }

  private func generator(
    _ name: String, _ node: JSONNode, _ format: NumberFormat
  ) throws(ProfileError) -> NumberSource {
    let magnitude = NumberSource.magnitudeMax
    let range = max(format.range.lowerBound, -magnitude)...min(format.range.upperBound, magnitude)
    switch name {
    case "counter": return try counter(node, range)
    case "ramp", "sine": return try wave(name, node, range)
    case "randomWalk": return try randomWalk(node, range)
    case "cycle": return try cycle(node, range)
    default: return try clock(node)
    }
  }

  private func counter(_ node: JSONNode, _ range: ClosedRange<Int64>) throws(ProfileError) -> NumberSource {
    let fields = try ProfileFields(node, "\"counter\"", names: ["from", "to", "step"], in: bytes)
    let from = try fields.integer("from", in: range) ?? max(0, range.lowerBound)
    let to = try fields.integer("to", in: range) ?? range.upperBound
    let step = try fields.integer("step", in: -NumberSource.magnitudeMax...NumberSource.magnitudeMax) ?? 1
    guard step != 0, (to >= from) == (step > 0) || to == from else {
      throw error("a \"step\" of \(step) does not lead from \(from) to \(to)", at: fields["step"] ?? node)
    }
    return .counter(from: from, to: to, step: step)
  }

  private func wave(_ name: String, _ node: JSONNode, _ range: ClosedRange<Int64>) throws(ProfileError) -> NumberSource
  {
    let fields = try ProfileFields(node, "\"\(name)\"", names: ["from", "to", "period"], in: bytes)
    let (from, to) = try bounds(fields, range)
    guard let period = try fields.integer("period", in: 2...Int64(NumberSource.periodMax)) else {
      throw error("\"\(name)\" needs \"period\", in steps", at: node)
    }
    guard name == "sine" else { return .ramp(from: from, to: to, period: Int(period)) }
    guard from <= to else { throw error("a sine goes from the lower number to the higher", at: node) }
    return .sine(low: from, high: to, period: Int(period))
  }

  private func randomWalk(_ node: JSONNode, _ range: ClosedRange<Int64>) throws(ProfileError) -> NumberSource {
    let names = ["from", "to", "start", "step", "seed"]
    let fields = try ProfileFields(node, "\"randomWalk\"", names: names, in: bytes)
    let (low, high) = try bounds(fields, range)
    guard low <= high else { throw error("a random walk goes from the lower number to the higher", at: node) }
    let start = try fields.integer("start", in: low...high) ?? low + (high - low) / 2
    let step = try fields.integer("step", in: 1...NumberSource.magnitudeMax) ?? 1
    let seed = try fields.integer("seed", in: 0...Int64.max)
    return .randomWalk(low: low, high: high, start: start, step: step, seed: seed.map { UInt64($0) })
  }

  private func bounds(_ fields: ProfileFields, _ range: ClosedRange<Int64>) throws(ProfileError) -> (Int64, Int64) {
    _ = try fields.required("from")
    _ = try fields.required("to")
    return (try fields.integer("from", in: range) ?? 0, try fields.integer("to", in: range) ?? 0)
  }

  private func cycle(_ node: JSONNode, _ range: ClosedRange<Int64>) throws(ProfileError) -> NumberSource {
    guard case .array(let elements) = node.content, !elements.isEmpty else {
      throw error("\"cycle\" is a list of at least one number", at: node)
    }
    var values: [Int64] = []
    for element in elements { values.append(try element.integer("a number of \"cycle\"", in: range, bytes)) }
    return .cycle(values)
  }

  private func clock(_ node: JSONNode) throws(ProfileError) -> NumberSource {
    switch node.content {
    case .string("unixTime"): return .unixTime
    case .string("uptime"): return .uptime
    default: throw error("a number's \"clock\" is \"unixTime\" (seconds) or \"uptime\" (milliseconds)", at: node)
    }
  }

  private func error(_ message: String, at node: JSONNode) -> ProfileError {
    ProfileError(message, at: node.offset, in: bytes)
  }
}
