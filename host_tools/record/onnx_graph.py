# SPDX-License-Identifier: BSD-2-Clause
"""An ONNX graph that grows node by node: for extras that translate files of other frameworks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from host_tools.record.preflight import NetworkError

OPSET = 17  # the newest that pnnx reads without exception
Name = str
Number = bool | int | float


@dataclass(frozen=True)
class Tensor:
    """A value: its name, its shape, and NumPy's name of its type."""

    name: str
    shape: tuple[int, ...]
    dtype: str


class Graph:
    """The graph.

    Args:
        prefix: of all names, for nodes that are added to others.

    Attributes:
        results: what the call that is translated makes, as its file says.
    """

    def __init__(self, prefix: str = "") -> None:
        self._prefix = prefix
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.results: tuple[Tensor, ...] = ()
        self._count = 0

    def name(self, what: str) -> Name:
        """A new one."""
        self._count += 1
        return f"{self._prefix}{what}/{self._count}"

    def node(self, kind: str, *inputs: Name | None, **attributes: Any) -> Name:
        """A node of ONNX's of one output; an input that is None is left out. Attributes that are None, too."""
        return self.nodes_of(kind, 1, *inputs, **attributes)[0]

    def nodes_of(self, kind: str, outputs: int, *inputs: Name | None, **attributes: Any) -> list[Name]:
        """The same with several outputs."""
        made = [self.name(kind) for _ in range(outputs)]
        given = {key: value for key, value in attributes.items() if value is not None}
        self.nodes.append(onnx.helper.make_node(kind, [name or "" for name in inputs], made, made[0], **given))
        return made

    def constant(self, value: NDArray[Any] | Sequence[int]) -> Name:
        """A tensor; of numbers without a type, int64, as ONNX's sizes and axes are."""
        array = value if isinstance(value, np.ndarray) else np.array(value, np.int64)
        name = self.name("constant")
        self.constants.append(onnx.numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), name))
        return name

    def of(self, value: Tensor | Number, dtype: str) -> Name:
        """An argument as a tensor of a type."""
        if not isinstance(value, Tensor):
            return self.constant(np.array(value, dtype))
        if value.dtype == dtype:
            return value.name
        return self.node("Cast", value.name, to=kind_of(dtype))

    def reshaped(self, name: Name, shape: Sequence[int]) -> Name:
        """The same elements in another shape, all of whose sizes are known."""
        return self.node("Reshape", name, self.constant(shape))

    def unary(self, kind: str, x: Tensor, **attributes: Any) -> Name:
        """A node of one argument, computed in the type of the result."""
        return self.node(kind, self.of(x, self.results[0].dtype), **attributes)

    def binary(self, kind: str, a: Tensor | Number | Name, b: Tensor | Number | Name) -> Name:
        """A node of two arguments, computed in the type of the result; texts are names of such."""
        dtype = self.results[0].dtype
        return self.node(kind, *(value if isinstance(value, str) else self.of(value, dtype) for value in (a, b)))


def kind_of(dtype: str) -> int:
    """ONNX's number of a type.

    Raises:
        NetworkError: it has none.
    """
    try:
        return int(onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))
    except TypeError:
        raise NetworkError(f"a tensor of the type {dtype}, which is not taken") from None
