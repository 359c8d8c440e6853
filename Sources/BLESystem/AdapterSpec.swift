// SPDX-License-Identifier: Apache-2.0

/// Which adapter: what `COREBLUETOOTH_ADAPTER`, `CBManagerOptionAdapterKey` and `ble --adapter` take.
public enum AdapterSpec: Hashable, Sendable {
  /// A host on a controller somewhere else, HCI H4 over TCP.
  case tcp(host: String, port: UInt16)
  /// The same over a Unix socket.
  case unix(path: String)
  /// A controller on the process's own virtual radio; each name is one controller.
  case virtual(name: String)
  /// A Linux adapter by its HCI user channel.
  case hci(index: UInt16)
  case usb(vendor: UInt16, product: UInt16)
  case serial(path: String, baudRate: Int)
  /// The shared daemon's socket; nil: its usual place.
  case daemon(path: String?)

  /// Why a text names no adapter.
  public struct ParseError: Error, Hashable, Sendable, CustomStringConvertible {
    public var description: String
  }

  /// The forms that ``init(parsing:)`` takes, for messages.
  public static let forms =
    "tcp:HOST:PORT, unix:PATH, virtual[:NAME], hci0, usb:VID:PID, serial:/dev/ttyACM0@1000000, daemon[:PATH]"

  public init(parsing text: String) throws(ParseError) {
    let (scheme, rest) = Self.cut(text, at: ":")
    switch scheme {
    case "tcp":
      guard let colon = rest?.lastIndex(of: ":"), let rest, colon != rest.startIndex,
        let port = Self.number(rest[rest.index(after: colon)...]), port != 0
      else { throw Self.error(text, "expected tcp:HOST:PORT with a port from 1 to 65535") }
      var host = rest[..<colon]
      if host.hasPrefix("["), host.hasSuffix("]") { host = host.dropFirst().dropLast() }
      guard !host.isEmpty else { throw Self.error(text, "expected a host's name or address before the port") }
      self = .tcp(host: String(host), port: port)
    case "unix":
      guard let rest, !rest.isEmpty else { throw Self.error(text, "expected unix:PATH") }
      guard rest.utf8.count <= 107 else { throw Self.error(text, "a socket's path has at most 107 octets") }
      self = .unix(path: rest)
    case "virtual":
      if let rest, rest.isEmpty { throw Self.error(text, "expected virtual or virtual:NAME") }
      self = .virtual(name: rest ?? "")
    case "usb":
      let parts = (rest ?? "").split(separator: ":", omittingEmptySubsequences: false)
      guard parts.count == 2, let vendor = UInt16(parts[0], radix: 16), let product = UInt16(parts[1], radix: 16)
      else { throw Self.error(text, "expected usb:VID:PID with hexadecimal numbers") }
      self = .usb(vendor: vendor, product: product)
    case "serial":
      let (path, baud) = Self.cut(rest ?? "", at: "@")
      guard !path.isEmpty, let rate = Int(baud ?? "115200"), rate > 0 else {
        throw Self.error(text, "expected serial:PATH or serial:PATH@BAUD")
      }
      self = .serial(path: path, baudRate: rate)
    case "daemon":
      if let rest, rest.isEmpty { throw Self.error(text, "expected daemon or daemon:PATH") }
      self = .daemon(path: rest)
    default:
      guard text.hasPrefix("hci"), let index = Self.number(text.dropFirst(3)) else {
        throw Self.error(text, "known forms are \(Self.forms)")
      }
      self = .hci(index: index)
    }
  }

  /// Digits only: the standard library takes a sign, too.
  private static func number(_ text: Substring) -> UInt16? {
    text.utf8.allSatisfy { (0x30...0x39).contains($0) } ? UInt16(text) : nil
  }

  private static func cut(_ text: String, at separator: Character) -> (String, String?) {
    guard let index = text.firstIndex(of: separator) else { return (text, nil) }
    return (String(text[..<index]), String(text[text.index(after: index)...]))
  }

  private static func error(_ text: String, _ what: String) -> ParseError {
    ParseError(description: "\"\(text)\" names no adapter: \(what)")
  }
}

extension AdapterSpec: CustomStringConvertible {
  public var description: String {
    switch self {
    case .tcp(let host, let port): host.contains(":") ? "tcp:[\(host)]:\(port)" : "tcp:\(host):\(port)"
    case .unix(let path): "unix:\(path)"
    case .virtual(let name): name.isEmpty ? "virtual" : "virtual:\(name)"
    case .hci(let index): "hci\(index)"
    case .usb(let vendor, let product): "usb:\(String(vendor, radix: 16)):\(String(product, radix: 16))"
    case .serial(let path, let rate): "serial:\(path)@\(rate)"
    case .daemon(let path): path.map { "daemon:\($0)" } ?? "daemon"
    }
  }
}
