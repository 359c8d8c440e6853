// SPDX-License-Identifier: Apache-2.0

import BLECore
import BLEHCI

/// The Scanning and the Initiating State (Vol 6 Part B 4.4.3, 4.4.4), which share one receiver: it listens in the windows
/// of whichever of the two listens more, on one channel per interval, and both get what it hears.
///
/// It has the radio when nobody else does. An exchange (a scan request with its response, a connect request) begins
/// T_IFS after the packet that it answers.
final class Observer: SimulatorEventHandler, AirUser {
  /// LE Set Scan Parameters and LE Set Scan Enable.
  struct Scan: Hashable {
    var type = ScanType.passive
    var interval = ScanInterval(rawValue: 0x10)
    var window = ScanInterval(rawValue: 0x10)
    var ownAddressType = AddressType.publicDevice
    var filterPolicy = ScanningFilterPolicy.all
    var filterDuplicates = false
  }

  /// LE Create Connection.
  struct Initiation: Hashable {
    var interval: ScanInterval
    var window: ScanInterval
    /// nil: whoever is in the Filter Accept List.
    var peer: DeviceAddress?
    var own: DeviceAddress
    var parameters: ConnectionParameters
  }

  /// An answer to a packet, and what it waits for.
  private enum Exchange: Hashable {
    case none
    /// T_IFS before the request.
    case scanRequest(DeviceAddress)
    case sendingScanRequest(DeviceAddress)
    case awaitingScanResponse(DeviceAddress)
    case connectRequest(DeviceAddress, usesAlgorithm2: Bool)
    case sendingConnectRequest(DeviceAddress, ConnectionRequestData, usesAlgorithm2: Bool)
  }

  private(set) var scan: Scan?
  private(set) var initiation: Initiation?

  private unowned let controller: VirtualController
  private let world: RadioWorld
  /// Windows and intervals.
  private var windowEvent: SimulatorEvent?
  private var exchangeEvent: SimulatorEvent?
  private var endpoint: EndpointID?
  private var exchange = Exchange.none
  private var isWindowOpen = false
  private var intervalStart = Instant.zero
  private var interval = TimeSpan.zero
  private var window = TimeSpan.zero
  private var channel: UInt8 = 39
  private var scanAddress = DeviceAddress(.zero, type: .publicDevice)
  private var backoff = ScanBackoff()
  private var random: SeededGenerator
  private var reported = Set<UInt64>()
  private var writer = ByteWriter(capacity: LinkLayer.pduCountMax)

  /// Devices that the duplicate filter remembers; when it is full it starts anew.
  private static let reportedMax = 1024
  private static let windowArgument: UInt32 = 0
  private static let exchangeArgument: UInt32 = 1

  init(controller: VirtualController, world: RadioWorld, device: RadioDeviceID) {
    self.controller = controller
    self.world = world
    random = world.generator(device, .backoff)
    windowEvent = world.simulator.makeEvent(self, argument: Self.windowArgument)
    exchangeEvent = world.simulator.makeEvent(self, argument: Self.exchangeArgument)
    endpoint = world.makeEndpoint(self, device)
  }

  deinit {
    if let windowEvent { world.simulator.release(windowEvent) }
    if let exchangeEvent { world.simulator.release(exchangeEvent) }
    if let endpoint { world.release(endpoint) }
  }

  private var now: Instant { world.simulator.now }

  // MARK: - From the controller

  func startScanning(_ scan: Scan, address: DeviceAddress) {
    self.scan = scan
    scanAddress = address
    reported.removeAll(keepingCapacity: true)
    backoff = ScanBackoff()
    restart()
    world.hurryAdvertisers()
  }

  func stopScanning() {
    scan = nil
    switch exchange {
    case .none, .connectRequest, .sendingConnectRequest: break
    case .scanRequest, .sendingScanRequest, .awaitingScanResponse: endExchange()
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
    case .sendingConnectRequest: return false
    case .connectRequest: endExchange()
    case .none, .scanRequest, .sendingScanRequest, .awaitingScanResponse: break
    }
    initiation = nil
    restart()
    return true
  }

