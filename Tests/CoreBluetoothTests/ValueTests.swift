// SPDX-License-Identifier: Apache-2.0

import CoreFoundation
import Testing

@testable import BLESystem
@testable import CoreBluetooth

/// Rules 8 and 14: errors and UUIDs.
@Suite struct ValueTests {
  @Test func `8.1 CBError has Apple's codes, domain and texts`() {
    let texts: [(CBError.Code, Int, String)] = [
      (.unknown, 0, "Unknown error."), (.invalidParameters, 1, "One or more parameters were invalid."),
      (.connectionTimeout, 6, "The connection has timed out unexpectedly."),
      (.peripheralDisconnected, 7, "The specified device has disconnected from us."),
      (.uuidNotAllowed, 8, "The specified UUID is not allowed for this operation."),
      (.alreadyAdvertising, 9, "Advertising has already started."),
      (.connectionFailed, 10, "The connection has failed unexpectedly."),
      (.peerRemovedPairingInformation, 14, "Peer removed pairing information"),
      (.encryptionTimedOut, 15, "Failed to encrypt the connection, the connection has timed out unexpectedly."),
    ]
    for (code, number, text) in texts {
      let error: any Error = CBError(code)
      #expect((error as NSError).domain == "CBErrorDomain")
      #expect((error as NSError).code == number)
      #expect((error as NSError).localizedDescription == text)
      #expect(error.localizedDescription == text)
    }
    #expect(CBError.Code.unknownDevice == .unkownDevice)
  }

  @Test func `8.2, 7.14 CBATTError.Code carries any number`() {
    for number in [-1, 0, 1, 17, 18, 0x80, 0x9F, 0xF2, 0xFF, Int.max, Int.min] {
      let code = CBATTError.Code(rawValue: number)
      #expect(code?.rawValue == number)
      #expect(code == CBATTError.Code(rawValue: number))
      #expect(code.map { Set([$0]).contains($0) } == true)
    }
    let known: [CBATTError.Code] = [
      .success, .invalidHandle, .readNotPermitted, .writeNotPermitted, .invalidPdu, .insufficientAuthentication,
      .requestNotSupported, .invalidOffset, .insufficientAuthorization, .prepareQueueFull, .attributeNotFound,
      .attributeNotLong, .insufficientEncryptionKeySize, .invalidAttributeValueLength, .unlikelyError,
      .insufficientEncryption, .unsupportedGroupType, .insufficientResources,
    ]
    #expect(known.map(\.rawValue) == Array(0...17))
    #expect((0...17).map { CBATTError.Code(rawValue: $0) } == known)
    #expect(name(CBATTError.Code(rawValue: 5)) == "authentication")
    #expect(name(CBATTError.Code(rawValue: 0x80)) == "other")
    let error: any Error = SystemError(.att(0xF2)).asAppError
    #expect((error as? CBATTError)?.code.rawValue == 0xF2)
    #expect((error as NSError).localizedDescription == "Unknown ATT error.")
    #expect((CBATTError(.insufficientEncryption) as NSError).localizedDescription == "Encryption is insufficient.")
  }

  private func name(_ code: CBATTError.Code?) -> String {
    switch code {
    case .insufficientAuthentication: "authentication"
    case .success: "success"
    default: "other"
    }
  }

  @Test func `8.3 errors are caught and compared as apps do it`() {
    do { throw SystemError(.connectionTimeout, "link lost").asAppError } catch CBError.connectionTimeout {
    } catch { Issue.record("not matched: \(error)") }
    let error = SystemError(.peripheralDisconnected, "link to 02:CB ended").asAppError as NSError
    #expect(error.userInfo[NSDebugDescriptionErrorKey] as? String == "link to 02:CB ended")
    #expect(CBError(_nsError: NSError(domain: CBErrorDomain, code: 6)).code == .connectionTimeout)
    #expect(CBError(.unknown, userInfo: [NSLocalizedDescriptionKey: "x"]).localizedDescription == "x")
  }

  @Test func `14.1, 14.2 forms of a UUID are equal, each keeps its length`() {
    let short = CBUUID(string: "180d")
    let middle = CBUUID(data: Data([0, 0, 0x18, 0x0D]))
    let long = CBUUID(string: "0000180D-0000-1000-8000-00805f9b34fb")
    #expect(short == middle)
    #expect(short == long)
    #expect(Set([short, middle, long]).count == 1)
    #expect([short, middle, long].map(\.data.count) == [2, 4, 16])
    #expect(
      [short, middle, long].map(\.uuidString) == ["180D", "0000180D", "0000180D-0000-1000-8000-00805F9B34FB"])
    let uuid = UUID()
    #expect(CBUUID(nsuuid: uuid).uuidString == uuid.uuidString)
    #expect(UUID(high: uuid.high, low: uuid.low) == uuid)
    #expect(short != CBUUID(string: "180F"))
    #expect(!short.isEqual("180D"))
    #expect(short.copy() as AnyObject === short)
  }

  @Test func `14.1 a CFUUID is taken`() throws {
    let made = try #require(
      CFUUIDCreateWithBytes(
        nil, 0x68, 0x75, 0x3A, 0x44, 0x4D, 0x6F, 0x12, 0x26, 0x9C, 0x60, 0x00, 0x50, 0xE4, 0xC0, 0x00, 0x67))
    #expect((self as any LegacyMaker).make(made).uuidString == "68753A44-4D6F-1226-9C60-0050E4C00067")
  }

  @Test func `14.2 a text that is no UUID ends the program`() async {
    await #expect(processExitsWith: .failure) { _ = CBUUID(string: "180") }
    await #expect(processExitsWith: .failure) { _ = CBUUID(data: Data([1, 2, 3])) }
  }

  @Test func `14.3 few UUIDs have names`() {
    #expect(CBUUID(string: "180F").description == "Battery")
    #expect(CBUUID(string: "2902").description == "Client Characteristic Configuration")
    #expect(CBUUID(string: "2A37").description == "2A37")
    #expect(CBUUID(string: "FFE0").description == "FFE0")
  }
}

/// Calls a deprecated initializer without a warning.
private protocol LegacyMaker { func make(_ uuid: CFUUID) -> CBUUID }
extension ValueTests: LegacyMaker {
  @available(*, deprecated)
  func make(_ uuid: CFUUID) -> CBUUID { CBUUID(cfuuid: uuid) }
}
