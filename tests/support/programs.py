# SPDX-License-Identifier: BSD-2-Clause
"""Runs programs for the normal world (*.c) in OP-TEE's machine."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from host_tools.runners import mailbox, secure_machine
from host_tools.runners.buffers import bind
from host_tools.runners.optee import bare_metal as optee
from host_tools.runners.optee import images
from signing.delivery import Delivery
from trace_format import packing
from trace_format.schema import SlotKind
from trace_format.schema.mailbox import MAILBOX_RESPONSE_AT

MIN_SECURITY_VERSION = 3  # of the traces and the devices of these tests
RESULT_AT = MAILBOX_RESPONSE_AT + packing.size_of("mailbox_response")
ANSWER_BYTES = 16384  # that a program may leave after the mailbox's response


def run_program(
    image: images.Image,
    signed: bytes,
    repeat: int,
    *,
    cpus: int = 1,
    icount: bool = True,
    plugin_args: Mapping[str, str] | None = None,
    extra: tuple[int, bytes] = (0, b""),
    timeout_s: float = 120,
) -> tuple[bytes, dict[str, int]]:
    """Run a program for the normal world with a signed trace; the first buffers of most are input and output.

    Args:
        image: with the program in it.
        signed: the trace; its inputs are given zeros.
        repeat: the request's number of replays, which each program has its own meaning for.
        cpus: cores.
        icount: time counts instructions.
        plugin_args: further arguments of the QEMU plugin.
        extra: offset from the mailbox and data to put there.
        timeout_s: of real time.

    Returns:
        What lies after `struct mailbox_response`, and the virtual GPU's counters.
    """
    trace = Delivery(signed).trace
    assert trace
    given = (slot for slot in trace.slots if slot.kind is SlotKind.INPUT)
    inputs = {slot.name: np.zeros(slot.shape, slot.numpy_dtype) for slot in given}
    inside = slice(optee.MAILBOX_BASE - secure_machine.DRAM_BASE, None)
    with tempfile.TemporaryDirectory() as name, secure_machine.dram(optee.DRAM_BYTES) as (path, memory):
        stats = Path(name) / "stats.json"
        with memory[inside] as shared:
            mailbox.request(shared, signed, bind(trace, inputs), repeat)
            at, data = extra
            shared[at : at + len(data)] = data
            arguments = {"stats": str(stats)} | dict(plugin_args or {})
            optee.run(image, path, "v3d42", arguments, timeout_s, cpus, icount)
            answer = bytes(shared[RESULT_AT : RESULT_AT + ANSWER_BYTES])
        return answer, json.loads(stats.read_text())
