# SPDX-License-Identifier: Apache-2.0
"""A foreign peripheral: heart rate, battery, device information, and a test service that has something of everything.

    python Interop/peripheral.py tcp-client:127.0.0.1:9001 [--name N]

Prints an event a line: advertising, connected, mtu, subscription, written, disconnected.
"""

import argparse
import asyncio
import struct

from bumble import gatt
from bumble.att import ATT_Error, ErrorCode
from bumble.core import UUID, AdvertisingData
from bumble.gatt import Characteristic, CharacteristicValue, Descriptor, Service

import common
from common import event

Properties = Characteristic.Properties
READABLE = Characteristic.READABLE
WRITEABLE = Characteristic.WRITEABLE


class Peripheral:
    """The services, what they do when they are written, and the values they send."""

    def __init__(self, device):
        self.device = device
        self.kept = b'as it was'
        self.senders = {}
        self.count = 0
        self.hangs_up = False
        self.measurement = Characteristic(gatt.GATT_HEART_RATE_MEASUREMENT_CHARACTERISTIC, Properties.NOTIFY, 0)
        self.notified = Characteristic(common.NOTIFIED, Properties.NOTIFY, 0)
        self.indicated = Characteristic(common.INDICATED, Properties.INDICATE, 0)
        # What is included comes first, or its handles would lie inside the including service's.
        battery = self.battery()
        device.add_services([battery, self.heart_rate(), self.information(), self.test(battery)])
        device.on('connection', self.on_connection)
        device.gatt_server.on('characteristic_subscription', self.on_subscription)

    def heart_rate(self):
        return Service(gatt.GATT_HEART_RATE_SERVICE, [
            self.measurement,
            Characteristic(gatt.GATT_BODY_SENSOR_LOCATION_CHARACTERISTIC, Properties.READ, READABLE, b'\x02'),
            Characteristic(gatt.GATT_HEART_RATE_CONTROL_POINT_CHARACTERISTIC, Properties.WRITE, WRITEABLE,
                           CharacteristicValue(write=lambda _, value: event('written', uuid='2A39', value=value.hex()))),
        ])

    @staticmethod
    def battery():
        percent = Descriptor(gatt.GATT_CHARACTERISTIC_PRESENTATION_FORMAT_DESCRIPTOR, READABLE,
                             struct.pack('<BbHBH', 4, 0, 0x27AD, 1, 0))
        return Service(gatt.GATT_BATTERY_SERVICE, [
            Characteristic(gatt.GATT_BATTERY_LEVEL_CHARACTERISTIC, Properties.READ, READABLE, b'\x61', [percent])])

    @staticmethod
    def information():
        values = {gatt.GATT_MANUFACTURER_NAME_STRING_CHARACTERISTIC: 'Prüfstand'.encode(),
                  gatt.GATT_MODEL_NUMBER_STRING_CHARACTERISTIC: b'Foreign stack',
                  gatt.GATT_SYSTEM_ID_CHARACTERISTIC: bytes(8)}
        return Service(gatt.GATT_DEVICE_INFORMATION_SERVICE, [
            Characteristic(uuid, Properties.READ, READABLE, value) for uuid, value in values.items()])

    def test(self, battery):
        both = Properties.READ | Properties.WRITE
        permissions = READABLE | WRITEABLE
        described = [
            Descriptor(gatt.GATT_CHARACTERISTIC_USER_DESCRIPTION_DESCRIPTOR, READABLE, 'Größe'.encode()),
            Descriptor(gatt.GATT_CHARACTERISTIC_PRESENTATION_FORMAT_DESCRIPTOR, READABLE,
                       struct.pack('<BbHBH', 0x19, 0, 0x2700, 1, 0)),
            Descriptor(UUID(common.OWN_DESCRIPTOR), READABLE, bytes(range(40)))]
        return Service(common.TEST_SERVICE, [
            Characteristic(common.FIXED, Properties.READ, READABLE, b'fixed'),
            Characteristic(common.KEPT, both, permissions, CharacteristicValue(
                read=lambda _: self.kept, write=lambda _, value: self.keep(common.KEPT, value))),
            Characteristic(common.COMMANDS, Properties.WRITE_WITHOUT_RESPONSE, WRITEABLE, CharacteristicValue(
                write=lambda _, value: self.keep(common.COMMANDS, value))),
            self.notified,
            self.indicated,
            Characteristic(common.LONG, both, permissions, bytes(index * 7 % 256 for index in range(512))),
            Characteristic(common.DESCRIBED, Properties.READ, READABLE, b'described', described),
            Characteristic(common.REFUSING, both, permissions, CharacteristicValue(self.refuse, self.refuse)),
            Characteristic(common.CONTROL, Properties.WRITE, WRITEABLE, CharacteristicValue(write=self.control)),
        ], included_services=[battery])

    def keep(self, uuid, value):
        self.kept = bytes(value)
        event('written', uuid=uuid, value=value.hex())

    @staticmethod
    def refuse(_connection, _value=None):
        raise ATT_Error(ErrorCode(0x80))

    def control(self, connection, value):
        async def act():
            if value[:1] == b'\x01':
                self.hangs_up = True
            elif value[:1] == b'\x02':
                await self.device.l2cap_channel_manager.update_connection_parameters(connection, 16, 32, 0, 300)

        event('written', uuid=common.CONTROL, value=value.hex())
        self.spawn(act())

    def spawn(self, coroutine):
        task = asyncio.ensure_future(coroutine)
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
        return task

    # Connections

    def on_connection(self, connection):
        event('connected', peer=str(connection.peer_address))
        connection.on('connection_att_mtu_update', lambda: event('mtu', mtu=connection.att_mtu))
        connection.on('connection_parameters_update', lambda: event('parameters'))
        connection.on('disconnection', lambda reason: self.on_disconnection(connection, reason))

    def on_disconnection(self, connection, reason):
        for key in [key for key in self.senders if key[0] is connection]:
            self.senders.pop(key).cancel()
        event('disconnected', reason=int(reason))

    def on_subscription(self, connection, characteristic, notify, indicate):
        if common.uuid_text(characteristic.uuid) == common.SERVICE_CHANGED:
            return  # A host's own business: it has no values to be sent.
        event('subscription', uuid=common.uuid_text(characteristic.uuid), notify=notify, indicate=indicate)
        key = (connection, characteristic.handle)
        if sender := self.senders.pop(key, None):
            sender.cancel()
        if notify or indicate:
            self.senders[key] = self.spawn(self.send(connection, characteristic, indicate))
            if self.hangs_up:
                self.hangs_up = False
                self.spawn(self.hang_up(connection))

    @staticmethod
    async def hang_up(connection):
        # After some values: a disconnect may overtake what was sent just before it.
        await asyncio.sleep(0.3)
        await connection.disconnect()

    async def send(self, connection, characteristic, indicate):
        """Values as fast as a person would care for, from a counter."""
        server = self.device.gatt_server
        deliver = server.indicate_subscriber if indicate else server.notify_subscriber
        while True:
            await asyncio.sleep(0.05)
            self.count += 1
            value = bytes([0, 60 + self.count % 40]) if characteristic is self.measurement else struct.pack('<I', self.count)
            await deliver(connection, characteristic, value)


async def main(arguments):
    transport, device = await common.make_device(arguments.transport, arguments.name, arguments.address)
    Peripheral(device)
    await device.power_on()
    fields = [(AdvertisingData.FLAGS, b'\x06'),
              (AdvertisingData.COMPLETE_LIST_OF_16_BIT_SERVICE_CLASS_UUIDS, struct.pack('<HH', 0x180D, 0x180F)),
              (AdvertisingData.COMPLETE_LOCAL_NAME, arguments.name.encode())]
    response = [(AdvertisingData.COMPLETE_LIST_OF_128_BIT_SERVICE_CLASS_UUIDS, bytes(UUID(common.TEST_SERVICE)))]
    await device.start_advertising(
        auto_restart=True, advertising_interval_min=40, advertising_interval_max=60,
        advertising_data=bytes(AdvertisingData(fields)), scan_response_data=bytes(AdvertisingData(response)))
    event('advertising', address=str(device.random_address), name=arguments.name)
    await transport.source.terminated
    event('end')


if __name__ == '__main__':
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('transport')
    parser.add_argument('--name', default='Foreign P')
    parser.add_argument('--address', default='E1:00:00:00:00:01')
    common.run(main(parser.parse_args()))
