// SPDX-License-Identifier: Apache-2.0

import BLECore
import BLEGATT
import TestSupport
import Testing

/// What a client does when a server says that its database is another (Vol 3 Part G 2.5.2), and its queued writes.
@Suite struct ClientCachingTests {
  private static let hash = String(repeating: "5a", count: 16)
  private static let otherHash = String(repeating: "a5", count: 16)
  private static let hashRequest = "080100ffff2a2b"
  private static func hashResponse(_ hash: String) -> String { "09120800" + hash }

  private static func client() -> ScriptedBearer {
    var client = ScriptedBearer()
    client.bearer.knownDatabaseHash = [UInt8](hex: hash)
    return client
  }

  // MARK: Database Out Of Sync

  @Test func theSameHashAndTheProcedureGoesOn() {
    var client = Self.client()
    client.read(7)
    #expect(client.sent() == ["0a0700"])
    #expect(client.receive("010a000012") == [Self.hashRequest])
    #expect(client.receive(Self.hashResponse(Self.hash)) == ["0a0700"])
    #expect(client.receive("0b0102") == [])
    #expect(client.events() == ["1 read 0102"])
  }

  /// Every procedure that names handles, begun again from its start.
  @Test func writesAndListsBeginAgainWithTheirOctets() {
    var client = Self.client()
    client.write(7, [1, 2], token: 1)
    #expect(client.sent() == ["1207000102"])
    #expect(client.receive("0112000012") == [Self.hashRequest])
    #expect(client.receive(Self.hashResponse(Self.hash)) == ["1207000102"])
    client.receive("13")
    client.bearer.readMultiple([7, 9], variable: true, token: 2, now: .zero)
    #expect(client.sent() == ["2007000900"])
    client.receive("0120000012")
    #expect(client.receive(Self.hashResponse(Self.hash)) == ["2007000900"])
    client.receive("210100" + "aa" + "0100bb")
    client.write(7, [UInt8](repeating: 3, count: 30), token: 3)
    let first = "1607000000" + String(repeating: "03", count: 18)
    let second = "160700" + "1200" + String(repeating: "03", count: 12)
    #expect(client.sent() == [first])
    #expect(client.receive("17" + first.dropFirst(2)) == [second])
    #expect(client.receive("0116000012") == ["1800"], "what is queued is taken back first")
    #expect(client.receive("19") == [Self.hashRequest])
    #expect(client.receive(Self.hashResponse(Self.hash)) == [first])
    #expect(client.receive("17" + first.dropFirst(2)) == [second])
    #expect(client.receive("17" + second.dropFirst(2)) == ["1801"])
    client.receive("19")
    #expect(client.events() == ["1 written", "2 read [7=aa, 9=bb]", "3 written"])
  }

