// SPDX-License-Identifier: Apache-2.0

public import BLECore

/// HCI_Disconnection_Complete (Vol 4 Part E 7.7.5).
///
/// All packets of the link count as completed.
public struct DisconnectionComplete: HCIEvent {
  public static let code = HCIEventCode.disconnectionComplete

  public var status: HCIStatus
  public var connectionHandle: ConnectionHandle
  /// Why: one of 05, 13, 14, 15, 1A, 29, 3B in a command, any code in an event.
  public var reason: HCIStatus

  public init(status: HCIStatus, connectionHandle: ConnectionHandle, reason: HCIStatus) {
    self.status = status
    self.connectionHandle = connectionHandle
    self.reason = reason
  }

  public init(from reader: inout ByteReader) throws(DecodeError) {
    status = HCIStatus(rawValue: try reader.u8())
    connectionHandle = ConnectionHandle(rawValue: try reader.u16())
    reason = HCIStatus(rawValue: try reader.u8())
  }

  public func encode(into writer: inout ByteWriter) {
    writer.u8(status.rawValue)
    writer.u16(connectionHandle.rawValue)
    writer.u8(reason.rawValue)
  }
}

/// HCI_Encryption_Change (Vol 4 Part E 7.7.8).
public struct EncryptionChange: HCIEvent {
  public static let code = HCIEventCode.encryptionChange

  public var status: HCIStatus
  public var connectionHandle: ConnectionHandle
  public var encryptionEnabled: EncryptionEnabled

  public init(status: HCIStatus, connectionHandle: ConnectionHandle, encryptionEnabled: EncryptionEnabled) {
    self.status = status
    self.connectionHandle = connectionHandle
    self.encryptionEnabled = encryptionEnabled
  }

  public init(from reader: inout ByteReader) throws(DecodeError) {
    status = HCIStatus(rawValue: try reader.u8())
    connectionHandle = ConnectionHandle(rawValue: try reader.u16())
    encryptionEnabled = EncryptionEnabled(rawValue: try reader.u8())
  }

  public func encode(into writer: inout ByteWriter) {
    writer.u8(status.rawValue)
    writer.u16(connectionHandle.rawValue)
    writer.u8(encryptionEnabled.rawValue)
  }
}

/// HCI_Read_Remote_Version_Information_Complete (Vol 4 Part E 7.7.12).
public struct ReadRemoteVersionInformationComplete: HCIEvent {
  public static let code = HCIEventCode.readRemoteVersionInformationComplete

  public var status: HCIStatus
  public var connectionHandle: ConnectionHandle
  /// Of the peer's Link Layer; 6 is 4.0, 9 is 5.0, 13 is 5.4.
  public var version: UInt8
  /// The maker of the controller (assigned number).
  public var companyIdentifier: UInt16
  public var subversion: UInt16

  public init(
    status: HCIStatus, connectionHandle: ConnectionHandle, version: UInt8, companyIdentifier: UInt16, subversion: UInt16
  ) {
    self.status = status
    self.connectionHandle = connectionHandle
    self.version = version
    self.companyIdentifier = companyIdentifier
    self.subversion = subversion
  }

  public init(from reader: inout ByteReader) throws(DecodeError) {
    status = HCIStatus(rawValue: try reader.u8())
    connectionHandle = ConnectionHandle(rawValue: try reader.u16())
    version = try reader.u8()
    companyIdentifier = try reader.u16()
    subversion = try reader.u16()
  }

  public func encode(into writer: inout ByteWriter) {
    writer.u8(status.rawValue)
    writer.u16(connectionHandle.rawValue)
    writer.u8(version)
    writer.u16(companyIdentifier)
    writer.u16(subversion)
  }
}

/// HCI_Command_Complete (Vol 4 Part E 7.7.14).
///
/// Only the head: the return parameters of the command follow in the same event.
public struct CommandComplete: HCIEvent {
  public static let code = HCIEventCode.commandComplete

  /// Commands that the host may send now.
  public var numHCICommandPackets: UInt8
  /// 0000: no command, only the number above counts.
  public var commandOpcode: HCIOpcode

  public init(numHCICommandPackets: UInt8, commandOpcode: HCIOpcode) {
    self.numHCICommandPackets = numHCICommandPackets
    self.commandOpcode = commandOpcode
  }

  public init(from reader: inout ByteReader) throws(DecodeError) {
    numHCICommandPackets = try reader.u8()
    commandOpcode = HCIOpcode(rawValue: try reader.u16())
  }

  public func encode(into writer: inout ByteWriter) {
    writer.u8(numHCICommandPackets)
    writer.u16(commandOpcode.rawValue)
  }
}

/// HCI_Command_Status (Vol 4 Part E 7.7.15).
public struct CommandStatus: HCIEvent {
  public static let code = HCIEventCode.commandStatus

  public var status: HCIStatus
  /// Commands that the host may send now.
  public var numHCICommandPackets: UInt8
  /// 0000: no command, only the number above counts.
  public var commandOpcode: HCIOpcode

  public init(status: HCIStatus, numHCICommandPackets: UInt8, commandOpcode: HCIOpcode) {
    self.status = status
    self.numHCICommandPackets = numHCICommandPackets
    self.commandOpcode = commandOpcode
  }

