# SPDX-License-Identifier: BSD-2-Clause
"""Where an image is cut into sections: between what packs well by one codec and what packs well by another."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

import lz4.block
import numpy as np
from numpy.typing import NDArray

from trace_format.codec import MAX_IMAGE_SECTIONS, Buffer
from trace_format.schema import PLANE_SIZE_BYTES, PLANES

_STEP = 512  # bytes, and a multiple of it for an image of more than _STEPS of them
_STEPS = 1024
_SECTION_BYTES = 36  # its entry in the table, and padding
_LZ4_WINDOW = 1 << 16
_LZ4_LEVEL = 9  # as good as the highest here, and faster


@dataclass
class _Piece:
    """Consecutive bytes of an image, and what they cost as a section.

    Attributes:
        size: how many there are.
        lz4: packed by LZ4, after what comes before.
        counts: shape (PLANES, 256), how often each value occurs in each plane.
        cost: bytes of the section, estimated.
    """

    size: int
    lz4: int
    counts: NDArray[np.int64]
    cost: float = field(init=False)

    def __post_init__(self) -> None:
        self.cost = _SECTION_BYTES + min(self.size, self.lz4, _planes_bytes(self.counts))

    def with_next(self, other: _Piece) -> _Piece:
        """Both as one section."""
        return _Piece(self.size + other.size, self.lz4 + other.lz4, self.counts + other.counts)


def smallest(image: Buffer) -> Iterator[memoryview]:
    """The image in pieces that make small sections, each by the codec that suits it best.

    Of neighbours, those whose union saves most become one, as long as any saves something.
    """
    view = memoryview(image)
    step = -(-len(image) // (_STEP * _STEPS)) * _STEP
    pieces = [_piece(view, at, at + step) for at in range(0, len(image), step or 1)]
    unions = [one.with_next(two) for one, two in pairwise(pieces)]
    while unions:
        costs = np.array([piece.cost for piece in pieces])
        saved = costs[:-1] + costs[1:] - [union.cost for union in unions]
        at = int(np.argmax(saved))
        if saved[at] <= 0 and len(pieces) <= MAX_IMAGE_SECTIONS:
            break
        pieces[at : at + 2] = [unions.pop(at)]
        for changed in range(max(at - 1, 0), min(at + 1, len(unions))):
            unions[changed] = pieces[changed].with_next(pieces[changed + 1])
    begin = 0
    for piece in pieces:
        yield view[begin : begin + piece.size]
        begin += piece.size


def _piece(image: memoryview, begin: int, end: int) -> _Piece:
    raw = image[begin:end]
    before = bytes(image[max(0, begin - _LZ4_WINDOW) : begin])
    packed = lz4.block.compress(
        raw, mode="high_compression", compression=_LZ4_LEVEL, dict=before, store_size=False
    )
    values = np.frombuffer(raw, np.uint8)
    counts = [np.bincount(values[at::PLANES], minlength=256) for at in range(PLANES)]
    return _Piece(len(raw), len(packed), np.array(counts))


def _planes_bytes(counts: NDArray[np.int64]) -> float:
    """Size of planes with these values, shape (PLANES, 256), by their entropy."""
    total = counts.sum(axis=1)
    share = counts / np.maximum(total, 1)[:, None]
    bits = -(counts * np.log2(share, out=np.zeros_like(share), where=share > 0)).sum(axis=1)
    used = share > 0
    runs = (used[:, 1:] != used[:, :-1]).sum(axis=1) / 2
    coded = bits / 8 + (used.sum(axis=1) + 2 * runs) / 2  # a nibble a length, two or so a run
    return float(np.minimum(total, coded).sum()) + PLANES * PLANE_SIZE_BYTES
