# SPDX-License-Identifier: BSD-2-Clause
"""Import of GPUReplay recordings: what becomes of a small one, and every way in which one can be malformed."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from host_tools.cli import main
from host_tools.gpus.mali import mali_tables
from host_tools.gpus.mali.kbase import AccessError
from host_tools.gpus.mali.mali_tables import PageTableError
from host_tools.record.importers.gpureplay import BuffersError, ContentsError, HistoryError
from host_tools.record.importers.gpureplay_trace import import_gpureplay
from tests.support import mali_samples as m
from tests.support.mali_samples import BUFFERS, CODE, CONTENTS, DATA, HISTORY, JOBS, PAGE, SCRATCH, TABLES
from trace_format.actions import ALL_BITS, MAP_EXECUTE, MAP_READ, MAP_WRITE, Op, actions_of
from trace_format.profile import load
from trace_format.schema import DType, SlotKind
from trace_format.trace import Trace

GPU = load("mali_g71")
Files = dict[str, bytes]


@pytest.fixture
def trace(tmp_path: Path) -> Trace:
    return import_gpureplay(m.write(tmp_path, m.recording()), "small")


def rows(trace: Trace, op: Op) -> list[Any]:
    return [row for row in actions_of(trace.actions) if row.op == op]


def test_it_is_a_valid_trace(trace: Trace) -> None:
    data = trace.build()
    assert Trace.parse(data).trace_id == trace.trace_id
    assert trace.raw
    assert trace.jobs == 2
    assert trace.meta["core_mask"] == 0xFF
    assert trace.notes["page_tables"] == 4
    assert set(trace.notes["files"]) == set(m.NAMES)


def test_every_access_is_there_in_order(trace: Trace) -> None:
    register_ops = (Op.REG_READ_ONCE, Op.REG_WRITE, Op.REG_READ_KEEP, Op.REG_WRITE_KEPT)
    found = [(r.register * 4, r.op, r.value) for r in actions_of(trace.actions) if r.op in register_ops]
    expected = []
    for line in m.history():
        _, kind, offset, value = line.decode().strip().split(",")
        register = GPU.by_offset[int(offset, 16)]
        if register.driver:
            continue
        op, number = (Op.REG_READ_ONCE, int(value, 16)) if kind == "R" else (Op.REG_WRITE, int(value, 16))
        if register.name == "gpu.LATEST_FLUSH":
            op, number = Op.REG_READ_KEEP, 0
        if register.name == "js1.FLUSH_ID_NEXT":
            op, number = Op.REG_WRITE_KEPT, 0
        expected.append((register.offset, int(op), number))
    assert found == expected


def test_delays_become_intervals(trace: Trace) -> None:
    total = sum(int(line.split(b",")[0]) for line in m.history())
    intervals = sum(r.us for r in rows(trace, Op.INTERVAL))
    assert total // 1000 - 1 <= intervals <= total // 1000


def test_the_page_table_is_the_replayers(trace: Trace) -> None:
    assert [r.address_space for r in rows(trace, Op.SET_GPU_PGTABLE)] == [0]
    maps = {r.va_page * PAGE: (r.pages, r.flags) for r in rows(trace, Op.MAP_GPU_MEM)}
    assert maps == {
        CODE: (1, MAP_READ | MAP_EXECUTE),
        JOBS: (1, MAP_READ | MAP_WRITE),
        DATA: (3, MAP_READ | MAP_WRITE),
        SCRATCH: (1, MAP_READ | MAP_WRITE),
    }


def test_job_headers_are_as_before_the_run(trace: Trace) -> None:
    code, jobs = bytes(trace.image[:PAGE]), bytes(trace.image[PAGE:])
    assert code.rstrip(b"\0") == m.END_THREAD.rstrip(b"\0")
    expected = bytearray(m.jobs_page().ljust(PAGE, b"\0"))
    for at in (0, 0x40, 0x80):
        assert expected[at] == 1
        expected[at : at + 16] = bytes(16)
    assert jobs == expected
    assert [r.bytes for r in rows(trace, Op.UPLOAD)] == [2 * PAGE] or len(rows(trace, Op.UPLOAD)) == 2
    assert [r.bytes for r in rows(trace, Op.CLEAR)] == [PAGE]


def test_slots(trace: Trace) -> None:
    assert [(s.name, s.kind, s.dtype, s.shape, s.strides, s.address) for s in trace.slots] == [
        ("param0", SlotKind.PARAMETER, DType.FLOAT32, (8,), (4,), SCRATCH),
        ("param1", SlotKind.PARAMETER, DType.FLOAT32, (1024,), (4,), DATA + 0x100),
        ("input", SlotKind.INPUT, DType.FLOAT32, (16,), (4,), DATA),
        ("output", SlotKind.OUTPUT, DType.FLOAT32, (10,), (4,), DATA + 2 * PAGE),
    ]
    assert [r.slot for r in rows(trace, Op.COPY_TO_GPU)] == [0, 1, 2]
    assert [r.slot for r in rows(trace, Op.COPY_FROM_GPU)] == [3]


def test_a_replay_starts_where_the_first_jobs_flush_id_is_read(trace: Trace) -> None:
    ops = trace.actions["op"]
    start = int(np.flatnonzero(ops == Op.REPLAY_START)[0])
    assert int(np.flatnonzero(ops == Op.REG_READ_KEEP)[0]) > start
    assert int(np.flatnonzero(ops == Op.SET_GPU_PGTABLE)[0]) > start
    power = [
        i for i, r in enumerate(actions_of(trace.actions)) if r.op == Op.REG_WRITE and r.register * 4 == 0x180
    ]
    assert power[0] < start


def test_a_recording_that_powers_down_is_replayed_from_its_start(tmp_path: Path) -> None:
    files = m.recording()
    files[HISTORY] += m.access(500, True, 0x1C0, 0xFF)
    trace = import_gpureplay(m.write(tmp_path, files), "small")
    assert not rows(trace, Op.REPLAY_START)


def test_an_interrupt_handlers_read_waits_for_the_line(trace: Trace) -> None:
    waits = [r.line for r in rows(trace, Op.WAIT_IRQ)]
    assert waits == [GPU.interrupts.index("gpu"), *[GPU.interrupts.index("job")] * 2]


def test_more_regions_than_the_original_can_hold(tmp_path: Path) -> None:
    """The original replayer has a table of 128 regions that it does not check."""
    files = m.recording()
    more = [m.region(0xFFFF00000000 + i * 16 * PAGE, m.FLAGS_DATA, [b"%d" % i]) for i in range(1, 301)]
    files[CONTENTS] += b"".join(more)
    trace = import_gpureplay(m.write(tmp_path, files), "many")
    assert len(rows(trace, Op.MAP_GPU_MEM)) == 304
    assert bytes(trace.image).count(b"300") == 1


def test_pages_that_only_the_table_has_are_mapped(tmp_path: Path) -> None:
    files = m.recording()
    files[TABLES] = b"".join(m.page_tables([*m.mapped(), (0xFFFFAC040000, m.FLAGS_DATA)]))
    trace = import_gpureplay(m.write(tmp_path, files), "stale")
    assert 0xFFFFAC040 in {r.va_page for r in rows(trace, Op.MAP_GPU_MEM)} or any(
        r.va_page <= 0xFFFFAC040 < r.va_page + r.pages for r in rows(trace, Op.MAP_GPU_MEM)
    )


def test_a_later_region_in_the_place_of_an_earlier_one(tmp_path: Path) -> None:
    files = m.recording()
    files[CONTENTS] += m.region(DATA + PAGE, m.FLAGS_CODE, pages=1)
    trace = import_gpureplay(m.write(tmp_path, files), "again")
    flags = {r.va_page * PAGE: r.flags for r in rows(trace, Op.MAP_GPU_MEM)}
    assert flags[DATA + PAGE] == MAP_READ | MAP_WRITE | MAP_EXECUTE


def test_a_block_of_2_mib() -> None:
    a, b, c, _ = m.indices(CODE)
    tables = [
        m.table(m.ROOT, 0, {a: m.TABLE_1 | 3}),
        m.table(m.TABLE_1, 1, {b: m.TABLE_2 | 3}),
        m.table(m.TABLE_2, 2, {c: 0x200000000 | 0x441, c + 1: 0x200200000 | 0x441}),
    ]
    size = 40 + sum(map(len, tables))
    data = struct.pack("<4Q", size, m.ROOT, 0, 6) + b"".join(tables) + struct.pack("<Q", m.END_MARK)
    start = CODE & ~0x1FFFFF
    flags = MAP_READ | MAP_WRITE | MAP_EXECUTE
    assert mali_tables.read_tables(data, GPU).runs == [mali_tables.Run(start, 1024, flags)]


def patch(name: str, at: int, form: str, *values: int) -> Callable[[Files], None]:
    """Overwrite numbers of a file; `at` below zero counts from its end."""

    def change(files: Files) -> None:
        data = bytearray(files[name])
        struct.pack_into("<" + form, data, at if at >= 0 else len(data) + at, *values)
        files[name] = bytes(data)

    return change


def cut(name: str, size: int) -> Callable[[Files], None]:
    """Keep the first `size` bytes; below zero: leave off as many."""

    def change(files: Files) -> None:
        files[name] = files[name][:size]

    return change


def put(name: str, data: bytes) -> Callable[[Files], None]:
    """Another file in place of one."""

    def change(files: Files) -> None:
        files[name] = data

    return change


def add(name: str, data: bytes) -> Callable[[Files], None]:
    """More bytes after a file's end."""

    def change(files: Files) -> None:
        files[name] += data

    return change


