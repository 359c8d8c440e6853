// SPDX-License-Identifier: Apache-2.0

import BLECore
import BLEHCI
import TestSupport
import Testing

struct CatalogTests {
  @Test func everyCommandHasANameAndABit() {
    #expect(HCICatalog.commands.count == 81)
    #expect(Set(HCICatalog.commands.map { $0.opcode.rawValue }).count == 81)
    var commands = SupportedCommands()
    for type in HCICatalog.commands {
      #expect(!type.opcode.description.hasPrefix("command"), "\(type)")
      #expect(!commands.contains(type.opcode), "\(type) shares its bit")
      commands.insert(type.opcode)
      #expect(commands.contains(type.opcode), "\(type)")
      #expect(HCICatalog.command(type.opcode) == type)
    }
    for type in HCICatalog.commands { commands.remove(type.opcode) }
    #expect(commands == SupportedCommands())
  }

  @Test func supportedCommandsAreTheTablesBits() throws {
    var bytes = [UInt8](repeating: 0, count: 64)
    bytes[5] = 0xC0
    bytes[41] = 0x20
    let commands = try SupportedCommands.decode(bytes)
    let supported = HCICatalog.commands.filter { commands.contains($0.opcode) }.map { "\($0)" }
    #expect(supported == ["SetEventMask", "Reset", "LEReadBufferSizeV2"])
    #expect(!commands.contains(HCIOpcode(rawValue: 0xFC01)))
    #expect(commands.encoded == bytes)
    #expect(commands[octet: 41, bit: 5] && !commands[octet: 200, bit: 0])
  }

  @Test func opcodesAreNamed() {
    #expect(LESetScanEnable.opcode.description == "LE Set Scan Enable (0x200C)")
    #expect(LEReadBufferSizeV2.opcode.description == "LE Read Buffer Size [v2] (0x2060)")
    #expect(HCIOpcode(rawValue: 0).description == "no command (0x0000)")
    #expect(HCIOpcode(rawValue: 0xFC01).description == "vendor command 0xFC01")
    #expect(HCIOpcode(rawValue: 0x23FF).description == "command 0x23FF")
  }

  @Test func statusesAreNamedAndAdvise() {
    #expect(HCIStatus.success.description == "Success (0x00)")
    #expect(
      HCIStatus.connectionTimeout.description
        == "Connection Timeout (0x08): the peer is out of range or switched off")
    #expect(HCIStatus(rawValue: 0xEE).description == "error 0xEE" && HCIStatus(rawValue: 0xEE).name == nil)
  }

  @Test func eventMasks() {
    #expect(EventMask.bit(.disconnectionComplete) == 1 << 4)
    #expect(EventMask.bit(.leMeta) == 1 << 61 && EventMask.initial & EventMask.bit(.leMeta) == 0)
    #expect(EventMask.leHost == 0x2000_8000_0200_8890)
    #expect(EventMask.bit(.encryptionChangeV2) == 0)
    #expect(LEEventMask.bit(.enhancedConnectionCompleteV2) == 1 << 40)
    #expect(LEEventMask.bits([.connectionComplete, .channelSelectionAlgorithm]) == 0x8_0001)
    #expect(LEEventMask.bit(LESubevent(rawValue: 0)) == 0 && LEEventMask.bit(LESubevent(rawValue: 65)) == 0)
  }

  @Test func failedCommandsMayAnswerStatusAlone() throws {
    let failed = try LEReadPHY.ReturnParameters.decode([0x02])
    #expect(failed == LEReadPHY.ReturnParameters(status: .unknownConnectionIdentifier))
    #expect(try LEReadPHY.ReturnParameters.decode([0x02, 0x01]) == failed)
    #expect(throws: DecodeError.self) { try LEReadPHY.ReturnParameters.decode([0x00]) }
    let key = [UInt8](repeating: 0, count: 16)
    #expect(LEEncrypt.ReturnParameters(status: .hardwareFailure).encryptedData == key)
  }

  @Test func overlongValuesAreCutToTheirFields() {
    let long = [UInt8](repeating: 1, count: 400)
    #expect(LESetAdvertisingData(data: long).encoded == [31] + long.prefix(31))
    let data = LESetExtendedAdvertisingData(
      advertisingHandle: 0, operation: .complete, fragmentPreference: 0, advertisingData: long)
    #expect(data.encoded.count == 4 + 251)
    #expect(LEEncrypt(key: [], plaintextData: long).encoded.count == 32)
    let packets = (0..<100).map {
      CompletedPackets(connectionHandle: ConnectionHandle(rawValue: UInt16($0)), numCompletedPackets: 1)
    }
    #expect(NumberOfCompletedPackets(handles: packets).encoded.count == 1 + 63 * 4)
  }

  @Test func flagsAreZeroOrOne() throws {
    #expect(try LESetAdvertisingEnable.decode([1]).enable)
    #expect(throws: DecodeError.invalidValue(field: "Enable", value: 2, offset: 0)) {
      try LESetAdvertisingEnable.decode([2])
    }
    #expect(throws: DecodeError.trailingBytes(count: 1, offset: 1)) { try LESetAdvertisingEnable.decode([1, 0]) }
  }
}
