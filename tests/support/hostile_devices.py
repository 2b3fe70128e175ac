# SPDX-License-Identifier: BSD-2-Clause
"""Gives hostile traces to devices: the C core on this machine, the firmware on Unicorn and on QEMU."""

from __future__ import annotations

import functools
import json
import mmap
import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from host_tools import runners
from host_tools.runners import firmware, mailbox, unicorn
from host_tools.runners.buffers import Buffers, bind
from host_tools.vgpu.binding import VirtualGpu
from signing.delivery import Delivery
from tee_replayer.generator import hostlib
from tee_replayer.generator.status import ReplayError, Report
from tests.support import replayer_samples as s
from tests.support.bare_metal import COMPILER, require
from tests.support.hostile_rows import Hostile
from trace_format import profile
from trace_format.operators import Operator

MIB = 1 << 20
CARVEOUT_BYTES = 8 * MIB
EDGE = 16 * MIB  # of a large carve-out: its ends are what is used


@dataclass(frozen=True)
class Answer:
    """What a device made of a trace.

    Attributes:
        report: its own words.
        writes: registers that it wrote.
        jobs: jobs that the GPU began.
        left: whether anything is left in the carve-out.
    """

    report: Report
    writes: int
    jobs: int
    left: bool

    @property
    def reason(self) -> tuple[object, ...]:
        """What must be the same on every device: status, phase, action, opcode, offset, expected, seen."""
        r = self.report
        return r.name, r.phase, r.action, r.op, hex(r.offset), r.expected, r.seen


def core(row: Hostile) -> Answer:
    """The C core, in its build for this machine, over the virtual GPU."""
    signed = row.make()
    gpu = profile.load(row.gpu)
    carveout = mmap.mmap(-1, CARVEOUT_BYTES)
    with VirtualGpu(row.gpu, {s.CARVEOUT_PHYS: carveout}, hang_job=int(row.hang)) as device:
        replayer = hostlib.HostReplayer(
            s.library(gpu, row.operators), gpu, device.c_interface, carveout, s.CARVEOUT_PHYS
        )
        try:
            report = replayer.load(signed, s.KEY, row.min_security_version)
            for buffer in buffers(row, signed).rows:
                replayer.bind(buffer.index, buffer.data)
            report = replayer.run()
        except ReplayError as error:
            report = error.report
        assert device.error is None, device.error
        counters = device.counters()
        replayer.unload()
        found = Answer(report, counters.writes, counters.jobs, bool(np.frombuffer(carveout, "<u8").any()))
    return found


@functools.cache
def compiled(gpu: str, min_security_version: int, operators: tuple[Operator, ...] = ()) -> firmware.Firmware:
    """The firmware of the emulated board, from the cache; skips where it cannot be compiled."""
    require(COMPILER, "gcc-aarch64-linux-gnu")
    return firmware.build(s.KEY, gpu, min_security_version, operators=operators)


def on_unicorn(row: Hostile) -> Answer:
    """The firmware on Unicorn."""
    signed = row.make()
    fw = compiled(row.gpu, row.min_security_version, row.operators)
    given = buffers(row, signed)
    size = -(-mailbox.layout(signed, given).size // s.PAGE) * s.PAGE
    dram = np.frombuffer(mmap.mmap(-1, size), np.uint8)
    carveout = np.frombuffer(mmap.mmap(-1, fw.board.carveout_bytes), np.uint8)
    places = mailbox.request(dram.data, signed, given, 1)
    with VirtualGpu(row.gpu, {fw.board.carveout_base: carveout}, hang_job=int(row.hang)) as device:
        unicorn.Machine(fw, device, carveout, dram).run()
        counters = device.counters()
    left = bool(carveout[:EDGE].any() or carveout[-EDGE:].any())
    return Answer(mailbox.response(dram.data, given, places), counters.writes, counters.jobs, left)


def on_qemu(row: Hostile, folder: Path) -> Answer:
    """The firmware in QEMU's secure world; `folder` is for what the plugin counts."""
    if shutil.which("qemu-system-aarch64") is None:
        pytest.skip("qemu-system-aarch64 is not installed: apt-get install qemu-system-arm")
    fw = compiled(row.gpu, row.min_security_version, row.operators)
    stats = folder / "stats.json"
    arguments = {"stats": str(stats)} | ({"hang": "1"} if row.hang else {})
    options = {"gpu": row.gpu, "firmware": fw.folder, "plugin_args": arguments}
    report = runners.run("qemu", Delivery(row.make()), s.KEY, row.inputs, **options).report
    counts = json.loads(stats.read_text())
    return Answer(report, counts["writes"], counts["jobs"], bool(counts["carveout_bytes_left"]))


def buffers(row: Hostile, signed: bytes) -> Buffers:
    """The inputs that the row binds, and room for the outputs."""
    return bind(Delivery(signed).trace, row.inputs)


def check(row: Hostile, answer: Answer, loads: bool) -> None:
    """What holds of a hostile trace on every device.

    Args:
        row: the trace.
        answer: the device's.
        loads: whether the trace is one that loads, and is stopped when it runs.
    """
    assert answer.report.name == row.status
    if row.status != "OK" and not loads:
        assert answer.writes == 0, "a register was written"
    assert row.starts or not answer.jobs, "a job was started"
    assert not answer.left, "something is left in the carve-out"
