// SPDX-License-Identifier: Apache-2.0

import BLECore
import BLESystem
import Synchronization

@testable import ble

/// A system that answers requests by a table, at once and in place, and remembers what it was asked.
final class ScriptedLink: SystemLink {
  struct Peer: Sendable {
    var info: PeerInfo
    var discovery: Discovery
    /// Service, what it includes, and its characteristics with their values and descriptors.
    var services: [(ServiceRecord, [ServiceRecord])] = []
    var characteristics: [(CharacteristicRecord, [DescriptorRecord])] = []
    var values: [UInt16: Result<[UInt8], SystemError>] = [:]
    /// What comes after a subscription.
    var notifications: [[UInt8]] = []
  }

  let replica = SystemReplica { _ in nil }
  private let handler: SystemEventHandler
  private let peer: Peer?
  private let refusesToConnect: Bool
  private let asked = Mutex<[SystemRequest]>([])
  private let written = Mutex<[UInt16: [UInt8]]>([:])

  var requests: [SystemRequest] { asked.withLock { $0 } }

  init(
    _ peer: Peer?, states: [AdapterState] = [.poweredOn], refusesToConnect: Bool = false,
    _ handler: @escaping SystemEventHandler
  ) {
    self.peer = peer
    self.handler = handler
    self.refusesToConnect = refusesToConnect
    handler(states.map { .stateChanged($0) })
  }

  func emit(_ events: [SystemEvent]) { handler(events) }
  func close() {}

  func expectAnswer() {}
  func send(_ request: SystemRequest) {
    asked.withLock { $0.append(request) }
    guard let peer else { return }
    let link = LinkReference(peer: peer.info.identifier, epoch: 1)
    switch request {
    case .startScan: handler([.discovered(peer.discovery)])
    case .connect(let identifier, _):
      let failure = SystemError(.connectionFailed, "no luck")
      handler([
        refusesToConnect
          ? .connectFailed(identifier, failure) : .connected(link, maximumWriteLength: 20, writeCredits: 1)
      ])
    case .cancelConnection(let identifier): handler([.disconnected(identifier, nil, isReconnecting: false)])
    case .discoverServices(let token, _, let uuids):
      let found = peer.services.map(\.0).filter { $0.isPrimary && uuids?.contains($0.uuid) ?? true }
      handler([.servicesDiscovered(token, link, .success(found))])
    case .discoverIncludedServices(let token, _, let handles, _):
      let found = peer.services.first { $0.0.handles == handles }?.1 ?? []
      handler([.includedServicesDiscovered(token, link, .success(found))])
    case .discoverCharacteristics(let token, _, let handles, let uuids):
      let found = peer.characteristics.map(\.0).filter {
        handles.contains($0.declarationHandle) && uuids?.contains($0.uuid) ?? true
      }
      handler([.characteristicsDiscovered(token, link, .success(found))])
    case .discoverDescriptors(let token, _, let record):
      let found = peer.characteristics.first { $0.0 == record }?.1 ?? []
      handler([.descriptorsDiscovered(token, link, .success(found))])
    case .readValue(let token, _, let handle):
      let value = peer.values[handle] ?? .failure(SystemError(.att(0x0A)))
      handler([.valueRead(token, link, value)])
    case .writeValue(let token, _, _, let value):
      handler([.valueWritten(token, link, value.isEmpty ? SystemError(.att(0x80)) : nil)])
    case .setNotify(let token, _, let record, let isOn):
      let values = isOn ? peer.notifications.map { SystemEvent.valueNotified(link, record.valueHandle, $0) } : []
      handler([.notifyStateChanged(token, link, isNotifying: isOn, nil)] + values)
    default: return
    }
  }
}

/// Runs a command line against a scripted system; gives the lines it printed.
func runTool(
  _ line: [String], peer: ScriptedLink.Peer?, states: [AdapterState] = [.poweredOn], refusesToConnect: Bool = false
) async throws -> (lines: [String], requests: [SystemRequest], failure: Failure?) {
  guard case .run(let arguments) = try Arguments.parse(line) else { return ([], [], .failed("help")) }
  let lines = LineLog()
  let links = LinkLog()
  let output = Output(isJSON: arguments.has("--json")) { lines.add($0) }
  let context = CommandContext(arguments: arguments, output: output, inbox: Inbox()) { handler in
    let link = ScriptedLink(peer, states: states, refusesToConnect: refusesToConnect, handler)
    links.set(link)
    return link
  }
  do throws(Failure) {
    try await Commands.run(context)
    return (lines.all, links.requests, nil)
  } catch {
    return (lines.all, links.requests, error)
  }
}

final class LineLog: Sendable {
  private let lines = Mutex<[String]>([])
  func add(_ line: String) { lines.withLock { $0.append(line) } }
  var all: [String] { lines.withLock { $0 } }
}

final class LinkLog: Sendable {
  private let link = Mutex<ScriptedLink?>(nil)
  func set(_ new: ScriptedLink) { link.withLock { $0 = new } }
  var requests: [SystemRequest] { link.withLock { $0?.requests ?? [] } }
}
