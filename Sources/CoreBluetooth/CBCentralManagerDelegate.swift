// SPDX-License-Identifier: Apache-2.0

public import Foundation

/// Is told what happens to a ``CBCentralManager``, on its queue.
///
/// All methods but the first have default bodies that do nothing.
public protocol CBCentralManagerDelegate: NSObjectProtocol {
  /// The state has changed, or is known for the first time. Required.
  ///
  /// Below `poweredOn` scanning has stopped and all peers are disconnected, without calls of their own; below
  /// `poweredOff` the ``CBPeripheral`` objects are void as well.
  func centralManagerDidUpdateState(_ central: CBCentralManager)

  /// What is restored of an earlier run; comes before the first state.
  func centralManager(_ central: CBCentralManager, willRestoreState dict: [String: Any])

  /// A peer was heard. Hold `peripheral` to use it later. `RSSI` is in dBm, 127 if it is not known; the keys of
  /// `advertisementData` are the `CBAdvertisementData…` constants.
  func centralManager(
    _ central: CBCentralManager, didDiscover peripheral: CBPeripheral, advertisementData: [String: Any],
    rssi RSSI: NSNumber)

  /// The peer is connected.
  func centralManager(_ central: CBCentralManager, didConnect peripheral: CBPeripheral)

  /// The peer could not be connected; it is wanted no more.
  func centralManager(_ central: CBCentralManager, didFailToConnect peripheral: CBPeripheral, error: (any Error)?)

  /// The connection is over: by the app's own cancel (error nil) or otherwise.
  func centralManager(
    _ central: CBCentralManager, didDisconnectPeripheral peripheral: CBPeripheral, error: (any Error)?)

  /// The connection is over since `timestamp`; with `isReconnecting` it is being made again, as the option
  /// ``CBConnectPeripheralOptionEnableAutoReconnect`` asked. Called only if the delegate lacks the variant of three
  /// arguments; a delegate that has that one is not reconnected.
  func centralManager(
    _ central: CBCentralManager, didDisconnectPeripheral peripheral: CBPeripheral, timestamp: CFAbsoluteTime,
    isReconnecting: Bool, error: (any Error)?)

  /// A peer that was registered for has been connected or disconnected.
  func centralManager(
    _ central: CBCentralManager, connectionEventDidOccur event: CBConnectionEvent, for peripheral: CBPeripheral)

  /// Never called.
  func centralManager(_ central: CBCentralManager, didUpdateANCSAuthorizationFor peripheral: CBPeripheral)
}

extension CBCentralManagerDelegate {
  public func centralManager(_ central: CBCentralManager, willRestoreState dict: [String: Any]) {
    central.noteDefaultBody("centralManager(_:willRestoreState:)")
  }

  public func centralManager(
    _ central: CBCentralManager, didDiscover peripheral: CBPeripheral, advertisementData: [String: Any],
    rssi RSSI: NSNumber
  ) {
    central.noteDefaultBody("centralManager(_:didDiscover:advertisementData:rssi:)")
  }

  public func centralManager(_ central: CBCentralManager, didConnect peripheral: CBPeripheral) {
    central.noteDefaultBody("centralManager(_:didConnect:)")
  }

  public func centralManager(
    _ central: CBCentralManager, didFailToConnect peripheral: CBPeripheral, error: (any Error)?
  ) {
    central.noteDefaultBody("centralManager(_:didFailToConnect:error:)")
  }

  public func centralManager(
    _ central: CBCentralManager, didDisconnectPeripheral peripheral: CBPeripheral, error: (any Error)?
  ) {
    central.noteDefaultBody("centralManager(_:didDisconnectPeripheral:error:)")
  }

  public func centralManager(
    _ central: CBCentralManager, didDisconnectPeripheral peripheral: CBPeripheral, timestamp: CFAbsoluteTime,
    isReconnecting: Bool, error: (any Error)?
  ) {
    central.noteDefaultBody("centralManager(_:didDisconnectPeripheral:timestamp:isReconnecting:error:)")
  }

  public func centralManager(
    _ central: CBCentralManager, connectionEventDidOccur event: CBConnectionEvent, for peripheral: CBPeripheral
  ) {
    central.noteDefaultBody("centralManager(_:connectionEventDidOccur:for:)")
  }

  public func centralManager(_ central: CBCentralManager, didUpdateANCSAuthorizationFor peripheral: CBPeripheral) {
    central.noteDefaultBody("centralManager(_:didUpdateANCSAuthorizationFor:)")
  }
}
