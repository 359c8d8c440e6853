// SPDX-License-Identifier: Apache-2.0

public import BLECore

/// The code of a signalling packet that LE uses (Vol 3 Part A 4, table 4.2).
@frozen
public struct SignalingCode: RawRepresentable, Hashable, Sendable {
  public let rawValue: UInt8
  @inlinable public init(rawValue: UInt8) { self.rawValue = rawValue }

  public static let commandReject = SignalingCode(rawValue: 0x01)
  public static let disconnectionRequest = SignalingCode(rawValue: 0x06)
  public static let disconnectionResponse = SignalingCode(rawValue: 0x07)
  public static let connectionParameterUpdateRequest = SignalingCode(rawValue: 0x12)
  public static let connectionParameterUpdateResponse = SignalingCode(rawValue: 0x13)
  public static let leCreditBasedConnectionRequest = SignalingCode(rawValue: 0x14)
  public static let leCreditBasedConnectionResponse = SignalingCode(rawValue: 0x15)
  public static let flowControlCreditIndication = SignalingCode(rawValue: 0x16)
  public static let creditBasedConnectionRequest = SignalingCode(rawValue: 0x17)
  public static let creditBasedConnectionResponse = SignalingCode(rawValue: 0x18)
  public static let creditBasedReconfigureRequest = SignalingCode(rawValue: 0x19)
  public static let creditBasedReconfigureResponse = SignalingCode(rawValue: 0x1A)
}

/// The data of one signalling packet: what follows its header, up to the end.
public protocol SignalingData: WireCodable, Hashable, Sendable {
  static var code: SignalingCode { get }
}

/// Result of a request for credit-based channels (Vol 3 Part A 4.23, 4.26).
@frozen
public struct CreditBasedResult: RawRepresentable, Hashable, Sendable {
  public let rawValue: UInt16
  @inlinable public init(rawValue: UInt16) { self.rawValue = rawValue }

  public static let successful = CreditBasedResult(rawValue: 0x0000)
  public static let spsmNotSupported = CreditBasedResult(rawValue: 0x0002)
  public static let noResources = CreditBasedResult(rawValue: 0x0004)
  public static let insufficientAuthentication = CreditBasedResult(rawValue: 0x0005)
  public static let insufficientAuthorization = CreditBasedResult(rawValue: 0x0006)
  public static let encryptionKeySizeTooShort = CreditBasedResult(rawValue: 0x0007)
  public static let insufficientEncryption = CreditBasedResult(rawValue: 0x0008)
  public static let invalidSourceCID = CreditBasedResult(rawValue: 0x0009)
  public static let sourceCIDAlreadyAllocated = CreditBasedResult(rawValue: 0x000A)
  public static let unacceptableParameters = CreditBasedResult(rawValue: 0x000B)
  public static let invalidParameters = CreditBasedResult(rawValue: 0x000C)
}

/// L2CAP_COMMAND_REJECT_RSP (Vol 3 Part A 4.1).
public struct CommandReject: SignalingData {
  public static let code = SignalingCode.commandReject
  /// Why, with the data of the reason. A reason that is not defined keeps its data.
  public enum Reason: Hashable, Sendable {
    case commandNotUnderstood
    case signalingMTUExceeded(mtu: UInt16)
    /// The endpoints as the rejecting device sees them.
    case invalidCID(local: ChannelID, remote: ChannelID)
    case other(UInt16, [UInt8])
  }

  public var reason: Reason

  public init(reason: Reason) { self.reason = reason }

  public init(from reader: inout ByteReader) throws(DecodeError) {
    switch try reader.u16() {
    case 0: reason = .commandNotUnderstood
    case 1: reason = .signalingMTUExceeded(mtu: try reader.u16())
    case 2: reason = .invalidCID(local: try channelID(from: &reader), remote: try channelID(from: &reader))
    case let other: reason = .other(other, reader.restArray())
    }
  }

  public func encode(into writer: inout ByteWriter) {
    switch reason {
    case .commandNotUnderstood:
      writer.u16(0)
    case .signalingMTUExceeded(let mtu):
      writer.u16(1)
      writer.u16(mtu)
    case .invalidCID(let local, let remote):
      writer.u16(2)
      writer.u16(local.rawValue)
      writer.u16(remote.rawValue)
    case .other(let reason, let data):
      writer.u16(reason)
      writer.bytes(data)
    }
  }
}

