// SPDX-License-Identifier: Apache-2.0

import BLECore
import BLEHCI
import BLERadio
import BLESystem
import CTestingHooks
import Synchronization

/// Writes down what happens in a world.
///
/// Apps that outlive their world still have it. `@unchecked Sendable`: what is not locked is set before anything happens.
final class Recorder: @unchecked Sendable {
  let timeline = Timeline()
  private let recording: Recording
  private weak var core: WorldCore?
  private weak var surroundings: Surroundings?

  init(_ recording: Recording) { self.recording = recording }

  /// Before the world runs.
  func attach(_ core: WorldCore, _ surroundings: Surroundings) {
    self.core = core
    self.surroundings = surroundings
    if recording.contains(.air) { core.radio.world.observer = self }
  }

  func add(_ record: Timeline.Record, _ device: String) { timeline.add(record, device, at: core?.now ?? .zero) }

  func watch(_ activity: ActivityCounter) -> SteppedRadio.Watch {
    var watch = SteppedRadio.Watch()
    watch.handedOver = { _, count in activity.add(count) }
    watch.workArrived = { ct_signal() }
    if recording.contains(.apps) {
      watch.called = { [self] device, request in add(.call(request), device) }
      watch.delivered = { [self] device, event in
        if event.isCallback { add(.callback(event), device) }
      }
    }
    if recording.contains(.hci) {
      watch.hci = { [self] device, direction, type, payload in add(.hci(direction, type, payload), device) }
    }
    return watch
  }
}

extension Recorder: AirObserver {
  func observe(_ packet: AirPacketInfo, pdu: RawSpan) {
    add(.air(packet, [UInt8](pdu)), surroundings?.name(of: packet.sender) ?? "")
  }
}
