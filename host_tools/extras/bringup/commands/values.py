# SPDX-License-Identifier: BSD-2-Clause
"""Values of a trace's slots that the commands of this extra take, and their check."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click
from numpy.typing import NDArray

from host_tools.support.tensors import Assignment, assigned, load_all, without_value
from host_tools.vgpu.binding import executes_shaders
from trace_format.errors import GramophoneError, SlotError, listed
from trace_format.schema import SlotKind
from trace_format.trace import Trace

Files = tuple[tuple[str | None, Path], ...]


def taking_values(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options --input and --param."""
    for name, target, what in (
        ("--param", "parameters", "a parameter slot (weights)"),
        ("--input", "inputs", "an input slot"),
    ):
        function = click.option(
            name,
            target,
            type=Assignment(folders=True),
            multiple=True,
            help=f"Value of {what}, or a folder with SLOT.npy files; repeatable.",
        )(function)
    return function


def given(trace: Trace, file: str, inputs: Files, parameters: Files) -> Mapping[str, NDArray[Any]]:
    """The values by slot.

    Raises:
        SlotError: a slot has none.
        GramophoneError: the virtual GPU does not compute what the trace's jobs do.
    """
    if not executes_shaders(trace.gpu):
        raise GramophoneError(
            f"{file}: the virtual {trace.gpu} runs no shaders, so it says nothing of what jobs write"
        )
    found = load_all(trace, assigned("input", inputs), SlotKind.INPUT)
    found |= load_all(trace, assigned("parameter", parameters), SlotKind.PARAMETER)
    if missing := [name for name in without_value(trace) if name not in found]:
        raise SlotError(f"{file}: no value for {listed(missing)}: give --input or --param SLOT=FILE.npy for each")
    return found
