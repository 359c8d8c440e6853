// SPDX-License-Identifier: Apache-2.0

import BLECore
import BLEHCI
import BLERadio
import Testing

@Suite struct EndToEndTests {
  @Test(arguments: [AirSetting.physical, .ideal])
  func advertiseScanConnectExchangeDisconnect(setting: AirSetting) throws {
    let world = RadioWorld(seed: 1, setting: setting)
    let central = ScriptedHost(world, address: 0x0000_0000_0001)
    let peripheral = ScriptedHost(world, address: 0x0000_0000_0002)
    try central.start()
    try peripheral.start()
    try peripheral.advertise(data: [2, 1, 6], response: [3, 9, 65, 66])
    try central.scan(.active)
    world.simulator.advance(by: .milliseconds(500))

    let kinds = Set(central.reports.map(\.report.eventType))
    #expect(kinds == [.connectable, .scanResponse])
    #expect(central.reports.contains { $0.report.eventType == .connectable && $0.report.data == [2, 1, 6] })
    #expect(central.reports.contains { $0.report.eventType == .scanResponse && $0.report.data == [3, 9, 65, 66] })
    #expect(central.reports.allSatisfy { $0.report.rssi == -60 && $0.report.address == peripheral.controller.address })

    try central.expect(LESetScanEnable(enable: false, filterDuplicates: false))
    #expect(try central.createConnection(to: peripheral.controller.address) == .success)
    world.simulator.advance(by: .milliseconds(500))
    let atCentral = try #require(central.metaEvents(LEConnectionComplete.self).first).event
    let atPeripheral = try #require(peripheral.metaEvents(LEConnectionComplete.self).first).event
    #expect(atCentral.status == .success)
    #expect(atCentral.role == .central)
    #expect(atCentral.peerAddress == peripheral.controller.address)
    #expect(atPeripheral.role == .peripheral)
    #expect(atPeripheral.peerAddress == central.controller.address)
    #expect(atPeripheral.connectionInterval.rawValue == 24)

    central.sendData(atCentral.connectionHandle, [3, 0, 4, 0, 1, 2, 3])
    peripheral.sendData(atPeripheral.connectionHandle, [1, 0, 4, 0, 9])
    world.simulator.advance(by: .milliseconds(200))
    #expect(peripheral.data == [[3, 0, 4, 0, 1, 2, 3]])
    #expect(central.data == [[1, 0, 4, 0, 9]])
    #expect(central.completed == 1)
    #expect(peripheral.completed == 1)

    #expect(
      try central.request(
        Disconnect(connectionHandle: atCentral.connectionHandle, reason: .remoteUserTerminatedConnection)) == .success)
    world.simulator.advance(by: .milliseconds(200))
    #expect(central.events(DisconnectionComplete.self).map(\.event.reason) == [.connectionTerminatedByLocalHost])
    #expect(peripheral.events(DisconnectionComplete.self).map(\.event.reason) == [.remoteUserTerminatedConnection])
    #expect(central.controller.connections.isEmpty)
    #expect(peripheral.controller.connections.isEmpty)
  }

  /// Who begins to initiate in the ideal air need not wait for the next advertising event, and several advertisers do not
  /// take each other's packets for the answer.
  @Test func inTheIdealAirAnyOfManyAdvertisersIsConnectedAtOnce() throws {
    let world = RadioWorld(seed: 3, setting: .ideal)
    let central = ScriptedHost(world, address: 0x0000_0000_0001)
    try central.start()
    let peripherals = (2...6).map { ScriptedHost(world, address: UInt64($0)) }
    for peripheral in peripherals {
      try peripheral.start()
      try peripheral.advertise(data: [2, 1, 6], response: [])
    }
    world.simulator.advance(by: .milliseconds(11))
    for peripheral in peripherals {
      let before = central.metaEvents(LEConnectionComplete.self).count
      #expect(try central.createConnection(to: peripheral.controller.address) == .success)
      world.simulator.advance(by: .milliseconds(8))
      #expect(central.metaEvents(LEConnectionComplete.self).count == before + 1)
    }
    world.simulator.advance(by: .milliseconds(500))
    #expect(central.events(DisconnectionComplete.self).isEmpty)
    #expect(central.controller.connections.count == peripherals.count)
  }
}
