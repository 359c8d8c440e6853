// SPDX-License-Identifier: Apache-2.0

import BLECore
import BLEHCI

/// One end of a connection (Vol 6 Part B 4.5): its events, their exchanges, and when they end.
///
///      asleep --event begins--> transmitting (Central) / waiting (Peripheral)
///      transmitting --last bit out--> waiting for the peer's packet, or asleep when the event is over
///      waiting --packet--> responding T_IFS --> transmitting
///      waiting --no packet--> asleep
///
/// The Central sends at each anchor point and goes on while either side has more data and the next exchange ends before
/// the limit. The Peripheral opens its window earlier by what the two clocks may differ, and takes the start of the first
/// packet as the anchor. While asleep one event is armed: the next connection event, or the supervision timeout if that
/// comes first.
///
/// Plain values, and `transfer`, which calls nobody, are exempt from checks of exclusive access.
final class LinkConnection: SimulatorEventHandler, AirUser {
  /// What both ends know when CONNECT_IND has passed.
  struct Setup {
    var handle: ConnectionHandle
    var role: ConnectionRole
    var localAddress: DeviceAddress
    var peerAddress: DeviceAddress
    var request: ConnectionRequestData
    var usesAlgorithm2: Bool
    /// The end of CONNECT_IND or AUX_CONNECT_REQ.
    var start: Instant
    var maxTxOctets: UInt16
    var maxTxTime: UInt16
    var preference: PHYPreference
    /// What CONNECT_IND or AUX_CONNECT_REQ came on.
    var phy: AirPHY
    /// transmitWindowDelay (4.5.3).
    var windowDelay: TimeSpan
    var random: SeededGenerator
  }

  private enum Phase: Hashable { case asleep, waiting, responding, transmitting, ended }

  let handle: ConnectionHandle
  let role: ConnectionRole
  let localAddress: DeviceAddress
  let peerAddress: DeviceAddress
  let accessAddress: UInt32
  @exclusivity(unchecked) private(set) var parameters: ConnectionParameters
  /// Signal strength of the last packet received, dBm; 127 before the first.
  @exclusivity(unchecked) private(set) var rssi: Int8 = 127
  /// When the next connection event begins, on this side, if none is on.
  @exclusivity(unchecked) private(set) var nextStart = Instant.zero
  /// Events in a row that this link could not have because the radio was busy.
  @exclusivity(unchecked) private(set) var missedEvents = 0
  /// Packets of the host, given back to it, that it has not been told of.
  @exclusivity(unchecked) private(set) var completedPackets = 0
  /// Packets of the host not given back to it.
  @exclusivity(unchecked) private(set) var packetsHeld = 0

  private unowned let controller: VirtualController
  private let world: RadioWorld
  private let crcInit: UInt32
  @exclusivity(unchecked) private var peerClockPPM: Int64
  @exclusivity(unchecked) private var selector: ChannelSelector
  @exclusivity(unchecked) private var transfer = LinkTransfer()
  @exclusivity(unchecked) private var control: LinkControl
  @exclusivity(unchecked) private var actions: [LinkControl.Action] = []
  /// A received PDU while it is decrypted.
  @exclusivity(unchecked) private var opened: [UInt8] = []
  @exclusivity(unchecked) private var txPHY: AirPHY
  @exclusivity(unchecked) private var rxPHY: AirPHY
  /// How the peer's last packet was coded.
  @exclusivity(unchecked) private var peerCoding = AirCoding.s8
  /// connInterval by this side's clock.
  @exclusivity(unchecked) private var interval = TimeSpan.zero
  @exclusivity(unchecked) private var event: SimulatorEvent?
  @exclusivity(unchecked) private var endpoint: EndpointID?
  @exclusivity(unchecked) private var phase = Phase.asleep

