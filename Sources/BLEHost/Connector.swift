// SPDX-License-Identifier: Apache-2.0

import BLECore
import BLEHCI

/// The pending connections of one controller: which peers are wanted, and how the controller is brought to connect
/// them. Nothing times out: a peer stays wanted until it is connected, refused or not wanted any more.
///
///                 wanted, heard just now                    connected
///     idle ──────────────────────────► initiating(peer) ─────────────► idle
///      │  ▲                                │ 4 s passed
///      │  └──────────── ended ─────────── cancelling
///      │ wanted, nobody scans                 ▲ 10 s passed, client scans, list changes
///      ├──────────────────────────► initiating(list)
///      │ the list cannot be used, or a client scans
///      └──────────────────────────► listening: the scan tells when the peer advertises
///
/// A controller that gives up on its own is asked again after a pause, which doubles each time.
///
/// Initiating by Filter Accept List costs least. It is left now and then to listen for 2 s: a peer that is heard then
/// although the list did not connect it is connected directly, and after the second time the list is not used again
/// on this controller: some ignore it.
struct Connector {
  enum Step { case clearList, addToList(DeviceAddress), create(Target), cancel }

  enum Target: Hashable {
    case peer(DeviceAddress)
    case acceptList
  }

  private enum State: Equatable {
    case idle
    /// Waits for the scan to tell that a wanted peer advertises, until the instant if there is one.
    case listening(until: Instant?)
    case initiating(Target, until: Instant)
    case cancelling(Target, until: Instant)
    /// The controller failed; it is given a moment before it is asked again.
    case pausing(until: Instant)
    /// The controller neither connects nor ends connecting.
    case stuck
  }

  /// What the host has to see to.
  struct Needs {
    /// A scan on the connector's behalf.
    var listens = false
    /// No scanning: many controllers cannot scan and initiate at once.
    var silence = false
  }

  private var state = State.idle
  private var wanted: [DeviceAddress] = []
  /// What was decided and not yet sent.
  private var order: Target?
  /// When each wanted peer was last heard advertising connectably.
  private var heard: [DeviceAddress: Instant] = [:]
  /// How many there may be before those are dropped that are not recent: twice as many as were left the last time, so
  /// that an advertisement costs the same in a crowd.
  private var heardMax = heardMaxMin
  private var listFailures = 0
  /// The Filter Accept List as it is in the controller; nil if that is not known.
  private var listed: [DeviceAddress]?
  /// How often in a row the controller gave up on its own.
  private var failures = 0
  private var isListUnusable: Bool
  private let listSize: Int
  private let own: DeviceAddress
  private let configuration: HostConfiguration
  /// Whether somebody else wants to scan.
  private var clientScans = false

  private static let directLimit = TimeSpan.seconds(4)
  private static let listPeriod = TimeSpan.seconds(10)
  private static let listenPeriod = TimeSpan.seconds(2)
  private static let cancelLimit = TimeSpan.seconds(2)
  private static let heardMaxMin = 256
  private static let firstPause = TimeSpan.milliseconds(20)
  /// Pauses double so many times, to 2.5 s.
  private static let failuresCounted = 8
  private static let heardIsRecent = TimeSpan.milliseconds(1500)

  init(info: ControllerInfo, configuration: HostConfiguration) {
    own = info.ownAddress
    listSize = info.filterAcceptListSize
    isListUnusable = info.quirks.contains(.acceptListIgnored) || listSize == 0
    self.configuration = configuration
  }

  var needs: Needs {
    switch state {
    case .idle, .pausing, .stuck: Needs()
    case .listening: Needs(listens: true)
    case .initiating, .cancelling: Needs(silence: true)
    }
  }

  var nextDeadline: Instant? {
    switch state {
    case .idle, .stuck: nil
    case .listening(let until): until
    case .initiating(_, let until), .cancelling(_, let until), .pausing(let until): until
    }
  }

  /// Whether the controller cannot be brought out of initiating: only a reset helps.
  var isStuck: Bool { state == .stuck }

  // MARK: - Inputs

  mutating func want(_ peer: DeviceAddress, now: Instant, into commands: inout HostCommands) {
    guard !wanted.contains(peer) else { return }
    wanted.append(peer)
    if case .initiating(.acceptList, _) = state {
      cancel(.acceptList, now: now, into: &commands)
    } else {
      reconsider(now: now)
    }
  }

  mutating func unwant(_ peer: DeviceAddress, now: Instant, into commands: inout HostCommands) {
    guard let index = wanted.firstIndex(of: peer) else { return }
    wanted.remove(at: index)
    heard[peer] = nil
    switch state {
    case .initiating(.peer(peer), _): cancel(.peer(peer), now: now, into: &commands)
    case .initiating(.acceptList, _): cancel(.acceptList, now: now, into: &commands)
    case .listening where wanted.isEmpty: state = .idle
    case .idle, .listening, .initiating, .cancelling, .pausing, .stuck: break
    }
  }

  mutating func clientScans(_ scans: Bool, now: Instant, into commands: inout HostCommands) {
    clientScans = scans
    switch state {
    case .initiating(.acceptList, _) where scans: cancel(.acceptList, now: now, into: &commands)
    case .listening where !scans: reconsider(now: now)
    case .idle, .listening, .initiating, .cancelling, .pausing, .stuck: break
    }
  }

  /// A connectable advertisement was heard.
  mutating func hear(_ peer: DeviceAddress, now: Instant) {
    heard[peer] = now
    if heard.count > heardMax {
      heard = heard.filter { now - $0.value < Self.heardIsRecent }
      heardMax = max(Self.heardMaxMin, 2 * heard.count)
    }
    guard case .listening(let until) = state, wanted.contains(peer) else { return }
    if until != nil {
      // The list was tried just before and did not connect a peer that advertises.
      listFailures += 1
      if listFailures >= 2 { isListUnusable = true }
    }
    create(.peer(peer), now: now)
  }

