// SPDX-License-Identifier: Apache-2.0

/// Names from the Bluetooth SIG's Assigned Numbers. Numbers that have none here are nil: new ones are assigned
/// all the time.
public enum AssignedNumbers {
  /// The name of a GATT service, without the word "Service": 180D is "Heart Rate".
  public static func serviceName(_ uuid: BluetoothUUID) -> String? { uuid.uuid16.flatMap { serviceNames[$0] } }

  /// The name of a characteristic: 2A37 is "Heart Rate Measurement".
  public static func characteristicName(_ uuid: BluetoothUUID) -> String? {
    uuid.uuid16.flatMap { characteristicNames[$0] }
  }

  /// The name of a characteristic descriptor: 2902 is "Client Characteristic Configuration".
  public static func descriptorName(_ uuid: BluetoothUUID) -> String? { uuid.uuid16.flatMap { descriptorNames[$0] } }

  /// The name of a declaration: 2800 is "Primary Service".
  public static func declarationName(_ uuid: BluetoothUUID) -> String? {
    uuid.uuid16.flatMap { declarationNames[$0] }
  }

  /// The name of an attribute type of any of these kinds; their numbers do not overlap.
  public static func name(_ uuid: BluetoothUUID) -> String? {
    serviceName(uuid) ?? characteristicName(uuid) ?? descriptorName(uuid) ?? declarationName(uuid)
  }

  /// The name of a company: 0059 is "Nordic Semiconductor ASA". The best known are here, not all.
  public static func companyName(_ identifier: UInt16) -> String? { companyNames[identifier] }

  /// The name of an AD type: 01 is "Flags".
  public static func adTypeName(_ type: ADType) -> String? { adTypeNames[type.rawValue] }
}

private let serviceNames: [UInt16: String] = [
  0x1800: "Generic Access",
  0x1801: "Generic Attribute",
  0x1802: "Immediate Alert",
  0x1803: "Link Loss",
  0x1804: "Tx Power",
  0x1805: "Current Time",
  0x1806: "Reference Time Update",
  0x1807: "Next DST Change",
  0x1808: "Glucose",
  0x1809: "Health Thermometer",
  0x180A: "Device Information",
  0x180D: "Heart Rate",
  0x180E: "Phone Alert Status",
  0x180F: "Battery",
  0x1810: "Blood Pressure",
  0x1811: "Alert Notification",
  0x1812: "Human Interface Device",
  0x1813: "Scan Parameters",
  0x1814: "Running Speed and Cadence",
  0x1815: "Automation IO",
  0x1816: "Cycling Speed and Cadence",
  0x1818: "Cycling Power",
  0x1819: "Location and Navigation",
  0x181A: "Environmental Sensing",
  0x181B: "Body Composition",
  0x181C: "User Data",
  0x181D: "Weight Scale",
  0x181E: "Bond Management",
  0x181F: "Continuous Glucose Monitoring",
  0x1820: "Internet Protocol Support",
  0x1821: "Indoor Positioning",
  0x1822: "Pulse Oximeter",
  0x1823: "HTTP Proxy",
  0x1824: "Transport Discovery",
  0x1825: "Object Transfer",
  0x1826: "Fitness Machine",
  0x1827: "Mesh Provisioning",
  0x1828: "Mesh Proxy",
  0x1829: "Reconnection Configuration",
  0x183A: "Insulin Delivery",
  0x183B: "Binary Sensor",
  0x183C: "Emergency Configuration",
  0x183D: "Authorization Control",
  0x183E: "Physical Activity Monitor",
  0x183F: "Elapsed Time",
  0x1840: "Generic Health Sensor",
  0x1843: "Audio Input Control",
  0x1844: "Volume Control",
  0x1845: "Volume Offset Control",
  0x1846: "Coordinated Set Identification",
  0x1847: "Device Time",
  0x1848: "Media Control",
  0x1849: "Generic Media Control",
  0x184A: "Constant Tone Extension",
  0x184B: "Telephone Bearer",
  0x184C: "Generic Telephone Bearer",
  0x184D: "Microphone Control",
  0x184E: "Audio Stream Control",
  0x184F: "Broadcast Audio Scan",
  0x1850: "Published Audio Capabilities",
  0x1851: "Basic Audio Announcement",
  0x1852: "Broadcast Audio Announcement",
  0x1853: "Common Audio",
  0x1854: "Hearing Access",
  0x1855: "Telephony and Media Audio",
  0x1856: "Public Broadcast Announcement",
  0x1857: "Electronic Shelf Label",
  0x1858: "Gaming Audio",
  0x1859: "Mesh Proxy Solicitation",
  0x185A: "Industrial Measurement Device",
  0x185B: "Ranging",
]

