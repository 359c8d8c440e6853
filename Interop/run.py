# SPDX-License-Identifier: Apache-2.0
"""The interoperability tests: our stack and a foreign one, in both roles, on our radio and on the foreign one's controllers.

    python Interop/run.py --ble PATH/ble --captures FOLDER [SCENARIO…]

Prints `ok NAME` or `FAIL NAME: why` for each check; the exit code is 1 if one failed. The captures are for
check_capture.sh.
"""

import argparse
import contextlib
import json
import os
import pathlib
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time

import captures

HERE = pathlib.Path(__file__).resolve().parent


def test_uuid(number):
    """As in common.py, which cannot be imported without the foreign stack."""
    return f'B3A1{number:04X}-5D0C-4E7A-8F21-9C6D2E4B7A10'


SERVICE, FIXED, KEPT, COMMANDS, NOTIFIED, INDICATED, LONG, DESCRIBED, REFUSING, CONTROL = map(test_uuid, range(1, 11))
SERVICE_CHANGED, CLIENT_SUPPORTED_FEATURES = '2A05', '2B29'
PATTERN = bytes(index * 5 % 256 for index in range(512)).hex()


# How much longer than on an idle machine everything may take.
PATIENCE = float(os.environ.get('INTEROP_PATIENCE', '1'))


class Failed(Exception):
    """A check that failed; the text says why."""


