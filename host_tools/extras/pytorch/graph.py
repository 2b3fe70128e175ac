# SPDX-License-Identifier: BSD-2-Clause
"""What the translations of PyTorch's operators have in common."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from host_tools.record.onnx_graph import Name, Number, Tensor

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
