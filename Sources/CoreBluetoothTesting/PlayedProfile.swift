// SPDX-License-Identifier: Apache-2.0

import BLECore
import BLEPlayer
import BLEProfile
import BLERadio
import BLESystem
import Synchronization

/// A peripheral without an app: a device of a world that plays a profile.
///
/// `@unchecked Sendable`: touched by the conductor alone.
final class PlayedProfile: @unchecked Sendable {
  private enum SetUp: Equatable {
    case waitingForPower
    case publishing(RequestToken, index: Int)
    case advertising
  }

  private var player: ProfilePlayer
  private let radio: SteppedRadio
  private var link: (any SystemLink)?
  private var setUp = SetUp.waitingForPower
  private var isPublished = false
  private var lastToken: RequestToken = 0
  private var credits = 0
  /// Values that wait for room, the newest of each characteristic, in the order of the first.
  private var waiting: [(id: LocalAttributeID, value: [UInt8])] = []
  private var timers: [any SchedulerTimer] = []

  private init(_ profile: Profile, _ radio: SteppedRadio) {
    self.radio = radio
    player = ProfilePlayer(profile, now: Self.time(.zero))
  }

  /// Plays `profile` on `device` from the present instant on.
  static func play(_ profile: Profile, on device: SteppedDevice, _ radio: SteppedRadio) -> PlayedProfile {
    let played = PlayedProfile(profile, radio)
    radio.execute { played.begin(device) }
    return played
  }

  private func begin(_ device: SteppedDevice) {
    player = ProfilePlayer(player.profile, now: now)
    let link = device.open { [weak self] events in
      for event in events { self?.handle(event) }
    }
    self.link = link
    startTimers()
  }

  /// Takes all services back and publishes those of `profile`, as after an update of the firmware.
  func change(to profile: Profile) {
    radio.execute { [self] in
      player = ProfilePlayer(profile, now: now)
      waiting = []
      isPublished = false
      startTimers()
      link?.send(.removeAllServices)
      if setUp != .waitingForPower {
        link?.send(.stopAdvertising)
        publish(at: 0)
      }
    }
  }

  func stop() { radio.execute { [self] in end() } }

  private func end() {
    link?.close()
    link = nil
    timers = []
  }

  private func startTimers() {
    timers = player.periods.map { index, period in
      var next = radio.simulator.now + period
      let box = TimerBox()
      let timer = radio.simulator.makeTimer { [weak self] in
        self?.tick(index)
        next = next + period
        box.timer?.arm(at: next)
      }
      box.timer = timer
      timer.arm(at: next)
      return timer
    }
  }

  private final class TimerBox { weak var timer: (any SchedulerTimer)? }

  /// The profile's clock: the world began at a fixed date.
  private static func time(_ instant: Instant) -> ProfileTime {
    let milliseconds = instant.nanoseconds / 1_000_000
    return ProfileTime(
      unixMilliseconds: Timeline.epoch / 1000 + milliseconds, utcOffset: 0, uptimeMilliseconds: milliseconds)
  }

  private var now: ProfileTime { Self.time(radio.simulator.now) }

  // MARK: - Events

  private func handle(_ event: SystemEvent) {
    switch event {
    case .stateChanged(let state): changeState(to: state)
    case .serviceAdded(let token, _):
      // One that is refused is left out; the peer's users see what there is.
      if case .publishing(token, let index) = setUp { publish(at: index + 1) }
    case .readRequested(let request, _, let id, let offset): read(request, id, offset)
    case .writeRequested(let request, _, let writes, let needsResponse): write(request, writes, needsResponse)
    case .updateCreditsGranted(let count):
      credits += count
      sendWaiting()
    default: break  // Of the other role, or nothing to do.
    }
  }

  private func changeState(to state: AdapterState) {
    setUp = .waitingForPower
    waiting = []
    credits = 0
    if state == .resetting { isPublished = false }
    guard state == .poweredOn else { return }
    if isPublished { advertise() } else { publish(at: 0) }
  }

  private func publish(at index: Int) {
    guard index < player.services.count else {
      isPublished = true
      return advertise()
    }
    lastToken += 1
    setUp = .publishing(lastToken, index: index)
    var service = player.services[index]
    // Also what never changes is asked for, so that the device's rules apply to it.
    for characteristic in service.characteristics.indices where service.characteristics[characteristic].read != .never {
      service.characteristics[characteristic].value = nil
    }
    link?.send(.addService(lastToken, service))
  }

  private func advertise() {
    setUp = .advertising
    lastToken += 1
    link?.send(
      .startAdvertising(lastToken, localName: player.profile.name, services: player.profile.advertisedServices))
  }

  private func read(_ request: RemoteRequestID, _ id: LocalAttributeID, _ offset: Int) {
    switch player.read(id, offset: offset, now: now) {
    case .success(let octets): link?.send(.respond(request, 0, octets))
    case .failure(let error): link?.send(.respond(request, error.code, nil))
    }
  }

  private func write(_ request: RemoteRequestID, _ writes: [RemoteWrite], _ needsResponse: Bool) {
    switch player.write(writes) {
    case .failure(let error): if needsResponse { link?.send(.respond(request, error.code, nil)) }
    case .success(let values):
      if needsResponse { link?.send(.respond(request, 0, nil)) }
      for (id, value) in values where player.notifies(id) { send(value, of: id) }
    }
  }

  private func tick(_ index: Int) {
    guard let (id, value) = player.step(index, now: now), setUp == .advertising else { return }
    send(value, of: id)
  }

  private func send(_ value: [UInt8], of id: LocalAttributeID) {
    if let index = waiting.firstIndex(where: { $0.id == id }) {
      waiting[index].value = value
    } else {
      waiting.append((id, value))
    }
    sendWaiting()
  }

  private func sendWaiting() {
    while credits > 0, let (id, value) = waiting.first {
      waiting.removeFirst()
      credits -= 1
      link?.send(.updateValue(id, value, nil))
    }
  }
}
