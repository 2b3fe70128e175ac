# SPDX-License-Identifier: BSD-2-Clause
"""`gramophone bench`: what a signed trace costs, as a whole and by GPU job."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import click

from host_tools.accesses.job_costs import JobCost, job_costs
from host_tools.accesses.job_times import Estimated, estimated
from host_tools.api.replaying import outcome
from host_tools.commands.framework import GramophoneCommand, Outcome, UsageError, warn
from host_tools.commands.replay_request import Files, Prepared, check_options, prepare, run_options
from host_tools.families.page_tables import DivergenceError
from host_tools.model.job_names import job_names
from host_tools.runners import why_not
from host_tools.runners.replay import NONE, ReplayResult
from host_tools.support.progress import phase
from host_tools.support.results import Count, Result, one_of
from trace_format.errors import GramophoneError

RUNS = 5
REPLAYS_A_BOOT = 2  # only the first one runs the prologue; the second one is measured
Part = Literal["verify", "load", "replay"]


class BenchFailed(Result):
    """Why the device refused a trace."""

    error: str


class Spread(Result):
    """Of several replays."""

    minimum: float
    median: float


class Benched(Result):
    """What a signed trace costs.

    Attributes:
        compute: Whether the virtual GPU executes shaders: with none, outputs are not results.
        estimate: Null where the model knows nothing.
    """

    device: str
    compute: Annotated[str, one_of("full", "none")]
    replays: Count
    run_seconds: Spread
    replay_seconds: Spread | None
    instructions: dict[Part, Spread] | None
    estimate: Estimated | None
    job_costs: list[JobCost]


@click.command(
    "bench",
    cls=GramophoneCommand,
    reads_traces=True,
    example=(
        "gramophone bench net.sgtr --key pub.pem\n"
        "gramophone bench net.sgtr --key pub.pem --on qemu --repeat 3 --json"
    ),
)
@run_options
@click.option(
    "--repeat", type=click.IntRange(1, 100_000), default=RUNS, show_default=True, help="Replays to measure."
)
def bench_command(
    signed: Path, key: Path, inputs: Files, parameters: Files, runner: str, repeat: int, **where: Any
) -> Outcome[Benched | BenchFailed]:
    """Measure what replays of a signed trace cost.

    The result is the minimum and the median of several replays. On qemu and optee, `bench` counts instructions
    of the device's CPU: for the verification, for the rest of loading, and for a replay. Each boot replays
    twice, and the second replay counts. On vgpu it measures real time on this machine. The table of jobs is
    always measured on the virtual GPU. Its times do not predict those of a real GPU.
    """
    on, taken = check_options(runner, **where)
    prepared = prepare(signed, key, inputs, parameters, on, taken)
    with phase(f"replaying on {runner}"):
        results, seconds = _results(prepared, repeat)
    if not results[-1].ok:
        return Outcome(
            BenchFailed(results[-1].error),
            f"{outcome(results[-1])} on {results[-1].device}: {results[-1].error}",
            ok=False,
        )
    if prepared.trace is None:
        raise UsageError(f"{signed}: expected a trace that can be read")
    try:
        with phase("measuring the jobs"):
            jobs = job_costs(prepared.trace, prepared.inputs, repeat)
    except DivergenceError as error:
        raise GramophoneError(f"{signed}: {error}") from error
    if results[-1].compute == NONE:
        warn("this virtual GPU runs no shaders; its jobs take no time")
    estimate = estimated(prepared.trace)
    counted = [result.instructions for result in results if result.instructions]
    data = Benched(
        device=results[-1].device,
        compute=results[-1].compute,
        replays=repeat,
        run_seconds=_spread(seconds),
        replay_seconds=_spread(results[-1].seconds) if results[-1].seconds else None,
        instructions=(
            {part: _spread([getattr(row, part) for row in counted]) for part in get_args(Part)}
            if counted
            else None
        ),
        estimate=estimate,
        job_costs=jobs,
    )
    said = estimate.text() if estimate else ""
    return Outcome(data, "\n".join(_text(data, results[-1], said, jobs, job_names(prepared.trace))))


def _results(prepared: Prepared, repeat: int) -> tuple[list[ReplayResult], list[float]]:
    """Results and real times of whole runs. A runner that sees each replay makes them in one run."""
    boots = not why_not(prepared.runner, ["timeout_s"])
    results, seconds = [], []
    for _ in range(repeat if boots else 1):
        began = time.perf_counter()
        results.append(prepared.replay(repeat=REPLAYS_A_BOOT if boots else repeat))
        seconds.append(time.perf_counter() - began)
        if not results[-1].ok:
            break
    return results, seconds


def _spread(values: Sequence[float]) -> Spread:
    return Spread(min(values), statistics.median(values))


def _text(data: Benched, result: ReplayResult, estimate: str, jobs: list[JobCost], names: list[str]) -> list[str]:
    lines = [f"{data.device}: {result.jobs} jobs, {result.actions} actions, {data.replays} replays"]
    lines.append(f"{'':22} {'minimum':>14} {'median':>14}")
    lines += [
        f"{part + ', instructions':22} {spread.minimum:14,.0f} {spread.median:14,.0f}"
        for part, spread in (data.instructions or {}).items()
    ]
    for name, seconds in (("replay, ms", data.replay_seconds), ("whole run, ms", data.run_seconds)):
        if seconds:
            lines.append(f"{name:22} {seconds.minimum * 1e3:14,.2f} {seconds.median * 1e3:14,.2f}")
    if estimate:
        lines.append(f"estimated, not measured: {estimate}; 'gramophone speed time' has each job")
    lines.append("on the virtual GPU:")
    lines.append(
        f"{'job':>5} {'actions':>8} {'writes':>7} {'instructions':>13} {'bytes read':>11} {'written':>10} "
        f"{'minimum ms':>11} {'median ms':>10}{'  name' if names else ''}"
    )
    return lines + [
        f"{number:5} {job.actions:8} {job.writes:7} {job.instructions:13,} {job.bytes_read:11,} "
        f"{job.bytes_written:10,} {job.minimum_s * 1e3:11.3f} {job.median_s * 1e3:10.3f}{name and f'  {name}'}"
        for number, (job, name) in enumerate(zip(jobs, names or [""] * len(jobs), strict=True), 1)
    ]
