// SPDX-License-Identifier: Apache-2.0

import BLECore
import BLECrypto
import BLEHCI

/// The resolving list, and resolvable private addresses made and recognised by it (Vol 6 Part B 6; Vol 3 Part H 2.2.2).
struct AddressResolver {
  /// One peer.
  struct Entry {
    /// Public or static random.
    var identity: DeviceAddress
    var mode = PrivacyMode.network
    fileprivate var peerKey: Key
    fileprivate var localKey: Key
    /// The peer's address when it was last heard.
    fileprivate(set) var lastHeard: BDAddress?
    fileprivate var local: Made?
    fileprivate var peer: Made?
  }

  /// An identity resolving key. All zeros: none.
  fileprivate struct Key {
    let cipher: AES128?

    /// `octets`: 16, least significant first.
    init(_ octets: [UInt8]) { cipher = octets.allSatisfy { $0 == 0 } ? nil : try? AES128(key: octets.reversed()) }

    /// ah: 24 bits of `random` to 24 bits.
    func hash(_ random: UInt64) -> UInt64? {
      guard let cipher else { return nil }
      var block = [UInt8](repeating: 0, count: 16)
      for index in 0..<3 { block[13 + index] = UInt8(truncatingIfNeeded: random >> UInt64(16 - 8 * index)) }
      return (try? cipher.encrypt(block)).map { $0.suffix(3).reduce(0) { $0 << 8 | UInt64($1) } }
    }

    func resolves(_ address: BDAddress) -> Bool { hash(address.value >> 24) == address.value & 0xFF_FFFF }
  }

  fileprivate struct Made {
    var address: BDAddress
    var end: Instant
  }

  var isEnabled = false
  /// How long an address is used (Vol 4 Part E 7.8.45).
  var timeout = TimeSpan.seconds(900)
  private(set) var entries: [Entry] = []
  /// What resolving came to before: an index, or -1.
  private var known: [BDAddress: Int] = [:]

  /// Entries at most.
  static let size = 32
  private static let knownMax = 4096

  mutating func add(_ identity: DeviceAddress, peerKey: [UInt8], localKey: [UInt8]) {
    entries.append(Entry(identity: identity, peerKey: Key(peerKey), localKey: Key(localKey)))
    known.removeAll()
  }

  mutating func remove(at index: Int) {
    entries.remove(at: index)
    known.removeAll()
  }

  mutating func clear() {
    entries.removeAll()
    known.removeAll()
  }

  mutating func setMode(_ mode: PrivacyMode, at index: Int) { entries[index].mode = mode }

  func index(of identity: DeviceAddress) -> Int? { entries.firstIndex { $0.identity.isSameDevice(as: identity) } }

  // MARK: - Recognising

  /// The identity behind a peer's address on air, as type 2 or 3; the address itself if nobody's key makes it.
  mutating func resolved(_ address: DeviceAddress) -> DeviceAddress {
    guard isEnabled, !entries.isEmpty, address.kind == .resolvablePrivate, let index = index(resolving: address.address)
    else { return address }
    entries[index].lastHeard = address.address
    let identity = entries[index].identity
    return DeviceAddress(identity.address, type: identity.isRandom ? .randomIdentity : .publicIdentity)
  }

  private mutating func index(resolving address: BDAddress) -> Int? {
    if let index = known[address] { return index < 0 ? nil : index }
    let index = entries.firstIndex { $0.peerKey.resolves(address) }
    if known.count >= Self.knownMax { known.removeAll(keepingCapacity: true) }
    known[address] = index ?? -1
    return index
  }

  /// Whether one of the local keys makes `address`.
  func isLocal(_ address: DeviceAddress) -> Bool {
    isEnabled && address.kind == .resolvablePrivate && entries.contains { $0.localKey.resolves(address.address) }
  }

  /// Whether the peer has to be taken as one that hides: it shows its identity although it is known to have a key, and
  /// the host did not allow that (network privacy mode, 6.5).
  func hides(_ address: DeviceAddress) -> Bool {
    guard isEnabled, address.type.rawValue < AddressType.publicIdentity.rawValue else { return false }
    return entries.contains { $0.mode == .network && $0.peerKey.cipher != nil && $0.identity.isSameDevice(as: address) }
  }

  // MARK: - Making

  /// The address for this device towards the peer at `index`; nil without a local key.
  mutating func localAddress(_ index: Int, now: Instant, _ random: inout SeededGenerator) -> BDAddress? {
    entries[index].local = Self.make(entries[index].local, entries[index].localKey, now, timeout, &random)
    return entries[index].local?.address
  }

