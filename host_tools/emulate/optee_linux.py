"""Replays through OP-TEE with Debian's Linux as the normal world: there `gramophone-tee` asks the pseudo-TA.

Time counts instructions, those of the kernels' interrupts among them.
"""

from __future__ import annotations

import io
import json
import shlex
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from host_tools.emulate.optee import check_answer, image_for
from host_tools.emulate.replay import (
    Buffers,
    ReplayResult,
    RunnerError,
    Tensor,
    bind,
    gpu_of,
    open_trace,
    profile_of,
    result,
)
from host_tools.emulate.secure_machine import instructions
from host_tools.optee import linux
from host_tools.record.machine import GuestJob
from host_tools.tensors import npy
from signing.keys import PublicKey
from tee_replayer.status import Report
from trace_format.schema import SlotKind

DEVICE = "QEMU virt, OP-TEE and Linux, secure world"
ANSWER = "answer.json"


def replay(
    signed: bytes,
    key: PublicKey,
    inputs: Mapping[str, Tensor] | None = None,
    *,
    gpu: str | None = None,
    repeat: int = 1,
    min_security_version: int = 0,
    firmware: Path | None = None,
    timeout_s: float = 1200,
    plugin_args: Mapping[str, str] | None = None,
) -> ReplayResult:
    """Boot OP-TEE and Linux, have `gramophone-tee` replay a signed trace.

    Arguments and errors are those of `host_tools.emulate.optee.replay`.

    Raises:
        RecordError: the guest's parts cannot be had, or it failed.
    """
    gpu = gpu_of(signed, gpu)
    image = image_for(signed, key, gpu, min_security_version, firmware, linux.NORMAL_WORLD)
    buffers = bind(open_trace(signed), inputs or {})
    job = replace(_job(signed, buffers, repeat), gpu=profile_of(gpu).name)
    done = linux.boot(image, job, gpu=gpu, plugin_args=plugin_args, timeout_s=timeout_s)
    said = done.output.strip()
    try:
        answer: dict[str, Any] = json.loads(done.files[ANSWER])
        code, origin = int(answer.get("result", "0"), 0), int(answer.get("origin", 0))
        given = Report(**answer["log"]) if answer["log"] else None
        for row in buffers.rows if answer["ok"] else ():
            if row.slot.kind == SlotKind.OUTPUT:
                row.data[...] = np.load(io.BytesIO(done.files[f"{row.index}.npy"]), allow_pickle=False)
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise RunnerError(f"gramophone-tee gave no answer that makes sense ({error!r}): {said}") from error
    report = check_answer(code, origin, given, image, said)
    return result(report, DEVICE, buffers, instructions(report), signed, gpu)


def _job(signed: bytes, buffers: Buffers, repeat: int) -> GuestJob:
    """`gramophone-tee`, whose answer and output slots come back as files."""
    files = {"job/net.sgtr": signed}
    words = ["gramophone-tee", "run", "/job/net.sgtr", "--via", "pta", "--json", "--repeat", str(repeat)]
    for row in buffers.rows:
        if row.slot.kind == SlotKind.OUTPUT:
            words += ["--output", f"{row.slot.name}=/out/{row.index}.npy"]
        else:
            files[f"job/{row.index}.npy"] = npy(row.data)
            words += ["--input", f"{row.slot.name}=/job/{row.index}.npy"]
    # A refusal is an answer too.
    return GuestJob(f"{shlex.join(words)} >/out/{ANSWER} || true", files, uses_gpu=False)
