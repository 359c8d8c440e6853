# SPDX-License-Identifier: Apache-2.0
"""The rows of the benchmark on Bumble: two devices in one process, on its link, in its own idiom.

    python Benchmarks/bumble_rows.py ROW     # prints one JSON object

The same sizes as ours: ATT_MTU 247, ACL packets of 251 octets, all counted at the receiver.
"""

import asyncio
import gc
import json
import pathlib
import struct
import sys
import time

from bumble import hci
from bumble.controller import Controller
from bumble.core import UUID, AdvertisingData
from bumble.device import Device, DeviceConfiguration
from bumble.gatt import Characteristic, CharacteristicValue, Descriptor, Service
from bumble.hci import Address
from bumble.host import Host
from bumble.link import LocalLink
from bumble.transport.common import AsyncPipeSink, PacketParser

Properties = Characteristic.Properties
READ_VALUE = bytes(range(20))
LONG = 244
MTU = 247


def uuid(number):
    return UUID(f'B3A1{number:04X}-5D0C-4E7A-8F21-9C6D2E4B7A10')


class Meter:
    """Wall and processor time since it was made."""

    def __init__(self):
        self.wall, self.cpu = time.monotonic(), time.process_time()

    def stop(self, count):
        return {'count': count, 'wall': time.monotonic() - self.wall, 'cpu': time.process_time() - self.cpu}


def make_device(link, number, name):
    controller = Controller(name, link=link, public_address=f'0E:00:00:00:00:{number:02X}')
    controller.le_acl_data_packet_length = 251
    address = Address(f'E1:00:00:00:00:{number:02X}')
    device = Device(config=DeviceConfiguration(name=name, address=address, irk=bytes(range(16))),
                    host=Host(controller, AsyncPipeSink(controller)))
    controller.host = AsyncPipeSink(device.host)
    return device


class Pair:
    """A central connected to a peripheral that has a service to read, write and subscribe to."""

    async def start(self, services=None):
        link = LocalLink()
        self.peripheral = make_device(link, 1, 'peripheral')
        self.central = make_device(link, 2, 'central')
        self.written = lambda value: None
        self.notified = Characteristic(uuid(4), Properties.NOTIFY, 0)
        self.peripheral.add_services(services or [Service(uuid(1), [
            Characteristic(uuid(2), Properties.READ, Characteristic.READABLE, READ_VALUE),
            Characteristic(uuid(3), Properties.READ, Characteristic.READABLE,
                           CharacteristicValue(read=lambda _: READ_VALUE)),
            Characteristic(uuid(5), Properties.WRITE_WITHOUT_RESPONSE, Characteristic.WRITEABLE,
                           CharacteristicValue(write=lambda _, value: self.written(value))),
            self.notified])])
        await self.peripheral.power_on()
        await self.central.power_on()
        self.at_peripheral = None
        self.peripheral.on('connection', self.on_connection)
        await self.peripheral.start_advertising(auto_restart=True)
        return self

    def on_connection(self, connection):
        self.at_peripheral = connection

    async def connect(self):
        self.connection = await self.central.connect(self.peripheral.random_address)
        return self.connection

    async def explore(self):
        connection = await self.connect()
        peer = self.client = connection.gatt_client
        await peer.request_mtu(MTU)
        service, = await peer.discover_service(uuid(1))
        characteristics = await service.discover_characteristics()
        self.characteristics = {str(c.uuid): c for c in characteristics}
        return self

    def characteristic(self, number):
        return self.characteristics[str(uuid(number))]


async def read(number):
    pair = await (await Pair().start()).explore()
    characteristic = pair.characteristic(number)
    for count in (400, 2000):
        meter = Meter()
        for _ in range(count):
            assert await characteristic.read_value() == READ_VALUE
        row = meter.stop(count)
    return row


class Numbers:
    """Counts values at the receiver; each carries its number."""

    def __init__(self):
        self.next = 0
        self.goal = 0
        self.done = asyncio.Event()

    def take(self, value):
        assert len(value) == LONG and struct.unpack_from('<Q', value)[0] == self.next
        self.next += 1
        if self.next == self.goal:
            self.done.set()

    def expect(self, count):
        self.goal += count
        self.done.clear()


def long_value(number):
    return struct.pack('<Q', number) + bytes(LONG - 8)


async def notify():
    pair = await (await Pair().start()).explore()
    numbers = Numbers()
    characteristic = pair.characteristic(4)
    await characteristic.subscribe(numbers.take)
    sent = 0
    for count in (1000, 5000):
        numbers.expect(count)
        meter = Meter()
        for _ in range(count):
            await pair.peripheral.gatt_server.notify_subscriber(pair.at_peripheral, pair.notified, long_value(sent))
            sent += 1
            if sent % 32 == 0:  # Nothing in it waits for room; the receiver has to get its turn.
                await asyncio.sleep(0)
        await numbers.done.wait()
        row = meter.stop(count)
    return row


