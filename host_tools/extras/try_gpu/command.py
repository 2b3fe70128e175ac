# SPDX-License-Identifier: BSD-2-Clause
"""`gramophone try-gpu`."""

from __future__ import annotations

from pathlib import Path

import click

from host_tools.commands.framework import FILE, GramophoneCommand, Outcome
from host_tools.commands.streams import check_output, write
from host_tools.extras.try_gpu.pack import SCRIPT, TOP, pack
from host_tools.support.progress import phase
from host_tools.support.results import Count, Result
from trace_format import profile


class PackedArchive(Result):
    """An archive for a board.

    Attributes:
        networks: GPU -> name -> GPU jobs.
    """

    file: str
    bytes: Count
    networks: dict[str, dict[str, Count]]


@click.command(
    "try-gpu",
    cls=GramophoneCommand,
    example="gramophone try-gpu --pack pi.tar",
)
@click.option("--pack", "output", type=FILE, required=True, help="Archive to write.")
@click.option(
    "--trace",
    "traces",
    type=FILE,
    multiple=True,
    help="Further built trace to replay (--keep-inputs); repeatable.",
)
def try_gpu_command(output: Path, traces: tuple[Path, ...]) -> Outcome[PackedArchive]:
    """Pack an archive that replays networks on a Raspberry Pi.

    For a Raspberry Pi 4, 400, CM4, 5, 500 or CM5 with a 64-bit system as it is. The archive has the replayer's
    sources, signed networks and their expected outputs, for both GPUs. On the board: tar xf FILE && sudo sh
    try-gpu/try-gpu.sh. It needs gcc and make there, and gives the GPU back at the end.
    """
    check_output(output)
    with phase("packing"):
        packed = pack(traces)
    write(output, packed.data)
    lines = [
        f"{profile.load(gpu).title}: {', '.join(f'{name} ({count} jobs)' for name, count in networks.items())}"
        for gpu, networks in packed.networks.items()
    ]
    return Outcome(
        PackedArchive(file=str(output), bytes=len(packed.data), networks=packed.networks),
        "\n".join([f"{output}: {len(packed.data)} bytes", *lines])
        + f"\non the board: tar xf {output.name} && sudo sh {TOP}/{SCRIPT}",
    )
