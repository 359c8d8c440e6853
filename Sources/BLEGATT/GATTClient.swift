// SPDX-License-Identifier: Apache-2.0

import BLECore

/// What a client verb asks for. Octets that belong to it (a value to write, handles to read) travel beside it.
enum GATTProcedure {
  case exchangeMTU
  case discovery(DiscoveryKind, ClosedRange<UInt16>)
  case readByUUID(BluetoothUUID, ClosedRange<UInt16>)
  case read(UInt16)
  case readMultiple(variable: Bool)
  case write(UInt16)
  /// The octets are records of ``GATTQueuedWrite``.
  case reliableWrite
  /// Nothing is asked of the server.
  case barrier
}

/// The client half of an ATT bearer (Vol 3 Part F 3.3, Part G 4): procedures in the order of their start, one request
/// outstanding.
///
///     start ──▶ queue ──▶ active(phase) ──response──▶ next request, or the procedure's one event and the next procedure
///                            │ 30 s
///                            ▼
///                          closed: every procedure ends, nothing is sent any more
///
/// A response that nobody waits for, or that answers another request than the one outstanding, is ignored; one that
/// answers it but is malformed fails the procedure and leaves the bearer alive. Indications are confirmed at once,
/// whatever their handle.
///
/// Out of sync: see ``GATTClient/beginResync(_:now:into:)``.
struct GATTClient {
  struct Job {
    var procedure: GATTProcedure
    var token: UInt64
    /// Whether it was refused as out of sync, and begun again.
    var isRepeated = false
  }

  /// What the outstanding request belongs to.
  enum Phase {
    case exchangeMTU
    case discovery
    case readByUUID
    /// The first part of a value; the rest follows if it fills the response.
    case read(handle: UInt16)
    case readBlob(handle: UInt16)
    case readMultiple
    case readMultipleVariable
    case write
    /// The part has been sent to the server's queue.
    case prepareWrite(QueuedPart)
    case executeWrite
    /// The server's queue is being emptied after the procedure failed.
    case cancelWrite(GATTError)
    /// The Database Hash is being read, since the server said that the procedure's handles are out of sync.
    case resync
    /// A discovery that begins again once the response is there: the database has changed under it.
    case restart
    /// The procedure has ended; the response is still to come, and nobody cares.
    case abandoned(cancelsWrite: Bool)
  }

  struct Active {
    var job: Job
    var phase: Phase
    var request: ATTOpcode
    var deadline: Instant
  }

  enum State {
    case idle
    case active(Active)
    case closed
  }

  var state = State.idle
  var queue = PacketQueue<Job>()
  /// What the active procedure writes, or has read so far; its memory is reused.
  var work = ByteWriter()
  /// The server's Database Hash, as far as the bearer's owner relies on it.
  var knownHash: [UInt8]?
  /// Write commands that wait until it is known what their handles mean.
  var heldCommands = PacketQueue<HeldCommand>()
  private var discovery = Discovery(.primaryServices, 1...0xFFFF)
  private var isMTURequested = false

  var deadline: Instant? {
    if case .active(let active) = state { active.deadline } else { nil }
  }

  // MARK: Inputs

  /// Starts a procedure without octets.
  mutating func start(_ procedure: GATTProcedure, token: UInt64, now: Instant, into output: inout ATTOutput) {
    let nothing: [UInt8] = []
    start(procedure, nothing.span.bytes, token: token, now: now, into: &output)
  }

  /// Starts a procedure after those that wait, or fails it at once where it cannot be.
  mutating func start(
    _ procedure: GATTProcedure, _ bytes: RawSpan, token: UInt64, now: Instant, into output: inout ATTOutput
  ) {
    let job = Job(procedure: procedure, token: token)
    if case .closed = state { return fail(job, .bearerClosed, into: &output) }
    if case .write = procedure, bytes.byteCount > ATTLimits.valueMax {
      return fail(job, .valueTooLong(count: bytes.byteCount), into: &output)
    }
    queue.append(job, bytes)
    if case .idle = state { startNext(now: now, into: &output) }
  }

