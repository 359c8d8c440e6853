// SPDX-License-Identifier: Apache-2.0

public import BLECore

/// What became of a command.
public enum CommandOutcome: Hashable, Sendable {
  /// Command Complete came with these return parameters (from Status on).
  case complete([UInt8])
  /// Command Status came: success means that the controller has begun and an event will follow.
  case status(HCIStatus)
  /// The controller did not answer in time (or never gave a credit to send the command with), or was reset first.
  case timedOut

  /// The status in the answer; nil if there was none.
  public var status: HCIStatus? {
    switch self {
    case .complete(let parameters): parameters.first.map { HCIStatus(rawValue: $0) }
    case .status(let status): status
    case .timedOut: nil
    }
  }

  /// The return parameters of `command`, all zero but the status if Command Status came instead. Octets that a
  /// later version of the command may have appended are ignored. Nil if there was no answer; throws if it is
  /// too short.
  public func returnParameters<C: HCICommand>(of command: C.Type) throws(DecodeError) -> C.ReturnParameters? {
    switch self {
    case .complete(let parameters):
      let bytes = parameters.span.bytes
      var reader = ByteReader(bytes)
      return try C.ReturnParameters(from: &reader)
    case .status(let status): return C.ReturnParameters(status: status)
    case .timedOut: return nil
    }
  }
}

/// The end of a command that a ``CommandQueue`` sent.
@frozen
public struct CommandCompletion<Context> {
  public var context: Context
  public var opcode: HCIOpcode
  public var outcome: CommandOutcome

  @inlinable
  init(context: Context, opcode: HCIOpcode, outcome: CommandOutcome) {
    self.context = context
    self.opcode = opcode
    self.outcome = outcome
  }
}

/// The commands of one host to its controller: one waiting line, as many on the way as the controller allows
/// (Vol 4 Part E 4.4), each answered within ``timeout`` or given up.
///
///     enqueue -> waiting -> (credit) -> outstanding -> Command Complete / Command Status -> .complete / .status
///                   |                        |
///                   +-- no credit in time ---+-- no answer in time -----------------------> .timedOut
///
/// An answer belongs to the oldest outstanding command with its opcode; without one it only changes the credits.
/// Deviation: the specification lets a host send as many commands as the last event said. Commands that were on
/// the way at that moment are subtracted here, as controllers differ in whether they counted them.
///
/// Host Number Of Completed Packets has no answer and no credit: send it past the queue.
///
/// Inlinable, so that a host gets it specialised for its own context: unspecialised it costs several times as much.
@frozen
public struct CommandQueue<Context> {
  /// How long a controller may take.
  public let timeout: TimeSpan

  @usableFromInline
  @frozen
  struct Outstanding {
    @usableFromInline var context: Context
    @usableFromInline var opcode: HCIOpcode
    @usableFromInline var deadline: Instant

    @inlinable
    init(context: Context, opcode: HCIOpcode, deadline: Instant) {
      self.context = context
      self.opcode = opcode
      self.deadline = deadline
    }
  }

  @usableFromInline var waiting = PacketQueue<(context: Context, opcode: HCIOpcode)>()
  @usableFromInline var outstanding: [Outstanding] = []
  @usableFromInline var credits = 1
  /// Set while commands wait, none is outstanding, and there is no credit.
  @usableFromInline var stallDeadline: Instant?

  @inlinable public init(timeout: TimeSpan = .seconds(2)) { self.timeout = timeout }

  /// Commands waiting or outstanding.
  @inlinable public var count: Int { waiting.count + outstanding.count }

  /// When ``handleTimeout(now:completions:out:)`` is due; nil while nothing waits for the controller.
  @inlinable public var nextDeadline: Instant? {
    outstanding.reduce(stallDeadline) { earliest, entry in earliest.map { min($0, entry.deadline) } ?? entry.deadline }
  }

