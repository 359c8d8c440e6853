// SPDX-License-Identifier: Apache-2.0

import BLECore
import BLEHCI
import BLERadio
import Testing

/// An HCI packet that a host got, and when.
struct Received: Hashable {
  var time: Instant
  var type: HCIPacketType
  var bytes: [UInt8]
}

/// A tiny host: sends what a test says, records what comes, and keeps the controller's ACL buffers in mind.
final class ScriptedHost: HCIReceiver {
  let world: RadioWorld
  let transport: any HCITransport
  let controller: VirtualController
  var log: [Received] = []
  /// Recording costs memory in long tests.
  var isRecording = true
  var closed: HCITransportError?
  /// Octets of data received, and packets given back, in all.
  var octetsReceived = 0
  var completed = 0
  var freeBuffers = VirtualController.aclPacketCount
  /// Called for every ACL packet and for every Number Of Completed Packets.
  var onData: ((ConnectionHandle, ACLHeader.Boundary, [UInt8]) -> Void)?
  var onCompleted: (() -> Void)?

  init(_ world: RadioWorld, address: UInt64) {
    self.world = world
    let pair = HCITransportPair(scheduler: world.simulator)
    transport = pair.host
    controller = VirtualController(world: world, address: BDAddress(address), transport: pair.controller)
    transport.receiver = self
  }

  var now: Instant { world.simulator.now }

  func receive(_ type: HCIPacketType, _ payload: RawSpan) {
    let bytes = [UInt8](payload)
    if isRecording { log.append(Received(time: now, type: type, bytes: bytes)) }
    if type == .aclData {
      guard let header = try? ACLHeader.decode(Array(bytes.prefix(4))) else { return }
      octetsReceived += bytes.count - 4
      onData?(header.connectionHandle, header.boundary, Array(bytes.dropFirst(4)))
    } else if bytes.first == HCIEventCode.numberOfCompletedPackets.rawValue {
      try? CompletedPackets.forEach(in: payload.extracting(2..<payload.byteCount)) { _, count in
        completed += Int(count)
        freeBuffers += Int(count)
      }
      onCompleted?()
    }
  }

  func transportClosed(_ error: HCITransportError) { closed = error }

  // MARK: - Sending

  func send(_ command: some HCICommand) {
    var writer = ByteWriter()
    command.encodePacket(into: &writer)
    send(.command, writer.bytes)
  }

  func send(_ type: HCIPacketType, _ bytes: [UInt8]) { transport.send(type, bytes.span.bytes) }

  func sendData(_ handle: ConnectionHandle, _ data: [UInt8], _ boundary: ACLHeader.Boundary = .firstNonFlushable) {
    let header = ACLHeader(connectionHandle: handle, boundary: boundary, dataLength: UInt16(data.count))
    freeBuffers -= 1
    send(.aclData, header.encoded + data)
  }

  /// Sends `command`, lets the controller answer, and gives back its return parameters.
  @discardableResult
  func call<C: HCICommand>(_ command: C) throws -> C.ReturnParameters {
    let position = log.count
    send(command)
    world.simulator.run(until: now)
    for received in log[position...] where received.type == .event && received.bytes.first == 0x0E {
      guard received.bytes.count >= 6, UInt16(received.bytes[3]) | UInt16(received.bytes[4]) << 8 == C.opcode.rawValue
      else { continue }
      return try C.ReturnParameters.decode(Array(received.bytes.dropFirst(5)))
    }
    Issue.record("no Command Complete for \(C.opcode)")
    return C.ReturnParameters(status: .hardwareFailure)
  }

  /// Sends `command` and expects success.
  func expect<C: HCICommand>(_ command: C, sourceLocation: SourceLocation = #_sourceLocation) throws {
    let status = try call(command).status
    #expect(status == .success, "\(C.opcode)", sourceLocation: sourceLocation)
  }

  /// Sends a command that is answered by Command Status, and gives back that.
  @discardableResult
  func request<C: HCICommand>(_ command: C) throws -> HCIStatus {
    let position = log.count
    send(command)
    world.simulator.run(until: now)
    for received in log[position...] where received.type == .event && received.bytes.first == 0x0F {
      let status = try CommandStatus.decode(Array(received.bytes.dropFirst(2)))
      if status.commandOpcode == C.opcode { return status.status }
    }
    Issue.record("no Command Status for \(C.opcode)")
    return .hardwareFailure
  }

  // MARK: - What came

  /// Forgets what came so far.
  func forget() { log.removeAll() }

  func events<E: HCIEvent>(_ type: E.Type) -> [(time: Instant, event: E)] {
    log.compactMap { received in
      guard received.type == .event, received.bytes.first == E.code.rawValue,
        let event = try? E.decode(Array(received.bytes.dropFirst(2)))
      else { return nil }
      return (received.time, event)
    }
  }

  func metaEvents<E: LEMetaEvent>(_ type: E.Type) -> [(time: Instant, event: E)] {
    log.compactMap { received in
      guard received.type == .event, received.bytes.count > 2, received.bytes[0] == 0x3E,
        received.bytes[2] == E.subevent.rawValue, let event = try? E.decode(Array(received.bytes.dropFirst(3)))
      else { return nil }
      return (received.time, event)
    }
  }

  var reports: [(time: Instant, report: LEAdvertisingReport.Report)] {
    metaEvents(LEAdvertisingReport.self).flatMap { entry in entry.event.reports.map { (entry.time, $0) } }
  }

