// SPDX-License-Identifier: Apache-2.0

import BLECore
import BLEHCI

// What nobody has to wait for in the ideal air.

/// Both ends of one connection, each until it is released.
final class IdealLink {
  unowned var central: LinkConnection?
  unowned var peripheral: LinkConnection?
}

extension RadioWorld {
  func register(_ link: LinkConnection) {
    guard setting == .ideal else { return }
    let entry = idealLinks[link.accessAddress] ?? IdealLink()
    idealLinks[link.accessAddress] = entry
    if link.role == .central { entry.central = link } else { entry.peripheral = link }
  }

  func unregister(_ link: LinkConnection) {
    guard setting == .ideal else { return }
    // Without a look at who is in it: that may be an object on its way out, which cannot be looked at any more.
    idealLinks[link.accessAddress] = nil
  }

  /// In the ideal air: if both ends sleep and one has something to send, their next event is now.
  func hurry(_ accessAddress: UInt32) {
    guard setting == .ideal, let link = idealLinks[accessAddress], let central = link.central,
      let peripheral = link.peripheral, central.isAsleep, peripheral.isAsleep,
      central.hasDataToSend || peripheral.hasDataToSend
    else { return }
    let counter = central.lastEvent &+ 1
    peripheral.hurry(to: counter)
    central.hurry(to: counter)
  }
}

/// An advertiser that is on.
struct IdealAdvertiser {
  weak var advertiser: Advertiser?
}

extension RadioWorld {
  func register(_ advertiser: Advertiser) {
    guard setting == .ideal else { return }
    unregister(advertiser)
    idealAdvertisers.append(IdealAdvertiser(advertiser: advertiser))
  }

  func unregister(_ advertiser: Advertiser) {
    guard setting == .ideal else { return }
    idealAdvertisers.removeAll { $0.advertiser == nil || $0.advertiser === advertiser }
  }

  /// In the ideal air: somebody has begun to listen, and all advertisers have their next events now; one after the
  /// other, as two at once would hear each other in place of the answer.
  func hurryAdvertisers() {
    var turn = simulator.now
    for entry in idealAdvertisers {
      entry.advertiser?.hurry(to: turn)
      turn = turn + VirtualController.advertisingExchange
    }
  }
}
