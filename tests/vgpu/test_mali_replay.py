# SPDX-License-Identifier: BSD-2-Clause
"""Imported recordings on the virtual Mali: a small one made by hand, replayed by the interpreter."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from host_tools.extras.importers.gpureplay_trace import import_gpureplay
from host_tools.families.page_tables import DivergenceError
from host_tools.model.interpreter import Interpreter
from host_tools.passes.listing import PASSES
from tests.support import mali_samples as m
from tests.support.mali_samples import CODE, DATA, HISTORY, JOBS, PAGE, SCRATCH
from trace_format.actions import Op
from trace_format.schema import DType, SlotKind
from trace_format.slots import Slot
from trace_format.trace import Trace

LATENCY = 6_000


def imported(folder: Path, files: dict[str, bytes]) -> Trace:
    trace = import_gpureplay(m.write(folder, files), "small")
    for step in ("volatile", "polls"):
        trace = PASSES[step].apply(trace)
    return trace


def values(trace: Trace, value: float) -> dict[str, np.ndarray]:
    return {s.name: np.full(s.shape, value, np.float32) for s in trace.slots if s.kind != SlotKind.OUTPUT}


def test_it_is_replayed_again_and_again(tmp_path: Path) -> None:
    trace = imported(tmp_path, m.recording())
    device = Interpreter(trace, latency_ns=LATENCY)
    given = values(trace, 7)
    for run in range(1, 4):
        device.run(given | {"input": given["input"] * run})
        counters = device.gpu.counters()
        assert (counters.jobs, counters.resets, counters.faults) == (2 * run, 1, 0)
        at = device.tables.translate(0, JOBS)
        assert device.memory[at : at + 0xC0].tobytes() == m.jobs_page()
        assert np.array_equal(device.read_slot(trace.slot("param1")), np.full(1024, 7, np.float32))
        assert np.array_equal(device.read_slot(trace.slot("input")), given["input"] * run)
    device.close()


def test_parameters_are_copied_once_until_others_are_given(tmp_path: Path) -> None:
    trace = imported(tmp_path, m.recording())
    rows, slot = trace.actions, trace.slot("param1")
    copies = rows["op"] == Op.COPY_TO_GPU
    early = np.array([trace.slots[arg].kind == SlotKind.PARAMETER for arg in rows["arg"] * copies]) & copies
    start = int(np.flatnonzero(rows["op"] == Op.REPLAY_START)[0])
    moved = trace.with_(actions=np.concatenate([rows[:start], rows[early], rows[start:][~early[start:]]]))
    device = Interpreter(moved, latency_ns=LATENCY)
    given = values(trace, 7)
    device.run(given)
    at = device.tables.translate(0, slot.address)
    device.memory[at : at + 4] = 0  # a second copy would show
    device.run(given)
    assert device.read_slot(slot)[0] == 0
    for run, other in ((2, given | {"param1": given["param1"] + 1}), (3, {"input": given["input"]})):
        device.run(other)
        assert device.gpu.counters().resets == run, "the prologue ran again"
    assert np.array_equal(device.read_slot(slot), np.full(1024, 8, np.float32))
    device.close()


def test_dense_and_strided_slots_are_copied_alike(tmp_path: Path) -> None:
    """Bytes across page borders, by pages and by elements."""
    trace = imported(tmp_path, m.recording())
    device = Interpreter(trace, latency_ns=LATENCY)
    device.run(values(trace, 1))
    rows = np.random.default_rng(1).random((600, 3), np.float32)
    dense = Slot("dense", SlotKind.INPUT, DType.FLOAT32, (600, 4), (16, 4), DATA + 0x50)
    strided = Slot("strided", SlotKind.INPUT, DType.FLOAT32, (600, 3), (16, 4), DATA + 0x50)
    device.inputs = {"dense": np.pad(rows, ((0, 0), (0, 1)))}
    device._copy_in(dense)
    assert np.array_equal(device.read_slot(strided), rows)
    device.inputs = {"strided": rows + 1}
    device._copy_in(strided)
    assert np.array_equal(device.read_slot(dense), np.pad(rows + 1, ((0, 0), (0, 1))))
    device.close()


def test_one_that_powers_down_is_reset_every_time(tmp_path: Path) -> None:
    files = m.recording()
    files[HISTORY] += m.access(500, True, 0x1C0, 0xFF)
    trace = imported(tmp_path, files)
    device = Interpreter(trace, latency_ns=LATENCY)
    for run in (1, 2):
        device.run(values(trace, run))
        assert (device.gpu.counters().jobs, device.gpu.counters().resets) == (2 * run, run)
    device.close()


def test_a_gpu_that_hangs_is_found_out(tmp_path: Path) -> None:
    """The original replayer waits forever."""
    trace = imported(tmp_path, m.recording())
    starts = (trace.actions["op"] == Op.REG_WRITE) & (trace.actions["arg"] == 0x18E0 // 4)
    device = Interpreter(trace.with_(actions=trace.actions[~starts]), latency_ns=LATENCY)
    with pytest.raises(DivergenceError, match=r"WaitIrq\): interrupt line 0 stays inactive"):
        device.run(values(trace, 1))
    device.close()


def test_the_gpu_sees_the_tables_as_the_interpreter_does(tmp_path: Path) -> None:
    trace = imported(tmp_path, m.recording())
    device = Interpreter(trace, latency_ns=LATENCY)
    device.run(values(trace, 1))
    seen = {
        run.va // PAGE + i: run.pa + i * PAGE for run in device.gpu.mappings() for i in range(run.bytes // PAGE)
    }
    assert {(0, page): at for page, at in seen.items()} == device.tables.mapped()
    writable = {run.va for run in device.gpu.mappings() if run.flags & 2}
    assert (CODE in writable, JOBS in writable) == (False, True)
    device.tables.unmap(0, DATA // PAGE, 2)
    assert {va // PAGE for va in (CODE, JOBS, DATA + 2 * PAGE, SCRATCH)} == {
        page for _, page in device.tables.mapped()
    }
    with pytest.raises(DivergenceError, match="is not mapped"):
        device.tables.translate(0, DATA)
    device.tables.unmap(3, DATA // PAGE, 1)  # nothing is there
    assert device.tables.translate(0, SCRATCH + 5) % PAGE == 5
    device.close()


def test_tables_across_borders(tmp_path: Path) -> None:
    """Pages on both sides of a last-level table, and of a level-2 table."""
    device = Interpreter(imported(tmp_path, m.recording()))
    for space, page in ((1, 511), (2, (1 << 18) - 3), (15, (1 << 36) - 6)):
        device.tables.map(space, page, 40, 6, 1)
        assert [device.tables.translate(space, (page + i) * PAGE) for i in range(6)] == [
            (40 + i) * PAGE for i in range(6)
        ]
    assert len(device.tables.mapped()) == 18
    device.close()
