# SPDX-License-Identifier: Apache-2.0
"""In the guest: our host takes an adapter of the Linux kernel by its HCI user channel, and does everything with a foreign
peripheral on another adapter.

    LAB_OUT=FOLDER KernelLab/run.sh .build/interop/bin/python KernelLab/test.py --ble PATH/ble --captures FOLDER

The adapters are controllers of our radio that the kernel got through /dev/vhci. Prints lines as Interop/run.py does.
"""

import argparse
import ctypes
import errno
import fcntl
import os
import pathlib
import socket
import struct
import sys
import tempfile
import time

# Emulated, everything takes 15 to 50 times as long.
os.environ.setdefault('INTEROP_PATIENCE', '6')
HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / 'Interop'))

from run import Bench, Failed, PATIENCE, expect, ours_explores_foreign  # noqa: E402

PYTHON = '/usr/bin/python3'
USER_CHANNEL = 1  # HCI_CHANNEL_USER
HCIDEVUP = 0x400448C9


def hci_socket():
    return socket.socket(socket.AF_BLUETOOTH, socket.SOCK_RAW, socket.BTPROTO_HCI)


def user_channel(index):
    """Takes the user channel and gives it back at once; the error number, 0 where that worked."""
    libc = ctypes.CDLL(None, use_errno=True)
    address = struct.pack('<HHH', socket.AF_BLUETOOTH, index, USER_CHANNEL)
    with hci_socket() as attempt:
        return ctypes.get_errno() if libc.bind(attempt.fileno(), address, len(address)) else 0


def wait_until_set_up(index):
    """Until the kernel gives the adapter away; the foreign stack does not wait for that."""
    deadline = time.monotonic() + 20 * PATIENCE
    while number := user_channel(index):
        if time.monotonic() > deadline:
            raise Failed(f'hci{index} is not set up: {os.strerror(number)}')
        time.sleep(0.5)


class Lab(Bench):
    """Our radio, and its controllers as the kernel's adapters."""

    def start_radio(self):
        self.path = self.folder / 'radio'
        self.ble('sim', '--listen', f'unix:{self.path}').wait_for('listening')
        self.start(PYTHON, HERE / 'guest/monitor.py', self.arguments.captures).wait_for('recording')

    def plug_in(self, name, *options):
        adapter = self.start(PYTHON, HERE / 'guest/vhci.py', self.path, *options)
        expect(adapter.wait_for('adapter')['name'], name, 'the new adapter')
        return adapter

    def refused(self, adapter, *words, prefix=()):
        """A command that does not get its adapter; it says why."""
        program = self.start(*prefix, self.arguments.ble, 'scan', '--for', '1', '--adapter', adapter)
        code = program.finish()
        text = program.complaint()
        expect(code, 3, f'the exit code ({text})')
        for word in words:
            if word not in text:
                raise Failed(f'it does not say {word!r}: {text}')


def scan(bench):
    names = [event.get('name') for event in bench.one('scan', '--for', '10', adapter='hci0')]
    if 'Foreign P' not in names:
        raise Failed(f'the scan found {names}')


def set_up_slowly(bench):
    """An adapter that was just plugged in is waited for."""
    bench.plug_in('hci2', '--slow', '5')
    expect(user_channel(2), errno.EBUSY, 'what the kernel answers before it has set it up')
    program = bench.start(bench.arguments.ble, 'scan', '--for', '1', '--adapter', 'hci2')
    expect(program.finish(), 0, f'the exit code ({program.complaint()})')


def never_set_up(bench):
    """A controller that never answers, not even the kernel."""
    bench.plug_in('hci3', '--deaf')
    bench.refused('hci3', 'Device or resource busy', 'the kernel has not set it up')


def one_capability(bench):
    """CAP_NET_ADMIN is enough."""
    program = bench.start('setpriv', '--bounding-set', '-all,+net_admin', bench.arguments.ble, 'scan', '--for', '1',
                          '--adapter', 'hci0')
    expect(program.finish(), 0, f'the exit code ({program.complaint()})')


def brought_down(bench):
    """An adapter that the kernel's own host uses is taken all the same."""
    with hci_socket() as control:
        fcntl.ioctl(control, HCIDEVUP, 0)
    scan(bench)


