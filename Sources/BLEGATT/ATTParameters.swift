// SPDX-License-Identifier: Apache-2.0

public import BLECore

// The PDUs of the Attribute Protocol as values: what tools, tests and the machines' rare PDUs use. The hot paths
// (values read, written and notified) read the same fields over a span in place, without these copies.

/// The parameters of one ATT PDU: what follows the opcode, up to the end of the PDU (Vol 3 Part F 3.4).
public protocol ATTParameters: WireCodable, Hashable, Sendable {
  static var opcode: ATTOpcode { get }
}

/// Starting and ending handle, or the handles of a group. Any two values: whether they are in order is for the
/// receiver to check.
public struct ATTHandleRange: WireCodable, Hashable, Sendable {
  public var start: UInt16
  public var end: UInt16

  public init(start: UInt16, end: UInt16) {
    self.start = start
    self.end = end
  }

  public init(from reader: inout ByteReader) throws(DecodeError) {
    start = try reader.u16()
    end = try reader.u16()
  }

  public func encode(into writer: inout ByteWriter) {
    writer.u16(start)
    writer.u16(end)
  }
}

/// ATT_ERROR_RSP (Vol 3 Part F 3.4.1.1).
public struct ATTErrorResponse: ATTParameters {
  public static let opcode = ATTOpcode.errorResponse
  /// Request Opcode In Error.
  public var requestOpcode: ATTOpcode
  /// Attribute Handle In Error; zero where none is to blame.
  public var handle: UInt16
  public var error: ATTError

  public init(requestOpcode: ATTOpcode, handle: UInt16, error: ATTError) {
    self.requestOpcode = requestOpcode
    self.handle = handle
    self.error = error
  }

  public init(from reader: inout ByteReader) throws(DecodeError) {
    requestOpcode = ATTOpcode(rawValue: try reader.u8())
    handle = try reader.u16()
    error = ATTError(rawValue: try reader.u8())
  }

  public func encode(into writer: inout ByteWriter) {
    writer.u8(requestOpcode.rawValue)
    writer.u16(handle)
    writer.u8(error.rawValue)
  }
}

/// ATT_EXCHANGE_MTU_REQ (Vol 3 Part F 3.4.2.1).
public struct ATTExchangeMTURequest: ATTParameters {
  public static let opcode = ATTOpcode.exchangeMTURequest
  public var clientRxMTU: UInt16

  public init(clientRxMTU: UInt16) {
    self.clientRxMTU = clientRxMTU
  }

  public init(from reader: inout ByteReader) throws(DecodeError) {
    clientRxMTU = try reader.u16()
  }

  public func encode(into writer: inout ByteWriter) {
    writer.u16(clientRxMTU)
  }
}

/// ATT_EXCHANGE_MTU_RSP (Vol 3 Part F 3.4.2.2).
public struct ATTExchangeMTUResponse: ATTParameters {
  public static let opcode = ATTOpcode.exchangeMTUResponse
  public var serverRxMTU: UInt16

  public init(serverRxMTU: UInt16) {
    self.serverRxMTU = serverRxMTU
  }

  public init(from reader: inout ByteReader) throws(DecodeError) {
    serverRxMTU = try reader.u16()
  }

  public func encode(into writer: inout ByteWriter) {
    writer.u16(serverRxMTU)
  }
}

/// ATT_FIND_INFORMATION_REQ (Vol 3 Part F 3.4.3.1).
public struct ATTFindInformationRequest: ATTParameters {
  public static let opcode = ATTOpcode.findInformationRequest
  public var range: ATTHandleRange

  public init(range: ATTHandleRange) {
    self.range = range
  }

  public init(from reader: inout ByteReader) throws(DecodeError) {
    range = try ATTHandleRange(from: &reader)
  }

  public func encode(into writer: inout ByteWriter) {
    range.encode(into: &writer)
  }
}

/// ATT_FIND_INFORMATION_RSP (Vol 3 Part F 3.4.3.2).
public struct ATTFindInformationResponse: ATTParameters {
  public static let opcode = ATTOpcode.findInformationResponse
  /// One attribute and its type.
  public struct Entry: Hashable, Sendable {
    public var handle: UInt16
    public var type: BluetoothUUID
  }

  /// At least one; all types are of 16 bits, or all of 128.
  public var entries: [Entry]

  public init(entries: [Entry]) { self.entries = entries }

