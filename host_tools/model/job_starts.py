# SPDX-License-Identifier: BSD-2-Clause
"""Which actions start a job: the writes that make the GPU work, whether a marker announces them or not."""

from __future__ import annotations

from host_tools.gpus.family import family_of
from trace_format.actions import Action, Op
from trace_format.profile import Job, Profile

START = 1  # what a job manager takes as the command to start a chain (Linux panfrost_regs.h, JS_COMMAND_START)


class JobStarts:
    """Recognises the actions that start jobs of a GPU."""

    def __init__(self, gpu: Profile) -> None:
        self.kinds = {job.start.index: job for job in gpu.jobs}
        self.has_job_manager = family_of(gpu).has_job_manager

    def of(self, row: Action) -> Job | None:
        """The kind of job that an action starts; None: none."""
        if row.op not in (Op.REG_WRITE, Op.REG_WRITE_KEPT):
            return None
        job = self.kinds.get(row.register)
        if job is not None and self.has_job_manager and row.op == Op.REG_WRITE and row.value & row.mask != START:
            return None
        return job
