# SPDX-License-Identifier: BSD-2-Clause
"""ONNX files from lists of operators, with inputs and outputs of any type."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from host_tools.record import onnx_model
from host_tools.record.onnx_model import OnnxModel

OPSET = 17
Inputs = Mapping[str, tuple[str, Sequence[int | str]]]


def graph(
    path: Path,
    nodes: Sequence[Any],
    inputs: Inputs,
    outputs: Mapping[str, str],
    constants: Mapping[str, NDArray[Any]] | None = None,
) -> Path:
    """A file.

    Args:
        path: where it goes.
        nodes: as `onnx.helper.make_node` makes them, in order.
        inputs: name -> NumPy's name of the element type, and shape.
        outputs: name -> element type.
        constants: by name.
    """

    def kind(name: str) -> int:
        return int(helper.np_dtype_to_tensor_dtype(np.dtype(name)))

    made = helper.make_graph(
        list(nodes),
        path.stem,
        [helper.make_tensor_value_info(name, kind(of), shape) for name, (of, shape) in inputs.items()],
        [helper.make_tensor_value_info(name, kind(of), None) for name, of in outputs.items()],
        [numpy_helper.from_array(value, name) for name, value in (constants or {}).items()],
    )
    domains = [helper.make_opsetid(name, 1) for name in sorted({node.domain for node in nodes} - {""})]
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", OPSET), *domains], ir_version=10)
    path.write_bytes(model.SerializeToString())
    return path


def model(path: Path, *words: Any, **more: Any) -> OnnxModel:
    """The same, read."""
    return onnx_model.read(graph(path, *words, **more))


def node(kind: str, inputs: str, outputs: str, **attributes: Any) -> Any:
    """An operator; names are separated by blanks, "-" is an input that is left out."""
    names = ["" if name == "-" else name for name in inputs.split()]
    return helper.make_node(kind, names, outputs.split(), **attributes)


def cast(source: str, target: str, kind: str) -> Any:
    """A Cast to an element type by NumPy's name."""
    return node("Cast", source, target, to=helper.np_dtype_to_tensor_dtype(np.dtype(kind)))