async def write_command():
    pair = await (await Pair().start()).explore()
    numbers = Numbers()
    pair.written = numbers.take
    characteristic = pair.characteristic(5)
    sent = 0
    for count in (1000, 5000):
        numbers.expect(count)
        meter = Meter()
        for _ in range(count):
            await characteristic.write_value(long_value(sent), with_response=False)
            sent += 1
            if sent % 32 == 0:
                await asyncio.sleep(0)
        await numbers.done.wait()
        row = meter.stop(count)
    return row


async def discovery():
    services = [Service(uuid(0x100 + number), [
        Characteristic(uuid(0x1000 + number * 8 + index), Properties.NOTIFY, 0, b'',
                       [Descriptor(UUID.from_16_bits(0x2901), Characteristic.READABLE, b'name')])
        for index in range(5)]) for number in range(100)]
    pair = await Pair().start(services)
    total = {'count': 0, 'wall': 0, 'cpu': 0}
    for index in range(4):
        meter = Meter()
        connection = await pair.connect()
        client = connection.gatt_client
        await client.request_mtu(MTU)
        descriptors = 0
        for service in await client.discover_services():
            if service.uuid.to_bytes()[:4] != uuid(1).to_bytes()[:4]:
                continue
            for characteristic in await service.discover_characteristics():
                descriptors += len(await characteristic.discover_descriptors())
        row = meter.stop(1)
        assert descriptors == 1000, descriptors
        await connection.disconnect()
        await asyncio.sleep(0.01)
        if index:  # The first is for warming up.
            total = {key: total[key] + row[key] for key in total}
    return total


async def connect():
    pair = await Pair().start()
    for count in (50, 300):
        meter = Meter()
        for _ in range(count):
            connection = await pair.connect()
            await connection.disconnect()
        row = meter.stop(count)
    return row


def report(number):
    name = f'Sensor {number}'.encode()
    data = bytes([2, 1, 6, 3, 3, 0x0D, 0x18, 7, 0xFF, 0x4C, 0, 1, 2, 3, 4, len(name) + 1, 9]) + name
    address = (0xC0_00_00_00_00_00 | number).to_bytes(6, 'little')
    parameters = bytes([2, 1, 0, 1]) + address + bytes([len(data)]) + data + bytes([0xC4])
    return bytes([4, 0x3E, len(parameters)]) + parameters


async def advertising():
    device = make_device(LocalLink(), 1, 'scanner')
    await device.power_on()
    seen = {}

    def on_advertisement(advertisement):
        data = advertisement.data
        assert data.get(AdvertisingData.COMPLETE_LOCAL_NAME)
        assert data.get(AdvertisingData.COMPLETE_LIST_OF_16_BIT_SERVICE_CLASS_UUIDS)
        assert data.get(AdvertisingData.MANUFACTURER_SPECIFIC_DATA)
        seen[advertisement.address] = seen.get(advertisement.address, 0) + 1

    device.on('advertisement', on_advertisement)
    # Passively: else each report waits for a scan response, and only the later ones come.
    await device.start_scanning(active=False, filter_duplicates=False)
    blob = b''.join(report(number) for number in range(1000))
    parser = PacketParser(device.host)
    for rounds in (1, 8):
        seen.clear()
        meter = Meter()
        for _ in range(rounds):
            parser.feed_data(blob)
        row = meter.stop(rounds * 1000)
        assert len(seen) == 1000 and set(seen.values()) == {rounds}
    return row


async def hci_packets():
    lines = pathlib.Path(__file__).with_name('hci-packets.txt').read_text().split()
    packets = [bytes.fromhex(line) for line in lines]
    for rounds in (1000, 10000):
        meter = Meter()
        for _ in range(rounds):
            for packet in packets:
                hci.HCI_Packet.from_bytes(packet)
        row = meter.stop(rounds * len(packets))
    return row


async def memory():
    link = LocalLink()
    devices = [make_device(link, number, f'd{number}') for number in range(2)]
    await devices[0].power_on()
    gc.collect()
    before = resident()
    meter = Meter()
    for number in range(2, 202):
        device = make_device(link, number, f'd{number}')
        await device.power_on()
        devices.append(device)
    gc.collect()
    row = meter.stop(200)
    row['octets'] = (resident() - before) / 200
    return row


def resident():
    with open('/proc/self/statm', encoding='ascii') as file:
        return int(file.read().split()[1]) * 4096


ROWS = {'read': lambda: read(2), 'read-by-delegate': lambda: read(3), 'notify': notify, 'write-command': write_command,
        'discovery': discovery, 'connect': connect, 'advertising': advertising, 'hci': hci_packets, 'memory': memory}

if __name__ == '__main__':
    print(json.dumps({'row': sys.argv[1], **asyncio.run(ROWS[sys.argv[1]]())}))
