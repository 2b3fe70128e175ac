# SPDX-License-Identifier: BSD-2-Clause
"""Benchmark: the virtual Mali's shaders, on GPUReplay's recordings with made-up weights, built with all passes.

A slot is one operation of one thread. Rates are by CPU time on one thread. A replay's seconds are wall time, the
the shortest of a few.
"""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from host_tools.extras.importers.gpureplay_trace import import_gpureplay
from host_tools.extras.importers.networks import file
from host_tools.extras.importers.networks.weights import Tensors, describe, slot_values
from host_tools.model.interpreter import Interpreter
from host_tools.passes.pipeline import build
from tests.support import recordings
from tests.support.described_networks import made_up
from trace_format.actions import Action, Op
from trace_format.trace import Trace

SEED = 5
CORES, REPLAYS = 2, 3
# Jobs from the first that reads the input to the last before the classifier: convolutions and what lies between
# them. Jobs before these prepare weights. Seen by what jobs read and write.
CONVOLUTIONS = {"mnist": slice(5, 20), "alexnet": slice(15, 55), "mobilenet": slice(50, 99)}


@dataclass(frozen=True)
class Row:
    """Figures of one recording.

    Attributes:
        slots: of a replay.
        rate: millions of slots a second and core.
        convolution_rate: the same, of the jobs in CONVOLUTIONS alone.
        replay_s: of one replay on CORES cores, copying of input and parameters included.
    """

    name: str
    jobs: int
    slots: int
    rate: float
    convolution_rate: float
    replay_s: float


class _Timed(Interpreter):
    """Notes CPU seconds and slots so far, at the start of each job and at the end of a replay."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.marks: list[tuple[float, int]] = []

    def mark(self) -> None:
        self.marks.append((time.process_time(), self.gpu.counters().instructions))

    def _step(self, row: Action) -> None:
        if row.op == Op.JOB:
            self.mark()
        super()._step(row)


def measure(name: str) -> Row:
    """All figures of one recording."""
    network, generator = file.load(name), np.random.default_rng(SEED)
    recording = describe(import_gpureplay(recordings.folder(recordings.GPUREPLAY) / name, name), network)
    trace = build(recording)
    inputs = slot_values(made_up(network, generator), network)
    inputs["input"] = generator.standard_normal(network.slots["input"].shape, np.float32)
    marks = _marks(trace, inputs)
    steps = np.diff(np.array(marks), axis=0)
    convolutions = steps[CONVOLUTIONS[name]]
    return Row(
        name,
        len(steps),
        int(steps[:, 1].sum()),
        _rate(steps),
        _rate(convolutions),
        _seconds(trace, inputs),
    )


def _rate(steps: NDArray[np.float64]) -> float:
    seconds, slots = steps.sum(axis=0)
    return float(slots / seconds / 1e6)


def _marks(trace: Trace, inputs: Tensors) -> list[tuple[float, int]]:
    """Of a second replay on one thread: the first one touches memory for the first time."""
    with closing(_Timed(trace, threads=1)) as run:
        run.run(inputs)
        run.marks.clear()
        run.run(_again(inputs))
        run.mark()
        return run.marks


def _again(inputs: Tensors) -> Tensors:
    """Other arrays, so that parameters are copied once more: jobs have overwritten some."""
    return {name: array.view() for name, array in inputs.items()}


def _seconds(trace: Trace, inputs: Tensors) -> float:
    with closing(Interpreter(trace, threads=CORES)) as run:
        times = []
        for _ in range(1 + REPLAYS):
            given = _again(inputs)
            start = time.perf_counter()
            outputs = run.run(given)
            times.append(time.perf_counter() - start)
    if not np.isclose(outputs["output"].sum(), 1, atol=1e-3):
        raise AssertionError(f"{trace.meta['name']}: the output's probabilities do not add up to 1")
    return min(times[1:])


def lines(rows: list[Row]) -> dict[str, list[str]]:
    """What to print: a line a figure, a cell a recording."""
    return {
        "GPU jobs": [f"{r.jobs}" for r in rows],
        "one replay, slots": [f"{r.slots:,}" for r in rows],
        "M slots/s/core": [f"{r.rate:,.0f}" for r in rows],
        "  of convolutions": [f"{r.convolution_rate:,.0f}" for r in rows],
        f"one replay on {CORES} cores, seconds": [f"{r.replay_s:.3f}" for r in rows],
    }
