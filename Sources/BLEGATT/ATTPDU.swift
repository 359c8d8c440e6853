// SPDX-License-Identifier: Apache-2.0

public import BLECore

/// Any PDU of the Attribute Protocol, opcode first (Vol 3 Part F 3.4). One that is not known keeps its octets.
public enum ATTPDU: WireCodable, Hashable, Sendable {
  case errorResponse(ATTErrorResponse)
  case exchangeMTURequest(ATTExchangeMTURequest)
  case exchangeMTUResponse(ATTExchangeMTUResponse)
  case findInformationRequest(ATTFindInformationRequest)
  case findInformationResponse(ATTFindInformationResponse)
  case findByTypeValueRequest(ATTFindByTypeValueRequest)
  case findByTypeValueResponse(ATTFindByTypeValueResponse)
  case readByTypeRequest(ATTReadByTypeRequest)
  case readByTypeResponse(ATTReadByTypeResponse)
  case readRequest(ATTReadRequest)
  case readResponse(ATTReadResponse)
  case readBlobRequest(ATTReadBlobRequest)
  case readBlobResponse(ATTReadBlobResponse)
  case readMultipleRequest(ATTReadMultipleRequest)
  case readMultipleResponse(ATTReadMultipleResponse)
  case readByGroupTypeRequest(ATTReadByGroupTypeRequest)
  case readByGroupTypeResponse(ATTReadByGroupTypeResponse)
  case readMultipleVariableRequest(ATTReadMultipleVariableRequest)
  case readMultipleVariableResponse(ATTReadMultipleVariableResponse)
  case writeRequest(ATTWriteRequest)
  case writeResponse(ATTWriteResponse)
  case writeCommand(ATTWriteCommand)
  case signedWriteCommand(ATTSignedWriteCommand)
  case prepareWriteRequest(ATTPrepareWriteRequest)
  case prepareWriteResponse(ATTPrepareWriteResponse)
  case executeWriteRequest(ATTExecuteWriteRequest)
  case executeWriteResponse(ATTExecuteWriteResponse)
  case handleValueNotification(ATTHandleValueNotification)
  case handleValueIndication(ATTHandleValueIndication)
  case handleValueConfirmation(ATTHandleValueConfirmation)
  case multipleHandleValueNotification(ATTMultipleHandleValueNotification)
  case unknown(ATTOpcode, [UInt8])

