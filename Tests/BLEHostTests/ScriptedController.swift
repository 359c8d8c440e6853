// SPDX-License-Identifier: Apache-2.0

import BLECore
import BLEHCI
import BLERadio

/// A stranger's controller: it answers commands as a test says, and says nothing where it is told to forget.
final class ScriptedController: HCIReceiver {
  private let transport: any HCITransport
  /// How a command is answered; nil: as a plain controller would.
  var answers: [HCIOpcode: Answer] = [:]
  /// Who gets the host's ACL data; it is not acknowledged.
  weak var dataReceiver: (any HCIReceiver)?
  private(set) var received: [HCIOpcode] = []
  private(set) var parameters: [HCIOpcode: [UInt8]] = [:]

  enum Answer {
    /// Command Complete with these return parameters.
    case complete([UInt8])
    case status(HCIStatus)
    case silence
  }

  init(_ transport: any HCITransport) {
    self.transport = transport
    transport.receiver = self
  }

  func transportClosed(_ error: HCITransportError) {}

  func receive(_ type: HCIPacketType, _ payload: RawSpan) {
    guard type == .command else {
      dataReceiver?.receive(type, payload)
      return
    }
    var reader = ByteReader(payload)
    guard let raw = try? reader.u16(), (try? reader.u8()) != nil else { return }
    let opcode = HCIOpcode(rawValue: raw)
    received.append(opcode)
    parameters[opcode] = reader.restArray()
    switch answers[opcode] ?? Self.plain(opcode) {
    case .complete(let bytes): complete(opcode, bytes)
    case .status(let status): event(.commandStatus, [status.rawValue, 1] + opcode.octets)
    case .silence: break
    }
  }

  func complete(_ opcode: HCIOpcode, _ bytes: [UInt8]) { event(.commandComplete, [1] + opcode.octets + bytes) }

  func event(_ code: HCIEventCode, _ parameters: [UInt8]) {
    let packet = [code.rawValue, UInt8(parameters.count)] + parameters
    transport.send(.event, packet.span.bytes)
  }

  func meta(_ subevent: LESubevent, _ parameters: [UInt8]) { event(.leMeta, [subevent.rawValue] + parameters) }

  /// A packet with its H4 indicator, whatever it is.
  func sendRaw(_ packet: [UInt8]) {
    guard let indicator = packet.first else { return }
    let payload = Array(packet.dropFirst())
    transport.send(HCIPacketType(rawValue: indicator), payload.span.bytes)
  }

  func sendACL(_ bytes: [UInt8]) { transport.send(.aclData, bytes.span.bytes) }

  /// A controller of Bluetooth 4.2 with a public address, which supports everything.
  private static func plain(_ opcode: HCIOpcode) -> Answer {
    switch opcode {
    case ReadLocalVersionInformation.opcode: .complete([0, 8, 0, 0, 8, 0x0F, 0, 1, 0])
    case ReadLocalSupportedCommands.opcode: .complete([0] + [UInt8](repeating: 0xFF, count: 64))
    case ReadBDADDR.opcode: .complete([0, 1, 2, 3, 4, 5, 6])
    case LEReadLocalSupportedFeatures.opcode: .complete([0, 0x20, 0, 0, 0, 0, 0, 0, 0])
    case LEReadBufferSizeV2.opcode: .complete([0, 251, 0, 8, 0, 0, 0])
    case LEReadBufferSize.opcode: .complete([0, 251, 0, 8])
    case LEReadFilterAcceptListSize.opcode: .complete([0, 8])
    case LEReadMaximumDataLength.opcode: .complete([0, 251, 0, 0x48, 8, 251, 0, 0x48, 8])
    case LECreateConnection.opcode, Disconnect.opcode, LEReadRemoteFeatures.opcode: .status(.success)
    case ReadRSSI.opcode: .complete([0, 0x40, 0, 0xC4])
    case LESetDataLength.opcode: .complete([0, 0x40, 0])
    default: .complete([0])
    }
  }
}

extension HCIOpcode {
  var octets: [UInt8] { [UInt8(truncatingIfNeeded: rawValue), UInt8(truncatingIfNeeded: rawValue >> 8)] }
}
