// SPDX-License-Identifier: Apache-2.0

import BLECore
import BLERadio
import BLESystem

extension VirtualRadio {
  /// Has each packet arrive damaged with this probability, from 0 to 1, between all devices that have no loss of their
  /// own.
  public func losePackets(_ probability: Double) {
    change("loses \(probability) of all packets", nil) { $0.setLoss(probability) }
  }

  /// The same between two devices; nil: as between all.
  public func losePackets(_ probability: Double?, between a: VirtualDevice, and b: VirtualDevice) {
    let text = "loses \(probability.map { "\($0)" } ?? "as usual") of the packets between \(a.name) and \(b.name)"
    change(text, nil) { $0.setLoss(probability, a.name, b.name) }
  }

  /// Has each packet arrive damaged with this probability, from now on for `span`, besides what is lost anyway: a door that
  /// opens, a microwave oven.
  public func losePackets(_ probability: Double = 1, for span: Duration) {
    change("loses \(probability) of all packets for \(span)", nil) { $0.addBurst(probability, TimeSpan(span)) }
  }

  /// Has each packet on a channel (0 to 39, of which 37 to 39 are for advertising) arrive damaged with this probability,
  /// as where a Wi-Fi network uses it; 0: no longer.
  public func disturb(channel: UInt8, loss probability: Double) {
    change("loses \(probability) of all packets on channel \(channel)", nil) {
      $0.setInterference(probability == 0 ? nil : .loss(probability), channel)
    }
  }

  /// How signals weaken with distance, between devices that were put somewhere: with its power `exponent` (2 in the open, 3
  /// at first, as in buildings) and, other than that, by a deviation of `shadowing` dB that each pair has.
  public func setPathLoss(exponent: Double, shadowing: Double = 0) {
    change("signals weaken with exponent \(exponent), shadowing \(shadowing) dB", nil) {
      $0.setPathLoss(exponent: exponent, shadowing: shadowing)
    }
  }

  /// Puts up a wall, from the floor to the sky, that weakens signals through it by `attenuation` dB.
  public func addWall(from start: Position, to end: Position, attenuation: Double) {
    change("a wall of \(attenuation) dB", nil) { $0.addWall(start, end, attenuation) }
  }

  /// Lets nothing pass between two devices, until ``restoreLink(between:and:)``. A connection they have ends with its
  /// supervision timeout.
  public func cutLink(between a: VirtualDevice, and b: VirtualDevice) {
    change("nothing passes between \(a.name) and \(b.name)", nil) { $0.setCut(true, a.name, b.name) }
  }

  /// Ends ``cutLink(between:and:)``.
  public func restoreLink(between a: VirtualDevice, and b: VirtualDevice) {
    change("packets pass between \(a.name) and \(b.name) again", nil) { $0.setCut(false, a.name, b.name) }
  }

  /// Changes the surroundings at the present instant, and says so in the timeline.
  func change(_ text: String, _ device: SteppedDevice?, _ body: @escaping @Sendable (Surroundings) -> Void) {
    note(text, device)
    core.radio.execute { [surroundings] in body(surroundings) }
  }

  func note(_ text: String, _ device: SteppedDevice?) { timeline.add(.fault(text), device?.name ?? "", at: core.now) }
}

// MARK: - Time
