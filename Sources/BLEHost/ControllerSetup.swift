// SPDX-License-Identifier: Apache-2.0

import BLECore
import BLEHCI

/// The start-up of any controller (order of Vol 4 Part E Annex and of `hci.md`): ask what it can do, use only that.
///
///     reset ─► version ─► commands ─► address ─► event mask ─► LE features ─► buffers ─► accept list ─►
///     data length ─► LE event mask ─► random address ─► ready
///
/// Only Reset and the buffer size are vital: without them nothing works, and start-up fails. Any other step that is
/// refused or never answered leaves the value of a Bluetooth 4.0 controller and start-up goes on.
struct ControllerSetup {
  /// One command of start-up, in order.
  enum Step: Int, CaseIterable {
    case reset, localVersion, supportedCommands, publicAddress, eventMask, leFeatures
    case bufferSizeV2, bufferSize, classicBufferSize
    case acceptListSize, maximumDataLength, suggestedDataLength, leEventMask, randomAddress
  }

  /// What to do next.
  enum Progress {
    case send(Step)
    case ready
    case failed(HostError)
  }

  private(set) var info = ControllerInfo()
  private let staticRandomAddress: BDAddress
  private let addressPolicy: HostConfiguration.AddressPolicy

  init(configuration: HostConfiguration) {
    staticRandomAddress = configuration.staticRandomAddress
    addressPolicy = configuration.addressPolicy
  }

  /// The outcome of `step` arrived; what follows.
  mutating func complete(_ step: Step, _ outcome: CommandOutcome) -> Progress {
    switch outcome {
    case .complete(let parameters):
      if let failure = take(step, parameters) { return .failed(failure) }
    case .status(let status):
      if step == .reset { return .failed(HostError("the controller refuses HCI Reset: \(status)")) }
    case .timedOut:
      if step == .reset {
        return .failed(
          HostError("the controller does not answer HCI Reset within 2 s; is it a Bluetooth controller, and powered?"))
      }
    }
    return next(after: step)
  }

  private mutating func next(after step: Step) -> Progress {
    if step == .publicAddress { chooseAddress() }
    for candidate in Step.allCases where candidate.rawValue > step.rawValue && isNeeded(candidate) {
      return .send(candidate)
    }
    guard info.aclDataPacketLength > 0, info.aclDataPacketCount > 0 else {
      return .failed(HostError("the controller has no buffers for ACL data; it cannot hold an LE connection"))
    }
    return .ready
  }

  private func isNeeded(_ step: Step) -> Bool {
    switch step {
    case .reset, .localVersion, .supportedCommands, .publicAddress, .eventMask, .leFeatures, .leEventMask: true
    case .bufferSizeV2: info.supports(LEReadBufferSizeV2.opcode)
    case .bufferSize: !hasBuffers
    case .classicBufferSize: !hasBuffers
    case .acceptListSize: mayUse(LEReadFilterAcceptListSize.opcode) && !info.quirks.contains(.acceptListIgnored)
    case .maximumDataLength: hasDataLengthExtension && info.supports(LEReadMaximumDataLength.opcode)
    case .suggestedDataLength:
      hasDataLengthExtension && info.maximumTxOctets > 27 && info.supports(LEWriteSuggestedDefaultDataLength.opcode)
    case .randomAddress: info.ownAddress.type == .random
    }
  }

  private var hasBuffers: Bool { hasLEBuffers }
  private var hasLEBuffers = false
  private var hasDataLengthExtension: Bool { info.leFeatures & (1 << 5) != 0 }

  /// Commands of Bluetooth 4.0: there unless the controller says otherwise.
  private func mayUse(_ opcode: HCIOpcode) -> Bool { info.supportedCommands == nil || info.supports(opcode) }

  /// Own address: the public one where there is a usable one, else the host's static random one (Vol 3 Part C 10.8).
  private mutating func chooseAddress() {
    if let address = info.publicAddress, addressPolicy == .automatic, !info.quirks.contains(.publicAddressUnusable) {
      info.ownAddress = DeviceAddress(address, type: .publicDevice)
    } else {
      info.ownAddress = DeviceAddress(staticRandomAddress, type: .random)
    }
  }