  /// The address that the peer at `index` may know itself by; nil without a key of it.
  mutating func peerAddress(_ index: Int, now: Instant, _ random: inout SeededGenerator) -> BDAddress? {
    entries[index].peer = Self.make(entries[index].peer, entries[index].peerKey, now, timeout, &random)
    return entries[index].peer?.address
  }

  /// The address this device had last towards a peer, without making one.
  func lastLocalAddress(_ index: Int) -> BDAddress? { entries[index].local?.address }

  /// New keys or a new timeout: addresses are made anew.
  mutating func expire() {
    for index in entries.indices {
      entries[index].local = nil
      entries[index].peer = nil
    }
  }

  private static func make(
    _ old: Made?, _ key: Key, _ now: Instant, _ timeout: TimeSpan, _ random: inout SeededGenerator
  ) -> Made? {
    if let old, now < old.end { return old }
    var part: UInt64
    // Neither all zeros nor all ones, with the two bits that mark it.
    repeat { part = random.next() >> 42 } while part == 0 || part == 0x3F_FFFF
    part |= 0x40_0000
    guard let hash = key.hash(part) else { return nil }
    return Made(address: BDAddress(part << 24 | hash), end: now + timeout)
  }
}

// MARK: - For the Link Layer's states

extension VirtualController {
  /// The identity behind a peer's address, or that address.
  func resolved(_ device: DeviceAddress) -> DeviceAddress { settings.privacy.resolved(device) }

  /// Whether packets of `device`, resolved or not, are to be taken at all.
  func isPrivacyKept(by device: DeviceAddress) -> Bool { !settings.privacy.hides(device) }

  /// Whether `device`, as it is on air, is the peer that the host means.
  func isPeer(_ device: DeviceAddress, _ peer: DeviceAddress) -> Bool {
    let device = resolved(device)
    return isPrivacyKept(by: device) && peer.isSameDevice(as: device)
  }

  /// Own address towards `peer` by the type that the host chose; nil if it has not set one.
  ///
  /// - Parameter peer: nil: nobody in particular.
  func ownAddress(_ type: AddressType, for peer: DeviceAddress?, random: BDAddress? = nil) -> DeviceAddress? {
    if type.rawValue >= AddressType.publicIdentity.rawValue, settings.privacy.isEnabled, let peer,
      let index = settings.privacy.index(of: peer),
      let address = settings.privacy.localAddress(index, now: world.simulator.now, &hostRandom)
    {
      return DeviceAddress(address, type: .random)
    }
    switch type.rawValue {
    case 0, 2: return DeviceAddress(address, type: .publicDevice)
    case 1, 3: return (random ?? settings.randomAddress).map { DeviceAddress($0, type: .random) }
    default: return nil
    }
  }

  /// Whether `target` is this device, which uses own addresses of `type`.
  func isOwn(_ target: DeviceAddress, _ type: AddressType) -> Bool {
    if target == ownAddress(type, for: nil) { return true }
    return type.rawValue >= AddressType.publicIdentity.rawValue && settings.privacy.isLocal(target)
  }

  /// What stands for `peer` in the PDUs of directed advertising: with own addresses of type 2 and 3 one that only it knows.
  func addressOnAir(of peer: DeviceAddress, for advertiser: Advertiser) -> DeviceAddress {
    guard advertiser.parameters.ownAddressType.rawValue >= AddressType.publicIdentity.rawValue,
      settings.privacy.isEnabled, let index = settings.privacy.index(of: peer),
      let address = settings.privacy.peerAddress(index, now: world.simulator.now, &hostRandom)
    else { return DeviceAddress(peer.address, type: peer.type.onAir) }
    return DeviceAddress(address, type: .random)
  }

  /// Gives `advertiser` its address for the next event: a private one may have expired.
  func refreshAddress(of advertiser: Advertiser) {
    guard advertiser.parameters.ownAddressType.rawValue >= AddressType.publicIdentity.rawValue,
      let own = address(of: advertiser)
    else { return }
    advertiser.setAddress(own)
  }

  func address(of advertiser: Advertiser) -> DeviceAddress? {
    let parameters = advertiser.parameters
    let random = advertiser.handle == nil ? settings.randomAddress : advertiser.randomAddress
    guard parameters.ownAddressType.rawValue & 1 == 0 || random != nil || parameters.ownAddressType == .randomIdentity
    else { return nil }
    return ownAddress(parameters.ownAddressType, for: parameters.peer, random: random)
  }
}

// MARK: - Commands

