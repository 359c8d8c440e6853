// SPDX-License-Identifier: Apache-2.0

import BLECore
import BLEHCI
import BLERadio
import Testing

@Suite struct PHYTests {
  let world = RadioWorld(seed: 12)
  let recorder = AirRecorder()

  init() { world.observer = recorder }

  private func setPHY(_ handle: ConnectionHandle, tx: PHYMask, rx: PHYMask, options: UInt16 = 0) -> LESetPHY {
    LESetPHY(connectionHandle: handle, allPHYs: 0, txPHYs: tx, rxPHYs: rx, phyOptions: options)
  }

  private func updates(_ host: ScriptedHost) -> [LEPHYUpdateComplete] {
    host.metaEvents(LEPHYUpdateComplete.self).map(\.event)
  }

  private func expectPHYs(_ pair: Pair, central: (PHY, PHY)) throws {
    let atCentral = try pair.central.call(LEReadPHY(connectionHandle: pair.centralHandle))
    #expect(atCentral.txPHY == central.0)
    #expect(atCentral.rxPHY == central.1)
    let atPeripheral = try pair.peripheral.call(LEReadPHY(connectionHandle: pair.peripheralHandle))
    #expect(atPeripheral.txPHY == central.1)
    #expect(atPeripheral.rxPHY == central.0)
  }

  @Test(arguments: [true, false]) func eitherSideChangesThePHYs(byCentral: Bool) throws {
    let pair = try Pair(world)
    try expectPHYs(pair, central: (.le1M, .le1M))
    let (host, handle) =
      byCentral ? (pair.central, pair.centralHandle) : (pair.peripheral, pair.peripheralHandle)
    #expect(try host.request(setPHY(handle, tx: .le2M, rx: .le2M)) == .success)
    pair.advance(.seconds(1))
    try expectPHYs(pair, central: (.le2M, .le2M))
    for host in [pair.central, pair.peripheral] {
      #expect(updates(host).map(\.status) == [.success])
      #expect(updates(host).map(\.txPHY) == [.le2M])
    }
    recorder.entries.removeAll()
    pair.central.sendData(pair.centralHandle, [1, 2, 3])
    pair.advance(.milliseconds(100))
    #expect(pair.peripheral.data == [[1, 2, 3]])
    #expect(!recorder.entries.isEmpty)
    for entry in recorder.entries {
      #expect(entry.info.phy == .le2M)
      #expect(entry.end - entry.start == Int64(entry.pdu.count - 2 + 11) * 4_000)
    }
  }

  @Test func eachDirectionHasItsOwn() throws {
    let pair = try Pair(world)
    #expect(try pair.central.request(setPHY(pair.centralHandle, tx: .leCoded, rx: .le2M)) == .success)
    pair.advance(.seconds(1))
    try expectPHYs(pair, central: (.leCoded, .le2M))
    recorder.entries.removeAll()
    pair.advance(.milliseconds(300))
    for entry in recorder.entries {
      #expect(entry.info.phy == (entry.info.sender == pair.central.controller.device ? .leCoded : .le2M))
    }
    #expect(recorder.entries.count == 20)
  }

  /// What is preferred by default restricts the peer's wish, and "no preference" does not.
  @Test func onlyWhatBothPreferIsUsed() throws {
    let pair = try Pair(world)
    let narrow = LESetPHY(connectionHandle: pair.centralHandle, allPHYs: 0, txPHYs: .le1M, rxPHYs: .le1M, phyOptions: 0)
    #expect(try pair.central.request(narrow) == .success)
    pair.advance(.seconds(1))
    // Nothing changed: the one that asked hears of it, the other does not.
    #expect(updates(pair.central).map(\.status) == [.success])
    #expect(updates(pair.peripheral).isEmpty)
    #expect(try pair.peripheral.request(setPHY(pair.peripheralHandle, tx: .le2M, rx: .le2M)) == .success)
    pair.advance(.seconds(1))
    #expect(updates(pair.peripheral).map(\.txPHY) == [.le1M])
    #expect(updates(pair.central).count == 1)
    try expectPHYs(pair, central: (.le1M, .le1M))
    let wide = LESetPHY(connectionHandle: pair.centralHandle, allPHYs: 3, txPHYs: [], rxPHYs: [], phyOptions: 0)
    #expect(try pair.central.request(wide) == .success)
    pair.advance(.seconds(1))
    try expectPHYs(pair, central: (.le2M, .le2M))
  }

  @Test(arguments: [(1, 462, 16), (2, 720, 64)] as [(UInt16, Int, Int)])
  func theCodingIsTheHosts(option: UInt16, fixed: Int, perOctet: Int) throws {
    let pair = try Pair(world)
    for (host, handle) in [(pair.central, pair.centralHandle), (pair.peripheral, pair.peripheralHandle)] {
      #expect(try host.request(setPHY(handle, tx: .leCoded, rx: .leCoded, options: option)) == .success)
      pair.advance(.seconds(1))
    }
    recorder.entries.removeAll()
    pair.peripheral.sendData(pair.peripheralHandle, [1, 2, 3, 4])
    pair.advance(.milliseconds(300))
    #expect(pair.central.data == [[1, 2, 3, 4]])
    for entry in recorder.entries {
      #expect(entry.info.phy == .leCoded)
      #expect(entry.end - entry.start == Int64(fixed + perOctet * (entry.pdu.count - 2)) * 1_000)
    }
  }

