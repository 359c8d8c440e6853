// SPDX-License-Identifier: Apache-2.0

/// The peripheral of most tests.
enum Sensor {
  static let service: JSON = "7A0E0001-1C5B-4B0E-9F6D-3C1B0A5E7D10"
  static let battery: JSON = "180F"
  static let level: JSON = "2A19"
  /// Read, write, write without response.
  static let value: JSON = "7A0E0002-1C5B-4B0E-9F6D-3C1B0A5E7D10"
  /// Read, notify; has descriptors.
  static let notified: JSON = "7A0E0003-1C5B-4B0E-9F6D-3C1B0A5E7D10"
  static let indicated: JSON = "7A0E0004-1C5B-4B0E-9F6D-3C1B0A5E7D10"
  /// Needs an encrypted link.
  static let secret: JSON = "7A0E0005-1C5B-4B0E-9F6D-3C1B0A5E7D10"
  /// Answered by the system, not by the app.
  static let cached: JSON = "7A0E0006-1C5B-4B0E-9F6D-3C1B0A5E7D10"
  static let ownDescriptor: JSON = "7A0E0101-1C5B-4B0E-9F6D-3C1B0A5E7D10"

  static let services: [JSON] = [
    [
      "uuid": battery,
      "characteristics": [["uuid": level, "properties": ["read"], "permissions": ["readable"], "value": "62"]],
    ],
    [
      "uuid": service, "included": [battery],
      "characteristics": [
        [
          "uuid": value, "properties": ["read", "write", "writeWithoutResponse"],
          "permissions": ["readable", "writeable"], "value": "68656c6c6f",
        ],
        [
          "uuid": notified, "properties": ["read", "notify"], "permissions": ["readable"], "value": "0102",
          "descriptors": [
            ["uuid": "2901", "text": "Température"], ["uuid": "2904", "value": "0efe2f27010000"],
            ["uuid": ownDescriptor, "value": "c0ffee"],
          ],
        ],
        ["uuid": indicated, "properties": ["indicate"], "permissions": ["readable"], "value": "03"],
        ["uuid": secret, "properties": ["read"], "permissions": ["readEncryptionRequired"], "value": "04"],
        ["uuid": cached, "properties": ["read"], "permissions": ["readable"], "cached": "050607"],
      ],
    ],
  ]
}

extension Site {
  /// A peripheral app with the sensor's services, which advertises.
  func sensor(_ name: String = "sensor") async throws -> App {
    let app = try await app(name)
    try await app.serve(Sensor.services, name: name, advertising: [Sensor.service])
    return app
  }

  /// The sensor, and a central that is connected and has discovered its services.
  func meeting() async throws -> (sensor: App, central: App, peer: JSON) {
    let sensor = try await sensor()
    let central = try await app("central")
    return (sensor, central, try await central.meet(Sensor.service))
  }
}
