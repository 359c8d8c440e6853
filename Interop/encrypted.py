# SPDX-License-Identifier: Apache-2.0
"""Two foreign hosts that pair, encrypt, go to the 2M PHY, and move values over the encrypted link.

    python Interop/encrypted.py tcp-client:127.0.0.1:9001

Prints an event a line: paired with the long term key, value for each value read, done.
"""

import argparse
import asyncio

from bumble.core import UUID
from bumble.device import Peer
from bumble.gatt import Characteristic, CharacteristicValue, Service
from bumble.hci import Address

import common
from common import event

ROUNDS = 20


async def main(arguments):
    _, server = await common.make_device(arguments.transport, 'Keeper', 'F0:00:00:00:30:01')
    _, client = await common.make_device(arguments.transport, 'Asker', 'F0:00:00:00:30:02')
    kept = [b'kept']

    def keep(_, value):
        kept[0] = bytes(value)

    needs = Characteristic.READABLE | Characteristic.WRITEABLE | Characteristic.READ_REQUIRES_ENCRYPTION
    server.add_service(Service(common.TEST_SERVICE, [Characteristic(
        common.KEPT, Characteristic.Properties.READ | Characteristic.Properties.WRITE, needs,
        CharacteristicValue(read=lambda _: kept[0], write=keep))]))
    await server.power_on()
    await client.power_on()
    await server.start_advertising()
    keys = asyncio.get_running_loop().create_future()
    connection = await client.connect(Address('F0:00:00:00:30:01'), timeout=60)
    connection.on('pairing', lambda found: keys.set_result(found))
    await connection.pair()
    found = await asyncio.wait_for(keys, 30)
    key = found.ltk or found.ltk_central or found.ltk_peripheral
    # As octets on the wire, the least significant first; people write keys the other way round.
    event('paired', key=key.value[::-1].hex(), encrypted=bool(connection.is_encrypted))
    await connection.set_phy([2], [2])
    peer = Peer(connection)
    await peer.discover_services([UUID(common.TEST_SERVICE)])
    for service in peer.services:
        await peer.discover_characteristics(service=service)
    attribute = peer.get_characteristics_by_uuid(UUID(common.KEPT))[0]
    for number in range(ROUNDS):
        # From one octet to several packets' worth of data.
        value = bytes(index * 3 % 256 for index in range(1 + number * 20))
        await peer.write_value(attribute, value, with_response=True)
        read = await peer.read_value(attribute)
        event('value', wrote=value.hex(), read=read.hex())
    await connection.disconnect()
    event('done')


if __name__ == '__main__':
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('transport')
    common.run(main(parser.parse_args()))
