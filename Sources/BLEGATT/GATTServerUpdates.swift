// SPDX-License-Identifier: Apache-2.0

import BLECore

/// The notifications and indications of one client that are on their way or wait.
struct UpdateQueues {
  /// The value that a queued update is of, and what its sender calls it.
  struct Update {
    var handle: UInt16
    var token: UInt64
  }

  /// The indication that waits for its confirmation.
  struct Indicating {
    /// nil: Service Changed, which no owner asked for.
    var update: Update?
    var handle: UInt16
    var deadline: Instant
  }

  var indicating: Indicating?
  var indications = PacketQueue<Update>()
  /// Notifications of a client that does not know the database.
  var notifications = PacketQueue<Update>()
  /// What Service Changed has still to tell: the smallest range around all changes since it was last sent.
  var change: ClosedRange<UInt16>?
}

// MARK: Notifications and indications (Vol 3 Part F 3.4.7)

extension GATTServer {
  /// Indications that have not been confirmed, but for Service Changed.
  var unconfirmedIndications: Int { updates.indications.count + (updates.indicating?.update == nil ? 0 : 1) }

  mutating func notify(
    _ handle: UInt16, _ value: RawSpan, token: UInt64, database: AttributeDatabase, into output: inout ATTOutput
  ) -> Bool {
    guard maySend(handle, bit: 1, database) else { return false }
    if knowsDatabase {
      Self.sendNotification(handle, value, token: token, into: &output)
    } else {
      updates.notifications.append(UpdateQueues.Update(handle: handle, token: token), value)
    }
    return true
  }

  private static func sendNotification(
    _ handle: UInt16, _ value: RawSpan, token: UInt64, into output: inout ATTOutput
  ) {
    let part = value.extracting(first: output.mtu - 3)
    output.outgoing.append(.notification(token: token)) { writer in
      writer.u8(ATTOpcode.handleValueNotification.rawValue)
      writer.u16(handle)
      writer.bytes(part)
    }
  }

  /// Several values in one notification, for a client that takes such; none is cut.
  mutating func notifyMultiple(
    _ values: [(handle: UInt16, value: [UInt8])], token: UInt64, database: AttributeDatabase,
    into output: inout ATTOutput
  ) -> Bool {
    guard clientFeatures.contains(.multipleHandleValueNotifications), knowsDatabase, values.count >= 2 else {
      return false
    }
    let count = values.reduce(1) { $0 + 4 + $1.value.count }
    guard count <= output.mtu, values.allSatisfy({ maySend($0.handle, bit: 1, database) }) else { return false }
    output.outgoing.append(.notification(token: token)) { writer in
      writer.u8(ATTOpcode.multipleHandleValueNotification.rawValue)
      for (handle, value) in values {
        writer.u16(handle)
        writer.u16(UInt16(truncatingIfNeeded: value.count))
        writer.bytes(value)
      }
    }
    return true
  }

  mutating func indicate(
    _ handle: UInt16, _ value: RawSpan, token: UInt64, database: AttributeDatabase, now: Instant,
    into output: inout ATTOutput
  ) -> Bool {
    guard maySend(handle, bit: 2, database) else { return false }
    updates.indications.append(UpdateQueues.Update(handle: handle, token: token), value)
    sendNextIndication(database, now: now, into: &output)
    return true
  }

  /// Whether the client wants values of `handle` this way, and the link is fit for them now.
  private func maySend(_ handle: UInt16, bit: UInt16, _ database: AttributeDatabase) -> Bool {
    guard subscription(ofValue: handle) & bit != 0, let index = database.index(of: handle) else { return false }
    let attribute = database.attributes[index]
    let required = max(
      attribute.subscriptionAccess.requiredLevel ?? .none, attribute.permissions.read.requiredLevel ?? .none)
    return security.level >= required
  }

