// SPDX-License-Identifier: Apache-2.0

import BLECore
import BLEHCI

// What nobody has to wait for in the ideal air.

/// Both ends of one connection, each until it is released.
struct IdealLink {
  unowned var central: LinkConnection?
  unowned var peripheral: LinkConnection?
}

extension RadioWorld {
  func register(_ link: LinkConnection) {
    guard setting == .ideal else { return }
    if link.role == .central {
      idealLinks[link.accessAddress, default: IdealLink()].central = link
    } else {
      idealLinks[link.accessAddress, default: IdealLink()].peripheral = link
    }
  }

  func unregister(_ link: LinkConnection) {
    guard setting == .ideal else { return }
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
