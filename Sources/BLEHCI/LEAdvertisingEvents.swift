// SPDX-License-Identifier: Apache-2.0

public import BLECore

/// HCI_LE_Advertising_Report (Vol 4 Part E 7.7.65.2).
public struct LEAdvertisingReport: LEMetaEvent {
  public static let subevent = LESubevent.advertisingReport

  /// Never empty after decoding. Where a controller counts more reports than the event holds, those that are whole.
  public var reports: [Report]

  public init(reports: [Report]) { self.reports = reports }

  public init(from reader: inout ByteReader) throws(DecodeError) {
    let count = try reader.u8()
    guard count > 0 else { throw .invalidValue(field: "Num_Reports", value: 0, offset: reader.offset - 1) }
    reports = [try Report(from: &reader)]
    for _ in 1..<count {
      guard let report = try? Report(from: &reader) else {
        reader.skipRest()
        return
      }
      reports.append(report)
    }
  }

  public func encode(into writer: inout ByteWriter) {
    writer.u8(UInt8(min(reports.count, 255)))
    for report in reports.prefix(255) { report.encode(into: &writer) }
  }

  /// One received advertisement.
  public struct Report: WireCodable, Hashable, Sendable {
    public var eventType: AdvertisingReportType
    public var addressType: AddressType
    public var address: BDAddress
    /// At most 255 octets.
    public var data: [UInt8]
    /// dBm; 127: not available.
    public var rssi: Int8

    public init(
      eventType: AdvertisingReportType, addressType: AddressType, address: BDAddress, data: [UInt8], rssi: Int8
    ) {
      self.eventType = eventType
      self.addressType = addressType
      self.address = address
      self.data = data
      self.rssi = rssi
    }

    public init(from reader: inout ByteReader) throws(DecodeError) {
      eventType = AdvertisingReportType(rawValue: try reader.u8())
      addressType = AddressType(rawValue: try reader.u8())
      address = try BDAddress(from: &reader)
      data = try reader.array(Int(try reader.u8()))
      rssi = try reader.i8()
    }

    public func encode(into writer: inout ByteWriter) {
      writer.u8(eventType.rawValue)
      writer.u8(addressType.rawValue)
      address.encode(into: &writer)
      writer.counted(data, atMost: 255)
      writer.i8(rssi)
    }
  }
}

/// HCI_LE_Directed_Advertising_Report (Vol 4 Part E 7.7.65.11).
public struct LEDirectedAdvertisingReport: LEMetaEvent {
  public static let subevent = LESubevent.directedAdvertisingReport

  /// Never empty after decoding. Where a controller counts more reports than the event holds, those that are whole.
  public var reports: [Report]

  public init(reports: [Report]) { self.reports = reports }

  public init(from reader: inout ByteReader) throws(DecodeError) {
    let count = try reader.u8()
    guard count > 0 else { throw .invalidValue(field: "Num_Reports", value: 0, offset: reader.offset - 1) }
    reports = [try Report(from: &reader)]
    for _ in 1..<count {
      guard let report = try? Report(from: &reader) else {
        reader.skipRest()
        return
      }
      reports.append(report)
    }
  }

  public func encode(into writer: inout ByteWriter) {
    writer.u8(UInt8(min(reports.count, 255)))
    for report in reports.prefix(255) { report.encode(into: &writer) }
  }

  /// One received directed advertisement.
  public struct Report: WireCodable, Hashable, Sendable {
    public var eventType: AdvertisingReportType
    public var addressType: AddressType
    public var address: BDAddress
    public var directAddressType: AddressType
    public var directAddress: BDAddress
    /// dBm; 127: not available.
    public var rssi: Int8

    public init(
      eventType: AdvertisingReportType, addressType: AddressType, address: BDAddress, directAddressType: AddressType,
      directAddress: BDAddress, rssi: Int8
    ) {
      self.eventType = eventType
      self.addressType = addressType
      self.address = address
      self.directAddressType = directAddressType
      self.directAddress = directAddress
      self.rssi = rssi
    }

    public init(from reader: inout ByteReader) throws(DecodeError) {
      eventType = AdvertisingReportType(rawValue: try reader.u8())
      addressType = AddressType(rawValue: try reader.u8())
      address = try BDAddress(from: &reader)
      directAddressType = AddressType(rawValue: try reader.u8())
      directAddress = try BDAddress(from: &reader)
      rssi = try reader.i8()
    }

    public func encode(into writer: inout ByteWriter) {
      writer.u8(eventType.rawValue)
      writer.u8(addressType.rawValue)
      address.encode(into: &writer)
      writer.u8(directAddressType.rawValue)
      directAddress.encode(into: &writer)
      writer.i8(rssi)
    }
  }
}

/// HCI_LE_Extended_Advertising_Report (Vol 4 Part E 7.7.65.13).
public struct LEExtendedAdvertisingReport: LEMetaEvent {
  public static let subevent = LESubevent.extendedAdvertisingReport

  /// Never empty after decoding. Where a controller counts more reports than the event holds, those that are whole.
  public var reports: [Report]

  public init(reports: [Report]) { self.reports = reports }

  public init(from reader: inout ByteReader) throws(DecodeError) {
    let count = try reader.u8()
    guard count > 0 else { throw .invalidValue(field: "Num_Reports", value: 0, offset: reader.offset - 1) }
    reports = [try Report(from: &reader)]
    for _ in 1..<count {
      guard let report = try? Report(from: &reader) else {
        reader.skipRest()
        return
      }
      reports.append(report)
    }
  }

  public func encode(into writer: inout ByteWriter) {
    writer.u8(UInt8(min(reports.count, 255)))
    for report in reports.prefix(255) { report.encode(into: &writer) }
  }

