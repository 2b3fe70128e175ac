# SPDX-License-Identifier: BSD-2-Clause
"""`gramophone time`: how long a trace's jobs take on a chip, as an estimate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from host_tools.accesses.job_times import job_times
from host_tools.accesses.job_work import JobWork
from host_tools.commands.framework import FILE, GramophoneCommand, Outcome, warn
from host_tools.commands.traces import read_trace
from host_tools.model.timing import Chip, Estimate, JobTime, TimingError, chip_of, together

BAR = 30  # characters of the longest bar
NOTICE = "estimates of a model, no times of hardware; eight of ten are expected between low and high"


@click.command(
    "time",
    cls=GramophoneCommand,
    example="gramophone time net.sgtr\ngramophone time net.gtr --chip pi4 --json",
)
@click.argument("file", type=FILE)
@click.option("--chip", help="Board: pi4, pi5, hikey960; default: the one with the trace's GPU.")
def time_command(file: Path, chip: str | None) -> Outcome:
    """Estimate how long each job of a trace takes on a board's GPU, with an interval.

    What jobs do is counted in a replay on the virtual GPU with random inputs; the constants and what each rests on
    are those of the chip's timing.toml. It is the GPU's time: what the CPU does between jobs is not in it, nor is
    loading, of which `bench --on qemu` counts the instructions. Nothing is verified.
    """
    trace, _ = read_trace(file)
    try:
        found = chip_of(trace.gpu, chip)
        timed = job_times(trace, found)
    except TimingError as error:
        raise TimingError(f"{file}: {error}") from error
    work, times = [job for job, _ in timed], [time for _, time in timed]
    start = [time for job, time in zip(work, times, strict=True) if job.prepares]
    replay = [time for job, time in zip(work, times, strict=True) if not job.prepares]
    data: dict[str, Any] = {
        "chip": found.name,
        "title": found.title,
        "gpu": found.gpu,
        "notice": NOTICE,
        "guesses": [name for name, constant in found.constants.items() if constant.guess],
        "jobs": [
            {"action": job.action, "prepares": job.prepares, **asdict(time)}
            for job, time in zip(work, times, strict=True)
        ],
        "start_up": asdict(together(start)),
        "replay": asdict(together(replay)),
    }
    warn(f"{found.name}: {NOTICE}")
    return Outcome(data, "\n".join(_text(found, work, times, together(start), together(replay))))


def _text(
    chip: Chip, work: Sequence[JobWork], times: Sequence[JobTime], start: Estimate, replay: Estimate
) -> list[str]:
    longest = max(time.us for time in times)
    lines = [f"{chip.title}: estimated microseconds", f"{'job':>5} {'action':>7} {_columns()} binds"]
    for number, (job, time) in enumerate(zip(work, times, strict=True), 1):
        bar = "#" * max(1, round(BAR * time.us / longest))
        once = " (start-up)" if job.prepares else ""
        lines.append(f"{number:5} {job.action:7} {_row(time)} {time.binds:10} {bar}{once}")
    if start.us:
        lines.append(f"{'start-up, once':>13} {_row(start)}")
    lines.append(f"{'a replay':>13} {_row(replay)}")
    by_part: dict[str, float] = {}
    for time in times:
        by_part[time.binds] = by_part.get(time.binds, 0.0) + time.us
    whole = sum(by_part.values())
    shares = sorted(by_part.items(), key=lambda item: -item[1])
    lines.append("bound by: " + ", ".join(f"{name} {100 * us / whole:.0f} %" for name, us in shares))
    return lines


def _columns() -> str:
    return f"{'us':>12} {'low':>12} {'high':>12}"


def _row(time: Estimate) -> str:
    return f"{time.us:12,.1f} {time.low_us:12,.1f} {time.high_us:12,.1f}"
