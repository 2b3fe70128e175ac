# SPDX-License-Identifier: BSD-2-Clause
"""Whether pieces of a job do together what the whole did, by what each accesses.

Threads of one job run in any order. So a piece may run after another if

- it reads nothing that the other writes, but for what it has written itself before;
- what several pieces write nobody else reads before it is written again: spilled registers.

Each thread then finds in memory what it found before, and leaves there what it left.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from host_tools.accesses.proof import Job
from host_tools.accesses.slot_places import parts_in
from host_tools.model.frames import Mask
from host_tools.model.memory import Conflict, Memory
from host_tools.vgpu.binding import ACCESS_READ_FIRST, ACCESS_WRITTEN
from trace_format.trace import Trace


def alike(one: Sequence[Job], other: Sequence[Job]) -> bool:
    """Whether jobs of two replays access the same."""
    return all(
        a.accesses.keys() == b.accesses.keys()
        and all(np.array_equal(flags, b.accesses[frame]) for frame, flags in a.accesses.items())
        for a, b in zip(one, other, strict=True)
    )


def why_not(trace: Trace, jobs: Sequence[Job], pieces: slice) -> str:
    """Why pieces may not do what the whole did; "": they do.

    Args:
        trace: with the pieces.
        jobs: what all jobs of a replay access, in their order.
        pieces: which of them are those of the job.
    """
    counts = _writers(jobs[pieces])
    for piece in jobs[pieces]:
        for frame in counts.keys() & piece.accesses.keys():
            flags = piece.accesses[frame]
            others = counts[frame] > (flags & ACCESS_WRITTEN != 0)
            if ((flags & ACCESS_READ_FIRST != 0) & others).any():
                return "a part of it reads what another writes"
    shared = {frame: count > 1 for frame, count in counts.items() if (count > 1).any()}
    if shared and _in_slots(trace, shared):
        return "parts of it write the same bytes, and callers or operators may read them"
    if _read_later([*jobs[pieces.stop :], *jobs[: pieces.start]], shared):  # a replay may follow
        return "parts of it write the same bytes, and another job reads them"
    return ""


def _writers(pieces: Iterable[Job]) -> dict[int, NDArray[np.uint8]]:
    """Of each byte of written frames, how many pieces write it: 0, 1, or 2 for more."""
    found: dict[int, NDArray[np.uint8]] = {}
    for piece in pieces:
        for frame, flags in piece.accesses.items():
            wrote = (flags & ACCESS_WRITTEN != 0).astype(np.uint8)
            if wrote.any():
                found[frame] = np.minimum(found.get(frame, np.uint8(0)) + wrote, 2).astype(np.uint8)
    return found


def _in_slots(trace: Trace, shared: dict[int, Mask]) -> bool:
    """Whether slots have some of the bytes, or may have: where pages are mapped elsewhere on the way."""
    try:
        parts = parts_in(Memory.of(trace), shared.keys(), trace.slots)
    except Conflict:
        return True
    return any(shared[frame][inside].any() for frame, inside in parts)


def _read_later(jobs: Iterable[Job], shared: dict[int, Mask]) -> bool:
    """Whether a job reads some of the bytes, which none before it has written."""
    left = dict(shared)
    for job in jobs:
        for frame in left.keys() & job.accesses.keys():
            flags = job.accesses[frame]
            if (left[frame] & (flags & ACCESS_READ_FIRST != 0)).any():
                return True
            left[frame] = left[frame] & (flags & ACCESS_WRITTEN == 0)
    return False
