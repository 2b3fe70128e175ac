# SPDX-License-Identifier: BSD-2-Clause
"""Requests with deadlines in a bare-metal firmware's mailbox, on Unicorn and in QEMU."""

from __future__ import annotations

import json
import mmap
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from host_tools.model import parts
from host_tools.runners import firmware, libraries, qemu, secure_machine, unicorn
from host_tools.vgpu.binding import VirtualGpu
from tee_replayer.generator.generate import generate
from tee_replayer.generator.options import Options
from tee_replayer.generator.platforms import platform_of
from tee_replayer.generator.status import Report, value_of
from tests.support import replayer_samples as s
from tests.support.bare_metal import require
from tests.support.firmware_samples import GCC, STRICT
from tests.vgpu.test_joined import PAIR, expected, inputs, joint, single
from trace_format import packing
from trace_format.operators import used
from trace_format.schema import SlotKind
from trace_format.schema.mailbox import (
    MAILBOX_BUFFERS,
    MAILBOX_DATA_AT,
    MAILBOX_REQUEST,
    MAILBOX_RESPONSE_AT,
)

QUEUE = 8
ANY_TIME = (1 << 64) - 1
TIMEOUT_S = 7200
LATER = 1 << 62  # microseconds; requests that differ by a little more are due in that order


Memory = NDArray[np.uint8]
# Boots firmware with a mailbox, for the virtual GPU with options; all of the carve-out is wiped then.
MachineRun = Callable[[firmware.Firmware, Memory, dict[str, Any]], None]


def on_unicorn(fw: firmware.Firmware, mailbox: Memory, options: dict[str, Any]) -> None:
    """As MachineRun."""
    carveout = np.frombuffer(mmap.mmap(-1, fw.board.carveout_bytes), np.uint8)
    with VirtualGpu("v3d42", {fw.board.carveout_base: carveout}, **options) as device:
        unicorn.Machine(fw, device, carveout, mailbox).run()
    assert not carveout.any()


