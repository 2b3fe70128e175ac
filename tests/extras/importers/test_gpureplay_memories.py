# SPDX-License-Identifier: BSD-2-Clause
"""Every way in which a recording's page tables, memory and buffers can be malformed."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from host_tools.extras.importers.gpureplay import BuffersError, ContentsError
from host_tools.gpus.mali.mali_tables import PageTableError
from tests.support import mali_samples as m
from tests.support.gpureplay_edits import DATA_REGION, Malformed, add, assert_refused, both, cut, patch, put
from tests.support.mali_samples import BUFFERS, CODE, CONTENTS, DATA, PAGE, SCRATCH, TABLES

SECOND_TABLE = 32 + 4104
LEAVES = 32 + 3 * 4104
FIRST_LEAF = LEAVES + 8 + 8 * m.indices(CODE)[3]
ROOT_ENTRY = 32 + 8 + 8 * m.indices(CODE)[0]
LEVEL_2_ENTRY = 32 + 2 * 4104 + 8 + 8 * m.indices(CODE)[2]
ENTRY = m.leaf(CODE, m.FLAGS_CODE)


# name, damage, error, file, offset, message
MALFORMED: list[Malformed] = [
    ("tables: empty", put(TABLES, b""), PageTableError, TABLES, 0, "ends before its end mark"),
    (
        "tables: header only",
        put(TABLES, struct.pack("<4Q", 32, m.ROOT, 0, 6)),
        PageTableError,
        TABLES,
        32,
        "ends before its end mark",
    ),
    ("tables: size", patch(TABLES, 0, "Q", 7), PageTableError, TABLES, 0, "size of the file"),
    ("tables: size 2^64-1", patch(TABLES, 0, "Q", (1 << 64) - 1), PageTableError, TABLES, 0, "size of the file"),
    ("tables: no root", patch(TABLES, 8, "Q", 0), PageTableError, TABLES, 8, "address of the first table"),
    ("tables: root unaligned", patch(TABLES, 8, "Q", m.ROOT + 8), PageTableError, TABLES, 8, "first table"),
    ("tables: root outside memory", patch(TABLES, 8, "Q", 1 << 40), PageTableError, TABLES, 8, "first table"),
    ("tables: older format", patch(TABLES, 24, "Q", 0), PageTableError, TABLES, 24, "page table format"),
    (
        "tables: wrong level",
        patch(TABLES, SECOND_TABLE, "Q", m.TABLE_1 | 2),
        PageTableError,
        TABLES,
        SECOND_TABLE,
        "not in the order",
    ),
    (
        "tables: wrong address",
        patch(TABLES, SECOND_TABLE, "Q", m.TABLE_2 | 1),
        PageTableError,
        TABLES,
        SECOND_TABLE,
        "not in the order",
    ),
    (
        "tables: used twice",
        patch(TABLES, ROOT_ENTRY, "Q", m.ROOT | 3),
        PageTableError,
        TABLES,
        SECOND_TABLE,
        "not in the order",
    ),
    (
        "tables: a table that leads to itself",
        both(
            patch(TABLES, LEAVES - 4104 + 8 + 8 * 511, "Q", m.TABLE_2 | 3),
            patch(TABLES, LEAVES, "Q", m.TABLE_2 | 3),
            patch(TABLES, LEVEL_2_ENTRY, "Q", 2),
        ),
        PageTableError,
        TABLES,
        LEAVES,
        "used twice",
    ),
    (
        "tables: the same table again",
        both(patch(TABLES, LEVEL_2_ENTRY, "Q", m.ROOT | 3), patch(TABLES, LEAVES, "Q", m.ROOT | 3)),
        PageTableError,
        TABLES,
        LEAVES,
        "used twice",
    ),
    (
        "tables: a table is missing",
        patch(TABLES, SECOND_TABLE, "Q", m.END_MARK),
        PageTableError,
        TABLES,
        SECOND_TABLE,
        "is missing",
    ),
    (
        "tables: cut in a table",
        both(cut(TABLES, LEAVES + 100), patch(TABLES, 0, "Q", LEAVES + 100)),
        PageTableError,
        TABLES,
        LEAVES,
        "cut off",
    ),
    (
        "tables: no end mark",
        both(cut(TABLES, -8), patch(TABLES, 0, "Q", LEAVES + 4104)),
        PageTableError,
        TABLES,
        LEAVES + 4104,
        "ends before its end mark",
    ),
    ("tables: another end mark", patch(TABLES, -8, "Q", 1), PageTableError, TABLES, LEAVES + 4104, "end mark"),
    (
        "tables: bytes after the end",
        both(add(TABLES, bytes(8)), patch(TABLES, 0, "Q", LEAVES + 4104 + 16)),
        PageTableError,
        TABLES,
        LEAVES + 4104 + 8,
        "after the end mark",
    ),
    (
        "tables: block at the top",
        patch(TABLES, ROOT_ENTRY, "Q", m.TABLE_1 | 0x441),
        PageTableError,
        TABLES,
        ROOT_ENTRY,
        "a block at level 0",
    ),
    (
        "tables: block at the bottom",
        patch(TABLES, FIRST_LEAF, "Q", ENTRY & ~2),
        PageTableError,
        TABLES,
        FIRST_LEAF,
        "a block at level 3",
    ),
    (
        "tables: block unaligned",
        patch(TABLES, LEVEL_2_ENTRY, "Q", 0x1000 | 0x441),
        PageTableError,
        TABLES,
        LEVEL_2_ENTRY,
        "not aligned to its size",
    ),
    (
        "tables: entry outside memory",
        patch(TABLES, FIRST_LEAF, "Q", ENTRY | 1 << 46),
        PageTableError,
        TABLES,
        FIRST_LEAF,
        "outside physical memory",
    ),
    (
        "tables: no access",
        patch(TABLES, FIRST_LEAF, "Q", ENTRY & ~0xC0),
        PageTableError,
        TABLES,
        FIRST_LEAF,
        "access bits",
    ),
    (
        "tables: five blocks of 1 GiB",
        both(*[patch(TABLES, SECOND_TABLE + 8 + 8 * i, "Q", 0x441 | i << 30) for i in range(5)]),
        PageTableError,
        TABLES,
        SECOND_TABLE + 8 + 8 * 4,
        "too much memory",
    ),
    ("contents: empty", put(CONTENTS, b""), ContentsError, CONTENTS, 0, "empty"),
    ("contents: region cut off", cut(CONTENTS, 20), ContentsError, CONTENTS, 0, "a region is cut off"),
    ("contents: page cut off", cut(CONTENTS, 100), ContentsError, CONTENTS, 29, "a page is cut off"),
    ("contents: last byte missing", cut(CONTENTS, -1), ContentsError, CONTENTS, None, "a page is cut off"),
    ("contents: a byte too many", add(CONTENTS, b"\0"), ContentsError, CONTENTS, None, "a region is cut off"),
    ("contents: start unaligned", patch(CONTENTS, 0, "Q", CODE + 1), ContentsError, CONTENTS, 0, "page borders"),
    (
        "contents: end unaligned",
        patch(CONTENTS, 8, "Q", CODE + PAGE + 1),
        ContentsError,
        CONTENTS,
        0,
        "page borders",
    ),
    (
        "contents: end before start",
        patch(CONTENTS, 8, "Q", CODE - PAGE),
        ContentsError,
        CONTENTS,
        0,
        "addresses of",
    ),
    (
        "contents: region of nothing",
        patch(CONTENTS, 8, "Q", CODE),
        ContentsError,
        CONTENTS,
        0,
        "addresses of a region",
    ),
    (
        "contents: beyond 48 bits",
        patch(CONTENTS, 0, "QQ", 1 << 48, (1 << 48) + PAGE),
        ContentsError,
        CONTENTS,
        0,
        "addresses of a region",
    ),
    (
        "contents: more pages than fit",
        patch(CONTENTS, 16, "Q", 17),
        ContentsError,
        CONTENTS,
        16,
        "more pages than",
    ),
    (
        "contents: 2^64-1 pages",
        patch(CONTENTS, 16, "Q", (1 << 64) - 1),
        ContentsError,
        CONTENTS,
        16,
        "more pages than",
    ),
    (
        "contents: 8 GiB",
        patch(CONTENTS, DATA_REGION, "QQQ", 0, 2 << 32, 2 << 20),
        ContentsError,
        CONTENTS,
        DATA_REGION + 16,
        "too many pages",
    ),
    ("contents: a free region", patch(CONTENTS, 24, "I", m.FLAGS_DATA | 1), ContentsError, CONTENTS, 24, "flags"),
    ("contents: nobody may use it", patch(CONTENTS, 24, "I", 0x4062), ContentsError, CONTENTS, 24, "flags"),
    ("contents: valid is 2", patch(CONTENTS, 28, "B", 2), ContentsError, CONTENTS, 28, "mark of saved contents"),
    ("contents: address of a page", patch(CONTENTS, 29, "Q", CODE + PAGE), ContentsError, CONTENTS, 29, "virtual"),
    (
        "contents: physical address",
        patch(CONTENTS, 37, "Q", 0x123),
        ContentsError,
        CONTENTS,
        37,
        "physical address",
    ),
    ("contents: physical, too high", patch(CONTENTS, 37, "Q", 1 << 40), ContentsError, CONTENTS, 37, "physical"),
    (
        "contents: saved twice",
        add(CONTENTS, m.region(CODE, m.FLAGS_CODE, [b"other code"])),
        ContentsError,
        CONTENTS,
        None,
        "saved twice",
    ),
    ("buffers: empty", put(BUFFERS, b""), BuffersError, BUFFERS, 0, "number of buffers is cut off"),
    ("buffers: none", put(BUFFERS, bytes(4)), BuffersError, BUFFERS, 0, "number of buffers"),
    ("buffers: one", put(BUFFERS, m.buffers((DATA, 64))), BuffersError, BUFFERS, 0, "number of buffers"),
    ("buffers: one, twice", put(BUFFERS, m.buffers((DATA, 64), (DATA, 64))), BuffersError, BUFFERS, 4, "are one"),
    ("buffers: count 2^32-1", patch(BUFFERS, 0, "I", (1 << 32) - 1), BuffersError, BUFFERS, 0, "size of the file"),
    ("buffers: cut off", cut(BUFFERS, -1), BuffersError, BUFFERS, 0, "size of the file"),
    ("buffers: bytes after the end", add(BUFFERS, b"\0"), BuffersError, BUFFERS, 0, "size of the file"),
    ("buffers: end before start", patch(BUFFERS, 12, "Q", SCRATCH - 4), BuffersError, BUFFERS, 4, "addresses of"),
    (
        "buffers: beyond 48 bits",
        patch(BUFFERS, 4, "QQQ", 1 << 48, (1 << 48) + 4, 4),
        BuffersError,
        BUFFERS,
        4,
        "addresses of",
    ),
    ("buffers: size", patch(BUFFERS, 20, "Q", 36), BuffersError, BUFFERS, 20, "size of a buffer"),
    (
        "buffers: not whole numbers",
        patch(BUFFERS, 4, "QQQ", SCRATCH, SCRATCH + 6, 6),
        BuffersError,
        BUFFERS,
        4,
        "whole 32-bit numbers",
    ),
    ("buffers: not mapped", patch(BUFFERS, 4, "QQ", 0x1000, 0x1020), BuffersError, BUFFERS, 4, "is not mapped"),
    (
        "buffers: leaves its region",
        patch(BUFFERS, 4, "QQQ", SCRATCH, SCRATCH + 8192, 8192),
        BuffersError,
        BUFFERS,
        4,
        "is not mapped",
    ),
    (
        "buffers: 257",
        put(BUFFERS, m.buffers(*[(DATA + 4 * i, 4) for i in range(257)])),
        BuffersError,
        BUFFERS,
        0,
        "too many buffers",
    ),
]


@pytest.mark.parametrize("row", MALFORMED, ids=[row[0] for row in MALFORMED])
def test_malformed_recordings(row: Malformed, tmp_path: Path) -> None:
    assert_refused(row, tmp_path)


def test_there_are_enough_malformed_recordings() -> None:
    assert len({row[0] for row in MALFORMED}) == len(MALFORMED) >= 30
