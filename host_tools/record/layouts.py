# SPDX-License-Identifier: BSD-2-Clause
"""How frameworks lay tensors out in memory: what the recorder may take for one."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trace_format.slots import offsets

WORD = 4  # bytes of an element: float32
PACK = 4  # elements that ncnn's GPU layers keep together (docs/developer-guide of ncnn: element packing)
CHANNEL_ALIGNMENT = 16  # bytes; cstep = alignSize(w * h * d * elemsize, 16) / elemsize (ncnn's src/mat.h)
Shape = tuple[int, ...]


@dataclass(frozen=True)
class Layout:
    """Where a tensor's elements are, from its first one.

    Attributes:
        shape: of the tensor; an axis that is split is two: its size divided by PACK, and PACK.
        strides: bytes, one a dimension of `shape`.
        split: number of that axis.
    """

    shape: Shape
    strides: Shape
    split: int | None = None

    def offsets(self) -> NDArray[np.int64]:
        """Bytes from the first element to each, in C order."""
        return offsets(self.shape, self.strides).reshape(-1)


Layouts = Callable[[Shape], Sequence[Layout]]  # those that a framework uses for a shape


def in_order(shape: Shape) -> Sequence[Layout]:
    """C order without gaps: the one layout of what a program takes from a file, or puts into one."""
    return [Layout(shape, _inner(shape, WORD))]


def of_ncnn(shape: Shape) -> Sequence[Layout]:
    """The layouts of an ncnn Mat: as it is and, where the outermost axis allows it, packed by four.

    Rows follow one another; of three dimensions and more, the outermost (channels) begin at multiples of 16 bytes.

    Args:
        shape: outermost dimension first: (w), (h, w), (c, h, w) or (c, d, h, w).
    """
    found = [Layout(shape, (_step(shape, WORD), *_inner(shape[1:], WORD)))]
    if shape[0] % PACK == 0 and (len(shape) > 2 or math.prod(shape[1:]) > 1):  # else it is the same
        group = PACK * WORD
        inner = _inner(shape[1:], group)
        found.append(Layout((shape[0] // PACK, PACK, *shape[1:]), (_step(shape, group), WORD, *inner), 0))
    return found


def _inner(shape: Shape, size: int) -> Shape:
    """Strides of elements of so many bytes, without gaps."""
    return tuple(math.prod(shape[axis + 1 :]) * size for axis in range(len(shape)))


def _step(shape: Shape, size: int) -> int:
    """Bytes from one of the outermost dimension to the next."""
    inner = math.prod(shape[1:]) * size
    return -(-inner // CHANNEL_ALIGNMENT) * CHANNEL_ALIGNMENT if len(shape) > 2 else inner
