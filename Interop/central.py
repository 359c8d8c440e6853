# SPDX-License-Identifier: Apache-2.0
"""A foreign central: finds a peer by name or service UUID, connects, exchanges the MTU, explores everything, then does what
it is told, in order.

    python Interop/central.py tcp-client:127.0.0.1:9001 --name "Some Peer" read:UUID write:UUID=HEX \
        command:UUID=HEX refused:UUID subscribe:UUID=COUNT unsubscribe:UUID disconnect

Prints an event a line; `tree` has what was found, in the form of `ble explore --json`. A step that fails is an event
`failed`, and the exit code is 1 then.
"""

import argparse
import asyncio
import sys

from bumble.att import ATT_Error
from bumble.core import UUID, AdvertisingData
from bumble.device import Peer
from bumble.gatt import Characteristic

import common
from common import event, uuid_text

PROPERTY_NAMES = [(1, 'broadcast'), (2, 'read'), (4, 'writeWithoutResponse'), (8, 'write'), (16, 'notify'),
                  (32, 'indicate'), (64, 'authenticatedSignedWrites'), (128, 'extendedProperties')]


def advertised(advertisement):
    """The name and the service UUIDs of an advertisement."""
    names = [data.decode('utf-8', 'replace') for kind, data in advertisement.data.ad_structures if kind in (8, 9)]
    uuids = []
    for kind, data in advertisement.data.ad_structures:
        size = {2: 2, 3: 2, 4: 4, 5: 4, 6: 16, 7: 16}.get(kind, 0)
        if size:
            uuids += [uuid_text(UUID.from_bytes(data[start:start + size])) for start in range(0, len(data), size)]
    return (names or [None])[0], uuids


class Central:
    def __init__(self, device, arguments):
        self.device = device
        self.arguments = arguments
        self.values = {}

    async def find(self):
        found = asyncio.get_running_loop().create_future()

        def look(advertisement):
            name, uuids = advertised(advertisement)
            wanted = self.arguments.service.upper() in uuids if self.arguments.service else name == self.arguments.name
            if wanted and not found.done():
                event('found', address=str(advertisement.address), name=name, services=uuids)
                found.set_result(advertisement.address)

        self.device.on('advertisement', look)
        await self.device.start_scanning(active=True, filter_duplicates=False)
        try:
            return await asyncio.wait_for(found, self.arguments.timeout)
        finally:
            await self.device.stop_scanning()
            self.device.remove_listener('advertisement', look)

    async def connect(self):
        address = await self.find()
        self.connection = await self.device.connect(address, timeout=self.arguments.timeout)
        self.connection.on('disconnection', lambda reason: event('disconnected', reason=int(reason)))
        self.peer = Peer(self.connection)
        event('connected', peer=str(self.connection.peer_address))
        event('mtu', mtu=await self.peer.request_mtu(517))

    async def explore(self):
        await self.peer.discover_services()
        services = []
        for service in sorted(self.peer.services, key=lambda service: service.handle):
            included = await self.peer.discover_included_services(service)
            await self.peer.discover_characteristics(service=service)
            characteristics = [await self.characteristic(each) for each in service.characteristics]
            services.append({'uuid': uuid_text(service.uuid), 'handle': service.handle, 'primary': True,
                             'included': [uuid_text(each.uuid) for each in included],
                             'characteristics': characteristics})
        event('tree', services=services)

    async def characteristic(self, characteristic):
        await self.peer.discover_descriptors(characteristic)
        readable = characteristic.properties & Characteristic.Properties.READ
        descriptors = [{'uuid': uuid_text(each.type), 'handle': each.handle, 'value': await self.value(each)}
                       for each in characteristic.descriptors]
        return {'uuid': uuid_text(characteristic.uuid), 'handle': characteristic.handle,
                'properties': [name for bit, name in PROPERTY_NAMES if characteristic.properties & bit],
                'value': await self.value(characteristic) if readable else None, 'descriptors': descriptors}

    async def value(self, attribute):
        """The value in hexadecimal; None where the server refuses."""
        try:
            return (await self.peer.read_value(attribute)).hex()
        except ATT_Error:
            return None

    # Steps

    def attribute(self, uuid):
        found = self.peer.get_characteristics_by_uuid(UUID(uuid))
        if not found:
            raise LookupError(f'no characteristic {uuid}')
        return found[0]

    async def step(self, text):
        verb, _, rest = text.partition(':')
        uuid, _, argument = rest.partition('=')
        if verb == 'read':
            event('read', uuid=uuid, value=(await self.peer.read_value(self.attribute(uuid))).hex())
        elif verb in ('write', 'command'):
            await self.peer.write_value(self.attribute(uuid), bytes.fromhex(argument), verb == 'write')
            event('done', step=text)
        elif verb == 'refused':
            await self.refused(uuid)
        elif verb == 'subscribe':
            await self.subscribe(uuid, int(argument or 0))
        elif verb == 'unsubscribe':
            await self.peer.unsubscribe(self.attribute(uuid))
            event('done', step=text)
        elif verb == 'disconnect':
            await self.connection.disconnect()
        else:
            raise ValueError(f'no such step: {text}')

    async def refused(self, uuid):
        """Reads what the peer has to refuse."""
        try:
            value = await self.peer.read_value(self.attribute(uuid))
        except ATT_Error as error:
            event('refused', uuid=uuid, att_error=int(error.error_code))
            return
        raise AssertionError(f'{uuid} was read: {value.hex()}')

    async def subscribe(self, uuid, count):
        queue = self.values.setdefault(uuid, asyncio.Queue())

        def receive(value):
            event('value', uuid=uuid, value=bytes(value).hex())
            queue.put_nowait(value)

        await self.peer.subscribe(self.attribute(uuid), receive)
        event('subscribed', uuid=uuid)
        for _ in range(count):
            await queue.get()

    async def guarded(self, name, coroutine):
        try:
            await asyncio.wait_for(coroutine, self.arguments.timeout)
            return True
        except ATT_Error as error:
            event('failed', step=name, att_error=int(error.error_code))
        except Exception as error:  # Whatever a foreign stack raises is a result here.
            event('failed', step=name, error=f'{type(error).__name__}: {error}')
        return False

    async def run(self):
        good = await self.guarded('connect', self.connect()) and await self.guarded('explore', self.explore())
        if good:
            for text in self.arguments.steps:
                good = await self.guarded(text, self.step(text)) and good
            if self.connection.handle in self.device.connections:
                good = await self.guarded('disconnect', self.connection.disconnect()) and good
        return good


async def main(arguments):
    transport, device = await common.make_device(arguments.transport, 'Foreign C', arguments.address)
    await device.power_on()
    good = await Central(device, arguments).run()
    event('end', good=good)
    await transport.close()
    sys.exit(0 if good else 1)


if __name__ == '__main__':
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('transport')
    parser.add_argument('steps', nargs='*')
    parser.add_argument('--name')
    parser.add_argument('--service')
    parser.add_argument('--address', default='E1:00:00:00:00:02')
    parser.add_argument('--timeout', type=float, default=20)
    common.run(main(parser.parse_intermixed_args()))
