# SPDX-License-Identifier: BSD-2-Clause
"""`gramophone prove read`: what came back from a board, compared."""

from __future__ import annotations

from pathlib import Path

import click

from host_tools.commands.framework import FILE, GramophoneCommand, Outcome, UsageError
from host_tools.commands.traces import read_trace
from host_tools.extras.bringup import probes
from host_tools.extras.bringup.answers import outputs_of
from host_tools.extras.bringup.commands.proof import Proof, proof
from host_tools.extras.bringup.commands.values import Files, given, taking_values


@click.command(
    "read",
    cls=GramophoneCommand,
    reads_traces=True,
    example="gramophone prove read try-gpu/v3d42/jobs.sgtr result.tar\n"
    "gramophone prove read probe.gtr from-the-board/ --input data=x.npy\n"
    "gramophone prove read probe.gtr mailbox.bin --input data=x.npy --json",
)
@click.argument("probe", type=FILE)
@click.argument("answer", type=FILE)
@taking_values
def read_command(probe: Path, answer: Path, inputs: Files, parameters: Files) -> Outcome[Proof]:
    """Compare what a board's jobs wrote with the virtual GPU.

    ANSWER is what the board's replay of PROBE left: a folder of SLOT.npy files, the result.tar of `try-gpu`, or a
    bare-metal firmware's mailbox. Give the values that the board had. Exit status 1: a job wrote something else.
    """
    trace, _ = read_trace(probe)
    if not probes.is_probe(trace):
        raise UsageError(f"{probe}: expected a probe of `prove make`, found a trace without pages of jobs")
    return proof(trace, given(trace, str(probe), inputs, parameters), outputs_of(answer, trace, probe.stem))
