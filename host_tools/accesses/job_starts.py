# SPDX-License-Identifier: BSD-2-Clause
"""Which actions start a job: what makes the GPU work, whether a marker announces it or not."""

from __future__ import annotations

from host_tools.families.family import family_of
from trace_format.actions import Action, Op
from trace_format.profile import Job, Profile


class JobStarts:
    """Recognises the actions that start jobs of a GPU. Its family says what starts one, and nobody else."""

    def __init__(self, gpu: Profile) -> None:
        self.kinds = {job.start.index: job for job in gpu.jobs}
        self._starts = family_of(gpu).starts
        self._called = gpu.jobs[0]  # a GPU with command streams has one kind

    def of(self, row: Action) -> Job | None:
        """The kind of job that an action starts; None: none. One that writes a kept value may, and so does."""
        if row.op == Op.RUN_STREAM:
            return self._called
        job = self.kinds.get(row.register) if row.op in (Op.REG_WRITE, Op.REG_WRITE_KEPT) else None
        if job is not None and row.op == Op.REG_WRITE and not self._starts(row.value, row.mask):
            return None
        return job
