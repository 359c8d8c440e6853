// SPDX-License-Identifier: Apache-2.0

/// An option as parser, help and manual page know it.
struct OptionSpec: Sendable {
  /// With the two hyphens.
  var name: String
  /// What to put after it, in capitals; nil: nothing.
  var argument: String?
  var isRepeatable = false
  var help: String
}

/// A command of the tool.
struct CommandSpec: Sendable {
  var name: String
  /// The words after the command, as the usage line shows them; a name in brackets may be missing.
  var operands: [String] = []
  /// One line.
  var summary: String
  /// What else there is to know, in paragraphs.
  var details: [String] = []
  var options: [OptionSpec] = []
  /// Whether it takes a peer, by `--name`, `--id` or `--service`.
  var takesPeer = false

  /// All that may come after the command.
  var allOptions: [OptionSpec] { (takesPeer ? CommandTable.peerOptions : []) + options + CommandTable.globalOptions }

  var usage: String {
    var words = ["ble", name]
    if takesPeer { words.append("PEER") }
    words += operands
    words += options.map { option in
      let text = option.argument.map { "\(option.name) \($0)" } ?? option.name
      return option.isRepeatable ? "[\(text)]…" : "[\(text)]"
    }
    return words.joined(separator: " ")
  }
}

/// Everything the command line may say: the parser, `--help`, the manual page and its test all read this.
enum CommandTable {
  /// The version of the tool and of the library.
  static let version = "0.1.0"

  static let globalOptions = [
    OptionSpec(
      name: "--adapter", argument: "SPEC",
      help: "Which Bluetooth controller to use: hci0 (an adapter of this machine, which the program then has alone), "
        + "tcp:HOST:PORT, unix:PATH or virtual[:NAME]. Without it, the variable COREBLUETOOTH_ADAPTER says which."),
    OptionSpec(name: "--json", help: "Print JSON, one object a line."),
    OptionSpec(
      name: "--capture", argument: "FILE",
      help: "Write all HCI packets to FILE (btsnoop; Wireshark and tshark open it). demo: the central's; sim: those of "
        + "each device to a file of its own, its slot before the extension."),
    OptionSpec(
      name: "--timeout", argument: "SECONDS",
      help: "Give up when the command is not done by then. Without it 30, and no limit for scan, subscribe, serve and "
        + "sim once they run."),
    OptionSpec(name: "--help", help: "Print help, of the command if one is named."),
  ]

  static let peerOptions = [
    OptionSpec(name: "--name", argument: "N", help: "The peer that advertises this name."),
    OptionSpec(name: "--id", argument: "UUID", help: "The peer of this identifier, as scan prints it."),
    OptionSpec(name: "--service", argument: "UUID", help: "The first peer heard that advertises this service."),
  ]

  static let attribute = [
    "SERVICE and CHARACTERISTIC are UUIDs of 4, 8 or 32 (8-4-4-4-12) hexadecimal digits. Where the peer has several of "
      + "a UUID, the first is taken."
  ]

