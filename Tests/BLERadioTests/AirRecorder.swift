// SPDX-License-Identifier: Apache-2.0

import BLECore
import BLERadio

/// Keeps every packet of a world.
final class AirRecorder: AirObserver {
  struct Entry: Hashable {
    var info: AirPacketInfo
    var pdu: [UInt8]

    var start: Int64 { info.start.nanoseconds }
    var end: Int64 { info.end.nanoseconds }
    var type: UInt8 { pdu[0] & 0x0F }
    var isAdvertising: Bool { info.accessAddress == 0x8E89_BED6 }
  }

  var entries: [Entry] = []

  func observe(_ packet: AirPacketInfo, pdu: RawSpan) {
    entries.append(Entry(info: packet, pdu: [UInt8](pdu)))
  }

  /// Packets of connections.
  var data: [Entry] { entries.filter { !$0.isAdvertising } }
  func sent(by device: RadioDeviceID) -> [Entry] { entries.filter { $0.info.sender == device } }
}
