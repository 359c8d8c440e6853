// SPDX-License-Identifier: Apache-2.0

import BLECore
import BLEGATT
import BLEHCI
import BLEL2CAP
import BLESMP

// What the peers send, and what goes to them: ACL data of Vol 4 Part E 5.4.2, L2CAP frames of Vol 3 Part A 3.1.
extension Host {
  func receiveACL(_ payload: RawSpan) {
    var reader = ByteReader(payload)
    guard let header = try? ACLHeader(from: &reader), Int(header.dataLength) == reader.remaining,
      let connection = connection(header.connectionHandle)
    else { return }
    // Taken out of the link while its payload is read, so that the link may be changed meanwhile.
    var assembler = FrameAssembler()
    swap(&assembler, &connection.assembler)
    switch assembler.receive(isFirst: header.boundary != .continuing, reader.rest()) {
    case .frame(let channel): receiveFrame(connection, channel, assembler.payload)
    case .incomplete, .discarded: break
    }
    swap(&assembler, &connection.assembler)
  }

  private func receiveFrame(_ connection: Connection, _ channel: ChannelID, _ payload: RawSpan) {
    guard connection.answersOnTheWay < Connection.answersMax || !Self.isToBeAnswered(channel, payload) else { return }
    switch channel {
    case .attribute: connection.bearer.receive(payload, database: database, now: now)
    case .signaling: connection.signaling.receive(payload, now: now)
    case .securityManager: connection.security.receive(payload)
    default: return  // An unknown channel's frames are dropped (Vol 3 Part A 2.1).
    }
    // A peer that sends is there.
    report(connection)
    touch(connection)
  }

  /// Whether a frame makes this side owe an answer.
  private static func isToBeAnswered(_ channel: ChannelID, _ payload: RawSpan) -> Bool {
    guard channel == .attribute else { return true }
    var reader = ByteReader(payload)
    guard let code = try? reader.u8() else { return false }
    let opcode = ATTOpcode(rawValue: code)
    return opcode == .handleValueIndication
      || !opcode.isFromServer && !opcode.isCommand
        && opcode != .handleValueConfirmation
  }

  /// Sends what a link's machines want to send and tells the owner what they have to say.
  func drain(_ connection: Connection, _ owner: (any HostOwner)?) {
    sendPDUs(connection)
    takeSignaling(connection)
    deliver(connection, owner)
    sendPDUs(connection)
    connection.settle()
  }

  private func sendPDUs(_ connection: Connection) {
    while connection.signaling.outgoing.removeFirst({ send(connection, .signaling, .answer, $1) }) {}
    while connection.security.outgoing.removeFirst({ send(connection, .securityManager, .answer, $1) }) {}
    while connection.bearer.outgoing.removeFirst({ tag, pdu in
      switch tag {
      case .command: send(connection, .attribute, .command, pdu)
      case .notification: send(connection, .attribute, .notification, pdu)
      case .response, .confirmation: send(connection, .attribute, .answer, pdu)
      case .request, .indication: send(connection, .attribute, .other, pdu)
      }
    }) {}
  }

  private func send(_ connection: Connection, _ channel: ChannelID, _ tag: FrameTag, _ pdu: RawSpan) {
    let isQueued = acl.enqueue(connection.handle) { writer in
      L2CAPHeader(length: UInt16(truncatingIfNeeded: pdu.byteCount), channelID: channel).encode(into: &writer)
      writer.bytes(pdu)
    }
    guard isQueued else { return }
    connection.sentTags.append(tag)
    if tag == .answer { connection.answersOnTheWay += 1 }
  }

  private func deliver(_ connection: Connection, _ owner: (any HostOwner)?) {
    guard connection.isReported, !connection.bearer.output.events.isEmpty else { return }
    var index = 0
    while index < connection.bearer.output.events.count {
      let event = connection.bearer.output.events[index]
      if case .bearerFailed = event { disconnect(connection) }
      if hasOwner { owner?.host(self, connection: connection, did: event) }
      index += 1
    }
    connection.bearer.output.removeEvents()
  }

  private func takeSignaling(_ connection: Connection) {
    for event in connection.signaling.events {
      switch event {
      case .parameterUpdateRequested(let range, let identifier):
        connection.signaling.respondToParameterUpdate(identifier: identifier, isAccepted: true)
        update(connection, range)
      case .parameterUpdateAnswered, .parameterUpdateFailed: break
      }
    }
    connection.signaling.events.removeAll(keepingCapacity: true)
  }
}
