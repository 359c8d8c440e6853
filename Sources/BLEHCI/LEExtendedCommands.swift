// SPDX-License-Identifier: Apache-2.0

public import BLECore

/// HCI_LE_Read_PHY (Vol 4 Part E 7.8.47).
public struct LEReadPHY: HCICommand {
  public static let opcode = HCIOpcode(rawValue: 0x2030)

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
    public var txPHY: PHY
    public var rxPHY: PHY

    public init(status: HCIStatus = .success, connectionHandle: ConnectionHandle, txPHY: PHY, rxPHY: PHY) {
      self.status = status
      self.connectionHandle = connectionHandle
      self.txPHY = txPHY
      self.rxPHY = rxPHY
    }

    public init(status: HCIStatus) {
      self.init(
        status: status, connectionHandle: ConnectionHandle(rawValue: 0), txPHY: PHY(rawValue: 0),
        rxPHY: PHY(rawValue: 0)
      )
    }

    public init(from reader: inout ByteReader) throws(DecodeError) {
      self.init(status: HCIStatus(rawValue: try reader.u8()))
      guard try reader.hasReturnParameters(4, after: status) else { return }
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
}

/// HCI_LE_Set_Default_PHY (Vol 4 Part E 7.8.48).
public struct LESetDefaultPHY: HCICommand {
  public static let opcode = HCIOpcode(rawValue: 0x2031)
  public typealias ReturnParameters = StatusReturn

  /// Bit 0: no preference for sending; bit 1: none for receiving.
  public var allPHYs: UInt8
  public var txPHYs: PHYMask
  public var rxPHYs: PHYMask

  public init(allPHYs: UInt8, txPHYs: PHYMask, rxPHYs: PHYMask) {
    self.allPHYs = allPHYs
    self.txPHYs = txPHYs
    self.rxPHYs = rxPHYs
  }

  public init(from reader: inout ByteReader) throws(DecodeError) {
    allPHYs = try reader.u8()
    txPHYs = PHYMask(rawValue: try reader.u8())
    rxPHYs = PHYMask(rawValue: try reader.u8())
  }

  public func encode(into writer: inout ByteWriter) {
    writer.u8(allPHYs)
    writer.u8(txPHYs.rawValue)
    writer.u8(rxPHYs.rawValue)
  }
}

/// HCI_LE_Set_PHY (Vol 4 Part E 7.8.49).
///
/// Answered by Command Status; LE PHY Update Complete follows.
public struct LESetPHY: HCICommand {
  public static let opcode = HCIOpcode(rawValue: 0x2032)
  public typealias ReturnParameters = StatusReturn

  public var connectionHandle: ConnectionHandle
  /// Bit 0: no preference for sending; bit 1: none for receiving.
  public var allPHYs: UInt8
  public var txPHYs: PHYMask
  public var rxPHYs: PHYMask
  /// Coded PHY: 0 any, 1 prefer S=2, 2 prefer S=8.
  public var phyOptions: UInt16

  public init(
    connectionHandle: ConnectionHandle, allPHYs: UInt8, txPHYs: PHYMask, rxPHYs: PHYMask, phyOptions: UInt16
  ) {
    self.connectionHandle = connectionHandle
    self.allPHYs = allPHYs
    self.txPHYs = txPHYs
    self.rxPHYs = rxPHYs
    self.phyOptions = phyOptions
  }

  public init(from reader: inout ByteReader) throws(DecodeError) {
    connectionHandle = ConnectionHandle(rawValue: try reader.u16())
    allPHYs = try reader.u8()
    txPHYs = PHYMask(rawValue: try reader.u8())
    rxPHYs = PHYMask(rawValue: try reader.u8())
    phyOptions = try reader.u16()
  }

