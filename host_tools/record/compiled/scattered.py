# SPDX-License-Identifier: BSD-2-Clause
"""ScatterND and ScatterElements as sums over all updates.

tinygrad's own ScatterND assigns to a copy of its input, which it makes when it compiles, so that the input of a
replay would count for nothing. Its ScatterElements writes a comparison into the kernel for each update: with 200
of them Mesa's compiler took more than ten minutes in the emulated machine.

Source: ScatterND, ScatterElements in ONNX's documentation, docs/Operators.md.
"""

from __future__ import annotations

import math

from tinygrad import Tensor


def scatter_nd(data: Tensor, indices: Tensor, updates: Tensor, reduction: str = "none") -> Tensor:
    """ScatterND; of several updates in one place the last counts, or all do by `reduction`."""
    depth = int(indices.shape[-1])
    outer, inner = data.shape[:depth], data.shape[depth:]
    rows, columns = math.prod(outer), math.prod(inner)
    count = math.prod(indices.shape[:-1])
    at = indices.reshape(count, depth)
    place = Tensor.zeros(count, dtype=at.dtype)
    for axis, size in enumerate(outer):
        index = at[:, axis]
        place = place * size + (index < 0).where(index + size, index)
    hits = Tensor.arange(rows, dtype=at.dtype).reshape(rows, 1) == place.reshape(1, count)
    old, new = data.reshape(rows, columns), updates.reshape(1, count, columns)
    of = hits.reshape(rows, count, 1)
    if reduction == "none":
        made = _last(old.reshape(rows, 1, columns), of, new, 1).reshape(rows, columns)
    else:
        if reduction == "add":
            made = old + of.where(new, 0).sum(1, dtype=data.dtype)
        elif reduction == "mul":
            made = old * of.where(new, 1).prod(1)
        elif reduction == "max":
            made = of.where(new, old.reshape(rows, 1, columns)).max(1).maximum(old)
        else:
            made = of.where(new, old.reshape(rows, 1, columns)).min(1).minimum(old)
    return made.cast(data.dtype).reshape(data.shape)


def scatter_elements(
    data: Tensor, indices: Tensor, updates: Tensor, axis: int = 0, reduction: str = "none"
) -> Tensor:
    """ScatterElements; of several updates in one place the last counts, or all do by `reduction`."""
    places = (indices < 0).where(indices + data.shape[axis], indices)
    if reduction != "none":
        how = {"add": "sum", "mul": "prod", "min": "amin", "max": "amax"}[reduction]
        return data.scatter_reduce(axis, places, updates, how)
    new, hits = data._pre_scatter(axis, places, updates)  # a last axis of the updates that may come there
    return _last(data.unsqueeze(-1), hits, new, -1).squeeze(-1)


def _last(old: Tensor, hits: Tensor, new: Tensor, axis: int) -> Tensor:
    """Along an axis the last of the new values that hits, which keeps its place as a size of 1; none: the old."""
    count = int(hits.shape[axis])
    shape = [1] * hits.ndim
    shape[axis] = count
    order = Tensor.arange(1, count + 1).reshape(*shape)
    last = hits.where(order, 0).max(axis, keepdim=True)
    chosen = (hits & (order == last)).where(new, 0).sum(axis, keepdim=True, dtype=old.dtype)
    return (last > 0).where(chosen, old)
