# SPDX-License-Identifier: BSD-2-Clause
"""A bring-up kit: the firmware, what its mailbox holds, and what an emulation of the board says.

The firmware is a generated folder with another main.c, so nothing of it is in a device's firmware.
"""

from __future__ import annotations

import mmap
import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from host_tools.extras.bringup.console import lines_of
from host_tools.extras.bringup.stages import MARK_BYTES, STEP
from host_tools.flash import names
from host_tools.runners import firmware as firmwares
from host_tools.runners import nor_flash, qemu, raspi4b, secure_machine, unicorn
from host_tools.runners.replay import RunnerError
from tee_replayer.generator import boards, device_record
from trace_format.files import read_file
from trace_format.profile import Profile
from trace_format.schema import SlotKind

FIRMWARE, CARD, REQUEST, EXPECTED = "firmware", "card", "request.bin", "expected.txt"
MAIN, HEADER = "main.c", "bringup.h"
LATENCY_NS = 100_000  # of the emulated GPU's jobs


def write_firmware(generated: Path, folder: Path, profile: Profile, request: bytes) -> firmwares.Firmware:
    """Copy a generated folder, give it the bring-up's program, and compile it.

    Args:
        generated: folder of `generate` for a board.
        folder: that is made.
        profile: of the GPU.
        request: all requests, whose mark the program has too.

    Raises:
        RunnerError: it is no such folder, or does not compile.
    """
    if not (generated / MAIN).is_file() or not (generated / "port.h").is_file():
        raise RunnerError(f"{generated}: expected a folder of 'generate' for a bare-metal board, found no {MAIN}")
    shutil.copytree(generated, folder, ignore=shutil.ignore_patterns("*.o", "firmware.*[!d]", "build.flags"))
    (folder / MAIN).write_bytes(read_file(Path(__file__).with_name("bringup.c")))
    (folder / HEADER).write_text(header(profile, request), encoding="utf-8")
    firmwares.compile_firmware(folder)
    return firmwares.load(folder)


def header(profile: Profile, request: bytes) -> str:
    """What the program knows of the GPU, its identity and the registers that a trace may read, and of the kit."""
    found = sorted(profile.by_offset.items())
    rows = ", ".join(f"{offset:#x}" for offset, one in found if one.readable and not one.hidden and one.modelled)
    return (
        "/* SPDX-License-Identifier: BSD-2-Clause */\n"
        f"/* Written by `gramophone bringup make`: the {profile.title}. */\n"
        f"#define BRINGUP_STEP {STEP:#x}u\n"
        f"#define BRINGUP_KIT {int.from_bytes(request[-MARK_BYTES:], 'little'):#010x}u\n"
        f"#define BRINGUP_KIT_AT {len(request) - MARK_BYTES:#x}u\n"
        f"#define BRINGUP_IDENTITY {profile.identity.offset:#x}u\n"
        f"#define BRINGUP_IDENTITY_MASK {profile.identity_mask:#x}u\n"
        f"#define BRINGUP_IDENTITY_VALUE {profile.identity_value:#x}u\n"
        f"#define BRINGUP_OUTPUT {int(SlotKind.OUTPUT)}\n"
        f"#define BRINGUP_REGISTERS {rows}\n"
    )


def devices_of(fw: firmwares.Firmware) -> dict[str, Any]:
    """What a firmware's features need of the emulated machine: an erased flash, a clock that is right."""
    features = device_record.read(fw.folder / device_record.FILE).features
    flash = bytes([nor_flash.ERASED]) * nor_flash.PLACE.bytes if features.store else b""
    return {"flash": flash, "clock": int(time.time()) if features.clock else None}