  static let commands = [
    CommandSpec(
      name: "demo",
      summary: "See two Core Bluetooth programs meet over the virtual radio.",
      details: [
        "Starts a radio and, as processes of their own, a heart rate sensor and a program that reads it, prints what "
          + "each of them sees, and ends by itself in under ten seconds. A capture is left, and where it is gets printed."
      ]),
    CommandSpec(
      name: "sim", operands: [],
      summary: "Host a virtual radio that other host stacks join over HCI.",
      details: [
        "Every HCI connection that is accepted is a Bluetooth controller with a public address of its own. The lowest "
          + "free slot is taken again, so a program that is started again keeps its address.",
        "Control connections take one JSON object a line and answer each: {\"command\":\"list\"}, "
          + "{\"command\":\"power\",\"slot\":N,\"on\":true|false}, {\"command\":\"drop\",\"slot\":N}. Ends on SIGINT and "
          + "SIGTERM.",
      ],
      options: [
        OptionSpec(
          name: "--listen", argument: "unix:PATH|tcp:HOST:PORT", isRepeatable: true,
          help: "Where to accept HCI (H4) connections; at least one."),
        OptionSpec(name: "--seed", argument: "N", help: "What all chance in the radio starts from; default 0."),
        OptionSpec(
          name: "--speed", argument: "real",
          help: "How fast time passes. Only real: programs that join cannot be waited for."),
        OptionSpec(
          name: "--air-capture", argument: "FILE",
          help: "Write all that is on air to FILE (pcap, LE Link Layer; Wireshark and tshark open it), with simulated "
            + "times."),
        OptionSpec(name: "--control", argument: "unix:PATH", help: "Where to accept control connections."),
      ]),
    CommandSpec(
      name: "decrypt", operands: ["AIR.pcap"],
      summary: "Put the encrypted links of a capture of the air in clear.",
      details: [
        "Reads what sim --air-capture wrote, follows each link from its beginning, and writes what Wireshark can read: "
          + "packets without their MIC, marked as decrypted. What no key opens stays as it is."
      ],
      options: [
        OptionSpec(
          name: "--key", argument: "HEX", isRepeatable: true,
          help: "A long term key that a link may have, 32 hexadecimal digits, the most significant first; at least one."
        ),
        OptionSpec(
          name: "--output", argument: "FILE", help: "Where to write; default AIR.decrypted.pcap beside the capture."),
      ]),
    CommandSpec(
      name: "scan",
      summary: "Show who advertises.",
      options: [
        OptionSpec(
          name: "--service", argument: "UUID", isRepeatable: true,
          help: "Only peers that advertise this service; given several times, one of them."),
        OptionSpec(name: "--duplicates", help: "Every advertisement, not each peer (and its news) once."),
        OptionSpec(name: "--for", argument: "SECONDS", help: "End after so long. Without it, on SIGINT."),
      ]),
    CommandSpec(
      name: "explore",
      summary: "Show the services, characteristics, descriptors and values of a peer.",
      details: ["Connects, discovers everything, reads what is readable, and disconnects."],
      options: [
        OptionSpec(
          name: "--app-view", help: "What Core Bluetooth shows to apps: without the services 1800 and 1801.")
      ],
      takesPeer: true),
    CommandSpec(
      name: "read", operands: ["SERVICE", "CHARACTERISTIC"],
      summary: "Read a value, however long it is.",
      details: attribute, takesPeer: true),
    CommandSpec(
      name: "write", operands: ["SERVICE", "CHARACTERISTIC", "[HEX]"],
      summary: "Write a value.",
      details: ["The value is HEX, pairs of hexadecimal digits, or what --text says."] + attribute,
      options: [
        OptionSpec(name: "--text", argument: "T", help: "Write this text in UTF-8."),
        OptionSpec(
          name: "--without-response", help: "Do not ask for an answer: quicker, and nobody tells whether it arrived."),
      ],
      takesPeer: true),
    CommandSpec(
      name: "subscribe", operands: ["SERVICE", "CHARACTERISTIC"],
      summary: "Print the values that a peer notifies or indicates.",
      details: attribute,
      options: [
        OptionSpec(name: "--count", argument: "N", help: "End after N values. Without it, on SIGINT.")
      ],
      takesPeer: true),
    CommandSpec(
      name: "serve", operands: ["PROFILE.json"],
      summary: "Be the peripheral that a file describes.",
      details: [
        "The format is documented in docs/profiles.md; Examples/Profiles has two to start from. Ends on SIGINT and SIGTERM."
      ]),
  ]

  static func command(_ name: String) -> CommandSpec? { commands.first { $0.name == name } }

  static let exitCodes = [
    (0, "done"), (1, "failed"), (2, "usage: the command line or a file is wrong"),
    (3, "no adapter, or it is not powered on"), (4, "not found: the peer, service or characteristic"), (5, "timed out"),
  ]

  static let environment = [
    ("COREBLUETOOTH_ADAPTER", "the adapter where --adapter is not given"),
    ("COREBLUETOOTH_CAPTURE", "the file for HCI packets where --capture is not given"),
    ("COREBLUETOOTH_LOG", "error, info, debug or trace, then layers after commas: what goes to standard error"),
    ("COREBLUETOOTH_NAME", "the GAP Device Name; default the host name (serve: the profile's name)"),
    (
      "COREBLUETOOTH_STATE_DIR",
      "where the secret is kept that peers' identifiers are made with; default the XDG state directory"
    ),
  ]
}
