# SPDX-License-Identifier: BSD-2-Clause
"""Job chains in GPU memory, and what of memory a chain can reach: for GPUs with a job manager (Mali, Bifrost).

Descriptors: docs/DESCRIPTORS.md. Where a pointer's target has a known layout, exactly its bytes are reached. Any
other word of reached memory that could be an address counts as one: its region is reached from there to its end,
and searched in turn. A shader may run to the end of its region.

Two things are taken for granted: programs compute no address from the data of buffers (OpenCL and Vulkan 1.0
shaders cannot), and a buffer is named by its start, so nothing is reached below the address given.
"""

from __future__ import annotations

import functools
import struct
from collections import defaultdict
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from host_tools.families.accesses import NotFollowedError
from host_tools.gpus.mali.descriptors import (
    DRAW,
    HEADER,
    JOBS,
    MAX_CHAIN,
    PUSH_BYTES,
    STATE,
    STORAGE,
    TABLE,
    UNIFORM_BUFFER,
    WRITE_VALUE,
    joined,
)
from host_tools.gpus.mali.job_manager import ChainStarts
from host_tools.model.memory import Memory
from host_tools.support.pages import pieces
from trace_format.actions import MAP_EXECUTE, MAP_WRITE, actions_of
from trace_format.schema import PAGE_BYTES

FOLLOWED = ("uniform buffers", "push uniforms", "state", "thread storage")  # pointers of a draw descriptor
OTHER_POINTERS = [field for name, field in DRAW.fields.items() if field.kind == "address" and name not in FOLLOWED]
ENTRY_BYTES = 16  # of a uniform buffer


class ChainError(NotFollowedError):
    """A job chain that cannot be followed."""


@dataclass(eq=False)
class Region:
    """Memory that was allocated as one: consecutive pages of one kind.

    Attributes:
        space: address space.
        page: first virtual page number.
        flags: MAP_*.
        frames: page in the carve-out of each page.
    """

    space: int
    page: int
    flags: int
    frames: list[int] = field(default_factory=list)

    @property
    def end(self) -> int:
        """Virtual page number after the last."""
        return self.page + len(self.frames)

    def frame(self, page: int) -> int:
        """Page in the carve-out of a virtual page."""
        return self.frames[page - self.page]


@dataclass(frozen=True)
class Chain:
    """A job chain: its number, its address space, the address of its first header, and which action of the
    memory model's stream starts it (one of the prologue: less than 0)."""

    index: int
    space: int
    head: int
    start: int


@dataclass(frozen=True)
class Written:
    """Memory that a descriptor names for the GPU to write to: by which chain, what, where, how many bytes (None:
    to the region's end), and what lies there: the region, and how the page is mapped."""

    chain: Chain
    what: str
    va: int
    size: int | None
    region: Region | None
    flags: int