def line(text: bytes, index: int = 1) -> Callable[[Files], None]:
    """Another line in gr_io_history."""

    def change(files: Files) -> None:
        lines = files[HISTORY].split(b"\n")
        lines[index] = text
        files[HISTORY] = b"\n".join(lines)

    return change


def swap(name: str, old: bytes, new: bytes) -> Callable[[Files], None]:
    """Another text in place of the first one."""

    def change(files: Files) -> None:
        assert old in files[name]
        files[name] = files[name].replace(old, new, 1)

    return change


def both(*changes: Callable[[Files], None]) -> Callable[[Files], None]:
    def change(files: Files) -> None:
        for one in changes:
            one(files)

    return change


LINE_1 = len(m.history()[0])
SECOND_TABLE = 32 + 4104
LEAVES = 32 + 3 * 4104
FIRST_LEAF = LEAVES + 8 + 8 * m.indices(CODE)[3]
ROOT_ENTRY = 32 + 8 + 8 * m.indices(CODE)[0]
LEVEL_2_ENTRY = 32 + 2 * 4104 + 8 + 8 * m.indices(CODE)[2]
JOB_REGION = len(m.regions()[0])
DATA_REGION = JOB_REGION + len(m.regions()[1])
ENTRY = m.leaf(CODE, m.FLAGS_CODE)

