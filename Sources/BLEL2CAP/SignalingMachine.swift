// SPDX-License-Identifier: Apache-2.0

public import BLECore

/// The role of this device on a link.
public enum LinkRole: Hashable, Sendable { case central, peripheral }

/// What the signalling channel has to say to its host.
public enum SignalingEvent: Hashable, Sendable {
  /// The Peripheral asks for other parameters; they are valid. To be answered by
  /// ``SignalingMachine/respondToParameterUpdate(identifier:isAccepted:)``, and after an acceptance carried out.
  case parameterUpdateRequested(ConnectionParameterRange, identifier: UInt8)
  /// Our request for other parameters was answered.
  case parameterUpdateAnswered(isAccepted: Bool)
  /// Our request for other parameters was rejected as not understood, or not answered in time.
  case parameterUpdateFailed
}

/// The LE signalling channel of one connection (Vol 3 Part A 4): a packet in, at most one packet and one event out.
///
///     Peripheral: idle ──request──▶ waiting ──response, reject, 30 s──▶ idle (after a refusal: paused for 30 s)
///     Central:    each request is answered by the host; a new one from the Peripheral replaces it
///
/// Credit-based channels do not exist yet: requests for them are refused with SPSM Not Supported, and packets about
/// channels that are not there are rejected or ignored as 4.1, 4.6 and 4.24 say.
public struct SignalingMachine {
  /// The longest signalling packet that is taken (Vol 3 Part A 4): the smallest MTU that LE allows.
  public static let mtu = 23
  /// RTX for a request, and the pause after a refused one (TGAP(conn_param_timeout), Vol 3 Part C 9.3.9).
  public static let responseTimeout = TimeSpan.seconds(30)

  /// A request of ours for other connection parameters.
  private enum UpdateRequest {
    case none
    case waiting(identifier: UInt8, deadline: Instant)
    /// The Central refused; another one may be sent from then on.
    case paused(until: Instant)
  }

  /// Packets to be sent on the signalling channel, oldest first.
  public var outgoing = PacketQueue<SignalingCode>()
  /// What happened, for the host to drain.
  public var events: [SignalingEvent] = []
  public let role: LinkRole
  private var updateRequest = UpdateRequest.none
  /// The identifier of the Peripheral's request that the host has not answered yet.
  private var unansweredUpdate: UInt8?
  private var lastIdentifier: UInt8 = 0

  public init(role: LinkRole) { self.role = role }

  /// When ``handleTimeout(now:)`` has to be called; nil for no time.
  public var nextDeadline: Instant? {
    switch updateRequest {
    case .none: nil
    case .waiting(_, let deadline): deadline
    case .paused(let until): until
    }
  }

  /// Takes the payload of a frame of the signalling channel.
  public mutating func receive(_ pdu: RawSpan, now: Instant) {
    var reader = ByteReader(pdu)
    guard let code = try? reader.u8(), let identifier = try? reader.u8(), identifier != 0,
      let length = try? reader.u16()
    else { return }
    let packet = try? SignalingPacket.decode(pdu)
    // A request for too many channels is over the MTU too, but has an answer of its own.
    if pdu.byteCount > Self.mtu, SignalingCode(rawValue: code) != .creditBasedConnectionRequest {
      // A rejection answers a request; answering a response would never end.
      guard Self.isRequest(code) else { return }
      return send(
        identifier, .commandReject(CommandReject(reason: .signalingMTUExceeded(mtu: UInt16(Self.mtu)))))
    }
    guard let packet else { return receiveMalformed(code, identifier, Int(length), reader.rest()) }
    receive(packet, now: now)
  }

  /// Asks the Central for other connection parameters. False, and nothing is sent, if this is the Central, the
  /// parameters are not valid, or an earlier request waits or was refused less than 30 s ago.
  @discardableResult
  public mutating func requestParameterUpdate(_ parameters: ConnectionParameterRange, now: Instant) -> Bool {
    guard role == .peripheral, parameters.isValid else { return false }
    switch updateRequest {
    case .waiting: return false
    case .paused(let until) where until > now: return false
    case .none, .paused: break
    }
    lastIdentifier = lastIdentifier == .max ? 1 : lastIdentifier + 1
    send(lastIdentifier, .connectionParameterUpdateRequest(ConnectionParameterUpdateRequest(parameters: parameters)))
    updateRequest = .waiting(identifier: lastIdentifier, deadline: now + Self.responseTimeout)
    return true
  }

  /// Answers ``SignalingEvent/parameterUpdateRequested(_:identifier:)``; an answer to any but the latest request is
  /// ignored.
  public mutating func respondToParameterUpdate(identifier: UInt8, isAccepted: Bool) {
    guard unansweredUpdate == identifier else { return }
    unansweredUpdate = nil
    send(
      identifier, .connectionParameterUpdateResponse(ConnectionParameterUpdateResponse(isAccepted: isAccepted)))
  }

