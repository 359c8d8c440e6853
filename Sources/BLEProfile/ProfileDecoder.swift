// SPDX-License-Identifier: Apache-2.0

import BLECore

/// Makes a ``Profile`` of a JSON tree; every rule of `docs/profiles.md` that a file can break is an error here.
struct ProfileDecoder {
  let bytes: [UInt8]

  /// Services of a profile and characteristics of a service: more than any device has, and the checks stay quick.
  static let countMax = 120

  func profile(_ root: JSONNode) throws(ProfileError) -> Profile {
    let names = ["name", "advertise", "seed", "services"]
    let fields = try ProfileFields(root, "a profile", names: names, in: bytes)
    let nameNode = try fields.required("name")
    let name = try fields.string("name") ?? ""
    guard 1...248 ~= name.utf8.count else {
      throw error("\"name\" has 1 to 248 octets, this one \(name.utf8.count)", at: nameNode.offset)
    }
    let advertised = try uuids(fields.list("advertise") ?? [], "a service of \"advertise\"")
    let seed = try fields.integer("seed", in: 0...Int64.max) ?? 0
    let servicesNode = try fields.required("services")
    let nodes = try fields.list("services") ?? []
    guard !nodes.isEmpty else { throw error("\"services\" needs at least one service", at: servicesNode.offset) }
    guard nodes.count <= Self.countMax else {
      throw error("a profile has at most \(Self.countMax) services", at: servicesNode.offset)
    }
    var services: [ProfileService] = []
    for node in nodes { services.append(try service(node, after: services)) }
    try include(&services, nodes)
    return Profile(name: name, advertisedServices: advertised, seed: UInt64(seed), services: services)
  }

  private func uuids(_ nodes: [JSONNode], _ what: String) throws(ProfileError) -> [BluetoothUUID] {
    var uuids: [BluetoothUUID] = []
    for node in nodes {
      let uuid = try node.uuid(what, bytes)
      guard !uuids.contains(uuid) else { throw error("\(uuid) is given twice", at: node.offset) }
      uuids.append(uuid)
    }
    return uuids
  }

  // MARK: Services

  private static let serviceNames = ["id", "uuid", "primary", "includes", "characteristics"]

  /// The services of every server that are not an app's to publish.
  private static let ownServices: [BluetoothUUID] = [0x1800, 0x1801]

  private func service(_ node: JSONNode, after others: [ProfileService]) throws(ProfileError) -> ProfileService {
    let fields = try ProfileFields(node, "a service", names: Self.serviceNames, in: bytes)
    let uuid = try fields.uuid("uuid")
    if Self.ownServices.contains(uuid) {
      throw error("the system publishes \(uuid) itself", at: fields["uuid"]?.offset ?? node.offset)
    }
    let id = try fields.string("id")
    if let id, others.contains(where: { $0.id == id }) {
      throw error("another service has the id \"\(id)\"", at: fields["id"]?.offset ?? node.offset)
    }
    let nodes = try fields.list("characteristics") ?? []
    guard nodes.count <= Self.countMax else {
      throw error("a service has at most \(Self.countMax) characteristics", at: node.offset)
    }
    var characteristics: [ProfileCharacteristic] = []
    for node in nodes {
      let characteristic = try characteristic(node)
      guard !characteristics.contains(where: { $0.uuid == characteristic.uuid }) else {
        throw error("this service has another characteristic \(characteristic.uuid)", at: node.offset)
      }
      characteristics.append(characteristic)
    }
    let isPrimary = try fields.bool("primary") ?? true
    return ProfileService(id: id, uuid: uuid, isPrimary: isPrimary, characteristics: characteristics)
  }

  /// Resolves `includes` once all services are known.
  private func include(_ services: inout [ProfileService], _ nodes: [JSONNode]) throws(ProfileError) {
    for (index, node) in nodes.enumerated() {
      let fields = try ProfileFields(node, "a service", names: Self.serviceNames, in: bytes)
      for reference in try fields.list("includes") ?? [] {
        let target = try self.target(of: reference, in: services)
        guard !services[index].includedServices.contains(target) else {
          throw error("this service is included twice", at: reference.offset)
        }
        guard target != index, !reaches(index, from: target, in: services) else {
          throw error("a service cannot include itself, not even through others", at: reference.offset)
        }
        services[index].includedServices.append(target)
      }
    }
  }

  /// The service that an element of `includes` names: by id, else by UUID if only one has it.
  private func target(of reference: JSONNode, in services: [ProfileService]) throws(ProfileError) -> Int {
    guard case .string(let text) = reference.content else {
      throw error("an included service is named by its id or UUID in double quotes", at: reference.offset)
    }
    if let index = services.firstIndex(where: { $0.id == text }) { return index }
    let uuid = BluetoothUUID(text)
    let matches = services.indices.filter { services[$0].uuid == uuid }
    guard let match = matches.first else {
      let known = services.map { $0.id ?? $0.uuid.description }
      throw error("no service is \"\(text)\"\(Spelling.advice(for: text, in: known))", at: reference.offset)
    }
    guard matches.count == 1 else {
      throw error("several services are \(text): give them an \"id\" and name that", at: reference.offset)
    }
    return match
  }