  /// Takes a PDU that a server sends.
  mutating func receive(_ opcode: ATTOpcode, _ parameters: RawSpan, now: Instant, into output: inout ATTOutput) {
    switch opcode {
    case .handleValueNotification:
      if let (handle, value) = Self.value(parameters, into: &output) {
        output.events.append(.notification(handle: handle, value: value))
      }
    case .handleValueIndication:
      output.outgoing.append(.confirmation) { $0.u8(ATTOpcode.handleValueConfirmation.rawValue) }
      if let (handle, value) = Self.value(parameters, into: &output) {
        output.events.append(.indication(handle: handle, value: value))
      }
    case .multipleHandleValueNotification:
      Self.receiveMultiple(parameters, into: &output)
    case .errorResponse:
      receiveError(parameters, now: now, into: &output)
    default:
      guard case .active(let active) = state, active.request.rawValue + 1 == opcode.rawValue else { return }
      receiveResponse(to: active, parameters, now: now, into: &output)
    }
  }

  /// A PDU longer than ATT_MTU: never cut into a value. An indication is confirmed, a response fails its procedure.
  mutating func receiveTooLong(_ opcode: ATTOpcode, now: Instant, into output: inout ATTOutput) {
    if opcode == .handleValueIndication {
      output.outgoing.append(.confirmation) { $0.u8(ATTOpcode.handleValueConfirmation.rawValue) }
    }
    guard case .active(let active) = state,
      opcode == .errorResponse || active.request.rawValue + 1 == opcode.rawValue
    else { return }
    complete(active, failure: .invalidResponse(request: active.request), now: now, into: &output)
  }

  /// Whether the outstanding request's time is over, and for which request.
  func expired(_ now: Instant) -> ATTBearerFailure? {
    guard case .active(let active) = state, active.deadline <= now else { return nil }
    return .responseTimedOut(request: active.request)
  }

  /// Ends every procedure, the active one with `activeError`.
  mutating func close(activeError: GATTError, into output: inout ATTOutput) {
    if case .active(let active) = state {
      if case .abandoned = active.phase {} else { fail(active.job, activeError, into: &output) }
    }
    state = .closed
    heldCommands.removeAll()
    while let job = queue.first {
      queue.removeFirst { _, _ in }
      fail(job, .bearerClosed, into: &output)
    }
  }

  // MARK: Starting

  mutating func startNext(now: Instant, into output: inout ATTOutput) {
    state = .idle
    while case .idle = state, let job = queue.first {
      var bytes = ByteWriter()
      swap(&bytes, &work)
      bytes.removeAll()
      queue.removeFirst { _, span in bytes.bytes(span) }
      swap(&bytes, &work)
      begin(job, now: now, into: &output)
    }
  }

  /// Sends the first request of a procedure whose octets are in `work`.
  mutating func begin(_ job: Job, now: Instant, into output: inout ATTOutput) {
    let mtu = output.mtu
    switch job.procedure {
    case .exchangeMTU:
      beginMTUExchange(job, now: now, into: &output)
    case .discovery(let kind, let range):
      discovery = Discovery(kind, range)
      sendDiscoveryRequest(job, now: now, into: &output)
    case .readByUUID(let uuid, let range):
      send(.readByTypeRequest, job, .readByUUID, now: now, into: &output) { writer in
        writer.u16(range.lowerBound)
        writer.u16(range.upperBound)
        uuid.encode(into: &writer)
      }
    case .read(let handle):
      send(.readRequest, job, .read(handle: handle), now: now, into: &output) { $0.u16(handle) }
    case .readMultiple(let variable):
      guard work.count >= 4, work.count <= mtu - 1 else {
        return fail(job, .valueTooLong(count: work.count), into: &output)
      }
      let handles = work.bytes
      let opcode = variable ? ATTOpcode.readMultipleVariableRequest : .readMultipleRequest
      send(opcode, job, variable ? .readMultipleVariable : .readMultiple, now: now, into: &output) {
        $0.bytes(handles)
      }
    case .write(let handle):
      guard work.count <= mtu - 3 else {
        return sendPart(firstPart(of: handle, mtu), of: job, now: now, into: &output)
      }
      let value = work.bytes
      send(.writeRequest, job, .write, now: now, into: &output) { writer in
        writer.u16(handle)
        writer.bytes(value)
      }
    case .reliableWrite:
      guard let part = recordedPart(at: 0, mtu) else {
        return output.events.append(.written(token: job.token, nil))
      }
      sendPart(part, of: job, now: now, into: &output)
    case .barrier: output.events.append(.barrierPassed(token: job.token))
    }
  }

