"""Replays through OP-TEE: TF-A, OP-TEE's core with our pseudo-TA, and a small normal world, in the machine of
`secure_machine.py`. The instructions counted include the core's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from host_tools.runners import mailbox, secure_machine
from host_tools.runners.optee import build as optee
from host_tools.runners.replay import (
    Buffers,
    ReplayResult,
    RunnerError,
    Tensor,
    bind,
    gpu_of,
    open_trace,
    result,
    secure_bytes,
)
from host_tools.runners.secure_machine import DRAM_BASE, MIB, SPI_BASE, dram, instructions
from signing.keys import PublicKey
from tee_replayer.status import Report
from trace_format import packing
from trace_format.schema.mailbox import MAILBOX_RESPONSE_AT
from trace_format.schema.optee import GRAMOPHONE_RESULT_ERROR, GRAMOPHONE_RESULT_STATUS
from trace_format.trace import Trace

MAILBOX_BASE = 0x48000000  # baremetal/optee/normal_world.h
NORMAL_WORLD_BASE = 0x60000000  # where TF-A starts it: baremetal/optee/normal_world.ld
# TF-A's platform "qemu" leaves the normal world memory from 1 GiB on; OP-TEE's takes part of its end.
DRAM_BYTES = 1057 * MIB
RESPONSE_BYTES = packing.size_of("normal_world_response")
OUT_OF_MEMORY = 0xFFFF000C  # GlobalPlatform's TEE_ERROR_OUT_OF_MEMORY
SLOT_ALIGNMENT = 64  # gramophone_pta.c
DEVICE = "QEMU virt, OP-TEE, secure world"


def tee_result(status: int) -> int:
    """The TEE_Result that the pseudo-TA gives for a replayer's status other than GR_STATUS_OK."""
    return GRAMOPHONE_RESULT_ERROR | status & GRAMOPHONE_RESULT_STATUS


@dataclass(frozen=True)
class Answer:
    """What the normal world got from OP-TEE.

    Attributes:
        code: TEE_Result of the first call that failed, or 0.
        origin: who gave it (TEEC_ORIGIN).
        report: the replayer's; None when there is none.
        said: what else the machine said.
    """

    code: int
    origin: int
    report: Report | None
    said: str


@dataclass(frozen=True)
class Question:
    """What a normal world asks for: arguments of `replay`, and what became of them. `buffers` take the outputs."""

    image: optee.Image
    gpu: str
    signed: bytes
    buffers: Buffers
    repeat: int
    timeout_s: float
    plugin_args: Mapping[str, str] | None


@dataclass(frozen=True)
class NormalWorld:
    """Who asks.

    Attributes:
        device: the machine, in words.
        program: as `host_tools.runners.optee.build.image_of`.
        ask: boots the machine.
    """

    device: str
    program: Path | None
    ask: Callable[[Question], Answer]


def ask(question: Question) -> Answer:
    """Boot the machine with the small normal world, which serves the mailbox."""
    signed, buffers = question.signed, question.buffers
    if mailbox.layout(signed, buffers).size > NORMAL_WORLD_BASE - MAILBOX_BASE:
        raise RunnerError("the trace and its tensors do not fit the emulated machine's memory")
    inside = slice(MAILBOX_BASE - DRAM_BASE, NORMAL_WORLD_BASE - DRAM_BASE)
    with dram(DRAM_BYTES) as (path, memory), memory[inside] as shared:
        places = mailbox.request(shared, signed, buffers, question.repeat)
        said = run(question.image, path, question.gpu, question.plugin_args, question.timeout_s)
        report = mailbox.response(shared, buffers, places)
        answer = bytes(shared[MAILBOX_RESPONSE_AT : MAILBOX_RESPONSE_AT + RESPONSE_BYTES])
    found = packing.unpack("normal_world_response", answer, MAILBOX_RESPONSE_AT)
    return Answer(found["result"], found["origin"], report, said)


