# SPDX-License-Identifier: BSD-2-Clause
"""Candidates measured: many kernels compiled and run in one boot of the guest, timed by the model, and checked.

All candidates of a kernel get the same random inputs. What counts is whether their outputs are those of the kernel
without optimisations, which lavapipe computes on this machine: other code, by another driver. One that a compiler
refuses, or that stops the virtual GPU, is found by halving the batch.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from host_tools.accesses.job_work import JobWork, job_work_and_outputs
from host_tools.extras.speed.kernels.candidates import Candidate, Kernel
from host_tools.machine.errors import RecordError
from host_tools.model.timing import Chip, estimate
from host_tools.record.compiled import runner
from host_tools.record.compiled.layout import PlanError, laid_out
from host_tools.record.compiled.plan import Buffer, Call, Kind, Plan, View
from host_tools.record.compiled.recording import run_plan
from host_tools.record.compiled.shaders import spirv
from host_tools.record.differences import relative_difference
from host_tools.vgpu import confined
from trace_format.trace import Trace

TOLERANCE = 1e-5  # of the largest value: sums in another order differ by less
BATCH_S = 300.0  # what a boot may take; one candidate that takes longer is none
SEED = 20261127
Arrays = dict[int, NDArray[Any]]  # by binding


@dataclass(frozen=True)
class Measured:
    """What came of a candidate.

    Attributes:
        us: its time on the chip by the model; None: it cannot be had, or is wrong.
        instructions, lines: of the GPU, and lines of 64 bytes that it loads.
        registers, resident: of a thread, and threads of a core side by side.
        why: what is wrong with it.
    """

    us: float | None
    instructions: int = 0
    lines: int = 0
    registers: int = 0
    resident: int = 0
    why: str = ""


class Bench:
    """A kernel with inputs, and with what the right outputs are.

    Args:
        kernel: it.
        call: one of its calls in the plan.
        plain: the kernel without optimisations; None: outputs are not checked.

    Raises:
        RecordError: lavapipe cannot compute it, or its outputs are not finite for any inputs.
    """

    def __init__(self, kernel: Kernel, call: Call, plain: Candidate | None) -> None:
        self.kernel, self.call = kernel, call
        self.inputs = self._inputs(positive=False)
        self.expected: Arrays = {}
        if plain is None:
            return
        for positive in (False, True):  # the logarithm of a negative number is none
            self.inputs = self._inputs(positive)
            plan = self._plan([plain])
            left = runner.judged(laid_out(plan), spirv(plan.kernels), {})
            self.expected = {at: left[f"0.{at}"] for at in call.writes}
            if all(np.isfinite(value).all() for value in self.expected.values() if value.dtype.kind == "f"):
                return
        raise RecordError(f"kernel {kernel.name}: its results are not finite for random inputs")

    def _inputs(self, positive: bool) -> Arrays:
        """Random values of the bindings that the kernel reads."""
        found = {}
        for at, (view, kind) in enumerate(zip(self.call.views, self.kernel.types, strict=True)):
            if at in self.call.writes:
                continue
            generator = np.random.default_rng([SEED, zlib.crc32(self.kernel.key.encode()), at])
            count = view.size // np.dtype(kind).itemsize
            values: NDArray[Any]
            if np.dtype(kind).kind == "f":
                values = generator.uniform(0.5, 1, count) if positive else generator.normal(0, 1, count)
            else:
                values = generator.integers(0, 2 if kind == "bool" else 128, count)
            found[at] = values.astype(kind)
        return found

    def _plan(self, candidates: Sequence[Candidate]) -> Plan:
        return plan_of([(self, candidate) for candidate in candidates])

    def judge(self, found: Mapping[int, NDArray[Any]]) -> str:
        """What is wrong with outputs; empty for nothing."""
        for at, expected in self.expected.items():
            allowed = TOLERANCE if expected.dtype.kind == "f" else 0.0
            difference = relative_difference(found[at], expected)
            if not difference <= allowed:
                return f"its results differ by {difference:.2e} of the largest value"
        return ""


Trials = Sequence[tuple[Bench, Candidate]]


def searchable(kernel: Kernel, call: Call) -> bool:
    """Whether random inputs mean something to a kernel: whole numbers of 32 bits may be indices."""
    read = [kind for at, kind in enumerate(kernel.types) if at not in call.writes]
    known = all(kind in ("float32", "int8", "uint8", "bool") for kind in read) and all(kernel.types)
    return kernel.nest is not None and known and len(kernel.types) == len(call.views)


def plan_of(trials: Trials) -> Plan:
    """A plan that calls each candidate once; its outputs are named by the candidate's number and the binding."""
    buffers: list[Buffer] = []
    shared: dict[tuple[str, int], int] = {}
    calls = []
    for number, (bench, candidate) in enumerate(trials):
        views = []
        for at, view in enumerate(bench.call.views):
            if at in bench.call.writes:
                kind = bench.kernel.types[at]
                shape = (view.size // np.dtype(kind).itemsize,)
                buffers.append(Buffer(Kind.OUTPUT, view.size, b"", f"{number}.{at}", kind, shape))
                views.append(View(len(buffers) - 1, 0, view.size))
                continue
            place = shared.get((bench.kernel.key, at))
            if place is None:
                place = shared[bench.kernel.key, at] = len(buffers)
                buffers.append(Buffer(Kind.CONSTANT, view.size, bench.inputs[at].tobytes()))
            views.append(View(place, 0, view.size))
        calls.append(Call(number, candidate.groups, tuple(views), bench.call.writes, bench.kernel.name))
    return Plan(buffers, [candidate.source for _, candidate in trials], calls)


def measure(trials: Trials, chip: Chip, *, timeout: float, snapshot: str, what: str) -> list[Measured]:
    """Compile and run candidates in one boot.

    Args:
        trials: candidates that have a source, each with its kernel's bench.
        chip: whose time counts; its GPU is the one that they run on.
        timeout, snapshot: as for `record_plan`.
        what: what to call it.
    """
    if not trials:
        return []
    try:
        plan = plan_of(trials)
        layout = laid_out(plan)
        shaders = spirv(plan.kernels)
        limit = min(timeout, BATCH_S)
        trace = run_plan(layout, shaders, gpu=chip.gpu, timeout=limit, snapshot=snapshot, what=what)
    except (RecordError, PlanError) as error:
        if len(trials) == 1:
            return [Measured(None, why=str(error)[:300])]
        half = len(trials) // 2
        both = (trials[:half], trials[half:])
        return [
            one
            for part in both
            for one in measure(part, chip, timeout=timeout, snapshot=snapshot, what=f"{what}, again in halves")
        ]
    return _counted(trace, trials, chip)


def _counted(trace: Trace, trials: Trials, chip: Chip) -> list[Measured]:
    """What a replay counts of each candidate, and whether its outputs are right."""
    work, left = confined.call(lambda: job_work_and_outputs(trace), tuple[list[JobWork], dict[str, NDArray[Any]]])
    rows = [job for job in work if job.dispatches][: len(trials)]
    if len(rows) != len(trials):
        raise RecordError(f"expected {len(trials)} dispatches of candidates, found {len(rows)}")
    return [
        judged(bench, _timed(row, chip), {at: left[f"{number}.{at}"] for at in bench.call.writes})
        for number, ((bench, _), row) in enumerate(zip(trials, rows, strict=True))
    ]


def judged(bench: Bench, measured: Measured, left: Mapping[int, NDArray[Any]]) -> Measured:
    """What was measured; without a time, if the outputs are wrong."""
    why = bench.judge(left)
    return replace(measured, us=None, why=why) if why else measured


def _timed(job: JobWork, chip: Chip) -> Measured:
    """A candidate's time. Where a core has one thread only, nothing hides the latency of an access: the model's
    overlap does not apply, and all parts add up."""
    time = estimate(job.dispatches, chip)
    (row,) = job.dispatches
    us = sum(time.parts.values()) if row.resident == 1 else time.us
    return Measured(us, row.instructions, row.loaded_lines, row.registers, row.resident)