@dataclass
class Reach:
    """What job chains can reach.

    Attributes:
        regions: all regions, by address.
        initial: frame -> PAGE_BYTES booleans: bytes whose initial value a job may read.
        chains: region -> numbers of the chains that can reach it.
        first: region -> lowest virtual page of it that a chain can reach.
        named: frame -> first and last chain whose descriptors name some of it, of chains that are not searched.
        written: what descriptors name for the GPU to write to.
        naming: frame -> PAGE_BYTES booleans: bytes of what names memory, descriptors and push uniforms.
        uniforms: the same, bytes of uniform buffers: what they are for, nothing says.
        code: number of a chain -> addresses of its shaders, each once.
    """

    regions: list[Region]
    initial: dict[int, NDArray[np.bool_]] = field(default_factory=dict)
    chains: dict[Region, set[int]] = field(default_factory=lambda: defaultdict(set))
    first: dict[Region, int] = field(default_factory=dict)
    named: dict[int, tuple[int, int]] = field(default_factory=dict)
    written: list[Written] = field(default_factory=list)
    naming: dict[int, NDArray[np.bool_]] = field(default_factory=dict)
    uniforms: dict[int, NDArray[np.bool_]] = field(default_factory=dict)
    code: dict[int, list[int]] = field(default_factory=dict)

    def add(self, region: Region, va: int, chain: int) -> None:
        """A chain reaches a region from an address to its end."""
        self.chains[region].add(chain)
        self.first[region] = min(self.first.get(region, region.end), va // PAGE_BYTES)

    def name(self, frame: int, chain: int) -> None:
        """Descriptors of a chain name some of a page."""
        self.named[frame] = self.named.get(frame, (chain, chain))[0], chain

    def touched(self, frame: int) -> bool:
        """Some chain can reach the page."""
        return frame in self._frames

    def needed(self, frame: int) -> NDArray[np.bool_]:
        """Bytes of the page whose initial value some chain may read."""
        return self.initial.get(frame, np.zeros(PAGE_BYTES, np.bool_))

    @functools.cached_property
    def _frames(self) -> set[int]:
        return {frame for region, first in self.first.items() for frame in region.frames[first - region.page :]}


def regions(memory: Memory) -> list[Region]:
    """All regions, by address.

    A recording leaves a free page between the frames of any two. In a trace that was built before, pages of one
    region may lie anywhere, and regions whose addresses follow one another may count as one.
    """
    mappings, frames = memory.mappings, memory.mappings.frames
    in_image = np.isin(frames, list(memory.in_image()))
    spaced = (np.diff(frames) == 2) & ~np.isin(frames[:-1] + 1, frames) & ~in_image[:-1] & ~in_image[1:]
    kinds = mappings.flags & ~MAP_WRITE  # passes take the permission from single pages
    cuts = 1 + np.flatnonzero((np.diff(mappings.keys) != 1) | (np.diff(kinds) != 0) | spaced)
    starts = np.append(0, cuts)[: len(frames)]
    columns = (column[starts].tolist() for column in (mappings.spaces, mappings.pages, mappings.flags))
    parts = (part.tolist() for part in np.split(frames, cuts))
    return [Region(*row) for row in zip(*columns, parts, strict=False)]


def chains(memory: Memory) -> list[Chain]:
    """The chains that a trace submits, in order."""
    starts = ChainStarts(memory.trace.profile)
    found: list[Chain] = []
    rows = np.concatenate([memory.prologue, memory.stream])
    for at, row in enumerate(actions_of(rows), -len(memory.prologue)):
        started = starts.take(row)
        if started is not None:
            found.append(Chain(len(found), *started, at))
    return found


def reach(memory: Memory) -> Reach:
    """What the trace's chains can reach.

    Raises:
        ChainError: a chain leaves what is mapped, has no end, or has a job of a type whose descriptor is unknown.
    """
    walker = Walker(memory)
    for chain in chains(memory):
        walker.walk(chain)
    return walker.reach


class Walker:
    """Follows one chain after the other, in their order; `reach` is what was found."""

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self.reach = Reach(regions(memory))
        self.bytes: dict[int, NDArray[np.uint8]] = {}  # of frames that the recording has
        self.bytes |= {frame: page.content for frame, page in memory.pages.items() if not page.is_blank}
        self.bytes |= {frame: memory.pages[frame].content.copy() for frame in memory.cpu_written_frames()}
        self.cpu_writes = sorted(memory.cpu_writes, key=lambda item: item.before)
        self.by_page: dict[tuple[int, int], Region] = {}
        self.content: dict[Region, list[int]] = {}  # virtual pages that the recording has
        for region in self.reach.regions:
            self.by_page |= {(region.space, page): region for page in range(region.page, region.end)}
            kept = [page for page, frame in enumerate(region.frames, region.page) if frame in self.bytes]
            self.content[region] = kept
        spaces, pages = memory.mappings.spaces, memory.mappings.pages
        self.mapped = {space: pages[spaces == space].astype(np.uint64) for space in set(spaces.tolist())}
        self.chain = Chain(0, 0, 0, 0)
        self.searches = True  # what words of the chain at hand lead to
        self.searched: dict[Region, int] = {}  # by it: from this virtual page on
        self.pointers: dict[tuple[Region, int], list[int]] = {}

    def walk(self, chain: Chain, *, searches: bool = True) -> None:
        """Follow one chain.

        Args:
            searches: what words lead to is reached too; else only what descriptors name.
        """
        self.chain = chain
        self.searches, self.searched = searches, {}
        self._fill(chain.start)
        va, jobs = chain.head, 0
        while va:
            jobs += 1
            if jobs > MAX_CHAIN:
                raise ChainError(f"job chain {chain.index} has no end")
            va = self._job(va)

    def _fill(self, start: int) -> None:
        """Do what the CPU writes until a chain starts."""
        while self.cpu_writes and self.cpu_writes[0].before <= start:
            item = self.cpu_writes.pop(0)
            data = np.frombuffer(item.data, np.uint8)
            for frame, inside, part in pieces(item.to, len(data)):
                self.bytes[frame][inside] = data[part]
            self.pointers.clear()

    def _content(self, frame: int) -> NDArray[np.uint8]:
        return self.bytes[frame] if frame in self.bytes else self.memory.pages[frame].content

    def _region(self, va: int) -> Region | None:
        return self.by_page.get((self.chain.space, va // PAGE_BYTES))

    def _bytes(self, va: int, size: int, what: str, *, is_naming: bool = True) -> bytes:
        """Bytes with a known meaning: they are needed."""
        found = []
        for page, inside, part in pieces(va, size):
            at = va + part.start
            region = self._region(at)
            if region is None:
                raise ChainError(f"job chain {self.chain.index}: {what} at GPU address {at:#x} is not mapped")
            frame = region.frame(page)
            if self.searches:
                self.reach.add(region, at, self.chain.index)
            else:
                self.reach.name(frame, self.chain.index)
            self._needed(frame)[inside] = True
            marked = self.reach.naming if is_naming else self.reach.uniforms
            marked.setdefault(frame, np.zeros(PAGE_BYTES, np.bool_))[inside] = True
            found.append(self._content(frame)[inside].tobytes())
        return b"".join(found)

    def _needed(self, frame: int) -> NDArray[np.bool_]:
        return self.reach.initial.setdefault(frame, np.zeros(PAGE_BYTES, np.bool_))

    def _job(self, va: int) -> int:
        """One job; returns the address of the next one, 0 at the end."""
        if va % HEADER.align:
            raise ChainError(f"job chain {self.chain.index}: the job header at {va:#x} is not aligned")
        header = self._bytes(va, HEADER.size, "job header")
        self._written("job header", va, HEADER.written_bytes)
        kind = HEADER["type"].number(header)
        if kind not in JOBS:
            raise ChainError(f"job chain {self.chain.index}: the job at {va:#x} is of unknown type {kind}")
        if not HEADER["is 64b"].number(header):
            raise ChainError(f"job chain {self.chain.index}: the job at {va:#x} has a descriptor of 32 bits")
        job = JOBS[kind]
        payload = self._bytes(va + HEADER.size, job.size - HEADER.size, "job payload")
        for part in job.parts.values():
            if part.descriptor is DRAW:
                self._draw(payload[part.offset - HEADER.size :][: DRAW.size])
            elif part.descriptor is WRITE_VALUE:
                self._touch(WRITE_VALUE["address"].address(payload), "target of a job that writes a value")
        return HEADER["next"].address(header)

    def _draw(self, draw: bytes) -> None:
        state = self._bytes(DRAW["state"].address(draw), STATE.size, "renderer state")
        buffers, push = STATE["uniform buffer count"].number(state), STATE["uniform count"].number(state)
        self._code(STATE["shader"].address(state))
        if buffers:
            size = UNIFORM_BUFFER.size
            table = self._bytes(DRAW["uniform buffers"].address(draw), size * buffers, "table of uniform buffers")
            for entry in (table[at : at + size] for at in range(0, len(table), size)):
                if any(entry):
                    self._words(self._uniform_buffer(entry))
        if push:
            self._words(self._bytes(DRAW["push uniforms"].address(draw), PUSH_BYTES * push, "push uniforms"))
        if DRAW["thread storage"].address(draw):
            storage = self._bytes(DRAW["thread storage"].address(draw), STORAGE.size, "thread storage")
            for name in ("tls base pointer", "wls base pointer"):
                if base := STORAGE[name].address(storage):
                    self._touch(base, "scratch memory")  # what it holds before a job means nothing
        self._words(joined(OTHER_POINTERS, draw))

    def _uniform_buffer(self, entry: bytes) -> bytes:
        size = ENTRY_BYTES * UNIFORM_BUFFER["entries"].number(entry)
        return self._bytes(UNIFORM_BUFFER["pointer"].address(entry), size, "uniform buffer", is_naming=False)

    def _code(self, va: int) -> None:
        """A shader; where it ends is not known."""
        region = self._region(va)
        if region is None or not region.flags & MAP_EXECUTE:
            raise ChainError(f"job chain {self.chain.index}: the shader at {va:#x} is not in executable memory")
        self.reach.add(region, va, self.chain.index)
        code = self.reach.code.setdefault(self.chain.index, [])
        if va not in code:
            code.append(va)
        for page in range(va // PAGE_BYTES, region.end):
            first = va % PAGE_BYTES if page == va // PAGE_BYTES else 0
            self._needed(region.frame(page))[first:] = True

    def _touch(self, va: int, what: str) -> None:
        self._written(what, va)
        region = self._region(va)
        if region is not None:
            self.reach.add(region, va, self.chain.index)

    def _written(self, what: str, va: int, size: int | None = None) -> None:
        region = self._region(va)
        flags = 0 if region is None else self.memory.mappings[self.chain.space, va // PAGE_BYTES].flags
        self.reach.written.append(Written(self.chain, what, va, size, region, flags))

    def _words(self, data: bytes) -> None:
        """Words that may be addresses, at any multiple of 4."""
        if not self.searches:
            return
        for at in range(0, len(data) - 7, 4):
            self._search(int(struct.unpack_from("<Q", data, at)[0]) & TABLE.address_mask)

    def _search(self, va: int) -> None:
        """Reach a region from an address to its end, and what its content there may point to."""
        pending = [va]
        while pending:
            va = pending.pop()
            region = self._region(va)
            if region is None:
                continue
            first, end = va // PAGE_BYTES, self.searched.get(region, region.end)
            if first >= end:
                continue
            self.searched[region] = first
            self.reach.add(region, va, self.chain.index)
            for page in self.content[region]:
                if first <= page < end:
                    pending += self._pointers(region, page)

    def _pointers(self, region: Region, page: int) -> list[int]:
        """Addresses, one a page, that the words of a page may be, also one that goes on in the next page."""
        key = region, page
        if key not in self.pointers:
            frame = region.frame(page)
            self._needed(frame)[:] = True
            content = self._content(frame)
            if page + 1 < region.end:
                content = np.concatenate([content, self._content(region.frame(page + 1))[:4]])
            found: list[int] = []
            if content.any():
                words = content.view("<u4").astype(np.uint64)
                values = (words[:-1] | words[1:] << np.uint64(32)) & np.uint64(TABLE.address_mask)
                numbers, mapped = np.unique(values // PAGE_BYTES), self.mapped[region.space]
                place = np.minimum(np.searchsorted(mapped, numbers), len(mapped) - 1)
                found = numbers[mapped[place] == numbers].tolist()
            self.pointers[key] = [number * PAGE_BYTES for number in found]
        return self.pointers[key]
