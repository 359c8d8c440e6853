// SPDX-License-Identifier: Apache-2.0

import BLECore
import BLEGATT
import TestSupport

/// One bearer driven by PDUs in hex, with what it sends and says written out as text: scripts stay readable.
struct ScriptedBearer {
  var bearer: ATTBearer
  let database: AttributeDatabase
  var now = Instant.zero

  init(_ database: AttributeDatabase = AttributeDatabase(), rxMTU: UInt16 = 517) {
    self.database = database
    bearer = ATTBearer(rxMTU: rxMTU)
  }

  /// Gives the bearer a PDU; returns what it sends.
  @discardableResult
  mutating func receive(_ hex: String) -> [String] { receive([UInt8](hex: hex) ?? []) }

  @discardableResult
  mutating func receive(_ pdu: [UInt8]) -> [String] {
    bearer.receive(pdu.span.bytes, database: database, now: now)
    return sent()
  }

  /// Takes all packets that wait to be sent.
  mutating func sent() -> [String] {
    var pdus: [String] = []
    while bearer.outgoing.removeFirst({ pdus.append([UInt8]($1).hex) }) {}
    return pdus
  }

  /// Takes all events, as text.
  mutating func events() -> [String] {
    let output = bearer.output
    bearer.output.removeEvents()
    return output.events.map { Self.text($0, output) }
  }

  mutating func advance(_ seconds: Int) {
    now = now + .seconds(seconds)
    if let deadline = bearer.nextDeadline, deadline <= now { bearer.handleTimeout(now: now) }
  }

  // MARK: Verbs

  mutating func read(_ handle: UInt16, token: UInt64 = 1) { bearer.read(handle, token: token, now: now) }

  mutating func write(_ handle: UInt16, _ value: [UInt8], token: UInt64 = 1) {
    bearer.write(handle, value.span.bytes, token: token, now: now)
  }

  mutating func command(_ handle: UInt16, _ value: [UInt8], token: UInt64) -> Bool {
    bearer.writeCommand(handle, value.span.bytes, token: token)
  }

  mutating func respondToRead(_ id: UInt32, _ value: [UInt8]) {
    bearer.respondToRead(id, value: value.span.bytes, database: database, now: now)
  }

  mutating func respondToWrite(_ id: UInt32) { bearer.respondToWrite(id, database: database, now: now) }

  mutating func reject(_ id: UInt32, _ error: ATTError, handle: UInt16? = nil) {
    bearer.reject(id, error: error, handle: handle, database: database, now: now)
  }

  mutating func notify(_ handle: UInt16, _ value: [UInt8], token: UInt64 = 0) -> Bool {
    bearer.notify(handle, value.span.bytes, token: token, database: database)
  }

  mutating func notifyMultiple(_ values: (UInt16, [UInt8])...) -> Bool {
    bearer.notifyMultiple(values.map { (handle: $0.0, value: $0.1) }, database: database)
  }

  mutating func databaseChanged() {
    for range in database.takeChangedRanges() {
      bearer.databaseChanged(range, database: database, now: now)
    }
  }

  mutating func indicate(_ handle: UInt16, _ value: [UInt8], token: UInt64 = 0) -> Bool {
    bearer.indicate(handle, value.span.bytes, token: token, database: database, now: now)
  }

  // MARK: Text

  static func text(_ event: ATTEvent, _ output: ATTOutput) -> String {
    func bytes(_ range: Range<Int>) -> String { Array(output.eventBytes[range]).hex }
    func outcome<T>(_ result: Result<T, GATTError>, _ success: (T) -> String) -> String {
      switch result {
      case .success(let value): success(value)
      case .failure(let error): text(error)
      }
    }
    switch event {
    case .mtuChanged(let mtu): return "mtu \(mtu)"
    case .bearerFailed(.responseTimedOut(let request)): return "failed: no response to \([request.rawValue].hex)"
    case .bearerFailed(.confirmationTimedOut(let handle)): return "failed: no confirmation of \(handle)"
    case .mtuExchanged(let token, let result): return "\(token) mtu " + outcome(result) { "\($0)" }
    case .servicesDiscovered(let token, let result):
      return "\(token) services "
        + outcome(result) { list($0) { "\($0.range.lowerBound)-\($0.range.upperBound) \($0.uuid)" } }
    case .includedServicesDiscovered(let token, let result):
      return "\(token) includes "
        + outcome(result) { list($0) { "\($0.handle): \($0.range.lowerBound)-\($0.range.upperBound) \($0.uuid)" } }
    case .characteristicsDiscovered(let token, let result):
      return "\(token) characteristics "
        + outcome(result) {
          list($0) {
            "\($0.declarationHandle),\($0.valueHandle)-\($0.endHandle) \([$0.properties.rawValue].hex) \($0.uuid)"
          }
        }
    case .descriptorsDiscovered(let token, let result):
      return "\(token) descriptors " + outcome(result) { list($0) { "\($0.handle) \($0.uuid)" } }
    case .valueRead(let token, let result): return "\(token) read " + outcome(result, bytes)
    case .valuesRead(let token, let result):
      return "\(token) read " + outcome(result) { list($0) { "\($0.handle)=\(bytes($0.value))" } }
    case .barrierPassed(let token): return "\(token) barrier"
    case .databaseOutOfSync(let hash): return "out of sync, hash " + (hash.map(bytes) ?? "none")
    case .commandDropped(let token): return "\(token) command dropped"
    case .updateDropped(let token): return "\(token) update dropped"
    case .written(let token, let error): return "\(token) written" + (error.map { " \(text($0))" } ?? "")
    case .notification(let handle, let value): return "notification \(handle)=\(bytes(value))"
    case .indication(let handle, let value): return "indication \(handle)=\(bytes(value))"
    case .readRequest(let id, let handle, let offset, let owner):
      return "#\(id) read \(handle) from \(offset) of \(owner)"
    case .writeRequest(let id, let entries, let owner):
      let parts = list(Array(output.eventWrites[entries])) { "\($0.handle)[\($0.offset)]=\(bytes($0.value))" }
      return "#\(id) write \(parts) of \(owner)"
    case .writeCommand(let handle, let value, let owner): return "command \(handle)=\(bytes(value)) of \(owner)"
    case .subscriptionChanged(let handle, let configuration, let owner):
      return "subscription \(handle)=\(configuration) of \(owner)"
    case .indicationConfirmed(let handle, let token): return "confirmed \(handle) \(token)"
    }
  }

