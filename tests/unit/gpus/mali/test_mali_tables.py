# SPDX-License-Identifier: BSD-2-Clause
"""The page tables of gr_pgt, against an encoder of the tests, and malformed ones."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from host_tools.extras.importers.gpureplay import HistoryError
from host_tools.extras.importers.gpureplay_trace import gpus, import_gpureplay
from host_tools.gpus.mali.kbase import AccessError
from host_tools.gpus.mali.mali_tables import MAX_PAGES, PageTableError, Run, read_tables
from tests.support import mali_rule_samples as sample
from tests.support import mali_samples as m
from tests.support.mali_samples import CODE, HISTORY
from tests.support.mali_trees import ROOT, SIZES, Mapped, Tree
from trace_format import profile
from trace_format.actions import MAP_EXECUTE, MAP_READ, MAP_WRITE, Op, actions_of
from trace_format.trace import Trace

G71 = profile.load("mali_g71")
PAGE = 4096
FLAGS = [a | x for a in (MAP_READ, MAP_READ | MAP_WRITE) for x in (0, MAP_EXECUTE)]


@st.composite
def mappings(draw: st.DrawFn) -> list[Mapped]:
    """Pages and blocks that do not overlap, some of them neighbours, some far apart."""
    rows: dict[int, Mapped] = {}
    slots = draw(st.lists(st.integers(0, 5), min_size=1, max_size=4, unique=True))
    for slot in slots:
        base = [0, 1 << 30, 511 << 30, 1 << 39, 0xFFFF << 32, (1 << 48) - (1 << 30)][slot]
        level = draw(st.sampled_from([3, 3, 3, 2, 1] if slot < 2 else [3, 3, 2]))
        for index in draw(st.lists(st.integers(0, 600 if level == 3 else 3), min_size=1, max_size=9, unique=True)):
            va = base + index * SIZES[level] if level > 1 else base
            pa = draw(st.integers(0, 200)) * SIZES[level]
            rows[va] = Mapped(va, level, pa, draw(st.sampled_from(FLAGS)))
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


def tree(rows: list[Mapped]) -> Tree:
    made = Tree()
    for row in rows:
        made.add(row)
    return made


@given(mappings())
def test_aarch64(rows: list[Mapped]) -> None:
    made = tree(rows)
    found = read_tables(made.text(ROOT, m.CONFIG), G71)
    assert (found.root, found.tables, found.runs) == (ROOT, len(made.tables), runs(rows))
    assert sum(run.pages for run in found.runs) <= MAX_PAGES


def imported(folder: Path, files: dict[str, bytes], gpu: str) -> Trace:
    return import_gpureplay(m.write(folder, files), "small", gpu)


def test_a_recording_of_a_g72(tmp_path: Path) -> None:
    trace = imported(tmp_path, sample.recording(), "mali_g72")
    assert (trace.gpu, trace.jobs, trace.meta["core_mask"], trace.raw) == ("mali_g72", 2, 3, True)
    assert Trace.parse(trace.build()).gpu == "mali_g72"
    maps = {r.va_page * PAGE: r.flags for r in actions_of(trace.actions) if r.op == Op.MAP_GPU_MEM}
    assert maps[CODE] == MAP_READ | MAP_EXECUTE
    assert maps[m.JOBS] == MAP_READ | MAP_WRITE
    assert [r.address_space for r in actions_of(trace.actions) if r.op == Op.SET_GPU_PGTABLE] == [0]


def test_gpus_that_recordings_can_be_of() -> None:
    assert {"mali_g31", "mali_g52r1", "mali_g71", "mali_g72"} == set(gpus())


def test_a_recording_of_another_gpu(tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match=r"made on another GPU than the Arm Mali G71: .*, found 0x62210000"):
        imported(tmp_path, sample.recording(), "mali_g71")
    with pytest.raises(HistoryError, match=r"made on another GPU than the Arm Mali G72: .*, found 0x60a00002"):
        imported(tmp_path, m.recording(), "mali_g72")


ONE = [Mapped(CODE, 3, 0x5000, MAP_READ | MAP_WRITE)]
LEAF_AT = 32 + 3 * 4104 + 8 + 8 * (CODE >> 12 & 511)
TOP_AT = 32 + 8 + 8 * (CODE >> 39 & 511)
BLOCK_AT = 32 + 2 * 4104 + 8 + 8 * (CODE >> 21 & 511)
ENTRY = 0x5000 | 0x743


def word(at: int, value: int) -> Callable[[bytes], bytes]:
    return lambda data: data[:at] + value.to_bytes(8, "little") + data[at + 8 :]


MALFORMED: list[tuple[str, Callable[[bytes], bytes], int, str]] = [
    # name, damage, offset, message
    ("a block at the last level", word(LEAF_AT, ENTRY & ~2), LEAF_AT, "a block at level 3"),
    ("a block at the top", word(TOP_AT, 0x741), TOP_AT, "a block at level 0"),
    (
        "nobody may access it",
        word(LEAF_AT, ENTRY & ~0xC0),
        LEAF_AT,
        "access bits of an entry: expected 1 (read",
    ),
    ("outside memory", word(LEAF_AT, ENTRY | 1 << 40), LEAF_AT, "an entry points outside physical memory"),
    ("a block of 2 MiB not aligned", word(BLOCK_AT, ENTRY & ~2), BLOCK_AT, "a block is not aligned to its size"),
    ("another order of tables", word(32 + 4104, ROOT | 1), 32 + 4104, "tables are not in the order of the tree"),
    ("TRANSTAB: unknown bits", word(8, ROOT | 4), 8, "address of the first table"),
    ("TRANSTAB: nothing", word(8, 0), 8, "address of the first table"),
    ("TRANSCFG: LPAE", word(24, 0), 24, "page table format: expected mode 6"),
    ("TRANSCFG: identity", word(24, 2), 24, "page table format"),
    ("cut in a table", lambda d: word(0, LEAF_AT)(d[:LEAF_AT]), 32 + 3 * 4104, "a table is cut off"),
    ("cut before the end mark", lambda d: word(0, len(d) - 8)(d[:-8]), 32 + 4 * 4104, "ends before its end mark"),
]


@pytest.mark.parametrize(("name", "damage", "offset", "message"), MALFORMED, ids=[row[0] for row in MALFORMED])
def test_malformed_tables(name: str, damage: Callable[[bytes], bytes], offset: int, message: str) -> None:
    data = tree(ONE).text(ROOT, m.CONFIG)
    assert read_tables(data, G71).runs == runs(ONE)
    with pytest.raises(PageTableError) as caught:
        read_tables(damage(data), G71)
    assert caught.value.offset == offset
    assert message in str(caught.value)


HISTORIES: list[tuple[str, bytes, bytes, str]] = [
    # name, text, another in its place, message
    ("LPAE", b"2430,%08x" % m.CONFIG, b"2430,00000000", "is set to another page table format"),
    ("identity", b"2430,%08x" % m.CONFIG, b"2430,00000002", "is set to another page table format"),
    ("another table", b"2400,%08x" % (m.ROOT & 0xFFFFFFFF), b"2400,%08x" % (m.TABLE_1 & 0xFFFFFFFF), "not saved"),
]


@pytest.mark.parametrize(("name", "old", "new", "message"), HISTORIES, ids=[row[0] for row in HISTORIES])
def test_address_spaces_set_otherwise(name: str, old: bytes, new: bytes, message: str, tmp_path: Path) -> None:
    files = m.recording()
    assert files[HISTORY].count(old) == 1
    files[HISTORY] = files[HISTORY].replace(old, new)
    with pytest.raises(AccessError, match=message) as caught:
        imported(tmp_path, files, "mali_g71")
    assert str(caught.value).startswith(f"{tmp_path / HISTORY} at offset 0x")