  /// 328 us do for 27 octets on 1M; the coded PHY needs 2704, and says so.
  @Test func theCodedPHYRaisesTheDataTime() throws {
    let pair = try Pair(world)
    #expect(try pair.central.request(setPHY(pair.centralHandle, tx: .leCoded, rx: .leCoded)) == .success)
    pair.advance(.seconds(1))
    for host in [pair.central, pair.peripheral] {
      let lengths = host.metaEvents(LEDataLengthChange.self).map(\.event)
      #expect(lengths.map(\.maxTxTime) == [2704])
      #expect(lengths.map(\.maxTxOctets) == [27])
    }
    #expect(try pair.central.request(setPHY(pair.centralHandle, tx: .le1M, rx: .le1M)) == .success)
    pair.advance(.seconds(1))
    #expect(pair.central.metaEvents(LEDataLengthChange.self).last?.event.maxTxTime == 328)
  }

  @Test func theTimeLimitsTheOctetsOnTheCodedPHY() throws {
    let pair = try Pair(world, octets: 251)
    #expect(try pair.central.request(setPHY(pair.centralHandle, tx: .leCoded, rx: .leCoded)) == .success)
    pair.advance(.seconds(1))
    recorder.entries.removeAll()
    pair.central.sendData(pair.centralHandle, [UInt8](repeating: 1, count: 251))
    pair.advance(.seconds(1))
    // 2120 us is what the hosts said; 27 octets always fit.
    #expect(recorder.entries.map { $0.pdu.count - 2 }.max() == 27)
    #expect(pair.peripheral.data.joined().count == 251)
    for (host, handle) in [(pair.central, pair.centralHandle), (pair.peripheral, pair.peripheralHandle)] {
      try host.expect(LESetDataLength(connectionHandle: handle, txOctets: 251, txTime: 17_040))
    }
    pair.advance(.seconds(1))
    #expect(pair.central.metaEvents(LEDataLengthChange.self).last?.event.maxTxTime == 17_040)
    recorder.entries.removeAll()
    pair.central.sendData(pair.centralHandle, [UInt8](repeating: 1, count: 251))
    pair.advance(.seconds(1))
    #expect(recorder.entries.map { $0.pdu.count - 2 }.max() == 251)
  }

  @Test func theDefaultIsThatOfConnectionsMadeAfterwards() throws {
    let central = ScriptedHost(world, address: 1)
    let peripheral = ScriptedHost(world, address: 2)
    try central.start()
    try peripheral.start()
    let wrong = LESetDefaultPHY(allPHYs: 0, txPHYs: [], rxPHYs: .le1M)
    #expect(try peripheral.call(wrong).status == .invalidHCICommandParameters)
    try peripheral.expect(LESetDefaultPHY(allPHYs: 0, txPHYs: .le1M, rxPHYs: .le1M))
    try peripheral.advertise()
    #expect(try central.createConnection(to: peripheral.controller.address) == .success)
    world.simulator.advance(by: .seconds(1))
    let handle = try #require(central.metaEvents(LEConnectionComplete.self).first).event.connectionHandle
    #expect(try central.request(setPHY(handle, tx: .le2M, rx: .le2M)) == .success)
    world.simulator.advance(by: .seconds(1))
    #expect(updates(central).map(\.txPHY) == [.le1M])
  }

  @Test func wrongMasksAndHandlesAreRefused() throws {
    let pair = try Pair(world)
    let handle = pair.centralHandle
    #expect(try pair.central.request(setPHY(handle, tx: [], rx: .le1M)) == .invalidHCICommandParameters)
    #expect(
      try pair.central.request(setPHY(handle, tx: PHYMask(rawValue: 9), rx: .le1M)) == .invalidHCICommandParameters)
    let unknown = ConnectionHandle(rawValue: 0x0EEE)
    #expect(try pair.central.request(setPHY(unknown, tx: .le1M, rx: .le1M)) == .unknownConnectionIdentifier)
    #expect(try pair.central.call(LEReadPHY(connectionHandle: unknown)).status == .unknownConnectionIdentifier)
  }

  @Test func bothAtOnceCollide() throws {
    let pair = try Pair(world)
    pair.central.send(setPHY(pair.centralHandle, tx: .le2M, rx: .le2M))
    pair.peripheral.send(setPHY(pair.peripheralHandle, tx: .leCoded, rx: .leCoded))
    pair.advance(.seconds(2))
    // The Central's goes on; the Peripheral has said that it likes the coded PHY only, so nothing changes.
    #expect(updates(pair.central).map(\.status) == [.success])
    #expect(updates(pair.peripheral).map(\.status) == [.llProcedureCollision])
    try expectPHYs(pair, central: (.le1M, .le1M))
    #expect(pair.central.events(DisconnectionComplete.self).isEmpty)
  }
}
