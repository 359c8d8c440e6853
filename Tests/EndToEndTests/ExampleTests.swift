// SPDX-License-Identifier: Apache-2.0

import Foundation
import Testing

/// The examples run to their end.
@Suite(.timeLimit(.minutes(10))) struct ExampleTests {
  @Test func heartRateCentralFollowsHeartRatePeripheral() async throws {
    try await withSite { site in
      let sensor = try site.example("HeartRatePeripheral", ["Pulse"])
      let central = try site.example("HeartRateCentral", ["3"])
      for _ in 0..<3 { try await central.expectText("heart rate ") }
      #expect(await central.waitForExit() == 0)
      let texts = central.transcript.all.compactMap(\.string)
      for start in ["worn on: ", "battery ", "subscribed to ", "energy expended was reset"] {
        #expect(texts.contains { $0.hasPrefix(start) }, "\(start)")
      }
      try await sensor.expectText("energy expended was reset")
      sensor.signal(SIGTERM)
      #expect(await sensor.waitForExit() == 0)
    }
  }

  @Test func heartRateCentralConnectsAgainAfterALoss() async throws {
    try await withSite { site in
      let sensor = try site.example("HeartRatePeripheral", ["Pulse"])
      let central = try site.example("HeartRateCentral", ["1000000"])
      try await central.expectText("heart rate ")
      sensor.signal(SIGKILL)
      try await central.expectText("connection lost: ")
      _ = await sensor.waitForExit()
      _ = try site.example("HeartRatePeripheral", ["Pulse"])
      try await central.expectText("subscribed to ")
      try await central.expectText("subscribed to ")
    }
  }

  @Test func twoRolesMeetsItself() async throws {
    try await withSite { site in
      let peripheral = try site.example("TwoRoles", ["-role", "peripheral"], as: "peripheral")
      try await peripheral.expectText("peripheral: advertising")
      let central = try site.example("TwoRoles", ["-role", "central"], as: "central")
      try await central.expectText("central: text is \"hello\"")
      try await central.expectText("central: text is \"written at ")
      #expect(await central.waitForExit() == 0)
      try await peripheral.expectText("peripheral: text is now ")
    }
  }

  @Test func asyncConnectionConnectsTwiceAndReads() async throws {
    try await withSite { site in
      _ = try site.example("HeartRatePeripheral", ["Pulse"])
      let program = try site.example("AsyncConnection", ["180D", "2"])
      for round in 1...2 {
        try await program.expectText("round \(round): connected")
        try await program.expectText("round \(round): 2A38 = ")
        try await program.expectText("round \(round): disconnected")
      }
      #expect(await program.waitForExit() == 0)
    }
  }
}
