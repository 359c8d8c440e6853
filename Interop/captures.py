# SPDX-License-Identifier: Apache-2.0
"""The L2CAP frames in a capture, without anybody's dissector: of HCI (btsnoop, H4) and of the air (pcap, LE LL with PHDR)."""

import struct


def frames(pieces):
    """Puts pieces (direction, is a beginning, octets) together to frames with their length and channel, for each direction."""
    found, open_frames = {}, {}
    for direction, is_start, data in pieces:
        if is_start:
            open_frames[direction] = b''
        open_frames[direction] = open_frames.get(direction, b'') + data
        frame = open_frames[direction]
        if len(frame) >= 4 and len(frame) >= 4 + int.from_bytes(frame[:2], 'little'):
            found.setdefault(direction, []).append(frame)
            open_frames[direction] = b''
    return found


def hci_pieces(path):
    """ACL data of a btsnoop file; `sent` is from the host to the controller."""
    data = path.read_bytes()
    assert data[:8] == b'btsnoop\0', path
    position = 16
    while position < len(data):
        _, length, flags, _, _ = struct.unpack('>IIIIq', data[position:position + 24])
        packet = data[position + 24:position + 24 + length]
        position += 24 + length
        if packet[0] == 2:
            boundary = packet[2] >> 4 & 3
            yield ('received' if flags & 1 else 'sent'), boundary != 1, packet[5:]


def air_pieces(path):
    """Data PDUs of a pcap file, each once: a packet that is sent again has the sequence number of the last."""
    data = path.read_bytes()
    assert data[:4] == struct.pack('<I', 0xA1B23C4D), path
    position, last = 24, {}
    while position < len(data):
        length = struct.unpack('<I', data[position + 8:position + 12])[0]
        record = data[position + 16:position + 16 + length]
        position += 16 + length
        flags = struct.unpack('<H', record[8:10])[0]
        kind = flags >> 7 & 7
        if kind not in (2, 3):
            continue
        header, size = record[14], record[15]
        payload = record[16:16 + size]
        number = header >> 3 & 1
        if last.get(kind) == number:
            continue
        last[kind] = number
        if header & 3 in (1, 2) and size:
            yield ('central' if kind == 2 else 'peripheral'), header & 3 == 2, payload
