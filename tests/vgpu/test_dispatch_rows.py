# SPDX-License-Identifier: BSD-2-Clause
"""What the virtual GPUs count of a dispatch that takes time: accesses by lines of 64 bytes, misses of caches."""

from __future__ import annotations

import numpy as np
import pytest

from host_tools.demo import RAW
from host_tools.model.interpreter import Interpreter
from host_tools.vgpu.binding import Dispatch, VgpuError, VirtualGpu
from tests.support.bifrost_asm import load, store
from tests.support.bifrost_board import GLOBAL_IDS, ShaderBoard
from tests.support.places import CHECKOUT
from tests.support.qpu_bench import DATA, END, LANE_ADDRESS, ONE_SECTION, dispatch
from trace_format.trace import Trace

PER_LANE, REGULAR, ADD, S8, VEC4, U32 = 0xFFFFFF80, 15 << 3, 0, 0, 4, 7
LINE = 64  # bytes; caches as tests/vgpu/flat_mmu.c has them: 1 and 4 KiB
SUPPORT = CHECKOUT / "tests/support"


def of_loads(offsets: np.ndarray, kind: int = U32, size: int = 16) -> Dispatch:
    """The row of a shader that loads from DATA + 64 + each row of offsets (16, a lane each), in turn."""
    address = LANE_ADDRESS + "nop; nop; ldunif\nnop; mov r1, r5\n"
    components = 4 if kind == VEC4 else 1
    take = "nop; nop; ldtmu.rf2\n" * components
    code = (
        address
        + f"nop; mov tmua, rf10\nnop; nop; ldtmu.rf1\nadd rf10, rf10, r1\nnop; mov tmuau, rf1\n{take}"
        * len(offsets)
    )
    uniforms = [DATA, LINE] + [PER_LANE | REGULAR | kind] * len(offsets)
    table = (DATA + 0x8000 + offsets).astype(np.uint32)
    done = dispatch(code + END, uniforms, table, flags=ONE_SECTION, meter=True, size=size)
    assert (done.error, done.fault) == ("", None)
    assert done.row is not None
    assert done.row.instructions == done.instructions
    return done.row


@pytest.mark.parametrize(
    ("name", "offsets", "kind", "lines"),
    [
        ("one word for all", np.zeros(16), U32, 1),
        ("words in a row", 4 * np.arange(16), U32, 1),
        ("words in a row over a border", 32 + 4 * np.arange(16), U32, 2),
        ("a line each", LINE * np.arange(16), U32, 16),
        ("a line each, backwards", LINE * np.arange(16)[::-1], U32, 16),
        ("two lines in turn", LINE * (np.arange(16) % 2), U32, 2),
        ("vectors in a row", 16 * np.arange(16), VEC4, 4),
        ("bytes in a row", np.arange(16), S8, 1),
    ],
)
def test_lines_of_a_v3d(name: str, offsets: np.ndarray, kind: int, lines: int) -> None:
    """Beside the table's one line, from which each load takes its addresses."""
    row = of_loads(offsets[None], kind)
    assert row.loads == 2, name
    assert row.loaded_lines == 1 + lines
    assert row.loaded_words == 1 + (4 if kind == VEC4 else 1)
    assert (row.first_misses, row.second_misses) == (1 + lines, 1 + lines)  # none is loaded twice
    assert (row.stores, row.stored_lines, row.stored_words) == (0, 0, 0)
    assert (row.workgroups, row.threads, row.groups, row.resident) == (1, 16, 1, 2)
    assert row.registers == 11


def test_what_caches_keep() -> None:
    """Sixteen lines fill the first cache, without what the table needs; sixty-four the second one."""
    small = LINE * np.tile(np.arange(8), 2)
    again = of_loads(np.stack([small] * 3))
    assert again.loaded_lines == 3 * (1 + 8)
    assert again.first_misses == 3 + 8  # each table once, the eight lines once
    large = LINE * np.arange(16)
    rows = np.stack([large + LINE * 16 * (i % 3) for i in range(6)])  # 48 lines twice
    thrashing = of_loads(rows)
    assert thrashing.first_misses == 6 + 96  # more than the first one holds
    assert thrashing.second_misses == 6 + 48


def test_a_gang_counts_as_its_threads_by_themselves() -> None:
    """Four batches that run as one gang: four times a thread's accesses."""
    one = of_loads(4 * np.arange(16)[None])
    four = of_loads(4 * np.arange(16)[None], size=64)
    for name in ("instructions", "loads", "loaded_words", "loaded_lines"):
        assert getattr(four, name) == 4 * getattr(one, name)
    assert (four.groups, four.threads, four.first_misses) == (4, 64, one.first_misses)


def test_stores_and_atomic_operations_of_a_v3d() -> None:
    code = LANE_ADDRESS + "nop; mov tmud, rf10\nnop; mov tmua, rf10\n"
    code += "nop; mov tmud, rf10\nnop; mov tmuau, rf10\nnop; nop; ldtmu.rf1\n"
    done = dispatch(code + END, [DATA, PER_LANE | ADD << 3 | U32], flags=ONE_SECTION, meter=True)
    assert (done.error, done.fault) == ("", None)
    row = done.row
    assert row is not None
    assert (row.loads, row.stores, row.loaded_lines, row.stored_lines) == (1, 2, 1, 2)
    assert (row.first_misses, row.second_misses, row.stored_misses) == (1, 0, 1)  # the first store missed


def test_a_mali_counts_warps() -> None:
    """Six groups of 64 threads in warps of four, each thread with words of its own."""
    board = ShaderBoard(meter=True)
    board.prepare(load(0, 1, 2, 8) + store(1, 1, 2, 8), groups=(6, 1, 1), preload=GLOBAL_IDS)
    assert board.go() == 1
    (row,) = board.gpu.dispatches()
    warps = 6 * 64 // 4
    assert (row.workgroups, row.threads, row.groups) == (6, 6 * 64, warps)
    assert (row.loads, row.stores, row.loaded_words, row.stored_words) == (warps,) * 4
    assert (row.loaded_lines, row.stored_lines, row.first_misses) == (warps, warps, 6 * 4)
    assert (row.clauses, row.instructions) == (2 * warps, 2 * warps)
    assert (row.spills, row.resident) == (0, 0)
    assert board.gpu.dispatches() == []  # each is given once


@pytest.mark.parametrize("raw", [RAW, SUPPORT / "lenet.v3d71.raw.gtr", SUPPORT / "lenet.mali_g71.raw.gtr"])
def test_a_network_counts_the_same_with_any_number_of_threads(raw: object) -> None:
    """And gives what it gives without a meter."""
    trace = Trace.read(raw)  # type: ignore[arg-type]
    found, outputs = [], []
    for threads, meter in ((1, True), (2, True), (0, False)):
        run = Interpreter(trace, threads=threads, meter=meter)
        outputs.append(run.run())
        found.append(run.gpu.dispatches())
        counted = run.gpu.counters()
        run.close()
    assert found[0] == found[1]
    assert found[2] == []
    assert len(found[0]) == counted.jobs
    for name in outputs[0]:
        np.testing.assert_array_equal(outputs[0][name], outputs[2][name])
    if "mali" not in trace.gpu:
        assert sum(row.instructions for row in found[0]) == counted.instructions


def test_a_meter_and_an_access_map_are_refused() -> None:
    with pytest.raises(VgpuError, match="meter and track_access: one at a time"):
        VirtualGpu("v3d42", meter=True, track_access=True)
