// SPDX-License-Identifier: Apache-2.0

public import BLECore

/// HCI_LE_Set_Event_Mask (Vol 4 Part E 7.8.1).
public struct LESetEventMask: HCICommand {
  public static let opcode = HCIOpcode(rawValue: 0x2001)
  public typealias ReturnParameters = StatusReturn

  /// Bit = subevent code minus 1; see ``LEEventMask``.
  public var leEventMask: UInt64

  public init(leEventMask: UInt64) {
    self.leEventMask = leEventMask
  }

  public init(from reader: inout ByteReader) throws(DecodeError) {
    leEventMask = try reader.u64()
  }

  public func encode(into writer: inout ByteWriter) {
    writer.u64(leEventMask)
  }
}

/// HCI_LE_Read_Buffer_Size (Vol 4 Part E 7.8.2).
public struct LEReadBufferSize: HCICommand {
  public static let opcode = HCIOpcode(rawValue: 0x2002)

  public init() {}

  public init(from reader: inout ByteReader) throws(DecodeError) {}

  public func encode(into writer: inout ByteWriter) {}

  public struct ReturnParameters: HCIReturnParameters {
    public var status: HCIStatus
    /// Octets; 0: LE shares the buffers of Read Buffer Size.
    public var leACLDataPacketLength: UInt16
    /// Buffers for all LE links together.
    public var totalNumLEACLDataPackets: UInt8

    public init(status: HCIStatus = .success, leACLDataPacketLength: UInt16, totalNumLEACLDataPackets: UInt8) {
      self.status = status
      self.leACLDataPacketLength = leACLDataPacketLength
      self.totalNumLEACLDataPackets = totalNumLEACLDataPackets
    }

    public init(status: HCIStatus) {
      self.init(status: status, leACLDataPacketLength: 0, totalNumLEACLDataPackets: 0)
    }

    public init(from reader: inout ByteReader) throws(DecodeError) {
      self.init(status: HCIStatus(rawValue: try reader.u8()))
      guard try reader.hasReturnParameters(3, after: status) else { return }
      leACLDataPacketLength = try reader.u16()
      totalNumLEACLDataPackets = try reader.u8()
    }

    public func encode(into writer: inout ByteWriter) {
      writer.u8(status.rawValue)
      writer.u16(leACLDataPacketLength)
      writer.u8(totalNumLEACLDataPackets)
    }
  }
}

/// HCI_LE_Read_Local_Supported_Features (Vol 4 Part E 7.8.3).
public struct LEReadLocalSupportedFeatures: HCICommand {
  public static let opcode = HCIOpcode(rawValue: 0x2003)

  public init() {}

  public init(from reader: inout ByteReader) throws(DecodeError) {}

  public func encode(into writer: inout ByteWriter) {}

  public struct ReturnParameters: HCIReturnParameters {
    public var status: HCIStatus
    /// See ``LEFeatures``.
    public var leFeatures: UInt64

    public init(status: HCIStatus = .success, leFeatures: UInt64) {
      self.status = status
      self.leFeatures = leFeatures
    }

    public init(status: HCIStatus) {
      self.init(status: status, leFeatures: 0)
    }

    public init(from reader: inout ByteReader) throws(DecodeError) {
      self.init(status: HCIStatus(rawValue: try reader.u8()))
      guard try reader.hasReturnParameters(8, after: status) else { return }
      leFeatures = try reader.u64()
    }

    public func encode(into writer: inout ByteWriter) {
      writer.u8(status.rawValue)
      writer.u64(leFeatures)
    }
  }
}

/// HCI_LE_Create_Connection (Vol 4 Part E 7.8.12).
///
/// Answered by Command Status; LE Connection Complete (or Enhanced) follows.
public struct LECreateConnection: HCICommand {
  public static let opcode = HCIOpcode(rawValue: 0x200D)
  public typealias ReturnParameters = StatusReturn

  public var scanInterval: ScanInterval
  public var scanWindow: ScanInterval
  public var initiatorFilterPolicy: InitiatorFilterPolicy
  public var peerAddressType: AddressType
  public var peerAddress: BDAddress
  public var ownAddressType: AddressType
  public var connectionIntervalMin: ConnectionInterval
  public var connectionIntervalMax: ConnectionInterval
  /// Connection events, 0-499.
  public var maxLatency: UInt16
  public var supervisionTimeout: SupervisionTimeout
  public var minCELength: ConnectionEventLength
  public var maxCELength: ConnectionEventLength

