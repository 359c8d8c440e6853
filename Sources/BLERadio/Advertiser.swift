// SPDX-License-Identifier: Apache-2.0

import BLECore
import BLEHCI

/// The Advertising State of one advertising set, or of the legacy commands (Vol 6 Part B 4.4.2).
///
/// With legacy PDUs the PDU is sent on every used channel in turn; where requests are allowed the advertiser listens T_IFS
/// after it. With extended ones ADV_EXT_IND is, and then comes what it points to; see `AuxiliaryAdvertising.swift`. Events
/// are advInterval + advDelay apart, advDelay being random in 0-10 ms.
final class Advertiser: SimulatorEventHandler, AirUser {
  /// What to send, as far as it was valid.
  struct Parameters: Hashable {
    var properties: AdvertisingEventProperties = [.connectable, .scannable, .legacy]
    var interval = AdvertisingInterval(rawValue: 0x0800)
    var ownAddressType = AddressType.publicDevice
    var peer = DeviceAddress(.zero, type: .publicDevice)
    var channels = AdvertisingChannelMap.all
    var filterPolicy = AdvertisingFilterPolicy.all
    /// dBm.
    var txPower = VirtualController.txPower
    var primaryPHY = AirPHY.le1M
    var secondaryPHY = AirPHY.le1M
    var sid: UInt8 = 0
    var notifiesScanRequests = false
  }

  enum Phase: Hashable {
    case off
    /// Between events.
    case asleep
    /// Between two channels of an event.
    case betweenChannels
    case advertising
    case listening
    /// T_IFS before the scan response.
    case responding
    case sendingResponse
    /// Before a packet on a data channel.
    case beforeAuxiliary(Auxiliary)
    case sendingAuxiliary(Auxiliary)
    /// For a request on a data channel.
    case listeningAuxiliary
  }

  /// Packets on data channels.
  enum Auxiliary: Hashable {
    case advertisement
    case chain
    case scanResponse
    case connectResponse(ConnectionAttempt)
  }

  /// A request that is being answered.
  struct ConnectionAttempt: Hashable {
    var initiator: DeviceAddress
    var request: ConnectionRequestData
    /// When its last bit was in.
    var end: Instant
  }

  /// The set's number; nil: that of the legacy commands.
  let handle: UInt8?
  var parameters = Parameters()
  var data: [UInt8] = []
  var scanResponse: [UInt8] = []
  /// Data is being put together from fragments.
  var fragments: [UInt8]?
  var responseFragments: [UInt8]?
  /// DID of the data.
  var dataIdentifier: UInt16 = 0
  /// LE Set Advertising Set Random Address.
  var randomAddress: BDAddress?

  unowned let controller: VirtualController
  let world: RadioWorld
  private var event: SimulatorEvent?
  private(set) var endpoint: EndpointID?
  var random: SeededGenerator
  var phase = Phase.off
  private(set) var address = DeviceAddress(.zero, type: .publicDevice)
  private(set) var channel: UInt8 = 37
  private var eventStart = Instant.zero
  /// When it ends by itself.
  private var deadline: Instant?
  private var eventsMax: UInt8 = 0
  private(set) var eventCount = 0
  var writer = ByteWriter(capacity: LinkLayer.pduCountMax)
  /// Where the current event's packets on data channels are.
  var auxiliary = AuxiliaryTrain()

  /// 1.28 s (4.4.2.4.3).
  static let highDutyCycleDuration = TimeSpan.microseconds(1_280_000)
  private static let highDutyCycleInterval = TimeSpan.microseconds(3_750)
  private static let delayMax: UInt64 = 10_000
  /// How long to wait for the radio before trying again.
  private static let retryInterval = TimeSpan.microseconds(500)

  init(controller: VirtualController, world: RadioWorld, device: RadioDeviceID, handle: UInt8? = nil) {
    self.controller = controller
    self.world = world
    self.handle = handle
    random = world.generator(device, .advertisingDelay)
    if let handle { random = SeededGenerator(seed: random.next(), purpose: UInt64(handle) + 1) }
    event = world.simulator.makeEvent(self)
    endpoint = world.makeEndpoint(self, device)
  }

  deinit {
    if let event { world.simulator.release(event) }
    if let endpoint { world.release(endpoint) }
  }

  var now: Instant { world.simulator.now }
  var isOn: Bool { phase != .off }
  var user: VirtualController.RadioUser { .advertiser(handle) }
  var isLegacy: Bool { parameters.properties.contains(.legacy) }
  /// Whether connect requests are answered.
  var isConnectable: Bool { parameters.properties.contains(.connectable) }
  var isScannable: Bool { parameters.properties.contains(.scannable) }
  var isDirected: Bool { parameters.properties.contains(.directed) }
  var isHighDutyCycle: Bool { parameters.properties.contains(.highDutyCycleDirected) }
  /// How much weaker than the device can it sends.
  var reduction: Decibels {
    Decibels(hundredths: max(0, Int32(VirtualController.txPower) - Int32(parameters.txPower)) * 100)
  }

