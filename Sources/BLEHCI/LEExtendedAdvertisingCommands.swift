// SPDX-License-Identifier: Apache-2.0

public import BLECore

/// HCI_LE_Set_Advertising_Set_Random_Address (Vol 4 Part E 7.8.52).
public struct LESetAdvertisingSetRandomAddress: HCICommand {
  public static let opcode = HCIOpcode(rawValue: 0x2035)
  public typealias ReturnParameters = StatusReturn

  /// 00-EF.
  public var advertisingHandle: UInt8
  public var randomAddress: BDAddress

  public init(advertisingHandle: UInt8, randomAddress: BDAddress) {
    self.advertisingHandle = advertisingHandle
    self.randomAddress = randomAddress
  }

  public init(from reader: inout ByteReader) throws(DecodeError) {
    advertisingHandle = try reader.u8()
    randomAddress = try BDAddress(from: &reader)
  }

  public func encode(into writer: inout ByteWriter) {
    writer.u8(advertisingHandle)
    randomAddress.encode(into: &writer)
  }
}

/// HCI_LE_Set_Extended_Advertising_Parameters (Vol 4 Part E 7.8.53).
///
/// Intervals: 20-FFFFFF hex units of 0.625 ms.
public struct LESetExtendedAdvertisingParameters: HCICommand {
  public static let opcode = HCIOpcode(rawValue: 0x2036)

  /// 00-EF.
  public var advertisingHandle: UInt8
  public var advertisingEventProperties: AdvertisingEventProperties
  public var primaryAdvertisingIntervalMin: AdvertisingInterval
  public var primaryAdvertisingIntervalMax: AdvertisingInterval
  public var primaryAdvertisingChannelMap: AdvertisingChannelMap
  public var ownAddressType: AddressType
  public var peerAddressType: AddressType
  public var peerAddress: BDAddress
  public var advertisingFilterPolicy: AdvertisingFilterPolicy
  /// dBm, -127 to 20; 127: no preference.
  public var advertisingTxPower: Int8
  public var primaryAdvertisingPHY: PHY
  /// Advertising events that may pass before AUX_ADV_IND.
  public var secondaryAdvertisingMaxSkip: UInt8
  public var secondaryAdvertisingPHY: PHY
  /// Advertising_SID, 0-15; FF in a report without one.
  public var advertisingSID: UInt8
  public var scanRequestNotificationEnable: Bool

  public init(
    advertisingHandle: UInt8, advertisingEventProperties: AdvertisingEventProperties,
    primaryAdvertisingIntervalMin: AdvertisingInterval, primaryAdvertisingIntervalMax: AdvertisingInterval,
    primaryAdvertisingChannelMap: AdvertisingChannelMap, ownAddressType: AddressType, peerAddressType: AddressType,
    peerAddress: BDAddress, advertisingFilterPolicy: AdvertisingFilterPolicy, advertisingTxPower: Int8,
    primaryAdvertisingPHY: PHY, secondaryAdvertisingMaxSkip: UInt8, secondaryAdvertisingPHY: PHY, advertisingSID: UInt8,
    scanRequestNotificationEnable: Bool
  ) {
    self.advertisingHandle = advertisingHandle
    self.advertisingEventProperties = advertisingEventProperties
    self.primaryAdvertisingIntervalMin = primaryAdvertisingIntervalMin
    self.primaryAdvertisingIntervalMax = primaryAdvertisingIntervalMax
    self.primaryAdvertisingChannelMap = primaryAdvertisingChannelMap
    self.ownAddressType = ownAddressType
    self.peerAddressType = peerAddressType
    self.peerAddress = peerAddress
    self.advertisingFilterPolicy = advertisingFilterPolicy
    self.advertisingTxPower = advertisingTxPower
    self.primaryAdvertisingPHY = primaryAdvertisingPHY
    self.secondaryAdvertisingMaxSkip = secondaryAdvertisingMaxSkip
    self.secondaryAdvertisingPHY = secondaryAdvertisingPHY
    self.advertisingSID = advertisingSID
    self.scanRequestNotificationEnable = scanRequestNotificationEnable
  }

