# SPDX-License-Identifier: BSD-2-Clause
"""The virtual Mali's address spaces: both table formats, faults, flushes, and the walk that the recorder uses."""

from __future__ import annotations

import pytest

from host_tools.vgpu.binding import VgpuError
from tests.support.mali_model import (
    AARCH64,
    DATA,
    FLUSH_MEM,
    FLUSH_PT,
    LEAF,
    LEGACY,
    LOCK,
    MMU,
    NX,
    PAGE,
    RO,
    RW,
    TABLE_ROOT,
    UPDATE,
    VA,
    MaliBoard,
)

AS = 0x2400


def outcome(board: MaliBoard, head: int = VA) -> tuple[int, int]:
    """Status of the job slot and of the fault register after a job at an address."""
    board.submit(head)
    return board.slot(0x24), board.read(AS + 0x1C)


def test_pages_are_found() -> None:
    board = MaliBoard()
    board.put_job(VA + 3 * PAGE)
    assert outcome(board, VA + 3 * PAGE) == (1, 0)
    assert board.status(VA + 3 * PAGE) == 1


FAULTS = [
    # name, entry, level, status of the job, fault status
    ("no entry", 0, 3, 0x42, 0x2C3),
    ("no table at level 2", 0, 2, 0x42, 0x2C2),
    ("no table at level 1", 0, 1, 0x42, 0x2C1),
    ("no table at level 0", 0, 0, 0x42, 0x2C0),
    ("type 2", DATA | 2, 3, 0x42, 0x2C3),
    ("block at the last level", DATA | 0x741, 3, 0x42, 0x2C3),
    ("block at level 0", 0x741, 0, 0x42, 0x2C0),
    ("no access flag", DATA | 0x303 | RW, 3, 0x42, 0x2DB),
    ("no access", DATA | LEAF, 3, 0x42, 0x2CB),
    ("read-only header", DATA | LEAF | RO, 3, 0x43, 0x3CB),
    ("page beyond 40 bits", 1 << 40 | LEAF | RW, 3, 0x42, 0x2E7),
    ("no memory at the page", 0x10000000 | LEAF | RW, 3, 0x42, 0x2D3),
    ("no memory at a table", 0x10000000 | 3, 2, 0x42, 0x2D3),
]


@pytest.mark.parametrize(("name", "entry", "level", "status", "fault"), FAULTS, ids=[row[0] for row in FAULTS])
def test_faults(name: str, entry: int, level: int, status: int, fault: int) -> None:
    board = MaliBoard()
    board.put_job()
    board.tables.set(VA, entry, level)
    assert outcome(board) == (status, fault)
    assert board.pair_read(AS + 0x20) == VA
    bus = 16 if 0xD0 <= fault & 0xFF < 0xD8 else 0
    assert board.read(0x2000) == 1 << bus
    assert board.gpu.interrupt_level(MMU)
    assert board.read(0x1000) == 1 << 17
    assert board.gpu.counters().faults == 1


def test_addresses_beyond_48_bits() -> None:
    board = MaliBoard()
    assert outcome(board, 1 << 48) == (0x42, 0x2E0)
    assert board.pair_read(AS + 0x20) == 1 << 48


def test_addresses_are_as_wide_as_the_gpu_says() -> None:
    """MMU_FEATURES of a G52 r1: 35 bits. Below that is only what is not mapped here."""
    board = MaliBoard(gpu="mali_g52r1")
    assert outcome(board, 1 << 35) == (0x42, 0x2E0)
    board = MaliBoard(gpu="mali_g52r1")
    assert outcome(board, (1 << 35) - PAGE) == (0x42, 0x2C0)


def test_no_execute_does_not_matter_to_data() -> None:
    board = MaliBoard()
    board.put_job()
    board.tables.set(VA, DATA | LEAF | RW | NX)
    assert outcome(board) == (1, 0)


@pytest.mark.parametrize(("level", "size"), [(1, 1 << 30), (2, 1 << 21)])
def test_blocks(level: int, size: int) -> None:
    board = MaliBoard()
    board.tables.set(VA, 0x40000000 | 0x741, level)
    inside = DATA - 0x40000000 if level == 1 else 0x3000
    va = VA // size * size + inside
    board.ram.put(0x40000000 + inside, bytes(16) + (9 | 1 << 16).to_bytes(4, "little") + bytes(12))
    assert outcome(board, va) == (1, 0)
    assert board.ram.word(0x40000000 + inside) == 1


