// swift-tools-version: 6.2
// SPDX-License-Identifier: Apache-2.0
import PackageDescription

/// One setting for every target: a warning is an error, spans may be stored and returned, imports and
/// existentials say what they are.
let settings: [SwiftSetting] = [
  .treatAllWarnings(as: .error),
  .enableExperimentalFeature("Lifetimes"),
  .enableUpcomingFeature("ExistentialAny"),
  .enableUpcomingFeature("InternalImportsByDefault"),
  .enableUpcomingFeature("MemberImportVisibility"),
]

/// The programs of `Examples` are what an app developer writes: they depend on CoreBluetooth alone, and
/// know none of the settings above.
func example(_ name: String) -> Target {
  .executableTarget(name: name, dependencies: ["CoreBluetooth"], path: "Examples/\(name)")
}

/// A library target; imports go down only (see ARCHITECTURE.md).
func layer(_ name: String, _ dependencies: [Target.Dependency]) -> Target {
  .target(name: name, dependencies: dependencies, swiftSettings: settings)
}

func tests(_ name: String, _ dependencies: [Target.Dependency]) -> Target {
  .testTarget(name: name, dependencies: dependencies + ["TestSupport"], swiftSettings: settings)
}

let package = Package(
  name: "swift-corebluetooth",
  products: [
    .library(name: "CoreBluetooth", targets: ["CoreBluetooth"]),
    // For test targets only: it puts the program's time in the hands of its tests.
    .library(name: "CoreBluetoothTesting", targets: ["CoreBluetoothTesting"]),
    .executable(name: "ble", targets: ["ble"]),
    // For the package in Benchmarks, and for nobody else: no promise is made about these.
    .library(
      name: "_BenchmarkedLayers", targets: ["BLECore", "BLEHCI", "BLEGATT", "BLERadio", "BLEHost", "BLETransport"]),
  ],
  targets: [
    // What C has and Glibc's module does not show, and the system's libraries.
    .target(name: "CLinux"),
    .systemLibrary(name: "CCrypto", pkgConfig: "libcrypto", providers: [.apt(["libssl-dev"])]),

    // The stack, bottom up.
    layer("BLECore", []),
    layer("BLECrypto", ["BLECore", "CCrypto"]),
    layer("BLEHCI", ["BLECore"]),
    layer("BLERadio", ["BLECore", "BLEHCI", "BLECrypto"]),
    layer("BLEL2CAP", ["BLECore"]),
    layer("BLEGATT", ["BLECore", "BLECrypto"]),
    layer("BLESMP", ["BLECore"]),
    layer("BLEHost", ["BLECore", "BLEHCI", "BLEL2CAP", "BLEGATT", "BLESMP", "BLECrypto"]),
    layer("BLETransport", ["BLECore", "BLEHCI", "CLinux"]),
    layer("BLEStore", ["BLECore", "BLECrypto"]),
    layer(
      "BLESystem",
      ["BLECore", "BLECrypto", "BLEHCI", "BLEGATT", "BLEHost", "BLERadio", "BLETransport", "BLEStore"]),
    layer("BLEProfile", ["BLECore"]),
    layer("BLEPlayer", ["BLECore", "BLEProfile", "BLESystem"]),
    layer("CoreBluetooth", ["BLECore", "BLESystem"]),
    // Counts what an app has under way, and puts its delays on virtual time.
    .target(name: "CTestingHooks"),
    layer(
      "CoreBluetoothTesting",
      [
        "BLECore", "BLEGATT", "BLEHCI", "BLEPlayer", "BLEProfile", "BLERadio", "BLESystem", "CoreBluetooth",
        "CTestingHooks",
      ]),
    .executableTarget(
      name: "ble",
      dependencies: [
        "CoreBluetooth", "BLECore", "BLEGATT", "BLEHCI", "BLEPlayer", "BLEProfile", "BLERadio", "BLESystem",
        "BLETransport",
      ],
      swiftSettings: settings),

    example("HeartRateCentral"),
    example("HeartRatePeripheral"),
    example("TwoRoles"),
    example("AsyncConnection"),

    // An app for the end-to-end tests: it knows CoreBluetooth alone, as the examples do.
    .executableTarget(
      name: "ScriptedApp", dependencies: ["CoreBluetooth"], path: "Tests/Programs/ScriptedApp"),
    .target(
      name: "TestSupport", dependencies: ["BLECore"], path: "Tests/TestSupport", swiftSettings: settings),
    tests("BLECoreTests", ["BLECore"]),
    tests("BLECryptoTests", ["BLECore", "BLECrypto"]),
    tests("BLEHCITests", ["BLECore", "BLEHCI"]),
    tests("BLEL2CAPTests", ["BLECore", "BLEL2CAP"]),
    tests("BLEGATTTests", ["BLECore", "BLECrypto", "BLEGATT"]),
    tests("BLESMPTests", ["BLECore", "BLESMP"]),
    tests("BLERadioTests", ["BLECore", "BLEHCI", "BLERadio"]),
    tests("BLEHostTests", ["BLECore", "BLEHCI", "BLEGATT", "BLEHost", "BLERadio"]),
    tests("BLETransportTests", ["BLECore", "BLEHCI", "BLETransport"]),
    tests(
      "BLESystemTests",
      [
        "BLECore", "BLECrypto", "BLEGATT", "BLEHCI", "BLEHost", "BLEL2CAP", "BLERadio", "BLEStore", "BLESystem",
      ]),
    tests("BLEProfileTests", ["BLECore", "BLEProfile"]),
    tests("ToolTests", ["BLECore", "BLEPlayer", "BLEProfile", "BLESystem", "ble"]),
    tests("CoreBluetoothTests", ["BLECore", "BLESystem", "CoreBluetooth"]),
    // What a user of the library has: its settings are not ours.
    .testTarget(name: "CoreBluetoothTestingTests", dependencies: ["CoreBluetooth", "CoreBluetoothTesting"]),
    tests("EndToEndTests", []),
  ],
  swiftLanguageModes: [.v6]
)
