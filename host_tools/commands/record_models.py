# SPDX-License-Identifier: BSD-2-Clause
"""`gramophone record onnx`, and what commands share that record networks of other frameworks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from host_tools.commands.additions import KERNELS, takes
from host_tools.commands.facts import NAME
from host_tools.commands.framework import FILE, GramophoneCommand, Outcome, Pair, UsageError
from host_tools.commands.if_changed import recording
from host_tools.commands.record_options import (
    CHECK,
    FP16,
    GPU,
    SNAPSHOT,
    TIMEOUT,
    TOLERANCE,
    Recorded,
    Shape,
    check_network,
    written,
)
from host_tools.commands.streams import OUTPUT, check_output
from host_tools.machine.snapshot import timestamp
from host_tools.model.facts import default_name
from host_tools.record.compiled.compilers import CHOICES, Kernels
from trace_format.errors import GramophoneError

if TYPE_CHECKING:  # help waits for none of these
    from numpy.typing import NDArray

    from host_tools.record.choosing import Choice

COMPILER = click.option(
    "--compiler",
    type=click.Choice(CHOICES),
    default=CHOICES[0],
    show_default=True,
    help="Compiler: auto is ncnn if it runs all layers on the GPU, else tinygrad; fastest is the faster of both "
    "by 'speed time'.",
)
VALUES = click.option(
    "--input",
    "values",
    type=Pair("NAME=FILE"),
    multiple=True,
    help="Recorded value (.npy) of an input slot, if random values do not suit the network; repeatable.",
)
SHAPES = click.option(
    "--shape",
    "shapes",
    type=Shape(),
    multiple=True,
    help="Input and its shape, with the batch, if MODEL leaves it open; repeatable.",
)
EXTERNAL = click.option(
    "--external-data",
    "external",
    type=FILE,
    multiple=True,
    help="File of weights that MODEL may name, if not called *.data, *.bin or similar; repeatable.",
)
CONSTANTS = click.option(
    "--constant",
    "constants",
    type=Pair("NAME=FILE"),
    multiple=True,
    help="Constant value (.npy) of an input, such as a sampling rate; the input becomes no slot. Repeatable.",
)
MODEL_NAME = click.option("--name", type=NAME, help="Name of the trace; default: MODEL's name.")

EXPECTED = click.option(
    "--save-expected",
    "expected_to",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Also write the input that the recording is checked with, and the reference's outputs (.npy).",
)


def compiling_options(command: Callable[..., Outcome[Recorded]]) -> Callable[..., Outcome[Recorded]]:
    """Give a command the options that say who compiles a network, and how."""
    for option in (VALUES, takes(KERNELS), COMPILER):
        command = option(command)
    return command


def recording_options(command: Callable[..., Outcome[Recorded]]) -> Callable[..., Outcome[Recorded]]:
    """Give a command the options that say how it records."""
    for option in (SNAPSHOT, TIMEOUT, EXPECTED, CHECK, TOLERANCE, FP16, GPU, MODEL_NAME, OUTPUT):
        command = option(command)
    return command


def _weights(params: Mapping[str, Any]) -> list[Path]:
    """Files that an ONNX model names as its weights; none where it cannot be read, which recording it says."""
    from host_tools.record.preflight import NetworkError

    try:
        from host_tools.record import onnx_model

        return onnx_model.weights(params["model"], params["external"])
    except (ModuleNotFoundError, NetworkError):
        return []


@click.command(
    "onnx",
    cls=GramophoneCommand,
    example="gramophone record onnx net.onnx -o net.raw.gtr",
)
@click.argument("model", type=FILE)
@SHAPES
@EXTERNAL
@compiling_options
@CONSTANTS
@recording_options
@recording(also=_weights)
def record_onnx(
    model: Path, values: tuple[tuple[str, str], ...], constants: tuple[tuple[str, str], ...], **how: Any
) -> Outcome[Recorded]:
    """Record an ONNX network, by ncnn or by tinygrad.

    The recording is of one inference. The converted or compiled network is first compared with ONNX Runtime.
    Inputs and outputs keep their names.
    """
    from host_tools.record import frontends

    given, fixed = arrays(values), arrays(constants)
    if len(given | fixed) != len(values) + len(constants):
        raise UsageError("--input, --constant: a name is given twice")
    return record(frontends.choose_onnx, model, values=given, constants=fixed, **how)


def input_values(pairs: tuple[tuple[str, str], ...]) -> dict[str, NDArray[Any]]:
    """`arrays` of --input; UsageError: a name is given twice."""
    given = arrays(pairs)
    if len(given) != len(pairs):
        raise UsageError("--input: a name is given twice")
    return given


def arrays(pairs: tuple[tuple[str, str], ...]) -> dict[str, NDArray[Any]]:
    """Name -> array of each pair of a name and a .npy file; GramophoneError: a file has no numbers."""
    return {name: _array(Path(file)) for name, file in pairs}


def _array(path: Path) -> NDArray[Any]:
    import numpy as np

    from host_tools.support import npy

    tensor = npy.read(path)
    try:
        return np.frombuffer(tensor.data, np.dtype(tensor.descr)).reshape(tensor.shape)
    except (TypeError, ValueError) as error:
        raise GramophoneError(f"{path}: no tensor of numbers: {error}") from None


def record(
    choose: Callable[..., Choice],
    model: Path,
    shapes: tuple[tuple[str, tuple[int, ...]], ...],
    output: Path,
    name: str | None,
    tolerance: float | None,
    snapshot: str | None,
    kernels: Sequence[Kernels],
    **how: Any,
) -> Outcome[Recorded]:
    """Record a network by who takes it: what is left of a command once it has read its own options.

    Raises:
        UsageError: options do not fit together.
        GramophoneError: as `host_tools.api.recording.recorded`.
    """
    from host_tools.api.recording import recorded

    check_network(shapes, tolerance)
    if len(kernels) > 1:
        raise UsageError(f"{', '.join(one.option for one in kernels)}: mutually exclusive")
    if how["expected_to"] is not None and not how["check"]:
        raise UsageError("--save-expected, --no-check: mutually exclusive")
    stamp = timestamp(snapshot) if snapshot is not None else ""
    check_output(output)
    how |= {
        "kernels": next(iter(kernels), None),
        "name": name or default_name(model.stem),
        "tolerance": tolerance,
        "snapshot": stamp,
    }
    return written(recorded(choose, model, dict(shapes), **how), output, stamp)
