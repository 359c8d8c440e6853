// SPDX-License-Identifier: Apache-2.0

import BLECore
import BLEHCI
import BLERadio
import Testing

/// How fast a link is, against docs/radio-link.md.
@Suite struct ThroughputTests {
  enum Modulation: CaseIterable {
    case le1M, le2M, codedS2, codedS8

    /// Microseconds of a packet with 251 octets in one direction, an empty one in the other and two spaces.
    func cycle(isEncrypted: Bool) -> Int {
      switch self {
      case .le1M: isEncrypted ? 2_500 : 2_468
      case .le2M: isEncrypted ? 1_408 : 1_392
      case .codedS2: isEncrypted ? 5_304 : 5_240
      case .codedS8: isEncrypted ? 18_060 : 17_804
      }
    }

    var phy: PHYMask {
      switch self {
      case .le1M: .le1M
      case .le2M: .le2M
      case .codedS2, .codedS8: .leCoded
      }
    }
  }

  struct Setting {
    var modulation: Modulation
    var isEncrypted: Bool
    /// Units of 1.25 ms.
    var interval: UInt16
    /// kbit/s of notifications with 244 octets, as the tables have it.
    var expected: Double
  }

  static let settings: [Setting] = [
    Setting(modulation: .le1M, isEncrypted: false, interval: 24, expected: 780.8),
    Setting(modulation: .le1M, isEncrypted: true, interval: 24, expected: 780.8),
    Setting(modulation: .le2M, isEncrypted: false, interval: 24, expected: 1_366.4),
    Setting(modulation: .le2M, isEncrypted: true, interval: 24, expected: 1_366.4),
    Setting(modulation: .le1M, isEncrypted: false, interval: 3_200, expected: 790.6),
    Setting(modulation: .le1M, isEncrypted: true, interval: 3_200, expected: 780.8),
    Setting(modulation: .le2M, isEncrypted: false, interval: 3_200, expected: 1_402.0),
    Setting(modulation: .le2M, isEncrypted: true, interval: 3_200, expected: 1_385.9),
    Setting(modulation: .le2M, isEncrypted: true, interval: 6, expected: 1_301.3),
    Setting(modulation: .codedS2, isEncrypted: false, interval: 3_200, expected: 372.3),
    Setting(modulation: .codedS2, isEncrypted: true, interval: 3_200, expected: 368.0),
    Setting(modulation: .codedS8, isEncrypted: false, interval: 3_200, expected: 109.3),
    Setting(modulation: .codedS8, isEncrypted: true, interval: 3_200, expected: 107.8),
  ]

  /// A pair that is ready to be measured.
  private func pair(_ world: RadioWorld, _ setting: Setting) throws -> Pair {
    let span = ConnectionInterval(rawValue: setting.interval).timeSpan
    let pair = try Pair(world, interval: setting.interval, timeout: 3_200, octets: 251, settle: span * 12)
    let option: UInt16 = setting.modulation == .codedS2 ? 1 : 2
    for (host, handle) in [(pair.central, pair.centralHandle), (pair.peripheral, pair.peripheralHandle)] {
      try host.expect(LESetDataLength(connectionHandle: handle, txOctets: 251, txTime: 17_040))
      pair.advance(span * 6)
      let command = LESetPHY(
        connectionHandle: handle, allPHYs: 0, txPHYs: setting.modulation.phy, rxPHYs: setting.modulation.phy,
        phyOptions: option)
      #expect(try host.request(command) == .success)
      pair.advance(span * 14)
    }
    if setting.isEncrypted {
      let key = [UInt8](repeating: 5, count: 16)
      try pair.encrypt(key, peerKey: key)
      pair.advance(span * 8)
      #expect(pair.central.events(EncryptionChange.self).map(\.event.status) == [.success])
    }
    return pair
  }

  /// kbit/s of notifications in `events` intervals; the ATT header of 3 octets and the L2CAP one of 4 do not count.
  private func rate(_ pair: Pair, _ setting: Setting, fromCentral: Bool, events: Int) -> Double {
    let span = ConnectionInterval(rawValue: setting.interval).timeSpan
    let (sender, handle, receiver) =
      fromCentral
      ? (pair.central, pair.centralHandle, pair.peripheral) : (pair.peripheral, pair.peripheralHandle, pair.central)
    let packet = [UInt8](repeating: 0x55, count: 251)
    func fill() { while sender.freeBuffers > 0 { sender.sendData(handle, packet) } }
    sender.onCompleted = fill
    sender.isRecording = false
    receiver.isRecording = false
    fill()
    pair.advance(span * 2)
    let before = receiver.octetsReceived
    pair.advance(span * events)
    let packets = Double(receiver.octetsReceived - before) / 251
    return packets * 244 * 8 / Double(span.nanoseconds * Int64(events)) * 1_000_000
  }

