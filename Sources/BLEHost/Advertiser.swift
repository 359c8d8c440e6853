// SPDX-License-Identifier: Apache-2.0

import BLECore
import BLEHCI

/// The advertising of one controller: connectable and scannable undirected, legacy PDUs.
///
/// A controller ends advertising when a Central connects; while the content is wanted it is started again at once, or,
/// where the controller cannot advertise beside its links, when one of them ends.
struct Advertiser {
  enum Step { case parameters, data, scanResponse, enable, disable }

  /// What the owner is to be told.
  enum Outcome { case started, failed(HCIStatus) }

  private enum State {
    case off
    case starting
    case on
    /// The controller refused to advertise beside its links.
    case waitingForLink
  }

  private var state = State.off
  private var content: AdvertisingContent?
  private var isReported = false
  /// Answers to commands of an earlier start are not this one's.
  private var generation = 0

  var isWanted: Bool { content != nil }

  mutating func start(
    _ content: AdvertisingContent, own: DeviceAddress, configuration: HostConfiguration,
    into commands: inout HostCommands
  ) {
    switch state {
    case .off, .waitingForLink: break
    case .starting, .on: disable(into: &commands)
    }
    self.content = content
    isReported = false
    generation += 1
    state = .starting
    let interval = configuration.advertisingInterval
    enqueue(
      LESetAdvertisingParameters(
        advertisingIntervalMin: interval.lowerBound, advertisingIntervalMax: interval.upperBound,
        advertisingType: .connectable, ownAddressType: own.type, peerAddressType: .publicDevice, peerAddress: .zero,
        advertisingChannelMap: .all, advertisingFilterPolicy: .all),
      .parameters, into: &commands)
    enqueue(LESetAdvertisingData(data: content.data), .data, into: &commands)
    enqueue(LESetScanResponseData(data: content.scanResponse), .scanResponse, into: &commands)
    enqueue(LESetAdvertisingEnable(enable: true), .enable, into: &commands)
  }

  mutating func stop(into commands: inout HostCommands) {
    switch state {
    case .off, .waitingForLink: break
    case .starting, .on: disable(into: &commands)
    }
    content = nil
    generation += 1
    state = .off
  }

  private func disable(into commands: inout HostCommands) {
    commands.enqueue(LESetAdvertisingEnable(enable: false), context: .other)
  }

  private func enqueue(_ command: some HCICommand, _ step: Step, into commands: inout HostCommands) {
    commands.enqueue(command, context: .advertising(step, generation: generation))
  }

  mutating func complete(_ step: Step, generation: Int, _ status: HCIStatus, hasLinks: Bool) -> Outcome? {
    guard generation == self.generation, case .starting = state else { return nil }
    if status == .success {
      guard step == .enable else { return nil }
      state = .on
      defer { isReported = true }
      return isReported ? nil : .started
    }
    if step == .enable, hasLinks, status == .commandDisallowed || status == .connectionLimitExceeded {
      state = .waitingForLink
      defer { isReported = true }
      return isReported ? nil : .started
    }
    content = nil
    state = .off
    return isReported ? nil : .failed(status)
  }

  /// A Central connected: the controller has ended advertising (Vol 4 Part E 7.8.9).
  mutating func linkMade(into commands: inout HostCommands) { restart(into: &commands) }

  /// A link ended: a controller that could not advertise beside it can now.
  mutating func linkEnded(into commands: inout HostCommands) {
    guard case .waitingForLink = state else { return }
    restart(into: &commands)
  }

  private mutating func restart(into commands: inout HostCommands) {
    guard content != nil else {
      state = .off
      return
    }
    generation += 1
    state = .starting
    enqueue(LESetAdvertisingEnable(enable: true), .enable, into: &commands)
  }
}
