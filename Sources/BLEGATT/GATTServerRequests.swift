// SPDX-License-Identifier: Apache-2.0

import BLECore

// MARK: Finding (Vol 3 Part F 3.4.3)

extension GATTServer {
  /// The range of a request; zero or backwards is Invalid Handle.
  private static func checked(_ range: ATTHandleRange) throws(ATTRefusal) -> ATTHandleRange {
    guard range.start != 0, range.start <= range.end else { throw ATTRefusal(.invalidHandle, range.start) }
    return range
  }

  /// All attributes from the first in the range on whose types are of its type's length.
  mutating func findInformation(
    _ parameters: RawSpan, _ database: AttributeDatabase, into output: inout ATTOutput
  ) throws(ATTRefusal) {
    let range = try Self.checked(Self.decode(ATTFindInformationRequest.self, parameters).range)
    let attributes = database.attributes
    let first = database.firstIndex(from: range.start)
    guard first < attributes.count, attributes[first].handle <= range.end else {
      throw ATTRefusal(.attributeNotFound, range.start)
    }
    let isShort = attributes[first].type16 != 0
    let count = (output.mtu - 2) / (isShort ? 4 : 18)
    output.outgoing.append(.response) { writer in
      writer.u8(ATTOpcode.findInformationResponse.rawValue)
      writer.u8(isShort ? 1 : 2)
      for attribute in attributes[first...].prefix(count) {
        guard attribute.handle <= range.end, (attribute.type16 != 0) == isShort else { return }
        writer.u16(attribute.handle)
        attribute.type.encode(into: &writer)
      }
    }
  }

  /// Attributes whose type and whole value are given; values that owners keep are not looked at.
  mutating func findByTypeValue(
    _ parameters: RawSpan, _ database: AttributeDatabase, into output: inout ATTOutput
  ) throws(ATTRefusal) {
    let request = try Self.decode(ATTFindByTypeValueRequest.self, parameters)
    let range = try Self.checked(request.range)
    let room = (output.mtu - 1) / 4
    scratch.removeAll()
    scratch.u8(ATTOpcode.findByTypeValueResponse.rawValue)
    var found = 0
    for attribute in database.attributes[database.firstIndex(from: range.start)...] {
      guard attribute.handle <= range.end, found < room else { break }
      guard attribute.type16 == request.attributeType, !attribute.isOwned,
        attribute.value == request.attributeValue, Self.isShared(attribute)
      else { continue }
      scratch.u16(attribute.handle)
      scratch.u16(attribute.kind == .service ? attribute.related : attribute.handle)
      found += 1
    }
    guard found > 0 else { throw ATTRefusal(.attributeNotFound, range.start) }
    output.outgoing.append(.response, scratch.bytes.span.bytes)
  }
}

extension GATTServer {
  /// Whether the value is in the database, the same for all clients.
  private static func isShared(_ attribute: Attribute) -> Bool {
    switch attribute.kind {
    case .service, .include, .characteristic, .value, .descriptor: true
    case .clientConfiguration, .databaseHash, .clientFeatures: false
    }
  }
}

// MARK: Reading (Vol 3 Part F 3.4.4)

extension GATTServer {
  /// Read Request and Read Blob Request.
  mutating func read(
    _ handle: UInt16, from offset: Int, _ opcode: ATTOpcode, _ database: AttributeDatabase,
    into output: inout ATTOutput
  ) throws(ATTRefusal) {
    guard let index = database.index(of: handle) else { throw ATTRefusal(.invalidHandle, handle) }
    try checkRead(database.attributes[index])
    guard !database.attributes[index].isOwned else {
      guard offset <= ATTLimits.valueMax else { throw ATTRefusal(.invalidOffset, handle) }
      return ask(handle, offset, database.attributes[index].owner, opcode, into: &output)
    }
    let room = output.mtu - 1
    let response = opcode == .readRequest ? ATTOpcode.readResponse : .readBlobResponse
    let value = try value(database.attributes[index], database)
    guard offset <= value.count else { throw ATTRefusal(.invalidOffset, handle) }
    sendPart(of: value.span.bytes, from: offset, room, response, into: &output)
    if database.attributes[index].kind == .databaseHash { databaseHashRead() }
  }

  private func sendPart(
    of value: RawSpan, from offset: Int, _ room: Int, _ response: ATTOpcode, into output: inout ATTOutput
  ) {
    output.outgoing.append(.response) { writer in
      writer.u8(response.rawValue)
      writer.bytes(value.extracting(offset..<min(value.byteCount, offset + room)))
    }
  }

  private mutating func ask(
    _ handle: UInt16, _ offset: Int, _ owner: UInt32, _ opcode: ATTOpcode, into output: inout ATTOutput
  ) {
    let id = nextID()
    pending = .read(id: id, handle: handle, opcode: opcode)
    output.events.append(.readRequest(id: id, handle: handle, offset: offset, owner: owner))
  }

