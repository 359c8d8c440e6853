// SPDX-License-Identifier: Apache-2.0

import BLECore
import BLEL2CAP
import TestSupport
import Testing

@Suite struct SignalingPDUTests {
  @Test func validVectorsDecodeAndEncodeToThemselves() throws {
    let cases = try VectorFile("l2cap_signaling").cases.filter { $0.bool("valid") == true }
    #expect(cases.count == 89)
    for example in cases {
      let pdu = try #require(example.bytes("pdu"))
      let packet = try SignalingPacket.decode(pdu)
      #expect(packet.encoded == pdu, "\(example)")
      #expect(Int(packet.identifier) == example.int("identifier"), "\(example)")
      #expect([packet.content.code.rawValue].hex == example.string("code"), "\(example)")
      let decoded = try #require(example.child("decoded"))
      #expect(Self.disagreement(packet.content, decoded) == nil, "\(example)")
    }
  }

  /// The first field in which a packet differs from the vector's account of it.
  static func disagreement(_ content: SignalingPacket.Content, _ decoded: VectorCase) -> String? {
    let fields: [String: Int?] =
      switch content {
      case .connectionParameterUpdateRequest(let request):
        [
          "interval_min": Int(request.parameters.intervalMin.rawValue),
          "interval_max": Int(request.parameters.intervalMax.rawValue), "latency": Int(request.parameters.latency),
          "timeout": Int(request.parameters.supervisionTimeout.rawValue),
        ]
      case .connectionParameterUpdateResponse(let response): ["result": Int(response.result)]
      case .leCreditBasedConnectionRequest(let request):
        [
          "spsm": Int(request.spsm), "source_cid": Int(request.sourceCID.rawValue), "mtu": Int(request.mtu),
          "mps": Int(request.mps), "initial_credits": Int(request.initialCredits),
        ]
      case .leCreditBasedConnectionResponse(let response):
        [
          "destination_cid": Int(response.destinationCID.rawValue), "mtu": Int(response.mtu),
          "mps": Int(response.mps), "initial_credits": Int(response.initialCredits),
          "result": Int(response.result.rawValue),
        ]
      case .flowControlCreditIndication(let credit):
        ["cid": Int(credit.cid.rawValue), "credits": Int(credit.credits)]
      case .disconnectionRequest(let request):
        ["destination_cid": Int(request.destinationCID.rawValue), "source_cid": Int(request.sourceCID.rawValue)]
      case .disconnectionResponse(let response):
        ["destination_cid": Int(response.destinationCID.rawValue), "source_cid": Int(response.sourceCID.rawValue)]
      case .creditBasedConnectionRequest(let request):
        ["spsm": Int(request.spsm), "mtu": Int(request.mtu), "mps": Int(request.mps)]
      case .creditBasedConnectionResponse(let response):
        ["mtu": Int(response.mtu), "mps": Int(response.mps), "result": Int(response.result.rawValue)]
      case .creditBasedReconfigureRequest(let request): ["mtu": Int(request.mtu), "mps": Int(request.mps)]
      case .creditBasedReconfigureResponse(let response): ["result": Int(response.result.rawValue)]
      case .commandReject(let reject): ["reason": Self.number(reject.reason)]
      case .unknown: ["unknown": nil]
      }
    for (name, value) in fields {
      let expected = decoded.int(name) ?? decoded.string(name).flatMap { Int($0, radix: 16) }
      if expected == nil || expected != value { return name }
    }
    return nil
  }

  static func number(_ reason: CommandReject.Reason) -> Int {
    switch reason {
    case .commandNotUnderstood: 0
    case .signalingMTUExceeded: 1
    case .invalidCID: 2
    case .other(let reason, _): Int(reason)
    }
  }

  @Test func anyTruncationThrows() throws {
    for example in try VectorFile("l2cap_signaling").cases where example.bool("valid") == true {
      let pdu = try #require(example.bytes("pdu"))
      for count in 0..<pdu.count {
        #expect(throws: DecodeError.self, "\(example)") { try SignalingPacket.decode(Array(pdu.prefix(count))) }
      }
    }
  }

  @Test func anyBytesDecodeToWhatEncodesAgainOrThrow() throws {
    let examples = try VectorFile("l2cap_signaling").cases.compactMap { $0.bytes("pdu") }
    let hostile = HostileBytes(seed: 0x51_6A, count: 100_000, examples: examples)
    var decodedCount = 0
    for bytes in hostile {
      guard let packet = try? SignalingPacket.decode(bytes) else { continue }
      decodedCount += 1
      if try SignalingPacket.decode(packet.encoded) != packet { Issue.record("seed \(hostile.seed): \(bytes.hex)") }
    }
    #expect(decodedCount > 1_000)
  }
}

