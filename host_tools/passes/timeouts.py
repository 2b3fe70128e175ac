# SPDX-License-Identifier: BSD-2-Clause
"""Timeouts of the waits for jobs, from what these are estimated to take, in place of the recorder's five seconds.

One that is too short breaks a trace on a board, one that is too long only makes a hang noticed later. So it is
`program.timeout_margin` times the end of the estimate's interval, and at least FLOOR_US; without a margin nothing
changes (docs/adr/0051-time.md). Where so many waits add up to more than the time budget, this becomes longer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from host_tools.accesses.job_work import JobWork, job_work
from host_tools.accesses.observe import FIRST_SEED, random_inputs
from host_tools.families.page_tables import DivergenceError
from host_tools.model.timing import Chip, TimingError, chip_of, estimate
from host_tools.passes.program import Program
from host_tools.passes.registry import Pass
from host_tools.vgpu.binding import VgpuError
from trace_format.actions import Action, Actions
from trace_format.operands import Type
from trace_format.schema import MAX_TIME_BUDGET_US, SlotKind
from trace_format.trace import Trace
from trace_format.validate import replay_total

SECOND_US = 1_000_000
MARGIN = 10  # times the end of an estimate's interval: what `build` takes if nobody says otherwise
FLOOR_US = 100_000  # for what no estimate has, as Linux waits for a GPU's handshakes (v3d_gem.c)
LEAST = 2  # times the interval's end, where that is longer than what was recorded


def set_timeouts(program: Program) -> str:
    """Let waits for jobs end after a multiple of what the jobs are estimated to take."""
    margin = program.timeout_margin
    if margin is None:
        return ""
    trace = program.finish(sheet=program.on_sheet)
    try:
        chip = chip_of(trace.gpu)
    except TimingError as error:
        return str(error)
    inputs = random_inputs(trace, FIRST_SEED, (SlotKind.INPUT, SlotKind.PARAMETER))
    try:
        work = job_work(trace, inputs)
    except (DivergenceError, VgpuError) as error:  # `build` need not run the jobs of every GPU
        return f"its jobs cannot be counted: {error}"
    rows = trace.actions.copy()
    for at, us in _worst(work, chip):
        wait = Action.of(rows[at])
        timeout = min(margin * us, max(wait.timeout_us, LEAST * us))
        rows[at] = wait.with_(timeout_us=int(max(timeout, FLOOR_US)))
    if not np.array_equal(rows, trace.actions):
        program.actions = rows
    if (budget := _budget(rows)) > (Trace.META_DEFAULTS | trace.meta)["time_budget_us"]:
        program.replace(meta={**program.meta, "time_budget_us": budget})
    return ""


def _budget(rows: Actions) -> int:
    """Microseconds, whole seconds: time for each wait and pause of a replay, as far as a device takes any."""
    total = sum(replay_total(rows, kind) for kind in (Type.TIMEOUT, Type.MICROSECONDS))
    return min(-(-total // SECOND_US) * SECOND_US, MAX_TIME_BUDGET_US)


def _worst(jobs: Sequence[JobWork], chip: Chip) -> Iterator[tuple[int, float]]:
    """Each wait's index, and how long all that it may be for takes at worst: the job, what was started since the
    wait before, and the job before that, which runs on where jobs queue.

    Lists are not estimated: their waits stay as they are, and so does one for what is started behind them.
    """
    pending = before = 0.0
    known = True
    for job in jobs:
        high = estimate(job.dispatches, chip, job.cores).high_us
        known = known and not job.lists
        if known:
            yield from ((at, pending + before + high) for at in job.waits)
        pending = 0.0 if job.waits else pending + high
        known = known or bool(job.waits)
        before = high


PASS = Pass("timeouts", (set_timeouts.__doc__ or "").splitlines()[0], set_timeouts)
