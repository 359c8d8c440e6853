// SPDX-License-Identifier: Apache-2.0

import BLECore
import BLEGATT

@testable import BLESystem

/// What an app asks of a peer, as a procedure that the peer can disturb.
enum DisturbedProcedure: String, CaseIterable {
  case connect = "Connect (what the system asks first)"
  case services = "Discover All Primary Services"
  case servicesByUUID = "Discover Primary Service By UUID"
  case includes = "Find Included Services"
  case characteristics = "Discover All Characteristics"
  case descriptors = "Discover All Descriptors"
  case read = "Read"
  case longRead = "Read Long"
  case write = "Write"
  case longWrite = "Write Long"
  case subscribe = "Subscribe"

  func request(_ token: RequestToken, _ link: LinkReference, _ peer: RogueHandles) -> SystemRequest {
    switch self {
    case .connect, .services: .discoverServices(token, link, nil)
    case .servicesByUUID: .discoverServices(token, link, [0x180D])
    case .includes: .discoverIncludedServices(token, link, peer.service, nil)
    case .characteristics: .discoverCharacteristics(token, link, peer.service, nil)
    case .descriptors: .discoverDescriptors(token, link, peer.described)
    case .read: .readValue(token, link, peer.value)
    case .longRead: .readValue(token, link, peer.long)
    case .write: .writeValue(token, link, peer.value, [1, 2, 3])
    case .longWrite: .writeValue(token, link, peer.long, (0..<50).map { UInt8($0) })
    case .subscribe: .setNotify(token, link, peer.described, true)
    }
  }

  /// The event's answer to the request with `token`, if it is one: nil in it is success.
  static func answer(_ event: SystemEvent, _ token: RequestToken) -> SystemError?? {
    func failure<T>(_ result: Result<T, SystemError>) -> SystemError? {
      if case .failure(let error) = result { error } else { nil }
    }
    switch event {
    case .servicesDiscovered(token, _, let result): return .some(failure(result))
    case .includedServicesDiscovered(token, _, let result): return .some(failure(result))
    case .characteristicsDiscovered(token, _, let result): return .some(failure(result))
    case .descriptorsDiscovered(token, _, let result): return .some(failure(result))
    case .valueRead(token, _, let result): return .some(failure(result))
    case .valueWritten(token, _, let error): return .some(error)
    case .notifyStateChanged(token, _, _, let error): return .some(error)
    default: return nil
    }
  }
}

/// Where the attributes of the rogue's database are.
struct RogueHandles {
  var service: ClosedRange<UInt16>
  /// A value of one octet, one of 60, and a characteristic with descriptors.
  var value: UInt16
  var long: UInt16
  var described: CharacteristicRecord

  /// Builds the database that an honest server would have, with lists that take several responses of the smallest MTU.
  init(_ database: AttributeDatabase) throws {
    try database.addService(
      ServiceDefinition(
        uuid: 0x1800,
        characteristics: [
          CharacteristicDefinition(
            uuid: 0x2A00, properties: .read, permissions: .readable, value: .fixed(Array("rogue".utf8)))
        ]))
    try database.addService(
      ServiceDefinition(
        uuid: 0x1801,
        characteristics: [
          CharacteristicDefinition(
            uuid: 0x2A05, properties: .indicate, permissions: AttributePermissions(read: .never, write: .never),
            value: .fixed([])),
          CharacteristicDefinition(
            uuid: 0x2B29, properties: [.read, .write], permissions: .readWrite, value: .clientFeatures),
        ]))
    let included = try [0x180F, 0x180A, 0x1811, 0x1812].map { (uuid: UInt32) in
      try database.addService(ServiceDefinition(uuid: BluetoothUUID(uuid))).handle
    }
    func characteristic(_ uuid: BluetoothUUID, _ value: [UInt8]) -> CharacteristicDefinition {
      CharacteristicDefinition(
        uuid: uuid, properties: [.read, .write, .notify], permissions: .readWrite, value: .fixed(value),
        descriptors: [0x2901, 0x2904, 0x2906, 0x2908, 0x2909].map {
          DescriptorDefinition(uuid: $0, value: .fixed([0]))
        })
    }
    let registration = try database.addService(
      ServiceDefinition(
        uuid: 0x180D, includedServices: included,
        characteristics: [
          characteristic(0x2A38, [7]), characteristic(0x2A5A, [UInt8](repeating: 9, count: 60)),
          characteristic(0x2A39, [8]),
        ]))
    _ = database.takeChangedRanges()
    service = registration.range
    value = registration.characteristics[0].value
    long = registration.characteristics[1].value
    let last = registration.characteristics[2]
    described = CharacteristicRecord(
      declarationHandle: last.declaration, valueHandle: last.value, endHandle: registration.range.upperBound,
      properties: CharacteristicProperties.notify.rawValue, uuid: 0x2A39)
  }
}

