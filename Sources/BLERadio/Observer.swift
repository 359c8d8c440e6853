// SPDX-License-Identifier: Apache-2.0

import BLECore
import BLEHCI

/// The Scanning and the Initiating State (Vol 6 Part B 4.4.3, 4.4.4), which share one receiver: it listens in the windows
/// of whichever of the two listens more, on one channel per interval, and both get what it hears.
///
/// It has the radio when nobody else does. An exchange (a scan request with its response, a connect request) begins
/// T_IFS after the packet that it answers; what ADV_EXT_IND points to is waited for in between, see
/// `AuxiliaryScanning.swift`.
final class Observer: SimulatorEventHandler, AirUser {
  /// How to scan on one primary PHY.
  struct ScanPHY: Hashable {
    var phy = AirPHY.le1M
    var type = ScanType.passive
    var interval = ScanInterval(rawValue: 0x10)
    var window = ScanInterval(rawValue: 0x10)
  }

  /// LE Set Scan Parameters and LE Set Scan Enable, or their extended forms.
  struct Scan: Hashable {
    var phys = [ScanPHY()]
    var ownAddressType = AddressType.publicDevice
    var filterPolicy = ScanningFilterPolicy.all
    var filterDuplicates = DuplicateFilter.off
    /// Extended PDUs are taken, and extended reports made.
    var isExtended = false
    /// Zero: until stopped.
    var duration = TimeSpan.zero
    /// Zero: once.
    var period = TimeSpan.zero

    func isActive(_ phy: AirPHY) -> Bool { phys.contains { $0.phy == phy && $0.type == .active } }
  }

  /// How to initiate on one PHY; on 2M only where AUX_ADV_IND is.
  struct InitiationPHY: Hashable {
    var phy = AirPHY.le1M
    var interval: ScanInterval
    var window: ScanInterval
    var parameters: ConnectionParameters
  }

  /// LE Create Connection, or its extended form.
  struct Initiation: Hashable {
    var phys: [InitiationPHY]
    /// nil: whoever is in the Filter Accept List.
    var peer: DeviceAddress?
    var ownAddressType: AddressType
    var isExtended = false

    /// For a connection on `phy`, or else as on the first.
    func parameters(_ phy: AirPHY) -> ConnectionParameters? { (phys.first { $0.phy == phy } ?? phys.first)?.parameters }
  }

  /// Whom a request goes to, and where.
  struct Target: Hashable {
    /// As it is on air.
    var advertiser: DeviceAddress
    var own: DeviceAddress
    var channel: UInt8
    var phy = AirPHY.le1M
    /// What it sent can be connected to.
    var isConnectable = false
    /// On a data channel: what is known of the advertising event.
    var follow: Follow?
  }

  /// An answer to a packet, and what it waits for. Nearly always none, which an indirect one is told from the others
  /// without being copied.
  indirect enum Exchange {
    case none
    /// T_IFS before the request.
    case scanRequest(Target)
    case sendingScanRequest(Target)
    case awaitingScanResponse(Target)
    case connectRequest(Target, usesAlgorithm2: Bool)
    case sendingConnectRequest(Target, ConnectionRequestData, usesAlgorithm2: Bool)
    /// On a data channel; with when the request ended.
    case awaitingConnectResponse(Target, ConnectionRequestData, end: Instant)
    /// A packet on a data channel.
    case awaitingAuxiliary(Follow)
  }

  private(set) var scan: Scan?
  private(set) var initiation: Initiation?

