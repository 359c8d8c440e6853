# SPDX-License-Identifier: Apache-2.0
"""Records what passes between the kernel and its adapters: FOLDER/kernel-hci0.btsnoop and so on, from the HCI monitor
channel.

    /usr/bin/python3 KernelLab/guest/monitor.py FOLDER

Prints {"event": "recording"} once it hears everything.
"""

import ctypes
import json
import os
import socket
import struct
import sys
import time

MONITOR = 2  # HCI_CHANNEL_MONITOR
NO_INDEX = 0xFFFF
SO_RCVBUFFORCE = 33
# The monitor's opcode: the indicator of H4, and the flags of btsnoop (1: received, 2: command or event).
KINDS = {2: (1, 2), 3: (4, 3), 4: (2, 0), 5: (2, 1), 6: (3, 0), 7: (3, 1), 18: (5, 0), 19: (5, 1)}
EPOCH = 0x00DCDDB30F2F8000  # 1970 in microseconds since the year 0, as btsnoop counts


def main(folder):
    monitor = socket.socket(socket.AF_BLUETOOTH, socket.SOCK_RAW, socket.BTPROTO_HCI)
    monitor.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 8 << 20)
    # Python's own bind knows no channels.
    libc = ctypes.CDLL(None, use_errno=True)
    address = struct.pack('<HHH', socket.AF_BLUETOOTH, NO_INDEX, MONITOR)
    if libc.bind(monitor.fileno(), address, len(address)):
        sys.exit(f'the monitor channel: {os.strerror(ctypes.get_errno())}')
    print(json.dumps({'event': 'recording'}), flush=True)
    files = {}
    while True:
        message = monitor.recv(65536)
        opcode, index, _ = struct.unpack_from('<HHH', message)
        if opcode not in KINDS:
            continue
        indicator, flags = KINDS[opcode]
        if index not in files:
            files[index] = open(os.path.join(folder, f'kernel-hci{index}.btsnoop'), 'wb', buffering=0)
            files[index].write(b'btsnoop\0' + struct.pack('>II', 1, 1002))
        packet = bytes([indicator]) + message[6:]
        stamp = EPOCH + time.time_ns() // 1000
        files[index].write(struct.pack('>IIIIq', len(packet), len(packet), flags, 0, stamp) + packet)


if __name__ == '__main__':
    try:
        main(sys.argv[1])
    except KeyboardInterrupt:
        pass
