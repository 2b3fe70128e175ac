# SPDX-License-Identifier: BSD-2-Clause
"""From which job to which working memory is in use (`Family.spans`): seen in a replay, or noted by `record`.

Of jobs of which it is not proved that they access the same with other data, all that is mapped beside what they
accessed is in use always.

Two GPU pages may have one page of memory, one after the other, only if nothing of the first is left in a cache.
The driver has each job's writes written back, and waits for that, before the next starts (Linux v3d_gem.c,
v3d_clean_caches). Where a recording does not show it, nothing is said.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from host_tools.accesses.job_starts import JobStarts
from host_tools.families.accesses import Span
from host_tools.gpus.v3d.copies import CLEAN
from host_tools.passes.program import Program
from trace_format.actions import Action, Op, actions_of
from trace_format.profile import Profile


def job_spans(program: Program) -> Mapping[int, Span] | None:
    """Frame -> first and last job that uses it; see `Family.spans`."""
    memory = program.memory
    starts = written_back(actions_of(np.concatenate([memory.prologue, memory.stream])), program.profile)
    if memory.prepares or not starts:
        return None
    return program.spans(starts)


def written_back(rows: Iterable[Action], gpu: Profile) -> int:
    """How many jobs start, if memory has what each wrote before the next one starts and before the end; else 0."""
    job_starts, cache = JobStarts(gpu), gpu.register("core0.CTL_L2TCACTL").index
    lines = {job.line for job in gpu.jobs}
    runs = ended = cleans = False
    count = 0
    for row in rows:
        if job_starts.of(row):
            if runs:
                return 0
            runs, ended, cleans = True, False, False
            count += 1
        elif row.op == Op.WAIT_IRQ and row.line in lines:
            ended = runs
        elif row.op == Op.REG_WRITE and row.register == cache:
            cleans = ended and row.value & row.mask == CLEAN
        elif row.op == Op.REG_READ_WAIT and row.register == cache and cleans:
            runs = False
    return 0 if runs else count