  private mutating func beginMTUExchange(_ job: Job, now: Instant, into output: inout ATTOutput) {
    guard !isMTURequested, !output.isMTUExchanged else {
      output.events.append(.mtuExchanged(token: job.token, .success(output.mtu)))
      return
    }
    isMTURequested = true
    let rxMTU = output.rxMTU
    send(.exchangeMTURequest, job, .exchangeMTU, now: now, into: &output) { $0.u16(rxMTU) }
  }

  private mutating func sendDiscoveryRequest(_ job: Job, now: Instant, into output: inout ATTOutput) {
    var opcode = ATTOpcode.readByGroupTypeRequest
    output.outgoing.append(.request) { opcode = discovery.writeRequest(into: &$0) }
    expectResponse(to: opcode, job, .discovery, now: now)
  }

  mutating func send(
    _ opcode: ATTOpcode, _ job: Job, _ phase: Phase, now: Instant, into output: inout ATTOutput,
    _ parameters: (inout ByteWriter) -> Void
  ) {
    output.outgoing.append(.request) { writer in
      writer.u8(opcode.rawValue)
      parameters(&writer)
    }
    expectResponse(to: opcode, job, phase, now: now)
  }

  private mutating func expectResponse(to request: ATTOpcode, _ job: Job, _ phase: Phase, now: Instant) {
    state = .active(Active(job: job, phase: phase, request: request, deadline: now + ATTLimits.transactionTimeout))
  }

  // MARK: Responses

  private mutating func receiveResponse(
    to active: Active, _ parameters: RawSpan, now: Instant, into output: inout ATTOutput
  ) {
    do throws(DecodeError) {
      switch active.phase {
      case .exchangeMTU:
        output.exchangeMTU(peer: try ATTExchangeMTUResponse.decode(parameters).serverRxMTU)
        complete(active, now: now, into: &output)
      case .discovery:
        let step = try discovery.receive(parameters)
        advanceDiscovery(active, step, now: now, into: &output)
      case .readByUUID:
        try receiveValues(active, parameters, now: now, into: &output)
      case .read(let handle):
        work.removeAll()
        receivePart(active, handle, parameters, now: now, into: &output)
      case .readBlob(let handle):
        receivePart(active, handle, parameters, now: now, into: &output)
      case .readMultiple:
        work.removeAll()
        work.bytes(parameters)
        complete(active, now: now, into: &output)
      case .readMultipleVariable:
        try receiveVariableValues(active, parameters, now: now, into: &output)
      case .prepareWrite(let part):
        receiveEcho(active, part, parameters, now: now, into: &output)
      case .write, .executeWrite:
        try ByteReader(parameters).expectEnd()
        complete(active, now: now, into: &output)
      case .cancelWrite(let error):
        complete(active, failure: error, now: now, into: &output)
      case .resync: finishResync(active, try Self.hash(in: parameters), now: now, into: &output)
      case .restart: begin(active.job, now: now, into: &output)
      case .abandoned(let cancelsWrite): endAbandoned(active, cancelsWrite, now: now, into: &output)
      }
    } catch {
      complete(active, failure: .invalidResponse(request: active.request), now: now, into: &output)
    }
  }

