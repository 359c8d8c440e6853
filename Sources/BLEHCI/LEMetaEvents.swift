// SPDX-License-Identifier: Apache-2.0

public import BLECore

/// HCI_LE_Connection_Complete (Vol 4 Part E 7.7.65.1).
public struct LEConnectionComplete: LEMetaEvent {
  public static let subevent = LESubevent.connectionComplete

  public var status: HCIStatus
  public var connectionHandle: ConnectionHandle
  public var role: ConnectionRole
  public var peerAddressType: AddressType
  public var peerAddress: BDAddress
  public var connectionInterval: ConnectionInterval
  /// Connection events, 0-499.
  public var peripheralLatency: UInt16
  public var supervisionTimeout: SupervisionTimeout
  /// 0: 500 ppm, 1: 250, 2: 150, 3: 100, 4: 75, 5: 50, 6: 30, 7: 20; meaningful for a Peripheral only.
  public var centralClockAccuracy: UInt8

  public init(
    status: HCIStatus, connectionHandle: ConnectionHandle, role: ConnectionRole, peerAddressType: AddressType,
    peerAddress: BDAddress, connectionInterval: ConnectionInterval, peripheralLatency: UInt16,
    supervisionTimeout: SupervisionTimeout, centralClockAccuracy: UInt8
  ) {
    self.status = status
    self.connectionHandle = connectionHandle
    self.role = role
    self.peerAddressType = peerAddressType
    self.peerAddress = peerAddress
    self.connectionInterval = connectionInterval
    self.peripheralLatency = peripheralLatency
    self.supervisionTimeout = supervisionTimeout
    self.centralClockAccuracy = centralClockAccuracy
  }

  public init(from reader: inout ByteReader) throws(DecodeError) {
    status = HCIStatus(rawValue: try reader.u8())
    connectionHandle = ConnectionHandle(rawValue: try reader.u16())
    role = ConnectionRole(rawValue: try reader.u8())
    peerAddressType = AddressType(rawValue: try reader.u8())
    peerAddress = try BDAddress(from: &reader)
    connectionInterval = ConnectionInterval(rawValue: try reader.u16())
    peripheralLatency = try reader.u16()
    supervisionTimeout = SupervisionTimeout(rawValue: try reader.u16())
    centralClockAccuracy = try reader.u8()
  }

  public func encode(into writer: inout ByteWriter) {
    writer.u8(status.rawValue)
    writer.u16(connectionHandle.rawValue)
    writer.u8(role.rawValue)
    writer.u8(peerAddressType.rawValue)
    peerAddress.encode(into: &writer)
    writer.u16(connectionInterval.rawValue)
    writer.u16(peripheralLatency)
    writer.u16(supervisionTimeout.rawValue)
    writer.u8(centralClockAccuracy)
  }
}

/// HCI_LE_Connection_Update_Complete (Vol 4 Part E 7.7.65.3).
public struct LEConnectionUpdateComplete: LEMetaEvent {
  public static let subevent = LESubevent.connectionUpdateComplete

  public var status: HCIStatus
  public var connectionHandle: ConnectionHandle
  public var connectionInterval: ConnectionInterval
  /// Connection events, 0-499.
  public var peripheralLatency: UInt16
  public var supervisionTimeout: SupervisionTimeout

  public init(
    status: HCIStatus, connectionHandle: ConnectionHandle, connectionInterval: ConnectionInterval,
    peripheralLatency: UInt16, supervisionTimeout: SupervisionTimeout
  ) {
    self.status = status
    self.connectionHandle = connectionHandle
    self.connectionInterval = connectionInterval
    self.peripheralLatency = peripheralLatency
    self.supervisionTimeout = supervisionTimeout
  }

  public init(from reader: inout ByteReader) throws(DecodeError) {
    status = HCIStatus(rawValue: try reader.u8())
    connectionHandle = ConnectionHandle(rawValue: try reader.u16())
    connectionInterval = ConnectionInterval(rawValue: try reader.u16())
    peripheralLatency = try reader.u16()
    supervisionTimeout = SupervisionTimeout(rawValue: try reader.u16())
  }

