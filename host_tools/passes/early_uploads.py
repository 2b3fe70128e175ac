# SPDX-License-Identifier: BSD-2-Clause
"""The pass over what the CPU fills between jobs: what no job reads goes, and the rest is there from the start.

A driver writes its lists of commands, which `no-op-lists` drops, and clears buffers that a job fills. OpenCL by
rusticl compiles a kernel when it is first enqueued, so that code reaches memory after the first jobs. A device
executes only what lies in the image, and the image is there before the first job.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from host_tools.accesses.by_job import left
from host_tools.accesses.observe import beside, proved
from host_tools.accesses.proof import Flags, Job
from host_tools.accesses.slot_places import parts_in
from host_tools.families.family import family_of
from host_tools.model.frames import CpuWrite, Mask
from host_tools.model.memory import Memory
from host_tools.passes.program import Program
from host_tools.passes.registry import memory_pass
from host_tools.vgpu.binding import ACCESS_READ_FIRST, ACCESS_WRITTEN
from trace_format import operators
from trace_format.actions import Columns, Op
from trace_format.schema import PAGE_BYTES, SlotKind


@memory_pass("early-uploads")
def upload_early(program: Program) -> None:
    """Drop what the CPU writes between jobs and none reads; upload the rest at the start, where none touched it.

    A job that is not proved may touch all that is mapped, without a gap, around what it was seen to touch.
    """
    memory = program.memory
    if not memory.cpu_writes:
        return
    jobs = program.jobs()
    memory = program.memory
    markers = np.flatnonzero(Columns(memory.stream).is_op(Op.JOB))
    if memory.prepares or len(markers) != len(jobs):
        return
    with program.same_accesses():
        uses = _uses(program, memory, jobs)
        before = np.searchsorted(markers, np.array([item.before for item in memory.cpu_writes], np.int64))
        writes = list(zip(before.tolist(), memory.cpu_writes, strict=True))
        if family_of(program.profile).follow is None:  # hardware reads a chain's descriptors as no replay shows
            writes = _read(writes, uses)
        memory.cpu_writes = _late(memory, writes, uses)
        program.commit()


Write = tuple[int, CpuWrite]  # before which job, and what


@dataclass(frozen=True)
class _Uses:
    """Who else touches the frames that the CPU writes between jobs.

    Attributes:
        jobs: frame -> which jobs were seen to access it, ascending, and how.
        open_from: frame -> the first job that may access it and is not proved.
        given: frames of slots, and of what a replay leaves for the next.
    """

    jobs: dict[int, list[tuple[int, Flags]]]
    open_from: dict[int, int]
    given: set[int]


def _uses(program: Program, memory: Memory, jobs: Sequence[Job]) -> _Uses:
    slots = operators.given(memory.stream, program.slots)
    own = parts_in(memory, {frame for job in jobs for frame in job.accesses}, slots)
    holds = proved(jobs, [*own, *left(memory, jobs).items()])
    written = memory.cpu_written_frames()
    given = memory.slot_frames(*SlotKind) | {frame for frame, page in memory.pages.items() if page.has_state}
    found = _Uses({frame: [] for frame in written}, {}, given)
    for number, (job, held) in enumerate(zip(jobs, holds, strict=True)):
        for frame in written & job.accesses.keys():
            found.jobs[frame].append((number, job.accesses[frame]))
        for frame in () if held else written & beside(memory.mappings, job.accesses.keys()):
            found.open_from.setdefault(frame, number)
    return found


def _read(writes: Sequence[Write], uses: _Uses) -> list[Write]:
    """The writes, and what of them, that a job reads before it is written again."""
    found = []
    for frame, several in _by_frame(writes).items():
        if frame in uses.given or frame in uses.open_from:
            found += several
            continue
        live: Mask = np.zeros(PAGE_BYTES, np.bool_)  # bytes that are read later, going back from the end
        later = list(uses.jobs[frame])
        for number, item in reversed(several):
            while later and later[-1][0] >= number:
                flags = later.pop()[1]
                live = live & (flags & ACCESS_WRITTEN == 0) | (flags & ACCESS_READ_FIRST != 0)
            begin = item.to % PAGE_BYTES
            part = slice(begin, begin + len(item.data))
            if read := np.flatnonzero(live[part]).tolist():
                first, end = read[0], read[-1] + 1
                found.append((number, CpuWrite(item.before, item.to + first, item.data[first:end])))
            live[part] = False
    return sorted(found, key=lambda write: write[1].before)


def _late(memory: Memory, writes: Sequence[Write], uses: _Uses) -> list[CpuWrite]:
    """The writes that must stay where they are; the others are uploaded before the first job."""
    found = []
    for frame, several in _by_frame(writes).items():
        touched: Mask = np.zeros(PAGE_BYTES, np.bool_)  # by jobs, and by writes that must stay
        jobs = list(reversed(uses.jobs[frame]))
        for number, item in several:
            while jobs and jobs[-1][0] < number:
                touched = touched | (jobs.pop()[1] != 0)
            begin = item.to % PAGE_BYTES
            part = slice(begin, begin + len(item.data))
            opened = uses.open_from.get(frame, number) < number
            if frame in uses.given or opened or touched[part].any():
                found.append(item)
                touched = touched.copy()
                touched[part] = True
            else:
                memory.pages[frame].put(part, np.frombuffer(item.data, np.uint8))
    return sorted(found, key=lambda item: item.before)


def _by_frame(writes: Sequence[Write]) -> dict[int, list[Write]]:
    """Writes of each frame, in their order; none crosses a page."""
    found: dict[int, list[Write]] = {}
    for write in writes:
        (frame,) = write[1].frames
        found.setdefault(frame, []).append(write)
    return found