  public init(from reader: inout ByteReader) throws(DecodeError) {
    let offset = reader.offset
    let format = try reader.u8()
    guard format == 1 || format == 2 else {
      throw .invalidValue(field: "Format", value: UInt64(format), offset: offset)
    }
    entries = []
    repeat {
      let handle = try reader.u16()
      entries.append(Entry(handle: handle, type: try BluetoothUUID(from: &reader, byteCount: format == 1 ? 2 : 16)))
    } while !reader.isAtEnd
  }

  public func encode(into writer: inout ByteWriter) {
    let isShort = entries.allSatisfy { $0.type.uuid16 != nil }
    writer.u8(isShort ? 1 : 2)
    for entry in entries {
      writer.u16(entry.handle)
      if isShort { entry.type.encode(into: &writer) } else { entry.type.encode128(into: &writer) }
    }
  }
}

/// ATT_FIND_BY_TYPE_VALUE_REQ (Vol 3 Part F 3.4.3.3).
public struct ATTFindByTypeValueRequest: ATTParameters {
  public static let opcode = ATTOpcode.findByTypeValueRequest
  public var range: ATTHandleRange
  /// A 16-bit UUID.
  public var attributeType: UInt16
  public var attributeValue: [UInt8]

  public init(range: ATTHandleRange, attributeType: UInt16, attributeValue: [UInt8]) {
    self.range = range
    self.attributeType = attributeType
    self.attributeValue = attributeValue
  }

  public init(from reader: inout ByteReader) throws(DecodeError) {
    range = try ATTHandleRange(from: &reader)
    attributeType = try reader.u16()
    attributeValue = reader.restArray()
  }

  public func encode(into writer: inout ByteWriter) {
    range.encode(into: &writer)
    writer.u16(attributeType)
    writer.bytes(attributeValue)
  }
}

/// ATT_FIND_BY_TYPE_VALUE_RSP (Vol 3 Part F 3.4.3.4).
public struct ATTFindByTypeValueResponse: ATTParameters {
  public static let opcode = ATTOpcode.findByTypeValueResponse
  /// Handles Information List: from each found attribute to the end of its group. At least one.
  public var groups: [ATTHandleRange]

  public init(groups: [ATTHandleRange]) { self.groups = groups }

  public init(from reader: inout ByteReader) throws(DecodeError) {
    groups = []
    repeat { groups.append(try ATTHandleRange(from: &reader)) } while !reader.isAtEnd
  }

  public func encode(into writer: inout ByteWriter) {
    for group in groups { group.encode(into: &writer) }
  }
}

/// ATT_READ_BY_TYPE_REQ (Vol 3 Part F 3.4.4.1).
public struct ATTReadByTypeRequest: ATTParameters {
  public static let opcode = ATTOpcode.readByTypeRequest
  public var range: ATTHandleRange
  public var attributeType: BluetoothUUID
  /// Whether the type takes 16 octets although 2 would do.
  public var isLongForm: Bool

  public init(range: ATTHandleRange, attributeType: BluetoothUUID, isLongForm: Bool = false) {
    self.range = range
    self.attributeType = attributeType
    self.isLongForm = isLongForm
  }

  public init(from reader: inout ByteReader) throws(DecodeError) {
    range = try ATTHandleRange(from: &reader)
    isLongForm = reader.remaining == 16
    attributeType = try trailingUUID(from: &reader)
    isLongForm = isLongForm && attributeType.uuid16 != nil
  }

  public func encode(into writer: inout ByteWriter) {
    range.encode(into: &writer)
    if isLongForm { attributeType.encode128(into: &writer) } else { attributeType.encode(into: &writer) }
  }
}

/// ATT_READ_BY_TYPE_RSP (Vol 3 Part F 3.4.4.2).
public struct ATTReadByTypeResponse: ATTParameters {
  public static let opcode = ATTOpcode.readByTypeResponse
  /// One attribute and its value.
  public struct Entry: Hashable, Sendable {
    public var handle: UInt16
    public var value: [UInt8]
  }

  /// Attribute Data List: at least one entry, all values of one length, up to 253 octets.
  public var entries: [Entry]

  public init(entries: [Entry]) { self.entries = entries }

  public init(from reader: inout ByteReader) throws(DecodeError) {
    let length = try itemLength(from: &reader, atLeast: 2)
    entries = []
    repeat {
      let handle = try reader.u16()
      entries.append(Entry(handle: handle, value: try reader.array(length - 2)))
    } while !reader.isAtEnd
  }

