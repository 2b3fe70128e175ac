# SPDX-License-Identifier: BSD-2-Clause
"""Tensors that share memory, which PyTorch's do and ONNX's do not.

A view is computed of the tensor that it is a view of. Where a call changes one of several that share memory, the
others are made anew: those that it is a view of by writing the part back, and all other views of these by their
own calls. What may be a view or a copy, by how it lies in memory (`reshape`), is not read any more after that.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from host_tools.extras.pytorch.graph import axis_of
from host_tools.extras.pytorch.program import Call
from host_tools.record.onnx_graph import Graph, Name, Tensor
from host_tools.record.preflight import NetworkError

SAME = ("alias", "detach", "lift_fresh")
RESHAPED = ("view", "unflatten", "squeeze", "unsqueeze", "view_as")
SWAPPED = ("transpose", "swapaxes", "swapdims")
LAST_SWAPPED = ("t", "numpy_T", "mT")
PARTS = ("chunk", "split", "split_with_sizes", "tensor_split", "unbind")
VIEWS = frozenset((*SAME, *RESHAPED, *SWAPPED, *LAST_SWAPPED, *PARTS, "permute", "select", "slice", "narrow"))
READ_ONLY = frozenset(("expand", "expand_as", "broadcast_to", "movedim"))  # views that are not written back
UNKNOWN = """
    reshape reshape_as flatten contiguous to type_as float dropout feature_dropout alpha_dropout positive
"""
PERHAPS = frozenset(UNKNOWN.split())


@dataclass(frozen=True)
class View:
    """A value in memory of another's.

    Attributes:
        call: what made it.
        at: which of the call's results it is.
        of: the other one.
    """

    call: Call
    at: int
    of: Tensor


def view_of(call: Call, at: int) -> View | None:
    """A call's result as a view; None: it has memory of its own."""
    known = VIEWS | READ_ONLY | PERHAPS
    first, result = next(iter(call.arguments.values()), None), call.results[at]
    if call.operator not in known or not isinstance(first, Tensor) or result is None:
        return None
    return View(call, at, first) if result.dtype == first.dtype else None  # of another type, it is a copy


def written_back(g: Graph, view: View, whole: Name, part: Name) -> Name | None:
    """What a tensor becomes when a view of it does.

    Args:
        whole: its value before.
        part: the view's value now.

    Returns:
        Its value; None: not known.
    """
    operator, arguments, shape = view.call.operator, view.call.arguments, view.of.shape
    if operator in SAME:
        return part
    if operator in RESHAPED:
        return g.reshaped(part, shape)
    rank = len(shape)
    if operator in LAST_SWAPPED or operator in SWAPPED:
        order = list(range(rank))
        names = [value for value in arguments.values() if isinstance(value, int)] or [-2, -1]
        if rank > 1:
            a, b = (axis_of(dim, rank) for dim in names)
            order[a], order[b] = b, a
        return g.node("Transpose", part, perm=order)
    if operator == "permute":
        moved = [axis_of(dim, rank) for dim in arguments["dims"]]
        return g.node("Transpose", part, perm=[moved.index(axis) for axis in range(rank)])
    if operator not in VIEWS:
        return None
    axis = axis_of(arguments.get("dim", 0), rank)
    rows = _rows(view, axis)
    size = (*shape[:axis], len(rows), *shape[axis + 1 :])
    places = np.broadcast_to(rows.reshape([-1] + [1] * (rank - axis - 1)), size)
    return g.node("ScatterElements", whole, g.constant(places), g.reshaped(part, size), axis=axis)


def _rows(view: View, axis: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Which rows of an axis a view has.

    Raises:
        NetworkError: one that there is not.
    """
    operator, arguments = view.call.operator, view.call.arguments
    rows: np.ndarray[tuple[int], np.dtype[np.int64]] = np.arange(view.of.shape[axis])
    if operator in ("select", "unbind"):
        index = int(arguments["index"] if operator == "select" else view.at)
        if not -len(rows) <= index < len(rows):
            raise NetworkError(f"a damaged program: {operator} of row {index} where there are {len(rows)}")
        return rows[[index]]
    if operator == "slice":
        return rows[arguments.get("start") : arguments.get("end") : arguments.get("step", 1)]
    if operator == "narrow":
        start = arguments["start"] % max(len(rows), 1)
        return rows[start : start + arguments["length"]]
    sizes = [tensor.shape[axis] for tensor in view.call.results if tensor is not None]
    begin = sum(sizes[: view.at])
    return rows[begin : begin + sizes[view.at]]
