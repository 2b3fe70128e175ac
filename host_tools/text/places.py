# SPDX-License-Identifier: BSD-2-Clause
"""Which bytes of the image lie at a GPU address while a trace's actions happen."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from host_tools.support.pages import pages_of, pieces
from trace_format.actions import Action, Op
from trace_format.codec import Buffer
from trace_format.schema import PAGE_BYTES

NOWHERE = -1
Offsets = NDArray[np.int64]


class Places:
    """Memory by where its bytes come from: the image, or nowhere. What jobs and callers write is not seen.

    Args:
        image: the trace's.
    """

    def __init__(self, image: Buffer) -> None:
        self.image = np.frombuffer(image, np.uint8)
        self.mappings: dict[tuple[int, int], int] = {}  # address space, virtual page -> frame
        self.filled: dict[int, Offsets] = {}  # frame -> offset in the image of each byte

    def apply(self, row: Action) -> None:
        """Let an action happen."""
        match row.op:
            case Op.MAP_GPU_MEM:
                for page in range(row.pages):
                    self.mappings[row.address_space, row.va_page + page] = row.frame + page
            case Op.UNMAP_GPU_MEM:
                for page in range(row.pages):
                    self.mappings.pop((row.address_space, row.va_page + page), None)
            case Op.UPLOAD:
                source = np.arange(row.source, row.source + row.bytes, dtype=np.int64)
                for frame, inside, part in pieces(row.target, row.bytes):
                    self._frame(frame)[inside] = source[part]
            case Op.CLEAR:
                known = self.filled.keys()
                reach = pages_of(row.target, row.bytes)
                for frame in [f for f in known if f in reach]:  # others hold nothing of the image
                    start, end = row.target - frame * PAGE_BYTES, row.target + row.bytes - frame * PAGE_BYTES
                    self.filled[frame][max(start, 0) : max(end, 0)] = NOWHERE

    def offsets(self, space: int, va: int, size: int) -> Offsets | None:
        """Of each byte, its offset in the image or NOWHERE; None: they are not all mapped."""
        found = np.full(size, NOWHERE, np.int64)
        for page, inside, part in pieces(va, size):
            frame = self.mappings.get((space, page))
            if frame is None:
                return None
            found[part] = self._content(frame, inside)
        return found

    def read(self, space: int, va: int, size: int) -> bytes | None:
        """The bytes, zero where they are not of the image; None: they are not all mapped."""
        offsets = self.offsets(space, va, size)
        if offsets is None:
            return None
        data = np.zeros(size, np.uint8)
        data[offsets >= 0] = self.image[offsets[offsets >= 0]]
        return data.tobytes()

    def _content(self, frame: int, inside: slice) -> Offsets:
        if frame in self.filled:
            return self.filled[frame][inside]
        start = frame * PAGE_BYTES
        found = np.arange(start + inside.start, start + inside.stop, dtype=np.int64)
        found[found >= len(self.image)] = NOWHERE
        return found

    def _frame(self, frame: int) -> Offsets:
        if frame not in self.filled:
            self.filled[frame] = self._content(frame, slice(0, PAGE_BYTES))
        return self.filled[frame]