private let declarationNames: [UInt16: String] = [
  0x2800: "Primary Service",
  0x2801: "Secondary Service",
  0x2802: "Include",
  0x2803: "Characteristic",
]

private let descriptorNames: [UInt16: String] = [
  0x2900: "Characteristic Extended Properties",
  0x2901: "Characteristic User Description",
  0x2902: "Client Characteristic Configuration",
  0x2903: "Server Characteristic Configuration",
  0x2904: "Characteristic Presentation Format",
  0x2905: "Characteristic Aggregate Format",
  0x2906: "Valid Range",
  0x2907: "External Report Reference",
  0x2908: "Report Reference",
  0x2909: "Number of Digitals",
  0x290A: "Value Trigger Setting",
  0x290B: "Environmental Sensing Configuration",
  0x290C: "Environmental Sensing Measurement",
  0x290D: "Environmental Sensing Trigger Setting",
  0x290E: "Time Trigger Setting",
  0x290F: "Complete BR-EDR Transport Block Data",
  0x2910: "Observation Schedule",
  0x2911: "Valid Range and Accuracy",
]

private let adTypeNames: [UInt8: String] = [
  0x01: "Flags",
  0x02: "Incomplete List of 16-bit Service Class UUIDs",
  0x03: "Complete List of 16-bit Service Class UUIDs",
  0x04: "Incomplete List of 32-bit Service Class UUIDs",
  0x05: "Complete List of 32-bit Service Class UUIDs",
  0x06: "Incomplete List of 128-bit Service Class UUIDs",
  0x07: "Complete List of 128-bit Service Class UUIDs",
  0x08: "Shortened Local Name",
  0x09: "Complete Local Name",
  0x0A: "Tx Power Level",
  0x0D: "Class of Device",
  0x0E: "Simple Pairing Hash C-192",
  0x0F: "Simple Pairing Randomizer R-192",
  0x10: "Security Manager TK Value",
  0x11: "Security Manager Out of Band Flags",
  0x12: "Peripheral Connection Interval Range",
  0x14: "List of 16-bit Service Solicitation UUIDs",
  0x15: "List of 128-bit Service Solicitation UUIDs",
  0x16: "Service Data - 16-bit UUID",
  0x17: "Public Target Address",
  0x18: "Random Target Address",
  0x19: "Appearance",
  0x1A: "Advertising Interval",
  0x1B: "LE Bluetooth Device Address",
  0x1C: "LE Role",
  0x1D: "Simple Pairing Hash C-256",
  0x1E: "Simple Pairing Randomizer R-256",
  0x1F: "List of 32-bit Service Solicitation UUIDs",
  0x20: "Service Data - 32-bit UUID",
  0x21: "Service Data - 128-bit UUID",
  0x22: "LE Secure Connections Confirmation Value",
  0x23: "LE Secure Connections Random Value",
  0x24: "URI",
  0x25: "Indoor Positioning",
  0x26: "Transport Discovery Data",
  0x27: "LE Supported Features",
  0x28: "Channel Map Update Indication",
  0x29: "PB-ADV",
  0x2A: "Mesh Message",
  0x2B: "Mesh Beacon",
  0x2C: "BIGInfo",
  0x2D: "Broadcast_Code",
  0x2E: "Resolvable Set Identifier",
  0x2F: "Advertising Interval - long",
  0x30: "Broadcast_Name",
  0x31: "Encrypted Advertising Data",
  0x32: "Periodic Advertising Response Timing Information",
  0x34: "Electronic Shelf Label",
  0x3D: "3D Information Data",
  0xFF: "Manufacturer Specific Data",
]
