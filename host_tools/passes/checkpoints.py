# SPDX-License-Identifier: BSD-2-Clause
"""Replays that go on at the job where they stopped: after others had the GPU, and after a fault.

ReplayStart says whether they can at all, which register accesses show (host_tools/model/checkpoints.py); each Job
says whether its step can be done again, which accesses to memory show (host_tools/accesses/repeated.py).
"""

from __future__ import annotations

from collections import defaultdict

from host_tools.accesses.repeated import why_not_repeated
from host_tools.families.page_tables import DivergenceError
from host_tools.model.checkpoints import why_not_resumed
from host_tools.passes.checkpoint_report import CheckpointFacts, Marked
from host_tools.passes.program import Program
from host_tools.passes.registry import Option, Pass
from host_tools.vgpu.binding import VgpuError
from trace_format.actions import FLAG_REPEAT, FLAG_RESUME, Op


def mark_checkpoints(program: Program) -> str:
    """Say where a replay goes on after a reset or a fault (`--checkpoints`)."""
    trace = program.finish(sheet=program.on_sheet)
    why = why_not_resumed(trace)
    if why:
        return why
    try:
        found = why_not_repeated(trace)
    except (DivergenceError, VgpuError) as error:
        return f"its jobs cannot be watched: {error}"
    rows = trace.actions.copy()
    rows["flags"][rows["op"] == Op.REPLAY_START] |= FLAG_RESUME
    kept = defaultdict(list)
    for number, (index, reason) in enumerate(found.items(), 1):
        if reason:
            kept[reason].append(number)
        else:
            rows["flags"][index] |= FLAG_REPEAT
    program.reports[PASS.name] = Marked(len(found), dict(kept))
    program.actions = rows
    return ""


PASS = Pass(
    "checkpoints",
    (mark_checkpoints.__doc__ or "").splitlines()[0],
    mark_checkpoints,
    Option(
        "--checkpoints",
        "",
        (
            "Mark where a replay can resume after other GPU users, and the jobs that can be retried; for "
            "replayers with steps."
        ),
        "checkpoints",
        CheckpointFacts,
    ),
)
