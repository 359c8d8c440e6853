// SPDX-License-Identifier: Apache-2.0

import BLEProfile
import Testing

@Suite struct JSONTests {
  func node(_ text: String) throws -> JSONNode { try JSONNode(parsing: Array(text.utf8)) }

  func problem(_ bytes: [UInt8]) -> String {
    do throws(ProfileError) {
      _ = try JSONNode(parsing: bytes)
      return "none"
    } catch {
      return error.description
    }
  }

  @Test func valuesOfEveryKind() throws {
    let tree = try node(#" {"a":[null,true,false,-12,1.5e+3,""],"b":{}} "#)
    #expect(
      tree.value
        == ["a": [.null, true, false, -12, .number("1.5e+3"), ""], "b": .object([])])
    #expect(tree.offset == 1)
  }

  @Test func stringsAndEscapes() throws {
    let text = #""\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00é😀""#
    #expect(try node(text).content == .string("\"\\/\u{8}\u{C}\n\r\té😀é😀"))
  }

  @Test func placesCountCharactersNotOctets() {
    #expect(problem(Array("[\"é😀\",\n \"ab\" x]".utf8)).hasPrefix("2:7: "))
    #expect(problem(Array("[\"é😀\" x]".utf8)).hasPrefix("1:7: "))
    #expect(problem([0xEF, 0xBB, 0xBF] + Array("x".utf8)).hasPrefix("1:1: "))
    #expect(problem(Array("[1,\r\n2,\r\n,]".utf8)).hasPrefix("3:1: "))
  }

  @Test(arguments: [
    ("", "1:1: the text ends where a value was expected"), ("{", "expected a member's name"),
    ("[1,]", "expected a value, found ']'"), ("[1 2]", "expected a comma or ]"), ("{\"a\" 1}", "expected a colon"),
    ("01", "no leading zero"), ("-", "expected a digit"), ("1.", "a digit after the point"), ("1e", "of the exponent"),
    ("nul", "expected a value, found 'n'"), ("\"a", "1:1: this string has no end"), ("\"\n\"", "the end of the line"),
    ("\"\\x\"", "no such escape"), ("\"\\u12G4\"", "four hexadecimal digits"), ("\"\\ud800\"", "half of a surrogate"),
    ("\"\\udc00\\ud800\"", "half of a surrogate"), ("1 1", "after the end of the JSON value"),
    ("{\"a\":1,\"a\":2}", "\"a\" is given twice"), ("{a:1}", "in double quotes, found 'a'"),
  ]) func syntaxErrors(text: String, expected: String) {
    let message = problem(Array(text.utf8))
    #expect(message.contains(expected), "\(message)")
  }

  @Test func invalidUTF8IsRefused() {
    #expect(
      problem([0x22, 0xC3, 0x28, 0x22]) == "1:1: this string is not UTF-8"
        || problem([0x22, 0xC3, 0x28, 0x22]) == "1:2: this string is not UTF-8")
  }

  @Test func nestingEnds() {
    let depth = JSONNode.depthMax
    let deep = String(repeating: "[", count: depth) + String(repeating: "]", count: depth)
    #expect(problem(Array(deep.utf8)) == "none")
    #expect(problem([UInt8](repeating: UInt8(ascii: "["), count: 1_000_000)).contains("nested deeper than 64"))
  }

  @Test func writingEscapesWhatTerminalsActOn() throws {
    let value: JSONValue = .object([.init("k\n", .string("\u{1B}[31m\"\\\u{9B}\u{7F}\u{2028}é"))])
    #expect(value.text == #"{"k\n":"\u001b[31m\"\\\u009b\u007f\u2028é"}"#)
    #expect(try node(value.text).value == value)
  }
}
