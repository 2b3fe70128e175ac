# SPDX-License-Identifier: BSD-2-Clause
"""Whether operators that work beside a job share memory with it that one of them writes.

Which of the two is faster must not matter, and neither may a cache write back a line of which the other has
written a part. So not bytes but lines are compared. What a job accesses is seen in a replay, and in one more with
other inputs where its code does not show that these access the same.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from host_tools.accesses.observe import OTHER_SEED, random_inputs, watched
from host_tools.accesses.proof import Job
from host_tools.accesses.slot_places import bytes_of
from host_tools.model.frames import Mask
from host_tools.model.memory import Conflict, Memory
from host_tools.vgpu.binding import ACCESS_READ, ACCESS_READ_FIRST, ACCESS_WRITTEN
from trace_format.actions import FLAG_BESIDE, Action, Op
from trace_format.operators import operands, operations
from trace_format.schema import PAGE_BYTES, SlotKind
from trace_format.slots import Slot
from trace_format.trace import Trace

LINE_BYTES = 64  # of caches: the CPU's and the GPU's
_READ = ACCESS_READ | ACCESS_READ_FIRST


def why_not_beside(trace: Trace) -> dict[int, str]:
    """Of each operator beside a job, by its action's index, why it must not work there; "": it may.

    Args:
        trace: of one network.

    Raises:
        DivergenceError, VgpuError: it does not replay on the virtual GPU.
    """
    found = [(index, row) for index, row in operations(trace.actions) if row.flags & FLAG_BESIDE]
    if not found:
        return {}
    try:
        memory = Memory.of(trace)
    except Conflict as conflict:
        return {index: str(conflict) for index, _ in found}
    replays = [watched(trace)]
    if replays[0].open or replays[0].changes_commands:
        given = random_inputs(trace, OTHER_SEED, (SlotKind.INPUT, SlotKind.PARAMETER))
        replays.append(watched(trace, given))
    markers = np.flatnonzero(trace.actions["op"] == Op.JOB)
    announced = all(len(replay.jobs) == len(markers) for replay in replays)
    why = {}
    for index, row in found:
        jobs = int(np.searchsorted(markers, index))  # before the operator; the latest works beside it
        if not announced or not jobs:
            why[index] = "not all jobs are announced, each by itself"
            continue
        why[index] = next(filter(None, (shared(memory, replay.jobs[jobs - 1], row) for replay in replays)), "")
    return why


def shared(memory: Memory, job: Job, row: Action) -> str:
    """What an operator and a job share that one of them writes; "": nothing."""
    parts = operands(row, memory.trace.slots)
    for kind, slot in parts:
        flags, what = (_READ | ACCESS_WRITTEN, "accesses") if kind.written else (ACCESS_WRITTEN, "writes")
        if _meet(memory, [slot], job, flags):
            return f"operand {kind.name} shares a line of {LINE_BYTES} bytes with what the job {what}"
    return ""


def _meet(memory: Memory, slots: Iterable[Slot], job: Job, flags: int) -> bool:
    """Whether slots have bytes in lines of which a job has accessed some so."""
    for frame, mask in bytes_of(memory, slots).items():
        theirs = job.accesses.get(frame)
        if theirs is not None and (_lines(mask) & _lines((theirs & flags) != 0)).any():
            return True
    return False


def _lines(mask: Mask) -> Mask:
    return np.asarray(mask.reshape(PAGE_BYTES // LINE_BYTES, LINE_BYTES).any(axis=1), np.bool_)
