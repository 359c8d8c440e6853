// SPDX-License-Identifier: Apache-2.0

import BLECore
import BLEProfile
import Foundation
import Testing

/// A profile of one service whose one characteristic has these members.
func profile(characteristic members: String) -> String {
  #"{"name":"N","services":[{"uuid":"180F","characteristics":[{"uuid":"2A19",\#(members)}]}]}"#
}

func parse(_ text: String) throws -> Profile { try Profile(parsing: Array(text.utf8)) }

/// The error of a text, as it is printed.
func problem(_ text: String) -> String {
  do throws(ProfileError) {
    _ = try Profile(parsing: Array(text.utf8))
    return "none"
  } catch {
    return error.description
  }
}

func readyProfile(_ name: String) throws -> [UInt8] {
  let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
    .deletingLastPathComponent()
  return Array(try Data(contentsOf: root.appending(path: "Examples/Profiles/\(name).json")))
}

@Suite struct ProfileTests {
  @Test func heartRateSensorLoads() throws {
    let profile = try Profile(parsing: readyProfile("heart-rate-sensor"))
    #expect(profile.name == "Heart Rate Sensor")
    #expect(profile.advertisedServices == [0x180D])
    #expect(profile.services.map(\.uuid) == [0x180D, 0x180F, 0x180A])
    let measurement = profile.services[0].characteristics[0]
    #expect(measurement.properties == .notify)
    #expect(measurement.read == .never && measurement.write == .never)
    #expect(measurement.notifyPeriod == .seconds(1))
    #expect(measurement.value?.byteCountMax == 2)
    let controlPoint = profile.services[0].characteristics[2]
    #expect(controlPoint.value == nil && controlPoint.write == .open && controlPoint.lengthMax == 1)
    let battery = profile.services[1].characteristics[0]
    #expect(battery.descriptors == [.init(uuid: 0x2904, value: [4, 0, 0xAD, 0x27, 1, 0, 0])])
  }

