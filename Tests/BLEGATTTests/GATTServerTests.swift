// SPDX-License-Identifier: Apache-2.0

import BLECore
import BLEGATT
import TestSupport
import Testing

/// The server half by scripts of PDUs. The database:
///
///     0001 service 1800    0003 Device Name "Test"
///     0004 service FFF0…   0006 notify, indicate; owner, not readable; 0007 its configuration
///                          0009 read, write; owner; 128-bit type
///                          000b 40 octets 00-27
///                          000d write; owner
///                          000f encrypted; owner
///                          0011 read, write; 01020304; of type Device Name too
@Suite struct GATTServerTests {
  static let long: BluetoothUUID = BluetoothUUID(high: 0x0000_FFF0_1234_5678, low: 0x9ABC_DEF0_1234_5678)

  static func database() throws -> AttributeDatabase {
    func characteristic(
      _ uuid: BluetoothUUID, _ properties: CharacteristicProperties, _ permissions: AttributePermissions,
      _ value: AttributeValue
    ) -> CharacteristicDefinition {
      CharacteristicDefinition(uuid: uuid, properties: properties, permissions: permissions, value: value)
    }
    let database = AttributeDatabase()
    try database.addService(
      ServiceDefinition(
        uuid: 0x1800,
        characteristics: [characteristic(0x2A00, .read, .readable, .fixed(Array("Test".utf8)))]))
    let never = AttributePermissions(read: .never, write: .never)
    let encrypted = AttributePermissions(read: .encrypted, write: .authenticated)
    try database.addService(
      ServiceDefinition(
        uuid: long, owner: 5,
        characteristics: [
          characteristic(0x2A37, [.notify, .indicate], never, .owner),
          characteristic(long, [.read, .write], .readWrite, .owner),
          characteristic(0x2A5A, .read, .readable, .fixed((0..<40).map { UInt8($0) })),
          characteristic(0x2A39, .write, .writeable, .owner),
          characteristic(0x2A4D, [.read, .write], encrypted, .owner),
          characteristic(0x2A00, [.read, .write], .readWrite, .fixed([1, 2, 3, 4])),
        ]))
    return database
  }

  static func server() throws -> ScriptedBearer { ScriptedBearer(try database()) }

