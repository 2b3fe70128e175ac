# SPDX-License-Identifier: BSD-2-Clause
"""Tensors side by side. tinygrad reads each piece where it is needed, so that what uses many of them has more
buffers than a kernel may have: many pieces are copied together first.

And parts of a network one after the other: tinygrad's scheduler takes time by the square of what it schedules at
once. 80 steps of three recurrent layers took it minutes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

from tinygrad import Tensor
from tinygrad.uop.ops import UOp

FEW = 4
_CALLS: ContextVar[list[UOp] | None] = ContextVar("calls", default=None)


@contextmanager
def settled() -> Iterator[list[UOp]]:
    """The kernels' calls that `settle` schedules within, in their order."""
    calls: list[UOp] = []
    before = _CALLS.set(calls)
    try:
        yield calls
    finally:
        _CALLS.reset(before)


def settle(*tensors: Tensor) -> None:
    """Schedule what makes these tensors, so that what follows begins at memory. Nothing outside of `settled`."""
    calls = _CALLS.get()
    left = [one for one in tensors if not one.uop.is_virtual and not one.uop.has_buffer_identity()]
    if calls is not None and left:
        calls += left[0].schedule_linear(*left[1:]).src


def joined(parts: Sequence[Tensor], axis: int) -> Tensor:
    """Pieces along an axis that they have."""
    if len(parts) <= FEW:
        return Tensor.cat(*parts, dim=axis)
    groups = [parts[at : at + FEW] for at in range(0, len(parts), FEW)]
    return joined([Tensor.cat(*group, dim=axis).contiguous() for group in groups], axis).contiguous()


def stacked(parts: Sequence[Tensor], axis: int = 0) -> Tensor:
    """Pieces along a new axis."""
    return joined([part.unsqueeze(axis) for part in parts], axis)


def concat(*xs: Tensor, axis: int) -> Tensor:
    """Concat."""
    return joined(xs, axis)
