#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""All rows of the benchmark, ours and Bumble's in turn, as one table and as JSON.

    Benchmarks/run.py [--rounds N] [--core N] [--python PYTHON] [--json FILE] [ROW…]
    Benchmarks/run.py --allocations           # only what is exact, against Benchmarks/Thresholds

A row is measured in a process of its own, in rounds: ours, Bumble's, ours, … The table shows the best round of each by
processor time, since other programs on the machine can only make it worse, and the ratio of the two.
"""

import argparse
import datetime
import json
import os
import pathlib
import platform
import re
import signal
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
BUILD = HERE / '.build' / 'release'

# Row, what it is, and its bar: so many times Bumble, or a figure of its own.
ROWS = [
    ('read', 'sequential reads of a cached 20-octet value', ('ratio', 20)),
    ('read-by-delegate', "the same, answered by the app's delegate", None),
    ('notify', '244-octet notifications', ('ratio', 25)),
    ('write-command', '244-octet write commands', ('ratio', 25)),
    ('discovery', 'connect + discover 100 services × 5 characteristics × 2 descriptors', ('ratio', 20)),
    ('connect', 'connect + disconnect', ('ratio', 20)),
    ('advertising', 'advertising reports, HCI bytes to delegate, 1,000 addresses', ('rate', 100_000)),
    ('hci', 'HCI packets parsed', ('ratio', 40)),
    ('att', 'ATT server alone, one Read Request among 54 attributes', ('nanoseconds', 200)),
    ('links', 'ten connected pairs at 30 ms, every empty packet simulated', ('times', 1000)),
    ('memory', 'memory per simulated device, controller + host', ('octets', 8192)),
    ('allocations-layers', 'heap allocations per notification below BLESystem', ('allocations', 0)),
    ('allocations-api', 'heap allocations per notification, bytes to delegate', ('allocations', 3)),
    ('crowd', '10,000 advertisers at 100 ms, ten scanners, 1,000 connections', ('times', 1)),
    ('growth', 'an event of the simulator among 10,000 advertisers', None),
    ('serve-memory', 'resident memory of `ble serve`', ('resident', 40)),
    ('power-on', 'start of the process to `.poweredOn`', ('milliseconds', 50)),
]
WITHOUT_BUMBLE = {
    'att', 'allocations-layers', 'allocations-api', 'serve-memory', 'power-on', 'links', 'crowd', 'growth'}


def measure(command):
    environment = {key: value for key, value in os.environ.items() if not key.startswith('COREBLUETOOTH_')}
    environment['SWIFT_BACKTRACE'] = 'enable=no'
    begin = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment)
    elapsed = time.monotonic() - begin
    try:
        row = json.loads(done.stdout.strip().splitlines()[-1])
    except (IndexError, ValueError):
        sys.exit(f'{" ".join(map(str, command))} measured nothing (exit code {done.returncode}):\n{done.stderr[-2000:]}')
    row['process'] = elapsed
    return row


def serve_memory():
    """`ble serve` once it advertises, and after a second of that."""
    with tempfile.TemporaryDirectory() as state:
        environment = dict(os.environ, COREBLUETOOTH_STATE_DIR=state)
        command = [BUILD / 'ble', 'serve', HERE.parent / 'Examples/Profiles/heart-rate-sensor.json', '--adapter', 'virtual']
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment)
        process.stdout.readline()
        time.sleep(1)
        status = pathlib.Path(f'/proc/{process.pid}/status').read_text()
        process.send_signal(signal.SIGINT)
        process.wait()
    return {'row': 'serve-memory', 'count': 1, 'wall': 1, 'cpu': 0,
            'resident': int(re.search(r'VmRSS:\s+(\d+)', status).group(1)) / 1024}


def best(rounds):
    def cost(row):
        return row.get('resident', row.get('octets', row.get('allocations', row['cpu'] / row['count'])))
    return min(rounds, key=cost)


def figure(name, row):
    """What the table shows of a measurement."""
    if row is None:
        return '–'
    if 'times-real' in row:
        return f'{row["times-real"]:.1f} × real time'
    if name == 'growth':
        return f'{row["nanoseconds-10000"]:.0f} ns ({row["nanoseconds-100"]:.0f} among 100)'
    if 'octets' in row:
        return f'{row["octets"] / 1024:.1f} KiB'
    if 'allocations' in row:
        return f'{row["allocations"]:.2f}'
    if 'resident' in row:
        return f'{row["resident"]:.0f} MB'
    if name == 'power-on':
        return f'{row["process"] * 1000:.0f} ms'
    if name == 'discovery':
        return f'{row["cpu"] / row["count"] * 1000:.1f} ms'
    if name == 'att':
        return f'{row["cpu"] / row["count"] * 1e9:.0f} ns'
    rate = row['count'] / row['cpu']
    return f'{rate / 1e6:.1f} M/s' if rate >= 1e6 else f'{rate / 1000:.1f} k/s' if rate >= 1000 else f'{rate:.0f}/s'


def judge(bar, ours, theirs):
    """The bar in words, what there is in place of it, and whether that will do."""
    if bar is None:
        return 'shown', True
    kind, limit = bar
    if kind == 'ratio':
        return f'≥ {limit} ×', ratio(ours, theirs) >= limit
    if kind == 'times':
        return f'≥ {limit} × real time', ours['times-real'] >= limit
    if kind == 'rate':
        return f'≥ {limit // 1000} k/s', ours['count'] / ours['cpu'] >= limit
    if kind == 'nanoseconds':
        return f'< {limit} ns', ours['cpu'] / ours['count'] * 1e9 < limit
    if kind == 'octets':
        return f'≤ {limit // 1024} KiB', ours['octets'] <= limit
    if kind == 'resident':
        return f'< {limit} MB', ours['resident'] < limit
    if kind == 'milliseconds':
        return f'< {limit} ms', ours['process'] * 1000 < limit
    return f'≤ {limit}', ours['allocations'] <= limit


def ratio(ours, theirs, key='cpu'):
    return (theirs[key] / theirs['count']) / (ours[key] / ours['count'])


def allocations():
    """The exact figures against the thresholds that are kept; a lower figure than kept is told, so that it is kept."""
    good = True
    for file in sorted((HERE / 'Thresholds').glob('*.json')):
        kept = json.loads(file.read_text())
        found = best([measure([BUILD / 'bench', kept['row']]) for _ in range(3)])['allocations']
        is_met = found <= kept['allocations']
        good = good and is_met
        print(f'{"ok" if is_met else "FAIL"} {kept["row"]}: {found:.3f} allocations per notification, '
              f'at most {kept["allocations"]}')
    return 0 if good else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('rows', nargs='*')
    parser.add_argument('--rounds', type=int, default=3)
    parser.add_argument('--python', default=HERE.parent / '.build/interop/bin/python', help='one that has Bumble')
    parser.add_argument('--json', type=pathlib.Path, default=HERE / '.build/results.json')
    parser.add_argument('--core', type=int, help='keep ours and Bumble on this processor core')
    parser.add_argument('--allocations', action='store_true')
    arguments = parser.parse_args()
    if arguments.allocations:
        return allocations()
    if arguments.core is not None:
        os.sched_setaffinity(0, {arguments.core})  # Of this process and those that it starts.
    results = []
    print('| row | ours | Bumble | ratio (by the clock) | bar | |\n| --- | ---: | ---: | ---: | ---: | --- |')
    for name, text, bar in ROWS:
        if arguments.rows and name not in arguments.rows:
            continue
        ours, theirs = [], []
        for _ in range(arguments.rounds):
            ours.append(serve_memory() if name == 'serve-memory' else measure([BUILD / 'bench', name]))
            if name not in WITHOUT_BUMBLE:
                theirs.append(measure([arguments.python, HERE / 'bumble_rows.py', name]))
        mine, other = best(ours), best(theirs) if theirs else None
        words, is_met = judge(bar, mine, other)
        factor = '–'
        if other and 'octets' in mine:
            factor = f'{other["octets"] / mine["octets"]:.1f} ×'
        elif other:
            factor = f'{ratio(mine, other):.1f} × ({ratio(mine, other, "wall"):.1f})'
        print(f'| {text} | {figure(name, mine)} | {figure(name, other)} | {factor} | {words} '
              f'| {"" if bar is None else "met" if is_met else "**missed**"} |', flush=True)
        results.append({'row': name, 'text': text, 'bar': bar, 'met': is_met, 'ours': ours, 'bumble': theirs})
    processor = re.search(r'model name\s*: (.*)', pathlib.Path('/proc/cpuinfo').read_text())
    cores = f', on core {arguments.core} alone' if arguments.core is not None else ''
    machine = f'{processor.group(1) if processor else platform.machine()}, {os.cpu_count()} cores{cores}'
    load = os.getloadavg()[0]
    print(f'\n{datetime.date.today()}, {machine}, load {load:.1f}')
    arguments.json.parent.mkdir(exist_ok=True)
    arguments.json.write_text(json.dumps(
        {'date': str(datetime.date.today()), 'machine': machine, 'load': load, 'rows': results}, indent=1))
    return 0


if __name__ == '__main__':
    sys.exit(main())
