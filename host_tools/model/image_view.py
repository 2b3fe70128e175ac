# SPDX-License-Identifier: BSD-2-Clause
"""GPU-visible memory while a raw trace's actions run: for every byte, where in the image it comes from."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
from numpy.typing import NDArray

from host_tools.support.pages import pieces
from trace_format.actions import Action, Op
from trace_format.schema import PAGE_BYTES
from trace_format.trace import Trace

Offsets = NDArray[np.int64]
ZERO, UNKNOWN = -1, -2  # bytes that were cleared; bytes that nothing in the trace has written


class ImageView:
    """Feed it the actions one by one; then query it.

    Nothing is copied: `sources` are built for a page only when it is needed.
    """

    def __init__(self, trace: Trace) -> None:
        self.image = np.frombuffer(trace.image, np.uint8)
        self.pages: dict[tuple[int, int], int] = {}  # (address space, virtual page) -> frame
        self.mapped: set[int] = set()  # frames that are or were mapped
        self._fills: defaultdict[int, list[tuple[slice, int]]] = defaultdict(list)  # frame -> where in it, source
        self._built: dict[int, tuple[int, Offsets]] = {}  # by frame: of how many fills, sources

    def take(self, row: Action) -> None:
        """Let an action happen; those that are not about memory are passed over."""
        if row.op == Op.MAP_GPU_MEM:
            frames = range(row.frame, row.frame + row.pages)
            space, page = row.address_space, row.va_page
            self.pages.update(((space, page + i), frame) for i, frame in enumerate(frames))
            self.mapped.update(frames)
        elif row.op == Op.UNMAP_GPU_MEM:
            space, first = row.address_space, row.va_page
            for page in range(first, first + row.pages):
                self.pages.pop((space, page), None)
        elif row.op in (Op.UPLOAD, Op.CLEAR):
            self._fill(row.target, row.bytes, row.source if row.op == Op.UPLOAD else None)

    def _fill(self, at: int, size: int, source: int | None) -> None:
        for frame, inside, part in pieces(at, size):
            self._fills[frame].append((inside, ZERO if source is None else source + part.start))

    def sources(self, frame: int) -> Offsets:
        """Offset in the image, ZERO or UNKNOWN of each of a frame's bytes (PAGE_BYTES)."""
        fills = self._fills.get(frame, [])
        age, found = self._built.get(frame, (-1, None))
        if found is None or age != len(fills):
            found = np.arange(frame * PAGE_BYTES, (frame + 1) * PAGE_BYTES, dtype=np.int64)
            found[found >= len(self.image)] = UNKNOWN  # a frame of the image holds what the image holds
            for inside, source in fills:
                size = inside.stop - inside.start
                found[inside] = ZERO if source == ZERO else np.arange(source, source + size)
            self._built[frame] = (len(fills), found)
        return found

    def locate(self, space: int, va: int, size: int) -> tuple[Offsets, Offsets] | None:
        """Carve-out offsets and sources of `size` bytes at a GPU address; None where one is not mapped."""
        places: list[Offsets] = []
        sources: list[Offsets] = []
        for page, inside, _ in pieces(va, size):
            frame = self.pages.get((space, page))
            if frame is None:
                return None
            places.append(np.arange(inside.start, inside.stop) + frame * PAGE_BYTES)
            sources.append(self.sources(frame)[inside])
        return np.concatenate(places), np.concatenate(sources)

    def values(self, sources: Offsets) -> NDArray[np.uint8]:
        """The bytes; zero where they do not come from the image."""
        known = sources >= 0
        found = np.zeros(len(sources), np.uint8)
        found[known] = self.image[sources[known]]
        return found
