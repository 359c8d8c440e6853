// SPDX-License-Identifier: Apache-2.0

public import Foundation

/// Is told what happens to a ``CBPeripheral``, on the queue of its manager.
///
/// All methods have default bodies that do nothing.
public protocol CBPeripheralDelegate: NSObjectProtocol {
  /// The peer's name has changed; ``CBPeripheral/name`` is the new one.
  func peripheralDidUpdateName(_ peripheral: CBPeripheral)

  /// The peer has changed its services: those listed are void, discover again. The list is empty where
  /// only something new has come.
  func peripheral(_ peripheral: CBPeripheral, didModifyServices invalidatedServices: [CBService])

  /// Never called.
  @available(*, deprecated, message: "never called")
  func peripheralDidUpdateRSSI(_ peripheral: CBPeripheral, error: (any Error)?)

  /// Answers ``CBPeripheral/readRSSI()``: the strength in dBm, 127 if it is not to be had.
  func peripheral(_ peripheral: CBPeripheral, didReadRSSI RSSI: NSNumber, error: (any Error)?)

  /// Answers ``CBPeripheral/discoverServices(_:)``: ``CBPeripheral/services`` has what was found.
  func peripheral(_ peripheral: CBPeripheral, didDiscoverServices error: (any Error)?)

  /// Answers ``CBPeripheral/discoverIncludedServices(_:for:)``: ``CBService/includedServices`` has what was found.
  func peripheral(_ peripheral: CBPeripheral, didDiscoverIncludedServicesFor service: CBService, error: (any Error)?)

  /// Answers ``CBPeripheral/discoverCharacteristics(_:for:)``: ``CBService/characteristics`` has what was found.
  func peripheral(_ peripheral: CBPeripheral, didDiscoverCharacteristicsFor service: CBService, error: (any Error)?)

  /// A value was read, or the peer has notified or indicated one; ``CBCharacteristic/value`` is it, or with an
  /// error still the former one.
  func peripheral(_ peripheral: CBPeripheral, didUpdateValueFor characteristic: CBCharacteristic, error: (any Error)?)

  /// The peer has confirmed or refused a write.
  func peripheral(_ peripheral: CBPeripheral, didWriteValueFor characteristic: CBCharacteristic, error: (any Error)?)

  /// Answers ``CBPeripheral/setNotifyValue(_:for:)``; ``CBCharacteristic/isNotifying`` tells how it is now.
  func peripheral(
    _ peripheral: CBPeripheral, didUpdateNotificationStateFor characteristic: CBCharacteristic, error: (any Error)?)

  /// Answers ``CBPeripheral/discoverDescriptors(for:)``: ``CBCharacteristic/descriptors`` has what was found.
  func peripheral(
    _ peripheral: CBPeripheral, didDiscoverDescriptorsFor characteristic: CBCharacteristic, error: (any Error)?)

  /// A descriptor's value was read: ``CBDescriptor/value`` is it, or with an error still the former one.
  func peripheral(_ peripheral: CBPeripheral, didUpdateValueFor descriptor: CBDescriptor, error: (any Error)?)

  /// The peer has confirmed or refused a write of a descriptor.
  func peripheral(_ peripheral: CBPeripheral, didWriteValueFor descriptor: CBDescriptor, error: (any Error)?)

  /// There is room for writes without response again.
  func peripheralIsReady(toSendWriteWithoutResponse peripheral: CBPeripheral)

  /// Answers ``CBPeripheral/openL2CAPChannel(_:)``; the channel is nil with an error.
  func peripheral(_ peripheral: CBPeripheral, didOpen channel: CBL2CAPChannel?, error: (any Error)?)
}

extension CBPeripheralDelegate {
  public func peripheralDidUpdateName(_ peripheral: CBPeripheral) {
    noteUnimplemented("peripheralDidUpdateName(_:)")
  }

  public func peripheral(_ peripheral: CBPeripheral, didModifyServices invalidatedServices: [CBService]) {
    noteUnimplemented("peripheral(_:didModifyServices:)")
    warnOfModifiedServices(peripheral)
  }

  @available(*, deprecated, message: "never called")
  public func peripheralDidUpdateRSSI(_ peripheral: CBPeripheral, error: (any Error)?) {
    noteUnimplemented("peripheralDidUpdateRSSI(_:error:)")
  }

  public func peripheral(_ peripheral: CBPeripheral, didReadRSSI RSSI: NSNumber, error: (any Error)?) {
    noteUnimplemented("peripheral(_:didReadRSSI:error:)")
  }

  public func peripheral(_ peripheral: CBPeripheral, didDiscoverServices error: (any Error)?) {
    noteUnimplemented("peripheral(_:didDiscoverServices:)")
  }

  public func peripheral(
    _ peripheral: CBPeripheral, didDiscoverIncludedServicesFor service: CBService, error: (any Error)?
  ) {
    noteUnimplemented("peripheral(_:didDiscoverIncludedServicesFor:error:)")
  }

  public func peripheral(
    _ peripheral: CBPeripheral, didDiscoverCharacteristicsFor service: CBService, error: (any Error)?
  ) {
    noteUnimplemented("peripheral(_:didDiscoverCharacteristicsFor:error:)")
  }

  public func peripheral(
    _ peripheral: CBPeripheral, didUpdateValueFor characteristic: CBCharacteristic, error: (any Error)?
  ) {
    noteUnimplemented("peripheral(_:didUpdateValueFor:error:)")
  }

  public func peripheral(
    _ peripheral: CBPeripheral, didWriteValueFor characteristic: CBCharacteristic, error: (any Error)?
  ) {
    noteUnimplemented("peripheral(_:didWriteValueFor:error:)")
  }

  public func peripheral(
    _ peripheral: CBPeripheral, didUpdateNotificationStateFor characteristic: CBCharacteristic, error: (any Error)?
  ) {
    noteUnimplemented("peripheral(_:didUpdateNotificationStateFor:error:)")
  }

  public func peripheral(
    _ peripheral: CBPeripheral, didDiscoverDescriptorsFor characteristic: CBCharacteristic, error: (any Error)?
  ) {
    noteUnimplemented("peripheral(_:didDiscoverDescriptorsFor:error:)")
  }

  public func peripheral(_ peripheral: CBPeripheral, didUpdateValueFor descriptor: CBDescriptor, error: (any Error)?) {
    noteUnimplemented("peripheral(_:didUpdateValueFor:error:)")
  }

  public func peripheral(_ peripheral: CBPeripheral, didWriteValueFor descriptor: CBDescriptor, error: (any Error)?) {
    noteUnimplemented("peripheral(_:didWriteValueFor:error:)")
  }

  public func peripheralIsReady(toSendWriteWithoutResponse peripheral: CBPeripheral) {
    noteUnimplemented("peripheralIsReady(toSendWriteWithoutResponse:)")
  }

  public func peripheral(_ peripheral: CBPeripheral, didOpen channel: CBL2CAPChannel?, error: (any Error)?) {
    noteUnimplemented("peripheral(_:didOpen:error:)")
  }
}

private func warnOfModifiedServices(_ peripheral: CBPeripheral) {
  Diagnostics.line(
    "WARNING: the services of \(peripheral) have changed, and its delegate has no peripheral(_:didModifyServices:)")
}