  /// connEventCount of the event that is on, or was last.
  @exclusivity(unchecked) private var eventCounter = UInt16.max
  @exclusivity(unchecked) private(set) var anchor: Instant
  /// Events from the last one to the next that this side takes part in.
  @exclusivity(unchecked) private var distance = 1
  /// Where the ideal air puts the next anchor.
  @exclusivity(unchecked) private var hurriedAnchor: Instant?
  @exclusivity(unchecked) private var channel: UInt8 = 0
  /// How much later than the anchor the Central may send: the transmit window, zero once it has been heard in it.
  @exclusivity(unchecked) private var window: TimeSpan
  @exclusivity(unchecked) private var lastSync: Instant
  @exclusivity(unchecked) private var isSynchronized = false
  @exclusivity(unchecked) private var hasReceivedInEvent = false
  @exclusivity(unchecked) private var crcErrors = 0
  @exclusivity(unchecked) private var peerHasMoreData = false
  @exclusivity(unchecked) private var isFirstPacket = true

  private let start: Instant
  @exclusivity(unchecked) private var lastValid: Instant
  @exclusivity(unchecked) private var isEstablished = false
  /// Why the peer ends the connection; this side leaves after its acknowledgement.
  @exclusivity(unchecked) private var leaving: HCIStatus?
  /// This side's LL_TERMINATE_IND is under way.
  @exclusivity(unchecked) private var isTerminating = false
  @exclusivity(unchecked) private var localReason = HCIStatus.connectionTerminatedByLocalHost
  @exclusivity(unchecked) private var wantsDataLength: Bool
  /// What ``control`` says: when a procedure has failed, and whether this side must not sleep.
  @exclusivity(unchecked) private var procedureDeadline = Instant.never
  @exclusivity(unchecked) private var isControlBusy = false
  /// Authenticated payload timeout, and when it is over, or is soon (Vol 6 Part B 5.4).
  @exclusivity(unchecked) private(set) var payloadTimeout = LinkLayer.payloadTimeout
  @exclusivity(unchecked) private var payloadDeadline = Instant.never
  @exclusivity(unchecked) private var pingTime = Instant.never

  init(_ setup: Setup, controller: VirtualController, world: RadioWorld, device: RadioDeviceID) {
    self.controller = controller
    self.world = world
    handle = setup.handle
    role = setup.role
    localAddress = setup.localAddress
    peerAddress = setup.peerAddress
    accessAddress = setup.request.accessAddress
    crcInit = setup.request.crcInit
    parameters = setup.request.parameters
    peerClockPPM = LinkLayer.sleepClockPPM(setup.request.sca)
    let map = setup.request.channelMap
    selector =
      setup.usesAlgorithm2
      ? ChannelSelector(accessAddress: accessAddress, channelMap: map)
      : ChannelSelector(hopIncrement: setup.request.hop, channelMap: map)
    control = LinkControl(
      isCentral: setup.role == .central, parameters: setup.request.parameters, maxTxOctets: setup.maxTxOctets,
      maxTxTime: setup.maxTxTime, preference: setup.preference, phy: setup.phy, random: setup.random)
    txPHY = setup.phy
    rxPHY = setup.phy
    wantsDataLength = setup.maxTxOctets > LinkLayer.dataOctetsMin
    start = setup.start
    lastValid = setup.start
    lastSync = setup.start
    window = LinkLayer.windowUnit * Int(setup.request.winSize)
    let first = setup.start + setup.windowDelay + LinkLayer.windowUnit * Int(setup.request.winOffset)
    let interval = controller.local(setup.request.interval.timeSpan)
    self.interval = interval
    anchor = first - interval
    event = world.simulator.makeEvent(self)
    endpoint = world.makeEndpoint(self, device)
    world.register(self)
    if role == .central { startDataLength() }
    scheduleNext()
  }

  deinit { release() }

  private var isCentral: Bool { role == .central }
  private var now: Instant { world.simulator.now }

  // MARK: - From the controller