  /// Requests and the responses they get at once, in one connection of MTU 23.
  static let exchanges: [(String, String, String)] = [
    ("read", "0a0300", "0b54657374"),
    ("read of handle 0", "0a0000", "010a000001"),
    ("read of a handle that is not there", "0a4000", "010a400001"),
    ("read of what is not readable", "0a0600", "010a060002"),
    ("read of what wants encryption", "0a0f00", "010a0f0005"),
    ("read of a declaration", "0a0500", "0b300600372a"),
    ("read of a configuration", "0a0700", "0b0000"),
    ("read fills the MTU", "0a0b00", "0b000102030405060708090a0b0c0d0e0f101112131415"),
    ("blob", "0c0b001600", "0d161718191a1b1c1d1e1f2021222324252627"),
    ("blob at the end", "0c0b002800", "0d"),
    ("blob beyond the end", "0c0b002900", "010c0b0007"),
    ("blob at offset FFFF", "0c0300ffff", "010c030007"),
    ("blob of a configuration", "0c07000100", "0d00"),
    ("blob beyond a configuration", "0c07000300", "010c070007"),
    ("find information, 16-bit", "040100ffff", "05010100002802000328030000" + "2a040000280500032"),
    ("find information, 128-bit", "0409000900", "0502090078563412f0debc9a78563412f0ff0000"),
    ("find information, stops at a longer type", "0407000a00", "05010700022908000328"),
    ("find information past the end", "041200ffff", "010412000a"),
    ("find information from 0", "0400000500", "0104000001"),
    ("find information backwards", "0409000500", "0104090001"),
    ("find primary by 16-bit value", "060100ffff00280018", "0701000300"),
    ("find primary by 128-bit value", "060100ffff002878563412f0debc9a78563412f0ff0000", "0704001100"),
    ("find primary that is not there", "060200ffff00280018", "010602000a"),
    ("find a value that is no group", "060100ffff002a54657374", "0703000300"),
    ("find does not ask owners", "060100ffff372a", "010601000a"),
    ("find backwards", "060300010000280018", "0106030001"),
    ("groups, 16-bit", "100100ffff0028", "1106010003000018"),
    ("groups, 128-bit", "100200ffff0028", "11140400110078563412f0debc9a78563412f0ff0000"),
    ("groups, none left", "100500ffff0028", "011005000a"),
    ("groups, secondary", "100100ffff0128", "011001000a"),
    ("groups, characteristic", "100100ffff0328", "0110010010"),
    ("groups, 128-bit group type", "100100ffff78563412f0debc9a78563412f0ff0000", "0110010010"),
    ("groups, 128-bit spelling of 2800", "100100ffffFB349B5F80000080001000000028" + "0000", "1106010003000018"),
    ("groups from 0", "100000ffff0028", "0110000001"),
    ("by type, characteristics", "080100ffff0328", "0907020002030000" + "2a0500300600372a"),
    ("by type, 128-bit declaration", "080800ffff0328", "091508000a090078563412f0debc9a78563412f0ff0000"),
    ("by type, stops at a longer item", "08050010000328", "09070500300600372a"),
    ("by type, several of one length", "080a00ffff0328", "09070a00020b005a2a0c00080d00392a0e000a0f004d2a"),
    ("by type, two values of one length", "080100ffff002a", "0906030054657374110001020304"),
    ("by type, first not readable", "080100ffff372a", "0108060002"),
    ("by type, first wants encryption", "080100ffff4d2a", "01080f0005"),
    ("by type, not found", "080100ffff2a2b", "010801000a"),
    ("by type, long value is cut", "080a00ffff5a2a", "09150b00000102030405060708090a0b0c0d0e0f101112"),
    ("by type backwards", "0809000500002a", "0108090001"),
    ("read multiple", "0e03001100", "0f5465737401020304"),
    ("read multiple, cut", "0e03000b00", "0f54657374000102030405060708090a0b0c0d0e0f1011"),
    ("read multiple, one not there", "0e03004000", "010e400001"),
    ("read multiple, one not readable", "0e03000600", "010e060002"),
    ("read multiple variable", "2003001100", "2104005465737404000102" + "0304"),
    ("read multiple variable, cut", "2003000b00", "210400546573742800000102030405060708090a0b0c0d"),
    ("write of what is not writable", "12030000", "0112030003"),
    ("write of handle 0", "12000000", "0112000001"),
    ("write of what wants authentication", "120f0000", "01120f0005"),
    ("write of a declaration", "12050000", "0112050003"),
    ("write kept by the stack", "1211000506", "13"),
    ("and read back", "0a1100", "0b0506"),
    ("configuration too short", "12070001", "011207000d"),
    ("configuration too long", "1207000100" + "00", "011207000d"),
    ("configuration with unknown bits", "1207000400", "01120700fd"),
    ("prepare of what is not writable", "160300000001", "0116030003"),
    ("prepare of a handle that is not there", "164000000001", "0116400001"),
    ("execute without a queue", "1801", "19"),
    ("cancel without a queue", "1800", "19"),
    ("unknown request", "3f0102", "013f000006"),
    ("mtu", "02f700", "030502"),
  ]

  @Test(arguments: exchanges.indices)
  func requestGetsItsResponse(index: Int) throws {
    var server = try Self.server()
    var (name, request, response) = Self.exchanges[index]
    if name == "and read back" { server.receive("1211000506") }
    if name == "find information, 16-bit" { response = "0501010000280200032803" + "00002a0400002805000328" }
    request = request.lowercased()
    #expect(server.receive(request) == [response], "\(name)")
    #expect(server.events().allSatisfy { $0 == "mtu 247" }, "\(name)")
  }

