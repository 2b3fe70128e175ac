# SPDX-License-Identifier: BSD-2-Clause
"""Runners: what a replay can run on, one file each. `run` is the one way in; `host_tools.runners.replay` is the
interface, and `host_tools.runners.requests` has the options.

Not in here: the command `gramophone replay` (`commands/replay.py`), and generating the firmware that most of them
run (`tee_replayer/generator`).

Read first: replay.py
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from host_tools.runners.replay import ReplayResult, Runner, Tensor
    from signing.delivery import Delivery
    from signing.trust import Anchor

OPTEE, LINUX, RASPI4B = "optee", "linux", "raspi4b"
# Name -> module of this folder; imported when it is needed, since some take long.
RUNNERS = {
    "vgpu": "vgpu",
    "unicorn": "unicorn",
    "qemu": "qemu",
    OPTEE: "optee.bare_metal",
    f"{OPTEE}-linux": "optee.linux",
    LINUX: "user_space",
    RASPI4B: "raspi4b",
}
NORMAL_WORLDS = {"bare-metal": OPTEE, "linux": f"{OPTEE}-linux"}  # of OP-TEE's machine -> runner
WITHOUT_OPTEE = ("vgpu", "unicorn", "qemu")  # nothing large to build or to fetch, and they take every GPU


def runner_of(name: str) -> Runner:
    """The runner called `name`."""
    runner: Runner = importlib.import_module(f"host_tools.runners.{RUNNERS[name]}")
    return runner


def why_not(name: str, options: Iterable[str]) -> dict[str, str]:
    """Option -> why it is none of the runner called `name`; the runner takes those that are left out."""
    from host_tools.runners.requests import WHY_NOT

    taken = {item.name for item in fields(runner_of(name).REQUEST)}
    return {option: WHY_NOT.get(option, "no runner has it") for option in options if option not in taken}


def run(
    name: str, delivery: Delivery, key: Anchor, inputs: Mapping[str, Tensor] | None = None, **options: Any
) -> ReplayResult:
    """Replay on the runner called `name`.

    Args:
        name: of RUNNERS.
        delivery: the signed trace.
        key: whose traces are accepted: an ES256 key, or a trust policy.
        inputs: slot name -> tensor; those left out keep the recording's value.
        options: further fields of the runner's REQUEST.

    Raises:
        RunnerError: the runner does not have an option, or options contradict each other; or see its `replay`.
    """
    from host_tools.runners.replay import RunnerError

    for option, reason in why_not(name, options).items():
        raise RunnerError(f"{option} cannot be used on {name}: {reason}")
    runner = runner_of(name)
    return runner.replay(runner.REQUEST(delivery, key, inputs or {}, **options))
