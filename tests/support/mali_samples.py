# SPDX-License-Identifier: BSD-2-Clause
"""A small GPUReplay recording, made by hand, for tests of the importer and of the virtual Mali."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path

END_MARK = 0xFFFFFFFFFF
ROOT = 0x20D874000
TABLE_1, TABLE_2, TABLE_3 = 0x218EAC000, 0x20D8D4000, 0x214863000
CONFIG, ATTRIBUTES = 0x42000006, 0x4C8D888D8F88
CODE, JOBS, DATA, SCRATCH = 0xFFFFAC000000, 0xFFFFAC010000, 0xFFFFAC020000, 0xFFFFAC030000
FLAGS_CODE, FLAGS_JOBS, FLAGS_DATA = 0x6062, 0x606E, 0x627E
PAGE = 4096
FIRST_PHYSICAL = 0x219000000
NEED_CHAINS = ("dead-memory", "plan-memory")  # passes that follow descriptors, which these jobs lack

# A program: one clause of two NOPs, after which the thread ends (Mesa src/panfrost/bifrost/disassemble.c).
END_THREAD = bytes.fromhex("49000000001ccb808365070000000000")

NAMES = ("gr_io_history", "gr_pgt", "gr_mem_contents", "gr_sync_as")
HISTORY, TABLES, CONTENTS, BUFFERS = NAMES


def job_header(
    *, status: int = 0, kind: int = 4, index: int = 1, next_va: int = 0, first: int = 0, second: int = 0
) -> bytes:
    """A 64-bit job header of 32 bytes (Mesa src/panfrost/lib/genxml/v6.xml) and a payload of zeros, 64 in all."""
    return struct.pack("<IIQIHHQ", status, 0, 0, 1 | kind << 1 | index << 16, first, second, next_va) + bytes(32)


def access(delay: int, write: bool, offset: int, value: int) -> bytes:
    """A line of gr_io_history."""
    return b"%d,%s,0x%08x,%08x\n" % (delay, b"W" if write else b"R", offset, value)


def submission(head: int, flush: int, *, job_slot: int = 1, cores: int = 0xFF) -> list[bytes]:
    """Accesses that submit a chain and serve its interrupt."""
    at = 0x1800 + 0x80 * job_slot
    writes = [
        (0x40, head & 0xFFFFFFFF),
        (0x44, head >> 32),
        (0x50, cores),
        (0x54, 0),
        (0x58, 0x87B00),
        (0x70, flush),
    ]
    return [
        *[access(521, True, at + offset, value) for offset, value in writes],
        access(521, True, at + 0x60, 1),
        access(900_000, False, 0x100C, 1 << job_slot),
        access(521, True, 0x1004, 1 << job_slot),
        access(521, False, 0x1010, 0),
        access(521, False, 0x1000, 0),
    ]


def history() -> list[bytes]:
    """Identity, reset, power-on, page table, two submissions, and the address space switched off."""
    rows = [
        (0, False, 0x0, 0x60A00002),
        (521, False, 0x14, 0x2830),
        (1000, True, 0x30, 1),
        (521, True, 0x28, 0x100),  # after the reset, which clears the mask
        (40_000, False, 0x2C, 0x100),
        (521, True, 0x24, 0x100),
        (521, True, 0x28, 0x10581),
        (521, True, 0x1008, 0xFFFFFFFF),
        (521, True, 0x1A0, 1),
        (521, True, 0x180, 0xFF),
        (521, False, 0x200, 0xFF),
        (30_000, False, 0x140, 0xFF),
        (8_000_000, False, 0x38, 0xFFFFE0),
        (521, True, 0x2430, CONFIG),
        (0, True, 0x2434, 0),
        (0, True, 0x2400, ROOT & 0xFFFFFFFF),
        (0, True, 0x2404, ROOT >> 32),
        (0, True, 0x2408, ATTRIBUTES & 0xFFFFFFFF),
        (0, True, 0x240C, ATTRIBUTES >> 32),
        (521, False, 0x2428, 0),
        (0, True, 0x2418, 1),
    ]
    off = [(0x2430, 0x42000001), (0x2434, 0), (0x2400, 0), (0x2404, 0), (0x2418, 1)]
    return [
        *[access(*row) for row in rows],
        *submission(JOBS, 0xFFFFE0),
        access(521, False, 0x38, 0xFFFFE2),
        *submission(JOBS + 0x80, 0xFFFFE2),
        *[access(521, True, *row) for row in off],
    ]


def table(address: int, level: int, entries: dict[int, int]) -> bytes:
    """A page table with its header; what is not in `entries` is invalid."""
    return struct.pack("<513Q", address | level, *[entries.get(i, 2) for i in range(512)])


def leaf(va: int, flags: int) -> int:
    """A page's entry, as Arm's driver writes it."""
    entry = physical(va) | 0x403 | (0x40 if flags & 4 else 0xC0) | (0x300 if flags & 0x200 else 0)
    return entry | (1 << 54 if flags & 8 else 0)


def physical(va: int) -> int:
    """Where the recorded machine had a page."""
    return FIRST_PHYSICAL + (va & 0xFFFFF)


def indices(va: int) -> list[int]:
    """Index of an address in the tables of levels 0 to 3."""
    return [va >> shift & 511 for shift in (39, 30, 21, 12)]


def page_tables(
    pages: Sequence[tuple[int, int]],
) -> list[bytes]:
    """The pieces of gr_pgt for pages (address, region flags) below one last-level table."""
    a, b, c, _ = indices(CODE)
    leaves = {indices(va)[3]: leaf(va, flags) for va, flags in pages}
    tables = [
        table(ROOT, 0, {a: TABLE_1 | 0x403}),
        table(TABLE_1, 1, {b: TABLE_2 | 0x403}),
        table(TABLE_2, 2, {c: TABLE_3 | 0x403}),
        table(TABLE_3, 3, leaves),
    ]
    size = 32 + sum(map(len, tables)) + 8
    return [struct.pack("<4Q", size, ROOT, ATTRIBUTES, CONFIG), *tables, struct.pack("<Q", END_MARK)]


def region(
    start: int, flags: int, contents: Sequence[bytes] | None = None, *, pages: int = 1, end: int | None = None
) -> bytes:
    """A region of gr_mem_contents."""
    head = struct.pack("<QQQIB", start, end or start + pages * PAGE, pages, flags, contents is not None)
    saved = [
        struct.pack("<QQ", start + i * PAGE, physical(start + i * PAGE)) + content.ljust(PAGE, b"\0")
        for i, content in enumerate(contents or [])
    ]
    return head + b"".join(saved)


def jobs_page() -> bytes:
    """A chain of two jobs at JOBS, the second after the first; a single job at JOBS + 0x80. All are done, and did
    nothing: they are of the type "null"."""
    return (
        job_header(kind=1, status=1, index=1, next_va=JOBS + 0x40)
        + job_header(kind=1, status=1, index=2, first=1)
        + job_header(kind=1, status=1)
    )


def regions() -> list[bytes]:
    """Code, job headers, data (three pages, not saved) and a saved page of zeros."""
    return [
        region(CODE, FLAGS_CODE, [END_THREAD], end=CODE + 16 * PAGE),
        region(JOBS, FLAGS_JOBS, [jobs_page()]),
        region(DATA, FLAGS_DATA, pages=3),
        region(SCRATCH, FLAGS_DATA, [b""]),
    ]


def mapped() -> list[tuple[int, int]]:
    """Pages of the regions, with their flags."""
    data = [(DATA + i * PAGE, FLAGS_DATA) for i in range(3)]
    return [(CODE, FLAGS_CODE), (JOBS, FLAGS_JOBS), *data, (SCRATCH, FLAGS_DATA)]


def buffers(*rows: tuple[int, int]) -> bytes:
    """gr_sync_as: buffers (address, size)."""
    return struct.pack("<I", len(rows)) + b"".join(struct.pack("<QQQ", at, at + size, size) for at, size in rows)


def recording() -> dict[str, bytes]:
    """The four files."""
    return {
        HISTORY: b"".join(history()),
        TABLES: b"".join(page_tables(mapped())),
        CONTENTS: b"".join(regions()),
        BUFFERS: buffers((SCRATCH, 32), (DATA + 0x100, PAGE), (DATA, 64), (DATA + 2 * PAGE, 40)),
    }


def write(folder: Path, files: dict[str, bytes]) -> Path:
    """Write the files into a folder."""
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return folder
