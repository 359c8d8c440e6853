// SPDX-License-Identifier: Apache-2.0

import BLECore
import BLESystem

/// One connection of a ``CBPeripheral``: what was found on the peer during it, and what the peer owes an answer for.
///
/// An attribute object is valid while it is in these tables: one of an earlier connection, or one that the peer has
/// declared void, is not, whatever has its handle now.
final class ActiveLink: @unchecked Sendable {  // Used under the peripheral's lock only.
  let reference: LinkReference
  var maximumWriteLength: Int
  var pending: [RequestToken: CBPeripheral.Operation] = [:]
  /// Whether `services` of the peripheral are of this connection.
  var hasListedServices = false
  private var services: [UInt16: CBService] = [:]
  /// By value handle.
  private(set) var characteristics: [UInt16: CBCharacteristic] = [:]
  private var descriptors: [UInt16: CBDescriptor] = [:]

  init(_ reference: LinkReference, maximumWriteLength: Int) {
    self.reference = reference
    self.maximumWriteLength = maximumWriteLength
  }

  /// Whether the operation's attribute, if it has one, is one of the peer's.
  func holds(_ operation: CBPeripheral.Operation) -> Bool {
    switch operation {
    case .readRSSI, .discoverServices, .openChannel: true
    case .discoverIncludedServices(let service), .discoverCharacteristics(let service):
      service.record.map { services[$0.handles.lowerBound] === service } ?? false
    case .discoverDescriptors(let characteristic), .read(let characteristic), .write(let characteristic),
      .setNotify(let characteristic, _):
      characteristic.record.map { characteristics[$0.valueHandle] === characteristic } ?? false
    case .readDescriptor(let descriptor), .writeDescriptor(let descriptor):
      descriptor.record.map { descriptors[$0.handle] === descriptor } ?? false
    }
  }

  func isChangingNotification(of characteristic: CBCharacteristic) -> Bool {
    pending.values.contains { operation in
      if case .setNotify(characteristic, _) = operation { true } else { false }
    }
  }

  /// The object for what was found: the one that there is, or a new one.
  func service(for record: ServiceRecord, of peripheral: CBPeripheral) -> CBService {
    if let known = services[record.handles.lowerBound], known.record == record { return known }
    let service = CBService(record: record, peripheral: peripheral)
    services[record.handles.lowerBound] = service
    return service
  }

  func characteristic(for record: CharacteristicRecord, in service: CBService) -> CBCharacteristic {
    if let known = characteristics[record.valueHandle], known.record == record { return known }
    let characteristic = CBCharacteristic(record: record, service: service)
    characteristics[record.valueHandle] = characteristic
    return characteristic
  }

  func descriptor(for record: DescriptorRecord, in characteristic: CBCharacteristic) -> CBDescriptor {
    if let known = descriptors[record.handle], known.record == record { return known }
    let descriptor = CBDescriptor(record: record, characteristic: characteristic)
    descriptors[record.handle] = descriptor
    return descriptor
  }

  /// Forgets what lies within `handles`; the services that were touched, in order of their handles.
  func removeServices(overlapping handles: ClosedRange<UInt16>) -> [CBService] {
    let touched = services.values.compactMap { service in service.record.map { (service, $0.handles) } }
      .filter { $0.1.overlaps(handles) }
      .sorted { $0.1.lowerBound < $1.1.lowerBound }
    for (_, range) in touched {
      services[range.lowerBound] = nil
      for (handle, characteristic) in characteristics where range.contains(handle) {
        characteristic.setNotifying(false)
        characteristics[handle] = nil
      }
      for handle in descriptors.keys where range.contains(handle) { descriptors[handle] = nil }
    }
    return touched.map(\.0)
  }
}
