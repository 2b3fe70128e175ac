# SPDX-License-Identifier: BSD-2-Clause
"""Where a dispatch's time goes, as a family tells it by the constants of a chip."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from host_tools.vgpu.binding import Dispatch
from trace_format.trace import Trace

Values = Mapping[str, float]  # constants of a chip by name, in the units that its timing.toml states


@dataclass(frozen=True)
class Parts:
    """Time of one dispatch by resource, in microseconds.

    Attributes:
        start: until the first thread runs, and from the last one's end to the interrupt.
        workgroups: their start, one after another.
        issue: instructions, on the unit that has most of them.
        lines: of 64 bytes, through the units that load and store.
        words: the same units, by what lanes take.
        misses: of the first cache.
        memory: what goes to DRAM.
    """

    start: float
    workgroups: float = 0.0
    issue: float = 0.0
    lines: float = 0.0
    words: float = 0.0
    misses: float = 0.0
    memory: float = 0.0


def total(parts: Parts, serial: float) -> float:
    """Time of a dispatch, in microseconds.

    Instructions overlap with accesses to memory but for the share `serial` of whichever is shorter: 0 where code
    hides all latency, 1 where it waits for each access.
    """
    access = parts.lines + parts.words + parts.misses + parts.memory
    overlapped = max(parts.issue, access) + serial * min(parts.issue, access)
    return parts.start + parts.workgroups + overlapped


@dataclass(frozen=True)
class Timing:
    """What the module `timing` of a family's folder has as TIMING.

    Attributes:
        time_parts: where a dispatch's time goes, given a chip's constants (host_tools/model/timing.py).
        on_cores: the constants of a chip as they hold for a dispatch that runs on so many of its cores; None: jobs
            run on all.
        job_cores: of each job of a trace, by its JOB action, on how many cores it runs; 0: on all. None: all jobs
            run on all.
    """

    time_parts: Callable[[Dispatch, Values], Parts]
    on_cores: Callable[[Dispatch, Values, int], Values] | None = None
    job_cores: Callable[[Trace], Sequence[int]] | None = None
