# SPDX-License-Identifier: BSD-2-Clause
"""A fault of the GPU reads as one: the trace was accepted; action, interrupt, register and bits have names."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from host_tools import runners
from host_tools.cli import main
from host_tools.runners.replay import result
from signing.delivery import Delivery
from tee_replayer.generator.status import Report, value_of
from tests.support import hostile_devices, hostile_runs
from tests.support import replayer_samples as s
from tests.support.hostile_mali import GPU as MALI
from tests.support.hostile_mali import write
from tests.support.hostile_rows import Hostile
from tests.support.hostile_runs import JOBS, POWERED, chain
from tests.support.small_jobs import CODE, INPUT, OUTPUT, Job, small
from trace_format import profile as profiles
from trace_format.actions import Op, action, array_of
from trace_format.schema import PAGE_BYTES
from trace_format.trace import Trace

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
        (("add", 0, INPUT, OUTPUT), "PT_INVALID", 0),
    ],
    ids=["not mapped", "read-only", "beyond the cap", "a pointer that is 0"],
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
    space = 5 if "space that is off" in row.name else 0
    first = JOBS << 12  # and the page after it; 32 of 48 bits are reported
    place = f" at GPU address {first:#x} to {first + 0xFFFF:#x}"
    assert f": mmu.IRQ_RAWSTAT AS{space}_PAGE_FAULT{place}" in text
    assert " or " not in text


@pytest.mark.parametrize(
    ("page", "space", "place"),
    [(0x12345, 2, "0x12345000 to 0x12345001"), (0x1FFFFF, 7, "0x1fffff000 to 0x1fffff001")],
)
def test_a_fault_of_a_mali_of_33_bits(page: int, space: int, place: str) -> None:
    """All of the address but a bit is reported."""
    gpu = "mali_g31"
    tables = (action(Op.SET_GPU_PGTABLE, address_space=space), write(f"as{space}.COMMAND", 1))
    actions = (*POWERED[:2], *tables, *chain(page, space))
    meta = {"name": "small", "core_mask": 1, "retry_limit": 0}
    trace = Trace(gpu, array_of(actions), b"", carveout_bytes=PAGE_BYTES, va_bytes=1 << 33, slots=[], meta=meta)
    found = runners.run("vgpu", Delivery(s.signed(trace)), s.KEY)
    assert found.error.endswith(f": mmu.IRQ_RAWSTAT AS{space}_PAGE_FAULT at GPU address {place}")


def _report(gpu: str, seen: int, op: Op = Op.WAIT_IRQ, place: int = 0) -> Report:
    return Report(value_of("FAULT"), 3, 7, op, 0, place, seen, 0, 1, 8, 0)


@pytest.mark.parametrize(
    ("gpu", "seen", "words"),
    [
        ("v3d42", 0x08101000, "hub.MMU_CTL CAP_EXCEEDED | PT_INVALID | WRITE_VIOLATION"),
        ("v3d71", 0x1000, "(interrupt hub): hub.MMU_CTL WRITE_VIOLATION"),
        ("v3d42", 0x40, "status 0x00000040"),
        ("mali_g71", 0x20000, "(interrupt job): mmu.IRQ_RAWSTAT AS1_BUS_ERROR"),
        ("mali_g31", 0x81, "mmu.IRQ_RAWSTAT AS0_PAGE_FAULT | AS7_PAGE_FAULT at GPU address 0x0 to 0x1"),
        ("mali_g31", 0x81 << 24, "gpu.IRQ_RAWSTAT FAULT | MULTIPLE_FAULT"),
        ("mali_g72", 0x200, "job.IRQ_RAWSTAT SLOT1_FAILED"),
    ],
)
def test_what_is_seen_in_words(gpu: str, seen: int, words: str) -> None:
    text = _report(gpu, seen).describe(profiles.load(gpu))
    assert words in text
    assert " or " not in text
    assert ("GPU address" in text) == ("MMU_CTL" in text or "mmu." in text)


def test_a_place_of_36_bits() -> None:
    text = _report("v3d71", 0x100000, place=0x3001).describe(profiles.load("v3d71"))
    assert text.endswith("hub.MMU_CTL PT_INVALID at GPU address 0x30010 to 0x3001f")


def test_every_bit_that_a_driver_looks_at_has_a_name() -> None:
    """As the nano drivers have them: MMU_CTL_FAULTS; the MMU's, the jobs' and GPU_FAULTS, shifted apart."""
    masks = {
        gpu: [sum(source.names.values()) for source in profiles.load(gpu).faults]
        for gpu in ("v3d71", "mali_g52r1")
    }
    assert masks == {"v3d71": [0x08101000], "mali_g52r1": [0x00FF00FF, 7 << 8, 0x81 << 24]}


def test_other_failures_read_as_before() -> None:
    """A refusal has no register's bits, and a wait that ended is no fault."""
    refused = dataclasses.replace(_report("v3d42", 0), status=value_of("NO_IRQ"))
    assert result(refused, "a device", {}, None, Delivery(b""), "v3d42").error == (
        "an interrupt did not come in time, action 7: WaitIrq line 0 (interrupt v3d)"
    )
    assert not refused.is_fault
