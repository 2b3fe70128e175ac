"""Replays through OP-TEE: TF-A, OP-TEE's core with our pseudo-TA, and a small normal world on stock QEMU.

The virtual GPU and the carve-out are secure-only. As in `qemu.py`, the normal world's memory is a file that this
process maps too, and time counts instructions; those of the core are among them.
"""

from __future__ import annotations

import mmap
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Mapping
from math import prod
from pathlib import Path

from host_tools.emulate import mailbox
from host_tools.emulate.qemu import DRAM_BASE, MIB, NS_PER_US
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
from host_tools.optee import build as optee
from host_tools.vgpu import build
from signing.keys import PublicKey
from trace_format.schema import DTYPE_BYTES
from trace_format.trace import Trace

MAILBOX_BASE = 0x48000000  # baremetal/optee/normal_world.h
NORMAL_WORLD_BASE = 0x60000000  # where TF-A starts it: baremetal/optee/normal_world.ld
# TF-A's platform "qemu" leaves the normal world memory from 1 GiB on; OP-TEE's takes part of its end.
DRAM_BYTES = 1057 * MIB
RESULT = struct.Struct("<II")
RESULT_AT = mailbox.RESPONSE_AT + 96  # behind struct mailbox_response
OUT_OF_MEMORY = 0xFFFF000C  # GlobalPlatform's TEE_ERROR_OUT_OF_MEMORY
ERROR, STATUS_BITS = 0x80000000, 0x0FFFFFFF  # GRAMOPHONE_RESULT of tee_replayer/optee/gramophone_pta.h
SLOT_ALIGNMENT = 64  # gramophone_pta.c
DEVICE = "QEMU virt, OP-TEE, secure world"


def tee_result(status: int) -> int:
    """The TEE_Result that the pseudo-TA gives for a replayer's status other than GR_STATUS_OK."""
    return ERROR | status & STATUS_BITS


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
    """Boot OP-TEE, have its pseudo-TA verify, load and replay a signed trace.

    Args:
        signed: the file.
        key: whose traces the pseudo-TA accepts; an ES256 key.
        inputs: slot name -> tensor; those left out keep the recording's value.
        gpu: the virtual GPU; without it that of the trace.
        repeat: replays in a row; the outputs are the last one's.
        min_security_version: older traces are refused.
        firmware: folder that `generate --platform optee` wrote; without it one is made for `key`.
        timeout_s: of real time, for the whole run.
        plugin_args: further arguments of the QEMU plugin (host_tools/vgpu/qemu).

    Raises:
        InputError: a tensor does not fit.
        RunnerError: OP-TEE cannot be built, QEMU is missing, did not end, or the pseudo-TA gave no report.
    """
    trace = open_trace(signed)
    gpu = gpu_of(signed, gpu)
    if firmware:
        image = optee.image_of(firmware)
    else:
        sizes = {"secure_bytes": secure_bytes(trace, signed), "staged_bytes": staged_bytes(trace, signed)}
        image = optee.image(key, gpu, min_security_version, **sizes)
    buffers = bind(trace, inputs or {})
    if mailbox.layout(signed, buffers).size > NORMAL_WORLD_BASE - MAILBOX_BASE:
        raise RunnerError("the trace and its tensors do not fit the emulated machine's memory")
    with tempfile.TemporaryDirectory(prefix="gramophone-") as name:
        path = Path(name) / "dram"
        with path.open("w+b") as file:
            file.truncate(DRAM_BYTES)
            with mmap.mmap(file.fileno(), DRAM_BYTES) as dram:
                memory = memoryview(dram)[MAILBOX_BASE - DRAM_BASE : NORMAL_WORLD_BASE - DRAM_BASE]
                try:
                    places = mailbox.request(memory, signed, buffers, repeat)
                    said = run(image, path, gpu, plugin_args or {}, timeout_s)
                    report = mailbox.response(memory, buffers, places)
                    code, origin = RESULT.unpack_from(memory, RESULT_AT)
                finally:
                    memory.release()
    if code == OUT_OF_MEMORY:
        raise RunnerError(
            "the signed trace, or its inputs and outputs, do not fit the pseudo-TA's staging area, a quarter of "
            f"{image.board.carveout_bytes} bytes: 'gramophone generate --carveout-mib' makes it larger"
        )
    if code != (0 if report.ok else tee_result(report.status)):
        raise RunnerError(
            f"OP-TEE answered {code:#010x} from origin {origin}, the replayer {report.name}. {said}".strip()
        )
    instructions = Instructions(*(us * NS_PER_US for us in (report.verify_us, report.load_us, report.replay_us)))
    return result(report, DEVICE, buffers, instructions, signed, gpu)


def staged_bytes(trace: Trace | None, signed: bytes) -> int:
    """The staging area that the pseudo-TA needs: first for the signed trace, then for all slots."""
    slots = trace.slots if trace else ()
    return max(len(signed), sum(prod(slot.shape) * DTYPE_BYTES[slot.dtype] + SLOT_ALIGNMENT for slot in slots))


def run(image: optee.Image, dram: Path, gpu: str, plugin_args: Mapping[str, str], timeout_s: float) -> str:
    """Run the machine to the normal world's exit.

    Args:
        image: the firmware.
        dram: file of DRAM_BYTES, the normal world's memory.
        gpu: the virtual GPU.
        plugin_args: further arguments of the QEMU plugin.
        timeout_s: of real time.

    Returns:
        What QEMU and the machine's serial ports said, in one line.

    Raises:
        RunnerError: QEMU is missing, did not end, or the normal world took an exception.
    """
    qemu = shutil.which(build.QEMU)
    if qemu is None:
        raise RunnerError(f"{build.QEMU} is not installed (apt-get install qemu-system-arm)")
    board = image.board
    arguments = {
        "gpu": gpu,
        "base": f"{board.gpu_base:#x}",
        "irq": str(board.gpu_intid - 32),
        "secure": "on",
        "carveout": f"{board.carveout_base:#x}:{board.carveout_bytes:#x}",
    } | dict(plugin_args)
    option = ",".join([str(build.qemu_plugin()), *(f"{name}={value}" for name, value in arguments.items())])
    memory = f"memory-backend-file,id=ram,size={DRAM_BYTES},mem-path={dram},share=on"
    command = [
        *(qemu, "-M", "virt,secure=on,gic-version=3,memory-backend=ram", "-object", memory),
        *("-m", f"{DRAM_BYTES // MIB}M", "-cpu", "cortex-a72", "-smp", "1", "-nic", "none", "-display", "none"),
        *("-monitor", "none", "-serial", "stdio", "-serial", "file:/dev/stderr", "-semihosting"),
        *("-icount", "shift=0,sleep=off", "-bios", str(image.path), "-plugin", option),
    ]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=timeout_s, check=False
        )
    except subprocess.TimeoutExpired:
        raise RunnerError(f"QEMU did not end within {timeout_s:.0f} s") from None
    said = " ".join((done.stdout + done.stderr).split())
    if done.returncode not in (0, 1):  # of the normal world's own exit: accepted, refused
        raise RunnerError(f"QEMU ended with status {done.returncode}: {said or 'it said nothing'}")
    return said