  unowned let controller: VirtualController
  let world: RadioWorld
  /// Windows and intervals.
  private var windowEvent: SimulatorEvent?
  private var exchangeEvent: SimulatorEvent?
  /// Duration and period of extended scanning.
  private var limitEvent: SimulatorEvent?
  private(set) var endpoint: EndpointID?
  private(set) var exchange = Exchange.none
  /// A packet on a data channel that is not due yet.
  var pending: Follow?
  private var isWindowOpen = false
  /// Between the durations of periodic scanning.
  private var isPausing = false
  private var periodStart = Instant.zero
  private var slots: [ScanPHY] = []
  private var slot = 0
  private var slotStart = Instant.zero
  private var channel: UInt8 = 39
  var backoff = ScanBackoff()
  var random: SeededGenerator
  private var initiationRandom: SeededGenerator
  /// The last connection was not established. Two that answered one advertiser together, so that it heard none, would begin
  /// again in step and fail again, for ever, if nothing else happened to them.
  var hasFailedToConnect = false
  private var reported = Set<DuplicateKey>()
  private var writer = ByteWriter(capacity: LinkLayer.pduCountMax)

  /// Devices that the duplicate filter remembers; when it is full it starts anew.
  private static let reportedMax = 1024
  private static let windowArgument: UInt32 = 0
  private static let exchangeArgument: UInt32 = 1
  private static let limitArgument: UInt32 = 2

  init(controller: VirtualController, world: RadioWorld, device: RadioDeviceID) {
    self.controller = controller
    self.world = world
    random = world.generator(device, .backoff)
    initiationRandom = world.generator(device, .initiation)
    windowEvent = world.simulator.makeEvent(self, argument: Self.windowArgument)
    exchangeEvent = world.simulator.makeEvent(self, argument: Self.exchangeArgument)
    endpoint = world.makeEndpoint(self, device)
  }

  deinit {
    for event in [windowEvent, exchangeEvent, limitEvent] { if let event { world.simulator.release(event) } }
    if let endpoint { world.release(endpoint) }
  }

  var now: Instant { world.simulator.now }
  /// The PHY of the window that is open.
  var primaryPHY: AirPHY { slots.indices.contains(slot) ? slots[slot].phy : .le1M }

  private var isExchanging: Bool {
    if case .none = exchange { return false }
    return true
  }

  // MARK: - From the controller

  func startScanning(_ scan: Scan) {
    self.scan = scan
    reported.removeAll(keepingCapacity: true)
    backoff = ScanBackoff()
    isPausing = false
    periodStart = now
    armLimit()
    restart()
    world.hurryAdvertisers()
  }

  func stopScanning() {
    scan = nil
    if let limitEvent { world.simulator.disarm(limitEvent) }
    switch exchange {
    case .none, .connectRequest, .sendingConnectRequest, .awaitingConnectResponse: break
    case .scanRequest, .sendingScanRequest, .awaitingScanResponse: endExchange()
    case .awaitingAuxiliary: if initiation == nil { endExchange() }
    }
    restart()
  }

  func startInitiating(_ initiation: Initiation) {
    self.initiation = initiation
    restart()
    world.hurryAdvertisers()
  }

  /// Stops initiating. A connect request that is on air already still makes a connection, and this returns false.
  func stopInitiating() -> Bool {
    switch exchange {
    case .sendingConnectRequest, .awaitingConnectResponse: return false
    case .connectRequest: endExchange()
    case .none, .scanRequest, .sendingScanRequest, .awaitingScanResponse, .awaitingAuxiliary: break
    }
    initiation = nil
    restart()
    return true
  }

  func stopAll() {
    scan = nil
    initiation = nil
    pending = nil
    if let limitEvent { world.simulator.disarm(limitEvent) }
    endExchange()
    restart()
  }

  /// Somebody with precedence takes the radio.
  func preempt() {
    if isConnecting { return }
    endExchange()
    if let endpoint { world.ignore(endpoint) }
  }

  /// Whether it is in the middle of something that must not be broken off.
  var isConnecting: Bool {
    switch exchange {
    case .sendingConnectRequest, .awaitingConnectResponse: true
    default: false
    }
  }

  // MARK: - Duration and period