  // MARK: - From the controller

  /// Starts with the first event at once.
  ///
  /// - Parameters:
  ///   - duration: zero: until stopped.
  ///   - eventsMax: 0: any number of events.
  func start(address: DeviceAddress, duration: TimeSpan = .zero, eventsMax: UInt8 = 0) {
    self.address = address
    self.eventsMax = eventsMax
    eventCount = 0
    deadline = duration > .zero ? now + duration : nil
    phase = .asleep
    world.register(self)
    arm(at: now)
  }

  func stop() {
    phase = .off
    world.unregister(self)
    if let event { world.simulator.disarm(event) }
    if let endpoint { world.ignore(endpoint) }
    controller.releaseRadio(user)
  }

  /// The address changes from the next event on.
  func setAddress(_ address: DeviceAddress) { self.address = address }

  /// The next event is at `instant`.
  func hurry(to instant: Instant) { if phase == .asleep { arm(at: instant) } }

  /// A connection event takes the radio: the rest of this advertising event is dropped.
  func preempt() { if phase != .off, phase != .asleep { endEvent() } }

  // MARK: - Events

  func handleEvent(_ argument: UInt32) {
    switch phase {
    case .off, .advertising, .sendingResponse, .sendingAuxiliary: break
    case .asleep: beginEvent()
    case .betweenChannels: advertise()
    case .responding: respond()
    case .beforeAuxiliary(let kind): sendAuxiliary(kind)
    case .listening: if !waitsForReception() { goToNextChannel() }
    case .listeningAuxiliary: if !waitsForReception() { endEvent() }
    }
  }

  private func waitsForReception() -> Bool {
    guard let endpoint, let end = world.receptionEnd(endpoint) else { return false }
    arm(at: end + .nanoseconds(1))
    return true
  }

  private func beginEvent() {
    if let deadline, now >= deadline { return expire(.advertisingTimeout) }
    guard controller.acquireRadio(user, span: isLegacy ? VirtualController.advertisingExchange : extendedSpan) else {
      return arm(at: now + Self.retryInterval)
    }
    eventStart = now
    controller.refreshAddress(of: self)
    if !isLegacy { planAuxiliary() }
    channel = 36
    goToNextChannel()
  }

  /// Sends on the next used channel, after a short pause where one was sent on before; ends the event, or goes on with
  /// what ADV_EXT_IND points to, after the last.
  private func goToNextChannel() {
    if let endpoint { world.ignore(endpoint) }
    let isFirst = channel == 36
    repeat { channel += 1 } while channel < 40 && parameters.channels.rawValue >> (channel - 37) & 1 == 0
    guard channel < 40 else {
      guard auxiliary.isUsed, !isLegacy else { return endEvent() }
      return schedule(.advertisement, at: auxiliary.start)
    }
    if isFirst { return advertise() }
    phase = .betweenChannels
    arm(at: now + world.interFrameSpace)
  }

  func endEvent() {
    phase = .asleep
    if let endpoint { world.ignore(endpoint) }
    controller.releaseRadio(user)
    eventCount += 1
    if eventsMax > 0, eventCount >= Int(eventsMax) { return expire(.limitReached) }
    if isHighDutyCycle {
      arm(at: max(eventStart + Self.highDutyCycleInterval, now))
    } else {
      let delay = TimeSpan.microseconds(Int(random.below(Self.delayMax + 1)))
      let next = max(eventStart + parameters.interval.timeSpan + delay, now)
      // A set that will have ended by then ends on time.
      arm(at: deadline.map { min($0, next) } ?? next)
    }
  }

  private func expire(_ status: HCIStatus) {
    stop()
    controller.advertisingEnded(self, status)
  }

  func schedule(_ kind: Auxiliary, at instant: Instant) {
    phase = .beforeAuxiliary(kind)
    arm(at: instant)
  }

  func arm(at instant: Instant) { if let event { world.simulator.arm(event, at: instant) } }

  // MARK: - Packets

  private func advertise() {
    phase = .advertising
    writer.removeAll()
    guard isLegacy else {
      encodePointer()
      return transmit(channel, parameters.primaryPHY)
    }
    if isDirected {
      let header = AdvertisingHeader(
        type: .advDirectInd, chSel: true, txAdd: address.isRandom, rxAdd: target.isRandom, length: 12)
      header.encode(into: &writer)
      address.address.encode(into: &writer)
      target.address.encode(into: &writer)
    } else {
      encode(isConnectable ? .advInd : isScannable ? .advScanInd : .advNonconnInd, data)
    }
    transmit(channel, .le1M)
  }

