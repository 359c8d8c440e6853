// SPDX-License-Identifier: Apache-2.0

public import BLECore

/// HCI_LE_Encrypt (Vol 4 Part E 7.8.22).
public struct LEEncrypt: HCICommand {
  public static let opcode = HCIOpcode(rawValue: 0x2017)

  /// Least significant octet first.
  public var key: [UInt8]
  /// Least significant octet first.
  public var plaintextData: [UInt8]

  public init(key: [UInt8], plaintextData: [UInt8]) {
    self.key = key
    self.plaintextData = plaintextData
  }

  public init(from reader: inout ByteReader) throws(DecodeError) {
    key = try reader.array(16)
    plaintextData = try reader.array(16)
  }

  public func encode(into writer: inout ByteWriter) {
    writer.bytes(key, paddedTo: 16)
    writer.bytes(plaintextData, paddedTo: 16)
  }

  public struct ReturnParameters: HCIReturnParameters {
    public var status: HCIStatus
    /// Least significant octet first.
    public var encryptedData: [UInt8]

    public init(status: HCIStatus = .success, encryptedData: [UInt8]) {
      self.status = status
      self.encryptedData = encryptedData
    }

    public init(status: HCIStatus) {
      self.init(status: status, encryptedData: [UInt8](repeating: 0, count: 16))
    }

    public init(from reader: inout ByteReader) throws(DecodeError) {
      self.init(status: HCIStatus(rawValue: try reader.u8()))
      guard try reader.hasReturnParameters(16, after: status) else { return }
      encryptedData = try reader.array(16)
    }

    public func encode(into writer: inout ByteWriter) {
      writer.u8(status.rawValue)
      writer.bytes(encryptedData, paddedTo: 16)
    }
  }
}

/// HCI_LE_Rand (Vol 4 Part E 7.8.23).
public struct LERand: HCICommand {
  public static let opcode = HCIOpcode(rawValue: 0x2018)

  public init() {}

  public init(from reader: inout ByteReader) throws(DecodeError) {}

  public func encode(into writer: inout ByteWriter) {}

  public struct ReturnParameters: HCIReturnParameters {
    public var status: HCIStatus
    public var randomNumber: UInt64

    public init(status: HCIStatus = .success, randomNumber: UInt64) {
      self.status = status
      self.randomNumber = randomNumber
    }

    public init(status: HCIStatus) {
      self.init(status: status, randomNumber: 0)
    }

    public init(from reader: inout ByteReader) throws(DecodeError) {
      self.init(status: HCIStatus(rawValue: try reader.u8()))
      guard try reader.hasReturnParameters(8, after: status) else { return }
      randomNumber = try reader.u64()
    }

    public func encode(into writer: inout ByteWriter) {
      writer.u8(status.rawValue)
      writer.u64(randomNumber)
    }
  }
}

/// HCI_LE_Enable_Encryption (Vol 4 Part E 7.8.24).
///
/// Answered by Command Status; Encryption Change or Encryption Key Refresh Complete follows.
public struct LEEnableEncryption: HCICommand {
  public static let opcode = HCIOpcode(rawValue: 0x2019)
  public typealias ReturnParameters = StatusReturn

  public var connectionHandle: ConnectionHandle
  public var randomNumber: UInt64
  /// EDIV; 0 with LE Secure Connections.
  public var encryptedDiversifier: UInt16
  /// 16 octets, least significant first.
  public var longTermKey: [UInt8]

  public init(
    connectionHandle: ConnectionHandle, randomNumber: UInt64, encryptedDiversifier: UInt16, longTermKey: [UInt8]
  ) {
    self.connectionHandle = connectionHandle
    self.randomNumber = randomNumber
    self.encryptedDiversifier = encryptedDiversifier
    self.longTermKey = longTermKey
  }

  public init(from reader: inout ByteReader) throws(DecodeError) {
    connectionHandle = ConnectionHandle(rawValue: try reader.u16())
    randomNumber = try reader.u64()
    encryptedDiversifier = try reader.u16()
    longTermKey = try reader.array(16)
  }

  public func encode(into writer: inout ByteWriter) {
    writer.u16(connectionHandle.rawValue)
    writer.u64(randomNumber)
    writer.u16(encryptedDiversifier)
    writer.bytes(longTermKey, paddedTo: 16)
  }
}

/// HCI_LE_Long_Term_Key_Request_Reply (Vol 4 Part E 7.8.25).
public struct LELongTermKeyRequestReply: HCICommand {
  public static let opcode = HCIOpcode(rawValue: 0x201A)

  public var connectionHandle: ConnectionHandle
  /// 16 octets, least significant first.
  public var longTermKey: [UInt8]

  public init(connectionHandle: ConnectionHandle, longTermKey: [UInt8]) {
    self.connectionHandle = connectionHandle
    self.longTermKey = longTermKey
  }

  public init(from reader: inout ByteReader) throws(DecodeError) {
    connectionHandle = ConnectionHandle(rawValue: try reader.u16())
    longTermKey = try reader.array(16)
  }