  /// Reads return parameters; a malformed or unsuccessful answer of an optional command changes nothing.
  private mutating func take(_ step: Step, _ bytes: [UInt8]) -> HostError? {
    guard bytes.first == 0 else {
      let status = HCIStatus(rawValue: bytes.first ?? HCIStatus.unspecifiedError.rawValue)
      if step == .reset { return HostError("the controller refuses HCI Reset: \(status)") }
      return nil
    }
    switch step {
    case .localVersion:
      guard let version = try? ReadLocalVersionInformation.ReturnParameters.decode(bytes) else { return nil }
      info.hciVersion = version.hciVersion
      info.hciSubversion = version.hciSubversion
      info.companyIdentifier = version.companyIdentifier
      info.lmpSubversion = version.lmpSubversion
      info.quirks = ControllerQuirks.known(info)
    case .supportedCommands:
      info.supportedCommands = (try? ReadLocalSupportedCommands.ReturnParameters.decode(bytes))?.supportedCommands
    case .publicAddress:
      if let address = (try? ReadBDADDR.ReturnParameters.decode(bytes))?.bdADDR, address != .zero, address != .allOnes {
        info.publicAddress = address
      }
    case .leFeatures:
      info.leFeatures = (try? LEReadLocalSupportedFeatures.ReturnParameters.decode(bytes))?.leFeatures ?? 0
    case .bufferSizeV2, .bufferSize, .classicBufferSize: takeBuffers(step, bytes)
    case .acceptListSize:
      info.filterAcceptListSize = Int((try? LEReadFilterAcceptListSize.ReturnParameters.decode(bytes))?.size ?? 0)
    case .maximumDataLength:
      guard let maximum = try? LEReadMaximumDataLength.ReturnParameters.decode(bytes) else { return nil }
      info.maximumTxOctets = min(max(maximum.supportedMaxTxOctets, 27), 251)
      info.maximumTxTime = min(max(maximum.supportedMaxTxTime, 328), 17040)
    case .reset, .eventMask, .suggestedDataLength, .leEventMask, .randomAddress: break
    }
    return nil
  }

  private mutating func takeBuffers(_ step: Step, _ bytes: [UInt8]) {
    var length: UInt16 = 0
    var count = 0
    switch step {
    case .bufferSizeV2:
      if let size = try? LEReadBufferSizeV2.ReturnParameters.decode(bytes) {
        (length, count) = (size.leACLDataPacketLength, Int(size.totalNumLEACLDataPackets))
      }
    case .bufferSize:
      if let size = try? LEReadBufferSize.ReturnParameters.decode(bytes) {
        (length, count) = (size.leACLDataPacketLength, Int(size.totalNumLEACLDataPackets))
      }
    default:
      if let size = try? ReadBufferSize.ReturnParameters.decode(bytes) {
        (length, count) = (size.aclDataPacketLength, Int(size.totalNumACL))
      }
    }
    // Zero: LE shares the buffers of BR/EDR, which another command tells (Vol 4 Part E 7.8.2).
    guard length > 0, count > 0 else { return }
    info.aclDataPacketLength = max(27, Int(length))
    info.aclDataPacketCount = count
    hasLEBuffers = true
  }

  /// Adds the command of `step` to the queue.
  func enqueue(_ step: Step, into commands: inout HostCommands) {
    let context = HostCommand.setup(step)
    switch step {
    case .reset: commands.enqueue(Reset(), context: context)
    case .localVersion: commands.enqueue(ReadLocalVersionInformation(), context: context)
    case .supportedCommands: commands.enqueue(ReadLocalSupportedCommands(), context: context)
    case .publicAddress: commands.enqueue(ReadBDADDR(), context: context)
    case .eventMask: commands.enqueue(SetEventMask(eventMask: Self.eventMask), context: context)
    case .leFeatures: commands.enqueue(LEReadLocalSupportedFeatures(), context: context)
    case .bufferSizeV2: commands.enqueue(LEReadBufferSizeV2(), context: context)
    case .bufferSize: commands.enqueue(LEReadBufferSize(), context: context)
    case .classicBufferSize: commands.enqueue(ReadBufferSize(), context: context)
    case .acceptListSize: commands.enqueue(LEReadFilterAcceptListSize(), context: context)
    case .maximumDataLength: commands.enqueue(LEReadMaximumDataLength(), context: context)
    case .suggestedDataLength:
      commands.enqueue(
        LEWriteSuggestedDefaultDataLength(
          suggestedMaxTxOctets: info.maximumTxOctets, suggestedMaxTxTime: min(info.maximumTxTime, 2120)),
        context: context)
    case .leEventMask: commands.enqueue(LESetEventMask(leEventMask: Self.leEventMask), context: context)
    case .randomAddress:
      commands.enqueue(LESetRandomAddress(randomAddress: info.ownAddress.address), context: context)
    }
  }

  /// Disconnection Complete, Encryption Change, Read Remote Version, Hardware Error, Data Buffer Overflow, Key Refresh,
  /// LE Meta: bit = code - 1 (Vol 4 Part E 7.3.1).
  private static let eventMask: UInt64 = [0x05, 0x08, 0x0C, 0x10, 0x1A, 0x30, 0x3E].reduce(0) { $0 | 1 << ($1 - 1) }

  /// Connection Complete, Advertising Report, Connection Update, Remote Features, LTK Request, Remote Connection
  /// Parameter Request, Data Length Change: bit = subevent - 1 (Vol 4 Part E 7.8.1).
  private static let leEventMask: UInt64 = (1...7).reduce(0) { $0 | 1 << ($1 - 1) }
}
