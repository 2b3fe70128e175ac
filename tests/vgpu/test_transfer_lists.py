# SPDX-License-Identifier: BSD-2-Clause
"""Render lists that copy and fill buffers: executed, read as transfers, and done by compute jobs instead."""

from __future__ import annotations

import functools
import struct
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from host_tools.families.transfers import Transfer, UnknownListError
from host_tools.gpus.v3d import copies, lists
from host_tools.gpus.v3d.disassembly import instruction
from host_tools.vgpu import VgpuError, build
from host_tools.vgpu.binding import ACCESS_READ, ACCESS_WRITTEN
from tests.support.qpu_asm import assemble
from tests.support.v3d_lists import LOAD, STORE, Lists, frame_size, move
from tests.support.vgpu_model import CSD_DONE, DATA, RENDER_DONE, TABLE, Board
from trace_format.profile import load

GPU = load("v3d42")
LIST, TILES, CODE = 0x10000, 0x12000, 0x13000  # Board's four pages; TILES may be preceded by a long list
READ_ONLY, SOURCE, TARGET, PAGES = 0x14000, 0x100000, 0x140000, 64
MEMORY = DATA + 0x10000  # where SOURCE and what follows lies


@functools.cache
def shared() -> Board:
    """A board with PAGES pages at SOURCE and TARGET, and the real compute engine; one for all, as it is slow."""
    b = Board(mmu=False, library=build.library(), track_access=True)
    for index, va in enumerate((SOURCE, TARGET)):
        first = MEMORY + index * PAGES * 0x1000
        b.ram.map(TABLE, va, [first + 0x1000 * i for i in range(PAGES)])
    b.mmu_on()
    return b


def board() -> Board:
    """The same board, with the same random bytes in all pages, as after a reset."""
    b = shared()
    b.core(0x58, 0xA7)
    b.ram.put(MEMORY, np.random.default_rng(1).integers(0, 256, 2 * PAGES * 0x1000, np.uint8).tobytes())
    b.gpu.clear_access()
    return b


def at(b: Board, va: int, size: int) -> npt.NDArray[np.uint8]:
    base = MEMORY - b.ram.base + (va - SOURCE if va < TARGET else PAGES * 0x1000 + va - TARGET)
    return b.ram.bytes[base : base + size].copy()


def run(b: Board, job: Lists) -> None:
    b.lists((LIST, job.render_list(TILES)), (TILES, job.tile_list()))
    b.run_list(LIST, len(job.render_list(TILES)), render=True)


def read_back(b: Board, job: Lists) -> Transfer | None:
    """What the list is read as."""
    words = {"core0.CLE_CT1QBA": LIST, "core0.CLE_CT1QEA": LIST + len(job.render_list(TILES))}
    memory = {LIST: job.render_list(TILES), TILES: job.tile_list()}
    return lists.transfer(GPU, "render", words.__getitem__, lambda _, va, size: memory[va][:size])


def dispatch(b: Board, transfer: Transfer) -> None:
    """The compute job for a transfer."""
    b.lists((CODE, copies.memory(GPU, [transfer], CODE)))
    for name, value in copies.job(GPU, [transfer], 0, CODE):
        b.core(0x904 + 4 * int(name[-1]), value)


@st.composite
def sizes(draw: st.DrawFn) -> tuple[int, int, int, int]:
    """Bytes an item, items, offsets of source and target."""
    item = draw(st.sampled_from([1, 2, 4]))
    items = draw(st.integers(1, 300) | st.sampled_from([4095, 4096, 8190, 3 * 4096, 12345, 16384]))
    return item, items, item * draw(st.integers(0, 1100)), item * draw(st.integers(0, 1100))


@settings(max_examples=12)
@given(sizes())
def test_a_copy(case: tuple[int, int, int, int]) -> None:
    """By the list and by the compute job: the same bytes, no others; every access is noted."""
    item, items, source, target = case
    width, height = frame_size(items)
    size = width * height * item
    job = Lists.copy(SOURCE + source, TARGET + target, items, item)
    b = board()
    expected = at(b, TARGET, PAGES * 0x1000)
    expected[target : target + size] = at(b, SOURCE + source, size)
    before = b.gpu.counters()
    run(b, job)
    check(b, RENDER_DONE, expected, source, target, size)
    assert b.gpu.counters().bytes_written - before.bytes_written == size
    assert b.gpu.counters().bytes_read - before.bytes_read == size
    transfer = read_back(b, job)
    assert transfer == Transfer(TARGET + target, size, item, SOURCE + source)
    dispatch(board(), transfer)
    check(b, CSD_DONE, expected, source, target, size)