/// What a server may do in place of, or beside, an honest response.
enum Misbehaviour: String, CaseIterable {
  case noAnswer = "does not answer"
  case otherResponse = "answers with the response to another request"
  case empty = "answers without parameters"
  case cut = "leaves the last octet out"
  case tooLong = "exceeds ATT_MTU"
  case errorOfAnother = "sends the error of another request"
  case errorZero = "sends error code 0"
  case unknownError = "sends an error code that is not defined"
  case twice = "answers twice"
  case unsolicited = "sends responses nobody asked for, first"
  case descending = "lists handles backwards"
  case duplicated = "lists a handle twice"
  case outside = "lists a handle beyond what was asked for"
  case zero = "lists handle 0"
  case itemLength = "announces items of length 0"
  case standstill = "gives the same list for ever"
  case endless = "goes on listing until the handles end"
  case falseEcho = "repeats another value"
  case tinyMTU = "offers an MTU of 1"
  case hugeMTU = "offers an MTU of 65535"
  case notifications = "sends 300 notifications first"
  case indications = "sends 300 indications first, without waiting"
  case requests = "sends 300 requests first, without waiting"
  case serviceChanged = "tells first that all its services changed"
  case changeOfNothing = "tells first of a change in a range that is none"
  case outOfSync = "says that its database is out of sync"
  case disconnect = "ends the connection"

  /// Whether it goes on with each later response.
  var isPersistent: Bool {
    switch self {
    case .noAnswer, .standstill, .endless: true
    default: false
    }
  }

  /// Whether it is enough to look at the first response: the end comes after 30 s of silence, wherever it is begun.
  var isAtFirstOnly: Bool {
    switch self {
    case .otherResponse, .errorOfAnother: true
    default: false
    }
  }

  /// What takes the place of `response`, the answer to `request`; nil where it makes no sense.
  func reaction(_ response: [UInt8], to request: [UInt8], mtu: Int, serviceChanged: UInt16) -> RoguePeer.Reaction? {
    let opcode = response[0]
    let list = ListResponse(response)
    switch self {
    case .noAnswer: return .send([])
    case .otherResponse: return .send([[opcode == 0x0B ? 0x13 : 0x0B] + response.dropFirst()])
    case .empty: return response.count > 1 ? .send([[opcode]]) : nil
    case .cut: return .send([response.dropLast()])
    case .tooLong: return .send([response + [UInt8](repeating: 0, count: mtu + 1 - response.count)])
    case .errorOfAnother: return .send([[0x01, request[0] == 0x0A ? 0x12 : 0x0A, 0, 0, 0x0E]])
    case .errorZero: return .send([[0x01, request[0], 0, 0, 0]])
    case .unknownError: return .send([[0x01, request[0], 0, 0, 0x7E]])
    case .twice: return .send([response, response])
    case .unsolicited: return .send([[0x0B, 1], [0x13], [0x19]].filter { $0[0] != opcode } + [response])
    case .descending, .duplicated, .outside, .zero, .itemLength, .standstill:
      return list.flatMap { change($0, response) }
    case .endless: return Self.invented(request).map { .send([$0]) }
    case .falseEcho: return opcode == 0x17 ? .send([response.dropLast() + [response[response.count - 1] ^ 1]]) : nil
    case .tinyMTU: return opcode == 0x03 ? .send([[0x03, 1, 0]]) : nil
    case .hugeMTU: return opcode == 0x03 ? .send([[0x03, 0xFF, 0xFF]]) : nil
    case .notifications: return .send([[UInt8]](repeating: [0x1B, 0xEE, 0xEE, 1], count: 300) + [response])
    case .indications: return .send([[UInt8]](repeating: [0x1D, 0xEE, 0xEE, 1], count: 300) + [response])
    case .requests: return .send([[UInt8]](repeating: [0x0A, 3, 0], count: 300) + [response])
    case .serviceChanged:
      let handle = [UInt8(truncatingIfNeeded: serviceChanged), UInt8(truncatingIfNeeded: serviceChanged >> 8)]
      return .send([[0x1D] + handle + [1, 0, 0xFF, 0xFF], response])
    case .changeOfNothing:
      let handle = [UInt8(truncatingIfNeeded: serviceChanged), UInt8(truncatingIfNeeded: serviceChanged >> 8)]
      return .send([[0x1D] + handle + [9, 0, 1, 0], [0x1D] + handle + [1], response])
    case .outOfSync: return .send([[0x01, request[0], 0, 0, 0x12]])
    case .disconnect: return .disconnect
    }
  }

