// SPDX-License-Identifier: Apache-2.0

import BLECore
import BLEGATT
import BLEHCI
import BLEProfile
import BLERadio
import BLESystem
public import Foundation
import Synchronization

/// What happened in a world, in one list with one time base: what apps asked and were told, what went over HCI and the
/// air, and what the test did to it.
public final class Timeline: Sendable {
  /// One thing that happened.
  public struct Entry: Sendable, CustomStringConvertible {
    /// Where it was seen.
    public enum Kind: String, Sendable, CaseIterable {
      /// An app called Core Bluetooth.
      case call
      /// Core Bluetooth told an app something; just before the delegate is called.
      case callback
      /// An ATT PDU between a device's host and its controller.
      case att
      /// Any other HCI packet.
      case hci
      /// A packet on air, when its last bit is out.
      case air
      /// What the test did: moves, losses, switches.
      case fault
      /// What the library has to say.
      case note
    }

    /// Since the world began.
    public var time: Duration
    /// The device's name; empty for the world.
    public var device: String
    public var kind: Kind
    /// For calls and callbacks what tells the method from others, such as `connect`, `didConnect` and `didUpdateState`
    /// (`docs/testing.md` has all); for ATT the PDU's name in the Core Specification.
    public var name: String
    /// The rest, for people; octets in hexadecimal.
    public var detail: String

    /// On one line: time in seconds, device, kind, name, detail.
    public var description: String {
      let rest = detail.isEmpty ? "" : " " + detail
      return "\(Timeline.seconds(time)) \(device.isEmpty ? "-" : device) \(kind.rawValue) \(name)\(rest)"
    }

    /// One JSON object on one line, with the members `time` (seconds), `device`, `kind`, `name`, `detail`.
    public var json: String {
      let object: JSONValue = .object([
        .init("time", .number(Timeline.seconds(time))), .init("device", .string(device)),
        .init("kind", .string(kind.rawValue)), .init("name", .string(name)), .init("detail", .string(detail)),
      ])
      return object.text
    }
  }

  /// As it was noted: text is made when somebody looks.
  enum Record: Sendable {
    case call(SystemRequest)
    case callback(SystemEvent)
    case hci(HCIDirection, HCIPacketType, [UInt8])
    case air(AirPacketInfo, [UInt8])
    case fault(String)
    case note(String)
  }

  struct Stamped: Sendable {
    var nanoseconds: Int64
    var device: String
    var record: Record
  }

  private let records = Mutex<[Stamped]>([])

  init() {}

  func add(_ record: Record, _ device: String, at instant: Instant) {
    records.withLock { $0.append(Stamped(nanoseconds: instant.nanoseconds, device: device, record: record)) }
  }

  var stamped: [Stamped] { records.withLock { $0 } }

  // MARK: - Looking

  /// All of it, oldest first.
  public var entries: [Entry] { entries { _, _ in true } }

  /// The entries of a kind, of a device if one is given, and of a name if one is given; oldest first.
  public func entries(_ kind: Entry.Kind, of device: VirtualDevice? = nil, named name: String? = nil) -> [Entry] {
    let found = entries { record, of in (device == nil || of == device?.name) && record.mayBe(kind) }
    return found.filter { $0.kind == kind && (name == nil || $0.name == name) }
  }

  /// How often an app of `device` (nil: of any) was told `name`, such as `didConnect`.
  public func callbacks(_ name: String, of device: VirtualDevice? = nil) -> Int {
    entries(.callback, of: device, named: name).count
  }

  /// How often an app of `device` (nil: of any) called `name`, such as `connect`.
  public func calls(_ name: String, of device: VirtualDevice? = nil) -> Int {
    entries(.call, of: device, named: name).count
  }

  private func entries(where isWanted: (Record, String) -> Bool) -> [Entry] {
    stamped.compactMap { isWanted($0.record, $0.device) ? Self.entry($0) : nil }
  }

  /// All of it as lines of JSON, each an ``Entry/json``.
  public var jsonLines: String { entries.map { $0.json + "\n" }.joined() }

  /// The last `count` entries of each device that is wanted, for messages.
  func tail(_ count: Int, where isWanted: (String) -> Bool) -> [Entry] {
    var counts: [String: Int] = [:]
    var found: [Stamped] = []
    for entry in stamped.reversed() where entry.record.isForPeople && isWanted(entry.device) {
      counts[entry.device, default: 0] += 1
      if counts[entry.device, default: 0] <= count { found.append(entry) }
    }
    return found.reversed().map(Self.entry)
  }

