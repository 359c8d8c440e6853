// SPDX-License-Identifier: Apache-2.0

public import BLECore

/// HCI_LE_Add_Device_To_Resolving_List (Vol 4 Part E 7.8.38).
public struct LEAddDeviceToResolvingList: HCICommand {
  public static let opcode = HCIOpcode(rawValue: 0x2027)
  public typealias ReturnParameters = StatusReturn

  public var peerIdentityAddressType: AddressType
  public var peerIdentityAddress: BDAddress
  /// 16 octets, least significant first.
  public var peerIRK: [UInt8]
  /// 16 octets, least significant first.
  public var localIRK: [UInt8]

  public init(
    peerIdentityAddressType: AddressType, peerIdentityAddress: BDAddress, peerIRK: [UInt8], localIRK: [UInt8]
  ) {
    self.peerIdentityAddressType = peerIdentityAddressType
    self.peerIdentityAddress = peerIdentityAddress
    self.peerIRK = peerIRK
    self.localIRK = localIRK
  }

  public init(from reader: inout ByteReader) throws(DecodeError) {
    peerIdentityAddressType = AddressType(rawValue: try reader.u8())
    peerIdentityAddress = try BDAddress(from: &reader)
    peerIRK = try reader.array(16)
    localIRK = try reader.array(16)
  }

  public func encode(into writer: inout ByteWriter) {
    writer.u8(peerIdentityAddressType.rawValue)
    peerIdentityAddress.encode(into: &writer)
    writer.bytes(peerIRK, paddedTo: 16)
    writer.bytes(localIRK, paddedTo: 16)
  }
}

/// HCI_LE_Remove_Device_From_Resolving_List (Vol 4 Part E 7.8.39).
public struct LERemoveDeviceFromResolvingList: HCICommand {
  public static let opcode = HCIOpcode(rawValue: 0x2028)
  public typealias ReturnParameters = StatusReturn

  public var peerIdentityAddressType: AddressType
  public var peerIdentityAddress: BDAddress

  public init(peerIdentityAddressType: AddressType, peerIdentityAddress: BDAddress) {
    self.peerIdentityAddressType = peerIdentityAddressType
    self.peerIdentityAddress = peerIdentityAddress
  }

  public init(from reader: inout ByteReader) throws(DecodeError) {
    peerIdentityAddressType = AddressType(rawValue: try reader.u8())
    peerIdentityAddress = try BDAddress(from: &reader)
  }

  public func encode(into writer: inout ByteWriter) {
    writer.u8(peerIdentityAddressType.rawValue)
    peerIdentityAddress.encode(into: &writer)
  }
}

/// HCI_LE_Clear_Resolving_List (Vol 4 Part E 7.8.40).
public struct LEClearResolvingList: HCICommand {
  public static let opcode = HCIOpcode(rawValue: 0x2029)
  public typealias ReturnParameters = StatusReturn

  public init() {}

  public init(from reader: inout ByteReader) throws(DecodeError) {}

  public func encode(into writer: inout ByteWriter) {}
}

/// HCI_LE_Read_Resolving_List_Size (Vol 4 Part E 7.8.41).
public struct LEReadResolvingListSize: HCICommand {
  public static let opcode = HCIOpcode(rawValue: 0x202A)

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

/// HCI_LE_Read_Peer_Resolvable_Address (Vol 4 Part E 7.8.42).
public struct LEReadPeerResolvableAddress: HCICommand {
  public static let opcode = HCIOpcode(rawValue: 0x202B)

  public var peerIdentityAddressType: AddressType
  public var peerIdentityAddress: BDAddress

  public init(peerIdentityAddressType: AddressType, peerIdentityAddress: BDAddress) {
    self.peerIdentityAddressType = peerIdentityAddressType
    self.peerIdentityAddress = peerIdentityAddress
  }

  public init(from reader: inout ByteReader) throws(DecodeError) {
    peerIdentityAddressType = AddressType(rawValue: try reader.u8())
    peerIdentityAddress = try BDAddress(from: &reader)
  }

  public func encode(into writer: inout ByteWriter) {
    writer.u8(peerIdentityAddressType.rawValue)
    peerIdentityAddress.encode(into: &writer)
  }

  public struct ReturnParameters: HCIReturnParameters {
    public var status: HCIStatus
    public var peerResolvableAddress: BDAddress

    public init(status: HCIStatus = .success, peerResolvableAddress: BDAddress) {
      self.status = status
      self.peerResolvableAddress = peerResolvableAddress
    }

