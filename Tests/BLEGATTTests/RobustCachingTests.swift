// SPDX-License-Identifier: Apache-2.0

import BLECore
import BLEGATT
import TestSupport
import Testing

/// What a server does with a client whose knowledge of the database is old (Vol 3 Part G 2.5.2, 7.1). The database:
///
///     0001 service 1801    0003 Service Changed, 0004 its configuration
///                          0006 Client Supported Features, 0008 Database Hash
///     0009 service 180D    000b notify, indicate; owner; 000c its configuration
///                          000e read, write; owner
@Suite struct RobustCachingTests {
  private static let read = "0a0300"

  private static func server(
    features: String? = "01", serviceChanged: Bool = true, subscribed: String? = nil
  ) throws -> ScriptedBearer {
    let database = AttributeDatabase()
    let never = AttributePermissions(read: .never, write: .never)
    try database.addService(
      ServiceDefinition(
        uuid: 0x1801,
        characteristics: [
          CharacteristicDefinition(uuid: 0x2A05, properties: .indicate, permissions: never, value: .fixed([])),
          CharacteristicDefinition(
            uuid: 0x2B29, properties: [.read, .write], permissions: .readWrite, value: .clientFeatures),
          CharacteristicDefinition(uuid: 0x2B2A, properties: .read, permissions: .readable, value: .databaseHash),
        ]))
    try database.addService(
      ServiceDefinition(
        uuid: 0x180D, owner: 5,
        characteristics: [
          CharacteristicDefinition(
            uuid: 0x2A37, properties: [.notify, .indicate], permissions: never, value: .owner),
          CharacteristicDefinition(
            uuid: 0x2A39, properties: [.read, .write, .writeWithoutResponse], permissions: .readWrite, value: .owner),
        ]))
    _ = database.takeChangedRanges()
    var server = ScriptedBearer(database)
    #expect(server.receive("02f700") == ["030502"])
    if let features { #expect(server.receive("120600" + features) == ["13"]) }
    if serviceChanged { #expect(server.receive("1204000200") == ["13"]) }
    if let subscribed { #expect(server.receive("120c00" + subscribed) == ["13"]) }
    _ = server.events()
    return server
  }

  /// A change of the database beyond what clients use here.
  private static func change(_ server: inout ScriptedBearer) throws -> ClosedRange<UInt16> {
    let range = try server.database.addService(ServiceDefinition(uuid: 0x180F)).range
    server.databaseChanged()
    return range
  }

  // MARK: Client Supported Features

  @Test func featuresAreEachClientsOwn() throws {
    var first = try Self.server(features: nil)
    var second = ScriptedBearer(first.database)
    #expect(first.receive("0a0600") == ["0b00"])
    #expect(first.receive("12060005") == ["13"])
    #expect(first.receive("0a0600") == ["0b05"])
    #expect(second.receive("0a0600") == ["0b00"])
    #expect(first.bearer.clientFeatures == [.robustCaching, .multipleHandleValueNotifications])
  }

  @Test func featuresCannotBeTakenBack() throws {
    var server = try Self.server(features: "05")
    #expect(server.receive("12060001") == ["0112060013"])
    #expect(server.receive("12060000") == ["0112060013"])
    #expect(server.receive("120600") == ["011206000d"], "no octet at all")
    #expect(server.receive("120600ff") == ["13"], "unknown bits are ignored")
    #expect(server.receive("0a0600") == ["0b07"])
    #expect(server.receive("12060007aabb") == ["13"], "so are unknown octets")
    #expect(server.receive("0a0600") == ["0b07"])
    // By a queued write too.
    #expect(server.receive("160600000000") == ["170600000000"])
    #expect(server.receive("1801") == ["0118060013"])
  }

  // MARK: The states

  @Test func aNewClientIsAware() throws {
    var server = try Self.server()
    #expect(server.bearer.isClientChangeAware)
    #expect(server.receive(Self.read) == ["010a030002"])
  }

  /// Requests that name handles, and whether the server refuses them to a client that does not know the database.
  static let gated: [(String, String, Bool)] = [
    ("Read", "0a0e00", true), ("Read Blob", "0c0e000000", true), ("Read Multiple", "0e0e000600", true),
    ("Read Multiple Variable", "200e000600", true), ("Write", "120e0001", true),
    ("Prepare Write", "160e00000001", true),
    ("Read By Type in a range", "080900ffff392a", true),
    ("Read By Type over all", "080100ffff292b", false),
    ("Read By Type of characteristics", "080900ffff0328", false),
    ("Read By Type of includes", "080900ffff0228", false),
    ("Find Information", "040100ffff", false), ("Find By Type Value", "060100ffff00280d18", false),
    ("Read By Group Type", "100100ffff0028", false), ("Exchange MTU", "02f700", false),
    ("Execute Write", "1800", false),
    ("a malformed Read", "0a0e", false), ("a malformed Read By Type", "080900ffff39", false),
    ("an unknown request", "3f", false),
  ]

  @Test(arguments: gated.indices)
  func unawareRefusesOnceWhatNamesHandles(index: Int) throws {
    let (name, request, isGated) = Self.gated[index]
    var server = try Self.server(serviceChanged: false)
    var before = server
    let served = before.receive(request)
    _ = try Self.change(&server)
    #expect(!server.bearer.isClientChangeAware)
    let refused = ["01" + request.prefix(2) + "000012"]
    if isGated {
      #expect(server.receive(request) == refused, "\(name)")
      #expect(server.events() == [], "\(name): the owner is not asked")
      #expect(!server.bearer.isClientChangeAware)
      #expect(server.receive(request) == served, "\(name): served the second time")
      #expect(server.bearer.isClientChangeAware)
    } else {
      _ = server.receive(request)
      #expect(!server.bearer.isClientChangeAware, "\(name)")
      #expect(server.receive("120c0001" + "00") == ["0112000012"], "\(name) does not make it aware")
    }
  }

  @Test func theHashMakesAwareWithTheNextRequest() throws {
    var server = try Self.server(serviceChanged: false)
    _ = try Self.change(&server)
    let hash = try server.database.hash().hex
    #expect(server.receive("080100ffff2a2b") == ["09120800" + hash])
    #expect(!server.bearer.isClientChangeAware, "not yet")
    #expect(server.receive("520e0001") == [])
    #expect(server.events() == [], "so commands are still ignored")
    #expect(server.receive("0a0600") == ["0b01"])
    #expect(server.bearer.isClientChangeAware)
  }

  @Test func aChangeAfterTheHashWasReadCounts() throws {
    var server = try Self.server(serviceChanged: false)
    _ = try Self.change(&server)
    server.receive("080100ffff2a2b")
    _ = try Self.change(&server)
    #expect(server.receive("0a0600") == ["010a000012"])
    // And after the refusal: the error is due again.
    _ = try Self.change(&server)
    #expect(server.receive("0a0600") == ["010a000012"])
    #expect(server.receive("0a0600") == ["0b01"])
  }

  @Test func theConfirmationOfServiceChangedMakesAware() throws {
    var server = try Self.server()
    let range = try Self.change(&server)
    #expect(range == 0x000F...0x000F)
    #expect(server.sent() == ["1d03000f000f00"])
    #expect(!server.bearer.isClientChangeAware)
    server.receive("1e")
    #expect(server.bearer.isClientChangeAware)
    #expect(server.events() == [], "nobody asked for that indication")
    #expect(server.receive("0a0600") == ["0b01"])
  }

  @Test func changesBeforeTheConfirmationAreMergedAndToldNext() throws {
    var server = try Self.server()
    let database = server.database
    let battery = try database.addService(ServiceDefinition(uuid: 0x180F), at: 0x0020)
    server.databaseChanged()
    #expect(server.sent() == ["1d030020002000"])
    try database.addService(ServiceDefinition(uuid: 0x180A), at: 0x0040)
    server.databaseChanged()
    try database.removeService(battery.handle)
    server.databaseChanged()
    #expect(server.sent() == [])
    #expect(server.receive("1e") == ["1d030020004000"])
    #expect(!server.bearer.isClientChangeAware, "it has not confirmed the last")
    #expect(server.receive("1e") == [])
    #expect(server.bearer.isClientChangeAware)
  }

  @Test func serviceChangedIsForThoseWhoWantIt() throws {
    var server = try Self.server(serviceChanged: false)
    _ = try Self.change(&server)
    #expect(server.sent() == [])
    var other = try Self.server(features: nil)
    _ = try Self.change(&other)
    #expect(other.sent() == ["1d03000f000f00"], "also without robust caching")
  }

  @Test func withoutTheFeatureNothingIsHeldOff() throws {
    var server = try Self.server(features: nil, serviceChanged: false, subscribed: "0100")
    _ = try Self.change(&server)
    #expect(server.notify(0x0B, [7]) == true)
    #expect(server.sent() == ["1b0b0007"])
    server.receive("520e0001")
    #expect(server.events() == ["command 14=01 of 5"])
    #expect(server.receive("0a0600") == ["0b00"])
    #expect(server.receive("0a0e00") == [])
    #expect(server.events() == ["#1 read 14 from 0 of 5"])
  }

  @Test func aConfirmationTimeoutOfServiceChangedEndsTheBearer() throws {
    var server = try Self.server()
    _ = try Self.change(&server)
    server.advance(30)
    #expect(server.events() == ["failed: no confirmation of 3"])
  }

  // MARK: What waits

  @Test func notificationsWaitUntilAware() throws {
    var server = try Self.server(subscribed: "0100")
    _ = try Self.change(&server)
    #expect(server.sent() == ["1d03000f000f00"])
    #expect(server.notify(0x0B, [1], token: 1) == true)
    #expect(server.notify(0x0B, [2], token: 2) == true)
    #expect(server.sent() == [])
    #expect(server.receive("1e") == ["1b0b0001", "1b0b0002"])
    #expect(server.notify(0x0B, [3]) == true)
    #expect(server.sent() == ["1b0b0003"])
  }

  @Test func indicationsWaitUntilAwareButServiceChangedDoesNot() throws {
    var server = try Self.server(subscribed: "0200")
    #expect(server.indicate(0x0B, [1], token: 1) == true)
    #expect(server.sent() == ["1d0b0001"])
    _ = try Self.change(&server)
    #expect(server.indicate(0x0B, [2], token: 2) == true)
    #expect(server.sent() == [])
    #expect(server.receive("1e") == ["1d03000f000f00"], "Service Changed first")
    #expect(server.events() == ["confirmed 11 1"])
    #expect(server.receive("1e") == ["1d0b0002"])
    #expect(server.receive("1e") == [])
    #expect(server.events() == ["confirmed 11 2"])
  }

  @Test func theNextRequestLetsOutWhatWaits() throws {
    var server = try Self.server(serviceChanged: false, subscribed: "0300")
    _ = try Self.change(&server)
    #expect(server.notify(0x0B, [1]) == true)
    #expect(server.indicate(0x0B, [2]) == true)
    #expect(server.receive("0a0600") == ["010a000012"])
    #expect(server.receive("0a0600") == ["1b0b0001", "1d0b0002", "0b01"])
  }

  @Test func whatWaitsForAnAttributeThatIsGoneIsDropped() throws {
    var server = try Self.server(subscribed: "0300")
    _ = try Self.change(&server)
    #expect(server.notify(0x0B, [1], token: 1) == true)
    #expect(server.indicate(0x0B, [2], token: 2) == true)
    try server.database.removeService(0x0009)
    server.databaseChanged()
    #expect(server.events() == ["1 update dropped", "2 update dropped"])
    #expect(server.notify(0x0B, [3]) == false)
  }

  // MARK: Queued writes

  @Test func aQueueOfWhichAPartIsGoneIsNotExecuted() throws {
    var server = try Self.server(serviceChanged: false)
    #expect(server.receive("160e00000001").count == 1)
    #expect(server.receive("160600000001").count == 1)
    try server.database.removeService(0x0009)
    try server.database.addService(ServiceDefinition(uuid: 0x1810))
    server.databaseChanged()
    #expect(server.receive("1801") == ["01180e0001"])
    #expect(server.receive("1801") == ["19"], "the queue is empty")
  }

  @Test func queuesHaveRoomForOneClientAndForAll() throws {
    let first = try Self.server(features: nil)
    var clients: [ScriptedBearer] = [first]
    var total = 0
    let part = String(repeating: "ab", count: 200)
    while clients.count < 64 {
      var count = 0
      var client = clients[clients.count - 1]
      while client.receive("160e000000" + part)[0].hasPrefix("17") { count += 1 }
      #expect(client.receive("160e000000" + part) == ["01160e0009"], "full, and so it stays")
      clients[clients.count - 1] = client
      total += count
      guard count > 0 else { break }
      #expect(count <= 10, "2048 octets for one client")
      var next = ScriptedBearer(first.database)
      next.receive("02f700")
      clients.append(next)
    }
    #expect(clients.count < 64, "all clients together have a limit too")
    #expect(total * 208 <= 32 * 1024 && total * 208 > 30 * 1024)
    // A client that is gone leaves its room to others.
    clients.removeFirst()
    var last = clients[clients.count - 1]
    #expect(last.receive("160e000000" + part)[0].hasPrefix("17"))
    #expect(last.receive("1800") == ["19"])
  }

  // MARK: Several values in one notification

  @Test func severalValuesForThoseWhoTakeThem() throws {
    var server = try Self.server(features: "04", serviceChanged: false, subscribed: "0100")
    let heart = try server.database.addService(
      ServiceDefinition(
        uuid: 0x180F,
        characteristics: [
          CharacteristicDefinition(uuid: 0x2A19, properties: .notify, permissions: .readable, value: .fixed([9]))
        ]))
    server.databaseChanged()
    let level = heart.characteristics[0].value
    #expect(level == 0x11)
    #expect(server.notifyMultiple((0x0B, [1]), (level, [2])) == false, "one is not wanted")
    #expect(server.receive("1212000100") == ["13"])
    #expect(server.notifyMultiple((0x0B, [1])) == false, "one is not several")
    #expect(server.notifyMultiple((0x0B, [1, 2]), (level, [3])) == true)
    #expect(server.sent() == ["230b000200010211000100" + "03"])
    let long = [UInt8](repeating: 0, count: 240)
    #expect(server.notifyMultiple((0x0B, long), (level, [3])) == false, "no value is cut")
    var other = try Self.server(features: "01", serviceChanged: false, subscribed: "0100")
    #expect(other.notifyMultiple((0x0B, [1]), (0x0B, [2])) == false)
  }
}
