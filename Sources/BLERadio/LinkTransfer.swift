// SPDX-License-Identifier: Apache-2.0

import BLECore

/// One direction-pair of a connection's data: what waits to be sent, cut to the link's data length, and the
/// acknowledgement scheme of Vol 6 Part B 4.5.9.
///
/// One PDU is outstanding at a time. It is sent again, with fresh NESN and MD, until the peer's NESN differs from its
/// SN. Control PDUs go before data, but never between a PDU and its retransmission. Where the link is encrypted a PDU is
/// sealed once; its retransmissions are the same octets but for NESN and MD, which are not sealed.
struct LinkTransfer {
  /// What the peer's acknowledgement was for.
  enum Acknowledged: Hashable {
    case empty
    case control(opcode: UInt8)
    /// A fragment; `endsPacket` if it was the last of the host's ACL packet.
    case data(endsPacket: Bool)
  }

  /// Header and payload, with MIC, of the PDU that ``prepare(octets:)`` and ``seal()`` made.
  private(set) var pdu: [UInt8] = []
  /// MD of that PDU.
  private(set) var sentMoreData = false
  /// Effective maximum of octets in one PDU.
  var maxTxOctets = Int(LinkLayer.dataOctetsMin)
  /// What seals PDUs that are sent for the first time from now on, and what opens those that come.
  var txCipher: LinkCipher?
  var rxCipher: LinkCipher?
  /// Whether the host's packets wait, and only control PDUs go out.
  var isDataHeld = false

  private var sn = false
  private var nesn = false
  private var outstanding: Acknowledged?
  private var isSealed = false
  private var controls = PacketQueue<UInt8>()
  private var packets = PacketQueue<LLID>()
  /// The host's packet that is being cut, from `offset` on.
  private var current: [UInt8] = []
  private var currentLLID = LLID.start
  private var offset = 0
  private var writer = ByteWriter(capacity: LinkLayer.pduCountMax)

  /// Whether something other than an empty PDU waits for transmission or acknowledgement.
  var hasDataToSend: Bool {
    switch outstanding {
    case .control, .data: true
    case .empty, nil: hasMore
    }
  }

  /// Whether the next PDU has been sent before.
  var isRetransmission: Bool { outstanding != nil }

  /// Whether something waits behind the outstanding PDU.
  private var hasMore: Bool { !controls.isEmpty || !isDataHeld && (offset < current.count || !packets.isEmpty) }

  private var micCount: Int { txCipher == nil ? 0 : LinkLayer.micCount }

  mutating func enqueue(_ control: LLControlPDU) {
    controls.append(control.opcode) { control.encode(into: &$0) }
  }

  /// Adds a packet of the host; it must not be empty.
  mutating func enqueue(_ llid: LLID, _ data: RawSpan) { packets.append(llid, data) }

  /// Forgets the host's packets (not what is outstanding).
  mutating func discardPackets() {
    packets.removeAll()
    current.removeAll(keepingCapacity: true)
    offset = 0
  }

  /// Octets of payload, with MIC, of the PDU that would be sent next if there were time for anything.
  var nextOctets: Int {
    if outstanding != nil { return pdu.count - LinkLayer.headerCount }
    guard hasMore else { return 0 }
    if !controls.isEmpty { return controls.firstCount + micCount }
    let rest = offset < current.count ? current.count - offset : packets.firstCount
    return min(maxTxOctets, rest) + micCount
  }

  /// Makes ``pdu``: the outstanding PDU again, else the next one if its payload has at most `octets`, else an empty one.
  /// It can be sent after ``seal()``.
  ///
  /// - Returns: the opcode of a control PDU that is sent for the first time.
  mutating func prepare(octets: Int) -> UInt8? {
    var first: UInt8?
    if outstanding == nil {
      isSealed = false
      writer.removeAll()
      writer.u16(0)
      if nextOctets > octets || !hasMore {
        outstanding = .empty
        finish(.continuation)
      } else if let opcode = controls.first {
        var writer = ByteWriter()
        swap(&writer, &self.writer)
        controls.removeFirst { _, bytes in writer.bytes(bytes) }
        swap(&writer, &self.writer)
        outstanding = .control(opcode: opcode)
        first = opcode
        finish(.control)
      } else {
        takeFragment()
      }
    }
    return first
  }

  /// Writes the instant of an outstanding control PDU that has one: its last two octets.
  mutating func patchInstant(_ instant: UInt16) {
    guard pdu.count >= 4 else { return }
    pdu[pdu.count - 2] = UInt8(truncatingIfNeeded: instant)
    pdu[pdu.count - 1] = UInt8(truncatingIfNeeded: instant >> 8)
  }

  /// Encrypts ``pdu`` if that has to be, and gives it its header. `false`: no more can be encrypted.
  mutating func seal() -> Bool {
    sentMoreData = hasMore
    pdu[0] = pdu[0] & 3 | (nesn ? 4 : 0) | (sn ? 8 : 0) | (sentMoreData ? 16 : 0)
    guard !isSealed else { return true }
    isSealed = true
    return txCipher?.seal(&pdu) ?? true
  }

  /// NESN of a valid packet. Returns what it acknowledges.
  mutating func acknowledge(nesn peer: Bool) -> Acknowledged? {
    guard let acknowledged = outstanding, peer != sn else { return nil }
    sn.toggle()
    outstanding = nil
    return acknowledged
  }

  /// SN of a valid packet. Returns whether it is new; an old one is to be ignored.
  mutating func accept(sn peer: Bool) -> Bool {
    guard peer == nesn else { return false }
    nesn.toggle()
    return true
  }

  private mutating func takeFragment() {
    if offset >= current.count {
      current.removeAll(keepingCapacity: true)
      offset = 0
      currentLLID = packets.first ?? .start
      var packet: [UInt8] = []
      swap(&packet, &current)
      packets.removeFirst { _, bytes in unsafe bytes.withUnsafeBytes { unsafe packet.append(contentsOf: $0) } }
      swap(&packet, &current)
    }
    let end = min(offset + maxTxOctets, current.count)
    let llid = offset == 0 ? currentLLID : .continuation
    let packet = current
    writer.bytes(packet.span.bytes.extracting(offset..<end))
    offset = end
    outstanding = .data(endsPacket: end == current.count)
    finish(llid)
  }

  /// Ends the PDU in the writer and makes it ``pdu``.
  private mutating func finish(_ llid: LLID) {
    writer.patch(u8: llid.rawValue, at: 0)
    let length = writer.count - LinkLayer.headerCount
    writer.patch(u8: UInt8(clamping: length), at: 1)
    swap(&writer.bytes, &pdu)
  }
}
