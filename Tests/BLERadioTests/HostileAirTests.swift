// SPDX-License-Identifier: Apache-2.0

import BLECore
import BLEHCI
import TestSupport
import Testing

@testable import BLERadio

/// Sends hostile PDUs on advertising's access address: at any time, as answers T_IFS after what it hears, and where the
/// pointers of its own earlier ones point to.
private final class Jammer: AirUser, SimulatorEventHandler {
  let world: RadioWorld
  let examples: [[UInt8]]
  var random: SeededGenerator
  var count = 0
  var isOn = true
  private var source: HostileBytes.Iterator
  private var endpoint: EndpointID?
  private var event: SimulatorEvent?
  private var channel: UInt8 = 37

  init(_ world: RadioWorld, seed: UInt64, examples: [[UInt8]]) {
    self.world = world
    self.examples = examples
    random = SeededGenerator(seed: seed, purpose: 5)
    source = HostileBytes(seed: seed, count: 10_000_000, examples: examples).makeIterator()
    endpoint = world.makeEndpoint(self, world.addDevice())
    event = world.simulator.makeEvent(self)
    listen()
  }

  deinit {
    if let event { world.simulator.release(event) }
    if let endpoint { world.release(endpoint) }
  }

  func listen() {
    guard isOn, let endpoint, let event else { return }
    channel = [37, 38, 39, UInt8(random.below(37))][Int(random.below(4))]
    let phy: AirPHY = random.below(8) == 0 ? .leCoded : .le1M
    world.listen(endpoint, channel: channel, accessAddress: LinkLayer.advertisingAccessAddress, phy: phy)
    world.simulator.arm(event, at: world.simulator.now + .microseconds(Int(random.below(900))))
  }

  func handleEvent(_ argument: UInt32) { transmit(.le1M) }

  private func transmit(_ phy: AirPHY) {
    guard isOn, let endpoint, var bytes = source.next() else { return }
    world.ignore(endpoint)
    // A packet has a header, and no more than 257 octets.
    bytes = Array((bytes + [0, 0]).prefix(LinkLayer.pduCountMax))
    if random.below(2) == 0 { bytes[1] = UInt8(truncatingIfNeeded: bytes.count - 2) }
    count += 1
    world.transmit(
      bytes, from: endpoint, channel: channel, accessAddress: LinkLayer.advertisingAccessAddress,
      crcInit: LinkLayer.advertisingCRCInit, phy: phy)
  }

  func transmissionEnded() { listen() }

  func receive(_ packet: AirPacket, _ reception: Reception) {
    guard isOn, let event, let endpoint else { return }
    world.ignore(endpoint)
    channel = packet.channel
    world.simulator.arm(event, at: world.simulator.now + LinkLayer.interFrameSpace)
  }
}

@Suite struct HostileAirTests {
  /// PDUs of all kinds, to and from the two that are attacked.
  private func examples(_ victims: [ScriptedHost]) -> [[UInt8]] {
    var examples: [[UInt8]] = []
    for victim in victims {
      let own = victim.controller.address.encoded
      let stranger: [UInt8] = [1, 2, 3, 4, 5, 0xC6]
      for type in UInt8(0)...8 where type != 7 {
        examples.append([type | 0x40, 12] + stranger + own)
        examples.append([type, 9] + own + [2, 1, 6])
      }
      let request = ConnectionRequestData(
        accessAddress: 0x5065_5A17, crcInit: 0x123456, winSize: 1, winOffset: 0,
        parameters: ConnectionParameters(
          interval: ConnectionInterval(rawValue: 24), latency: 0, supervisionTimeout: SupervisionTimeout(rawValue: 100)),
        channelMap: LinkLayer.allDataChannels, hop: 7, sca: 5)
      examples.append([0x45, 34] + stranger + own + request.encoded)
      for mode in [AdvertisingMode.none, .connectable, .scannable] {
        for isPointing in [false, true] {
          var payload = ExtendedAdvertisingPayload()
          payload.mode = mode
          payload.advA = victim.controller.address
          payload.adi = AdvertisingDataInfo(did: 7, sid: 1)
          if isPointing {
            payload.auxPtr = AuxiliaryPointer(channel: 9, offset: .microseconds(900), phy: .le1M)
          } else {
            payload.data = [1, 2, 3]
          }
          examples.append([7, UInt8(payload.count)] + payload.encoded)
        }
      }
    }
    return examples
  }