@Suite struct SignalingMachineTests {
  static let parameters = ConnectionParameterRange(
    intervalMin: ConnectionInterval(rawValue: 24), intervalMax: ConnectionInterval(rawValue: 40), latency: 4,
    supervisionTimeout: SupervisionTimeout(rawValue: 600))

  static func receive(_ machine: inout SignalingMachine, _ hex: String, at seconds: Int = 0) -> [String] {
    receive(&machine, [UInt8](hex: hex) ?? [], at: seconds)
  }

  static func receive(_ machine: inout SignalingMachine, _ pdu: [UInt8], at seconds: Int = 0) -> [String] {
    machine.receive(pdu.span.bytes, now: .zero + .seconds(seconds))
    return sent(&machine)
  }

  static func request(
    _ machine: inout SignalingMachine, _ parameters: ConnectionParameterRange, at seconds: Int
  ) -> Bool {
    machine.requestParameterUpdate(parameters, now: .zero + .seconds(seconds))
  }

  static func sent(_ machine: inout SignalingMachine) -> [String] {
    var pdus: [String] = []
    while machine.outgoing.removeFirst({ pdus.append([UInt8]($1).hex) }) {}
    return pdus
  }

  /// What the vectors say about bad packets, as far as it does not need a channel.
  @Test func invalidVectorsGetTheirReaction() throws {
    var tested = 0
    for example in try VectorFile("l2cap_signaling").cases where example.bool("valid") == false {
      let pdu = try #require(example.bytes("pdu"))
      let reaction = try #require(example.child("receiver_reaction"))
      let peripheral = reaction.string("action") == "command_reject_when_we_are_peripheral"
      var machine = SignalingMachine(role: peripheral ? .peripheral : .central)
      let sent = Self.receive(&machine, pdu)
      tested += 1
      switch try #require(reaction.string("action")) {
      case "command_reject", "command_reject_when_we_are_peripheral":
        #expect(sent == [reaction.string("pdu")], "\(example)")
      case "command_reject_or_ignore", "respond_or_reject":
        #expect(sent.count <= 1, "\(example)")
      case "ignore" where example.name.contains("source CID mismatch"):
        // Without any channel the destination is unknown too.
        #expect(sent == ["01100600020040009900"], "\(example)")
      case "ignore", "fail_channel", "fail_missing_channels", "fail_duplicate_channels":
        #expect(sent == [], "\(example)")
      case "respond":
        let answer = try SignalingPacket.decode([UInt8](hex: try #require(sent.first)) ?? [])
        guard case .creditBasedConnectionResponse(let response) = answer.content else {
          Issue.record("\(example): \(answer)")
          continue
        }
        #expect(Int(response.result.rawValue) == reaction.string("result").flatMap { Int($0, radix: 16) }, "\(example)")
      case let other:
        Issue.record("unknown reaction \(other)")
      }
      #expect(machine.events == [], "\(example)")
    }
    #expect(tested == 25)
  }

  @Test func centralAsksItsHostAboutValidParameters() {
    var machine = SignalingMachine(role: .central)
    #expect(Self.receive(&machine, "120208001800280004005802") == [])
    #expect(machine.events == [.parameterUpdateRequested(Self.parameters, identifier: 2)])
    machine.respondToParameterUpdate(identifier: 3, isAccepted: true)
    #expect(Self.sent(&machine) == [])
    machine.respondToParameterUpdate(identifier: 2, isAccepted: true)
    #expect(Self.sent(&machine) == ["130202000000"])
    machine.respondToParameterUpdate(identifier: 2, isAccepted: true)
    #expect(Self.sent(&machine) == [])
  }

  /// The vectors' rejected requests, and their responses.
  @Test func centralRejectsInvalidParametersItself() throws {
    let cases = try VectorFile("l2cap_signaling").cases
    var tested = 0
    for response in cases where response.name.contains("update response rejected") {
      let request = try #require(
        cases.first { $0.string("code") == "12" && $0.string("exchange") == response.string("exchange") })
      var machine = SignalingMachine(role: .central)
      #expect(Self.receive(&machine, try #require(request.bytes("pdu"))) == [response.string("pdu")], "\(request)")
      #expect(machine.events == [])
      tested += 1
    }
    #expect(tested == 6)
  }

