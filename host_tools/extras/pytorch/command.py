# SPDX-License-Identifier: BSD-2-Clause
"""`gramophone record pytorch`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from host_tools.commands.framework import FILE, GramophoneCommand, Outcome
from host_tools.commands.if_changed import recording
from host_tools.commands.record_models import compiling_options, input_values, record, recording_options
from host_tools.commands.record_options import Recorded, Shape


@click.command(
    "pytorch",
    cls=GramophoneCommand,
    example="gramophone record pytorch net.pt2 -o net.raw.gtr",
)
@click.argument("model", type=FILE)
@click.option(
    "--shape",
    "shapes",
    type=Shape(),
    multiple=True,
    help=(
        "Input of TorchScript (in0, in1, .. in the order of forward) and its shape, with the batch; repeatable."
    ),
)
@compiling_options
@recording_options
@recording()
def record_pytorch(model: Path, values: tuple[tuple[str, str], ...], **how: Any) -> Outcome[Recorded]:
    """Record a PyTorch network, by ncnn or by tinygrad.

    MODEL is a program of torch.export.save or, for ncnn only, TorchScript (torch.jit.save). A program's inputs
    keep the names of forward. PyTorch is not needed. A program is data. TorchScript is code, and pnnx may run
    parts of it.
    """
    from host_tools.extras.pytorch.choose import choose_pytorch

    return record(choose_pytorch, model, values=input_values(values), **how)
