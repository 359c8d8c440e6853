// SPDX-License-Identifier: Apache-2.0

public import BLECore

/// HCI_Read_Local_Version_Information (Vol 4 Part E 7.4.1).
public struct ReadLocalVersionInformation: HCICommand {
  public static let opcode = HCIOpcode(rawValue: 0x1001)

  public init() {}

  public init(from reader: inout ByteReader) throws(DecodeError) {}

  public func encode(into writer: inout ByteWriter) {}

  public struct ReturnParameters: HCIReturnParameters {
    public var status: HCIStatus
    /// Assigned number: 6 is 4.0, 9 is 5.0, 13 is 5.4.
    public var hciVersion: UInt8
    public var hciSubversion: UInt16
    /// Of the Link Layer; same numbers as `hciVersion`.
    public var lmpVersion: UInt8
    /// The maker of the controller (assigned number).
    public var companyIdentifier: UInt16
    public var lmpSubversion: UInt16

    public init(
      status: HCIStatus = .success, hciVersion: UInt8, hciSubversion: UInt16, lmpVersion: UInt8,
      companyIdentifier: UInt16, lmpSubversion: UInt16
    ) {
      self.status = status
      self.hciVersion = hciVersion
      self.hciSubversion = hciSubversion
      self.lmpVersion = lmpVersion
      self.companyIdentifier = companyIdentifier
      self.lmpSubversion = lmpSubversion
    }

    public init(status: HCIStatus) {
      self.init(status: status, hciVersion: 0, hciSubversion: 0, lmpVersion: 0, companyIdentifier: 0, lmpSubversion: 0)
    }

    public init(from reader: inout ByteReader) throws(DecodeError) {
      self.init(status: HCIStatus(rawValue: try reader.u8()))
      guard try reader.hasReturnParameters(8, after: status) else { return }
      hciVersion = try reader.u8()
      hciSubversion = try reader.u16()
      lmpVersion = try reader.u8()
      companyIdentifier = try reader.u16()
      lmpSubversion = try reader.u16()
    }

    public func encode(into writer: inout ByteWriter) {
      writer.u8(status.rawValue)
      writer.u8(hciVersion)
      writer.u16(hciSubversion)
      writer.u8(lmpVersion)
      writer.u16(companyIdentifier)
      writer.u16(lmpSubversion)
    }
  }
}

/// HCI_Read_Local_Supported_Commands (Vol 4 Part E 7.4.2).
public struct ReadLocalSupportedCommands: HCICommand {
  public static let opcode = HCIOpcode(rawValue: 0x1002)

  public init() {}

  public init(from reader: inout ByteReader) throws(DecodeError) {}

  public func encode(into writer: inout ByteWriter) {}

  public struct ReturnParameters: HCIReturnParameters {
    public var status: HCIStatus
    public var supportedCommands: SupportedCommands

    public init(status: HCIStatus = .success, supportedCommands: SupportedCommands) {
      self.status = status
      self.supportedCommands = supportedCommands
    }

    public init(status: HCIStatus) {
      self.init(status: status, supportedCommands: SupportedCommands())
    }

    public init(from reader: inout ByteReader) throws(DecodeError) {
      self.init(status: HCIStatus(rawValue: try reader.u8()))
      guard try reader.hasReturnParameters(64, after: status) else { return }
      supportedCommands = try SupportedCommands(from: &reader)
    }

    public func encode(into writer: inout ByteWriter) {
      writer.u8(status.rawValue)
      supportedCommands.encode(into: &writer)
    }
  }
}

/// HCI_Read_Local_Supported_Features (Vol 4 Part E 7.4.3).
public struct ReadLocalSupportedFeatures: HCICommand {
  public static let opcode = HCIOpcode(rawValue: 0x1003)

  public init() {}

  public init(from reader: inout ByteReader) throws(DecodeError) {}

  public func encode(into writer: inout ByteWriter) {}

  public struct ReturnParameters: HCIReturnParameters {
    public var status: HCIStatus
    /// Page 0; bit 37 BR/EDR not supported, bit 38 LE supported.
    public var lmpFeatures: UInt64

    public init(status: HCIStatus = .success, lmpFeatures: UInt64) {
      self.status = status
      self.lmpFeatures = lmpFeatures
    }

    public init(status: HCIStatus) {
      self.init(status: status, lmpFeatures: 0)
    }

    public init(from reader: inout ByteReader) throws(DecodeError) {
      self.init(status: HCIStatus(rawValue: try reader.u8()))
      guard try reader.hasReturnParameters(8, after: status) else { return }
      lmpFeatures = try reader.u64()
    }