  /// Whom directed advertising is for, as it is on air.
  var target: DeviceAddress { controller.addressOnAir(of: parameters.peer, for: self) }

  private func respond() {
    phase = .sendingResponse
    writer.removeAll()
    encode(.scanRsp, scanResponse)
    transmit(channel, .le1M)
  }

  private func encode(_ type: AdvertisingPDUType, _ data: [UInt8]) {
    let header = AdvertisingHeader(type: type, chSel: type == .advInd, txAdd: address.isRandom, length: 6 + data.count)
    header.encode(into: &writer)
    address.address.encode(into: &writer)
    writer.bytes(data)
  }

  func transmit(_ channel: UInt8, _ phy: AirPHY) {
    guard let endpoint else { return }
    world.transmit(
      writer.bytes, from: endpoint, channel: channel, accessAddress: LinkLayer.advertisingAccessAddress,
      crcInit: LinkLayer.advertisingCRCInit, phy: phy, reduction: reduction)
  }

  func transmissionEnded() {
    switch phase {
    case .advertising:
      guard isLegacy, isScannable || isConnectable else { return goToNextChannel() }
      listen(.listening, channel, .le1M)
    case .sendingResponse: goToNextChannel()
    case .sendingAuxiliary(let kind): auxiliarySent(kind)
    case .off, .asleep, .betweenChannels, .listening, .responding, .beforeAuxiliary, .listeningAuxiliary: break
    }
  }

  /// Waits for a request.
  func listen(_ phase: Phase, _ channel: UInt8, _ phy: AirPHY) {
    guard let endpoint else { return }
    self.phase = phase
    world.listen(endpoint, channel: channel, accessAddress: LinkLayer.advertisingAccessAddress, phy: phy)
    arm(at: now + world.interFrameSpace + world.detectionTime(phy))
  }

  func receive(_ packet: AirPacket, _ reception: Reception) {
    guard phase == .listening || phase == .listeningAuxiliary, let endpoint else { return }
    world.ignore(endpoint)
    let pdu = packet.pdu
    guard reception.isCRCValid, handle(pdu.span.bytes) else {
      return phase == .listening ? goToNextChannel() : endEvent()
    }
  }

  /// A request. `false`: none for this advertiser, or one that its policy forbids.
  private func handle(_ pdu: RawSpan) -> Bool {
    var reader = ByteReader(pdu)
    do throws(DecodeError) {
      let header = try AdvertisingHeader(from: &reader)
      guard header.type == .scanReq || header.type == .connectInd else { return false }
      let sender = try DeviceAddress(from: &reader, isRandom: header.txAdd)
      let target = try DeviceAddress(from: &reader, isRandom: header.rxAdd)
      guard target == address else { return false }
      if header.type == .scanReq {
        try reader.expectEnd()
        return answerScan(sender)
      }
      let request = try ConnectionRequestData(from: &reader)
      try reader.expectEnd()
      return connect(sender, request, usesAlgorithm2: header.chSel)
    } catch { return false }
  }

  private func answerScan(_ scanner: DeviceAddress) -> Bool {
    guard isScannable, isAllowed(scanner, by: .acceptListScans) else { return false }
    if isDirected, !controller.isPeer(scanner, parameters.peer) { return false }
    if parameters.notifiesScanRequests, let handle { controller.report(scanRequest: scanner, handle) }
    if phase == .listeningAuxiliary {
      schedule(.scanResponse, at: now + world.interFrameSpace)
    } else {
      phase = .responding
      arm(at: now + world.interFrameSpace)
    }
    return true
  }

  private func connect(_ initiator: DeviceAddress, _ request: ConnectionRequestData, usesAlgorithm2: Bool) -> Bool {
    guard isConnectable, request.isValid, controller.mayConnect(to: initiator) else { return false }
    if isDirected {
      guard controller.isPeer(initiator, parameters.peer) else { return false }
    } else {
      guard isAllowed(initiator, by: .acceptListConnections) else { return false }
    }
    if phase == .listeningAuxiliary {
      let attempt = ConnectionAttempt(initiator: initiator, request: request, end: now)
      schedule(.connectResponse(attempt), at: now + world.interFrameSpace)
      return true
    }
    stop()
    controller.connected(
      .peripheral, local: address, peer: initiator, request,
      ConnectionStart(end: now, phy: .le1M, isAuxiliary: false, usesAlgorithm2: usesAlgorithm2), by: self)
    return true
  }

  private func isAllowed(_ device: DeviceAddress, by policy: AdvertisingFilterPolicy) -> Bool {
    parameters.filterPolicy.rawValue & policy.rawValue == 0
      ? controller.isPrivacyKept(by: device) : controller.isInAcceptList(device)
  }
}
