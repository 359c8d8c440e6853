// SPDX-License-Identifier: Apache-2.0

import BLECore
import BLEGATT
import TestSupport
import Testing

@Suite struct ATTPDUTests {
  @Test func validVectorsDecodeAndEncodeToThemselves() throws {
    let cases = try VectorFile("att_pdus").cases.filter { $0.bool("valid") == true }
    #expect(cases.count == 127)
    for example in cases {
      let pdu = try #require(example.bytes("pdu"))
      let decoded = try ATTPDU.decode(pdu)
      #expect(decoded.encoded == pdu, "\(example)")
      #expect([decoded.opcode.rawValue].hex == example.string("opcode"), "\(example)")
      #expect(decoded.parameters != nil, "\(example)")
      let fields = try #require(example.child("decoded"))
      #expect(Self.disagreement(decoded, fields) == nil, "\(example)")
    }
  }

  /// What a decoder alone has to refuse; what only a machine can see is wrong decodes.
  @Test func malformedVectorsThrow() throws {
    let wellFormed: Set = [
      "mtu request below 23", "unknown request opcode 0x30", "unknown request opcode 0x3f with parameters",
      "unknown command opcode 0x70", "unknown authenticated command 0xf0", "empty PDU",
      "confirmation with no indication outstanding", "response received by server",
      "read by group type response, handles not increasing", "read by group type response, end below start",
      "error response error code 0", "error response for another opcode than the outstanding one",
      "multiple notification single pair", "read multiple variable response length overrun",
      "prepare write response with other value", "response while nothing outstanding",
    ]
    let cases = try VectorFile("att_pdus").cases.filter { $0.bool("valid") == false }
    #expect(cases.count == 50)
    for example in cases {
      let pdu = try #require(example.bytes("pdu"))
      let decoded = try? ATTPDU.decode(pdu)
      #expect((decoded != nil) == wellFormed.contains(example.name), "\(example)")
    }
  }

  @Test func anyBytesDecodeToWhatEncodesAgainOrThrow() throws {
    let examples = try VectorFile("att_pdus").cases.compactMap { $0.bytes("pdu") }
    let hostile = HostileBytes(seed: 0xA77, count: 100_000, examples: examples)
    var decodedCount = 0
    for bytes in hostile {
      guard let pdu = try? ATTPDU.decode(bytes) else { continue }
      decodedCount += 1
      if try ATTPDU.decode(pdu.encoded) != pdu { Issue.record("seed \(hostile.seed): \(bytes.hex)") }
    }
    #expect(decodedCount > 10_000)
  }

  /// The first field in which a PDU differs from the vector's account of it.
  static func disagreement(_ pdu: ATTPDU, _ fields: VectorCase) -> String? {
    for (name, value) in texts(pdu) {
      let expected = fields.string(name) ?? fields.int(name).map(String.init)
      if expected?.lowercased() != value.lowercased() { return "\(name): \(value)" }
    }
    for (index, (entry, expected)) in zip(entries(pdu), fields.objects("entries")).enumerated() {
      for (name, value) in entry
      where (expected.string(name) ?? expected.int(name).map(String.init))?.lowercased() != value.lowercased() {
        return "entry \(index), \(name): \(value)"
      }
    }
    return entries(pdu).count == fields.objects("entries").count ? nil : "number of entries"
  }

  static func hex(_ value: UInt16) -> String { [UInt8(value >> 8), UInt8(value & 0xFF)].hex }

