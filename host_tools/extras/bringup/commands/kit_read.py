# SPDX-License-Identifier: BSD-2-Clause
"""`gramophone bringup read`: a board's console, compared."""

from __future__ import annotations

import json
from pathlib import Path

import click

from host_tools.commands.framework import FILE, GramophoneCommand, Outcome, UsageError
from host_tools.extras.bringup import console, kit
from host_tools.extras.bringup.judge import Finding, judged
from host_tools.families.family import profile_of
from host_tools.support.results import Count, Result
from trace_format import limits
from trace_format.errors import GramophoneError, printable
from trace_format.files import read_file


class Differences(Result):
    """What differs on a board.

    Attributes:
        stages: That the console has.
        times: Files that were written for `speed calibrate`.
    """

    stages: Count
    findings: list[Finding]
    times: list[str]


@click.command(
    "read",
    cls=GramophoneCommand,
    example="gramophone bringup read kit console.txt\n"
    "gramophone bringup read kit console.txt --times times\n"
    "gramophone speed calibrate kit/timed-0.gtr=times/timed-0.json kit/timed-4.gtr=times/timed-4.json -o my.toml",
)
@click.argument("folder", metavar="KIT", type=FILE)
@click.argument("said", metavar="LOG", type=FILE)
@click.option("--expected", type=FILE, help="Console of another run to compare with; default: the kit's.")
@click.option("--times", type=FILE, help="New folder for measured times, which `speed calibrate` takes.")
def kit_read_command(folder: Path, said: Path, expected: Path | None, times: Path | None) -> Outcome[Differences]:
    """Name every value on a board's console that differs.

    LOG is what the serial console said while the board ran the kit. Each difference has a class (identity,
    register policy, time, last bits, value, missing) and what to change. Exit status 1: there is one.
    """
    if times is not None and times.exists():
        raise UsageError(f"--times {times}: expected a new folder")
    kit.check(folder)
    gpu = profile_of(kit.gpu_of(folder / kit.FIRMWARE))
    wanted = _console(folder / kit.EXPECTED)
    if expected is not None:
        wanted = _with_kit(_console(expected), wanted)
    board = _console(said)
    _check_kit(said, board, wanted)
    found = judged(board, wanted, gpu)
    written = _write_times(times, board) if times is not None else []
    lines = [
        f"{one.stage}: {one.kind}: {printable(one.what)}: expected {one.expected}, found {printable(one.found)}\n"
        f"    {one.change}"
        for one in found
    ] or [f"all {len(board.stages)} stages are as expected"]
    return Outcome(Differences(len(board.stages), found, written), "\n".join(lines), ok=not found)


def _console(file: Path) -> console.Console:
    found = console.read(read_file(file, limits.FILE_BYTES).decode("utf-8", "replace"))
    if not found.stages:
        raise GramophoneError(
            f"{file}: no console of a bring-up: expected lines as 'stage speaks ok', found none; a board whose "
            "console stays empty has not reached the firmware, or its UART is elsewhere"
        )
    return found


def _check_kit(file: Path, board: console.Console, wanted: console.Console) -> None:
    """Refuse the log of another kit: its values would differ, and say nothing of the board."""
    marks = [
        one.stages[console.STAGES[0]].values.get("kit") for one in (wanted, board) if one.stages.get("speaks")
    ]
    if len(set(marks)) > 1:
        expected, found = (f"kit={mark:#010x}" if mark is not None else "none" for mark in marks)
        raise GramophoneError(
            f"{file}: the log of another kit: expected {expected} in 'stage speaks', found {found}; compare it "
            "with the kit whose files are on the board"
        )


def _with_kit(run: console.Console, of_kit: console.Console) -> console.Console:
    run.before = of_kit.before
    return run


def _write_times(folder: Path, board: console.Console) -> list[str]:
    """Measured times in the form of a replayer's --json."""
    folder.mkdir()
    written = []
    for number, row in board.times.items():
        if "us" in row:
            file = folder / f"{Path(kit.timed(number)).stem}.json"
            data = {"replay_us": row["us"], "jobs": row.get("jobs", 0)}
            file.write_text(json.dumps(data) + "\n", encoding="utf-8")
            written.append(str(file))
    return written