def on_qemu(fw: firmware.Firmware, mailbox: Memory, options: dict[str, Any]) -> None:
    """As MachineRun; the options are the plugin's."""
    board = fw.board
    at = board.mailbox_base - secure_machine.DRAM_BASE
    machine = qemu.machine_of(fw, "v3d42")
    size = -(-(at + len(mailbox)) // secure_machine.MIB) * secure_machine.MIB
    with tempfile.TemporaryDirectory() as name, secure_machine.dram(size, at, len(mailbox)) as (path, memory):
        stats = Path(name) / "stats.json"
        with memory[at : at + len(mailbox)] as shared:
            shared[:] = mailbox.tobytes()
            secure_machine.run(machine, path, {**options, "stats": str(stats)}, TIMEOUT_S)
            mailbox[:] = np.frombuffer(shared, np.uint8)
        assert json.loads(stats.read_text())["carveout_bytes_left"] == 0


@dataclass
class Asked:
    """A request: what network, after how many microseconds it is due, and with which input; the answer to it."""

    network: int
    due_us: int
    seed: int
    status: int = 0
    order: int = 0


def scheduling_firmware(folder: Path, networks: int = 2) -> firmware.Firmware:
    """Firmware with a queue, in a new folder; the test is skipped without a compiler."""
    require(GCC, "gcc-aarch64-linux-gnu")
    generate(make_options(networks=networks, schedule=QUEUE, operators=used(joint(PAIR).trace.actions)), folder)
    firmware.compile_firmware(folder, STRICT)
    return firmware.load(folder)


def make_options(**options: Any) -> Options:
    """Options of the emulated board."""
    return Options("v3d42", platform_of("qemu-virt"), s.KEY, libraries.source(), **options)


class Mailbox:
    """A firmware's mailbox, with a trace and what is asked of it."""

    def __init__(self, fw: firmware.Firmware, machine: MachineRun = on_unicorn) -> None:
        self.fw, self.machine = fw, machine
        self.memory = np.frombuffer(mmap.mmap(-1, 8 << 20), np.uint8)
        self.at = MAILBOX_DATA_AT
        self.buffers: list[dict[str, int]] = []

    def put(self, data: bytes) -> int:
        """Where data lies."""
        place = self.at
        self.memory[place : place + len(data)] = np.frombuffer(data, np.uint8)
        self.at += -(-len(data) // 64) * 64
        return place

    def buffer(self, slot: int, offset: int, size: int, step: int = 0) -> None:
        """A buffer as it is."""
        self.buffers.append({"slot": slot, "step": step, "offset": offset, "bytes": size})

    def run(self, signed: bytes, repeat: int = 1, **options: Any) -> tuple[int, Report]:
        """Boot the firmware; how many replays it has done, and what it reports. All of its memory is wiped."""
        size, row = packing.size_of("mailbox_request"), packing.size_of("mailbox_buffer")
        assert len(self.buffers) <= MAILBOX_BUFFERS
        place = self.put(signed)
        words = {
            "trace_offset": place,
            "trace_bytes": len(signed),
            "repeat": repeat,
            "buffer_count": len(self.buffers),
        }
        data = packing.pack("mailbox_request", words)
        data += b"".join(packing.pack("mailbox_buffer", buffer) for buffer in self.buffers)
        assert len(data) == size + row * len(self.buffers)
        self.memory[: len(data)] = np.frombuffer(data, np.uint8)
        self.machine(self.fw, self.memory, options)
        end = MAILBOX_RESPONSE_AT + packing.size_of("mailbox_response")
        answer = packing.unpack("mailbox_response", bytes(self.memory[MAILBOX_RESPONSE_AT:end]))
        return answer["replays"], Report(**answer["report"])


def serve(
    fw: firmware.Firmware,
    asked: Sequence[Asked],
    repeat: int = 1,
    *,
    names: Sequence[str] = PAIR,
    machine: MachineRun = on_unicorn,
    **options: Any,
) -> tuple[int, Report]:
    """Have firmware serve requests; outputs of those that it served are the single traces'."""
    trace, box = joint(names).trace, Mailbox(fw, machine)
    outputs: list[tuple[Asked, int, dict[str, tuple[int, int]]]] = []
    for one in asked:
        name = names[one.network]
        row = trace.networks[one.network]
        answer = box.put(bytes(packing.size_of("mailbox_answer")))
        box.buffer(MAILBOX_REQUEST + one.network, answer, one.due_us)
        places: dict[str, tuple[int, int]] = {}
        for index in range(row.first_slot, row.first_slot + row.slot_count):
            slot = trace.slots[index]
            own = slot.name.partition(parts.SEPARATOR)[2]
            if slot.kind is SlotKind.INPUT:
                data = inputs(single(name), one.seed)[own].tobytes()
            elif slot.kind is SlotKind.OUTPUT:
                data = bytes(slot.dense_bytes)
            else:
                continue
            place = box.put(data)
            box.buffer(index, place, len(data))
            if slot.kind is SlotKind.OUTPUT:
                places[own] = place, len(data)
        outputs.append((one, answer, places))
    done, report = box.run(s.signed(trace), repeat, **options)
    for one, at, places in outputs:
        found = packing.unpack("mailbox_answer", bytes(box.memory[at : at + packing.size_of("mailbox_answer")]))
        one.status, one.order = found["status"], found["order"]
        if one.status == value_of("OK"):
            got = {name: bytes(box.memory[place : place + size]) for name, (place, size) in places.items()}
            assert got == expected(names[one.network], one.seed)
    return done, report


def mixed(count: int, seed: int, networks: int = 2) -> list[Asked]:
    """Requests at random, due in random order."""
    random = np.random.default_rng(seed)
    return [
        Asked(int(random.integers(networks)), LATER + (int(random.integers(1000)) << 40), int(random.integers(3)))
        for _ in range(count)
    ]