  private mutating func advanceDiscovery(
    _ active: Active, _ step: Discovery.Step, now: Instant, into output: inout ATTOutput
  ) {
    switch step {
    case .more: sendDiscoveryRequest(active.job, now: now, into: &output)
    case .done: complete(active, now: now, into: &output)
    }
  }

  /// A part of a value: the next one is asked for while a part fills its response (Part G 4.8.3).
  private mutating func receivePart(
    _ active: Active, _ handle: UInt16, _ part: RawSpan, now: Instant, into output: inout ATTOutput
  ) {
    let room = ATTLimits.valueMax - work.count
    work.bytes(part.extracting(first: room))
    guard part.byteCount == output.mtu - 1, work.count < ATTLimits.valueMax else {
      return complete(active, now: now, into: &output)
    }
    let offset = UInt16(truncatingIfNeeded: work.count)
    send(.readBlobRequest, active.job, .readBlob(handle: handle), now: now, into: &output) { writer in
      writer.u16(handle)
      writer.u16(offset)
    }
  }

  private mutating func receiveValues(
    _ active: Active, _ parameters: RawSpan, now: Instant, into output: inout ATTOutput
  ) throws(DecodeError) {
    guard case .readByUUID(_, let range) = active.job.procedure else { return }
    let response = try ATTReadByTypeResponse.decode(parameters)
    var previous = range.lowerBound
    for (index, entry) in response.entries.enumerated() {
      guard range.contains(entry.handle), index == 0 || entry.handle > previous else {
        throw .invalidValue(field: "Attribute Handle", value: UInt64(entry.handle), offset: 0)
      }
      previous = entry.handle
    }
    let values = response.entries.map {
      GATTReadValue(handle: $0.handle, value: output.keep($0.value.span.bytes))
    }
    output.events.append(.valuesRead(token: active.job.token, .success(values)))
    startNext(now: now, into: &output)
  }

  private mutating func receiveVariableValues(
    _ active: Active, _ parameters: RawSpan, now: Instant, into output: inout ATTOutput
  ) throws(DecodeError) {
    let entries = try ATTReadMultipleVariableResponse.decode(parameters).entries
    var handles = ByteReader(work.bytes.span.bytes)
    var values: [GATTReadValue] = []
    for entry in entries {
      values.append(GATTReadValue(handle: try handles.u16(), value: output.keep(entry.value.span.bytes)))
    }
    output.events.append(.valuesRead(token: active.job.token, .success(values)))
    startNext(now: now, into: &output)
  }

  private mutating func receiveError(_ parameters: RawSpan, now: Instant, into output: inout ATTOutput) {
    guard case .active(let active) = state else { return }
    guard let response = try? ATTErrorResponse.decode(parameters), response.error.rawValue != 0 else {
      return complete(active, failure: .invalidResponse(request: active.request), now: now, into: &output)
    }
    guard response.requestOpcode == active.request else { return }
    let failure = GATTError.att(response.error, handle: response.handle)
    switch active.phase {
    case .discovery where response.error == .attributeNotFound && discovery.endsWithNotFound:
      advanceDiscovery(active, discovery.receiveNotFound(), now: now, into: &output)
    case .readBlob where response.error == .attributeNotLong || response.error == .invalidOffset:
      // The value ends exactly where the parts so far end.
      complete(active, now: now, into: &output)
    case .prepareWrite(let part) where !part.isFirst:
      sendExecute(active.job, .cancelWrite(failure), now: now, into: &output)
    case .resync: finishResync(active, nil, now: now, into: &output)
    case .restart: begin(active.job, now: now, into: &output)
    case .abandoned(let cancelsWrite): endAbandoned(active, cancelsWrite, now: now, into: &output)
    case .cancelWrite(let first):
      complete(active, failure: first, now: now, into: &output)
    case .exchangeMTU, .discovery, .readByUUID, .read, .readBlob, .readMultiple, .readMultipleVariable, .write,
      .prepareWrite, .executeWrite:
      complete(active, failure: failure, now: now, into: &output)
    }
  }

