# SPDX-License-Identifier: BSD-2-Clause
"""What each job of a trace does to memory, and whether that holds for all data.

Seen by one replay on the virtual GPU. Whether other inputs and parameters lead to the same accesses is for
host_tools/accesses/proof.py to say.
"""

from __future__ import annotations

from collections.abc import Iterable

from host_tools.accesses.by_job import ByJob
from host_tools.accesses.observe import FIRST_SEED, random_inputs
from host_tools.accesses.proof import AccessMap, Job, job_of
from host_tools.families.page_tables import DivergenceError
from host_tools.model.mappings import Mappings
from host_tools.model.memory import Conflict
from host_tools.vgpu.binding import VgpuError
from trace_format.schema import SlotKind
from trace_format.trace import Trace


class _Jobs(ByJob):
    """Keeps what each job did."""

    def __init__(self, trace: Trace) -> None:
        super().__init__(trace)
        self.jobs: list[Job] = []

    def take(self, seen: AccessMap) -> None:
        """What the latest job did."""
        if self.job >= 0:
            self.jobs.append(job_of(seen, varies=self.gpu.access_varies))


def job_accesses(trace: Trace) -> list[Job]:
    """The accesses of each job, in the order in which they start.

    Raises:
        Conflict: the virtual GPU cannot run them.
    """
    try:
        run = _Jobs(trace)
    except VgpuError as error:
        raise Conflict(f"its jobs cannot be observed: {error}") from None
    try:
        run.replay(random_inputs(trace, FIRST_SEED, (SlotKind.INPUT, SlotKind.PARAMETER)))
    except DivergenceError as error:
        raise Conflict(f"its jobs cannot be observed: {error}") from None
    return run.jobs


def moved(jobs: Iterable[Job], before: Mappings, after: Mappings) -> list[Job]:
    """The same jobs where memory lies elsewhere: GPU addresses stay."""
    to = dict(zip(after.keys.tolist(), after.frames.tolist(), strict=True))
    frames: dict[int, set[int]] = {}
    for key, frame in zip(before.keys.tolist(), before.frames.tolist(), strict=True):
        if key in to:
            frames.setdefault(frame, set()).add(to[key])
    return [
        Job({f: flags for frame, flags in job.accesses.items() for f in frames.get(frame, ())}, job.varies)
        for job in jobs
    ]
