// SPDX-License-Identifier: Apache-2.0

/// The manual page `docs/man/ble.1`, made from the command table by `ble --manual-page`; a test compares the two.
enum ManualPage {
  static var text: String {
    var lines = [
      ".\\\" SPDX-License-Identifier: Apache-2.0",
      ".\\\" Made by ble --manual-page; change Sources/ble/CommandTable.swift instead.",
      ".TH BLE 1 \"\" \"swift-corebluetooth\" \"User Commands\"",
      ".SH NAME", "ble \\- scan, explore and emulate Bluetooth Low Energy devices",
      ".SH SYNOPSIS", ".B ble", ".I COMMAND", "[\\fIOPTIONS\\fR]",
      ".SH COMMANDS",
    ]
    for command in CommandTable.commands {
      lines += [".SS " + escape(command.usage), escape(command.summary)]
      for paragraph in command.details { lines += [".PP", escape(paragraph)] }
      lines += options(command.options)
    }
    lines += [".SH PEERS", "Every command that takes a PEER has it named by one of:"]
    lines += options(CommandTable.peerOptions)
    lines += [".SH OPTIONS"] + options(CommandTable.globalOptions)
    lines.append(".SH EXIT STATUS")
    for (code, meaning) in CommandTable.exitCodes { lines += [".TP", "\\fB\(code)\\fR", escape(meaning)] }
    lines.append(".SH ENVIRONMENT")
    for (name, meaning) in CommandTable.environment { lines += [".TP", "\\fB\(name)\\fR", escape(meaning)] }
    return lines.joined(separator: "\n") + "\n"
  }

  private static func options(_ options: [OptionSpec]) -> [String] {
    options.flatMap { option in
      let argument = option.argument.map { " \\fI\(escape($0))\\fR" } ?? ""
      return [".TP", "\\fB\(escape(option.name))\\fR\(argument)", escape(option.help)]
    }
  }

  private static func escape(_ text: String) -> String {
    var output = ""
    for character in text {
      switch character {
      case "\\": output += "\\e"
      case "-": output += "\\-"
      case "…": output += "..."
      default: output.append(character)
      }
    }
    // A point or an apostrophe at the start would be a request.
    return output.hasPrefix(".") || output.hasPrefix("'") ? "\\&" + output : output
  }
}