  private func armLimit() {
    guard let scan, scan.duration > .zero else {
      if let limitEvent { world.simulator.disarm(limitEvent) }
      return
    }
    let event = limitEvent ?? world.simulator.makeEvent(self, argument: Self.limitArgument)
    limitEvent = event
    world.simulator.arm(event, at: isPausing ? periodStart + scan.period : periodStart + scan.duration)
  }

  private func handleLimit() {
    guard let scan else { return }
    guard scan.period > .zero else {
      stopScanning()
      return controller.scanTimedOut()
    }
    isPausing.toggle()
    if !isPausing {
      periodStart = now
      if scan.filterDuplicates == .resetEachPeriod { reported.removeAll(keepingCapacity: true) }
    }
    armLimit()
    restart()
  }

  // MARK: - Windows

  /// New settings: takes the windows of whoever listens more, from now on.
  private func restart() {
    guard let windowEvent else { return }
    var best: [ScanPHY] = []
    if let scan, !isPausing { best = scan.phys }
    if let initiation {
      let phys = initiation.phys.filter { $0.phy != .le2M }.map {
        ScanPHY(phy: $0.phy, type: .passive, interval: $0.interval, window: $0.window)
      }
      if let first = phys.first, best.first.map({ Self.listensMore(first, than: $0) }) ?? true { best = phys }
    }
    guard !best.isEmpty else {
      isWindowOpen = false
      slots = []
      world.simulator.disarm(windowEvent)
      return tune()
    }
    let isSame = slots.elementsEqual(best) { $0.phy == $1.phy && $0.interval == $1.interval && $0.window == $1.window }
    if isSame, world.simulator.isArmed(windowEvent) { return tune() }
    slots = best
    slot = best.count - 1
    // Where to begin is the controller's choice.
    if initiation != nil, hasFailedToConnect {
      hasFailedToConnect = false
      channel = 37 + UInt8(truncatingIfNeeded: initiationRandom.below(3))
    }
    openWindow()
  }

  private static func listensMore(_ a: ScanPHY, than b: ScanPHY) -> Bool {
    UInt32(a.window.rawValue) * UInt32(b.interval.rawValue) > UInt32(b.window.rawValue) * UInt32(a.interval.rawValue)
  }

  /// The PHYs take their turns, each once an interval, and go on to the next channel together.
  private func openWindow() {
    slotStart = now
    isWindowOpen = true
    slot = slot + 1 >= slots.count ? 0 : slot + 1
    if slot == 0 { channel = channel >= 39 ? 37 : channel + 1 }
    armWindow(at: now + min(slots[slot].window.timeSpan, slotLength))
    tune()
  }

  private var slotLength: TimeSpan {
    TimeSpan(nanoseconds: slots[slot].interval.timeSpan.nanoseconds / Int64(slots.count))
  }

  private func armWindow(at instant: Instant) { if let windowEvent { world.simulator.arm(windowEvent, at: instant) } }

  /// Listens if the window is open and the radio is free, else does not.
  func tune() {
    guard !isExchanging, let endpoint else { return }
    if isWindowOpen, controller.isRadioFree {
      world.listen(endpoint, channel: channel, accessAddress: LinkLayer.advertisingAccessAddress, phy: slots[slot].phy)
    } else {
      world.ignore(endpoint)
    }
  }

  func handleEvent(_ argument: UInt32) {
    switch argument {
    case Self.exchangeArgument: return handleExchangeEvent()
    case Self.limitArgument: return handleLimit()
    default: break
    }
    guard !slots.isEmpty else { return }
    // What is coming in is heard to its end.
    if !isExchanging, let endpoint, let end = world.receptionEnd(endpoint), end > now {
      return armWindow(at: end + .nanoseconds(1))
    }
    let next = slotStart + slotLength
    guard isWindowOpen, slots[slot].window.timeSpan < slotLength, now < next else { return openWindow() }
    isWindowOpen = false
    armWindow(at: next)
    tune()
  }

  // MARK: - Exchanges