  /// What the vectors say about malformed requests, commands and confirmations.
  @Test func malformedVectorsGetTheirReaction() throws {
    var tested = 0
    for example in try VectorFile("att_pdus").cases where example.bool("valid") == false {
      var server = try Self.server()
      let pdu = try #require(example.bytes("pdu"))
      let reaction = try #require(example.child("receiver_reaction"))
      switch try #require(reaction.string("action")) {
      case "error_response":
        #expect(server.receive(pdu) == [reaction.string("pdu")], "\(example)")
      case "ignore":
        #expect(server.receive(pdu) == [], "\(example)")
      case "accept_as":
        #expect(server.receive(pdu) == ["030502"], "\(example)")
        #expect(server.bearer.mtu == 23)
      default: continue
      }
      #expect(server.events() == [], "\(example)")
      #expect(server.receive("0a0300") == ["0b54657374"], "after \(example)")
      tested += 1
    }
    #expect(tested == 33)
  }

  // MARK: Owners

  @Test func ownerAnswersAReadAndTheAnswerIsCut() throws {
    var server = try Self.server()
    #expect(server.receive("0a0900") == [])
    #expect(server.events() == ["#1 read 9 from 0 of 5"])
    server.respondToRead(1, [UInt8](repeating: 7, count: 600))
    #expect(server.sent() == ["0b" + String(repeating: "07", count: 22)])
    #expect(server.receive("0c09001600") == [])
    #expect(server.events() == ["#2 read 9 from 22 of 5"])
    server.respondToRead(2, [1, 2])
    #expect(server.sent() == ["0d0102"])
    #expect(server.receive("0c09000102") == ["010c090007"])
  }

  @Test func ownerRefusesWithAnyError() throws {
    var server = try Self.server()
    server.receive("0a0900")
    server.reject(1, ATTError(rawValue: 0x81))
    #expect(server.sent() == ["010a090081"])
    server.receive("120d00aa")
    server.reject(2, .invalidAttributeValueLength)
    #expect(server.sent() == ["01120d000d"])
  }

  @Test func ownerAnswersAWrite() throws {
    var server = try Self.server()
    #expect(server.receive("120d00aabb") == [])
    #expect(server.events() == ["#1 write [13[0]=aabb] of 5"])
    server.respondToWrite(1)
    #expect(server.sent() == ["13"])
  }

  @Test func staleAnswersAreIgnored() throws {
    var server = try Self.server()
    server.receive("0a0900")
    server.respondToWrite(1)
    server.respondToRead(0, [1])
    server.respondToRead(2, [1])
    server.reject(2, .unlikelyError)
    #expect(server.sent() == [])
    server.respondToRead(1, [1])
    server.respondToRead(1, [2])
    server.reject(1, .unlikelyError)
    #expect(server.sent() == ["0b01"])
    server.receive("120d00aa")
    server.respondToRead(2, [1])
    #expect(server.sent() == [])
    server.respondToWrite(2)
    #expect(server.sent() == ["13"])
  }

  @Test func requestWhileOneWaitsTakesItsTurn() throws {
    var server = try Self.server()
    server.receive("0a0900")
    #expect(server.receive("0a0300") == [])
    #expect(server.receive("120d0001") == [])
    #expect(server.receive("0a0700") == [])
    #expect(server.events() == ["#1 read 9 from 0 of 5"])
    server.respondToRead(1, [1])
    #expect(server.sent() == ["0b01", "0b54657374"])
    #expect(server.events() == ["#2 write [13[0]=01] of 5"])
    server.respondToWrite(2)
    #expect(server.sent() == ["13", "0b0000"])
  }

  @Test func floodOfRequestsIsBounded() throws {
    var server = try Self.server()
    server.receive("0a0900")
    for _ in 0..<1_000 { server.receive("0a0300") }
    server.respondToRead(1, [])
    #expect(server.sent() == ["0b"] + Array(repeating: "0b54657374", count: 4))
  }

  @Test func commandsAreServedWhileARequestWaits() throws {
    var server = try Self.server()
    server.receive("0a0900")
    #expect(server.receive("520d00aa") == [])
    #expect(server.receive("52110009") == [])
    #expect(server.events() == ["#1 read 9 from 0 of 5", "command 13=aa of 5"])
    #expect(server.database.value(0x11) == [9])
  }

  @Test func badCommandsAreIgnored() throws {
    var server = try Self.server()
    for command in ["5203000000", "520f0001", "52400001", "52", "5200", "d20d000100000000112233445566778899", "7011"] {
      #expect(server.receive(command) == [], "\(command)")
    }
    #expect(server.events() == [])
  }

  @Test func readByTypeAsksAnOwnerAboutOneValue() throws {
    var server = try Self.server()
    #expect(server.receive("080100ffff78563412f0debc9a78563412f0ff0000") == [])
    #expect(server.events() == ["#1 read 9 from 0 of 5"])
    server.respondToRead(1, [0xAA, 0xBB])
    #expect(server.sent() == ["09040900aabb"])
  }

  @Test func readMultipleAsksOwnersInTurn() throws {
    var server = try Self.server()
    #expect(server.receive("0e0300090009000300") == [])
    #expect(server.events() == ["#1 read 9 from 0 of 5"])
    server.respondToRead(1, [0xAA])
    #expect(server.events() == ["#2 read 9 from 0 of 5"])
    server.respondToRead(2, [0xBB])
    #expect(server.sent() == ["0f54657374aabb54657374"])
    server.receive("2009000300")
    server.respondToRead(3, [])
    #expect(server.sent() == ["210000040054657374"])
    server.receive("2003000900")
    server.reject(4, .insufficientAuthorization)
    #expect(server.sent() == ["0120090008"])
  }

  /// The lengths around the MTU at which a length field does not fit any more.
  @Test func readMultipleVariableNeverExceedsTheMTU() throws {
    for count in 0...30 {
      var server = try Self.server()
      server.receive("2009000300")
      server.respondToRead(1, [UInt8](repeating: 1, count: count))
      let response = try #require([UInt8](hex: server.sent().first ?? ""))
      #expect(response.count <= 23)
      let entries = try ATTReadMultipleVariableResponse.decode(Array(response.dropFirst())).entries
      #expect(Int(entries[0].length) == count)
      #expect(entries[0].value.count == min(count, 20))
      #expect(entries.count == (count <= 18 ? 2 : 1))
    }
  }

  /// Lists are as long as the MTU allows, and no longer.
  @Test(arguments: [false, true])
  func listsFillTheMTU(isLong: Bool) throws {
    let uuid = isLong ? Self.long : 0x2A00
    let database = AttributeDatabase()
    for _ in 0..<30 { try database.addService(ServiceDefinition(uuid: uuid)) }
    let descriptors = Array(repeating: DescriptorDefinition(uuid: uuid, value: .fixed([])), count: 30)
    try database.addService(
      ServiceDefinition(
        uuid: 1,
        characteristics: [
          CharacteristicDefinition(
            uuid: uuid, properties: [], permissions: .readable, value: .fixed([]), descriptors: descriptors)
        ]))
    var value = ByteWriter()
    uuid.encode(into: &value)
    for mtu in 23...120 {
      var server = ScriptedBearer(database)
      server.receive("02" + [UInt8(mtu), 0].hex)
      func lengths(_ request: String, header: Int, item: Int) throws -> (got: Int, expected: Int) {
        let response = try #require([UInt8](hex: server.receive(request).first ?? ""))
        return (response.count, header + (mtu - header) / item * item)
      }
      for (request, header, item) in [
        ("0421004000", 2, isLong ? 18 : 4), ("10010020000028", 2, isLong ? 20 : 6),
        ("06010020000028" + value.bytes.hex, 1, 4),
      ] {
        let (got, expected) = try lengths(request, header: header, item: item)
        #expect(got == min(expected, header + 30 * item), "\(request), MTU \(mtu)")
      }
    }
  }

  /// Values of one type and length, `count` octets each; the response of a server with `mtu` to a read of the type.
  static func readByType(valuesOf count: Int, mtu: UInt16) throws -> ATTReadByTypeResponse {
    let database = AttributeDatabase()
    let characteristic = CharacteristicDefinition(
      uuid: 0x2A00, properties: .read, permissions: .readable, value: .fixed([UInt8](repeating: 7, count: count)))
    try database.addService(
      ServiceDefinition(uuid: 1, characteristics: Array(repeating: characteristic, count: 4)))
    var server = ScriptedBearer(database)
    server.receive("02" + [UInt8(mtu & 0xFF), UInt8(mtu >> 8)].hex)
    let response = try #require([UInt8](hex: server.receive("080100ffff002a").first ?? ""))
    #expect(response.count <= Int(mtu))
    return try ATTReadByTypeResponse.decode(Array(response.dropFirst()))
  }

  /// As many whole values as fit; a value that is cut comes alone, even where the length field cuts it before the MTU.
  @Test(arguments: [
    (0, 23, 4, 0), (5, 23, 3, 5), (6, 23, 2, 6), (8, 23, 2, 8), (9, 23, 1, 9), (19, 23, 1, 19), (20, 23, 1, 19),
    (9, 24, 2, 9), (253, 512, 2, 253), (253, 511, 1, 253), (254, 517, 1, 253), (300, 517, 1, 253),
  ])
  func readByTypeGivesWhatFits(count: Int, mtu: UInt16, entries: Int, length: Int) throws {
    let response = try Self.readByType(valuesOf: count, mtu: mtu)
    #expect(response.entries.map(\.value.count) == Array(repeating: length, count: entries))
  }

  // MARK: Security

  @Test func securityDecidesInOrder() throws {
    var server = try Self.server()
    server.bearer.security = LinkSecurity(level: .none, hasKey: true)
    #expect(server.receive("0a0f00") == ["010a0f000f"])
    #expect(server.receive("0a0600") == ["010a060002"])
    server.bearer.security = LinkSecurity(level: .encrypted, hasKey: true)
    #expect(server.receive("0a0f00") == [])
    server.respondToRead(1, [1])
    #expect(server.sent() == ["0b01"])
    #expect(server.receive("120f0001") == ["01120f0005"])
    server.bearer.security.level = .authenticated
    #expect(server.receive("120f0001") == [])
  }

  // MARK: MTU

  @Test func mtuIsTheSmallerOfBothAndSetOnce() throws {
    var server = try Self.server()
    #expect(server.receive("026400") == ["030502"])
    #expect(server.bearer.mtu == 100)
    #expect(server.receive("02f700") == ["030502"])
    #expect(server.bearer.mtu == 100)
    #expect(server.events() == ["mtu 100"])
    var small = ScriptedBearer(try Self.database(), rxMTU: 10)
    #expect(small.receive("02ffff") == ["031700"])
    #expect(small.bearer.mtu == 23)
  }

  @Test func pduLongerThanTheMTUIsRefused() throws {
    var server = try Self.server()
    #expect(server.receive("120d00" + String(repeating: "00", count: 21)) == ["0112000004"])
    #expect(server.receive("520d00" + String(repeating: "00", count: 21)) == [])
    #expect(server.events() == [])
  }

  // MARK: Queued writes

  @Test func longWriteIsOneRequestToItsOwner() throws {
    var server = try Self.server()
    #expect(server.receive("160d0000000102") == ["170d0000000102"])
    #expect(server.receive("160d00020003") == ["170d00020003"])
    #expect(server.events() == [])
    #expect(server.receive("1801") == [])
    #expect(server.events() == ["#1 write [13[0]=0102, 13[2]=03] of 5"])
    server.respondToWrite(1)
    #expect(server.sent() == ["19"])
    #expect(server.receive("1801") == ["19"])
    #expect(server.events() == [])
  }

  @Test func refusedLongWriteNamesItsHandleAndEmptiesTheQueue() throws {
    var server = try Self.server()
    server.receive("160d00000001")
    server.receive("160900000002")
    server.receive("1801")
    server.reject(1, .valueNotAllowed, handle: 9)
    #expect(server.sent() == ["0118090013"])
    #expect(server.receive("1801") == ["19"])
  }

  @Test func cancelEmptiesTheQueue() throws {
    var server = try Self.server()
    server.receive("161100000009")
    #expect(server.receive("1800") == ["19"])
    #expect(server.receive("1801") == ["19"])
    #expect(server.database.value(0x11) == [1, 2, 3, 4])
  }

  /// What the stack keeps is written only when every owner has accepted.
  @Test func queuedWritesAreAllOrNone() throws {
    var server = try Self.server()
    server.receive("1611000100ff")
    server.receive("160d00000001")
    server.receive("1801")
    server.reject(1, .writeRequestRejected)
    #expect(server.sent() == ["01180d00fc"])
    #expect(server.database.value(0x11) == [1, 2, 3, 4])
    server.receive("1611000100ff")
    server.receive("1611000200fe")
    server.receive("160d00000001")
    server.receive("1801")
    server.respondToWrite(2)
    #expect(server.sent().last == "19")
    #expect(server.database.value(0x11) == [1, 0xFF, 0xFE])
  }

  @Test func offsetsAndLengthsAreCheckedAtExecution() throws {
    for (prepared, error) in [
      (["16110005 0001"], "0118110007"), (["160d00000200"], "01180d000d"), (["160d00ff0101"], nil),
      (["160d00f0ff00"], "01180d0007"),
      (["160d00ff010101"], "01180d000d"), (["16110004 0005", "16110006 0005"], "0118110007"),
      (["160700000001"], "011807000d"), (["16070000000400"], "01180700fd"),
    ] as [([String], String?)] {
      var server = try Self.server()
      for pdu in prepared { #expect(server.receive(pdu).count == 1) }
      let sent = server.receive("1801")
      #expect(sent == (error.map { [$0] } ?? []), "\(prepared)")
      #expect(server.database.value(0x11) == [1, 2, 3, 4])
      if error != nil { #expect(server.receive("1801") == ["19"]) }
    }
  }

  @Test func prepareQueueIsBoundedAndKeptWhenFull() throws {
    var server = try Self.server()
    var accepted = 0
    var response = ""
    repeat {
      response = server.receive("160d00000001").first ?? ""
      if response.hasPrefix("17") { accepted += 1 }
    } while response.hasPrefix("17") && accepted < 10_000
    #expect(response == "01160d0009")
    #expect(accepted >= 29)
    server.receive("1801")
    #expect(server.bearer.output.eventWrites.count == accepted)
    server.respondToWrite(1)
    #expect(server.sent() == ["19"])
    #expect(server.receive("160d00000001") == ["170d00000001"])
  }

  @Test func ownersOfOneQueueAreAskedInTurn() throws {
    var server = try Self.server()
    try server.database.addService(
      ServiceDefinition(
        uuid: 0x1234, owner: 6,
        characteristics: [
          CharacteristicDefinition(uuid: 0x2A00, properties: .write, permissions: .writeable, value: .owner)
        ]))
    for pdu in ["160d00000001", "161400000002", "160d00010003"] { server.receive(pdu) }
    server.receive("1801")
    #expect(server.events() == ["#1 write [13[0]=01, 13[1]=03] of 5"])
    server.respondToWrite(1)
    #expect(server.events() == ["#2 write [20[0]=02] of 6"])
    server.respondToWrite(2)
    #expect(server.sent() == ["19"])
  }

  // MARK: Subscriptions

  @Test func configurationIsToldWhenItChanges() throws {
    var server = try Self.server()
    #expect(server.receive("1207000100") == ["13"])
    #expect(server.events() == ["subscription 6=1 of 5"])
    #expect(server.receive("1207000100") == ["13"])
    #expect(server.events() == [])
    #expect(server.receive("0a0700") == ["0b0100"])
    #expect(server.bearer.subscriptions == [GATTSubscription(valueHandle: 6, configuration: 1)])
    #expect(server.receive("5207000000") == [])
    #expect(server.events() == ["subscription 6=0 of 5"])
    #expect(server.bearer.subscriptions == [])
    server.receive("16070000000300")
    #expect(server.receive("1801") == ["19"])
    #expect(server.events() == ["subscription 6=3 of 5"])
  }

  @Test func configurationIsEachClientsOwn() throws {
    let database = try Self.database()
    var one = ScriptedBearer(database)
    var other = ScriptedBearer(database)
    one.receive("1207000100")
    #expect(other.receive("0a0700") == ["0b0000"])
    #expect(other.bearer.subscription(6) == 0)
    other.bearer.restoreSubscription(GATTSubscription(valueHandle: 6, configuration: 2))
    #expect(other.receive("0a0700") == ["0b0200"])
    #expect(other.events() == [])
  }

  @Test func notificationNeedsASubscriptionAndIsCut() throws {
    var server = try Self.server()
    #expect(!Self.notify(&server, [1]))
    server.receive("1207000200")
    #expect(!Self.notify(&server, [1]))
    server.receive("1207000100")
    #expect(Self.notify(&server, [UInt8](repeating: 1, count: 30)))
    #expect(server.sent() == ["1b0600" + String(repeating: "01", count: 20)])
    #expect(!Self.notify(&server, [1], handle: 3))
  }

  @Test func protectedValuesAreNotSentOnAnOpenLink() throws {
    let database = AttributeDatabase()
    try database.addService(
      ServiceDefinition(
        uuid: 1,
        characteristics: [
          CharacteristicDefinition(
            uuid: 2, properties: .notify, permissions: .readable, value: .owner, subscriptionAccess: .encrypted)
        ]))
    var server = ScriptedBearer(database)
    #expect(server.receive("1204000100") == ["0112040005"])
    server.bearer.restoreSubscription(GATTSubscription(valueHandle: 3, configuration: 1))
    #expect(!Self.notify(&server, [1], handle: 3))
    server.bearer.security = LinkSecurity(level: .encrypted, hasKey: true)
    #expect(Self.notify(&server, [1], handle: 3))
  }

  static func notify(_ server: inout ScriptedBearer, _ value: [UInt8], handle: UInt16 = 6) -> Bool {
    server.notify(handle, value)
  }

  static func indicate(_ server: inout ScriptedBearer, _ value: [UInt8], token: UInt64) -> Bool {
    server.indicate(6, value, token: token)
  }

  @Test func indicationsGoOneByOne() throws {
    var server = try Self.server()
    #expect(server.receive("1e") == [])
    #expect(!Self.indicate(&server, [1], token: 1))
    server.receive("1207000200")
    _ = server.events()
    for token in 1...3 as ClosedRange<UInt64> { #expect(Self.indicate(&server, [UInt8(token)], token: token)) }
    #expect(server.bearer.unconfirmedIndications == 3)
    #expect(server.sent() == ["1d060001"])
    #expect(server.receive("1e00") == [])
    #expect(server.receive("1e") == ["1d060002"])
    #expect(server.receive("1e") == ["1d060003"])
    #expect(server.receive("1e") == [])
    #expect(server.receive("1e") == [])
    #expect(server.events() == ["confirmed 6 1", "confirmed 6 2", "confirmed 6 3"])
    #expect(server.bearer.nextDeadline == nil)
  }

  @Test func indicationWithoutConfirmationKillsTheBearer() throws {
    var server = try Self.server()
    server.receive("1207000200")
    _ = server.events()
    #expect(Self.indicate(&server, [1], token: 1))
    _ = server.sent()
    server.advance(29)
    #expect(server.events() == [])
    server.advance(1)
    #expect(server.events() == ["failed: no confirmation of 6"])
    #expect(server.receive("0a0300") == [])
    #expect(!Self.indicate(&server, [1], token: 2))
    #expect(server.bearer.nextDeadline == nil)
  }

  // MARK: Changes of the database

  @Test func removedServiceEndsWhatWaitsForIt() throws {
    var server = try Self.server()
    server.receive("1207000100")
    server.receive("160d00000001")
    server.receive("0a0900")
    let range = try server.database.removeService(4)
    server.bearer.databaseChanged(range, database: server.database, now: .zero)
    #expect(server.sent() == ["010a09000e"])
    server.respondToRead(1, [1])
    #expect(server.sent() == [])
    #expect(server.bearer.subscriptions == [])
    #expect(server.receive("1801") == ["01180d0001"], "the queue cannot be written as a whole any more")
    #expect(server.receive("1801") == ["19"])
    #expect(server.receive("0a0900") == ["010a090001"])
  }

  @Test func closedBearerAnswersNothing() throws {
    var server = try Self.server()
    server.receive("0a0900")
    server.bearer.close()
    server.bearer.close()
    server.respondToRead(1, [1])
    #expect(server.sent() == [])
    #expect(server.receive("0a0300") == [])
  }
}
