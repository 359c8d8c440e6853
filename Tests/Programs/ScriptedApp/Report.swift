// SPDX-License-Identifier: Apache-2.0

import CoreBluetooth

typealias Line = [String: Any]

/// Prints one line; a nil value is null.
func report(_ role: String, _ event: String, _ members: [String: Any?] = [:]) {
  var line: Line = ["role": role, "event": event]
  for (key, value) in members { line[key] = value ?? NSNull() }
  guard var text = try? JSONSerialization.data(withJSONObject: line, options: [.sortedKeys, .withoutEscapingSlashes])
  else { return }
  text.append(0x0A)
  try? FileHandle.standardOutput.write(contentsOf: text)
}

/// `{"domain": …, "code": …, "text": …}`, or nil.
func failure(_ error: (any Error)?) -> Line? {
  guard let error else { return nil }
  let object = error as NSError
  return ["domain": object.domain, "code": object.code, "text": "\(error)"]
}

func uuids(_ value: Any?) -> [CBUUID]? { (value as? [String])?.map { CBUUID(string: $0) } }

func uuid(_ value: Any?) -> CBUUID? { (value as? String).map { CBUUID(string: $0) } }

extension Data {
  var hex: String { map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined() }

  init?(hex text: Any?) {
    guard let text = text as? String, text.utf8.count.isMultiple(of: 2) else { return nil }
    let digits = Array(text.utf8)
    self.init()
    for index in stride(from: 0, to: digits.count, by: 2) {
      guard let octet = UInt8(String(decoding: digits[index...index + 1], as: UTF8.self), radix: 16) else { return nil }
      append(octet)
    }
  }

  /// A value of a stream: its number, least significant octet first, and as many octets of filling as make `length`.
  init(number: Int, length: Int) {
    let octets = (0..<4).map { UInt8(truncatingIfNeeded: number >> ($0 * 8)) }
    self.init(octets + (4..<Swift.max(4, length)).map { UInt8(truncatingIfNeeded: $0 &+ number) })
  }
}

extension CBManagerState {
  var text: String {
    switch self {
    case .unknown: "unknown"
    case .resetting: "resetting"
    case .unsupported: "unsupported"
    case .unauthorized: "unauthorized"
    case .poweredOff: "poweredOff"
    case .poweredOn: "poweredOn"
    @unknown default: "?"
    }
  }
}

extension CBPeripheralState {
  var text: String {
    switch self {
    case .disconnected: "disconnected"
    case .connecting: "connecting"
    case .connected: "connected"
    case .disconnecting: "disconnecting"
    @unknown default: "?"
    }
  }
}
