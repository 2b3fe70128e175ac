# SPDX-License-Identifier: BSD-2-Clause
"""How long a trace's jobs take on a chip, from what they do in one replay."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from host_tools.accesses.job_work import JobWork, job_work
from host_tools.accesses.observe import random_inputs
from host_tools.families.page_tables import DivergenceError
from host_tools.families.shares import elapsed, order_of
from host_tools.model.timing import Chip, Estimate, JobTime, TimingError, chip_of, estimate, together
from host_tools.support.progress import phase
from host_tools.vgpu import confined
from trace_format.errors import GramophoneError
from trace_format.schema import SlotKind
from trace_format.trace import Trace

SEED = 0  # of inputs: a network's jobs do the same with all of them


def job_times(trace: Trace, chip: Chip, cores: int = 0) -> list[tuple[JobWork, JobTime]]:
    """What each job does, counted in a sandbox, and how long that takes.

    Args:
        trace: a built one, or a recording, whose jobs prepare weights each time.
        chip: one that has the trace's GPU.
        cores: on how many of its cores all jobs run; 0: on those that the trace gives them.

    Raises:
        TimingError: there are no jobs, or some that the model knows nothing of.
        GramophoneError: the trace cannot be replayed.
    """
    if not trace.jobs:
        raise TimingError("it has no GPU jobs")
    inputs = random_inputs(trace, SEED, (SlotKind.INPUT, SlotKind.PARAMETER))
    try:
        with phase("counting what the jobs do"):
            work = confined.call(lambda: job_work(trace, inputs), list[JobWork])
    except DivergenceError as error:
        raise GramophoneError(f"its jobs cannot be counted: {error}") from error
    for number, job in enumerate(work, 1):
        if job.lists:
            raise TimingError(f"job {number} runs a bin or render list, which the time model does not know")
    return [(job, estimate(job.dispatches, chip, cores or job.cores)) for job in work]


def replayed(trace: Trace, timed: Sequence[tuple[JobWork, JobTime]]) -> Estimate:
    """How long the jobs of each replay take together: one after another, but for those that run at the same time.

    Args:
        trace: it.
        timed: its jobs, as `job_times`.
    """
    times = [time for _, time in timed]
    order = order_of(trace)
    if order is None:
        return together([time for job, time in timed if not job.prepares])
    us, low, high = (
        elapsed(order, [getattr(time, name) for time in times]) for name in ("us", "low_us", "high_us")
    )
    return Estimate(us, low, high)


@dataclass(frozen=True)
class Estimated:
    """How long a replay's jobs take on a chip, as an interval in microseconds; no time of hardware.

    Attributes:
        chip, title: the chip, as `--chip` and as people call it.
    """

    chip: str
    title: str
    us: float
    low_us: float
    high_us: float

    def text(self) -> str:
        """For people."""
        low, middle, high = (us / 1e3 for us in (self.low_us, self.us, self.high_us))
        return f"{middle:,.2f} ms a replay ({low:,.2f} to {high:,.2f}) on a {self.title}"


def estimated(trace: Trace) -> Estimated | None:
    """The estimate for the chip with the trace's GPU; None where the model knows nothing of it or of the jobs.

    Raises:
        GramophoneError: the trace cannot be replayed.
    """
    found = estimated_jobs(trace)
    return found[0] if found else None


def estimated_jobs(trace: Trace) -> tuple[Estimated, dict[int, float]] | None:
    """As `estimated`, and the time of each job in microseconds, by the index of the action that announces it.

    Raises:
        GramophoneError: the trace cannot be replayed.
    """
    try:
        chip = chip_of(trace.gpu)
        jobs = job_times(trace, chip)
    except TimingError:
        return None
    time = replayed(trace, jobs)
    whole = Estimated(chip.name, chip.title, time.us, time.low_us, time.high_us)
    return whole, {job.action: time.us for job, time in jobs}


def replay_time(trace: Trace, chip: Chip) -> Estimate:
    """How long the jobs of each replay take together.

    Raises:
        TimingError, GramophoneError: as `job_times`.
    """
    return replayed(trace, job_times(trace, chip))