  @Test(arguments: settings, [true, false])
  func tables(setting: Setting, fromCentral: Bool) throws {
    let world = RadioWorld(seed: 21)
    let pair = try pair(world, setting)
    let rate = rate(pair, setting, fromCentral: fromCentral, events: setting.interval == 3_200 ? 2 : 100)
    #expect(abs(rate - setting.expected) / setting.expected < 0.01, "\(rate) kbit/s")
    // The tables themselves.
    let interval = Int(setting.interval) * 1_250
    let packets = interval / setting.modulation.cycle(isEncrypted: setting.isEncrypted)
    let formula = Double(packets * 244 * 8) / Double(interval) * 1_000
    #expect(abs(formula - setting.expected) < 0.1)
  }

  // MARK: - Packet errors

  /// The Markov chain of docs/radio-link.md: packets that arrive in one event, on average, where each of at most
  /// `exchanges` exchanges loses either packet with probability `p`.
  static func packetsPerEvent(exchanges: Int, p: Double) -> Double {
    // Whether the outstanding PDU has arrived, at the beginning of an event.
    var arrived = 0.5
    var average = 0.0
    for _ in 0..<200 {
      // States of the event: [arrived][errors of the Central][errors of the Peripheral].
      var states: [[[Double]]] = [[[1 - arrived, 0], [0, 0]], [[arrived, 0], [0, 0]]]
      var ended = [0.0, 0.0]
      average = 0
      for _ in 0..<exchanges {
        var next: [[[Double]]] = [[[0, 0], [0, 0]], [[0, 0], [0, 0]]]
        for old in 0...1 {
          for centralErrors in 0...1 {
            for peripheralErrors in 0...1 {
              let probability = states[old][centralErrors][peripheralErrors]
              // The Central's packet arrives, and acknowledges what has arrived; or it does not.
              for (isRight, weight) in [(true, 1 - p), (false, p)] {
                let errors = isRight ? 0 : peripheralErrors + 1
                guard errors < 2 else {
                  ended[old] += probability * weight
                  continue
                }
                let outstanding = isRight ? 0 : old
                // The Peripheral's packet arrives: it counts if it is new.
                average += outstanding == 0 ? probability * weight * (1 - p) : 0
                next[1][0][errors] += probability * weight * (1 - p)
                if centralErrors + 1 < 2 {
                  next[outstanding][1][errors] += probability * weight * p
                } else {
                  ended[outstanding] += probability * weight * p
                }
              }
            }
          }
        }
        states = next
      }
      arrived = ended[1] + states[1].joined().reduce(0, +)
    }
    return average
  }

  @Test func theModelWithoutErrorsIsTheFormula() {
    #expect(abs(Self.packetsPerEvent(exchanges: 12, p: 0) - 12) < 0.001)
  }

  @Test(
    arguments: [0.02, 0.1, 0.3],
    [
      Setting(modulation: .le1M, isEncrypted: false, interval: 24, expected: 0),
      Setting(modulation: .le2M, isEncrypted: true, interval: 24, expected: 0),
      Setting(modulation: .le1M, isEncrypted: true, interval: 80, expected: 0),
    ])
  func packetErrorsCostWhatTheModelSays(loss: Double, setting: Setting) throws {
    let world = RadioWorld(seed: 22)
    let pair = try pair(world, setting)
    world.loss = loss
    let rate = rate(pair, setting, fromCentral: false, events: loss == 0.3 ? 3_000 : 1_000)
    let interval = Double(setting.interval) * 1_250
    let exchanges = Int(interval) / setting.modulation.cycle(isEncrypted: setting.isEncrypted)
    let expected = Self.packetsPerEvent(exchanges: exchanges, p: loss) * 244 * 8 / interval * 1_000
    #expect(abs(rate - expected) / expected < 0.03, "\(rate) kbit/s, expected \(expected), seed 22")
  }
}