  public init(from reader: inout ByteReader) throws(DecodeError) {
    switch ATTOpcode(rawValue: try reader.u8()) {
    case .errorResponse: self = .errorResponse(try ATTErrorResponse(from: &reader))
    case .exchangeMTURequest: self = .exchangeMTURequest(try ATTExchangeMTURequest(from: &reader))
    case .exchangeMTUResponse: self = .exchangeMTUResponse(try ATTExchangeMTUResponse(from: &reader))
    case .findInformationRequest: self = .findInformationRequest(try ATTFindInformationRequest(from: &reader))
    case .findInformationResponse: self = .findInformationResponse(try ATTFindInformationResponse(from: &reader))
    case .findByTypeValueRequest: self = .findByTypeValueRequest(try ATTFindByTypeValueRequest(from: &reader))
    case .findByTypeValueResponse: self = .findByTypeValueResponse(try ATTFindByTypeValueResponse(from: &reader))
    case .readByTypeRequest: self = .readByTypeRequest(try ATTReadByTypeRequest(from: &reader))
    case .readByTypeResponse: self = .readByTypeResponse(try ATTReadByTypeResponse(from: &reader))
    case .readRequest: self = .readRequest(try ATTReadRequest(from: &reader))
    case .readResponse: self = .readResponse(try ATTReadResponse(from: &reader))
    case .readBlobRequest: self = .readBlobRequest(try ATTReadBlobRequest(from: &reader))
    case .readBlobResponse: self = .readBlobResponse(try ATTReadBlobResponse(from: &reader))
    case .readMultipleRequest: self = .readMultipleRequest(try ATTReadMultipleRequest(from: &reader))
    case .readMultipleResponse: self = .readMultipleResponse(try ATTReadMultipleResponse(from: &reader))
    case .readByGroupTypeRequest: self = .readByGroupTypeRequest(try ATTReadByGroupTypeRequest(from: &reader))
    case .readByGroupTypeResponse: self = .readByGroupTypeResponse(try ATTReadByGroupTypeResponse(from: &reader))
    case .readMultipleVariableRequest:
      self = .readMultipleVariableRequest(try ATTReadMultipleVariableRequest(from: &reader))
    case .readMultipleVariableResponse:
      self = .readMultipleVariableResponse(try ATTReadMultipleVariableResponse(from: &reader))
    case .writeRequest: self = .writeRequest(try ATTWriteRequest(from: &reader))
    case .writeResponse: self = .writeResponse(try ATTWriteResponse(from: &reader))
    case .writeCommand: self = .writeCommand(try ATTWriteCommand(from: &reader))
    case .signedWriteCommand: self = .signedWriteCommand(try ATTSignedWriteCommand(from: &reader))
    case .prepareWriteRequest: self = .prepareWriteRequest(try ATTPrepareWriteRequest(from: &reader))
    case .prepareWriteResponse: self = .prepareWriteResponse(try ATTPrepareWriteResponse(from: &reader))
    case .executeWriteRequest: self = .executeWriteRequest(try ATTExecuteWriteRequest(from: &reader))
    case .executeWriteResponse: self = .executeWriteResponse(try ATTExecuteWriteResponse(from: &reader))
    case .handleValueNotification: self = .handleValueNotification(try ATTHandleValueNotification(from: &reader))
    case .handleValueIndication: self = .handleValueIndication(try ATTHandleValueIndication(from: &reader))
    case .handleValueConfirmation: self = .handleValueConfirmation(try ATTHandleValueConfirmation(from: &reader))
    case .multipleHandleValueNotification:
      self = .multipleHandleValueNotification(try ATTMultipleHandleValueNotification(from: &reader))
    case let opcode: self = .unknown(opcode, reader.restArray())
    }
  }

  /// The parameters, if the PDU is known.
  public var parameters: (any ATTParameters)? {
    switch self {
    case .errorResponse(let parameters): parameters
    case .exchangeMTURequest(let parameters): parameters
    case .exchangeMTUResponse(let parameters): parameters
    case .findInformationRequest(let parameters): parameters
    case .findInformationResponse(let parameters): parameters
    case .findByTypeValueRequest(let parameters): parameters
    case .findByTypeValueResponse(let parameters): parameters
    case .readByTypeRequest(let parameters): parameters
    case .readByTypeResponse(let parameters): parameters
    case .readRequest(let parameters): parameters
    case .readResponse(let parameters): parameters
    case .readBlobRequest(let parameters): parameters
    case .readBlobResponse(let parameters): parameters
    case .readMultipleRequest(let parameters): parameters
    case .readMultipleResponse(let parameters): parameters
    case .readByGroupTypeRequest(let parameters): parameters
    case .readByGroupTypeResponse(let parameters): parameters
    case .readMultipleVariableRequest(let parameters): parameters
    case .readMultipleVariableResponse(let parameters): parameters
    case .writeRequest(let parameters): parameters
    case .writeResponse(let parameters): parameters
    case .writeCommand(let parameters): parameters
    case .signedWriteCommand(let parameters): parameters
    case .prepareWriteRequest(let parameters): parameters
    case .prepareWriteResponse(let parameters): parameters
    case .executeWriteRequest(let parameters): parameters
    case .executeWriteResponse(let parameters): parameters
    case .handleValueNotification(let parameters): parameters
    case .handleValueIndication(let parameters): parameters
    case .handleValueConfirmation(let parameters): parameters
    case .multipleHandleValueNotification(let parameters): parameters
    case .unknown: nil
    }
  }

  public var opcode: ATTOpcode {
    if case .unknown(let opcode, _) = self { return opcode }
    return parameters.map { type(of: $0).opcode } ?? .errorResponse
  }

  public func encode(into writer: inout ByteWriter) {
    writer.u8(opcode.rawValue)
    if case .unknown(_, let octets) = self { writer.bytes(octets) }
    parameters?.encode(into: &writer)
  }
}
