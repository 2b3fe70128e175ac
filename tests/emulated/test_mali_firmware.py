# SPDX-License-Identifier: BSD-2-Clause
"""The Mali's firmware, generated and compiled, on Unicorn; its size; carve-outs of other sizes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from host_tools import runners
from host_tools.runners import firmware
from signing.delivery import Delivery
from tee_replayer.generator.board_checks import BoardError
from tests.support import replayer_samples as s
from tests.support.firmware_samples import compiled, kept, small_mali, values
from tests.support.replayer_samples import signed, trace
from trace_format.actions import Op, action
from trace_format.trace import Trace

KIB, MIB = 1 << 10, 1 << 20
LATENCY = 6_000


@pytest.fixture(scope="module")
def folder() -> Path:
    return kept("mali_g71")


@pytest.fixture
def small(tmp_path: Path) -> Trace:
    return small_mali(tmp_path)


def test_it_fits_in_21_kib(folder: Path) -> None:
    assert firmware.sizes(folder)["in all, code and constants"] <= 21 * KIB


@pytest.mark.usefixtures("checked_caches")
@pytest.mark.sampled(3)  # no trouble, and a fault with and without a retry; in test_boards.py a job hangs
@pytest.mark.parametrize("trouble", [{}, {"hang_job": 2}, {"fault_job": 1}])
@pytest.mark.parametrize("retries", [0, 1])
def test_it_replays_and_reports_as_the_host_does(
    folder: Path, small: Trace, trouble: dict[str, Any], retries: int
) -> None:
    data = signed(small.with_(meta=small.meta | {"retry_limit": retries}))
    here = runners.run("vgpu", Delivery(data), s.KEY, values(small, 1), latency_ns=LATENCY, **trouble)
    there = runners.run(
        "unicorn",
        Delivery(data),
        s.KEY,
        values(small, 1),
        firmware=folder,
        latency_ns=LATENCY,
        **trouble,
    )
    assert there.ok == (not trouble or retries == 1)
    assert (here.report.name, here.error) == (there.report.name, there.error)
    assert (here.jobs, here.actions, here.retries, here.secure_bytes, here.compute) == (
        there.jobs,
        there.actions,
        there.retries,
        there.secure_bytes,
        there.compute,
    )


@pytest.mark.usefixtures("checked_caches")
@pytest.mark.parametrize("line", range(3))
def test_each_interrupt_line_is_its_own(folder: Path, line: int) -> None:
    """The GPU's reset is done, and its interrupt is the only one."""
    enable = action(Op.REG_WRITE, register=0x28 // 4, value=0x100, mask=0xFFFFFFFF)
    again = action(Op.REG_WRITE, register=0x30 // 4, value=1, mask=0xFFFFFFFF)
    wait = action(Op.WAIT_IRQ, line=line, timeout_us=200)
    sample = trace(again, enable, wait, gpu="mali_g71", slots=[], meta={"retry_limit": 0})
    result = runners.run("unicorn", Delivery(signed(sample)), s.KEY, firmware=folder)
    assert result.report.name == ("OK" if line == 2 else "NO_IRQ")


def test_a_firmware_refuses_the_traces_of_another_gpu(folder: Path) -> None:
    assert runners.run("unicorn", Delivery(signed(trace())), s.KEY, firmware=folder).report.name == "TARGET"


@pytest.mark.parametrize(
    ("mib", "status"),
    [(2, "MEMORY"), pytest.param(320, "OK", marks=pytest.mark.exhaustive)],  # Unicorn wipes all of it
)
def test_the_carveout_is_what_was_asked_for(mib: int, status: str, tmp_path: Path) -> None:
    sample = signed(trace(carveout_bytes=300 * MIB))
    out = compiled(tmp_path, "v3d42", carveout_bytes=mib * MIB)
    assert firmware.load(out).board.carveout_bytes == mib * MIB
    assert runners.run("unicorn", Delivery(sample), s.KEY, firmware=out).report.name == status


def test_no_such_carveout(tmp_path: Path) -> None:
    for size in (0, 4095, -4096):
        with pytest.raises(BoardError, match=r"memory\.carveout\.bytes: expected"):
            compiled(tmp_path, "v3d42", carveout_bytes=size)


@pytest.mark.parametrize("mib", [100, pytest.param(700, marks=pytest.mark.exhaustive)])  # Unicorn wipes all of it
def test_runners_make_the_carveout_as_large_as_the_trace_needs(mib: int) -> None:
    sample = signed(trace(carveout_bytes=mib * MIB))
    for runner in ("vgpu", "unicorn"):
        result = runners.run(runner, Delivery(sample), s.KEY)
        assert result.ok, result.error
        assert result.secure_bytes > mib * MIB