def check(b: Board, done: int, expected: npt.NDArray[np.uint8], source: int, target: int, size: int) -> None:
    """The job is done, TARGET's pages hold what is expected, and exactly the bytes of the copy were accessed."""
    assert b.core(0x50) == done
    assert np.array_equal(at(b, TARGET, PAGES * 0x1000), expected)
    found = b.gpu.access_map()
    for first, flag, offset in ((0, ACCESS_READ, source), (PAGES * 0x1000, ACCESS_WRITTEN, target)):
        flags = np.concatenate(
            [found.get(MEMORY + first + 0x1000 * i, np.zeros(4096, np.uint8)) for i in range(PAGES)]
        )
        touched = np.flatnonzero(flags)
        assert (touched[0], touched[-1], len(touched)) == (offset, offset + size - 1, size)
        assert (flags[touched] & flag == flag).all()


@settings(max_examples=6)
@given(st.integers(1, 5000), st.integers(0, 0xFFFFFFFF))
def test_a_fill(items: int, color: int) -> None:
    width, height = frame_size(items)
    job = Lists.fill(TARGET + 12, items, color)
    b = board()
    expected = at(b, TARGET, PAGES * 0x1000)
    expected[12 : 12 + 4 * width * height] = np.frombuffer(struct.pack("<I", color) * (width * height), np.uint8)
    run(b, job)
    assert np.array_equal(at(b, TARGET, PAGES * 0x1000), expected)
    transfer = read_back(b, job)
    assert transfer == Transfer(TARGET + 12, 4 * width * height, 4, None, color)
    dispatch(board(), transfer)
    assert np.array_equal(at(b, TARGET, PAGES * 0x1000), expected)


def test_supertiles_of_several_tiles_and_rows_with_gaps() -> None:
    """The virtual GPU executes what V3DV does not write, too; it is not read as one transfer."""
    job = Lists(200, 70, [move(LOAD, SOURCE, 1024, 4), move(STORE, TARGET, 2048, 4)], wide=3)
    b = board()
    expected = at(b, TARGET, PAGES * 0x1000)
    for row in range(70):
        expected[2048 * row : 2048 * row + 800] = at(b, SOURCE + 1024 * row, 800)
    run(b, job)
    assert np.array_equal(at(b, TARGET, PAGES * 0x1000), expected)
    with pytest.raises(UnknownListError, match="rows of a buffer with gaps"):
        read_back(b, job)


def test_more_than_a_row_of_workgroups() -> None:
    """Beyond 32768 groups the job has further rows; what lies beyond the last item is not touched."""
    groups = copies.ROW_GROUPS + 5
    b = Board(mmu=False, library=build.library())
    b.ram.map(TABLE, SOURCE, [MEMORY + 0x1000 * i for i in range(1024)])
    b.mmu_on()
    dispatch(b, Transfer(SOURCE + 1, groups * copies.LANES - 3, 1, None, 0xAB))
    written = b.ram.bytes[MEMORY - b.ram.base :][: 1024 * 4096]
    assert np.array_equal(np.flatnonzero(written == 0xAB), np.arange(1, groups * copies.LANES - 2))


