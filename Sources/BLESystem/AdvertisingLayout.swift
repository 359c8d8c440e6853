// SPDX-License-Identifier: Apache-2.0

import BLECore
import BLEHost

/// How Apple's framework fits names and services into legacy advertising (`CBPeripheralManager.startAdvertising`).
///
/// The advertisement has 31 octets; flags take 3. The remaining 28 are for service UUIDs, then the name where it fits
/// whole. A name that does not goes into the scan response, cut to 10 octets. Services that find no room are hinted at
/// in the overflow area there, which only this system's own devices can read.
enum AdvertisingLayout {
  private static let payloadMax = 31
  private static let nameMaxInScanResponse = 10

  static func content(name: String?, services: [BluetoothUUID]) -> AdvertisingContent {
    var data = ADBuilder(limit: payloadMax)
    _ = data.append([.leGeneralDiscoverable, .brEDRNotSupported] as ADFlags)
    let leftOver = data.append(services: services)
    var response = ADBuilder(limit: payloadMax)
    if let name, !name.isEmpty {
      if name.utf8.count + 2 <= data.remaining {
        _ = data.append(localName: name)
      } else {
        if response.append(localName: name, limit: nameMaxInScanResponse) != .complete {
          Log.write(
            .info, "system", "the name \"\(name)\" is advertised cut: at most 10 octets fit beside the services")
        }
      }
    }
    if !leftOver.isEmpty { addOverflow(leftOver, to: &response) }
    return AdvertisingContent(data: data.bytes, scanResponse: response.bytes)
  }

  private static func addOverflow(_ services: [BluetoothUUID], to response: inout ADBuilder) {
    var area = OverflowArea()
    for service in services { area.insert(service) }
    guard response.append(.manufacturerSpecificData, area.manufacturerData) else {
      Log.write(.info, "system", "no room to advertise \(services.map(\.description).joined(separator: ", "))")
      return
    }
  }
}
