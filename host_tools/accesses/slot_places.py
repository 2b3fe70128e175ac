# SPDX-License-Identifier: BSD-2-Clause
"""Where the bytes of slots lie in a trace's memory."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator

import numpy as np

from host_tools.model.frames import Mask, Page
from host_tools.model.mappings import SPACE_SHIFT
from host_tools.model.memory import Memory
from host_tools.support.pages import pages_of, pieces
from trace_format.schema import PAGE_BYTES
from trace_format.slots import Slot


def places(memory: Memory, slot: Slot) -> Iterator[tuple[Page, slice, slice]]:
    """Where a slot's bytes lie: the page, the bytes of it, and which of the dense tensor's bytes these are.

    Raises:
        SlotError: some of the slot is not mapped; nothing is yielded.
    """
    memory.frames_of([slot])
    places, size = _runs(slot)
    for number, at in enumerate(places):
        start = number * size
        for page, inside, part in pieces(at, size):
            frame = memory.mappings[slot.address_space, page].frame
            yield memory.pages[frame], inside, slice(start + part.start, start + part.stop)


def _runs(slot: Slot) -> tuple[list[int], int]:
    """A slot's runs of bytes without gaps, as large as its strides allow: GPU addresses, and the size of each."""
    dense, size = len(slot.shape), slot.numpy_dtype.itemsize
    while dense and slot.strides[dense - 1] == size:
        dense -= 1
        size *= slot.shape[dense]
    indices = np.ndindex(slot.shape[:dense])
    return [
        slot.address + sum(i * s for i, s in zip(index, slot.strides, strict=False)) for index in indices
    ], size


def bytes_of(memory: Memory, slots: Iterable[Slot]) -> dict[int, Mask]:
    """Bytes of slots: frame -> PAGE_BYTES booleans.

    Raises:
        SlotError: some of a slot is not mapped.
    """
    found: defaultdict[int, Mask] = defaultdict(lambda: np.zeros(PAGE_BYTES, np.bool_))
    for slot in slots:
        for page, inside, _ in places(memory, slot):
            found[page.frame][inside] = True
    return dict(found)


def parts_in(memory: Memory, frames: Collection[int], slots: Iterable[Slot]) -> list[tuple[int, slice]]:
    """Where slots lie in some frames: the frame, and bytes of it.

    Raises:
        SlotError: some of a slot that reaches into a frame is not mapped.
    """
    keys = memory.mappings.keys[np.isin(memory.mappings.frames, list(frames))]
    found = []
    for slot in slots:
        pages = pages_of(slot.address, slot.span)
        space = slot.address_space << SPACE_SHIFT
        first, after = np.searchsorted(keys, [space | pages.start, space | pages.stop])
        if first < after:  # most have weights, and none of these frames
            found += [(page.frame, inside) for page, inside, _ in places(memory, slot) if page.frame in frames]
    return found
