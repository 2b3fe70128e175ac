# SPDX-License-Identifier: BSD-2-Clause
"""The V3D's model against published times (published.toml)."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np

from host_tools.accesses.job_work import job_work
from host_tools.accesses.observe import random_inputs
from host_tools.families.timing import total
from host_tools.gpus.v3d.timing import time_parts
from host_tools.model.timing import Chip, chips
from host_tools.passes.pipeline import build
from host_tools.vgpu.binding import Dispatch
from tests.bench import breadth, recordings
from tests.bench.time.fitting import Array, nonnegative
from trace_format.trace import Trace

PUBLISHED = tomllib.loads(Path(__file__).with_name("published.toml").read_text(encoding="utf-8"))
PREFIX, TOLERANCE = "v3d71-fp16-", 0.2  # of half precision, in which a CPU's and a GPU's results differ


@dataclass(frozen=True)
class Program:
    """A program's published time and its estimate, in milliseconds. `fixed`: the constant that came from it."""

    name: str
    published: float
    instructions: float
    accesses: float
    estimated: float
    fixed: str


@dataclass(frozen=True)
class Network:
    """A network's published time and its estimate, in milliseconds.

    Attributes:
        jobs: dispatches of one replay.
        instructions: of them.
        issue, accesses: milliseconds by resource, job by job, added up.
        estimated: by the model as it is, for a replayer that polls.
    """

    name: str
    published: float
    jobs: int
    instructions: int
    issue: float
    accesses: float
    estimated: float


def programs() -> list[Program]:
    """The hand-written programs of a Raspberry Pi 4, which hide all that overlaps."""
    chip = chips()["pi4"]
    found = []
    for name, row in PUBLISHED["program"].items():
        counts = {key: value for key, value in row.items() if key not in ("ms", "fixed")}
        parts = time_parts(_dispatch(**counts), chip.values())
        estimated = total(parts, 0.0) / 1e3
        accesses = (parts.lines + parts.memory) / 1e3
        found.append(Program(name, row["ms"], parts.issue / 1e3, accesses, estimated, row["fixed"]))
    return found


def _dispatch(**counts: int) -> Dispatch:
    return Dispatch(**{field.name: counts.get(field.name, 0) for field in fields(Dispatch)})


def network(name: str) -> Network:
    """A network of ncnn's benchmark, recorded on the virtual V3D 7.1 unless the cache has it, in minutes."""
    given = breadth.NETWORKS[name]()
    until = breadth.outputs_of(given.param)
    file = recordings.recorded(
        name, given, prefix=PREFIX, until=until, tolerance=TOLERANCE, gpu="v3d71", fp16=True
    )
    trace = build(Trace.read(file))
    rows = [row for job in job_work(trace, random_inputs(trace, 0)) if not job.prepares for row in job.dispatches]
    return of_rows(name, rows, chips()["pi5"])


def of_rows(name: str, rows: Sequence[Dispatch], chip: Chip) -> Network:
    """The estimate of a network whose dispatches are these."""
    values = chip.values()
    parts = [time_parts(row, values) for row in rows]
    return Network(
        name,
        PUBLISHED["network"][name],
        len(rows),
        sum(row.instructions for row in rows),
        sum(one.issue for one in parts) / 1e3,
        sum(one.lines + one.memory for one in parts) / 1e3,
        sum(total(one, values["serial"]) for one in parts) / 1e3,
    )


def left_out(networks: Sequence[Network], by: str) -> Array:
    """Predictions in milliseconds, each network's by a fit to the others.

    Args:
        by: "model": the model's estimate and a time for each job, which Linux adds; "accesses": the accesses' time
            in place of the estimate; "instructions": these alone.
    """
    columns = {
        "model": [[row.estimated, row.jobs] for row in networks],
        "accesses": [[row.accesses, row.jobs] for row in networks],
        "instructions": [[row.instructions] for row in networks],
    }[by]
    matrix, published = np.array(columns, float), np.array([row.published for row in networks])
    predicted = np.zeros(len(networks))
    for out in range(len(networks)):
        kept = np.arange(len(networks)) != out
        weight = 1 / published[kept]
        found = nonnegative(matrix[kept] * weight[:, None], np.ones(kept.sum()))
        predicted[out] = matrix[out] @ found
    return predicted
