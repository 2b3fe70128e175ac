# SPDX-License-Identifier: BSD-2-Clause
"""A dummy whose jobs are chains of descriptors in memory: what docs/PORTING.md asks of such a family, no more.

The dummy of tests/support/porting.py is made of this file. It has the registers of a Mali. A descriptor is two
addresses: of the next descriptor, 0 at the end, and of a page, which the job fills.
"""

import struct
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from host_tools.accesses.job_starts import JobStarts
from host_tools.families.accesses import Flaw, Followed, Mask, NotFollowedError, Reached
from host_tools.model.memory import Memory
from host_tools.passes.program import Program
from host_tools.passes.registry import action_pass
from trace_format.actions import Actions, Columns, Op, actions_of
from trace_format.profile import Profile
from trace_format.schema import PAGE_BYTES
from trace_format.trace import Trace

DESCRIPTOR = struct.Struct("<QQ")  # next, target
LONGEST = 16  # descriptors of a chain
ALL, NONE = np.ones(PAGE_BYTES, np.bool_), np.zeros(PAGE_BYTES, np.bool_)


@dataclass(frozen=True)
class Step:
    """A descriptor: of which job, where it is, which address it names."""

    job: int
    at: int
    target: int


def starts(value: int, mask: int) -> bool:
    """Whether a write to a register that starts jobs starts one."""
    return value & mask == 1


def steps(memory: Memory) -> Iterator[Step]:
    """The descriptors of all jobs; NotFollowedError: a chain leaves what is mapped, or has no end."""
    gpu, number = memory.trace.profile, 0
    recogniser, written = JobStarts(gpu), dict[int, int]()
    for row in actions_of(np.concatenate([memory.prologue, memory.stream])):
        if row.op == Op.REG_WRITE:
            written[row.register] = row.value
        job = recogniser.of(row)
        if job is not None:
            head = gpu.register(f"{job.start.name.partition('.')[0]}.HEAD_NEXT_LO")
            yield from _chain(memory, number, written.get(head.index, 0))
            number += 1


def _chain(memory: Memory, number: int, at: int) -> Iterator[Step]:
    for _ in range(LONGEST):
        if not at:
            return
        if (frame := frame_of(memory, at)) is None:
            raise NotFollowedError(f"job {number}: the descriptor at {at:#x} is not mapped")
        following, target = DESCRIPTOR.unpack_from(memory.pages[frame].content.tobytes(), at % PAGE_BYTES)
        yield Step(number, at, target)
        at = following
    raise NotFollowedError(f"job {number} has no end")


def frame_of(memory: Memory, va: int) -> int | None:
    """The page in the carve-out that a GPU address is mapped to; None: none."""
    try:
        return memory.mappings[0, va // PAGE_BYTES].frame
    except KeyError:
        return None


class Chains:
    """What a program's jobs do to memory (`Family.accesses`): they read descriptors, and fill what those name."""

    def __init__(self, program: Program) -> None:
        memory = program.memory
        found = list(steps(memory))
        self.read = {frame_of(memory, step.at) for step in found}
        self.filled = {frame_of(memory, step.target) for step in found}

    def touched(self, frame: int) -> bool:
        """Some job can access the page."""
        return frame in self.read | self.filled

    def needed(self, frame: int) -> Mask:
        """Bytes of the page whose initial value some job may read."""
        return ALL if frame in self.read else NONE

    def written(self, frame: int) -> bool:
        """Some job may write to the page."""
        return frame in self.filled

    def overwritten(self, frame: int) -> Mask:
        """Bytes of the page that jobs write whatever the data is."""
        return ALL if frame in self.filled else NONE


def follow(trace: Trace) -> Followed:
    """What the trace's chains reach (`Family.follow`)."""
    jobs: dict[int, set[int]] = defaultdict(set)
    for step in steps(Memory.of(trace)):
        for va in (step.at, step.target):
            jobs[va // PAGE_BYTES].add(step.job)
    return Followed([Reached(0, page, page + 1, frozenset(found)) for page, found in sorted(jobs.items())], {})


def check(trace: Trace) -> Iterator[Flaw]:
    """Targets that are not mapped, and chains that cannot be followed (`Family.check`)."""
    memory = Memory.of(trace)
    try:
        for step in steps(memory):
            if frame_of(memory, step.target) is None:
                yield "GR301", f"job {step.job}: the target at GPU address {step.target:#x} is not mapped"
    except NotFollowedError as error:
        yield "GR303", str(error)


@action_pass("dummy-markers")
def drop_markers(rows: Actions, gpu: Profile) -> Actions:
    """Leave out what announces jobs."""
    return rows[~Columns(rows).is_op(Op.JOB)]
