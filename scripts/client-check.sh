#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Builds and runs what an app developer writes: a package that depends on this checkout under another folder name, a
# program that imports CoreBluetooth and nothing else, without flags, and an XCTest test in virtual time.
set -eu
cd "$(dirname "$0")/.."
checkout=$PWD
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
ln -s "$checkout" "$folder/any-name"
mkdir -p "$folder/client/Sources/Client" "$folder/client/Tests/ClientTests"

cat >"$folder/client/Package.swift" <<'END'
// swift-tools-version: 5.9
import PackageDescription

let package = Package(
  name: "client",
  dependencies: [.package(name: "swift-corebluetooth", path: "../any-name")],
  targets: [
    .executableTarget(
      name: "Client",
      dependencies: [
        .product(name: "CoreBluetooth", package: "swift-corebluetooth", condition: .when(platforms: [.linux]))
      ]),
    .testTarget(
      name: "ClientTests",
      dependencies: [
        .product(name: "CoreBluetooth", package: "swift-corebluetooth", condition: .when(platforms: [.linux])),
        .product(name: "CoreBluetoothTesting", package: "swift-corebluetooth", condition: .when(platforms: [.linux])),
      ]),
  ]
)
END

# Two devices on the process's own radio: one advertises, the other has to find it.
cat >"$folder/client/Sources/Client/main.swift" <<'END'
import CoreBluetooth

let service = CBUUID(string: "180D")

class Sensor: NSObject, CBPeripheralManagerDelegate {
  func peripheralManagerDidUpdateState(_ peripheral: CBPeripheralManager) {
    guard peripheral.state == .poweredOn else { return }
    peripheral.startAdvertising([
      CBAdvertisementDataLocalNameKey: "client", CBAdvertisementDataServiceUUIDsKey: [service],
    ])
  }
}

class Phone: NSObject, CBCentralManagerDelegate {
  func centralManagerDidUpdateState(_ central: CBCentralManager) {
    if central.state == .poweredOn { central.scanForPeripherals(withServices: [service]) }
  }
  func centralManager(
    _ central: CBCentralManager, didDiscover peripheral: CBPeripheral, advertisementData: [String: Any],
    rssi RSSI: NSNumber
  ) {
    print("found", advertisementData[CBAdvertisementDataLocalNameKey] as? String ?? "nobody")
    exit(0)
  }
}

let sensor = Sensor()
let phone = Phone()
let peripheral = CBPeripheralManager(
  delegate: sensor, queue: nil, options: [CBManagerOptionAdapterKey: "virtual:sensor"])
let central = CBCentralManager(delegate: phone, queue: nil, options: [CBManagerOptionAdapterKey: "virtual:phone"])
DispatchQueue.main.asyncAfter(deadline: .now() + 20) {
  print("nothing found within 20 s")
  exit(1)
}
dispatchMain()
END

# An app of five years ago, in a test of that time.
cat >"$folder/client/Tests/ClientTests/ClientTests.swift" <<'END'
import CoreBluetooth
import CoreBluetoothTesting
import XCTest

class Phone: NSObject, CBCentralManagerDelegate {
  var manager: CBCentralManager?
  var peripheral: CBPeripheral?
  var isLost = false

  override init() {
    super.init()
    manager = CBCentralManager(delegate: self, queue: nil)
  }
  func centralManagerDidUpdateState(_ central: CBCentralManager) {
    if central.state == .poweredOn { central.scanForPeripherals(withServices: [CBUUID(string: "180F")]) }
  }
  func centralManager(
    _ central: CBCentralManager, didDiscover peripheral: CBPeripheral, advertisementData: [String: Any],
    rssi RSSI: NSNumber
  ) {
    self.peripheral = peripheral
    central.stopScan()
    central.connect(peripheral)
  }
  func centralManager(_ central: CBCentralManager, didDisconnectPeripheral: CBPeripheral, error: Error?) {
    isLost = true
  }
}

final class ClientTests: XCTestCase {
  func testLosesTheSensor() async throws {
    let world = try await VirtualRadio(seed: 1)
    let sensor = try world.place(
      profile: #"{"name": "S", "advertise": ["180F"], "services": [{"uuid": "180F"}]}"#, at: .at(1))
    world.device("phone").move(to: .at(0))
    let phone = world.device("phone").run { Phone() }
    sensor.move(to: .at(200), over: .seconds(600))
    // Minutes, of which none passes.
    try await world.run(until: { phone.isLost }, timeout: .seconds(900))
    XCTAssertGreaterThan(world.now, .seconds(60))
    XCTAssertEqual(world.timeline.callbacks("didConnect"), 1)
  }
}
END

cd "$folder/client"
swift build --scratch-path "$checkout/.build/client" --product Client
found=$("$checkout/.build/client/debug/Client")
echo "$found"
[ "$found" = "found client" ]
tests=$(swift test --scratch-path "$checkout/.build/client" 2>&1) || { echo "$tests"; exit 1; }
echo "$tests" | grep 'Executed 1 test, with 0 failures'
