# SPDX-License-Identifier: BSD-2-Clause
"""Import of GPUReplay recordings: what becomes of a small one."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from host_tools.cli import main
from host_tools.extras.importers.gpureplay_trace import import_gpureplay
from host_tools.gpus.mali import mali_tables
from tests.support import mali_samples as m
from tests.support.gpureplay_edits import cut
from tests.support.mali_samples import CODE, CONTENTS, DATA, HISTORY, JOBS, PAGE, SCRATCH, TABLES
from trace_format.actions import ALL_BITS, MAP_EXECUTE, MAP_READ, MAP_WRITE, Op, actions_of
from trace_format.profile import load
from trace_format.schema import DType, SlotKind
from trace_format.trace import Trace

GPU = load("mali_g71")


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
