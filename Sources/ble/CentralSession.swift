// SPDX-License-Identifier: Apache-2.0

import BLECore
import BLEGATT
import BLESystem

/// Opens a session with the system; commands are given one so that tests can put another system behind it.
typealias LinkOpener = (@escaping SystemEventHandler) -> any SystemLink

/// The system's requests and events as calls that wait for their answer.
///
/// Each call ends in time: with ``Failure/Kind/timedOut`` when the deadline of the inbox comes, with `failed` when the
/// link is lost, the adapter goes or a signal arrives.
final class CentralSession {
  let inbox: Inbox
  private let link: any SystemLink
  private var lastToken: RequestToken = 0
  private var connection: LinkReference?
  private var peer: PeerInfo?
  /// Values that came while something else was waited for.
  private var notified: [(handle: UInt16, value: [UInt8])] = []
  private var writeCredits = 0
  private(set) var maximumWriteLength = 20

  init(inbox: Inbox, open: LinkOpener) {
    self.inbox = inbox
    link = open(inbox.eventHandler)
  }

  func send(_ request: SystemRequest) { link.send(request) }

  /// Ends the session and with it everything it has: scan, connection, services.
  func close() { link.close() }

  /// What to call the peer in messages.
  var peerName: String { harmless(peer?.name ?? peer?.identifier.text ?? "the peer") }

  // MARK: State

  /// Waits for the adapter to be powered on.
  func powerOn() async throws(Failure) {
    while true {
      switch await inbox.next() {
      case .event(.stateChanged(.poweredOn)): return
      // The one state that is known to be on its way to another.
      case .event(.stateChanged(.resetting)): continue
      case .event(.stateChanged(let state)): throw Self.noAdapter(state, link.replica.adapterProblem)
      case .deadline: throw .noAdapter("the adapter did not start in time; does its controller answer?")
      case .interrupted: throw .failed("interrupted")
      case .event, .tick: continue
      }
    }
  }

  static func noAdapter(_ state: AdapterState, _ problem: String? = nil) -> Failure {
    switch state {
    case .poweredOn: .failed("the adapter is powered on")
    case .poweredOff: .noAdapter("the adapter is powered off\(problem.map { ": " + $0 } ?? "")")
    case .resetting: .noAdapter("the adapter is being reset")
    case .unauthorized: .noAdapter("this program may not use the adapter")
    case .unsupported:
      .noAdapter(
        "there is no adapter to use. Name one with --adapter or COREBLUETOOTH_ADAPTER: what works is hci0 and so on, "
          + "tcp:HOST:PORT and unix:PATH (ble sim offers such) and virtual[:NAME]")
    }
  }

  /// The next input that means something to whoever waits: the session's own business is done, and what ends it
  /// becomes a failure.
  func next(while doing: @autoclosure () -> String) async throws(Failure) -> Input {
    while true {
      if let input = try take(await inbox.next(), while: doing()) { return input }
    }
  }

  /// Does the session's part of an input; nil: nobody else needs it.
  private func take(_ input: Input, while doing: @autoclosure () -> String) throws(Failure) -> Input? {
    switch input {
    case .deadline: throw .timedOut("timed out while \(doing())")
    case .interrupted: throw .failed("interrupted while \(doing())")
    case .tick, .event(.stateChanged(.poweredOn)): return nil
    case .event(.stateChanged(let state)):
      throw Failure(kind: .noAdapter, description: "\(Self.noAdapter(state)), while \(doing())")
    case .event(.disconnected(let identifier, let error, isReconnecting: _)) where identifier == peer?.identifier:
      connection = nil
      let reason = error.map { "\($0)" } ?? "the connection was closed"
      throw .failed("disconnected from \(peerName) while \(doing()): \(reason)")
    case .event(.valueNotified(_, let handle, let value)): notified.append((handle, value))
    case .event(.writeCreditsGranted(_, let count)): writeCredits += count
    case .event(.maximumWriteLengthChanged(_, let length)): maximumWriteLength = length
    case .event(.nameChanged(_, let name)): peer?.name = name ?? peer?.name
    case .event: return input
    }
    return nil
  }

  // MARK: Finding and connecting

  /// Scans until the peer is heard. Not hearing it in time is not finding it.
  func find(_ selector: PeerSelector) async throws(Failure) -> Discovery {
    link.send(.startScan(ScanOptions(services: nil)))
    defer { link.send(.stopScan) }
    var unconnectable: Discovery?
    do throws(Failure) {
      while true {
        guard case .event(.discovered(let discovery)) = try await next(while: "looking for \(selector)") else {
          continue
        }
        guard selector.matches(discovery) else { continue }
        if discovery.isConnectable { return discovery }
        unconnectable = discovery
      }
    } catch {
      guard error.kind == .timedOut else { throw error }
      let detail = unconnectable == nil ? "was not heard" : "advertises, but takes no connection"
      throw .notFound("\(selector) \(detail)")
    }
  }

  /// Finds the peer and connects to it.
  func connect(to selector: PeerSelector) async throws(Failure) -> PeerInfo {
    let found = try await find(selector).peer
    peer = found
    link.send(.connect(found.identifier, ConnectOptions()))
    while true {
      switch try await next(while: "connecting to \(peerName)") {
      case .event(.connected(let reference, let length, let credits)) where reference.peer == found.identifier:
        connection = reference
        maximumWriteLength = length
        writeCredits += credits
        return peer ?? found
      case .event(.connectFailed(found.identifier, let error)):
        throw .failed("could not connect to \(peerName): \(error)")
      default: continue
      }
    }
  }