  /// Command Status of LE Create Connection, or of preparing the list. A refusal for good names its peer.
  mutating func complete(
    _ step: Step, _ status: HCIStatus, now: Instant
  ) -> DeviceAddress? {
    guard status != .success else { return nil }
    switch step {
    case .clearList: listed = nil
    case .addToList(let peer):
      // Not in the list: found by listening instead.
      listed = nil
      if wanted.contains(peer) { isListUnusable = true }
    case .cancel: break  // Command Disallowed: the connection came first, its event follows.
    case .create(let target):
      guard case .initiating(target, _) = state else { return nil }
      return refused(target, status, now: now)
    }
    return nil
  }

  private mutating func refused(
    _ target: Target, _ status: HCIStatus, now: Instant
  ) -> DeviceAddress? {
    switch (target, status) {
    case (_, .commandDisallowed), (.acceptList, _):
      // Perhaps busy with something that ends; listen and try again.
      if case .acceptList = target { isListUnusable = true }
      state = .listening(until: nil)
      heard.removeAll()
      return nil
    case (.peer(let peer), _):
      wanted.removeAll { $0 == peer }
      state = .idle
      reconsider(now: now)
      return peer
    }
  }

  /// LE Connection Complete for the Central role; `peer` nil where it failed or was cancelled.
  mutating func connectionComplete(_ peer: DeviceAddress?, now: Instant) {
    if let peer {
      wanted.removeAll { $0 == peer }
      heard[peer] = nil
      failures = 0
      if case .initiating(.acceptList, _) = state { listFailures = 0 }
    } else if case .initiating = state {
      return pause(now: now)
    }
    switch state {
    case .initiating(.acceptList, _), .cancelling(.acceptList, _):
      if peer == nil, !isListUnusable, !clientScans, isPeriodOver {
        isPeriodOver = false
        state = wanted.isEmpty ? .idle : .listening(until: now + Self.listenPeriod)
        return
      }
    case .idle, .listening, .initiating, .cancelling, .pausing, .stuck: break
    }
    isPeriodOver = false
    state = .idle
    reconsider(now: now)
  }

  /// The controller gave up on its own: asked again at once it might do nothing else for ever.
  private mutating func pause(now: Instant) {
    failures = min(failures + 1, Self.failuresCounted)
    order = nil
    state = .pausing(until: now + Self.firstPause * (1 << (failures - 1)))
  }

  private var isPeriodOver = false

  mutating func handleTimeout(now: Instant, into commands: inout HostCommands) {
    guard let deadline = nextDeadline, deadline <= now else { return }
    switch state {
    case .listening, .pausing:
      state = .idle
      reconsider(now: now)
    case .initiating(let target, _):
      isPeriodOver = target == .acceptList
      cancel(target, now: now, into: &commands)
    case .cancelling: state = .stuck
    case .idle, .stuck: break
    }
  }

  // MARK: - Decisions

  private mutating func reconsider(now: Instant) {
    switch state {
    case .initiating, .cancelling, .pausing, .stuck: return
    case .idle, .listening: break
    }
    guard !wanted.isEmpty else {
      state = .idle
      return
    }
    if let peer = wanted.first(where: { peer in heard[peer].map { now - $0 < Self.heardIsRecent } ?? false }) {
      create(.peer(peer), now: now)
    } else if !isListUnusable, !clientScans, wanted.count <= listSize {
      create(.acceptList, now: now)
    } else {
      state = .listening(until: nil)
    }
  }

  /// Decides to connect; the commands wait in `order` until the controller is silent.
  private mutating func create(_ target: Target, now: Instant) {
    switch target {
    case .peer(let address):
      heard[address] = nil
      state = .initiating(target, until: now + Self.directLimit)
    case .acceptList: state = .initiating(target, until: now + Self.listPeriod)
    }
    order = target
  }

  /// Sends what has been decided. Called when the controller does not scan, or will not once it has answered.
  mutating func sendOrder(into commands: inout HostCommands) {
    guard let target = order else { return }
    order = nil
    var peer = DeviceAddress(.zero, type: .publicDevice)
    switch target {
    case .peer(let address): peer = address
    case .acceptList:
      if listed != wanted { sendList(into: &commands) }
    }
    let parameters = configuration.connectionParameters
    commands.enqueue(
      LECreateConnection(
        scanInterval: configuration.scanInterval, scanWindow: configuration.scanInterval,
        initiatorFilterPolicy: target == .acceptList ? .acceptList : .peerAddress, peerAddressType: peer.type,
        peerAddress: peer.address, ownAddressType: own.type, connectionIntervalMin: parameters.interval,
        connectionIntervalMax: parameters.interval, maxLatency: parameters.latency,
        supervisionTimeout: parameters.supervisionTimeout, minCELength: ConnectionEventLength(rawValue: 0),
        maxCELength: ConnectionEventLength(rawValue: 0)),
      context: .connecting(.create(target)))
  }

  private mutating func sendList(into commands: inout HostCommands) {
    listed = wanted
    commands.enqueue(LEClearFilterAcceptList(), context: .connecting(.clearList))
    for address in wanted {
      commands.enqueue(
        LEAddDeviceToFilterAcceptList(addressType: address.type, address: address.address),
        context: .connecting(.addToList(address)))
    }
  }

  private mutating func cancel(_ target: Target, now: Instant, into commands: inout HostCommands) {
    if order != nil {
      order = nil
      state = .idle
      reconsider(now: now)
      return
    }
    commands.enqueue(LECreateConnectionCancel(), context: .connecting(.cancel))
    state = .cancelling(target, until: now + Self.cancelLimit)
  }
}
