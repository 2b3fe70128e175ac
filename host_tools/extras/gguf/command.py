# SPDX-License-Identifier: BSD-2-Clause
"""`gramophone record gguf`."""

from __future__ import annotations

from pathlib import Path

import click

from host_tools.api.recording import told
from host_tools.commands.framework import FILE, GramophoneCommand, Outcome
from host_tools.commands.if_changed import recording
from host_tools.commands.record_models import MODEL_NAME
from host_tools.commands.record_options import (
    CHECK,
    GPU,
    SNAPSHOT,
    TIMEOUT,
    TOLERANCE,
    Recorded,
    check_network,
    written,
)
from host_tools.commands.streams import OUTPUT, check_output
from host_tools.machine.snapshot import timestamp
from host_tools.model.facts import default_name
from trace_format.files import open_regular


@click.command(
    "gguf",
    cls=GramophoneCommand,
    example="gramophone record gguf SmolLM2-135M-Instruct.Q4_1.gguf -o smol.raw.gtr",
)
@click.argument("model", type=FILE)
@OUTPUT
@MODEL_NAME
@click.option(
    "--positions",
    type=click.IntRange(1),
    default=256,
    show_default=True,
    metavar="TOKENS",
    help="Length of the longest conversation: a multiple of 256, up to 2048.",
)
@click.option(
    "--system",
    metavar="TEXT",
    help="System message before the first question; '' for none. Default: as in the file's chat template.",
)
@click.option(
    "--logits", is_flag=True, help="Keep the logits as an output; the token that was chosen always is one."
)
@GPU
@TOLERANCE
@CHECK
@TIMEOUT
@SNAPSHOT
@recording()
def record_gguf(
    model: Path,
    output: Path,
    name: str | None,
    positions: int,
    system: str | None,
    logits: bool,
    gpu: str,
    tolerance: float | None,
    check: bool,
    timeout: float,
    snapshot: str | None,
) -> Outcome[Recorded]:
    """Record one token of a GGUF language model.

    MODEL is a file of llama.cpp's, version 3, of architecture llama, qwen2 or qwen3. Its weights are of F32, F16,
    Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q4_K, Q5_K or Q6_K, and keep their bits. Each replay takes a token and chooses
    the next one. Position and caches become state of the trace, which begins after the system message. Before the
    recording is written, replays are compared with NumPy.
    """
    from host_tools.extras.gguf import recording as gguf

    check_network((), tolerance)
    stamp = timestamp(snapshot) if snapshot is not None else ""
    check_output(output)
    open_regular(model).close()
    with told(str(model)):
        trace = gguf.record_gguf(
            model,
            positions=positions,
            system=system,
            name=name or default_name(model.stem),
            check=check,
            logits=logits,
            tolerance=tolerance,
            gpu=gpu,
            timeout=timeout,
            snapshot=stamp,
        )
    return written(trace, output, stamp)
