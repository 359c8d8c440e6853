// SPDX-License-Identifier: Apache-2.0

public import BLECore

/// HCI_LE_Set_Random_Address (Vol 4 Part E 7.8.4).
public struct LESetRandomAddress: HCICommand {
  public static let opcode = HCIOpcode(rawValue: 0x2005)
  public typealias ReturnParameters = StatusReturn

  public var randomAddress: BDAddress

  public init(randomAddress: BDAddress) {
    self.randomAddress = randomAddress
  }

  public init(from reader: inout ByteReader) throws(DecodeError) {
    randomAddress = try BDAddress(from: &reader)
  }

  public func encode(into writer: inout ByteWriter) {
    randomAddress.encode(into: &writer)
  }
}

/// HCI_LE_Set_Advertising_Parameters (Vol 4 Part E 7.8.5).
///
/// Intervals: 20-4000 hex units of 0.625 ms.
public struct LESetAdvertisingParameters: HCICommand {
  public static let opcode = HCIOpcode(rawValue: 0x2006)
  public typealias ReturnParameters = StatusReturn

  public var advertisingIntervalMin: AdvertisingInterval
  public var advertisingIntervalMax: AdvertisingInterval
  public var advertisingType: AdvertisingType
  public var ownAddressType: AddressType
  public var peerAddressType: AddressType
  public var peerAddress: BDAddress
  public var advertisingChannelMap: AdvertisingChannelMap
  public var advertisingFilterPolicy: AdvertisingFilterPolicy

  public init(
    advertisingIntervalMin: AdvertisingInterval, advertisingIntervalMax: AdvertisingInterval,
    advertisingType: AdvertisingType, ownAddressType: AddressType, peerAddressType: AddressType, peerAddress: BDAddress,
    advertisingChannelMap: AdvertisingChannelMap, advertisingFilterPolicy: AdvertisingFilterPolicy
  ) {
    self.advertisingIntervalMin = advertisingIntervalMin
    self.advertisingIntervalMax = advertisingIntervalMax
    self.advertisingType = advertisingType
    self.ownAddressType = ownAddressType
    self.peerAddressType = peerAddressType
    self.peerAddress = peerAddress
    self.advertisingChannelMap = advertisingChannelMap
    self.advertisingFilterPolicy = advertisingFilterPolicy
  }

  public init(from reader: inout ByteReader) throws(DecodeError) {
    advertisingIntervalMin = AdvertisingInterval(rawValue: UInt32(try reader.u16()))
    advertisingIntervalMax = AdvertisingInterval(rawValue: UInt32(try reader.u16()))
    advertisingType = AdvertisingType(rawValue: try reader.u8())
    ownAddressType = AddressType(rawValue: try reader.u8())
    peerAddressType = AddressType(rawValue: try reader.u8())
    peerAddress = try BDAddress(from: &reader)
    advertisingChannelMap = AdvertisingChannelMap(rawValue: try reader.u8())
    advertisingFilterPolicy = AdvertisingFilterPolicy(rawValue: try reader.u8())
  }

  public func encode(into writer: inout ByteWriter) {
    writer.u16(UInt16(truncatingIfNeeded: advertisingIntervalMin.rawValue))
    writer.u16(UInt16(truncatingIfNeeded: advertisingIntervalMax.rawValue))
    writer.u8(advertisingType.rawValue)
    writer.u8(ownAddressType.rawValue)
    writer.u8(peerAddressType.rawValue)
    peerAddress.encode(into: &writer)
    writer.u8(advertisingChannelMap.rawValue)
    writer.u8(advertisingFilterPolicy.rawValue)
  }
}

/// HCI_LE_Read_Advertising_Physical_Channel_Tx_Power (Vol 4 Part E 7.8.6).
public struct LEReadAdvertisingPhysicalChannelTxPower: HCICommand {
  public static let opcode = HCIOpcode(rawValue: 0x2007)

  public init() {}

  public init(from reader: inout ByteReader) throws(DecodeError) {}

  public func encode(into writer: inout ByteWriter) {}

