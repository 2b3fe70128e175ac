# SPDX-License-Identifier: BSD-2-Clause
"""Replays through OP-TEE with Debian's Linux as the normal world, where `gramophone-tee` invokes the pseudo-TA.

Time counts instructions, those of the kernels' interrupts included.
"""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from typing import Any

from host_tools.families.family import profile_of
from host_tools.machine.boot import GuestJob
from host_tools.runners.buffers import Buffers
from host_tools.runners.optee import linux_machine as linux
from host_tools.runners.optee import normal_world
from host_tools.runners.optee.normal_world import NormalWorld, Request, Response
from host_tools.runners.replay import ReplayResult, RunnerError
from host_tools.runners.requests import MachineRequest
from tee_replayer.generator.status import Report

DEVICE = "QEMU virt, OP-TEE and Linux, secure world"
REQUEST = MachineRequest
ANSWER = "answer.json"
TIMEOUT_S = 1200  # Linux boots first


def replay(request: MachineRequest) -> ReplayResult:
    """As Runner, and `host_tools.runners.optee.normal_world.replay`.

    Raises:
        RecordError: the guest's parts cannot be obtained, or it failed.
    """
    return normal_world.replay(request, LINUX)


def invoke(request: Request) -> Response:
    """Boot the machine with Linux, have `gramophone-tee` replay.

    Raises:
        RecordError, RunnerError: as `replay`.
    """
    buffers, gpu = request.buffers, request.gpu
    job = replace(_job(request.replay.delivery.data, buffers, request.replay.repeat), gpu=profile_of(gpu).name)
    timeout_s = request.replay.timeout_s or TIMEOUT_S
    done = linux.boot(request.image, job, gpu=gpu, plugin_args=request.replay.plugin_args, timeout_s=timeout_s)
    output = done.output.strip()
    try:
        answer: dict[str, Any] = json.loads(done.files[ANSWER])
        code, origin = int(answer.get("result", "0"), 0), int(answer.get("origin", 0))
        report = Report(**answer["log"]) if answer["log"] else None
        if answer["ok"]:
            buffers.take_from_guest(done.files)
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise RunnerError(f"gramophone-tee gave no answer that makes sense ({error!r}): {output}") from error
    return Response(code, origin, report, output)


LINUX = NormalWorld(DEVICE, linux.NORMAL_WORLD, invoke)


def _job(signed: bytes, buffers: Buffers, repeat: int) -> GuestJob:
    """`gramophone-tee`, whose answer and output slots come back as files."""
    tensors, options = buffers.for_guest()
    words = [
        "gramophone-tee",
        "replay",
        "/job/net.sgtr",
        "--via",
        "pta",
        "--json",
        "--repeat",
        str(repeat),
        *options,
    ]
    # A refusal is an answer, too.
    return GuestJob(
        f"{shlex.join(words)} >/out/{ANSWER} || true", {"job/net.sgtr": signed, **tensors}, uses_gpu=False
    )