  public func encode(into writer: inout ByteWriter) {
    writer.u8(UInt8(truncatingIfNeeded: 2 + (entries.first?.value.count ?? 0)))
    for entry in entries {
      writer.u16(entry.handle)
      writer.bytes(entry.value)
    }
  }
}

/// ATT_READ_REQ (Vol 3 Part F 3.4.4.3).
public struct ATTReadRequest: ATTParameters {
  public static let opcode = ATTOpcode.readRequest
  public var handle: UInt16

  public init(handle: UInt16) {
    self.handle = handle
  }

  public init(from reader: inout ByteReader) throws(DecodeError) {
    handle = try reader.u16()
  }

  public func encode(into writer: inout ByteWriter) {
    writer.u16(handle)
  }
}

/// ATT_READ_RSP (Vol 3 Part F 3.4.4.4).
public struct ATTReadResponse: ATTParameters {
  public static let opcode = ATTOpcode.readResponse
  /// Up to MTU - 1 octets.
  public var attributeValue: [UInt8]

  public init(attributeValue: [UInt8]) {
    self.attributeValue = attributeValue
  }

  public init(from reader: inout ByteReader) throws(DecodeError) {
    attributeValue = reader.restArray()
  }

  public func encode(into writer: inout ByteWriter) {
    writer.bytes(attributeValue)
  }
}

/// ATT_READ_BLOB_REQ (Vol 3 Part F 3.4.4.5).
public struct ATTReadBlobRequest: ATTParameters {
  public static let opcode = ATTOpcode.readBlobRequest
  public var handle: UInt16
  public var offset: UInt16

  public init(handle: UInt16, offset: UInt16) {
    self.handle = handle
    self.offset = offset
  }

  public init(from reader: inout ByteReader) throws(DecodeError) {
    handle = try reader.u16()
    offset = try reader.u16()
  }

  public func encode(into writer: inout ByteWriter) {
    writer.u16(handle)
    writer.u16(offset)
  }
}

/// ATT_READ_BLOB_RSP (Vol 3 Part F 3.4.4.6).
public struct ATTReadBlobResponse: ATTParameters {
  public static let opcode = ATTOpcode.readBlobResponse
  /// Up to MTU - 1 octets.
  public var partAttributeValue: [UInt8]

  public init(partAttributeValue: [UInt8]) {
    self.partAttributeValue = partAttributeValue
  }

  public init(from reader: inout ByteReader) throws(DecodeError) {
    partAttributeValue = reader.restArray()
  }

  public func encode(into writer: inout ByteWriter) {
    writer.bytes(partAttributeValue)
  }
}

/// ATT_READ_MULTIPLE_REQ (Vol 3 Part F 3.4.4.7).
public struct ATTReadMultipleRequest: ATTParameters {
  public static let opcode = ATTOpcode.readMultipleRequest
  /// At least two.
  public var handles: [UInt16]

  public init(handles: [UInt16]) {
    self.handles = handles
  }

  public init(from reader: inout ByteReader) throws(DecodeError) {
    handles = try handleSet(from: &reader)
  }

  public func encode(into writer: inout ByteWriter) {
    for handle in handles { writer.u16(handle) }
  }
}

/// ATT_READ_MULTIPLE_RSP (Vol 3 Part F 3.4.4.8).
public struct ATTReadMultipleResponse: ATTParameters {
  public static let opcode = ATTOpcode.readMultipleResponse
  /// Set Of Values: without anything between them.
  public var values: [UInt8]

  public init(values: [UInt8]) {
    self.values = values
  }

  public init(from reader: inout ByteReader) throws(DecodeError) {
    values = reader.restArray()
  }

  public func encode(into writer: inout ByteWriter) {
    writer.bytes(values)
  }
}

/// ATT_READ_BY_GROUP_TYPE_REQ (Vol 3 Part F 3.4.4.9).
public struct ATTReadByGroupTypeRequest: ATTParameters {
  public static let opcode = ATTOpcode.readByGroupTypeRequest
  public var range: ATTHandleRange
  public var attributeGroupType: BluetoothUUID
  /// Whether the type takes 16 octets although 2 would do.
  public var isLongForm: Bool

  public init(range: ATTHandleRange, attributeGroupType: BluetoothUUID, isLongForm: Bool = false) {
    self.range = range
    self.attributeGroupType = attributeGroupType
    self.isLongForm = isLongForm
  }