  public func encode(into writer: inout ByteWriter) {
    writer.u8(status.rawValue)
    writer.u16(connectionHandle.rawValue)
    writer.u16(connectionInterval.rawValue)
    writer.u16(peripheralLatency)
    writer.u16(supervisionTimeout.rawValue)
  }
}

/// HCI_LE_Read_Remote_Features_Complete (Vol 4 Part E 7.7.65.4).
public struct LEReadRemoteFeaturesComplete: LEMetaEvent {
  public static let subevent = LESubevent.readRemoteFeaturesComplete

  public var status: HCIStatus
  public var connectionHandle: ConnectionHandle
  /// See ``LEFeatures``.
  public var leFeatures: UInt64

  public init(status: HCIStatus, connectionHandle: ConnectionHandle, leFeatures: UInt64) {
    self.status = status
    self.connectionHandle = connectionHandle
    self.leFeatures = leFeatures
  }

  public init(from reader: inout ByteReader) throws(DecodeError) {
    status = HCIStatus(rawValue: try reader.u8())
    connectionHandle = ConnectionHandle(rawValue: try reader.u16())
    leFeatures = try reader.u64()
  }

  public func encode(into writer: inout ByteWriter) {
    writer.u8(status.rawValue)
    writer.u16(connectionHandle.rawValue)
    writer.u64(leFeatures)
  }
}

/// HCI_LE_Long_Term_Key_Request (Vol 4 Part E 7.7.65.5).
public struct LELongTermKeyRequest: LEMetaEvent {
  public static let subevent = LESubevent.longTermKeyRequest

  public var connectionHandle: ConnectionHandle
  public var randomNumber: UInt64
  /// EDIV; 0 with LE Secure Connections.
  public var encryptedDiversifier: UInt16

  public init(connectionHandle: ConnectionHandle, randomNumber: UInt64, encryptedDiversifier: UInt16) {
    self.connectionHandle = connectionHandle
    self.randomNumber = randomNumber
    self.encryptedDiversifier = encryptedDiversifier
  }

  public init(from reader: inout ByteReader) throws(DecodeError) {
    connectionHandle = ConnectionHandle(rawValue: try reader.u16())
    randomNumber = try reader.u64()
    encryptedDiversifier = try reader.u16()
  }

  public func encode(into writer: inout ByteWriter) {
    writer.u16(connectionHandle.rawValue)
    writer.u64(randomNumber)
    writer.u16(encryptedDiversifier)
  }
}

/// HCI_LE_Remote_Connection_Parameter_Request (Vol 4 Part E 7.7.65.6).
public struct LERemoteConnectionParameterRequest: LEMetaEvent {
  public static let subevent = LESubevent.remoteConnectionParameterRequest

  public var connectionHandle: ConnectionHandle
  public var intervalMin: ConnectionInterval
  public var intervalMax: ConnectionInterval
  /// Connection events, 0-499.
  public var maxLatency: UInt16
  public var timeout: SupervisionTimeout

  public init(
    connectionHandle: ConnectionHandle, intervalMin: ConnectionInterval, intervalMax: ConnectionInterval,
    maxLatency: UInt16, timeout: SupervisionTimeout
  ) {
    self.connectionHandle = connectionHandle
    self.intervalMin = intervalMin
    self.intervalMax = intervalMax
    self.maxLatency = maxLatency
    self.timeout = timeout
  }

  public init(from reader: inout ByteReader) throws(DecodeError) {
    connectionHandle = ConnectionHandle(rawValue: try reader.u16())
    intervalMin = ConnectionInterval(rawValue: try reader.u16())
    intervalMax = ConnectionInterval(rawValue: try reader.u16())
    maxLatency = try reader.u16()
    timeout = SupervisionTimeout(rawValue: try reader.u16())
  }

  public func encode(into writer: inout ByteWriter) {
    writer.u16(connectionHandle.rawValue)
    writer.u16(intervalMin.rawValue)
    writer.u16(intervalMax.rawValue)
    writer.u16(maxLatency)
    writer.u16(timeout.rawValue)
  }
}

/// HCI_LE_Data_Length_Change (Vol 4 Part E 7.7.65.7).
public struct LEDataLengthChange: LEMetaEvent {
  public static let subevent = LESubevent.dataLengthChange

