// SPDX-License-Identifier: Apache-2.0

import BLECore
import BLESystem
import Testing

@testable import ble

@Suite struct CommandTests {
  static let identifier = PeerIdentifier(high: 0x0123_4567_89AB_CDEF, low: 0x0011_2233_4455_6677)

  /// A peer with Generic Access, a battery, and a service that includes a secondary one.
  static var peer: ScriptedLink.Peer {
    let address = DeviceAddress(BDAddress(0xC011_2233_4455), type: .random)
    let info = PeerInfo(identifier: identifier, name: "Sensor\u{1B}", address: address)
    var discovery = Discovery(peer: info, isConnectable: true, rssi: -40)
    discovery.localName = "Sensor\u{1B}"
    discovery.services = [0x180F]
    discovery.manufacturerData = [0xFF, 0xFF, 1]
    var peer = ScriptedLink.Peer(info: info, discovery: discovery)
    let battery = ServiceRecord(handles: 10...13, uuid: 0x180F, isPrimary: true)
    let hidden = ServiceRecord(handles: 20...21, uuid: 0x1812, isPrimary: false)
    peer.services = [
      (ServiceRecord(handles: 1...3, uuid: 0x1800, isPrimary: true), []), (battery, [hidden]), (hidden, []),
    ]
    func characteristic(
      _ handle: UInt16, _ properties: UInt8, _ uuid: BluetoothUUID, _ descriptors: [DescriptorRecord] = []
    ) {
      let end = descriptors.last?.handle ?? handle + 1
      peer.characteristics.append(
        (
          CharacteristicRecord(
            declarationHandle: handle, valueHandle: handle + 1, endHandle: end, properties: properties, uuid: uuid),
          descriptors
        ))
    }
    characteristic(2, 0x02, 0x2A00)
    characteristic(11, 0x12, 0x2A19, [DescriptorRecord(handle: 13, uuid: 0x2902)])
    characteristic(20, 0x0E, 0x2A4D)
    peer.values = [
      3: .success(Array("Sensor".utf8)), 12: .success([87, 88]), 13: .success([0, 0]),
      21: .failure(SystemError(.att(5))),
    ]
    peer.notifications = [[1], [2], [3]]
    return peer
  }

  @Test func theRadioOfOthersIsInRealTime() async throws {
    for speed in ["10", "virtual", "0.5"] {
      let result = try await runTool(["sim", "--listen", "unix:/nonexistent/radio", "--speed", speed], peer: nil)
      #expect("\(result.failure.map { "\($0)" } ?? "")".contains("does not go with --listen"))
    }
  }

