# SPDX-License-Identifier: BSD-2-Clause
"""Replays through OP-TEE: TF-A, OP-TEE's core with our pseudo-TA, and a normal world that invokes it.

The machine is that of `secure_machine.py`. The instructions counted include the core's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from host_tools.runners import libraries, secure_machine
from host_tools.runners.buffers import Buffers, bound
from host_tools.runners.needs import algorithms_in, decryption_for, gpu_of, is_streamed, operators_in, secure_bytes
from host_tools.runners.optee import images
from host_tools.runners.optee.images import Image
from host_tools.runners.replay import ReplayResult, RunnerError, result
from host_tools.runners.requests import MachineRequest
from signing.delivery import Delivery
from tee_replayer.generator.interrupts import LISTED
from tee_replayer.generator.status import Report
from trace_format.schema.optee import GRAMOPHONE_RESULT_ERROR, GRAMOPHONE_RESULT_STATUS

OUT_OF_MEMORY = 0xFFFF000C  # GlobalPlatform's TEE_ERROR_OUT_OF_MEMORY
SLOT_ALIGNMENT = 64  # gramophone_pta.c


def tee_result(status: int) -> int:
    """The TEE_Result that the pseudo-TA gives for a replayer's status other than GR_STATUS_OK."""
    return GRAMOPHONE_RESULT_ERROR | status & GRAMOPHONE_RESULT_STATUS


@dataclass(frozen=True)
class Request:
    """What a normal world has to do.

    Attributes:
        replay: the caller's request.
        image: firmware with the pseudo-TA and this normal world.
        gpu: the virtual GPU.
        buffers: the inputs; they take the outputs.
    """

    replay: MachineRequest
    image: Image
    gpu: str
    buffers: Buffers


@dataclass(frozen=True)
class Response:
    """What the normal world got from OP-TEE.

    Attributes:
        code: TEE_Result of the first call that failed, or 0.
        origin: who gave it (TEEC_ORIGIN).
        report: the replayer's; None when there is none.
        output: what else the machine printed.
    """

    code: int
    origin: int
    report: Report | None
    output: str


@dataclass(frozen=True)
class NormalWorld:
    """A client of the pseudo-TA.

    Attributes:
        device: the machine, in words.
        program: as `host_tools.runners.optee.images.image_of`.
        invoke: boots the machine and has the pseudo-TA replay.
    """

    device: str
    program: Path | None
    invoke: Callable[[Request], Response]


def replay(request: MachineRequest, normal_world: NormalWorld) -> ReplayResult:
    """Boot OP-TEE, have its pseudo-TA verify, load and replay a signed trace.

    Raises:
        InputError: a tensor does not fit.
        RunnerError: OP-TEE cannot be built, QEMU is missing, did not end, or the pseudo-TA gave no report.
    """
    delivery = request.delivery
    gpu = gpu_of(delivery, request.gpu)
    image = image_for(request, gpu, normal_world.program)
    buffers = bound(request)
    response = normal_world.invoke(Request(request, image, gpu, buffers))
    report = check_response(response, image)
    instructions = secure_machine.instructions(report)
    return result(report, normal_world.device, buffers.outputs, instructions, delivery, gpu)


def image_for(request: MachineRequest, gpu: str, normal_world: Path | None) -> Image:
    """The image that a replay boots: with the pseudo-TA that the request names, or else one that the trace fits.

    `normal_world` is that of `host_tools.runners.optee.images.image_of`.
    """
    if request.firmware:
        if images.is_for_ta_only(request.firmware):
            raise RunnerError(
                f"{request.firmware / 'sub.mk'}: GRAMOPHONE_TA_ONLY is y, and a replay here calls the pseudo-TA "
                "without the TA, as any_client allows (docs/DEVICE-FILE.md): on the device 'gramophone-tee "
                "replay' calls it"
            )
        return images.image_of(request.firmware, normal_world)
    return images.image_for_key(
        request.key,
        gpu,
        request.min_security_version,
        crypto=libraries.source(request.bearssl, request.aws_lc),
        operators=operators_in(request.delivery),
        algorithms=algorithms_in(request.delivery),
        device_id=request.device_id,
        decryption=decryption_for(request.delivery),
        streaming=is_streamed(request.delivery),
        secure_bytes=secure_bytes(request.delivery),
        staged_bytes=staged_bytes(request.delivery),
        normal_world=normal_world,
    )


def check_response(response: Response, image: Image) -> Report:
    """Compare what the normal world got with the replayer's report; that report.

    Raises:
        RunnerError: there is none, or they contradict each other: the replayer was not invoked, or its result did
            not arrive.
    """
    if response.code == OUT_OF_MEMORY:
        raise RunnerError(
            "the signed trace, or its inputs and outputs, do not fit the pseudo-TA's staging area, a quarter of "
            f"{image.board.carveout_bytes} bytes: carveout_mib in the device file makes it larger"
        )
    report = response.report
    if report is None or response.code != (0 if report.ok else tee_result(report.status)):
        name = report.name if report else "nothing"
        raise RunnerError(
            f"OP-TEE answered {response.code:#010x} from origin {response.origin}, the replayer {name}. "
            f"{response.output}".strip()
        )
    return report


def staged_bytes(delivery: Delivery) -> int:
    """The staging area that the pseudo-TA needs: for the signed trace, unless it streams, then for all slots."""
    slots = sum(slot.dense_bytes + SLOT_ALIGNMENT for slot in (delivery.trace.slots if delivery.trace else ()))
    return slots if is_streamed(delivery) else max(len(delivery), slots)


def machine_of(image: Image, gpu: str, serial: str) -> secure_machine.Machine:
    """The machine that an image is for; `serial` is what QEMU makes of the normal world's port.

    Raises:
        RunnerError: the GPU's interrupts do not follow one another, as QEMU's do.
    """
    board = image.board
    if board.gpu_intid >= LISTED:
        raise RunnerError(
            "made for another machine than QEMU's: expected one number in GRAMOPHONE_GPU_INTID, the interrupt of "
            f"the GPU's first line, found a list, {board.gpu_intid:#x}"
        )
    return secure_machine.Machine(
        image=image.path,
        gic=3,
        serials=(serial, "file:/dev/stderr"),
        gpu=gpu,
        gpu_base=board.gpu_base,
        gpu_spi=board.gpu_intid - secure_machine.SPI_BASE,
        carveout_base=board.carveout_base,
        carveout_bytes=board.carveout_bytes,
        firewall=board.firewall_base,
    )
