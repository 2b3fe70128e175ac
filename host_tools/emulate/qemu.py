"""Replays in the secure world of stock QEMU: the firmware at EL3, the virtual GPU and the carve-out secure-only.

The guest's normal-world memory is a file that this process maps too: the mailbox, the signed trace and the tensors
pass through it. With one instruction a nanosecond of guest time (-icount shift=0), time counts instructions.
"""

from __future__ import annotations

import mmap
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from host_tools.emulate import firmware as firmwares
from host_tools.emulate import mailbox
from host_tools.emulate.replay import (
    Instructions,
    ReplayResult,
    RunnerError,
    Tensor,
    bind,
    gpu_of,
    open_trace,
    result,
    secure_bytes,
)
from host_tools.vgpu import build
from signing.keys import PublicKey

DRAM_BASE = 0x40000000  # of the machine "virt"
MIB = 1 << 20
NS_PER_US = 1000
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
        RunnerError: QEMU is missing, did not end, or gave no answer; its own words are in the message.
    """
    trace = open_trace(signed)
    gpu = gpu_of(signed, gpu)
    fw = (
        firmwares.load(firmware)
        if firmware
        else firmwares.build(key, gpu, min_security_version, carveout_bytes=secure_bytes(trace, signed))
    )
    board = fw.board
    qemu = shutil.which(build.QEMU)
    if qemu is None:
        raise RunnerError(f"{build.QEMU} is not installed (apt-get install qemu-system-arm)")
    buffers = bind(trace, inputs or {})
    need = board.mailbox_base - DRAM_BASE + mailbox.layout(signed, buffers).size
    ram_bytes = -(-need // MIB) * MIB
    with tempfile.TemporaryDirectory(prefix="gramophone-") as name:
        path = Path(name) / "dram"
        with path.open("w+b") as file:
            file.truncate(ram_bytes)
            with mmap.mmap(file.fileno(), ram_bytes) as dram:
                memory = memoryview(dram)[board.mailbox_base - DRAM_BASE :]
                try:
                    places = mailbox.request(memory, signed, buffers, repeat)
                    arguments = {
                        "gpu": gpu,
                        "base": f"{board.gpu_base:#x}",
                        "irq": str(board.gpu_spi),
                        "secure": "on",
                        "carveout": f"{board.carveout_base:#x}:{board.carveout_bytes:#x}",
                    }
                    _run(qemu, fw, path, ram_bytes, arguments | dict(plugin_args or {}), timeout_s)
                    report = mailbox.response(memory, buffers, places)
                finally:
                    memory.release()
    instructions = Instructions(*(us * NS_PER_US for us in (report.verify_us, report.load_us, report.replay_us)))
    return result(report, DEVICE, buffers, instructions, signed, gpu)


def _run(
    qemu: str, fw: firmwares.Firmware, ram: Path, ram_bytes: int, arguments: Mapping[str, str], timeout_s: float
) -> None:
    option = ",".join([str(build.qemu_plugin()), *(f"{name}={value}" for name, value in arguments.items())])
    memory = f"memory-backend-file,id=ram,size={ram_bytes},mem-path={ram},share=on"
    command = [
        *(qemu, "-M", "virt,secure=on,gic-version=2,memory-backend=ram", "-object", memory),
        *("-m", f"{ram_bytes // MIB}M", "-cpu", "cortex-a72", "-smp", "1", "-nic", "none", "-display", "none"),
        *("-monitor", "none", "-serial", "null", "-serial", "stdio", "-semihosting"),
        *("-icount", "shift=0,sleep=off", "-bios", str(fw.binary), "-plugin", option),
    ]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=timeout_s, check=False
        )
    except subprocess.TimeoutExpired:
        raise RunnerError(f"QEMU did not end within {timeout_s:.0f} s") from None
    if done.returncode not in (0, 1):  # of the firmware's own exit: accepted, refused
        said = " ".join((done.stdout + done.stderr).split())
        raise RunnerError(f"QEMU ended with status {done.returncode}: {said or 'it said nothing'}")
