# SPDX-License-Identifier: BSD-2-Clause
"""Commands that import what others recorded: `gramophone import gpureplay`."""

from __future__ import annotations

import os
from pathlib import Path

import click

from host_tools.commands.facts import NAME, TraceMade, facts
from host_tools.commands.framework import FILE, GramophoneCommand, Outcome
from host_tools.commands.option_rules import requires
from host_tools.commands.streams import OUTPUT, check_output, read, write
from host_tools.extras.importers.gpureplay import BUFFERS
from host_tools.extras.importers.gpureplay_trace import DEFAULT_GPU, gpus, import_gpureplay
from host_tools.extras.importers.networks import file as networks
from host_tools.extras.importers.networks.weights import describe, with_weights
from host_tools.model.facts import default_name
from trace_format import layout


@click.command(
    "gpureplay",
    cls=GramophoneCommand,
    renamed={"--network": "--recorded-network"},
    example="gramophone import gpureplay recordings/mnist -o mnist.raw.gtr\n"
    "gramophone import gpureplay recordings/mnist -o mnist.raw.gtr --recorded-network mnist --weights mnist.npz",
)
@click.argument("folder", type=FILE)
@OUTPUT
@click.option("--name", type=NAME, help="Name of the trace; default: the recording's name.")
@click.option(
    "--gpu", type=click.Choice(gpus()), default=DEFAULT_GPU, show_default=True, help="GPU of the recording."
)
@click.option(
    "--recorded-network",
    "network",
    type=click.Choice(networks.names()),
    help="Network of a public recording: slots get names and shapes.",
)
@click.option(
    "--weights", type=FILE, help=("File (.npz) with the network's weights, the values of the parameters.")
)
@requires("--weights", "--recorded-network")
def gpureplay_command(
    folder: Path, output: Path, name: str | None, gpu: str, network: str | None, weights: Path | None
) -> Outcome[TraceMade]:
    """Import a GPUReplay recording of a Mali.

    FOLDER holds gr_io_history, gr_pgt, gr_mem_contents and gr_sync_as. The network's weights are not in such a
    recording: each becomes a parameter slot, with a value if --weights has it. Without --recorded-network a slot
    is a flat run of floats, called by its number.
    """
    check_output(output)
    values = None if weights is None else read(weights)
    trace = import_gpureplay(folder, name or default_name(os.path.basename(os.path.realpath(folder))), gpu)
    if network is not None:
        described = networks.load(network)
        with layout.naming(str(folder / BUFFERS)):
            trace = describe(trace, described)
        if values is not None:
            trace = with_weights(trace, values, str(weights), described)
    data = trace.build(compress=False)
    write(output, data)
    return Outcome(
        TraceMade(**facts(trace), trace_bytes=len(data)),
        f"{output}: {len(data)} bytes, {trace.jobs} jobs, {len(trace.actions)} actions, {len(trace.slots)} slots",
    )
