# SPDX-License-Identifier: BSD-2-Clause
"""Where the working memory of job chains goes: regions that are never in use at the same time share pages.

A page is in use from the first chain that can access it to the last. When the recording has no content for it,
nothing is known of what it holds before its first chain: sharing it then changes nothing that a program could rely
on. Pages with content, slots and what the CPU writes between jobs share with none; so do whole regions that have
some, where it is not proved what chains access there.

Offline placement, the largest run of pages first, each at the lowest place that is free while it is in use.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass

import numpy as np

from host_tools.gpus.mali.chain_memory import ChainMemory, Span, chain_memory
from host_tools.gpus.mali.job_chains import Region, chains
from host_tools.gpus.mali.job_manager import ChainStarts
from host_tools.model.memory import BLOCK_PAGES, Memory
from host_tools.passes.memory_passes import fit, moved
from host_tools.passes.program import Program
from host_tools.passes.registry import memory_pass
from trace_format.actions import Op, actions_of
from trace_format.operators import operations
from trace_format.schema import PAGE_BYTES, SlotKind

ALWAYS = (-1, 1 << 32)


@dataclass(frozen=True)
class Item:
    """Pages that keep together, and the first and last chain that uses them.

    Attributes:
        page: virtual page number of the first.
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

    @property
    def block_offset(self) -> int | None:
        """Where in a block the pages must begin, when blocks can map some of them."""
        begin = -(-self.page // BLOCK_PAGES) * BLOCK_PAGES
        fits = begin + BLOCK_PAGES <= self.page + self.pages
        return self.page % BLOCK_PAGES if fits else None


def items(memory: Memory, seen: ChainMemory, working: Set[int]) -> list[Item]:
    """All working frames: those that follow one another in a region and are in use at the same time.

    Args:
        seen: of the same memory.
        working: frames that do not lie in the image.
    """
    own = memory.cpu_written_frames() | memory.slot_frames(*SlotKind)
    own |= {frame for frame, page in memory.pages.items() if not page.is_blank}
    one_by_one = _one_by_one(memory)
    prologue = sum(chain.start < 0 for chain in chains(memory))
    found = []
    for region in seen.regions:
        fixed = own
        if not one_by_one or (seen.is_searched(region) and not own.isdisjoint(region.frames)):
            fixed = set(region.frames)
        uses = [ALWAYS if frame in fixed else _use(seen.use(frame), prologue) for frame in region.frames]
        runs = _runs(region, working, uses)
        found += [Item(region.page + at, region.frames[at], pages, *uses[at]) for at, pages in runs]
    return found


def _use(span: Span | None, prologue: int) -> Span:
    """From which chain to which a page is in use; what outlives the prologue is in every replay."""
    if span is None:
        return ALWAYS
    first, last = span
    return first, ALWAYS[1] if first < prologue <= last else last


def _runs(region: Region, working: Set[int], uses: Sequence[Span]) -> list[tuple[int, int]]:
    """Working frames of a region that follow one another and are in use at the same time: where they begin in the
    region, how many they are."""
    found: list[tuple[int, int]] = []
    for at, frame in enumerate(region.frames):
        if frame not in working:
            continue
        goes_on = found and sum(found[-1]) == at and region.frames[at - 1] + 1 == frame
        if goes_on and uses[at] == uses[at - 1]:
            found[-1] = found[-1][0], found[-1][1] + 1
        else:
            found.append((at, 1))
    return found


def _one_by_one(memory: Memory) -> bool:
    """Whether each chain is waited for before the next one starts, the last one before the next replay."""
    gpu = memory.trace.profile
    starts = ChainStarts(gpu)
    lines = {job.line for job in gpu.jobs}
    running = False
    for row in actions_of(np.concatenate([memory.prologue, memory.stream])):
        if starts.take(row):
            if running:
                return False
            running = True
        elif row.op == Op.WAIT_IRQ and row.line in lines:
            running = False
    return not running


def place(found: Iterable[Item], start: int) -> dict[Item, int]:
    """Where every item begins, at `start` or above."""
    placed: list[tuple[int, Item]] = []
    for item in sorted(found, key=lambda x: (-x.pages, x.page, x.frame)):
        taken = sorted((at, at + other.pages) for at, other in placed if item.meets(other))
        at = _aligned(start, item)
        for low, high in taken:
            if at + item.pages <= low:
                break
            at = _aligned(max(at, high), item)
        placed.append((at, item))
    return {item: at for at, item in placed}


def _aligned(frame: int, item: Item) -> int:
    offset = item.block_offset
    return frame if offset is None else frame + (offset - frame) % BLOCK_PAGES


def frames_of(placement: dict[Item, int]) -> dict[int, int]:
    """New frame of every frame."""
    return {item.frame + i: at + i for item, at in placement.items() for i in range(item.pages)}


@memory_pass("plan-memory")
def plan_memory(program: Program) -> None:
    """Let regions that job chains never use at the same time share pages; place large ones for 2 MiB blocks.

    Traces in which regions share pages already are left as they are.
    """
    memory = program.memory
    working = memory.frames & memory.written_frames()
    mapped = memory.mappings.frames_that(working.__contains__)
    operates = any(operations(program.actions))  # of what operators read, nobody says how long it must stay
    if operates or np.count_nonzero(mapped) > len(working):
        return
    target = {frame: frame for frame in memory.in_image()}
    first = -(-program.sizes().image_bytes // PAGE_BYTES)
    for frame in sorted(memory.frames):
        if frame not in working and frame not in target:
            target[frame] = first
            first += 1
    image_pages = moved(memory.copy())  # planned memory will follow the image of that size
    placement = place(items(memory, chain_memory(program), working), first + (image_pages - first) % BLOCK_PAGES)
    memory.move(target | frames_of(placement))
    fit(program)
