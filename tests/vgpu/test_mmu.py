# SPDX-License-Identifier: BSD-2-Clause
"""The MMU: translation, faults, caches, the access map, the walk."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from host_tools.vgpu import ACCESS_READ, ACCESS_READ_FIRST, ACCESS_WRITTEN, VgpuError
from tests.support.vgpu_model import CSD_DONE, DATA, MMU_ON, PTE_VALID, PTE_WRITEABLE, READ, TABLE, WRITE, Board

Boards = Callable[..., Board]


@pytest.mark.parametrize(
    ("action", "va", "hub_status", "control_bit"),
    [
        (READ, 0x20004, 0x10, 1 << 20),
        (WRITE, 0x20004, 0x10, 1 << 20),
        (WRITE, 0x14010, 0x20, 1 << 12),
        (READ, 0xFFFFFFFC, 0x10, 1 << 20),
    ],
)
def test_fault(board: Boards, action: int, va: int, hub_status: int, control_bit: int) -> None:
    b = board()
    b.dispatch(action, va)
    assert b.core(0x50) == 0
    assert b.hub(0x50) == hub_status
    assert b.levels == [(0, True)]
    assert (b.hub(0x122C), b.hub(0x1234)) == (0, va)
    assert b.hub(0x1200) == MMU_ON | control_bit
    b.hub(0x1200, b.hub(0x1200))
    assert b.hub(0x1200) == MMU_ON
    assert b.core(0x900) & 3 == 2  # the dispatch is stuck until a reset
    counters = b.gpu.counters()
    assert (counters.faults, counters.jobs) == (1, 0)


def test_read_only_page_can_be_read(board: Boards) -> None:
    b = board()
    b.dispatch(READ, 0x14010)
    assert b.core(0x50) == CSD_DONE


def test_address_cap(board: Boards) -> None:
    b = board()
    b.ram.map(TABLE, 0x100000, [DATA])
    b.hub(0x1214, 0x80000001)
    b.flush()
    b.dispatch(READ, 0x10000)
    assert b.core(0x50) == CSD_DONE
    b.dispatch(READ, 0x100000)
    assert (b.hub(0x50), b.hub(0x1200)) == (0x8, MMU_ON | 1 << 27)


def test_address_cap_shortens_the_table(board: Boards) -> None:
    b = board()
    top = b.ram.base + b.ram.bytes.size
    b.ram.map(top - 0x1000, 0x10000, [DATA])  # room for 1024 entries: 4 MB of addresses
    b.hub(0x1204, (top - 0x1000) >> 12)
    b.hub(0x1214, 0x80000004)
    b.flush()
    b.dispatch(WRITE, 0x10000)
    assert b.ram.word(DATA) == 0xC0FFEE
    b.hub(0x1214, 0)
    with pytest.raises(VgpuError, match=f"page table at physical 0x{top - 0x1000:x} .* nothing is at 0x{top:x}"):
        b.dispatch()


def test_fault_without_abort_is_not_modelled(board: Boards) -> None:
    b = board()
    b.hub(0x1200, MMU_ON & ~(1 << 19))
    with pytest.raises(VgpuError, match="only aborts are modelled, bits 0x00080000 are off"):
        b.dispatch(READ, 0x20000)


def test_entry_that_leads_nowhere(board: Boards) -> None:
    b = board()
    b.ram.map(TABLE, 0x30000, [0x90000000])
    b.flush()
    b.dispatch(READ, 0x10000)  # harmless while not used
    with pytest.raises(VgpuError, match="bus error: read of GPU address 0x00030abc goes to physical 0x90000abc"):
        b.dispatch(READ, 0x30ABC)


def test_reserved_bits_of_an_entry(board: Boards) -> None:
    b = board()
    b.ram.map(TABLE, 0x30000, [DATA], PTE_VALID | 1 << 25)
    b.flush()
    with pytest.raises(VgpuError, match=r"entry of GPU page 0x30000 .*: reserved bits 0x2000000"):
        b.dispatch()


@pytest.mark.parametrize("flush_cache", [False, True])
def test_changes_show_after_a_full_flush_only(board: Boards, flush_cache: bool) -> None:
    b = board()
    b.dispatch(READ, 0x10000)
    b.ram.map(TABLE, 0x10000, [DATA + 0x3000])
    b.dispatch(WRITE, 0x10000)
    assert (b.ram.word(DATA), b.ram.word(DATA + 0x3000)) == (0xC0FFEE, 0)
    if flush_cache:
        b.hub(0x1000, 3)
    b.hub(0x1200, MMU_ON | 4)
    b.dispatch(WRITE, 0x10000)
    assert b.ram.word(DATA + 0x3000) == (0xC0FFEE if flush_cache else 0)


def test_access_map(board: Boards) -> None:
    b = board(track_access=True)
    b.dispatch(READ, 0x10004)
    b.dispatch(WRITE, 0x10008)
    b.dispatch(READ, 0x10008)
    b.dispatch(READ | WRITE, 0x12FFC)
    found = b.gpu.access_map()
    assert list(found) == [DATA, DATA + 0x2000]
    expected = np.zeros(4096, np.uint8)
    expected[4:8] = ACCESS_READ | ACCESS_READ_FIRST
    expected[8:12] = ACCESS_READ | ACCESS_WRITTEN
    assert (found[DATA] == expected).all()
    expected[:] = 0
    expected[0xFFC:] = ACCESS_READ | ACCESS_READ_FIRST | ACCESS_WRITTEN
    assert (found[DATA + 0x2000] == expected).all()
    b.gpu.clear_access()
    assert b.gpu.access_map() == {}


def test_access_map_goes_by_physical_page(board: Boards) -> None:
    b = board(track_access=True)
    b.ram.map(TABLE, 0x50000, [DATA])
    b.flush()
    b.dispatch(WRITE, 0x50000)
    b.dispatch(READ, 0x10000)
    (flags,) = b.gpu.access_map().values()
    assert set(flags[:4]) == {ACCESS_WRITTEN | ACCESS_READ}


def test_access_map_of_many_pages(board: Boards) -> None:
    b = board(track_access=True)
    frames = [DATA + 0x1000 * (i * 7 % 1000) for i in range(1000)]
    b.ram.map(TABLE, 0x1000000, frames)
    b.flush()
    for i in range(1000):
        b.dispatch(READ, 0x1000000 + 0x1000 * i)
    assert list(b.gpu.access_map()) == sorted(frames)


def test_walk(board: Boards) -> None:
    b = board()
    b.dispatch(WRITE, 0x11000)
    b.dispatch(READ | WRITE, 0x12000)
    runs = [(run.va, run.pa - DATA, run.bytes, run.flags) for run in b.gpu.mappings()]
    assert runs == [
        (0x10000, 0x0000, 0x2000, 16 | 3),
        (0x12000, 0x2000, 0x1000, 16 | 3 | 4 | 8),
        (0x13000, 0x3000, 0x1000, 16 | 3),
        (0x14000, 0x4000, 0x1000, 16 | 1),
    ]


@settings(max_examples=30, deadline=None)
@given(st.dictionaries(st.integers(0, 63), st.tuples(st.integers(0, 63), st.booleans()), max_size=40))
def test_walk_gives_the_table_back(table: dict[int, tuple[int, bool]]) -> None:
    b = Board()
    b.ram.put(TABLE, bytes(0x200))
    for page, (frame, writable) in table.items():
        b.ram.map(TABLE, page << 12, [DATA + (frame << 12)], PTE_VALID | PTE_WRITEABLE * writable)
    b.flush()
    b.dispatch()
    found = {}
    for run in b.gpu.mappings():
        for i in range(run.bytes >> 12):
            found[(run.va >> 12) + i] = (((run.pa - DATA) >> 12) + i, bool(run.flags & 2))
    b.gpu.close()
    assert found == table