  /// Goes on with `new` T_IFS from now.
  func begin(_ new: Exchange) {
    guard let endpoint else { return }
    exchange = new
    world.ignore(endpoint)
    armExchange(at: now + world.interFrameSpace)
  }

  func armExchange(at instant: Instant) { if let exchangeEvent { world.simulator.arm(exchangeEvent, at: instant) } }

  /// Listens on a data channel for what is followed, from now on.
  func waitFor(_ follow: Follow) {
    guard let endpoint else { return }
    exchange = .awaitingAuxiliary(follow)
    world.listen(endpoint, channel: follow.channel, accessAddress: LinkLayer.advertisingAccessAddress, phy: follow.phy)
    armExchange(at: max(follow.limit, now) + world.detectionTime(follow.phy))
  }

  func endExchange() {
    if case .awaitingAuxiliary(let follow) = exchange { lost(follow) }
    if case .awaitingScanResponse(let target) = exchange, let follow = target.follow { lost(follow) }
    exchange = .none
    if let exchangeEvent { world.simulator.disarm(exchangeEvent) }
    pending = nil
    tune()
  }

  /// Ends an exchange that came to its end.
  func finish() {
    exchange = .none
    endExchange()
  }

  private func handleExchangeEvent() {
    switch exchange {
    case .sendingScanRequest, .sendingConnectRequest: break
    case .none: followPending()
    case .scanRequest(let target): sendScanRequest(target)
    case .connectRequest(let target, let usesAlgorithm2): sendConnectRequest(target, usesAlgorithm2)
    case .awaitingScanResponse:
      if waitsForReception() { return }
      backoff.failed(&random)
      endExchange()
    case .awaitingAuxiliary, .awaitingConnectResponse: if !waitsForReception() { endExchange() }
    }
  }

  private func waitsForReception() -> Bool {
    guard let endpoint, let end = world.receptionEnd(endpoint) else { return false }
    armExchange(at: end + .nanoseconds(1))
    return true
  }

  private func sendScanRequest(_ target: Target) {
    exchange = .sendingScanRequest(target)
    let header = AdvertisingHeader(
      type: .scanReq, txAdd: target.own.isRandom, rxAdd: target.advertiser.isRandom, length: 12)
    transmit(target) { writer in
      header.encode(into: &writer)
      target.own.address.encode(into: &writer)
      target.advertiser.address.encode(into: &writer)
    }
  }

  private func sendConnectRequest(_ target: Target, _ usesAlgorithm2: Bool) {
    guard let parameters = initiation?.parameters(target.phy) else { return endExchange() }
    let end = now + world.airTime(payloadCount: 34, phy: target.phy)
    let delay = LinkLayer.transmitWindowDelay(isAuxiliary: target.follow != nil, target.phy)
    let request = controller.makeConnectionRequest(parameters, earliest: end + delay)
    exchange = .sendingConnectRequest(target, request, usesAlgorithm2: usesAlgorithm2)
    let header = AdvertisingHeader(
      type: .connectInd, chSel: usesAlgorithm2 && target.follow == nil, txAdd: target.own.isRandom,
      rxAdd: target.advertiser.isRandom, length: 34)
    transmit(target) { writer in
      header.encode(into: &writer)
      target.own.address.encode(into: &writer)
      target.advertiser.address.encode(into: &writer)
      request.encode(into: &writer)
    }
  }

  private func transmit(_ target: Target, _ body: (inout ByteWriter) -> Void) {
    guard let endpoint else { return }
    writer.removeAll()
    body(&writer)
    world.transmit(
      writer.bytes, from: endpoint, channel: target.channel, accessAddress: LinkLayer.advertisingAccessAddress,
      crcInit: LinkLayer.advertisingCRCInit, phy: target.phy)
  }

