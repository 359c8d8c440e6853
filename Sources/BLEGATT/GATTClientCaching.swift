// SPDX-License-Identifier: Apache-2.0

import BLECore

/// A write command that waits, and what its sender calls it.
struct HeldCommand {
  var handle: UInt16
  var token: UInt64
}

// MARK: Robust caching, the client's side (Vol 3 Part G 2.5.2)

extension GATTClient {
  /// Sends a Write Command at once, or after it has become clear that its handle is what it was.
  mutating func writeCommand(
    _ handle: UInt16, _ value: RawSpan, token: UInt64, into output: inout ATTOutput
  ) -> Bool {
    guard value.byteCount <= output.mtu - 3 else { return false }
    switch state {
    case .closed: return false
    case .active(let active) where active.phase.isResync:
      heldCommands.append(HeldCommand(handle: handle, token: token), value)
    case .idle, .active: Self.sendCommand(handle, value, token: token, into: &output)
    }
    return true
  }

  private static func sendCommand(_ handle: UInt16, _ value: RawSpan, token: UInt64, into output: inout ATTOutput) {
    output.outgoing.append(.command(token: token)) { writer in
      writer.u8(ATTOpcode.writeCommand.rawValue)
      writer.u16(handle)
      writer.bytes(value)
    }
  }

  /// The server refused a procedure, as it has changed its database since this client last looked. Its next request it
  /// will serve, whatever the handles mean by then; so nothing goes out but the question for the Database Hash. If
  /// that is the known one, the procedure begins again and all is as before. If not, everything that names a handle
  /// ends unsent.
  mutating func beginResync(_ job: Job, now: Instant, into output: inout ATTOutput) {
    var job = job
    job.isRepeated = true
    send(.readByTypeRequest, job, .resync, now: now, into: &output) { writer in
      writer.u16(1)
      writer.u16(0xFFFF)
      writer.u16(AttributeType.databaseHash)
    }
  }

  /// The hash in a Read By Type Response.
  static func hash(in parameters: RawSpan) throws(DecodeError) -> [UInt8]? {
    try ATTReadByTypeResponse.decode(parameters).entries.first?.value
  }

  /// Goes on after the answer; nil: the server has no hash to show.
  mutating func finishResync(_ active: Active, _ hash: [UInt8]?, now: Instant, into output: inout ATTOutput) {
    guard let hash, hash == knownHash else {
      return loseSync(active, hash, now: now, into: &output)
    }
    while heldCommands.removeFirst({ command, value in
      Self.sendCommand(command.handle, value, token: command.token, into: &output)
    }) {}
    beginAgain(active.job, now: now, into: &output)
  }

  private mutating func beginAgain(_ job: Job, now: Instant, into output: inout ATTOutput) {
    begin(job, now: now, into: &output)
    // A procedure that had nothing to ask has ended.
    if case .active(let active) = state, active.phase.isResync { startNext(now: now, into: &output) }
  }

  private mutating func loseSync(
    _ active: Active, _ hash: [UInt8]?, now: Instant, into output: inout ATTOutput
  ) {
    knownHash = hash
    output.events.append(.databaseOutOfSync(hash: hash.map { output.keep($0.span.bytes) }))
    let isVoid = active.job.procedure.names(1...0xFFFF, work.bytes.span.bytes)
    if isVoid { fail(active.job, .databaseChanged, into: &output) }
    while let command = heldCommands.first {
      heldCommands.removeFirst { _, _ in }
      output.events.append(.commandDropped(token: command.token))
    }
    failQueued(1...0xFFFF, into: &output)
    if isVoid { startNext(now: now, into: &output) } else { beginAgain(active.job, now: now, into: &output) }
  }

  /// The server's attributes in `range` are not what they were: procedures that name one of them end. The one whose
  /// request is out ends too, but for a search through all services, which begins again.
  mutating func invalidate(_ range: ClosedRange<UInt16>, now: Instant, into output: inout ATTOutput) {
    failQueued(range, into: &output)
    guard case .active(var active) = state else { return }
    switch active.phase {
    case .resync, .restart, .abandoned, .cancelWrite, .exchangeMTU: return
    case .discovery where !active.job.procedure.names(range, work.bytes.span.bytes):
      guard active.job.procedure.searchesAll else { return }
      active.phase = .restart
    case .discovery, .readByUUID, .read, .readBlob, .readMultiple, .readMultipleVariable, .write, .prepareWrite,
      .executeWrite:
      guard active.job.procedure.names(range, work.bytes.span.bytes) else { return }
      fail(active.job, .databaseChanged, into: &output)
      let isQueueing = if case .prepareWrite = active.phase { true } else { false }
      active.phase = .abandoned(cancelsWrite: isQueueing)
    }
    state = .active(active)
  }

  /// The response to a request whose procedure has ended.
  mutating func endAbandoned(
    _ active: Active, _ cancelsWrite: Bool, now: Instant, into output: inout ATTOutput
  ) {
    if cancelsWrite {
      sendExecute(active.job, .abandoned(cancelsWrite: false), now: now, into: &output)
    } else {
      startNext(now: now, into: &output)
    }
  }

  /// Fails the procedures that wait and name a handle in `range`.
  private mutating func failQueued(_ range: ClosedRange<UInt16>, into output: inout ATTOutput) {
    guard !queue.isEmpty else { return }
    var waiting = PacketQueue<Job>()
    swap(&waiting, &queue)
    while waiting.removeFirst({ job, bytes in
      if job.procedure.names(range, bytes) {
        Self.fail(job, .databaseChanged, into: &output)
      } else {
        queue.append(job, bytes)
      }
    }) {}
  }
}

extension GATTClient.Job {
  /// Whether Database Out Of Sync is a reason to look at the hash: not twice, and not for the hash itself.
  var needsResync: Bool {
    if isRepeated { return false }
    if case .readByUUID(let uuid, _) = procedure { return uuid.uuid16 != AttributeType.databaseHash }
    return true
  }
}

extension GATTClient.Phase {
  var isResync: Bool { if case .resync = self { true } else { false } }
}

extension GATTProcedure {
  /// Whether it searches the whole database for what it does not know yet.
  var searchesAll: Bool {
    switch self {
    case .discovery(.primaryServices, _), .discovery(.primaryServicesByUUID, _): true
    case .exchangeMTU, .discovery, .readByUUID, .read, .readMultiple, .write, .reliableWrite, .barrier: false
    }
  }

  /// Whether it relies on a handle in `range`; `bytes` are the procedure's octets.
  func names(_ range: ClosedRange<UInt16>, _ bytes: RawSpan) -> Bool {
    switch self {
    case .exchangeMTU, .barrier: return false
    case .discovery(_, let searched): return !searchesAll && searched.overlaps(range)
    case .readByUUID(_, let searched): return searched != 1...0xFFFF && searched.overlaps(range)
    case .read(let handle), .write(let handle): return range.contains(handle)
    case .readMultiple:
      var reader = ByteReader(bytes)
      while let handle = try? reader.u16() {
        if range.contains(handle) { return true }
      }
      return false
    case .reliableWrite:
      var reader = ByteReader(bytes)
      while let record = try? GATTQueuedWrite(from: &reader) {
        if range.contains(record.handle) { return true }
      }
      return false
    }
  }
}
