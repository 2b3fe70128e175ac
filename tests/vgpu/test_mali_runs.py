# SPDX-License-Identifier: BSD-2-Clause
"""The replayer's core on the virtual Mali: a small recording made by hand, GPUs that hang or fault, large ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from host_tools import runners
from host_tools.extras.importers.gpureplay_trace import import_gpureplay
from host_tools.passes.pipeline import build
from host_tools.runners.replay import ReplayResult
from signing.delivery import Delivery
from tests.support import mali_samples as m
from tests.support import replayer_samples as s
from tests.support.mali_chains import write
from tests.support.mali_samples import CONTENTS, DATA, PAGE
from tests.support.replayer_samples import signed
from trace_format import profile
from trace_format.actions import ALL_BITS, MAP_READ, Action, Op, action, array_of
from trace_format.schema import SlotKind
from trace_format.trace import Trace

GPU = profile.load("mali_g71")
LATENCY = 6_000  # as the recorded machine; each look at clock, register or line takes a microsecond here


def imported(folder: Path, files: dict[str, bytes]) -> Trace:
    return build(import_gpureplay(m.write(folder, files), "small"), skip=m.NEED_CHAINS)


def replay(trace: Trace, value: float = 1, **options: Any) -> ReplayResult:
    s.library(GPU)
    values = {s.name: np.full(s.shape, value, np.float32) for s in trace.slots if s.kind != SlotKind.OUTPUT}
    return runners.run("vgpu", Delivery(signed(trace)), s.KEY, values, latency_ns=LATENCY, **options)


@pytest.fixture
def small(tmp_path: Path) -> Trace:
    return imported(tmp_path, m.recording())


def test_a_recording_is_replayed(small: Trace) -> None:
    for value in (1, 2):
        result = replay(small, value, repeat=3)
        assert result.ok, result.error
        assert (result.jobs, result.retries, result.compute) == (2, 0, "full")
        assert not result.outputs["output"].any(), "the jobs do nothing"


def test_what_goes_in_is_where_jobs_look_for_it(small: Trace) -> None:
    slot = next(slot for slot in small.slots if slot.name == "input")
    copy = action(Op.COPY_FROM_GPU, slot=len(small.slots))
    rows = np.append(small.actions, np.array([copy], small.actions.dtype))
    seen = slot.__class__("seen", SlotKind.OUTPUT, slot.dtype, slot.shape, slot.strides, slot.address)
    result = replay(small.with_(actions=rows, slots=[*small.slots, seen]), 7)
    assert np.array_equal(result.outputs["seen"], np.full(slot.shape, 7, np.float32))


@pytest.mark.parametrize("trouble", ["hang_job", "fault_job"])
@pytest.mark.parametrize("job", [1, 2])
def test_a_job_that_fails_once_is_replayed_anew(small: Trace, trouble: str, job: int) -> None:
    result = replay(small, **{trouble: job})
    assert result.ok, result.error
    assert (result.jobs, result.retries) == (2, 1)


@pytest.mark.parametrize(
    ("trouble", "status", "text"),
    [
        ("hang_job", "NO_IRQ", "WaitIrq line 0"),
        ("fault_job", "FAULT", "(interrupt job): mmu.IRQ_RAWSTAT AS0_PAGE_FAULT at GPU address "),
    ],
)
def test_a_job_that_fails_is_reported(small: Trace, trouble: str, status: str, text: str) -> None:
    """A GPU that hangs ends a replay; the original replayer waits for it forever."""
    result = replay(small.with_(meta=small.meta | {"retry_limit": 0}), **{trouble: 2})
    assert (result.report.name, result.retries, result.jobs) == (status, 0, 2)
    assert text in result.error
    assert result.outputs == {}


def test_more_regions_than_the_original_can_hold(tmp_path: Path) -> None:
    """The original replayer has a table of 128 regions that it does not check."""
    files = m.recording()
    more = [m.region(0xFFFF00000000 + i * 16 * PAGE, m.FLAGS_DATA, [b"%d" % i]) for i in range(1, 301)]
    files[CONTENTS] += b"".join(more)
    trace = imported(tmp_path, files)
    assert (trace.actions["op"] == Op.MAP_GPU_MEM).sum() > 300
    result = replay(trace)
    assert result.ok, result.error
    assert result.jobs == 2


def submission(space: int) -> list[Action]:
    """Power on, and a job at DATA in an address space."""
    values = {
        "gpu.L2_PWRON_LO": 1,
        "gpu.SHADER_PWRON_LO": 0xFF,
        "js1.HEAD_NEXT_LO": DATA & ALL_BITS,
        "js1.HEAD_NEXT_HI": DATA >> 32,
        "js1.AFFINITY_NEXT_LO": 0xFF,
        "js1.CONFIG_NEXT": space,
        "js1.COMMAND_NEXT": 1,
    }
    return [write(name, value) for name, value in values.items()]


@pytest.mark.parametrize("space", range(8))
@pytest.mark.parametrize("before", ["nothing", "update", "reset and update"])
def test_a_job_without_a_table_finds_no_memory(space: int, before: str) -> None:
    """Memory is mapped, but no SetGpuPgtable points the GPU at it. Space 0 has a table from the start: empty."""
    rows = [
        action(Op.MAP_GPU_MEM, flags=MAP_READ, pages=1, address_space=other, va_page=DATA // PAGE)
        for other in range(1, 8)
    ]
    if before == "reset and update":
        rows += [write("gpu.COMMAND", 1), action(Op.INTERVAL, us=300)]
    if before != "nothing":
        rows.append(write(f"as{space}.COMMAND", 1))
    wait = [write("job.IRQ_MASK", ALL_BITS), action(Op.WAIT_IRQ, timeout_us=900)]
    seen = action(Op.REG_READ_ONCE, register=GPU.register("job.IRQ_STATUS").index, expected=2, mask=ALL_BITS)
    trace = Trace(
        "mali_g71",
        array_of([*rows, *submission(space), *wait, seen]),
        m.job_header(),
        carveout_bytes=PAGE,
        va_bytes=1 << 48,
        meta={"retry_limit": 0},
    )
    result = runners.run("vgpu", Delivery(signed(trace)), s.KEY)
    assert (result.report.name, result.report.seen) == ("FAULT", 1 << space)
