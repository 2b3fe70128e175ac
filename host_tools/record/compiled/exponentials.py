# SPDX-License-Identifier: BSD-2-Clause
"""Softmax and LogSoftmax over many classes.

Where one class is likely, the others' thousands of small terms are added to a sum near 1, one after the other, and
each loses what a float32 has no bits for there: of PP-OCR's 6,625 characters as much as 6e-5 of the result. Sums
of pieces, and then their sum, lose at most what a piece's terms do.
"""

from __future__ import annotations

from math import isqrt

from tinygrad import Tensor

LONG = 256  # terms from which on they are added in pieces


def softmax(x: Tensor, axis: int = -1) -> Tensor:
    """Softmax of opset 13; older ones have another default, which a file's reader gives."""
    return _shifted(x, axis).exp() * _total(x, axis).reciprocal()


def softmax_1(x: Tensor, axis: int = 1) -> Tensor:
    """Softmax of opset 1."""
    return softmax(x, axis)


def log_softmax(x: Tensor, axis: int = -1) -> Tensor:
    """LogSoftmax."""
    return _shifted(x, axis) - _total(x, axis).log()


def _shifted(x: Tensor, axis: int) -> Tensor:
    return x - x.max(axis=axis, keepdim=True)


def _total(x: Tensor, axis: int) -> Tensor:
    """The sum of all terms; the axis keeps a size of 1."""
    terms = _shifted(x, axis).exp()
    axis %= x.ndim
    count = int(x.shape[axis])
    if count < LONG:
        return terms.sum(axis=axis, keepdim=True)
    rows = isqrt(count - 1) + 1
    columns = -(-count // rows)
    padding = [(0, 0)] * x.ndim
    padding[axis] = (0, rows * columns - count)
    pieces = terms.pad(tuple(padding)).reshape(*x.shape[:axis], rows, columns, *x.shape[axis + 1 :])
    # In memory: two sums, one of the other, would become one again.
    return pieces.sum(axis=axis + 1).contiguous().sum(axis=axis, keepdim=True)
