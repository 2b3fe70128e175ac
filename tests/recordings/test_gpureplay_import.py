# SPDX-License-Identifier: BSD-2-Clause
"""The public GPUReplay recordings become valid traces, whole."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from host_tools.extras.importers.gpureplay_trace import import_gpureplay
from trace_format.actions import Op
from trace_format.trace import Trace

# name, jobs, accesses, regions, tables, slots, mapped pages (facts of the recordings)
RECORDINGS = [
    ("mnist", 23, 2977, 26, 9, 11, 1185),
    ("alexnet", 60, 8542, 64, 323, 19, 158_178),  # 174,563 with what lies in one place counted twice
    ("mobilenet", 104, 12_663, 88, 34, 140, 11_456),
]


@pytest.mark.parametrize(("name", "jobs", "accesses", "regions", "tables", "slots", "pages"), RECORDINGS)
def test_import(
    recordings: Path, name: str, jobs: int, accesses: int, regions: int, tables: int, slots: int, pages: int
) -> None:
    trace = import_gpureplay(recordings / name, name)
    assert Trace.parse(trace.build(compress=False)).trace_id == trace.trace_id
    assert trace.jobs == jobs
    assert len(trace.slots) == slots
    assert (trace.notes["accesses"], trace.notes["regions"], trace.notes["page_tables"]) == (
        accesses,
        regions,
        tables,
    )
    ops = trace.actions["op"]
    assert int(trace.actions["value"][ops == Op.MAP_GPU_MEM].sum()) == pages
    assert np.count_nonzero(ops == Op.REG_WRITE_KEPT) == jobs
    assert np.count_nonzero(ops == Op.REPLAY_START) == 1
    registers = np.isin(
        ops, [int(o) for o in (Op.REG_READ_ONCE, Op.REG_WRITE, Op.REG_READ_KEEP, Op.REG_WRITE_KEPT)]
    )
    driver_writes = 12  # of the page table, its attributes and configuration: set and switched off
    assert np.count_nonzero(registers) == accesses - driver_writes