  public func encode(into writer: inout ByteWriter) {
    writer.u16(connectionHandle.rawValue)
    writer.u8(allPHYs)
    writer.u8(txPHYs.rawValue)
    writer.u8(rxPHYs.rawValue)
    writer.u16(phyOptions)
  }
}

/// HCI_LE_Set_Extended_Scan_Parameters (Vol 4 Part E 7.8.64).
public struct LESetExtendedScanParameters: HCICommand {
  public static let opcode = HCIOpcode(rawValue: 0x2041)
  public typealias ReturnParameters = StatusReturn

  public var ownAddressType: AddressType
  public var scanningFilterPolicy: ScanningFilterPolicy
  /// The PHYs that `phys` speaks of.
  public var scanningPHYs: PHYMask
  /// One per bit of the mask, in the order of the bits.
  public var phys: [PHYParameters]

  public init(
    ownAddressType: AddressType, scanningFilterPolicy: ScanningFilterPolicy, scanningPHYs: PHYMask,
    phys: [PHYParameters]
  ) {
    self.ownAddressType = ownAddressType
    self.scanningFilterPolicy = scanningFilterPolicy
    self.scanningPHYs = scanningPHYs
    self.phys = phys
  }

  public init(from reader: inout ByteReader) throws(DecodeError) {
    ownAddressType = AddressType(rawValue: try reader.u8())
    scanningFilterPolicy = ScanningFilterPolicy(rawValue: try reader.u8())
    scanningPHYs = PHYMask(rawValue: try reader.u8())
    phys = []
    for _ in 0..<scanningPHYs.rawValue.nonzeroBitCount { phys.append(try PHYParameters(from: &reader)) }
  }

  public func encode(into writer: inout ByteWriter) {
    writer.u8(ownAddressType.rawValue)
    writer.u8(scanningFilterPolicy.rawValue)
    writer.u8(scanningPHYs.rawValue)
    for phy in phys.prefix(8) { phy.encode(into: &writer) }
  }

  /// How to scan on one PHY.
  public struct PHYParameters: WireCodable, Hashable, Sendable {
    public var scanType: ScanType
    public var scanInterval: ScanInterval
    public var scanWindow: ScanInterval

    public init(scanType: ScanType, scanInterval: ScanInterval, scanWindow: ScanInterval) {
      self.scanType = scanType
      self.scanInterval = scanInterval
      self.scanWindow = scanWindow
    }

    public init(from reader: inout ByteReader) throws(DecodeError) {
      scanType = ScanType(rawValue: try reader.u8())
      scanInterval = ScanInterval(rawValue: try reader.u16())
      scanWindow = ScanInterval(rawValue: try reader.u16())
    }

    public func encode(into writer: inout ByteWriter) {
      writer.u8(scanType.rawValue)
      writer.u16(scanInterval.rawValue)
      writer.u16(scanWindow.rawValue)
    }
  }
}

/// HCI_LE_Set_Extended_Scan_Enable (Vol 4 Part E 7.8.65).
public struct LESetExtendedScanEnable: HCICommand {
  public static let opcode = HCIOpcode(rawValue: 0x2042)
  public typealias ReturnParameters = StatusReturn

  public var enable: Bool
  public var filterDuplicates: DuplicateFilter
  /// 0: until disabled.
  public var duration: AdvertisingDuration
  /// 0: scan once.
  public var period: ScanPeriod

  public init(enable: Bool, filterDuplicates: DuplicateFilter, duration: AdvertisingDuration, period: ScanPeriod) {
    self.enable = enable
    self.filterDuplicates = filterDuplicates
    self.duration = duration
    self.period = period
  }

  public init(from reader: inout ByteReader) throws(DecodeError) {
    enable = try reader.flag("Enable")
    filterDuplicates = DuplicateFilter(rawValue: try reader.u8())
    duration = AdvertisingDuration(rawValue: try reader.u16())
    period = ScanPeriod(rawValue: try reader.u16())
  }

