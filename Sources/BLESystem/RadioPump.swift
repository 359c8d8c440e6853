// SPDX-License-Identifier: Apache-2.0

import BLERadio
public import BLETransport
public import BLECore

/// Paces a radio's simulated time by the wall clock, on an event loop.
///
/// Simulated time runs as fast as real time, never faster. A process that falls behind (it was stopped, or the machine
/// is busy) does not make up for it: simulated time slips, so that no link times out for want of attention.
///
/// In the ideal air data flows without simulated time passing: what is to be done now need not end. There each turn has
/// a limit of events, so that the loop gets to its other work, and time stands still until all is done.
public final class RadioPump {
  public let loop: EventLoop
  let simulator = Simulator()
  private var timer: (any SchedulerTimer)?
  /// Wall time minus simulated time, in nanoseconds.
  private var offset: Int64
  /// How much simulated time has slipped.
  public private(set) var slipped = TimeSpan.zero

  private let isIdeal: Bool
  private let eventsPerTurn: Int

  private static let latenessMax = TimeSpan.milliseconds(50)
  /// Some hundred packets from host to host.
  private static let idealEventsPerTurn = 512
  private static let idealTurnsMax = 8

  /// Takes over the loop's turns. On the loop's thread. `isIdeal`: the worlds on it have the ideal air.
  public init(loop: EventLoop, isIdeal: Bool = false) {
    self.loop = loop
    self.isIdeal = isIdeal
    eventsPerTurn = isIdeal ? Self.idealEventsPerTurn : .max
    offset = loop.now.nanoseconds
    timer = loop.makeTimer {}
    loop.turnBegan = { [weak self] in self?.catchUp() }
    loop.turnEnded = { [weak self] in self?.endTurn() }
  }

  private func catchUp() {
    var target = Instant(nanoseconds: loop.now.nanoseconds - offset)
    if let next = simulator.nextEventTime, target - next > Self.latenessMax {
      let late = target - next
      offset += late.nanoseconds
      slipped = slipped + late
      target = next
      Log.write(
        .info, "radio", "the process is \(late.nanoseconds / 1_000_000) ms behind; the radio's time slips by that much")
    }
    guard target > simulator.now else { return }
    if !simulator.run(until: target, maximumEvents: eventsPerTurn) {
      offset = loop.now.nanoseconds - simulator.now.nanoseconds
    }
  }

  /// In the ideal air what the turn has brought about happens before the loop waits again.
  private func endTurn() {
    if isIdeal {
      var turns = Self.idealTurnsMax
      while turns > 0, let next = simulator.nextEventTime, next.nanoseconds + offset <= loop.now.nanoseconds {
        catchUp()
        turns -= 1
      }
    }
    rearm()
  }

  private func rearm() {
    if let next = simulator.nextEventTime {
      timer?.arm(at: Instant(nanoseconds: next.nanoseconds + offset))
    } else {
      timer?.disarm()
    }
  }
}
