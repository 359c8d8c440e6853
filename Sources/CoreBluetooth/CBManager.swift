// SPDX-License-Identifier: Apache-2.0

import BLECore
import BLESystem
import Dispatch
public import Foundation
import Synchronization

/// What can be done with Bluetooth now. Commands need `poweredOn`; the order of the raw values has meaning: below
/// `poweredOff` also the objects that came from a manager are void.
@nonexhaustive
public enum CBManagerState: Int, Sendable {
  /// Not known yet; an update is coming.
  case unknown
  /// The connection with the adapter was lost; an update is coming.
  case resetting
  /// There is no adapter that can be used.
  case unsupported
  /// This program may not use the adapter.
  case unauthorized
  case poweredOff
  case poweredOn
}

/// Whether this program may use Bluetooth.
@nonexhaustive
public enum CBManagerAuthorization: Int, Sendable {
  case notDetermined
  case restricted
  case denied
  case allowedAlways
}

/// What ``CBCentralManager`` and ``CBPeripheralManager`` have in common.
///
/// A manager starts in `.unknown`; its delegate learns of each state, the first one too, by a call on the queue
/// that the manager was made with, never from within the initializer.
open class CBManager: NSObject, @unchecked Sendable {  // What changes is behind a lock.
  let session: Session
  let link: any SystemLink
  private let current = Mutex(CBManagerState.unknown)
  private let defaultBodyRan = Mutex(false)
  private let tokens = Atomic<RequestToken>(0)
  private static let isDenied = Mutex(false)

  init(queue: DispatchQueue?, options: [String: Any]?) {
    let session = Session(queue: queue ?? .main)
    self.session = session
    link = Adapter.open(options?[CBManagerOptionAdapterKey] as? String ?? Adapter.current) { session.receive($0) }
    super.init()
    session.start(owner: self)
  }

  deinit { link.close() }

  /// The state as the delegate knows it: it changes just before the call that reports it.
  open var state: CBManagerState { current.withLock { $0 } }

  /// Whether this program may use Bluetooth: `denied` if a manager has found that it may not, else `allowedAlways`.
  /// Nothing is asked of the user.
  open class var authorization: CBManagerAuthorization { isDenied.withLock { $0 } ? .denied : .allowedAlways }

  /// The same as the class property.
  @available(*, deprecated, message: "use the class property")
  open var authorization: CBManagerAuthorization { Self.isDenied.withLock { $0 } ? .denied : .allowedAlways }

  /// The class and the object's address.
  open override var description: String { "<\(type(of: self)): \(address(of: self))>" }

  /// One event of the system, on the manager's queue.
  func process(_ event: SystemEvent) {}

  func setState(_ new: AdapterState) {
    Self.isDenied.withLock { $0 = new == .unauthorized }
    current.withLock { $0 = CBManagerState(new) }
  }

  func nextToken() -> RequestToken { tokens.wrappingAdd(1, ordering: .relaxed).newValue }

  /// Whether a command may be given now; if not, says so in the log, and the command is to be dropped.
  func acceptsCommands() -> Bool {
    if current.withLock({ $0 == .poweredOn }) { return true }
    misuse("\(self) can only accept this command while in the powered on state")
    return false
  }

  // MARK: Optional methods of delegates

  /// Called by the default body of an optional delegate method: the delegate does not have it.
  func noteDefaultBody(_ method: StaticString) {
    defaultBodyRan.withLock { $0 = true }
    noteUnimplemented(method)
  }

  /// Runs `call`, which calls one delegate method; false: it has only the default body.
  func isImplemented(_ call: () -> Void) -> Bool {
    defaultBodyRan.withLock { $0 = false }
    call()
    return defaultBodyRan.withLock { !$0 }
  }
}

extension CBManagerState {
  init(_ state: AdapterState) {
    self =
      switch state {
      case .resetting: .resetting
      case .unsupported: .unsupported
      case .unauthorized: .unauthorized
      case .poweredOff: .poweredOff
      case .poweredOn: .poweredOn
      }
  }
}

/// A line about a call that the framework cannot follow; shown whatever the log's level.
func misuse(_ text: @autoclosure () -> String) { Diagnostics.line("API MISUSE: \(text())") }

/// Where the lines go that are shown whatever the log's level; tests put another place.
enum Diagnostics {
  @TaskLocal static var line: @Sendable (String) -> Void = { Log.line($0) }
}

func address(of object: AnyObject) -> String { "0x" + String(UInt(bitPattern: ObjectIdentifier(object)), radix: 16) }

private let unimplemented = Mutex<Set<String>>([])

/// Tells once, at debug level, which optional delegate method would have been called: a method of almost its name is
/// never called, and no compiler says so.
func noteUnimplemented(_ method: StaticString) {
  guard Log.isOn(.debug, "api") else { return }
  let isNew = unimplemented.withLock { $0.insert("\(method)").inserted }
  if isNew { Log.write(.debug, "api", "a delegate has no \(method)") }
}

// MARK: - Deprecated

/// The states of a central manager before they were ``CBManagerState``.
@available(*, deprecated, message: "use CBManagerState")
@nonexhaustive
public enum CBCentralManagerState: Int, Sendable {
  case unknown
  case resetting
  case unsupported
  case unauthorized
  case poweredOff
  case poweredOn
}

/// The states of a peripheral manager before they were ``CBManagerState``.
@available(*, deprecated, message: "use CBManagerState")
@nonexhaustive
public enum CBPeripheralManagerState: Int, Sendable {
  case unknown
  case resetting
  case unsupported
  case unauthorized
  case poweredOff
  case poweredOn
}

/// What ``CBManagerAuthorization`` was before.
@available(*, deprecated, message: "use CBManagerAuthorization")
@nonexhaustive
public enum CBPeripheralManagerAuthorizationStatus: Int, Sendable {
  case notDetermined
  case restricted
  case denied
  case authorized
}
