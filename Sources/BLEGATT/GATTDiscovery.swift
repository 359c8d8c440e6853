// SPDX-License-Identifier: Apache-2.0

import BLECore

/// What a discovery looks for.
enum DiscoveryKind {
  case primaryServices
  case primaryServicesByUUID(BluetoothUUID)
  case includedServices
  case characteristics
  case descriptors
}

/// A discovery under way (Vol 3 Part G 4.4-4.7): the next request, and what has been found.
///
/// A server's lists must move forward: each handle beyond the one before, within what was asked for, and the next
/// request starts beyond all of them. So a discovery ends after at most as many requests as there are handles; a
/// response that does not advance fails it.
struct Discovery {
  /// What to do after a response.
  enum Step { case more, done }

  private(set) var services: [GATTService] = []
  private(set) var includes: [GATTIncludedService] = []
  private(set) var characteristics: [GATTCharacteristic] = []
  private(set) var descriptors: [GATTDescriptor] = []

  private let kind: DiscoveryKind
  private let end: UInt16
  private var next: UInt16
  /// Includes of 128-bit services, whose UUID has to be read from the service itself: indices of `includes`.
  private var unresolved: [Int] = []
  private var isListComplete = false

  init(_ kind: DiscoveryKind, _ range: ClosedRange<UInt16>) {
    self.kind = kind
    next = range.lowerBound
    end = range.upperBound
  }

  /// Writes the next request and says which it is.
  func writeRequest(into writer: inout ByteWriter) -> ATTOpcode {
    if isListComplete, let index = unresolved.first {
      writer.u8(ATTOpcode.readRequest.rawValue)
      writer.u16(includes[index].range.lowerBound)
      return .readRequest
    }
    let opcode: ATTOpcode =
      switch kind {
      case .primaryServices: .readByGroupTypeRequest
      case .primaryServicesByUUID: .findByTypeValueRequest
      case .includedServices, .characteristics: .readByTypeRequest
      case .descriptors: .findInformationRequest
      }
    writer.u8(opcode.rawValue)
    writer.u16(next)
    writer.u16(end)
    switch kind {
    case .primaryServices: writer.u16(AttributeType.primaryService)
    case .primaryServicesByUUID(let uuid):
      writer.u16(AttributeType.primaryService)
      uuid.encode(into: &writer)
    case .includedServices: writer.u16(AttributeType.include)
    case .characteristics: writer.u16(AttributeType.characteristic)
    case .descriptors: break
    }
    return opcode
  }

  /// The server has nothing more in the range (Attribute Not Found).
  mutating func receiveNotFound() -> Step { finishList() }

  /// Whether Attribute Not Found is how the list ends, rather than an error.
  var endsWithNotFound: Bool { !isListComplete }

  /// Takes the parameters of a response to the last request.
  mutating func receive(_ parameters: RawSpan) throws(DecodeError) -> Step {
    var reader = ByteReader(parameters)
    if isListComplete { return try receiveServiceUUID(&reader) }
    let last: UInt16 =
      switch kind {
      case .primaryServices: try receiveServices(&reader)
      case .primaryServicesByUUID(let uuid): try receiveServices(&reader, uuid)
      case .includedServices: try receiveIncludes(&reader)
      case .characteristics: try receiveCharacteristics(&reader)
      case .descriptors: try receiveDescriptors(&reader)
      }
    guard last < end else { return finishList() }
    next = last + 1
    return .more
  }

  private mutating func finishList() -> Step {
    isListComplete = true
    for index in characteristics.indices {
      let following = index + 1 < characteristics.count ? characteristics[index + 1].declarationHandle - 1 : end
      characteristics[index].endHandle = max(characteristics[index].valueHandle, following)
    }
    return unresolved.isEmpty ? .done : .more
  }

  /// Checks that `first...last` comes after everything before and lies in the range.
  private func check(_ first: UInt16, _ last: UInt16, after previous: UInt16?) throws(DecodeError) {
    guard first <= last, last <= end, first >= next, first > previous ?? 0 else {
      throw .invalidValue(field: "handle", value: UInt64(first), offset: 0)
    }
  }

