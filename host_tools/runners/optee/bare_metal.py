# SPDX-License-Identifier: BSD-2-Clause
"""Replays through OP-TEE with a small program as the normal world, which serves the mailbox."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from host_tools.runners import mailbox, secure_machine
from host_tools.runners.optee import normal_world
from host_tools.runners.optee.images import Image
from host_tools.runners.optee.normal_world import NormalWorld, Request, Response, machine_of
from host_tools.runners.replay import ReplayResult, RunnerError
from host_tools.runners.requests import MachineRequest, WatchedRequest
from host_tools.runners.secure_machine import DRAM_BASE, MIB, dram
from host_tools.runners.watching import watched
from trace_format import packing
from trace_format.schema.mailbox import MAILBOX_RESPONSE_AT

DEVICE = "QEMU virt, OP-TEE, secure world"
TIMEOUT_S = 600
MAILBOX_BASE = 0x48000000  # baremetal/optee/normal_world.h
NORMAL_WORLD_BASE = 0x60000000  # where TF-A starts it: baremetal/optee/normal_world.ld
# TF-A's platform "qemu" leaves the memory above 1 GiB to the normal world; OP-TEE's takes part of its end.
DRAM_BYTES = 1057 * MIB
RESPONSE_BYTES = packing.size_of("normal_world_response")


@dataclass(frozen=True, kw_only=True)
class OpteeRequest(MachineRequest, WatchedRequest):
    """What it takes."""


REQUEST = OpteeRequest


def replay(request: OpteeRequest) -> ReplayResult:
    """As Runner, and `host_tools.runners.optee.normal_world.replay`."""
    return normal_world.replay(request, BARE_METAL)


def invoke(request: Request) -> Response:
    """Boot the machine with the small normal world."""
    assert isinstance(request.replay, OpteeRequest)
    signed, buffers = request.replay.delivery.data, request.buffers
    used = mailbox.layout(signed, buffers).size
    if used > NORMAL_WORLD_BASE - MAILBOX_BASE:
        raise RunnerError("the trace and its tensors do not fit the emulated machine's memory")
    inside = slice(MAILBOX_BASE - DRAM_BASE, NORMAL_WORLD_BASE - DRAM_BASE)
    with dram(DRAM_BYTES, inside.start, used) as (path, memory), memory[inside] as shared:
        places = mailbox.request(shared, signed, buffers, request.replay.repeat)
        timeout_s = request.replay.timeout_s or TIMEOUT_S
        with watched(request.replay, shared, buffers, places):
            output = run(request.image, path, request.gpu, request.replay.plugin_args, timeout_s)
        report = mailbox.response(shared, buffers, places)
        answer = bytes(shared[MAILBOX_RESPONSE_AT : MAILBOX_RESPONSE_AT + RESPONSE_BYTES])
    found = packing.unpack("normal_world_response", answer, MAILBOX_RESPONSE_AT)
    return Response(found["result"], found["origin"], report, output)


BARE_METAL = NormalWorld(DEVICE, None, invoke)


def run(
    image: Image,
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
        What QEMU and the machine's serial ports printed, in one line.

    Raises:
        RunnerError: QEMU is missing, did not end, or the normal world took an exception.
    """
    machine = replace(machine_of(image, gpu, "stdio"), cpus=cpus, icount=icount)
    return secure_machine.run(machine, memory, plugin_args, timeout_s)
