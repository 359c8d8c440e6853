# SPDX-License-Identifier: Apache-2.0
"""Controllers of a foreign stack on one virtual radio, each an HCI (H4) server on TCP.

    python Interop/controllers.py --count 2        # prints {"event": "ready", "ports": [...]}

Each client gets a new controller, since HCI_Reset resets nothing in these; when it leaves, its links end.
"""

import argparse
import asyncio

from bumble import hci, ll
from bumble.controller import Controller
from bumble.link import LocalLink
from bumble.transport.common import PacketParser

import common
from common import event


class Port(asyncio.Protocol):
    """One client of one server; the controller lives as long as the connection."""

    def __init__(self, slot, link, acl_length):
        self.slot = slot
        self.link = link
        self.acl_length = acl_length
        self.controller = None

    def connection_made(self, transport):
        self.transport = transport
        self.parser = PacketParser()
        self.controller = Controller(f'foreign {self.slot}', host_source=self.parser, host_sink=self, link=self.link,
                                     public_address=f'0E:00:00:00:00:{self.slot:02X}')
        self.controller.le_acl_data_packet_length = self.acl_length
        event('joined', slot=self.slot)

    def on_packet(self, packet):
        """A packet of the controller for its host."""
        if not self.transport.is_closing():
            self.transport.write(packet)

    def data_received(self, data):
        try:
            self.parser.feed_data(data)
        except Exception as error:  # What it cannot parse or do ends the connection, as a crash of a real one would.
            event('broke', slot=self.slot, error=f'{type(error).__name__}: {error}')
            self.transport.abort()

    def connection_lost(self, _reason):
        controller, self.controller = self.controller, None
        if controller is None:
            return
        controller.hci_sink = None
        controller.le_legacy_advertiser.stop()
        for advertising_set in controller.advertising_sets.values():
            advertising_set.stop()
        for connection in list(controller.le_connections.values()):
            try:
                connection.send_ll_control_pdu(ll.TerminateInd(hci.HCI_ErrorCode.CONNECTION_TIMEOUT_ERROR))
            except Exception as error:
                event('left badly', slot=self.slot, error=str(error))
        asyncio.get_running_loop().call_soon(self.link.remove_controller, controller)
        event('left', slot=self.slot)


async def main(arguments):
    link = LocalLink()
    loop = asyncio.get_running_loop()
    servers = [await loop.create_server(lambda slot=slot: Port(slot, link, arguments.acl_length), '127.0.0.1', 0)
               for slot in range(1, arguments.count + 1)]
    event('ready', ports=[server.sockets[0].getsockname()[1] for server in servers])
    await asyncio.Event().wait()


if __name__ == '__main__':
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--count', type=int, default=2)
    parser.add_argument('--acl-length', type=int, default=251, help='octets of its ACL buffers')
    common.run(main(parser.parse_args()))
