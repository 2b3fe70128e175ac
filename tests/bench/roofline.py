# SPDX-License-Identifier: BSD-2-Clause
"""Jobs of traces under the roofs of their GPU: `python -m tests.bench.roofline PICTURE.svg NAME=TRACE...`.

To the right: instructions a line of 64 bytes that a job loads or stores; upwards: instructions in a second, by the
model (docs/TIME.md); both by powers of ten. A job is a circle, whose area is its share of its replay's time. Roofs
are what the model allows a job of any size: instructions alone; lines that the first cache has; lines from DRAM.
One panel for each GPU.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path

from host_tools.accesses.job_times import job_times
from host_tools.model.timing import Chip, chip_of, timing_of
from host_tools.passes.pipeline import build
from host_tools.support.cache import written_whole
from host_tools.vgpu.binding import Dispatch
from trace_format.trace import Trace

WIDTH, PANEL, LEFT, RIGHT, TOP, GROUND = 760, 420, 72, 560, 48, 372
ACROSS, UPWARDS = (0.1, 1000.0), (0.01, 10.0)  # instructions a line; G instructions in a second
LARGEST = 20.0  # radius of a job that is all of its replay
COLOURS = ("#c1666b", "#3b6ea5", "#d4a13a", "#2f8f6b", "#7b5ea7", "#555555")
MANY = 1_000_000


@dataclass(frozen=True)
class Point:
    """A job: instructions a line, G instructions in a second, and its share of the replay's time."""

    across: float
    upwards: float
    share: float


def points(trace: Trace, chip: Chip) -> list[Point]:
    """A trace's jobs that a replay repeats."""
    rows = [(job, time.us) for job, time in job_times(trace, chip) if not job.prepares and job.dispatches]
    whole = sum(us for _, us in rows)
    found = []
    for job, us in rows:
        instructions = sum(row.instructions for row in job.dispatches)
        lines = sum(row.loaded_lines + row.stored_lines for row in job.dispatches)
        found.append(Point(instructions / max(lines, 1), instructions / us / 1e3, us / whole))
    return found


def roofs(chip: Chip) -> tuple[float, float, float]:
    """G instructions in a second at most; G lines in a second from the first cache, and from DRAM."""
    parts = timing_of(chip).time_parts
    nothing = {field.name: 0 for field in fields(Dispatch)} | {"groups": MANY}

    def each_us(**counts: int) -> float:
        time = parts(Dispatch(**{**nothing, **counts}), {**chip.values(), "start": 0.0})
        return MANY / (time.issue + time.lines + time.misses + time.memory) / 1e3

    hit = each_us(loaded_lines=MANY)
    missed = each_us(loaded_lines=MANY, first_misses=MANY, second_misses=MANY)
    return each_us(instructions=MANY), hit, missed


def _x(value: float) -> float:
    low, high = map(math.log10, ACROSS)
    return LEFT + (math.log10(min(max(value, ACROSS[0]), ACROSS[1])) - low) / (high - low) * (RIGHT - LEFT)


def _y(value: float) -> float:
    low, high = map(math.log10, UPWARDS)
    at = (math.log10(min(max(value, UPWARDS[0]), UPWARDS[1])) - low) / (high - low)
    return GROUND - at * (GROUND - TOP)


def panel(chip: Chip, traces: Sequence[tuple[str, list[Point]]]) -> str:
    """One GPU's picture, without its frame."""
    parts = [f'<text x="{LEFT}" y="24" font-weight="bold">{chip.title}, by the model</text>']
    for power in range(-1, 4):
        at = _x(10.0**power)
        parts.append(f'<path d="M{at:.1f} {TOP}V{GROUND}" stroke="#8884"/>')
        parts.append(f'<text x="{at:.1f}" y="{GROUND + 16}" text-anchor="middle">{10.0**power:g}</text>')
    for power in range(-2, 2):
        at = _y(10.0**power)
        parts.append(f'<path d="M{LEFT} {at:.1f}H{RIGHT}" stroke="#8884"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{at + 4:.1f}" text-anchor="end">{10.0**power:g}</text>')
    under = f'x="{(LEFT + RIGHT) / 2}" y="{GROUND + 34}" text-anchor="middle"'
    parts.append(f"<text {under}>instructions a line of 64 bytes</text>")
    parts.append(f'<text x="14" y="{TOP - 8}">G instructions a second</text>')
    issue, *slopes = roofs(chip)
    for rate, dash in zip(slopes, ("", ' stroke-dasharray="5 4"'), strict=True):
        low, corner = max(ACROSS[0], UPWARDS[0] / rate), issue / rate
        way = f"M{_x(low):.1f} {_y(low * rate):.1f}L{_x(corner):.1f} {_y(issue):.1f}H{RIGHT}"
        parts.append(f'<path d="{way}" fill="none" stroke="#333"{dash}/>')
    for at, (name, found) in enumerate(traces):
        colour = COLOURS[at % len(COLOURS)]
        for point in found:
            radius = max(2.0, LARGEST * math.sqrt(point.share))
            place = f'cx="{_x(point.across):.1f}" cy="{_y(point.upwards):.1f}" r="{radius:.1f}"'
            parts.append(f'<circle {place} fill="{colour}" fill-opacity="0.45" stroke="{colour}"/>')
        parts.append(f'<circle cx="{RIGHT + 24}" cy="{TOP + 20 * at}" r="6" fill="{colour}"/>')
        parts.append(f'<text x="{RIGHT + 36}" y="{TOP + 4 + 20 * at}">{name}</text>')
    legend = TOP + 20 * len(traces) + 8
    for line, (words, dash) in enumerate((("first cache", ""), ("DRAM", ' stroke-dasharray="5 4"'))):
        at = legend + 20 * line
        parts.append(f'<path d="M{RIGHT + 16} {at}h16" stroke="#333"{dash}/>')
        parts.append(f'<text x="{RIGHT + 36}" y="{at + 4}">lines from {words}</text>')
    return "\n".join(parts)


def drawn(panels: Sequence[str]) -> str:
    """SVG of panels, one below the other."""
    body = "\n".join(f'<g transform="translate(0 {PANEL * at})">\n{one}\n</g>' for at, one in enumerate(panels))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {PANEL * len(panels)}" '
        'font-family="sans-serif" font-size="12">\n<rect width="100%" height="100%" fill="#fff"/>\n'
        f"{body}\n</svg>\n"
    )


def main(arguments: list[str] | None = None) -> int:
    """Draw the picture."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.roofline", description=__doc__)
    parser.add_argument("picture", type=Path)
    parser.add_argument("traces", nargs="+", metavar="NAME=TRACE", help="recordings or built traces")
    options = parser.parse_args(arguments)
    by_gpu: dict[str, list[tuple[str, list[Point]]]] = {}
    for named in options.traces:
        name, _, path = named.partition("=")
        trace = Trace.read(path)
        trace = build(trace) if not trace.notes.get("passes") else trace
        by_gpu.setdefault(trace.gpu, []).append((name, points(trace, chip_of(trace.gpu))))
    panels = [panel(chip_of(gpu), found) for gpu, found in by_gpu.items()]
    with written_whole(options.picture) as temporary:
        temporary.write_text(drawn(panels), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
