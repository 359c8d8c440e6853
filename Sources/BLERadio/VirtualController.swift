// SPDX-License-Identifier: Apache-2.0

public import BLECore
public import BLEHCI

/// An LE controller without hardware: HCI on one side, the Link Layer in a ``RadioWorld`` on the other.
///
/// It does legacy and extended advertising with several sets, scanning, initiating, privacy, and any number of connections
/// in both roles at once on one radio: a connection event takes precedence over advertising, that over scanning; where two connections want the radio at
/// once the later event is skipped, and has precedence the next time.
///
/// Its owner keeps it alive: the transport holds it weakly. When the transport closes, as when the host's process dies,
/// it leaves the air without a word, and its peers find out by their supervision timeouts.
public final class VirtualController: HCIReceiver {
  /// Octets that a buffer for the host's ACL packets holds.
  public static let aclPacketLength = 251
  /// How many of them there are.
  public static let aclPacketCount = 8
  /// Connections at once.
  public static let connectionCountMax = 64
  /// Devices in the Filter Accept List.
  static let acceptListSize = 32
  /// So many completed packets are reported without waiting for the end of the connection event.
  static let completionBatch = 4
  /// The shortest exchange: two empty packets and the spaces around them.
  static let exchangeMin = TimeSpan.microseconds(460)
  /// What an advertiser needs on one channel, with a scan request and its response.
  static let advertisingExchange = TimeSpan.microseconds(1_200)
  /// After this time the advertiser has connection events cut short.
  static let advertiserPatience = TimeSpan.milliseconds(20)
  static let txPower: Int8 = 0

  /// Who has the radio.
  enum RadioUser: Equatable {
    case link(ConnectionHandle)
    /// By the set's number, nil for the legacy commands' one.
    case advertiser(UInt8?)
  }

  /// The world whose air it uses.
  public let world: RadioWorld
  /// Its number there, by which the world's settings name it.
  public let device: RadioDeviceID
  /// Public device address.
  public let address: BDAddress
  /// By how many parts in 10^9 its seconds are longer than the world's; what it claims of its clock is 50 000 at most.
  /// A random value within that from the start; connections made afterwards go by it.
  public var clockError: Int64
  /// Whether a host may encrypt a link with a key of zeros, which stands for a key that was never set. `false` from the
  /// start: such a command is refused.
  public var allowsZeroKeys = false
  /// Whether it is on: true until ``powerOff()`` or until its transport closes.
  public private(set) var isPoweredOn = true

  var transport: any HCITransport
  /// What the host has set, as it is after Reset.
  var settings = Settings()
  @exclusivity(unchecked) var links: [LinkConnection] = []
  var writer = ByteWriter(capacity: 260)
  @exclusivity(unchecked) private var radioUser: RadioUser?
  /// Since when the advertiser has been waiting for the radio.
  @exclusivity(unchecked) private var advertiserWaitsSince: Instant?
  private var nextHandle: UInt16 = 0x40
  private var connectionRandom: SeededGenerator
  private var hopRandom: SeededGenerator
  private var sessionRandom: SeededGenerator
  var hostRandom: SeededGenerator
  private(set) lazy var advertiser = Advertiser(controller: self, world: world, device: device)
  /// Advertising sets, in the order in which they were made.
  var sets: [Advertiser] = []
  private(set) lazy var observer = Observer(controller: self, world: world, device: device)

  /// Everything that Reset forgets.
  struct Settings {
    var eventMask = EventMask.initial
    var eventMaskPage2 = EventMask.initialPage2
    var leEventMask = LEEventMask.initial
    var randomAddress: BDAddress?
    var scan = Observer.Scan()
    var acceptList: [DeviceAddress] = []
    var suggestedMaxTxOctets = LinkLayer.dataOctetsMin
    var suggestedMaxTxTime = LinkLayer.dataTimeMin
    var channelMap = LinkLayer.allDataChannels
    /// The family of advertising commands that the host uses; nil before the first.
    var commandFamily: CommandFamily?
    var privacy = AddressResolver()
    /// LE Set Default PHY.
    var phys = PHYPreference()
  }

