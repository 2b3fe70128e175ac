# SPDX-License-Identifier: BSD-2-Clause
"""GPU memory by address and over time: of what is mapped, only what jobs touched.

Working memory has a row a region, weights, code and the like one row each: of these it is of interest how much
there is, not where. Lengths are CSS pixels of the plot's view box.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from host_tools.audit.report import facts
from host_tools.audit.report.facts import Region, Report

LEFT, WIDE, ROW, TOP, TALL = 300, 760, 15, 18, 90
MOST = 36  # rows of working memory
LEAST = 1.2  # width of a mark, so that it can be seen
TICKS = 10


@dataclass(frozen=True)
class Mark:
    """Consecutive jobs that did the same to a row: reads are its lower half, writes its upper half."""

    x: float
    width: float
    read: bool
    written: bool


@dataclass(frozen=True)
class Lane:
    """A row: one region, or several."""

    y: int
    title: str
    regions: tuple[int, ...]
    bytes: int
    marks: list[Mark]


@dataclass(frozen=True)
class MemoryChart:
    """The plot.

    Attributes:
        live: the outline of how many bytes of addresses of working memory are in use, from the first job that
            touches a region to the last; memory with several addresses counts at each. "" where there is none.
        peak: its highest point in bytes, and at which job.
        untouched: regions that no job touched: how many, and their bytes.
    """

    width: int
    height: int
    lanes: list[Lane]
    ticks: list[tuple[int, float]]
    live: str
    peak: tuple[int, int]
    untouched: tuple[int, int]


def group_of(region: Region, parameters: set[str]) -> str:
    """What one row has of a region that no job writes; "" for working memory, inputs and outputs."""
    if any(did.written for did in region.did or ()) or not set(region.slots) <= parameters:
        return ""
    if region.code_of:
        return "code"
    return "uniforms and descriptors" if region.named_by and not region.slots else "weights and constants"


def memory_chart(report: Report) -> MemoryChart | None:
    """The plot; None: nobody has seen what jobs touch."""
    if not report.jobs or any(region.did is None for region in report.regions):
        return None
    touched = [(at, region) for at, region in enumerate(report.regions) if region.did]
    parameters = {slot.name for slot in report.slots if slot.kind == "parameter"}
    groups: dict[str, list[int]] = {}
    working: list[int] = []
    for at, region in touched:
        if group := group_of(region, parameters):
            groups.setdefault(group, []).append(at)
        else:
            working.append(at)
    rows = [(name, tuple(found)) for name, found in sorted(groups.items())]
    shown = sorted(sorted(working, key=lambda at: (-report.regions[at].bytes, at))[:MOST])
    rows += [(_title(report.regions[at]), (at,)) for at in shown]
    if rest := tuple(at for at in working if at not in set(shown)):
        rows.append((f"{len(rest)} smaller regions", rest))
    top = TOP + TALL + TOP
    lanes = [
        Lane(
            top + ROW * number,
            title,
            found,
            sum(report.regions[at].bytes for at in found),
            _marks(report, found),
        )
        for number, (title, found) in enumerate(rows)
    ]
    live, peak = _live(report, working)
    quiet = [region for region in report.regions if not region.did]
    jobs = len(report.jobs)
    step = max(1, jobs // TICKS)
    return MemoryChart(
        LEFT + WIDE + 8,
        top + ROW * len(lanes) + 4,
        lanes,
        [(job, _x(report, job)) for job in range(0, jobs, step)],
        live,
        peak,
        (len(quiet), sum(region.bytes for region in quiet)),
    )


def _title(region: Region) -> str:
    return f"{region.address:#010x}" + (f" {', '.join(region.slots)}" if region.slots else "")


def _x(report: Report, job: int) -> float:
    return round(LEFT + WIDE * job / len(report.jobs), 1)


def _marks(report: Report, regions: Sequence[int]) -> list[Mark]:
    read: set[int] = set()
    written: set[int] = set()
    for at in regions:
        for did in report.regions[at].did or ():
            if did.read:
                read.add(did.job)
            if did.written:
                written.add(did.job)
    stretches: list[list[int]] = []
    for job in sorted(read | written):
        how = job in read, job in written
        if (
            stretches
            and stretches[-1][1] == job
            and how == (stretches[-1][0] in read, stretches[-1][0] in written)
        ):
            stretches[-1][1] = job + 1
        else:
            stretches.append([job, job + 1])
    return [
        Mark(
            _x(report, first),
            max(LEAST, round(_x(report, end) - _x(report, first), 1)),
            first in read,
            first in written,
        )
        for first, end in stretches
    ]


def _live(report: Report, working: Sequence[int]) -> tuple[str, tuple[int, int]]:
    """Addresses of working memory in use, job by job: an outline, and its highest point."""
    jobs = len(report.jobs)
    change = [0] * (jobs + 1)
    for at in working:
        region = report.regions[at]
        numbers = [did.job for did in region.did or ()]
        change[min(numbers)] += region.bytes
        change[max(numbers) + 1] -= region.bytes
    sizes, now = [], 0
    for step in change[:jobs]:
        now += step
        sizes.append(now)
    most = max(sizes, default=0)
    if not most:
        return "", (0, 0)
    path = f"M{LEFT} {TOP + TALL}"
    for job, size in enumerate(sizes):
        if not job or size != sizes[job - 1]:
            path += f"H{_x(report, job)}V{round(TOP + TALL * (1 - size / most), 1)}"
    return f"{path}H{_x(report, jobs)}V{TOP + TALL}Z", (most, sizes.index(most))


def accesses(report: Report) -> list[list[tuple[int, facts.Did]]]:
    """Of each job the regions that it touched, by their places."""
    found: list[list[tuple[int, facts.Did]]] = [[] for _ in report.jobs]
    for at, region in enumerate(report.regions):
        for did in region.did or ():
            found[did.job].append((at, did))
    return found
