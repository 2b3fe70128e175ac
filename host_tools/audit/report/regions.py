# SPDX-License-Identifier: BSD-2-Clause
"""The map of GPU memory: what page tables and descriptors let jobs touch, and what they touched."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from host_tools.accesses import data_flow
from host_tools.audit.jobs import JobFacts, Jobs
from host_tools.audit.report import facts
from host_tools.support.pages import pages_of
from trace_format.actions import MAP_EXECUTE, MAP_READ, MAP_WRITE
from trace_format.schema import PAGE_BYTES
from trace_format.trace import Trace

LETTERS = ((MAP_READ, "r"), (MAP_WRITE, "w"), (MAP_EXECUTE, "x"))
Page = tuple[int, int]  # address space, number


@dataclass
class _Pages:
    """Pages that become a region.

    Attributes:
        space, first, count: which ones.
        flags: MAP_*, in each of the epochs in which they are mapped.
        frames: where they lie, over all epochs.
    """

    space: int
    first: int
    flags: tuple[int | None, ...]
    count: int = 0
    frames: list[set[int]] = field(default_factory=list)

    @property
    def pages(self) -> range:
        """Their numbers."""
        return range(self.first, self.first + self.count)


def regions(trace: Trace, jobs: Jobs, run: data_flow.Run | None) -> list[facts.Region]:
    """All regions, by address space and address.

    Args:
        run: what jobs did; None: it is not known.
    """
    found = _consecutive(jobs)
    region_of = {(row.space, page): number for number, row in enumerate(found) for page in row.pages}
    by_frame: dict[int, set[int]] = defaultdict(set)
    places: Counter[int] = Counter()
    for number, row in enumerate(found):
        for frames in row.frames:
            places.update(frames)
            for frame in frames:
                by_frame[frame].add(number)
    slots: dict[int, list[str]] = defaultdict(list)
    for slot in trace.slots:
        for number in _touched(region_of, slot.address_space, slot.address, slot.span):
            slots[number].append(slot.name)
    code_of, named_by = _named(jobs.jobs, region_of)
    did = _did(run, by_frame) if run is not None else None
    image_pages = -(-len(trace.image) // PAGE_BYTES)
    return [
        facts.Region(
            address_space=row.space,
            address=row.first * PAGE_BYTES,
            bytes=row.count * PAGE_BYTES,
            access=_letters(row.flags),
            image_bytes=PAGE_BYTES * sum(any(frame < image_pages for frame in frames) for frames in row.frames),
            shared_bytes=PAGE_BYTES * sum(any(places[frame] > 1 for frame in frames) for frames in row.frames),
            slots=slots[number],
            code_of=sorted(code_of[number]),
            named_by=sorted(named_by[number]),
            may=_may(row, jobs),
            did=None if did is None else did.get(number, []),
        )
        for number, row in enumerate(found)
    ]


def writable_bytes(jobs: Jobs) -> int:
    """How much memory page tables let jobs write; a page with several addresses counts once."""
    mappings = (mapping for epoch in jobs.epochs for mapping in epoch.values())
    return PAGE_BYTES * len({mapping.frame for mapping in mappings if mapping.flags & MAP_WRITE})


def _consecutive(jobs: Jobs) -> list[_Pages]:
    found: list[_Pages] = []
    for space, page in sorted({key for epoch in jobs.epochs for key in epoch}):
        mappings = [epoch.get((space, page)) for epoch in jobs.epochs]
        flags = tuple(mapping.flags if mapping else None for mapping in mappings)
        last = found[-1] if found else None
        if last is None or (last.space, last.first + last.count, last.flags) != (space, page, flags):
            last = _Pages(space, page, flags)
            found.append(last)
        last.count += 1
        last.frames.append({mapping.frame for mapping in mappings if mapping})
    return found


def _touched(region_of: dict[Page, int], space: int, va: int, size: int) -> list[int]:
    """Regions that a stretch of memory lies in, each once."""
    numbers = (region_of.get((space, page)) for page in pages_of(va, size))
    return sorted({number for number in numbers if number is not None})


def _named(
    jobs: Sequence[JobFacts], region_of: dict[Page, int]
) -> tuple[dict[int, set[int]], dict[int, set[int]]]:
    """Region -> jobs whose code lies there; region -> jobs that name something else there."""
    code: dict[int, set[int]] = defaultdict(set)
    other: dict[int, set[int]] = defaultdict(set)
    for job in jobs:
        for shader in job.codes:
            for number in _touched(region_of, shader.space, shader.va, max(1, len(shader.data))):
                code[number].add(job.number)
        for item in job.named:
            if not item.is_code:
                for number in _touched(region_of, 0, item.va, item.size):
                    other[number].add(job.number)
    return code, other


def _may(row: _Pages, jobs: Jobs) -> list[int]:
    """Jobs that may touch it: where chains can be followed those that reach it, else all that find it mapped."""
    if jobs.followed is None:
        return [job.number for job in jobs.jobs if row.flags[job.epoch] is not None]
    found: set[int] = set()
    for reached in jobs.followed.reached:
        if reached.space == row.space and reached.end > row.first and reached.first < row.first + row.count:
            found |= reached.jobs
    return sorted(found)


def _did(run: data_flow.Run, by_frame: dict[int, set[int]]) -> dict[int, list[facts.Did]]:
    """Region -> what jobs did there. A page with several addresses counts at each of them."""
    found: dict[int, list[facts.Did]] = defaultdict(list)
    for number, job in enumerate(run.jobs):
        read: Counter[int] = Counter()
        written: Counter[int] = Counter()
        for counts, by_region in ((job.read, read), (job.written, written)):
            for frame, size in counts.items():
                for region in by_frame.get(frame, ()):
                    by_region[region] += size
        for region in sorted({*read, *written}):
            found[region].append(facts.Did(number, read[region], written[region]))
    return found


def _letters(flags: tuple[int | None, ...]) -> str:
    """What page tables allow in some epoch."""
    every = 0
    for value in flags:
        every |= value or 0
    return "".join(letter for bit, letter in LETTERS if every & bit)
