// SPDX-License-Identifier: Apache-2.0
//
// An app that does what it is told, for the end-to-end tests: each line of standard input is one call of the API, as a
// JSON object, and each call of a delegate is one line of standard output. It takes either role, or both.
//
//   {"central": "connect", "peer": "…"}        {"role": "central", "event": "didConnect", "peer": "…"}
//   {"peripheral": "advertise", "name": "N"}   {"role": "peripheral", "event": "didStartAdvertising", "error": null}
//
// It ends with 0 at the end of its input, or on {"app": "exit"}.

import CoreBluetooth

/// Where everything happens: commands, and the calls of the delegates.
let queue = DispatchQueue(label: "app")
let central = CentralScript()
let peripheral = PeripheralScript()

func obey(_ text: String) {
  guard let line = (try? JSONSerialization.jsonObject(with: Data(text.utf8))) as? Line else {
    return report("app", "misunderstood", ["line": text])
  }
  if let verb = line["central"] as? String {
    central.obey(verb, line)
  } else if let verb = line["peripheral"] as? String {
    peripheral.obey(verb, line)
  } else if line["app"] as? String == "exit" {
    exit(0)
  } else {
    report("app", "misunderstood", ["line": text])
  }
}

Thread.detachNewThread {
  while let text = readLine() { queue.async { obey(text) } }
  queue.async { exit(0) }
}
report("app", "ready")
dispatchMain()
