// SPDX-License-Identifier: Apache-2.0

public import BLECore

/// HCI_Disconnect (Vol 4 Part E 7.1.6).
///
/// Answered by Command Status; Disconnection Complete follows.
public struct Disconnect: HCICommand {
  public static let opcode = HCIOpcode(rawValue: 0x0406)
  public typealias ReturnParameters = StatusReturn

  public var connectionHandle: ConnectionHandle
  /// Why: one of 05, 13, 14, 15, 1A, 29, 3B in a command, any code in an event.
  public var reason: HCIStatus

  public init(connectionHandle: ConnectionHandle, reason: HCIStatus) {
    self.connectionHandle = connectionHandle
    self.reason = reason
  }

  public init(from reader: inout ByteReader) throws(DecodeError) {
    connectionHandle = ConnectionHandle(rawValue: try reader.u16())
    reason = HCIStatus(rawValue: try reader.u8())
  }

  public func encode(into writer: inout ByteWriter) {
    writer.u16(connectionHandle.rawValue)
    writer.u8(reason.rawValue)
  }
}

/// HCI_Read_Remote_Version_Information (Vol 4 Part E 7.1.23).
///
/// Answered by Command Status; Read Remote Version Information Complete follows.
public struct ReadRemoteVersionInformation: HCICommand {
  public static let opcode = HCIOpcode(rawValue: 0x041D)
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

/// HCI_Set_Event_Mask (Vol 4 Part E 7.3.1).
public struct SetEventMask: HCICommand {
  public static let opcode = HCIOpcode(rawValue: 0x0C01)
  public typealias ReturnParameters = StatusReturn

  /// Bit = event code minus 1; see ``EventMask``.
  public var eventMask: UInt64

  public init(eventMask: UInt64) {
    self.eventMask = eventMask
  }

  public init(from reader: inout ByteReader) throws(DecodeError) {
    eventMask = try reader.u64()
  }

  public func encode(into writer: inout ByteWriter) {
    writer.u64(eventMask)
  }
}

/// HCI_Reset (Vol 4 Part E 7.3.2).
///
/// Ends all links without an event and forgets all settings.
public struct Reset: HCICommand {
  public static let opcode = HCIOpcode(rawValue: 0x0C03)
  public typealias ReturnParameters = StatusReturn

  public init() {}

  public init(from reader: inout ByteReader) throws(DecodeError) {}

  public func encode(into writer: inout ByteWriter) {}
}

/// HCI_Read_Transmit_Power_Level (Vol 4 Part E 7.3.35).
public struct ReadTransmitPowerLevel: HCICommand {
  public static let opcode = HCIOpcode(rawValue: 0x0C2D)

  public var connectionHandle: ConnectionHandle
  /// 0 the current level, 1 the maximum.
  public var type: UInt8

  public init(connectionHandle: ConnectionHandle, type: UInt8) {
    self.connectionHandle = connectionHandle
    self.type = type
  }

  public init(from reader: inout ByteReader) throws(DecodeError) {
    connectionHandle = ConnectionHandle(rawValue: try reader.u16())
    type = try reader.u8()
  }

  public func encode(into writer: inout ByteWriter) {
    writer.u16(connectionHandle.rawValue)
    writer.u8(type)
  }

  public struct ReturnParameters: HCIReturnParameters {
    public var status: HCIStatus
    public var connectionHandle: ConnectionHandle
    /// dBm.
    public var txPowerLevel: Int8

    public init(status: HCIStatus = .success, connectionHandle: ConnectionHandle, txPowerLevel: Int8) {
      self.status = status
      self.connectionHandle = connectionHandle
      self.txPowerLevel = txPowerLevel
    }

    public init(status: HCIStatus) {
      self.init(status: status, connectionHandle: ConnectionHandle(rawValue: 0), txPowerLevel: 0)
    }

    public init(from reader: inout ByteReader) throws(DecodeError) {
      self.init(status: HCIStatus(rawValue: try reader.u8()))
      guard try reader.hasReturnParameters(3, after: status) else { return }
      connectionHandle = ConnectionHandle(rawValue: try reader.u16())
      txPowerLevel = try reader.i8()
    }

    public func encode(into writer: inout ByteWriter) {
      writer.u8(status.rawValue)
      writer.u16(connectionHandle.rawValue)
      writer.i8(txPowerLevel)
    }
  }
}

/// HCI_Set_Controller_To_Host_Flow_Control (Vol 4 Part E 7.3.38).
///
/// Enable: bit 0 ACL data, bit 1 synchronous data.
public struct SetControllerToHostFlowControl: HCICommand {
  public static let opcode = HCIOpcode(rawValue: 0x0C31)
  public typealias ReturnParameters = StatusReturn

  public var enable: UInt8

  public init(enable: UInt8) {
    self.enable = enable
  }

  public init(from reader: inout ByteReader) throws(DecodeError) {
    enable = try reader.u8()
  }

  public func encode(into writer: inout ByteWriter) {
    writer.u8(enable)
  }
}

/// HCI_Host_Buffer_Size (Vol 4 Part E 7.3.39).
public struct HostBufferSize: HCICommand {
  public static let opcode = HCIOpcode(rawValue: 0x0C33)
  public typealias ReturnParameters = StatusReturn

