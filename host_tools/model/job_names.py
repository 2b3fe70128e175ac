# SPDX-License-Identifier: BSD-2-Clause
"""What a recording calls its jobs: a claim of the file, for people only."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping

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
    return [shortened(printable(name), LONGEST) for name in names]


def names_by_action(trace: Trace) -> dict[int, str]:
    """The names that are not empty, by the index of the job's JOB action."""
    markers = Columns(trace.actions).is_op(Op.JOB).nonzero()[0].tolist()
    return {at: name for at, name in zip(markers, job_names(trace), strict=False) if name}


def name_before(names: Mapping[int, str], action: int) -> str:
    """Of names by action, in their order, the one of the last marker up to an action; "" for none."""
    markers = list(names)
    at = bisect_right(markers, action)
    return names[markers[at - 1]] if at else ""


def shortened(name: str, longest: int) -> str:
    """A name of so many characters at most."""
    return name if len(name) <= longest else f"{name[: longest - 3]}..."
