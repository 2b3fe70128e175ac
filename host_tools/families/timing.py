# SPDX-License-Identifier: BSD-2-Clause
"""Where a dispatch's time goes, as a family tells it by the constants of a chip."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

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
