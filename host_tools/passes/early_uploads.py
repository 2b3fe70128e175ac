# SPDX-License-Identifier: BSD-2-Clause
"""The pass that gives memory its content from the start, which the CPU fills between jobs.

OpenCL by rusticl compiles a kernel when it is first enqueued, so that code reaches memory after the first jobs. A
device executes only what lies in the image, and the image is there before the first job.
"""

from __future__ import annotations

import numpy as np

from host_tools.accesses.observe import beside, proved
from host_tools.accesses.slot_places import parts_in
from host_tools.model.frames import CpuWrite, Mask
from host_tools.model.memory import Memory
from host_tools.passes.program import Program
from host_tools.passes.registry import memory_pass
from host_tools.support.pages import pieces
from trace_format import operators
from trace_format.actions import Columns, Op
from trace_format.schema import PAGE_BYTES, SlotKind

_NONE: Mask = np.zeros(PAGE_BYTES, np.bool_)


@memory_pass("early-uploads")
def upload_early(program: Program) -> None:
    """Upload what the CPU writes between jobs before the first one, where no job has touched those bytes by then.

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
    slots = operators.given(memory.stream, program.slots)
    frames = {frame for job in jobs for frame in job.accesses}
    holds = proved(jobs, parts_in(memory, frames, slots))
    around = [() if held else beside(memory.mappings, job.accesses) for job, held in zip(jobs, holds, strict=True)]
    given = memory.slot_frames(*SlotKind)

    def untouched(item: CpuWrite) -> bool:
        """Whether no caller, and no job before it, touches its bytes."""
        for frame, inside, _ in pieces(item.to, len(item.data)):
            if frame in given or np.any(late.get(frame, _NONE)[inside]):
                return False
            for number in range(int(np.searchsorted(markers, item.before))):
                seen = jobs[number].accesses.get(frame)
                if frame in around[number] or (seen is not None and np.any(seen[inside])):
                    return False
        return True

    late: dict[int, Mask] = {}  # bytes of which one write must stay, and so those after it
    kept = []
    for item in memory.cpu_writes:
        if untouched(item):
            _fill(memory, item.to, item.data)
            continue
        kept.append(item)
        for frame, inside, _ in pieces(item.to, len(item.data)):
            late.setdefault(frame, np.zeros(PAGE_BYTES, np.bool_))[inside] = True
    memory.cpu_writes = kept
    program.commit()


def _fill(memory: Memory, to: int, data: bytes) -> None:
    content = np.frombuffer(data, np.uint8)
    for frame, inside, part in pieces(to, len(data)):
        memory.pages[frame].put(inside, content[part])
