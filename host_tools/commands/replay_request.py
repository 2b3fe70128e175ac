# SPDX-License-Identifier: BSD-2-Clause
"""What `replay` and `bench` run: a signed trace, whose it is, its tensors, and on what."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from host_tools.commands.framework import FILE, UsageError
from host_tools.commands.generate import AWS_LC, BEARSSL, DEVICE_ID, KEY, MIN_VERSION
from host_tools.commands.streams import read
from host_tools.model.parts import named
from host_tools.runners import LINUX, NORMAL_WORLDS, OPTEE, WITHOUT_OPTEE, run, runner_of
from host_tools.runners.needs import what_helps
from host_tools.runners.replay import ReplayRequest, ReplayResult
from host_tools.support.tensors import (
    Assignment,
    assigned,
    boxes_found,
    load_all,
    load_series,
    slot_of,
    without_value,
)
from signing.delivery import Delivery
from signing.trust_verdict import Judge
from signing.verify import Verdict, verify_by
from tee_replayer.generator.device_file import device_key
from trace_format import layout
from trace_format.errors import EncryptedError, GramophoneError, SlotError, TraceError, listed
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
                type=click.Choice((*WITHOUT_OPTEE, OPTEE, LINUX)),
                default="vgpu",
                show_default=True,
                help="What to run on.",
            ),
            click.option(
                "--normal-world",
                type=click.Choice(tuple(NORMAL_WORLDS)),
                help="Client of OP-TEE: a small program (the default), or Debian's Linux with gramophone-tee.",
            ),
            click.option("--gpu", help="Virtual GPU, with its variant; default: the one that the trace is for."),
            click.option(
                "--firmware",
                type=FILE,
                help="Folder of `generate`, after make where it has one; default: for this key.",
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


@dataclass
class Prepared:
    """A trace with all that a replay of it takes."""

    runner: str
    request: ReplayRequest

    @property
    def trace(self) -> Trace | None:
        """What is replayed; None where it is damaged."""
        return self.request.trace

    @property
    def options(self) -> frozenset[str]:
        """What the runner takes besides what every runner takes."""
        return runner_of(self.runner).OPTIONS

    def replay(self) -> ReplayResult:
        """Replay, with as many rows of boxes as were found.

        Where the device has too little memory, or an operator that it may not have, the error says what helps.
        """
        result = run(self.runner, self.request)
        if self.trace is None:
            return result
        if result.ok:
            return replace(result, outputs=boxes_found(self.trace, result.outputs))
        hint = what_helps(self.request.delivery, result.report)
        return replace(result, error=f"{result.error}; {hint}") if hint else result


def prepare(
    signed: Path,
    key: Path,
    inputs: Files,
    parameters: Files,
    runner: str,
    normal_world: str | None,
    gpu: str | None,
    firmware: Path | None,
    timeout: float | None,
    min_security_version: int,
    device_id: bytes,
    bearssl: Path | None,
    aws_lc: Path | None,
    series: Files = (),
    network: str | None = None,
) -> Prepared:
    """Read what `run_options` name, and what --series names, and check that it fits together."""
    files = assigned("input", inputs), assigned("parameter", parameters)
    if normal_world and runner != OPTEE:
        raise UsageError(f"--normal-world cannot be used with --on {runner}: only optee has one")
    options = runner_of(runner).OPTIONS
    if firmware is not None and "firmware" not in options:
        raise UsageError(f"--firmware cannot be used with --on {runner}: no firmware runs there")
    if timeout is not None and "timeout_s" not in options:
        raise UsageError(f"--timeout cannot be used with --on {runner}: no machine boots there")
    delivery = Delivery(read(signed))
    trusted = device_key(key)
    found = verify_by(delivery, trusted, Judge(), file=str(signed))
    if found.verdict == Verdict.MALFORMED:  # not a signed trace at all; refusing one is the device's part
        raise GramophoneError(found.reason)
    try:
        with layout.naming(str(signed)):
            delivery.parse()
    except EncryptedError:
        raise  # nobody knows what its slots take
    except TraceError:
        pass  # refusing it is the device's part
    trace = delivery.trace
    if trace is not None:
        trace = _network(signed, trace, network, runner)
    tensors, all_replays = {}, {}
    if trace is not None:
        names = assigned("input", series).items()
        all_replays = {name: load_series(path, slot_of(trace, name, SlotKind.INPUT)) for name, path in names}
        tensors = load_all(trace, files[0], SlotKind.INPUT) | load_all(trace, files[1], SlotKind.PARAMETER)
        if found.ok:  # what is not verified, the device refuses
            _check_complete(signed, trace, {*tensors, *all_replays})
    world = NORMAL_WORLDS[normal_world or "bare-metal"] if runner == OPTEE else runner
    request = ReplayRequest(
        delivery,
        trusted,
        tensors,
        gpu,
        1,
        min_security_version,
        bearssl,
        aws_lc,
        device_id=device_id,
        firmware=firmware,
        timeout_s=timeout,
        series=all_replays,
        network=network,
    )
    return Prepared(world, request)


def _network(signed: Path, trace: Trace, network: str | None, runner: str) -> Trace:
    """What of the trace is replayed: all, or a network of a joint one."""
    if network is None:
        if trace.networks:
            names = listed(row.name for row in trace.networks)
            raise UsageError(f"{signed} is a joint trace: expected --network with one of {names}")
        return trace
    if not trace.networks:
        raise UsageError(f"--network: {signed} is no joint trace")
    if "network" not in runner_of(runner).OPTIONS:
        raise UsageError(f"--network cannot be used with --on {runner}: only vgpu replays joint traces")
    with layout.naming(str(signed)):
        return named(trace, network)


def _check_complete(signed: Path, trace: Trace, given: set[str]) -> None:
    """SlotError naming the slots without a value, and the option of each kind."""
    missing = {
        option: [name for name in without_value(trace, kind) if name not in given]
        for option, kind in (("--input", SlotKind.INPUT), ("--param", SlotKind.PARAMETER))
    }
    wanting = [f"{listed(names)} ({option})" for option, names in missing.items() if names]
    if wanting:
        raise SlotError(
            f"{signed}: no value for {' and '.join(wanting)}: give SLOT=FILE.npy for each, or a folder with "
            "SLOT.npy files; 'gramophone build --param' makes parameters a part of the trace"
        )
