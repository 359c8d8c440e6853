// swift-tools-version: 6.2
// SPDX-License-Identifier: Apache-2.0
import PackageDescription

let settings: [SwiftSetting] = [
  .treatAllWarnings(as: .error),
  .enableExperimentalFeature("Lifetimes"),
  .enableUpcomingFeature("ExistentialAny"),
]

let package = Package(
  name: "Benchmarks",
  dependencies: [.package(name: "swift-corebluetooth", path: "..")],
  targets: [
    // Takes the place of malloc and its kin in the whole process.
    .target(name: "AllocationCounter"),
    .executableTarget(
      name: "bench",
      dependencies: [
        "AllocationCounter",
        .product(name: "CoreBluetooth", package: "swift-corebluetooth"),
        // Built along, for the row on `ble serve`.
        .product(name: "ble", package: "swift-corebluetooth"),
        .product(name: "_BenchmarkedLayers", package: "swift-corebluetooth"),
      ],
      swiftSettings: settings),
  ],
  swiftLanguageModes: [.v6]
)