  /// Puts `command` last in the line; sends it at once if the controller may take it. `context` comes back in the
  /// completion.
  @inlinable
  public mutating func enqueue(
    _ command: some HCICommand, context: Context, now: Instant, out: inout PacketQueue<HCIPacketType>
  ) {
    waiting.append((context, type(of: command).opcode)) { command.encodePacket(into: &$0) }
    sendWaiting(now: now, out: &out)
  }

  /// Takes an event; false if it was neither Command Complete nor Command Status. Throws if it was one of them and
  /// malformed: then nothing has changed.
  @inlinable
  public mutating func receive(
    _ code: HCIEventCode, _ parameters: RawSpan, now: Instant, completions: inout [CommandCompletion<Context>],
    out: inout PacketQueue<HCIPacketType>
  ) throws(DecodeError) -> Bool {
    var reader = ByteReader(parameters)
    if code == .commandComplete {
      let event = try CommandComplete(from: &reader)
      credits = Int(event.numHCICommandPackets)
      complete(event.commandOpcode, .complete(reader.restArray()), completions: &completions)
    } else if code == .commandStatus {
      let event = try CommandStatus(from: &reader)
      credits = Int(event.numHCICommandPackets)
      complete(event.commandOpcode, .status(event.status), completions: &completions)
    } else {
      return false
    }
    sendWaiting(now: now, out: &out)
    return true
  }

  /// Gives up what is overdue at `now` and goes on with the next command.
  @inlinable
  public mutating func handleTimeout(
    now: Instant, completions: inout [CommandCompletion<Context>], out: inout PacketQueue<HCIPacketType>
  ) {
    var index = 0
    while index < outstanding.count {
      guard outstanding[index].deadline <= now else {
        index += 1
        continue
      }
      giveUp(outstanding.remove(at: index), completions: &completions)
      credits = max(credits, 1)
    }
    if let deadline = stallDeadline, deadline <= now {
      stallDeadline = nil
      waiting.removeFirst { tag, _ in
        completions.append(CommandCompletion(context: tag.context, opcode: tag.opcode, outcome: .timedOut))
      }
    }
    sendWaiting(now: now, out: &out)
  }

  /// Forgets all commands without completing them, as after the loss of the transport. The next may be sent at once.
  @inlinable
  public mutating func removeAll() {
    waiting.removeAll()
    outstanding.removeAll(keepingCapacity: true)
    credits = 1
    stallDeadline = nil
  }

  @inlinable
  mutating func complete(
    _ opcode: HCIOpcode, _ outcome: CommandOutcome, completions: inout [CommandCompletion<Context>]
  ) {
    guard let index = outstanding.firstIndex(where: { $0.opcode == opcode }) else { return }
    if opcode == Reset.opcode {
      // What was sent before the reset is forgotten by the controller.
      for entry in outstanding[..<index] { giveUp(entry, completions: &completions) }
      outstanding.removeSubrange(..<index)
    }
    let entry = outstanding.remove(at: opcode == Reset.opcode ? 0 : index)
    completions.append(CommandCompletion(context: entry.context, opcode: opcode, outcome: outcome))
  }

  @inlinable
  func giveUp(_ entry: Outstanding, completions: inout [CommandCompletion<Context>]) {
    completions.append(CommandCompletion(context: entry.context, opcode: entry.opcode, outcome: .timedOut))
  }

  @inlinable
  mutating func sendWaiting(now: Instant, out: inout PacketQueue<HCIPacketType>) {
    while let next = waiting.first, outstanding.count < credits || next.opcode == Reset.opcode {
      waiting.removeFirst { _, packet in out.append(.command, packet) }
      outstanding.append(Outstanding(context: next.context, opcode: next.opcode, deadline: now + timeout))
    }
    if waiting.isEmpty || !outstanding.isEmpty {
      stallDeadline = nil
    } else if stallDeadline == nil {
      stallDeadline = now + timeout
    }
  }
}