  /// The fields of a PDU under the vectors' names.
  static func texts(_ pdu: ATTPDU) -> [String: String] {
    switch pdu {
    case .errorResponse(let p):
      [
        "request_opcode": [p.requestOpcode.rawValue].hex, "handle": hex(p.handle),
        "error_code": [p.error.rawValue].hex,
      ]
    case .exchangeMTURequest(let p): ["client_rx_mtu": "\(p.clientRxMTU)"]
    case .exchangeMTUResponse(let p): ["server_rx_mtu": "\(p.serverRxMTU)"]
    case .findInformationRequest(let p): ["start": hex(p.range.start), "end": hex(p.range.end)]
    case .findByTypeValueRequest(let p):
      [
        "start": hex(p.range.start), "end": hex(p.range.end), "type": hex(p.attributeType),
        "value": p.attributeValue.hex,
      ]
    case .readByTypeRequest(let p):
      [
        "start": hex(p.range.start), "end": hex(p.range.end),
        "type": p.isLongForm ? p.attributeType.longDescription : "\(p.attributeType)",
      ]
    case .readRequest(let p): ["handle": hex(p.handle)]
    case .readResponse(let p): ["value": p.attributeValue.hex]
    case .readBlobRequest(let p): ["handle": hex(p.handle), "offset": "\(p.offset)"]
    case .readBlobResponse(let p): ["value": p.partAttributeValue.hex]
    case .readMultipleResponse(let p): ["value": p.values.hex]
    case .readByGroupTypeRequest(let p):
      [
        "start": hex(p.range.start), "end": hex(p.range.end),
        "type": p.isLongForm ? p.attributeGroupType.longDescription : "\(p.attributeGroupType)",
      ]
    case .writeRequest(let p): ["handle": hex(p.handle), "value": p.attributeValue.hex]
    case .writeCommand(let p): ["handle": hex(p.handle), "value": p.attributeValue.hex]
    case .signedWriteCommand(let p):
      ["handle": hex(p.handle), "value": p.attributeValue.hex, "mac": Array(p.signature.suffix(8)).hex]
    case .prepareWriteRequest(let p):
      ["handle": hex(p.handle), "offset": "\(p.offset)", "value": p.partAttributeValue.hex]
    case .prepareWriteResponse(let p):
      ["handle": hex(p.handle), "offset": "\(p.offset)", "value": p.partAttributeValue.hex]
    case .executeWriteRequest(let p): ["flags": p.isWrite ? "1" : "0"]
    case .handleValueNotification(let p): ["handle": hex(p.handle), "value": p.attributeValue.hex]
    case .handleValueIndication(let p): ["handle": hex(p.handle), "value": p.attributeValue.hex]
    case .findInformationResponse, .findByTypeValueResponse, .readByTypeResponse, .readMultipleRequest,
      .readByGroupTypeResponse, .readMultipleVariableRequest, .readMultipleVariableResponse, .writeResponse,
      .executeWriteResponse, .handleValueConfirmation, .multipleHandleValueNotification, .unknown:
      [:]
    }
  }

  /// The entries of a list PDU under the vectors' names.
  static func entries(_ pdu: ATTPDU) -> [[String: String]] {
    switch pdu {
    case .findInformationResponse(let p): p.entries.map { ["handle": hex($0.handle), "type": "\($0.type)"] }
    case .findByTypeValueResponse(let p): p.groups.map { ["found": hex($0.start), "group_end": hex($0.end)] }
    case .readByTypeResponse(let p): p.entries.map { ["handle": hex($0.handle), "value": $0.value.hex] }
    case .readByGroupTypeResponse(let p):
      p.entries.map { ["handle": hex($0.group.start), "group_end": hex($0.group.end), "value": $0.value.hex] }
    case .readMultipleVariableResponse(let p): p.entries.map { ["length": "\($0.length)", "value": $0.value.hex] }
    case .multipleHandleValueNotification(let p):
      p.entries.map { ["handle": hex($0.handle), "value": $0.value.hex] }
    default: []
    }
  }
}

/// What an app's error message says of opcodes.
@Suite struct ATTNameTests {
  @Test func opcodesHaveNames() {
    #expect("\(ATTOpcode.readByGroupTypeRequest)" == "Read By Group Type Request")
    #expect("\(ATTOpcode(rawValue: 0x7F))" == "ATT opcode 0x7f")
    for raw in UInt8.min...UInt8.max where ATTOpcode(rawValue: raw).isFromServer {
      #expect(!"\(ATTOpcode(rawValue: raw))".contains("0x"))
    }
    let failure = ATTBearerFailure.responseTimedOut(request: .readRequest)
    #expect("\(failure)" == "no answer to Read Request within 30 s")
  }
}
