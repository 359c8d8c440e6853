// SPDX-License-Identifier: Apache-2.0

import Testing

@testable import BLESystem

/// The texts that name adapters.
@Suite struct AdapterSpecTests {
  @Test(arguments: [
    ("tcp:h:80", AdapterSpec.tcp(host: "h", port: 80)), ("tcp:[::1]:80", .tcp(host: "::1", port: 80)),
    ("unix:/tmp/r", .unix(path: "/tmp/r")), ("virtual", .virtual(name: "")), ("virtual:a", .virtual(name: "a")),
    ("hci12", .hci(index: 12)),
  ])
  func goodOnesAreRead(_ text: String, _ spec: AdapterSpec) throws {
    #expect(try AdapterSpec(parsing: text) == spec)
    #expect(try AdapterSpec(parsing: spec.description) == spec)
  }

  @Test(arguments: [
    "", "x", "tcp:", "tcp:h", "tcp::80", "tcp:[]:80", "tcp:h:0", "tcp:h:65536", "tcp:h:+80", "tcp:h:-1", "tcp:h:",
    "unix:", "virtual:", "hci", "hci+1", "hci-1", "hci65536", "usb:1", "serial:", "daemon:",
  ])
  func badOnesAreRefused(_ text: String) {
    #expect(throws: AdapterSpec.ParseError.self) { try AdapterSpec(parsing: text) }
  }
}
