// SPDX-License-Identifier: Apache-2.0

import CoreBluetooth

/// The central role: every call of `CBCentralManager` and `CBPeripheral` by a line.
final class CentralScript: NSObject, @unchecked Sendable {  // Everything happens on the app's queue.
  private var manager: CBCentralManager?
  private var peers: [UUID: CBPeripheral] = [:]
  private var stream: (characteristic: CBCharacteristic, next: Int, count: Int, length: Int, waits: Int)?

  private func tell(_ event: String, _ peer: CBPeripheral? = nil, _ members: [String: Any?] = [:]) {
    var members = members
    if let peer {
      members["peer"] = peer.identifier.uuidString
      members["state"] = members["state"] ?? peer.state.text
    }
    report("central", event, members)
  }

  func obey(_ verb: String, _ line: Line) {
    guard verb != "create" else {
      manager = CBCentralManager(delegate: self, queue: queue)
      return
    }
    guard let manager else { return tell("misused", nil, ["verb": verb]) }
    switch verb {
    case "release":
      self.manager = nil
      peers = [:]
      tell("released")
    case "state": tell("state", nil, ["state": manager.state.text, "isScanning": manager.isScanning])
    case "scan":
      let options = [CBCentralManagerScanOptionAllowDuplicatesKey: line["duplicates"] as? Bool ?? false]
      manager.scanForPeripherals(withServices: uuids(line["services"]), options: options)
    case "stopScan": manager.stopScan()
    case "retrieve":
      let identifiers = (line["peers"] as? [String] ?? []).compactMap { UUID(uuidString: $0) }
      retrieved(manager.retrievePeripherals(withIdentifiers: identifiers))
    case "retrieveConnected":
      retrieved(manager.retrieveConnectedPeripherals(withServices: uuids(line["services"]) ?? []))
    default: obeyOfPeer(verb, line, manager)
    }
  }

  private func retrieved(_ found: [CBPeripheral]) {
    for peer in found { keep(peer) }
    tell("retrieved", nil, ["peers": found.map(\.identifier.uuidString), "names": found.map { $0.name ?? "" }])
  }

  private func keep(_ peer: CBPeripheral) {
    peers[peer.identifier] = peer
    peer.delegate = self
  }

  private func obeyOfPeer(_ verb: String, _ line: Line, _ manager: CBCentralManager) {
    guard let peer = (line["peer"] as? String).flatMap({ UUID(uuidString: $0) }).flatMap({ peers[$0] }) else {
      return tell("misused", nil, ["verb": verb])
    }
    switch verb {
    case "connect": manager.connect(peer)
    case "cancel": manager.cancelPeripheralConnection(peer)
    case "look": tell("looked", peer, ["name": peer.name, "services": services(of: peer).map(json)])
    case "readRSSI": peer.readRSSI()
    case "limits":
      tell(
        "limits", peer,
        [
          "withResponse": peer.maximumWriteValueLength(for: .withResponse),
          "withoutResponse": peer.maximumWriteValueLength(for: .withoutResponse),
        ])
    case "discoverServices": peer.discoverServices(uuids(line["services"]))
    default: obeyOfAttribute(verb, line, peer)
    }
  }

  private func obeyOfAttribute(_ verb: String, _ line: Line, _ peer: CBPeripheral) {
    let service = services(of: peer).first { $0.uuid == uuid(line["service"]) }
    let all = services(of: peer).flatMap { $0.characteristics ?? [] }
    let characteristic = all.first { $0.uuid == uuid(line["characteristic"]) }
    let descriptor = characteristic?.descriptors?.first { $0.uuid == uuid(line["descriptor"]) }
    switch (verb, service, characteristic, descriptor) {
    case ("discoverIncludedServices", let service?, _, _): peer.discoverIncludedServices(nil, for: service)
    case ("discoverCharacteristics", let service?, _, _):
      peer.discoverCharacteristics(uuids(line["characteristics"]), for: service)
    case ("discoverDescriptors", _, let characteristic?, _): peer.discoverDescriptors(for: characteristic)
    case ("read", _, let characteristic?, _): peer.readValue(for: characteristic)
    case ("readDescriptor", _, _, let descriptor?): peer.readValue(for: descriptor)
    case ("write", _, let characteristic?, _):
      peer.writeValue(Data(hex: line["value"]) ?? Data(), for: characteristic, type: .withResponse)
    case ("writeWithoutResponse", _, let characteristic?, _):
      peer.writeValue(Data(hex: line["value"]) ?? Data(), for: characteristic, type: .withoutResponse)
    case ("writeDescriptor", _, _, let descriptor?):
      peer.writeValue(Data(hex: line["value"]) ?? Data(), for: descriptor)
    case ("notify", _, let characteristic?, _):
      peer.setNotifyValue(line["on"] as? Bool ?? true, for: characteristic)
    case ("stream", _, let characteristic?, _):
      stream = (characteristic, 0, line["count"] as? Int ?? 0, line["length"] as? Int ?? 20, 0)
      sendStream(peer)
    default: tell("misused", peer, ["verb": verb])
    }
  }

