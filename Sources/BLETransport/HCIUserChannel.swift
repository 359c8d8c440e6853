// SPDX-License-Identifier: Apache-2.0

import BLECore
public import BLEHCI
import Glibc

/// A Linux adapter, taken whole: its HCI user channel (`HCI_CHANNEL_USER`), which gives one program the controller and
/// keeps the kernel's own host and everybody else away from it.
///
/// The adapter has to be down for that, so it is brought down first; the kernel brings it back up for others when the
/// channel is closed. While the kernel still sets the adapter up (it was just plugged in) the channel is busy: that is
/// waited for.
public final class HCIUserChannel: HCITransport {
  public weak var receiver: (any HCIReceiver)? { didSet { resume() } }

  private let loop: EventLoop
  private let name: String
  private var descriptor: Int32
  private var watch: FileWatch?
  private var inbox = PacketQueue<HCIPacketType>()
  private var outgoing = PacketQueue<HCIPacketType>()
  private var packet = ByteWriter()
  private var ending: HCITransportError?
  private var input = [UInt8](repeating: 0, count: 4096)

  /// How long a busy adapter is waited for, and how often it is tried.
  private static let busyLimit = TimeSpan.seconds(10)
  private static let busyPeriod = TimeSpan.milliseconds(200)

  private init(loop: EventLoop, descriptor: Int32, name: String) {
    self.loop = loop
    self.descriptor = descriptor
    self.name = name
    watch = loop.watch(descriptor) { [weak self] in self?.ready($0) }
  }

  deinit { end() }

  /// Takes adapter `hci<index>`; the outcome comes on the loop, never inside the call.
  public static func open(
    index: UInt16, loop: EventLoop, completion: @escaping (Result<HCIUserChannel, HCITransportError>) -> Void
  ) {
    let deadline = loop.now + busyLimit
    let attempt = Attempt()
    attempt.timer = loop.makeTimer {
      switch take(index) {
      case .success(let descriptor):
        attempt.timer = nil
        completion(.success(HCIUserChannel(loop: loop, descriptor: descriptor, name: "hci\(index)")))
      case .failure(let failure) where failure.isBusy && loop.now < deadline:
        attempt.timer?.arm(at: loop.now + busyPeriod)
      case .failure(let failure):
        attempt.timer = nil
        completion(.failure(failure.error))
      }
    }
    attempt.timer?.arm(at: loop.now)
  }

  /// Keeps the timer of an attempt to open alive until it is over.
  private final class Attempt { var timer: (any SchedulerTimer)? }

  private struct Failure: Error {
    var isBusy: Bool
    var error: HCITransportError
  }

  // MARK: - Linux

  // linux/bluetooth: bluetooth.h, hci.h, hci_sock.h.
  private static let addressFamily: Int32 = 31  // AF_BLUETOOTH
  private static let hciProtocol: Int32 = 1  // BTPROTO_HCI
  private static let userChannel: UInt16 = 1  // HCI_CHANNEL_USER
  private static let deviceDown: UInt = 0x4004_48CA  // HCIDEVDOWN

  private static func take(_ index: UInt16) -> Result<Int32, Failure> {
    let type = Int32(SOCK_RAW.rawValue | SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue)
    let descriptor = socket(addressFamily, type, hciProtocol)
    guard descriptor >= 0 else { return .failure(failure("open", index, errno)) }
    if ioctl(descriptor, deviceDown, Int32(index)) < 0, errno != EALREADY {
      let number = errno
      Glibc.close(descriptor)
      return .failure(failure("bring down", index, number))
    }
    // struct sockaddr_hci: family, device, channel.
    let address = [UInt16(truncatingIfNeeded: addressFamily), index, userChannel]
    let result = address.withUnsafeBytes { bytes in
      guard let base = bytes.baseAddress else { return Int32(-1) }
      return unsafe bind(descriptor, base.assumingMemoryBound(to: sockaddr.self), socklen_t(bytes.count))
    }
    guard result == 0 else {
      let number = errno
      Glibc.close(descriptor)
      return .failure(failure("take", index, number))
    }
    return .success(descriptor)
  }

  private static func failure(_ what: String, _ index: UInt16, _ number: Int32) -> Failure {
    let advice =
      switch number {
      case EAFNOSUPPORT, EPROTONOSUPPORT: "this kernel has no Bluetooth; load the module (modprobe bluetooth)"
      case ENODEV: "there is no adapter of that number; `ls /sys/class/bluetooth` lists those that are there"
      case EPERM, EACCES:
        "it needs the capabilities CAP_NET_ADMIN and CAP_NET_RAW; run as root, or give them to the program with setcap"
      case EBUSY, EUSERS:
        "another program has taken it (\(holders())), or the kernel could not set it up; end that program, or plug the "
          + "adapter in again"
      case 132: "it is blocked by rfkill; `rfkill unblock bluetooth` lifts that"  // ERFKILL
      default: "see the kernel's messages (dmesg)"
      }
    let text = "cannot \(what) adapter hci\(index): \(errorText(number)); \(advice)"
    return Failure(isBusy: number == EBUSY, error: HCITransportError(text))
  }

