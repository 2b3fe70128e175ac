# SPDX-License-Identifier: BSD-2-Clause
"""`gramophone speed calibrate`: constants of the time model, fitted to replays on a board."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from host_tools.accesses.job_times import job_times
from host_tools.commands.framework import GramophoneCommand, Outcome, Pair, UsageError
from host_tools.commands.streams import OUTPUT, check_output, write
from host_tools.commands.traces import read_trace
from host_tools.extras.speed import calibration
from host_tools.extras.speed.calibration import Calibrated, Measured
from host_tools.model.timing import Chip, Constant, TimingError, chip_of
from host_tools.support.results import Amount, Result, fields
from trace_format import limits
from trace_format.files import read_file


class Replay(Pair):
    """TRACE=RESULT, as paths, so that neither is written over."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        trace, result = super().convert(value, param, ctx)
        return Path(trace), Path(result)


class MeasuredReplay(Result):
    """A replay on the board.

    Attributes:
        us: Measured, in microseconds.
        before_us: Estimated by the project's constants.
        after_us: By the fitted ones.
    """

    name: str
    us: Amount
    before_us: Amount
    after_us: Amount


@dataclass(frozen=True)
class MovedConstant(Constant):
    """A constant that is another now."""

    before: float


class Errors(Result):
    """Mean relative errors.

    Attributes:
        left_out: Each replay by a fit to the others; null for fewer than three.
    """

    before: Amount
    after: Amount
    left_out: Amount | None


class CalibratedFacts(Result):
    """Constants of the time model, fitted to replays on a board.

    Attributes:
        moved: Constants that are others now.
    """

    chip: str
    replays: list[MeasuredReplay]
    moved: dict[str, MovedConstant]
    errors: Errors
    output: str


@click.command(
    "calibrate",
    cls=GramophoneCommand,
    reads_traces=True,
    example="gramophone-tee replay launch.sgtr --input x=x.npy --repeat 20 --json > launch.json   # on the board\n"
    "gramophone speed calibrate launch.sgtr=launch.json gemm.sgtr=gemm.json -o my-pi4.toml\n"
    "gramophone speed time net.sgtr --constants my-pi4.toml",
)
@click.argument("replays", nargs=-1, required=True, type=Replay("TRACE=RESULT"))
@OUTPUT
@click.option("--chip", help="Board to fit constants for; default: the board with the traces' GPU.")
def calibrate_command(
    replays: Sequence[tuple[Path, Path]], output: Path, chip: str | None
) -> Outcome[CalibratedFacts]:
    """Fit the constants of `speed time` to a board's times.

    RESULT is the output of the board's `gramophone-tee replay --json` for TRACE. Constants change only within
    the ranges of the chip's timing.toml, and only as far as the times require. The result is a file for `speed
    time --constants`; the project's own files do not change. Times of an emulated device are refused.
    """
    check_output(output)
    if len({trace for trace, _ in replays}) != len(replays):
        raise UsageError("a trace is given twice")
    found: Chip | None = None
    measured = []
    for path, result in replays:
        trace, _ = read_trace(path)
        try:
            its = chip_of(trace.gpu, chip)
            if found is not None and its.name != found.name:
                raise TimingError(
                    "it is for another chip than the traces before", expected=found.name, found=its.name
                )
            found = its
            jobs = [job for job, _ in job_times(trace, its) if not job.prepares]
            if any(job.cores for job in jobs):
                raise TimingError("its jobs run on some of the cores, and constants are those of all")
            rows = Counter(row for job in jobs for row in job.dispatches)
        except TimingError as error:
            raise TimingError(f"{path}: {error}") from error
        measured.append(Measured(path.name, rows, _replay_us(result, trace.jobs)))
    assert found is not None
    fitted = calibration.calibrate(found, measured)
    write(output, calibration.written(fitted.chip).encode())
    return _outcome(output, found, fitted, measured)


def _replay_us(file: Path, jobs: int) -> float:
    """The time of a replay that a board reports: `gramophone-tee replay --json`, or a replayer of Linux's."""
    data = read_file(file, limits.SMALL_BYTES)
    try:
        answer = json.loads(data)
        log = answer.get("log", answer)  # of gramophone-tee, which calls a TA; of a process of Linux
        us, ran = log["replay_us"], log["jobs"]
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError):
        raise TimingError(
            f"{file}: not what a device's replay --json prints: no replay_us and jobs in it"
        ) from None
    if type(us) is not int or type(ran) is not int:
        raise TimingError(f"{file}: replay_us and jobs", expected="whole numbers", found=f"{us!r}, {ran!r}")
    if ran != jobs:
        raise TimingError(f"{file}: a replay of another trace", expected=f"{jobs} jobs", found=ran)
    return float(us)


def _outcome(
    output: Path, before: Chip, fitted: Calibrated, measured: Sequence[Measured]
) -> Outcome[CalibratedFacts]:
    errors = Errors(
        calibration.mean_error(fitted.before, measured),
        calibration.mean_error(fitted.after, measured),
        calibration.mean_error(fitted.left_out, measured) if fitted.left_out else None,
    )
    moved = {
        name: (constant, fitted.chip.constants[name])
        for name, constant in before.constants.items()
        if fitted.chip.constants[name] != constant
    }
    lines = [f"{'trace':24} {'measured us':>13} {'estimate':>13} {'fitted':>13}"]
    lines += [
        f"{one.name[:24]:24} {one.us:13,.0f} {old:13,.0f} {new:13,.0f}"
        for one, old, new in zip(measured, fitted.before, fitted.after, strict=True)
    ]
    lines += [
        f"{name}: {old.value:g} -> {new.value:.4g} {old.unit}" + (" (was a guess)" if old.guess else "")
        for name, (old, new) in moved.items()
    ] or ["no constant moved"]
    said = {"before": "before", "after": "fitted", "left_out": "each by a fit to the others"}
    shown = [f"{100 * error:.1f} % {said[name]}" for name, error in fields(errors).items() if error is not None]
    lines.append(f"mean error: {', '.join(shown)}")
    lines.append(str(output))
    data = CalibratedFacts(
        chip=before.name,
        replays=[
            MeasuredReplay(one.name, one.us, old, new)
            for one, old, new in zip(measured, fitted.before, fitted.after, strict=True)
        ],
        moved={name: MovedConstant(**vars(new), before=old.value) for name, (old, new) in moved.items()},
        errors=errors,
        output=str(output),
    )
    return Outcome(data, "\n".join(lines))
