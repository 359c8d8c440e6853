// SPDX-License-Identifier: Apache-2.0

import BLEProfile

/// Why the tool ends without having done its job: an exit code and a sentence for standard error.
struct Failure: Error, Hashable, CustomStringConvertible {
  enum Kind: Int32, Sendable {
    case failed = 1
    case usage, noAdapter, notFound, timedOut
  }

  var kind: Kind
  var description: String

  static func failed(_ text: String) -> Failure { Failure(kind: .failed, description: text) }
  static func usage(_ text: String) -> Failure { Failure(kind: .usage, description: text) }
  static func noAdapter(_ text: String) -> Failure { Failure(kind: .noAdapter, description: text) }
  static func notFound(_ text: String) -> Failure { Failure(kind: .notFound, description: text) }
  static func timedOut(_ text: String) -> Failure { Failure(kind: .timedOut, description: text) }
}

/// What a command line asks for.
enum Invocation {
  case help(CommandSpec?)
  case version
  case manualPage
  case run(Arguments)
}

/// A command line that was found to be right.
struct Arguments {
  var command: CommandSpec
  var operands: [String] = []
  private var values: [(name: String, value: String)] = []

  /// Parses what comes after the tool's name. Options may stand anywhere, `--name=VALUE` is `--name VALUE`, and all
  /// after `--` are operands.
  static func parse(_ words: [String]) throws(Failure) -> Invocation {
    guard let index = try commandIndex(words) else {
      if words.contains("--manual-page") { return .manualPage }
      if words.contains("--version") { return .version }
      if words.contains("--help") || words.contains("-h") { return .help(nil) }
      throw .usage("a command is missing; ble --help lists them")
    }
    if words[index] == "help" {
      return .help(index + 1 < words.count ? try command(words[index + 1]) : nil)
    }
    var arguments = Arguments(command: try command(words[index]))
    guard try arguments.take(words[..<index] + words[(index + 1)...]) else { return .help(arguments.command) }
    try arguments.check()
    return .run(arguments)
  }

  private static func command(_ name: String) throws(Failure) -> CommandSpec {
    if let command = CommandTable.command(name) { return command }
    let advice = Spelling.advice(for: name, in: CommandTable.commands.map(\.name))
    throw .usage("no command is called \"\(harmless(name))\"\(advice)")
  }

  /// Where the command is: the first word that is neither a global option nor its argument.
  private static func commandIndex(_ words: [String]) throws(Failure) -> Int? {
    var index = 0
    while index < words.count {
      let word = words[index]
      guard word.hasPrefix("-") else { return index }
      let name = String(word.prefix { $0 != "=" })
      if ["--help", "-h", "--manual-page", "--version"].contains(name) {
        index += 1
        continue
      }
      guard let option = CommandTable.globalOptions.first(where: { $0.name == name }) else {
        let advice = Spelling.advice(for: name, in: CommandTable.globalOptions.map(\.name))
        throw .usage("before the command there is no option \"\(harmless(name))\"\(advice)")
      }
      index += option.argument == nil || word.contains("=") ? 1 : 2
    }
    return nil
  }

  /// Sorts the words; false where help was asked for.
  private mutating func take(_ words: ArraySlice<String>) throws(Failure) -> Bool {
    var rest = words
    while let word = rest.popFirst() {
      if word == "--help" || word == "-h" { return false }
      if word == "--" {
        operands += rest
        break
      }
      guard word.hasPrefix("--") else {
        operands.append(word)
        continue
      }
      let name = String(word.prefix { $0 != "=" })
      let inline = word.contains("=") ? String(word.drop { $0 != "=" }.dropFirst()) : nil
      try take(option: name, inline: inline, &rest)
    }
    return true
  }

  private mutating func take(
    option name: String, inline: String?, _ rest: inout ArraySlice<String>
  ) throws(Failure) {
    guard let option = command.allOptions.first(where: { $0.name == name }) else {
      let advice = Spelling.advice(for: name, in: command.allOptions.map(\.name))
      throw .usage("\(command.name) has no option \"\(harmless(name))\"\(advice)")
    }
    guard option.isRepeatable || !has(name) else { throw .usage("\(name) is given twice") }
    guard let argument = option.argument else {
      guard inline == nil else { throw .usage("\(name) takes no value") }
      values.append((name, ""))
      return
    }
    guard let value = inline ?? rest.popFirst() else { throw .usage("\(name) needs \(argument) after it") }
    values.append((name, value))
  }

  /// The operands' number, and that one peer is named where one is needed.
  private func check() throws(Failure) {
    let needed = command.operands.count { !$0.hasPrefix("[") }
    if operands.count < needed {
      throw .usage("\(command.operands[operands.count]) is missing. Usage: \(command.usage)")
    }
    if operands.count > command.operands.count {
      throw .usage("\"\(harmless(operands[command.operands.count]))\" is one word too many. Usage: \(command.usage)")
    }
    if command.takesPeer {
      let given = CommandTable.peerOptions.map(\.name).filter(has)
      guard !given.isEmpty else { throw .usage("\(command.name) needs a peer: --name N, --id UUID or --service UUID") }
      guard given.count == 1 else { throw .usage("\(given.joined(separator: " and ")) both name a peer: give one") }
    }
    _ = try number("--timeout", in: 0.001...1e6)
  }

  func has(_ name: String) -> Bool { values.contains { $0.name == name } }
  func value(_ name: String) -> String? { values.first { $0.name == name }?.value }
  func values(_ name: String) -> [String] { values.filter { $0.name == name }.map(\.value) }

  func number(_ name: String, in range: ClosedRange<Double>) throws(Failure) -> Double? {
    guard let text = value(name) else { return nil }
    guard let number = Double(text), range.contains(number) else {
      throw .usage("\(name) is a number from \(Self.plain(range.lowerBound)) to \(Self.plain(range.upperBound))")
    }
    return number
  }

  func integer(_ name: String, in range: ClosedRange<Int>) throws(Failure) -> Int? {
    guard let text = value(name) else { return nil }
    guard let number = Int(text), range.contains(number) else {
      throw .usage("\(name) is a whole number from \(range.lowerBound) to \(range.upperBound)")
    }
    return number
  }

  private static func plain(_ number: Double) -> String {
    number == number.rounded() ? String(Int64(number)) : String(number)
  }
}