BARE_METAL = NormalWorld(DEVICE, None, ask)


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
    normal_world: NormalWorld = BARE_METAL,
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
        normal_world: who asks the pseudo-TA.

    Raises:
        InputError: a tensor does not fit.
        RunnerError: OP-TEE cannot be built, QEMU is missing, did not end, or the pseudo-TA gave no report.
    """
    trace = open_trace(signed)
    gpu = gpu_of(signed, gpu)
    image = image_for(trace, signed, key, gpu, min_security_version, firmware, normal_world.program)
    buffers = bind(trace, inputs or {})
    answer = normal_world.ask(Question(image, gpu, signed, buffers, repeat, timeout_s, plugin_args))
    report = check_answer(answer, image)
    return result(report, normal_world.device, buffers, instructions(report), signed, gpu)


def image_for(
    trace: Trace | None,
    signed: bytes,
    key: PublicKey,
    gpu: str,
    min_security_version: int,
    firmware: Path | None,
    normal_world: Path | None,
) -> optee.Image:
    """The image that a replay boots: with the pseudo-TA in `firmware`, or else one that the trace fits.

    The arguments are those of `replay`, `normal_world` that of `host_tools.runners.optee.build.image_of`.
    """
    if firmware:
        return optee.image_of(firmware, normal_world)
    return optee.image(
        key,
        gpu,
        min_security_version,
        secure_bytes=secure_bytes(trace, signed),
        staged_bytes=staged_bytes(trace, signed),
        normal_world=normal_world,
    )


def check_answer(answer: Answer, image: optee.Image) -> Report:
    """Compare what the normal world got with the replayer's report; that report.

    Raises:
        RunnerError: there is none, or they do not say the same: the replayer was not asked, or was not heard.
    """
    if answer.code == OUT_OF_MEMORY:
        raise RunnerError(
            "the signed trace, or its inputs and outputs, do not fit the pseudo-TA's staging area, a quarter of "
            f"{image.board.carveout_bytes} bytes: 'gramophone generate --carveout-mib' makes it larger"
        )
    report = answer.report
    if report is None or answer.code != (0 if report.ok else tee_result(report.status)):
        name = report.name if report else "nothing"
        raise RunnerError(
            f"OP-TEE answered {answer.code:#010x} from origin {answer.origin}, the replayer {name}. "
            f"{answer.said}".strip()
        )
    return report


def staged_bytes(trace: Trace | None, signed: bytes) -> int:
    """The staging area that the pseudo-TA needs: first for the signed trace, then for all slots."""
    slots = trace.slots if trace else ()
    return max(len(signed), sum(slot.dense_bytes + SLOT_ALIGNMENT for slot in slots))


def run(
    image: optee.Image,
    memory: Path,
    gpu: str,
    plugin_args: Mapping[str, str] | None,
    timeout_s: float,
    cpus: int = 1,
    icount: bool = True,
) -> str:
    """Run the machine to the normal world's exit.

    Args:
        image: the firmware.
        memory: file of the normal world's memory, DRAM_BYTES long.
        gpu: the virtual GPU.
        plugin_args: further arguments of the QEMU plugin.
        timeout_s: of real time.
        cpus: cores.
        icount: time counts instructions; else it is real.

    Returns:
        What QEMU and the machine's serial ports said, in one line.

    Raises:
        RunnerError: QEMU is missing, did not end, or the normal world took an exception.
    """
    machine = replace(machine_of(image, gpu, "stdio"), cpus=cpus, icount=icount)
    return secure_machine.run(machine, memory, plugin_args, timeout_s)


def machine_of(image: optee.Image, gpu: str, serial: str) -> secure_machine.Machine:
    """The machine that an image is for; `serial` is what QEMU makes of the normal world's port."""
    board = image.board
    return secure_machine.Machine(
        image=image.path,
        gic=3,
        serials=(serial, "file:/dev/stderr"),
        gpu=gpu,
        gpu_base=board.gpu_base,
        gpu_spi=board.gpu_intid - SPI_BASE,
        carveout_base=board.carveout_base,
        carveout_bytes=board.carveout_bytes,
        firewall=board.firewall_base,
    )
