// SPDX-License-Identifier: Apache-2.0

import BLECore
import BLEPlayer
import BLEProfile
import BLESystem
import Testing

@Suite struct ProfilePlayerTests {
  let start = ProfileTime(unixMilliseconds: 0, uptimeMilliseconds: 1000)

  func player(_ characteristic: String) throws -> ProfilePlayer {
    let text = #"{"name":"N","services":[{"uuid":"181A","characteristics":[{"uuid":"2A6E",\#(characteristic)}]}]}"#
    return ProfilePlayer(try Profile(parsing: Array(text.utf8)), now: start)
  }

  @Test func includedServicesComeFirst() throws {
    let text = #"{"name":"N","services":[{"uuid":"181A","includes":["180F"]},{"uuid":"180F"}]}"#
    let player = ProfilePlayer(try Profile(parsing: Array(text.utf8)), now: start)
    #expect(player.services.map(\.uuid) == [0x180F, 0x181A])
    #expect(player.services[1].includedServices == [player.services[0].id])
  }

  @Test func whatNeverChangesIsLeftToTheSystem() throws {
    let fixed = try player(#""properties":["read"],"value":{"text":"a"}"#)
    #expect(fixed.services[0].characteristics[0].value == [0x61])
    let written = try player(#""properties":["read","write"],"value":{"text":"a"}"#)
    #expect(written.services[0].characteristics[0].value == nil)
  }

  @Test func eachReadIsAStepAndItsLaterPartsBelongToIt() throws {
    var player = try player(#""properties":["read"],"value":[{"hex":"00"},{"uint8":{"counter":{}}}]"#)
    let id = player.services[0].characteristics[0].id
    #expect(player.read(id, offset: 0, now: start) == .success([0, 0]))
    #expect(player.read(id, offset: 0, now: start) == .success([0, 1]))
    #expect(player.read(id, offset: 1, now: start) == .success([1]))
    #expect(player.read(id, offset: 2, now: start) == .success([]))
    #expect(player.read(id, offset: 3, now: start) == .failure(.invalidOffset))
    #expect(player.read(id, offset: 0, now: start) == .success([0, 2]))
    #expect(player.read(99, offset: 0, now: start) == .failure(.invalidHandle))
  }

  @Test func withAPeriodReadsShowTheStepItIsAt() throws {
    var player = try player(#""properties":["read","notify"],"notifyEvery":50,"value":{"uint8":{"counter":{}}}"#)
    let id = player.services[0].characteristics[0].id
    #expect(player.periods.map(\.0) == [Int(id)] && player.periods.map(\.1) == [.milliseconds(50)])
    #expect(player.read(id, offset: 0, now: start) == .success([0]))
    #expect(player.read(id, offset: 0, now: start) == .success([0]))
    let step = player.step(Int(id), now: start)
    #expect(step?.0 == id && step?.1 == [1])
    #expect(player.read(id, offset: 0, now: start) == .success([1]))
  }

  @Test func clocksCountFromTheStart() throws {
    var player = try player(#""properties":["read"],"value":{"uint16":{"clock":"uptime"}}"#)
    let id = player.services[0].characteristics[0].id
    _ = player.read(id, offset: 0, now: start)
    let later = ProfileTime(unixMilliseconds: 0, uptimeMilliseconds: 1515)
    #expect(player.read(id, offset: 0, now: later) == .success([0x03, 0x02]))
  }

  @Test func writtenValuesAreKeptAndRefusedAsAWhole() throws {
    var player = try player(#""properties":["read","write","notify"],"value":{"uint8":{"counter":{}}},"maxLength":4"#)
    let id = player.services[0].characteristics[0].id
    func write(_ offset: Int, _ value: [UInt8]) -> RemoteWrite {
      RemoteWrite(characteristic: id, offset: offset, value: value)
    }
    func written(_ writes: [RemoteWrite]) -> Result<[[UInt8]], ProfilePlayer.Refusal> {
      player.write(writes).map { $0.map(\.1) }
    }
    #expect(player.notifies(id))
    #expect(written([write(0, [1, 2]), write(2, [3])]) == .success([[1, 2, 3]]))
    #expect(player.read(id, offset: 0, now: start) == .success([1, 2, 3]))
    #expect(player.read(id, offset: 0, now: start) == .success([1, 2, 3]))
    #expect(written([write(0, [9]), write(2, [9])]) == .failure(.invalidOffset))
    #expect(written([write(0, [9]), write(1, [1, 2, 3, 4])]) == .failure(.invalidLength))
    #expect(
      written([write(0, [9]), RemoteWrite(characteristic: 77, offset: 0, value: [])]) == .failure(.invalidHandle))
    #expect(written([write(-1, [9])]) == .failure(.invalidOffset))
    #expect(player.read(id, offset: 0, now: start) == .success([1, 2, 3]))
    #expect(written([write(0, [])]) == .success([[]]))
  }
}