  public init(
    scanInterval: ScanInterval, scanWindow: ScanInterval, initiatorFilterPolicy: InitiatorFilterPolicy,
    peerAddressType: AddressType, peerAddress: BDAddress, ownAddressType: AddressType,
    connectionIntervalMin: ConnectionInterval, connectionIntervalMax: ConnectionInterval, maxLatency: UInt16,
    supervisionTimeout: SupervisionTimeout, minCELength: ConnectionEventLength, maxCELength: ConnectionEventLength
  ) {
    self.scanInterval = scanInterval
    self.scanWindow = scanWindow
    self.initiatorFilterPolicy = initiatorFilterPolicy
    self.peerAddressType = peerAddressType
    self.peerAddress = peerAddress
    self.ownAddressType = ownAddressType
    self.connectionIntervalMin = connectionIntervalMin
    self.connectionIntervalMax = connectionIntervalMax
    self.maxLatency = maxLatency
    self.supervisionTimeout = supervisionTimeout
    self.minCELength = minCELength
    self.maxCELength = maxCELength
  }

  public init(from reader: inout ByteReader) throws(DecodeError) {
    scanInterval = ScanInterval(rawValue: try reader.u16())
    scanWindow = ScanInterval(rawValue: try reader.u16())
    initiatorFilterPolicy = InitiatorFilterPolicy(rawValue: try reader.u8())
    peerAddressType = AddressType(rawValue: try reader.u8())
    peerAddress = try BDAddress(from: &reader)
    ownAddressType = AddressType(rawValue: try reader.u8())
    connectionIntervalMin = ConnectionInterval(rawValue: try reader.u16())
    connectionIntervalMax = ConnectionInterval(rawValue: try reader.u16())
    maxLatency = try reader.u16()
    supervisionTimeout = SupervisionTimeout(rawValue: try reader.u16())
    minCELength = ConnectionEventLength(rawValue: try reader.u16())
    maxCELength = ConnectionEventLength(rawValue: try reader.u16())
  }

  public func encode(into writer: inout ByteWriter) {
    writer.u16(scanInterval.rawValue)
    writer.u16(scanWindow.rawValue)
    writer.u8(initiatorFilterPolicy.rawValue)
    writer.u8(peerAddressType.rawValue)
    peerAddress.encode(into: &writer)
    writer.u8(ownAddressType.rawValue)
    writer.u16(connectionIntervalMin.rawValue)
    writer.u16(connectionIntervalMax.rawValue)
    writer.u16(maxLatency)
    writer.u16(supervisionTimeout.rawValue)
    writer.u16(minCELength.rawValue)
    writer.u16(maxCELength.rawValue)
  }
}

/// HCI_LE_Create_Connection_Cancel (Vol 4 Part E 7.8.13).
///
/// A connection complete event with status 02 follows.
public struct LECreateConnectionCancel: HCICommand {
  public static let opcode = HCIOpcode(rawValue: 0x200E)
  public typealias ReturnParameters = StatusReturn

  public init() {}

  public init(from reader: inout ByteReader) throws(DecodeError) {}

  public func encode(into writer: inout ByteWriter) {}
}

/// HCI_LE_Connection_Update (Vol 4 Part E 7.8.18).
///
/// Answered by Command Status; LE Connection Update Complete follows.
public struct LEConnectionUpdate: HCICommand {
  public static let opcode = HCIOpcode(rawValue: 0x2013)
  public typealias ReturnParameters = StatusReturn

  public var connectionHandle: ConnectionHandle
  public var connectionIntervalMin: ConnectionInterval
  public var connectionIntervalMax: ConnectionInterval
  /// Connection events, 0-499.
  public var maxLatency: UInt16
  public var supervisionTimeout: SupervisionTimeout
  public var minCELength: ConnectionEventLength
  public var maxCELength: ConnectionEventLength

  public init(
    connectionHandle: ConnectionHandle, connectionIntervalMin: ConnectionInterval,
    connectionIntervalMax: ConnectionInterval, maxLatency: UInt16, supervisionTimeout: SupervisionTimeout,
    minCELength: ConnectionEventLength, maxCELength: ConnectionEventLength
  ) {
    self.connectionHandle = connectionHandle
    self.connectionIntervalMin = connectionIntervalMin
    self.connectionIntervalMax = connectionIntervalMax
    self.maxLatency = maxLatency
    self.supervisionTimeout = supervisionTimeout
    self.minCELength = minCELength
    self.maxCELength = maxCELength
  }

  public init(from reader: inout ByteReader) throws(DecodeError) {
    connectionHandle = ConnectionHandle(rawValue: try reader.u16())
    connectionIntervalMin = ConnectionInterval(rawValue: try reader.u16())
    connectionIntervalMax = ConnectionInterval(rawValue: try reader.u16())
    maxLatency = try reader.u16()
    supervisionTimeout = SupervisionTimeout(rawValue: try reader.u16())
    minCELength = ConnectionEventLength(rawValue: try reader.u16())
    maxCELength = ConnectionEventLength(rawValue: try reader.u16())
  }

