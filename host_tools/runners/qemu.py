# SPDX-License-Identifier: BSD-2-Clause
"""Replays in the secure world of stock QEMU: the firmware at EL3, in the machine of `secure_machine.py`."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from host_tools.runners import evidence, mailbox, nor_flash
from host_tools.runners import firmware as firmwares
from host_tools.runners.buffers import bound
from host_tools.runners.needs import gpu_of
from host_tools.runners.replay import ReplayResult, RunnerError, result
from host_tools.runners.requests import BoardRequest, MachineRequest, WatchedRequest
from host_tools.runners.secure_machine import DRAM_BASE, MIB, Machine, dram, instructions, run
from host_tools.runners.watching import watched
from tee_replayer.generator import boards
from tee_replayer.generator.interrupts import LISTED

DEVICE = "QEMU virt, EL3, secure world"
TIMEOUT_S = 600


@dataclass(frozen=True, kw_only=True)
class QemuRequest(MachineRequest, BoardRequest, WatchedRequest):
    """What it takes."""


REQUEST = QemuRequest


def replay(request: QemuRequest) -> ReplayResult:
    """As Runner: the firmware verifies, loads and replays.

    Raises:
        RunnerError: the firmware is for a real board, or QEMU is missing, did not end, or gave no answer; the
            message has QEMU's own words.
    """
    delivery = request.delivery
    gpu = gpu_of(delivery, request.gpu)
    fw = firmwares.firmware_for(request)
    board = fw.board
    if board.power_base:
        raise RunnerError(f"{request.firmware}: made for a board that QEMU does not have; its model: --on unicorn")
    check_board(fw)
    buffers = bound(request)
    machine = machine_of(fw, gpu, _options(request))
    room, heads = evidence.extras(request), mailbox.heads_of(delivery.trace, fw.has_queue)
    at, used = board.mailbox_base - DRAM_BASE, mailbox.layout(delivery.data, buffers, room, heads).size
    with dram(-(-(at + used) // MIB) * MIB, at, used) as (path, memory), memory[at:] as shared:
        places = mailbox.request(shared, delivery.data, buffers, request.repeat, room, heads)
        with watched(request, shared, buffers, places):
            run(machine, path, request.plugin_args, request.timeout_s or TIMEOUT_S, request.store)
        report = mailbox.response(shared, buffers, places)
        said = evidence.answer(shared, request, places)
    return result(report, DEVICE, buffers.outputs, instructions(report), delivery, gpu, said)


def machine_of(fw: firmwares.Firmware, gpu: str, options: tuple[str, ...] = ()) -> Machine:
    """The machine that a firmware is for; `options` are further ones of QEMU."""
    board = fw.board
    return Machine(
        image=fw.binary,
        gic=2,
        serials=("null", "stdio"),
        gpu=gpu,
        gpu_base=board.gpu_base,
        gpu_spi=board.gpu_spi,
        carveout_base=board.carveout_base,
        carveout_bytes=board.carveout_bytes,
        options=options,
    )


def check_board(fw: firmwares.Firmware) -> None:
    """Refuse firmware for another machine: it would wait for devices until the time limit.

    The GPU's place and the carve-out are the firmware's own: they are not the machine's, but the plugin's.

    Raises:
        RunnerError: what the machine has elsewhere, or not.
    """
    here = boards.load(boards.QEMU_VIRT)
    rom, ram = here.memory["rom"], here.memory["ram"]
    first, last = min(at for at, _ in fw.segments), max(at + len(data) for at, data in fw.segments)
    has = (
        ("code", rom.base <= first and last <= rom.end, f"{rom.base:#x}", f"{first:#x}"),
        ("data", ram.base <= fw.ram[0] and sum(fw.ram) <= ram.end, f"{ram.base:#x}", f"{fw.ram[0]:#x}"),
        ("GPU's interrupts", fw.board.gpu_spi < LISTED, "one after another", "others"),
        ("mailbox", fw.board.mailbox_base >= DRAM_BASE, f"{DRAM_BASE:#x} or above", f"{fw.board.mailbox_base:#x}"),
        *(
            (what, place == here.devices[name].base, f"{here.devices[name].base:#x}", f"{place:#x}")
            for what, name, place in (
                ("interrupt controller", "gic", fw.board.gic_base),
                ("UART", "uart", fw.board.uart_base),
            )
        ),
    )
    for what, fits, expected, found in has:
        if not fits:
            raise RunnerError(
                f"{fw.folder}: made for another machine than QEMU's: expected its {what} at {expected}, found "
                f"{found}; there is no model of that board ('platform = \"{boards.QEMU_VIRT}\"' in a device "
                "file makes one that runs here)"
            )


def _options(request: QemuRequest) -> tuple[str, ...]:
    """Of QEMU, for the devices that keep something: flash and clock."""
    flash = nor_flash.qemu_options(nor_flash.prepared(request.flash)) if request.flash else ()
    if request.clock is None:
        return flash
    base = datetime.fromtimestamp(request.clock, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return (*flash, "-rtc", f"base={base},clock=vm")
