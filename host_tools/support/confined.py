# SPDX-License-Identifier: BSD-2-Clause
"""Confines itself, then is another program: `python -m host_tools.support.confined SANDBOX PROGRAM ARGUMENTS..`

A program cannot be confined from outside, and between fork and exec of a process with threads Python must not run.
"""

from __future__ import annotations

import dataclasses
import json
import os
import runpy
import sys
from collections.abc import Sequence
from pathlib import Path

from host_tools.support.sandbox import Sandbox, confine

PYTHON = (sys.executable, "-P", "-m")  # -P: what lies in the working directory is not imported


def command(sandbox: Sandbox, program: Sequence[str]) -> list[str]:
    """The command that runs a program in a sandbox.

    Args:
        sandbox: without the program.
        program: its path, and arguments; after `PYTHON` it is a module, which needs no second interpreter.
    """
    if tuple(program[: len(PYTHON)]) != PYTHON:
        sandbox = dataclasses.replace(sandbox, program=Path(program[0]))
    return [*PYTHON, __name__, json.dumps(dataclasses.asdict(sandbox), default=str), *program]


def main(arguments: list[str]) -> None:
    """Run as the module's text says."""
    said, *program = arguments
    fields = json.loads(said)
    start = fields["program"]
    for name in ("reads", "writes"):
        fields[name] = tuple(map(Path, fields[name]))
    confine(Sandbox(**{**fields, "program": Path(start) if start else None}))
    if start:
        os.execv(start, program)
    module, *sys.argv[1:] = program[len(PYTHON) :]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main(sys.argv[1:])