  private func reaches(_ goal: Int, from start: Int, in services: [ProfileService]) -> Bool {
    var seen: Set<Int> = []
    var open = [start]
    while let index = open.popLast() {
      if index == goal { return true }
      if seen.insert(index).inserted { open += services[index].includedServices }
    }
    return false
  }

  // MARK: Characteristics

  private static let characteristicNames = [
    "uuid", "properties", "permissions", "value", "maxLength", "notifyEvery", "descriptors",
  ]

  private func characteristic(_ node: JSONNode) throws(ProfileError) -> ProfileCharacteristic {
    let fields = try ProfileFields(node, "a characteristic", names: Self.characteristicNames, in: bytes)
    let uuid = try fields.uuid("uuid")
    var characteristic = ProfileCharacteristic(uuid: uuid, properties: [], read: .never, write: .never, value: nil)
    try properties(fields, &characteristic)
    try permissions(fields, &characteristic)
    if let value = fields["value"] { characteristic.value = try ProfileValueDecoder(bytes: bytes).value(value) }
    let shortest = Int64(characteristic.value?.byteCountMax ?? 1)
    let longest = Int64(Profile.valueLengthMax)
    if let length = try fields.integer("maxLength", in: min(max(shortest, 1), longest)...longest) {
      characteristic.lengthMax = Int(length)
    }
    if let period = try fields.integer("notifyEvery", in: 1...86_400_000) {
      characteristic.notifyPeriod = .milliseconds(Int(period))
    }
    characteristic.descriptors = try descriptors(fields)
    try check(fields, characteristic)
    return characteristic
  }

  private static let propertyNames: [(String, ProfileProperties)] = [
    ("read", .read), ("write", .write), ("writeWithoutResponse", .writeWithoutResponse), ("notify", .notify),
    ("indicate", .indicate), ("notifyEncryptionRequired", .notify), ("indicateEncryptionRequired", .indicate),
  ]

  private func properties(
    _ fields: ProfileFields, _ characteristic: inout ProfileCharacteristic
  ) throws(ProfileError) {
    let list = try fields.required("properties")
    let names = Self.propertyNames.map(\.0)
    for (name, node) in try words(fields.list("properties") ?? [], "property", names) {
      guard let property = Self.propertyNames.first(where: { $0.0 == name })?.1 else { continue }
      guard !characteristic.properties.contains(property) else {
        throw error("\"\(name)\" is given twice", at: node.offset)
      }
      characteristic.properties.insert(property)
      if name.hasSuffix("EncryptionRequired") { characteristic.subscriptionNeedsEncryption = true }
    }
    guard !characteristic.properties.isEmpty else {
      throw error("\"properties\" needs at least one of \(names.joined(separator: ", "))", at: list.offset)
    }
  }

  private static let permissionNames = ["readable", "writeable", "readEncryptionRequired", "writeEncryptionRequired"]

  private func permissions(
    _ fields: ProfileFields, _ characteristic: inout ProfileCharacteristic
  ) throws(ProfileError) {
    guard let list = fields["permissions"] else {
      if characteristic.properties.contains(.read) { characteristic.read = .open }
      if !characteristic.properties.isDisjoint(with: [.write, .writeWithoutResponse]) { characteristic.write = .open }
      return
    }
    let given = try words(fields.list("permissions") ?? [], "permission", Self.permissionNames)
    for (name, node) in given {
      let access: ProfileAccess = name.hasSuffix("EncryptionRequired") ? .encrypted : .open
      let isRead = name.hasPrefix("read")
      guard (isRead ? characteristic.read : characteristic.write) == .never else {
        throw error("\"\(name)\" says again who may \(isRead ? "read" : "write")", at: node.offset)
      }
      if isRead { characteristic.read = access } else { characteristic.write = access }
    }
    if characteristic.properties.contains(.read), characteristic.read == .never {
      throw error("the property \"read\" needs \"readable\" or \"readEncryptionRequired\" here", at: list.offset)
    }
    if !characteristic.properties.isDisjoint(with: [.write, .writeWithoutResponse]), characteristic.write == .never {
      throw error("a property to write needs \"writeable\" or \"writeEncryptionRequired\" here", at: list.offset)
    }
  }

  /// The strings of a list, all among `known`.
  private func words(
    _ nodes: [JSONNode], _ what: String, _ known: [String]
  ) throws(ProfileError) -> [(String, JSONNode)] {
    var words: [(String, JSONNode)] = []
    for node in nodes {
      guard case .string(let word) = node.content else {
        throw error("a \(what) is a word in double quotes, not \(node.kind)", at: node.offset)
      }
      guard known.contains(word) else {
        throw error("no \(what) is called \"\(word)\"\(Spelling.advice(for: word, in: known))", at: node.offset)
      }
      guard !words.contains(where: { $0.0 == word }) else {
        throw error("\"\(word)\" is given twice", at: node.offset)
      }
      words.append((word, node))
    }
    return words
  }

