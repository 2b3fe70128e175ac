# SPDX-License-Identifier: BSD-2-Clause
"""Where working memory goes: pages that are never in use at the same time share a place in the carve-out.

A page is in use from the first job that can access it to the last; which these are says the GPU's family
(`Family.spans`). Where page tables have no blocks, it is free in between while it holds nothing that a later job
reads (host_tools/accesses/liveness.py). When the recording has no content for it, nothing is known of what it
holds before its first job: sharing it then changes nothing that a program could rely on. Pages with content,
slots, state and what the CPU writes between jobs share with none.

Offline placement, the largest run of pages first, each at the lowest place that is free while it is in use.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass

import numpy as np

from host_tools.families.accesses import Span
from host_tools.families.family import family_of
from host_tools.model.memory import BLOCK_PAGES, Memory
from host_tools.passes import placement
from host_tools.passes.memory_passes import fit, moved
from host_tools.passes.program import Program
from host_tools.passes.registry import memory_pass
from host_tools.passes.units import pinned, working_units
from trace_format.schema import PAGE_BYTES

ALWAYS: Span = (-1, 1 << 32)
# Pieces are actions: without blocks, which want their places anyhow, an eighth of the pages must be saved.
WORTH = 8
REPLANS = "streaming"  # the pass that places working memory again


@dataclass(frozen=True)
class Item:
    """Pages that keep together, and the first and last job that uses them.

    Attributes:
        page: virtual page number of the first, its address space above it (`Mappings.keys`).
        frame: where they begin in the carve-out now.
        pages: how many.
    """

    page: int
    frame: int
    pages: int
    first: int
    last: int

    def meets(self, other: Item) -> bool:
        """Whether both are in use at some time."""
        return self.first <= other.last and other.first <= self.last

    def block_offset(self, block_pages: int) -> int | None:
        """Where in a block the pages must begin, when blocks of so many can map some of them."""
        begin = -(-self.page // block_pages) * block_pages
        fits = block_pages > 1 and begin + block_pages <= self.page + self.pages
        return self.page % block_pages if fits else None


def items(memory: Memory, spans: Mapping[int, Span], working: Set[int]) -> list[Item]:
    """All working frames: those that follow one another on both sides and are in use at the same time.

    Args:
        spans: frame -> first and last job that uses it; those that are not in it are in use always.
        working: frames that do not lie in the image.
    """
    found: list[Item] = []
    for key, frame in zip(memory.mappings.keys.tolist(), memory.mappings.frames.tolist(), strict=True):
        if frame not in working:
            continue
        first, last = spans.get(frame, ALWAYS)
        before = found[-1] if found else None
        if before and (key, frame, first, last) == (
            before.page + before.pages,
            before.frame + before.pages,
            before.first,
            before.last,
        ):
            found[-1] = Item(before.page, before.frame, before.pages + 1, first, last)
        else:
            found.append(Item(key, frame, 1, first, last))
    return found


def place(found: Iterable[Item], start: int, block_pages: int = BLOCK_PAGES) -> dict[Item, int]:
    """Where every item begins, at `start` or above."""
    placed: list[tuple[int, Item]] = []
    for item in sorted(found, key=lambda x: (-x.pages, x.page, x.frame)):
        taken = sorted((at, at + other.pages) for at, other in placed if item.meets(other))
        at = _aligned(start, item, block_pages)
        for low, high in taken:
            if at + item.pages <= low:
                break
            at = _aligned(max(at, high), item, block_pages)
        placed.append((at, item))
    return {item: at for at, item in placed}


def _aligned(frame: int, item: Item, block_pages: int) -> int:
    offset = item.block_offset(block_pages)
    return frame if offset is None else frame + (offset - frame) % block_pages


def frames_of(placement: Mapping[Item, int]) -> dict[int, int]:
    """New frame of every frame."""
    return {item.frame + i: at + i for item, at in placement.items() for i in range(item.pages)}


@memory_pass("plan-memory")
def plan_memory(program: Program) -> None:
    """Let memory that jobs never use at the same time share pages; place large regions for page tables' blocks.

    Traces in which pages of working memory are mapped twice already are left as they are; of GPUs without blocks
    also those where little would be saved. `--secure-memory` does it itself, together with what is read meanwhile.
    """
    if REPLANS in program.asked:
        return
    family = family_of(program.profile)
    spans = family.spans(program)  # jobs may run for it, and memory is read anew then
    memory = program.memory
    working = memory.frames & memory.written_frames()
    mapped = memory.mappings.frames_that(working.__contains__)
    if spans is not None:
        own = pinned(memory)
        spans = {frame: span for frame, span in spans.items() if frame not in own}
    if spans is None or np.count_nonzero(mapped) > len(working):
        return
    target = {frame: frame for frame in memory.in_image()}
    first = -(-program.sizes().image_bytes // PAGE_BYTES)
    for frame in sorted(memory.frames):
        if frame not in working and frame not in target:
            target[frame] = first
            first += 1
    image_pages = moved(memory.copy())  # planned memory will follow the image of that size
    start = first + (image_pages - first) % family.block_pages
    if family.block_pages > 1:
        found = frames_of(place(items(memory, spans, working), start, family.block_pages))
    else:
        units = working_units(program, spans, working)
        placed = placement.place(units, len(program.jobs()))
        if (len(working) - placed.pages) * WORTH < image_pages + len(working):
            return
        found = {
            frame: start + new
            for unit, at in zip(units, placed.at, strict=True)
            for frame, new in zip(unit.frames, at.tolist(), strict=True)
        }
    memory.move(target | found)
    fit(program)
