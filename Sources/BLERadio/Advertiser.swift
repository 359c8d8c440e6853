// SPDX-License-Identifier: Apache-2.0

import BLECore
import BLEHCI

/// The Advertising State with legacy PDUs (Vol 6 Part B 4.4.2).
///
/// In each advertising event the PDU is sent on every used channel in turn; where requests are allowed the advertiser
/// listens T_IFS after it. Events are advInterval + advDelay apart, advDelay being random in 0-10 ms.
final class Advertiser: SimulatorEventHandler, AirUser {
  /// LE Set Advertising Parameters, as far as it was valid.
  struct Parameters: Hashable {
    var interval = AdvertisingInterval(rawValue: 0x0800)
    var type = AdvertisingType.connectable
    var ownAddressType = AddressType.publicDevice
    var peer = DeviceAddress(.zero, type: .publicDevice)
    var channels = AdvertisingChannelMap.all
    var filterPolicy = AdvertisingFilterPolicy.all
  }

  private enum Phase: Hashable {
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
  }

  var parameters = Parameters()
  var data: [UInt8] = []
  var scanResponse: [UInt8] = []

  private unowned let controller: VirtualController
  private let world: RadioWorld
  private var event: SimulatorEvent?
  private var endpoint: EndpointID?
  private var delays: SeededGenerator
  private var phase = Phase.off
  private var address = DeviceAddress(.zero, type: .publicDevice)
  private var channel: UInt8 = 37
  private var eventStart = Instant.zero
  /// When high duty cycle directed advertising ends by itself.
  private var deadline: Instant?
  private var writer = ByteWriter(capacity: LinkLayer.pduCountMax)

  /// 1.28 s (4.4.2.4.3).
  private static let highDutyCycleDuration = TimeSpan.microseconds(1_280_000)
  private static let highDutyCycleInterval = TimeSpan.microseconds(3_750)
  private static let delayMax: UInt64 = 10_000
  /// How long to wait for the radio before trying again.
  private static let retryInterval = TimeSpan.microseconds(500)

  init(controller: VirtualController, world: RadioWorld, device: RadioDeviceID) {
    self.controller = controller
    self.world = world
    delays = world.generator(device, .advertisingDelay)
    event = world.simulator.makeEvent(self)
    endpoint = world.makeEndpoint(self, device)
  }

  deinit {
    if let event { world.simulator.release(event) }
    if let endpoint { world.release(endpoint) }
  }

  private var now: Instant { world.simulator.now }
  var isOn: Bool { phase != .off }

  /// Whether CONNECT_IND is answered.
  var isConnectable: Bool {
    parameters.type == .connectable || isDirected
  }

  private var isDirected: Bool {
    parameters.type == .directedHighDutyCycle || parameters.type == .directedLowDutyCycle
  }

  private var isScannable: Bool { parameters.type == .connectable || parameters.type == .scannable }

  /// Starts with the first event at once.
  func start(address: DeviceAddress) {
    self.address = address
    deadline = parameters.type == .directedHighDutyCycle ? now + Self.highDutyCycleDuration : nil
    phase = .asleep
    world.register(self)
    arm(at: now)
  }

  func stop() {
    phase = .off
    world.unregister(self)
    if let event { world.simulator.disarm(event) }
    if let endpoint { world.ignore(endpoint) }
    controller.releaseRadio(.advertiser)
  }

  /// The next event is at `instant`.
  func hurry(to instant: Instant) {
    if phase == .asleep { arm(at: instant) }
  }

  /// A connection event takes the radio: the rest of this advertising event is dropped.
  func preempt() {
    switch phase {
    case .off, .asleep: return
    case .betweenChannels, .advertising, .listening, .responding, .sendingResponse: endEvent()
    }
  }

  // MARK: - Events

  func handleEvent(_ argument: UInt32) {
    switch phase {
    case .off, .advertising, .sendingResponse: break
    case .asleep: beginEvent()
    case .betweenChannels: advertise()
    case .responding: respond()
    case .listening:
      if let endpoint, let end = world.receptionEnd(endpoint) {
        arm(at: end + .nanoseconds(1))
      } else {
        goToNextChannel()
      }
    }
  }

  private func beginEvent() {
    if let deadline, now >= deadline {
      stop()
      return controller.advertisingTimedOut()
    }
    guard controller.acquireRadio(.advertiser) else { return arm(at: now + Self.retryInterval) }
    eventStart = now
    channel = 36
    goToNextChannel()
  }