  /// Writes without response as long as there is room; goes on when the peer is ready again.
  private func sendStream(_ peer: CBPeripheral) {
    guard var stream else { return }
    while stream.next < stream.count, peer.canSendWriteWithoutResponse {
      let value = Data(number: stream.next, length: stream.length)
      peer.writeValue(value, for: stream.characteristic, type: .withoutResponse)
      stream.next += 1
    }
    guard stream.next == stream.count else {
      stream.waits += 1
      self.stream = stream
      return
    }
    self.stream = nil
    tell("streamed", peer, ["count": stream.count, "waits": stream.waits])
  }

  /// What was found, primary and included.
  private func services(of peer: CBPeripheral) -> [CBService] {
    var all: [CBService] = []
    var open = peer.services ?? []
    while !open.isEmpty {
      let service = open.removeFirst()
      guard !all.contains(where: { $0 === service }) else { continue }
      all.append(service)
      open += service.includedServices ?? []
    }
    return all
  }

  private func json(_ service: CBService) -> Line {
    [
      "uuid": service.uuid.uuidString, "primary": service.isPrimary,
      "included": (service.includedServices ?? []).map(\.uuid.uuidString),
      "characteristics": (service.characteristics ?? []).map { characteristic in
        [
          "uuid": characteristic.uuid.uuidString, "properties": characteristic.properties.rawValue,
          "value": characteristic.value?.hex ?? NSNull(), "notifying": characteristic.isNotifying,
          "descriptors": (characteristic.descriptors ?? []).map { descriptor in
            ["uuid": descriptor.uuid.uuidString, "value": descriptorText(descriptor) ?? NSNull()]
          },
        ] as Line
      },
    ]
  }

  /// The value with its type, as the type is part of what an app sees.
  private func descriptorText(_ descriptor: CBDescriptor) -> Any? {
    switch descriptor.value {
    case let text as String: "String \(text)"
    case let data as Data: "Data \(data.hex)"
    case let number as NSNumber: "NSNumber \(number)"
    default: nil
    }
  }
}

extension CentralScript: CBCentralManagerDelegate {
  func centralManagerDidUpdateState(_ central: CBCentralManager) {
    tell(
      "didUpdateState", nil,
      ["state": central.state.text, "peers": peers.values.map { "\($0.identifier.uuidString) \($0.state.text)" }])
  }

  func centralManager(
    _ central: CBCentralManager, didDiscover peripheral: CBPeripheral, advertisementData: [String: Any],
    rssi RSSI: NSNumber
  ) {
    keep(peripheral)
    let services = advertisementData[CBAdvertisementDataServiceUUIDsKey] as? [CBUUID]
    tell(
      "didDiscover", peripheral,
      [
        "name": advertisementData[CBAdvertisementDataLocalNameKey] as? String, "peerName": peripheral.name,
        "services": services?.map(\.uuidString), "rssi": RSSI.intValue,
        "connectable": (advertisementData[CBAdvertisementDataIsConnectable] as? NSNumber)?.boolValue,
      ])
  }

  func centralManager(_ central: CBCentralManager, didConnect peripheral: CBPeripheral) {
    tell("didConnect", peripheral)
  }

  func centralManager(_ central: CBCentralManager, didFailToConnect peripheral: CBPeripheral, error: (any Error)?) {
    tell("didFailToConnect", peripheral, ["error": failure(error)])
  }