  @Test func anotherHashEndsAllThatNamesHandles() {
    var client = Self.client()
    client.read(7, token: 1)
    client.write(9, [1], token: 2)
    client.bearer.discoverPrimaryServices(token: 3, now: .zero)
    client.bearer.discoverCharacteristics(in: 5...9, token: 4, now: .zero)
    client.bearer.readByUUID(0x2A00, token: 5, now: .zero)
    client.bearer.reliableWrite([GATTQueuedWrite(handle: 9, value: [1])], token: 6, now: .zero)
    _ = client.sent()
    #expect(client.receive("010a000012") == [Self.hashRequest])
    #expect(client.receive(Self.hashResponse(Self.otherHash)) == ["100100ffff0028"], "what names none goes on")
    #expect(
      client.events() == [
        "out of sync, hash " + Self.otherHash, "1 read database changed", "2 written database changed",
        "4 characteristics database changed", "6 written database changed",
      ])
    #expect(client.bearer.knownDatabaseHash == [UInt8](hex: Self.otherHash))
    #expect(client.receive("011001000a") == ["080100ffff002a"])
  }

  @Test(arguments: ["010801000a", "0108080005", "0902" + "0000", "ff", "09020800"])
  func noHashEndsAllToo(answer: String) {
    var client = Self.client()
    client.read(7)
    _ = client.sent()
    client.receive("010a000012")
    client.receive(answer == "ff" ? "09" : answer)
    let events = client.events()
    #expect(events.count == 2 && events.first?.hasPrefix("out of sync, hash") == true)
    #expect(events.last == "1 read database changed")
    #expect(client.bearer.knownDatabaseHash != [UInt8](hex: Self.hash))
  }

  @Test func aHashThatNobodyReliesOnProvesNothing() {
    var client = ScriptedBearer()
    client.read(7)
    _ = client.sent()
    client.receive("010a000012")
    client.receive(Self.hashResponse(Self.hash))
    #expect(client.events() == ["out of sync, hash " + Self.hash, "1 read database changed"])
  }

  @Test func aServerThatIsNeverInSyncIsNotAskedForEver() {
    var client = Self.client()
    client.read(7)
    _ = client.sent()
    client.receive("010a000012")
    #expect(client.receive(Self.hashResponse(Self.hash)) == ["0a0700"])
    #expect(client.receive("010a000012") == [])
    #expect(client.events() == ["1 read error 12 at 0"])
    // Nor when it refuses the question itself.
    client.bearer.readByUUID(0x2B2A, token: 2, now: .zero)
    #expect(client.sent() == [Self.hashRequest])
    #expect(client.receive("0108000012") == [])
    #expect(client.events() == ["2 read error 12 at 0"])
  }

  @Test func aDiscoveryOutOfSyncBeginsAgainInAnyCase() {
    var client = Self.client()
    client.bearer.discoverPrimaryServices(token: 1, now: .zero)
    #expect(client.sent() == ["100100ffff0028"])
    client.receive("0110000012")
    #expect(client.receive(Self.hashResponse(Self.otherHash)) == ["100100ffff0028"])
    client.receive("011001000a")
    #expect(client.events() == ["out of sync, hash " + Self.otherHash, "1 services []"])
  }

  @Test func commandsWaitWhileTheHashIsLookedAt() {
    var client = Self.client()
    client.read(7)
    _ = client.sent()
    client.receive("010a000012")
    #expect(client.command(9, [1], token: 4) == true)
    #expect(client.command(9, [2], token: 5) == true)
    #expect(client.command(9, [UInt8](repeating: 0, count: 21), token: 6) == false, "too long")
    #expect(client.sent() == [])
    #expect(client.receive(Self.hashResponse(Self.hash)) == ["52090001", "52090002", "0a0700"])
    client.receive("010a000112")
    client.read(7, token: 2)
    _ = client.sent()
    client.receive("010a000012")
    #expect(client.command(9, [3], token: 7) == true)
    #expect(client.receive(Self.hashResponse(Self.otherHash)) == [])
    #expect(
      client.events().suffix(3) == [
        "out of sync, hash " + Self.otherHash, "2 read database changed", "7 command dropped",
      ])
  }

  @Test func aTimeoutOfTheQuestionEndsTheBearer() {
    var client = Self.client()
    client.read(7)
    _ = client.sent()
    client.receive("010a000012")
    client.advance(29)
    #expect(client.events() == [])
    client.advance(1)
    #expect(client.events() == ["failed: no response to 08", "1 read timed out: 08"])
  }

  // MARK: Service Changed

  @Test func requestsOnChangedHandlesEnd() {
    var client = Self.client()
    client.read(7, token: 1)
    client.write(8, [1], token: 2)
    client.read(20, token: 3)
    #expect(client.sent() == ["0a0700"])
    client.bearer.invalidate(5...9, now: .zero)
    #expect(client.events() == ["2 written database changed", "1 read database changed"])
    #expect(client.sent() == [], "one request at a time: the response is still to come")
    #expect(client.receive("0baa") == ["0a1400"])
    #expect(client.receive("0bbb") == [])
    #expect(client.events() == ["3 read bb"])
  }

  @Test func anErrorOrATimeoutOfAnEndedRequestIsNoNews() {
    var client = Self.client()
    client.read(7, token: 1)
    client.bearer.invalidate(5...9, now: .zero)
    _ = client.sent()
    _ = client.events()
    #expect(client.receive("010a070001") == [])
    client.read(7, token: 2)
    client.bearer.invalidate(5...9, now: .zero)
    _ = client.events()
    client.advance(30)
    #expect(client.events() == ["failed: no response to 0a"])
  }

  @Test func aLongWriteOnAChangedHandleIsTakenBack() {
    var client = Self.client()
    client.write(7, [UInt8](repeating: 3, count: 30), token: 1)
    client.read(20, token: 2)
    let first = client.sent()[0]
    client.bearer.invalidate(7...7, now: .zero)
    #expect(client.events() == ["1 written database changed"])
    #expect(client.receive("17" + first.dropFirst(2)) == ["1800"])
    #expect(client.receive("19") == ["0a1400"])
  }

  @Test func searchesThroughAllBeginAgain() {
    var client = Self.client()
    client.bearer.discoverPrimaryServices(token: 1, now: .zero)
    client.receive("1106010005000018")
    client.bearer.invalidate(6...9, now: .zero)
    _ = client.sent()
    #expect(client.receive("1106060009000118") == ["100100ffff0028"])
    client.receive("11060100ffff0018")
    #expect(client.events() == ["1 services [1-65535 1800]"])
  }

  @Test func searchesInChangedHandlesEnd() {
    var client = Self.client()
    client.bearer.discoverCharacteristics(in: 1...9, token: 1, now: .zero)
    client.bearer.discoverDescriptors(in: 12...14, token: 2, now: .zero)
    client.bearer.invalidate(9...11, now: .zero)
    #expect(client.events() == ["1 characteristics database changed"])
    #expect(client.sent() == ["0801000900" + "0328"])
    #expect(client.receive("010801000a") == ["040c000e00"])
  }

  // MARK: Queued writes

  @Test func reliableWritesAreCheckedAndExecutedTogether() {
    var client = ScriptedBearer()
    client.bearer.reliableWrite(
      [
        GATTQueuedWrite(handle: 7, value: [1, 2]), GATTQueuedWrite(handle: 9, offset: 4, value: []),
        GATTQueuedWrite(handle: 11, offset: 1, value: [UInt8](repeating: 9, count: 20)),
      ], token: 1, now: .zero)
    let nines = String(repeating: "09", count: 18)
    #expect(client.sent() == ["16070000000102"])
    #expect(client.receive("17070000000102") == ["1609000400"])
    #expect(client.receive("1709000400") == ["160b000100" + nines])
    #expect(client.receive("170b000100" + nines) == ["160b0013000909"])
    #expect(client.receive("170b0013000909") == ["1801"])
    #expect(client.receive("19") == [])
    #expect(client.events() == ["1 written"])
  }

  @Test(arguments: ["170700000001", "17070001000102", "17080000000102", "17070000000103", "1707000000010203", "17"])
  func aFalseEchoCancelsAll(echo: String) {
    var client = ScriptedBearer()
    client.bearer.reliableWrite(
      [GATTQueuedWrite(handle: 7, value: [1, 2]), GATTQueuedWrite(handle: 9, value: [3])], token: 1, now: .zero)
    _ = client.sent()
    #expect(client.receive(echo) == ["1800"])
    #expect(client.receive("19") == [])
    #expect(client.events() == ["1 written echo mismatch at 7"])
  }

  @Test func aRefusedPartCancelsThoseBefore() {
    var client = ScriptedBearer()
    client.bearer.reliableWrite(
      [GATTQueuedWrite(handle: 7, value: [1]), GATTQueuedWrite(handle: 9, value: [3])], token: 1, now: .zero)
    _ = client.sent()
    client.receive("170700000001")
    #expect(client.receive("0116090009") == ["1800"])
    client.receive("19")
    #expect(client.events() == ["1 written error 09 at 9"])
  }

  @Test func reliableWritesWithoutValuesOrBeyondThem() {
    var client = ScriptedBearer()
    client.bearer.reliableWrite([], token: 1, now: .zero)
    client.bearer.reliableWrite(
      [GATTQueuedWrite(handle: 7, offset: 511, value: [1, 2])], token: 2, now: .zero)
    #expect(client.sent() == [])
    #expect(client.events() == ["1 written", "2 written too long: 513"])
  }

  // MARK: The rest

  @Test func aBarrierIsPassedInItsTurn() {
    var client = ScriptedBearer()
    client.bearer.passBarrier(token: 1, now: .zero)
    #expect(client.events() == ["1 barrier"])
    client.read(7, token: 2)
    client.bearer.passBarrier(token: 3, now: .zero)
    client.read(9, token: 4)
    #expect(client.events() == [])
    _ = client.sent()
    #expect(client.receive("0b01") == ["0a0900"])
    #expect(client.events() == ["2 read 01", "3 barrier"])
    client.bearer.passBarrier(token: 5, now: .zero)
    client.bearer.close()
    #expect(client.events() == ["4 read closed", "5 barrier"])
  }

  @Test func severalValuesInOneNotification() {
    var client = ScriptedBearer()
    #expect(client.receive("230700020001020900000" + "0") == [])
    #expect(client.events() == ["notification 7=0102", "notification 9="])
    client.receive("2307000200" + "01")
    client.receive("230700")
    client.receive("23")
    #expect(client.events() == [], "one that is cut tells nothing")
  }
}

