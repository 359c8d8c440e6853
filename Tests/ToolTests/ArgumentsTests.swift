// SPDX-License-Identifier: Apache-2.0

import Foundation
import Testing

@testable import ble

@Suite struct ArgumentsTests {
  func run(_ line: String) throws -> Arguments {
    let invocation = try Arguments.parse(line.split(separator: " ").map(String.init))
    guard case .run(let arguments) = invocation else { throw Failure.failed("help instead of \(line)") }
    return arguments
  }

  func failure(_ line: String) -> Failure? {
    do throws(Failure) {
      _ = try Arguments.parse(line.split(separator: " ").map(String.init))
      return nil
    } catch {
      return error
    }
  }

  @Test func optionsMayStandAnywhere() throws {
    let arguments = try run("--adapter tcp:a:1 write --name X 180F --timeout=5 2A19 --json 01ff")
    #expect(arguments.command.name == "write")
    #expect(arguments.operands == ["180F", "2A19", "01ff"])
    #expect(arguments.value("--adapter") == "tcp:a:1" && arguments.value("--timeout") == "5")
    #expect(arguments.has("--json") && !arguments.has("--capture"))
  }

  @Test func placesToListenMayHavePortZero() throws {
    func place(_ text: String) throws -> String {
      "\(try SimCommand.address(text, allowsPortZero: true))"
    }
    #expect(try place("tcp:127.0.0.1:0") == "tcp:127.0.0.1:0")
    #expect(try place("tcp:[::1]:0") == "tcp:[::1]:0")
    #expect(try place("tcp:h:10") == "tcp:h:10")
    for text in ["tcp::0", "tcp:[]:0", "tcp:0", "virtual", "unix:"] {
      #expect(throws: Failure.self) { try place(text) }
    }
  }

  @Test func anArgumentMayLookLikeACommand() throws {
    let arguments = try run("--adapter scan scan --service 180F --service 180D")
    #expect(arguments.value("--adapter") == "scan")
    #expect(arguments.values("--service") == ["180F", "180D"])
  }

  @Test func operandsAfterTwoHyphens() throws {
    #expect(try run("serve -- --file").operands == ["--file"])
  }

  @Test(arguments: [
    ("", "a command is missing"), ("--json", "a command is missing"), ("scam", "did you mean \"scan\"?"),
    ("--jsom scan", "did you mean \"--json\"?"), ("scan --fro 5", "did you mean \"--for\"?"),
    ("scan --for", "--for needs SECONDS"), ("scan --json=1", "--json takes no value"),
    ("scan --for 1 --for 2", "--for is given twice"), ("scan x", "\"x\" is one word too many"),
    ("read --name X 180F", "CHARACTERISTIC is missing"), ("explore", "explore needs a peer"),
    ("explore --name X --id Y", "--name and --id both name a peer"), ("scan --timeout -1", "--timeout is a number"),
    ("scan --timeout nan", "--timeout is a number"), ("serve", "PROFILE.json is missing"), ("help scna", "\"scan\""),
  ]) func mistakes(line: String, expected: String) {
    let failure = failure(line)
    #expect(failure?.kind == .usage)
    #expect(failure?.description.contains(expected) == true, "\(String(describing: failure))")
  }

  @Test func helpEverywhere() throws {
    for line in ["--help", "-h", "help"] {
      guard case .help(nil) = try Arguments.parse([line]) else { Issue.record("\(line)"); continue }
    }
    for command in CommandTable.commands {
      for words in [
        [command.name, "--help"], ["--help", command.name], ["help", command.name], [command.name, "-h"],
      ] {
        guard case .help(let found?) = try Arguments.parse(words) else { Issue.record("\(words)"); continue }
        #expect(found.name == command.name)
      }
      let text = Help.text(of: command)
      for option in command.allOptions { #expect(text.contains(option.name)) }
      #expect(text.split(separator: "\n").allSatisfy { $0.count <= 110 })
      #expect(Help.overview.contains(command.summary))
    }
  }

  @Test func theManualPageIsThatOfTheTable() throws {
    let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
      .deletingLastPathComponent()
    let page = try String(contentsOf: root.appending(path: "docs/man/ble.1"), encoding: .utf8)
    #expect(page == ManualPage.text, "run: ble --manual-page >docs/man/ble.1")
  }

  @Test func adaptersThatDoNotExistYetAreRefused() {
    for text in ["usb:0a12:0001", "serial:/dev/ttyACM0", "daemon"] {
      #expect { try Main.adapter(text) } throws: {
        ($0 as? Failure)?.kind == .noAdapter && "\($0)".contains("tcp:HOST:PORT")
      }
    }
    #expect { try Main.adapter("tcp:") } throws: { ($0 as? Failure)?.kind == .usage }
    #expect(throws: Never.self) { try Main.adapter("virtual:a") }
    #expect(throws: Never.self) { try Main.adapter("hci0") }
  }

  @Test func namesOfPeersAreMadeHarmless() {
    #expect(harmless("a\u{1B}[2J\u{9B}b\u{202E}c\r\n") == "a\\u{1b}[2J\\u{9b}b\\u{202e}c\\u{d}\\u{a}")
    #expect(harmless("Größe 温度 😀") == "Größe 温度 😀")
  }

  @Test func hexAndText() {
    #expect([UInt8](hex: "01 fF:00") == [1, 255, 0])
    #expect([UInt8](hex: "") == [])
    #expect([UInt8](hex: "0") == nil && [UInt8](hex: "0x") == nil && [UInt8](hex: "٠٠") == nil)
    #expect([UInt8]("né".utf8).plainText == "né" && ([0x61, 0x62, 0] as [UInt8]).plainText == "ab")
    #expect(([0x61] as [UInt8]).plainText == nil)
    #expect(
      ([] as [UInt8]).plainText == nil && ([0] as [UInt8]).plainText == nil && ([0xFF] as [UInt8]).plainText == nil)
    #expect(([0x61, 0x1B] as [UInt8]).plainText == nil)
  }
}
