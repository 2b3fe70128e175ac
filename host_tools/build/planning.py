"""Where the working memory of job chains goes: regions that are never in use at the same time share pages.

A region is in use from the first chain that can reach it to the last. When the recording has no content for it,
nothing is known of what it holds before its first chain: sharing its pages then changes nothing that a program
could rely on. Regions with content, slots and what the CPU writes between jobs have their pages to themselves.

Offline placement, largest region first, each at the lowest place that is free while it is in use.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from host_tools.build.job_chains import Reach, Region, regions
from host_tools.build.memory import Memory
from trace_format.actions import Op
from trace_format.schema import SlotKind

BLOCK_PAGES = 512  # one table entry maps 2 MiB where virtual and physical address agree below that
ALWAYS = (-1, 1 << 32)


@dataclass(frozen=True)
class Item:
    """A region to be placed, and the first and last chain that uses it."""

    region: Region
    first: int
    last: int

    def meets(self, other: Item) -> bool:
        """Whether both are in use at some time."""
        return self.first <= other.last and other.first <= self.last

    @property
    def block_offset(self) -> int | None:
        """Where in a block the region must begin, when blocks can map some of it."""
        begin = -(-self.region.page // BLOCK_PAGES) * BLOCK_PAGES
        fits = begin + BLOCK_PAGES <= self.region.page + self.region.pages
        return self.region.page % BLOCK_PAGES if fits else None


def items(memory: Memory, reach: Reach, working: set[int]) -> list[Item]:
    """All regions of working frames, with the time that each is in use.

    Args:
        reach: of the same memory.
        working: frames that do not lie in the image.
    """
    own = memory.late_frames() | memory.slot_frames(*SlotKind)
    own |= {frame for frame, page in memory.pages.items() if not page.is_blank}
    one_by_one = _one_by_one(memory)
    found = []
    for region in regions(memory):
        frames = set(range(region.frame, region.frame + region.pages))
        if not frames <= working:
            continue
        chains = reach.chains.get(region)
        if chains and one_by_one and not frames & own:
            found.append(Item(region, min(chains), max(chains)))
        else:
            found.append(Item(region, *ALWAYS))
    return found


def _one_by_one(memory: Memory) -> bool:
    """Whether each chain is waited for before the next one starts."""
    gpu = memory.trace.profile
    starts = {job.start.index for job in gpu.jobs}
    lines = {job.line for job in gpu.jobs}
    running = False
    for row in memory.stream:
        op, arg = int(row["op"]), int(row["arg"])
        if op == Op.REG_WRITE and arg in starts and int(row["value"]) == 1:
            if running:
                return False
            running = True
        elif op == Op.WAIT_IRQ and arg in lines:
            running = False
    return True


def place(found: Iterable[Item], start: int) -> dict[Region, int]:
    """First frame of every region, from `start` on."""
    placed: list[tuple[int, Item]] = []
    for item in sorted(found, key=lambda x: (-x.region.pages, x.region.space, x.region.page)):
        taken = sorted((at, at + other.region.pages) for at, other in placed if item.meets(other))
        at = _aligned(start, item)
        for low, high in taken:
            if at + item.region.pages <= low:
                break
            at = _aligned(max(at, high), item)
        placed.append((at, item))
    return {item.region: at for at, item in placed}


def _aligned(frame: int, item: Item) -> int:
    offset = item.block_offset
    return frame if offset is None else frame + (offset - frame) % BLOCK_PAGES


def frames_of(placement: dict[Region, int]) -> dict[int, int]:
    """New frame of every frame."""
    return {region.frame + i: at + i for region, at in placement.items() for i in range(region.pages)}