extension VirtualController {
  /// `false`: not one about privacy.
  func dispatchLEPrivacy(_ opcode: UInt16, _ parameters: RawSpan) -> Bool {
    switch opcode {
    case 0x2027: status(LEAddDeviceToResolvingList.self, parameters, addToResolvingList)
    case 0x2028: status(LERemoveDeviceFromResolvingList.self, parameters, removeFromResolvingList)
    case 0x2029:
      status(LEClearResolvingList.self, parameters) { _ in
        guard !isPrivacyInUse else { return .commandDisallowed }
        settings.privacy.clear()
        return .success
      }
    case 0x202A: complete(LEReadResolvingListSize.self, parameters) { _ in .init(size: UInt8(AddressResolver.size)) }
    case 0x202B: complete(LEReadPeerResolvableAddress.self, parameters, readPeerAddress)
    case 0x202C: complete(LEReadLocalResolvableAddress.self, parameters, readLocalAddress)
    case 0x202D:
      status(LESetAddressResolutionEnable.self, parameters) { command in
        guard !isAirInUse else { return .commandDisallowed }
        settings.privacy.isEnabled = command.enable
        return .success
      }
    case 0x202E:
      status(LESetResolvablePrivateAddressTimeout.self, parameters) { command in
        guard (1...3600).contains(command.rpaTimeout) else { return .invalidHCICommandParameters }
        settings.privacy.timeout = .seconds(Int(command.rpaTimeout))
        settings.privacy.expire()
        return .success
      }
    case 0x204E: status(LESetPrivacyMode.self, parameters, setPrivacyMode)
    default: return false
    }
    return true
  }

  /// Whether advertising, scanning or initiating is on: then resolution can be neither switched on nor off (7.8.44).
  private var isAirInUse: Bool {
    advertiser.isOn || sets.contains { $0.isOn } || observer.scan != nil || observer.initiation != nil
  }

  /// Whether the list is in use, and must not be changed (7.8.38).
  private var isPrivacyInUse: Bool { settings.privacy.isEnabled && isAirInUse }

  private func addToResolvingList(_ command: LEAddDeviceToResolvingList) -> HCIStatus {
    guard !isPrivacyInUse else { return .commandDisallowed }
    guard command.peerIdentityAddressType.rawValue <= 1 else { return .invalidHCICommandParameters }
    let identity = DeviceAddress(command.peerIdentityAddress, type: command.peerIdentityAddressType)
    guard settings.privacy.index(of: identity) == nil else { return .invalidHCICommandParameters }
    guard settings.privacy.entries.count < AddressResolver.size else { return .memoryCapacityExceeded }
    settings.privacy.add(identity, peerKey: command.peerIRK, localKey: command.localIRK)
    return .success
  }

  private func removeFromResolvingList(_ command: LERemoveDeviceFromResolvingList) -> HCIStatus {
    guard !isPrivacyInUse else { return .commandDisallowed }
    let identity = DeviceAddress(command.peerIdentityAddress, type: command.peerIdentityAddressType)
    guard let index = settings.privacy.index(of: identity) else { return .unknownConnectionIdentifier }
    settings.privacy.remove(at: index)
    return .success
  }

  private func readPeerAddress(_ command: LEReadPeerResolvableAddress) -> LEReadPeerResolvableAddress.ReturnParameters {
    let identity = DeviceAddress(command.peerIdentityAddress, type: command.peerIdentityAddressType)
    guard let index = settings.privacy.index(of: identity) else { return .init(status: .unknownConnectionIdentifier) }
    return .init(peerResolvableAddress: settings.privacy.entries[index].lastHeard ?? .zero)
  }

  private func readLocalAddress(_ command: LEReadLocalResolvableAddress)
    -> LEReadLocalResolvableAddress.ReturnParameters
  {
    let identity = DeviceAddress(command.peerIdentityAddress, type: command.peerIdentityAddressType)
    guard let index = settings.privacy.index(of: identity) else { return .init(status: .unknownConnectionIdentifier) }
    return .init(localResolvableAddress: settings.privacy.lastLocalAddress(index) ?? .zero)
  }

  private func setPrivacyMode(_ command: LESetPrivacyMode) -> HCIStatus {
    guard !isPrivacyInUse else { return .commandDisallowed }
    guard command.privacyMode.rawValue <= 1 else { return .invalidHCICommandParameters }
    let identity = DeviceAddress(command.peerIdentityAddress, type: command.peerIdentityAddressType)
    guard let index = settings.privacy.index(of: identity) else { return .unknownConnectionIdentifier }
    settings.privacy.setMode(command.privacyMode, at: index)
    return .success
  }
}
