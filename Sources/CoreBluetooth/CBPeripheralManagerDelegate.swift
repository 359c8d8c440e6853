// SPDX-License-Identifier: Apache-2.0

public import Foundation

/// Is told what happens to a ``CBPeripheralManager``, on its queue.
///
/// All methods but the first have default bodies.
public protocol CBPeripheralManagerDelegate: NSObjectProtocol {
  /// The state has changed, or is known for the first time. Required.
  ///
  /// Below `poweredOn` advertising has ended and centrals are gone; below `poweredOff` the services have to be added
  /// again.
  func peripheralManagerDidUpdateState(_ peripheral: CBPeripheralManager)

  /// What is restored of an earlier run; comes before the first state.
  func peripheralManager(_ peripheral: CBPeripheralManager, willRestoreState dict: [String: Any])

  /// Answers ``CBPeripheralManager/startAdvertising(_:)``.
  func peripheralManagerDidStartAdvertising(_ peripheral: CBPeripheralManager, error: (any Error)?)

  /// Answers ``CBPeripheralManager/add(_:)``.
  func peripheralManager(_ peripheral: CBPeripheralManager, didAdd service: CBService, error: (any Error)?)

  /// A central wants a characteristic's updates.
  func peripheralManager(
    _ peripheral: CBPeripheralManager, central: CBCentral, didSubscribeTo characteristic: CBCharacteristic)

  /// A central wants a characteristic's updates no more, or is gone.
  func peripheralManager(
    _ peripheral: CBPeripheralManager, central: CBCentral, didUnsubscribeFrom characteristic: CBCharacteristic)

  /// A central reads: set the request's value to the octets from its offset on, and answer it once with
  /// ``CBPeripheralManager/respond(to:withResult:)``. Without this method centrals get `requestNotSupported`.
  func peripheralManager(_ peripheral: CBPeripheralManager, didReceiveRead request: CBATTRequest)

  /// A central writes: check all the requests, do all or none, and answer once, for the first or for the one that
  /// fails. Without this method centrals get `requestNotSupported`.
  func peripheralManager(_ peripheral: CBPeripheralManager, didReceiveWrite requests: [CBATTRequest])

  /// There is room for updates again, after ``CBPeripheralManager/updateValue(_:for:onSubscribedCentrals:)`` gave false.
  func peripheralManagerIsReady(toUpdateSubscribers peripheral: CBPeripheralManager)

  /// Answers ``CBPeripheralManager/publishL2CAPChannel(withEncryption:)``.
  func peripheralManager(_ peripheral: CBPeripheralManager, didPublishL2CAPChannel PSM: CBL2CAPPSM, error: (any Error)?)

  /// Answers ``CBPeripheralManager/unpublishL2CAPChannel(_:)``.
  func peripheralManager(
    _ peripheral: CBPeripheralManager, didUnpublishL2CAPChannel PSM: CBL2CAPPSM, error: (any Error)?)

  /// A central has opened a channel that was published.
  func peripheralManager(_ peripheral: CBPeripheralManager, didOpen channel: CBL2CAPChannel?, error: (any Error)?)
}

extension CBPeripheralManagerDelegate {
  public func peripheralManager(_ peripheral: CBPeripheralManager, willRestoreState dict: [String: Any]) {
    peripheral.noteDefaultBody("peripheralManager(_:willRestoreState:)")
  }

  public func peripheralManagerDidStartAdvertising(_ peripheral: CBPeripheralManager, error: (any Error)?) {
    peripheral.noteDefaultBody("peripheralManagerDidStartAdvertising(_:error:)")
  }

  public func peripheralManager(_ peripheral: CBPeripheralManager, didAdd service: CBService, error: (any Error)?) {
    peripheral.noteDefaultBody("peripheralManager(_:didAdd:error:)")
  }

  public func peripheralManager(
    _ peripheral: CBPeripheralManager, central: CBCentral, didSubscribeTo characteristic: CBCharacteristic
  ) {
    peripheral.noteDefaultBody("peripheralManager(_:central:didSubscribeTo:)")
  }

  public func peripheralManager(
    _ peripheral: CBPeripheralManager, central: CBCentral, didUnsubscribeFrom characteristic: CBCharacteristic
  ) {
    peripheral.noteDefaultBody("peripheralManager(_:central:didUnsubscribeFrom:)")
  }

  public func peripheralManager(_ peripheral: CBPeripheralManager, didReceiveRead request: CBATTRequest) {
    peripheral.noteDefaultBody("peripheralManager(_:didReceiveRead:)")
    peripheral.respond(to: request, withResult: .requestNotSupported)
  }

  public func peripheralManager(_ peripheral: CBPeripheralManager, didReceiveWrite requests: [CBATTRequest]) {
    peripheral.noteDefaultBody("peripheralManager(_:didReceiveWrite:)")
    if let first = requests.first { peripheral.respond(to: first, withResult: .requestNotSupported) }
  }

  public func peripheralManagerIsReady(toUpdateSubscribers peripheral: CBPeripheralManager) {
    peripheral.noteDefaultBody("peripheralManagerIsReady(toUpdateSubscribers:)")
  }

  public func peripheralManager(
    _ peripheral: CBPeripheralManager, didPublishL2CAPChannel PSM: CBL2CAPPSM, error: (any Error)?
  ) {
    peripheral.noteDefaultBody("peripheralManager(_:didPublishL2CAPChannel:error:)")
  }

  public func peripheralManager(
    _ peripheral: CBPeripheralManager, didUnpublishL2CAPChannel PSM: CBL2CAPPSM, error: (any Error)?
  ) {
    peripheral.noteDefaultBody("peripheralManager(_:didUnpublishL2CAPChannel:error:)")
  }

  public func peripheralManager(
    _ peripheral: CBPeripheralManager, didOpen channel: CBL2CAPChannel?, error: (any Error)?
  ) {
    peripheral.noteDefaultBody("peripheralManager(_:didOpen:error:)")
  }
}