    public init(status: HCIStatus) {
      self.init(status: status, peerResolvableAddress: .zero)
    }

    public init(from reader: inout ByteReader) throws(DecodeError) {
      self.init(status: HCIStatus(rawValue: try reader.u8()))
      guard try reader.hasReturnParameters(6, after: status) else { return }
      peerResolvableAddress = try BDAddress(from: &reader)
    }

    public func encode(into writer: inout ByteWriter) {
      writer.u8(status.rawValue)
      peerResolvableAddress.encode(into: &writer)
    }
  }
}

/// HCI_LE_Read_Local_Resolvable_Address (Vol 4 Part E 7.8.43).
public struct LEReadLocalResolvableAddress: HCICommand {
  public static let opcode = HCIOpcode(rawValue: 0x202C)

  public var peerIdentityAddressType: AddressType
  public var peerIdentityAddress: BDAddress

  public init(peerIdentityAddressType: AddressType, peerIdentityAddress: BDAddress) {
    self.peerIdentityAddressType = peerIdentityAddressType
    self.peerIdentityAddress = peerIdentityAddress
  }

  public init(from reader: inout ByteReader) throws(DecodeError) {
    peerIdentityAddressType = AddressType(rawValue: try reader.u8())
    peerIdentityAddress = try BDAddress(from: &reader)
  }

  public func encode(into writer: inout ByteWriter) {
    writer.u8(peerIdentityAddressType.rawValue)
    peerIdentityAddress.encode(into: &writer)
  }

  public struct ReturnParameters: HCIReturnParameters {
    public var status: HCIStatus
    public var localResolvableAddress: BDAddress

    public init(status: HCIStatus = .success, localResolvableAddress: BDAddress) {
      self.status = status
      self.localResolvableAddress = localResolvableAddress
    }

    public init(status: HCIStatus) {
      self.init(status: status, localResolvableAddress: .zero)
    }

    public init(from reader: inout ByteReader) throws(DecodeError) {
      self.init(status: HCIStatus(rawValue: try reader.u8()))
      guard try reader.hasReturnParameters(6, after: status) else { return }
      localResolvableAddress = try BDAddress(from: &reader)
    }

    public func encode(into writer: inout ByteWriter) {
      writer.u8(status.rawValue)
      localResolvableAddress.encode(into: &writer)
    }
  }
}

/// HCI_LE_Set_Address_Resolution_Enable (Vol 4 Part E 7.8.44).
public struct LESetAddressResolutionEnable: HCICommand {
  public static let opcode = HCIOpcode(rawValue: 0x202D)
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

/// HCI_LE_Set_Resolvable_Private_Address_Timeout (Vol 4 Part E 7.8.45).
public struct LESetResolvablePrivateAddressTimeout: HCICommand {
  public static let opcode = HCIOpcode(rawValue: 0x202E)
  public typealias ReturnParameters = StatusReturn

  /// Seconds, 1-3600; 900 by default.
  public var rpaTimeout: UInt16

  public init(rpaTimeout: UInt16) {
    self.rpaTimeout = rpaTimeout
  }

  public init(from reader: inout ByteReader) throws(DecodeError) {
    rpaTimeout = try reader.u16()
  }

  public func encode(into writer: inout ByteWriter) {
    writer.u16(rpaTimeout)
  }
}

/// HCI_LE_Set_Privacy_Mode (Vol 4 Part E 7.8.77).
public struct LESetPrivacyMode: HCICommand {
  public static let opcode = HCIOpcode(rawValue: 0x204E)
  public typealias ReturnParameters = StatusReturn

  public var peerIdentityAddressType: AddressType
  public var peerIdentityAddress: BDAddress
  public var privacyMode: PrivacyMode

  public init(peerIdentityAddressType: AddressType, peerIdentityAddress: BDAddress, privacyMode: PrivacyMode) {
    self.peerIdentityAddressType = peerIdentityAddressType
    self.peerIdentityAddress = peerIdentityAddress
    self.privacyMode = privacyMode
  }

  public init(from reader: inout ByteReader) throws(DecodeError) {
    peerIdentityAddressType = AddressType(rawValue: try reader.u8())
    peerIdentityAddress = try BDAddress(from: &reader)
    privacyMode = PrivacyMode(rawValue: try reader.u8())
  }

  public func encode(into writer: inout ByteWriter) {
    writer.u8(peerIdentityAddressType.rawValue)
    peerIdentityAddress.encode(into: &writer)
    writer.u8(privacyMode.rawValue)
  }
}
