// SPDX-License-Identifier: Apache-2.0

import BLECore
import Synchronization
import Testing

@testable import BLESystem
@testable import CoreBluetooth

/// Rules 1 of the behaviour: state, queue, delegate.
@Suite struct ManagerTests {
  @Test func `1.1 a manager starts in unknown, and the first state comes later on its queue`() {
    let world = CentralWorld(poweredOn: false)
    #expect(world.manager.state == .unknown)
    #expect(world.calls() == [])
    world.link.emit(.stateChanged(.poweredOn))
    #expect(world.calls() == ["state poweredOn"])
    #expect(world.manager.state == .poweredOn)
  }

  @Test func `1.1 an event during init is kept until the manager is ready`() {
    let recorder = ThreeRecorder()
    let queue = DispatchQueue(label: "test")
    let manager = Adapter.$open.withValue({ spec, handler in
      let link = FakeLink(spec: spec, handler: handler)
      link.emit(.stateChanged(.poweredOff))
      return link
    }) { CBCentralManager(delegate: recorder, queue: queue) }
    queue.settle()
    #expect(recorder.lines.take() == ["state poweredOff"])
    #expect(manager.state == .poweredOff)
  }

  @Test func `1.2 everything pending is delivered in order by the queue's blocks`() {
    let world = CentralWorld()
    world.queue.suspend()
    world.link.emit(.stateChanged(.resetting))
    world.link.emit(.stateChanged(.poweredOff), .stateChanged(.poweredOn))
    #expect(world.manager.state == .poweredOn, "nothing shows before its callback")
    world.queue.resume()
    #expect(world.calls() == ["state resetting", "state poweredOff", "state poweredOn"])
  }

  /// A stream of events without end must not keep the app's other work from its queue.
  @Test func `1.2 other blocks of the queue get their turn between deliveries`() {
    let world = CentralWorld()
    let turns = Mutex((deliveries: 0, otherBlockAt: 0))
    @Sendable func deliver(_ manager: CBManager) {
      let goesOn = turns.withLock { turns in
        turns.deliveries += 1
        return turns.deliveries < 1_000 && turns.otherBlockAt == 0
      }
      if goesOn { manager.session.post(deliver) }
    }
    world.queue.suspend()
    world.manager.session.post(deliver)
    world.queue.async { turns.withLock { $0.otherBlockAt = $0.deliveries } }
    world.queue.resume()
    world.queue.settle()
    _ = world.calls()
    #expect(turns.withLock { $0.otherBlockAt } == 1)
  }

  @Test func `1.3 the delegate is weak, callbacks stop with it and start with another`() {
    let queue = DispatchQueue(label: "test")
    var recorder: ThreeRecorder? = ThreeRecorder()
    weak let gone = recorder
    let made = Mutex<CBCentralManager?>(nil)
    let link = onFakeLink { [recorder] in
      let manager = CBCentralManager(delegate: recorder, queue: queue)
      made.withLock { $0 = manager }
    }
    recorder = nil
    link.emit(.stateChanged(.poweredOn))
    queue.settle()
    #expect(gone == nil)
    let manager = made.withLock { $0 }
    #expect(manager?.state == .poweredOn)
    let other = ThreeRecorder()
    manager?.delegate = other
    link.emit(.stateChanged(.poweredOff))
    queue.settle()
    #expect(other.lines.take() == ["state poweredOff"])
  }

  @Test func `after the manager's end nothing is delivered and its session is closed`() {
    let recorder = ThreeRecorder()
    let queue = DispatchQueue(label: "test")
    let link = onFakeLink {
      let manager = CBCentralManager(delegate: recorder, queue: queue)
      withExtendedLifetime(manager) {}
    }
    queue.settle()
    #expect(link.isClosed)
    link.emit(.stateChanged(.poweredOn))
    queue.settle()
    #expect(recorder.lines.take() == [])
  }

  @Test func `1.5 commands outside poweredOn are dropped with one line`() {
    let world = CentralWorld()
    let peripheral = world.found()
    world.link.emit(.stateChanged(.poweredOff))
    _ = world.calls()
    _ = world.link.takeRequests()
    let manager = world.manager
    let lines = diagnostics {
      manager.scanForPeripherals(withServices: nil)
      manager.connect(peripheral)
      #expect(manager.retrievePeripherals(withIdentifiers: [peripheral.identifier]).isEmpty)
    }
    let address = "0x" + String(UInt(bitPattern: ObjectIdentifier(manager)), radix: 16)
    let line = "API MISUSE: <CBCentralManager: \(address)> can only accept this command while in the powered on state"
    #expect(lines == [line, line, line])
    #expect(!manager.isScanning)
    #expect(peripheral.state == .disconnected)
    #expect(world.link.takeRequests().isEmpty)
    #expect(world.calls() == [])
  }

  @Test func `1.6, 1.7, 1.8 power off disconnects silently and ends the scan`() {
    let world = CentralWorld()
    let peripheral = world.connected()
    world.manager.scanForPeripherals(withServices: nil)
    #expect(world.manager.isScanning)
    world.link.emit(.stateChanged(.poweredOff))
    #expect(world.calls() == ["state poweredOff"])
    #expect(peripheral.state == .disconnected)
    #expect(!world.manager.isScanning)
    world.link.emit(.stateChanged(.poweredOn))
    #expect(world.calls() == ["state poweredOn"])
    #expect(!world.manager.isScanning)
    world.connect(peripheral)
    #expect(peripheral.state == .connected, "usable after a plain power off")
  }

  @Test func `1.6 below poweredOff the peripherals are void, and new objects come instead`() throws {
    let world = CentralWorld()
    let peripheral = world.found()
    world.link.replica.update(peer: CentralWorld.info)
    world.link.emit(.stateChanged(.resetting), .stateChanged(.poweredOn))
    _ = world.calls()
    _ = world.link.takeRequests()
    world.manager.connect(peripheral)
    #expect(world.calls() == ["failed disconnected error CBErrorDomain 12"])
    #expect(world.link.takeRequests().isEmpty)
    let again = try #require(world.manager.retrievePeripherals(withIdentifiers: [peripheral.identifier]).first)
    #expect(again !== peripheral)
    #expect(again.identifier == peripheral.identifier)
  }

  @Test func `1.10 authorization is there before a manager, without asking`() {
    #expect(CBManager.authorization != .notDetermined)
  }

  @Test func `1.13 a peripheral of another manager is ignored`() {
    let world = CentralWorld()
    let other = CentralWorld()
    let peripheral = other.found()
    let lines = diagnostics { world.manager.connect(peripheral) }
    #expect(lines.count == 1)
    #expect(world.link.takeRequests().isEmpty)
    #expect(peripheral.state == .disconnected)
  }

  @Test func `the adapter: option before surroundings before the default`() {
    let plain = onFakeLink { _ = CBCentralManager() }
    #expect(plain.spec == nil)
    let around = Adapter.with("virtual:a") { onFakeLink { _ = CBPeripheralManager() } }
    #expect(around.spec == "virtual:a")
    let option = Adapter.with("virtual:a") {
      onFakeLink { _ = CBCentralManager(delegate: nil, queue: nil, options: [CBManagerOptionAdapterKey: "virtual:b"]) }
    }
    #expect(option.spec == "virtual:b")
  }
}