  static func list<T>(_ values: [T], _ text: (T) -> String) -> String {
    "[" + values.map(text).joined(separator: ", ") + "]"
  }

  static func text(_ error: GATTError) -> String {
    switch error {
    case .att(let code, let handle): "error \([code.rawValue].hex) at \(handle)"
    case .invalidResponse(let request): "invalid response to \([request.rawValue].hex)"
    case .echoMismatch(let handle): "echo mismatch at \(handle)"
    case .valueTooLong(let count): "too long: \(count)"
    case .timedOut(let request): "timed out: \([request.rawValue].hex)"
    case .databaseChanged: "database changed"
    case .bearerClosed: "closed"
    }
  }
}

/// A client's bearer wired to a server's: what one sends the other receives, until both are silent.
struct BearerPair {
  var client: ScriptedBearer
  var server: ScriptedBearer
  /// Answers to the server's events, as its owner gives them.
  var owner: Owner
  /// What the client was told.
  var clientEvents: [ATTEvent] = []
  var clientBytes: [UInt8] = []

  /// The app behind the server: it keeps the values that the database does not.
  struct Owner {
    var values: [UInt16: [UInt8]] = [:]
    var refused: [UInt16: ATTError] = [:]
    var log: [String] = []
  }

  init(_ database: AttributeDatabase, clientMTU: UInt16 = 517, serverMTU: UInt16 = 517) {
    client = ScriptedBearer(rxMTU: clientMTU)
    server = ScriptedBearer(database, rxMTU: serverMTU)
    owner = Owner()
  }

  /// Lets PDUs go back and forth until none is left.
  mutating func run() {
    var isBusy = true
    while isBusy {
      isBusy = false
      for pdu in client.rawSent() {
        isBusy = true
        server.bearer.receive(pdu.span.bytes, database: server.database, now: server.now)
        answer()
      }
      for pdu in server.rawSent() {
        isBusy = true
        client.bearer.receive(pdu.span.bytes, database: client.database, now: client.now)
      }
    }
    clientEvents = client.bearer.output.events
    clientBytes = client.bearer.output.eventBytes
    client.bearer.output.removeEvents()
  }

  private mutating func answer() {
    while !server.bearer.output.events.isEmpty {
      let output = server.bearer.output
      server.bearer.output.removeEvents()
      for event in output.events {
        owner.log.append(ScriptedBearer.text(event, output))
        answer(event, output)
      }
    }
  }

  private mutating func answer(_ event: ATTEvent, _ output: ATTOutput) {
    switch event {
    case .readRequest(let id, let handle, let offset, _):
      let value = owner.values[handle] ?? []
      if let error = owner.refused[handle] {
        server.reject(id, error)
      } else if offset > value.count {
        server.reject(id, .invalidOffset)
      } else {
        server.respondToRead(id, Array(value[offset...]))
      }
    case .writeRequest(let id, let entries, _):
      let parts = output.eventWrites[entries]
      if let refused = parts.first(where: { owner.refused[$0.handle] != nil }) {
        return server.reject(id, owner.refused[refused.handle] ?? .unlikelyError, handle: refused.handle)
      }
      for part in parts {
        let kept = (part.offset == 0 ? [] : owner.values[part.handle] ?? []).prefix(part.offset)
        owner.values[part.handle] = Array(kept) + output.eventBytes[part.value]
      }
      server.respondToWrite(id)
    case .writeCommand(let handle, let value, _): owner.values[handle] = Array(output.eventBytes[value])
    default: break
    }
  }
}

extension ScriptedBearer {
  mutating func rawSent() -> [[UInt8]] {
    var pdus: [[UInt8]] = []
    while bearer.outgoing.removeFirst({ pdus.append([UInt8]($1)) }) {}
    return pdus
  }
}