  public init(from reader: inout ByteReader) throws(DecodeError) {
    advertisingHandle = try reader.u8()
    advertisingEventProperties = AdvertisingEventProperties(rawValue: try reader.u16())
    primaryAdvertisingIntervalMin = AdvertisingInterval(rawValue: try reader.u24())
    primaryAdvertisingIntervalMax = AdvertisingInterval(rawValue: try reader.u24())
    primaryAdvertisingChannelMap = AdvertisingChannelMap(rawValue: try reader.u8())
    ownAddressType = AddressType(rawValue: try reader.u8())
    peerAddressType = AddressType(rawValue: try reader.u8())
    peerAddress = try BDAddress(from: &reader)
    advertisingFilterPolicy = AdvertisingFilterPolicy(rawValue: try reader.u8())
    advertisingTxPower = try reader.i8()
    primaryAdvertisingPHY = PHY(rawValue: try reader.u8())
    secondaryAdvertisingMaxSkip = try reader.u8()
    secondaryAdvertisingPHY = PHY(rawValue: try reader.u8())
    advertisingSID = try reader.u8()
    scanRequestNotificationEnable = try reader.flag("ScanRequestNotificationEnable")
  }

  public func encode(into writer: inout ByteWriter) {
    writer.u8(advertisingHandle)
    writer.u16(advertisingEventProperties.rawValue)
    writer.u24(primaryAdvertisingIntervalMin.rawValue)
    writer.u24(primaryAdvertisingIntervalMax.rawValue)
    writer.u8(primaryAdvertisingChannelMap.rawValue)
    writer.u8(ownAddressType.rawValue)
    writer.u8(peerAddressType.rawValue)
    peerAddress.encode(into: &writer)
    writer.u8(advertisingFilterPolicy.rawValue)
    writer.i8(advertisingTxPower)
    writer.u8(primaryAdvertisingPHY.rawValue)
    writer.u8(secondaryAdvertisingMaxSkip)
    writer.u8(secondaryAdvertisingPHY.rawValue)
    writer.u8(advertisingSID)
    writer.u8(scanRequestNotificationEnable ? 1 : 0)
  }

  public struct ReturnParameters: HCIReturnParameters {
    public var status: HCIStatus
    /// dBm.
    public var selectedTxPower: Int8

    public init(status: HCIStatus = .success, selectedTxPower: Int8) {
      self.status = status
      self.selectedTxPower = selectedTxPower
    }

    public init(status: HCIStatus) {
      self.init(status: status, selectedTxPower: 0)
    }

    public init(from reader: inout ByteReader) throws(DecodeError) {
      self.init(status: HCIStatus(rawValue: try reader.u8()))
      guard try reader.hasReturnParameters(1, after: status) else { return }
      selectedTxPower = try reader.i8()
    }

    public func encode(into writer: inout ByteWriter) {
      writer.u8(status.rawValue)
      writer.i8(selectedTxPower)
    }
  }
}

/// HCI_LE_Set_Extended_Advertising_Data (Vol 4 Part E 7.8.54).
public struct LESetExtendedAdvertisingData: HCICommand {
  public static let opcode = HCIOpcode(rawValue: 0x2037)
  public typealias ReturnParameters = StatusReturn

  /// 00-EF.
  public var advertisingHandle: UInt8
  /// Which part of the data this is.
  public var operation: AdvertisingDataOperation
  /// 0 the controller may fragment, 1 it should not.
  public var fragmentPreference: UInt8
  /// At most 251 octets.
  public var advertisingData: [UInt8]

  public init(
    advertisingHandle: UInt8, operation: AdvertisingDataOperation, fragmentPreference: UInt8, advertisingData: [UInt8]
  ) {
    self.advertisingHandle = advertisingHandle
    self.operation = operation
    self.fragmentPreference = fragmentPreference
    self.advertisingData = advertisingData
  }