  public struct ReturnParameters: HCIReturnParameters {
    public var status: HCIStatus
    /// dBm.
    public var txPowerLevel: Int8

    public init(status: HCIStatus = .success, txPowerLevel: Int8) {
      self.status = status
      self.txPowerLevel = txPowerLevel
    }

    public init(status: HCIStatus) {
      self.init(status: status, txPowerLevel: 0)
    }

    public init(from reader: inout ByteReader) throws(DecodeError) {
      self.init(status: HCIStatus(rawValue: try reader.u8()))
      guard try reader.hasReturnParameters(1, after: status) else { return }
      txPowerLevel = try reader.i8()
    }

    public func encode(into writer: inout ByteWriter) {
      writer.u8(status.rawValue)
      writer.i8(txPowerLevel)
    }
  }
}

/// HCI_LE_Set_Advertising_Data (Vol 4 Part E 7.8.7).
public struct LESetAdvertisingData: HCICommand {
  public static let opcode = HCIOpcode(rawValue: 0x2008)
  public typealias ReturnParameters = StatusReturn

  /// At most 31 octets; sent padded with zeros.
  public var data: [UInt8]

  public init(data: [UInt8]) { self.data = data }

  public init(from reader: inout ByteReader) throws(DecodeError) {
    data = try reader.legacyData()
  }

  public func encode(into writer: inout ByteWriter) { writer.legacyData(data) }
}

/// HCI_LE_Set_Scan_Response_Data (Vol 4 Part E 7.8.8).
public struct LESetScanResponseData: HCICommand {
  public static let opcode = HCIOpcode(rawValue: 0x2009)
  public typealias ReturnParameters = StatusReturn

  /// At most 31 octets; sent padded with zeros.
  public var data: [UInt8]

  public init(data: [UInt8]) { self.data = data }

  public init(from reader: inout ByteReader) throws(DecodeError) {
    data = try reader.legacyData()
  }

  public func encode(into writer: inout ByteWriter) { writer.legacyData(data) }
}

/// HCI_LE_Set_Advertising_Enable (Vol 4 Part E 7.8.9).
public struct LESetAdvertisingEnable: HCICommand {
  public static let opcode = HCIOpcode(rawValue: 0x200A)
  public typealias ReturnParameters = StatusReturn

  public var enable: Bool

  public init(enable: Bool) {
    self.enable = enable
  }

  public init(from reader: inout ByteReader) throws(DecodeError) {
    enable = try reader.flag("Enable")
  }

  public func encode(into writer: inout ByteWriter) {
    writer.u8(enable ? 1 : 0)
  }
}

/// HCI_LE_Set_Scan_Parameters (Vol 4 Part E 7.8.10).
///
/// Interval and window: 4-4000 hex units of 0.625 ms.
public struct LESetScanParameters: HCICommand {
  public static let opcode = HCIOpcode(rawValue: 0x200B)
  public typealias ReturnParameters = StatusReturn

  public var scanType: ScanType
  public var scanInterval: ScanInterval
  public var scanWindow: ScanInterval
  public var ownAddressType: AddressType
  public var scanningFilterPolicy: ScanningFilterPolicy

  public init(
    scanType: ScanType, scanInterval: ScanInterval, scanWindow: ScanInterval, ownAddressType: AddressType,
    scanningFilterPolicy: ScanningFilterPolicy
  ) {
    self.scanType = scanType
    self.scanInterval = scanInterval
    self.scanWindow = scanWindow
    self.ownAddressType = ownAddressType
    self.scanningFilterPolicy = scanningFilterPolicy
  }

  public init(from reader: inout ByteReader) throws(DecodeError) {
    scanType = ScanType(rawValue: try reader.u8())
    scanInterval = ScanInterval(rawValue: try reader.u16())
    scanWindow = ScanInterval(rawValue: try reader.u16())
    ownAddressType = AddressType(rawValue: try reader.u8())
    scanningFilterPolicy = ScanningFilterPolicy(rawValue: try reader.u8())
  }