  /// What the members of a characteristic demand of each other.
  private func check(_ fields: ProfileFields, _ characteristic: ProfileCharacteristic) throws(ProfileError) {
    let properties = characteristic.properties
    let notifies = !properties.isDisjoint(with: [.notify, .indicate])
    let place = fields["properties"]?.offset ?? fields.offset
    if characteristic.value == nil {
      if properties.contains(.read) { throw error("the property \"read\" needs a \"value\"", at: place) }
      if notifies { throw error("the properties \"notify\" and \"indicate\" need a \"value\"", at: place) }
    }
    if let node = fields["notifyEvery"], !notifies {
      throw error("\"notifyEvery\" needs the property \"notify\" or \"indicate\"", at: node.offset)
    }
    if let node = fields["maxLength"], characteristic.write == .never {
      throw error("\"maxLength\" is for values that can be written", at: node.offset)
    }
  }

  // MARK: Descriptors

  private static let systemDescriptors: [BluetoothUUID] = [0x2900, 0x2902, 0x2903]

  private func descriptors(_ fields: ProfileFields) throws(ProfileError) -> [ProfileDescriptor] {
    var descriptors: [ProfileDescriptor] = []
    for node in try fields.list("descriptors") ?? [] {
      let descriptor = try self.descriptor(node)
      guard !descriptors.contains(where: { $0.uuid == descriptor.uuid }) else {
        throw error("this characteristic has another descriptor \(descriptor.uuid)", at: node.offset)
      }
      descriptors.append(descriptor)
    }
    return descriptors
  }

  private func descriptor(_ node: JSONNode) throws(ProfileError) -> ProfileDescriptor {
    let fields = try ProfileFields(node, "a descriptor", names: ["uuid", "value", "format"], in: bytes)
    let uuid = try fields.uuid("uuid")
    let place = fields["uuid"]?.offset ?? node.offset
    if Self.systemDescriptors.contains(uuid) {
      throw error("the system makes the descriptor \(uuid) itself where it belongs", at: place)
    }
    switch (fields["value"], fields["format"]) {
    case (let value?, nil):
      return ProfileDescriptor(uuid: uuid, value: try ProfileValueDecoder(bytes: bytes).constant(value))
    case (nil, let format?):
      guard uuid == 0x2904 else { throw error("only the descriptor 2904 has a \"format\"", at: format.offset) }
      return ProfileDescriptor(uuid: uuid, value: try presentationFormat(format))
    case (_?, _?): throw error("a descriptor has a \"value\" or a \"format\", not both", at: node.offset)
    case (nil, nil):
      throw error("this descriptor needs a \"value\"\(uuid == 0x2904 ? " or a \"format\"" : "")", at: node.offset)
    }
  }

  /// Format types that have a number format's name (Assigned Numbers 2.4.1).
  private static let formatTypes: [(String, Int64)] = [
    ("uint8", 0x04), ("uint16", 0x06), ("uint24", 0x07), ("uint32", 0x08), ("uint64", 0x0A), ("int8", 0x0C),
    ("int16", 0x0E), ("int24", 0x0F), ("int32", 0x10), ("int64", 0x12), ("float32", 0x14), ("float64", 0x15),
    ("text", 0x19),
  ]

  /// Characteristic Presentation Format (Vol 3 Part G 3.3.3.5).
  private func presentationFormat(_ node: JSONNode) throws(ProfileError) -> [UInt8] {
    let names = ["type", "exponent", "unit", "namespace", "description"]
    let fields = try ProfileFields(node, "\"format\"", names: names, in: bytes)
    let typeNode = try fields.required("type")
    let type: Int64
    if case .string(let word) = typeNode.content {
      let known = Self.formatTypes.map(\.0)
      guard let match = Self.formatTypes.first(where: { $0.0 == word })?.1 else {
        throw error("no format is called \"\(word)\"\(Spelling.advice(for: word, in: known))", at: typeNode.offset)
      }
      type = match
    } else {
      type = try typeNode.integer("\"type\"", in: 0...255, bytes)
    }
    let unitNode = fields["unit"]
    let unit = try unitNode.map { node throws(ProfileError) in try node.uuid("\"unit\"", bytes) } ?? 0x2700
    guard let unit16 = unit.uuid16 else {
      throw error("\"unit\" is a UUID of 16 bits such as \"2700\"", at: unitNode?.offset ?? node.offset)
    }
    let exponent = try fields.integer("exponent", in: -128...127) ?? 0
    let namespace = try fields.integer("namespace", in: 0...255) ?? 1
    let description = try fields.integer("description", in: 0...0xFFFF) ?? 0
    return [UInt8(type), UInt8(truncatingIfNeeded: exponent)] + NumberFormat.octets(UInt64(unit16), 2)
      + [UInt8(namespace)] + NumberFormat.octets(UInt64(description), 2)
  }

  private func error(_ message: String, at offset: Int) -> ProfileError { ProfileError(message, at: offset, in: bytes) }
}
