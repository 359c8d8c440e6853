// SPDX-License-Identifier: Apache-2.0

import BLECore
import Synchronization
import Testing

@testable import BLESystem
@testable import CoreBluetooth

/// Rules 10 and 11: publishing, advertising, serving.
@Suite struct PeripheralManagerTests {
  @Test func `10.1, 10.3 a service is published with its characteristics`() throws {
    let world = PeripheralWorld()
    let characteristic = world.publish(
      [.read, .write, .notifyEncryptionRequired], [.readable, .writeEncryptionRequired])
    guard case .addService(let token, let local) = try #require(world.link.takeRequests().first) else {
      Issue.record("not asked to add")
      return
    }
    #expect(local.uuid == 0x180D)
    let published = try #require(local.characteristics.first)
    #expect(published.properties == 0x1A)
    #expect(published.subscriptionNeedsEncryption)
    #expect(published.read == .open)
    #expect(published.write == .encrypted)
    #expect(published.value == nil)
    #expect(published.descriptors == [LocalDescriptor(uuid: 0x2901, value: Array("beats".utf8))])
    world.link.emit(.serviceAdded(token, nil))
    #expect(world.calls() == ["added 180D"])
    #expect(characteristic.subscribedCentrals?.isEmpty ?? true)
  }

  @Test func `10.5 to 10.8 what cannot be published is refused`() {
    let world = PeripheralWorld()
    func service(_ uuid: String, _ characteristics: CBMutableCharacteristic...) -> CBMutableService {
      let service = CBMutableService(type: CBUUID(string: uuid), primary: true)
      service.characteristics = characteristics
      return service
    }
    func characteristic(_ properties: CBCharacteristicProperties, _ descriptors: CBMutableDescriptor...)
      -> CBMutableCharacteristic
    {
      let made = CBMutableCharacteristic(
        type: CBUUID(string: "2A37"), properties: properties, value: nil, permissions: .readable)
      made.descriptors = descriptors
      return made
    }
    world.manager.add(service("1800"))
    world.manager.add(service("00001801-0000-1000-8000-00805F9B34FB"))
    #expect(
      world.calls() == [
        "added 1800 error CBErrorDomain 8", "added 00001801-0000-1000-8000-00805F9B34FB error CBErrorDomain 8",
      ])
    world.manager.add(service("1234", characteristic(.broadcast)))
    world.manager.add(
      service("1234", characteristic(.read, CBMutableDescriptor(type: CBUUID(string: "2902"), value: 1))))
    world.manager.add(
      service("1234", characteristic(.read, CBMutableDescriptor(type: CBUUID(string: "2901"), value: Data()))))
    let including = service("1234")
    including.includedServices = [service("5678")]
    world.manager.add(including)
    #expect(world.calls() == Array(repeating: "added 1234 error CBErrorDomain 1", count: 4))
    #expect(world.link.takeRequests().isEmpty)
    let twice = service("1234")
    world.manager.add(twice)
    world.manager.add(twice)
    #expect(world.calls() == ["added 1234 error CBErrorDomain 1"])
    #expect(world.link.takeRequests().count == 1)
    world.manager.remove(twice)
    world.manager.add(twice)
    #expect(world.link.takeRequests().count == 2)
  }

  @Test func `10.4 a cached value that is not read-only ends the program`() async {
    await #expect(processExitsWith: .failure) {
      let world = PeripheralWorld()
      let service = CBMutableService(type: CBUUID(string: "180D"), primary: true)
      service.characteristics = [
        CBMutableCharacteristic(
          type: CBUUID(string: "2A37"), properties: [.read, .write], value: Data([1]), permissions: .readable)
      ]
      world.manager.add(service)
    }
  }

  @Test func `11.1, 11.3, 11.4 advertising`() throws {
    let world = PeripheralWorld()
    let lines = diagnostics {
      world.manager.startAdvertising([
        CBAdvertisementDataLocalNameKey: "Heart", CBAdvertisementDataServiceUUIDsKey: [CBUUID(string: "180D")],
        CBAdvertisementDataTxPowerLevelKey: 3,
      ])
    }
    #expect(lines.count == 1)
    #expect(!world.manager.isAdvertising)
    guard case .startAdvertising(let token, let name, let services) = try #require(world.link.takeRequests().first)
    else {
      Issue.record("not asked to advertise")
      return
    }
    #expect(name == "Heart")
    #expect(services == [0x180D])
    world.link.emit(.advertisingStarted(token, nil))
    #expect(world.calls() == ["advertising true"])
    world.manager.startAdvertising(nil)
    #expect(world.calls() == ["advertising true error CBErrorDomain 9"])
    #expect(world.link.takeRequests().isEmpty)
    world.manager.stopAdvertising()
    #expect(!world.manager.isAdvertising)
    #expect(world.link.takeRequests() == [.stopAdvertising])
    world.manager.startAdvertising(nil)
    world.link.emit(.stateChanged(.poweredOff))
    #expect(world.calls() == ["state poweredOff"])
    #expect(!world.manager.isAdvertising)
  }

  @Test func `1.5 commands outside poweredOn are dropped with a line`() {
    let world = PeripheralWorld()
    world.link.emit(.stateChanged(.poweredOff))
    _ = world.calls()
    let lines = diagnostics {
      world.manager.startAdvertising(nil)
      world.manager.add(CBMutableService(type: CBUUID(string: "180D"), primary: true))
      world.manager.removeAllServices()
    }
    #expect(lines.count == 3)
    #expect(lines.allSatisfy { $0.hasPrefix("API MISUSE: <CBPeripheralManager: 0x") })
    #expect(world.calls() == [])
    #expect(world.link.takeRequests().isEmpty)
  }

  @Test func `11.5, 11.7 a read names the app's own object and is answered once`() throws {
    let world = PeripheralWorld()
    let characteristic = world.publish([.read], [.readable])
    let id = try #require(world.characteristicID())
    world.link.emit(.readRequested(7, PeripheralWorld.central, id, offset: 3))
    #expect(world.calls() == ["read at 3"])
    let request = world.recorder.requests[0]
    #expect(request.characteristic === characteristic)
    #expect(request.central.identifier.uuidString == "00000000-0000-0001-0000-000000000002")
    request.value = Data([4, 5])
    world.manager.respond(to: request, withResult: .success)
    #expect(world.link.takeRequests() == [.respond(7, 0, [4, 5])])
    let lines = diagnostics { world.manager.respond(to: request, withResult: .success) }
    #expect(lines.count == 1)
    let other = PeripheralWorld()
    #expect(diagnostics { other.manager.respond(to: request, withResult: .success) }.count == 1)
    #expect(world.link.takeRequests().isEmpty)
    #expect(other.link.takeRequests().isEmpty)
    world.link.emit(.readRequested(8, PeripheralWorld.central, id, offset: 0))
    _ = world.calls()
    world.manager.respond(to: world.recorder.requests[0], withResult: CBATTError.Code(rawValue: 0x81) ?? .success)
    #expect(world.link.takeRequests() == [.respond(8, 0x81, nil)])
  }

  @Test func `11.6 writes come together, are answered by any one, and commands by none`() throws {
    let world = PeripheralWorld()
    _ = world.publish([.write, .writeWithoutResponse], [.writeable])
    let id = try #require(world.characteristicID())
    let writes = [
      RemoteWrite(characteristic: id, offset: 0, value: [1]), RemoteWrite(characteristic: id, offset: 1, value: [2]),
    ]
    world.link.emit(.writeRequested(9, PeripheralWorld.central, writes, needsResponse: true))
    #expect(world.calls() == ["write [0, 1]"])
    world.manager.respond(to: world.recorder.requests[1], withResult: .invalidOffset)
    #expect(world.link.takeRequests() == [.respond(9, 7, nil)])
    world.link.emit(.writeRequested(10, PeripheralWorld.central, [writes[0]], needsResponse: false))
    _ = world.calls()
    #expect(diagnostics { world.manager.respond(to: world.recorder.requests[0], withResult: .success) } == [])
    #expect(world.link.takeRequests().isEmpty)
  }

  @Test func `11.6 a delegate without the methods, or none, answers ATT error 6`() throws {
    let world = PeripheralWorld()
    _ = world.publish([.read, .write], [.readable, .writeable])
    let id = try #require(world.characteristicID())
    let write = RemoteWrite(characteristic: id, offset: 0, value: [1])
    let bare = BareDelegate()
    for delegate in [bare, nil] {
      world.manager.delegate = delegate
      world.link.emit(.readRequested(1, PeripheralWorld.central, id, offset: 0))
      world.link.emit(.writeRequested(2, PeripheralWorld.central, [write], needsResponse: true))
      world.queue.settle()
      #expect(world.link.takeRequests() == [.respond(1, 6, nil), .respond(2, 6, nil)])
    }
  }

  @Test func `11.9 updates take room; without subscribers they are done`() throws {
    let world = PeripheralWorld()
    let characteristic = world.publish([.notify], [.readable])
    let id = try #require(world.characteristicID())
    #expect(world.manager.updateValue(Data([1]), for: characteristic, onSubscribedCentrals: nil))
    #expect(world.link.takeRequests().isEmpty)
    world.link.emit(.subscribed(PeripheralWorld.central, id), .updateCreditsGranted(1))
    #expect(world.calls() == ["subscribed 20"])
    #expect(world.manager.updateValue(Data([1]), for: characteristic, onSubscribedCentrals: nil))
    #expect(!world.manager.updateValue(Data([2]), for: characteristic, onSubscribedCentrals: nil))
    #expect(world.link.takeRequests() == [.updateValue(id, [1], nil)])
    world.link.emit(.updateCreditsGranted(1))
    #expect(world.calls() == ["ready"])
    let central = try #require(characteristic.subscribedCentrals?.first)
    #expect(world.manager.updateValue(Data([2]), for: characteristic, onSubscribedCentrals: [central]))
    #expect(world.link.takeRequests() == [.updateValue(id, [2], [PeripheralWorld.central.identifier])])
    world.link.emit(.updateCreditsGranted(1))
    #expect(world.calls() == [], "nothing had been refused")
    #expect(characteristic.value == nil)
  }

  @Test func `10.9, 11.11, 11.13 subscriptions, one object for a central, its growing length`() throws {
    let world = PeripheralWorld()
    let characteristic = world.publish([.notify], [.readable])
    let id = try #require(world.characteristicID())
    world.link.emit(.subscribed(PeripheralWorld.central, id), .subscribed(PeripheralWorld.central, id))
    #expect(world.calls() == ["subscribed 20"])
    let central = try #require(characteristic.subscribedCentrals?.first)
    world.link.emit(
      .centralChanged(CentralInfo(identifier: PeripheralWorld.central.identifier, maximumUpdateValueLength: 182)))
    world.queue.settle()
    #expect(central.maximumUpdateValueLength == 182)
    world.link.emit(.readRequested(1, PeripheralWorld.central, id, offset: 0))
    _ = world.calls()
    #expect(world.recorder.requests[0].central === central)
    world.link.emit(.unsubscribed(PeripheralWorld.central.identifier, id))
    #expect(world.calls() == ["unsubscribed"])
    #expect(characteristic.subscribedCentrals == [])
  }

  @Test func `1.9 power off keeps the services, below it they are gone`() throws {
    let world = PeripheralWorld()
    let characteristic = world.publish([.notify], [.readable])
    let id = try #require(world.characteristicID())
    world.link.emit(.subscribed(PeripheralWorld.central, id))
    world.link.emit(.stateChanged(.poweredOff), .stateChanged(.poweredOn))
    _ = world.calls()
    #expect(characteristic.subscribedCentrals == [])
    world.link.emit(.subscribed(PeripheralWorld.central, id))
    #expect(world.calls() == ["subscribed 20"])
    world.link.emit(.stateChanged(.resetting), .stateChanged(.poweredOn))
    _ = world.calls()
    world.link.emit(.subscribed(PeripheralWorld.central, id))
    #expect(world.calls() == [])
  }

  @Test func `9.2 channels are refused through their callback`() {
    let world = PeripheralWorld()
    world.manager.publishL2CAPChannel(withEncryption: false)
    #expect(world.calls() == ["published error CBErrorDomain 13"])
  }
}

