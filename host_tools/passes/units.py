# SPDX-License-Identifier: BSD-2-Clause
"""Memory as units: pages that follow one another and are in use during the same jobs, to be placed together."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Set
from itertools import pairwise

import numpy as np

from host_tools.accesses.liveness import Jobs, live_jobs
from host_tools.families.accesses import Span
from host_tools.families.family import family_of
from host_tools.model.memory import Memory
from host_tools.passes.placement import Unit
from host_tools.passes.program import Program
from trace_format.actions import Op, actions_of
from trace_format.schema import PAGE_BYTES, DType, SlotKind
from trace_format.slots import Slot

_APART = 16  # jobs between two uses of memory from which on it is let go of meanwhile


def pinned(memory: Memory) -> set[int]:
    """Frames that share with none: somebody else than jobs writes them, or their content matters."""
    own = memory.cpu_written_frames() | memory.slot_frames(*SlotKind)
    return own | {frame for frame, page in memory.pages.items() if not page.is_blank or page.has_state}


def filled_first(memory: Memory) -> set[int]:
    """Frames that each replay fills as a whole with inputs before its first job, and that no other slot has."""
    copied = set()
    for row in actions_of(memory.stream):
        if row.op == Op.JOB:
            break
        if row.op == Op.COPY_TO_GPU:
            copied.add(row.slot)
    whole, others = [], []
    for number, slot in enumerate(memory.trace.slots):
        begin = -(-slot.address // PAGE_BYTES) * PAGE_BYTES
        pages = (slot.address + slot.span - begin) // PAGE_BYTES
        if number not in copied or slot.span != slot.dense_bytes:
            others.append(slot)
        elif pages > 0:
            whole.append(
                Slot(slot.name, slot.kind, DType.UINT8, (pages * PAGE_BYTES,), (1,), begin, slot.address_space)
            )
    return memory.frames_of(whole) - memory.frames_of(others) - memory.cpu_written_frames()


def working_units(
    program: Program, spans: Mapping[int, Span], frames: Set[int], filled: Set[int] = frozenset()
) -> list[Unit]:
    """Of working memory; what is pinned, or not in `spans`, is in use always.

    Args:
        spans: as `Family.spans`.
        filled: pinned frames that are in use from the first job to the last one that reads them.
    """
    jobs = program.jobs()
    always = np.ones(len(jobs), np.bool_)
    known = (frames & spans.keys()) - (pinned(program.memory) - filled)
    if family_of(program.profile).follow is None:
        live = live_jobs(jobs, known)
    else:  # what descriptors name a chip may use though no job has used it
        begins = {frame: 0 if frame in filled else spans[frame][0] for frame in known}
        live = {frame: during(begins[frame], spans[frame][1], len(jobs)) for frame in known}
    return list(units_of(program.memory, {frame: live.get(frame, always) for frame in frames}))


def units_of(memory: Memory, jobs: Mapping[int, Jobs]) -> Iterable[Unit]:
    """Frames, each once, in runs of GPU pages that are in use during the same jobs."""
    run: list[int] = []
    before: tuple[int, bytes] | None = None
    known: set[int] = set()
    for key, frame in zip(memory.mappings.keys.tolist(), memory.mappings.frames.tolist(), strict=True):
        if frame not in jobs or frame in known:
            continue
        known.add(frame)
        here = jobs[frame].tobytes()
        if run and before != (key - 1, here):
            yield Unit(tuple(run), jobs[run[0]])
            run = []
        run.append(frame)
        before = key, here
    if run:
        yield Unit(tuple(run), jobs[run[0]])


def during(first: int, last: int, jobs: int) -> Jobs:
    """All jobs from one to another."""
    found = np.zeros(jobs, np.bool_)
    found[first : last + 1] = True
    return found


def used_by(numbers: Collection[int], jobs: int) -> Jobs:
    """All jobs from the first of some to the last one, but for the widest gap between two if it is wide."""
    ordered = sorted(numbers)
    found = during(ordered[0], ordered[-1], jobs)
    gap, end = max(((later - one, later) for one, later in pairwise(ordered)), default=(0, 0))
    if gap > _APART:
        found[end - gap + 1 : end] = False
    return found


def early(unit: Unit, lead: int) -> Jobs:
    """The jobs of a unit, and some before."""
    jobs = unit.jobs.copy()
    for first, _ in unit.times:
        jobs[max(first - lead, 0) : first] = True
    return jobs


def parts_of(unit: Unit, size: int) -> Iterable[Unit]:
    """A unit in parts of `size` pages; the last one has the rest."""
    for at in range(0, len(unit.frames), size):
        yield Unit(unit.frames[at : at + size], unit.jobs)