LEGACY_ENTRIES = [
    # name, entry at the last level, status of the job, fault
    ("read and write", DATA | 0xC1, 1, 0),
    ("read only", DATA | 0x41, 0x43, 0x3CB),
    ("write only", DATA | 0x81, 0x42, 0x2CB),
    ("no access", DATA | 0x01, 0x42, 0x2CB),
    ("page as in AArch64", DATA | 0xC3, 0x42, 0x2C3),
]


@pytest.mark.parametrize(("name", "entry", "status", "fault"), LEGACY_ENTRIES, ids=[r[0] for r in LEGACY_ENTRIES])
def test_the_older_format(name: str, entry: int, status: int, fault: int) -> None:
    """As Linux builds it (ARM_MALI_LPAE): pages are blocks, access is two bits, no access flag."""
    board = MaliBoard()
    board.put_job()
    board.tables.set(VA, entry)
    board.table(LEGACY, TABLE_ROOT | 7)
    assert outcome(board) == (status, fault)


def test_modes_without_a_table() -> None:
    board = MaliBoard()
    board.put_job()
    board.table(2, 0)
    assert outcome(board, DATA) == (1, 0)
    board.table(LEGACY, 2)
    board.put_job()
    assert outcome(board, DATA) == (1, 0)
    for config, table in ((1, TABLE_ROOT), (LEGACY, TABLE_ROOT), (LEGACY, 0)):
        board.table(config, table)
        assert outcome(board) == (0x42, 0x2C0)


def test_a_table_takes_effect_with_the_update() -> None:
    board = MaliBoard()
    board.put_job()
    board.pair(AS, 0)
    assert outcome(board) == (1, 0)
    board.write(AS + 0x18, UPDATE)
    assert outcome(board)[0] == 0x42


def test_address_spaces_are_apart() -> None:
    board = MaliBoard()
    board.put_job()
    board.submit(config=3)
    assert (board.slot(0x24), board.read(0x2000), board.read(AS + 0x1C)) == (0x42, 1 << 3, 0)
    board.table(AARCH64, TABLE_ROOT, 3)
    board.submit(config=3)
    assert board.slot(0x24) == 1


@pytest.mark.parametrize("command", [FLUSH_PT, FLUSH_MEM])
def test_flushes_take_time_and_count(command: int) -> None:
    board = MaliBoard(latency_ns=5000)
    flush = board.read(0x38)
    board.write(AS + 0x18, LOCK)
    assert board.read(AS + 0x28) == 0
    board.write(AS + 0x18, command)
    assert board.read(AS + 0x28) == 1
    with pytest.raises(VgpuError, match="which is at another one"):
        board.write(AS + 0x18, UPDATE)
    board = MaliBoard(latency_ns=5000)
    board.write(AS + 0x18, command)
    board.wait(5000)
    assert (board.read(AS + 0x28), board.read(0x38)) == (0, flush + 1)


@pytest.mark.parametrize(("config", "message"), [(8, "mode is not modelled"), (1 << 40, "bits are not modelled")])
def test_configurations_that_are_not_modelled(config: int, message: str) -> None:
    with pytest.raises(VgpuError, match=message):
        MaliBoard().table(config, TABLE_ROOT)


def test_an_unknown_command() -> None:
    with pytest.raises(VgpuError, match="command 6 for address space 0 is not modelled"):
        MaliBoard().write(AS + 0x18, 6)


def test_the_walk() -> None:
    board = MaliBoard(track_access=True)
    board.put_job(VA + PAGE)
    board.submit(VA + PAGE)
    assert [(run.va, run.pa, run.bytes, run.flags) for run in board.gpu.mappings()] == [
        (VA, DATA, PAGE, 16 | 3),
        (VA + PAGE, DATA + PAGE, PAGE, 16 | 15),
        (VA + 2 * PAGE, DATA + 2 * PAGE, 2 * PAGE, 16 | 3),
        (VA + 4 * PAGE, DATA + 4 * PAGE, PAGE, 16 | 1),
    ]
    touched = board.gpu.access_map()
    assert list(touched) == [DATA + PAGE]
    assert touched[DATA + PAGE][:32].all()
    assert not touched[DATA + PAGE][32:].any()