  func stopAll() {
    scan = nil
    initiation = nil
    endExchange()
    restart()
  }

  /// Somebody with precedence takes the radio.
  func preempt() {
    if case .sendingConnectRequest = exchange { return }
    endExchange()
    if let endpoint { world.ignore(endpoint) }
  }

  /// Whether it is in the middle of something that must not be broken off.
  var isConnecting: Bool {
    if case .sendingConnectRequest = exchange { return true }
    return false
  }

  // MARK: - Windows

  /// New settings: takes the windows of whoever listens more, from now on.
  private func restart() {
    guard let windowEvent else { return }
    var best: (interval: ScanInterval, window: ScanInterval)?
    if let scan { best = (scan.interval, scan.window) }
    if let initiation {
      let listensMore =
        best.map {
          UInt32(initiation.window.rawValue) * UInt32($0.interval.rawValue)
            > UInt32($0.window.rawValue) * UInt32(initiation.interval.rawValue)
        } ?? true
      if listensMore { best = (initiation.interval, initiation.window) }
    }
    guard let best else {
      isWindowOpen = false
      world.simulator.disarm(windowEvent)
      tune()
      return
    }
    let isSame = interval == best.interval.timeSpan && window == best.window.timeSpan
    if isSame, world.simulator.isArmed(windowEvent) { return tune() }
    interval = best.interval.timeSpan
    window = best.window.timeSpan
    openWindow()
  }

  private func openWindow() {
    intervalStart = now
    isWindowOpen = true
    channel = channel >= 39 ? 37 : channel + 1
    armWindow(at: window < interval ? now + window : now + interval)
    tune()
  }

  private func armWindow(at instant: Instant) {
    if let windowEvent { world.simulator.arm(windowEvent, at: instant) }
  }

  /// Listens if the window is open and the radio is free, else does not.
  func tune() {
    guard exchange == .none, let endpoint else { return }
    if isWindowOpen, controller.isRadioFree {
      world.listen(endpoint, channel: channel, accessAddress: LinkLayer.advertisingAccessAddress)
    } else {
      world.ignore(endpoint)
    }
  }

  func handleEvent(_ argument: UInt32) {
    if argument == Self.exchangeArgument { return handleExchangeEvent() }
    // What is coming in is heard to its end.
    if exchange == .none, let endpoint, let end = world.receptionEnd(endpoint), end > now {
      return armWindow(at: end + .nanoseconds(1))
    }
    let next = intervalStart + interval
    guard isWindowOpen, window < interval, now < next else { return openWindow() }
    isWindowOpen = false
    armWindow(at: next)
    tune()
  }

  // MARK: - Exchanges

  private func begin(_ new: Exchange) {
    guard let exchangeEvent, let endpoint else { return }
    exchange = new
    world.ignore(endpoint)
    world.simulator.arm(exchangeEvent, at: now + world.interFrameSpace)
  }

  private func endExchange() {
    exchange = .none
    if let exchangeEvent { world.simulator.disarm(exchangeEvent) }
    tune()
  }

  private func handleExchangeEvent() {
    switch exchange {
    case .none, .sendingScanRequest, .sendingConnectRequest: break
    case .scanRequest(let advertiser): sendScanRequest(advertiser)
    case .connectRequest(let advertiser, let usesAlgorithm2): sendConnectRequest(advertiser, usesAlgorithm2)
    case .awaitingScanResponse:
      if let endpoint, let exchangeEvent, let end = world.receptionEnd(endpoint) {
        world.simulator.arm(exchangeEvent, at: end + .nanoseconds(1))
      } else {
        backoff.failed(&random)
        endExchange()
      }
    }
  }

  private func sendScanRequest(_ advertiser: DeviceAddress) {
    exchange = .sendingScanRequest(advertiser)
    let header = AdvertisingHeader(
      type: .scanReq, txAdd: scanAddress.isRandom, rxAdd: advertiser.isRandom, length: 12)
    transmit { writer in
      header.encode(into: &writer)
      scanAddress.address.encode(into: &writer)
      advertiser.address.encode(into: &writer)
    }
  }