  /// Answers a read with what the owner gave.
  func sendValue(_ value: RawSpan, handle: UInt16, _ opcode: ATTOpcode, into output: inout ATTOutput) {
    guard opcode == .readByTypeRequest else {
      let response = opcode == .readRequest ? ATTOpcode.readResponse : .readBlobResponse
      return sendPart(of: value, from: 0, output.mtu - 1, response, into: &output)
    }
    let part = value.extracting(first: min(253, output.mtu - 4))
    output.outgoing.append(.response) { writer in
      writer.u8(ATTOpcode.readByTypeResponse.rawValue)
      writer.u8(UInt8(truncatingIfNeeded: 2 + part.byteCount))
      writer.u16(handle)
      writer.bytes(part)
    }
  }

  /// The first attribute of the type decides: its refusal is the request's, its value's length that of the list, and
  /// if its owner has to be asked it is answered alone. Whatever later ones do differently ends the list.
  mutating func readByType(
    _ parameters: RawSpan, _ database: AttributeDatabase, into output: inout ATTOutput
  ) throws(ATTRefusal) {
    let request = try Self.decode(ATTReadByTypeRequest.self, parameters)
    let range = try Self.checked(request.range)
    let start = database.firstIndex(from: range.start)
    let matches = database.attributes[start...].lazy
      .prefix { $0.handle <= range.end }
      .filter { $0.type == request.attributeType }
    guard let first = matches.first else { throw ATTRefusal(.attributeNotFound, range.start) }
    try checkRead(first)
    guard !first.isOwned else { return ask(first.handle, 0, first.owner, .readByTypeRequest, into: &output) }
    let length = try value(first, database).count
    let part = min(length, 253, output.mtu - 4)
    scratch.removeAll()
    scratch.u8(ATTOpcode.readByTypeResponse.rawValue)
    scratch.u8(UInt8(truncatingIfNeeded: 2 + part))
    for attribute in matches {
      guard !attribute.isOwned, let value = try? value(attribute, database), value.count == length,
        scratch.count + 2 + part <= output.mtu, (try? checkRead(attribute)) != nil
      else { break }
      scratch.u16(attribute.handle)
      scratch.bytes(value.span.bytes.extracting(first: part))
      if part < length { break }
    }
    output.outgoing.append(.response, scratch.bytes.span.bytes)
    if first.kind == .databaseHash { databaseHashRead() }
  }

  /// A value as this client sees it; empty where the owner has it.
  @inline(__always)
  private func value(
    _ attribute: borrowing Attribute, _ database: AttributeDatabase
  ) throws(ATTRefusal) -> [UInt8] {
    switch attribute.kind {
    case .service, .include, .characteristic, .value, .descriptor: return attribute.value
    case .clientConfiguration:
      let configuration = subscription(ofValue: attribute.related)
      return [UInt8(truncatingIfNeeded: configuration), UInt8(truncatingIfNeeded: configuration >> 8)]
    case .clientFeatures: return [clientFeatures.rawValue]
    case .databaseHash:
      // Only a broken libcrypto has none.
      guard let hash = try? database.hash() else { throw ATTRefusal(.unlikelyError, attribute.handle) }
      return hash
    }
  }

  mutating func readByGroupType(
    _ parameters: RawSpan, _ database: AttributeDatabase, into output: inout ATTOutput
  ) throws(ATTRefusal) {
    let request = try Self.decode(ATTReadByGroupTypeRequest.self, parameters)
    let range = try Self.checked(request.range)
    guard let type = request.attributeGroupType.uuid16,
      type == AttributeType.primaryService || type == AttributeType.secondaryService
    else { throw ATTRefusal(.unsupportedGroupType, range.start) }
    scratch.removeAll()
    scratch.u8(ATTOpcode.readByGroupTypeResponse.rawValue)
    var length: Int?
    for service in database.services {
      let isAsked = service.isPrimary == (type == AttributeType.primaryService)
      guard isAsked, service.range.lowerBound >= range.start else { continue }
      let itemLength = 4 + service.uuid.attByteCount
      guard service.range.lowerBound <= range.end, length ?? itemLength == itemLength else { break }
      if length == nil { scratch.u8(UInt8(truncatingIfNeeded: itemLength)) }
      length = itemLength
      guard scratch.count + itemLength <= output.mtu else { break }
      scratch.u16(service.range.lowerBound)
      scratch.u16(service.range.upperBound)
      service.uuid.encode(into: &scratch)
    }
    guard length != nil else { throw ATTRefusal(.attributeNotFound, range.start) }
    output.outgoing.append(.response, scratch.bytes.span.bytes)
  }

