// SPDX-License-Identifier: Apache-2.0

import BLECore

// Where devices are, and what lies between them. All of it may change at any time; packets that are on air already are
// judged by what holds when they end. In the ideal air distance counts, and nothing is lost.
extension RadioWorld {
  // MARK: - Devices

  /// Puts `device` at a place; nil: at none, where it is heard by all with the world's ``rssi``, as all are at first.
  public func setPosition(_ position: Position?, of device: RadioDeviceID) { medium.setPosition(position, of: device) }

  /// Where `device` is; nil: at no place.
  public func position(of device: RadioDeviceID) -> Position? { medium.position(of: device) }

  /// The power in dBm with which `device` sends, 0 at first. Counts between devices with positions.
  public func setTransmitPower(_ power: Double, of device: RadioDeviceID) {
    medium.setPower(Decibels(power), of: device)
  }

  /// The power in dBm with which `device` sends.
  public func transmitPower(of device: RadioDeviceID) -> Double { medium.power(of: device).value }

  /// The strength in dBm with which `receiver` gets what `sender` sends, whether it can make sense of it or not; nil: not
  /// at all, as they are cut off, or there is no such device.
  public func signalStrength(from sender: RadioDeviceID, to receiver: RadioDeviceID) -> Double? {
    medium.signalStrength(from: sender, to: receiver)?.value
  }

  // MARK: - Between them

  /// How signals weaken with distance; ``PathLoss/freeSpace`` at first.
  public var pathLoss: PathLoss {
    get { medium.propagation.pathLoss }
    set { medium.changePropagation { $0.pathLoss = newValue } }
  }

  /// What stands in the way of signals.
  public var walls: [Wall] {
    get { medium.propagation.walls }
    set { medium.changePropagation { $0.walls = newValue } }
  }

  /// How weak a signal receivers take. Around it losses begin: of packets with 37 octets a third is lost at sensitivity,
  /// none to speak of 4 dB above, all 4 dB below. Signals 6 dB weaker are not noticed.
  public var sensitivity: ReceiverSensitivity {
    get { medium.propagation.sensitivity }
    set { medium.changePropagation { $0.sensitivity = newValue } }
  }

  /// What comes of packets that overlap on a channel; at first capture by 8 dB. Without positions all are equally strong.
  public var collisions: CollisionModel {
    get { medium.collisions }
    set { medium.collisions = newValue }
  }

  // MARK: - Disturbances

  /// What others do to a channel, 0...39; nil: nothing.
  public func setInterference(_ interference: Interference?, on channel: UInt8) {
    medium.setInterference(interference, on: channel)
  }

  /// Times in which packets are lost more often, in any order; they may overlap.
  public var lossBursts: [LossBurst] {
    get { medium.bursts }
    set { medium.bursts = newValue }
  }
}