  func transmissionEnded() {
    switch exchange {
    case .sendingScanRequest(let target):
      exchange = .awaitingScanResponse(target)
      listenForAnswer(target)
    case .sendingConnectRequest(let target, let request, let usesAlgorithm2):
      guard initiation != nil else { return endExchange() }
      guard target.follow == nil else {
        exchange = .awaitingConnectResponse(target, request, end: now)
        return listenForAnswer(target)
      }
      connect(target, request, usesAlgorithm2: usesAlgorithm2, end: now)
    case .none, .scanRequest, .awaitingScanResponse, .connectRequest, .awaitingAuxiliary, .awaitingConnectResponse:
      break
    }
  }

  private func listenForAnswer(_ target: Target) {
    guard let endpoint else { return }
    world.listen(endpoint, channel: target.channel, accessAddress: LinkLayer.advertisingAccessAddress, phy: target.phy)
    armExchange(at: now + world.interFrameSpace + world.detectionTime(target.phy))
  }

  private func connect(_ target: Target, _ request: ConnectionRequestData, usesAlgorithm2: Bool, end: Instant) {
    initiation = nil
    exchange = .none
    pending = nil
    controller.connected(
      .central, local: target.own, peer: target.advertiser, request,
      ConnectionStart(end: end, phy: target.phy, isAuxiliary: target.follow != nil, usesAlgorithm2: usesAlgorithm2))
    restart()
  }

  // MARK: - What is heard

  func receive(_ packet: AirPacket, _ reception: Reception) {
    let pdu = packet.pdu
    switch exchange {
    case .awaitingScanResponse(let target):
      if let endpoint { world.ignore(endpoint) }
      if reception.isCRCValid, receiveScanResponse(pdu.span.bytes, target, packet, reception.rssi) {
        backoff.succeeded(&random)
      } else {
        backoff.failed(&random)
        endExchange()
      }
    case .awaitingConnectResponse(let target, let request, let end):
      if let endpoint { world.ignore(endpoint) }
      guard reception.isCRCValid, isConnectResponse(pdu.span.bytes, target) else { return endExchange() }
      connect(target, request, usesAlgorithm2: true, end: end)
    case .awaitingAuxiliary(let follow):
      if let endpoint { world.ignore(endpoint) }
      guard reception.isCRCValid else { return endExchange() }
      receiveAuxiliary(pdu.span.bytes, follow, packet, reception.rssi)
    case .none:
      guard reception.isCRCValid else { return }
      if let advertisement = Advertisement(pdu.span.bytes) {
        receive(advertisement, reception.rssi)
      } else {
        receivePointer(pdu.span.bytes, packet, reception.rssi)
      }
    case .scanRequest, .sendingScanRequest, .connectRequest, .sendingConnectRequest: break
    }
  }

  private func receive(_ advertisement: Advertisement, _ rssi: Int8) {
    let advertiser = controller.resolved(advertisement.address)
    if connects(to: advertisement, advertiser), let own = ownAddress(for: advertiser, initiation?.ownAddressType) {
      let target = Target(advertiser: advertisement.address, own: own, channel: channel)
      reportIfWanted(advertisement, advertiser, rssi)
      return begin(.connectRequest(target, usesAlgorithm2: advertisement.chSel))
    }
    reportIfWanted(advertisement, advertiser, rssi)
    if requestsScan(of: advertisement, advertiser), let own = ownAddress(for: advertiser, scan?.ownAddressType) {
      begin(
        .scanRequest(
          Target(
            advertiser: advertisement.address, own: own, channel: channel,
            isConnectable: advertisement.type == .connectable)))
    }
  }

  func ownAddress(for peer: DeviceAddress, _ type: AddressType?) -> DeviceAddress? {
    type.flatMap { controller.ownAddress($0, for: peer) }
  }

  /// Whether the initiator wants `advertiser`, which is resolved.
  func wantsToConnect(_ advertiser: DeviceAddress) -> Bool {
    guard let initiation, controller.mayConnect(to: advertiser), controller.isPrivacyKept(by: advertiser) else {
      return false
    }
    if let peer = initiation.peer { return peer.isSameDevice(as: advertiser) }
    return controller.isListed(advertiser)
  }

