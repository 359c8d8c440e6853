// SPDX-License-Identifier: Apache-2.0

import BLECore
import BLEHCI

/// The host's line of commands to its controller, with what goes out and what has come back.
struct HostCommands {
  private var queue = CommandQueue<HostCommand>()
  private var completions: [CommandCompletion<HostCommand>] = []
  /// Packets for the transport, commands and ACL data in the order in which they were released.
  var out = PacketQueue<HCIPacketType>()
  /// The queue's, kept here as it is asked for after each input of the host.
  private(set) var nextDeadline: Instant?
  /// The time of the input that is being handled.
  var now = Instant.zero

  mutating func enqueue(_ command: some HCICommand, context: HostCommand) {
    queue.enqueue(command, context: context, now: now, out: &out)
    nextDeadline = queue.nextDeadline
  }

  /// Takes Command Complete or Command Status; a malformed one is ignored, and the command's deadline passes.
  mutating func receive(_ code: HCIEventCode, _ parameters: RawSpan) {
    _ = try? queue.receive(code, parameters, now: now, completions: &completions, out: &out)
    nextDeadline = queue.nextDeadline
  }

  mutating func handleTimeout() {
    queue.handleTimeout(now: now, completions: &completions, out: &out)
    nextDeadline = queue.nextDeadline
  }

  var hasCompletions: Bool { !completions.isEmpty }

  /// The commands that ended since the last call.
  mutating func takeCompletions() -> [CommandCompletion<HostCommand>] {
    guard !completions.isEmpty else { return [] }
    defer { completions.removeAll(keepingCapacity: true) }
    return completions
  }
}

extension CommandOutcome {
  /// The status; a controller that did not answer counts as Hardware Failure.
  var statusCode: HCIStatus { status ?? .hardwareFailure }
}
