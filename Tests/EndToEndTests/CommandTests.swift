// SPDX-License-Identifier: Apache-2.0

import Foundation
import Testing

/// The tool `ble` from outside: what it prints with `--json`, and its exit codes.
@Suite(.timeLimit(.minutes(10))) struct CommandTests {
  private static let profiles = "\(Build.repository)/Examples/Profiles"

  /// Serves an example's profile; its line `advertising` has been seen.
  private func serve(_ site: Site, _ profile: String) async throws -> JSON {
    let server = try site.tool("serve", ["serve", "\(Self.profiles)/\(profile).json"])
    return try await server.expect("advertising")["name"]
  }

  @Test(arguments: ["/nonexistent/a.btsnoop", "/tmp", ""])
  func aCaptureThatCannotBeWrittenIsSaidAtOnce(_ path: String) async throws {
    try await withSite { site in
      let (lines, code) = try await site.run("scan", ["scan", "--for", "1", "--capture", path])
      #expect(code == 1)
      #expect(lines.contains { $0.string?.contains("cannot write the capture") == true })
    }
  }

  @Test func exploreShowsTheTreeOfAProfile() async throws {
    try await withSite { site in
      let name = try await serve(site, "heart-rate-sensor")
      let (lines, code) = try await site.run("explore", ["explore", "--name", name.string ?? ""])
      #expect(code == 0)
      try #require(lines.count == 1)
      let tree = lines[0]
      #expect(Set(tree.members.keys) == ["name", "identifier", "address", "services"])
      #expect(tree["name"] == name)
      #expect(tree["address"] == "02:CB:00:00:00:01")
      #expect(UUID(uuidString: tree["identifier"].string ?? "") != nil)
      #expect(tree["services"].list.map { $0["uuid"] } == ["1800", "1801", "180D", "180F", "180A"])
      for service in tree["services"].list {
        #expect(Set(service.members.keys) == ["uuid", "name", "handle", "primary", "included", "characteristics"])
        for characteristic in service["characteristics"].list {
          #expect(
            Set(characteristic.members.keys)
              == ["uuid", "name", "handle", "properties", "value", "text", "descriptors"])
          for descriptor in characteristic["descriptors"].list {
            #expect(Set(descriptor.members.keys) == ["uuid", "handle", "value"])
          }
        }
      }
      let rate = tree["services"][2]
      #expect(rate["name"] == "Heart Rate" && rate["primary"] == true && rate["included"] == [])
      let measurement = rate["characteristics"][0]
      #expect(measurement["uuid"] == "2A37" && measurement["properties"] == ["notify"])
      #expect(measurement["value"] == .null && measurement["text"] == .null)
      #expect(measurement["descriptors"].list.map { $0["uuid"] } == ["2902", "2901"])
      let maker = tree["services"][4]["characteristics"][0]
      #expect(maker["text"] == "Example Instruments")
      #expect(maker["value"] == "4578616d706c6520496e737472756d656e7473")
      let appView = try await site.run("app-view", ["explore", "--name", name.string ?? "", "--app-view"])
      #expect(appView.code == 0)
      #expect(appView.lines.first?["services"].list.map { $0["uuid"] } == ["180D", "180F", "180A"])
    }
  }

  @Test func readWriteAndSubscribe() async throws {
    try await withSite { site in
      let name = try await serve(site, "heart-rate-sensor").string ?? ""
      let read = try await site.run("read", ["read", "--name", name, "180A", "2A24"])
      #expect(read.code == 0)
      #expect(read.lines == [["value": "4852532d31", "text": "HRS-1"]])
      let write = try await site.run("write", ["write", "--service", "180D", "180D", "2A39", "01"])
      #expect(write.code == 0)
      // The profile allows one octet.
      let long = try await site.run("write-long", ["write", "--service", "180D", "180D", "2A39", "0102"])
      #expect(long.code == 1)
      let values = try await site.run("subscribe", ["subscribe", "--name", name, "180D", "2A37", "--count", "2"])
      #expect(values.code == 0)
      #expect(values.lines.count == 2)
      #expect(values.lines.allSatisfy { $0["value"].string?.hasPrefix("06") == true })
    }
  }

  @Test func scanShowsWhoAdvertises() async throws {
    try await withSite { site in
      let name = try await serve(site, "environment-sensor")
      let scan = try site.tool("tool", ["scan", "--for", "30"])
      let found = try await scan.transcript.next("the sensor", limit: 60) { $0["name"] == name }.json
      #expect(UUID(uuidString: found["identifier"].string ?? "") != nil)
      scan.signal(SIGINT)
      #expect(await scan.waitForExit() == 0)
      // With the same state directory a peer has the same identifier in every run.
      let again = try await site.run("tool", ["explore", "--id", found["identifier"].string ?? ""])
      #expect(again.code == 0)
      #expect(again.lines.first?["name"] == name)
    }
  }

  @Test func exitCodesSayWhatWentWrong() async throws {
    try await withSite { site in
      let name = try await serve(site, "heart-rate-sensor").string ?? ""
      let usage: [[String]] = [
        [], ["frobnicate"], ["read", "--name", "x", "180D"], ["explore"], ["scan", "--service", "xyz"],
        ["sim"], ["serve", "/nonexistent.json"], ["read", "--nonsense", "--name", "x", "180D", "2A37"],
      ]
      for arguments in usage {
        let result = try await site.run("usage", arguments)
        #expect(result.code == 2, "\(arguments): \(result.lines)")
      }
      for adapter in ["usb:0a12:0001", "serial:/dev/ttyACM0"] {
        let result = try await site.run("adapter", ["--adapter", adapter, "scan", "--for", "1"])
        #expect(result.code == 3)
        #expect(result.lines.contains { $0.string?.contains("unix:PATH") == true }, "\(result.lines)")
      }
      // No machine has so many adapters, and one without Bluetooth says that.
      let absent = try await site.run("absent", ["--adapter", "hci999", "scan", "--for", "1"])
      #expect(absent.code == 3)
      #expect(absent.lines.contains { $0.string?.contains("cannot take adapter hci999") == true }, "\(absent.lines)")
      let nobody = try await site.run(
        "nobody", ["scan", "--for", "1"], adapter: "unix:\(site.directory)/no-such-radio")
      #expect(nobody.code == 3)
      let unknown = try await site.run("unknown", ["explore", "--name", "Nobody", "--timeout", "3"])
      #expect(unknown.code == 4)
      let missing = try await site.run("missing", ["read", "--name", name, "180A", "2A37"])
      #expect(missing.code == 4)
      let silent = try await site.run(
        "silent", ["subscribe", "--name", name, "180F", "2A19", "--count", "1000", "--timeout", "6"])
      #expect(silent.code == 5)
      let help = try await site.run("help", ["explore", "--help"])
      #expect(help.code == 0)
    }
  }

  @Test func demoEndsByItselfAndLeavesCaptures() async throws {
    try await withSite(radio: false, alone: true) { site in
      let clock = ContinuousClock()
      let start = clock.now
      let demo = try site.start(
        "demo", "\(Build.products)/ble", ["--json", "demo"], environment: ["TMPDIR": site.directory])
      let code = await demo.waitForExit()
      let time = clock.now - start
      #expect(code == 0)
      #expect(time < .seconds(10), "\(time)")
      let texts = demo.transcript.all.filter { $0["event"] == "line" }
      for program: JSON in ["central", "peripheral"] { #expect(texts.contains { $0["program"] == program }) }
      let captures = demo.transcript.all.first { $0["event"] == "captures" }?["files"].strings ?? []
      #expect(captures.count == 2)
      site.keepCaptures(captures)
    }
  }
}
