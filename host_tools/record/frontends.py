# SPDX-License-Identifier: BSD-2-Clause
"""ONNX files: read, and recorded by who takes their network (`choosing`). Extras read other files."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from host_tools.record import ways
from host_tools.record.choosing import Asked, Choice, choose
from host_tools.record.ncnn.pnnx import Converted, Shape
from trace_format.trace import Trace


def record_onnx(path: Path, shapes: Mapping[str, Shape], *, name: str, check: bool = True, **asked: Any) -> Trace:
    """Record one inference of an ONNX file's network. Inputs and outputs keep the file's names.

    Args:
        path, shapes, asked: as `choose_onnx`.
        name, check: as for `record_network`.

    Raises:
        NetworkError: as `choose_onnx`.
        RecordError: as `record_network`.
        OSError: the file cannot be read.
    """
    return choose_onnx(path, shapes, **asked).record(name=name, check=check)


def choose_onnx(
    path: Path,
    shapes: Mapping[str, Shape],
    *,
    constants: Mapping[str, NDArray[Any]] | None = None,
    external: Collection[Path] = (),
    **asked: Any,
) -> Choice:
    """Who records an ONNX file's network.

    Args:
        path: the file; what it refers to lies beside it.
        shapes: of inputs, batch and all, where the file leaves them open.
        constants: values of inputs that the recording is not to have.
        external: files beside it that may be weights, whatever they are called.
        asked: as `Asked`.

    Raises:
        NetworkError: the file is not ONNX, or damaged; a shape is missing or another; or as `choose`.
        RecordError: as `choose`.
        OSError: the file cannot be read.
    """
    from host_tools.record import onnx_model  # needs packages that only ONNX files need

    model = onnx_model.read(path, external)
    if constants:
        model = onnx_model.with_constants(model, constants)
    return choose(path, model, shapes, Asked(**asked))


def convert_onnx(
    path: Path, shapes: Mapping[str, Shape], *, tolerance: float | None = None, external: Collection[Path] = ()
) -> Converted:
    """The part of `record_onnx` before the recording, by ncnn."""
    from host_tools.record import onnx_model

    model = onnx_model.read(path, external)
    return ways.converted(path, model, model.shapes(shapes), tolerance, {})[0]