  public func encode(into writer: inout ByteWriter) {
    writer.u8(enable ? 1 : 0)
    writer.u8(filterDuplicates.rawValue)
    writer.u16(duration.rawValue)
    writer.u16(period.rawValue)
  }
}

/// HCI_LE_Extended_Create_Connection (Vol 4 Part E 7.8.66).
///
/// Answered by Command Status; LE Enhanced Connection Complete follows.
public struct LEExtendedCreateConnection: HCICommand {
  public static let opcode = HCIOpcode(rawValue: 0x2043)
  public typealias ReturnParameters = StatusReturn

  public var initiatorFilterPolicy: InitiatorFilterPolicy
  public var ownAddressType: AddressType
  public var peerAddressType: AddressType
  public var peerAddress: BDAddress
  /// The PHYs that `phys` speaks of.
  public var initiatingPHYs: PHYMask
  /// One per bit of the mask, in the order of the bits.
  public var phys: [PHYParameters]

  public init(
    initiatorFilterPolicy: InitiatorFilterPolicy, ownAddressType: AddressType, peerAddressType: AddressType,
    peerAddress: BDAddress, initiatingPHYs: PHYMask, phys: [PHYParameters]
  ) {
    self.initiatorFilterPolicy = initiatorFilterPolicy
    self.ownAddressType = ownAddressType
    self.peerAddressType = peerAddressType
    self.peerAddress = peerAddress
    self.initiatingPHYs = initiatingPHYs
    self.phys = phys
  }

  public init(from reader: inout ByteReader) throws(DecodeError) {
    initiatorFilterPolicy = InitiatorFilterPolicy(rawValue: try reader.u8())
    ownAddressType = AddressType(rawValue: try reader.u8())
    peerAddressType = AddressType(rawValue: try reader.u8())
    peerAddress = try BDAddress(from: &reader)
    initiatingPHYs = PHYMask(rawValue: try reader.u8())
    phys = []
    for _ in 0..<initiatingPHYs.rawValue.nonzeroBitCount { phys.append(try PHYParameters(from: &reader)) }
  }

  public func encode(into writer: inout ByteWriter) {
    writer.u8(initiatorFilterPolicy.rawValue)
    writer.u8(ownAddressType.rawValue)
    writer.u8(peerAddressType.rawValue)
    peerAddress.encode(into: &writer)
    writer.u8(initiatingPHYs.rawValue)
    for phy in phys.prefix(8) { phy.encode(into: &writer) }
  }

  /// How to scan for and to connect the peer on one PHY.
  public struct PHYParameters: WireCodable, Hashable, Sendable {
    public var scanInterval: ScanInterval
    public var scanWindow: ScanInterval
    public var connectionIntervalMin: ConnectionInterval
    public var connectionIntervalMax: ConnectionInterval
    /// Connection events, 0-499.
    public var maxLatency: UInt16
    public var supervisionTimeout: SupervisionTimeout
    public var minCELength: ConnectionEventLength
    public var maxCELength: ConnectionEventLength

    public init(
      scanInterval: ScanInterval, scanWindow: ScanInterval, connectionIntervalMin: ConnectionInterval,
      connectionIntervalMax: ConnectionInterval, maxLatency: UInt16, supervisionTimeout: SupervisionTimeout,
      minCELength: ConnectionEventLength, maxCELength: ConnectionEventLength
    ) {
      self.scanInterval = scanInterval
      self.scanWindow = scanWindow
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
      writer.u16(connectionIntervalMin.rawValue)
      writer.u16(connectionIntervalMax.rawValue)
      writer.u16(maxLatency)
      writer.u16(supervisionTimeout.rawValue)
      writer.u16(minCELength.rawValue)
      writer.u16(maxCELength.rawValue)
    }
  }
}

/// HCI_LE_Read_Transmit_Power (Vol 4 Part E 7.8.74).
public struct LEReadTransmitPower: HCICommand {
  public static let opcode = HCIOpcode(rawValue: 0x204B)

  public init() {}

  public init(from reader: inout ByteReader) throws(DecodeError) {}

  public func encode(into writer: inout ByteWriter) {}

  public struct ReturnParameters: HCIReturnParameters {
    public var status: HCIStatus
    /// dBm.
    public var minTxPower: Int8
    /// dBm.
    public var maxTxPower: Int8

