#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Builds and runs what an app developer writes: a package that depends on this checkout under another folder name, and a
# program that imports CoreBluetooth and nothing else, without flags.
set -eu
cd "$(dirname "$0")/.."
checkout=$PWD
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
ln -s "$checkout" "$folder/any-name"
mkdir -p "$folder/client/Sources/Client"

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
      ])
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

cd "$folder/client"
swift build --scratch-path "$checkout/.build/client" --product Client
found=$("$checkout/.build/client/debug/Client")
echo "$found"
[ "$found" = "found client" ]