  var usedChannels: UInt64 { selector.channelMap }
  var localInterval: TimeSpan { interval }
  var dataLengths: LLControlPDU.DataLengths { control.effective }
  var phys: (tx: AirPHY, rx: AirPHY) { (txPHY, rxPHY) }
  /// What the peer said that it does; nil if it has not been asked.
  var remoteFeatures: LEFeatures? { control.remoteFeatures.map(LEFeatures.init(rawValue:)) }
  var isEncrypted: Bool { control.encryption.isOn }
  var isEncryptionBusy: Bool { control.encryption.isBusy }
  var isAwaitingKey: Bool { control.encryption.isAwaitingKey }
  var isAskingHost: Bool { control.isAskingHost }
  /// Whether no further procedure can be started for now.
  var isControlFull: Bool { control.isFull }
  /// Whether either side has data.
  var isBusy: Bool { peerHasMoreData || transfer.hasDataToSend }
  var isInEvent: Bool { phase != .asleep && phase != .ended }

  /// Queues a host's ACL packet. `false`: it held nothing to send, and is done.
  func send(_ llid: LLID, _ data: RawSpan) -> Bool {
    guard data.byteCount > 0, phase != .ended else { return false }
    transfer.enqueue(llid, data)
    packetsHeld += 1
    wakeForData()
    return true
  }

  /// Queues a control PDU as it is, outside of any procedure.
  func send(_ control: LLControlPDU) {
    transfer.enqueue(control)
    wakeForData()
  }

  func start(_ procedure: LinkControl.Procedure) {
    control.start(procedure, now: now, into: &actions)
    perform()
    wakeForData()
  }

  func setDataLength(octets: UInt16, time: UInt16) {
    control.setDataLength(octets: octets, time: time, now: now, into: &actions)
    perform()
    wakeForData()
  }

  func setPHYs(_ preference: PHYPreference) {
    control.preference = preference
    transfer.maxTxOctets = control.txOctets
    start(.phyUpdate)
  }

  /// The host's key; `nil`: it has none.
  func answerKeyRequest(_ longTermKey: [UInt8]?) {
    let isExtended = remoteFeatures?.contains(.extendedRejectIndication) ?? false
    control.encryption.answer(longTermKey, usesExtendedReject: isExtended, now: now, into: &actions)
    perform()
    wakeForData()
  }

  /// The host's answer to the peer's wish for other parameters.
  func answerParameterRequest(_ range: ConnectionParameterRange) {
    control.answerParameterRequest(range, now: now, into: &actions)
    perform()
    wakeForData()
  }

  func refuseParameterRequest(_ reason: HCIStatus) {
    control.refuseParameterRequest(reason, now: now, into: &actions)
    perform()
    wakeForData()
  }

  func setPayloadTimeout(_ timeout: TimeSpan) {
    payloadTimeout = timeout
    if control.encryption.isOn { restartPayloadTimer() }
    if phase == .asleep { arm() }
  }

  /// Ends the connection: LL_TERMINATE_IND, and then as soon as the peer has acknowledged it. The host hears
  /// `localReason`.
  func terminate(_ reason: HCIStatus, localReason: HCIStatus = .connectionTerminatedByLocalHost) {
    guard !isTerminating, phase != .ended else { return }
    isTerminating = true
    self.localReason = localReason
    transfer.discardPackets()
    send(.terminateInd(reason))
  }

  /// Leaves without a word to the host or the peer.
  func abandon() {
    phase = .ended
    release()
  }

  /// What the host is to be told of as completed; the count starts anew.
  func takeCompletedPackets() -> Int {
    defer { completedPackets = 0 }
    return completedPackets
  }

  // MARK: - Events

  func handleEvent(_ argument: UInt32) {
    switch phase {
    case .asleep: wake()
    case .responding: transmit()
    case .waiting:
      // A packet that is coming in is waited for; the margin only catches a sender that vanishes in the middle of it.
      if let event, let endpoint, let end = world.receptionEnd(endpoint) {
        world.simulator.arm(event, at: end + .nanoseconds(1))
      } else {
        close()
      }
    case .transmitting, .ended: break
    }
  }