  /// A controller with the public address `address` that serves the host at the other end of `transport`.
  public init(world: RadioWorld, address: BDAddress, transport: any HCITransport) {
    self.world = world
    self.address = address
    self.transport = transport
    device = world.addDevice()
    connectionRandom = world.generator(device, .accessAddress)
    hopRandom = world.generator(device, .hop)
    sessionRandom = world.generator(device, .session)
    var clockRandom = world.generator(device, .clock)
    let accuracy = world.setting == .physical ? UInt64(LinkLayer.sleepClockPPM) * 1_000 : 0
    clockError = Int64(clockRandom.below(2 * accuracy + 1)) - Int64(accuracy)
    hostRandom = world.generator(device, .hostRandom)
    transport.receiver = self
  }

  deinit { for link in links { link.abandon() } }

  /// Takes the device off the air without a word to its peers, and closes its transport.
  public func powerOff() {
    guard isPoweredOn else { return }
    leaveTheAir()
    transport.close()
  }

  /// Handles and peers of the connections, in the order in which they were made.
  public var connections: [(handle: ConnectionHandle, role: ConnectionRole, peer: DeviceAddress)] {
    links.map { ($0.handle, $0.role, $0.peerAddress) }
  }

  // MARK: - HCIReceiver

  /// Takes a command or data from the host; anything else, and whatever comes after power-off, is dropped.
  public func receive(_ type: HCIPacketType, _ payload: RawSpan) {
    guard isPoweredOn else { return }
    switch type {
    case .command: receiveCommand(payload)
    case .aclData: receiveACL(payload)
    default: break  // Synchronous and isochronous data have no connection to go to.
    }
  }

  /// The host is gone: leaves the air.
  public func transportClosed(_ error: HCITransportError) {
    guard isPoweredOn else { return }
    leaveTheAir()
  }

  private func leaveTheAir() {
    isPoweredOn = false
    forgetEverything()
  }

  /// What Reset does.
  func forgetEverything() {
    for link in links { link.abandon() }
    links.removeAll()
    radioUser = nil
    advertiserWaitsSince = nil
    advertiser.stop()
    for set in sets { set.stop() }
    sets.removeAll()
    observer.stopAll()
    advertiser = Advertiser(controller: self, world: world, device: device)
    observer = Observer(controller: self, world: world, device: device)
    settings = Settings()
  }

  func link(_ handle: ConnectionHandle) -> LinkConnection? {
    for link in links where link.handle == handle { return link }
    return nil
  }

  // MARK: - ACL data

  /// A packet that breaks the rules is dropped: nothing in HCI tells the host of it, save that buffers ran over.
  private func receiveACL(_ payload: RawSpan) {
    var reader = ByteReader(payload)
    guard let header = try? ACLHeader(from: &reader), Int(header.dataLength) == reader.remaining,
      reader.remaining <= Self.aclPacketLength, header.broadcast == 0, header.boundary != .complete,
      let link = link(header.connectionHandle)
    else { return }
    guard links.reduce(0, { $0 + $1.packetsHeld }) < Self.aclPacketCount else {
      return send(DataBufferOverflow(linkType: 1))
    }
    let llid = header.boundary == .continuing ? LLID.continuation : .start
    if !link.send(llid, reader.rest()) { sendCompleted(link.handle, 1) }
  }

  /// A data PDU of the peer goes to the host as an ACL packet of its own.
  func deliver(_ handle: ConnectionHandle, isStart: Bool, _ data: RawSpan) {
    let header = ACLHeader(
      connectionHandle: handle, boundary: isStart ? .first : .continuing, dataLength: UInt16(clamping: data.byteCount))
    writer.removeAll()
    header.encode(into: &writer)
    writer.bytes(data)
    flush(.aclData)
  }

  // MARK: - Connections