def test_the_program_is_what_its_text_says() -> None:
    for word, text in copies.PROGRAM:
        assert instruction("v3d42", word).text == text
        assert assemble(text) == word.to_bytes(8, "little")


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "two targets": ({"common": 1 << 4}, "only one render target of 32 bits"),
    "multisampling": ({"common": 1 << 42}, "only one render target of 32 bits"),
    "double buffering": ({"common": 1 << 43}, "only one render target of 32 bits"),
    "64 bits a pixel": ({"common": 1 << 40}, "only one render target of 32 bits"),
    "another internal type": ({"target": 5 << 6}, "only a render target of 8-bit unsigned"),
    "clamped": ({"target": 1 << 6 | 3 << 10}, "only a render target of 8-bit unsigned"),
    "several cores": ({"supertiles": 1 << 56}, "only one core, one list"),
    "another size in tiles": ({"supertiles": 1 << 33}, "size in tiles is not that in pixels"),
    "another target": ({"steps": [move(STORE, TARGET, 400, 4, at0=1)]}, "buffer other than render target 0"),
    "tiled": ({"steps": [move(STORE, TARGET, 400, 4, at4=1)]}, "memory layout other than raster"),
    "flipped": ({"steps": [move(STORE, TARGET, 400, 4, at7=1)]}, "options is not modelled"),
    "decimated": ({"steps": [move(STORE, TARGET, 400, 4, at10=3)]}, "options is not modelled"),
    "reserved bit": ({"steps": [move(STORE, TARGET, 400, 4, at21=1)]}, "options is not modelled"),
    "float": ({"steps": [move(STORE, TARGET, 400, 4, at12=4)]}, "format other than RGBA8UI"),
    "unaligned": ({"steps": [move(STORE, TARGET + 2, 400, 4)]}, "no multiple of a pixel"),
    "nothing loaded": ({"steps": [move(STORE, TARGET, 400, 4)]}, "from a tile of which 0 are known"),
    "another format": (
        {"steps": [move(LOAD, SOURCE, 100, 1), move(STORE, TARGET, 400, 4)]},
        "store of 4 bytes a pixel from a tile of which 1 are known",
    ),
    "a colour in another format": (
        {"color": 1, "steps": [move(STORE, TARGET, 100, 1)]},
        "store of 1 bytes a pixel from a tile of which 4 are known",
    ),
    "beyond all addresses": (
        {"steps": [move(LOAD, SOURCE, 400, 4), move(STORE, 0xFFFFFFFC, 400, 4)]},
        "goes beyond the GPU's addresses",
    ),
    "too many": ({"steps": [move(LOAD, SOURCE, 400, 4)] * 17}, "more loads, stores and clears"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_modelled_is_refused(name: str) -> None:
    changes, message = REFUSED[name]
    job = Lists.copy(SOURCE, TARGET, 100, 4)
    for key, value in changes.items():
        setattr(job, key, value)
    b = board()
    before = at(b, TARGET, PAGES * 0x1000)
    with pytest.raises(VgpuError, match=rf"list at 0x0001\w000: packet \d+ .*{message}"):
        run(b, job)
    shared.cache_clear()  # it has failed
    assert np.array_equal(at(b, TARGET, PAGES * 0x1000), before)


def test_a_list_without_an_end_counts_as_hung() -> None:
    """Any number of lists of any length may be named."""
    job = Lists.copy(SOURCE, TARGET, 100, 4)
    packets = job.render_list(TILES)
    calls = packets[packets.index(b"\x14") : -len(bytes([23, 0, 0, 13]))]
    b = Board(mmu=False, library=build.library(), job_limit=1000)
    b.mmu_on()
    b.lists((LIST, packets[:-4] + 200 * calls[:9] + packets[-4:]), (TILES, job.tile_list()))
    with pytest.raises(VgpuError, match="hang: a list takes more than 1000 packets and rows of tiles"):
        b.run_list(LIST, len(packets) + 200 * 9, render=True)


@pytest.mark.parametrize(
    ("source", "target", "status", "address"),
    [(0x200000, TARGET, 0x10, 0x200000), (SOURCE, READ_ONLY, 0x20, READ_ONLY), (SOURCE, 0x17F00, 0x10, 0x17F00)],
)
def test_the_tile_buffer_faults(source: int, target: int, status: int, address: int) -> None:
    b = board()
    run(b, Lists.copy(source, target, 100, 4))
    shared.cache_clear()
    assert b.core(0x50) == 0
    assert (b.hub(0x50), b.hub(0x122C), b.hub(0x1234)) == (status, 3 << 5, address)  # client TLB (v3d_irq.c)


@settings(max_examples=40)
@given(st.data())
def test_a_list_of_random_bytes_is_a_transfer_that_it_does_or_none(data: st.DataObject) -> None:
    """An attacker's list: whatever it is read as is all that it does; else it fails, or is not read."""
    job = Lists.copy(SOURCE, TARGET, 300, data.draw(st.sampled_from([1, 2, 4])))
    render, tile = bytearray(job.render_list(TILES)), bytearray(job.tile_list())
    for _ in range(data.draw(st.integers(1, 3))):
        part = data.draw(st.sampled_from([render, tile]))
        part[data.draw(st.integers(0, len(part) - 1))] = data.draw(st.integers(0, 255))
    words = {"core0.CLE_CT1QBA": LIST, "core0.CLE_CT1QEA": LIST + len(render)}
    b = board()
    b.lists((LIST, bytes(render)), (TILES, bytes(tile)))

    def read(_: int, va: int, size: int) -> bytes | None:
        known = va >= 0x10000 and va + size <= 0x14000
        return b.ram.bytes[DATA - b.ram.base + va - 0x10000 :][:size].tobytes() if known else None

    before = at(b, SOURCE, 2 * PAGES * 0x1000)
    try:
        found = lists.transfer(GPU, "render", words.__getitem__, read)
    except UnknownListError:
        return
    try:
        b.run_list(LIST, len(render), render=True)
    except VgpuError:
        shared.cache_clear()
        return
    if b.core(0x50) != RENDER_DONE:  # it faulted
        shared.cache_clear()
        return
    after = at(b, SOURCE, 2 * PAGES * 0x1000)
    if found is None:
        assert np.array_equal(after, before)
        return
    dispatch(board(), found)
    assert np.array_equal(at(b, SOURCE, 2 * PAGES * 0x1000), after)
