# SPDX-License-Identifier: BSD-2-Clause
"""Whether what a replay saw jobs access holds for all data: the rule, in one place.

The argument. What a job accesses follows from what it is started with (registers, which the trace writes) and from
bytes of memory. The virtual GPU marks the bytes that decide an address or a branch, descriptors and code among
them (ACCESS_COMMAND), and says where others may: a job "varies" if a word that its shaders load, and that is not
marked, decides one (vgpu_access_varies in host_tools/vgpu/vgpu.h), or if it writes a byte that is marked: its
threads run in any order, so that another of them may have read either value. A job that does not vary accesses the
same whenever the marked bytes are the same. These are the same in each replay if nobody changes them: no slot that
others than jobs write, no job before it. By induction over the jobs, in their order, what the first replay showed
is then so in all.

Passes remove bytes and pages by this (`dead-memory`), so that a mistake here is a wrong output. Property tests run
jobs with other data: tests/vgpu/test_observe.py, tests/vgpu/test_noted_accesses.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from host_tools.model.frames import Mask
from host_tools.vgpu.binding import ACCESS_COMMAND, ACCESS_WRITTEN
from trace_format.schema import PAGE_BYTES

Flags = NDArray[np.uint8]
Part = tuple[int, slice | Mask]  # bytes of a frame
AccessMap = Mapping[int, Flags]  # frame -> PAGE_BYTES of ACCESS_*
_CHANGED = ACCESS_COMMAND | ACCESS_WRITTEN
_NONE: Mask = np.zeros(PAGE_BYTES, np.bool_)
_NONE.flags.writeable = False


@dataclass(frozen=True)
class Job:
    """What one job did, with the chain of descriptors that it consists of.

    Attributes:
        accesses: frame -> PAGE_BYTES of ACCESS_*.
        varies: other data may lead to other accesses.
    """

    accesses: AccessMap
    varies: bool

    @cached_property
    def commands(self) -> Sequence[tuple[int, Mask]]:
        """Frames, and bytes of them, that decide what the job does."""
        known: dict[int, Mask | None] = {}  # many pages have the same array
        found = []
        for frame, flags in self.accesses.items():
            if id(flags) not in known:
                mask = flags & ACCESS_COMMAND != 0
                known[id(flags)] = mask if mask.any() else None
            if (decides := known[id(flags)]) is not None:
                found.append((frame, decides))
        return found


def job_of(seen: AccessMap, *, varies: bool) -> Job:
    """A job that was seen once.

    Args:
        seen: what it accessed.
        varies: what the virtual GPU says of its code.
    """
    return Job(seen, varies or any((flags & _CHANGED == _CHANGED).any() for flags in seen.values()))


def commands_of(jobs: Iterable[Job]) -> dict[int, Mask]:
    """Bytes that decide what some jobs do: frame -> PAGE_BYTES booleans."""
    found: dict[int, Mask] = {}
    for job in jobs:
        for frame, mask in job.commands:
            found[frame] = found.get(frame, False) | mask
    return found


def cover(given: Iterable[Part], commands: Mapping[int, Mask]) -> bool:
    """Whether what others than jobs write, frames and parts of them, has some of the bytes that decide."""
    return any(commands[frame][part].any() for frame, part in given if frame in commands)


def changed(jobs: Iterable[Job], given: Iterable[Part]) -> bool:
    """Whether anybody, at any time, may change what decides what jobs do that do not vary.

    Args:
        given: frames, and parts of them, that others than jobs write.
    """
    jobs = list(jobs)
    commands = commands_of(job for job in jobs if not job.varies)
    known: dict[tuple[int, int], bool] = {}  # many jobs have the same array for a page
    for job in jobs:
        for frame, flags in job.accesses.items():
            if frame in commands and (key := (frame, id(flags))) not in known:
                known[key] = bool((flags & ACCESS_WRITTEN)[commands[frame]].any())
    return any(known.values()) or cover(given, commands)


class InOrder:
    """Job after job: which of them are proved, by what those before them may have changed.

    Args:
        jobs: all, in their order.
        given: bytes that others than jobs write: frame -> PAGE_BYTES booleans.
    """

    def __init__(self, jobs: Sequence[Job], given: Mapping[int, Mask]) -> None:
        self._jobs = jobs
        self._commands = {frame for job in jobs for frame, _ in job.commands}
        self._changed: dict[int, Mask] = dict(given)  # of the pages with commands

    def holds(self, number: int) -> bool:
        """Whether a job is proved, given what has been written so far."""
        job = self._jobs[number]
        return not job.varies and not any(
            (self._changed[frame] & mask).any() for frame, mask in job.commands if frame in self._changed
        )

    def wrote(self, accesses: AccessMap) -> None:
        """A job that is proved has run."""
        for frame in self._commands & accesses.keys():
            self._changed[frame] = self._changed.get(frame, _NONE) | (accesses[frame] & ACCESS_WRITTEN != 0)

    def may_have_written(self, frames: Iterable[int]) -> None:
        """A job that is not proved may have written anything there."""
        for frame in self._commands.intersection(frames):
            self._changed[frame] = ~_NONE
