# SPDX-License-Identifier: BSD-2-Clause
"""An ONNX graph that grows call by call, and what the translations of PyTorch's operators have in common."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
import onnx
from numpy.typing import NDArray

from host_tools.extras.pytorch.program import Tensor
from host_tools.record.preflight import NetworkError

OPSET = 17  # the newest that pnnx reads without exception
Name = str
Number = bool | int | float
# Makes nodes of one call: of its arguments by name, and returns the names of its results.
Translation = Callable[..., "Name | Sequence[Name]"]
T = TypeVar("T", bound=Translation)
TABLE: dict[str, Translation] = {}


def aten(*operators: str) -> Callable[[T], T]:
    """Register a function as the translation of these operators; one that ends in `_` is the same besides."""

    def register(function: T) -> T:
        for operator in operators:
            assert operator not in TABLE, operator
            TABLE[operator] = function
        return function

    return register


class Graph:
    """The graph.

    Attributes:
        results: what the call that is translated makes, as the program says.
    """

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.results: tuple[Tensor, ...] = ()
        self._count = 0

    def name(self, what: str) -> Name:
        """A new one."""
        self._count += 1
        return f"{what}/{self._count}"

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


def axis_of(dim: int, rank: int) -> int:
    """An axis that is counted from the front."""
    return dim % max(rank, 1)


def axes_of(dim: Any, rank: int) -> list[int]:
    """Axes that are counted from the front; none are all."""
    dims = [dim] if isinstance(dim, int) else list(dim or range(rank))
    return sorted(axis_of(at, rank) for at in dims)


def each(value: Any, count: int) -> list[int]:
    """A number for each dimension, where one may stand for all."""
    values = [value] if isinstance(value, int) else list(value)
    return values * count if len(values) == 1 else values


def promoted(*values: Tensor | Number) -> str:
    """The type in which values are compared: of tensors, then of tensors without dimensions, then of numbers."""
    ranks: list[list[np.dtype[Any]]] = [[], [], []]
    for value in values:
        if isinstance(value, Tensor):
            ranks[0 if value.shape else 1].append(np.dtype(value.dtype))
        else:
            default = "bool" if isinstance(value, bool) else "int64" if isinstance(value, int) else "float32"
            ranks[2].append(np.dtype(default))
    found = None
    for rank in ranks:
        for kind in rank:
            if found is None or _category(kind) > _category(found):
                found = kind
            elif kind in ranks[0] and _category(kind) == _category(found):
                found = np.promote_types(kind, found)
    assert found is not None
    return found.name


def _category(kind: np.dtype[Any]) -> int:
    return "biuf".index(kind.kind) if kind.kind != "u" else 1