  func centralManager(
    _ central: CBCentralManager, didDisconnectPeripheral peripheral: CBPeripheral, error: (any Error)?
  ) {
    stream = nil
    tell("didDisconnect", peripheral, ["error": failure(error)])
  }
}

extension CentralScript: CBPeripheralDelegate {
  func peripheralDidUpdateName(_ peripheral: CBPeripheral) {
    tell("didUpdateName", peripheral, ["name": peripheral.name])
  }

  func peripheral(_ peripheral: CBPeripheral, didModifyServices invalidatedServices: [CBService]) {
    tell("didModifyServices", peripheral, ["services": invalidatedServices.map(\.uuid.uuidString)])
  }

  func peripheral(_ peripheral: CBPeripheral, didReadRSSI RSSI: NSNumber, error: (any Error)?) {
    tell("didReadRSSI", peripheral, ["rssi": RSSI.intValue, "error": failure(error)])
  }

  func peripheral(_ peripheral: CBPeripheral, didDiscoverServices error: (any Error)?) {
    let found = (peripheral.services ?? []).map(\.uuid.uuidString)
    tell("didDiscoverServices", peripheral, ["services": found, "error": failure(error)])
  }

  func peripheral(_ peripheral: CBPeripheral, didDiscoverIncludedServicesFor service: CBService, error: (any Error)?) {
    tell(
      "didDiscoverIncludedServices", peripheral,
      [
        "service": service.uuid.uuidString, "included": (service.includedServices ?? []).map(\.uuid.uuidString),
        "error": failure(error),
      ])
  }

  func peripheral(_ peripheral: CBPeripheral, didDiscoverCharacteristicsFor service: CBService, error: (any Error)?) {
    tell(
      "didDiscoverCharacteristics", peripheral,
      [
        "service": service.uuid.uuidString,
        "characteristics": (service.characteristics ?? []).map(\.uuid.uuidString), "error": failure(error),
      ])
  }

  func peripheral(
    _ peripheral: CBPeripheral, didDiscoverDescriptorsFor characteristic: CBCharacteristic, error: (any Error)?
  ) {
    tell(
      "didDiscoverDescriptors", peripheral,
      [
        "characteristic": characteristic.uuid.uuidString,
        "descriptors": (characteristic.descriptors ?? []).map(\.uuid.uuidString), "error": failure(error),
      ])
  }

  func peripheral(_ peripheral: CBPeripheral, didUpdateValueFor characteristic: CBCharacteristic, error: (any Error)?) {
    tell(
      "didUpdateValue", peripheral,
      [
        "characteristic": characteristic.uuid.uuidString, "value": characteristic.value?.hex, "error": failure(error),
      ])
  }

  func peripheral(_ peripheral: CBPeripheral, didWriteValueFor characteristic: CBCharacteristic, error: (any Error)?) {
    tell(
      "didWriteValue", peripheral, ["characteristic": characteristic.uuid.uuidString, "error": failure(error)])
  }

  func peripheral(
    _ peripheral: CBPeripheral, didUpdateNotificationStateFor characteristic: CBCharacteristic, error: (any Error)?
  ) {
    tell(
      "didUpdateNotificationState", peripheral,
      [
        "characteristic": characteristic.uuid.uuidString, "notifying": characteristic.isNotifying,
        "error": failure(error),
      ])
  }

  func peripheral(_ peripheral: CBPeripheral, didUpdateValueFor descriptor: CBDescriptor, error: (any Error)?) {
    tell(
      "didUpdateDescriptorValue", peripheral,
      [
        "characteristic": descriptor.characteristic?.uuid.uuidString, "descriptor": descriptor.uuid.uuidString,
        "value": descriptorText(descriptor), "error": failure(error),
      ])
  }

  func peripheral(_ peripheral: CBPeripheral, didWriteValueFor descriptor: CBDescriptor, error: (any Error)?) {
    tell("didWriteDescriptorValue", peripheral, ["descriptor": descriptor.uuid.uuidString, "error": failure(error)])
  }

  func peripheralIsReady(toSendWriteWithoutResponse peripheral: CBPeripheral) {
    if stream != nil { sendStream(peripheral) } else { tell("isReadyToSendWriteWithoutResponse", peripheral) }
  }
}
