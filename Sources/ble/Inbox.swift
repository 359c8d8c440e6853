// SPDX-License-Identifier: Apache-2.0

import BLESystem
import Dispatch
import Glibc

/// Everything that can happen to a running command, in one order.
enum Input: Sendable {
  case event(SystemEvent)
  /// The time of ``Inbox/setDeadline(after:)`` number n is over.
  case deadline(Int)
  /// One of a profile's periods is over.
  case tick(Int)
  /// SIGINT or SIGTERM.
  case interrupted
}

/// One stream of the system's events, the end of the time allowed, ticks and signals, so that a command waits in one
/// place and nothing needs a lock. Taken from by one task.
final class Inbox {
  private let continuation: AsyncStream<Input>.Continuation
  private let stream: AsyncStream<Input>
  private var iterator: AsyncStream<Input>.Iterator
  private var signals: [any DispatchSourceSignal] = []
  private var timers: [Task<Void, Never>] = []
  private var deadline = 0
  private var deadlineTask: Task<Void, Never>?

  init() {
    (stream, continuation) = AsyncStream.makeStream(of: Input.self)
    iterator = stream.makeAsyncIterator()
  }

  deinit {
    deadlineTask?.cancel()
    for timer in timers { timer.cancel() }
  }

  /// What a session of the system is opened with.
  var eventHandler: SystemEventHandler {
    { [continuation] events in
      for event in events { continuation.yield(.event(event)) }
    }
  }

  /// Makes `.tick(number)` an input, from any thread.
  var ticker: @Sendable (Int32) -> Void {
    { [continuation] number in continuation.yield(.tick(Int(number))) }
  }

  /// From now on SIGINT and SIGTERM are inputs.
  func catchSignals() {
    for number in [SIGINT, SIGTERM] {
      signal(number, SIG_IGN)
      let source = DispatchSource.makeSignalSource(signal: number, queue: .global())
      source.setEventHandler { [continuation] in continuation.yield(.interrupted) }
      source.activate()
      signals.append(source)
    }
  }

  /// Replaces the deadline; nil: none.
  func setDeadline(after seconds: Double?) {
    deadline += 1
    deadlineTask?.cancel()
    deadlineTask = nil
    guard let seconds else { return }
    deadlineTask = Task { [continuation, deadline] in
      do { try await Task.sleep(for: .seconds(seconds)) } catch { return }
      continuation.yield(.deadline(deadline))
    }
  }

  /// Sends `.tick(number)` every so many nanoseconds, without drift.
  func startTicking(_ number: Int, every nanoseconds: Int64) {
    timers.append(
      Task { [continuation] in
        var next = ContinuousClock.now
        while !Task.isCancelled {
          next += .nanoseconds(nanoseconds)
          do { try await Task.sleep(until: next, clock: .continuous) } catch { return }
          continuation.yield(.tick(number))
        }
      })
  }

  /// The next input; a deadline that was replaced meanwhile is passed over.
  func next() async -> Input {
    while let input = await iterator.next() {
      if case .deadline(let number) = input, number != deadline { continue }
      return input
    }
    // The stream never finishes while the inbox lives.
    return .interrupted
  }
}
