# SPDX-License-Identifier: Apache-2.0
"""Ten foreign hosts at once on one radio, five peripherals and five centrals, in pairs, for a while.

    python Interop/crowd.py tcp-client:127.0.0.1:9001 --seconds 60

Each peripheral notifies a count twenty times a second, as long as its central is subscribed. Each central writes a count, reads it back, and
goes on with the next; every ten seconds one central leaves and comes back. Every value must be the next one, and no link
may end but where its central wants it to: anything else is an event `fault`, and the exit code is 1.

Prints an event a line: up (all pairs are connected and subscribed), round (each ten seconds), fault, summary.
"""

import argparse
import asyncio
import struct
import sys

from bumble.core import UUID
from bumble.device import Peer
from bumble.gatt import Characteristic, CharacteristicValue, Service
from bumble.hci import Address

import common
from common import event

PAIRS = 5
PERIOD = 0.05
ROUND = 10
# HCI reasons: of a link that this side ended, and of one that never was, as the request was lost on air.
LEFT, NEVER = 0x16, 0x3E


class Fault(Exception):
    pass


class Sensor:
    """A peripheral."""

    def __init__(self, device):
        self.device = device
        self.kept = struct.pack('<I', 0)
        self.notified = Characteristic(common.NOTIFIED, Characteristic.Properties.NOTIFY, 0)
        kept = Characteristic(
            common.KEPT, Characteristic.Properties.READ | Characteristic.Properties.WRITE,
            Characteristic.READABLE | Characteristic.WRITEABLE, CharacteristicValue(
                read=lambda _: self.kept, write=lambda _, value: self.keep(value)))
        device.add_service(Service(common.TEST_SERVICE, [kept, self.notified]))
        device.on('connection', lambda connection: connection.on('disconnection', lambda _: self.end()))
        device.gatt_server.on('characteristic_subscription', self.subscribed)
        self.sender = None

    async def advertise(self):
        await self.device.start_advertising(auto_restart=True, advertising_interval_min=30, advertising_interval_max=30)

    def keep(self, value):
        self.kept = bytes(value)

    def end(self):
        if self.sender:
            self.sender.cancel()
        self.sender = None

    def subscribed(self, connection, attribute, notify, _indicate):
        self.end()
        if attribute.uuid == self.notified.uuid and notify:
            self.sender = asyncio.create_task(self.send(connection))

    async def send(self, connection):
        count = 0
        while True:
            await self.device.notify_subscriber(connection, self.notified, struct.pack('<I', count))
            count += 1
            await asyncio.sleep(PERIOD)


class Collector:
    """A central and what it got."""

    def __init__(self, device, address):
        self.device = device
        self.address = address
        self.values = 0
        self.writes = 0
        self.links = 0
        self.expected = None
        self.leaves = False
        self.connection = None
        self.fault = asyncio.get_running_loop().create_future()

    def fail(self, text):
        if not self.fault.done():
            self.fault.set_exception(Fault(f'{self.address}: {text}'))

    async def join(self):
        while True:
            self.connection = await self.device.connect(self.address, timeout=60)
            self.never = asyncio.get_running_loop().create_future()
            self.connection.on('disconnection', self.ended)
            self.peer = Peer(self.connection)
            found = asyncio.ensure_future(self.peer.discover_services([UUID(common.TEST_SERVICE)]))
            await asyncio.wait([found, self.never], return_when=asyncio.FIRST_COMPLETED)
            if not self.never.done():
                break
            found.cancel()
        await found
        self.links += 1
        for service in self.peer.services:
            await self.peer.discover_characteristics(service=service)
        self.expected = 0
        await self.peer.subscribe(self.find(common.NOTIFIED), self.received)

    def find(self, uuid):
        return self.peer.get_characteristics_by_uuid(UUID(uuid))[0]

    def ended(self, reason):
        if int(reason) == NEVER and not self.never.done():
            self.never.set_result(None)
        elif not self.leaves or int(reason) != LEFT:
            self.fail(f'the link ended: 0x{int(reason):02X}')

    def received(self, value):
        count = struct.unpack('<I', value)[0]
        if count != self.expected:
            self.fail(f'value {count} came in place of {self.expected}')
        self.expected = count + 1
        self.values += 1

    async def leave(self):
        self.leaves = True
        await self.connection.disconnect()
        self.leaves = False

    async def work(self, end, turn):
        loop = asyncio.get_running_loop()
        begin, rounds = loop.time(), 0
        kept = self.find(common.KEPT)
        while loop.time() < end:
            number = struct.pack('<I', self.writes)
            await self.peer.write_value(kept, number, with_response=True)
            found = await self.peer.read_value(kept)
            if found != number:
                self.fail(f'{found.hex()} was read where {number.hex()} was written')
            self.writes += 1
            if int((loop.time() - begin) / ROUND) > rounds:
                rounds += 1
                if rounds % PAIRS == turn:
                    await self.leave()
                    await self.join()
                    kept = self.find(common.KEPT)


async def main(arguments):
    sensors, collectors = [], []
    for index in range(PAIRS):
        address = f'F0:00:00:00:10:{index:02X}'
        _, device = await common.make_device(arguments.transport, f'Sensor {index}', address)
        await device.power_on()
        sensors.append(Sensor(device))
        await sensors[-1].advertise()
        _, other = await common.make_device(arguments.transport, f'Collector {index}', f'F0:00:00:00:20:{index:02X}')
        await other.power_on()
        collectors.append(Collector(other, Address(address)))
    for collector in collectors:
        await collector.join()
    event('up', links=len(collectors))
    end = asyncio.get_running_loop().time() + arguments.seconds

    async def rounds():
        while True:
            await asyncio.sleep(ROUND)
            event('round', values=[each.values for each in collectors], writes=[each.writes for each in collectors])

    ticker = asyncio.create_task(rounds())
    work = asyncio.gather(*(each.work(end, index) for index, each in enumerate(collectors)))
    done, _ = await asyncio.wait([work, *(each.fault for each in collectors)], return_when=asyncio.FIRST_COMPLETED)
    ticker.cancel()
    try:
        for each in done:
            each.result()
    except Exception as fault:  # Whatever it is, the run has failed with it.
        event('fault', text=f'{type(fault).__name__}: {fault}')
        sys.exit(1)
    event('summary', values=[each.values for each in collectors], writes=[each.writes for each in collectors],
          links=[each.links for each in collectors])


if __name__ == '__main__':
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('transport')
    parser.add_argument('--seconds', type=float, default=60)
    common.run(main(parser.parse_args()))