/// L2CAP_DISCONNECTION_REQ (Vol 3 Part A 4.6).
public struct DisconnectionRequest: SignalingData {
  public static let code = SignalingCode.disconnectionRequest
  /// The receiver's endpoint.
  public var destinationCID: ChannelID
  /// The sender's endpoint.
  public var sourceCID: ChannelID

  public init(destinationCID: ChannelID, sourceCID: ChannelID) {
    self.destinationCID = destinationCID
    self.sourceCID = sourceCID
  }

  public init(from reader: inout ByteReader) throws(DecodeError) {
    destinationCID = try channelID(from: &reader)
    sourceCID = try channelID(from: &reader)
  }

  public func encode(into writer: inout ByteWriter) {
    writer.u16(destinationCID.rawValue)
    writer.u16(sourceCID.rawValue)
  }
}

/// L2CAP_DISCONNECTION_RSP (Vol 3 Part A 4.7): the two endpoints of the request.
public struct DisconnectionResponse: SignalingData {
  public static let code = SignalingCode.disconnectionResponse
  public var destinationCID: ChannelID
  public var sourceCID: ChannelID

  public init(destinationCID: ChannelID, sourceCID: ChannelID) {
    self.destinationCID = destinationCID
    self.sourceCID = sourceCID
  }

  public init(from reader: inout ByteReader) throws(DecodeError) {
    destinationCID = try channelID(from: &reader)
    sourceCID = try channelID(from: &reader)
  }

  public func encode(into writer: inout ByteWriter) {
    writer.u16(destinationCID.rawValue)
    writer.u16(sourceCID.rawValue)
  }
}

/// L2CAP_CONNECTION_PARAMETER_UPDATE_REQ (Vol 3 Part A 4.20), from the Peripheral to the Central.
public struct ConnectionParameterUpdateRequest: SignalingData {
  public static let code = SignalingCode.connectionParameterUpdateRequest
  /// Interval Min, Interval Max, Latency, Timeout; any values, valid or not.
  public var parameters: ConnectionParameterRange

  public init(parameters: ConnectionParameterRange) { self.parameters = parameters }

  public init(from reader: inout ByteReader) throws(DecodeError) {
    parameters = ConnectionParameterRange(
      intervalMin: ConnectionInterval(rawValue: try reader.u16()),
      intervalMax: ConnectionInterval(rawValue: try reader.u16()),
      latency: try reader.u16(),
      supervisionTimeout: SupervisionTimeout(rawValue: try reader.u16()))
  }

  public func encode(into writer: inout ByteWriter) {
    writer.u16(parameters.intervalMin.rawValue)
    writer.u16(parameters.intervalMax.rawValue)
    writer.u16(parameters.latency)
    writer.u16(parameters.supervisionTimeout.rawValue)
  }
}

/// L2CAP_CONNECTION_PARAMETER_UPDATE_RSP (Vol 3 Part A 4.21).
public struct ConnectionParameterUpdateResponse: SignalingData {
  public static let code = SignalingCode.connectionParameterUpdateResponse
  /// Result: 0x0000 accepted, 0x0001 rejected; any other is a refusal too.
  public var result: UInt16

  public var isAccepted: Bool { result == 0 }

  public init(isAccepted: Bool) { result = isAccepted ? 0 : 1 }

  public init(from reader: inout ByteReader) throws(DecodeError) { result = try reader.u16() }

  public func encode(into writer: inout ByteWriter) { writer.u16(result) }
}

/// L2CAP_LE_CREDIT_BASED_CONNECTION_REQ (Vol 3 Part A 4.22).
public struct LECreditBasedConnectionRequest: SignalingData {
  public static let code = SignalingCode.leCreditBasedConnectionRequest
  public var spsm: UInt16
  public var sourceCID: ChannelID
  /// Octets of the longest SDU the sender takes: 23-65535.
  public var mtu: UInt16
  /// Octets of the longest K-frame payload the sender takes: 23-65533.
  public var mps: UInt16
  /// K-frames that may be sent to the sender.
  public var initialCredits: UInt16

  public init(spsm: UInt16, sourceCID: ChannelID, mtu: UInt16, mps: UInt16, initialCredits: UInt16) {
    self.spsm = spsm
    self.sourceCID = sourceCID
    self.mtu = mtu
    self.mps = mps
    self.initialCredits = initialCredits
  }

  public init(from reader: inout ByteReader) throws(DecodeError) {
    spsm = try reader.u16()
    sourceCID = try channelID(from: &reader)
    mtu = try reader.u16()
    mps = try reader.u16()
    initialCredits = try reader.u16()
  }

