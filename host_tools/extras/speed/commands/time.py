# SPDX-License-Identifier: BSD-2-Clause
"""`gramophone speed time`: how long a trace's jobs take on a chip, as an estimate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import click
from msgspec import UNSET, UnsetType

from host_tools.accesses.job_times import job_times, replayed
from host_tools.accesses.job_work import JobWork
from host_tools.commands.framework import FILE, GramophoneCommand, Outcome, warn
from host_tools.commands.option_rules import requires
from host_tools.commands.traces import read_trace
from host_tools.extras.speed.commands.time_cores import OnCores, Variant, counts, on_cores, variant
from host_tools.extras.speed.commands.time_pieces import PiecesRead, pieces_read
from host_tools.model.job_names import names_by_action, shortened
from host_tools.model.reading import RATE
from host_tools.model.timing import NOTICE, Estimate, JobTime, TimingError, chip_of, read_constants, together
from host_tools.support.results import Amount, Count, Positive, Result

BAR = 30  # characters of the longest bar
NAME = 30  # of a name


class JobEstimate(Result):
    """A job.

    Attributes:
        action: Index of the action that announces it.
        name: What the recording calls it, such as its layer; empty: nothing.
        prepares: It runs once, not in each replay.
        parts: Microseconds by resource; those that overlap are not added up.
        binds: The resource that has most of it.
    """

    action: Count
    name: str
    prepares: bool
    us: Amount
    low_us: Amount
    high_us: Amount
    parts: dict[str, Amount]
    binds: str


class LayerEstimate(Result):
    """Jobs of one name.

    Attributes:
        jobs: How many have this name.
    """

    name: str
    jobs: Positive
    us: Amount
    low_us: Amount
    high_us: Amount


class Timed(Result):
    """How long a trace's jobs take on a board's GPU, as a model estimates.

    Attributes:
        title: The board.
        notice: What the figures are.
        guesses: Constants that no source fixes.
        layers: Jobs of one name together, in the order of their first; none where the recording has no names.
        start_up: Jobs before ReplayStart, once.
        replay: The jobs of one replay.
        pieces: Of a streamed trace: when its pieces are read, in the first replay.
        on_cores: With --cores: all cores, and each number of them that was asked for.
    """

    chip: str
    title: str
    gpu: str
    notice: str
    guesses: list[str]
    jobs: list[JobEstimate]
    layers: list[LayerEstimate]
    start_up: Estimate
    replay: Estimate
    on_cores: list[OnCores] | UnsetType = UNSET
    pieces: PiecesRead | UnsetType = UNSET


@click.command(
    "time",
    cls=GramophoneCommand,
    reads_traces=True,
    example="gramophone speed time net.sgtr\ngramophone speed time net.gtr --chip pi4 --json\n"
    "gramophone speed time net.gtr --cores 4,2 --variant other.gtr",
)
@click.argument("file", type=FILE)
@click.option(
    "--chip", help="Board: pi4, pi5, hikey960, mt8183, mt8365, h313; default: that with the trace's GPU."
)
@click.option("--constants", type=FILE, help="Constants of a board, from `calibrate`; default: the project's.")
@click.option(
    "--by",
    type=click.Choice(("job", "layer")),
    default="job",
    show_default=True,
    help="Row of the table: a job, or a layer, the sum of jobs with the same name.",
)
@click.option("--cores", metavar="N,N...", help="Also estimate a replay on N cores of a Mali.")
@click.option(
    "--variant",
    "others",
    type=FILE,
    multiple=True,
    help=(
        "Trace of the same network with other kernels, to compute regret on fewer cores; repeatable. Requires "
        "--cores."
    ),
)
@click.option(
    "--read-rate",
    type=click.FloatRange(1e-3, 1e6),
    metavar="MB/S",
    default=RATE,
    show_default=True,
    help="Rate at which the CPU reads, checks and decodes a streamed trace.",
)
@requires("--variant", "--cores")
def time_command(
    file: Path,
    chip: str | None,
    constants: Path | None,
    by: str,
    cores: str | None,
    others: Sequence[Path],
    read_rate: float,
) -> Outcome[Timed]:
    """Estimate the time of each job of a trace on a board.

    Each estimate has an interval. A replay on the virtual GPU with random inputs counts the work of each job.
    The constants, with their sources, are in the chip's timing.toml. Estimates are GPU time, without loading and
    CPU work between jobs; `bench --on qemu` counts those instructions. Nothing is verified.
    """
    parts = counts(cores) if cores else []
    trace, _ = read_trace(file)
    try:
        found = chip_of(trace.gpu, chip, read_constants(constants) if constants else None)
        timed = job_times(trace, found)
    except TimingError as error:
        raise TimingError(f"{file}: {error}") from error
    work, times = [job for job, _ in timed], [time for _, time in timed]
    names = names_by_action(trace)
    if by == "layer" and not names:
        raise TimingError(f"{file}: its recording names no jobs: --by layer has nothing to go by")
    layers: dict[str, list[JobTime]] = {}
    for job, time in zip(work, times, strict=True):
        layers.setdefault(names.get(job.action, ""), []).append(time)
    start = [time for job, time in zip(work, times, strict=True) if job.prepares]
    whole = replayed(trace, timed)
    data = Timed(
        chip=found.name,
        title=found.title,
        gpu=found.gpu,
        notice=NOTICE,
        guesses=[name for name, constant in found.constants.items() if constant.guess],
        jobs=[
            JobEstimate(action=job.action, name=names.get(job.action, ""), prepares=job.prepares, **vars(time))
            for job, time in zip(work, times, strict=True)
        ],
        layers=[
            LayerEstimate(name=name, jobs=len(of), **vars(together(of))) for name, of in layers.items() if names
        ],
        start_up=together(start),
        replay=whole,
    )
    shares: list[str] = []
    if parts:
        variants = [variant(str(path), read_trace(path)[0], found, trace) for path in others]
        data.on_cores, shares = on_cores([Variant(str(file), trace, work), *variants], found, parts)
    if trace.streamed:
        data.pieces, pieces = pieces_read(trace, [time.us for time in times], read_rate)
        shares += pieces
    warn(f"{found.name}: {NOTICE}")
    lines = [f"{found.title}: estimated microseconds"]
    lines += _by_layer(layers) if by == "layer" else _by_job(work, times, names)
    if start:
        lines.append(f"{'start-up, once':>13} {_row(together(start))}")
    lines.append(f"{'a replay':>13} {_row(whole)}")
    return Outcome(data, "\n".join([*lines, _bound(times), *shares]))


def _by_job(work: Sequence[JobWork], times: Sequence[JobTime], names: Mapping[int, str]) -> list[str]:
    longest = max(time.us for time in times)
    wide = NAME if names else 0
    lines = [f"{'job':>5} {'action':>7} {_columns()} {'binds':10} {'name' if names else ''}".rstrip()]
    for number, (job, time) in enumerate(zip(work, times, strict=True), 1):
        name = f"{shortened(names.get(job.action, ''), NAME):{wide}} " if wide else ""
        once = " (start-up)" if job.prepares else ""
        lines.append(f"{number:5} {job.action:7} {_row(time)} {time.binds:10} {name}{_bar(time, longest)}{once}")
    return lines


def _by_layer(layers: Mapping[str, Sequence[JobTime]]) -> list[str]:
    whole = {name: together(times) for name, times in layers.items()}
    longest = max(time.us for time in whole.values())
    return [f"{'jobs':>13} {_columns()} layer"] + [
        f"{len(layers[name]):13} {_row(time)} {shortened(name or 'no name', NAME):{NAME}} {_bar(time, longest)}"
        for name, time in whole.items()
    ]


def _bar(time: Estimate, longest: float) -> str:
    return "#" * max(1, round(BAR * time.us / longest))


def _bound(times: Sequence[JobTime]) -> str:
    by_part: dict[str, float] = {}
    for time in times:
        by_part[time.binds] = by_part.get(time.binds, 0.0) + time.us
    whole = sum(by_part.values())
    shares = sorted(by_part.items(), key=lambda item: -item[1])
    return "bound by: " + ", ".join(f"{name} {100 * us / whole:.0f} %" for name, us in shares)


def _columns() -> str:
    return f"{'us':>12} {'low':>12} {'high':>12}"


def _row(time: Estimate) -> str:
    return f"{time.us:12,.1f} {time.low_us:12,.1f} {time.high_us:12,.1f}"
