// SPDX-License-Identifier: Apache-2.0

import CoreBluetooth

/// The peripheral role: every call of `CBPeripheralManager` by a line. It keeps a value per characteristic, serves
/// reads and writes from it, and refuses them with an error where it was told to.
final class PeripheralScript: NSObject, @unchecked Sendable {  // Everything happens on the app's queue.
  private var manager: CBPeripheralManager?
  private var services: [CBMutableService] = []
  private var values: [CBUUID: Data] = [:]
  private var refusals: [CBUUID: Int] = [:]
  private var stream: (characteristic: CBMutableCharacteristic, next: Int, count: Int, length: Int, waits: Int)?

  private func tell(_ event: String, _ members: [String: Any?] = [:]) { report("peripheral", event, members) }

  func obey(_ verb: String, _ line: Line) {
    guard verb != "create" else {
      manager = CBPeripheralManager(delegate: self, queue: queue)
      return
    }
    guard let manager else { return tell("misused", ["verb": verb]) }
    switch verb {
    case "release":
      self.manager = nil
      services = []
      tell("released")
    case "state": tell("state", ["state": manager.state.text, "isAdvertising": manager.isAdvertising])
    case "add": add(line["service"] as? Line ?? [:], manager)
    case "remove":
      guard let service = services.first(where: { $0.uuid == uuid(line["service"]) }) else { return misused(verb) }
      services.removeAll { $0 === service }
      manager.remove(service)
    case "removeAll":
      services = []
      manager.removeAllServices()
    case "advertise":
      var data: [String: Any] = [:]
      data[CBAdvertisementDataLocalNameKey] = line["name"] as? String
      data[CBAdvertisementDataServiceUUIDsKey] = uuids(line["services"])
      manager.startAdvertising(data)
    case "stopAdvertising": manager.stopAdvertising()
    default: obeyOfCharacteristic(verb, line, manager)
    }
  }

  private func misused(_ verb: String) { tell("misused", ["verb": verb]) }

  private func obeyOfCharacteristic(_ verb: String, _ line: Line, _ manager: CBPeripheralManager) {
    let all = services.flatMap { $0.characteristics ?? [] }
    let found = all.first { $0.uuid == uuid(line["characteristic"]) }
    guard let characteristic = found as? CBMutableCharacteristic else { return misused(verb) }
    switch verb {
    case "set": values[characteristic.uuid] = Data(hex: line["value"])
    case "refuse": refusals[characteristic.uuid] = line["code"] as? Int
    case "update":
      let value = Data(hex: line["value"]) ?? Data()
      let isAccepted = manager.updateValue(value, for: characteristic, onSubscribedCentrals: nil)
      tell("updated", ["accepted": isAccepted, "subscribers": characteristic.subscribedCentrals?.count ?? 0])
    case "stream":
      stream = (characteristic, 0, line["count"] as? Int ?? 0, line["length"] as? Int ?? 20, 0)
      sendStream(manager)
    default: misused(verb)
    }
  }

  /// Updates as long as there is room; goes on when there is room again.
  private func sendStream(_ manager: CBPeripheralManager) {
    guard var stream else { return }
    while stream.next < stream.count {
      let value = Data(number: stream.next, length: stream.length)
      guard manager.updateValue(value, for: stream.characteristic, onSubscribedCentrals: nil) else {
        stream.waits += 1
        self.stream = stream
        return
      }
      stream.next += 1
    }
    self.stream = nil
    tell("streamed", ["count": stream.count, "waits": stream.waits])
  }

  // MARK: Services

  private func add(_ line: Line, _ manager: CBPeripheralManager) {
    guard let type = uuid(line["uuid"]) else { return misused("add") }
    let service = CBMutableService(type: type, primary: line["primary"] as? Bool ?? true)
    let included = uuids(line["included"]) ?? []
    service.includedServices = services.filter { included.contains($0.uuid) }
    service.characteristics = (line["characteristics"] as? [Line] ?? []).compactMap(characteristic)
    services.append(service)
    manager.add(service)
  }

  private func characteristic(_ line: Line) -> CBMutableCharacteristic? {
    guard let type = uuid(line["uuid"]) else { return nil }
    let characteristic = CBMutableCharacteristic(
      type: type, properties: properties(line["properties"]), value: Data(hex: line["cached"]),
      permissions: permissions(line["permissions"]))
    values[type] = Data(hex: line["value"])
    characteristic.descriptors = (line["descriptors"] as? [Line])?.compactMap { descriptor in
      guard let type = uuid(descriptor["uuid"]) else { return nil }
      return CBMutableDescriptor(type: type, value: descriptor["text"] as? String ?? Data(hex: descriptor["value"]))
    }
    return characteristic
  }

