# SPDX-License-Identifier: BSD-2-Clause
"""Jobs that prepare parameters, run at build time where all parameters have a value by then.

What they leave for a replay's jobs becomes constant memory; the parameters as they were given are needed no more,
nor are the jobs. A device takes that much less memory, and what it keeps can be streamed.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from host_tools.accesses.proof import AccessMap, Job
from host_tools.gpus.mali.splitting import Split
from host_tools.model.frames import Bytes
from host_tools.model.interpreter import interpreter
from host_tools.model.job_names import NOTE
from host_tools.model.memory import Memory
from host_tools.passes.memory_passes import drop_dead_memory, map_read_only
from host_tools.passes.program import Program
from host_tools.vgpu.binding import ACCESS_READ_FIRST, ACCESS_WRITTEN
from trace_format.actions import Columns, Op, Type, rewritten
from trace_format.schema import PAGE_BYTES, SlotKind


def is_smaller(program: Program, found: Split) -> bool:
    """Whether memory has pages that only these jobs need, and no caller gives a parameter or keeps state."""
    given = any(slot.kind == SlotKind.PARAMETER for slot in program.slots)
    pages = program.memory.pages.items()
    if given or any(page.has_state for _, page in pages):
        return False
    return any(frame in found.once and frame not in found.each for frame, page in pages if not page.is_blank)


def run_now(program: Program, found: Split, jobs: Sequence[Job], own: slice) -> None:
    """Do what the first jobs do, and leave them out.

    Args:
        found: which these are.
        jobs: what all jobs access.
        own: their actions in the stream, from the first one's description to the end of the last one's service.
    """
    program.keep_jobs(jobs[found.first :])
    memory = program.memory
    made = {f: flags & ACCESS_WRITTEN != 0 for f, flags in found.once.items() if f in found.each}
    content = _content(memory, own.stop, made)
    for frame, mask in made.items():
        page = memory.pages[frame]
        needed = found.each[frame] & ACCESS_READ_FIRST != 0
        if (mask & needed).any():
            dead = ~(page.live & needed | mask & needed)
            page.put(slice(0, PAGE_BYTES), np.where(mask, content[frame], page.content))
            page.drop(dead)
    dropped = np.zeros(len(memory.stream), np.bool_)
    dropped[own] = ~Columns(memory.stream[own]).is_op(Op.COPY_TO_GPU)
    memory.drop(np.concatenate([np.zeros(len(memory.prologue), np.bool_), dropped]))
    memory.stream = rewritten(memory.stream, lambda numbers: numbers - found.first, Type.NUMBER)
    program.commit()
    notes = program.trace().notes
    if isinstance(names := notes.get(NOTE), list) and len(names) == len(jobs):
        program.replace(notes={**notes, NOTE: names[found.first :]})
    map_read_only.edit(program)
    drop_dead_memory.edit(program)


def _content(memory: Memory, end: int, frames: AccessMap) -> dict[int, Bytes]:
    """What pages hold after the first actions of the stream."""
    part = memory.copy()
    rows = memory.stream[:end]
    part.stream = rows[~Columns(rows).is_op(Op.COPY_TO_GPU)]  # none of these jobs touches an input
    with interpreter(part.emit()) as run:
        run.run()
        return {frame: run.memory[frame * PAGE_BYTES :][:PAGE_BYTES].copy() for frame in frames}