  public var connectionHandle: ConnectionHandle
  public var maxTxOctets: UInt16
  /// Microseconds.
  public var maxTxTime: UInt16
  public var maxRxOctets: UInt16
  /// Microseconds.
  public var maxRxTime: UInt16

  public init(
    connectionHandle: ConnectionHandle, maxTxOctets: UInt16, maxTxTime: UInt16, maxRxOctets: UInt16, maxRxTime: UInt16
  ) {
    self.connectionHandle = connectionHandle
    self.maxTxOctets = maxTxOctets
    self.maxTxTime = maxTxTime
    self.maxRxOctets = maxRxOctets
    self.maxRxTime = maxRxTime
  }

  public init(from reader: inout ByteReader) throws(DecodeError) {
    connectionHandle = ConnectionHandle(rawValue: try reader.u16())
    maxTxOctets = try reader.u16()
    maxTxTime = try reader.u16()
    maxRxOctets = try reader.u16()
    maxRxTime = try reader.u16()
  }

  public func encode(into writer: inout ByteWriter) {
    writer.u16(connectionHandle.rawValue)
    writer.u16(maxTxOctets)
    writer.u16(maxTxTime)
    writer.u16(maxRxOctets)
    writer.u16(maxRxTime)
  }
}

/// HCI_LE_Read_Local_P256_Public_Key_Complete (Vol 4 Part E 7.7.65.8).
public struct LEReadLocalP256PublicKeyComplete: LEMetaEvent {
  public static let subevent = LESubevent.readLocalP256PublicKeyComplete

  public var status: HCIStatus
  /// 32 octets, least significant first.
  public var keyX: [UInt8]
  /// 32 octets, least significant first.
  public var keyY: [UInt8]

  public init(status: HCIStatus, keyX: [UInt8], keyY: [UInt8]) {
    self.status = status
    self.keyX = keyX
    self.keyY = keyY
  }

  public init(from reader: inout ByteReader) throws(DecodeError) {
    status = HCIStatus(rawValue: try reader.u8())
    keyX = try reader.array(32)
    keyY = try reader.array(32)
  }

  public func encode(into writer: inout ByteWriter) {
    writer.u8(status.rawValue)
    writer.bytes(keyX, paddedTo: 32)
    writer.bytes(keyY, paddedTo: 32)
  }
}

/// HCI_LE_Generate_DHKey_Complete (Vol 4 Part E 7.7.65.9).
public struct LEGenerateDHKeyComplete: LEMetaEvent {
  public static let subevent = LESubevent.generateDHKeyComplete

  public var status: HCIStatus
  /// 32 octets, least significant first.
  public var dhKey: [UInt8]

  public init(status: HCIStatus, dhKey: [UInt8]) {
    self.status = status
    self.dhKey = dhKey
  }

  public init(from reader: inout ByteReader) throws(DecodeError) {
    status = HCIStatus(rawValue: try reader.u8())
    dhKey = try reader.array(32)
  }

  public func encode(into writer: inout ByteWriter) {
    writer.u8(status.rawValue)
    writer.bytes(dhKey, paddedTo: 32)
  }
}

/// HCI_LE_Enhanced_Connection_Complete (Vol 4 Part E 7.7.65.10).
public struct LEEnhancedConnectionComplete: LEMetaEvent {
  public static let subevent = LESubevent.enhancedConnectionComplete

  public var status: HCIStatus
  public var connectionHandle: ConnectionHandle
  public var role: ConnectionRole
  public var peerAddressType: AddressType
  public var peerAddress: BDAddress
  /// Zero if none was in use.
  public var localResolvablePrivateAddress: BDAddress
  /// Zero if none was in use.
  public var peerResolvablePrivateAddress: BDAddress
  public var connectionInterval: ConnectionInterval
  /// Connection events, 0-499.
  public var peripheralLatency: UInt16
  public var supervisionTimeout: SupervisionTimeout
  /// 0: 500 ppm, 1: 250, 2: 150, 3: 100, 4: 75, 5: 50, 6: 30, 7: 20; meaningful for a Peripheral only.
  public var centralClockAccuracy: UInt8

