// SPDX-License-Identifier: Apache-2.0

import BLECore
import BLESystem

/// How a command line names a peer.
enum PeerSelector: Hashable, CustomStringConvertible {
  case name(String)
  case identifier(PeerIdentifier)
  case service(BluetoothUUID)

  init(_ arguments: Arguments) throws(Failure) {
    if let name = arguments.value("--name") {
      self = .name(name)
    } else if let text = arguments.value("--id") {
      guard let identifier = PeerIdentifier(text) else {
        throw .usage("\"\(harmless(text))\" is no identifier: scan prints them, 8-4-4-4-12 hexadecimal digits")
      }
      self = .identifier(identifier)
    } else {
      self = .service(try bluetoothUUID(arguments.value("--service") ?? ""))
    }
  }

  func matches(_ discovery: Discovery) -> Bool {
    switch self {
    case .name(let name): discovery.localName == name || discovery.localName == nil && discovery.peer.name == name
    case .identifier(let identifier): discovery.peer.identifier == identifier
    case .service(let uuid): discovery.services.contains(uuid) || discovery.overflowServices.contains(uuid)
    }
  }

  var description: String {
    switch self {
    case .name(let name): "the peer named \"\(harmless(name))\""
    case .identifier(let identifier): "the peer \(identifier.text)"
    case .service(let uuid): "a peer with the service \(uuid)"
    }
  }
}

extension PeerIdentifier {
  /// Upper case, 8-4-4-4-12.
  var text: String { BluetoothUUID(high: high, low: low).longDescription }

  init?(_ text: String) {
    guard text.utf8.count == 36, let uuid = BluetoothUUID(text) else { return nil }
    self.init(high: uuid.high, low: uuid.low)
  }
}

/// A UUID of the command line.
func bluetoothUUID(_ text: String) throws(Failure) -> BluetoothUUID {
  guard let uuid = BluetoothUUID(text) else {
    throw .usage("\"\(harmless(text))\" is no UUID: write 4, 8 or 32 (8-4-4-4-12) hexadecimal digits")
  }
  return uuid
}