  private func wake() {
    guard now < supervisionDeadline else { return end(supervisionReason) }
    guard now < procedureDeadline else { return end(.llResponseTimeout) }
    if now >= payloadDeadline {
      controller.report(payloadTimeout: self)
      restartPayloadTimer()
    }
    guard now >= nextStart else { return arm() }
    enterEvent()
    guard phase == .asleep else { return }
    guard controller.acquireRadio(self) else {
      missedEvents += 1
      return scheduleNext()
    }
    missedEvents = 0
    hasReceivedInEvent = false
    isFirstPacket = true
    crcErrors = 0
    if isCentral {
      transmit()
    } else {
      phase = .waiting
      listen(until: anchor + window + widening(at: anchor) + world.detectionTime(rxPHY))
    }
  }

  /// Makes the event that is due the current one, with the changes of its instant.
  private func enterEvent() {
    anchor = hurriedAnchor ?? nextAnchor(distance)
    hurriedAnchor = nil
    eventCounter &+= UInt16(truncatingIfNeeded: distance)
    if control.change != nil, let change = control.takeChange(eventCounter: eventCounter, now: now, into: &actions) {
      apply(change)
      perform()
    }
    channel = selector.advance(to: eventCounter, distance: distance)
  }

  private func apply(_ change: LinkControl.Change) {
    switch change.content {
    case .channelMap(let map): selector.setChannelMap(map)
    case .parameters(let new, let winSize, _):
      let isNew = new != parameters
      parameters = new
      interval = controller.local(new.interval.timeSpan)
      window = LinkLayer.windowUnit * Int(winSize)
      lastValid = max(lastValid, min(anchor, now))
      if isNew || change.isLocal { controller.report(connectionUpdate: self) }
    case .phys(let tx, let rx):
      let isNew = tx != txPHY || rx != rxPHY
      txPHY = tx
      rxPHY = rx
      transfer.maxTxOctets = control.txOctets
      if isNew || change.isLocal { controller.report(phyUpdate: self, .success) }
    }
  }

  /// The anchor of the event `distance` after the current one, by the parameters that hold until then.
  private func nextAnchor(_ distance: Int) -> Instant {
    var next = anchor + interval * distance
    if isControlBusy, let change = control.change,
      change.instant == eventCounter &+ UInt16(truncatingIfNeeded: distance),
      case .parameters(_, _, let winOffset) = change.content
    {
      next = next + LinkLayer.windowUnit * Int(winOffset)
    }
    return next
  }

  /// How far the clocks of both sides may have drifted apart since the last anchor that was heard (4.2.4).
  private func widening(at instant: Instant) -> TimeSpan {
    guard !isCentral else { return .zero }
    let elapsed = max(0, (instant - lastSync).nanoseconds)
    let drift = elapsed * (LinkLayer.sleepClockPPM + peerClockPPM) / 1_000_000
    let limit = interval.nanoseconds / 2 - LinkLayer.interFrameSpace.nanoseconds
    return TimeSpan(nanoseconds: min(LinkLayer.windowJitter.nanoseconds + drift, limit))
  }

  private var supervisionDeadline: Instant {
    isEstablished ? lastValid + parameters.supervisionTimeout.timeSpan : start + parameters.interval.timeSpan * 6
  }

  private var supervisionReason: HCIStatus {
    if isTerminating { return localReason }
    return isEstablished ? .connectionTimeout : .connectionFailedToBeEstablished
  }

  private func listen(until timeout: Instant) {
    guard let endpoint, let event else { return }
    world.listen(endpoint, channel: channel, accessAddress: accessAddress, phy: rxPHY)
    world.simulator.arm(event, at: timeout)
  }

  /// Ends the current event.
  private func close() {
    phase = .asleep
    if let endpoint { world.ignore(endpoint) }
    if !isCentral, hasReceivedInEvent, wantsDataLength, isEstablished { startDataLength() }
    controller.releaseRadio(self)
    if completedPackets > 0 { controller.report(completedPackets: self) }
    if now >= pingTime { startPing() }
    scheduleNext()
    world.hurry(accessAddress)
  }