  /// One received advertisement.
  public struct Report: WireCodable, Hashable, Sendable {
    public var eventType: ExtendedAdvertisingEventType
    public var addressType: AddressType
    public var address: BDAddress
    public var primaryPHY: PHY
    public var secondaryPHY: PHY
    /// Advertising_SID, 0-15; FF in a report without one.
    public var advertisingSID: UInt8
    /// dBm; 127: not available.
    public var txPower: Int8
    /// dBm; 127: not available.
    public var rssi: Int8
    /// Units of 1.25 ms; 0: no periodic advertising.
    public var periodicAdvertisingInterval: UInt16
    public var directAddressType: AddressType
    public var directAddress: BDAddress
    /// At most 255 octets.
    public var data: [UInt8]

    public init(
      eventType: ExtendedAdvertisingEventType, addressType: AddressType, address: BDAddress, primaryPHY: PHY,
      secondaryPHY: PHY, advertisingSID: UInt8, txPower: Int8, rssi: Int8, periodicAdvertisingInterval: UInt16,
      directAddressType: AddressType, directAddress: BDAddress, data: [UInt8]
    ) {
      self.eventType = eventType
      self.addressType = addressType
      self.address = address
      self.primaryPHY = primaryPHY
      self.secondaryPHY = secondaryPHY
      self.advertisingSID = advertisingSID
      self.txPower = txPower
      self.rssi = rssi
      self.periodicAdvertisingInterval = periodicAdvertisingInterval
      self.directAddressType = directAddressType
      self.directAddress = directAddress
      self.data = data
    }

    public init(from reader: inout ByteReader) throws(DecodeError) {
      eventType = ExtendedAdvertisingEventType(rawValue: try reader.u16())
      addressType = AddressType(rawValue: try reader.u8())
      address = try BDAddress(from: &reader)
      primaryPHY = PHY(rawValue: try reader.u8())
      secondaryPHY = PHY(rawValue: try reader.u8())
      advertisingSID = try reader.u8()
      txPower = try reader.i8()
      rssi = try reader.i8()
      periodicAdvertisingInterval = try reader.u16()
      directAddressType = AddressType(rawValue: try reader.u8())
      directAddress = try BDAddress(from: &reader)
      data = try reader.array(Int(try reader.u8()))
    }

    public func encode(into writer: inout ByteWriter) {
      writer.u16(eventType.rawValue)
      writer.u8(addressType.rawValue)
      address.encode(into: &writer)
      writer.u8(primaryPHY.rawValue)
      writer.u8(secondaryPHY.rawValue)
      writer.u8(advertisingSID)
      writer.i8(txPower)
      writer.i8(rssi)
      writer.u16(periodicAdvertisingInterval)
      writer.u8(directAddressType.rawValue)
      directAddress.encode(into: &writer)
      writer.counted(data, atMost: 255)
    }
  }
}

/// HCI_LE_Scan_Timeout (Vol 4 Part E 7.7.65.17).
public struct LEScanTimeout: LEMetaEvent {
  public static let subevent = LESubevent.scanTimeout

  public init() {}

  public init(from reader: inout ByteReader) throws(DecodeError) {}

  public func encode(into writer: inout ByteWriter) {}
}

/// HCI_LE_Advertising_Set_Terminated (Vol 4 Part E 7.7.65.18).
public struct LEAdvertisingSetTerminated: LEMetaEvent {
  public static let subevent = LESubevent.advertisingSetTerminated

  public var status: HCIStatus
  /// 00-EF.
  public var advertisingHandle: UInt8
  public var connectionHandle: ConnectionHandle
  /// Extended advertising events sent, if the set was limited.
  public var numCompletedEvents: UInt8

  public init(
    status: HCIStatus, advertisingHandle: UInt8, connectionHandle: ConnectionHandle, numCompletedEvents: UInt8
  ) {
    self.status = status
    self.advertisingHandle = advertisingHandle
    self.connectionHandle = connectionHandle
    self.numCompletedEvents = numCompletedEvents
  }

  public init(from reader: inout ByteReader) throws(DecodeError) {
    status = HCIStatus(rawValue: try reader.u8())
    advertisingHandle = try reader.u8()
    connectionHandle = ConnectionHandle(rawValue: try reader.u16())
    numCompletedEvents = try reader.u8()
  }

  public func encode(into writer: inout ByteWriter) {
    writer.u8(status.rawValue)
    writer.u8(advertisingHandle)
    writer.u16(connectionHandle.rawValue)
    writer.u8(numCompletedEvents)
  }
}

/// HCI_LE_Scan_Request_Received (Vol 4 Part E 7.7.65.19).
public struct LEScanRequestReceived: LEMetaEvent {
  public static let subevent = LESubevent.scanRequestReceived

  /// 00-EF.
  public var advertisingHandle: UInt8
  public var scannerAddressType: AddressType
  public var scannerAddress: BDAddress

  public init(advertisingHandle: UInt8, scannerAddressType: AddressType, scannerAddress: BDAddress) {
    self.advertisingHandle = advertisingHandle
    self.scannerAddressType = scannerAddressType
    self.scannerAddress = scannerAddress
  }

  public init(from reader: inout ByteReader) throws(DecodeError) {
    advertisingHandle = try reader.u8()
    scannerAddressType = AddressType(rawValue: try reader.u8())
    scannerAddress = try BDAddress(from: &reader)
  }

  public func encode(into writer: inout ByteWriter) {
    writer.u8(advertisingHandle)
    writer.u8(scannerAddressType.rawValue)
    scannerAddress.encode(into: &writer)
  }
}
