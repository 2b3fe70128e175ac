# SPDX-License-Identifier: BSD-2-Clause
"""`gramophone bringup run`: a kit in an emulation."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import click

from host_tools.commands.framework import FILE, GramophoneCommand, Outcome
from host_tools.extras.bringup import console, kit
from host_tools.runners import firmware as firmwares
from host_tools.runners import qemu
from host_tools.support.files import check_writable, write_atomically
from host_tools.support.progress import phase
from host_tools.support.results import Result, one_of
from trace_format import limits
from trace_format.files import read_file


class Ran(Result):
    """What a kit said.

    Attributes:
        failed: Stages that failed.
        missing: Stages that were not said.
    """

    output: str
    failed: list[Annotated[str, one_of(*console.STAGES)]]
    missing: list[Annotated[str, one_of(*console.STAGES)]]


@click.command("run", cls=GramophoneCommand, example="gramophone bringup run kit --on qemu -o console.txt")
@click.argument("folder", metavar="KIT", type=FILE)
@click.option(
    "--on",
    "runner",
    type=click.Choice(tuple(kit.EMULATIONS)),
    default="unicorn",
    show_default=True,
    help="Runner.",
)
@click.option(
    "--timeout",
    type=click.FloatRange(1),
    metavar="SECONDS",
    default=qemu.TIMEOUT_S,
    help="Time limit of a boot; default: the runner's own.",
)
@click.option("-o", "--output", type=FILE, required=True, help="File for what the console says.")
def kit_run_command(folder: Path, runner: str, timeout: float, output: Path) -> Outcome[Ran]:
    """Run a bring-up kit in an emulation of the board.

    Exit status 1: a stage failed, or was not said.
    """
    check_writable(output)
    kit.check(folder)
    fw = firmwares.load(folder / kit.FIRMWARE)
    request = read_file(folder / kit.REQUEST, limits.FILE_BYTES)
    with phase(f"running on {runner}"):
        text = kit.EMULATIONS[runner](fw, request, kit.gpu_of(folder / kit.FIRMWARE), timeout)
    write_atomically(output, text.encode())
    found = console.read(text)
    failed = [name for name, said in found.stages.items() if not said.ok]
    missing = [name for name in console.STAGES if name not in found.stages]
    lines = [f"{name}: {'ok' if said.ok else 'failed'}" for name, said in found.stages.items()]
    lines += [f"{name}: missing" for name in missing]
    return Outcome(Ran(str(output), failed, missing), "\n".join(lines), ok=not failed and not missing)