  private func scheduleNext() {
    phase = .asleep
    distance = eventsToNext()
    arm()
  }

  private func arm() {
    let next = hurriedAnchor ?? nextAnchor(distance)
    nextStart = next - widening(at: next)
    let deadline = min(supervisionDeadline, min(procedureDeadline, payloadDeadline))
    if let event { world.simulator.arm(event, at: min(nextStart, deadline)) }
  }

  /// 1, or more where the Peripheral makes use of its latency (4.5.1).
  private func eventsToNext() -> Int {
    guard !isCentral, parameters.latency > 0, isEstablished, hasReceivedInEvent, !transfer.hasDataToSend,
      !isControlBusy, missedEvents == 0
    else { return 1 }
    return Int(parameters.latency) + 1
  }

  /// There is something to send: an end that sleeps through events takes the next one.
  private func wakeForData() {
    guard phase == .asleep else { return }
    if distance > 1 {
      let elapsed = max(0, (now + widening(at: now) - anchor).nanoseconds)
      let next = Int(elapsed / interval.nanoseconds) + 1
      distance = min(distance, next)
      arm()
    }
    world.hurry(accessAddress)
  }

  // MARK: - Exchange

  private func transmit() {
    guard let endpoint else { return }
    let room = octetsThatFit()
    guard isFirstPacket || mayTransmit(room) else { return close() }
    if let opcode = transfer.prepare(octets: max(room, 0)) { firstTransmission(opcode) }
    guard transfer.seal() else { return end(.terminatedDueToMICFailure) }
    isFirstPacket = false
    phase = .transmitting
    world.transmit(
      transfer.pdu, from: endpoint, channel: channel, accessAddress: accessAddress, crcInit: crcInit, phy: txPHY,
      coding: control.preference.coding)
  }

  /// A control PDU is about to go out for the first time.
  private func firstTransmission(_ opcode: UInt8) {
    switch opcode {
    case 0x00, 0x01, 0x18:
      guard let instant = control.chooseInstant(eventCounter: eventCounter, latency: parameters.latency) else { return }
      transfer.patchInstant(instant)
    case 0x05, 0x0B:
      control.encryption.transmitted(opcode, into: &actions)
      perform()
    default: break
    }
  }

  /// Whether a further packet in this event is of use. The Central ends an event when its data no longer fits and the
  /// Peripheral has none; the Peripheral then answers with an empty packet.
  private func mayTransmit(_ room: Int) -> Bool {
    guard room >= 0 else { return false }
    return !isCentral || transfer.nextOctets <= room || peerHasMoreData
  }

  /// Octets of payload that can be sent now so that what must follow ends before the limit; negative if not even the
  /// outstanding PDU, or an empty one, can.
  private func octetsThatFit() -> Int {
    guard world.setting == .physical else { return LinkLayer.pduCountMax }
    let limit = controller.radioLimit(self, isFirstExchange: isFirstPacket)
    var left = (limit - now).nanoseconds - LinkLayer.interFrameSpace.nanoseconds
    if isCentral {
      // The Peripheral's answer: as long as it may be if it said that it has more.
      let octets = peerHasMoreData ? control.rxOctets + (transfer.rxCipher == nil ? 0 : LinkLayer.micCount) : 0
      let answer = rxPHY.airTime(payloadCount: octets, coding: peerCoding)
      left -= answer.nanoseconds + LinkLayer.interFrameSpace.nanoseconds
    }
    let octets = txPHY.payloadCount(in: left, coding: control.preference.coding)
    return transfer.isRetransmission && transfer.nextOctets > octets ? -1 : octets
  }

  func transmissionEnded() {
    guard phase == .transmitting else { return }
    if let reason = leaving { return end(reason) }
    guard isCentral || (transfer.sentMoreData || peerHasMoreData || crcErrors > 0) && !isIntervalOver else {
      return close()
    }
    phase = .waiting
    listen(until: now + world.interFrameSpace + world.detectionTime(rxPHY))
  }

