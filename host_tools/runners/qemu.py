"""Replays in the secure world of stock QEMU: the firmware at EL3, in the machine of `secure_machine.py`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from host_tools.runners import firmware as firmwares
from host_tools.runners import mailbox
from host_tools.runners.replay import (
    ReplayResult,
    RunnerError,
    Tensor,
    bind,
    gpu_of,
    open_trace,
    result,
    secure_bytes,
)
from host_tools.runners.secure_machine import DRAM_BASE, MIB, Machine, dram, instructions, run
from signing.keys import PublicKey

DEVICE = "QEMU virt, EL3, secure world"


def replay(
    signed: bytes,
    key: PublicKey,
    inputs: Mapping[str, Tensor] | None = None,
    *,
    gpu: str | None = None,
    repeat: int = 1,
    min_security_version: int = 0,
    firmware: Path | None = None,
    timeout_s: float = 600,
    plugin_args: Mapping[str, str] | None = None,
) -> ReplayResult:
    """Boot the firmware, have it verify, load and replay a signed trace.

    Args:
        signed: the file.
        key: whose traces the firmware accepts; an ES256 key.
        inputs: slot name -> tensor; those left out keep the recording's value.
        gpu: the virtual GPU; without it that of the trace.
        repeat: replays in a row; the outputs are the last one's.
        min_security_version: older traces are refused.
        firmware: folder of a compiled firmware; without it one is made for `key`.
        timeout_s: of real time, for the whole run.
        plugin_args: further arguments of the QEMU plugin (host_tools/vgpu/qemu).

    Raises:
        InputError: a tensor does not fit.
        RunnerError: the firmware is for a real board, or QEMU is missing, did not end, or gave no answer; its own
            words are in the message.
    """
    trace = open_trace(signed)
    gpu = gpu_of(signed, gpu)
    fw = (
        firmwares.load(firmware)
        if firmware
        else firmwares.build(key, gpu, min_security_version, carveout_bytes=secure_bytes(trace, signed))
    )
    board = fw.board
    if board.power_base:
        raise RunnerError(f"{firmware}: made for a board that QEMU does not have; its model: --on unicorn")
    buffers = bind(trace, inputs or {})
    machine = Machine(
        image=fw.binary,
        gic=2,
        serials=("null", "stdio"),
        gpu=gpu,
        gpu_base=board.gpu_base,
        gpu_spi=board.gpu_spi,
        carveout_base=board.carveout_base,
        carveout_bytes=board.carveout_bytes,
    )
    need = board.mailbox_base - DRAM_BASE + mailbox.layout(signed, buffers).size
    with dram(-(-need // MIB) * MIB) as (path, memory), memory[board.mailbox_base - DRAM_BASE :] as shared:
        places = mailbox.request(shared, signed, buffers, repeat)
        run(machine, path, plugin_args, timeout_s)
        report = mailbox.response(shared, buffers, places)
    return result(report, DEVICE, buffers, instructions(report), signed, gpu)