    public func encode(into writer: inout ByteWriter) {
      writer.u8(status.rawValue)
      writer.u64(lmpFeatures)
    }
  }
}

/// HCI_Read_Buffer_Size (Vol 4 Part E 7.4.5).
public struct ReadBufferSize: HCICommand {
  public static let opcode = HCIOpcode(rawValue: 0x1005)

  public init() {}

  public init(from reader: inout ByteReader) throws(DecodeError) {}

  public func encode(into writer: inout ByteWriter) {}

  public struct ReturnParameters: HCIReturnParameters {
    public var status: HCIStatus
    public var aclDataPacketLength: UInt16
    public var synchronousDataPacketLength: UInt8
    public var totalNumACL: UInt16
    public var totalNumSync: UInt16

    public init(
      status: HCIStatus = .success, aclDataPacketLength: UInt16, synchronousDataPacketLength: UInt8,
      totalNumACL: UInt16, totalNumSync: UInt16
    ) {
      self.status = status
      self.aclDataPacketLength = aclDataPacketLength
      self.synchronousDataPacketLength = synchronousDataPacketLength
      self.totalNumACL = totalNumACL
      self.totalNumSync = totalNumSync
    }

    public init(status: HCIStatus) {
      self.init(status: status, aclDataPacketLength: 0, synchronousDataPacketLength: 0, totalNumACL: 0, totalNumSync: 0)
    }

    public init(from reader: inout ByteReader) throws(DecodeError) {
      self.init(status: HCIStatus(rawValue: try reader.u8()))
      guard try reader.hasReturnParameters(7, after: status) else { return }
      aclDataPacketLength = try reader.u16()
      synchronousDataPacketLength = try reader.u8()
      totalNumACL = try reader.u16()
      totalNumSync = try reader.u16()
    }

    public func encode(into writer: inout ByteWriter) {
      writer.u8(status.rawValue)
      writer.u16(aclDataPacketLength)
      writer.u8(synchronousDataPacketLength)
      writer.u16(totalNumACL)
      writer.u16(totalNumSync)
    }
  }
}

/// HCI_Read_BD_ADDR (Vol 4 Part E 7.4.6).
public struct ReadBDADDR: HCICommand {
  public static let opcode = HCIOpcode(rawValue: 0x1009)

  public init() {}

  public init(from reader: inout ByteReader) throws(DecodeError) {}

  public func encode(into writer: inout ByteWriter) {}

  public struct ReturnParameters: HCIReturnParameters {
    public var status: HCIStatus
    public var bdADDR: BDAddress

    public init(status: HCIStatus = .success, bdADDR: BDAddress) {
      self.status = status
      self.bdADDR = bdADDR
    }

    public init(status: HCIStatus) {
      self.init(status: status, bdADDR: .zero)
    }

    public init(from reader: inout ByteReader) throws(DecodeError) {
      self.init(status: HCIStatus(rawValue: try reader.u8()))
      guard try reader.hasReturnParameters(6, after: status) else { return }
      bdADDR = try BDAddress(from: &reader)
    }

    public func encode(into writer: inout ByteWriter) {
      writer.u8(status.rawValue)
      bdADDR.encode(into: &writer)
    }
  }
}

/// HCI_Read_RSSI (Vol 4 Part E 7.5.4).
public struct ReadRSSI: HCICommand {
  public static let opcode = HCIOpcode(rawValue: 0x1405)

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

  public struct ReturnParameters: HCIReturnParameters {
    public var status: HCIStatus
    public var connectionHandle: ConnectionHandle
    /// dBm; 127: not available.
    public var rssi: Int8

    public init(status: HCIStatus = .success, connectionHandle: ConnectionHandle, rssi: Int8) {
      self.status = status
      self.connectionHandle = connectionHandle
      self.rssi = rssi
    }

    public init(status: HCIStatus) {
      self.init(status: status, connectionHandle: ConnectionHandle(rawValue: 0), rssi: 0)
    }

    public init(from reader: inout ByteReader) throws(DecodeError) {
      self.init(status: HCIStatus(rawValue: try reader.u8()))
      guard try reader.hasReturnParameters(3, after: status) else { return }
      connectionHandle = ConnectionHandle(rawValue: try reader.u16())
      rssi = try reader.i8()
    }

    public func encode(into writer: inout ByteWriter) {
      writer.u8(status.rawValue)
      writer.u16(connectionHandle.rawValue)
      writer.i8(rssi)
    }
  }
}
