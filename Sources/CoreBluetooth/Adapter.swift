// SPDX-License-Identifier: Apache-2.0

import BLESystem

/// Which Bluetooth adapter the managers made by a piece of code use.
///
/// A manager picks its adapter when it is made: ``CBManagerOptionAdapterKey`` of its options, else the adapter of the
/// surrounding ``with(_:_:)-swift.type.method``, else the environment's `COREBLUETOOTH_ADAPTER`, else the first that
/// can be used. So several devices can live in one process. Not on Apple's systems.
public enum Adapter {
  @TaskLocal private static var chosen: String?

  /// The adapter that surrounding code has chosen; nil: none.
  public static var current: String? { chosen }

  /// Runs `body`; managers made in it, and in tasks started by it, use the adapter `spec` (for the forms see
  /// ``CBManagerOptionAdapterKey``). A name that says nothing leaves a manager in state `.unsupported`.
  public static func with<Result>(_ spec: String, _ body: () throws -> Result) rethrows -> Result {
    try $chosen.withValue(spec, operation: body)
  }

  /// The same for an asynchronous `body`.
  public static func with<Result>(
    isolation: isolated (any Actor)? = #isolation, _ spec: String, _ body: () async throws -> Result
  ) async rethrows -> Result {
    try await $chosen.withValue(spec, operation: body, isolation: isolation)
  }

  /// Opens a session with the system; tests put another in its place.
  @TaskLocal static var open: @Sendable (String?, @escaping SystemEventHandler) -> any SystemLink = {
    Adapters.open($0, handler: $1)
  }
}