  /// Has to be called once ``nextDeadline`` has come.
  public mutating func handleTimeout(now: Instant) {
    switch updateRequest {
    case .waiting(_, let deadline) where deadline <= now:
      updateRequest = .none
      events.append(.parameterUpdateFailed)
    case .paused(let until) where until <= now:
      updateRequest = .none
    case .none, .waiting, .paused:
      break
    }
  }

  // MARK: Packets

  private mutating func receive(_ packet: SignalingPacket, now: Instant) {
    switch packet.content {
    case .connectionParameterUpdateRequest(let request):
      receive(request, packet.identifier)
    case .connectionParameterUpdateResponse(let response):
      finishUpdate(packet.identifier, .parameterUpdateAnswered(isAccepted: response.isAccepted), now: now)
    case .commandReject:
      finishUpdate(packet.identifier, .parameterUpdateFailed, now: now)
    case .leCreditBasedConnectionRequest:
      send(
        packet.identifier,
        .leCreditBasedConnectionResponse(LECreditBasedConnectionResponse(refusal: .spsmNotSupported)))
    case .creditBasedConnectionRequest(let request):
      receive(request, packet.identifier)
    case .creditBasedReconfigureRequest:
      send(
        packet.identifier,
        .creditBasedReconfigureResponse(CreditBasedReconfigureResponse(result: .invalidDestinationCID)))
    case .disconnectionRequest(let request):
      let reason = CommandReject.Reason.invalidCID(local: request.destinationCID, remote: request.sourceCID)
      send(packet.identifier, .commandReject(CommandReject(reason: reason)))
    case .disconnectionResponse, .leCreditBasedConnectionResponse, .creditBasedConnectionResponse,
      .creditBasedReconfigureResponse, .flowControlCreditIndication:
      // Of channels and requests that are not there.
      break
    case .unknown:
      rejectAsNotUnderstood(packet.identifier)
    }
  }

  private mutating func receive(_ request: ConnectionParameterUpdateRequest, _ identifier: UInt8) {
    guard role == .central else { return rejectAsNotUnderstood(identifier) }
    unansweredUpdate = identifier
    guard request.parameters.isValid else {
      return respondToParameterUpdate(identifier: identifier, isAccepted: false)
    }
    events.append(.parameterUpdateRequested(request.parameters, identifier: identifier))
  }

  private mutating func receive(_ request: CreditBasedConnectionRequest, _ identifier: UInt8) {
    let isUnique = Set(request.sourceCIDs).count == request.sourceCIDs.count
    let result: CreditBasedResult =
      if !isUnique {
        .sourceCIDAlreadyAllocated
      } else if request.mtu < 64 || request.mps < 64 || request.initialCredits == 0 {
        .invalidParameters
      } else {
        .spsmNotSupported
      }
    let count = request.sourceCIDs.count
    send(
      identifier,
      .creditBasedConnectionResponse(CreditBasedConnectionResponse(refusal: result, channelCount: count)))
  }

  private mutating func finishUpdate(_ identifier: UInt8, _ event: SignalingEvent, now: Instant) {
    guard case .waiting(identifier, _) = updateRequest else { return }
    updateRequest =
      event == .parameterUpdateAnswered(isAccepted: true) ? .none : .paused(until: now + Self.responseTimeout)
    events.append(event)
  }

  /// A packet whose length or data is wrong. Responses are ignored, a request for channels with a wrong number of
  /// endpoints is refused, anything else was not understood.
  private mutating func receiveMalformed(_ code: UInt8, _ identifier: UInt8, _ length: Int, _ data: RawSpan) {
    guard Self.isRequest(code) else { return }
    guard SignalingCode(rawValue: code) == .creditBasedConnectionRequest, length == data.byteCount, length >= 8,
      length.isMultiple(of: 2)
    else { return rejectAsNotUnderstood(identifier) }
    let count = min((length - 8) / 2, 5)
    send(
      identifier,
      .creditBasedConnectionResponse(CreditBasedConnectionResponse(refusal: .invalidParameters, channelCount: count)))
  }

  /// Whether a packet of this code wants an answer. Unknown codes are taken for requests.
  private static func isRequest(_ code: UInt8) -> Bool {
    switch SignalingCode(rawValue: code) {
    case .commandReject, .disconnectionResponse, .connectionParameterUpdateResponse,
      .leCreditBasedConnectionResponse, .flowControlCreditIndication, .creditBasedConnectionResponse,
      .creditBasedReconfigureResponse:
      false
    default: true
    }
  }

  private mutating func rejectAsNotUnderstood(_ identifier: UInt8) {
    send(identifier, .commandReject(CommandReject(reason: .commandNotUnderstood)))
  }

  private mutating func send(_ identifier: UInt8, _ content: SignalingPacket.Content) {
    let packet = SignalingPacket(identifier: identifier, content)
    outgoing.append(content.code) { packet.encode(into: &$0) }
  }
}
