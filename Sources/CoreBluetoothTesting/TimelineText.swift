// SPDX-License-Identifier: Apache-2.0

import BLECore
import BLESystem

// Calls and callbacks in Apple's names, without the objects that the two sides have for them.

extension SystemRequest {
  var timelineText: (name: String, detail: String) {
    switch self {
    case .startScan(let options): ("scanForPeripherals", options.services?.text ?? "all")
    case .stopScan: ("stopScan", "")
    case .connect(let peer, let options): ("connect", "\(peer)\(options.autoReconnect ? " autoReconnect" : "")")
    case .cancelConnection(let peer): ("cancelPeripheralConnection", "\(peer)")
    case .readRSSI(_, let link): ("readRSSI", "\(link.peer)")
    case .discoverServices(_, _, let services): ("discoverServices", services?.text ?? "all")
    case .discoverIncludedServices(_, _, let handles, _): ("discoverIncludedServices", handles.text)
    case .discoverCharacteristics(_, _, let handles, _): ("discoverCharacteristics", handles.text)
    case .discoverDescriptors(_, _, let record): ("discoverDescriptors", "\(record.uuid)")
    case .readValue(_, _, let handle): ("readValue", handle.text)
    case .writeValue(_, _, let handle, let value): ("writeValue", "\(handle.text) \(value.hexText)")
    case .writeCommand(_, let handle, let value): ("writeValueWithoutResponse", "\(handle.text) \(value.hexText)")
    case .setNotify(_, _, let record, let isOn): ("setNotifyValue", "\(record.uuid) \(isOn)")
    case .addService(_, let service): ("add", "\(service.uuid)")
    case .removeService: ("remove", "")
    case .removeAllServices: ("removeAllServices", "")
    case .startAdvertising(_, let name, let services): ("startAdvertising", "\(name ?? "") \(services.text)")
    case .stopAdvertising: ("stopAdvertising", "")
    case .respond(let id, let code, let value):
      ("respond", "\(id) \(code == 0 ? "success" : "error \(code)") \((value ?? []).hexText)")
    case .updateValue(let id, let value, _): ("updateValue", "\(id) \(value.hexText)")
    case .setDesiredLatency(let latency, _): ("setDesiredConnectionLatency", "\(latency)")
    }
  }
}

extension SystemEvent {
  /// Whether a delegate is told of it.
  var isCallback: Bool {
    switch self {
    case .maximumWriteLengthChanged, .centralChanged: false
    // Often nobody waits for room.
    case .writeCreditsGranted, .updateCreditsGranted: false
    default: true
    }
  }

  var timelineText: (name: String, detail: String) {
    switch self {
    case .stateChanged(let state): ("didUpdateState", "\(state)")
    case .discovered(let found): ("didDiscover", "\(found.peer.identifier) \(found.rssi) dBm \(found.localName ?? "")")
    case .connected(let link, _, _): ("didConnect", "\(link.peer)")
    case .connectFailed(let peer, let error): ("didFailToConnect", "\(peer) \(error)")
    case .disconnected(let peer, let error, let isReconnecting):
      ("didDisconnectPeripheral", "\(peer) \(error.text)\(isReconnecting ? " reconnecting" : "")")
    case .nameChanged(_, let name): ("didUpdateName", name ?? "")
    case .maximumWriteLengthChanged(_, let length): ("maximumWriteLength", "\(length)")
    case .rssiRead(_, _, let result): ("didReadRSSI", result.text { "\($0)" })
    case .servicesDiscovered(_, _, let result): ("didDiscoverServices", result.text { $0.map(\.uuid).text })
    case .includedServicesDiscovered(_, _, let result):
      ("didDiscoverIncludedServices", result.text { $0.map(\.uuid).text })
    case .characteristicsDiscovered(_, _, let result):
      ("didDiscoverCharacteristics", result.text { $0.map(\.uuid).text })
    case .descriptorsDiscovered(_, _, let result): ("didDiscoverDescriptors", result.text { $0.map(\.uuid).text })
    case .valueRead(_, _, let result): ("didUpdateValue", result.text { $0.hexText })
    case .valueWritten(_, _, let error): ("didWriteValue", error.text)
    case .valueNotified(_, let handle, let value): ("didUpdateValue", "\(handle.text) \(value.hexText)")
    case .notifyStateChanged(_, _, let isNotifying, let error):
      ("didUpdateNotificationState", "\(isNotifying) \(error.text)")
    case .writeCreditsGranted(_, let count): ("writeCredits", "\(count)")
    case .servicesModified(_, let handles): ("didModifyServices", handles.text)
    case .serviceAdded(_, let error): ("didAdd", error.text)
    case .advertisingStarted(_, let error): ("didStartAdvertising", error.text)
    case .readRequested(let id, _, let attribute, let offset):
      ("didReceiveRead", "\(id) of \(attribute) from \(offset)")
    case .writeRequested(let id, _, let writes, _):
      ("didReceiveWrite", "\(id) " + writes.map { "\($0.characteristic)=\($0.value.hexText)" }.joined(separator: " "))
    case .subscribed(let central, let id): ("didSubscribe", "\(central.identifier) \(id)")
    case .unsubscribed(let central, let id): ("didUnsubscribe", "\(central) \(id)")
    case .centralChanged(let central): ("maximumUpdateValueLength", "\(central.maximumUpdateValueLength)")
    case .updateCreditsGranted(let count): ("updateCredits", "\(count)")
    }
  }
}

extension [BluetoothUUID] {
  fileprivate var text: String { isEmpty ? "none" : map(\.description).joined(separator: " ") }
}

extension ClosedRange<UInt16> {
  fileprivate var text: String { "\(lowerBound.text)-\(upperBound.text)" }
}

extension UInt16 {
  fileprivate var text: String { "0x" + String(self, radix: 16) }
}

extension SystemError? {
  fileprivate var text: String { map { "error: \($0)" } ?? "" }
}

extension Result where Failure == SystemError {
  fileprivate func text(_ success: (Success) -> String) -> String {
    switch self {
    case .success(let value): success(value)
    case .failure(let error): "error: \(error)"
    }
  }
}
