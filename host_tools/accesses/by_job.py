# SPDX-License-Identifier: BSD-2-Clause
"""A replay on the virtual GPU, with the access map on, that is looked at job by job."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from host_tools.accesses.job_starts import JobStarts
from host_tools.model.interpreter import Interpreter
from host_tools.vgpu.binding import ACCESS_COMMAND, ACCESS_READ_FIRST, ACCESS_WRITTEN
from trace_format.actions import Action
from trace_format.schema import PAGE_BYTES
from trace_format.trace import Trace

Flags = NDArray[np.uint8]
Accesses = Mapping[int, Flags]  # frame -> PAGE_BYTES of ACCESS_*


@dataclass(frozen=True)
class Job:
    """What one job did, with the chain of descriptors that it consists of.

    Attributes:
        accesses: frame -> PAGE_BYTES of ACCESS_*.
        varies: other data may lead to other accesses.
    """

    accesses: Accesses
    varies: bool

    @cached_property
    def commands(self) -> Sequence[tuple[int, NDArray[np.bool_]]]:
        """Frames, and bytes of them, that decide what the job does."""
        known: dict[int, NDArray[np.bool_] | None] = {}  # many pages have the same array
        found = []
        for frame, flags in self.accesses.items():
            if id(flags) not in known:
                mask = flags & ACCESS_COMMAND != 0
                known[id(flags)] = mask if mask.any() else None
            if (decides := known[id(flags)]) is not None:
                found.append((frame, decides))
        return found


def commands_of(jobs: Iterable[Job]) -> dict[int, NDArray[np.bool_]]:
    """Bytes that decide what some jobs do: frame -> PAGE_BYTES booleans."""
    found: dict[int, NDArray[np.bool_]] = {}
    for job in jobs:
        for frame, mask in job.commands:
            found[frame] = found.get(frame, False) | mask
    return found


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

    def take(self, seen: Accesses) -> None:
        """What the latest job did."""
        raise NotImplementedError

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


def joined(jobs: Sequence[Accesses]) -> Accesses:
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