  /// Read Multiple and Read Multiple Variable: one refused attribute refuses all, and is named.
  mutating func readMultiple(
    _ handles: [UInt16], _ opcode: ATTOpcode, _ database: AttributeDatabase, into output: inout ATTOutput
  ) throws(ATTRefusal) {
    for handle in handles {
      guard let index = database.index(of: handle) else { throw ATTRefusal(.invalidHandle, handle) }
      try checkRead(database.attributes[index])
    }
    scratch.removeAll()
    scratch.u8(opcode.rawValue + 1)
    continueReadMultiple(handles, from: 0, opcode, database, into: &output)
  }

  /// Collects values until an owner has to be asked, or all are there.
  mutating func continueReadMultiple(
    _ handles: [UInt16], from start: Int, _ opcode: ATTOpcode, _ database: AttributeDatabase,
    into output: inout ATTOutput
  ) {
    for next in start..<max(start, handles.count) {
      guard let index = database.index(of: handles[next]) else {
        return send(ATTRefusal(.invalidHandle, handles[next]), to: opcode, into: &output)
      }
      guard !database.attributes[index].isOwned else {
        let id = nextID()
        pending = .readMultiple(id: id, handles: handles, next: next, opcode: opcode)
        output.events.append(
          .readRequest(id: id, handle: handles[next], offset: 0, owner: database.attributes[index].owner))
        return
      }
      guard let value = try? value(database.attributes[index], database) else {
        return send(ATTRefusal(.unlikelyError, handles[next]), to: opcode, into: &output)
      }
      gather(value.span.bytes, opcode, mtu: output.mtu)
    }
    output.outgoing.append(.response, scratch.bytes.span.bytes)
  }

  /// Adds a value to the response as far as it fits; of a variable one the length is the whole value's.
  mutating func gather(_ value: RawSpan, _ opcode: ATTOpcode, mtu: Int) {
    if opcode == .readMultipleVariableRequest {
      guard scratch.count + 2 <= mtu else { return }
      scratch.u16(UInt16(truncatingIfNeeded: value.byteCount))
    }
    scratch.bytes(value.extracting(first: max(0, mtu - scratch.count)))
  }
}

// MARK: Writing (Vol 3 Part F 3.4.5, 3.4.6)

extension GATTServer {
  /// What becomes of a value that may be written.
  private enum Destination { case stored, asked }

  mutating func write(
    _ parameters: RawSpan, _ database: AttributeDatabase, into output: inout ATTOutput
  ) throws(ATTRefusal) {
    var reader = ByteReader(parameters)
    guard let handle = try? reader.u16() else { throw ATTRefusal(.invalidPDU) }
    let value = reader.rest()
    let attribute = try writable(handle, database)
    switch try store(value, attribute, database, into: &output) {
    case .stored:
      send(.writeResponse, into: &output)
    case .asked:
      let id = nextID()
      pending = .write(id: id, handle: handle)
      let start = output.eventWrites.count
      output.eventWrites.append(GATTWriteEntry(handle: handle, offset: 0, value: output.keep(value)))
      output.events.append(.writeRequest(id: id, entries: start..<start + 1, owner: attribute.owner))
    }
  }

  /// A Write Command: as a Write Request, but nothing is answered, and what is wrong is ignored.
  mutating func receiveWriteCommand(
    _ parameters: RawSpan, _ database: AttributeDatabase, into output: inout ATTOutput
  ) {
    var reader = ByteReader(parameters)
    guard let handle = try? reader.u16(), let attribute = try? writable(handle, database) else { return }
    let value = reader.rest()
    guard let destination = try? store(value, attribute, database, into: &output) else { return }
    if case .asked = destination {
      output.events.append(.writeCommand(handle: handle, value: output.keep(value), owner: attribute.owner))
    }
  }

  private func writable(_ handle: UInt16, _ database: AttributeDatabase) throws(ATTRefusal) -> Attribute {
    guard let index = database.index(of: handle) else { throw ATTRefusal(.invalidHandle, handle) }
    try checkWrite(database.attributes[index])
    return database.attributes[index]
  }

  /// Writes a value that the stack keeps; one that its owner keeps is only measured.
  private mutating func store(
    _ value: RawSpan, _ attribute: Attribute, _ database: AttributeDatabase, into output: inout ATTOutput
  ) throws(ATTRefusal) -> Destination {
    guard value.byteCount <= ATTLimits.valueMax else {
      throw ATTRefusal(.invalidAttributeValueLength, attribute.handle)
    }
    if attribute.isOwned { return .asked }
    switch attribute.kind {
    case .clientConfiguration: try configure(attribute, value, into: &output)
    case .clientFeatures: try setClientFeatures(value, attribute.handle)
    case .service, .include, .characteristic, .value, .descriptor, .databaseHash:
      do throws(DatabaseError) {
        try database.setValue(attribute.handle, [UInt8](value))
      } catch {
        throw ATTRefusal(.writeNotPermitted, attribute.handle)
      }
    }
    return .stored
  }