  private func sendConnectRequest(_ advertiser: DeviceAddress, _ usesAlgorithm2: Bool) {
    guard let initiation else { return endExchange() }
    let end = now + world.airTime(payloadCount: 34)
    let request = controller.makeConnectionRequest(initiation.parameters, end: end)
    exchange = .sendingConnectRequest(advertiser, request, usesAlgorithm2: usesAlgorithm2)
    let header = AdvertisingHeader(
      type: .connectInd, chSel: usesAlgorithm2, txAdd: initiation.own.isRandom, rxAdd: advertiser.isRandom, length: 34)
    transmit { writer in
      header.encode(into: &writer)
      initiation.own.address.encode(into: &writer)
      advertiser.address.encode(into: &writer)
      request.encode(into: &writer)
    }
  }

  private func transmit(_ body: (inout ByteWriter) -> Void) {
    guard let endpoint else { return }
    writer.removeAll()
    body(&writer)
    world.transmit(
      writer.bytes, from: endpoint, channel: channel, accessAddress: LinkLayer.advertisingAccessAddress,
      crcInit: LinkLayer.advertisingCRCInit)
  }

  func transmissionEnded() {
    guard let endpoint, let exchangeEvent else { return }
    switch exchange {
    case .sendingScanRequest(let advertiser):
      exchange = .awaitingScanResponse(advertiser)
      world.listen(endpoint, channel: channel, accessAddress: LinkLayer.advertisingAccessAddress)
      world.simulator.arm(exchangeEvent, at: now + world.interFrameSpace + world.detectionTime(.le1M))
    case .sendingConnectRequest(let advertiser, let request, let usesAlgorithm2):
      guard let initiation else { return endExchange() }
      self.initiation = nil
      exchange = .none
      controller.connected(
        .central, local: initiation.own, peer: advertiser, request, usesAlgorithm2: usesAlgorithm2)
      restart()
    case .none, .scanRequest, .awaitingScanResponse, .connectRequest: break
    }
  }

  // MARK: - What is heard

  func receive(_ packet: AirPacket, _ reception: Reception) {
    let pdu = packet.pdu
    switch exchange {
    case .awaitingScanResponse(let advertiser):
      if let endpoint { world.ignore(endpoint) }
      if reception.isCRCValid, receiveScanResponse(pdu.span.bytes, from: advertiser, reception.rssi) {
        backoff.succeeded(&random)
      } else {
        backoff.failed(&random)
      }
      endExchange()
    case .none:
      guard reception.isCRCValid, let advertisement = Advertisement(pdu.span.bytes) else { return }
      if connects(to: advertisement) {
        begin(.connectRequest(advertisement.address, usesAlgorithm2: advertisement.chSel))
        reportIfWanted(advertisement, reception.rssi)
      } else {
        reportIfWanted(advertisement, reception.rssi)
        if requestsScan(of: advertisement) { begin(.scanRequest(advertisement.address)) }
      }
    case .scanRequest, .sendingScanRequest, .connectRequest, .sendingConnectRequest: break
    }
  }

  private func connects(to advertisement: Advertisement) -> Bool {
    guard let initiation, controller.mayConnect(to: advertisement.address) else { return false }
    switch advertisement.type {
    case .connectable: break
    case .directed: guard advertisement.target == initiation.own else { return false }
    default: return false
    }
    if let peer = initiation.peer { return peer == advertisement.address }
    return controller.isInAcceptList(advertisement.address)
  }

  private func requestsScan(of advertisement: Advertisement) -> Bool {
    guard let scan, scan.type == .active, advertisement.type == .connectable || advertisement.type == .scannable,
      passes(advertisement, scan)
    else { return false }
    // A response that would be filtered out is not asked for.
    if scan.filterDuplicates, reported.contains(Self.key(advertisement.address, isScanResponse: true)) { return false }
    return backoff.mayRequest()
  }