  @Test func environmentSensorLoads() throws {
    let profile = try Profile(parsing: readyProfile("environment-sensor"))
    #expect(profile.services[0].includedServices == [1])
    #expect(profile.publicationOrder == [1, 0, 2])
    let pressure = profile.services[0].characteristics[2]
    #expect(pressure.properties == [.read, .indicate])
    #expect(
      pressure.value?.parts == [
        .number(.uint32, .randomWalk(low: 995_000, high: 1_030_000, start: 1_013_250, step: 40, seed: nil))
      ])
    let room = profile.services[2].characteristics[0]
    #expect(room.value == ProfileValue([.octets(Array("living room".utf8))]))
    #expect(room.value?.isConstant == true && room.lengthMax == 64)
  }

  @Test func permissionsMayAskForEncryption() throws {
    let text = profile(
      characteristic: #"""
        "properties":["read","write","notifyEncryptionRequired"],
        "permissions":["readEncryptionRequired","writeEncryptionRequired"],"value":{"hex":"00"}
        """#)
    let characteristic = try parse(text).services[0].characteristics[0]
    #expect(characteristic.read == .encrypted && characteristic.write == .encrypted)
    #expect(characteristic.subscriptionNeedsEncryption)
    #expect(characteristic.properties == [.read, .write, .notify])
  }

  @Test func includesMayPointForwardAndByUUID() throws {
    let text = #"""
      {"name":"N","services":[
        {"uuid":"180D","includes":["180F","x"]},{"uuid":"180F"},{"id":"x","uuid":"1812","primary":false}]}
      """#
    let profile = try parse(text)
    #expect(profile.services[0].includedServices == [1, 2])
    #expect(profile.publicationOrder == [1, 2, 0])
    #expect(!profile.services[2].isPrimary)
  }

  /// Every rule that a file can break, and the place that is pointed at.
  @Test(arguments: [
    (#"{"name":"N","servces":[]}"#, #"1:13: a profile has no "servces": did you mean "services"?"#),
    (#"[]"#, "1:1: a profile is an object, not a list"),
    (#"{"services":[{"uuid":"180F"}]}"#, #"1:1: a profile needs "name""#),
    (#"{"name":"","services":[{"uuid":"180F"}]}"#, #"1:9: "name" has 1 to 248 octets, this one 0"#),
    (#"{"name":7,"services":[{"uuid":"180F"}]}"#, #"1:9: "name" is a string, not a number"#),
    (#"{"name":"N","services":[]}"#, #"1:24: "services" needs at least one service"#),
    (#"{"name":"N","seed":1.5,"services":[{"uuid":"180F"}]}"#, #"1:20: "seed" is a whole number, not 1.5"#),
    (
      #"{"name":"N","services":[{"uuid":"18F"}]}"#,
      #"1:33: "18F" is no UUID: write 4 or 8 hexadecimal digits, or 32 as 8-4-4-4-12"#
    ),
    (#"{"name":"N","services":[{"uuid":"1801"}]}"#, "1:33: the system publishes 1801 itself"),
    (#"{"name":"N","advertise":["180F","180F"],"services":[{"uuid":"180F"}]}"#, "1:33: 180F is given twice"),
    (#"{"name":"N","name":"M","services":[{"uuid":"180F"}]}"#, #"1:13: "name" is given twice"#),
    (
      #"{"name":"N","services":[{"id":"a","uuid":"180F"},{"id":"a","uuid":"180D"}]}"#,
      #"1:56: another service has the id "a""#
    ),
    (
      #"{"name":"N","services":[{"id":"battery","uuid":"180F"},{"uuid":"180D","includes":["batery"]}]}"#,
      #"1:83: no service is "batery": did you mean "battery"?"#
    ),
    (
      #"{"name":"N","services":[{"uuid":"180F"},{"uuid":"180F"},{"uuid":"180D","includes":["180F"]}]}"#,
      #"1:84: several services are 180F: give them an "id" and name that"#
    ),
    (
      #"{"name":"N","services":[{"uuid":"180F","includes":["180D"]},{"uuid":"180D","includes":["180F"]}]}"#,
      "1:88: a service cannot include itself, not even through others"
    ),
    (
      "{\"name\":\"N\",\n \"services\": [{\n  \"uuid\": \"180F\" \"id\"}]}",
      "3:18: expected a comma or } after the value of \"uuid\", found '\"'"
    ),
    ("{\"name\":\"é\" x}", "1:13: expected a comma or } after the value of \"name\", found 'x'"),
  ]) func profileErrors(text: String, expected: String) {
    #expect(problem(text) == expected)
  }

  @Test(arguments: [
    (#""properties":["read"]"#, #"the property "read" needs a "value""#),
    (#""properties":["notify"]"#, #"the properties "notify" and "indicate" need a "value""#),
    (#""properties":[]"#, #""properties" needs at least one of read, write"#),
    (#""value":{"hex":"00"}"#, #"a characteristic needs "properties""#),
    (#""properties":["raed"],"value":{"hex":"00"}"#, #"no property is called "raed": did you mean "read"?"#),
    (#""properties":["read","read"],"value":{"hex":"00"}"#, #""read" is given twice"#),
    (
      #""properties":["notify","notifyEncryptionRequired"],"value":{"hex":"00"}"#,
      #""notifyEncryptionRequired" is given twice"#
    ),
    (#""properties":["read"],"notifyEvery":5,"value":{"hex":"00"}"#, #""notifyEvery" needs the property"#),
    (#""properties":["read"],"maxLength":5,"value":{"hex":"00"}"#, #""maxLength" is for values that can be written"#),
    (
      #""properties":["read"],"permissions":["writeable"],"value":{"hex":"00"}"#,
      #"the property "read" needs "readable""#
    ),
    (#""properties":["write"],"permissions":["readable"]"#, #"a property to write needs "writeable""#),
    (
      #""properties":["read"],"permissions":["readable","readEncryptionRequired"],"value":{"hex":"00"}"#,
      #""readEncryptionRequired" says again who may read"#
    ),
    (#""properties":["read"],"value":"text""#, #"a value says what it is"#),
    (#""properties":["read"],"value":7"#, "a value is an object or a list of objects, not a number"),
    (#""properties":["read"],"value":{"hex":"0g"}"#, #""0g" is not hexadecimal: 'g' is no digit"#),
    (#""properties":["read"],"value":{"hex":"012"}"#, #""012" has 3 hexadecimal digits"#),
    (#""properties":["read"],"value":{"hex":"00","text":""}"#, "a value has exactly one of hex, text"),
    (#""properties":["read"],"value":{"uint8":256}"#, #""uint8" is from 0 to 255, not 256"#),
    (#""properties":["read"],"value":{"int8":-129}"#, #""int8" is from -128 to 127, not -129"#),
    (#""properties":["read"],"value":{"uint8":1e2}"#, #""uint8" is a whole number, not 1e2"#),
    (#""properties":["read"],"value":{"uint64":99999999999999999999}"#, #""uint64" is out of range"#),
    (#""properties":["read"],"value":{"float32":1e300}"#, "1e300 does not fit into a float32"),
    (#""properties":["read"],"value":{"uint8":{"ramp":{"from":0,"to":300,"period":5}}}"#, #""to" is from 0 to 255"#),
    (#""properties":["read"],"value":{"uint8":{"ramp":{"from":0,"to":3}}}"#, #""ramp" needs "period""#),
    (#""properties":["read"],"value":{"uint8":{"sine":{"from":5,"to":3,"period":9}}}"#, "from the lower number"),
    (#""properties":["read"],"value":{"uint8":{"counter":{"step":0}}}"#, #"a "step" of 0 does not lead from 0 to 255"#),
    (#""properties":["read"],"value":{"uint8":{"counter":{"from":9,"to":2}}}"#, #"a "step" of 1 does not lead"#),
    (
      #""properties":["read"],"value":{"uint8":{"randomWalk":{"from":1,"to":5,"start":6}}}"#,
      #""start" is from 1 to 5, not 6"#
    ),
    (#""properties":["read"],"value":{"uint8":{"cycle":[]}}"#, #""cycle" is a list of at least one number"#),
    (#""properties":["read"],"value":{"uint8":{"clok":"uptime"}}"#, #"did you mean "clock"?"#),
    (#""properties":["read"],"value":{"clock":"uptime"}"#, #"as a whole value "clock" is "currentTime""#),
    (#""properties":["read"],"value":{"cycle":[]}"#, #""cycle" needs at least one value"#),
    (#""properties":["write"],"descriptors":[{"uuid":"2902","value":{"hex":""}}]"#, "the descriptor 2902 itself"),
    (#""properties":["write"],"descriptors":[{"uuid":"2901"}]"#, #"this descriptor needs a "value""#),
    (#""properties":["write"],"descriptors":[{"uuid":"2901","format":{"type":4}}]"#, #"only the descriptor 2904"#),
    (
      #""properties":["write"],"descriptors":[{"uuid":"2901","value":{"text":"a"}},{"uuid":"2901","value":{"text":"b"}}]"#,
      "another descriptor 2901"
    ),
    (
      #""properties":["write"],"descriptors":[{"uuid":"2901","value":{"uint8":{"counter":{}}}}]"#,
      "a descriptor's value is constant"
    ),
    (#""properties":["write"],"descriptors":[{"uuid":"2904","format":{"type":"unit8"}}]"#, #"did you mean "uint8"?"#),
  ]) func characteristicErrors(members: String, expected: String) {
    let message = problem(profile(characteristic: members))
    #expect(message.contains(expected), "\(message)")
  }

  @Test func aValueHasAtMost512Octets() throws {
    let most = profile(
      characteristic: #""properties":["read"],"value":{"hex":"\#(String(repeating: "00", count: 512))"}"#)
    #expect(try parse(most).services[0].characteristics[0].value?.byteCountMax == 512)
    let more = profile(
      characteristic: #""properties":["read"],"value":[{"hex":"\#(String(repeating: "00", count: 512))"},{"uint8":1}]"#)
    #expect(problem(more).hasSuffix("a value has at most 512 octets, this one 513"))
  }

  @Test func aFileHasAtMostAMebioctet() {
    let bytes = [UInt8](repeating: 0x20, count: Profile.fileSizeMax + 1)
    #expect(throws: ProfileError.self) { try Profile(parsing: bytes) }
  }
}