  func receive(_ packet: AirPacket, _ reception: Reception) {
    guard phase == .waiting, let endpoint else { return }
    world.ignore(endpoint)
    rssi = reception.rssi
    if !isCentral, !hasReceivedInEvent { synchronize(packet.start) }
    guard reception.isCRCValid, packet.pdu.count >= LinkLayer.headerCount else { return receiveDamaged() }
    peerCoding = packet.coding
    crcErrors = 0
    hasReceivedInEvent = true
    lastValid = now
    isEstablished = true
    let header = DataHeader(packet.pdu[0])
    peerHasMoreData = header.md
    if let acknowledged = transfer.acknowledge(nesn: header.nesn) {
      guard handle(acknowledged) else { return }
    }
    if transfer.accept(sn: header.sn), packet.pdu.count > LinkLayer.headerCount { take(header.llid, packet.pdu) }
    goOn()
  }

  /// A new PDU with a payload.
  private func take(_ llid: LLID, _ pdu: [UInt8]) {
    guard let cipher = transfer.rxCipher else { return deliver(llid, pdu) }
    opened.removeAll(keepingCapacity: true)
    opened.append(contentsOf: pdu)
    guard cipher.open(&opened) else { return end(.terminatedDueToMICFailure) }
    if control.encryption.isOn { restartPayloadTimer() }
    if opened.count > LinkLayer.headerCount { deliver(llid, opened) }
  }

  private func restartPayloadTimer() {
    payloadDeadline = now + payloadTimeout
    let ahead = min(payloadTimeout.nanoseconds / 2, (interval * (Int(parameters.latency) + 1) * 6).nanoseconds)
    pingTime = payloadDeadline - TimeSpan(nanoseconds: ahead)
  }

  /// The peer has been silent for nearly as long as it may be, but for empty PDUs, which anybody can send.
  private func startPing() {
    pingTime = .never
    guard !control.isAwaiting(.ping) else { return }
    control.start(.ping, now: now, into: &actions)
    perform()
  }

  /// Whether not even an empty packet can follow before the next event.
  private var isIntervalOver: Bool {
    guard world.setting == .physical else { return false }
    let next = now + LinkLayer.interFrameSpace + AirPHY.le2M.airTime(payloadCount: 0) + LinkLayer.interFrameSpace
    return next > anchor + interval + LinkLayer.spaceTolerance
  }

  private func synchronize(_ start: Instant) {
    anchor = start
    lastSync = start
    window = .zero
    isSynchronized = true
    hasReceivedInEvent = true
  }

  /// A second wrong CRC in a row ends the event; before that the Peripheral answers, and the Central goes on if there is
  /// something to go on with (4.5.6).
  private func receiveDamaged() {
    crcErrors += 1
    guard crcErrors < 2 else { return close() }
    goOn()
  }

  private func goOn() {
    guard phase == .waiting, let event else { return }
    if isCentral {
      guard transfer.sentMoreData || peerHasMoreData, !isIntervalOver else { return close() }
    }
    phase = .responding
    world.simulator.arm(event, at: now + world.interFrameSpace)
  }

  /// `false` if the connection has ended with it.
  private func handle(_ acknowledged: LinkTransfer.Acknowledged) -> Bool {
    switch acknowledged {
    case .empty, .data(endsPacket: false): break
    case .data(endsPacket: true):
      completedPackets += 1
      packetsHeld -= 1
      if completedPackets >= VirtualController.completionBatch { controller.report(completedPackets: self) }
    case .control(let opcode):
      if isTerminating, opcode == 0x02 {
        end(localReason)
        return false
      }
    }
    return true
  }

