# SPDX-License-Identifier: BSD-2-Clause
"""`gramophone prove run`: a probe on an emulated device, compared."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from host_tools.api.replaying import refusal
from host_tools.commands.framework import GramophoneCommand, Outcome, UsageError, warn
from host_tools.commands.replay_request import Files, check_options, prepare, run_options
from host_tools.extras.bringup import probes
from host_tools.extras.bringup.commands.proof import Proof, proof
from host_tools.support.progress import phase


@click.command(
    "run",
    cls=GramophoneCommand,
    reads_traces=True,
    example="gramophone prove run probe.sgtr --key pub.pem --input data=x.npy --on qemu",
)
@run_options
def run_command(
    signed: Path, key: Path, inputs: Files, parameters: Files, runner: str, **where: Any
) -> Outcome[Proof]:
    """Replay a probe on an emulated device and compare its jobs.

    Exit status 1: a job wrote something else than on the virtual GPU, or the device refused the probe.
    """
    on, options = check_options(runner, **where)
    prepared = prepare(signed, key, inputs, parameters, on, options)
    if prepared.trace is not None and not probes.is_probe(prepared.trace):
        raise UsageError(f"{signed}: expected a probe of `prove make`, found a trace without pages of jobs")
    with phase(f"replaying on {runner}"):
        result = prepared.replay()
    if not result.ok or prepared.trace is None:
        return Outcome(Proof(0, None, None, [], result.error), refusal(result), ok=False)
    if result.retries:
        warn(f"the device got through only after {result.retries} retries: an attempt diverged")
    return proof(prepared.trace, prepared.inputs, result.outputs)
