// SPDX-License-Identifier: Apache-2.0

import BLESystem
public import Foundation
import Synchronization

/// A device that this one has to do with.
open class CBPeer: NSObject, NSCopying, @unchecked Sendable {  // What changes in a subclass is behind a lock.
  let peer: PeerIdentifier

  init(peer: PeerIdentifier) {
    self.peer = peer
    super.init()
  }

  /// The same for the same device on this host, now and in later runs; another host knows it by another.
  open var identifier: UUID { UUID(high: peer.high, low: peer.low) }

  /// The same object: there is one for a peer.
  open func copy(with zone: NSZone? = nil) -> Any { self }
}

extension PeerIdentifier {
  init(_ uuid: UUID) { self.init(high: uuid.high, low: uuid.low) }
}

/// A remote device that uses the services published here.
open class CBCentral: CBPeer, @unchecked Sendable {  // What changes is behind a lock.
  private let maximumLength: Mutex<Int>

  init(_ info: CentralInfo) {
    maximumLength = Mutex(info.maximumUpdateValueLength)
    super.init(peer: info.identifier)
  }

  /// The octets that one update can carry to it; grows when the MTU is exchanged.
  open var maximumUpdateValueLength: Int { maximumLength.withLock { $0 } }

  /// As in Apple's logs.
  open override var description: String {
    "<\(type(of: self)): \(address(of: self)), identifier = \(identifier), mtu = \(maximumUpdateValueLength + 3)>"
  }

  func update(_ info: CentralInfo) { maximumLength.withLock { $0 = info.maximumUpdateValueLength } }
}

/// A read or write of a remote device that waits for an answer by
/// ``CBPeripheralManager/respond(to:withResult:)``.
open class CBATTRequest: NSObject, @unchecked Sendable {  // What changes is behind a lock.
  private let asker: CBCentral
  private let target: CBCharacteristic
  private let start: Int
  private let content: Mutex<Data?>
  let id: RemoteRequestID
  /// False for a write command: no answer is owed.
  let needsResponse: Bool

  init(
    id: RemoteRequestID, central: CBCentral, characteristic: CBCharacteristic, offset: Int, value: Data?,
    needsResponse: Bool
  ) {
    self.id = id
    asker = central
    target = characteristic
    start = offset
    content = Mutex(value)
    self.needsResponse = needsResponse
    super.init()
  }

  /// Who asks.
  open var central: CBCentral { asker }
  /// What is to be read or written: the object that the app has published.
  open var characteristic: CBCharacteristic { target }
  /// Where in the value the read or write begins.
  open var offset: Int { start }
  /// For a read, set it to the value's octets from `offset` on; for a write, the octets written.
  open var value: Data? {
    get { content.withLock { $0 } }
    set { content.withLock { $0 = newValue } }
  }
}
