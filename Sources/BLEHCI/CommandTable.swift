// SPDX-License-Identifier: Apache-2.0

/// What is known of a command besides its parameters: its name, and its place in Supported_Commands.
struct CommandEntry {
  var name: String
  var octet: UInt8
  var bit: UInt8

  init(_ name: String, _ octet: UInt8, _ bit: UInt8) {
    self.name = name
    self.octet = octet
    self.bit = bit
  }
}

/// The commands of Vol 4 Part E 7 that an LE host uses, by opcode (bits from 6.27).
let commandTable: [UInt16: CommandEntry] = [
  0x0406: CommandEntry("Disconnect", 0, 5),
  0x041D: CommandEntry("Read Remote Version Information", 2, 7),
  0x0C01: CommandEntry("Set Event Mask", 5, 6),
  0x0C03: CommandEntry("Reset", 5, 7),
  0x0C2D: CommandEntry("Read Transmit Power Level", 10, 2),
  0x0C31: CommandEntry("Set Controller To Host Flow Control", 10, 5),
  0x0C33: CommandEntry("Host Buffer Size", 10, 6),
  0x0C35: CommandEntry("Host Number Of Completed Packets", 10, 7),
  0x0C63: CommandEntry("Set Event Mask Page 2", 22, 2),
  0x0C6D: CommandEntry("Write LE Host Support", 24, 6),
  0x0C7B: CommandEntry("Read Authenticated Payload Timeout", 32, 4),
  0x0C7C: CommandEntry("Write Authenticated Payload Timeout", 32, 5),
  0x1001: CommandEntry("Read Local Version Information", 14, 3),
  0x1002: CommandEntry("Read Local Supported Commands", 14, 4),
  0x1003: CommandEntry("Read Local Supported Features", 14, 5),
  0x1005: CommandEntry("Read Buffer Size", 14, 7),
  0x1009: CommandEntry("Read BD_ADDR", 15, 1),
  0x1405: CommandEntry("Read RSSI", 15, 5),
  0x2001: CommandEntry("LE Set Event Mask", 25, 0),
  0x2002: CommandEntry("LE Read Buffer Size", 25, 1),
  0x2003: CommandEntry("LE Read Local Supported Features", 25, 2),
  0x2005: CommandEntry("LE Set Random Address", 25, 4),
  0x2006: CommandEntry("LE Set Advertising Parameters", 25, 5),
  0x2007: CommandEntry("LE Read Advertising Physical Channel Tx Power", 25, 6),
  0x2008: CommandEntry("LE Set Advertising Data", 25, 7),
  0x2009: CommandEntry("LE Set Scan Response Data", 26, 0),
  0x200A: CommandEntry("LE Set Advertising Enable", 26, 1),
  0x200B: CommandEntry("LE Set Scan Parameters", 26, 2),
  0x200C: CommandEntry("LE Set Scan Enable", 26, 3),
  0x200D: CommandEntry("LE Create Connection", 26, 4),
  0x200E: CommandEntry("LE Create Connection Cancel", 26, 5),
  0x200F: CommandEntry("LE Read Filter Accept List Size", 26, 6),
  0x2010: CommandEntry("LE Clear Filter Accept List", 26, 7),
  0x2011: CommandEntry("LE Add Device To Filter Accept List", 27, 0),
  0x2012: CommandEntry("LE Remove Device From Filter Accept List", 27, 1),
  0x2013: CommandEntry("LE Connection Update", 27, 2),
  0x2014: CommandEntry("LE Set Host Channel Classification", 27, 3),
  0x2015: CommandEntry("LE Read Channel Map", 27, 4),
  0x2016: CommandEntry("LE Read Remote Features", 27, 5),
  0x2017: CommandEntry("LE Encrypt", 27, 6),
  0x2018: CommandEntry("LE Rand", 27, 7),
  0x2019: CommandEntry("LE Enable Encryption", 28, 0),
  0x201A: CommandEntry("LE Long Term Key Request Reply", 28, 1),
  0x201B: CommandEntry("LE Long Term Key Request Negative Reply", 28, 2),
  0x201C: CommandEntry("LE Read Supported States", 28, 3),
  0x2020: CommandEntry("LE Remote Connection Parameter Request Reply", 33, 4),
  0x2021: CommandEntry("LE Remote Connection Parameter Request Negative Reply", 33, 5),
  0x2022: CommandEntry("LE Set Data Length", 33, 6),
  0x2023: CommandEntry("LE Read Suggested Default Data Length", 33, 7),
  0x2024: CommandEntry("LE Write Suggested Default Data Length", 34, 0),
  0x2025: CommandEntry("LE Read Local P-256 Public Key", 34, 1),
  0x2026: CommandEntry("LE Generate DHKey", 34, 2),
  0x2027: CommandEntry("LE Add Device To Resolving List", 34, 3),
  0x2028: CommandEntry("LE Remove Device From Resolving List", 34, 4),
  0x2029: CommandEntry("LE Clear Resolving List", 34, 5),
  0x202A: CommandEntry("LE Read Resolving List Size", 34, 6),
  0x202B: CommandEntry("LE Read Peer Resolvable Address", 34, 7),
  0x202C: CommandEntry("LE Read Local Resolvable Address", 35, 0),
  0x202D: CommandEntry("LE Set Address Resolution Enable", 35, 1),
  0x202E: CommandEntry("LE Set Resolvable Private Address Timeout", 35, 2),
  0x202F: CommandEntry("LE Read Maximum Data Length", 35, 3),
  0x2030: CommandEntry("LE Read PHY", 35, 4),
  0x2031: CommandEntry("LE Set Default PHY", 35, 5),
  0x2032: CommandEntry("LE Set PHY", 35, 6),
  0x2035: CommandEntry("LE Set Advertising Set Random Address", 36, 1),
  0x2036: CommandEntry("LE Set Extended Advertising Parameters", 36, 2),
  0x2037: CommandEntry("LE Set Extended Advertising Data", 36, 3),
  0x2038: CommandEntry("LE Set Extended Scan Response Data", 36, 4),
  0x2039: CommandEntry("LE Set Extended Advertising Enable", 36, 5),
  0x203A: CommandEntry("LE Read Maximum Advertising Data Length", 36, 6),
  0x203B: CommandEntry("LE Read Number Of Supported Advertising Sets", 36, 7),
  0x203C: CommandEntry("LE Remove Advertising Set", 37, 0),
  0x203D: CommandEntry("LE Clear Advertising Sets", 37, 1),
  0x2041: CommandEntry("LE Set Extended Scan Parameters", 37, 5),
  0x2042: CommandEntry("LE Set Extended Scan Enable", 37, 6),
  0x2043: CommandEntry("LE Extended Create Connection", 37, 7),
  0x204B: CommandEntry("LE Read Transmit Power", 38, 7),
  0x204E: CommandEntry("LE Set Privacy Mode", 39, 2),
  0x205E: CommandEntry("LE Generate DHKey [v2]", 41, 2),
  0x2060: CommandEntry("LE Read Buffer Size [v2]", 41, 5),
  0x2074: CommandEntry("LE Set Host Feature", 44, 1),
]

extension HCIOpcode: CustomStringConvertible {
  /// Opcode Group Field, 6 bits.
  public var ogf: UInt8 { UInt8(rawValue >> 10) }
  /// Opcode Command Field, 10 bits.
  public var ocf: UInt16 { rawValue & 0x03FF }

  /// The name of the command and the opcode: "LE Set Scan Enable (0x200C)".
  public var description: String {
    let digits = String(rawValue, radix: 16, uppercase: true)
    let code = "0x" + String(repeating: "0", count: 4 - digits.utf8.count) + digits
    if let name = commandTable[rawValue]?.name { return "\(name) (\(code))" }
    return rawValue == 0 ? "no command (\(code))" : ogf == 0x3F ? "vendor command \(code)" : "command \(code)"
  }
}
