# SPDX-License-Identifier: BSD-2-Clause
"""`gramophone record tflite`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from host_tools.commands.framework import FILE, GramophoneCommand, Outcome
from host_tools.commands.if_changed import recording
from host_tools.commands.record_models import SHAPES, compiling_options, input_values, record, recording_options
from host_tools.commands.record_options import Recorded


@click.command(
    "tflite",
    cls=GramophoneCommand,
    example="gramophone record tflite net.tflite -o net.raw.gtr",
)
@click.argument("model", type=FILE)
@SHAPES
@compiling_options
@recording_options
@recording()
def record_tflite(model: Path, values: tuple[tuple[str, str], ...], **how: Any) -> Outcome[Recorded]:
    """Record a TensorFlow Lite network.

    MODEL may compute in float32, have weights of half precision, or be quantised to 8 bits. The translated network
    is first compared with LiteRT's reference kernels. Inputs and outputs keep the names of MODEL's signature. A
    variable that keeps its value between runs becomes a state of the trace.
    """
    from host_tools.extras.tflite.choose import choose_tflite

    return record(choose_tflite, model, values=input_values(values), **how)