  public func encode(into writer: inout ByteWriter) {
    writer.u16(connectionHandle.rawValue)
    writer.bytes(longTermKey, paddedTo: 16)
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

/// HCI_LE_Long_Term_Key_Request_Negative_Reply (Vol 4 Part E 7.8.26).
public struct LELongTermKeyRequestNegativeReply: HCICommand {
  public static let opcode = HCIOpcode(rawValue: 0x201B)

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

/// HCI_LE_Read_Supported_States (Vol 4 Part E 7.8.27).
public struct LEReadSupportedStates: HCICommand {
  public static let opcode = HCIOpcode(rawValue: 0x201C)

  public init() {}

  public init(from reader: inout ByteReader) throws(DecodeError) {}

  public func encode(into writer: inout ByteWriter) {}

  public struct ReturnParameters: HCIReturnParameters {
    public var status: HCIStatus
    /// Bit field of allowed state combinations.
    public var leStates: UInt64

    public init(status: HCIStatus = .success, leStates: UInt64) {
      self.status = status
      self.leStates = leStates
    }

    public init(status: HCIStatus) {
      self.init(status: status, leStates: 0)
    }

    public init(from reader: inout ByteReader) throws(DecodeError) {
      self.init(status: HCIStatus(rawValue: try reader.u8()))
      guard try reader.hasReturnParameters(8, after: status) else { return }
      leStates = try reader.u64()
    }

    public func encode(into writer: inout ByteWriter) {
      writer.u8(status.rawValue)
      writer.u64(leStates)
    }
  }
}

/// HCI_LE_Remote_Connection_Parameter_Request_Reply (Vol 4 Part E 7.8.31).
public struct LERemoteConnectionParameterRequestReply: HCICommand {
  public static let opcode = HCIOpcode(rawValue: 0x2020)

  public var connectionHandle: ConnectionHandle
  public var intervalMin: ConnectionInterval
  public var intervalMax: ConnectionInterval
  /// Connection events, 0-499.
  public var maxLatency: UInt16
  public var timeout: SupervisionTimeout
  public var minCELength: ConnectionEventLength
  public var maxCELength: ConnectionEventLength

  public init(
    connectionHandle: ConnectionHandle, intervalMin: ConnectionInterval, intervalMax: ConnectionInterval,
    maxLatency: UInt16, timeout: SupervisionTimeout, minCELength: ConnectionEventLength,
    maxCELength: ConnectionEventLength
  ) {
    self.connectionHandle = connectionHandle
    self.intervalMin = intervalMin
    self.intervalMax = intervalMax
    self.maxLatency = maxLatency
    self.timeout = timeout
    self.minCELength = minCELength
    self.maxCELength = maxCELength
  }

  public init(from reader: inout ByteReader) throws(DecodeError) {
    connectionHandle = ConnectionHandle(rawValue: try reader.u16())
    intervalMin = ConnectionInterval(rawValue: try reader.u16())
    intervalMax = ConnectionInterval(rawValue: try reader.u16())
    maxLatency = try reader.u16()
    timeout = SupervisionTimeout(rawValue: try reader.u16())
    minCELength = ConnectionEventLength(rawValue: try reader.u16())
    maxCELength = ConnectionEventLength(rawValue: try reader.u16())
  }

  public func encode(into writer: inout ByteWriter) {
    writer.u16(connectionHandle.rawValue)
    writer.u16(intervalMin.rawValue)
    writer.u16(intervalMax.rawValue)
    writer.u16(maxLatency)
    writer.u16(timeout.rawValue)
    writer.u16(minCELength.rawValue)
    writer.u16(maxCELength.rawValue)
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

/// HCI_LE_Remote_Connection_Parameter_Request_Negative_Reply (Vol 4 Part E 7.8.32).
public struct LERemoteConnectionParameterRequestNegativeReply: HCICommand {
  public static let opcode = HCIOpcode(rawValue: 0x2021)

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

/// HCI_LE_Read_Local_P256_Public_Key (Vol 4 Part E 7.8.36).
///
/// Answered by Command Status; LE Read Local P-256 Public Key Complete follows.
public struct LEReadLocalP256PublicKey: HCICommand {
  public static let opcode = HCIOpcode(rawValue: 0x2025)
  public typealias ReturnParameters = StatusReturn

  public init() {}

  public init(from reader: inout ByteReader) throws(DecodeError) {}

  public func encode(into writer: inout ByteWriter) {}
}

/// HCI_LE_Generate_DHKey (Vol 4 Part E 7.8.37).
///
/// Answered by Command Status; LE Generate DHKey Complete follows.
public struct LEGenerateDHKey: HCICommand {
  public static let opcode = HCIOpcode(rawValue: 0x2026)
  public typealias ReturnParameters = StatusReturn

  /// 32 octets, least significant first.
  public var keyX: [UInt8]
  /// 32 octets, least significant first.
  public var keyY: [UInt8]

  public init(keyX: [UInt8], keyY: [UInt8]) {
    self.keyX = keyX
    self.keyY = keyY
  }

  public init(from reader: inout ByteReader) throws(DecodeError) {
    keyX = try reader.array(32)
    keyY = try reader.array(32)
  }

  public func encode(into writer: inout ByteWriter) {
    writer.bytes(keyX, paddedTo: 32)
    writer.bytes(keyY, paddedTo: 32)
  }
}

/// HCI_LE_Generate_DHKey [v2] (Vol 4 Part E 7.8.37).
///
/// Answered by Command Status; LE Generate DHKey Complete follows.
public struct LEGenerateDHKeyV2: HCICommand {
  public static let opcode = HCIOpcode(rawValue: 0x205E)
  public typealias ReturnParameters = StatusReturn

  /// 32 octets, least significant first.
  public var keyX: [UInt8]
  /// 32 octets, least significant first.
  public var keyY: [UInt8]
  /// 0 the generated private key, 1 the debug key.
  public var keyType: UInt8

  public init(keyX: [UInt8], keyY: [UInt8], keyType: UInt8) {
    self.keyX = keyX
    self.keyY = keyY
    self.keyType = keyType
  }

  public init(from reader: inout ByteReader) throws(DecodeError) {
    keyX = try reader.array(32)
    keyY = try reader.array(32)
    keyType = try reader.u8()
  }

  public func encode(into writer: inout ByteWriter) {
    writer.bytes(keyX, paddedTo: 32)
    writer.bytes(keyY, paddedTo: 32)
    writer.u8(keyType)
  }
}
