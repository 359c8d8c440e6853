// SPDX-License-Identifier: Apache-2.0

import BLECore
import TestSupport
import Testing

struct BytesTests {
  @Test func integersRoundTrip() throws {
    var writer = ByteWriter(capacity: 40)
    writer.u8(0xFE)
    writer.i8(-2)
    writer.u16(0x1234)
    writer.u24(0xFF_ABCDEF)
    writer.u32(0xDEAD_BEEF)
    writer.u64(0x0102_0304_0506_0708)
    #expect(writer.bytes.hex == "fefe3412efcdabefbeadde0807060504030201")
    let bytes = writer.bytes
    var reader = ByteReader(bytes.span.bytes)
    let values: [UInt64] = [
      UInt64(try reader.u8()), UInt64(UInt8(bitPattern: try reader.i8())), UInt64(try reader.u16()),
      UInt64(try reader.u24()), UInt64(try reader.u32()), try reader.u64(),
    ]
    #expect(values == [0xFE, 0xFE, 0x1234, 0xABCDEF, 0xDEAD_BEEF, 0x0102_0304_0506_0708])
    let isAtEnd = reader.isAtEnd
    #expect(isAtEnd)
  }

  @Test func aReadPastTheEndThrowsAndMovesNothing() throws {
    let bytes: [UInt8] = [1, 2, 3]
    var reader = ByteReader(bytes.span.bytes)
    _ = try reader.u8()
    var errors: [DecodeError] = []
    do throws(DecodeError) { _ = try reader.u24() } catch { errors.append(error) }
    do throws(DecodeError) { _ = try reader.u32() } catch { errors.append(error) }
    do throws(DecodeError) { _ = try reader.u64() } catch { errors.append(error) }
    do throws(DecodeError) { _ = try reader.array(3) } catch { errors.append(error) }
    do throws(DecodeError) { try reader.skip(3) } catch { errors.append(error) }
    do throws(DecodeError) { try reader.expectEnd() } catch { errors.append(error) }
    #expect(
      errors == [
        .truncated(needed: 3, available: 2, offset: 1), .truncated(needed: 4, available: 2, offset: 1),
        .truncated(needed: 8, available: 2, offset: 1), .truncated(needed: 3, available: 2, offset: 1),
        .truncated(needed: 3, available: 2, offset: 1), .trailingBytes(count: 2, offset: 1),
      ])
    let next = try reader.u16()
    #expect(next == 0x0302)
  }

  @Test func paddingAndPatching() {
    var writer = ByteWriter()
    writer.bytes([1, 2, 3], paddedTo: 5)
    writer.bytes([1, 2, 3], paddedTo: 2)
    writer.patch(u16: 0xABCD, at: 0)
    writer.patch(u8: 9, at: 6)
    #expect(writer.bytes == [0xCD, 0xAB, 3, 0, 0, 1, 9])
    writer.removeAll()
    #expect(writer.count == 0)
  }

  /// The queue against an array of arrays.
  @Test(arguments: 0..<20 as Range<UInt64>)
  func packetsComeOutAsTheyWentIn(seed: UInt64) {
    var random = SeededGenerator(seed: seed)
    var queue = PacketQueue<Int>()
    var model: [(Int, [UInt8])] = []
    for tag in 0..<2000 {
      if Int.random(in: 0..<100, using: &random) < (tag < 1000 ? 60 : 45) {
        let bytes = (0..<Int.random(in: 0...20, using: &random)).map { _ in UInt8.random(in: 0...255, using: &random) }
        queue.append(tag, bytes.span.bytes)
        model.append((tag, bytes))
      } else {
        var taken: (Int, [UInt8])?
        let isTaken = queue.removeFirst { taken = ($0, [UInt8]($1)) }
        #expect(isTaken == !model.isEmpty, "seed \(seed)")
        guard let taken, !model.isEmpty else { continue }
        let expected = model.removeFirst()
        #expect(taken.0 == expected.0 && taken.1 == expected.1, "seed \(seed)")
      }
      #expect(queue.count == model.count && queue.isEmpty == model.isEmpty, "seed \(seed)")
      #expect(queue.byteCount == model.reduce(0) { $0 + $1.1.count }, "seed \(seed)")
      #expect(queue.first == model.first?.0 && queue.firstCount == model.first?.1.count ?? 0, "seed \(seed)")
    }
  }

  @Test func hostileBytesDependOnTheSeedAlone() {
    let examples: [[UInt8]] = [[1, 2, 3, 4], [5, 6]]
    let one = Array(HostileBytes(seed: 1, count: 1000, examples: examples, maxLength: 30))
    #expect(one == Array(HostileBytes(seed: 1, count: 1000, examples: examples, maxLength: 30)))
    #expect(one != Array(HostileBytes(seed: 2, count: 1000, examples: examples, maxLength: 30)))
    #expect(one.count == 1000 && one.allSatisfy { $0.count <= 30 } && one.contains([]) && Set(one).count > 500)
    #expect(Array(HostileBytes(seed: 1, count: 10, examples: [])).count == 10)
  }
}