    public init(status: HCIStatus = .success, minTxPower: Int8, maxTxPower: Int8) {
      self.status = status
      self.minTxPower = minTxPower
      self.maxTxPower = maxTxPower
    }

    public init(status: HCIStatus) {
      self.init(status: status, minTxPower: 0, maxTxPower: 0)
    }

    public init(from reader: inout ByteReader) throws(DecodeError) {
      self.init(status: HCIStatus(rawValue: try reader.u8()))
      guard try reader.hasReturnParameters(2, after: status) else { return }
      minTxPower = try reader.i8()
      maxTxPower = try reader.i8()
    }

    public func encode(into writer: inout ByteWriter) {
      writer.u8(status.rawValue)
      writer.i8(minTxPower)
      writer.i8(maxTxPower)
    }
  }
}

/// HCI_LE_Read_Buffer_Size [v2] (Vol 4 Part E 7.8.2).
public struct LEReadBufferSizeV2: HCICommand {
  public static let opcode = HCIOpcode(rawValue: 0x2060)

  public init() {}

  public init(from reader: inout ByteReader) throws(DecodeError) {}

  public func encode(into writer: inout ByteWriter) {}

  public struct ReturnParameters: HCIReturnParameters {
    public var status: HCIStatus
    /// Octets; 0: LE shares the buffers of Read Buffer Size.
    public var leACLDataPacketLength: UInt16
    /// Buffers for all LE links together.
    public var totalNumLEACLDataPackets: UInt8
    public var isoDataPacketLength: UInt16
    public var totalNumISODataPackets: UInt8

    public init(
      status: HCIStatus = .success, leACLDataPacketLength: UInt16, totalNumLEACLDataPackets: UInt8,
      isoDataPacketLength: UInt16, totalNumISODataPackets: UInt8
    ) {
      self.status = status
      self.leACLDataPacketLength = leACLDataPacketLength
      self.totalNumLEACLDataPackets = totalNumLEACLDataPackets
      self.isoDataPacketLength = isoDataPacketLength
      self.totalNumISODataPackets = totalNumISODataPackets
    }

    public init(status: HCIStatus) {
      self.init(
        status: status, leACLDataPacketLength: 0, totalNumLEACLDataPackets: 0, isoDataPacketLength: 0,
        totalNumISODataPackets: 0
      )
    }

    public init(from reader: inout ByteReader) throws(DecodeError) {
      self.init(status: HCIStatus(rawValue: try reader.u8()))
      guard try reader.hasReturnParameters(6, after: status) else { return }
      leACLDataPacketLength = try reader.u16()
      totalNumLEACLDataPackets = try reader.u8()
      isoDataPacketLength = try reader.u16()
      totalNumISODataPackets = try reader.u8()
    }

    public func encode(into writer: inout ByteWriter) {
      writer.u8(status.rawValue)
      writer.u16(leACLDataPacketLength)
      writer.u8(totalNumLEACLDataPackets)
      writer.u16(isoDataPacketLength)
      writer.u8(totalNumISODataPackets)
    }
  }
}

/// HCI_LE_Set_Host_Feature (Vol 4 Part E 7.8.115).
public struct LESetHostFeature: HCICommand {
  public static let opcode = HCIOpcode(rawValue: 0x2074)
  public typealias ReturnParameters = StatusReturn

  /// Feature bit the host controls (32 ISO host, 38 subrating host).
  public var bitNumber: UInt8
  public var bitValue: Bool

  public init(bitNumber: UInt8, bitValue: Bool) {
    self.bitNumber = bitNumber
    self.bitValue = bitValue
  }

  public init(from reader: inout ByteReader) throws(DecodeError) {
    bitNumber = try reader.u8()
    bitValue = try reader.flag("BitValue")
  }

  public func encode(into writer: inout ByteWriter) {
    writer.u8(bitNumber)
    writer.u8(bitValue ? 1 : 0)
  }
}
