// SPDX-License-Identifier: Apache-2.0

import Foundation

/// A file of `Vectors/`: the repository's folder of examples that other implementations agree with.
public struct VectorFile {
  /// The file's objects, each an example.
  public let cases: [VectorCase]
  /// The whole file.
  public let root: VectorCase

  /// Loads `Vectors/name.json`; throws if it is missing or no JSON object.
  public init(_ name: String, file: String = #filePath) throws {
    var url = URL(fileURLWithPath: file)
    while url.path.count > 1, url.lastPathComponent != "Tests" { url.deleteLastPathComponent() }
    url.deleteLastPathComponent()
    url.append(path: "Vectors/\(name).json")
    let object = try JSONSerialization.jsonObject(with: Data(contentsOf: url))
    guard let object = object as? [String: Any] else { throw CocoaError(.fileReadCorruptFile) }
    root = VectorCase(object)
    cases = root.objects("cases")
  }
}

/// A JSON object with readers that give nil for what is not there.
public struct VectorCase: CustomStringConvertible {
  public let object: [String: Any]

  public init(_ object: [String: Any]) { self.object = object }

  public var name: String { string("name") ?? "?" }
  public var description: String { name }

  public func string(_ key: String) -> String? { object[key] as? String }
  public func int(_ key: String) -> Int? { (object[key] as? NSNumber)?.intValue }
  public func bool(_ key: String) -> Bool? { (object[key] as? NSNumber)?.boolValue }
  /// The octets of a string of hexadecimal digits.
  public func bytes(_ key: String) -> [UInt8]? { string(key).flatMap { [UInt8](hex: $0) } }
  public func child(_ key: String) -> VectorCase? { (object[key] as? [String: Any]).map { VectorCase($0) } }
  public func objects(_ key: String) -> [VectorCase] {
    (object[key] as? [[String: Any]] ?? []).map { VectorCase($0) }
  }
  public func strings(_ key: String) -> [String] { object[key] as? [String] ?? [] }
}
