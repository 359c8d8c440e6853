# SPDX-License-Identifier: Apache-2.0
"""What the foreign peers share: event lines, the device, the UUIDs of the test service."""

import asyncio
import json
import logging
import sys

from bumble.device import Device, DeviceConfiguration
from bumble.hci import Address
from bumble.host import Host
from bumble.transport import open_transport


def test_uuid(number):
    """An attribute of the test service."""
    return f'B3A1{number:04X}-5D0C-4E7A-8F21-9C6D2E4B7A10'


TEST_SERVICE = test_uuid(1)
FIXED = test_uuid(2)  # read
KEPT = test_uuid(3)  # read, write
COMMANDS = test_uuid(4)  # write without response; the last one is read from KEPT
NOTIFIED = test_uuid(5)  # notify: counts once subscribed
INDICATED = test_uuid(6)  # indicate: counts once subscribed
LONG = test_uuid(7)  # read, write, 512 octets
DESCRIBED = test_uuid(8)  # read, with descriptors
REFUSING = test_uuid(9)  # read, write: application error 0x80
CONTROL = test_uuid(10)  # write: 01 disconnect after the next subscription, 02 ask for other connection parameters
OWN_DESCRIPTOR = test_uuid(0x101)
SERVICE_CHANGED = '2A05'


def event(kind, /, **fields):
    """Prints one event line; a test waits for these, never for time."""
    print(json.dumps({'event': kind, **fields}), flush=True)


def uuid_text(uuid):
    """Upper case, 4 digits for a 16-bit UUID: as `ble` prints them."""
    return uuid.to_hex_str('-').upper()


async def make_device(transport_name, name, address):
    """A device of the foreign stack on an HCI transport; always with a random address, as its controllers lose the data
    of links whose own address is public."""
    transport = await open_transport(transport_name)
    configuration = DeviceConfiguration(name=name, address=Address(address), irk=bytes(range(16)))
    return transport, Device(config=configuration, host=Host(transport.source, transport.sink))


def run(coroutine):
    logging.basicConfig(level=logging.ERROR, stream=sys.stderr)
    try:
        asyncio.run(coroutine)
    except KeyboardInterrupt:
        pass
