// SPDX-License-Identifier: Apache-2.0

import BLECore
import Testing

@testable import BLERadio

@Suite struct SimulatorTests {
  @Test func eventsOfOneTimeRunInTheOrderOfArming() {
    let simulator = Simulator()
    var order: [Int] = []
    let timers = (0..<5).map { index in simulator.makeTimer { order.append(index) } }
    for index in [3, 1, 4, 0, 2] { timers[index].arm(at: Instant(nanoseconds: 10)) }
    // Armed again: goes to the end of its time.
    timers[1].arm(at: Instant(nanoseconds: 10))
    simulator.run(until: Instant(nanoseconds: 9))
    #expect(order.isEmpty)
    #expect(simulator.now.nanoseconds == 9)
    simulator.run(until: Instant(nanoseconds: 10))
    #expect(order == [3, 4, 0, 2, 1])
  }

  @Test(arguments: [1, 2, 3, 4] as [UInt64])
  func manyTimersFireAsAReferenceSays(seed: UInt64) {
    let simulator = Simulator()
    var random = SeededGenerator(seed: seed)
    var fired: [Int] = []
    let timers = (0..<200).map { index in simulator.makeTimer { fired.append(index) } }
    var due: [Int: (time: Int64, sequence: Int)] = [:]
    var expected: [Int] = []
    for sequence in 0..<5_000 {
      let index = Int.random(in: 0..<200, using: &random)
      switch Int.random(in: 0..<10, using: &random) {
      case 0..<6:
        let time = simulator.now.nanoseconds + Int64.random(in: -5...50, using: &random)
        timers[index].arm(at: Instant(nanoseconds: time))
        due[index] = (max(time, simulator.now.nanoseconds), sequence)
      case 6, 7:
        timers[index].disarm()
        due[index] = nil
      default:
        let limit = simulator.now.nanoseconds + Int64.random(in: 0...10, using: &random)
        let passed = due.filter { $0.value.time <= limit }.sorted { $0.value < $1.value }
        expected += passed.map(\.key)
        for entry in passed { due[entry.key] = nil }
        simulator.run(until: Instant(nanoseconds: limit))
        #expect(simulator.now.nanoseconds == limit)
      }
      #expect(simulator.nextEventTime?.nanoseconds == due.values.map(\.time).min(), "seed \(seed)")
    }
    #expect(fired == expected, "seed \(seed)")
    #expect(fired.count > 100)
  }

  @Test func timersMayArmAndDisarmFromInside() {
    let simulator = Simulator()
    var ticks: [Int64] = []
    var timer: (any SchedulerTimer)?
    let other = simulator.makeTimer { Issue.record("was disarmed") }
    timer = simulator.makeTimer {
      ticks.append(simulator.now.nanoseconds)
      other.disarm()
      if ticks.count < 3 { timer?.arm(at: simulator.now + .nanoseconds(5)) }
    }
    timer?.arm(at: Instant(nanoseconds: 1))
    other.arm(at: Instant(nanoseconds: 2))
    simulator.advance(by: .nanoseconds(100))
    #expect(ticks == [1, 6, 11])
    #expect(simulator.now.nanoseconds == 100)
    #expect(simulator.firedEventCount == 3)
  }

  /// Timers that arm and disarm themselves and others when they fire, against a list that is searched for the first.
  @Test(arguments: [5, 6, 7, 8] as [UInt64]) func whatHandlersDoIsDoneAsAReferenceSays(seed: UInt64) {
    let simulator = Simulator()
    var due: [Int: (time: Int64, order: Int)] = [:]
    var order = 0
    var expected: [Int] = []
    var fired: [Int] = []
    var timers: [any SchedulerTimer] = []
    var random = SeededGenerator(seed: seed)
    func arm(_ index: Int, at time: Int64) {
      timers[index].arm(at: Instant(nanoseconds: time))
      due[index] = (max(time, simulator.now.nanoseconds), order)
      order += 1
    }
    for index in 0..<30 {
      timers.append(
        simulator.makeTimer {
          fired.append(index)
          if let first = due.min(by: { $0.value < $1.value }) {
            expected.append(first.key)
            due[first.key] = nil
          }
          for _ in 0..<Int.random(in: 0...3, using: &random) where fired.count < 5_000 {
            let other = Int.random(in: 0..<4, using: &random) == 0 ? index : Int.random(in: 0..<30, using: &random)
            if Int.random(in: 0..<3, using: &random) == 0 {
              timers[other].disarm()
              due[other] = nil
            } else {
              arm(other, at: simulator.now.nanoseconds + Int64.random(in: 0...9, using: &random))
            }
            if simulator.nextEventTime?.nanoseconds != due.values.map(\.time).min() { Issue.record("seed \(seed)") }
          }
        })
    }
    while fired.count < 5_000 {
      arm(Int.random(in: 0..<30, using: &random), at: simulator.now.nanoseconds)
      simulator.advance(by: .nanoseconds(50))
    }
    simulator.advance(by: .seconds(1))
    #expect(fired == expected, "seed \(seed)")
  }

  @Test func aTimerEndsWithItsLastReference() {
    let simulator = Simulator()
    var timer: (any SchedulerTimer)? = simulator.makeTimer { Issue.record("has ended") }
    timer?.arm(at: Instant(nanoseconds: 1))
    #expect(simulator.nextEventTime != nil)
    timer = nil
    #expect(simulator.nextEventTime == nil)
    #expect(!simulator.step())
  }

  @Test func whatIsPastFiresAtOnceAndTimeNeverGoesBack() {
    let simulator = Simulator(start: Instant(nanoseconds: 50))
    var times: [Int64] = []
    let timer = simulator.makeTimer { times.append(simulator.now.nanoseconds) }
    timer.arm(at: Instant(nanoseconds: 3))
    #expect(simulator.step())
    simulator.run(until: Instant(nanoseconds: 20))
    #expect(times == [50])
    #expect(simulator.now.nanoseconds == 50)
  }

  @Test func aBudgetLeavesTheRestForLater() {
    let simulator = Simulator()
    var count = 0
    let timers = (0..<10).map { _ in simulator.makeTimer { count += 1 } }
    for timer in timers { timer.arm(at: Instant(nanoseconds: 7)) }
    #expect(!simulator.run(until: Instant(nanoseconds: 100), maximumEvents: 4))
    #expect(count == 4)
    #expect(simulator.now.nanoseconds == 7)
    #expect(simulator.run(until: Instant(nanoseconds: 100), maximumEvents: 6))
    #expect(count == 10)
    #expect(simulator.now.nanoseconds == 100)
  }

  @Test func whoPacesIsToldOfEarlierEventsFromOutsideOnly() {
    let simulator = Simulator()
    var calls: [Int64] = []
    simulator.onNewEarliestEvent = { calls.append(simulator.nextEventTime?.nanoseconds ?? -1) }
    let first = simulator.makeTimer {}
    let second = simulator.makeTimer { first.arm(at: simulator.now + .nanoseconds(1)) }
    first.arm(at: Instant(nanoseconds: 100))
    second.arm(at: Instant(nanoseconds: 200))
    second.arm(at: Instant(nanoseconds: 50))
    #expect(calls == [100, 50])
    simulator.run(until: Instant(nanoseconds: 60))
    #expect(calls == [100, 50])
  }
}