  public func encode(into writer: inout ByteWriter) {
    writer.u16(connectionHandle.rawValue)
    writer.u16(connectionIntervalMin.rawValue)
    writer.u16(connectionIntervalMax.rawValue)
    writer.u16(maxLatency)
    writer.u16(supervisionTimeout.rawValue)
    writer.u16(minCELength.rawValue)
    writer.u16(maxCELength.rawValue)
  }
}

/// HCI_LE_Set_Host_Channel_Classification (Vol 4 Part E 7.8.19).
public struct LESetHostChannelClassification: HCICommand {
  public static let opcode = HCIOpcode(rawValue: 0x2014)
  public typealias ReturnParameters = StatusReturn

  /// Bit 0 to 36: data channel in use; the upper 3 of the 40 bits are reserved.
  public var channelMap: UInt64

  public init(channelMap: UInt64) {
    self.channelMap = channelMap
  }

  public init(from reader: inout ByteReader) throws(DecodeError) {
    channelMap = try reader.u40()
  }

  public func encode(into writer: inout ByteWriter) {
    writer.u40(channelMap)
  }
}

/// HCI_LE_Read_Channel_Map (Vol 4 Part E 7.8.20).
public struct LEReadChannelMap: HCICommand {
  public static let opcode = HCIOpcode(rawValue: 0x2015)

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
    /// Bit 0 to 36: data channel in use; the upper 3 of the 40 bits are reserved.
    public var channelMap: UInt64

    public init(status: HCIStatus = .success, connectionHandle: ConnectionHandle, channelMap: UInt64) {
      self.status = status
      self.connectionHandle = connectionHandle
      self.channelMap = channelMap
    }

    public init(status: HCIStatus) {
      self.init(status: status, connectionHandle: ConnectionHandle(rawValue: 0), channelMap: 0)
    }

    public init(from reader: inout ByteReader) throws(DecodeError) {
      self.init(status: HCIStatus(rawValue: try reader.u8()))
      guard try reader.hasReturnParameters(7, after: status) else { return }
      connectionHandle = ConnectionHandle(rawValue: try reader.u16())
      channelMap = try reader.u40()
    }

    public func encode(into writer: inout ByteWriter) {
      writer.u8(status.rawValue)
      writer.u16(connectionHandle.rawValue)
      writer.u40(channelMap)
    }
  }
}

/// HCI_LE_Read_Remote_Features (Vol 4 Part E 7.8.21).
///
/// Answered by Command Status; LE Read Remote Features Complete follows.
public struct LEReadRemoteFeatures: HCICommand {
  public static let opcode = HCIOpcode(rawValue: 0x2016)
  public typealias ReturnParameters = StatusReturn

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

/// HCI_LE_Set_Data_Length (Vol 4 Part E 7.8.33).
public struct LESetDataLength: HCICommand {
  public static let opcode = HCIOpcode(rawValue: 0x2022)

  public var connectionHandle: ConnectionHandle
  /// 27-251.
  public var txOctets: UInt16
  /// Microseconds, 328-17040.
  public var txTime: UInt16

  public init(connectionHandle: ConnectionHandle, txOctets: UInt16, txTime: UInt16) {
    self.connectionHandle = connectionHandle
    self.txOctets = txOctets
    self.txTime = txTime
  }

  public init(from reader: inout ByteReader) throws(DecodeError) {
    connectionHandle = ConnectionHandle(rawValue: try reader.u16())
    txOctets = try reader.u16()
    txTime = try reader.u16()
  }

  public func encode(into writer: inout ByteWriter) {
    writer.u16(connectionHandle.rawValue)
    writer.u16(txOctets)
    writer.u16(txTime)
  }

  public struct ReturnParameters: HCIReturnParameters {
    public var status: HCIStatus
    public var connectionHandle: ConnectionHandle

    public init(status: HCIStatus = .success, connectionHandle: ConnectionHandle) {
      self.status = status
      self.connectionHandle = connectionHandle
    }

    public init(status: HCIStatus) {
      self.init(status: status, connectionHandle: ConnectionHandle(rawValue: 0))
    }

    public init(from reader: inout ByteReader) throws(DecodeError) {
      self.init(status: HCIStatus(rawValue: try reader.u8()))
      guard try reader.hasReturnParameters(2, after: status) else { return }
      connectionHandle = ConnectionHandle(rawValue: try reader.u16())
    }

    public func encode(into writer: inout ByteWriter) {
      writer.u8(status.rawValue)
      writer.u16(connectionHandle.rawValue)
    }
  }
}

/// HCI_LE_Read_Suggested_Default_Data_Length (Vol 4 Part E 7.8.34).
public struct LEReadSuggestedDefaultDataLength: HCICommand {
  public static let opcode = HCIOpcode(rawValue: 0x2023)

