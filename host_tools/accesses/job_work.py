# SPDX-License-Identifier: BSD-2-Clause
"""What each GPU job of a trace does that takes time, counted in one replay on the virtual GPU."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from host_tools.families.family import part_of
from host_tools.families.timing import Timing
from host_tools.model.interpreter import Interpreter
from host_tools.vgpu.binding import Dispatch
from trace_format.actions import Action, Columns, Op
from trace_format.trace import Trace


@dataclass
class JobWork:
    """One job: from the action that announces it to the next such action, or to the end of the replay.

    Attributes:
        action: index of the action that announces it.
        prepares: it lies before ReplayStart: it runs once, not in each replay.
        lists: bin and render lists that it ran; no row tells what they do.
        dispatches: what its compute dispatches did: more than one where a Mali's job is a chain.
        accesses: to registers, up to the next job.
        waits: index of each WaitIrq up to the next job.
        cores: on how many of the GPU's cores it runs; 0: on all.
    """

    action: int
    prepares: bool
    lists: int
    dispatches: list[Dispatch] = field(default_factory=list)
    accesses: int = 0
    waits: list[int] = field(default_factory=list)
    cores: int = 0


@dataclass
class _Meter(Interpreter):
    """An interpreter that looks at the GPU's rows at every job's boundary."""

    jobs: list[JobWork] = field(default_factory=list)
    prepares: bool = True

    def end_job(self) -> None:
        """Give the open job what the GPU has done since it was announced."""
        rows, counters = self.gpu.dispatches(), self.gpu.counters()
        if self.jobs:
            job = self.jobs[-1]
            job.dispatches = rows
            job.lists = counters.list_jobs - job.lists

    def _step(self, row: Action) -> None:
        if row.op == Op.REPLAY_START:
            self.prepares = False
        if row.op == Op.JOB:
            self.end_job()
            self.jobs.append(JobWork(self.index, self.prepares, self.gpu.counters().list_jobs))
        super()._step(row)
        if self.jobs:
            self.jobs[-1].accesses += row.op in (Op.REG_READ_ONCE, Op.REG_READ_WAIT, Op.REG_WRITE)
            if row.op == Op.WAIT_IRQ:
                self.jobs[-1].waits.append(self.index)


def job_work(trace: Trace, inputs: Mapping[str, NDArray[Any]] | None = None) -> list[JobWork]:
    """The jobs in their order, those before ReplayStart among them.

    Args:
        inputs: as `Interpreter.run`.

    Raises:
        DivergenceError: as `Interpreter.run`.
    """
    return job_work_and_outputs(trace, inputs)[0]


def job_work_and_outputs(
    trace: Trace, inputs: Mapping[str, NDArray[Any]] | None = None
) -> tuple[list[JobWork], dict[str, NDArray[Any]]]:
    """As `job_work`, and what the replay computed, by slot."""
    meter = _Meter(trace, meter=True)
    meter.prepares = bool(Columns(trace.actions).is_op(Op.REPLAY_START).any())
    try:
        outputs = meter.run(inputs)
        meter.end_job()
    finally:
        meter.close()
    timing = part_of(trace.gpu, Timing)
    if timing and timing.job_cores:
        for job, cores in zip(meter.jobs, timing.job_cores(trace), strict=True):
            job.cores = cores
    return meter.jobs, outputs