  public init(from reader: inout ByteReader) throws(DecodeError) {
    range = try ATTHandleRange(from: &reader)
    isLongForm = reader.remaining == 16
    attributeGroupType = try trailingUUID(from: &reader)
    isLongForm = isLongForm && attributeGroupType.uuid16 != nil
  }

  public func encode(into writer: inout ByteWriter) {
    range.encode(into: &writer)
    if isLongForm { attributeGroupType.encode128(into: &writer) } else { attributeGroupType.encode(into: &writer) }
  }
}

/// ATT_READ_BY_GROUP_TYPE_RSP (Vol 3 Part F 3.4.4.10).
public struct ATTReadByGroupTypeResponse: ATTParameters {
  public static let opcode = ATTOpcode.readByGroupTypeResponse
  /// One group and the value of the attribute it begins with.
  public struct Entry: Hashable, Sendable {
    public var group: ATTHandleRange
    public var value: [UInt8]
  }

  /// Attribute Data List: at least one entry, all values of one length, up to 251 octets.
  public var entries: [Entry]

  public init(entries: [Entry]) { self.entries = entries }

  public init(from reader: inout ByteReader) throws(DecodeError) {
    let length = try itemLength(from: &reader, atLeast: 4)
    entries = []
    repeat {
      let group = try ATTHandleRange(from: &reader)
      entries.append(Entry(group: group, value: try reader.array(length - 4)))
    } while !reader.isAtEnd
  }

  public func encode(into writer: inout ByteWriter) {
    writer.u8(UInt8(truncatingIfNeeded: 4 + (entries.first?.value.count ?? 0)))
    for entry in entries {
      entry.group.encode(into: &writer)
      writer.bytes(entry.value)
    }
  }
}

/// ATT_READ_MULTIPLE_VARIABLE_REQ (Vol 3 Part F 3.4.4.11).
public struct ATTReadMultipleVariableRequest: ATTParameters {
  public static let opcode = ATTOpcode.readMultipleVariableRequest
  /// At least two.
  public var handles: [UInt16]

  public init(handles: [UInt16]) {
    self.handles = handles
  }

  public init(from reader: inout ByteReader) throws(DecodeError) {
    handles = try handleSet(from: &reader)
  }

  public func encode(into writer: inout ByteWriter) {
    for handle in handles { writer.u16(handle) }
  }
}

/// ATT_READ_MULTIPLE_VARIABLE_RSP (Vol 3 Part F 3.4.4.12).
public struct ATTReadMultipleVariableResponse: ATTParameters {
  public static let opcode = ATTOpcode.readMultipleVariableResponse
  /// One value: its length, and its octets as far as they fit.
  public struct Entry: Hashable, Sendable {
    public var length: UInt16
    /// Shorter than `length` only in the last entry.
    public var value: [UInt8]
  }

  public var entries: [Entry]

  public init(entries: [Entry]) { self.entries = entries }

  public init(from reader: inout ByteReader) throws(DecodeError) {
    entries = []
    while !reader.isAtEnd {
      let length = try reader.u16()
      entries.append(Entry(length: length, value: try reader.array(min(Int(length), reader.remaining))))
    }
  }

  public func encode(into writer: inout ByteWriter) {
    for entry in entries {
      writer.u16(entry.length)
      writer.bytes(entry.value)
    }
  }
}

/// ATT_WRITE_REQ (Vol 3 Part F 3.4.5.1).
public struct ATTWriteRequest: ATTParameters {
  public static let opcode = ATTOpcode.writeRequest
  public var handle: UInt16
  /// Up to MTU - 3 octets.
  public var attributeValue: [UInt8]

  public init(handle: UInt16, attributeValue: [UInt8]) {
    self.handle = handle
    self.attributeValue = attributeValue
  }

  public init(from reader: inout ByteReader) throws(DecodeError) {
    handle = try reader.u16()
    attributeValue = reader.restArray()
  }

  public func encode(into writer: inout ByteWriter) {
    writer.u16(handle)
    writer.bytes(attributeValue)
  }
}

/// ATT_WRITE_RSP (Vol 3 Part F 3.4.5.2).
public struct ATTWriteResponse: ATTParameters {
  public static let opcode = ATTOpcode.writeResponse

  public init() {}

  public init(from reader: inout ByteReader) throws(DecodeError) {
  }

  public func encode(into writer: inout ByteWriter) {
  }
}

/// ATT_WRITE_CMD (Vol 3 Part F 3.4.5.3).
public struct ATTWriteCommand: ATTParameters {
  public static let opcode = ATTOpcode.writeCommand
  public var handle: UInt16
  /// Up to MTU - 3 octets.
  public var attributeValue: [UInt8]

