# SPDX-License-Identifier: BSD-2-Clause
"""What a recording calls its jobs: a claim of the file, for people only."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Mapping

from trace_format.actions import Columns, Op
from trace_format.errors import printable
from trace_format.trace import Trace

NOTE = "calls"  # in the notes: a list with a name for each job, or a list of the names of all that it computes
LONGEST = 60  # characters that are shown of one
KIND = re.compile(r"(.+) (\(\w+\))", re.DOTALL)  # a layer and its type, as recordings name them


def job_names(trace: Trace) -> list[str]:
    """A name for each job, in the order of their JOB actions, on one line each; []: notes have no such list.

    Of several layers the first is named: "encoder.1 and 2 more (Conv)".
    """
    names = trace.notes.get(NOTE)
    jobs = int(Columns(trace.actions).is_op(Op.JOB).sum())
    if not isinstance(names, list) or len(names) != jobs:
        return []
    whole = [name if isinstance(name, list) else [name] for name in names]
    if not all(part and all(isinstance(name, str) for name in part) for part in whole):
        return []
    return [_shown(*part) for part in whole]


def _shown(first: str, *more: str) -> str:
    if not more:
        return shortened(printable(first), LONGEST)
    match = KIND.fullmatch(first)
    name, kind = (match[1], f" {match[2]}") if match else (first, "")
    end = f" and {len(more)} more{printable(kind)}"
    return shortened(printable(name), max(LONGEST - len(end), 4)) + end


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