  public init() {}

  public init(from reader: inout ByteReader) throws(DecodeError) {}

  public func encode(into writer: inout ByteWriter) {}

  public struct ReturnParameters: HCIReturnParameters {
    public var status: HCIStatus
    /// 27-251.
    public var suggestedMaxTxOctets: UInt16
    /// Microseconds, 328-17040.
    public var suggestedMaxTxTime: UInt16

    public init(status: HCIStatus = .success, suggestedMaxTxOctets: UInt16, suggestedMaxTxTime: UInt16) {
      self.status = status
      self.suggestedMaxTxOctets = suggestedMaxTxOctets
      self.suggestedMaxTxTime = suggestedMaxTxTime
    }

    public init(status: HCIStatus) {
      self.init(status: status, suggestedMaxTxOctets: 0, suggestedMaxTxTime: 0)
    }

    public init(from reader: inout ByteReader) throws(DecodeError) {
      self.init(status: HCIStatus(rawValue: try reader.u8()))
      guard try reader.hasReturnParameters(4, after: status) else { return }
      suggestedMaxTxOctets = try reader.u16()
      suggestedMaxTxTime = try reader.u16()
    }

    public func encode(into writer: inout ByteWriter) {
      writer.u8(status.rawValue)
      writer.u16(suggestedMaxTxOctets)
      writer.u16(suggestedMaxTxTime)
    }
  }
}

/// HCI_LE_Write_Suggested_Default_Data_Length (Vol 4 Part E 7.8.35).
public struct LEWriteSuggestedDefaultDataLength: HCICommand {
  public static let opcode = HCIOpcode(rawValue: 0x2024)
  public typealias ReturnParameters = StatusReturn

  /// 27-251.
  public var suggestedMaxTxOctets: UInt16
  /// Microseconds, 328-17040.
  public var suggestedMaxTxTime: UInt16

  public init(suggestedMaxTxOctets: UInt16, suggestedMaxTxTime: UInt16) {
    self.suggestedMaxTxOctets = suggestedMaxTxOctets
    self.suggestedMaxTxTime = suggestedMaxTxTime
  }

  public init(from reader: inout ByteReader) throws(DecodeError) {
    suggestedMaxTxOctets = try reader.u16()
    suggestedMaxTxTime = try reader.u16()
  }

  public func encode(into writer: inout ByteWriter) {
    writer.u16(suggestedMaxTxOctets)
    writer.u16(suggestedMaxTxTime)
  }
}

/// HCI_LE_Read_Maximum_Data_Length (Vol 4 Part E 7.8.46).
public struct LEReadMaximumDataLength: HCICommand {
  public static let opcode = HCIOpcode(rawValue: 0x202F)

  public init() {}

  public init(from reader: inout ByteReader) throws(DecodeError) {}

  public func encode(into writer: inout ByteWriter) {}

  public struct ReturnParameters: HCIReturnParameters {
    public var status: HCIStatus
    public var supportedMaxTxOctets: UInt16
    /// Microseconds.
    public var supportedMaxTxTime: UInt16
    public var supportedMaxRxOctets: UInt16
    /// Microseconds.
    public var supportedMaxRxTime: UInt16

    public init(
      status: HCIStatus = .success, supportedMaxTxOctets: UInt16, supportedMaxTxTime: UInt16,
      supportedMaxRxOctets: UInt16, supportedMaxRxTime: UInt16
    ) {
      self.status = status
      self.supportedMaxTxOctets = supportedMaxTxOctets
      self.supportedMaxTxTime = supportedMaxTxTime
      self.supportedMaxRxOctets = supportedMaxRxOctets
      self.supportedMaxRxTime = supportedMaxRxTime
    }

    public init(status: HCIStatus) {
      self.init(
        status: status, supportedMaxTxOctets: 0, supportedMaxTxTime: 0, supportedMaxRxOctets: 0, supportedMaxRxTime: 0
      )
    }

    public init(from reader: inout ByteReader) throws(DecodeError) {
      self.init(status: HCIStatus(rawValue: try reader.u8()))
      guard try reader.hasReturnParameters(8, after: status) else { return }
      supportedMaxTxOctets = try reader.u16()
      supportedMaxTxTime = try reader.u16()
      supportedMaxRxOctets = try reader.u16()
      supportedMaxRxTime = try reader.u16()
    }

    public func encode(into writer: inout ByteWriter) {
      writer.u8(status.rawValue)
      writer.u16(supportedMaxTxOctets)
      writer.u16(supportedMaxTxTime)
      writer.u16(supportedMaxRxOctets)
      writer.u16(supportedMaxRxTime)
    }
  }
}
