# SPDX-License-Identifier: BSD-2-Clause
"""What a recording calls its jobs: a claim of the file, for people only."""

from __future__ import annotations

from trace_format.actions import Columns, Op
from trace_format.errors import printable
from trace_format.trace import Trace

NOTE = "calls"  # in the notes: a list of names, one for each job
LONGEST = 60  # characters that are shown of one


def job_names(trace: Trace) -> list[str]:
    """A name for each job, in the order of their JOB actions, on one line each; []: notes have no such list."""
    names = trace.notes.get(NOTE)
    jobs = int(Columns(trace.actions).is_op(Op.JOB).sum())
    if not isinstance(names, list) or len(names) != jobs or not all(isinstance(name, str) for name in names):
        return []
    return [_short(printable(name)) for name in names]


def _short(name: str) -> str:
    return name if len(name) <= LONGEST else f"{name[: LONGEST - 3]}..."
