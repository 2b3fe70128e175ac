# SPDX-License-Identifier: BSD-2-Clause
"""What `replay` and `bench` run: a signed trace, whose it is, its tensors, and on what."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from host_tools.api.replaying import Subject, opened, replayed
from host_tools.commands.framework import FILE, UsageError
from host_tools.commands.generate import AWS_LC, BEARSSL, DEVICE_ID, KEY, MIN_VERSION
from host_tools.commands.streams import read
from host_tools.runners import LINUX, NORMAL_WORLDS, OPTEE, RASPI4B, WITHOUT_OPTEE, why_not
from host_tools.runners.replay import ReplayResult, Tensor
from host_tools.support.tensors import Assignment, assigned, load_all, load_series, slot_of
from signing.delivery import Delivery
from tee_replayer.generator.device_file import device_key
from trace_format.errors import SlotError, listed
from trace_format.schema import SlotKind
from trace_format.trace import Trace

Files = tuple[tuple[str | None, Path], ...]


def run_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """What `replay` and `bench` take: the trace, whose it is, its tensors, and what it runs on."""
    for option in reversed(
        (
            click.argument("signed", type=FILE),
            KEY,
            click.option(
                "--input",
                "inputs",
                type=Assignment(folders=True),
                multiple=True,
                help="Value of an input slot, or a folder with SLOT.npy files; repeatable.",
            ),
            click.option(
                "--param",
                "parameters",
                type=Assignment(folders=True),
                multiple=True,
                help="Value of a parameter slot (weights), or a folder with SLOT.npy files; repeatable.",
            ),
            click.option(
                "--on",
                "runner",
                type=click.Choice((*WITHOUT_OPTEE, OPTEE, LINUX, RASPI4B)),
                default="vgpu",
                show_default=True,
                help="Runner.",
            ),
            click.option(
                "--normal-world",
                type=click.Choice(tuple(NORMAL_WORLDS)),
                help="Client of OP-TEE: a small program (default), or Debian's Linux with gramophone-tee.",
            ),
            click.option("--gpu", help="Virtual GPU, with its variant; default: the trace's GPU."),
            click.option(
                "--firmware",
                type=FILE,
                help="Compiled folder of `generate`; default: firmware built for this key.",
            ),
            click.option(
                "--timeout",
                type=click.FloatRange(1),
                metavar="SECONDS",
                help="Time limit of a boot; default: the runner's own.",
            ),
            MIN_VERSION,
            DEVICE_ID,
            BEARSSL,
            AWS_LC,
        )
    ):
        function = option(function)
    return function


@dataclass(frozen=True)
class Prepared:
    """A trace with all that a replay of it takes.

    Attributes:
        runner: what it runs on.
        subject: the signed trace.
        inputs: slot name -> tensor.
        options: of the runner.
    """

    runner: str
    subject: Subject
    inputs: Mapping[str, Tensor]
    options: Mapping[str, Any]

    @property
    def trace(self) -> Trace | None:
        """What is replayed; None where it is damaged."""
        return self.subject.trace

    def replay(self, **more: Any) -> ReplayResult:
        """Replay, with more options."""
        return replayed(self.runner, self.subject, self.inputs, **self.options, **more)


def check_options(
    runner: str, normal_world: str | None, timeout: float | None, **given: Any
) -> tuple[str, dict[str, Any]]:
    """The runner, and its options that were given; UsageError for one that it does not have.

    Args:
        runner, normal_world, timeout: values of --on, --normal-world and --timeout.
        given: further options of a runner; None where one was not given.
    """
    if normal_world and runner != OPTEE:
        raise UsageError(f"--normal-world cannot be used with --on {runner}: only optee has one")
    name = NORMAL_WORLDS[normal_world or "bare-metal"] if runner == OPTEE else runner
    given |= {"timeout_s": timeout}
    options = {option: value for option, value in given.items() if value is not None}
    for option, reason in why_not(name, options).items():
        raise UsageError(f"--{option.removesuffix('_s')} cannot be used with --on {runner}: {reason}")
    return name, options


def prepare(
    signed: Path,
    key: Path,
    inputs: Files,
    parameters: Files,
    runner: str,
    options: Mapping[str, Any],
    series: Files = (),
) -> Prepared:
    """Read what `run_options` name, and what --series names, and check that it fits together.

    Args:
        signed, key, inputs, parameters, series: values of the options.
        runner, options: from `check_options`.
    """
    files = assigned("input", inputs), assigned("parameter", parameters)
    subject = opened(Delivery(read(signed)), device_key(key), str(signed), options.get("network"))
    tensors, all_replays = {}, {}
    if (trace := subject.trace) is not None:
        names = assigned("input", series).items()
        all_replays = {name: load_series(path, slot_of(trace, name, SlotKind.INPUT)) for name, path in names}
        tensors = load_all(trace, files[0], SlotKind.INPUT) | load_all(trace, files[1], SlotKind.PARAMETER)
    _check_complete(subject, {*tensors, *all_replays})
    return Prepared(runner, subject, tensors, {**options, **({"series": all_replays} if all_replays else {})})


def _check_complete(subject: Subject, given: set[str]) -> None:
    """SlotError naming the slots without a value, and the option of each kind."""
    flags = {SlotKind.INPUT: "--input", SlotKind.PARAMETER: "--param"}
    if wanting := [f"{listed(names)} ({flags[kind]})" for kind, names in subject.missing(given).items()]:
        raise SlotError(
            f"{subject.file}: no value for {' and '.join(wanting)}: give SLOT=FILE.npy for each, or a folder with "
            "SLOT.npy files; 'gramophone build --param' makes parameters a part of the trace"
        )