  /// Ends the connection and waits until it has ended, so that the peer is free for the next program.
  func disconnect() async {
    guard let connection else { return }
    self.connection = nil
    link.send(.cancelConnection(connection.peer))
    inbox.setDeadline(after: 2)
    while true {
      switch await inbox.next() {
      case .event(.disconnected(connection.peer, _, isReconnecting: _)), .deadline, .interrupted: return
      case .event(.stateChanged(let state)) where state != .poweredOn: return
      case .event, .tick: continue
      }
    }
  }

  // MARK: GATT

  /// Sends a request made with a fresh token and hands its answer over; `answer` knows which event that is.
  private func ask<Value>(
    _ doing: String, _ request: (RequestToken, LinkReference) -> SystemRequest,
    answer: (SystemEvent, RequestToken) -> Result<Value, SystemError>?
  ) async throws(Failure) -> Result<Value, SystemError> {
    guard let connection else { throw .failed("not connected while \(doing)") }
    lastToken += 1
    let token = lastToken
    link.send(request(token, connection))
    while true {
      if case .event(let event) = try await next(while: doing), let result = answer(event, token) { return result }
    }
  }

  private func need<Value>(_ doing: String, _ result: Result<Value, SystemError>) throws(Failure) -> Value {
    switch result {
    case .success(let value): return value
    case .failure(let error): throw .failed("\(doing) failed: \(describe(error))")
    }
  }

  func services(_ uuids: [BluetoothUUID]? = nil) async throws(Failure) -> [ServiceRecord] {
    let doing = "discovering the services of \(peerName)"
    return try need(
      doing,
      await ask(doing) {
        .discoverServices($0, $1, uuids)
      } answer: {
        if case .servicesDiscovered($1, _, let result) = $0 { result } else { nil }
      })
  }

  func includedServices(of service: ServiceRecord) async throws(Failure) -> [ServiceRecord] {
    let doing = "discovering what the service \(service.uuid) includes"
    return try need(
      doing,
      await ask(doing) {
        .discoverIncludedServices($0, $1, service.handles, nil)
      } answer: {
        if case .includedServicesDiscovered($1, _, let result) = $0 { result } else { nil }
      })
  }

  func characteristics(
    of service: ServiceRecord, _ uuids: [BluetoothUUID]? = nil
  ) async throws(Failure) -> [CharacteristicRecord] {
    let doing = "discovering the characteristics of the service \(service.uuid)"
    return try need(
      doing,
      await ask(doing) {
        .discoverCharacteristics($0, $1, service.handles, uuids)
      } answer: {
        if case .characteristicsDiscovered($1, _, let result) = $0 { result } else { nil }
      })
  }

  func descriptors(of characteristic: CharacteristicRecord) async throws(Failure) -> [DescriptorRecord] {
    let doing = "discovering the descriptors of the characteristic \(characteristic.uuid)"
    return try need(
      doing,
      await ask(doing) {
        .discoverDescriptors($0, $1, characteristic)
      } answer: {
        if case .descriptorsDiscovered($1, _, let result) = $0 { result } else { nil }
      })
  }

  /// The value, or why the peer does not give it.
  func read(_ handle: UInt16, _ what: String) async throws(Failure) -> Result<[UInt8], SystemError> {
    try await ask("reading \(what)") {
      .readValue($0, $1, handle)
    } answer: {
      if case .valueRead($1, _, let result) = $0 { result } else { nil }
    }
  }

  func write(_ value: [UInt8], to handle: UInt16, _ what: String) async throws(Failure) {
    let doing = "writing \(what)"
    let result: Result<Void, SystemError> = try await ask(doing) {
      .writeValue($0, $1, handle, value)
    } answer: {
      guard case .valueWritten($1, _, let error) = $0 else { return nil }
      return error.map(Result.failure) ?? .success(())
    }
    try need(doing, result)
  }

  /// Sends a write command as soon as there is room for one.
  func writeCommand(_ value: [UInt8], to handle: UInt16, _ what: String) async throws(Failure) {
    guard value.count <= maximumWriteLength else {
      throw .failed("without response at most \(maximumWriteLength) octets can be written here, not \(value.count)")
    }
    while writeCredits < 1 { _ = try take(await inbox.next(), while: "waiting for room to write \(what)") }
    guard let connection else { throw .failed("not connected while writing \(what)") }
    writeCredits -= 1
    link.send(.writeCommand(connection, handle, value))
  }

  func setNotify(_ isOn: Bool, _ characteristic: CharacteristicRecord) async throws(Failure) {
    let doing = (isOn ? "subscribing to " : "unsubscribing from ") + "\(characteristic.uuid)"
    let result: Result<Void, SystemError> = try await ask(doing) {
      .setNotify($0, $1, characteristic, isOn)
    } answer: {
      guard case .notifyStateChanged($1, _, isNotifying: _, let error) = $0 else { return nil }
      return error.map(Result.failure) ?? .success(())
    }
    try need(doing, result)
  }

  /// The next value that `handle` notified or indicated; nil where a signal came instead.
  func notifiedValue(of handle: UInt16) async throws(Failure) -> [UInt8]? {
    while true {
      if let index = notified.firstIndex(where: { $0.handle == handle }) { return notified.remove(at: index).value }
      let input = await inbox.next()
      if case .interrupted = input { return nil }
      _ = try take(input, while: "waiting for values")
    }
  }

  /// An error of the peer by its name in the specification, any other in the system's words.
  func describe(_ error: SystemError) -> String {
    guard case .att(let code) = error.reason else { return error.description }
    let name = ATTError(rawValue: code).description
    let number = "ATT 0x" + (code < 16 ? "0" : "") + String(code, radix: 16)
    if error.detail.isEmpty { return "\(name) (\(number))" }
    let detail = harmless(error.detail)
    return detail.contains(name) ? "\(detail) (\(number))" : "\(name) (\(number)): \(detail)"
  }
}
