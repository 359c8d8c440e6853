// SPDX-License-Identifier: Apache-2.0

import BLECore
import BLERadio
import BLESystem
import CoreBluetooth
import Synchronization

/// A device of a ``VirtualRadio``, with a Bluetooth adapter of its own and any number of apps.
public struct VirtualDevice: Sendable {
  let world: VirtualRadio
  let device: SteppedDevice

  /// As the world's messages, its timeline and the device's Device Name have it.
  public var name: String { device.name }

  /// What names the device's adapter to a manager: `CBManagerOptionAdapterKey` takes it.
  public var adapter: String { device.spec }

  /// Runs `body` on this device: managers made in it, and in tasks started by it, use its adapter.
  public func run<Result>(_ body: () throws -> Result) rethrows -> Result { try Adapter.with(adapter, body) }

  /// The same for an asynchronous `body`.
  public func run<Result>(
    isolation: isolated (any Actor)? = #isolation, _ body: () async throws -> Result
  ) async rethrows -> Result {
    try await Adapter.with(isolation: isolation, adapter, body)
  }
}
