#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws what an event costs in worlds of different sizes, from the row `growth`.

    Benchmarks/.build/release/bench growth | Benchmarks/plot_growth.py docs/air-growth.svg

The row itself is kept beside the picture, with the extension .json.
"""

import json
import math
import pathlib
import sys

WIDTH, HEIGHT = 640, 320
LEFT, RIGHT, TOP, BOTTOM = 64, 24, 40, 48


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    row = json.loads(sys.stdin.read().strip().splitlines()[-1])
    points = sorted((int(key.rsplit('-', 1)[1]), value) for key, value in row.items() if key.startswith('nanoseconds-'))
    low, high = math.log10(points[0][0]), math.log10(points[-1][0])
    top = 100 * math.ceil(max(value for _, value in points) * 1.3 / 100)

    def x(count):
        return LEFT + (WIDTH - LEFT - RIGHT) * (math.log10(count) - low) / (high - low)

    def y(value):
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * value / top

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<text x="{LEFT}" y="22" font-size="14">Processor time per event of the simulator, by devices in the world</text>',
    ]
    for step in range(0, top + 1, max(100, top // 400 * 100)):
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(step):.1f}" y2="{y(step):.1f}" stroke="#ddd"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y(step) + 4:.1f}" text-anchor="end">{step} ns</text>')
    for count, _ in points:
        parts.append(f'<text x="{x(count):.1f}" y="{HEIGHT - BOTTOM + 20}" text-anchor="middle">{count:,}</text>')
    line = ' '.join(f'{x(count):.1f},{y(value):.1f}' for count, value in points)
    parts.append(f'<polyline points="{line}" fill="none" stroke="#0060c0" stroke-width="2"/>')
    for count, value in points:
        parts.append(f'<circle cx="{x(count):.1f}" cy="{y(value):.1f}" r="4" fill="#0060c0"/>')
        parts.append(f'<text x="{x(count):.1f}" y="{y(value) - 10:.1f}" text-anchor="middle">{value:.0f}</text>')
    parts.append('</svg>')
    path = pathlib.Path(sys.argv[1])
    path.write_text('\n'.join(parts) + '\n')
    path.with_suffix('.json').write_text(json.dumps(row, indent=2) + '\n')


main()