  // MARK: Ends

  /// The active procedure succeeded: its event, and the next one.
  private mutating func complete(_ active: Active, now: Instant, into output: inout ATTOutput) {
    let token = active.job.token
    switch active.job.procedure {
    case .exchangeMTU: output.events.append(.mtuExchanged(token: token, .success(output.mtu)))
    case .discovery(let kind, _): output.events.append(discoveryEvent(kind, token))
    case .readByUUID, .readMultiple(variable: true): break
    case .read, .readMultiple(variable: false):
      output.events.append(.valueRead(token: token, .success(output.keep(work.bytes.span.bytes))))
    case .write, .reliableWrite: output.events.append(.written(token: token, nil))
    case .barrier: output.events.append(.barrierPassed(token: token))
    }
    startNext(now: now, into: &output)
  }

  private func discoveryEvent(_ kind: DiscoveryKind, _ token: UInt64) -> ATTEvent {
    switch kind {
    case .primaryServices, .primaryServicesByUUID: .servicesDiscovered(token: token, .success(discovery.services))
    case .includedServices: .includedServicesDiscovered(token: token, .success(discovery.includes))
    case .characteristics: .characteristicsDiscovered(token: token, .success(discovery.characteristics))
    case .descriptors: .descriptorsDiscovered(token: token, .success(discovery.descriptors))
    }
  }

  /// The active procedure failed. If it is out of sync, it may go on after all.
  private mutating func complete(
    _ active: Active, failure: GATTError, now: Instant, into output: inout ATTOutput
  ) {
    switch active.phase {
    case .resync: return finishResync(active, nil, now: now, into: &output)
    case .abandoned: return startNext(now: now, into: &output)
    default: break
    }
    if case .att(.databaseOutOfSync, _) = failure, active.job.needsResync {
      return beginResync(active.job, now: now, into: &output)
    }
    fail(active.job, failure, into: &output)
    startNext(now: now, into: &output)
  }

  func fail(_ job: Job, _ error: GATTError, into output: inout ATTOutput) {
    Self.fail(job, error, into: &output)
  }

  static func fail(_ job: Job, _ error: GATTError, into output: inout ATTOutput) {
    let token = job.token
    let event: ATTEvent =
      switch job.procedure {
      case .exchangeMTU: .mtuExchanged(token: token, .failure(error))
      case .discovery(.primaryServices, _), .discovery(.primaryServicesByUUID, _):
        .servicesDiscovered(token: token, .failure(error))
      case .discovery(.includedServices, _): .includedServicesDiscovered(token: token, .failure(error))
      case .discovery(.characteristics, _): .characteristicsDiscovered(token: token, .failure(error))
      case .discovery(.descriptors, _): .descriptorsDiscovered(token: token, .failure(error))
      case .readByUUID, .readMultiple(variable: true): .valuesRead(token: token, .failure(error))
      case .read, .readMultiple(variable: false): .valueRead(token: token, .failure(error))
      case .write, .reliableWrite: .written(token: token, error)
      case .barrier: .barrierPassed(token: token)
      }
    output.events.append(event)
  }

  // MARK: Values from the server

  /// A handle and the value that follows it; nil if the handle is cut.
  private static func value(_ parameters: RawSpan, into output: inout ATTOutput) -> (UInt16, Range<Int>)? {
    var reader = ByteReader(parameters)
    guard let handle = try? reader.u16() else { return nil }
    let rest = reader.rest()
    return (handle, output.keep(rest))
  }

  /// All values or, if one is cut, none.
  private static func receiveMultiple(_ parameters: RawSpan, into output: inout ATTOutput) {
    guard let notification = try? ATTMultipleHandleValueNotification.decode(parameters) else { return }
    for entry in notification.entries {
      let value = output.keep(entry.value.span.bytes)
      output.events.append(.notification(handle: entry.handle, value: value))
    }
  }
}
