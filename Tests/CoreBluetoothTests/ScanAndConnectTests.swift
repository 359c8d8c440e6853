// SPDX-License-Identifier: Apache-2.0

import BLECore
import Testing

@testable import BLESystem
@testable import CoreBluetooth

/// Rules 2 to 5: scanning, connecting, identity, auto reconnect.
@Suite struct ScanAndConnectTests {
  @Test func `2.1, 2.2 filters and options reach the system; each call replaces the last`() {
    let world = CentralWorld()
    world.manager.scanForPeripherals(withServices: [CBUUID(string: "180D")])
    world.manager.scanForPeripherals(
      withServices: [], options: [CBCentralManagerScanOptionAllowDuplicatesKey: NSNumber(value: true)])
    #expect(
      world.link.takeRequests() == [
        .startScan(ScanOptions(services: [0x180D])), .startScan(ScanOptions(services: nil, allowDuplicates: true)),
      ])
  }

  @Test func `2.5, 2.7 the dictionary has what was advertised and no more`() {
    let world = CentralWorld()
    world.manager.scanForPeripherals(withServices: nil)
    var rich = Discovery(peer: CentralWorld.info, isConnectable: true, rssi: -60)
    rich.localName = "Fresh"
    rich.txPowerLevel = -7
    rich.services = [0x180D]
    rich.serviceData = [0x180F: [99]]
    rich.manufacturerData = [0x4C, 0, 1]
    let poor = Discovery(peer: CentralWorld.info, isConnectable: false, rssi: 127)
    world.link.emit(.discovered(rich), .discovered(poor))
    #expect(world.calls() == ["discovered Sensor -60", "discovered Sensor 127"])
    let full = world.recorder.advertisements[0]
    #expect(full[CBAdvertisementDataLocalNameKey] as? String == "Fresh")
    #expect(full[CBAdvertisementDataTxPowerLevelKey] as? NSNumber == -7)
    #expect(full[CBAdvertisementDataServiceUUIDsKey] as? [CBUUID] == [CBUUID(string: "180D")])
    #expect((full[CBAdvertisementDataServiceDataKey] as? [CBUUID: Data])?[CBUUID(string: "180F")] == Data([99]))
    #expect(full[CBAdvertisementDataManufacturerDataKey] as? Data == Data([0x4C, 0, 1]))
    #expect(full[CBAdvertisementDataIsConnectable] as? Bool == true)
    let empty = world.recorder.advertisements[1]
    #expect(empty.keys.sorted() == [CBAdvertisementDataIsConnectable])
    #expect(empty[CBAdvertisementDataIsConnectable] as? Bool == false)
  }

  @Test func `2.11 stopScan ends it at once, also for what is on its way`() {
    let world = CentralWorld()
    world.manager.scanForPeripherals(withServices: nil)
    world.queue.suspend()
    world.link.emit(.discovered(Discovery(peer: CentralWorld.info, isConnectable: true, rssi: -40)))
    world.manager.stopScan()
    #expect(!world.manager.isScanning)
    world.queue.resume()
    #expect(world.calls() == [])
  }

  @Test func `2.6 a dropped peripheral cancels its connection, with a line`() {
    let world = CentralWorld()
    let lines = diagnostics {
      let peripheral = world.found()
      world.manager.connect(peripheral)
      world.recorder.peripherals = []
    }
    #expect(lines.count == 1)
    #expect(lines.first?.hasPrefix("API MISUSE: Cancelling connection for unused peripheral <CBPeripheral: ") == true)
    #expect(lines.first?.hasSuffix(">, Did you forget to keep a reference to it?") == true)
    #expect(
      world.link.takeRequests() == [
        .connect(CentralWorld.peer, ConnectOptions()), .cancelConnection(CentralWorld.peer),
      ])
    // The answer to that cancel is nobody's, also not that of a new object which is wanted already.
    let again = world.found()
    world.manager.connect(again)
    world.link.emit(.disconnected(CentralWorld.peer, nil, isReconnecting: false))
    #expect(world.calls() == [])
    #expect(again.state == .connecting)
    world.link.emit(
      .connected(LinkReference(peer: CentralWorld.peer, epoch: 9), maximumWriteLength: 20, writeCredits: 1))
    #expect(world.calls() == ["connected connected"])
  }

  @Test func `3.1, 3.3, 3.4 connect, cancel: state at once, then callbacks without error`() {
    let world = CentralWorld()
    let peripheral = world.found()
    #expect(peripheral.state == .disconnected)
    world.manager.connect(peripheral)
    #expect(peripheral.state == .connecting)
    let link = LinkReference(peer: CentralWorld.peer, epoch: 1)
    world.link.emit(.connected(link, maximumWriteLength: 182, writeCredits: 20))
    #expect(world.calls() == ["connected connected"])
    world.manager.cancelPeripheralConnection(peripheral)
    #expect(peripheral.state == .disconnecting)
    #expect(
      world.link.takeRequests() == [
        .connect(CentralWorld.peer, ConnectOptions()), .cancelConnection(CentralWorld.peer),
      ])
    world.link.emit(.disconnected(CentralWorld.peer, nil, isReconnecting: false))
    #expect(world.calls() == ["disconnected disconnected"])
    world.manager.cancelPeripheralConnection(peripheral)
    #expect(world.calls() == [])
    #expect(world.link.takeRequests().isEmpty)
  }

  @Test(arguments: [
    (SystemError.Reason.connectionTimeout, 6, "The connection has timed out unexpectedly."),
    (.peripheralDisconnected, 7, "The specified device has disconnected from us."),
  ])
  func `3.4 a loss has its error`(_ reason: SystemError.Reason, _ code: Int, _ text: String) {
    let world = CentralWorld()
    let peripheral = world.connected()
    world.link.emit(.disconnected(CentralWorld.peer, SystemError(reason, "why"), isReconnecting: false))
    #expect(world.calls() == ["disconnected disconnected error CBErrorDomain \(code)"])
    #expect(world.recorder.errors.first?.localizedDescription == text)
    #expect(peripheral.state == .disconnected)
  }

  @Test func `3.5 cancelling a pending connect gives didDisconnect, whichever crosses with it`() {
    let world = CentralWorld()
    let peripheral = world.found()
    world.manager.connect(peripheral)
    world.manager.cancelPeripheralConnection(peripheral)
    let link = LinkReference(peer: CentralWorld.peer, epoch: 1)
    world.link.emit(.connected(link, maximumWriteLength: 20, writeCredits: 20))
    world.link.emit(.disconnected(CentralWorld.peer, nil, isReconnecting: false))
    #expect(world.calls() == ["disconnected disconnected"])
    world.manager.connect(peripheral)
    world.manager.cancelPeripheralConnection(peripheral)
    world.link.emit(.connectFailed(CentralWorld.peer, SystemError(.connectionFailed)))
    #expect(world.calls() == ["disconnected disconnected"])
  }

  @Test func `connect, cancel, connect in one go: one didDisconnect, one didConnect`() {
    let world = CentralWorld()
    let peripheral = world.connected()
    world.manager.cancelPeripheralConnection(peripheral)
    world.manager.connect(peripheral)
    #expect(peripheral.state == .connecting)
    world.link.emit(.disconnected(CentralWorld.peer, nil, isReconnecting: false))
    #expect(world.calls() == ["disconnected connecting"])
    world.link.emit(
      .connected(LinkReference(peer: CentralWorld.peer, epoch: 2), maximumWriteLength: 20, writeCredits: 1))
    #expect(world.calls() == ["connected connected"])
  }

  @Test func `3.6 connecting a connected peer answers again`() {
    let world = CentralWorld()
    let peripheral = world.connected()
    world.manager.connect(peripheral)
    #expect(world.calls() == ["connected connected"])
    #expect(world.link.takeRequests().isEmpty)
  }

  @Test func `3.2, 3.9 failure and options that cannot be used`() {
    let world = CentralWorld()
    let peripheral = world.found()
    world.manager.connect(peripheral, options: [CBConnectPeripheralOptionStartDelayKey: "soon"])
    #expect(world.calls() == ["failed disconnected error CBErrorDomain 1"])
    world.manager.connect(peripheral, options: [CBConnectPeripheralOptionStartDelayKey: 2.5])
    #expect(
      world.link.takeRequests() == [
        .connect(CentralWorld.peer, ConnectOptions(startDelay: .milliseconds(2500)))
      ])
    world.link.emit(.connectFailed(CentralWorld.peer, SystemError(.connectionLimitReached)))
    #expect(world.calls() == ["failed disconnected error CBErrorDomain 11"])
  }

  @Test func `3.7 the connection's end takes answers with it`() {
    let world = CentralWorld()
    let peripheral = world.connected()
    peripheral.discoverServices(nil)
    let token = world.link.takeRequests().compactMap(\.token)[0]
    world.link.emit(
      .disconnected(CentralWorld.peer, SystemError(.connectionTimeout), isReconnecting: false),
      .servicesDiscovered(token, world.reference, .success([.heartRate])))
    #expect(world.calls() == ["disconnected disconnected error CBErrorDomain 6"])
    #expect(peripheral.services == nil)
  }

  @Test func `4.4, 4.5 retrieval: known peers in the order asked, connected peers by service`() {
    let world = CentralWorld()
    let second = PeerInfo(
      identifier: PeerIdentifier(high: 1, low: 2), name: nil,
      address: DeviceAddress(BDAddress(0x02CB_0000_0002), type: .publicDevice))
    world.link.replica.update(peer: CentralWorld.info)
    world.link.replica.update(peer: second)
    let ids = [second.identifier, PeerIdentifier(high: 7, low: 7), CentralWorld.peer]
      .map { UUID(high: $0.high, low: $0.low) }
    #expect(world.manager.retrievePeripherals(withIdentifiers: ids).map(\.identifier) == [ids[0], ids[2]])
    world.link.replica.update(connected: second.identifier, services: [0x180D])
    let connected = world.manager.retrieveConnectedPeripherals(withServices: [CBUUID(string: "180D")])
    #expect(connected.map(\.identifier) == [ids[0]])
    #expect(connected.first?.state == .disconnected)
    #expect(world.manager.retrieveConnectedPeripherals(withServices: [CBUUID(string: "180F")]).isEmpty)
  }

  @Test func `4.6, 4.8 one object for a peer while somebody holds it`() {
    let world = CentralWorld()
    let peripheral = world.found()
    #expect(world.found() === peripheral)
    world.link.replica.update(peer: CentralWorld.info)
    #expect(world.manager.retrievePeripherals(withIdentifiers: [peripheral.identifier]).first === peripheral)
    #expect(peripheral.copy() as AnyObject === peripheral)
  }

  @Test func `4.2 a new name is told`() {
    let world = CentralWorld()
    let peripheral = world.connected()
    world.link.emit(.nameChanged(CentralWorld.peer, "New"), .nameChanged(CentralWorld.peer, "New"))
    #expect(world.calls() == ["name New"])
    #expect(peripheral.name == "New")
  }

  @Test func `4.7 RSSI is read while connected only`() {
    let world = CentralWorld()
    let peripheral = world.found()
    let lines = diagnostics { peripheral.readRSSI() }
    #expect(lines.count == 1)
    #expect(world.link.takeRequests().isEmpty)
    world.connect(peripheral)
    peripheral.readRSSI()
    world.answer { .rssiRead($0, $1, .success(-55)) }
    #expect(world.calls() == ["rssi -55"])
  }

  @Test func `5.1, 5.4 auto reconnect with a delegate of five arguments`() {
    let recorder = FiveRecorder()
    let world = CentralWorld(recorder)
    let peripheral = world.found()
    for round in 1...2 {
      world.connect(peripheral, options: [CBConnectPeripheralOptionEnableAutoReconnect: true])
      world.link.emit(.disconnected(CentralWorld.peer, SystemError(.connectionTimeout), isReconnecting: true))
      #expect(world.calls() == ["disconnected connecting again error CBErrorDomain 6"])
      if round == 1 {
        // The first time shows which variant the delegate has: the system is asked to stop and to go on.
        #expect(
          world.link.takeRequests() == [
            .cancelConnection(CentralWorld.peer), .connect(CentralWorld.peer, ConnectOptions(autoReconnect: true)),
          ])
        world.link.emit(.disconnected(CentralWorld.peer, nil, isReconnecting: false))
      }
      #expect(world.link.takeRequests().isEmpty)
    }
    world.manager.cancelPeripheralConnection(peripheral)
    world.link.emit(.disconnected(CentralWorld.peer, nil, isReconnecting: false))
    #expect(world.calls() == ["disconnected disconnected"])
  }

  @Test func `5.9 with both variants that of three arguments is called, and nothing reconnects`() {
    let world = CentralWorld(BothRecorder())
    let peripheral = world.found()
    for epoch in 1...2 {
      world.connect(peripheral, options: [CBConnectPeripheralOptionEnableAutoReconnect: true])
      world.link.emit(.disconnected(CentralWorld.peer, SystemError(.connectionTimeout), isReconnecting: true))
      #expect(world.calls() == ["three disconnected error CBErrorDomain 6"], "round \(epoch)")
      #expect(world.link.takeRequests() == [.cancelConnection(CentralWorld.peer)])
      world.link.emit(.disconnected(CentralWorld.peer, nil, isReconnecting: false))
      #expect(world.calls() == [])
    }
  }

  @Test func `13.1 connection events of registered peers`() {
    let world = CentralWorld()
    let peripheral = world.found()
    world.manager.registerForConnectionEvents(options: [.peripheralUUIDs: [peripheral.identifier]])
    world.manager.connect(peripheral)
    world.link.emit(
      .connected(LinkReference(peer: CentralWorld.peer, epoch: 1), maximumWriteLength: 20, writeCredits: 1),
      .disconnected(CentralWorld.peer, SystemError(.peripheralDisconnected), isReconnecting: false))
    #expect(
      world.calls() == [
        "connected connected", "peerConnected", "disconnected disconnected error CBErrorDomain 7", "peerDisconnected",
      ])
  }
}

/// Has the variant of didDisconnect of five arguments.
private final class FiveRecorder: Recorder, CBCentralManagerDelegate, @unchecked Sendable {
  func centralManager(
    _ central: CBCentralManager, didDisconnectPeripheral peripheral: CBPeripheral, timestamp: CFAbsoluteTime,
    isReconnecting: Bool, error: (any Error)?
  ) { note("disconnected \(peripheral.state)\(isReconnecting ? " again" : "")", error) }
}

/// Has both.
private final class BothRecorder: Recorder, CBCentralManagerDelegate, @unchecked Sendable {
  func centralManager(
    _ central: CBCentralManager, didDisconnectPeripheral peripheral: CBPeripheral, error: (any Error)?
  ) { note("three \(peripheral.state)", error) }
  func centralManager(
    _ central: CBCentralManager, didDisconnectPeripheral peripheral: CBPeripheral, timestamp: CFAbsoluteTime,
    isReconnecting: Bool, error: (any Error)?
  ) { note("five \(peripheral.state)", error) }
}