  /// Handle, access and security are checked now, offset and length when the queue is executed (3.4.6.1).
  mutating func prepareWrite(
    _ parameters: RawSpan, _ database: AttributeDatabase, into output: inout ATTOutput
  ) throws(ATTRefusal) {
    var reader = ByteReader(parameters)
    guard let handle = try? reader.u16(), let offset = try? reader.u16() else { throw ATTRefusal(.invalidPDU) }
    let part = reader.rest()
    _ = try writable(handle, database)
    guard prepared.append(handle, offset, part, budget: database.prepareBudget) else {
      throw ATTRefusal(.prepareQueueFull, handle)
    }
    output.outgoing.append(.response) { writer in
      writer.u8(ATTOpcode.prepareWriteResponse.rawValue)
      writer.bytes(parameters)
    }
  }

  /// All queued writes or none: every one is checked, then each owner gets its own as one request, and what the stack
  /// keeps is written last.
  mutating func executeWrite(
    _ parameters: RawSpan, _ database: AttributeDatabase, into output: inout ATTOutput
  ) throws(ATTRefusal) {
    guard try Self.decode(ATTExecuteWriteRequest.self, parameters).isWrite else {
      prepared.removeAll()
      return send(.executeWriteResponse, into: &output)
    }
    do throws(ATTRefusal) {
      if let lost = prepared.lostHandle { throw ATTRefusal(.invalidHandle, lost) }
      try checkPrepared(database)
    } catch {
      prepared.removeAll()
      throw error
    }
    continueExecute(asked: [], database, into: &output)
  }

  /// Checks offsets and lengths as the writes would find them one after the other.
  private func checkPrepared(_ database: AttributeDatabase) throws(ATTRefusal) {
    var lengths: [UInt16: Int] = [:]
    for entry in prepared.entries {
      guard let index = database.index(of: entry.handle) else { throw ATTRefusal(.invalidHandle, entry.handle) }
      let attribute = database.attributes[index]
      let offset = Int(entry.offset)
      let known = attribute.isOwned ? ATTLimits.valueMax : try value(attribute, database).count
      let length = lengths[entry.handle] ?? known
      guard offset <= length else { throw ATTRefusal(.invalidOffset, entry.handle) }
      guard offset + entry.part.count <= ATTLimits.valueMax else {
        throw ATTRefusal(.invalidAttributeValueLength, entry.handle)
      }
      lengths[entry.handle] = attribute.isOwned ? length : offset + entry.part.count
    }
  }

  /// Asks the next owner, or writes what the stack keeps and answers.
  mutating func continueExecute(asked: [UInt32], _ database: AttributeDatabase, into output: inout ATTOutput) {
    func owner(_ entry: PreparedWrites.Entry) -> UInt32? {
      guard let index = database.index(of: entry.handle), database.attributes[index].isOwned else { return nil }
      return database.attributes[index].owner
    }
    for first in prepared.entries {
      guard let next = owner(first), !asked.contains(next) else { continue }
      let start = output.eventWrites.count
      for entry in prepared.entries where owner(entry) == next {
        let value = output.keep(prepared.bytes.span.bytes.extracting(entry.part))
        output.eventWrites.append(GATTWriteEntry(handle: entry.handle, offset: Int(entry.offset), value: value))
      }
      let id = nextID()
      pending = .execute(id: id, asked: asked + [next], handle: first.handle)
      output.events.append(.writeRequest(id: id, entries: start..<output.eventWrites.count, owner: next))
      return
    }
    finishExecute(database, into: &output)
  }

  private mutating func finishExecute(_ database: AttributeDatabase, into output: inout ATTOutput) {
    defer { prepared.removeAll() }
    do throws(ATTRefusal) {
      for stored in try storedValues(database) {
        guard let index = database.index(of: stored.handle) else { continue }
        _ = try store(stored.value.span.bytes, database.attributes[index], database, into: &output)
      }
      send(.executeWriteResponse, into: &output)
    } catch {
      send(error, to: .executeWriteRequest, into: &output)
    }
  }

  /// The values that the queue makes of those the stack keeps, in the order of their first writes.
  private func storedValues(
    _ database: AttributeDatabase
  ) throws(ATTRefusal) -> [(handle: UInt16, value: [UInt8])] {
    var values: [(handle: UInt16, value: [UInt8])] = []
    for entry in prepared.entries {
      guard let index = database.index(of: entry.handle), !database.attributes[index].isOwned else { continue }
      let position = values.firstIndex { $0.handle == entry.handle } ?? values.count
      if position == values.count { values.append((entry.handle, try value(database.attributes[index], database))) }
      let kept = values[position].value.prefix(Int(entry.offset))
      values[position].value = Array(kept) + prepared.bytes[entry.part]
    }
    return values
  }
}
