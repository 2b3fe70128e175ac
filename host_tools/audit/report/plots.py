# SPDX-License-Identifier: BSD-2-Clause
"""Where things are in the page's plots. They are drawn by the template, which escapes all text; here are numbers.

Lengths are in the units of each plot's view box: CSS pixels, but for bars, which are thousandths of the width.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from host_tools.audit.report import facts
from host_tools.audit.report.facts import Node, Report

WHOLE = 1000  # width of a bar that takes all
LEAST = 6  # of a bar, so that it can be seen
CELL, MAP_LEFT, MAP_TOP, TEXT = 20, 44, 22, 380
ROW, FLOW_LEFT, FLOW_TOP = 26, 116, 8
NARROW, WIDE = 16, 170  # how far an arc goes to the right
THICK = 6.0  # stroke of the edge with the most bytes


@dataclass(frozen=True)
class Bar:
    """A job on the time line: where it begins, how long it is, and its share in per cent."""

    start: float
    width: float
    share: float


def timeline(report: Report) -> tuple[str, list[Bar]]:
    """What a bar's length means, and a bar for each job."""
    work = [job.instructions or 0 for job in report.jobs]
    if sum(work):
        meaning = "shader instructions that the virtual GPU executed, job after job"
        edges = [0, *itertools.accumulate(work)]
    else:
        meaning = "position among the actions of the trace, from the start of one job to the start of the next"
        edges = [job.action for job in report.jobs] + [report.actions]
    first, total = edges[0], max(1, edges[-1] - edges[0])
    bars = []
    for start, end in itertools.pairwise(edges):
        width = max(LEAST, WHOLE * (end - start) / total)
        left = min(WHOLE * (start - first) / total, WHOLE - width)
        bars.append(Bar(round(left, 2), round(width, 2), 100 * (end - start) / total))
    return meaning, bars


@dataclass(frozen=True)
class Band:
    """Jobs in a row of the map that may touch a region."""

    x: int
    y: int
    width: int


@dataclass(frozen=True)
class Cell:
    """What a job did to a region: `how` is R, W or RW."""

    x: int
    y: int
    how: str
    did: facts.Did


@dataclass(frozen=True)
class Row:
    """A region in the map."""

    number: int
    y: int
    region: facts.Region
    bands: list[Band]
    cells: list[Cell]


@dataclass(frozen=True)
class MemoryMap:
    """Regions as rows, jobs as columns; what regions are for is said from `text_x` on."""

    width: int
    height: int
    text_x: int
    columns: list[tuple[int, int]]
    rows: list[Row]


def memory_map(report: Report) -> MemoryMap:
    """The map of GPU memory."""
    rows = []
    for number, region in enumerate(report.regions):
        y = MAP_TOP + CELL * number
        bands = [Band(_column(first), y, CELL * (last - first + 1)) for first, last in runs(region.may)]
        cells = [
            Cell(_column(did.job), y, "R" * bool(did.read) + "W" * bool(did.written), did)
            for did in region.did or []
        ]
        rows.append(Row(number, y, region, bands, cells))
    jobs = len(report.jobs)
    return MemoryMap(
        MAP_LEFT + CELL * jobs + 8 + TEXT,
        MAP_TOP + CELL * max(1, len(rows)) + 4,
        MAP_LEFT + CELL * jobs + 8,
        [(job, _column(job)) for job in range(jobs)],
        rows,
    )


def _column(job: int) -> int:
    return MAP_LEFT + CELL * job


def runs(numbers: Sequence[int]) -> list[tuple[int, int]]:
    """Ascending numbers as stretches without a gap: first and last of each."""
    found: list[tuple[int, int]] = []
    for number in numbers:
        if found and found[-1][1] + 1 == number:
            found[-1] = found[-1][0], number
        else:
            found.append((number, number))
    return found


@dataclass(frozen=True)
class Arc:
    """An edge between two rows: the path, its end, its stroke, whether it passes over other rows."""

    path: str
    tip: str
    stroke: float
    far: bool
    edge: facts.Edge


@dataclass(frozen=True)
class FlowPlot:
    """Inputs, jobs and outputs as rows, data flow as arcs. `rows`: node, y."""

    width: int
    height: int
    rows: list[tuple[Node, int]]
    arcs: list[Arc]


def flow_plot(report: Report) -> FlowPlot:
    """The data flow between slots and jobs; constants and zeros are in the table only."""
    results = [slot for slot in report.slots if slot.kind in ("internal", "output")]
    given = [slot for slot in report.slots if slot not in results]
    nodes = [Node(facts.SLOT, slot=slot.name) for slot in given]
    nodes += [Node(facts.JOB, job=job.number) for job in report.jobs]
    nodes += [Node(facts.SLOT, slot=slot.name) for slot in results]
    place = {node: number for number, node in reversed(list(enumerate(nodes)))}
    edges = [edge for edge in report.flow.edges if edge.source in place and edge.target in place]
    most = math.log2(1 + max((edge.bytes for edge in edges), default=1))
    arcs = []
    for edge in edges:
        source, target = place[edge.source], place[edge.target]
        y1, y2 = _middle(source), _middle(target)
        out = min(WIDE, NARROW + 9 * abs(target - source))
        path = f"M{FLOW_LEFT} {y1}C{FLOW_LEFT + out} {y1} {FLOW_LEFT + out} {y2} {FLOW_LEFT + 7} {y2}"
        tip = f"M{FLOW_LEFT} {y2}l8 -4v8z"
        stroke = round(1 + (THICK - 1) * math.log2(1 + edge.bytes) / most, 2)
        arcs.append(Arc(path, tip, stroke, abs(target - source) > 1, edge))
    rows = [(node, FLOW_TOP + ROW * number) for number, node in enumerate(nodes)]
    return FlowPlot(FLOW_LEFT + WIDE, FLOW_TOP + ROW * max(1, len(rows)) + 8, rows, arcs)


def _middle(row: int) -> int:
    return FLOW_TOP + ROW * row + ROW // 2
