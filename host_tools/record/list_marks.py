# SPDX-License-Identifier: BSD-2-Clause
"""Lists that copy and fill buffers are jobs like any other: a raw trace marks where they start."""

from __future__ import annotations

import numpy as np

from host_tools.passes.list_passes import list_jobs
from trace_format.actions import Columns, Op, action, array_of
from trace_format.trace import Trace


def mark_lists(trace: Trace) -> Trace:
    """The trace with a Job before each list that may write to buffers, all jobs numbered anew."""
    starts = [item.start for item in list_jobs(trace) if item.writes]
    if not starts:
        return trace
    marker = array_of([action(Op.JOB, number=0)])
    rows = np.insert(trace.actions, starts, marker[0])
    jobs = np.flatnonzero(Columns(rows).is_op(Op.JOB))
    rows[jobs] = array_of([action(Op.JOB, number=number) for number in range(len(jobs))])
    return trace.with_(actions=rows)