private final class BareDelegate: NSObject, CBPeripheralManagerDelegate {
  func peripheralManagerDidUpdateState(_ peripheral: CBPeripheralManager) {}
}

/// Writes down what the delegate is told. Touched on the manager's queue alone.
private final class ServerRecorder: NSObject, CBPeripheralManagerDelegate, @unchecked Sendable {
  let lines = Lines()
  var requests: [CBATTRequest] = []

  func note(_ text: String, _ error: (any Error)? = nil) {
    lines.add(text + (error.map { " error \(($0 as NSError).domain) \(($0 as NSError).code)" } ?? ""))
  }

  func peripheralManagerDidUpdateState(_ peripheral: CBPeripheralManager) { note("state \(peripheral.state)") }
  func peripheralManagerDidStartAdvertising(_ peripheral: CBPeripheralManager, error: (any Error)?) {
    note("advertising \(peripheral.isAdvertising)", error)
  }
  func peripheralManager(_ peripheral: CBPeripheralManager, didAdd service: CBService, error: (any Error)?) {
    note("added \(service.uuid.uuidString)", error)
  }
  func peripheralManager(
    _ peripheral: CBPeripheralManager, central: CBCentral, didSubscribeTo characteristic: CBCharacteristic
  ) { note("subscribed \(central.maximumUpdateValueLength)") }
  func peripheralManager(
    _ peripheral: CBPeripheralManager, central: CBCentral, didUnsubscribeFrom characteristic: CBCharacteristic
  ) { note("unsubscribed") }
  func peripheralManager(_ peripheral: CBPeripheralManager, didReceiveRead request: CBATTRequest) {
    requests = [request]
    note("read at \(request.offset)")
  }
  func peripheralManager(_ peripheral: CBPeripheralManager, didReceiveWrite requests: [CBATTRequest]) {
    self.requests = requests
    note("write \(requests.map(\.offset))")
  }
  func peripheralManagerIsReady(toUpdateSubscribers peripheral: CBPeripheralManager) { note("ready") }
  func peripheralManager(
    _ peripheral: CBPeripheralManager, didPublishL2CAPChannel PSM: CBL2CAPPSM, error: (any Error)?
  ) { note("published", error) }
}