  public init(from reader: inout ByteReader) throws(DecodeError) {
    status = HCIStatus(rawValue: try reader.u8())
    numHCICommandPackets = try reader.u8()
    commandOpcode = HCIOpcode(rawValue: try reader.u16())
  }

  public func encode(into writer: inout ByteWriter) {
    writer.u8(status.rawValue)
    writer.u8(numHCICommandPackets)
    writer.u16(commandOpcode.rawValue)
  }
}

/// HCI_Hardware_Error (Vol 4 Part E 7.7.16).
public struct HardwareError: HCIEvent {
  public static let code = HCIEventCode.hardwareError

  /// Vendor specific.
  public var hardwareCode: UInt8

  public init(hardwareCode: UInt8) {
    self.hardwareCode = hardwareCode
  }

  public init(from reader: inout ByteReader) throws(DecodeError) {
    hardwareCode = try reader.u8()
  }

  public func encode(into writer: inout ByteWriter) {
    writer.u8(hardwareCode)
  }
}

/// HCI_Number_Of_Completed_Packets (Vol 4 Part E 7.7.19).
///
/// Hot paths use ``CompletedPackets/forEach(in:_:)``, which allocates nothing.
public struct NumberOfCompletedPackets: HCIEvent {
  public static let code = HCIEventCode.numberOfCompletedPackets

  public var handles: [CompletedPackets]

  public init(handles: [CompletedPackets]) { self.handles = handles }

  public init(from reader: inout ByteReader) throws(DecodeError) {
    handles = try CompletedPackets.list(from: &reader)
  }

  public func encode(into writer: inout ByteWriter) { CompletedPackets.encode(handles, into: &writer) }
}

/// HCI_Data_Buffer_Overflow (Vol 4 Part E 7.7.26).
public struct DataBufferOverflow: HCIEvent {
  public static let code = HCIEventCode.dataBufferOverflow

  /// 1: ACL.
  public var linkType: UInt8

  public init(linkType: UInt8) {
    self.linkType = linkType
  }

  public init(from reader: inout ByteReader) throws(DecodeError) {
    linkType = try reader.u8()
  }

  public func encode(into writer: inout ByteWriter) {
    writer.u8(linkType)
  }
}

/// HCI_Encryption_Key_Refresh_Complete (Vol 4 Part E 7.7.39).
public struct EncryptionKeyRefreshComplete: HCIEvent {
  public static let code = HCIEventCode.encryptionKeyRefreshComplete

  public var status: HCIStatus
  public var connectionHandle: ConnectionHandle

  public init(status: HCIStatus, connectionHandle: ConnectionHandle) {
    self.status = status
    self.connectionHandle = connectionHandle
  }

  public init(from reader: inout ByteReader) throws(DecodeError) {
    status = HCIStatus(rawValue: try reader.u8())
    connectionHandle = ConnectionHandle(rawValue: try reader.u16())
  }

  public func encode(into writer: inout ByteWriter) {
    writer.u8(status.rawValue)
    writer.u16(connectionHandle.rawValue)
  }
}

/// HCI_Authenticated_Payload_Timeout_Expired (Vol 4 Part E 7.7.75).
public struct AuthenticatedPayloadTimeoutExpired: HCIEvent {
  public static let code = HCIEventCode.authenticatedPayloadTimeoutExpired

  public var connectionHandle: ConnectionHandle

  public init(connectionHandle: ConnectionHandle) {
    self.connectionHandle = connectionHandle
  }

  public init(from reader: inout ByteReader) throws(DecodeError) {
    connectionHandle = ConnectionHandle(rawValue: try reader.u16())
  }

  public func encode(into writer: inout ByteWriter) {
    writer.u16(connectionHandle.rawValue)
  }
}

/// HCI_Encryption_Change [v2] (Vol 4 Part E 7.7.8).
public struct EncryptionChangeV2: HCIEvent {
  public static let code = HCIEventCode.encryptionChangeV2

  public var status: HCIStatus
  public var connectionHandle: ConnectionHandle
  public var encryptionEnabled: EncryptionEnabled
  /// Octets, 7-16.
  public var encryptionKeySize: UInt8

  public init(
    status: HCIStatus, connectionHandle: ConnectionHandle, encryptionEnabled: EncryptionEnabled,
    encryptionKeySize: UInt8
  ) {
    self.status = status
    self.connectionHandle = connectionHandle
    self.encryptionEnabled = encryptionEnabled
    self.encryptionKeySize = encryptionKeySize
  }

  public init(from reader: inout ByteReader) throws(DecodeError) {
    status = HCIStatus(rawValue: try reader.u8())
    connectionHandle = ConnectionHandle(rawValue: try reader.u16())
    encryptionEnabled = EncryptionEnabled(rawValue: try reader.u8())
    encryptionKeySize = try reader.u8()
  }

  public func encode(into writer: inout ByteWriter) {
    writer.u8(status.rawValue)
    writer.u16(connectionHandle.rawValue)
    writer.u8(encryptionEnabled.rawValue)
    writer.u8(encryptionKeySize)
  }
}
