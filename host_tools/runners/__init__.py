# SPDX-License-Identifier: BSD-2-Clause
"""Runners: what a replay can run on, one file each. `run` is the one way in; `host_tools.runners.replay` is the
interface.

Not in here: the command `gramophone replay` (`commands/replay.py`), and generating the firmware that most of them
run (`tee_replayer/generator`).

Read first: replay.py
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from host_tools.runners.replay import ReplayRequest, ReplayResult, Runner

OPTEE, LINUX = "optee", "linux"
# Name -> module of this folder; imported when it is needed, since some take long.
RUNNERS = {
    "vgpu": "vgpu",
    "unicorn": "unicorn",
    "qemu": "qemu",
    OPTEE: "optee.bare_metal",
    f"{OPTEE}-linux": "optee.linux",
    LINUX: "user_space",
}
NORMAL_WORLDS = {"bare-metal": OPTEE, "linux": f"{OPTEE}-linux"}  # of OP-TEE's machine -> runner
WITHOUT_OPTEE = ("vgpu", "unicorn", "qemu")  # nothing large to build or to fetch, and they take every GPU


def runner_of(name: str) -> Runner:
    """The runner called `name`."""
    runner: Runner = importlib.import_module(f"host_tools.runners.{RUNNERS[name]}")
    return runner


def run(name: str, request: ReplayRequest) -> ReplayResult:
    """Replay on the runner called `name`.

    Raises:
        RunnerError: the request has options that the runner does not have; or see its `replay`.
    """
    runner = runner_of(name)
    request.check_options(name, runner.OPTIONS)
    return runner.replay(request)
