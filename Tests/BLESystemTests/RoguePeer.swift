// SPDX-License-Identifier: Apache-2.0

import BLECore
import BLEGATT
import BLEHCI
import BLEL2CAP
import BLERadio
import Testing

/// A device with a host that can break any rule of ATT: an honest client and server, whose PDUs a test may change,
/// repeat, hold back, or replace by the end of the connection.
final class RoguePeer: HCIReceiver {
  /// What becomes of a PDU that the honest half wants to send.
  enum Reaction: Equatable {
    case send([[UInt8]])
    case disconnect
  }

  let database: AttributeDatabase
  let address: BDAddress
  private let rxMTU: UInt16
  private(set) var bearer = ATTBearer()
  private(set) var handle: ConnectionHandle?
  /// Called for each PDU before it goes out; nil: all is sent as it is.
  var rewrite: (([UInt8]) -> Reaction)?
  /// Called for each PDU that comes in; true: the honest half does not get it.
  var intercept: (([UInt8]) -> Bool)?
  /// The PDUs that came since the last ``forget()``.
  private(set) var received: [[UInt8]] = []
  /// The honest client's events, since then too.
  private(set) var outcomes: [ATTEvent] = []

  private let world: SimulatedWorld
  private let transport: any HCITransport
  private let controller: VirtualController
  private var flow = ACLFlow(
    packetLength: VirtualController.aclPacketLength, packetCount: VirtualController.aclPacketCount)
  private var out = PacketQueue<HCIPacketType>()
  private var progress: [ACLProgress] = []
  private var assembler = FrameAssembler()

  init(_ database: AttributeDatabase, in world: SimulatedWorld, rxMTU: UInt16 = 517) {
    self.database = database
    self.rxMTU = rxMTU
    self.world = world
    address = BDAddress(0x02CB_FFFF_0000)
    let pair = HCITransportPair(scheduler: world.simulator)
    transport = pair.host
    controller = VirtualController(world: world.world, address: address, transport: pair.controller)
    transport.receiver = self
    send(Reset())
    send(SetEventMask(eventMask: .max))
    send(LESetEventMask(leEventMask: .max & ~LEEventMask.bit(.enhancedConnectionComplete)))
    send(LEWriteSuggestedDefaultDataLength(suggestedMaxTxOctets: 251, suggestedMaxTxTime: 2120))
  }

  var isConnected: Bool { handle != nil }
  var mtu: Int { bearer.mtu }

  func forget() {
    received = []
    outcomes = []
  }

  // MARK: - Connecting

  func advertise(_ name: String) {
    let interval = AdvertisingInterval(rawValue: 0x20)
    send(
      LESetAdvertisingParameters(
        advertisingIntervalMin: interval, advertisingIntervalMax: interval, advertisingType: .connectable,
        ownAddressType: .publicDevice, peerAddressType: .publicDevice, peerAddress: .zero,
        advertisingChannelMap: .all, advertisingFilterPolicy: .all))
    let octets = Array(name.utf8)
    send(LESetAdvertisingData(data: [2, 1, 6, UInt8(octets.count + 1), 9] + octets))
    send(LESetAdvertisingEnable(enable: true))
  }

  func connect(to peer: BDAddress) {
    send(
      LECreateConnection(
        scanInterval: ScanInterval(rawValue: 0x60), scanWindow: ScanInterval(rawValue: 0x60),
        initiatorFilterPolicy: .peerAddress, peerAddressType: .publicDevice, peerAddress: peer,
        ownAddressType: .publicDevice, connectionIntervalMin: ConnectionInterval(rawValue: 24),
        connectionIntervalMax: ConnectionInterval(rawValue: 24), maxLatency: 0,
        supervisionTimeout: SupervisionTimeout(rawValue: 200), minCELength: ConnectionEventLength(rawValue: 0),
        maxCELength: ConnectionEventLength(rawValue: 0)))
  }

  func disconnect() {
    guard let handle else { return }
    send(Disconnect(connectionHandle: handle, reason: .remoteUserTerminatedConnection))
  }

  private func send(_ command: some HCICommand) {
    var writer = ByteWriter()
    command.encodePacket(into: &writer)
    transport.send(.command, writer.bytes.span.bytes)
  }

  // MARK: - ATT

  /// Sends a PDU as it is.
  func send(_ pdu: [UInt8]) {
    guard let handle else { return }
    flow.enqueue(handle) { writer in
      L2CAPHeader(length: UInt16(truncatingIfNeeded: pdu.count), channelID: .attribute).encode(into: &writer)
      writer.bytes(pdu)
    }
    pump()
  }

  /// Calls the honest half.
  func perform<T>(_ body: (inout ATTBearer, Instant) -> T) -> T {
    defer { drain() }
    return body(&bearer, world.simulator.now)
  }

  private func drain() {
    outcomes += bearer.output.events
    bearer.output.removeEvents()
    var pdus: [[UInt8]] = []
    while bearer.outgoing.removeFirst({ pdus.append([UInt8]($1)) }) {}
    for pdu in pdus {
      switch rewrite?(pdu) ?? .send([pdu]) {
      case .send(let pdus): for pdu in pdus { send(pdu) }
      case .disconnect: disconnect()
      }
    }
  }

  private func pump() {
    flow.sendWaiting(out: &out, progress: &progress)
    progress = []
    while out.removeFirst({ transport.send($0, $1) }) {}
  }

  // MARK: - HCI

  func receive(_ type: HCIPacketType, _ payload: RawSpan) {
    switch type {
    case .aclData: receiveACL(payload)
    case .event: receiveEvent([UInt8](payload))
    default: break
    }
  }

  func transportClosed(_ error: HCITransportError) {}

  private func receiveACL(_ payload: RawSpan) {
    var reader = ByteReader(payload)
    guard let header = try? ACLHeader(from: &reader) else { return }
    let isFirst = header.boundary != .continuing
    guard case .frame(.attribute) = assembler.receive(isFirst: isFirst, reader.rest()) else { return }
    let pdu = [UInt8](assembler.payload)
    received.append(pdu)
    if intercept?(pdu) == true { return }
    bearer.receive(pdu.span.bytes, database: database, now: world.simulator.now)
    drain()
  }

  private func receiveEvent(_ event: [UInt8]) {
    guard event.count > 2 else { return }
    let parameters = Array(event.dropFirst(2))
    switch HCIEventCode(rawValue: event[0]) {
    case .numberOfCompletedPackets:
      try? flow.receiveNumberOfCompletedPackets(parameters.span.bytes, out: &out, progress: &progress)
      pump()
    case .disconnectionComplete:
      if let handle { flow.disconnect(handle) }
      handle = nil
    case .leMeta where parameters[0] == LEConnectionComplete.subevent.rawValue:
      guard let complete = try? LEConnectionComplete.decode(Array(parameters.dropFirst())),
        complete.status == .success
      else { return }
      handle = complete.connectionHandle
      flow.connect(complete.connectionHandle)
      bearer = ATTBearer(rxMTU: rxMTU)
      assembler = FrameAssembler()
    default: break
    }
  }
}