  /// Payloads of ACL packets.
  var data: [[UInt8]] { log.filter { $0.type == .aclData }.map { Array($0.bytes.dropFirst(4)) } }

  // MARK: - Procedures

  /// Reset, all events unmasked, data length as given.
  func start(octets: UInt16 = 27) throws {
    try expect(Reset())
    try expect(SetEventMask(eventMask: .max))
    try expect(LESetEventMask(leEventMask: .max & ~LEEventMask.bit(.enhancedConnectionComplete)))
    if octets > 27 {
      try expect(LEWriteSuggestedDefaultDataLength(suggestedMaxTxOctets: octets, suggestedMaxTxTime: 2120))
    }
  }

  func advertise(
    _ type: AdvertisingType = .connectable, interval: UInt32 = 0x20, data: [UInt8] = [2, 1, 6],
    response: [UInt8] = [], peer: BDAddress = .zero, channels: AdvertisingChannelMap = .all,
    policy: AdvertisingFilterPolicy = .all
  ) throws {
    try expect(
      LESetAdvertisingParameters(
        advertisingIntervalMin: AdvertisingInterval(rawValue: interval),
        advertisingIntervalMax: AdvertisingInterval(rawValue: interval), advertisingType: type,
        ownAddressType: .publicDevice, peerAddressType: .publicDevice, peerAddress: peer,
        advertisingChannelMap: channels, advertisingFilterPolicy: policy))
    try expect(LESetAdvertisingData(data: data))
    try expect(LESetScanResponseData(data: response))
    try expect(LESetAdvertisingEnable(enable: true))
  }

  func scan(
    _ type: ScanType = .passive, interval: UInt16 = 0x60, window: UInt16 = 0x60, duplicates: Bool = false,
    policy: ScanningFilterPolicy = .all
  ) throws {
    try expect(
      LESetScanParameters(
        scanType: type, scanInterval: ScanInterval(rawValue: interval), scanWindow: ScanInterval(rawValue: window),
        ownAddressType: .publicDevice, scanningFilterPolicy: policy))
    try expect(LESetScanEnable(enable: true, filterDuplicates: duplicates))
  }

  func createConnection(
    to peer: BDAddress?, interval: UInt16 = 24, latency: UInt16 = 0, timeout: UInt16 = 100
  ) throws -> HCIStatus {
    try request(
      LECreateConnection(
        scanInterval: ScanInterval(rawValue: 0x60), scanWindow: ScanInterval(rawValue: 0x60),
        initiatorFilterPolicy: peer == nil ? .acceptList : .peerAddress, peerAddressType: .publicDevice,
        peerAddress: peer ?? .zero, ownAddressType: .publicDevice,
        connectionIntervalMin: ConnectionInterval(rawValue: interval),
        connectionIntervalMax: ConnectionInterval(rawValue: interval), maxLatency: latency,
        supervisionTimeout: SupervisionTimeout(rawValue: timeout), minCELength: ConnectionEventLength(rawValue: 0),
        maxCELength: ConnectionEventLength(rawValue: 0)))
  }
}

/// A central and a peripheral, connected.
struct Pair {
  let world: RadioWorld
  let central: ScriptedHost
  let peripheral: ScriptedHost
  /// The connection's handle at each side.
  let centralHandle: ConnectionHandle
  let peripheralHandle: ConnectionHandle

  init(
    _ world: RadioWorld, interval: UInt16 = 24, latency: UInt16 = 0, timeout: UInt16 = 100, octets: UInt16 = 27,
    settle: TimeSpan = .milliseconds(500), clockErrors: (central: Int64, peripheral: Int64)? = nil
  ) throws {
    self.world = world
    central = ScriptedHost(world, address: 0xC0FF_EE00_0001)
    peripheral = ScriptedHost(world, address: 0xC0FF_EE00_0002)
    if let clockErrors {
      central.controller.clockError = clockErrors.central
      peripheral.controller.clockError = clockErrors.peripheral
    }
    (centralHandle, peripheralHandle) = try Pair.connect(
      central, peripheral, interval: interval, latency: latency, timeout: timeout, octets: octets, settle: settle)
  }

  /// Starts both hosts and connects them.
  static func connect(
    _ central: ScriptedHost, _ peripheral: ScriptedHost, interval: UInt16 = 24, latency: UInt16 = 0,
    timeout: UInt16 = 100, octets: UInt16 = 27, settle: TimeSpan = .milliseconds(500)
  ) throws -> (ConnectionHandle, ConnectionHandle) {
    try central.start(octets: octets)
    try peripheral.start(octets: octets)
    try peripheral.advertise()
    let status = try central.createConnection(
      to: peripheral.controller.address, interval: interval, latency: latency, timeout: timeout)
    #expect(status == .success)
    let limit = central.now + .seconds(2)
    while central.metaEvents(LEConnectionComplete.self).isEmpty, central.now < limit { central.world.simulator.step() }
    central.world.simulator.advance(by: settle)
    let atCentral = try #require(central.metaEvents(LEConnectionComplete.self).first).event
    let atPeripheral = try #require(peripheral.metaEvents(LEConnectionComplete.self).first).event
    return (atCentral.connectionHandle, atPeripheral.connectionHandle)
  }

  func advance(_ span: TimeSpan) { world.simulator.advance(by: span) }
}