  private func change(_ list: ListResponse, _ response: [UInt8]) -> RoguePeer.Reaction? {
    var list = list
    switch self {
    case .descending:
      guard list.items.count > 1 else { return nil }
      list.items.reverse()
    case .duplicated: list.items.insert(list.items[0], at: 0)
    case .outside: list.items = [[0xFF, 0xFF] + list.items[0].dropFirst(2)]
    case .zero: list.items[0].replaceSubrange(0..<2, with: [0, 0])
    case .itemLength:
      guard list.head.count == 2 else { return nil }
      list.head[1] = 0
    default: break
    }
    return .send([list.octets])
  }

  /// A response to a discovery's request that lists what is not there: handles from the first asked for on.
  private static func invented(_ request: [UInt8]) -> [UInt8]? {
    guard request.count >= 5 else { return nil }
    let start = Int(request[1]) | Int(request[2]) << 8
    let end = Int(request[3]) | Int(request[4]) << 8
    func handle(_ value: Int) -> [UInt8] { [UInt8(value & 0xFF), UInt8(value >> 8)] }
    // A service has up to 256 handles, so that the list is long, but not the test.
    let groupEnd = min(end, start + 255)
    switch request[0] {
    case 0x10: return [0x11, 6] + handle(start) + handle(groupEnd) + [0x34, 0x12]
    case 0x06: return [0x07] + handle(start) + handle(groupEnd)
    case 0x08 where request.suffix(2) == [0x03, 0x28]:
      return start < end ? [0x09, 7] + handle(start) + [2] + handle(start + 1) + [0x34, 0x12] : nil
    case 0x08 where request.suffix(2) == [0x02, 0x28]: return [0x09, 8] + handle(start) + [1, 0, 1, 0, 0x34, 0x12]
    case 0x04: return [0x05, 1] + handle(start) + [0x34, 0x12]
    default: return nil
    }
  }
}

/// A response that lists items, taken apart.
struct ListResponse {
  var head: [UInt8]
  var items: [[UInt8]]

  init?(_ response: [UInt8]) {
    let length: Int
    switch response[0] {
    case 0x05:
      head = Array(response.prefix(2))
      length = response.count > 1 && response[1] == 1 ? 4 : 18
    case 0x07:
      head = [0x07]
      length = 4
    case 0x09, 0x11:
      head = Array(response.prefix(2))
      length = response.count > 1 ? Int(response[1]) : 0
    default: return nil
    }
    let body = Array(response.dropFirst(head.count))
    guard length > 0, body.count >= length else { return nil }
    items = stride(from: 0, to: body.count - length + 1, by: length).map { Array(body[$0..<$0 + length]) }
  }

  var octets: [UInt8] { head + items.flatMap { $0 } }
}
