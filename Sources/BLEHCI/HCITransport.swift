// SPDX-License-Identifier: Apache-2.0

public import BLECore

/// Whole HCI packets between a host and a controller; either side may hold either end.
///
/// Contract: everything happens on the adapter's one executor. `send` never calls the receiver before it
/// returns, so a receiver may send from inside ``HCIReceiver/receive(_:_:)`` without being re-entered.
/// `payload` is the packet without its H4 indicator and is valid only during the call.
public protocol HCITransport: AnyObject {
  /// Who gets the packets that arrive; held weakly. Packets that arrive before it is set are kept.
  var receiver: (any HCIReceiver)? { get set }
  /// Queues one packet; order is kept. After the transport has closed it is dropped.
  func send(_ type: HCIPacketType, _ payload: RawSpan)
  /// Ends the transport; the receiver is not told, the other side is.
  func close()
}

/// The user of an ``HCITransport``.
public protocol HCIReceiver: AnyObject {
  func receive(_ type: HCIPacketType, _ payload: RawSpan)
  /// The other side went away, or the link to it broke. Nothing is received any more.
  func transportClosed(_ error: HCITransportError)
}

/// Why a transport ended or could not be opened.
public struct HCITransportError: Error, Hashable, Sendable, CustomStringConvertible {
  /// What was being done, to what, what went wrong and what to try.
  public var description: String
  public init(_ description: String) { self.description = description }
}

/// Two transports joined back to back in one process: what one sends the other receives, on the scheduler's
/// executor, never inside `send`.
public final class HCITransportPair {
  public let host: any HCITransport
  public let controller: any HCITransport

  public init(scheduler: any Scheduler) {
    let host = End(scheduler)
    let controller = End(scheduler)
    host.other = controller
    controller.other = host
    self.host = host
    self.controller = controller
  }

  /// Exempt from checks of exclusive access: while one of these properties is accessed nobody else is called.
  private final class End: HCITransport {
    weak var receiver: (any HCIReceiver)? {
      didSet {
        receiverChanges &+= 1
        wake()
      }
    }
    /// Tells a batch that is being delivered, which looks the weak reference up once.
    @exclusivity(unchecked) private var receiverChanges = 0
    /// Not weak, which would make each use of an end dearer: whoever goes first takes itself out of the other.
    @exclusivity(unchecked) unowned var other: End?
    private let scheduler: any Scheduler
    @exclusivity(unchecked) private var timer: (any SchedulerTimer)?
    @exclusivity(unchecked) private var inbox = PacketQueue<HCIPacketType>()
    @exclusivity(unchecked) private var isClosed = false
    @exclusivity(unchecked) private var isArmed = false
    @exclusivity(unchecked) private var closedByOther = false

    init(_ scheduler: any Scheduler) {
      self.scheduler = scheduler
      timer = scheduler.makeTimer { [unowned self] in drain() }
    }

    deinit {
      // A loop that is about to call the timer's action does not any more.
      timer?.disarm()
      other?.other = nil
    }

    func send(_ type: HCIPacketType, _ payload: RawSpan) {
      guard !isClosed, let other, !other.isClosed else { return }
      other.inbox.append(type, payload)
      other.wake()
    }

    func close() {
      guard !isClosed else { return }
      isClosed = true
      inbox.removeAll()
      timer?.disarm()
      guard let other, !other.isClosed else { return }
      other.closedByOther = true
      other.wake()
    }

    private func wake() {
      guard !isArmed, receiver != nil, !inbox.isEmpty || closedByOther else { return }
      isArmed = true
      timer?.arm(at: scheduler.now)
    }

    /// Delivers what is waiting. A packet that arrives meanwhile (the receiver sent, the other side answers) goes
    /// with the next turn.
    private func drain() {
      isArmed = false
      var batch = PacketQueue<HCIPacketType>()
      swap(&batch, &inbox)
      while !isClosed, !batch.isEmpty, let receiver {
        let change = receiverChanges
        while change == receiverChanges, !isClosed, batch.removeFirst({ receiver.receive($0, $1) }) {}
      }
      guard !isClosed else { return }
      if !batch.isEmpty {
        // The receiver went away meanwhile: what it has not seen stays first in line.
        while inbox.removeFirst({ batch.append($0, $1) }) {}
      }
      if inbox.isEmpty { swap(&batch, &inbox) }
      if closedByOther, inbox.isEmpty, let receiver {
        isClosed = true
        receiver.transportClosed(HCITransportError("the other end of the in-process HCI transport was closed"))
        return
      }
      wake()
    }
  }
}