def held(bench):
    holder = bench.ble('scan', adapter='hci0')
    holder.next(time.monotonic() + 60 * PATIENCE)
    try:
        bench.refused('hci0', 'Device or resource busy', 'another program', f'ble (process {holder.process.pid})')
    finally:
        holder.stop()


def pulled_out(bench, adapter):
    """A program whose adapter goes away uses it again when it is back."""
    serve = bench.ble('serve', HERE.parent / 'Interop/profile.json', adapter='hci0')
    serve.wait_for('advertising')
    adapter.stop()
    serve.wait_for('state', state='resetting')
    serve.wait_for('state', state='poweredOff')
    if 'the adapter is gone' not in serve.complaint():
        raise Failed(f'it says: {serve.complaint()}')
    bench.plug_in('hci0')
    serve.wait_for('advertising')
    serve.stop()


def records(path):
    """The packets of a capture, each with its direction: 0 sent, 1 received."""
    data = path.read_bytes()
    position = 16
    while position + 24 <= len(data):
        _, size, flags = struct.unpack_from('>III', data, position)
        yield flags & 1, data[position + 24:position + 24 + size]
        position += 24 + size


def same_record(bench):
    """What we captured is, in order, what the kernel saw on hci0."""
    captures = bench.arguments.captures
    ours = sorted(captures.glob('interop-kernel-*.btsnoop'), key=lambda path: int(path.stem.rpartition('-')[2]))
    for way, name in enumerate(['sent', 'received']):
        kernel = (packet for found, packet in records(captures / 'kernel-hci0.btsnoop') if found == way)
        count = 0
        for path in ours:
            for found, packet in records(path):
                if found != way:
                    continue
                count += 1
                if packet not in kernel:  # Goes on from the last one found.
                    raise Failed(f'packet {packet.hex()} {name} in {path.name} is not in the record of the kernel')
        if count < 100:
            raise Failed(f'only {count} packets were {name}')


def run(bench):
    bench.start_radio()
    first = bench.plug_in('hci0')
    bench.plug_in('hci1')
    bench.check('the kernel sets up both adapters', lambda: (wait_until_set_up(0), wait_until_set_up(1)))
    ours_explores_foreign(bench, 'hci0', 'hci-socket:1')
    bench.check('scan', scan, bench)
    bench.check('an adapter that the kernel still sets up is waited for', set_up_slowly, bench)
    bench.check('an adapter that it cannot set up is refused', never_set_up, bench)
    bench.check('an adapter that is up is brought down', brought_down, bench)
    bench.check('an adapter that we hold is refused', held, bench)
    bench.check('an adapter that a foreign program holds is refused', bench.refused, 'hci1', 'Device or resource busy',
                'another program', 'python')
    bench.check('an adapter that does not exist is refused', bench.refused, 'hci7', 'No such device', 'ls /sys/class')
    bench.check('without the capability it is refused', bench.refused, 'hci0', 'Operation not permitted', 'CAP_NET_ADMIN',
                prefix=('setpriv', '--bounding-set', '-net_admin'))
    bench.check('no other capability is needed', one_capability, bench)
    bench.check('an adapter that is pulled out is used again when it is back', pulled_out, bench, first)
    bench.check('the kernel saw what we captured', same_record, bench)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--ble', type=lambda path: pathlib.Path(path).resolve(), required=True)
    parser.add_argument('--captures', type=lambda path: pathlib.Path(path).resolve(), required=True)
    arguments = parser.parse_args()
    if not os.path.exists('/dev/vhci'):
        sys.exit('this is for the guest: KernelLab/run.sh runs it there')
    with tempfile.TemporaryDirectory() as folder:
        bench = Lab(arguments, 'kernel', pathlib.Path(folder))
        try:
            run(bench)
        except Failed as failure:
            bench.failures += 1
            print(f'FAIL kernel: {failure}', flush=True)
        finally:
            bench.close()
            if bench.failures:
                os.system('dmesg | grep -i bluetooth | tail -n 30 >&2')
    sys.exit(1 if bench.failures else 0)


if __name__ == '__main__':
    main()