  /// A btsnoop file (H4) of what went between the host and the controller of `device`, for Wireshark and `btmon -r`. Its
  /// clock begins with the world, at midnight UTC on 1 January 2026.
  public func hciCapture(of device: VirtualDevice) -> Data {
    var writer = ByteWriter()
    BTSnoop.encodeHeader(into: &writer)
    for entry in stamped where entry.device == device.name {
      guard case .hci(let direction, let type, let payload) = entry.record else { continue }
      BTSnoop.encodeRecord(
        direction, type, timestamp: Self.epoch + entry.nanoseconds / 1000, payload: payload.span.bytes, into: &writer)
    }
    return Data(writer.bytes)
  }

  /// A pcap file of all that was on air, for Wireshark: with channel, RSSI, direction and PHY of each packet, in the order of
  /// their beginnings, with the clock of ``hciCapture(of:)``. Encrypted packets are as they were on air.
  public func airCapture() -> Data {
    var parts: [(start: Int64, octets: Data)] = []
    var start = Int64.min
    let capture = AirCapture { bytes in
      parts.append((start, bytes.withUnsafeBytes { unsafe Data($0) }))
    }
    let epoch = TimeSpan(nanoseconds: Self.epoch * 1000)
    // They were seen at their ends.
    for entry in stamped {
      guard case .air(var info, let pdu) = entry.record else { continue }
      info.start = info.start + epoch
      info.end = info.end + epoch
      start = info.start.nanoseconds
      capture.observe(info, pdu: pdu.span.bytes)
    }
    let ordered = parts.enumerated().sorted { ($0.element.start, $0.offset) < ($1.element.start, $1.offset) }
    return ordered.reduce(into: Data()) { $0.append($1.element.octets) }
  }

  /// Midnight UTC on 1 January 2026, in microseconds since 1970: when worlds begin.
  static let epoch: Int64 = 1_767_225_600_000_000

  // MARK: - Text

  static func seconds(_ time: Duration) -> String {
    let nanoseconds = time.nanosecondCount
    let fraction = String(nanoseconds % 1_000_000_000 + 1_000_000_000).dropFirst()
    return "\(nanoseconds / 1_000_000_000).\(fraction)"
  }

  private static func entry(_ stamped: Stamped) -> Entry {
    let (kind, name, detail) = stamped.record.text
    return Entry(
      time: .nanoseconds(stamped.nanoseconds), device: stamped.device, kind: kind, name: name, detail: detail)
  }
}

extension Timeline.Record {
  fileprivate func mayBe(_ kind: Timeline.Entry.Kind) -> Bool {
    switch (self, kind) {
    case (.call, .call), (.callback, .callback), (.hci, .hci), (.hci, .att), (.air, .air), (.fault, .fault),
      (.note, .note):
      true
    default: false
    }
  }

  fileprivate var isForPeople: Bool {
    switch self {
    case .call, .callback, .fault, .note: true
    case .hci, .air: false
    }
  }

  fileprivate var text: (Timeline.Entry.Kind, String, String) {
    switch self {
    case .call(let request):
      let (name, detail) = request.timelineText
      return (.call, name, detail)
    case .callback(let event):
      let (name, detail) = event.timelineText
      return (.callback, name, detail)
    case .hci(let direction, let type, let payload): return Self.hciText(direction, type, payload)
    case .air(let info, let pdu):
      let address = String(info.accessAddress, radix: 16)
      return (.air, "channel \(info.channel)", "\(address) \(pdu.hexText)\(info.isCRCValid ? "" : " CRC wrong")")
    case .fault(let text): return (.fault, text, "")
    case .note(let text): return (.note, text, "")
    }
  }

  /// An ACL packet that begins an L2CAP frame of the Attribute Protocol's channel is an ATT PDU, or its beginning.
  private static func hciText(
    _ direction: HCIDirection, _ type: HCIPacketType, _ payload: [UInt8]
  ) -> (Timeline.Entry.Kind, String, String) {
    let arrow = direction == .hostToController ? "->" : "<-"
    let isStart = payload.count > 8 && payload[1] & 0x10 == 0
    if type == .aclData, isStart, payload[6] == 4, payload[7] == 0 {
      let opcode = ATTOpcode(rawValue: payload[8])
      return (.att, opcode.description, "\(arrow) \(Array(payload[9...]).hexText)")
    }
    return (.hci, HCITrace.line(direction, type, payload.span.bytes), "")
  }
}

extension [UInt8] {
  var hexText: String {
    var text = ""
    for octet in self { text += (octet < 16 ? "0" : "") + String(octet, radix: 16) }
    return text
  }
}