/// Both halves together: what the server holds off and what the client does about it.
@Suite struct CachingPairTests {
  private func pair() throws -> (pair: BearerPair, value: UInt16) {
    let database = AttributeDatabase()
    try database.addService(
      ServiceDefinition(
        uuid: 0x1801,
        characteristics: [
          CharacteristicDefinition(
            uuid: 0x2B29, properties: [.read, .write], permissions: .readWrite, value: .clientFeatures),
          CharacteristicDefinition(uuid: 0x2B2A, properties: .read, permissions: .readable, value: .databaseHash),
        ]))
    let service = try database.addService(
      ServiceDefinition(
        uuid: 0x180D,
        characteristics: [
          CharacteristicDefinition(uuid: 0x2A39, properties: .read, permissions: .readWrite, value: .fixed([1]))
        ]))
    _ = database.takeChangedRanges()
    var pair = BearerPair(database)
    let features = [ClientSupportedFeatures.robustCaching.rawValue]
    pair.client.bearer.write(3, features.span.bytes, token: 1, now: .zero)
    pair.run()
    pair.client.bearer.knownDatabaseHash = try database.hash()
    return (pair, service.characteristics[0].value)
  }

  private func texts(_ pair: BearerPair) -> [String] {
    var output = pair.client.bearer.output
    output.events = pair.clientEvents
    output.eventBytes = pair.clientBytes
    return output.events.map { ScriptedBearer.text($0, output) }
  }