  public init(from reader: inout ByteReader) throws(DecodeError) {
    advertisingHandle = try reader.u8()
    operation = AdvertisingDataOperation(rawValue: try reader.u8())
    fragmentPreference = try reader.u8()
    advertisingData = try reader.extendedData()
  }

  public func encode(into writer: inout ByteWriter) {
    writer.u8(advertisingHandle)
    writer.u8(operation.rawValue)
    writer.u8(fragmentPreference)
    writer.counted(advertisingData, atMost: 251)
  }
}

/// HCI_LE_Set_Extended_Scan_Response_Data (Vol 4 Part E 7.8.55).
public struct LESetExtendedScanResponseData: HCICommand {
  public static let opcode = HCIOpcode(rawValue: 0x2038)
  public typealias ReturnParameters = StatusReturn

  /// 00-EF.
  public var advertisingHandle: UInt8
  /// Which part of the data this is.
  public var operation: AdvertisingDataOperation
  /// 0 the controller may fragment, 1 it should not.
  public var fragmentPreference: UInt8
  /// At most 251 octets.
  public var scanResponseData: [UInt8]

  public init(
    advertisingHandle: UInt8, operation: AdvertisingDataOperation, fragmentPreference: UInt8, scanResponseData: [UInt8]
  ) {
    self.advertisingHandle = advertisingHandle
    self.operation = operation
    self.fragmentPreference = fragmentPreference
    self.scanResponseData = scanResponseData
  }

  public init(from reader: inout ByteReader) throws(DecodeError) {
    advertisingHandle = try reader.u8()
    operation = AdvertisingDataOperation(rawValue: try reader.u8())
    fragmentPreference = try reader.u8()
    scanResponseData = try reader.extendedData()
  }

  public func encode(into writer: inout ByteWriter) {
    writer.u8(advertisingHandle)
    writer.u8(operation.rawValue)
    writer.u8(fragmentPreference)
    writer.counted(scanResponseData, atMost: 251)
  }
}

/// HCI_LE_Set_Extended_Advertising_Enable (Vol 4 Part E 7.8.56).
public struct LESetExtendedAdvertisingEnable: HCICommand {
  public static let opcode = HCIOpcode(rawValue: 0x2039)
  public typealias ReturnParameters = StatusReturn

  /// False with no sets disables all sets.
  public var enable: Bool
  public var sets: [AdvertisingSet]

  public init(enable: Bool, sets: [AdvertisingSet]) {
    self.enable = enable
    self.sets = sets
  }

  public init(from reader: inout ByteReader) throws(DecodeError) {
    enable = try reader.flag("Enable")
    sets = []
    for _ in 0..<(try reader.u8()) { sets.append(try AdvertisingSet(from: &reader)) }
  }

  public func encode(into writer: inout ByteWriter) {
    writer.u8(enable ? 1 : 0)
    writer.u8(UInt8(min(sets.count, 63)))
    for set in sets.prefix(63) { set.encode(into: &writer) }
  }

  /// One set to enable or disable.
  public struct AdvertisingSet: WireCodable, Hashable, Sendable {
    /// 00-EF.
    public var advertisingHandle: UInt8
    /// 0: until disabled.
    public var duration: AdvertisingDuration
    /// 0: no limit.
    public var maxExtendedAdvertisingEvents: UInt8

    public init(advertisingHandle: UInt8, duration: AdvertisingDuration, maxExtendedAdvertisingEvents: UInt8) {
      self.advertisingHandle = advertisingHandle
      self.duration = duration
      self.maxExtendedAdvertisingEvents = maxExtendedAdvertisingEvents
    }

    public init(from reader: inout ByteReader) throws(DecodeError) {
      advertisingHandle = try reader.u8()
      duration = AdvertisingDuration(rawValue: try reader.u16())
      maxExtendedAdvertisingEvents = try reader.u8()
    }