  private func reportIfWanted(_ advertisement: Advertisement, _ rssi: Int8) {
    guard let scan, passes(advertisement, scan),
      isNew(Self.key(advertisement.address, isScanResponse: false), scan)
    else { return }
    controller.report(advertisement, rssi)
  }

  private func receiveScanResponse(_ pdu: RawSpan, from advertiser: DeviceAddress, _ rssi: Int8) -> Bool {
    guard let scan, let response = Advertisement(pdu), response.type == .scanResponse, response.address == advertiser
    else { return false }
    if isNew(Self.key(advertiser, isScanResponse: true), scan) { controller.report(response, rssi) }
    return true
  }

  private func passes(_ advertisement: Advertisement, _ scan: Scan) -> Bool {
    guard advertisement.type != .scanResponse else { return false }
    if scan.filterPolicy.rawValue & 1 != 0, !controller.isInAcceptList(advertisement.address) { return false }
    guard let target = advertisement.target, target != scanAddress else { return true }
    // Directed at somebody else: reported only by the extended policies, and only a resolvable private address.
    return scan.filterPolicy.rawValue & 2 != 0 && target.kind == .resolvablePrivate
  }

  private func isNew(_ key: UInt64, _ scan: Scan) -> Bool {
    guard scan.filterDuplicates else { return true }
    if reported.count >= Self.reportedMax { reported.removeAll(keepingCapacity: true) }
    return reported.insert(key).inserted
  }

  private static func key(_ address: DeviceAddress, isScanResponse: Bool) -> UInt64 {
    address.address.value | (address.isRandom ? 1 << 48 : 0) | (isScanResponse ? 1 << 49 : 0)
  }
}

/// An advertising PDU or a scan response that a scanner heard.
struct Advertisement {
  var type: AdvertisingReportType
  var address: DeviceAddress
  /// Whom ADV_DIRECT_IND is for.
  var target: DeviceAddress?
  var chSel: Bool
  var data: [UInt8]

  /// nil for other PDUs and malformed ones.
  init?(_ pdu: RawSpan) {
    var reader = ByteReader(pdu)
    do throws(DecodeError) {
      let header = try AdvertisingHeader(from: &reader)
      guard Int(header.length) == reader.remaining else { return nil }
      switch header.type {
      case .advInd: type = .connectable
      case .advDirectInd: type = .directed
      case .advNonconnInd: type = .nonConnectable
      case .advScanInd: type = .scannable
      case .scanRsp: type = .scanResponse
      default: return nil
      }
      chSel = header.chSel
      address = try DeviceAddress(from: &reader, isRandom: header.txAdd)
      target = type == .directed ? try DeviceAddress(from: &reader, isRandom: header.rxAdd) : nil
      guard reader.remaining <= (type == .directed ? 0 : 31) else { return nil }
      data = reader.restArray()
    } catch {
      return nil
    }
  }
}

/// The backoff of scan requests, which keeps scanners from asking all at once for ever (4.4.3.2).
struct ScanBackoff {
  private var upperLimit: UInt64 = 1
  private var count: UInt64 = 1
  private var failures = 0
  private var successes = 0

  /// An advertisement that could be answered. Whether it is.
  mutating func mayRequest() -> Bool {
    count -= count > 0 ? 1 : 0
    return count == 0
  }

  mutating func failed(_ random: inout SeededGenerator) {
    successes = 0
    failures += 1
    if failures == 2 {
      failures = 0
      upperLimit = min(upperLimit * 2, 256)
    }
    draw(&random)
  }

  mutating func succeeded(_ random: inout SeededGenerator) {
    failures = 0
    successes += 1
    if successes == 2 {
      successes = 0
      upperLimit = max(upperLimit / 2, 1)
    }
    draw(&random)
  }

  private mutating func draw(_ random: inout SeededGenerator) {
    count = upperLimit == 1 ? 1 : random.below(upperLimit) + 1
  }
}
