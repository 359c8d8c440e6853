// SPDX-License-Identifier: Apache-2.0

public import BLECore
public import BLETransport
public import BLEHCI
import BLERadio
import Glibc

/// A virtual radio that other programs' hosts join over HCI: each connection is a controller of its own.
///
/// A controller's slot gives it its public address. A new connection takes the lowest free slot, so that a program
/// that is started again keeps its address. A program that connects again (Unix sockets tell which) gets the slot it
/// had, so that switching several devices off and on does not shuffle them. Everything runs on the loop.
public final class RadioServer {
  /// What happens to slots.
  public enum Event: Sendable {
    case joined(slot: Int, address: BDAddress)
    case left(slot: Int, address: BDAddress, reason: String)
    /// A program tried to connect to a slot that is switched off.
    case refused(slot: Int)
  }

  /// What is known of a slot.
  public struct SlotInfo: Sendable {
    public var slot: Int
    public var address: BDAddress
    public var isPoweredOn: Bool
    public var isConnected: Bool
  }

  private struct Slot {
    var isPoweredOn = true
    /// The process that had the slot last, where the socket tells.
    var process: Int32?
    var controller: VirtualController?
    var transport: (any HCITransport)?
  }

  private let pump: RadioPump
  private let world: RadioWorld
  private var servers: [SocketServer] = []
  private var slots: [Slot] = []
  private let report: (Event) -> Void
  private let capture: String?
  /// Held here: the world does not.
  private var airCapture: AirCapture?

  /// Slots at most: more connections are refused.
  public static let slotsMax = 10_000

  /// `report` is called on the loop.
  ///
  /// `capture`: where the packets of each slot's host go, the slot before the extension; `airCapture`: where all goes that
  /// is on air. nil for nowhere.
  public init(
    pump: RadioPump, seed: UInt64, capture: String? = nil, airCapture: String? = nil, report: @escaping (Event) -> Void
  ) {
    self.pump = pump
    self.capture = capture
    world = RadioWorld(simulator: pump.simulator, seed: seed)
    self.report = report
    if let airCapture { self.airCapture = Self.capture(world, airCapture, pump.loop) }
  }

  private static func capture(_ world: RadioWorld, _ path: String, _ loop: EventLoop) -> AirCapture? {
    do {
      let file = try CaptureFile(emptyAt: path, loop: loop) { Log.line("CoreBluetooth: \($0)") }
      let capture = AirCapture { file.append($0) }
      world.observer = capture
      return capture
    } catch {
      Log.line("CoreBluetooth: \(error)")
      return nil
    }
  }

  /// The public address of a slot: a locally administered one, with the slot in its low half.
  public static func address(ofSlot slot: Int) -> BDAddress {
    BDAddress(0x02_CB_00_00_00_00 | UInt64(truncatingIfNeeded: slot) & 0xFFFF_FFFF)
  }

  /// Listens on one more address; returns where.
  public func listen(on address: SocketAddress) throws(HCITransportError) -> SocketAddress {
    let server = try SocketServer(address: address, loop: pump.loop) { [weak self] in self?.accept($0) }
    servers.append(server)
    return server.address
  }

  /// Ends all connections and stops listening.
  public func close() {
    for server in servers { server.close() }
    servers.removeAll()
    for index in slots.indices { disconnect(index) }
  }

  public var info: [SlotInfo] {
    slots.indices.map { index in
      SlotInfo(
        slot: index + 1, address: Self.address(ofSlot: index + 1), isPoweredOn: slots[index].isPoweredOn,
        isConnected: slots[index].controller != nil)
    }
  }

  /// Switches a slot off (its connection is closed, and a new one refused) or on again. False: there is none.
  public func setPower(slot: Int, isOn: Bool) -> Bool {
    guard hasSlot(slot) else { return false }
    slots[slot - 1].isPoweredOn = isOn
    if !isOn { leave(slot - 1, "switched off") }
    return true
  }

  /// Closes a slot's connection, as if its program had been killed. False: there is none.
  public func drop(slot: Int) -> Bool {
    guard hasSlot(slot), slots[slot - 1].controller != nil else { return false }
    leave(slot - 1, "dropped")
    return true
  }

  /// Takes any number: one may come from outside.
  private func hasSlot(_ slot: Int) -> Bool { slot >= 1 && slot <= slots.count }

  private func accept(_ transport: SocketTransport) {
    let index = slot(for: transport.peerProcess)
    guard index < Self.slotsMax else {
      transport.close()
      return
    }
    if index == slots.count { slots.append(Slot()) }
    guard slots[index].isPoweredOn else {
      transport.close()
      report(.refused(slot: index + 1))
      return
    }
    let watched = WatchedTransport(transport) { [weak self] error in self?.leave(index, error.description) }
    slots[index].transport = watched
    slots[index].process = transport.peerProcess
    slots[index].controller = VirtualController(
      world: world, address: Self.address(ofSlot: index + 1), transport: captured(watched, slot: index + 1))
    report(.joined(slot: index + 1, address: Self.address(ofSlot: index + 1)))
  }

  /// The transport, its packets also going to the slot's capture where there is to be one.
  private func captured(_ transport: any HCITransport, slot: Int) -> any HCITransport {
    guard let capture, let file = AdapterPool.openCapture(AdapterPool.numbered(capture, slot), pump.loop) else {
      return transport
    }
    return CapturingTransport(transport, side: .controller) { file.record($0, $1, $2) }
  }

  /// The slot for a new connection of a process.
  private func slot(for process: Int32?) -> Int {
    if let process, let own = slots.firstIndex(where: { $0.controller == nil && $0.process == process }) { return own }
    // One that is off and whose program still tries to come back is kept for it.
    return slots.firstIndex { slot in
      guard slot.controller == nil else { return false }
      guard !slot.isPoweredOn, let owner = slot.process else { return true }
      return kill(owner, 0) != 0
    } ?? slots.count
  }

  private func leave(_ index: Int, _ reason: String) {
    guard slots[index].controller != nil else { return }
    disconnect(index)
    report(.left(slot: index + 1, address: Self.address(ofSlot: index + 1), reason: reason))
  }

  private func disconnect(_ index: Int) {
    slots[index].controller?.powerOff()
    slots[index].transport?.close()
    slots[index].controller = nil
    slots[index].transport = nil
  }
}

/// A transport whose end somebody besides its receiver wants to know of.
private final class WatchedTransport: HCITransport, HCIReceiver {
  weak var receiver: (any HCIReceiver)? { didSet { inner.receiver = receiver == nil ? nil : self } }
  private let inner: any HCITransport
  private let ended: (HCITransportError) -> Void

  init(_ inner: any HCITransport, ended: @escaping (HCITransportError) -> Void) {
    self.inner = inner
    self.ended = ended
  }

  func send(_ type: HCIPacketType, _ payload: RawSpan) { inner.send(type, payload) }
  func close() { inner.close() }
  func receive(_ type: HCIPacketType, _ payload: RawSpan) { receiver?.receive(type, payload) }

  func transportClosed(_ error: HCITransportError) {
    receiver?.transportClosed(error)
    ended(error)
  }
}
