# SPDX-License-Identifier: BSD-2-Clause
"""A fault of the GPU reads as one: the trace was accepted; action, interrupt, register and bits have names."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from host_tools.cli import main
from host_tools.runners.replay import result
from signing.delivery import Delivery
from tee_replayer.generator.status import Report, value_of
from tests.support import hostile_devices, hostile_runs
from tests.support import replayer_samples as s
from tests.support.hostile_mali import GPU as MALI
from tests.support.hostile_rows import Hostile
from tests.support.small_jobs import CODE, INPUT, OUTPUT, Job, small
from trace_format import profile as profiles
from trace_format.actions import Op

NOT_MAPPED, BEYOND = 0x30000, 0x8000000  # the trace's addresses end at 0x40000, the table a megabyte after that
LATER = "the GPU reported a fault, action "


def _run(folder: Path, job: Job, *options: str) -> str:
    (folder / "net.sgtr").write_bytes(s.signed(small(job, retry_limit=0)))
    (folder / "pub.pem").write_bytes(s.KEY.pem())
    arguments = ["replay", str(folder / "net.sgtr"), "--key", str(folder / "pub.pem"), "--on", "vgpu", *options]
    done = CliRunner().invoke(main, arguments, catch_exceptions=False)
    assert done.exit_code == 1
    return done.stdout


@pytest.mark.parametrize(
    ("job", "bit", "place"),
    [
        (("add", NOT_MAPPED, INPUT, OUTPUT), "PT_INVALID", NOT_MAPPED),
        (("add", INPUT, INPUT, CODE), "WRITE_VIOLATION", CODE),
        (("add", BEYOND, INPUT, OUTPUT), "CAP_EXCEEDED", BEYOND),
    ],
    ids=["not mapped", "read-only", "beyond the cap"],
)
def test_a_fault_of_a_v3d(tmp_path: Path, job: Job, bit: str, place: int) -> None:
    text = _run(tmp_path, job)
    assert text.startswith("accepted, then failed on virtual GPU")
    assert LATER in text
    assert f": WaitIrq line 0 (interrupt v3d): hub.MMU_CTL {bit} at GPU address {place:#x}" in text
    assert json.loads(_run(tmp_path, job, "--json"))["error"] in text


ROWS = [row for row in hostile_runs.MALI_ROWS if row.status == "FAULT"]


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_a_fault_of_a_mali(row: Hostile) -> None:
    text = hostile_devices.core(row).report.describe(MALI)
    assert text.startswith(LATER)
    assert "mmu.IRQ_RAWSTAT AS" in text
    assert "_PAGE_FAULT" in text


def _report(gpu: str, seen: int, op: Op = Op.WAIT_IRQ) -> Report:
    return Report(value_of("FAULT"), 3, 7, op, 0, 0, seen, 0, 1, 8, 0)


@pytest.mark.parametrize(
    ("gpu", "seen", "words"),
    [
        ("v3d42", 0x08101000, "hub.MMU_CTL CAP_EXCEEDED | PT_INVALID | WRITE_VIOLATION"),
        ("v3d71", 0x1000, "(interrupt hub): hub.MMU_CTL WRITE_VIOLATION"),
        ("v3d42", 0x40, "status 0x00000040"),
        ("mali_g71", 0x20000, "(interrupt job): mmu.IRQ_RAWSTAT AS1_BUS_ERROR"),
        ("mali_g31", 0x81, "mmu.IRQ_RAWSTAT AS0_PAGE_FAULT | AS7_PAGE_FAULT or gpu.IRQ_RAWSTAT FAULT"),
        ("mali_g72", 2, "mmu.IRQ_RAWSTAT AS1_PAGE_FAULT or job.IRQ_RAWSTAT SLOT1_FAILED"),
    ],
)
def test_what_is_seen_in_words(gpu: str, seen: int, words: str) -> None:
    text = _report(gpu, seen).describe(profiles.load(gpu))
    assert words in text
    assert "or status" not in text


def test_every_bit_that_a_driver_looks_at_has_a_name() -> None:
    """As the nano drivers have them: MMU_CTL_FAULTS; the MMU's, the jobs' after the shift, GPU_FAULTS."""
    masks = {
        gpu: [sum(source.names.values()) for source in profiles.load(gpu).faults]
        for gpu in ("v3d71", "mali_g52r1")
    }
    assert masks == {"v3d71": [0x08101000], "mali_g52r1": [0x00FF00FF, 7, 0x81]}


def test_other_failures_read_as_before() -> None:
    """A refusal has no register's bits, and a wait that ended is no fault."""
    refused = dataclasses.replace(_report("v3d42", 0), status=value_of("NO_IRQ"))
    assert result(refused, "a device", {}, None, Delivery(b""), "v3d42").error == (
        "an interrupt did not come in time, action 7: WaitIrq line 0 (interrupt v3d)"
    )
    assert not refused.is_fault