  public func encode(into writer: inout ByteWriter) {
    writer.u16(spsm)
    writer.u16(sourceCID.rawValue)
    writer.u16(mtu)
    writer.u16(mps)
    writer.u16(initialCredits)
  }
}

/// L2CAP_LE_CREDIT_BASED_CONNECTION_RSP (Vol 3 Part A 4.23).
public struct LECreditBasedConnectionResponse: SignalingData {
  public static let code = SignalingCode.leCreditBasedConnectionResponse
  public var destinationCID: ChannelID
  public var mtu: UInt16
  public var mps: UInt16
  public var initialCredits: UInt16
  public var result: CreditBasedResult

  public init(
    destinationCID: ChannelID, mtu: UInt16, mps: UInt16, initialCredits: UInt16, result: CreditBasedResult
  ) {
    self.destinationCID = destinationCID
    self.mtu = mtu
    self.mps = mps
    self.initialCredits = initialCredits
    self.result = result
  }

  /// A refusal: all but the result is zero.
  public init(refusal result: CreditBasedResult) {
    self.init(destinationCID: ChannelID(rawValue: 0), mtu: 0, mps: 0, initialCredits: 0, result: result)
  }

  public init(from reader: inout ByteReader) throws(DecodeError) {
    destinationCID = try channelID(from: &reader)
    mtu = try reader.u16()
    mps = try reader.u16()
    initialCredits = try reader.u16()
    result = CreditBasedResult(rawValue: try reader.u16())
  }

  public func encode(into writer: inout ByteWriter) {
    writer.u16(destinationCID.rawValue)
    writer.u16(mtu)
    writer.u16(mps)
    writer.u16(initialCredits)
    writer.u16(result.rawValue)
  }
}

/// L2CAP_FLOW_CONTROL_CREDIT_IND (Vol 3 Part A 4.24).
public struct FlowControlCreditIndication: SignalingData {
  public static let code = SignalingCode.flowControlCreditIndication
  /// The sender's own endpoint.
  public var cid: ChannelID
  /// K-frames that may be sent to it in addition: 1-65535.
  public var credits: UInt16

  public init(cid: ChannelID, credits: UInt16) {
    self.cid = cid
    self.credits = credits
  }

  public init(from reader: inout ByteReader) throws(DecodeError) {
    cid = try channelID(from: &reader)
    credits = try reader.u16()
  }

  public func encode(into writer: inout ByteWriter) {
    writer.u16(cid.rawValue)
    writer.u16(credits)
  }
}

/// L2CAP_CREDIT_BASED_CONNECTION_REQ (Vol 3 Part A 4.25): up to five channels of one kind.
public struct CreditBasedConnectionRequest: SignalingData {
  public static let code = SignalingCode.creditBasedConnectionRequest
  public var spsm: UInt16
  /// 64-65535.
  public var mtu: UInt16
  /// 64-65533.
  public var mps: UInt16
  public var initialCredits: UInt16
  /// One endpoint for each channel: 1-5.
  public var sourceCIDs: [ChannelID]

  public init(spsm: UInt16, mtu: UInt16, mps: UInt16, initialCredits: UInt16, sourceCIDs: [ChannelID]) {
    self.spsm = spsm
    self.mtu = mtu
    self.mps = mps
    self.initialCredits = initialCredits
    self.sourceCIDs = sourceCIDs
  }

  public init(from reader: inout ByteReader) throws(DecodeError) {
    spsm = try reader.u16()
    mtu = try reader.u16()
    mps = try reader.u16()
    initialCredits = try reader.u16()
    sourceCIDs = try channelIDs(from: &reader, in: 1...5)
  }

  public func encode(into writer: inout ByteWriter) {
    writer.u16(spsm)
    writer.u16(mtu)
    writer.u16(mps)
    writer.u16(initialCredits)
    for cid in sourceCIDs { writer.u16(cid.rawValue) }
  }
}

/// L2CAP_CREDIT_BASED_CONNECTION_RSP (Vol 3 Part A 4.26).
public struct CreditBasedConnectionResponse: SignalingData {
  public static let code = SignalingCode.creditBasedConnectionResponse
  public var mtu: UInt16
  public var mps: UInt16
  public var initialCredits: UInt16
  public var result: CreditBasedResult
  /// One endpoint for each channel asked for; zero for a refused one.
  public var destinationCIDs: [ChannelID]

