# SPDX-License-Identifier: BSD-2-Clause
"""Tensors side by side. tinygrad reads each piece where it is needed, so that what uses many of them has more
buffers than a kernel may have: many pieces are copied together first.
"""

from __future__ import annotations

from collections.abc import Sequence

from tinygrad import Tensor

FEW = 4


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