  @Test func peripheralRequestsAndIsAccepted() {
    var machine = SignalingMachine(role: .peripheral)
    #expect(Self.request(&machine, Self.parameters, at: 0))
    #expect(Self.sent(&machine) == ["120108001800280004005802"])
    #expect(!Self.request(&machine, Self.parameters, at: 5))
    #expect(Self.receive(&machine, "130202000000") == [])
    #expect(machine.events == [])
    #expect(Self.receive(&machine, "130102000000") == [])
    #expect(machine.events == [.parameterUpdateAnswered(isAccepted: true)])
    #expect(machine.nextDeadline == nil)
    #expect(Self.request(&machine, Self.parameters, at: 6))
    #expect(Self.sent(&machine) == ["120208001800280004005802"])
  }

  @Test func peripheralPausesAfterARefusal() {
    var machine = SignalingMachine(role: .peripheral)
    machine.requestParameterUpdate(Self.parameters, now: .zero)
    _ = Self.receive(&machine, "130102000100", at: 10)
    #expect(machine.events == [.parameterUpdateAnswered(isAccepted: false)])
    #expect(!Self.request(&machine, Self.parameters, at: 39))
    #expect(machine.nextDeadline == .zero + .seconds(40))
    machine.handleTimeout(now: .zero + .seconds(40))
    #expect(machine.nextDeadline == nil)
    #expect(Self.request(&machine, Self.parameters, at: 40))
  }

  @Test func commandRejectFailsTheRequest() {
    var machine = SignalingMachine(role: .peripheral)
    machine.requestParameterUpdate(Self.parameters, now: .zero)
    _ = Self.receive(&machine, "010102000000")
    #expect(machine.events == [.parameterUpdateFailed])
  }

  @Test func requestWithoutAnswerFailsAfter30Seconds() {
    var machine = SignalingMachine(role: .peripheral)
    machine.requestParameterUpdate(Self.parameters, now: .zero)
    #expect(machine.nextDeadline == .zero + .seconds(30))
    machine.handleTimeout(now: .zero + .milliseconds(29_999))
    #expect(machine.events == [])
    machine.handleTimeout(now: .zero + .seconds(30))
    #expect(machine.events == [.parameterUpdateFailed])
    _ = Self.receive(&machine, "130102000000", at: 31)
    #expect(machine.events == [.parameterUpdateFailed])
  }

  @Test func centralAndInvalidParametersSendNothing() {
    var central = SignalingMachine(role: .central)
    #expect(!Self.request(&central, Self.parameters, at: 0))
    var peripheral = SignalingMachine(role: .peripheral)
    var invalid = Self.parameters
    invalid.latency = 500
    #expect(!Self.request(&peripheral, invalid, at: 0))
    #expect(Self.sent(&peripheral) == [] && Self.sent(&central) == [])
  }

  @Test func channelRequestsAreRefused() {
    var machine = SignalingMachine(role: .central)
    #expect(Self.receive(&machine, "14100a00800040000002f7000a00") == ["15100a0000000000000000000200"])
    #expect(
      Self.receive(&machine, "17490c00800040004000010049004a00") == ["18490c00000000000000020000000000"])
    #expect(Self.receive(&machine, "19600800a002f70050005100") == ["1a6002000300"])
    #expect(Self.receive(&machine, "1630040040000a00") == [])
  }

  /// A response that is too long for us is not rejected: nobody asked for it, and a reject answers requests.
  @Test func overlongResponseIsIgnored() {
    var machine = SignalingMachine(role: .central)
    #expect(Self.receive(&machine, "01171400" + String(repeating: "00", count: 20)) == [])
  }

  @Test(arguments: [LinkRole.central, .peripheral])
  func anyBytesLeaveAWorkingMachine(role: LinkRole) throws {
    let examples = try VectorFile("l2cap_signaling").cases.compactMap { $0.bytes("pdu") }
    let hostile = HostileBytes(seed: 0x516B, count: 50_000, examples: examples)
    var machine = SignalingMachine(role: role)
    for bytes in hostile {
      let sent = Self.receive(&machine, bytes)
      let isValid = sent.count <= 1 && sent.allSatisfy { (try? SignalingPacket.decode([UInt8](hex: $0) ?? [])) != nil }
      if !isValid { Issue.record("seed \(hostile.seed): \(bytes.hex) is answered by \(sent)") }
      machine.events.removeAll(keepingCapacity: true)
    }
    let answer = Self.receive(&machine, "1201080006000c000000c800")
    #expect(role == .peripheral ? answer == ["010102000000"] : machine.events.count == 1)
  }
}