MALFORMED: list[tuple[str, Callable[[Files], None], type[Exception], str, int | None, str]] = [
    # name, damage, error, file, offset, message
    ("history: empty", put(HISTORY, b""), HistoryError, HISTORY, 0, "empty"),
    ("history: cut off", cut(HISTORY, -1), HistoryError, HISTORY, None, "is cut off"),
    ("history: empty line", line(b""), HistoryError, HISTORY, LINE_1, "line 2 is no register access"),
    ("history: three fields", line(b"1,R,0x00000000"), HistoryError, HISTORY, LINE_1, "no register access"),
    ("history: five fields", line(b"1,R,0x0,0,0"), HistoryError, HISTORY, LINE_1, "no register access"),
    ("history: delay in hex", line(b"0x1,R,0x0,0"), HistoryError, HISTORY, LINE_1, "no register access"),
    ("history: negative delay", line(b"-1,R,0x0,0"), HistoryError, HISTORY, LINE_1, "no register access"),
    ("history: huge delay", line(b"9223372036854775808,R,0x0,0"), HistoryError, HISTORY, LINE_1, "the delay"),
    ("history: neither R nor W", line(b"1,X,0x0,0"), HistoryError, HISTORY, LINE_1, "no register access"),
    ("history: offset without 0x", line(b"1,R,00000000,0"), HistoryError, HISTORY, LINE_1, "no register access"),
    ("history: offset not hex", line(b"1,R,0x0000000g,0"), HistoryError, HISTORY, LINE_1, "no register access"),
    ("history: value not hex", line(b"1,R,0x0,xyz"), HistoryError, HISTORY, LINE_1, "no register access"),
    ("history: value of 33 bits", line(b"1,R,0x0,1ffffffff"), HistoryError, HISTORY, LINE_1, "no register access"),
    ("history: CR at line end", line(b"1,R,0x0,0\r"), HistoryError, HISTORY, LINE_1, "no register access"),
    ("history: not ASCII", line(b"1,R,0x0,\xff\xfe"), HistoryError, HISTORY, LINE_1, "no register access"),
    ("history: NUL bytes", line(bytes(40)), HistoryError, HISTORY, LINE_1, "no register access"),
    ("history: unaligned offset", line(b"1,R,0x00000002,0"), HistoryError, HISTORY, LINE_1, "no register of the"),
    (
        "history: outside the window",
        line(b"1,R,0x00004000,0"),
        HistoryError,
        HISTORY,
        LINE_1,
        "no register of the",
    ),
    (
        "history: unknown register",
        line(b"1,R,0x00000d00,0"),
        HistoryError,
        HISTORY,
        LINE_1,
        "unknown register 0x0d00",
    ),
    (
        "history: write to read-only",
        line(b"1,W,0x00000000,0"),
        HistoryError,
        HISTORY,
        LINE_1,
        "GPU_ID is read-only",
    ),
    ("history: read of write-only", line(b"1,R,0x00000030,0"), HistoryError, HISTORY, LINE_1, "is write-only"),
    ("history: another GPU", line(b"0,R,0x00000000,72120000", 0), HistoryError, HISTORY, 0, "another GPU"),
    ("history: no identity", line(b"0,R,0x00000014,2830", 0), HistoryError, HISTORY, 0, "never read"),
    ("history: no job", put(HISTORY, m.history()[0]), HistoryError, HISTORY, 0, "no job"),
    (
        "history: flush id never read",
        swap(HISTORY, b"18f0,00ffffe0", b"18f0,00000007"),
        AccessError,
        HISTORY,
        None,
        "flush id that was never read",
    ),
    (
        "history: flush id before any read",
        swap(HISTORY, b"R,0x00000038", b"R,0x00000034"),
        AccessError,
        HISTORY,
        None,
        "flush id that was never read",
    ),
    (
        "history: another table",
        swap(HISTORY, b"2400,0d874000", b"2400,0d875000"),
        AccessError,
        HISTORY,
        None,
        "page table that was not saved",
    ),
    (
        "history: older table format",
        swap(HISTORY, b"2430,42000006", b"2430,00000000"),
        AccessError,
        HISTORY,
        None,
        "another page table format",
    ),
    (
        "history: physical addresses",
        swap(HISTORY, b"2430,42000006", b"2430,00000002"),
        AccessError,
        HISTORY,
        None,
        "another page table format",
    ),
    (
        "history: job without address space",
        swap(HISTORY, b"18d8,00087b00", b"18d8,00087b03"),
        AccessError,
        HISTORY,
        None,
        "address space that has no page table",
    ),
    (
        "history: job header not aligned",
        swap(HISTORY, b"18c0,ac010000", b"18c0,ac010004"),
        AccessError,
        HISTORY,
        None,
        "not aligned",
    ),
    (
        "history: job header not saved",
        swap(HISTORY, b"18c0,ac010000", b"18c0,ac020000"),
        AccessError,
        HISTORY,
        None,
        "was not saved",
    ),
    (
        "history: job chain in a circle",
        patch(CONTENTS, JOB_REGION + 29 + 16 + 0x40 + 24, "Q", JOBS),
        AccessError,
        HISTORY,
        None,
        "comes back to",
    ),
    (
        "history: chain leads nowhere",
        patch(CONTENTS, JOB_REGION + 29 + 16 + 0x40 + 24, "Q", 1 << 63),
        AccessError,
        HISTORY,
        None,
        "was not saved",
    ),
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


@pytest.mark.parametrize(
    ("name", "damage", "error", "file", "offset", "message"), MALFORMED, ids=[r[0] for r in MALFORMED]
)
def test_malformed_recordings(
    name: str,
    damage: Callable[[Files], None],
    error: type[Exception],
    file: str,
    offset: int | None,
    message: str,
    tmp_path: Path,
) -> None:
    files = m.recording()
    damage(files)
    with pytest.raises(error) as caught:
        import_gpureplay(m.write(tmp_path, files), name)
    assert type(caught.value) is error
    text = str(caught.value)
    assert text.startswith(f"{tmp_path / file} at offset 0x")
    assert message in text
    if offset is not None:
        assert f" at offset {offset:#x}: " in text


def test_there_are_enough_malformed_recordings() -> None:
    assert len({row[0] for row in MALFORMED}) == len(MALFORMED) >= 40


@pytest.mark.parametrize("missing", m.NAMES)
def test_a_file_is_missing(missing: str, tmp_path: Path) -> None:
    (m.write(tmp_path, m.recording()) / missing).unlink()
    with pytest.raises(FileNotFoundError):
        import_gpureplay(tmp_path, "x")


def test_the_command(tmp_path: Path) -> None:
    m.write(tmp_path, m.recording())
    out = tmp_path / "out.gtr"
    result = CliRunner().invoke(main, ["import", "gpureplay", str(tmp_path), "-o", str(out), "--json"])
    assert result.exit_code == 0, result.output
    assert '"jobs": 2' in result.stdout
    assert Trace.read(out).meta["name"] == tmp_path.name


def test_the_command_says_what_is_wrong(tmp_path: Path) -> None:
    files = m.recording()
    cut(TABLES, 30)(files)
    out = tmp_path / "out.gtr"
    result = CliRunner().invoke(main, ["import", "gpureplay", str(m.write(tmp_path, files)), "-o", str(out)])
    assert result.exit_code == 2
    assert "gr_pgt at offset 0x1e: the file ends before its end mark" in result.stderr
    assert not out.exists()
    result = CliRunner().invoke(main, ["import", "gpureplay", str(tmp_path / "nowhere"), "-o", str(out)])
    assert result.exit_code == 2
    assert "nowhere" in result.stderr


def test_all_bits_of_reads_are_kept(trace: Trace) -> None:
    assert all(r.mask == ALL_BITS for r in rows(trace, Op.REG_READ_ONCE))