def emulate(
    fw: firmwares.Firmware,
    request: bytes,
    gpu: str,
    timeout_s: float = 0,
    devices: Mapping[str, Any] | None = None,
) -> str:
    """What the console says in Unicorn, which has no time limit; `devices`: of `devices_of`.

    Raises:
        RunnerError, VgpuError: as the runner.
    """
    devices = devices_of(fw) if devices is None else devices
    block = unicorn.power_block(fw.board)
    gpu = block.GPU if block else gpu
    dram = np.frombuffer(mmap.mmap(-1, len(request)), np.uint8)
    dram[:] = np.frombuffer(request, np.uint8)
    carveout = np.frombuffer(mmap.mmap(-1, fw.board.carveout_bytes), np.uint8)
    with unicorn.VirtualGpu(gpu, {fw.board.carveout_base: carveout}, latency_ns=LATENCY_NS) as device:
        machine = unicorn.Machine(fw, device, carveout, dram, **devices)
        machine.run()
    return machine.uart.decode("ascii", "replace")


def card(board: boards.Board, stub: bytes, request: bytes) -> dict[str, bytes]:
    """Files to copy to the card of a board that starts from one; none for other boards."""
    if board.flashed_with.kind != "card":
        return {}
    where = f"{REQUEST} {board.memory['mailbox'].base:#010x}"
    lines = (*names.CARD_LINES, *names.mailbox_lines(where), *names.KERNEL_LINES)
    config = "\n".join(lines).encode()
    return {names.CONFIG: config, names.ARMSTUB: stub, REQUEST: request, names.KERNEL: names.PARKED}


def timed(number: int) -> str:
    """File of a timed trace."""
    return f"timed-{number}.gtr"


def emulate_qemu(fw: firmwares.Firmware, request: bytes, gpu: str, timeout_s: float) -> str:
    """What the console says in QEMU's machine "virt".

    Raises:
        RunnerError: the firmware is for another machine, or QEMU does not get through.
    """
    qemu.check_board(fw)
    at = fw.board.mailbox_base - secure_machine.DRAM_BASE
    size = -(-(at + len(request)) // secure_machine.MIB) * secure_machine.MIB
    with secure_machine.dram(size, at, len(request)) as (path, memory):
        memory[at : at + len(request)] = request
        return lines_of(secure_machine.run(qemu.machine_of(fw, gpu), path, None, timeout_s))


def emulate_raspi4b(fw: firmwares.Firmware, request: bytes, gpu: str, timeout_s: float) -> str:
    """What the console says on QEMU's Raspberry Pi 4.

    Raises:
        RunnerError: as `emulate_qemu`.
    """
    place = raspi4b.BOARD.devices["gpu"].base
    if fw.board.gpu_base != place:
        raise RunnerError(f"{fw.folder}: made for another board: expected its GPU at {place:#x}")
    at = fw.board.mailbox_base
    with secure_machine.dram(raspi4b.RAM_BYTES, at, len(request)) as (path, memory):
        raspi4b.load(memory, read_file(fw.binary), {raspi4b.KERNEL: raspi4b.POWER_OFF})
        memory[at : at + len(request)] = request
        return lines_of(secure_machine.run_qemu(raspi4b.command(path), path, timeout_s))


EMULATIONS = {"unicorn": emulate, "qemu": emulate_qemu, "raspi4b": emulate_raspi4b}


def further_lines(us: Sequence[float], hashes: Mapping[str, str]) -> str:
    """Lines that no console says, for what a board is compared with: times of the timed traces by the model of a
    chip, and hashes of pages before their jobs."""
    lines = [f"estimate trace={number} us={one:.0f}" for number, one in enumerate(us)]
    lines += [f"before {name} sha256={digest}" for name, digest in hashes.items()]
    return "".join(f"{line}\n" for line in lines)


def check(folder: Path) -> None:
    """RunnerError: a folder is no kit."""
    for name in (REQUEST, EXPECTED, f"{FIRMWARE}/{device_record.FILE}"):
        if not (folder / name).is_file():
            raise RunnerError(f"{folder}: expected a folder of 'gramophone bringup make', found no {name}")


def gpu_of(generated: Path) -> str:
    """The GPU that a folder was generated for."""
    return device_record.read(generated / device_record.FILE).gpu
