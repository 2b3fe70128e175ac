# SPDX-License-Identifier: BSD-2-Clause
"""The G71's constants, derived from GPUReplay's public recordings of a HiKey960.

A job's duration is the time from the write that starts it to the read that sees its interrupt, as the recordings
have it (in steps of 521 ns). Some have a wake-up of the CPU in them, of about 330 us: durations of short jobs
crowd at 340 to 440 us. Nobody says which, so the fit lets each job have one or not, as fits it better, and each
score is given twice: as predicted, and "aware", with the better of a prediction and that plus a wake-up. For a
replayer that polls, the first is an upper bound of the error, the second a lower one.

A network is predicted by a fit to the other two, through the family's `time_parts`, as `speed time` does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from host_tools.accesses.job_work import job_work
from host_tools.accesses.observe import random_inputs
from host_tools.extras.importers.gpureplay import HISTORY, read_history
from host_tools.extras.importers.gpureplay_trace import import_gpureplay
from host_tools.gpus.mali.timing import time_parts
from host_tools.model.timing import chips
from host_tools.passes.listing import PASSES
from host_tools.passes.pipeline import build
from host_tools.vgpu.binding import Dispatch
from tests.bench.time.fitting import Array, Score, fit, score
from trace_format import profile
from trace_format.schema import SlotKind

NETWORKS = ("mnist", "alexnet", "mobilenet")
GPU, CHIP = "mali_g71", "hikey960"
WAKE_UPS = (0.0, 330.0)  # us
# Fitted constants: name -> the part that it makes. The bandwidth divides, so what is fitted is its inverse.
FITTED = {
    "start": "start",
    "workgroup": "workgroups",
    "line": "lines",
    "word": "words",
    "miss": "misses",
    "bandwidth": "memory",
}
FIXED = 2  # of them that nothing overlaps with, the first
# A replay needs these; others would only make it slower to prepare.
NEEDED = (
    "volatile",
    "polls",
    "interrupts",
    "intervals",
    "cache-maintenance",
    "power-states",
    "status-reads",
    "flush-ids",
    "fault-bits",
    "address-spaces",
    "map-once",
    "preparation",
)


@dataclass(frozen=True)
class Measured:
    """A recorded job: how long it took, and what it did. `prepares`: it is not part of a replay."""

    network: str
    us: float
    prepares: bool
    dispatches: Sequence[Dispatch]


def durations(history: bytes) -> list[float]:
    """Microseconds of each job, from the start of its chain to the read that saw its interrupt."""
    found: list[float] = []
    now, started = 0, None
    for access in read_history(history, profile.load(GPU)):
        now += access.delay_ns
        name = access.register.name
        if access.write and name.endswith(".COMMAND_NEXT") and access.value == 1:
            started = now
        elif not access.write and name == "job.IRQ_STATUS" and access.value and started is not None:
            found.append((now - started) / 1000)
            started = None
    return found


def measured(folder: Path, name: str) -> list[Measured]:
    """The jobs of a recording.

    Args:
        folder: of the public recordings.
    """
    raw = import_gpureplay(folder / name, name)
    trace = build(raw, skip=[item for item in PASSES if item not in NEEDED])
    work = job_work(trace, random_inputs(trace, 0, (SlotKind.INPUT, SlotKind.PARAMETER)))
    times = durations((folder / name / HISTORY).read_bytes())
    return [Measured(name, us, job.prepares, job.dispatches) for us, job in zip(times, work, strict=True)]


def features(jobs: Sequence[Measured]) -> Array:
    """A row a job: what each fitted constant, if it were 1, would add to its time in microseconds."""
    values = chips()[CHIP].values() | dict.fromkeys(FITTED, 1.0)
    rows = [[time_parts(row, values) for row in job.dispatches] for job in jobs]
    return np.array([[sum(getattr(one, part) for one in row) for part in FITTED.values()] for row in rows])


def issue(jobs: Sequence[Measured]) -> Array:
    """Microseconds of arithmetic, with which accesses overlap."""
    values = chips()[CHIP].values()
    return np.array([sum(time_parts(row, values).issue for row in job.dispatches) for job in jobs])


def constants(jobs: Sequence[Measured]) -> dict[str, float]:
    """The fitted constants."""
    found = dict(zip(FITTED, fit(features(jobs), _us(jobs), WAKE_UPS), strict=True))
    return found | {"bandwidth": 1 / found["bandwidth"]}


def left_out(jobs: Sequence[Measured], baseline: bool = False) -> Array:
    """Predictions in microseconds, each job's by a fit to the jobs of the other networks.

    Args:
        baseline: by a constant and instructions alone.
    """
    matrix = np.stack([np.ones(len(jobs)), issue(jobs)], axis=1) if baseline else features(jobs)
    networks = np.array([job.network for job in jobs])
    predicted = np.zeros(len(jobs))
    for network in NETWORKS:
        out = networks == network
        parts = matrix[out] * fit(matrix[~out], _us(jobs)[~out], WAKE_UPS)
        predicted[out] = parts.sum(axis=1)
        if not baseline:  # what overlaps is as long as the longer of both
            fixed = parts[:, :FIXED].sum(axis=1)
            predicted[out] = np.maximum(
                predicted[out], fixed + issue([job for job in jobs if job.network == network])
            )
    return predicted


def scores(jobs: Sequence[Measured], predicted: Array) -> dict[str, Score]:
    """Of all jobs, of those over half a millisecond, of those over one."""
    us = _us(jobs)
    return {
        name: score(predicted[us > least], us[us > least], WAKE_UPS)
        for name, least in (("all", 0), ("over 0.5 ms", 500), ("over 1 ms", 1000))
    }


def spread(jobs: Sequence[Measured], predicted: Array) -> tuple[float, float]:
    """Measured over predicted time, less a wake-up where that fits better: the middle eight of ten."""
    us = _us(jobs)
    woken = np.abs(us - WAKE_UPS[1] - predicted) < np.abs(us - predicted)
    low, high = np.quantile((us - WAKE_UPS[1] * woken) / predicted, (0.1, 0.9))
    return float(low), float(high)


def _us(jobs: Sequence[Measured]) -> Array:
    return np.array([job.us for job in jobs])
