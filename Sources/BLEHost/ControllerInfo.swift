// SPDX-License-Identifier: Apache-2.0

public import BLECore
public import BLEHCI

/// What start-up learned about a controller. What it did not tell stays at the value of a Bluetooth 4.0 controller.
public struct ControllerInfo: Hashable, Sendable {
  public var hciVersion: UInt8 = 6
  public var companyIdentifier: UInt16 = 0
  public var lmpSubversion: UInt16 = 0
  public var hciSubversion: UInt16 = 0
  /// nil: the controller did not say; then the commands of Bluetooth 4.0 are taken as there.
  public var supportedCommands: SupportedCommands?
  public var leFeatures: UInt64 = 0
  /// nil: absent or broken (all zeros, all ones).
  public var publicAddress: BDAddress?
  /// The address that this host uses on air.
  public var ownAddress = DeviceAddress(.zero, type: .publicDevice)
  /// Octets of one ACL packet to the controller.
  public var aclDataPacketLength = 27
  /// ACL packets the controller takes at a time.
  public var aclDataPacketCount = 1
  /// Entries of the Filter Accept List; 0: not to be used.
  public var filterAcceptListSize = 0
  /// Octets of one Link Layer data PDU that the controller can send.
  public var maximumTxOctets: UInt16 = 27
  /// Microseconds of one Link Layer data packet that the controller can send.
  public var maximumTxTime: UInt16 = 328
  public var quirks: ControllerQuirks = []

  public init() {}

  /// Whether a command may be sent.
  public func supports(_ opcode: HCIOpcode) -> Bool { supportedCommands?.contains(opcode) ?? false }
}

/// What some controllers do wrong and cannot be found out by asking.
public struct ControllerQuirks: OptionSet, Hashable, Sendable {
  public let rawValue: UInt8
  public init(rawValue: UInt8) { self.rawValue = rawValue }

  /// A link whose own address is public carries no data.
  public static let publicAddressUnusable = ControllerQuirks(rawValue: 1 << 0)
  /// LE Create Connection by accept list never connects, and cancelling does not end it.
  public static let acceptListIgnored = ControllerQuirks(rawValue: 1 << 1)

  /// The quirks of a known controller.
  static func known(_ info: ControllerInfo) -> ControllerQuirks {
    // The software controller of Bumble: company "internal use", all revisions zero.
    if info.companyIdentifier == 0xFFFF, info.hciSubversion == 0, info.lmpSubversion == 0 {
      return [.publicAddressUnusable, .acceptListIgnored]
    }
    return []
  }
}

/// Why a host cannot go on with its controller: what was being done, what went wrong, what to try.
public struct HostError: Error, Hashable, Sendable, CustomStringConvertible {
  public var description: String
  public init(_ description: String) { self.description = description }
}
