# SPDX-License-Identifier: BSD-2-Clause
"""The virtual Mali against what was recorded: GPUReplay's recordings of a real one, and logs of Linux's panfrost.

Reads of these differ, and may:

| register | why |
|---|---|
| gpu.LATEST_FLUSH | counts cache flushes since power-up; some count for less than the model thinks |
| gpu.COHERENCY_FEATURES | 3 before the first reset, 2 after it; the model says 2 |
| gpu.IRQ_STATUS 10:9 | power changes: one or more interrupts where requests overlap |
| as0.STATUS | at work as long as a flush takes, on the recorded machine more and less than here |
"""

from __future__ import annotations

import re
import struct
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from host_tools.extras.importers import gpureplay
from host_tools.extras.importers.gpureplay_trace import import_gpureplay
from host_tools.model.interpreter import Interpreter
from host_tools.passes.listing import PASSES
from tests.support.mali_model import DATA, MaliBoard
from trace_format import profile
from trace_format.actions import Op, actions_of
from trace_format.schema import PAGE_BYTES, SlotKind

GPU = profile.load("mali_g71")
RECORDINGS = [("mnist", 23), pytest.param("alexnet", 60, marks=pytest.mark.exhaustive), ("mobilenet", 104)]
POWER_NS = 6_000  # power transitions of the recorded machine take 5.2 to 8.3 us
FEATURES = re.compile(r"gpu\.(GPU_ID|.*FEATURES.*|THREAD_.*)")


def place(device: Interpreter) -> None:
    """Bring maps and memory into place, without the register accesses."""
    for row in actions_of(device.trace.actions):
        if row.op in (Op.MAP_GPU_MEM, Op.UPLOAD, Op.CLEAR):
            device._step(row)


@pytest.mark.parametrize(("name", "jobs"), RECORDINGS)
def test_a_recordings_own_accesses(recordings: Path, name: str, jobs: int) -> None:
    """Its register accesses one by one, at its pace; only the page table and the flush id are the model's."""
    folder = recordings / name
    accesses = gpureplay.read_history((folder / gpureplay.HISTORY).read_bytes(), GPU)
    device = Interpreter(import_gpureplay(folder, name), latency_ns=POWER_NS, variant="noshaders")
    place(device)
    device.tables.set(0)
    table = device.gpu.read32(0x2400)
    live = 0
    differ: Counter[str] = Counter()
    for access in accesses:
        device._pass(access.delay_ns)
        register, value = access.register, access.value
        if access.write:
            if register.name == "js1.FLUSH_ID_NEXT":
                value = live
            if register.name.startswith("as0.TRANSTAB") and value:
                value = table if register.name.endswith("LO") else 0
            device.gpu.write32(register.offset, value)
            continue
        found = device.gpu.read32(register.offset)
        if register.name == "gpu.LATEST_FLUSH":
            live = found
        if (found ^ value) & ~register.volatile & ~register.busy:
            pytest.fail(f"offset {access.offset:#x}: {register.name} is {found:#x}, recorded {value:#x}")
        if found != value:
            differ[register.name] += 1
    assert differ.keys() <= {"gpu.LATEST_FLUSH", "gpu.COHERENCY_FEATURES", "gpu.IRQ_STATUS", "as0.STATUS"}
    assert differ["gpu.COHERENCY_FEATURES"] == 1
    counters = device.gpu.counters()
    assert (counters.jobs, counters.faults, counters.reads + counters.writes) == (jobs, 0, len(accesses) + 7)
    device.close()


@pytest.mark.parametrize(("name", "jobs"), RECORDINGS)
def test_a_recording_is_replayed_and_again(recordings: Path, name: str, jobs: int) -> None:
    """The imported trace, its polls folded and volatile bits masked; all job headers say done."""
    folder = recordings / name
    trace = import_gpureplay(folder, name)
    for step in ("volatile", "polls"):
        trace = PASSES[step].apply(trace)
    inputs = {s.name: np.zeros(s.shape, s.numpy_dtype) for s in trace.slots if s.kind != SlotKind.OUTPUT}
    device = Interpreter(trace, latency_ns=POWER_NS, variant="noshaders")
    for run in (1, 2):
        inputs["input"] += run
        outputs = device.run(inputs)
        assert list(outputs) == ["output"]
        counters = device.gpu.counters()
        assert (counters.jobs, counters.faults, counters.resets) == (run * jobs, 0, 1)
        assert np.array_equal(device.read_slot(trace.slot("input")), inputs["input"])
    for va, status in saved_headers(folder).items():
        at = device.tables.translate(0, va)
        assert device.memory[at : at + 16].tobytes() == status
    device.close()


def saved_headers(folder: Path) -> dict[int, bytes]:
    """First 16 bytes, as saved after the recorded run, of every job header that a submission names."""
    data = (folder / gpureplay.CONTENTS).read_bytes()
    pages = {
        region.start + i * PAGE_BYTES: at
        for region in gpureplay.read_contents(data, GPU)
        for i, at in enumerate(region.contents)
    }
    found, low = {}, 0
    for access in gpureplay.read_history((folder / gpureplay.HISTORY).read_bytes(), GPU):
        if access.register.name == "js1.HEAD_NEXT_LO" and access.write:
            low = access.value
        if access.register.name == "js1.HEAD_NEXT_HI" and access.write:
            va = low | access.value << 32
            at = pages[va & ~0xFFF] + va % PAGE_BYTES
            found[va] = data[at : at + 16]
    return found


@pytest.mark.parametrize(("log", "jobs"), [("mali_g71_panfrost_probe.log", 0), ("mali_g71_panfrost_vadd.log", 1)])
def test_panfrost(register_logs: Path, log: str, jobs: int) -> None:
    """Accesses of Linux's panfrost; the log's feature words are those of another model, all else must be equal."""
    board = MaliBoard(power=False, mmu=False)
    # The guest's memory as far as the job needs it: a table in the older format, and the job's header.
    board.tables.next = 0x40401000
    board.tables.set(0x0A01D000, DATA | 0xC1)
    root = board.ram.bytes[0x400000:0x401000].copy()
    board.ram.bytes[0x30E3000:0x30E4000] = root
    board.ram.put(DATA + 0x40, struct.pack("<8I", 0, 0, 0, 0, 0x00010009, 0, 0, 0))
    done = 0
    for number, line in enumerate((register_logs / log).read_text().splitlines(), start=1):
        if line.startswith("#"):
            continue
        kind, offset, value = line.split()
        register = GPU.by_offset[int(offset, 16)]
        if kind == "W":
            board.write(register.offset, int(value, 16))
        else:
            found = board.read(register.offset)
            assert FEATURES.fullmatch(register.name) or found == int(value, 16), f"{log}:{number}: {register.name}"
        done += 1
    assert done > 80
    counters = board.gpu.counters()
    assert (counters.jobs, counters.faults) == (jobs, 0)
    assert board.ram.word(DATA + 0x40) == jobs
