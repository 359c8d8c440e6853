// SPDX-License-Identifier: Apache-2.0

extension HCIStatus: CustomStringConvertible {
  /// The specification's name, the code, and what to do about it where there is something to say:
  /// "Connection Timeout (0x08): the peer is out of range or switched off".
  public var description: String {
    guard let text = Self.texts[rawValue] else { return "error \(code)" }
    return text.advice.isEmpty ? "\(text.name) (\(code))" : "\(text.name) (\(code)): \(text.advice)"
  }

  /// The specification's name, or nil for a code it does not define for LE.
  public var name: String? { Self.texts[rawValue]?.name }

  private var code: String { "0x" + (rawValue < 16 ? "0" : "") + String(rawValue, radix: 16, uppercase: true) }

  private static let texts: [UInt8: (name: String, advice: String)] = [
    0x00: ("Success", ""),
    0x01: ("Unknown HCI Command", "the controller does not have this command"),
    0x02: ("Unknown Connection Identifier", "the link is gone, or its creation was cancelled"),
    0x03: ("Hardware Failure", "reset the controller"),
    0x05: ("Authentication Failure", "pair again"),
    0x06: ("PIN or Key Missing", "the peer has lost its bond: forget it here and pair again"),
    0x07: ("Memory Capacity Exceeded", "the controller's list is full, or the data is too long"),
    0x08: ("Connection Timeout", "the peer is out of range or switched off"),
    0x09: ("Connection Limit Exceeded", "disconnect another peer first"),
    0x0B: ("Connection Already Exists", "there is a link to this peer"),
    0x0C: ("Command Disallowed", "the controller's state does not permit it now"),
    0x0D: ("Connection Rejected due to Limited Resources", "try again later"),
    0x0E: ("Connection Rejected Due To Security Reasons", ""),
    0x0F: ("Connection Rejected due to Unacceptable BD_ADDR", ""),
    0x10: ("Connection Accept Timeout Exceeded", "try again"),
    0x11: ("Unsupported Feature or Parameter Value", "the controller cannot do this"),
    0x12: ("Invalid HCI Command Parameters", "a parameter is out of range or contradicts another"),
    0x13: ("Remote User Terminated Connection", "the peer disconnected"),
    0x14: ("Remote Device Terminated Connection due to Low Resources", "the peer disconnected"),
    0x15: ("Remote Device Terminated Connection due to Power Off", "the peer was switched off"),
    0x16: ("Connection Terminated By Local Host", ""),
    0x17: ("Repeated Attempts", "wait before pairing again"),
    0x18: ("Pairing Not Allowed", ""),
    0x1A: ("Unsupported Remote Feature", "the peer cannot do this"),
    0x1E: ("Invalid LL Parameters", ""),
    0x1F: ("Unspecified Error", ""),
    0x20: ("Unsupported LL Parameter Value", ""),
    0x21: ("Role Change Not Allowed", ""),
    0x22: ("LL Response Timeout", "the peer did not answer a Link Layer request in 40 s"),
    0x23: ("LL Procedure Collision", "try again"),
    0x24: ("LMP PDU Not Allowed", ""),
    0x25: ("Encryption Mode Not Acceptable", ""),
    0x28: ("Instant Passed", "the link missed the moment of a change; reconnect"),
    0x29: ("Pairing With Unit Key Not Supported", ""),
    0x2A: ("Different Transaction Collision", "try again"),
    0x2F: ("Insufficient Security", "pair with a stronger method"),
    0x30: ("Parameter Out Of Mandatory Range", ""),
    0x3A: ("Controller Busy", "try again later"),
    0x3B: ("Unacceptable Connection Parameters", "use other connection parameters"),
    0x3C: ("Advertising Timeout", "nobody connected in time"),
    0x3D: ("Connection Terminated due to MIC Failure", "wrong key or damaged packet: reconnect, else pair again"),
    0x3E: ("Connection Failed to be Established", "the peer did not follow; try again"),
    0x40: ("Coarse Clock Adjustment Rejected", ""),
    0x42: ("Unknown Advertising Identifier", "create the advertising set first"),
    0x43: ("Limit Reached", "all advertising events were sent"),
    0x44: ("Operation Cancelled by Host", ""),
    0x45: ("Packet Too Long", ""),
  ]
}
