# SPDX-License-Identifier: BSD-2-Clause
"""The page tables of gr_pgt in both formats, against an encoder of the tests; malformed ones in the older one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from host_tools.gpus.mali.kbase import AccessError
from host_tools.gpus.mali.mali_tables import MAX_PAGES, PageTableError, Run, read_tables
from host_tools.record.importers.gpureplay import HistoryError
from host_tools.record.importers.gpureplay_trace import gpus, import_gpureplay
from tests.support import mali_g52_samples as g52
from tests.support import mali_samples as m
from tests.support.mali_samples import CODE, HISTORY, TABLES
from tests.support.mali_trees import ROOT, SIZES, Mapped, Tree
from trace_format import profile
from trace_format.actions import MAP_EXECUTE, MAP_READ, MAP_WRITE, Op, actions_of
from trace_format.trace import Trace

G52, G71 = profile.load("mali_g52"), profile.load("mali_g71")
PAGE = 4096
TABLE_BITS = 7  # of TRANSTAB: a table, walks read inner caches
LPAE_FLAGS = [a | x for a in (MAP_READ, MAP_WRITE, MAP_READ | MAP_WRITE) for x in (0, MAP_EXECUTE)]
AARCH64_FLAGS = [a | x for a in (MAP_READ, MAP_READ | MAP_WRITE) for x in (0, MAP_EXECUTE)]


@st.composite
def mappings(draw: st.DrawFn, flags: list[int]) -> list[Mapped]:
    """Pages and blocks that do not overlap, some of them neighbours, some far apart."""
    rows: dict[int, Mapped] = {}
    slots = draw(st.lists(st.integers(0, 5), min_size=1, max_size=4, unique=True))
    for slot in slots:
        base = [0, 1 << 30, 511 << 30, 1 << 39, 0xFFFF << 32, (1 << 48) - (1 << 30)][slot]
        level = draw(st.sampled_from([3, 3, 3, 2, 1] if slot < 2 else [3, 3, 2]))
        for index in draw(st.lists(st.integers(0, 600 if level == 3 else 3), min_size=1, max_size=9, unique=True)):
            va = base + index * SIZES[level] if level > 1 else base
            pa = draw(st.integers(0, 200)) * SIZES[level]
            rows[va] = Mapped(va, level, pa, draw(st.sampled_from(flags)))
    return sorted(rows.values(), key=lambda row: row.va)


def runs(rows: list[Mapped]) -> list[Run]:
    """What they map, neighbours with the same flags as one."""
    found: list[Run] = []
    for row in rows:
        last = found[-1] if found else Run(-1, 0, 0)
        if last.start + last.pages * PAGE == row.va and last.flags == row.flags:
            found[-1] = Run(last.start, last.pages + SIZES[row.level] // PAGE, row.flags)
        else:
            found.append(Run(row.va, SIZES[row.level] // PAGE, row.flags))
    return found


def tree(rows: list[Mapped], lpae: bool = True) -> Tree:
    made = Tree(lpae)
    for row in rows:
        made.add(row)
    return made


@given(mappings(LPAE_FLAGS), st.sampled_from([ROOT, ROOT | 3, ROOT | TABLE_BITS, ROOT | 0x17]))
def test_lpae(rows: list[Mapped], base: int) -> None:
    found = read_tables(tree(rows).text(base, 0), G52)
    assert (found.root, found.runs) == (ROOT, runs(rows))
    assert sum(run.pages for run in found.runs) <= MAX_PAGES


@given(mappings(AARCH64_FLAGS))
def test_aarch64(rows: list[Mapped]) -> None:
    made = tree(rows, lpae=False)
    found = read_tables(made.text(ROOT, 0x42000006), G71)
    assert (found.root, found.tables, found.runs) == (ROOT, len(made.tables), runs(rows))


def test_one_format_is_not_the_other() -> None:
    """The same bits say other things: a page of one is a block at the last level, or a table, of the other."""
    rows = [Mapped(CODE, 3, 0x5000, MAP_READ | MAP_WRITE)]
    with pytest.raises(PageTableError, match="page table format: expected mode 6"):
        read_tables(tree(rows).text(ROOT, 0), G71)
    with pytest.raises(PageTableError, match="a block at level 3"):
        read_tables(tree(rows).text(ROOT, 6), G71)
    with pytest.raises(PageTableError, match="page table format: expected mode 0"):
        read_tables(tree(rows, lpae=False).text(ROOT, 6), G52)
    with pytest.raises(PageTableError, match="a table at level 3"):
        read_tables(tree(rows, lpae=False).text(ROOT, 0), G52)


def imported(folder: Path, files: dict[str, bytes], gpu: str = "mali_g52") -> Trace:
    return import_gpureplay(m.write(folder, files), "small", gpu)


def test_a_recording_of_a_g52(tmp_path: Path) -> None:
    trace = imported(tmp_path, g52.recording())
    assert (trace.gpu, trace.jobs, trace.meta["core_mask"], trace.raw) == ("mali_g52", 2, 3, True)
    assert Trace.parse(trace.build()).gpu == "mali_g52"
    maps = {r.va_page * PAGE: r.flags for r in actions_of(trace.actions) if r.op == Op.MAP_GPU_MEM}
    assert maps[CODE] == MAP_READ | MAP_EXECUTE
    assert maps[m.JOBS] == MAP_READ | MAP_WRITE
    assert [r.address_space for r in actions_of(trace.actions) if r.op == Op.SET_GPU_PGTABLE] == [0]


def test_gpus_that_recordings_can_be_of() -> None:
    assert {"mali_g31", "mali_g52", "mali_g52r1", "mali_g71", "mali_g72"} == set(gpus())


def test_a_recording_of_another_gpu(tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match=r"made on another GPU than the Arm Mali G71: .*, found 0x72120000"):
        imported(tmp_path, g52.recording(), "mali_g71")
    with pytest.raises(HistoryError, match=r"made on another GPU than the Arm Mali G52: .*, found 0x60a00002"):
        imported(tmp_path, m.recording())


ONE = [Mapped(CODE, 3, 0x5000, MAP_READ | MAP_WRITE)]
LEAF_AT = 32 + 3 * 4104 + 8 + 8 * (CODE >> 12 & 511)
TOP_AT = 32 + 8 + 8 * (CODE >> 39 & 511)
BLOCK_AT = 32 + 2 * 4104 + 8 + 8 * (CODE >> 21 & 511)
ENTRY = 0x5000 | 0x7C1


def word(at: int, value: int) -> Callable[[bytes], bytes]:
    return lambda data: data[:at] + value.to_bytes(8, "little") + data[at + 8 :]


MALFORMED: list[tuple[str, Callable[[bytes], bytes], int, str]] = [
    # name, damage, offset, message
    ("a table at the last level", word(LEAF_AT, ENTRY | 2), LEAF_AT, "a table at level 3"),
    ("a block at the top", word(TOP_AT, 0x7C1), TOP_AT, "a block at level 0"),
    (
        "nobody may access it",
        word(LEAF_AT, ENTRY & ~0xC0),
        LEAF_AT,
        "access bits of an entry: expected 1 (read), 2",
    ),
    ("outside memory", word(LEAF_AT, ENTRY | 1 << 40), LEAF_AT, "an entry points outside physical memory"),
    ("a block of 2 MiB not aligned", word(BLOCK_AT, ENTRY), BLOCK_AT, "a block is not aligned to its size"),
    ("another order of tables", word(32 + 4104, ROOT | 1), 32 + 4104, "tables are not in the order of the tree"),
    ("TRANSTAB: identity", word(8, ROOT | 2), 8, "page table format: expected mode 0 and a TRANSTAB with mode 3"),
    ("TRANSTAB: no mode, but flags", word(8, ROOT | 4), 8, "page table format"),
    ("TRANSTAB: unknown bits", word(8, ROOT | 0xB), 8, "address of the first table"),
    ("TRANSTAB: only the mode", word(8, 3), 8, "address of the first table"),
    ("TRANSCFG: AArch64", word(24, 6), 24, "page table format: expected mode 0"),
    ("TRANSCFG: identity", word(24, 2), 24, "page table format"),
    ("cut in a table", lambda d: word(0, LEAF_AT)(d[:LEAF_AT]), 32 + 3 * 4104, "a table is cut off"),
    ("cut before the end mark", lambda d: word(0, len(d) - 8)(d[:-8]), 32 + 4 * 4104, "ends before its end mark"),
]


@pytest.mark.parametrize(("name", "damage", "offset", "message"), MALFORMED, ids=[row[0] for row in MALFORMED])
def test_malformed_tables(name: str, damage: Callable[[bytes], bytes], offset: int, message: str) -> None:
    data = tree(ONE).text(ROOT, 0)
    assert read_tables(data, G52).runs == runs(ONE)
    with pytest.raises(PageTableError) as caught:
        read_tables(damage(data), G52)
    assert caught.value.offset == offset
    assert message in str(caught.value)


BASE_LINE = b"2400,%08x" % (g52.BASE & 0xFFFFFFFF)
HISTORIES: list[tuple[str, bytes, bytes, str]] = [
    # name, text, another in its place, message
    ("no mode", BASE_LINE, b"2400,%08x" % (m.ROOT & 0xFFFFFFFF), "is set to another page table format"),
    ("identity", BASE_LINE, b"2400,%08x" % (m.ROOT & 0xFFFFFFFF | 2), "is set to another page table format"),
    ("another table", BASE_LINE, b"2400,%08x" % (m.TABLE_1 & 0xFFFFFFFF | 7), "a page table that was not saved"),
    ("AArch64", b"0,W,0x00002408", b"0,W,0x00002430,00000006\n0,W,0x00002408", "another page table format"),
]


@pytest.mark.parametrize(("name", "old", "new", "message"), HISTORIES, ids=[row[0] for row in HISTORIES])
def test_address_spaces_set_otherwise(name: str, old: bytes, new: bytes, message: str, tmp_path: Path) -> None:
    files = g52.recording()
    assert files[HISTORY].count(old) == 1
    files[HISTORY] = files[HISTORY].replace(old, new)
    with pytest.raises(AccessError, match=message) as caught:
        imported(tmp_path, files)
    assert str(caught.value).startswith(f"{tmp_path / HISTORY} at offset 0x")


def test_the_files_tables_may_be_named_without_a_mode(tmp_path: Path) -> None:
    files = g52.recording()
    files[TABLES] = word(8, m.ROOT)(files[TABLES])
    assert imported(tmp_path, files).jobs == 2