/// A peripheral manager on a fake link, powered on.
private final class PeripheralWorld {
  static let central = CentralInfo(identifier: PeerIdentifier(high: 1, low: 2), maximumUpdateValueLength: 20)

  let queue = DispatchQueue(label: "test")
  let recorder = ServerRecorder()
  let manager: CBPeripheralManager
  let link: FakeLink

  init() {
    let holder = Mutex<CBPeripheralManager?>(nil)
    let (recorder, queue) = (recorder, queue)
    link = onFakeLink {
      let made = CBPeripheralManager(delegate: recorder, queue: queue)
      holder.withLock { $0 = made }
    }
    manager = holder.withLock { $0 } ?? CBPeripheralManager()
    link.emit(.stateChanged(.poweredOn))
    _ = calls()
  }

  func calls() -> [String] {
    queue.settle()
    return recorder.lines.take()
  }

  /// Adds a service of one characteristic.
  func publish(_ properties: CBCharacteristicProperties, _ permissions: CBAttributePermissions)
    -> CBMutableCharacteristic
  {
    let characteristic = CBMutableCharacteristic(
      type: CBUUID(string: "2A37"), properties: properties, value: nil, permissions: permissions)
    characteristic.descriptors = [
      CBMutableDescriptor(type: CBUUID(string: CBUUIDCharacteristicUserDescriptionString), value: "beats")
    ]
    let service = CBMutableService(type: CBUUID(string: "180D"), primary: true)
    service.characteristics = [characteristic]
    manager.add(service)
    return characteristic
  }

  /// The identifier that the system was given for it.
  func characteristicID() -> LocalAttributeID? {
    for request in link.takeRequests() {
      if case .addService(let token, let service) = request {
        link.emit(.serviceAdded(token, nil))
        _ = calls()
        return service.characteristics.first?.id
      }
    }
    return nil
  }
}