  /// Checks the length of items, a format, or the length of a value.
  private func check(length: Int, isOneOf one: Int, _ other: Int) throws(DecodeError) {
    guard length == one || length == other else {
      throw .invalidValue(field: "Length", value: UInt64(length), offset: 0)
    }
  }

  private mutating func receiveServices(_ reader: inout ByteReader) throws(DecodeError) -> UInt16 {
    let length = Int(try reader.u8())
    try check(length: length, isOneOf: 6, 20)
    var last: UInt16?
    repeat {
      let first = try reader.u16()
      let groupEnd = try reader.u16()
      try check(first, groupEnd, after: last)
      let uuid = try BluetoothUUID(from: &reader, byteCount: length - 4)
      services.append(GATTService(range: first...groupEnd, uuid: uuid, isPrimary: true))
      last = groupEnd
    } while !reader.isAtEnd
    return last ?? end
  }

  private mutating func receiveServices(_ reader: inout ByteReader, _ uuid: BluetoothUUID) throws(DecodeError) -> UInt16
  {
    var last: UInt16?
    repeat {
      let first = try reader.u16()
      let groupEnd = try reader.u16()
      try check(first, groupEnd, after: last)
      services.append(GATTService(range: first...groupEnd, uuid: uuid, isPrimary: true))
      last = groupEnd
    } while !reader.isAtEnd
    return last ?? end
  }

  private mutating func receiveIncludes(_ reader: inout ByteReader) throws(DecodeError) -> UInt16 {
    let length = Int(try reader.u8())
    try check(length: length, isOneOf: 6, 8)
    var last: UInt16?
    repeat {
      let handle = try reader.u16()
      try check(handle, handle, after: last)
      last = handle
      let first = try reader.u16()
      let groupEnd = try reader.u16()
      guard first != 0, first <= groupEnd else {
        throw .invalidValue(field: "Included Service Attribute Handle", value: UInt64(first), offset: 0)
      }
      if length == 6 { unresolved.append(includes.count) }
      let uuid: BluetoothUUID = length == 8 ? try BluetoothUUID(from: &reader, byteCount: 2) : 0
      includes.append(GATTIncludedService(handle: handle, range: first...groupEnd, uuid: uuid))
    } while !reader.isAtEnd
    return last ?? end
  }

  /// The value of an included service's declaration: its UUID.
  private mutating func receiveServiceUUID(_ reader: inout ByteReader) throws(DecodeError) -> Step {
    let count = reader.remaining
    try check(length: count, isOneOf: 2, 16)
    let uuid = try BluetoothUUID(from: &reader, byteCount: count)
    if !unresolved.isEmpty { includes[unresolved.removeFirst()].uuid = uuid }
    return unresolved.isEmpty ? .done : .more
  }

  private mutating func receiveCharacteristics(_ reader: inout ByteReader) throws(DecodeError) -> UInt16 {
    let length = Int(try reader.u8())
    try check(length: length, isOneOf: 7, 21)
    var last: UInt16?
    repeat {
      let declaration = try reader.u16()
      try check(declaration, declaration, after: last)
      last = declaration
      let properties = CharacteristicProperties(rawValue: try reader.u8())
      let value = try reader.u16()
      guard value > declaration, value <= end else {
        throw .invalidValue(field: "Characteristic Value Handle", value: UInt64(value), offset: 0)
      }
      let uuid = try BluetoothUUID(from: &reader, byteCount: length - 5)
      characteristics.append(
        GATTCharacteristic(
          declarationHandle: declaration, valueHandle: value, endHandle: value, properties: properties, uuid: uuid))
    } while !reader.isAtEnd
    return last ?? end
  }

  private mutating func receiveDescriptors(_ reader: inout ByteReader) throws(DecodeError) -> UInt16 {
    let format = try reader.u8()
    try check(length: Int(format), isOneOf: 1, 2)
    var last: UInt16?
    repeat {
      let handle = try reader.u16()
      try check(handle, handle, after: last)
      last = handle
      let uuid = try BluetoothUUID(from: &reader, byteCount: format == 1 ? 2 : 16)
      descriptors.append(GATTDescriptor(handle: handle, uuid: uuid))
    } while !reader.isAtEnd
    return last ?? end
  }
}
