# SPDX-License-Identifier: BSD-2-Clause
"""Which steps of a replay can be done again after they have been done in part, by what they access.

A step that has stopped at a fault has written some of what it writes, and nothing else. Done again it does the
same if it reads nothing that it writes, but for what it has written itself before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from host_tools.accesses.observe import OTHER_SEED, Watched, proved, random_inputs, watched
from host_tools.accesses.pieces import alike
from host_tools.accesses.proof import Job
from host_tools.accesses.slot_places import bytes_of
from host_tools.model.checkpoints import Step, steps_of
from host_tools.model.frames import Mask
from host_tools.model.memory import Conflict, Memory
from host_tools.support.pages import pieces
from host_tools.vgpu.binding import ACCESS_READ_FIRST, ACCESS_WRITTEN
from trace_format.actions import Action, Op, actions_of
from trace_format.operators import operands
from trace_format.schema import PAGE_BYTES, SlotKind
from trace_format.trace import Trace

Bytes = dict[int, Mask]  # frame -> PAGE_BYTES booleans
_REMAPS = (Op.MAP_GPU_MEM, Op.UNMAP_GPU_MEM)


def why_not_repeated(trace: Trace) -> dict[int, str]:
    """Of each Job, by its index, why its step cannot be done again; "": it can.

    Args:
        trace: of one network.

    Raises:
        DivergenceError, VgpuError: it does not replay on the virtual GPU.
    """
    steps = steps_of(trace)
    rows = list(actions_of(trace.actions))
    jobs = [job for step in steps for job in step.jobs]
    try:
        memory = Memory.of(trace)
    except Conflict as conflict:
        return dict.fromkeys(jobs, str(conflict))
    first = watched(trace)
    before = sum(row.op == Op.JOB for row in rows[: steps[0].first]) if steps else 0
    if len(first.jobs) != before + len(jobs):
        return dict.fromkeys(jobs, "not all jobs are announced, each by itself")
    known = _known(trace, first)
    seen = iter(zip(first.jobs[before:], known[before:], strict=True))
    found = {}
    for step in steps:
        for job in step.jobs:
            did, is_known = next(seen)
            if len(step.jobs) > 1:
                found[job] = "no replay checkpoint lies between it and another job"
            elif not is_known:
                found[job] = "what it accesses may depend on data"
            else:
                found[job] = _flaw(memory, rows, step, did, is_first=step is steps[0])
    return found


def _known(trace: Trace, first: Watched) -> list[bool]:
    """Which jobs access the same with other data: it is proved, or another replay is alike."""
    if first.changes_commands:
        return [False] * len(first.jobs)
    found = proved(first.jobs, first.given)
    given = [slot for slot in trace.slots if slot.kind in (SlotKind.INPUT, SlotKind.PARAMETER)]
    if all(found) or any(slot.numpy_dtype.kind != "f" for slot in given):
        return found
    second = watched(trace, random_inputs(trace, OTHER_SEED, (SlotKind.INPUT, SlotKind.PARAMETER)))
    return [
        is_proved or alike([one], [other])
        for is_proved, one, other in zip(found, first.jobs, second.jobs, strict=True)
    ]


def _flaw(memory: Memory, rows: Sequence[Action], step: Step, job: Job, *, is_first: bool) -> str:
    read: Bytes = {}
    written: Bytes = {}
    for index in range(step.first, step.end):
        row = rows[index]
        if row.op in _REMAPS:
            return "it changes mappings"
        if row.op == Op.COPY_TO_GPU and index < step.jobs[0] and not is_first:
            return "an input is copied before its job, and a log would be told twice"
        effects = _job(job) if index == step.jobs[0] else _cpu(memory, row)
        for reads, writes in effects:
            for frame, mask in reads.items():
                new = mask & ~written[frame] if frame in written else mask
                read[frame] = read[frame] | new if frame in read else new
            for frame, mask in writes.items():
                written[frame] = written[frame] | mask if frame in written else mask
    if any((read[frame] & written[frame]).any() for frame in read.keys() & written.keys()):
        return "it writes to what it reads"
    return ""


def _job(job: Job) -> Iterator[tuple[Bytes, Bytes]]:
    flags = job.accesses.items()
    yield (
        {frame: (bits & ACCESS_READ_FIRST) != 0 for frame, bits in flags},
        {frame: (bits & ACCESS_WRITTEN) != 0 for frame, bits in flags},
    )


def _cpu(memory: Memory, row: Action) -> Iterator[tuple[Bytes, Bytes]]:
    """What an action other than a job reads and writes, without callers' data, and the image: nobody writes it."""
    slots = memory.trace.slots
    if row.op in (Op.CLEAR, Op.UPLOAD):
        yield {}, _range(row.target, row.bytes)
    elif row.op == Op.COPY_TO_GPU:
        yield {}, bytes_of(memory, [slots[row.slot]])
    elif row.op == Op.COPY_FROM_GPU:
        yield bytes_of(memory, [slots[row.slot]]), {}
    elif row.op == Op.OPERATE:
        parts = operands(row, slots)
        yield bytes_of(memory, [slot for _, slot in parts]), {}  # a result may be read, too
        yield {}, bytes_of(memory, [slot for kind, slot in parts if kind.written])


def _range(at: int, size: int) -> Bytes:
    found = {}
    for page, inside, _ in pieces(at, size):
        found[page] = np.zeros(PAGE_BYTES, np.bool_)
        found[page][inside] = True
    return found
