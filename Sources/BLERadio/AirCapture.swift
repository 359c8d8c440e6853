// SPDX-License-Identifier: Apache-2.0

import BLECore

/// Writes all that is on air as a capture for Wireshark; see ``AirPCAP``. Encrypted packets stay as they are.
///
/// A world holds its observer weakly: keep the capture for as long as it is to go on.
public final class AirCapture: AirObserver {
  /// Where the next packet of an advertiser's chain will be.
  private struct Expected {
    var sender: RadioDeviceID
    var channel: UInt8
    var earliest: Instant
    /// It begins before this.
    var limit: Instant
  }

  private static let longestPacket = AirPHY.leCoded.airTime(payloadCount: 255)

  private let sink: (RawSpan) -> Void
  private var writer = ByteWriter(capacity: 320)
  /// Who began the connection with an access address: its Central.
  private var centrals: [UInt32: RadioDeviceID] = [:]
  private var chains: [Expected] = []
  /// The last AUX_SCAN_REQ: a response to it follows at once, on its channel.
  private var scanRequest: (channel: UInt8, end: Instant)?

  /// Gives `sink` the file's beginning now and then one packet after the other, each whole.
  public init(sink: @escaping (RawSpan) -> Void) {
    self.sink = sink
    AirPCAP.encodeHeader(into: &writer)
    flush()
  }

  /// Writes one packet.
  public func observe(_ packet: AirPacketInfo, pdu: RawSpan) {
    let (kind, auxiliary) = classify(packet, pdu)
    var record = AirPCAP.Record(
      time: packet.start, channel: packet.channel, rssi: packet.rssi, accessAddress: packet.accessAddress, kind: kind,
      auxiliary: auxiliary, phy: packet.phy, coding: packet.coding, pdu: [UInt8](pdu), crc: 0)
    record.setCRC(initial: packet.crcInit)
    if !packet.isCRCValid { record.crc ^= 1 }
    writer.removeAll()
    AirPCAP.encode(record, into: &writer)
    flush()
  }

  private func flush() {
    let bytes = writer.bytes
    sink(bytes.span.bytes)
  }

  private func classify(_ packet: AirPacketInfo, _ pdu: RawSpan) -> (AirPCAP.Kind, AirPCAP.Auxiliary) {
    guard packet.accessAddress == LinkLayer.advertisingAccessAddress else {
      guard let central = centrals[packet.accessAddress] else { return (.advertising, .auxAdvInd) }
      return (packet.sender == central ? .centralToPeripheral : .peripheralToCentral, .auxAdvInd)
    }
    var reader = ByteReader(pdu)
    guard let header = try? AdvertisingHeader(from: &reader) else { return (.advertising, .auxAdvInd) }
    let isAuxiliary = packet.channel < LinkLayer.dataChannelCount
    if header.type == .connectInd, (try? reader.skip(12)) != nil, let accessAddress = try? reader.u32() {
      centrals[accessAddress] = packet.sender
    }
    guard isAuxiliary else { return (.advertising, .auxAdvInd) }
    guard header.type == .advExtInd else {
      if header.type == .scanReq { scanRequest = (packet.channel, packet.end) }
      return (.auxiliaryAdvertising, .auxAdvInd)
    }
    let isChain = chains.contains {
      $0.sender == packet.sender && $0.channel == packet.channel && $0.earliest <= packet.start
        && packet.start < $0.limit
    }
    // Packets come in the order in which they end: one that began earlier may be the next.
    chains.removeAll { $0.limit + Self.longestPacket <= packet.start }
    if let next = next(packet, reader.rest()) { chains.append(next) }
    if isChain { return (.auxiliaryAdvertising, .auxChainInd) }
    if let scanRequest, scanRequest.channel == packet.channel,
      packet.start - scanRequest.end <= LinkLayer.interFrameSpace
    {
      self.scanRequest = nil
      return (.auxiliaryAdvertising, .auxScanRsp)
    }
    return (.auxiliaryAdvertising, .auxAdvInd)
  }

  /// Where the AuxPtr of an extended header points to.
  private func next(_ packet: AirPacketInfo, _ payload: RawSpan) -> Expected? {
    guard let pointer = try? ExtendedAdvertisingPayload.decode(payload).auxPtr else { return nil }
    let earliest = packet.start + pointer.offset
    return Expected(sender: packet.sender, channel: pointer.channel, earliest: earliest, limit: earliest + pointer.unit)
  }
}