  @Test func anOldHandleIsNeverWritten() throws {
    var (pair, value) = try pair()
    let database = pair.server.database
    try database.removeService(value - 2)
    let other = try database.addService(
      ServiceDefinition(
        uuid: 0x1811,
        characteristics: [
          CharacteristicDefinition(uuid: 0x2A46, properties: .write, permissions: .readWrite, value: .fixed([7]))
        ]))
    #expect(other.characteristics[0].value == value, "the same handle, another value")
    pair.server.databaseChanged()
    pair.client.write(value, [9], token: 2)
    pair.client.write(value, [9], token: 3)
    pair.run()
    #expect(database.value(value) == [7])
    #expect(
      texts(pair) == [
        "out of sync, hash " + (try database.hash().hex), "2 written database changed", "3 written database changed",
      ])
  }

  @Test func aChangeThatIsTakenBackCostsNothing() throws {
    var (pair, value) = try pair()
    let database = pair.server.database
    let added = try database.addService(ServiceDefinition(uuid: 0x180F))
    pair.server.databaseChanged()
    try database.removeService(added.handle)
    pair.server.databaseChanged()
    pair.client.write(value, [9], token: 2)
    pair.run()
    #expect(texts(pair) == ["2 written"])
    #expect(database.value(value) == [9])
  }
}