  /// A request for a connection was sent or received, and is agreed on.
  ///
  /// - Parameters:
  ///   - local, peer: as they are on air.
  ///   - advertiser: the set that it came to; stopped already.
  func connected(
    _ role: ConnectionRole, local: DeviceAddress, peer: DeviceAddress, _ request: ConnectionRequestData,
    _ start: ConnectionStart, by advertiser: Advertiser? = nil
  ) {
    let setup = LinkConnection.Setup(
      handle: takeHandle(), role: role, localAddress: local, peerAddress: resolved(peer), request: request,
      usesAlgorithm2: start.usesAlgorithm2, start: start.end, maxTxOctets: settings.suggestedMaxTxOctets,
      maxTxTime: settings.suggestedMaxTxTime, preference: settings.phys, phy: start.phy,
      windowDelay: LinkLayer.transmitWindowDelay(isAuxiliary: start.isAuxiliary, start.phy),
      random: SeededGenerator(seed: sessionRandom.next()))
    let link = LinkConnection(setup, controller: self, world: world, device: device)
    links.append(link)
    report(connected: link, peerOnAir: peer, clockAccuracy: role == .central ? 0 : request.sca)
    send(
      LEChannelSelectionAlgorithm(
        connectionHandle: link.handle, channelSelectionAlgorithm: start.usesAlgorithm2 ? .algorithm2 : .algorithm1))
    if let handle = advertiser?.handle {
      send(
        LEAdvertisingSetTerminated(
          status: .success, advertisingHandle: handle, connectionHandle: link.handle, numCompletedEvents: 0))
    }
  }

  /// How long `span` by this device's clock is by the world's.
  func local(_ span: TimeSpan) -> TimeSpan {
    let (product, isOverflow) = span.nanoseconds.multipliedReportingOverflow(by: clockError)
    return isOverflow ? span : TimeSpan(nanoseconds: span.nanoseconds + product / 1_000_000_000)
  }

  /// Handles go round, so that one is not taken again at once.
  private func takeHandle() -> ConnectionHandle {
    while true {
      let handle = ConnectionHandle(rawValue: nextHandle)
      nextHandle = nextHandle >= 0x0EFF ? 0x40 : nextHandle + 1
      if link(handle) == nil { return handle }
    }
  }

  /// Whether there is room for a connection to `peer`, and none yet.
  func mayConnect(to peer: DeviceAddress) -> Bool {
    let peer = resolved(peer)
    return links.count < Self.connectionCountMax && !links.contains { $0.peerAddress.isSameDevice(as: peer) }
  }

  func linkEnded(_ link: LinkConnection, _ reason: HCIStatus) {
    releaseRadio(link)
    links.removeAll { $0 === link }
    if reason == .connectionFailedToBeEstablished { observer.hasFailedToConnect = true }
    send(DisconnectionComplete(status: .success, connectionHandle: link.handle, reason: reason))
  }

  /// Whether a device is in the Filter Accept List, by its identity where its address can be resolved.
  func isInAcceptList(_ device: DeviceAddress) -> Bool {
    let device = resolved(device)
    return isPrivacyKept(by: device) && isListed(device)
  }

  /// Whether a device, by its identity, is in the list.
  func isListed(_ device: DeviceAddress) -> Bool {
    for entry in settings.acceptList where entry.isSameDevice(as: device) { return true }
    return false
  }

  /// LLData for a connection whose transmit window may begin at `earliest`.
  func makeConnectionRequest(_ parameters: ConnectionParameters, earliest: Instant) -> ConnectionRequestData {
    let hop = UInt8(5 + hopRandom.below(12))
    var accessAddress: UInt32
    repeat {
      accessAddress = AccessAddress.random(using: &connectionRandom)
    } while links.contains { $0.accessAddress == accessAddress }
    return ConnectionRequestData(
      accessAddress: accessAddress, crcInit: UInt32(truncatingIfNeeded: connectionRandom.next() >> 40), winSize: 1,
      winOffset: windowOffset(parameters, earliest: earliest), parameters: parameters, channelMap: settings.channelMap,
      hop: hop, sca: LinkLayer.sleepClockAccuracyCode)
  }

  /// The transmit window in which the new connection's events keep farthest from those that there are.
  private func windowOffset(_ parameters: ConnectionParameters, earliest: Instant) -> UInt16 {
    guard !links.isEmpty else { return 0 }
    var best: (offset: UInt16, distance: Int64) = (0, -1)
    for offset in 0..<parameters.interval.rawValue {
      let anchor = earliest + LinkLayer.windowUnit * Int(offset)
      var nearest = Int64.max
      for link in links {
        let interval = min(link.parameters.interval, parameters.interval).timeSpan.nanoseconds
        let distance = abs((anchor - link.nextStart).nanoseconds % interval)
        nearest = min(nearest, min(distance, interval - distance))
      }
      if nearest > best.distance { best = (offset, nearest) }
    }
    return best.offset
  }

