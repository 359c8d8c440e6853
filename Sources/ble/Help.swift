// SPDX-License-Identifier: Apache-2.0

/// The texts of `--help`, made from the command table.
enum Help {
  private static let width = 96

  static var overview: String {
    var lines = [
      "Usage: ble COMMAND [OPTIONS]", "", "Scan, explore and emulate Bluetooth Low Energy devices.", "", "Commands:",
    ]
    lines += table(CommandTable.commands.map { ($0.name, $0.summary) })
    lines += ["", "Options of every command:"]
    lines += options(CommandTable.globalOptions)
    lines += ["", "A PEER is named by one of:"]
    lines += options(CommandTable.peerOptions)
    lines += ["", "Exit codes:"]
    lines += table(CommandTable.exitCodes.map { (String($0.0), $0.1) })
    lines += ["", "ble COMMAND --help tells more. The manual page: man docs/man/ble.1"]
    return lines.joined(separator: "\n")
  }

  static func text(of command: CommandSpec) -> String {
    var lines = usage(command) + ["", command.summary]
    for paragraph in command.details { lines += [""] + wrap(paragraph, indent: 0) }
    if command.takesPeer { lines += ["", "PEER is one of:"] + options(CommandTable.peerOptions) }
    if !command.options.isEmpty { lines += ["", "Options:"] + options(command.options) }
    lines += ["", "Options of every command:"] + options(CommandTable.globalOptions)
    return lines.joined(separator: "\n")
  }

  /// A long one goes on below its first operand; what is in brackets stays together.
  private static func usage(_ command: CommandSpec) -> [String] {
    let title = "Usage: "
    var depth = 0
    let joined = command.usage.map { letter -> Character in
      if letter == "[" { depth += 1 } else if letter == "]" { depth -= 1 }
      return letter == " " && depth > 0 ? "\u{A0}" : letter
    }
    let indent = title.count + "ble \(command.name) ".count
    let head = title + "ble\u{A0}\(command.name)\u{A0}"
    let rest = String(joined).dropFirst("ble \(command.name)".count)
    guard rest.first == " " else { return [title + command.usage] }
    var lines = wrap(String(rest.dropFirst()), indent: indent)
    lines[0] = head + lines[0].dropFirst(indent)
    return lines.map { String($0.map { $0 == "\u{A0}" ? " " : $0 }) }
  }

  private static func options(_ options: [OptionSpec]) -> [String] {
    table(options.map { option in (option.argument.map { "\(option.name) \($0)" } ?? option.name, option.help) })
  }

  /// Two columns, the second wrapped; a long first entry has a line of its own.
  private static func table(_ rows: [(String, String)]) -> [String] {
    let column = min(22, (rows.map { $0.0.count }.max() ?? 0) + 2)
    return rows.flatMap { row in
      let wrapped = wrap(row.1, indent: column + 2)
      guard row.0.count + 2 <= column else { return ["  " + row.0] + wrapped }
      let first = "  " + row.0 + String(repeating: " ", count: column - row.0.count)
      return [first + (wrapped.first ?? "").drop { $0 == " " }] + wrapped.dropFirst()
    }
  }

  private static func wrap(_ text: String, indent: Int) -> [String] {
    let margin = String(repeating: " ", count: indent)
    var lines: [String] = []
    var line = margin
    for word in text.split(separator: " ") {
      if line.count > indent, line.count + 1 + word.count > width {
        lines.append(line)
        line = margin
      }
      line += (line.count > indent ? " " : "") + word
    }
    return lines + [line]
  }
}