    public func encode(into writer: inout ByteWriter) {
      writer.u8(advertisingHandle)
      writer.u16(duration.rawValue)
      writer.u8(maxExtendedAdvertisingEvents)
    }
  }
}

/// HCI_LE_Read_Maximum_Advertising_Data_Length (Vol 4 Part E 7.8.57).
public struct LEReadMaximumAdvertisingDataLength: HCICommand {
  public static let opcode = HCIOpcode(rawValue: 0x203A)

  public init() {}

  public init(from reader: inout ByteReader) throws(DecodeError) {}

  public func encode(into writer: inout ByteWriter) {}

  public struct ReturnParameters: HCIReturnParameters {
    public var status: HCIStatus
    public var maxAdvertisingDataLength: UInt16

    public init(status: HCIStatus = .success, maxAdvertisingDataLength: UInt16) {
      self.status = status
      self.maxAdvertisingDataLength = maxAdvertisingDataLength
    }

    public init(status: HCIStatus) {
      self.init(status: status, maxAdvertisingDataLength: 0)
    }

    public init(from reader: inout ByteReader) throws(DecodeError) {
      self.init(status: HCIStatus(rawValue: try reader.u8()))
      guard try reader.hasReturnParameters(2, after: status) else { return }
      maxAdvertisingDataLength = try reader.u16()
    }

    public func encode(into writer: inout ByteWriter) {
      writer.u8(status.rawValue)
      writer.u16(maxAdvertisingDataLength)
    }
  }
}

/// HCI_LE_Read_Number_Of_Supported_Advertising_Sets (Vol 4 Part E 7.8.58).
public struct LEReadNumberOfSupportedAdvertisingSets: HCICommand {
  public static let opcode = HCIOpcode(rawValue: 0x203B)

  public init() {}

  public init(from reader: inout ByteReader) throws(DecodeError) {}

  public func encode(into writer: inout ByteWriter) {}

  public struct ReturnParameters: HCIReturnParameters {
    public var status: HCIStatus
    public var numSupportedAdvertisingSets: UInt8

    public init(status: HCIStatus = .success, numSupportedAdvertisingSets: UInt8) {
      self.status = status
      self.numSupportedAdvertisingSets = numSupportedAdvertisingSets
    }

    public init(status: HCIStatus) {
      self.init(status: status, numSupportedAdvertisingSets: 0)
    }

    public init(from reader: inout ByteReader) throws(DecodeError) {
      self.init(status: HCIStatus(rawValue: try reader.u8()))
      guard try reader.hasReturnParameters(1, after: status) else { return }
      numSupportedAdvertisingSets = try reader.u8()
    }

    public func encode(into writer: inout ByteWriter) {
      writer.u8(status.rawValue)
      writer.u8(numSupportedAdvertisingSets)
    }
  }
}

/// HCI_LE_Remove_Advertising_Set (Vol 4 Part E 7.8.59).
public struct LERemoveAdvertisingSet: HCICommand {
  public static let opcode = HCIOpcode(rawValue: 0x203C)
  public typealias ReturnParameters = StatusReturn

  /// 00-EF.
  public var advertisingHandle: UInt8

  public init(advertisingHandle: UInt8) {
    self.advertisingHandle = advertisingHandle
  }

  public init(from reader: inout ByteReader) throws(DecodeError) {
    advertisingHandle = try reader.u8()
  }

  public func encode(into writer: inout ByteWriter) {
    writer.u8(advertisingHandle)
  }
}

/// HCI_LE_Clear_Advertising_Sets (Vol 4 Part E 7.8.60).
public struct LEClearAdvertisingSets: HCICommand {
  public static let opcode = HCIOpcode(rawValue: 0x203D)
  public typealias ReturnParameters = StatusReturn

  public init() {}

  public init(from reader: inout ByteReader) throws(DecodeError) {}

  public func encode(into writer: inout ByteWriter) {}
}