  @Test func exploreGivesTheTreeAsTheIssueHasIt() async throws {
    let result = try await runTool(["explore", "--service", "180F", "--json"], peer: Self.peer)
    #expect(result.failure == nil)
    #expect(
      result.lines == [
        #"{"name":"Sensor\u001b","identifier":"01234567-89AB-CDEF-0011-223344556677","address":"C0:11:22:33:44:55","#
          + #""services":[{"uuid":"1800","name":"Generic Access","handle":1,"primary":true,"included":[],"#
          + #""characteristics":[{"uuid":"2A00","name":"Device Name","handle":3,"properties":["read"],"#
          + #""value":"53656e736f72","text":"Sensor","descriptors":[]}]},"#
          + #"{"uuid":"180F","name":"Battery","handle":10,"primary":true,"included":["1812"],"#
          + #""characteristics":[{"uuid":"2A19","name":"Battery Level","handle":12,"properties":["read","notify"],"#
          + #""value":"5758","text":"WX","descriptors":[{"uuid":"2902","handle":13,"value":"0000"}]}]},"#
          + #"{"uuid":"1812","name":"Human Interface Device","handle":20,"primary":false,"included":[],"#
          + #""characteristics":[{"uuid":"2A4D","name":"Report","handle":21,"#
          + #""properties":["read","writeWithoutResponse","write"],"value":null,"text":null,"descriptors":[]}]}]}"#
      ])
    #expect(result.requests.last == .cancelConnection(Self.identifier))
  }

  @Test func exploreForPeopleIsHarmlessAndSaysWhatFailed() async throws {
    let result = try await runTool(["explore", "--id", "01234567-89ab-cdef-0011-223344556677"], peer: Self.peer)
    #expect(result.failure == nil)
    #expect(result.lines.first == "Sensor\\u{1b}")
    #expect(result.lines.contains("0x000c    2A19 Battery Level  [read, notify]"))
    #expect(result.lines.contains("          not readable: Insufficient Authentication (ATT 0x05)"))
  }

  @Test func theAppViewHidesWhatCoreBluetoothHides() async throws {
    let result = try await runTool(["explore", "--service", "180F", "--app-view"], peer: Self.peer)
    #expect(!result.lines.contains { $0.contains("1800") } && result.lines.contains { $0.contains("180F") })
  }

  @Test func readPrintsOneValue() async throws {
    let line = ["read", "--name", "Sensor\u{1B}", "180F", "2A19"]
    #expect(try await runTool(line + ["--json"], peer: Self.peer).lines == [#"{"value":"5758","text":"WX"}"#])
    #expect(try await runTool(line, peer: Self.peer).lines == [#"5758  "WX""#])
  }

  @Test func subscribeEndsAfterItsCountAndUnsubscribes() async throws {
    let line = ["subscribe", "--service", "180F", "180F", "2A19", "--count", "2", "--json"]
    let result = try await runTool(line, peer: Self.peer)
    #expect(result.failure == nil)
    #expect(result.lines == [#"{"value":"01","text":null}"#, #"{"value":"02","text":null}"#])
    let switches = result.requests.compactMap { if case .setNotify(_, _, _, let isOn) = $0 { isOn } else { nil } }
    #expect(switches == [true, false])
  }

  @Test func writesWithAndWithoutResponse() async throws {
    let line = ["write", "--service", "180F", "180F", "2A19"]
    let written = try await runTool(line + ["0aff", "--json"], peer: Self.peer)
    #expect(written.lines == [#"{"event":"written","value":"0aff","response":true}"#])
    let link = LinkReference(peer: Self.identifier, epoch: 1)
    #expect(written.requests.contains { if case .writeValue(_, link, 12, [0x0A, 0xFF]) = $0 { true } else { false } })
    let refused = try await runTool(line + [""], peer: Self.peer)
    #expect(refused.failure?.kind == .failed && refused.failure?.description.contains("0x80") == true)
    let impossible = try await runTool(line + ["00", "--without-response"], peer: Self.peer)
    #expect(impossible.failure?.description.contains("does not have the property writeWithoutResponse") == true)
  }

  @Test(arguments: [
    (["read", "--service", "180F", "180D", "2A37"], Failure.Kind.notFound, "has no service 180D Heart Rate"),
    (["read", "--service", "180F", "180F", "2A37"], .notFound, "no characteristic 2A37 Heart Rate Measurement"),
    (["read", "--service", "18", "180F", "2A37"], .usage, "is no UUID"),
    (["read", "--id", "180F", "180F", "2A37"], .usage, "is no identifier"),
    (["write", "--service", "180F", "180F", "2A19", "0"], .usage, "is no value"),
    (["write", "--service", "180F", "180F", "2A19"], .usage, "needs a value"),
    (["write", "--service", "180F", "180F", "2A19", "00", "--text", "a"], .usage, "write one of them"),
    (["subscribe", "--service", "180F", "180F", "2A19", "--count", "0"], .usage, "--count is a whole number"),
    (["explore", "--name", "Other", "--timeout", "0.05"], .notFound, "the peer named \"Other\" was not heard"),
    (["serve", "/nonexistent.json"], .usage, "cannot be read: No such file"),
  ]) func failures(line: [String], kind: Failure.Kind, text: String) async throws {
    let failure = try await runTool(line, peer: Self.peer).failure
    #expect(failure?.kind == kind)
    #expect(failure?.description.contains(text) == true, "\(String(describing: failure))")
  }

  @Test(arguments: [AdapterState.unsupported, .unauthorized, .poweredOff]) func withoutPower(state: AdapterState)
    async throws
  {
    for line in [["scan"], ["explore", "--name", "X"], ["read", "--name", "X", "180F", "2A19"]] {
      #expect(try await runTool(line, peer: Self.peer, states: [.resetting, state]).failure?.kind == .noAdapter)
    }
    let stuck = try await runTool(["scan", "--timeout", "0.05"], peer: nil, states: [.resetting]).failure
    #expect(stuck?.kind == .noAdapter)
  }

  @Test func connectionsThatFail() async throws {
    let refused = try await runTool(["explore", "--service", "180F"], peer: Self.peer, refusesToConnect: true).failure
    #expect(refused?.kind == .failed && refused?.description.contains("no luck") == true)
  }

  @Test func scanPrintsPeersUntilItsTimeIsOver() async throws {
    let result = try await runTool(["scan", "--for", "0.05", "--json", "--service", "180F"], peer: Self.peer)
    #expect(result.failure == nil)
    #expect(
      result.lines == [
        #"{"event":"discovered","name":"Sensor\u001b","identifier":"01234567-89AB-CDEF-0011-223344556677","#
          + #""address":"C0:11:22:33:44:55","addressType":"random","rssi":-40,"connectable":true,"services":["180F"],"#
          + #""manufacturerData":"ffff01"}"#
      ])
    #expect(result.requests == [.startScan(ScanOptions(services: [0x180F]))])
    let ended = try await runTool(["scan", "--timeout", "0.05"], peer: Self.peer)
    #expect(ended.failure?.kind == .timedOut && ended.lines[0].contains("Sensor\\u{1b}"))
  }
}
