// SPDX-License-Identifier: Apache-2.0

import BLEHCI
import Glibc

/// Why an adapter's user channel was not given.
enum HCIUserChannelFailure: Error, Equatable {
  /// The kernel still sets the adapter up, or could not.
  case settingUp
  /// Another program has it.
  case held
  /// Any other error of the kernel.
  case refused(Int32)

  private static let blockedByRFKill: Int32 = 132  // ERFKILL

  /// What to tell the user: what failed, and what to do about it.
  func error(_ index: UInt16) -> HCITransportError {
    let (number, advice) = explanation
    return HCITransportError("cannot take adapter hci\(index): \(errorText(number)); \(advice)")
  }

  private var explanation: (Int32, String) {
    switch self {
    case .settingUp:
      (EBUSY, "the kernel has not set it up, its controller may not answer (see dmesg); plug it in again")
    case .held: (EBUSY, "another program has taken it; programs that use adapters: \(Self.users())")
    case .refused(let number): (number, Self.advice(number))
    }
  }

  private static func advice(_ number: Int32) -> String {
    switch number {
    case EAFNOSUPPORT, EPROTONOSUPPORT: "this kernel has no Bluetooth; load its module with `modprobe bluetooth`"
    case ENODEV: "`ls /sys/class/bluetooth` lists the adapters that are there"
    case EPERM, EACCES:
      "the capability CAP_NET_ADMIN is missing; run as root, or give it to the program with `setcap cap_net_admin+ep`"
    case blockedByRFKill: "it is blocked; `rfkill unblock bluetooth` lifts that"
    default: "the kernel's messages (dmesg) may tell more"
    }
  }

  /// The other programs with an HCI socket, of whatever kind: the kernel does not tell which adapter each one has.
  private static func users() -> String {
    let sockets = Set(hciSockets().map { "socket:[\($0)]" })
    let names = entries(of: "/proc").compactMap { Int32($0) }.sorted()
      .filter { $0 != getpid() && uses($0, sockets) }
      .map { "\(command($0)) (process \($0))" }
    return names.isEmpty ? "none that this user may see" : names.joined(separator: ", ")
  }

  /// The inodes in `/proc/net/hci`: a heading, then a line a socket with the inode in the sixth column.
  private static func hciSockets() -> [Substring] {
    text("/proc/net/hci").split(separator: "\n").dropFirst().compactMap { line in
      let columns = line.split(separator: " ")
      return columns.count > 5 ? columns[5] : nil
    }
  }

  private static func uses(_ process: Int32, _ sockets: Set<String>) -> Bool {
    let folder = "/proc/\(process)/fd"
    return entries(of: folder).contains { entry in
      var target = [CChar](repeating: 0, count: 64)
      let count = unsafe readlink("\(folder)/\(entry)", &target, target.count)
      return count > 0
        && sockets.contains(String(decoding: target.prefix(count).map(UInt8.init(bitPattern:)), as: UTF8.self))
    }
  }

  private static func command(_ process: Int32) -> String {
    text("/proc/\(process)/comm").filter { $0.isASCII && $0 >= " " && $0 <= "~" }
  }

  private static func entries(of folder: String) -> [String] {
    guard let directory = unsafe opendir(folder) else { return [] }
    defer { unsafe closedir(directory) }
    var names: [String] = []
    while let entry = unsafe readdir(directory) {
      names.append(
        unsafe withUnsafePointer(to: &entry.pointee.d_name) { name in
          unsafe name.withMemoryRebound(to: CChar.self, capacity: 256) { unsafe String(cString: $0) }
        })
    }
    return names
  }

  /// The first 64 KiB of a small file; empty where it cannot be read.
  private static func text(_ path: String) -> String {
    let descriptor = open(path, O_RDONLY | O_CLOEXEC)
    guard descriptor >= 0 else { return "" }
    defer { close(descriptor) }
    var content: [UInt8] = []
    var part = [UInt8](repeating: 0, count: 4096)
    while content.count < 64 << 10 {
      let count = part.withUnsafeMutableBytes { unsafe read(descriptor, $0.baseAddress, $0.count) }
      guard count > 0 else { break }
      content += part.prefix(count)
    }
    return String(decoding: content, as: UTF8.self)
  }
}
