# SPDX-License-Identifier: BSD-2-Clause
"""A replay on the virtual GPU, with the access map on, that is looked at job by job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from host_tools.accesses.job_starts import JobStarts
from host_tools.accesses.proof import AccessMap, Flags, Job
from host_tools.model.frames import Mask
from host_tools.model.interpreter import Interpreter
from host_tools.model.memory import Memory
from host_tools.vgpu.binding import ACCESS_READ_FIRST, ACCESS_WRITTEN
from trace_format.actions import Action
from trace_format.schema import PAGE_BYTES
from trace_format.trace import Trace


class ByJob(Interpreter):
    """Cuts the access map where jobs start.

    Args:
        last: job with which the replay ends; None: with the trace.

    Attributes:
        job: number of the latest job; -1 before the first.
    """

    def __init__(self, trace: Trace, last: int | None = None) -> None:
        super().__init__(trace, track=True)
        self.last = last
        self.job = -1
        self._starts = JobStarts(self.gpu_profile)

    @property
    def over(self) -> bool:
        """The last job has ended."""
        return self.last is not None and self.job > self.last

    def take(self, seen: AccessMap) -> None:
        """What the latest job did."""
        raise NotImplementedError

    def replay(self, inputs: Mapping[str, NDArray[Any]]) -> None:
        """Run with inputs, the latest job's end included, and close.

        Raises:
            DivergenceError, VgpuError: the virtual GPU does not do as recorded.
        """
        try:
            self.run(inputs)
            self.cut()
        finally:
            self.close()

    def cut(self) -> None:
        """The latest job is over."""
        self.take({pa // PAGE_BYTES: flags for pa, flags in self.gpu.access_map().items()})
        self.gpu.clear_access()

    def _step(self, row: Action) -> None:
        if self._starts.of(row):
            self.cut()
            self.job += 1
        if not self.over:
            super()._step(row)


def one_of(flags: Flags, kept: dict[bytes, Flags]) -> Flags:
    """The array in place of those that are equal to it, read-only; `kept` has them by content."""
    key = flags.tobytes()
    return kept.setdefault(key, np.frombuffer(key, np.uint8))


def then(before: Flags, flags: Flags) -> Flags:
    """Accesses of a page, and after them others: what was written is not read first any more."""
    was_written = before // np.uint8(ACCESS_WRITTEN) & np.uint8(1)  # several times as fast as np.where
    found: Flags = before | flags & ~(was_written * np.uint8(ACCESS_READ_FIRST))
    return found


def left(memory: Memory, jobs: Sequence[Job]) -> dict[int, Mask]:
    """State, which a replay leaves for the next: frame -> PAGE_BYTES booleans.

    The prologue also fills constants for its own jobs. Where it has jobs, only what jobs write is state.
    """
    state = {frame: page.state for frame, page in memory.pages.items() if page.has_state}
    if not memory.prepares:
        return state
    written = joined([job.accesses for job in jobs])
    return {
        frame: mask & (written[frame] & ACCESS_WRITTEN != 0) for frame, mask in state.items() if frame in written
    }


def joined(jobs: Sequence[AccessMap]) -> AccessMap:
    """The accesses of jobs that run one after the other, as if they were one job."""
    found: dict[int, Flags] = {}
    known: dict[tuple[int, int], tuple[Flags, Flags, Flags]] = {}  # the arrays are kept, so ids stay theirs
    for job in jobs:
        for frame, flags in job.items():
            before = found.get(frame)
            if before is None:
                found[frame] = flags
                continue
            key = id(before), id(flags)
            if key not in known:
                known[key] = before, flags, then(before, flags)
            found[frame] = known[key][2]
    return found