  public init(
    mtu: UInt16, mps: UInt16, initialCredits: UInt16, result: CreditBasedResult, destinationCIDs: [ChannelID]
  ) {
    self.mtu = mtu
    self.mps = mps
    self.initialCredits = initialCredits
    self.result = result
    self.destinationCIDs = destinationCIDs
  }

  /// A refusal of `channelCount` channels.
  public init(refusal result: CreditBasedResult, channelCount: Int) {
    let none = [ChannelID](repeating: ChannelID(rawValue: 0), count: channelCount)
    self.init(mtu: 0, mps: 0, initialCredits: 0, result: result, destinationCIDs: none)
  }

  public init(from reader: inout ByteReader) throws(DecodeError) {
    mtu = try reader.u16()
    mps = try reader.u16()
    initialCredits = try reader.u16()
    result = CreditBasedResult(rawValue: try reader.u16())
    destinationCIDs = try channelIDs(from: &reader, in: 0...5)
  }

  public func encode(into writer: inout ByteWriter) {
    writer.u16(mtu)
    writer.u16(mps)
    writer.u16(initialCredits)
    writer.u16(result.rawValue)
    for cid in destinationCIDs { writer.u16(cid.rawValue) }
  }
}

/// L2CAP_CREDIT_BASED_RECONFIGURE_REQ (Vol 3 Part A 4.27).
public struct CreditBasedReconfigureRequest: SignalingData {
  public static let code = SignalingCode.creditBasedReconfigureRequest
  public var mtu: UInt16
  public var mps: UInt16
  /// The channels, by the sender's endpoints: 1-5.
  public var destinationCIDs: [ChannelID]

  public init(mtu: UInt16, mps: UInt16, destinationCIDs: [ChannelID]) {
    self.mtu = mtu
    self.mps = mps
    self.destinationCIDs = destinationCIDs
  }

  public init(from reader: inout ByteReader) throws(DecodeError) {
    mtu = try reader.u16()
    mps = try reader.u16()
    destinationCIDs = try channelIDs(from: &reader, in: 1...5)
  }

  public func encode(into writer: inout ByteWriter) {
    writer.u16(mtu)
    writer.u16(mps)
    for cid in destinationCIDs { writer.u16(cid.rawValue) }
  }
}

/// L2CAP_CREDIT_BASED_RECONFIGURE_RSP (Vol 3 Part A 4.28).
public struct CreditBasedReconfigureResponse: SignalingData {
  public static let code = SignalingCode.creditBasedReconfigureResponse
  /// Result of a reconfiguration.
  @frozen
  public struct Result: RawRepresentable, Hashable, Sendable {
    public let rawValue: UInt16
    @inlinable public init(rawValue: UInt16) { self.rawValue = rawValue }

    public static let successful = Result(rawValue: 0x0000)
    public static let mtuReduced = Result(rawValue: 0x0001)
    public static let mpsReduced = Result(rawValue: 0x0002)
    public static let invalidDestinationCID = Result(rawValue: 0x0003)
    public static let unacceptableParameters = Result(rawValue: 0x0004)
  }

  public var result: Result

  public init(result: Result) { self.result = result }

  public init(from reader: inout ByteReader) throws(DecodeError) { result = Result(rawValue: try reader.u16()) }

  public func encode(into writer: inout ByteWriter) { writer.u16(result.rawValue) }
}

// MARK: The packet

/// A signalling packet of the LE signalling channel (Vol 3 Part A 4): code, identifier, length, data. On LE a frame
/// holds exactly one.
public struct SignalingPacket: WireCodable, Hashable, Sendable {
  /// The data of a packet by its code; of a code that LE does not use, the octets.
  public enum Content: Hashable, Sendable {
    case commandReject(CommandReject)
    case disconnectionRequest(DisconnectionRequest)
    case disconnectionResponse(DisconnectionResponse)
    case connectionParameterUpdateRequest(ConnectionParameterUpdateRequest)
    case connectionParameterUpdateResponse(ConnectionParameterUpdateResponse)
    case leCreditBasedConnectionRequest(LECreditBasedConnectionRequest)
    case leCreditBasedConnectionResponse(LECreditBasedConnectionResponse)
    case flowControlCreditIndication(FlowControlCreditIndication)
    case creditBasedConnectionRequest(CreditBasedConnectionRequest)
    case creditBasedConnectionResponse(CreditBasedConnectionResponse)
    case creditBasedReconfigureRequest(CreditBasedReconfigureRequest)
    case creditBasedReconfigureResponse(CreditBasedReconfigureResponse)
    case unknown(SignalingCode, [UInt8])
  }

