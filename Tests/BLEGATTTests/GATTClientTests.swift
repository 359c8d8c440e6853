// SPDX-License-Identifier: Apache-2.0

import BLECore
import BLEGATT
import TestSupport
import Testing

/// The client half by scripts of PDUs: what it sends, and how it takes what a server answers.
@Suite struct GATTClientTests {
  static let lowLong = "78563412f0debc9a78563412f0ff0000"

  /// Starts a procedure, then feeds responses; each is paired with the request it has to answer.
  static func run(
    _ start: (inout ScriptedBearer) -> Void, _ script: [(String, String)]
  ) -> (client: ScriptedBearer, events: [String]) {
    var client = ScriptedBearer()
    start(&client)
    var sent = client.sent()
    for (request, response) in script {
      #expect(sent == [request])
      sent = client.receive(response)
    }
    #expect(sent == [])
    return (client, client.events())
  }

  // MARK: Discovery

  static func services(_ script: [(String, String)]) -> [String] {
    run({ $0.bearer.discoverPrimaryServices(token: 1, now: .zero) }, script).events
  }

  @Test func primaryServicesUntilNotFound() {
    #expect(
      Self.services([
        ("100100ffff0028", "1106010005000018060009000118"),
        ("100a00ffff0028", "11140a00100078563412f0debc9a78563412f0ff0000"),
        ("101100ffff0028", "011011000a"),
      ]) == ["1 services [1-5 1800, 6-9 1801, 10-16 0000FFF0-1234-5678-9ABC-DEF012345678]"])
  }

  @Test func primaryServicesUntilTheLastHandle() {
    #expect(Self.services([("100100ffff0028", "11060100ffff0018")]) == ["1 services [1-65535 1800]"])
    #expect(Self.services([("100100ffff0028", "011001000a")]) == ["1 services []"])
  }

  @Test func primaryServicesByUUID() {
    func find(_ script: [(String, String)]) -> [String] {
      Self.run({ $0.bearer.discoverPrimaryServices(uuid: 0x180D, token: 1, now: .zero) }, script).events
    }
    #expect(
      find([("060100ffff00280d18", "071000150040004f00"), ("065000ffff00280d18", "010650000a")])
        == ["1 services [16-21 180D, 64-79 180D]"])
    #expect(find([("060100ffff00280d18", "075000ffff")]) == ["1 services [80-65535 180D]"])
    #expect(find([("060100ffff00280d18", "07500040ff0000")]) == ["1 services invalid response to 06"])
  }

  @Test func includedServicesWithLongUUIDsAreReadFromTheService() {
    let outcome = Self.run(
      { $0.bearer.discoverIncludedServices(in: 1...0x20, token: 1, now: .zero) },
      [
        ("08010020000228", "090802001400160" + "00f18"), ("08030020000228", "0906030040004500"),
        ("08040020000228", "010804000a"), ("0a4000", "0b" + Self.lowLong),
      ])
    #expect(
      outcome.events
        == ["1 includes [2: 20-22 180F, 3: 64-69 0000FFF0-1234-5678-9ABC-DEF012345678]"])
  }

  @Test func includedServiceThatCannotBeReadFailsTheDiscovery() {
    let start: (inout ScriptedBearer) -> Void = {
      $0.bearer.discoverIncludedServices(in: 1...3, token: 1, now: .zero)
    }
    let first = ("08010003000228", "0906030040004500")
    #expect(Self.run(start, [first, ("0a4000", "010a40000a")]).events == ["1 includes error 0a at 64"])
    #expect(Self.run(start, [first, ("0a4000", "0b010203")]).events == ["1 includes invalid response to 0a"])
  }

  @Test func characteristicsKnowTheirEnds() {
    let outcome = Self.run(
      { $0.bearer.discoverCharacteristics(in: 1...0x10, token: 1, now: .zero) },
      [
        ("08010010000328", "090702000a0300002a0400020500012a"),
        ("08050010000328", "091508001a090078563412f0debc9a78563412f0ff0000"), ("08090010000328", "010809000a"),
      ])
    #expect(
      outcome.events == [
        "1 characteristics [2,3-3 0a 2A00, 4,5-7 02 2A01, 8,9-16 1a 0000FFF0-1234-5678-9ABC-DEF012345678]"
      ])
  }

  @Test func descriptorsInBothFormats() {
    let outcome = Self.run(
      { $0.bearer.discoverDescriptors(in: 0x11...0x13, token: 1, now: .zero) },
      [("0411001300", "0501110002291200" + "0129"), ("0413001300", "05021300" + Self.lowLong)])
    #expect(
      outcome.events
        == ["1 descriptors [17 2902, 18 2901, 19 0000FFF0-1234-5678-9ABC-DEF012345678]"])
  }

  /// Lists that do not move forward, lie outside the range, or are malformed: the discovery fails, the bearer lives.
  @Test(arguments: [
    "11060500090000180100040001" + "18", "1106090005000018", "1106000005000018", "110601000500001805000600" + "0118",
    "1106", "11", "1105010005000000", "110601000500", "111401000500001800", "1107010005000018000000",
    "110600000000" + "0018",
  ])
  func serviceListsThatBreakTheRules(response: String) {
    var (client, events) = Self.run(
      { $0.bearer.discoverPrimaryServices(token: 1, now: .zero) }, [("100100ffff0028", response)])
    #expect(events == ["1 services invalid response to 10"])
    client.read(3)
    #expect(client.sent() == ["0a0300"])
  }

  @Test func aServerThatRepeatsItselfEndsTheDiscovery() {
    #expect(
      Self.services([
        ("100100ffff0028", "1106010005000018"), ("100600ffff0028", "1106010005000018"),
      ]) == ["1 services invalid response to 10"])
  }

  @Test(arguments: [
    "0907110" + "00a1200002a", "09070500" + "0a0500002a", "09070500" + "0a1100002a", "090705000a0600002a0500020700012a",
    "090605000a0600" + "00", "0900", "090101", "0907010002" + "03",
  ])
  func characteristicListsThatBreakTheRules(response: String) {
    let outcome = Self.run(
      { $0.bearer.discoverCharacteristics(in: 5...0x10, token: 1, now: .zero) }, [("08050010000328", response)])
    #expect(outcome.events == ["1 characteristics invalid response to 08"])
  }

  @Test(arguments: ["0501", "05", "050301000028", "0501010000280200", "0501110002291100" + "0129", "050114000229"])
  func descriptorListsThatBreakTheRules(response: String) {
    let outcome = Self.run(
      { $0.bearer.discoverDescriptors(in: 0x11...0x13, token: 1, now: .zero) }, [("0411001300", response)])
    #expect(outcome.events == ["1 descriptors invalid response to 04"])
  }

  @Test func anyErrorButNotFoundFailsADiscovery() {
    #expect(Self.services([("100100ffff0028", "0110010008")]) == ["1 services error 08 at 1"])
    #expect(Self.services([("100100ffff0028", "0110010000")]) == ["1 services invalid response to 10"])
    #expect(Self.services([("100100ffff0028", "01100100")]) == ["1 services invalid response to 10"])
  }

  // MARK: Reading

  static func reading(_ script: [(String, String)]) -> [String] { run({ $0.read(7) }, script).events }
  static let full = String(repeating: "aa", count: 22)

  @Test func readGoesOnWhileAResponseIsFull() {
    #expect(Self.reading([("0a0700", "0b")]) == ["1 read "])
    #expect(Self.reading([("0a0700", "0b01")]) == ["1 read 01"])
    #expect(
      Self.reading([("0a0700", "0b" + Self.full), ("0c07001600", "0d01")]) == ["1 read " + Self.full + "01"])
    #expect(Self.reading([("0a0700", "0b" + Self.full), ("0c07001600", "0d")]) == ["1 read " + Self.full])
    #expect(Self.reading([("0a0700", "0b" + Self.full), ("0c07001600", "010c07000b")]) == ["1 read " + Self.full])
    #expect(Self.reading([("0a0700", "0b" + Self.full), ("0c07001600", "010c070007")]) == ["1 read " + Self.full])
    #expect(
      Self.reading([("0a0700", "0b" + Self.full), ("0c07001600", "010c070002")]) == ["1 read error 02 at 7"])
  }

  @Test func readStopsAt512Octets() {
    var script = [("0a0700", "0b" + Self.full)]
    for part in 1..<24 {
      let offset = part * 22
      script.append(("0c0700" + [UInt8(offset & 0xFF), UInt8(offset >> 8)].hex, "0d" + Self.full))
    }
    #expect(Self.reading(script) == ["1 read " + String(repeating: "aa", count: 512)])
  }

  @Test(arguments: [0x05, 0x0C, 0x0F, 0x13, 0x80, 0xFF] as [UInt8])
  func errorsArePassedOn(code: UInt8) {
    #expect(Self.reading([("0a0700", "010a0700" + [code].hex)]) == ["1 read error \([code].hex) at 7"])
  }

  @Test func overlongResponseFailsTheRead() {
    #expect(Self.reading([("0a0700", "0b" + Self.full + "aa")]) == ["1 read invalid response to 0a"])
  }

  @Test func readByUUID() {
    func read(_ response: String) -> [String] {
      Self.run({ $0.bearer.readByUUID(0x2A00, in: 3...9, token: 1, now: .zero) }, [("08030009" + "00002a", response)])
        .events
    }
    #expect(read("0904030041420500" + "4344") == ["1 read [3=4142, 5=4344]"])
    #expect(read("010803000a") == ["1 read error 0a at 3"])
    for bad in [
      "09040200" + "4142", "09040a00" + "4142", "0904050041420500" + "4344", "0900", "09", "090403004142" + "05",
    ] {
      #expect(read(bad) == ["1 read invalid response to 08"], "\(bad)")
    }
  }

  @Test func readMultiple() {
    func read(_ variable: Bool, _ request: String, _ response: String) -> [String] {
      Self.run({ $0.bearer.readMultiple([3, 5], variable: variable, token: 1, now: .zero) }, [(request, response)])
        .events
    }
    #expect(read(false, "0e03000500", "0f0102") == ["1 read 0102"])
    #expect(read(true, "2003000500", "2101000102000203") == ["1 read [3=01, 5=0203]"])
    #expect(read(true, "2003000500", "210100010500" + "0203") == ["1 read [3=01, 5=0203]"])
    #expect(read(true, "2003000500", "21010001010002010003") == ["1 read invalid response to 20"])
    #expect(read(true, "2003000500", "210a") == ["1 read invalid response to 20"])
    var client = ScriptedBearer()
    client.bearer.readMultiple([3], variable: false, token: 1, now: .zero)
    #expect(client.sent() == [])
    #expect(client.events() == ["1 read too long: 2"])
  }

  // MARK: Writing

  static func writing(_ value: [UInt8], _ script: [(String, String)]) -> [String] {
    run({ $0.write(7, value) }, script).events
  }

  @Test func shortWrite() {
    #expect(Self.writing([1, 2], [("1207000102", "13")]) == ["1 written"])
    #expect(Self.writing([], [("120700", "0112070003")]) == ["1 written error 03 at 7"])
    #expect(Self.writing([], [("120700", "1300")]) == ["1 written invalid response to 12"])
  }

  static let value21 = (0..<21).map { UInt8($0) }
  static let firstPart = "07000000" + value21.prefix(18).map { [$0].hex }.joined()
  static let secondPart = "07001200121314"

  @Test func longWriteIsPreparedAndExecuted() {
    #expect(
      Self.writing(
        Self.value21,
        [
          ("16" + Self.firstPart, "17" + Self.firstPart), ("16" + Self.secondPart, "17" + Self.secondPart),
          ("1801", "19"),
        ]
      ) == ["1 written"])
  }

  @Test func wrongEchoCancelsTheWrite() {
    let wrong = [
      "17070012001213" + "15", "170700130012131" + "4", "170800120012131" + "4", "1707001200" + "1213", "17",
    ]
    for echo in wrong {
      #expect(
        Self.writing(
          Self.value21,
          [("16" + Self.firstPart, "17" + Self.firstPart), ("16" + Self.secondPart, echo), ("1800", "19")]
        ) == ["1 written echo mismatch at 7"], "\(echo)")
    }
  }

  @Test func refusedPartCancelsTheWrite() {
    #expect(
      Self.writing(
        Self.value21,
        [
          ("16" + Self.firstPart, "17" + Self.firstPart), ("16" + Self.secondPart, "0116070009"),
          ("1800", "0118000006"),
        ]
      ) == ["1 written error 09 at 7"])
    #expect(Self.writing(Self.value21, [("16" + Self.firstPart, "0116070003")]) == ["1 written error 03 at 7"])
    #expect(
      Self.writing(
        Self.value21,
        [
          ("16" + Self.firstPart, "17" + Self.firstPart), ("16" + Self.secondPart, "17" + Self.secondPart),
          ("1801", "011807000d"),
        ]
      ) == ["1 written error 0d at 7"])
  }

  @Test func valueOver512OctetsIsNotSent() {
    #expect(Self.writing([UInt8](repeating: 0, count: 513), []) == ["1 written too long: 513"])
  }

  @Test func writeCommandGoesAtOnceAndOnlyIfItFits() {
    var client = ScriptedBearer()
    client.read(3)
    let fits = [UInt8](repeating: 1, count: 20)
    let isSent = client.bearer.writeCommand(7, fits.span.bytes, token: 9)
    #expect(isSent)
    #expect(client.sent() == ["0a0300", "520700" + fits.hex])
    let tooLong = [UInt8](repeating: 1, count: 21)
    let isTooLongSent = client.bearer.writeCommand(7, tooLong.span.bytes)
    #expect(!isTooLongSent)
    #expect(client.sent() == [])
  }

  // MARK: MTU

  @Test func mtuIsExchangedOnce() {
    var client = ScriptedBearer()
    client.bearer.exchangeMTU(token: 1, now: .zero)
    #expect(client.sent() == ["020502"])
    client.receive("03f700")
    #expect(client.events() == ["mtu 247", "1 mtu 247"])
    client.bearer.exchangeMTU(token: 2, now: .zero)
    #expect(client.sent() == [])
    #expect(client.events() == ["2 mtu 247"])
    #expect(client.receive("026400") == ["030502"])
    #expect(client.bearer.mtu == 247)
  }

  @Test func mtuOfThePeersExchangeCountsForOurs() {
    var client = ScriptedBearer()
    client.receive("02b900")
    client.bearer.exchangeMTU(token: 1, now: .zero)
    #expect(client.sent() == [])
    #expect(client.events() == ["mtu 185", "1 mtu 185"])
  }

  @Test(arguments: [
    ("0102000006", "1 mtu error 06 at 0"), ("0317", "1 mtu invalid response to 02"), ("031600", "1 mtu 23"),
  ])
  func mtuStaysWhereTheExchangeFails(response: String, event: String) {
    let outcome = Self.run({ $0.bearer.exchangeMTU(token: 1, now: .zero) }, [("020502", response)])
    #expect(outcome.events == [event])
    #expect(outcome.client.bearer.mtu == 23)
  }

  // MARK: Order, time, strangers

  @Test func proceduresTakeTurns() {
    var client = ScriptedBearer()
    client.read(3, token: 1)
    client.write(4, [5], token: 2)
    client.bearer.discoverDescriptors(in: 5...6, token: 3, now: .zero)
    #expect(client.sent() == ["0a0300"])
    #expect(client.receive("0b01") == ["12040005"])
    #expect(client.receive("13") == ["0405000600"])
    #expect(client.receive("010405000a") == [])
    #expect(client.events() == ["1 read 01", "2 written", "3 descriptors []"])
  }

  @Test(arguments: [
    "0b01", "13", "19", "030502", "0501010000280", "17", "010a030001", "01", "0d00", "1106010003000018",
  ])
  func responsesNobodyWaitsForAreIgnored(pdu: String) {
    var client = ScriptedBearer()
    #expect(client.receive(pdu) == [])
    client.write(4, [5])
    #expect(client.sent() == ["12040005"])
    if pdu != "13", pdu != "01" {
      #expect(client.receive(pdu) == [])
      #expect(client.events() == [])
    }
    client.receive("13")
    #expect(client.events().last?.hasPrefix("1 written") == true)
  }

  @Test func requestWithoutResponseKillsTheBearer() {
    var client = ScriptedBearer()
    client.read(3, token: 1)
    client.read(4, token: 2)
    _ = client.sent()
    client.advance(29)
    #expect(client.events() == [])
    client.advance(1)
    #expect(
      client.events() == ["failed: no response to 0a", "1 read timed out: 0a", "2 read closed"])
    #expect(client.receive("0b01") == [])
    #expect(client.receive("1d100001") == [])
    client.read(5, token: 3)
    #expect(client.sent() == [])
    #expect(client.events() == ["3 read closed"])
    #expect(client.bearer.nextDeadline == nil)
  }

  @Test func eachRequestHasItsOwnTime() {
    var client = ScriptedBearer()
    client.read(7)
    client.advance(20)
    client.receive("0b" + Self.full)
    client.advance(20)
    #expect(client.events() == [])
    client.advance(10)
    #expect(client.events() == ["failed: no response to 0c", "1 read timed out: 0c"])
  }

  @Test func closingEndsEveryProcedureOnce() {
    var client = ScriptedBearer()
    client.read(3, token: 1)
    client.write(4, [1], token: 2)
    client.bearer.close()
    client.bearer.close()
    #expect(client.events() == ["1 read closed", "2 written closed"])
    #expect(client.sent() == [])
  }

  // MARK: What servers send

  @Test func valuesFromTheServer() {
    var client = ScriptedBearer()
    #expect(client.receive("1b10000648") == [])
    #expect(client.receive("1b1000") == [])
    #expect(client.receive("1d08000100ffff") == ["1e"])
    #expect(client.receive("231000020006482000010064") == [])
    #expect(
      client.events() == [
        "notification 16=0648", "notification 16=", "indication 8=0100ffff", "notification 16=0648",
        "notification 32=64",
      ])
  }

  @Test func malformedValuesAreDroppedButIndicationsConfirmed() {
    var client = ScriptedBearer()
    #expect(client.receive("1b10") == [])
    #expect(client.receive("23100005000102") == [])
    #expect(client.receive("1d10") == ["1e"])
    #expect(client.receive("1d0800" + Self.full) == ["1e"])
    #expect(client.receive("1b0800" + Self.full) == [])
    #expect(client.events() == [])
  }

  @Test func everyIndicationOfAFloodIsConfirmed() {
    var client = ScriptedBearer()
    var confirmations = 0
    for _ in 0..<10_000 {
      confirmations += client.receive("1d7f0001").count
      client.bearer.output.removeEvents()
    }
    #expect(confirmations == 10_000)
  }
}