  /// Sends on the next used channel, after a short pause where one was sent on before; ends the event after the last.
  private func goToNextChannel() {
    if let endpoint { world.ignore(endpoint) }
    let isFirst = channel == 36
    repeat { channel += 1 } while channel < 40 && parameters.channels.rawValue >> (channel - 37) & 1 == 0
    guard channel < 40 else { return endEvent() }
    if isFirst { return advertise() }
    phase = .betweenChannels
    arm(at: now + world.interFrameSpace)
  }

  private func endEvent() {
    phase = .asleep
    if let endpoint { world.ignore(endpoint) }
    controller.releaseRadio(.advertiser)
    if parameters.type == .directedHighDutyCycle {
      arm(at: max(eventStart + Self.highDutyCycleInterval, now))
    } else {
      let delay = TimeSpan.microseconds(Int(delays.below(Self.delayMax + 1)))
      arm(at: eventStart + parameters.interval.timeSpan + delay)
    }
  }

  private func arm(at instant: Instant) {
    if let event { world.simulator.arm(event, at: instant) }
  }

  // MARK: - Packets

  private func advertise() {
    phase = .advertising
    writer.removeAll()
    switch parameters.type {
    case .scannable: encode(.advScanInd, data)
    case .nonConnectable: encode(.advNonconnInd, data)
    case .directedHighDutyCycle, .directedLowDutyCycle:
      let header = AdvertisingHeader(
        type: .advDirectInd, chSel: true, txAdd: address.isRandom, rxAdd: parameters.peer.isRandom, length: 12)
      header.encode(into: &writer)
      address.address.encode(into: &writer)
      parameters.peer.address.encode(into: &writer)
    default: encode(.advInd, data)
    }
    transmit()
  }

  private func respond() {
    phase = .sendingResponse
    writer.removeAll()
    encode(.scanRsp, scanResponse)
    transmit()
  }

  private func encode(_ type: AdvertisingPDUType, _ data: [UInt8]) {
    let header = AdvertisingHeader(
      type: type, chSel: type == .advInd, txAdd: address.isRandom, length: 6 + data.count)
    header.encode(into: &writer)
    address.address.encode(into: &writer)
    writer.bytes(data)
  }

  private func transmit() {
    guard let endpoint else { return }
    world.transmit(
      writer.bytes, from: endpoint, channel: channel, accessAddress: LinkLayer.advertisingAccessAddress,
      crcInit: LinkLayer.advertisingCRCInit)
  }

  func transmissionEnded() {
    switch phase {
    case .advertising:
      guard isScannable || isConnectable, let endpoint else { return goToNextChannel() }
      phase = .listening
      world.listen(endpoint, channel: channel, accessAddress: LinkLayer.advertisingAccessAddress)
      arm(at: now + world.interFrameSpace + world.detectionTime(.le1M))
    case .sendingResponse: goToNextChannel()
    case .off, .asleep, .betweenChannels, .listening, .responding: break
    }
  }

  func receive(_ packet: AirPacket, _ reception: Reception) {
    guard phase == .listening, let endpoint else { return }
    world.ignore(endpoint)
    let pdu = packet.pdu
    guard reception.isCRCValid, handle(pdu.span.bytes) else { return goToNextChannel() }
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
    } catch {
      return false
    }
  }

  private func answerScan(_ scanner: DeviceAddress) -> Bool {
    guard isScannable, isAllowed(scanner, by: .acceptListScans) else { return false }
    phase = .responding
    arm(at: now + world.interFrameSpace)
    return true
  }

  private func connect(_ initiator: DeviceAddress, _ request: ConnectionRequestData, usesAlgorithm2: Bool) -> Bool {
    guard isConnectable, request.isValid, controller.mayConnect(to: initiator) else { return false }
    if isDirected {
      guard initiator == parameters.peer else { return false }
    } else {
      guard isAllowed(initiator, by: .acceptListConnections) else { return false }
    }
    stop()
    controller.connected(
      .peripheral, local: address, peer: initiator, request, usesAlgorithm2: usesAlgorithm2)
    return true
  }

  private func isAllowed(_ device: DeviceAddress, by policy: AdvertisingFilterPolicy) -> Bool {
    parameters.filterPolicy.rawValue & policy.rawValue == 0 || controller.isInAcceptList(device)
  }
}
