# SPDX-License-Identifier: BSD-2-Clause
"""What each GPU job of a trace costs, measured by replaying it on the virtual GPU."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from host_tools.model.interpreter import Interpreter
from host_tools.vgpu.binding import Counters
from trace_format.actions import Action, Op
from trace_format.trace import Trace


@dataclass(frozen=True)
class JobCost:
    """One job: from the action that announces it to the next such action, or to the end of the replay.

    Attributes:
        actions: of the trace.
        writes: to registers.
        instructions: of shaders; 0 where the virtual GPU runs none.
        bytes_read, bytes_written: by the GPU.
        minimum_s, median_s: real time on this machine, of several replays.
    """

    actions: int
    writes: int
    instructions: int
    bytes_read: int
    bytes_written: int
    minimum_s: float
    median_s: float


@dataclass
class _Meter(Interpreter):
    """An interpreter that looks at clock and counters at every job's boundary."""

    marks: list[tuple[float, int, Counters]] = field(default_factory=list)
    steps: int = 0

    def mark(self) -> None:
        """Note where the replay is."""
        self.marks.append((time.perf_counter(), self.steps, self.gpu.counters()))

    def _step(self, row: Action) -> None:
        if row.op == Op.JOB:
            self.mark()
        super()._step(row)
        self.steps += 1


def job_costs(trace: Trace, inputs: Mapping[str, NDArray[Any]], replays: int) -> list[JobCost]:
    """The jobs in their order; what lies before the first one counts for none.

    Args:
        inputs: as `Interpreter.run`.
        replays: how many are measured, after one that is not.

    Raises:
        DivergenceError: as `Interpreter.run`.
    """
    meter = _Meter(trace)
    try:
        meter.run(inputs)
        rounds = []
        for _ in range(replays):
            meter.marks = []
            meter.run(inputs)
            meter.mark()
            rounds.append(meter.marks)
    finally:
        meter.close()
    return [_cost([marks[job : job + 2] for marks in rounds]) for job in range(len(rounds[0]) - 1)]


def _cost(rounds: list[list[tuple[float, int, Counters]]]) -> JobCost:
    """A job's cost from where it begins and ends in each replay; all but the time is the same in all of them."""
    (_, first_step, before), (_, last_step, after) = rounds[0]
    seconds = [end[0] - begin[0] for begin, end in rounds]
    return JobCost(
        actions=last_step - first_step,
        writes=after.writes - before.writes,
        instructions=after.instructions - before.instructions,
        bytes_read=after.bytes_read - before.bytes_read,
        bytes_written=after.bytes_written - before.bytes_written,
        minimum_s=min(seconds),
        median_s=statistics.median(seconds),
    )