  /// Matches a response to its request; zero is never valid.
  public var identifier: UInt8
  public var content: Content

  public init(identifier: UInt8, _ content: Content) {
    self.identifier = identifier
    self.content = content
  }

  public init(from reader: inout ByteReader) throws(DecodeError) {
    let code = SignalingCode(rawValue: try reader.u8())
    let offset = reader.offset
    identifier = try reader.u8()
    guard identifier != 0 else { throw .invalidValue(field: "Identifier", value: 0, offset: offset) }
    let length = Int(try reader.u16())
    var data = ByteReader(try reader.span(length))
    content = try Content(code, from: &data)
    try data.expectEnd()
  }

  public func encode(into writer: inout ByteWriter) {
    writer.u8(content.code.rawValue)
    writer.u8(identifier)
    let length = writer.count
    writer.u16(0)
    content.encode(into: &writer)
    writer.patch(u16: UInt16(truncatingIfNeeded: writer.count - length - 2), at: length)
  }
}

extension SignalingPacket.Content {
  /// Reads the data of a packet with `code`.
  public init(_ code: SignalingCode, from data: inout ByteReader) throws(DecodeError) {
    self =
      switch code {
      case .commandReject: .commandReject(try CommandReject(from: &data))
      case .disconnectionRequest: .disconnectionRequest(try DisconnectionRequest(from: &data))
      case .disconnectionResponse: .disconnectionResponse(try DisconnectionResponse(from: &data))
      case .connectionParameterUpdateRequest:
        .connectionParameterUpdateRequest(try ConnectionParameterUpdateRequest(from: &data))
      case .connectionParameterUpdateResponse:
        .connectionParameterUpdateResponse(try ConnectionParameterUpdateResponse(from: &data))
      case .leCreditBasedConnectionRequest:
        .leCreditBasedConnectionRequest(try LECreditBasedConnectionRequest(from: &data))
      case .leCreditBasedConnectionResponse:
        .leCreditBasedConnectionResponse(try LECreditBasedConnectionResponse(from: &data))
      case .flowControlCreditIndication: .flowControlCreditIndication(try FlowControlCreditIndication(from: &data))
      case .creditBasedConnectionRequest:
        .creditBasedConnectionRequest(try CreditBasedConnectionRequest(from: &data))
      case .creditBasedConnectionResponse:
        .creditBasedConnectionResponse(try CreditBasedConnectionResponse(from: &data))
      case .creditBasedReconfigureRequest:
        .creditBasedReconfigureRequest(try CreditBasedReconfigureRequest(from: &data))
      case .creditBasedReconfigureResponse:
        .creditBasedReconfigureResponse(try CreditBasedReconfigureResponse(from: &data))
      default: .unknown(code, data.restArray())
      }
  }

  /// The data, if the code is known.
  public var data: (any SignalingData)? {
    switch self {
    case .commandReject(let data): data
    case .disconnectionRequest(let data): data
    case .disconnectionResponse(let data): data
    case .connectionParameterUpdateRequest(let data): data
    case .connectionParameterUpdateResponse(let data): data
    case .leCreditBasedConnectionRequest(let data): data
    case .leCreditBasedConnectionResponse(let data): data
    case .flowControlCreditIndication(let data): data
    case .creditBasedConnectionRequest(let data): data
    case .creditBasedConnectionResponse(let data): data
    case .creditBasedReconfigureRequest(let data): data
    case .creditBasedReconfigureResponse(let data): data
    case .unknown: nil
    }
  }

  public var code: SignalingCode {
    if case .unknown(let code, _) = self { return code }
    return data.map { type(of: $0).code } ?? .commandReject
  }

  fileprivate func encode(into writer: inout ByteWriter) {
    if case .unknown(_, let octets) = self { writer.bytes(octets) }
    data?.encode(into: &writer)
  }
}

private func channelID(from reader: inout ByteReader) throws(DecodeError) -> ChannelID {
  ChannelID(rawValue: try reader.u16())
}

/// Channel identifiers up to the end of the data, as many as `count` allows.
private func channelIDs(
  from reader: inout ByteReader, in count: ClosedRange<Int>
) throws(DecodeError) -> [ChannelID] {
  var cids: [ChannelID] = []
  let offset = reader.offset
  while !reader.isAtEnd, cids.count <= count.upperBound { cids.append(try channelID(from: &reader)) }
  guard count.contains(cids.count) else {
    throw .invalidValue(field: "number of CIDs", value: UInt64(cids.count), offset: offset)
  }
  return cids
}