  private func properties(_ names: Any?) -> CBCharacteristicProperties {
    let known: [String: CBCharacteristicProperties] = [
      "read": .read, "write": .write, "writeWithoutResponse": .writeWithoutResponse, "notify": .notify,
      "indicate": .indicate, "notifyEncryptionRequired": .notifyEncryptionRequired,
    ]
    return CBCharacteristicProperties((names as? [String] ?? []).compactMap { known[$0] })
  }

  private func permissions(_ names: Any?) -> CBAttributePermissions {
    let known: [String: CBAttributePermissions] = [
      "readable": .readable, "writeable": .writeable, "readEncryptionRequired": .readEncryptionRequired,
      "writeEncryptionRequired": .writeEncryptionRequired,
    ]
    return CBAttributePermissions((names as? [String] ?? []).compactMap { known[$0] })
  }
}

extension PeripheralScript: CBPeripheralManagerDelegate {
  func peripheralManagerDidUpdateState(_ peripheral: CBPeripheralManager) {
    if peripheral.state.rawValue < CBManagerState.poweredOff.rawValue { services = [] }  // Void from here on.
    tell("didUpdateState", ["state": peripheral.state.text, "isAdvertising": peripheral.isAdvertising])
  }

  func peripheralManagerDidStartAdvertising(_ peripheral: CBPeripheralManager, error: (any Error)?) {
    tell("didStartAdvertising", ["error": failure(error)])
  }

  func peripheralManager(_ peripheral: CBPeripheralManager, didAdd service: CBService, error: (any Error)?) {
    tell("didAdd", ["service": service.uuid.uuidString, "error": failure(error)])
  }

  func peripheralManager(
    _ peripheral: CBPeripheralManager, central: CBCentral, didSubscribeTo characteristic: CBCharacteristic
  ) {
    tell(
      "didSubscribe",
      [
        "central": central.identifier.uuidString, "characteristic": characteristic.uuid.uuidString,
        "maximumUpdateValueLength": central.maximumUpdateValueLength,
      ])
  }

  func peripheralManager(
    _ peripheral: CBPeripheralManager, central: CBCentral, didUnsubscribeFrom characteristic: CBCharacteristic
  ) {
    tell(
      "didUnsubscribe",
      ["central": central.identifier.uuidString, "characteristic": characteristic.uuid.uuidString])
  }

  func peripheralManager(_ peripheral: CBPeripheralManager, didReceiveRead request: CBATTRequest) {
    let type = request.characteristic.uuid
    tell(
      "didReceiveRead",
      ["central": request.central.identifier.uuidString, "characteristic": type.uuidString, "offset": request.offset])
    if let code = refusals[type] {
      return peripheral.respond(to: request, withResult: CBATTError.Code(rawValue: code) ?? .unlikelyError)
    }
    let value = values[type] ?? Data()
    guard request.offset <= value.count else { return peripheral.respond(to: request, withResult: .invalidOffset) }
    request.value = value.dropFirst(request.offset)
    peripheral.respond(to: request, withResult: .success)
  }

  func peripheralManager(_ peripheral: CBPeripheralManager, didReceiveWrite requests: [CBATTRequest]) {
    let lines = requests.map { request -> Line in
      [
        "characteristic": request.characteristic.uuid.uuidString, "offset": request.offset,
        "value": request.value?.hex ?? NSNull(),
      ]
    }
    tell("didReceiveWrite", ["central": requests.first?.central.identifier.uuidString, "requests": lines])
    guard let first = requests.first else { return }
    var new = values
    for request in requests {
      let type = request.characteristic.uuid
      if let code = refusals[type] {
        return peripheral.respond(to: request, withResult: CBATTError.Code(rawValue: code) ?? .unlikelyError)
      }
      let old = request.offset == 0 ? Data() : new[type] ?? Data()
      guard request.offset <= old.count else { return peripheral.respond(to: request, withResult: .invalidOffset) }
      new[type] = Data(old.prefix(request.offset) + (request.value ?? Data()))
    }
    values = new
    peripheral.respond(to: first, withResult: .success)
  }

  func peripheralManagerIsReady(toUpdateSubscribers peripheral: CBPeripheralManager) {
    if stream != nil { sendStream(peripheral) } else { tell("isReadyToUpdateSubscribers") }
  }
}
