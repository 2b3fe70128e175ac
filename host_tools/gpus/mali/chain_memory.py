# SPDX-License-Identifier: BSD-2-Clause
"""What chains of jobs do to memory: seen where it is so for all data, else all that they can reach.

A chain counts as seen where that is proved (host_tools/accesses/proof.py). Of the others everything counts that
they can reach (host_tools/gpus/mali/job_chains.py).

A chip may touch more than the model does of what descriptors name: it fetches code ahead, and has storage for more
threads. So these count as the descriptors say, of all chains.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from host_tools.accesses.by_job import joined, left
from host_tools.accesses.proof import AccessMap, InOrder, Job
from host_tools.accesses.slot_places import bytes_of
from host_tools.families.accesses import Span
from host_tools.gpus.mali.job_chains import Region, Walker, chains
from host_tools.model.frames import Mask
from host_tools.model.memory import Conflict, Memory
from host_tools.passes.program import Program
from host_tools.support.pages import pages_of
from host_tools.vgpu.binding import ACCESS_READ_FIRST, ACCESS_WRITTEN
from trace_format import operators
from trace_format.schema import PAGE_BYTES

NONE: Mask = np.zeros(PAGE_BYTES, np.bool_)
NONE.flags.writeable = False


class ChainMemory:
    """What the chains of a trace do.

    Args:
        memory: of the trace.
        jobs: what each chain did when it was observed; none where that could not be.
        given: bytes of slots that others than jobs write: frame -> PAGE_BYTES booleans.

    Attributes:
        regions: all regions, by address.
        searched: numbers of the chains that are not proved.

    Raises:
        ChainError: as `host_tools.gpus.mali.job_chains.reach`.
    """

    def __init__(self, memory: Memory, jobs: Sequence[Job], given: Mapping[int, Mask]) -> None:
        found = chains(memory)
        self._jobs = jobs if len(jobs) == len(found) else ()
        self._proof = InOrder(self._jobs, given)
        self.searched: set[int] = set()
        self._use: dict[int, Span] = {}
        self._writes: set[int] = set()
        walker = Walker(memory)
        self._reach = walker.reach
        proved: list[AccessMap] = []
        for chain in found:
            is_proved = bool(self._jobs) and self._proof.holds(chain.index)
            walker.walk(chain, searches=not is_proved)
            if is_proved:
                proved.append(self._jobs[chain.index].accesses)
                self._take(chain.index, proved[-1])
            else:
                self.searched.add(chain.index)
                self._take_reached()
        self._seen = joined(proved)
        self.regions = self._reach.regions
        self._take_named()

    def touched(self, frame: int) -> bool:
        """Some chain can access the page."""
        return frame in self._use

    def needed(self, frame: int) -> Mask:
        """Bytes of the page whose initial value some chain may read."""
        return self._reach.needed(frame) | self._flagged(frame, ACCESS_READ_FIRST)

    def written(self, frame: int) -> bool:
        """Some chain may write to the page."""
        return frame in self._writes

    def overwritten(self, frame: int) -> Mask:
        """Bytes of the page that chains write whatever the data is."""
        return self._flagged(frame, ACCESS_WRITTEN)

    def use(self, frame: int) -> Span | None:
        """Numbers of the first and the last chain that can access the page; None: none can."""
        return self._use.get(frame)

    def is_searched(self, region: Region) -> bool:
        """Whether chains that are not proved reach the region."""
        return not self.searched.isdisjoint(self._reach.chains.get(region, ()))

    def _flagged(self, frame: int, flag: int) -> Mask:
        return self._seen[frame] & flag != 0 if frame in self._seen else NONE

    def _take(self, chain: int, accesses: AccessMap) -> None:
        """What a proved chain accesses."""
        for frame, flags in accesses.items():
            self._used(frame, chain, chain)
            if (flags & ACCESS_WRITTEN).any():
                self._writes.add(frame)
        self._proof.wrote(accesses)

    def _take_reached(self) -> None:
        """All that chains which are not proved have reached so far may be changed."""
        for region in filter(self.is_searched, self._reach.regions):
            frames = self._tail(region)
            self._writes.update(frames)
            self._proof.may_have_written(frames)

    def _take_named(self) -> None:
        """What descriptors name: descriptors, and regions from an address on, of which the GPU writes some."""
        for region, numbers in self._reach.chains.items():
            for frame in self._tail(region):
                self._used(frame, min(numbers), max(numbers))
        for frame, (first, last) in self._reach.named.items():
            self._used(frame, first, last)
        for item in self._reach.written:
            if item.region is not None:
                first = item.va // PAGE_BYTES - item.region.page
                end = len(item.region.frames) if item.size is None else first + len(pages_of(item.va, item.size))
                self._writes.update(item.region.frames[first:end])

    def _tail(self, region: Region) -> list[int]:
        return region.frames[self._reach.first[region] - region.page :]

    def _used(self, frame: int, first: int, last: int) -> None:
        before = self._use.get(frame, (first, last))
        self._use[frame] = min(before[0], first), max(before[1], last)


def chain_memory(program: Program) -> ChainMemory:
    """What a program's jobs do to memory (`Family.accesses`).

    Raises:
        ChainError: a chain of descriptors cannot be followed.
    """
    try:
        jobs = program.jobs()
    except Conflict:
        jobs = []
    given = bytes_of(program.memory, operators.given(program.memory.stream, program.slots))
    for frame, mask in left(program.memory, jobs).items():
        given[frame] = given.get(frame, False) | mask
    return ChainMemory(program.memory, jobs, given)