  /// Octets of one ACL data packet that the host takes.
  public var aclLen: UInt16
  public var scoLen: UInt8
  /// ACL data packets that the host takes.
  public var aclCount: UInt16
  public var scoCount: UInt16

  public init(aclLen: UInt16, scoLen: UInt8, aclCount: UInt16, scoCount: UInt16) {
    self.aclLen = aclLen
    self.scoLen = scoLen
    self.aclCount = aclCount
    self.scoCount = scoCount
  }

  public init(from reader: inout ByteReader) throws(DecodeError) {
    aclLen = try reader.u16()
    scoLen = try reader.u8()
    aclCount = try reader.u16()
    scoCount = try reader.u16()
  }

  public func encode(into writer: inout ByteWriter) {
    writer.u16(aclLen)
    writer.u8(scoLen)
    writer.u16(aclCount)
    writer.u16(scoCount)
  }
}

/// HCI_Host_Number_Of_Completed_Packets (Vol 4 Part E 7.3.40).
///
/// Has no answer unless it is wrong, and needs no command credit.
public struct HostNumberOfCompletedPackets: HCICommand {
  public static let opcode = HCIOpcode(rawValue: 0x0C35)
  public typealias ReturnParameters = StatusReturn

  public var handles: [CompletedPackets]

  public init(handles: [CompletedPackets]) { self.handles = handles }

  public init(from reader: inout ByteReader) throws(DecodeError) {
    handles = try CompletedPackets.list(from: &reader)
  }

  public func encode(into writer: inout ByteWriter) { CompletedPackets.encode(handles, into: &writer) }
}

/// HCI_Set_Event_Mask_Page2 (Vol 4 Part E 7.3.69).
public struct SetEventMaskPage2: HCICommand {
  public static let opcode = HCIOpcode(rawValue: 0x0C63)
  public typealias ReturnParameters = StatusReturn

  /// See ``EventMask``.
  public var eventMaskPage2: UInt64

  public init(eventMaskPage2: UInt64) {
    self.eventMaskPage2 = eventMaskPage2
  }

  public init(from reader: inout ByteReader) throws(DecodeError) {
    eventMaskPage2 = try reader.u64()
  }

  public func encode(into writer: inout ByteWriter) {
    writer.u64(eventMaskPage2)
  }
}

/// HCI_Write_LE_Host_Support (Vol 4 Part E 7.3.79).
public struct WriteLEHostSupport: HCICommand {
  public static let opcode = HCIOpcode(rawValue: 0x0C6D)
  public typealias ReturnParameters = StatusReturn

  public var leSupportedHost: Bool
  public var unused: UInt8

  public init(leSupportedHost: Bool, unused: UInt8) {
    self.leSupportedHost = leSupportedHost
    self.unused = unused
  }

  public init(from reader: inout ByteReader) throws(DecodeError) {
    leSupportedHost = try reader.flag("LeSupportedHost")
    unused = try reader.u8()
  }

  public func encode(into writer: inout ByteWriter) {
    writer.u8(leSupportedHost ? 1 : 0)
    writer.u8(unused)
  }
}

/// HCI_Read_Authenticated_Payload_Timeout (Vol 4 Part E 7.3.93).
public struct ReadAuthenticatedPayloadTimeout: HCICommand {
  public static let opcode = HCIOpcode(rawValue: 0x0C7B)

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
    public var timeout: AuthenticatedPayloadTimeout

    public init(
      status: HCIStatus = .success, connectionHandle: ConnectionHandle, timeout: AuthenticatedPayloadTimeout
    ) {
      self.status = status
      self.connectionHandle = connectionHandle
      self.timeout = timeout
    }

    public init(status: HCIStatus) {
      self.init(
        status: status, connectionHandle: ConnectionHandle(rawValue: 0),
        timeout: AuthenticatedPayloadTimeout(rawValue: 0)
      )
    }

    public init(from reader: inout ByteReader) throws(DecodeError) {
      self.init(status: HCIStatus(rawValue: try reader.u8()))
      guard try reader.hasReturnParameters(4, after: status) else { return }
      connectionHandle = ConnectionHandle(rawValue: try reader.u16())
      timeout = AuthenticatedPayloadTimeout(rawValue: try reader.u16())
    }

    public func encode(into writer: inout ByteWriter) {
      writer.u8(status.rawValue)
      writer.u16(connectionHandle.rawValue)
      writer.u16(timeout.rawValue)
    }
  }
}

/// HCI_Write_Authenticated_Payload_Timeout (Vol 4 Part E 7.3.94).
public struct WriteAuthenticatedPayloadTimeout: HCICommand {
  public static let opcode = HCIOpcode(rawValue: 0x0C7C)

  public var connectionHandle: ConnectionHandle
  public var timeout: AuthenticatedPayloadTimeout

  public init(connectionHandle: ConnectionHandle, timeout: AuthenticatedPayloadTimeout) {
    self.connectionHandle = connectionHandle
    self.timeout = timeout
  }

  public init(from reader: inout ByteReader) throws(DecodeError) {
    connectionHandle = ConnectionHandle(rawValue: try reader.u16())
    timeout = AuthenticatedPayloadTimeout(rawValue: try reader.u16())
  }

  public func encode(into writer: inout ByteWriter) {
    writer.u16(connectionHandle.rawValue)
    writer.u16(timeout.rawValue)
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