  public init(
    status: HCIStatus, connectionHandle: ConnectionHandle, role: ConnectionRole, peerAddressType: AddressType,
    peerAddress: BDAddress, localResolvablePrivateAddress: BDAddress, peerResolvablePrivateAddress: BDAddress,
    connectionInterval: ConnectionInterval, peripheralLatency: UInt16, supervisionTimeout: SupervisionTimeout,
    centralClockAccuracy: UInt8
  ) {
    self.status = status
    self.connectionHandle = connectionHandle
    self.role = role
    self.peerAddressType = peerAddressType
    self.peerAddress = peerAddress
    self.localResolvablePrivateAddress = localResolvablePrivateAddress
    self.peerResolvablePrivateAddress = peerResolvablePrivateAddress
    self.connectionInterval = connectionInterval
    self.peripheralLatency = peripheralLatency
    self.supervisionTimeout = supervisionTimeout
    self.centralClockAccuracy = centralClockAccuracy
  }

  public init(from reader: inout ByteReader) throws(DecodeError) {
    status = HCIStatus(rawValue: try reader.u8())
    connectionHandle = ConnectionHandle(rawValue: try reader.u16())
    role = ConnectionRole(rawValue: try reader.u8())
    peerAddressType = AddressType(rawValue: try reader.u8())
    peerAddress = try BDAddress(from: &reader)
    localResolvablePrivateAddress = try BDAddress(from: &reader)
    peerResolvablePrivateAddress = try BDAddress(from: &reader)
    connectionInterval = ConnectionInterval(rawValue: try reader.u16())
    peripheralLatency = try reader.u16()
    supervisionTimeout = SupervisionTimeout(rawValue: try reader.u16())
    centralClockAccuracy = try reader.u8()
  }

  public func encode(into writer: inout ByteWriter) {
    writer.u8(status.rawValue)
    writer.u16(connectionHandle.rawValue)
    writer.u8(role.rawValue)
    writer.u8(peerAddressType.rawValue)
    peerAddress.encode(into: &writer)
    localResolvablePrivateAddress.encode(into: &writer)
    peerResolvablePrivateAddress.encode(into: &writer)
    writer.u16(connectionInterval.rawValue)
    writer.u16(peripheralLatency)
    writer.u16(supervisionTimeout.rawValue)
    writer.u8(centralClockAccuracy)
  }
}

/// HCI_LE_PHY_Update_Complete (Vol 4 Part E 7.7.65.12).
public struct LEPHYUpdateComplete: LEMetaEvent {
  public static let subevent = LESubevent.phyUpdateComplete

  public var status: HCIStatus
  public var connectionHandle: ConnectionHandle
  public var txPHY: PHY
  public var rxPHY: PHY

  public init(status: HCIStatus, connectionHandle: ConnectionHandle, txPHY: PHY, rxPHY: PHY) {
    self.status = status
    self.connectionHandle = connectionHandle
    self.txPHY = txPHY
    self.rxPHY = rxPHY
  }

  public init(from reader: inout ByteReader) throws(DecodeError) {
    status = HCIStatus(rawValue: try reader.u8())
    connectionHandle = ConnectionHandle(rawValue: try reader.u16())
    txPHY = PHY(rawValue: try reader.u8())
    rxPHY = PHY(rawValue: try reader.u8())
  }

  public func encode(into writer: inout ByteWriter) {
    writer.u8(status.rawValue)
    writer.u16(connectionHandle.rawValue)
    writer.u8(txPHY.rawValue)
    writer.u8(rxPHY.rawValue)
  }
}

/// HCI_LE_Channel_Selection_Algorithm (Vol 4 Part E 7.7.65.20).
public struct LEChannelSelectionAlgorithm: LEMetaEvent {
  public static let subevent = LESubevent.channelSelectionAlgorithm

  public var connectionHandle: ConnectionHandle
  public var channelSelectionAlgorithm: ChannelSelectionAlgorithm

  public init(connectionHandle: ConnectionHandle, channelSelectionAlgorithm: ChannelSelectionAlgorithm) {
    self.connectionHandle = connectionHandle
    self.channelSelectionAlgorithm = channelSelectionAlgorithm
  }

