// SPDX-License-Identifier: Apache-2.0

import BLECore
import BLEHCI
import TestSupport
import Testing

@testable import BLERadio

private func channelMap(_ bytes: [UInt8]) -> UInt64 {
  bytes.enumerated().reduce(0) { $0 | UInt64($1.element) << UInt64(8 * $1.offset) }
}

@Suite struct LinkLayerTests {
  @Test func channelSelectionAlgorithm1() throws {
    let cases = try VectorFile("ll_encryption").root.objects("channel_selection_1")
    #expect(cases.count == 10)
    for vector in cases {
      let map = channelMap(try #require(vector.bytes("channel_map_wire")))
      let expected = try #require(vector.object["channel_sequence"] as? [Int])
      let hop = UInt8(try #require(vector.int("hop_increment")))
      var selector = ChannelSelector(hopIncrement: hop, channelMap: map)
      let channels = expected.indices.map { Int(selector.advance(to: UInt16($0), distance: 1)) }
      #expect(channels == expected, "\(vector)")
      // Skipped events count: every third one.
      var skipping = ChannelSelector(hopIncrement: hop, channelMap: map)
      for index in stride(from: 2, to: expected.count, by: 3) {
        #expect(Int(skipping.advance(to: UInt16(index), distance: 3)) == expected[index], "\(vector) \(index)")
      }
    }
  }

  @Test func channelSelectionAlgorithm2() throws {
    let cases = try VectorFile("ll_encryption").root.objects("channel_selection_2")
    #expect(cases.count == 31)
    for vector in cases {
      let bytes = try #require(vector.bytes("access_address"))
      let address = bytes.reduce(UInt32(0)) { $0 << 8 | UInt32($1) }
      let counter = UInt16(try #require(vector.int("event_counter")))
      let map = channelMap(try #require(vector.bytes("channel_map_wire")))
      let identifier = UInt16(truncatingIfNeeded: address ^ address >> 16)
      #expect(Int(ChannelSelector.permuted(counter, identifier)) == vector.int("prn_e"), "\(vector)")
      var selector = ChannelSelector(accessAddress: address, channelMap: map)
      #expect(Int(selector.advance(to: counter, distance: 1)) == vector.int("channel"), "\(vector) \(counter)")
    }
  }

  @Test func accessAddressesKeepTheRules() {
    var random = SeededGenerator(seed: 7)
    for _ in 0..<1_000 {
      let address = AccessAddress.random(using: &random)
      let bits = (0..<32).map { address >> UInt32($0) & 1 }
      var run = 1
      var changes = 0
      for index in 1..<32 {
        run = bits[index] == bits[index - 1] ? run + 1 : 1
        changes += bits[index] == bits[index - 1] ? 0 : 1
        #expect(run <= 6)
      }
      #expect(changes <= 24)
      #expect((address ^ LinkLayer.advertisingAccessAddress).nonzeroBitCount > 1)
    }
    #expect(!AccessAddress.isValid(LinkLayer.advertisingAccessAddress))
    #expect(!AccessAddress.isValid(LinkLayer.advertisingAccessAddress ^ 0x100))
    #expect(!AccessAddress.isValid(0x5555_5555))
    #expect(!AccessAddress.isValid(0x6B6B_6B6B))
    #expect(!AccessAddress.isValid(0x0000_1234))
    #expect(!AccessAddress.isValid(0x0265_3A59))
    #expect(AccessAddress.isValid(0xA265_3A59))
  }

  @Test func airTimes() {
    let expected: [(Int, Int, Int, Int, Int)] = [
      (0, 80, 44, 720, 462), (27, 296, 152, 2_448, 894), (31, 328, 168, 2_704, 958), (251, 2_088, 1_048, 16_784, 4_478),
      (255, 2_120, 1_064, 17_040, 4_542),
    ]
    for (count, le1M, le2M, s8, s2) in expected {
      #expect(AirPHY.le1M.airTime(payloadCount: count) == .microseconds(le1M))
      #expect(AirPHY.le2M.airTime(payloadCount: count) == .microseconds(le2M))
      #expect(AirPHY.leCoded.airTime(payloadCount: count, coding: .s8) == .microseconds(s8))
      #expect(AirPHY.leCoded.airTime(payloadCount: count, coding: .s2) == .microseconds(s2))
    }
    for phy in AirPHY.allCases {
      for coding in AirCoding.allCases {
        for count in 0...255 {
          let time = phy.airTime(payloadCount: count, coding: coding).nanoseconds
          #expect(phy.payloadCount(in: time, coding: coding) == count)
          #expect(phy.payloadCount(in: time - 1, coding: coding) < count)
        }
      }
    }
  }

  private let controlPDUs: [LLControlPDU] = [
    .connectionUpdateInd(
      winSize: 1, winOffset: 2, interval: ConnectionInterval(rawValue: 6), latency: 3,
      timeout: SupervisionTimeout(rawValue: 200), instant: 0x1234),
    .channelMapInd(channelMap: 0x1F_FFFF_FFFE, instant: 9), .terminateInd(.remoteUserTerminatedConnection),
    .unknownRsp(opcode: 0x30), .featureReq(0x1234_5678_9ABC_DEF0), .featureRsp(5),
    .versionInd(version: 12, company: 0xFFFF, subversion: 1), .rejectInd(.llProcedureCollision),
    .peripheralFeatureReq(1), .rejectExtInd(opcode: 0x0F, .unsupportedRemoteFeature), .pingReq, .pingRsp,
    .lengthReq(.init(maxRxOctets: 251, maxRxTime: 2120, maxTxOctets: 27, maxTxTime: 328)),
    .lengthRsp(.init(maxRxOctets: 1, maxRxTime: 2, maxTxOctets: 3, maxTxTime: 4)),
    .encReq(.init(randomNumber: 0xABCD_EF12_3456_7890, diversifier: 0x2474, half: .init(skd: 1, iv: 2))),
    .encRsp(.init(skd: 0x0213_2435_4657_6879, iv: 0xDEAF_BABE)), .startEncReq, .startEncRsp, .pauseEncReq,
    .pauseEncRsp,
    .connectionParamReq(
      .init(
        ConnectionParameterRange(
          intervalMin: ConnectionInterval(rawValue: 6), intervalMax: ConnectionInterval(rawValue: 12), latency: 3,
          supervisionTimeout: SupervisionTimeout(rawValue: 200)), referenceEventCount: 0x1234)),
    .connectionParamRsp(
      .init(
        ConnectionParameterRange(
          intervalMin: ConnectionInterval(rawValue: 0), intervalMax: ConnectionInterval(rawValue: 1), latency: 0xFFFF,
          supervisionTimeout: SupervisionTimeout(rawValue: 1)), referenceEventCount: 0)),
    .phyReq(tx: .le2M, rx: [.le1M, .leCoded]), .phyRsp(tx: PHYMask(rawValue: 0xFF), rx: []),
    .phyUpdateInd(central: .le2M, peripheral: [], instant: 0x4321),
    .minUsedChannelsInd(phys: .le1M, count: 20), .clockAccuracyReq(5), .clockAccuracyRsp(7),
    .unknown(opcode: 0x2A, data: [1, 2]),
  ]
  /// Octets of CtrData by opcode (Vol 6 Part B 2.4.2).
  private let lengths: [UInt8: Int] = [
    0x00: 11, 0x01: 7, 0x02: 1, 0x07: 1, 0x08: 8, 0x09: 8, 0x0C: 5, 0x0D: 1, 0x0E: 8, 0x11: 2, 0x12: 0, 0x13: 0,
    0x14: 8, 0x15: 8, 0x2A: 2, 0x03: 22, 0x04: 12, 0x05: 0, 0x06: 0, 0x0A: 0, 0x0B: 0, 0x0F: 23, 0x10: 23, 0x16: 2,
    0x17: 2, 0x18: 4, 0x19: 2, 0x1D: 1, 0x1E: 1,
  ]

  @Test func controlPDUsSurviveTheWire() throws {
    for pdu in controlPDUs {
      #expect(try LLControlPDU.decode(pdu.encoded) == pdu)
      #expect(pdu.encoded.count == 1 + (lengths[pdu.opcode] ?? -1), "\(pdu)")
      #expect(pdu.encoded.first == pdu.opcode)
      // Another length than its own makes an opcode unknown.
      guard pdu.opcode != 0x2A else { continue }
      let stretched = pdu.encoded + [0]
      #expect(
        try LLControlPDU.decode(stretched) == .unknown(opcode: pdu.opcode, data: Array(stretched.dropFirst())))
      guard pdu.encoded.count > 1 else { continue }
      let cut = Array(pdu.encoded.dropLast())
      #expect(try LLControlPDU.decode(cut) == .unknown(opcode: pdu.opcode, data: Array(cut.dropFirst())))
    }
    #expect(throws: DecodeError.self) { try LLControlPDU.decode([]) }
  }

  @Test func anyBytesAreAControlPDUOrNone() throws {
    for bytes in HostileBytes(seed: 11, count: 100_000, examples: controlPDUs.map(\.encoded)) {
      guard let pdu = try? LLControlPDU.decode(bytes) else {
        #expect(bytes.isEmpty)
        continue
      }
      // Not #expect, which takes longer than what it looks at.
      if try LLControlPDU.decode(pdu.encoded) != pdu { Issue.record("seed 11: \(bytes.hex)") }
    }
  }

  @Test func connectionRequestDataSurvivesTheWire() throws {
    let parameters = ConnectionParameters(
      interval: ConnectionInterval(rawValue: 24), latency: 1, supervisionTimeout: SupervisionTimeout(rawValue: 72))
    let request = ConnectionRequestData(
      accessAddress: 0xA265_3A59, crcInit: 0xABCDEF, winSize: 2, winOffset: 3, parameters: parameters,
      channelMap: 0x1F_FFFF_FFFF, hop: 9, sca: 5)
    #expect(request.encoded.count == 22)
    #expect(try ConnectionRequestData.decode(request.encoded) == request)
    #expect(request.encoded.hex == "593a65a2efcdab020300180001004800ffffffff1fa9")
    #expect(request.isValid)
    var broken = request
    broken.hop = 4
    #expect(!broken.isValid)
    broken = request
    broken.channelMap = 1
    #expect(!broken.isValid)
    broken = request
    broken.winSize = 0
    #expect(!broken.isValid)
    broken = request
    broken.timeout = SupervisionTimeout(rawValue: 10)
    #expect(!broken.isValid)
  }
}

@Suite struct LinkTransferTests {
  private let data = (0..<100).map { UInt8($0) }

  /// Makes the next PDU, and says how the peer sees it.
  private func next(_ transfer: inout LinkTransfer, octets: Int = 251) -> (header: DataHeader, payload: [UInt8]) {
    _ = transfer.prepare(octets: octets)
    let isSealed = transfer.seal()
    #expect(isSealed)
    return (DataHeader(transfer.pdu[0]), Array(transfer.pdu.dropFirst(2)))
  }

  private func acknowledge(_ transfer: inout LinkTransfer, nesn: Bool) -> LinkTransfer.Acknowledged? {
    transfer.acknowledge(nesn: nesn)
  }

  private func accept(_ transfer: inout LinkTransfer, sn: Bool) -> Bool { transfer.accept(sn: sn) }

  @Test func aPacketIsCutToTheDataLength() {
    var transfer = LinkTransfer()
    transfer.enqueue(.start, data.span.bytes)
    var got: [UInt8] = []
    var llids: [LLID] = []
    var nesn = true
    for _ in 0..<4 {
      let pdu = next(&transfer)
      got += pdu.payload
      llids.append(pdu.header.llid)
      #expect(pdu.header.md == (llids.count < 4))
      #expect(pdu.header.sn != nesn)
      let acknowledged = acknowledge(&transfer, nesn: nesn)
      #expect(acknowledged == .data(endsPacket: llids.count == 4))
      nesn.toggle()
    }
    #expect(got == data)
    #expect(llids == [.start, .continuation, .continuation, .continuation])
    #expect(!transfer.hasDataToSend)
    #expect(next(&transfer).payload.isEmpty)
  }

  @Test func whatIsNotAcknowledgedIsSentAgain() {
    var transfer = LinkTransfer()
    transfer.enqueue(.start, [1, 2, 3].span.bytes)
    let first = next(&transfer)
    #expect(acknowledge(&transfer, nesn: first.header.sn) == nil)
    // A control PDU that comes meanwhile must wait, and so shows in MD.
    transfer.enqueue(.pingReq)
    let again = next(&transfer)
    #expect(again.payload == first.payload)
    #expect(again.header.sn == first.header.sn)
    #expect(again.header.md)
    #expect(acknowledge(&transfer, nesn: !first.header.sn) == .data(endsPacket: true))
    #expect(next(&transfer).payload == [0x12])
    #expect(acknowledge(&transfer, nesn: first.header.sn) == .control(opcode: 0x12))
  }

  @Test func oldPacketsAreIgnored() {
    var transfer = LinkTransfer()
    #expect(accept(&transfer, sn: false))
    #expect(!accept(&transfer, sn: false))
    #expect(accept(&transfer, sn: true))
    #expect(next(&transfer).header.nesn == false)
  }

  @Test func whatDoesNotFitMakesRoomForAnEmptyPDU() {
    var transfer = LinkTransfer()
    transfer.maxTxOctets = 251
    transfer.enqueue(.start, data.span.bytes)
    let empty = next(&transfer, octets: 99)
    #expect(empty.payload.isEmpty)
    #expect(empty.header.md)
    #expect(acknowledge(&transfer, nesn: true) == .empty)
    #expect(next(&transfer, octets: 100).payload == data)
  }
}