  private func deliver(_ llid: LLID, _ pdu: [UInt8]) {
    let payload = pdu.span.bytes.extracting(LinkLayer.headerCount..<pdu.count)
    switch llid {
    case .control:
      guard let control = try? LLControlPDU.decode(payload) else { return }
      self.control.receive(control, eventCounter: eventCounter, now: now, into: &actions)
      perform()
    case .start, .continuation:
      if control.receiveData(into: &actions) {
        controller.deliver(handle, isStart: llid == .start, payload)
      } else {
        perform()
      }
    case .reserved: break
    }
  }

  // MARK: - Control procedures

  private func startDataLength() {
    guard wantsDataLength else { return }
    wantsDataLength = false
    guard !control.peerStartedDataLength else { return }
    control.start(.dataLength, now: now, into: &actions)
    perform()
  }

  private func perform() {
    var position = 0
    while position < actions.count {
      let action = actions[position]
      position += 1
      perform(action)
    }
    actions.removeAll(keepingCapacity: true)
    procedureDeadline = control.deadline ?? .never
    isControlBusy = control.isBusy
  }

  private func perform(_ action: LinkControl.Action) {
    switch action {
    case .send(let pdu): transfer.enqueue(pdu)
    case .reportFeatures(let status, let features): controller.report(remoteFeatures: features, status, self)
    case .reportVersion(let status, let version, let company, let subversion):
      controller.report(remoteVersion: version, company, subversion, status, self)
    case .reportDataLength:
      transfer.maxTxOctets = control.txOctets
      controller.report(dataLength: self)
    case .reportUpdateFailed(let status): controller.report(connectionUpdate: self, status)
    case .reportPHY(let status): controller.report(phyUpdate: self, status)
    case .askHost(let range):
      guard !controller.report(parameterRequest: range, self) else { break }
      control.refuseParameterRequest(.unsupportedRemoteFeature, now: now, into: &actions)
    case .askForKey(let random, let diversifier):
      guard !controller.report(keyRequest: random, diversifier, self) else { break }
      let isExtended = remoteFeatures?.contains(.extendedRejectIndication) ?? false
      control.encryption.answer(nil, usesExtendedReject: isExtended, now: now, into: &actions)
    case .holdData: transfer.isDataHeld = true
    case .encryptTransmission(let isOn): transfer.txCipher = isOn ? control.encryption.cipher : nil
    case .encryptReception(let isOn): transfer.rxCipher = isOn ? control.encryption.cipher : nil
    case .reportEncryption(let status, let isRefresh):
      if status == .success { restartPayloadTimer() }
      controller.report(encryption: self, status, isRefresh: isRefresh)
    case .encryptionEnded:
      transfer.isDataHeld = false
      control.encryptionEnded(now: now, into: &actions)
    case .useChannels(let count):
      if selector.channelMap.nonzeroBitCount < Int(count) {
        control.start(.channelMap(LinkLayer.allDataChannels), now: now, into: &actions)
      }
    case .usePeerClock(let accuracy): peerClockPPM = LinkLayer.sleepClockPPM(accuracy)
    case .leave(let reason): leaving = reason
    case .terminate(let reason): terminate(reason, localReason: reason)
    case .lose(let reason): end(reason)
    }
  }

  // MARK: - The end

  private func end(_ reason: HCIStatus) {
    guard phase != .ended else { return }
    phase = .ended
    release()
    controller.linkEnded(self, reason)
  }

  private func release() {
    world.unregister(self)
    if let endpoint { world.release(endpoint) }
    if let event { world.simulator.release(event) }
    endpoint = nil
    event = nil
  }
}

// MARK: - The ideal air

extension LinkConnection {
  var isAsleep: Bool { phase == .asleep }
  var hasDataToSend: Bool { transfer.hasDataToSend }
  var lastEvent: UInt16 { eventCounter }

  /// The next event is `counter`, and it is now.
  func hurry(to counter: UInt16) {
    let distance = Int(counter &- eventCounter)
    guard isAsleep, distance > 0, distance < Int(UInt16.max / 2), let event else { return }
    self.distance = distance
    hurriedAnchor = now
    nextStart = now
    world.simulator.arm(event, at: now)
  }
}