  @Test(arguments: [41, 42] as [UInt64])
  func hostilePDUsDoNoHarm(seed: UInt64) throws {
    let world = RadioWorld(seed: seed)
    let (a, b) = (ScriptedHost(world, address: 0xA1A1_A1A1_A1A1), ScriptedHost(world, address: 0xB2B2_B2B2_B2B2))
    for host in [a, b] { try host.start() }
    let jammer = Jammer(world, seed: seed, examples: examples([a, b]))
    for host in [a, b] {
      host.isRecording = true
      let key = Array(repeating: UInt8(7), count: 16)
      try host.expect(
        LEAddDeviceToResolvingList(
          peerIdentityAddressType: .publicDevice, peerIdentityAddress: BDAddress(0xC3), peerIRK: key, localIRK: key))
      try host.expect(LESetAddressResolutionEnable(enable: true))
    }
    var round = 0
    while jammer.count < 50_000 {
      // What was ended by the attack begins again.
      for host in [a, b] {
        try host.stopScanExtended()
        try host.scanExtended(.active, phys: round % 2 == 0 ? .le1M : [.le1M, .leCoded])
        if round % 3 == 0 {
          _ = try host.connectExtended(to: DeviceAddress(BDAddress(0xC605_0403_0201), type: .random))
        }
        for (handle, properties) in [
          (UInt8(0), AdvertisingEventProperties.connectable), (1, .scannable),
          (2, [.legacy, .connectable, .scannable]),
        ] {
          if try host.makeSet(handle, properties, interval: 0x20, notifies: true) == .success {
            if handle == 1 { try host.setData([1, 2], handle: 1, isResponse: true) }
          }
        }
        _ = try host.enable([0, 1, 2])
      }
      world.simulator.advance(by: .milliseconds(200))
      for host in [a, b] { host.forget() }
      round += 1
    }
    jammer.isOn = false
    for host in [a, b] { try host.expect(Reset()) }
    let (atCentral, _) = try Pair.connect(a, b)
    a.sendData(atCentral, [1, 2, 3])
    world.simulator.advance(by: .milliseconds(100))
    #expect(b.data == [[1, 2, 3]], "seed \(seed)")
  }

  /// Commands of both families with random parameters, in an order that lets them do something.
  @Test(arguments: [51, 52] as [UInt64])
  func hostileCommandsDoNoHarm(seed: UInt64) throws {
    let world = RadioWorld(seed: seed)
    let (a, b) = (ScriptedHost(world, address: 0xA1), ScriptedHost(world, address: 0xB2))
    for host in [a, b] { try host.start() }
    var random = SeededGenerator(seed: seed)
    let opcodes =
      (0x2005...0x2012).map { UInt16($0) } + (0x2027...0x202E).map { UInt16($0) } + (0x2035...0x2043).map { UInt16($0) }
      + [0x204E]
    let vectors = try VectorFile("hci_packets").cases.compactMap { $0.bytes("packet") }.filter { packet in
      packet.count > 3 && packet[0] == 1 && opcodes.contains(UInt16(packet[1]) | UInt16(packet[2]) << 8)
    }
    #expect(vectors.count > 20)
    for number in 0..<50_000 {
      let host = number % 2 == 0 ? a : b
      if random.below(300) == 0 {
        try host.start()
        try host.expect(LESetEventMask(leEventMask: .max))
      }
      var packet = Array(vectors[Int(random.below(UInt64(vectors.count)))].dropFirst())
      for _ in 0..<random.below(4) where packet.count > 3 {
        let index = 3 + Int(random.below(UInt64(packet.count - 3)))
        packet[index] = random.below(2) == 0 ? UInt8(random.below(4)) : UInt8(truncatingIfNeeded: random.next())
      }
      host.send(.command, packet)
      if number % 8 == 0 { world.simulator.advance(by: .microseconds(Int(random.below(4_000)))) }
      if number % 1_000 == 0 { for host in [a, b] { host.forget() } }
    }
    for host in [a, b] { try host.start() }
    world.simulator.advance(by: .seconds(2))
    for host in [a, b] { host.forget() }
    let (atCentral, _) = try Pair.connect(a, b)
    a.sendData(atCentral, [1, 2, 3])
    world.simulator.advance(by: .milliseconds(100))
    #expect(b.data == [[1, 2, 3]], "seed \(seed)")
  }
}
