# SPDX-License-Identifier: BSD-2-Clause
"""What each job of a trace does to memory, where that holds for all data.

Seen by one replay on the virtual GPU. That other inputs and parameters lead to the same accesses follows from the
code: the virtual GPU finds that no word which a shader loads decides an address or a branch (vgpu_access_varies in
host_tools/vgpu/vgpu.h), and no job changes what a later one is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from host_tools.gpus.page_tables import DivergenceError
from host_tools.model.interpreter import Interpreter
from host_tools.model.memory import Conflict
from host_tools.model.observe import FIRST_SEED, random_inputs
from host_tools.vgpu.binding import ACCESS_COMMAND, ACCESS_READ_FIRST, ACCESS_WRITTEN
from trace_format.actions import Action, Op
from trace_format.schema import PAGE_BYTES, SlotKind
from trace_format.trace import Trace

Flags = NDArray[np.uint8]
Accesses = dict[int, Flags]  # frame -> PAGE_BYTES of ACCESS_*
Ends = Callable[[Accesses], bool]


class _FirstJobIsEnoughError(Exception):
    """Nothing is asked of the jobs after the first one."""


class _ByJob(Interpreter):
    """Cuts the access map at the markers of jobs."""

    def __post_init__(self) -> None:
        self.track = True
        super().__post_init__()
        self.jobs: list[Accesses] = []
        self.ends: Ends = lambda job: False

    def cut(self) -> None:
        """What the latest job did."""
        self.jobs.append({pa // PAGE_BYTES: flags for pa, flags in self.gpu.access_map().items()})
        self.gpu.clear_access()
        if len(self.jobs) == 1 and self.ends(self.jobs[0]):
            raise _FirstJobIsEnoughError

    def _step(self, row: Action) -> None:
        if row.op == Op.JOB and row.number:
            self.cut()
        super()._step(row)


def job_accesses(trace: Trace, ends: Ends) -> list[Accesses]:
    """The accesses of each job, in their order.

    Args:
        ends: given the first job's accesses: whether that job is enough; then there is no list of others.

    Raises:
        Conflict: the virtual GPU cannot run the jobs, or other data may lead to other accesses.
    """
    run = _ByJob(trace)
    run.ends = ends
    try:
        run.run(random_inputs(trace, FIRST_SEED, (SlotKind.INPUT, SlotKind.PARAMETER)))
        run.cut()
        varies = run.gpu.access_varies
    except _FirstJobIsEnoughError:
        return run.jobs
    except DivergenceError as error:
        raise Conflict(f"its jobs cannot be observed: {error}") from None
    finally:
        run.close()
    if varies:
        raise Conflict("what its jobs access may depend on data")
    if _changes_commands(run.jobs):
        raise Conflict("its jobs write descriptors or code of later ones")
    return run.jobs


def _changes_commands(jobs: Iterable[Accesses]) -> bool:
    written: dict[int, NDArray[np.bool_]] = {}
    for job in jobs:
        for frame, flags in job.items():
            if frame in written and (written[frame] & (flags & ACCESS_COMMAND != 0)).any():
                return True
        for frame, flags in job.items():
            writes = flags & ACCESS_WRITTEN != 0
            if writes.any():
                written[frame] = written[frame] | writes if frame in written else writes
    return False


def joined(jobs: Sequence[Accesses]) -> Accesses:
    """The accesses of jobs that run one after the other, as if they were one job."""
    found: Accesses = {}
    known: dict[tuple[int, int], tuple[Flags, Flags, Flags]] = {}  # the arrays are kept, so ids stay theirs
    for job in jobs:
        for frame, flags in job.items():
            before = found.get(frame)
            if before is None:
                found[frame] = flags
                continue
            key = id(before), id(flags)
            if key not in known:
                first = np.where(before & ACCESS_WRITTEN, flags & ~np.uint8(ACCESS_READ_FIRST), flags)
                known[key] = before, flags, before | first
            found[frame] = known[key][2]
    return found