  /// Sends an indication if none is under way: Service Changed before all others.
  private mutating func sendNextIndication(
    _ database: AttributeDatabase, now: Instant, into output: inout ATTOutput
  ) {
    guard updates.indicating == nil else { return }
    let deadline = now + ATTLimits.transactionTimeout
    if let change = updates.change {
      updates.change = nil
      guard let handle = database.serviceChangedHandle, subscription(ofValue: handle) & 2 != 0 else {
        return sendNextIndication(database, now: now, into: &output)
      }
      updates.indicating = UpdateQueues.Indicating(update: nil, handle: handle, deadline: deadline)
      output.outgoing.append(.indication) { writer in
        writer.u8(ATTOpcode.handleValueIndication.rawValue)
        writer.u16(handle)
        writer.u16(change.lowerBound)
        writer.u16(change.upperBound)
      }
      return
    }
    while updates.indicating == nil, knowsDatabase, let next = updates.indications.first {
      guard maySend(next.handle, bit: 2, database) else {
        updates.indications.removeFirst { _, _ in }
        output.events.append(.updateDropped(token: next.token))
        continue
      }
      updates.indicating = UpdateQueues.Indicating(update: next, handle: next.handle, deadline: deadline)
      sendFirstIndication(of: next.handle, into: &output)
    }
  }

  private mutating func sendFirstIndication(of handle: UInt16, into output: inout ATTOutput) {
    let room = output.mtu - 3
    var scratch = ByteWriter()
    swap(&scratch, &self.scratch)
    scratch.removeAll()
    scratch.u8(ATTOpcode.handleValueIndication.rawValue)
    scratch.u16(handle)
    updates.indications.removeFirst { _, value in scratch.bytes(value.extracting(first: room)) }
    output.outgoing.append(.indication, scratch.bytes.span.bytes)
    swap(&scratch, &self.scratch)
  }

  mutating func receiveConfirmation(
    _ parameters: RawSpan, _ database: AttributeDatabase, now: Instant, into output: inout ATTOutput
  ) {
    guard let confirmed = updates.indicating, parameters.byteCount == 0 else { return }
    updates.indicating = nil
    if let update = confirmed.update {
      output.events.append(.indicationConfirmed(handle: update.handle, token: update.token))
    } else if updates.change == nil {
      // All changes have been told, and the client has answered for the last.
      return becomeAware(database, now: now, into: &output)
    }
    sendNextIndication(database, now: now, into: &output)
  }

  // MARK: Changes of the database

  /// Tells the client of a change, if it wants to be told, together with those it has not been told of.
  mutating func indicateServiceChanged(
    _ range: ClosedRange<UInt16>, _ database: AttributeDatabase, now: Instant, into output: inout ATTOutput
  ) {
    guard let handle = database.serviceChangedHandle, subscription(ofValue: handle) & 2 != 0 else { return }
    let waiting = updates.change ?? range
    updates.change = min(waiting.lowerBound, range.lowerBound)...max(waiting.upperBound, range.upperBound)
    sendNextIndication(database, now: now, into: &output)
  }

  /// Sends what waited for the client to know the database.
  mutating func sendHeldUpdates(_ database: AttributeDatabase, now: Instant, into output: inout ATTOutput) {
    var held = PacketQueue<UpdateQueues.Update>()
    swap(&held, &updates.notifications)
    while held.removeFirst({ update, value in
      if maySend(update.handle, bit: 1, database) {
        Self.sendNotification(update.handle, value, token: update.token, into: &output)
      } else {
        output.events.append(.updateDropped(token: update.token))
      }
    }) {}
    sendNextIndication(database, now: now, into: &output)
  }

  /// Forgets updates that wait, of attributes that are gone.
  mutating func dropUpdates(into output: inout ATTOutput, where isGone: (UInt16) -> Bool) {
    Self.drop(from: &updates.notifications, into: &output, where: isGone)
    Self.drop(from: &updates.indications, into: &output, where: isGone)
  }

  private static func drop(
    from queue: inout PacketQueue<UpdateQueues.Update>, into output: inout ATTOutput, where isGone: (UInt16) -> Bool
  ) {
    guard !queue.isEmpty else { return }
    var kept = PacketQueue<UpdateQueues.Update>()
    while queue.removeFirst({ update, value in
      if isGone(update.handle) {
        output.events.append(.updateDropped(token: update.token))
      } else {
        kept.append(update, value)
      }
    }) {}
    queue = kept
  }
}