  public func encode(into writer: inout ByteWriter) {
    writer.u8(scanType.rawValue)
    writer.u16(scanInterval.rawValue)
    writer.u16(scanWindow.rawValue)
    writer.u8(ownAddressType.rawValue)
    writer.u8(scanningFilterPolicy.rawValue)
  }
}

/// HCI_LE_Set_Scan_Enable (Vol 4 Part E 7.8.11).
public struct LESetScanEnable: HCICommand {
  public static let opcode = HCIOpcode(rawValue: 0x200C)
  public typealias ReturnParameters = StatusReturn

  public var enable: Bool
  public var filterDuplicates: Bool

  public init(enable: Bool, filterDuplicates: Bool) {
    self.enable = enable
    self.filterDuplicates = filterDuplicates
  }

  public init(from reader: inout ByteReader) throws(DecodeError) {
    enable = try reader.flag("Enable")
    filterDuplicates = try reader.flag("FilterDuplicates")
  }

  public func encode(into writer: inout ByteWriter) {
    writer.u8(enable ? 1 : 0)
    writer.u8(filterDuplicates ? 1 : 0)
  }
}

/// HCI_LE_Read_Filter_Accept_List_Size (Vol 4 Part E 7.8.14).
public struct LEReadFilterAcceptListSize: HCICommand {
  public static let opcode = HCIOpcode(rawValue: 0x200F)

  public init() {}

  public init(from reader: inout ByteReader) throws(DecodeError) {}

  public func encode(into writer: inout ByteWriter) {}

  public struct ReturnParameters: HCIReturnParameters {
    public var status: HCIStatus
    /// Entries.
    public var size: UInt8

    public init(status: HCIStatus = .success, size: UInt8) {
      self.status = status
      self.size = size
    }

    public init(status: HCIStatus) {
      self.init(status: status, size: 0)
    }

    public init(from reader: inout ByteReader) throws(DecodeError) {
      self.init(status: HCIStatus(rawValue: try reader.u8()))
      guard try reader.hasReturnParameters(1, after: status) else { return }
      size = try reader.u8()
    }

    public func encode(into writer: inout ByteWriter) {
      writer.u8(status.rawValue)
      writer.u8(size)
    }
  }
}

/// HCI_LE_Clear_Filter_Accept_List (Vol 4 Part E 7.8.15).
public struct LEClearFilterAcceptList: HCICommand {
  public static let opcode = HCIOpcode(rawValue: 0x2010)
  public typealias ReturnParameters = StatusReturn

  public init() {}

  public init(from reader: inout ByteReader) throws(DecodeError) {}

  public func encode(into writer: inout ByteWriter) {}
}

/// HCI_LE_Add_Device_To_Filter_Accept_List (Vol 4 Part E 7.8.16).
public struct LEAddDeviceToFilterAcceptList: HCICommand {
  public static let opcode = HCIOpcode(rawValue: 0x2011)
  public typealias ReturnParameters = StatusReturn

  public var addressType: AddressType
  public var address: BDAddress

  public init(addressType: AddressType, address: BDAddress) {
    self.addressType = addressType
    self.address = address
  }

  public init(from reader: inout ByteReader) throws(DecodeError) {
    addressType = AddressType(rawValue: try reader.u8())
    address = try BDAddress(from: &reader)
  }

  public func encode(into writer: inout ByteWriter) {
    writer.u8(addressType.rawValue)
    address.encode(into: &writer)
  }
}

/// HCI_LE_Remove_Device_From_Filter_Accept_List (Vol 4 Part E 7.8.17).
public struct LERemoveDeviceFromFilterAcceptList: HCICommand {
  public static let opcode = HCIOpcode(rawValue: 0x2012)
  public typealias ReturnParameters = StatusReturn

  public var addressType: AddressType
  public var address: BDAddress

  public init(addressType: AddressType, address: BDAddress) {
    self.addressType = addressType
    self.address = address
  }

  public init(from reader: inout ByteReader) throws(DecodeError) {
    addressType = AddressType(rawValue: try reader.u8())
    address = try BDAddress(from: &reader)
  }

  public func encode(into writer: inout ByteWriter) {
    writer.u8(addressType.rawValue)
    address.encode(into: &writer)
  }
}
