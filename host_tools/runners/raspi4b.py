# SPDX-License-Identifier: BSD-2-Clause
"""Replays on QEMU's Raspberry Pi 4: the firmware of `rpi4` at EL3, as the board's armstub, with the virtual V3D at
its place on the board. The normal world is a program that powers the machine off.

The machine's memory is a file that this process maps too. `load` does there what the VideoCore's firmware does
before the start: it puts the stub at 0, and writes the addresses of device tree and kernel into it.

Not in here: QEMU itself (`machine/board_qemu.py`), and the board's description (baremetal/boards/rpi4.toml).
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from host_tools.machine.board_qemu import raspi4b_qemu
from host_tools.runners import firmware as firmwares
from host_tools.runners import mailbox
from host_tools.runners.buffers import bound
from host_tools.runners.replay import ReplayResult, RunnerError, result
from host_tools.runners.requests import MachineRequest, WatchedRequest
from host_tools.runners.secure_machine import ICOUNT, dram, run_qemu
from host_tools.runners.watching import watched
from host_tools.vgpu.build import plugin_option, qemu_plugin
from tee_replayer.generator import boards
from trace_format.files import read_file

DEVICE = "QEMU raspi4b, EL3"
TIMEOUT_S = 600
BOARD = boards.load("rpi4")
RAM_BYTES = 2 << 30  # the machine has no other size
# Words of an armstub (baremetal/armstub8.S), and where the VideoCore's firmware may put what they point to.
STUB_MAGIC_AT, STUB_MAGIC = 0xF0, 0x5AFE570B
KERNEL, TREE = 0x200000, 0x2EFF0000
IMAGE_MAGIC_AT, IMAGE_MAGIC = 56, b"ARMd"  # of a kernel: Linux Documentation/arch/arm64/booting.rst
# mov x0, PM; RSTS = "power off"; RSTC = full reset; 1: wfe; b 1b
POWER_OFF = bytes.fromhex(
    "00c2bfd2 a1aa8052 0140ab72 012000b9 01048052 0140ab72 011c00b9 5f2003d5 ffffff17"
).ljust(IMAGE_MAGIC_AT, b"\0") + IMAGE_MAGIC  # fmt: skip
# Of the virtual GPU's window: PM_GRAFX alone, because the machine has the rest of PM, its watchdog included, and
# both bridges, of which the second is Linux's (trace_format/gpus/v3d42.toml).
PIECES = "0xc10c:4:0xfe10010c+0x14000:0x24:0xfec11000+0x10000:0x24:0xfe00a000"


@dataclass(frozen=True, kw_only=True)
class Raspi4bRequest(MachineRequest, WatchedRequest):
    """What it takes."""


REQUEST = Raspi4bRequest


def replay(request: Raspi4bRequest) -> ReplayResult:
    """As Runner: the firmware verifies, loads and replays.

    Raises:
        RecordError: there is no QEMU with this machine.
        RunnerError: the firmware is for another board, or QEMU did not end, or gave no answer.
    """
    assert BOARD.gpu is not None
    if request.gpu not in (None, BOARD.gpu.virtual):
        raise RunnerError(f"{BOARD.title} has a {BOARD.gpu.virtual}, no {request.gpu}")
    fw = firmwares.firmware_for(request, BOARD.name)
    _check_board(fw)
    buffers = bound(request)
    heads = mailbox.heads_of(request.delivery.trace, fw.has_queue)
    size = mailbox.layout(request.delivery.data, buffers, heads=heads).size
    at = fw.board.mailbox_base
    if size > fw.board.mailbox_bytes:
        raise RunnerError(
            f"the trace and its tensors: expected at most {fw.board.mailbox_bytes} bytes of mailbox, found {size}"
        )
    with dram(RAM_BYTES, at, size) as (path, memory), memory[at : at + size] as shared:
        load(memory, read_file(fw.binary), {KERNEL: POWER_OFF})
        places = mailbox.request(shared, request.delivery.data, buffers, request.repeat, (), heads)
        with watched(request, shared, buffers, places):
            run_qemu(command(path, request.plugin_args), path, request.timeout_s or TIMEOUT_S)
        report = mailbox.response(shared, buffers, places)
    return result(report, DEVICE, buffers.outputs, None, request.delivery, BOARD.gpu.virtual)


def load(memory: memoryview, stub: bytes, files: Mapping[int, bytes]) -> None:
    """What the VideoCore's firmware does: stub, kernel at KERNEL, device tree at TREE, and other files by address.

    Raises:
        RunnerError: the stub does not ask for addresses.
    """
    found = stub[STUB_MAGIC_AT : STUB_MAGIC_AT + 4]
    if found != struct.pack("<I", STUB_MAGIC):
        raise RunnerError(f"the armstub at {STUB_MAGIC_AT:#x}: expected {STUB_MAGIC:#x}, found {found.hex()}")
    places = {0: stub, STUB_MAGIC_AT: struct.pack("<4I", 0, 0, TREE if TREE in files else 0, KERNEL), **files}
    for address, data in places.items():
        memory[address : address + len(data)] = data


def command(memory: Path, plugin_args: Mapping[str, str] | None = None, serial: str = "stdio") -> list[str]:
    """QEMU's command line for the machine with this file as its memory; `serial` is the option of that name.

    The plugin serves both worlds and reaches all of the memory, because the board has no firewall either. The
    controller's security extensions, which the board has and the machine lacks, are on: without them no interrupt
    reaches the normal world, since the stub puts all of them into group 1.
    """
    assert BOARD.gpu is not None
    qemu = raspi4b_qemu()
    arguments = {
        "gpu": BOARD.gpu.virtual,
        "base": f"{BOARD.devices['gpu'].base:#x}",
        "irq": str(BOARD.constants["gpu_spi"]),
        "ram": "0",
        "map": PIECES,
        **(plugin_args or {}),
    }
    return [
        *(qemu, "-M", "raspi4b,memory-backend=ram", "-global", "arm_gic.has-security-extensions=on"),
        *("-object", f"memory-backend-file,id=ram,size={RAM_BYTES},mem-path={memory},share=on"),
        *("-m", f"{RAM_BYTES >> 20}M", "-nic", "none", "-display", "none", "-monitor", "none", "-serial", serial),
        *("-no-reboot", *ICOUNT),
        *("-plugin", plugin_option(qemu_plugin(qemu), arguments)),
    ]


def _check_board(fw: firmwares.Firmware) -> None:
    """RunnerError: the firmware is for another board."""
    devices = {"gpu": fw.board.gpu_base, "gic": fw.board.gic_base, "uart": fw.board.uart_base}
    for name, found in devices.items():
        if found != BOARD.devices[name].base:
            raise RunnerError(
                f"{fw.folder}: made for another board than {BOARD.title}: expected {name} at "
                f"{BOARD.devices[name].base:#x}, found {found:#x} ('platform = \"{BOARD.name}\"' in a device file)"
            )
