# SPDX-License-Identifier: BSD-2-Clause
"""A raw trace from a GPUReplay recording.

The carve-out has a new layout: the image holds the saved pages that are not zero. After it lies every mapped page,
in the order of virtual addresses, with a free page between any two regions, so that passes can distinguish them.
Pages were saved after the run, so the status that the GPU wrote into job headers is taken out of them; otherwise
the job manager would consider the jobs done.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from host_tools.extras.importers import gpureplay
from host_tools.extras.importers.gpureplay import BUFFERS, CONTENTS, HISTORY, TABLES
from host_tools.gpus.mali import kbase, mali_tables
from host_tools.gpus.mali.descriptors import HEADER
from trace_format import layout, profile
from trace_format.actions import Action, Actions, Op, action, array_of
from trace_format.files import read_file
from trace_format.schema import MAX_CARVEOUT_BYTES, MAX_SLOTS, PAGE_BYTES, DType, SlotKind
from trace_format.slots import Slot
from trace_format.trace import Trace

DEFAULT_GPU = "mali_g71"


@dataclass
class _Memory:
    """What is mapped and what of it was saved.

    Attributes:
        pages: virtual page numbers, ascending (n).
        flags: MAP_* of each (n).
        regions: number of the region that each belongs to, ascending (n).
        contents: virtual page number -> 4096 bytes, of saved pages that are not zero.
        zero: virtual page numbers of saved pages that are zero.
    """

    pages: NDArray[np.int64]
    flags: NDArray[np.uint8]
    regions: NDArray[np.int64]
    contents: dict[int, bytearray]
    zero: set[int]

    def word(self, va: int, size: int) -> bytes | None:
        """`size` bytes at an address, all in one page; None where nothing was saved."""
        page, inside = va // PAGE_BYTES, va % PAGE_BYTES
        if page in self.zero:
            return bytes(size)
        data = self.contents.get(page)
        return None if data is None else bytes(data[inside : inside + size])


def gpus() -> list[str]:
    """Names of the GPUs whose recordings can be imported."""
    found = (profile.load(name) for name in profile.names())
    return [gpu.name for gpu in found if gpu.mmu["format"] == mali_tables.AARCH64 and "js" in gpu.blocks]


def import_gpureplay(folder: Path, name: str, gpu_name: str = DEFAULT_GPU) -> Trace:
    """Read a recording of four files and turn it into a raw trace.

    Args:
        folder: where the files lie.
        name: of the trace.
        gpu_name: one of `gpus()`, on which it was made.

    Raises:
        TraceError: HistoryError, PageTableError, ContentsError, BuffersError or AccessError.
        OSError: a file cannot be read.
    """
    gpu = profile.load(gpu_name)
    data = {part: read_file(folder / part) for part in (HISTORY, TABLES, CONTENTS, BUFFERS)}
    with layout.naming(str(folder / HISTORY)):
        accesses = gpureplay.read_history(data[HISTORY], gpu)
    with layout.naming(str(folder / TABLES)):
        tables = mali_tables.read_tables(data[TABLES], gpu)
    with layout.naming(str(folder / CONTENTS)):
        regions = gpureplay.read_contents(data[CONTENTS], gpu)
        memory = _memory(data[CONTENTS], regions, tables)
    with layout.naming(str(folder / HISTORY)):
        stream = kbase.convert(accesses, gpu, check_table=lambda *where: _same_table(tables, *where))
        if not stream.chains:
            raise gpureplay.HistoryError("no job is submitted", offset=0)
        for chain in stream.chains:
            _reset_headers(memory, chain)
    with layout.naming(str(folder / BUFFERS)):
        buffers = gpureplay.read_buffers(data[BUFFERS], gpu)
        slots = _slots(buffers, memory, stream.chains[0].space)
    image, fills, carveout_bytes = _image(memory, str(folder / CONTENTS))
    actions = _assemble(stream, memory, len(image) // PAGE_BYTES, fills, slots)
    return Trace(
        gpu=gpu_name,
        actions=actions,
        image=image,
        carveout_bytes=carveout_bytes,
        va_bytes=1 << gpu.mmu["va_bits"],
        slots=slots,
        meta={
            "name": name,
            "core_mask": stream.cores,
            "recorder": "GPUReplay",
            "kernel": "Arm kbase, instrumented by GPUReplay",
        },
        notes={
            "imported": "GPUReplay recording",
            "files": {part: hashlib.sha256(content).hexdigest() for part, content in data.items()},
            "accesses": len(accesses),
            "regions": len(regions),
            "page_tables": tables.tables,
            "memory_attributes": f"{tables.attributes:#x}",
            "translation_config": f"{tables.config:#x}",
        },
        raw=True,
    )


def _memory(data: bytes, regions: Sequence[gpureplay.Region], tables: mali_tables.PageTables) -> _Memory:
    """Regions say what the GPU may do; pages that only the page table has (theirs are gone) are as it says."""
    runs = [mali_tables.Run(region.start, region.pages, region.permissions) for region in regions]
    flags: dict[int, int] = {}
    owner: dict[int, int] = {}
    for index, run in enumerate(runs):
        for page in range(run.start // PAGE_BYTES, run.start // PAGE_BYTES + run.pages):
            flags[page] = flags.get(page, 0) | run.flags  # a later region in its place
            owner.setdefault(page, index)
    for index, run in enumerate(tables.runs, len(runs)):
        for page in range(run.start // PAGE_BYTES, run.start // PAGE_BYTES + run.pages):
            flags.setdefault(page, run.flags)
            owner.setdefault(page, index)
    pages = np.array(sorted(flags), np.int64)
    kinds = np.array([flags[int(page)] for page in pages], np.uint8)
    border = np.diff(np.array([owner[int(page)] for page in pages])) != 0
    border |= (np.diff(pages) != 1) | (np.diff(kinds) != 0)
    memory = _Memory(pages, kinds, np.concatenate(([0], np.cumsum(border))), {}, set())
    for region in regions:
        for index, at in enumerate(region.contents):
            page, content = region.start // PAGE_BYTES + index, data[at : at + PAGE_BYTES]
            old = memory.word(page * PAGE_BYTES, PAGE_BYTES)
            if old is not None and old != content:
                raise gpureplay.ContentsError(
                    f"the page at {page * PAGE_BYTES:#x} was saved twice, with different contents", offset=at
                )
            if any(content):
                memory.contents[page] = bytearray(content)
            else:
                memory.zero.add(page)
    return memory


def _same_table(tables: mali_tables.PageTables, access: kbase.Access, space: int, table: int) -> None:
    if table != tables.root:
        raise kbase.AccessError(
            f"address space {space} is pointed at a page table that was not saved",
            offset=access.offset,
            expected=f"{tables.root:#x}",
            found=f"{table:#x}",
        )


def _reset_headers(memory: _Memory, chain: kbase.Chain) -> None:
    """Take what the GPU wrote out of the headers of a chain."""
    seen: set[int] = set()
    va = chain.head
    while va:
        if va % HEADER.align:
            raise kbase.AccessError(
                "a job header is not aligned", offset=chain.offset, expected=HEADER.align, found=f"{va:#x}"
            )
        if va in seen:
            raise kbase.AccessError(f"the job chain comes back to {va:#x}", offset=chain.offset)
        seen.add(va)
        header = memory.word(va, HEADER.size)
        if header is None:
            raise kbase.AccessError(f"the job header at {va:#x} was not saved", offset=chain.offset)
        page = memory.contents.get(va // PAGE_BYTES)
        if page is not None:
            page[va % PAGE_BYTES : va % PAGE_BYTES + HEADER.written_bytes] = bytes(HEADER.written_bytes)
        va = HEADER["next"].address(header)


def _slots(buffers: Sequence[gpureplay.Buffer], memory: _Memory, space: int) -> list[Slot]:
    """A flat float32 slot for each buffer: parameters first, then the input, the output last."""
    if len(buffers) > MAX_SLOTS:
        raise gpureplay.BuffersError(
            "too many buffers", offset=0, expected=f"at most {MAX_SLOTS}", found=len(buffers)
        )
    names = [f"param{i}" for i in range(len(buffers) - 2)] + ["input", "output"]
    kinds = [SlotKind.PARAMETER] * (len(buffers) - 2) + [SlotKind.INPUT, SlotKind.OUTPUT]
    slots = []
    for buffer, name, kind in zip(buffers, names, kinds, strict=True):
        first, last = buffer.start // PAGE_BYTES, (buffer.start + buffer.size - 1) // PAGE_BYTES
        at = int(np.searchsorted(memory.pages, first))
        end = at + last - first
        if end >= len(memory.pages) or memory.pages[at] != first or memory.pages[end] != last:
            raise gpureplay.BuffersError(
                f"the buffer at {buffer.start:#x} ({buffer.size} bytes) is not mapped", offset=buffer.offset
            )
        slots.append(Slot(name, kind, DType.FLOAT32, (buffer.size // 4,), (4,), buffer.start, space))
    return slots


def _runs(pages: NDArray[np.int64], memory: _Memory) -> Iterator[slice]:
    """Stretches of pages that follow one another in one region."""
    cut = np.diff(memory.regions[np.searchsorted(memory.pages, pages)]) != 0
    cut |= np.diff(pages) != 1
    borders = [0, *(np.flatnonzero(cut) + 1).tolist(), len(pages)]
    for first, end in itertools.pairwise(borders):
        if first < end:
            yield slice(first, end)


def _frame(memory: _Memory, base: int, index: int) -> int:
    """Where the mapped page with this index lies in the carve-out."""
    return base + index + int(memory.regions[index])


def _image(memory: _Memory, file: str) -> tuple[bytes, list[Action], int]:
    """The image, the actions that fill memory from it, and the size of the carve-out."""
    saved = np.array(sorted(memory.contents), np.int64)
    base = len(saved)
    carveout = _frame(memory, base, len(memory.pages) - 1) * PAGE_BYTES + PAGE_BYTES
    if carveout > MAX_CARVEOUT_BYTES:
        raise gpureplay.ContentsError(
            "the recording needs too much memory",
            expected=f"at most {MAX_CARVEOUT_BYTES} bytes",
            found=carveout,
            file=file,
        )

    def place(page: int) -> int:
        return _frame(memory, base, int(np.searchsorted(memory.pages, page))) * PAGE_BYTES

    fills = []
    for run in _runs(saved, memory):
        size = (run.stop - run.start) * PAGE_BYTES
        fills.append(
            action(Op.UPLOAD, bytes=size, target=place(int(saved[run.start])), source=run.start * PAGE_BYTES)
        )
    zero = np.array(sorted(memory.zero), np.int64)
    for run in _runs(zero, memory):
        fills.append(
            action(Op.CLEAR, bytes=(run.stop - run.start) * PAGE_BYTES, target=place(int(zero[run.start])))
        )
    return b"".join(memory.contents[int(page)] for page in saved), fills, carveout


def _assemble(stream: kbase.Stream, memory: _Memory, base: int, fills: list[Action], slots: list[Slot]) -> Actions:
    """Maps; what runs once; the start of a replay with its memory; what runs in every replay; the output."""
    maps = [
        action(
            Op.MAP_GPU_MEM,
            flags=int(memory.flags[run.start]),
            address_space=space,
            va_page=int(memory.pages[run.start]),
            pages=run.stop - run.start,
            frame=_frame(memory, base, run.start),
        )
        for space in sorted(stream.spaces)
        for run in _runs(memory.pages, memory)
    ]
    copies = [action(Op.COPY_TO_GPU, slot=i) for i, slot in enumerate(slots) if slot.kind != SlotKind.OUTPUT]
    output = [action(Op.COPY_FROM_GPU, slot=i) for i, slot in enumerate(slots) if slot.kind == SlotKind.OUTPUT]
    start = stream.restart or 0
    mark = [] if stream.restart is None else [action(Op.REPLAY_START)]
    return array_of([*maps, *stream.actions[:start], *mark, *fills, *copies, *stream.actions[start:], *output])
