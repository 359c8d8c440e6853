// SPDX-License-Identifier: Apache-2.0

import BLECore
import BLEPlayer
import BLEProfile
import BLESystem
import Glibc

/// `ble serve`: publishes the services of a profile, advertises, answers reads and writes, and sends values.
final class ServeCommand {
  private let context: CommandContext
  private var player: ProfilePlayer
  private let link: any SystemLink
  private var lastToken: RequestToken = 0
  /// What is being set up; each step waits for the system's answer to the one before it.
  private var setUp = SetUp.waitingForPower
  /// Whether the system has the services; it keeps them when Bluetooth is only switched off.
  private var isPublished = false
  /// Whether it has advertised once.
  private var hasRun = false
  private var updateCredits = 0
  /// Values that wait for room, the newest of each characteristic, in the order of the first.
  private var waiting: [(id: LocalAttributeID, value: [UInt8])] = []

  private enum SetUp: Equatable {
    case waitingForPower
    case publishing(RequestToken, index: Int)
    case startingAdvertising(RequestToken)
    case advertising
  }

  init(_ context: CommandContext) throws(Failure) {
    self.context = context
    let file = context.arguments.operands[0]
    let bytes = try File.read(file, limit: Profile.fileSizeMax + 1)
    do throws(ProfileError) { player = ProfilePlayer(try Profile(parsing: bytes), now: SystemClock.now()) } catch {
      throw .usage("\(harmless(file)):\(error)")
    }
    // The device is called as the profile says, also by those who read its Device Name.
    setenv("COREBLUETOOTH_NAME", player.profile.name, 0)
    link = context.open(context.inbox.eventHandler)
  }

  func run() async throws(Failure) {
    context.inbox.catchSignals()
    context.inbox.setDeadline(after: context.timeout ?? CommandContext.defaultTimeout)
    defer { link.close() }
    for (index, period) in player.periods { context.inbox.startTicking(index, every: period.nanoseconds) }
    while true {
      switch await context.inbox.next() {
      case .interrupted: return
      case .deadline where setUp == .waitingForPower: throw .noAdapter("the adapter was not powered on in time")
      case .deadline: throw .timedOut("ended by --timeout")
      case .tick(let index): tick(index)
      case .event(let event): try handle(event)
      }
    }
  }

  // MARK: Setting up

  private func handle(_ event: SystemEvent) throws(Failure) {
    switch event {
    case .stateChanged(let state): try changeState(to: state)
    case .serviceAdded(let token, let error): try serviceAdded(token, error)
    case .advertisingStarted(let token, let error): try advertisingStarted(token, error)
    case .readRequested(let request, _, let id, let offset): read(request, id, offset)
    case .writeRequested(let request, let central, let writes, _): write(request, central, writes)
    case .subscribed(let central, let id): tell("subscribed", central.identifier, id)
    case .unsubscribed(let central, let id): tell("unsubscribed", central, id)
    case .updateCreditsGranted(let count):
      updateCredits += count
      sendWaiting()
    default: return
    }
  }

  private func changeState(to state: AdapterState) throws(Failure) {
    setUp = .waitingForPower
    waiting = []
    updateCredits = 0
    switch state {
    case .poweredOn:
      if isPublished { startAdvertising() } else { publish(at: 0) }
    case .poweredOff, .resetting:
      if state == .resetting { isPublished = false }
      // At the start it has to be there; later it may come back.
      if state == .poweredOff, !hasRun { throw CentralSession.noAdapter(state, link.replica.adapterProblem) }
      context.output.emit(["event": "state", "state": .string("\(state)")], text: "Bluetooth: \(state)")
    case .unsupported, .unauthorized: throw CentralSession.noAdapter(state)
    }
  }

  private func publish(at index: Int) {
    guard index < player.services.count else {
      isPublished = true
      startAdvertising()
      return
    }
    setUp = .publishing(nextToken(), index: index)
    link.send(.addService(lastToken, player.services[index]))
  }

  private func serviceAdded(_ token: RequestToken, _ error: SystemError?) throws(Failure) {
    guard case .publishing(token, let index) = setUp else { return }
    if let error { throw .failed("the service \(player.services[index].uuid) was not published: \(error)") }
    publish(at: index + 1)
  }

  private func startAdvertising() {
    setUp = .startingAdvertising(nextToken())
    link.send(
      .startAdvertising(
        lastToken, localName: player.profile.name, services: player.profile.advertisedServices))
  }

  private func advertisingStarted(_ token: RequestToken, _ error: SystemError?) throws(Failure) {
    guard setUp == .startingAdvertising(token) else { return }
    if let error { throw .failed("advertising did not start: \(error)") }
    setUp = .advertising
    hasRun = true
    context.runOn()
    let name = player.profile.name
    context.output.emit(
      [
        "event": "advertising", "name": .string(name),
        "services": .array(player.profile.advertisedServices.map { .string($0.description) }),
      ],
      text: "Advertising as \"\(harmless(name))\"; ends with Ctrl-C")
  }

  private func nextToken() -> RequestToken {
    lastToken += 1
    return lastToken
  }

  // MARK: Serving

  private func read(_ request: RemoteRequestID, _ id: LocalAttributeID, _ offset: Int) {
    switch player.read(id, offset: offset, now: SystemClock.now()) {
    case .success(let octets): link.send(.respond(request, 0, octets))
    case .failure(let error): link.send(.respond(request, error.code, nil))
    }
  }

  private func write(_ request: RemoteRequestID, _ central: CentralInfo, _ writes: [RemoteWrite]) {
    switch player.write(writes) {
    case .failure(let error): link.send(.respond(request, error.code, nil))
    case .success(let values):
      link.send(.respond(request, 0, nil))
      for (id, value) in values {
        tell("written", central.identifier, id, value: value)
        if player.notifies(id) { send(value, of: id) }
      }
    }
  }

  private func tick(_ index: Int) {
    guard let (id, value) = player.step(index, now: SystemClock.now()), setUp == .advertising else { return }
    send(value, of: id)
  }

  /// Sends a value to all subscribers; where there is no room, an older value of the same characteristic gives way.
  private func send(_ value: [UInt8], of id: LocalAttributeID) {
    if let index = waiting.firstIndex(where: { $0.id == id }) {
      waiting[index].value = value
    } else {
      waiting.append((id, value))
    }
    sendWaiting()
  }

  private func sendWaiting() {
    while updateCredits > 0, let (id, value) = waiting.first {
      waiting.removeFirst()
      updateCredits -= 1
      link.send(.updateValue(id, value, nil))
    }
  }

  private func tell(_ what: String, _ central: PeerIdentifier, _ id: LocalAttributeID, value: [UInt8]? = nil) {
    guard let (service, characteristic) = player.uuids(of: id) else { return }
    var members: [JSONValue.Member] = [
      .init("event", .string(what)), .init("central", .string(central.text)),
      .init("service", .string(service.description)), .init("characteristic", .string(characteristic.description)),
    ]
    if let value { members.append(.init("value", .string(value.hex))) }
    let name = UUIDName.characteristic(characteristic)
    context.output.emit(
      .object(members), text: "\(central.text) \(what) \(name)\(value.map { ": " + $0.hex } ?? "")")
  }
}