  /// The programs that are known to take adapters and run now, for the message.
  private static func holders() -> String {
    guard let directory = opendir("/proc") else { return "unknown which" }
    defer { closedir(directory) }
    var names: [String] = []
    while let entry = readdir(directory) {
      let name = unsafe withUnsafePointer(to: entry.pointee.d_name) {
        unsafe $0.withMemoryRebound(to: CChar.self, capacity: 256) { unsafe String(cString: $0) }
      }
      guard let pid = Int32(name), pid != getpid(), hasBluetoothSocket(pid) else { continue }
      names.append("\(command(pid)), process \(pid)")
    }
    return names.isEmpty ? "unknown which" : names.sorted().joined(separator: "; ")
  }

  /// Whether a process is one that handles adapters, by its command: sockets do not tell their family in /proc.
  private static func hasBluetoothSocket(_ pid: Int32) -> Bool {
    ["bluetoothd", "btmon", "btproxy", "ble", "hciattach", "btattach"].contains(command(pid))
  }

  private static func command(_ pid: Int32) -> String {
    let descriptor = Glibc.open("/proc/\(pid)/comm", O_RDONLY | O_CLOEXEC)
    guard descriptor >= 0 else { return "" }
    defer { Glibc.close(descriptor) }
    var bytes = [UInt8](repeating: 0, count: 64)
    let count = unsafe read(descriptor, &bytes, bytes.count)
    return String(decoding: bytes.prefix(max(0, count)).filter { $0 != 10 }, as: UTF8.self)
  }

  // MARK: - Packets

  public func send(_ type: HCIPacketType, _ payload: RawSpan) {
    guard descriptor >= 0, ending == nil else { return }
    outgoing.append(type, payload)
    flush()
  }

  public func close() { end() }

  private func end() {
    guard descriptor >= 0 else { return }
    watch?.cancel()
    watch = nil
    Glibc.close(descriptor)
    descriptor = -1
  }

  /// One packet is one write, its indicator in front.
  private func flush() {
    while descriptor >= 0, !outgoing.isEmpty || packet.count > 0 {
      if packet.count == 0 {
        var writer = ByteWriter()
        swap(&writer, &packet)
        outgoing.removeFirst { writer.h4($0, $1) }
        swap(&writer, &packet)
      }
      let count = packet.bytes.withUnsafeBytes { unsafe write(descriptor, $0.baseAddress, $0.count) }
      if count < 0, errno == EINTR { continue }
      if count < 0, errno == EAGAIN || errno == ENOBUFS {
        watch?.wantsWrite = true
        return
      }
      packet.removeAll()
      if count < 0 { return fail(HCITransportError("\(name): sending failed: \(errorText(errno))")) }
    }
    watch?.wantsWrite = false
  }

  private func ready(_ events: FileWatch.Events) {
    if events.contains(.writable) { flush() }
    guard !events.isDisjoint(with: [.readable, .error, .hangUp]), descriptor >= 0 else { return }
    // A datagram socket: each read is one packet.
    while descriptor >= 0 {
      let count = unsafe input.withUnsafeMutableBytes { unsafe read(descriptor, $0.baseAddress, $0.count) }
      if count > 0 {
        let bytes = input.span.bytes
        inbox.append(HCIPacketType(rawValue: input[0]), bytes.extracting(1..<count))
      } else {
        if count < 0, errno == EINTR { continue }
        if count == 0 || errno != EAGAIN {
          fail(HCITransportError("\(name): the adapter is gone: \(count == 0 ? "closed" : errorText(errno))"))
        }
        break
      }
    }
    deliver()
  }

  private func fail(_ error: HCITransportError) {
    guard ending == nil else { return }
    ending = error
    end()
    resume()
  }

  private func resume() {
    guard receiver != nil, !inbox.isEmpty || ending != nil else { return }
    loop.atEndOfTurn { [weak self] in self?.deliver() }
  }

  private func deliver() {
    while let receiver, !inbox.isEmpty {
      var batch = PacketQueue<HCIPacketType>()
      swap(&batch, &inbox)
      while batch.removeFirst({ receiver.receive($0, $1) }) {}
      if inbox.isEmpty { swap(&batch, &inbox) }
    }
    guard let ending, inbox.isEmpty, let receiver else { return }
    self.receiver = nil
    receiver.transportClosed(ending)
  }
}