class Program:
    """A program that prints JSON lines; they are waited for with a limit."""

    def __init__(self, words, log):
        self.words = [str(word) for word in words]
        self.events = []
        self.lines = queue.Queue()
        self.log = open(log, 'w')
        self.process = subprocess.Popen(self.words, stdout=subprocess.PIPE, stderr=self.log, text=True)
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            self.lines.put(line)
        self.lines.put(None)

    def next(self, deadline):
        try:
            line = self.lines.get(timeout=max(0.01, deadline - time.monotonic()))
        except queue.Empty:
            raise Failed(f'{self.name} printed nothing more in time') from None
        if line is None:
            raise Failed(f'{self.name} ended with {self.process.wait()}: {self.complaint()}')
        try:
            self.events.append(json.loads(line))
        except ValueError:
            raise Failed(f'{self.name} printed no JSON: {line[:200]!r}') from None
        return self.events[-1]

    def wait_for(self, event, limit=30, **fields):
        """The next event of that name with those fields."""
        deadline = time.monotonic() + limit * PATIENCE
        while True:
            found = self.next(deadline)
            if found.get('event') == event and all(found.get(key) == value for key, value in fields.items()):
                return found

    def finish(self, limit=60):
        """Waits for its end and gives its exit code; `events` has all that it printed."""
        deadline = time.monotonic() + limit * PATIENCE
        with contextlib.suppress(Failed):
            while True:
                self.next(deadline)
        try:
            return self.process.wait(max(0.01, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            raise Failed(f'{self.name} did not end in time') from None

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            try:
                self.process.wait(5 * PATIENCE)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.log.close()

    def complaint(self):
        with open(self.log.name) as file:
            return file.read()[-400:].strip() or 'without a word'

    @property
    def name(self):
        words = [word for word in self.words if not word.endswith(('python', 'python3'))]
        return ' '.join(pathlib.Path(words[0]).name.split() + words[1:3])


class Bench:
    """Starts the programs of one scenario, ends them after it, and runs its checks."""

    def __init__(self, arguments, scenario, folder):
        self.arguments = arguments
        self.scenario = scenario
        self.folder = folder
        self.programs = []
        self.failures = 0
        self.count = 0

    def start(self, *words):
        self.count += 1
        program = Program(words, self.folder / f'{self.scenario}-{self.count}.log')
        self.programs.append(program)
        return program

    def ble(self, *words, adapter=None):
        self.captures = self.count + 1
        options = ['--json']
        if adapter:
            options += ['--adapter', adapter,
                        '--capture', self.arguments.captures / f'interop-{self.scenario}-{self.captures}.btsnoop']
        return self.start(self.arguments.ble, *words, *options)

    def foreign(self, program, *words):
        return self.start(sys.executable, HERE / program, *words)

    def radio(self):
        """Our radio: where it listens for us, and for the foreign stack."""
        path = self.folder / f'{self.scenario}.radio'
        air = self.arguments.captures / f'interop-{self.scenario}-{self.count + 1}-air.pcap'
        sim = self.ble('sim', '--listen', f'unix:{path}', '--listen', 'tcp:127.0.0.1:0', '--air-capture', str(air))
        addresses = [sim.wait_for('listening')['address'] for _ in range(2)]
        tcp = next(address for address in addresses if address.startswith('tcp:'))
        return f'unix:{path}', 'tcp-client:' + tcp.removeprefix('tcp:')

    def one(self, *words, adapter, code=0):
        """A command of `ble` that ends by itself; gives what it printed."""
        program = self.ble(*words, '--timeout', str(20 * PATIENCE), adapter=adapter)
        found = program.finish()
        if found != code:
            raise Failed(f'{program.name} ended with {found} instead of {code}: {program.complaint()}')
        return program.events

    def check(self, name, body, *arguments, **keywords):
        """Runs a check; gives its result, or None where it failed."""
        try:
            result = body(*arguments, **keywords)
        except Failed as failure:
            self.failures += 1
            print(f'FAIL {self.scenario}: {name}: {failure}', flush=True)
            return None
        print(f'ok {self.scenario}: {name}', flush=True)
        return result

    def close(self):
        for program in reversed(self.programs):
            program.stop()


def expect(found, wanted, what):
    if found != wanted:
        raise Failed(f'{what} is {str(found)[:300]}, not {str(wanted)[:300]}')


def normal(services):
    """A tree without what only one of the explorers prints."""
    return [{
        'uuid': service['uuid'], 'handle': service['handle'], 'primary': service['primary'],
        'included': sorted(service['included']),
        'characteristics': [{
            key: characteristic[key] for key in ('uuid', 'handle', 'properties', 'value')
        } | {
            'descriptors': [{key: each[key] for key in ('uuid', 'handle', 'value')} for each in characteristic['descriptors']]
        } | own(characteristic) for characteristic in service['characteristics']]
    } for service in services]


def own(characteristic):
    """What takes the place of a value that differs from client to client: each has written its own."""
    if characteristic['uuid'] == CLIENT_SUPPORTED_FEATURES:
        return {'value': None}
    if characteristic['uuid'] == SERVICE_CHANGED:
        return {'descriptors': [{key: each[key] for key in ('uuid', 'handle')} for each in characteristic['descriptors']]}
    return {}


def lines(tree):
    return [json.dumps(characteristic) for service in tree for characteristic in service['characteristics']]


def same_trees(ours, theirs):
    if ours is None or theirs is None:
        raise Failed('one of the trees is missing')
    ours, theirs = normal(ours), normal(theirs)
    expect([service['uuid'] for service in ours], [service['uuid'] for service in theirs], 'our list of services')
    for own, foreign in zip(ours, theirs):
        for mine, other in zip(lines([own]), lines([foreign])):
            expect(mine, other, 'a characteristic as we see it')
        expect(own, foreign, f'the service {own["uuid"]} as we see it')
    values = [each['value'] for service in ours for each in service['characteristics'] if each['value'] is not None]
    if len(values) < 8:
        raise Failed(f'only {len(values)} values were read')


def our_tree(bench, name, adapter):
    return bench.one('explore', '--name', name, adapter=adapter)[0]['services']


def their_tree(central):
    return central.wait_for('tree')['services']


def their_steps(central, peripheral_events):
    """What the foreign central did with our peripheral, from its own events."""
    expect(central.finish(), 0, 'the exit code of the foreign central')
    reads = [event['value'] for event in central.events if event['event'] == 'read']
    expect(reads, [b'fixed'.hex(), 'cafe', PATTERN, '0102'], 'what the foreign central read')
    refused = [event['att_error'] for event in central.events if event['event'] == 'refused']
    if refused not in ([0x05], [0x0F]):
        raise Failed(f'reading what needs encryption was answered with {refused}')
    for uuid in (NOTIFIED, INDICATED):
        values = [int.from_bytes(bytes.fromhex(event['value']), 'little') for event in central.events
                  if event['event'] == 'value' and event['uuid'] == uuid]
        if len(values) < 3 or any(later <= earlier for earlier, later in zip(values, values[1:])):
            raise Failed(f'the values of {uuid} are {values}')
    for event in peripheral_events:
        event()


def foreign_explores_ours(bench, adapter, transport, second_adapter=None):
    """Our peripheral; the foreign central and then ours explore it, and have to see the same."""
    serve = bench.ble('serve', HERE / 'profile.json', adapter=adapter)
    bench.check('our peripheral advertises', serve.wait_for, 'advertising')
    steps = [f'read:{FIXED}', f'write:{KEPT}=cafe', f'read:{KEPT}', f'write:{LONG}={PATTERN}', f'read:{LONG}',
             f'command:{KEPT}=0102', f'read:{KEPT}', f'refused:{REFUSING}', f'subscribe:{NOTIFIED}=3',
             f'subscribe:{INDICATED}=3', f'unsubscribe:{NOTIFIED}', 'disconnect']
    # The tree first, so that both see the values as they were.
    first = bench.foreign('central.py', transport, '--name', 'Interop Own')
    theirs = bench.check('the foreign central explores it', their_tree, first)
    bench.check('the foreign central leaves', lambda: expect(first.finish(), 0, 'its exit code'))
    ours = bench.check('our central explores it', our_tree, bench, 'Interop Own', second_adapter or adapter)
    bench.check('both see the same tree and values', same_trees, ours, theirs)
    second = bench.foreign('central.py', transport, '--service', '180D', *steps)
    bench.check('the foreign central reads, writes and subscribes', their_steps, second, [
        lambda: serve.wait_for('written', characteristic=KEPT, value='cafe'),
        lambda: serve.wait_for('written', characteristic=LONG, value=PATTERN),
        lambda: serve.wait_for('written', characteristic=KEPT, value='0102'),
        lambda: serve.wait_for('subscribed', characteristic=NOTIFIED),
        lambda: serve.wait_for('unsubscribed', characteristic=NOTIFIED)])
    return serve


def ours_explores_foreign(bench, adapter, transport, second_transport=None):
    """The foreign peripheral; our central does everything with it."""
    peripheral = bench.foreign('peripheral.py', transport, '--name', 'Foreign P')
    bench.check('the foreign peripheral advertises', peripheral.wait_for, 'advertising')
    ours = bench.check('our central explores it', our_tree, bench, 'Foreign P', adapter)
    if second_transport:
        central = bench.foreign('central.py', second_transport, '--name', 'Foreign P')
        theirs = bench.check('the foreign central explores it', their_tree, central)
        bench.check('the foreign central leaves', lambda: expect(central.finish(), 0, 'its exit code'))
        bench.check('both see the same tree and values', same_trees, ours, theirs)

    def one(*words, code=0):
        return bench.one(words[0], '--name', 'Foreign P', SERVICE, *words[1:], adapter=adapter, code=code)

    def read(uuid, wanted):
        expect(one('read', uuid)[0]['value'], wanted, f'the value of {uuid}')

    def write(uuid, value, *options):
        one('write', uuid, value, *options)
        kept = peripheral.wait_for('written', limit=5)
        expect((kept['uuid'], kept['value']), (uuid, value), 'what arrived')

    def subscribe(uuid):
        values = [int.from_bytes(bytes.fromhex(event['value']), 'little')
                  for event in one('subscribe', uuid, '--count', '3')]
        expect(values, list(range(values[0], values[0] + 3)), 'what was sent')
        peripheral.wait_for('subscription', limit=5, uuid=uuid, notify=False, indicate=False)

    bench.check('read', read, FIXED, b'fixed'.hex())
    bench.check('long read of 512 octets', read, LONG, bytes(index * 7 % 256 for index in range(512)).hex())
    bench.check('write', write, KEPT, 'cafe')
    bench.check('read back', read, KEPT, 'cafe')
    bench.check('write command', write, COMMANDS, '0a0b', '--without-response')
    bench.check('long write of 512 octets', lambda: (one('write', LONG, PATTERN), read(LONG, PATTERN)))
    bench.check('notifications', subscribe, NOTIFIED)
    bench.check('indications', subscribe, INDICATED)
    bench.check('an application error reaches the user', one, 'read', REFUSING, code=1)
    bench.check('what does not exist is not found', one, 'read', '2A37', code=4)
    return peripheral, one


def scenario_ours_served(bench):
    adapter, transport = bench.radio()
    foreign_explores_ours(bench, adapter, transport)


def scenario_foreign_served(bench):
    adapter, transport = bench.radio()
    peripheral, one = ours_explores_foreign(bench, adapter, transport, transport)

    def lost(before, words):
        """A subscriber whose link ends; `before` makes it end."""
        listening = bench.ble('subscribe', '--name', 'Foreign P', SERVICE, NOTIFIED, adapter=adapter)
        peripheral.wait_for('subscription', uuid=NOTIFIED, notify=True)
        before()
        expect(listening.finish(20), 1, 'the exit code of the subscriber')
        for word in words:
            if word not in listening.complaint():
                raise Failed(f'it says: {listening.complaint()}')

    def peer_disconnects():
        one('write', CONTROL, '01')
        lost(lambda: peripheral.wait_for('disconnected'), ['disconnected', '0x13'])

    bench.check('the peripheral asks for other connection parameters', one, 'write', CONTROL, '02')
    bench.check('the peripheral disconnects', peer_disconnects)
    bench.check('a peripheral that dies is noticed', lost, peripheral.process.kill, ['disconnected', '0x08'])


def foreign_ports(bench, count):
    controllers = bench.foreign('controllers.py', '--count', count)
    return controllers.wait_for('ready')['ports']


def scenario_foreign_controllers_serve(bench):
    first, second, third = foreign_ports(bench, 3)
    foreign_explores_ours(bench, f'tcp:127.0.0.1:{first}', f'tcp-client:127.0.0.1:{second}', f'tcp:127.0.0.1:{third}')


def scenario_foreign_controllers_explore(bench):
    first, second = foreign_ports(bench, 2)
    ours_explores_foreign(bench, f'tcp:127.0.0.1:{first}', f'tcp-client:127.0.0.1:{second}')


def scenario_crowd(bench):
    """Ten foreign hosts at once, and in the middle of it the radio's process stands still."""
    path, transport = bench.radio()
    sim = bench.programs[-1]
    crowd = bench.foreign('crowd.py', transport, '--seconds', str(bench.arguments.seconds))
    if bench.check('ten foreign hosts meet', crowd.wait_for, 'up', 120) is None:
        return
    bench.check('they work', crowd.wait_for, 'round')

    def stop():
        sim.process.send_signal(signal.SIGSTOP)
        time.sleep(2)  # What is tested: for so long nobody has a radio.
        sim.process.send_signal(signal.SIGCONT)
        crowd.wait_for('round')

    bench.check('two seconds without the radio end no link', stop)

    def finish():
        expect(crowd.finish(bench.arguments.seconds + 60), 0, f'the exit code, after {crowd.events[-1:]},')
        summary = crowd.events[-1]
        expect(summary['event'], 'summary', 'the last event')
        if min(summary['values']) < 10 * bench.arguments.seconds or min(summary['writes']) < 2 * bench.arguments.seconds:
            raise Failed(f'too little was done: {summary}')
        # One a round leaves and comes back.
        expect(sum(summary['links']) > 5 or bench.arguments.seconds < 20, True, f'that some came back: {summary}')

    bench.check('every value and every write arrived, in order', finish)


def scenario_encrypted(bench):
    """An encrypted link on our radio: the air shows nothing of it but with the key, and then all that the hosts exchanged."""
    # For tshark's judgement is only what has names in it: it knows neither encrypted PDUs nor the newer Encryption Change.
    folder = bench.folder
    air, clear = folder / 'encrypted.pcap', bench.arguments.captures / 'interop-encrypted-clear-air.pcap'
    sim = bench.start(bench.arguments.ble, 'sim', '--json', '--listen', 'tcp:127.0.0.1:0', '--air-capture', air,
                      '--capture', folder / 'encrypted.btsnoop')
    address = sim.wait_for('listening')['address'].removeprefix('tcp:')
    hosts = bench.foreign('encrypted.py', f'tcp-client:{address}')
    paired = bench.check('two foreign hosts pair and encrypt', hosts.wait_for, 'paired', encrypted=True)
    if not paired:
        return
    bench.check('they exchange values', lambda: expect(hosts.finish(), 0, 'the exit code'))
    values = [event for event in hosts.events if event['event'] == 'value']
    bench.check('every value came back', lambda: expect(
        [event['read'] for event in values], [event['wrote'] for event in values], 'what was read'))
    sim.stop()

    def octets(path, pieces):
        return captures.frames(pieces(path))

    def compare():
        # The Central's host is the second that joined.
        hci = octets(folder / 'encrypted-2.btsnoop', captures.hci_pieces)
        shown = octets(clear, captures.air_pieces)
        for ours, theirs in (('sent', 'central'), ('received', 'peripheral')):
            if len(hci[ours]) < 40:
                raise Failed(f'only {len(hci[ours])} frames went over HCI')
            expect(shown.get(theirs), hci[ours], f'the frames of the {theirs} on air')

    def without():
        data = air.read_bytes()
        for event in values[2:]:
            if bytes.fromhex(event['wrote'])[:20] in data:
                raise Failed('the capture shows a value in clear')

    bench.check('without the key the capture shows no value', without)
    bench.check('it is decrypted with the key', lambda: expect(
        bench.start(bench.arguments.ble, 'decrypt', air, '--key', paired['key'], '--output', clear).finish(), 0, 'the exit code'))
    bench.check('then the air has the frames of HCI, octet for octet', compare)


def scenario_judge(bench):
    """The judge of the captures has to find each kind of fault, else its silence means nothing."""
    request, short = b'\x0a\x03\x00', b'\x0a\x03'

    def acl(flags, data):
        return b'\x02' + (0x40 | flags << 12).to_bytes(2, 'little') + len(data).to_bytes(2, 'little') + data

    def pdu(att):
        return len(att).to_bytes(2, 'little') + b'\x04\x00' + att

    # LE Connection Complete of the handle 0x0040, without which tshark warns of every packet of the link.
    connection = bytes.fromhex('043e130100400000010100000000e1180000004800 00')

    def judge(packets):
        path = bench.folder / 'judged.btsnoop'
        records = b''.join(
            len(packet).to_bytes(4, 'big') * 2 + bytes([0, 0, 0, 3 if packet[0] == 4 else 0]) + bytes(4)
            + (0x00E03AB44A676000 + index).to_bytes(8, 'big') + packet
            for index, packet in enumerate([connection] * bool(packets) + packets))
        path.write_bytes(b'btsnoop\0' + (1).to_bytes(4, 'big') + (1002).to_bytes(4, 'big') + records)
        command = [HERE / 'check_capture.sh', path]
        return subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode

    good = acl(0, pdu(request))
    long_pdu = pdu(b'\x12\x03\x00' + bytes(18))
    pieces = [acl(0, long_pdu[:10]), acl(1, long_pdu[10:20]), acl(1, long_pdu[20:])]
    cases = {
        'a good capture passes': ([good], 0),
        'a long PDU may be cut': ([good, *pieces], 0),
        'an unknown opcode is found': ([good, acl(0, pdu(b'\x7f\x00'))], 1),
        'a malformed PDU is found': ([good, acl(0, pdu(short))], 1),
        'a needless fragment is found': ([good, acl(0, long_pdu), *pieces], 1),
        'a PDU without its end is found': ([good, pieces[0], good], 1),
        'a length beyond the packet is found': ([good, acl(0, b'\x09' + pdu(request)[1:]), good], 1),
        'no request is no success': ([acl(0, pdu(b'\x0b\x01'))], 1),
        'no packet is no success': ([], 1),
    }
    for name, (packets, wanted) in cases.items():
        bench.check(name, lambda: expect(judge(packets), wanted, 'the verdict'))


SCENARIOS = {
    'judge': scenario_judge,
    'our-peripheral': scenario_ours_served,
    'foreign-peripheral': scenario_foreign_served,
    'our-peripheral-on-foreign-controllers': scenario_foreign_controllers_serve,
    'our-central-on-foreign-controllers': scenario_foreign_controllers_explore,
    'crowd': scenario_crowd,
    'encrypted': scenario_encrypted,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--ble', type=lambda path: pathlib.Path(path).resolve(), required=True)
    parser.add_argument('--captures', type=lambda path: pathlib.Path(path).resolve(), required=True)
    parser.add_argument('--seconds', type=float, default=60, help='how long the crowd works')
    parser.add_argument('scenarios', nargs='*', metavar='SCENARIO', help=f'of {", ".join(SCENARIOS)}; default all')
    arguments = parser.parse_args()
    arguments.captures.mkdir(parents=True, exist_ok=True)
    for name in ('COREBLUETOOTH_ADAPTER', 'COREBLUETOOTH_CAPTURE'):
        os.environ.pop(name, None)
    failures = 0
    with tempfile.TemporaryDirectory() as folder:
        for name in arguments.scenarios or SCENARIOS:
            bench = Bench(arguments, name, pathlib.Path(folder))
            try:
                SCENARIOS[name](bench)
            except Failed as failure:
                bench.failures += 1
                print(f'FAIL {name}: {failure}', flush=True)
            finally:
                bench.close()
            failures += bench.failures
    sys.exit(1 if failures else 0)


if __name__ == '__main__':
    main()
