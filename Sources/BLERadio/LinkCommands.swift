// SPDX-License-Identifier: Apache-2.0

import BLECore
import BLEHCI

/// Commands about encryption, PHYs and the peer's wishes for connection parameters.
extension VirtualController {
  // MARK: - Encryption

  func dispatchEncryption(_ opcode: UInt16, _ parameters: RawSpan) {
    switch opcode {
    case 0x2019: enableEncryption(parameters)
    case 0x201A:
      complete(LELongTermKeyRequestReply.self, parameters) { command in
        guard let link = link(command.connectionHandle) else { return .init(status: .unknownConnectionIdentifier) }
        guard link.isAwaitingKey else { return .init(status: .commandDisallowed) }
        guard isUsable(command.longTermKey) else { return .init(status: .invalidHCICommandParameters) }
        return .init(connectionHandle: link.handle)
      } then: { command, answer in
        if answer.status == .success { link(command.connectionHandle)?.answerKeyRequest(command.longTermKey) }
      }
    default:
      complete(LELongTermKeyRequestNegativeReply.self, parameters) { command in
        guard let link = link(command.connectionHandle) else { return .init(status: .unknownConnectionIdentifier) }
        guard link.isAwaitingKey else { return .init(status: .commandDisallowed) }
        return .init(connectionHandle: link.handle)
      } then: { command, answer in
        if answer.status == .success { link(command.connectionHandle)?.answerKeyRequest(nil) }
      }
    }
  }

  private func enableEncryption(_ parameters: RawSpan) {
    start(LEEnableEncryption.self, parameters) { command in
      guard let link = link(command.connectionHandle) else { return .unknownConnectionIdentifier }
      guard link.role == .central, !link.isEncryptionBusy else { return .commandDisallowed }
      guard isUsable(command.longTermKey) else { return .invalidHCICommandParameters }
      if let features = link.remoteFeatures, !features.contains(.encryption) { return .unsupportedRemoteFeature }
      return checkProcedure(on: link.handle)
    } then: { command in
      link(command.connectionHandle)?.start(
        .encryption(
          LinkEncryption.Request(
            randomNumber: command.randomNumber, diversifier: command.encryptedDiversifier,
            longTermKey: command.longTermKey)))
    }
  }

  private func isUsable(_ key: [UInt8]) -> Bool { allowsZeroKeys || key.contains { $0 != 0 } }

  func readPayloadTimeout(
    _ command: ReadAuthenticatedPayloadTimeout
  ) -> ReadAuthenticatedPayloadTimeout.ReturnParameters {
    guard let link = link(command.connectionHandle) else { return .init(status: .unknownConnectionIdentifier) }
    let units = link.payloadTimeout.nanoseconds / AuthenticatedPayloadTimeout.unit
    return .init(
      connectionHandle: link.handle, timeout: AuthenticatedPayloadTimeout(rawValue: UInt16(clamping: units)))
  }

  /// At least as long as the Peripheral may sleep (Vol 4 Part E 7.3.94).
  func writePayloadTimeout(
    _ command: WriteAuthenticatedPayloadTimeout
  ) -> WriteAuthenticatedPayloadTimeout.ReturnParameters {
    guard let link = link(command.connectionHandle) else { return .init(status: .unknownConnectionIdentifier) }
    let shortest = link.parameters.interval.timeSpan * (Int(link.parameters.latency) + 1)
    guard command.timeout.rawValue > 0, command.timeout.timeSpan >= shortest else {
      return .init(status: .invalidHCICommandParameters)
    }
    link.setPayloadTimeout(command.timeout.timeSpan)
    return .init(connectionHandle: link.handle)
  }

  // MARK: - PHYs and connection parameters

  func dispatchLinkUpdate(_ opcode: UInt16, _ parameters: RawSpan) {
    switch opcode {
    case 0x2020: replyToParameterRequest(parameters)
    case 0x2021:
      complete(LERemoteConnectionParameterRequestNegativeReply.self, parameters) { command in
        guard let link = link(command.connectionHandle) else { return .init(status: .unknownConnectionIdentifier) }
        guard link.isAskingHost else { return .init(status: .commandDisallowed) }
        return .init(connectionHandle: link.handle)
      } then: { command, answer in
        if answer.status == .success { link(command.connectionHandle)?.refuseParameterRequest(command.reason) }
      }
    case 0x2030:
      complete(LEReadPHY.self, parameters) { command in
        guard let link = link(command.connectionHandle) else { return .init(status: .unknownConnectionIdentifier) }
        return .init(
          connectionHandle: link.handle, txPHY: PHY(rawValue: link.phys.tx.rawValue),
          rxPHY: PHY(rawValue: link.phys.rx.rawValue))
      }
    case 0x2031:
      status(LESetDefaultPHY.self, parameters) { command in
        guard let preference = preference(command.allPHYs, command.txPHYs, command.rxPHYs) else {
          return .invalidHCICommandParameters
        }
        settings.phys = preference
        return .success
      }
    default: setPHY(parameters)
    }
  }

  private func replyToParameterRequest(_ parameters: RawSpan) {
    complete(LERemoteConnectionParameterRequestReply.self, parameters) { command in
      guard let link = link(command.connectionHandle) else { return .init(status: .unknownConnectionIdentifier) }
      guard link.isAskingHost else { return .init(status: .commandDisallowed) }
      guard range(command).isValid, command.minCELength <= command.maxCELength else {
        return .init(status: .invalidHCICommandParameters)
      }
      return .init(connectionHandle: link.handle)
    } then: { command, answer in
      if answer.status == .success { link(command.connectionHandle)?.answerParameterRequest(range(command)) }
    }
  }

  private func range(_ command: LERemoteConnectionParameterRequestReply) -> ConnectionParameterRange {
    ConnectionParameterRange(
      intervalMin: command.intervalMin, intervalMax: command.intervalMax, latency: command.maxLatency,
      supervisionTimeout: command.timeout)
  }

  private func setPHY(_ parameters: RawSpan) {
    start(LESetPHY.self, parameters) { command in
      guard link(command.connectionHandle) != nil else { return .unknownConnectionIdentifier }
      guard preference(command.allPHYs, command.txPHYs, command.rxPHYs) != nil else {
        return .invalidHCICommandParameters
      }
      return checkProcedure(on: command.connectionHandle)
    } then: { command in
      guard var preference = preference(command.allPHYs, command.txPHYs, command.rxPHYs) else { return }
      preference.coding = command.phyOptions & 3 == 1 ? .s2 : .s8
      link(command.connectionHandle)?.setPHYs(preference)
    }
  }

  /// Bits 0 and 1 of `all`: no preference for transmission, for reception. `nil`: a mask is empty, or has unknown bits.
  private func preference(_ all: UInt8, _ tx: PHYMask, _ rx: PHYMask) -> PHYPreference? {
    let tx = all & 1 == 0 ? tx : PHYPreference.all
    let rx = all & 2 == 0 ? rx : PHYPreference.all
    guard tx != [], rx != [], PHYPreference.all.isSuperset(of: tx), PHYPreference.all.isSuperset(of: rx) else {
      return nil
    }
    return PHYPreference(tx: tx, rx: rx)
  }
}
