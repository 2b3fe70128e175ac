# SPDX-License-Identifier: BSD-2-Clause
"""How long the jobs of a trace take, whole and cut: what `simulate` schedules."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from host_tools.accesses.job_times import job_times, replayed
from host_tools.commands.framework import warn
from host_tools.families.page_tables import DivergenceError
from host_tools.families.shares import order_of, overlap
from host_tools.model.timing import Chip, TimingError
from host_tools.passes.cut_report import Cut
from host_tools.passes.cutting import PASS, cut_jobs
from host_tools.passes.program import Program
from host_tools.support.progress import phase
from host_tools.vgpu import confined
from host_tools.vgpu.binding import VgpuError
from trace_format.errors import GramophoneError
from trace_format.trace import Trace


@dataclass(frozen=True)
class _Cut:
    """A trace with jobs cut, and what was not done."""

    trace: bytes
    why: str
    kept: int
    reasons: list[str]


def whole_times(trace: Trace, chip: Chip) -> tuple[float, ...]:
    """Microseconds of each job of a replay; jobs that run at the same time are one, which nobody can interrupt."""
    timed = job_times(trace, chip)
    order = order_of(trace)
    if order and overlap(order):
        return (replayed(trace, timed).us,)
    return tuple(time.us for job, time in timed if not job.prepares)


def cut_times(file: Path, trace: Trace, chip: Chip, longest_us: float) -> tuple[float, ...]:
    """Microseconds of each job after cutting; jobs that stay longer are a warning."""

    def work() -> _Cut:
        program = Program(trace)
        program.asked = {PASS.name: longest_us}
        why = cut_jobs(program)
        report = program.reports.get(PASS.name)
        kept = report.kept if isinstance(report, Cut) else ()
        reasons = sorted({job.why for job in kept})
        return _Cut(program.trace().build(compress=False), why, len(kept), reasons)

    try:
        with phase("cutting jobs"):
            cut = confined.call(work, _Cut)
    except (DivergenceError, VgpuError) as error:
        raise GramophoneError(f"{file}: its jobs cannot be cut: {error}") from error
    if cut.why:
        raise TimingError(f"its jobs cannot be cut: {cut.why}")
    if cut.kept:
        warn(f"{file}: {cut.kept} jobs take more than {longest_us:g} us with cuts, too: {'; '.join(cut.reasons)}")
    return whole_times(Trace.parse(cut.trace, str(file)), chip)
