# SPDX-License-Identifier: BSD-2-Clause
"""Runs of firmware under the checker of caches and order, and mistakes that are made in the firmware first."""

from __future__ import annotations

import functools
import mmap
import struct
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import unicorn as uc
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection
from unicorn import arm64_const as arm64

from host_tools.gpus.mali.rules import retarget
from host_tools.passes.pipeline import build
from host_tools.runners import firmware, mailbox
from host_tools.runners.buffers import bind
from host_tools.runners.caches.instructions import NOP, Barrier, Found, Maintenance, instructions
from host_tools.runners.caches.machine import CacheError, CheckedMachine
from host_tools.runners.caches.model import Finding
from host_tools.runners.firmware import Firmware
from host_tools.vgpu.binding import VirtualGpu
from signing.delivery import Delivery
from tee_replayer.generator import boards
from tee_replayer.generator.status import Report
from tee_replayer.generator.translation import OUTPUT, Kind
from tests.support.firmware_samples import kept, values
from tests.support.places import CHECKOUT
from trace_format.actions import Op, action
from trace_format.trace import Trace

MIB = 1 << 20
CARVEOUT_BYTES = 2 * MIB  # all of it is wiped after an exception, each store under the checker's eyes
SAMPLES = {"v3d42": "pointwise.raw.gtr", "mali_g71": "lenet.mali_g71.raw.gtr"}
VECTOR = 0x200  # of synchronous exceptions, from the image's start: baremetal/startup.S


@dataclass(frozen=True)
class Port:
    """Firmware of a board, and the GPU that it drives."""

    platform: str
    gpu: str
    virtual: str
    mmu: bool | None = None

    @property
    def folder(self) -> Path:
        """Compiled."""
        return kept(self.gpu, self.platform, carveout_bytes=CARVEOUT_BYTES, mmu=self.mmu)

    def load(self) -> Firmware:
        """The same, as the runner takes it."""
        return firmware.load(self.folder)

    @property
    def is_ordered(self) -> bool:
        """Whether it is for an emulated core without caches, which does all in the program's order."""
        return self.platform == boards.QEMU_VIRT and not self.mmu


# All boards with bare-metal firmware; tests/emulated/test_caches.py compares them with the descriptions.
PORTS = {
    "qemu-virt": Port("qemu-virt", "v3d42", "v3d42"),
    "qemu-virt, MMU": Port("qemu-virt", "v3d42", "v3d42", True),
    "rpi4": Port("rpi4", "v3d42", "v3d42-pi4"),
    "rpi4, no MMU": Port("rpi4", "v3d42", "v3d42-pi4", False),
    "hikey960": Port("hikey960", "mali_g71", "mali_g71"),
    "rk3576": Port("rk3576", "mali_g52r1", "mali_g52r1"),
}


@functools.cache
def sample(gpu: str) -> Trace:
    """A small network; LeNet of a G71, on another Mali."""
    raw = (CHECKOUT / "tests" / "support" / SAMPLES.get(gpu, SAMPLES["mali_g71"])).read_bytes()
    return build(Trace.parse(raw), source=raw) if gpu in SAMPLES else build(retarget(Trace.parse(raw), gpu)[0])


def end_of_last_job(trace: Trace) -> tuple[int, int]:
    """Its WAIT_IRQ, and the first COPY_FROM_GPU after that."""
    ops = list(trace.actions["op"])
    wait = len(ops) - 1 - ops[::-1].index(Op.WAIT_IRQ)
    return wait, ops.index(Op.COPY_FROM_GPU, wait)


def waiting(trace: Trace) -> Trace:
    """Nothing but the interrupt lies between the last job and the copy of its output."""
    wait, copy = end_of_last_job(trace)
    return trace.with_(actions=np.delete(trace.actions, np.s_[wait + 1 : copy]))


def polling(trace: Trace) -> Trace:
    """The same with the register that says so, in the place of the interrupt."""
    wait, _ = end_of_last_job(trace)
    said = trace.actions[wait + 1]
    assert said["op"] == Op.REG_READ_ONCE
    value = int(said["value"])
    poll = action(Op.REG_READ_WAIT, register=int(said["arg"]), expected=value, mask=value, timeout_us=100000)
    actions = waiting(trace).actions.copy()
    actions[wait] = np.array(poll, dtype=actions.dtype)
    return trace.with_(actions=actions)


