// SPDX-License-Identifier: Apache-2.0

import CTestingHooks
import Foundation
import Synchronization

/// The one thread that moves all worlds of the process.
///
/// It turns to each world in turn. A world in virtual time goes on when nothing of its apps is under way; between two
/// looks it waits for the hooks to say that something has changed.
final class Conductor: Sendable {
  static let shared = Conductor()

  private struct State {
    var worlds: [WorldCore] = []
    var isRunning = false
  }

  private let state = Mutex(State())
  /// The outcome of the self-test, once it has been made.
  private let outcome = Mutex<VirtualTimeRefusal??>(nil)

  private init() {
    ct_set_after { world, at, item in
      guard let item else { return }
      Conductor.shared.delay(world, at, item)
    }
  }

  /// Whether virtual time can be had in this process; the first call tries it.
  func refusal() -> VirtualTimeRefusal? {
    outcome.withLock { outcome in
      if let known = outcome { return known }
      let found = SelfTest.run()
      outcome = .some(found)
      return found
    }
  }

  func add(_ world: WorldCore) {
    let mustStart = state.withLock { state in
      state.worlds.append(world)
      defer { state.isRunning = true }
      return !state.isRunning
    }
    if mustStart {
      let thread = Thread { [self] in run() }
      thread.name = "radio worlds"
      thread.stackSize = 8 << 20
      thread.start()
    }
    ct_signal()
  }

  func remove(_ world: WorldCore) {
    state.withLock { $0.worlds.removeAll { $0 === world } }
    ct_signal()
  }

  /// The calling code is about to wait for `world`: if it works for another one, nobody waits for that now.
  func turn(to world: WorldCore) {
    let current = ct_current()
    if current != 0, current != world.id {
      state.withLock { $0.worlds.first { $0.id == current } }?.setLeft(true)
    }
    world.setLeft(false)
  }

  private func delay(_ world: UInt32, _ at: Int64, _ item: OpaquePointer) {
    guard let core = state.withLock({ $0.worlds.first { $0.id == world } }) else { return ct_submit(item) }
    core.delay(until: at, item)
  }

  /// For ever: a thread costs less than to end it and to begin another with the next world.
  private func run() {
    while true {
      let seen = ct_generation()
      var wait: Int64 = -1
      var hasMoved = false
      for world in state.withLock({ $0.worlds }) {
        switch world.turn() {
        case .moved: hasMoved = true
        case .idle: break
        case .wait(let nanoseconds): wait = wait < 0 ? nanoseconds : min(wait, nanoseconds)
        }
      }
      if !hasMoved, !ct_spin(seen) { ct_wait(seen, wait) }
    }
  }
}

/// Why a process cannot have virtual time.
public struct VirtualTimeRefusal: Error, CustomStringConvertible, Sendable {
  public var description: String
}

/// Finds out whether the hooks see all that they have to, by doing one of each.
private enum SelfTest {
  private static let limit: Int64 = 5_000_000_000

  static func run() -> VirtualTimeRefusal? {
    let executor = MainQueueExecutor.shared.asUnownedSerialExecutor()
    let words = unsafeBitCast(executor, to: (UnsafeMutableRawPointer?, UInt).self)
    if let missing = ct_install(words.0, words.1) {
      return refuse("this Swift runtime has no \(String(cString: missing))")
    }
    let world = ct_world_make()
    guard world != 0 else { return refuse("too many worlds have been made in this process") }
    defer { ct_world_end(world) }
    let before = ct_tally_now()
    let former = ct_enter(world)
    DispatchQueue.global().async {}
    DispatchQueue.global().asyncAfter(deadline: .now() + 1) {}
    Task.detached { try? await Task.sleep(for: .seconds(1)) }
    _ = ct_enter(former)
    guard waits(for: world) else { return refuse("blocks or tasks that were begun did not run within 5 s") }
    // Whether it runs depends on the main thread, which may be busy.
    _ = ct_enter(world)
    Task.detached { @MainActor in }
    _ = ct_enter(former)
    let after = ct_tally_now()
    let seen: [(UInt64, String)] = [
      (after.blocks - before.blocks, "DispatchQueue.async"), (after.jobs - before.jobs, "the tasks of the global pool"),
      (after.main_jobs - before.main_jobs, "the tasks of the main actor"),
      (after.clocks - before.clocks, "the clock that Task.sleep reads"),
      ((after.delays - before.delays) / 2, "DispatchQueue.asyncAfter and Task.sleep"),
    ]
    let missed = seen.filter { $0.0 == 0 }.map(\.1)
    return missed.isEmpty ? nil : refuse("the hooks do not see " + missed.joined(separator: ", "))
  }

  private static func refuse(_ reason: String) -> VirtualTimeRefusal {
    VirtualTimeRefusal(
      description: "virtual time cannot be had in this process: \(reason). It needs the Swift runtime as shared "
        + "libraries (no --static-swift-stdlib); VirtualRadio(speed: .real) works without")
  }

  private static func waits(for world: UInt32) -> Bool {
    let end = DispatchTime.now().uptimeNanoseconds + UInt64(limit)
    while ct_is_busy(world) {
      let seen = ct_generation()
      guard ct_is_busy(world) else { break }
      guard DispatchTime.now().uptimeNanoseconds < end else { return false }
      ct_wait(seen, 10_000_000)
    }
    return true
  }
}

/// The main actor's executor, where a world counts what goes by it; the work is done on the main queue as ever.
final class MainQueueExecutor: SerialExecutor {
  static let shared = MainQueueExecutor()

  func enqueue(_ job: consuming ExecutorJob) {
    ct_enqueue_main(unsafeBitCast(UnownedJob(job), to: UnsafeMutableRawPointer.self))
  }

  func asUnownedSerialExecutor() -> UnownedSerialExecutor { UnownedSerialExecutor(ordinary: self) }
  func checkIsolated() { dispatchPrecondition(condition: .onQueue(.main)) }
}