  // MARK: - The radio

  /// Whether nobody but the observer uses the radio.
  var isRadioFree: Bool { world.setting == .ideal || radioUser == nil }

  /// Gives the radio to the event of `link` that begins now, if no other connection has it or has waited longer.
  func acquireRadio(_ link: LinkConnection) -> Bool {
    guard world.setting == .physical else { return true }
    if case .link = radioUser { return false }
    let end = world.simulator.now + Self.exchangeMin
    for other in links where other !== link && other.missedEvents > link.missedEvents && other.nextStart < end {
      return false
    }
    guard !observer.isConnecting else { return false }
    radioUser = .link(link.handle)
    advertiser.preempt()
    for set in sets { set.preempt() }
    observer.preempt()
    radioUser = .link(link.handle)
    return true
  }

  /// Gives the radio to an advertiser that needs it for `span`.
  func acquireRadio(_ user: RadioUser, span: TimeSpan) -> Bool {
    guard world.setting == .physical else { return true }
    let end = world.simulator.now + span
    guard radioUser == nil, !observer.isConnecting, !links.contains(where: { $0.nextStart < end }) else {
      if advertiserWaitsSince == nil { advertiserWaitsSince = world.simulator.now }
      return false
    }
    advertiserWaitsSince = nil
    radioUser = user
    observer.preempt()
    return true
  }

  /// Whether no connection event begins before `end`.
  func isRadioFree(until end: Instant) -> Bool {
    world.setting == .ideal || !links.contains { $0.nextStart < end && !$0.isInEvent }
  }

  func releaseRadio(_ link: LinkConnection) { releaseRadio(.link(link.handle)) }

  func releaseRadio(_ user: RadioUser) {
    if case .advertiser = user { advertiserWaitsSince = nil }
    guard radioUser == user else { return }
    radioUser = nil
    observer.tune()
  }

  /// When an event of `link` must be over for the sake of the other connections, which get an equal share of the interval
  /// if they have data too, of a scanner, which gets the last quarter, and of an advertiser that has waited for long.
  ///
  /// For the first exchange of an event only those connections count that were skipped themselves: else one whose
  /// anchors closely follow another's would leave that one no room for data for ever.
  func radioLimit(_ link: LinkConnection, isFirstExchange: Bool) -> Instant {
    let interval = link.localInterval
    var limit = link.anchor + interval + LinkLayer.spaceTolerance
    if let since = advertiserWaitsSince, world.simulator.now - since > Self.advertiserPatience { limit = link.anchor }
    if observer.scan != nil || observer.initiation != nil {
      limit = min(limit, link.anchor + TimeSpan(nanoseconds: interval.nanoseconds / 4 * 3))
    }
    guard links.count > 1 else { return limit }
    var busyCount = 1
    for other in links where other !== link {
      if other.isBusy { busyCount += 1 }
      if !other.isInEvent, other.missedEvents > 0 || !isFirstExchange { limit = min(limit, other.nextStart) }
    }
    if busyCount > 1, !isFirstExchange {
      limit = min(limit, link.anchor + TimeSpan(nanoseconds: interval.nanoseconds / Int64(busyCount)))
    }
    return limit
  }
}

/// How a connection came about.
struct ConnectionStart: Hashable {
  /// When the request's last bit was on air.
  var end: Instant
  var phy: AirPHY
  /// AUX_CONNECT_REQ, not CONNECT_IND.
  var isAuxiliary: Bool
  var usesAlgorithm2: Bool
}

extension DeviceAddress {
  /// Whether both name the same device: an identity address is that of the device, however it was learnt.
  func isSameDevice(as other: DeviceAddress) -> Bool {
    guard type != .anonymous, other.type != .anonymous else { return type == other.type }
    return address == other.address && type.onAir == other.type.onAir
  }

  /// Who advertises without an address.
  static let anonymous = DeviceAddress(.zero, type: .anonymous)
}