  public init(handle: UInt16, attributeValue: [UInt8]) {
    self.handle = handle
    self.attributeValue = attributeValue
  }

  public init(from reader: inout ByteReader) throws(DecodeError) {
    handle = try reader.u16()
    attributeValue = reader.restArray()
  }

  public func encode(into writer: inout ByteWriter) {
    writer.u16(handle)
    writer.bytes(attributeValue)
  }
}

/// ATT_SIGNED_WRITE_CMD (Vol 3 Part F 3.4.5.4).
public struct ATTSignedWriteCommand: ATTParameters {
  public static let opcode = ATTOpcode.signedWriteCommand
  /// Octets of the authentication signature: a counter of 4 and a MAC of 8.
  public static let signatureByteCount = 12
  public var handle: UInt16
  /// Up to MTU - 15 octets.
  public var attributeValue: [UInt8]
  public var signature: [UInt8]

  public init(handle: UInt16, attributeValue: [UInt8], signature: [UInt8]) {
    self.handle = handle
    self.attributeValue = attributeValue
    self.signature = signature
  }

  public init(from reader: inout ByteReader) throws(DecodeError) {
    handle = try reader.u16()
    try reader.requireRemaining(Self.signatureByteCount)
    attributeValue = try reader.array(reader.remaining - Self.signatureByteCount)
    signature = reader.restArray()
  }

  public func encode(into writer: inout ByteWriter) {
    writer.u16(handle)
    writer.bytes(attributeValue)
    writer.bytes(signature, paddedTo: Self.signatureByteCount)
  }
}

/// ATT_PREPARE_WRITE_REQ (Vol 3 Part F 3.4.6.1).
public struct ATTPrepareWriteRequest: ATTParameters {
  public static let opcode = ATTOpcode.prepareWriteRequest
  public var handle: UInt16
  public var offset: UInt16
  /// Up to MTU - 5 octets.
  public var partAttributeValue: [UInt8]

  public init(handle: UInt16, offset: UInt16, partAttributeValue: [UInt8]) {
    self.handle = handle
    self.offset = offset
    self.partAttributeValue = partAttributeValue
  }

  public init(from reader: inout ByteReader) throws(DecodeError) {
    handle = try reader.u16()
    offset = try reader.u16()
    partAttributeValue = reader.restArray()
  }

  public func encode(into writer: inout ByteWriter) {
    writer.u16(handle)
    writer.u16(offset)
    writer.bytes(partAttributeValue)
  }
}

/// ATT_PREPARE_WRITE_RSP (Vol 3 Part F 3.4.6.2).
public struct ATTPrepareWriteResponse: ATTParameters {
  public static let opcode = ATTOpcode.prepareWriteResponse
  public var handle: UInt16
  public var offset: UInt16
  /// Up to MTU - 5 octets.
  public var partAttributeValue: [UInt8]

  public init(handle: UInt16, offset: UInt16, partAttributeValue: [UInt8]) {
    self.handle = handle
    self.offset = offset
    self.partAttributeValue = partAttributeValue
  }

  public init(from reader: inout ByteReader) throws(DecodeError) {
    handle = try reader.u16()
    offset = try reader.u16()
    partAttributeValue = reader.restArray()
  }

  public func encode(into writer: inout ByteWriter) {
    writer.u16(handle)
    writer.u16(offset)
    writer.bytes(partAttributeValue)
  }
}

/// ATT_EXECUTE_WRITE_REQ (Vol 3 Part F 3.4.6.3).
public struct ATTExecuteWriteRequest: ATTParameters {
  public static let opcode = ATTOpcode.executeWriteRequest
  /// What becomes of the queued writes: flags 0x01 write, 0x00 cancel. No other value is defined.
  public var isWrite: Bool

  public init(isWrite: Bool) { self.isWrite = isWrite }

  public init(from reader: inout ByteReader) throws(DecodeError) {
    let offset = reader.offset
    let flags = try reader.u8()
    guard flags <= 1 else { throw .invalidValue(field: "Flags", value: UInt64(flags), offset: offset) }
    isWrite = flags == 1
  }

  public func encode(into writer: inout ByteWriter) { writer.u8(isWrite ? 1 : 0) }
}

/// ATT_EXECUTE_WRITE_RSP (Vol 3 Part F 3.4.6.4).
public struct ATTExecuteWriteResponse: ATTParameters {
  public static let opcode = ATTOpcode.executeWriteResponse

