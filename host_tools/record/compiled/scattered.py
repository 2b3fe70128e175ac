# SPDX-License-Identifier: BSD-2-Clause
"""ScatterND without a loop: tinygrad's own assigns to a copy of its input, which it makes when it compiles, so
that the input of a replay would count for nothing.

Source: ScatterND in ONNX's documentation, docs/Operators.md.
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
    if reduction == "none":
        order = Tensor.arange(1, count + 1).reshape(1, count)
        last = hits.where(order, 0).max(1, keepdim=True)
        chosen = (hits & (order == last)).reshape(rows, count, 1)
        made = (last > 0).where(chosen.where(new, 0).sum(1, dtype=data.dtype), old)
    else:
        of = hits.reshape(rows, count, 1)
        if reduction == "add":
            made = old + of.where(new, 0).sum(1, dtype=data.dtype)
        elif reduction == "mul":
            made = old * of.where(new, 1).prod(1)
        elif reduction == "max":
            made = of.where(new, old.reshape(rows, 1, columns)).max(1).maximum(old)
        else:
            made = of.where(new, old.reshape(rows, 1, columns)).min(1).minimum(old)
    return made.cast(data.dtype).reshape(data.shape)
