// SPDX-License-Identifier: Apache-2.0

public import BLECore
public import BLEGATT
public import BLEHCI
import BLEL2CAP
import BLESMP

/// One link and what runs on it: L2CAP reassembly, signalling, ATT with GATT client and server, the Security Manager.
public final class Connection {
  public let handle: ConnectionHandle
  public let role: ConnectionRole
  public let peer: DeviceAddress
  public internal(set) var parameters: ConnectionParameters
  /// ATT on the fixed channel. Verbs go through ``Host/perform(on:_:)``, which sends what they produce.
  public internal(set) var bearer: ATTBearer

  /// Whether the owner knows of the link: only once the peer has proved to be there.
  @exclusivity(unchecked) var isReported = false
  var assembler = FrameAssembler()
  @exclusivity(unchecked) var signaling: SignalingMachine
  @exclusivity(unchecked) var security = SecurityManager()
  /// When a link whose features nobody tells is reported all the same.
  @exclusivity(unchecked) var reportDeadline: Instant?
  /// The deadline of the link's protocols as it was when the link was last drained, which follows each change of it.
  @exclusivity(unchecked) private var settledDeadline: Instant?
  /// Set when the host has given the link up and waits for Disconnection Complete.
  var isDisconnecting: Bool { disconnectDeadline != nil }
  /// When it must have come: the peer has until the supervision timeout to acknowledge, the controller a moment more.
  @exclusivity(unchecked) var disconnectDeadline: Instant?
  /// Answers that the peer made this side owe it, not yet acknowledged by the controller.
  @exclusivity(unchecked) var answersOnTheWay = 0
  /// A peer that waits for answers, as the protocols want it, never has as many coming; one that does not is ignored
  /// while it has.
  static let answersMax = 64
  /// Tags of the ATT PDUs that the controller has not yet acknowledged, oldest first, in step with ACL accounting.
  @exclusivity(unchecked) var sentTags = TagQueue()

  init(handle: ConnectionHandle, role: ConnectionRole, peer: DeviceAddress, parameters: ConnectionParameters) {
    self.handle = handle
    self.role = role
    self.peer = peer
    self.parameters = parameters
    bearer = ATTBearer()
    signaling = SignalingMachine(role: role == .central ? .central : .peripheral)
  }

  var nextDeadline: Instant? { earlier(settledDeadline, earlier(reportDeadline, disconnectDeadline)) }

  /// Called when all that the link's protocols had to say has been taken.
  func settle() { settledDeadline = earlier(bearer.nextDeadline, signaling.nextDeadline) }
}

/// The earlier of two deadlines; nil is never.
func earlier(_ a: Instant?, _ b: Instant?) -> Instant? {
  guard let a else { return b }
  guard let b else { return a }
  return min(a, b)
}

/// What an L2CAP frame on its way to the controller was, for crediting its sender.
enum FrameTag { case command, notification, answer, other }

/// A first-in first-out queue of tags that keeps its memory.
struct TagQueue {
  private var tags: [FrameTag] = []
  private var head = 0

  mutating func append(_ tag: FrameTag) { tags.append(tag) }

  mutating func removeFirst() -> FrameTag? {
    guard head < tags.count else { return nil }
    defer {
      head += 1
      if head == tags.count {
        tags.removeAll(keepingCapacity: true)
        head = 0
      } else if head >= 256 {
        tags.removeSubrange(0..<head)
        head = 0
      }
    }
    return tags[head]
  }
}
