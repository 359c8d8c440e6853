# SPDX-License-Identifier: Apache-2.0
"""Gives the kernel a controller of our radio: joins a connection to `ble sim` and /dev/vhci.

    /usr/bin/python3 KernelLab/guest/vhci.py PATH-OF-UNIX-SOCKET [--slow COUNT] [--deaf]

Prints {"event": "adapter", "name": "hci0"} when the kernel knows it. It is the kernel's until this program ends.
"""

import argparse
import json
import os
import selectors
import socket
import time

CREATE = bytes([0xFF, 0x00])  # HCI_VENDOR_PKT: a primary controller
# What follows the indicator of a packet from the controller: its header, and where in it the length stands.
HEADERS = {2: (4, 2, 2), 3: (3, 2, 1), 4: (2, 1, 1), 5: (4, 2, 2)}


def packets(stream):
    """Takes the whole packets (H4, indicator in front) from the front of a bytearray."""
    while stream:
        header, offset, size = HEADERS[stream[0]]
        if len(stream) < 1 + header:
            return
        length = int.from_bytes(stream[1 + offset:1 + offset + size], 'little')
        if stream[0] == 5:
            length &= 0x3FFF
        if len(stream) < 1 + header + length:
            return
        yield bytes(stream[:1 + header + length])
        del stream[:1 + header + length]


def main(arguments):
    controller = socket.socket(socket.AF_UNIX)
    controller.connect(arguments.path)
    slow = arguments.slow
    device = os.open('/dev/vhci', os.O_RDWR)
    os.write(device, CREATE)
    selector = selectors.DefaultSelector()
    selector.register(controller, selectors.EVENT_READ)
    selector.register(device, selectors.EVENT_READ)
    stream = bytearray()
    while True:
        for key, _ in selector.select():
            if key.fileobj is controller:
                received = controller.recv(65536)
                if not received:
                    return
                stream += received
                for packet in packets(stream):
                    os.write(device, packet)  # One packet a call, each way.
                continue
            packet = os.read(device, 4096)
            if packet[0] == 0xFF:
                index = int.from_bytes(packet[2:4], 'little')
                print(json.dumps({'event': 'adapter', 'name': f'hci{index}'}), flush=True)
            elif not arguments.deaf:
                if slow > 0:
                    slow -= 1
                    time.sleep(1.5)  # The kernel gives up after two.
                controller.sendall(packet)


if __name__ == '__main__':
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('path')
    parser.add_argument('--slow', type=int, default=0, metavar='COUNT', help='hold back each of the first packets')
    parser.add_argument('--deaf', action='store_true', help='swallow what the kernel sends')
    try:
        main(parser.parse_args())
    except KeyboardInterrupt:
        pass