def run(
    fw: Firmware,
    virtual: str,
    data: bytes,
    *,
    at_start: Callable[[CheckedMachine], None] = lambda _machine: None,
    kind: type[CheckedMachine] = CheckedMachine,
    **trouble: int,
) -> tuple[list[Finding], Report | None]:
    """Serve a request; what the checker finds, and the report, if there is one."""
    sample = Delivery(data).trace
    buffers = bind(sample, values(sample, 1) if sample else {})
    dram = np.frombuffer(mmap.mmap(-1, MIB), np.uint8)
    carveout = np.frombuffer(mmap.mmap(-1, fw.board.carveout_bytes), np.uint8)
    places = mailbox.request(dram.data, data, buffers, 1)
    memory, findings = {fw.board.carveout_base: carveout}, []
    with VirtualGpu(virtual, memory, track_access=True, latency_ns=6000, **trouble) as gpu:  # type: ignore[arg-type]
        machine = kind(fw, gpu, carveout, dram)
        at_start(machine)
        try:
            machine.run()
        except CacheError as error:
            findings = error.findings
    is_served = machine.uart.startswith(b"=")
    return findings, mailbox.response(dram.data, buffers, places) if is_served else None


def exception_at(name: str, count: int = 1) -> Callable[[CheckedMachine], None]:
    """The processor takes an exception when a function is called for the `count`-th time."""

    def arrange(machine: CheckedMachine) -> None:
        address, left = symbols(machine._fw.folder)[name], [count]

        def take(engine: Any, at: int, _size: int, _user: Any) -> None:
            left[0] -= 1
            if left[0] == 0:
                engine.reg_write(arm64.UC_ARM64_REG_ELR_EL3, at)
                engine.reg_write(arm64.UC_ARM64_REG_PC, machine._fw.entry + VECTOR)

        machine._uc.hook_add(uc.UC_HOOK_CODE, take, None, address, address)

    return arrange


@functools.cache
def symbols(folder: Path) -> dict[str, int]:
    """Functions and where they begin; a compiler's endings are left out."""
    with (folder / firmware.ELF).open("rb") as file:
        table = ELFFile(file).get_section_by_name(".symtab")
        assert isinstance(table, SymbolTableSection)
        rows = [
            (row.name.partition(".")[0], row["st_value"], row["st_info"]["type"]) for row in table.iter_symbols()
        ]
    return {
        name: at
        for name, at, kind in rows
        if kind in ("STT_FUNC", "STT_NOTYPE") and name[:1] not in ("", "$") and not name.isupper()
    }


def named(fw: Firmware) -> Iterator[tuple[str, Found]]:
    """Each barrier and each cache operation, by function, instruction and number in it."""
    # of two names of one place, the first by the alphabet
    places = sorted({at: name for name, at in sorted(symbols(fw.folder).items(), reverse=True)}.items())
    seen: Counter[str] = Counter()
    for row in instructions(fw.segments):
        if isinstance(row.what, Barrier | Maintenance):
            what = row.what.value if isinstance(row.what, Maintenance) else str(row.what)
            name = f"{[name for at, name in places if at <= row.address][-1]}: {what}"
            seen[name] += 1
            yield f"{name} {seen[name]}", row


def patched(fw: Firmware, changes: dict[int, int]) -> Firmware:
    """The firmware with other words at addresses."""
    segments = []
    for base, data in fw.segments:
        words = bytearray(data)
        for at, word in changes.items():
            if base <= at < base + len(data):
                struct.pack_into("<I", words, at - base, word)
        segments.append((base, bytes(words)))
    return replace(fw, segments=tuple(segments))


def without(fw: Firmware, row: Found) -> Firmware:
    """The firmware with a NOP in an instruction's place."""
    return patched(fw, {row.address: NOP})


def mapped_cached(kind: Kind) -> Callable[[Firmware], Firmware]:
    """What the tables map as one kind is cacheable: the low word of a descriptor has the index into MAIR."""

    def change(fw: Firmware) -> Firmware:
        words: dict[int, int] = {}
        for base, data in fw.segments:
            for at in range(0, len(data) - 7, 8):
                entry = int.from_bytes(data[at : at + 8], "little")
                if entry & 1 and entry & ~(OUTPUT | 3) == kind.value:
                    words[base + at] = (entry ^ Kind.UNCACHED.value ^ Kind.DATA.value) & 0xFFFFFFFF
        assert words
        return patched(fw, words)

    return change


def words(fw: Firmware, start: str, end: str = "") -> dict[int, int]:
    """Address -> word of a function, with the constants behind it; or of all up to another one."""
    places = symbols(fw.folder)
    first = places[start]
    last = places[end] if end else min(at for at in places.values() if at > first)
    ((base, data),) = [(base, data) for base, data in fw.segments if base <= first < base + len(data)]
    found = struct.unpack_from(f"<{(last - first) // 4}I", data, first - base)
    return dict(zip(range(first, last, 4), found, strict=True))


def call(fw: Firmware, caller: str, called: str) -> int:
    """The address of the only call of a function in another."""
    target = symbols(fw.folder)[called]
    (at,) = [
        at for at, word in words(fw, caller).items() if word == 0x94000000 | (target - at) // 4 & (1 << 26) - 1
    ]
    return at