  private func connects(to advertisement: Advertisement, _ advertiser: DeviceAddress) -> Bool {
    guard pending == nil, wantsToConnect(advertiser) else { return false }
    switch advertisement.type {
    case .connectable: return true
    case .directed: return advertisement.target.map { isOwn($0, initiation?.ownAddressType) } ?? false
    default: return false
    }
  }

  /// Whether a target address is one of this device.
  func isOwn(_ target: DeviceAddress, _ type: AddressType?) -> Bool {
    guard let type else { return false }
    return controller.isOwn(target, type)
  }

  private func requestsScan(of advertisement: Advertisement, _ advertiser: DeviceAddress) -> Bool {
    guard let scan, pending == nil, !isPausing, scan.isActive(.le1M),
      advertisement.type == .connectable || advertisement.type == .scannable, passes(advertisement, advertiser, scan)
    else { return false }
    // A response that would be filtered out is not asked for.
    if scan.filterDuplicates != .off, reported.contains(DuplicateKey(advertiser, isScanResponse: true)) { return false }
    return backoff.mayRequest()
  }

  private func reportIfWanted(_ advertisement: Advertisement, _ advertiser: DeviceAddress, _ rssi: Int8) {
    guard let scan, !isPausing, passes(advertisement, advertiser, scan),
      isNew(DuplicateKey(advertiser, isScanResponse: false))
    else { return }
    controller.report(advertisement, advertiser, rssi, isExtended: scan.isExtended)
  }

  private func receiveScanResponse(_ pdu: RawSpan, _ target: Target, _ packet: AirPacket, _ rssi: Int8) -> Bool {
    guard let scan else { return false }
    if let follow = target.follow { return receiveAuxiliaryResponse(pdu, target, follow, packet, rssi) }
    guard var response = Advertisement(pdu), response.type == .scanResponse, response.address == target.advertiser
    else { return false }
    response.isConnectable = target.isConnectable
    let advertiser = controller.resolved(response.address)
    if isNew(DuplicateKey(advertiser, isScanResponse: true)) {
      controller.report(response, advertiser, rssi, isExtended: scan.isExtended)
    }
    endExchange()
    return true
  }

  private func passes(_ advertisement: Advertisement, _ advertiser: DeviceAddress, _ scan: Scan) -> Bool {
    advertisement.type != .scanResponse && passes(advertiser, target: advertisement.target, scan)
  }

  /// The scanner's filter policy (4.3.3). `advertiser` is resolved; nil: anonymous.
  func passes(_ advertiser: DeviceAddress?, target: DeviceAddress?, _ scan: Scan) -> Bool {
    if let advertiser {
      guard controller.isPrivacyKept(by: advertiser) else { return false }
      if scan.filterPolicy.rawValue & 1 != 0, !controller.isListed(advertiser) { return false }
    } else if scan.filterPolicy.rawValue & 1 != 0, !controller.isListed(.anonymous) {
      return false
    }
    guard let target, !isOwn(target, scan.ownAddressType) else { return true }
    // Directed at somebody else: reported only by the extended policies, and only a resolvable private address.
    return scan.filterPolicy.rawValue & 2 != 0 && target.kind == .resolvablePrivate
  }

  /// Whether the duplicate filter lets it pass; it remembers it.
  func isNew(_ key: DuplicateKey) -> Bool {
    guard let scan, scan.filterDuplicates != .off else { return true }
    if reported.count >= Self.reportedMax { reported.removeAll(keepingCapacity: true) }
    return reported.insert(key).inserted
  }

  func isKnown(_ key: DuplicateKey) -> Bool {
    guard let scan, scan.filterDuplicates != .off else { return false }
    return reported.contains(key)
  }
}