  public init() {}

  public init(from reader: inout ByteReader) throws(DecodeError) {
  }

  public func encode(into writer: inout ByteWriter) {
  }
}

/// ATT_HANDLE_VALUE_NTF (Vol 3 Part F 3.4.7.1).
public struct ATTHandleValueNotification: ATTParameters {
  public static let opcode = ATTOpcode.handleValueNotification
  public var handle: UInt16
  /// Up to MTU - 3 octets.
  public var attributeValue: [UInt8]

  public init(handle: UInt16, attributeValue: [UInt8]) {
    self.handle = handle
    self.attributeValue = attributeValue
  }

  public init(from reader: inout ByteReader) throws(DecodeError) {
    handle = try reader.u16()
    attributeValue = reader.restArray()
  }

  public func encode(into writer: inout ByteWriter) {
    writer.u16(handle)
    writer.bytes(attributeValue)
  }
}

/// ATT_HANDLE_VALUE_IND (Vol 3 Part F 3.4.7.2).
public struct ATTHandleValueIndication: ATTParameters {
  public static let opcode = ATTOpcode.handleValueIndication
  public var handle: UInt16
  /// Up to MTU - 3 octets.
  public var attributeValue: [UInt8]

  public init(handle: UInt16, attributeValue: [UInt8]) {
    self.handle = handle
    self.attributeValue = attributeValue
  }

  public init(from reader: inout ByteReader) throws(DecodeError) {
    handle = try reader.u16()
    attributeValue = reader.restArray()
  }

  public func encode(into writer: inout ByteWriter) {
    writer.u16(handle)
    writer.bytes(attributeValue)
  }
}

/// ATT_HANDLE_VALUE_CFM (Vol 3 Part F 3.4.7.3).
public struct ATTHandleValueConfirmation: ATTParameters {
  public static let opcode = ATTOpcode.handleValueConfirmation

  public init() {}

  public init(from reader: inout ByteReader) throws(DecodeError) {
  }

  public func encode(into writer: inout ByteWriter) {
  }
}

/// ATT_MULTIPLE_HANDLE_VALUE_NTF (Vol 3 Part F 3.4.7.4).
public struct ATTMultipleHandleValueNotification: ATTParameters {
  public static let opcode = ATTOpcode.multipleHandleValueNotification
  /// One value.
  public struct Entry: Hashable, Sendable {
    public var handle: UInt16
    public var value: [UInt8]
  }

  /// A sender includes at least two; one is accepted.
  public var entries: [Entry]

  public init(entries: [Entry]) { self.entries = entries }

  public init(from reader: inout ByteReader) throws(DecodeError) {
    entries = []
    repeat {
      let handle = try reader.u16()
      let length = try reader.u16()
      entries.append(Entry(handle: handle, value: try reader.array(Int(length))))
    } while !reader.isAtEnd
  }

  public func encode(into writer: inout ByteWriter) {
    for entry in entries {
      writer.u16(entry.handle)
      writer.u16(UInt16(truncatingIfNeeded: entry.value.count))
      writer.bytes(entry.value)
    }
  }
}

// MARK: Shared fields

/// An attribute type that ends a PDU: a UUID of 2 or 16 octets.
private func trailingUUID(from reader: inout ByteReader) throws(DecodeError) -> BluetoothUUID {
  let count = reader.remaining
  guard count == 2 || count == 16 else {
    throw .invalidValue(field: "Attribute Type length", value: UInt64(count), offset: reader.offset)
  }
  return try BluetoothUUID(from: &reader, byteCount: count)
}

/// A Set Of Handles that ends a PDU: two or more.
private func handleSet(from reader: inout ByteReader) throws(DecodeError) -> [UInt16] {
  var handles = [try reader.u16(), try reader.u16()]
  while !reader.isAtEnd { handles.append(try reader.u16()) }
  return handles
}

/// The Length field in front of a list of equally long items.
private func itemLength(from reader: inout ByteReader, atLeast minimum: Int) throws(DecodeError) -> Int {
  let offset = reader.offset
  let length = Int(try reader.u8())
  guard length >= minimum else { throw .invalidValue(field: "Length", value: UInt64(length), offset: offset) }
  return length
}

extension ByteReader {
  /// Throws unless `count` octets are left.
  fileprivate func requireRemaining(_ count: Int) throws(DecodeError) {
    guard remaining >= count else { throw .truncated(needed: count, available: remaining, offset: offset) }
  }
}
