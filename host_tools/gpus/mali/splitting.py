# SPDX-License-Identifier: BSD-2-Clause
"""Which of a trace's first jobs can run once, in the prologue, instead of in each replay.

The jobs before the first one that touches an input depend on parameters and constants alone. They can run once if
every replay then finds in memory what the recorded order would have put there. By byte:

- what they make is not overwritten by others of which one needs it, nor by a parameter that is copied again;
- what others need as it was at first, and change, is filled or copied again in each replay.

Where something that one of them makes is lost, it and those after it run in each replay.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np

from host_tools.accesses.by_job import joined
from host_tools.accesses.proof import AccessMap
from host_tools.model.frames import Mask
from host_tools.model.memory import Conflict
from host_tools.vgpu.binding import ACCESS_COMMAND, ACCESS_READ_FIRST, ACCESS_WRITTEN
from trace_format.schema import PAGE_BYTES

NONE: Mask = np.zeros(PAGE_BYTES, np.bool_)
NONE.flags.writeable = False
Bytes = Mapping[int, Mask]  # frame -> PAGE_BYTES booleans


def touches(job: AccessMap, where: Bytes) -> bool:
    """Whether a job reads or writes some of these bytes."""
    return any(frame in job and ((job[frame] != 0) & mask).any() for frame, mask in where.items())


def _flagged(accesses: AccessMap, frame: int, flag: int) -> Mask:
    return accesses[frame] & flag != 0 if frame in accesses else NONE


class Split:
    """How many of the first jobs can run once.

    Args:
        inputs: bytes of all inputs.
        parameters: bytes of each parameter.
        jobs: what each job accesses; the same for all data.

    Attributes:
        first: number of the first job that runs in each replay; 0: all do.
        once, each: what the jobs before it access, as if they were one, and what the others do.
        again: numbers of the parameters that are copied in each replay as well.

    Raises:
        Conflict: an input or a parameter holds descriptors or code.
    """

    def __init__(self, inputs: Bytes, parameters: Sequence[Bytes], jobs: Sequence[AccessMap]) -> None:
        self.inputs, self.parameters = inputs, parameters
        self.again: list[int] = []
        for given in (inputs, *parameters):
            if any((_flagged(job, f, ACCESS_COMMAND) & mask).any() for f, mask in given.items() for job in jobs):
                raise Conflict("a slot holds descriptors or code")
        self.first = next((i for i, job in enumerate(jobs) if touches(job, inputs)), 0)
        while self.first:
            self.once, self.each = joined(jobs[: self.first]), joined(jobs[self.first :])
            lost = self._lost()
            if not lost:
                break
            self.first = next(i for i, job in enumerate(jobs) if _writes(job, lost))

    def needed_once(self, frame: int) -> Mask:
        """Bytes that must be there when the prologue's jobs start."""
        return _flagged(self.once, frame, ACCESS_READ_FIRST)

    def refilled(self, frame: int) -> Mask:
        """Bytes that each replay needs as they were at first, and something changes."""
        return self._changed(frame) | self.inputs.get(frame, NONE)

    def _changed(self, frame: int) -> Mask:
        return self._overwritten(frame) & ~_flagged(self.once, frame, ACCESS_WRITTEN)

    def _overwritten(self, frame: int) -> Mask:
        """Bytes that the other jobs need as they find them, and overwrite."""
        needed, written = (_flagged(self.each, frame, flag) for flag in (ACCESS_READ_FIRST, ACCESS_WRITTEN))
        return needed & written

    def _lost(self) -> dict[int, Mask]:
        """Bytes that the first jobs make, and something overwrites that must not."""
        copied: defaultdict[int, Mask] = defaultdict(NONE.copy)
        self.again = []
        for number, where in enumerate(self.parameters):
            if any((self._changed(frame) & mask).any() for frame, mask in where.items()):
                self.again.append(number)
                for frame, mask in where.items():
                    copied[frame] |= mask
        found = {}
        for frame in self.once:
            overwritten = self._overwritten(frame) | copied.get(frame, NONE)
            lost = _flagged(self.once, frame, ACCESS_WRITTEN) & overwritten
            if lost.any():
                found[frame] = lost
        return found


def _writes(job: AccessMap, where: Bytes) -> bool:
    return any((_flagged(job, frame, ACCESS_WRITTEN) & mask).any() for frame, mask in where.items())