  public init(from reader: inout ByteReader) throws(DecodeError) {
    connectionHandle = ConnectionHandle(rawValue: try reader.u16())
    channelSelectionAlgorithm = ChannelSelectionAlgorithm(rawValue: try reader.u8())
  }

  public func encode(into writer: inout ByteWriter) {
    writer.u16(connectionHandle.rawValue)
    writer.u8(channelSelectionAlgorithm.rawValue)
  }
}

/// HCI_LE_Enhanced_Connection_Complete [v2] (Vol 4 Part E 7.7.65.10).
public struct LEEnhancedConnectionCompleteV2: LEMetaEvent {
  public static let subevent = LESubevent.enhancedConnectionCompleteV2

  public var status: HCIStatus
  public var connectionHandle: ConnectionHandle
  public var role: ConnectionRole
  public var peerAddressType: AddressType
  public var peerAddress: BDAddress
  /// Zero if none was in use.
  public var localResolvablePrivateAddress: BDAddress
  /// Zero if none was in use.
  public var peerResolvablePrivateAddress: BDAddress
  public var connectionInterval: ConnectionInterval
  /// Connection events, 0-499.
  public var peripheralLatency: UInt16
  public var supervisionTimeout: SupervisionTimeout
  /// 0: 500 ppm, 1: 250, 2: 150, 3: 100, 4: 75, 5: 50, 6: 30, 7: 20; meaningful for a Peripheral only.
  public var centralClockAccuracy: UInt8
  /// 00-EF.
  public var advertisingHandle: UInt8
  /// FFFF if not by periodic advertising.
  public var syncHandle: UInt16

  public init(
    status: HCIStatus, connectionHandle: ConnectionHandle, role: ConnectionRole, peerAddressType: AddressType,
    peerAddress: BDAddress, localResolvablePrivateAddress: BDAddress, peerResolvablePrivateAddress: BDAddress,
    connectionInterval: ConnectionInterval, peripheralLatency: UInt16, supervisionTimeout: SupervisionTimeout,
    centralClockAccuracy: UInt8, advertisingHandle: UInt8, syncHandle: UInt16
  ) {
    self.status = status
    self.connectionHandle = connectionHandle
    self.role = role
    self.peerAddressType = peerAddressType
    self.peerAddress = peerAddress
    self.localResolvablePrivateAddress = localResolvablePrivateAddress
    self.peerResolvablePrivateAddress = peerResolvablePrivateAddress
    self.connectionInterval = connectionInterval
    self.peripheralLatency = peripheralLatency
    self.supervisionTimeout = supervisionTimeout
    self.centralClockAccuracy = centralClockAccuracy
    self.advertisingHandle = advertisingHandle
    self.syncHandle = syncHandle
  }

  public init(from reader: inout ByteReader) throws(DecodeError) {
    status = HCIStatus(rawValue: try reader.u8())
    connectionHandle = ConnectionHandle(rawValue: try reader.u16())
    role = ConnectionRole(rawValue: try reader.u8())
    peerAddressType = AddressType(rawValue: try reader.u8())
    peerAddress = try BDAddress(from: &reader)
    localResolvablePrivateAddress = try BDAddress(from: &reader)
    peerResolvablePrivateAddress = try BDAddress(from: &reader)
    connectionInterval = ConnectionInterval(rawValue: try reader.u16())
    peripheralLatency = try reader.u16()
    supervisionTimeout = SupervisionTimeout(rawValue: try reader.u16())
    centralClockAccuracy = try reader.u8()
    advertisingHandle = try reader.u8()
    syncHandle = try reader.u16()
  }

  public func encode(into writer: inout ByteWriter) {
    writer.u8(status.rawValue)
    writer.u16(connectionHandle.rawValue)
    writer.u8(role.rawValue)
    writer.u8(peerAddressType.rawValue)
    peerAddress.encode(into: &writer)
    localResolvablePrivateAddress.encode(into: &writer)
    peerResolvablePrivateAddress.encode(into: &writer)
    writer.u16(connectionInterval.rawValue)
    writer.u16(peripheralLatency)
    writer.u16(supervisionTimeout.rawValue)
    writer.u8(centralClockAccuracy)
    writer.u8(advertisingHandle)
    writer.u16(syncHandle)
  }
}
