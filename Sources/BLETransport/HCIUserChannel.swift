// SPDX-License-Identifier: Apache-2.0

import BLECore
public import BLEHCI
import Glibc

/// A Linux adapter, taken whole: its HCI user channel (`HCI_CHANNEL_USER`), which gives one program the controller and
/// keeps the kernel's own host and everybody else away from it.
///
/// The kernel gives it only where nobody uses the adapter: one that is up is brought down first, under whoever uses it
/// by the kernel's host. While the kernel sets an adapter up (it was just plugged in) it cannot be had: that is waited
/// for. After the channel is closed the adapter is down, and the kernel offers it to its own users anew.
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

  /// How long the kernel may take to set an adapter up, and how often it is tried meanwhile.
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
      case .failure(.settingUp) where loop.now < deadline:
        attempt.timer?.arm(at: loop.now + busyPeriod)
      case .failure(let failure):
        attempt.timer = nil
        completion(.failure(failure.error(index)))
      }
    }
    attempt.timer?.arm(at: loop.now)
  }

  /// Keeps the timer of an attempt to open alive until it is over.
  private final class Attempt { var timer: (any SchedulerTimer)? }

  // MARK: - Linux

  // linux/bluetooth: bluetooth.h, hci.h, hci_sock.h.
  private static let addressFamily: Int32 = 31  // AF_BLUETOOTH
  private static let hciProtocol: Int32 = 1  // BTPROTO_HCI
  private static let userChannel: UInt16 = 1  // HCI_CHANNEL_USER
  private static let deviceDown: UInt = 0x4004_48CA  // HCIDEVDOWN
  private static let deviceInformation: UInt = 0x8004_48D3  // HCIGETDEVINFO

  /// Octets that may wait in the kernel to be read. What comes beyond is dropped, events as well as data.
  private static let receiveBuffer: Int32 = 4 << 20

  private static func take(_ index: UInt16) -> Result<Int32, HCIUserChannelFailure> {
    let type = Int32(SOCK_RAW.rawValue | SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue)
    let descriptor = socket(addressFamily, type, hciProtocol)
    guard descriptor >= 0 else { return .failure(.refused(errno)) }
    if let failure = bindUserChannel(descriptor, index) {
      Glibc.close(descriptor)
      return .failure(failure)
    }
    var size = receiveBuffer
    unsafe setsockopt(descriptor, SOL_SOCKET, SO_RCVBUFFORCE, &size, socklen_t(MemoryLayout<Int32>.size))
    return .success(descriptor)
  }

  /// Binds first, and brings down only what is in use: bringing down an adapter that was just plugged in may cancel its
  /// set-up before that has begun, and then nobody gets it until it is plugged in anew.
  private static func bindUserChannel(_ descriptor: Int32, _ index: UInt16) -> HCIUserChannelFailure? {
    var number = bindOnce(descriptor, index)
    if number == EBUSY, isUp(descriptor, index) {
      // This fails so only where another program has the user channel.
      if ioctl(descriptor, deviceDown, Int32(index)) < 0, errno == EBUSY { return .held }
      number = bindOnce(descriptor, index)
    }
    return switch number {
    case 0: nil
    case EBUSY: .settingUp
    case EUSERS: .held
    default: .refused(number)
    }
  }

  /// The error number of one attempt; 0: the channel is taken.
  private static func bindOnce(_ descriptor: Int32, _ index: UInt16) -> Int32 {
    // struct sockaddr_hci: family, device, channel.
    let address = [UInt16(truncatingIfNeeded: addressFamily), index, userChannel]
    return address.withUnsafeBytes { bytes in
      guard let base = bytes.baseAddress else { return EINVAL }
      let result = unsafe bind(descriptor, base.assumingMemoryBound(to: sockaddr.self), socklen_t(bytes.count))
      return result == 0 ? 0 : errno
    }
  }

  /// Whether somebody uses the adapter; one that the kernel has up only to set it up does not count.
  private static func isUp(_ descriptor: Int32, _ index: UInt16) -> Bool {
    // struct hci_dev_info, 92 octets: the device's number (2 octets), name (8) and address (6), then its flags, of which
    // HCI_UP is the lowest.
    var information = [UInt32](repeating: 0, count: 32)
    information[0] = UInt32(index)
    guard unsafe ioctl(descriptor, deviceInformation, &information) == 0 else { return false }
    return information[4] & 1 != 0
  }

  // MARK: - Packets

  public func send(_ type: HCIPacketType, _ payload: RawSpan) {
    guard descriptor >= 0, ending == nil else { return }
    outgoing.append(type, payload)
    flush()
  }

  public func close() {
    flush()
    end()
  }

  private func end() {
    guard descriptor >= 0 else { return }
    watch?.cancel()
    watch = nil
    Glibc.close(descriptor)
    descriptor = -1
  }

  /// One packet is one message, its indicator in front.
  private func flush() {
    while descriptor >= 0, !outgoing.isEmpty || packet.count > 0 {
      if packet.count == 0 {
        var writer = ByteWriter()
        swap(&writer, &packet)
        outgoing.removeFirst { writer.h4($0, $1) }
        swap(&writer, &packet)
      }
      let count = packet.bytes.withUnsafeBytes {
        unsafe Glibc.send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
      }
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
    // Each read is one packet.
    while descriptor >= 0 {
      let count = unsafe input.withUnsafeMutableBytes { unsafe read(descriptor, $0.baseAddress, $0.count) }
      if count > 0 {
        let bytes = input.span.bytes
        inbox.append(HCIPacketType(rawValue: input[0]), bytes.extracting(1..<count))
      } else {
        if count < 0, errno == EINTR { continue }
        if count == 0 || errno != EAGAIN {
          // EPIPE: the kernel has no such adapter any more.
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
