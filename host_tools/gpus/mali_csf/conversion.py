# SPDX-License-Identifier: BSD-2-Clause
"""What our recorder saw of a Mali with command streams, as actions: mappings, memory, and calls of streams.

No register access is kept: by them the driver steers the firmware, which a replayer does in its own way. A queue's
registers outlast a call, so a recorded call depends on those before it. Each gets a stream before it that sets the
registers as it found them, and calls it: a job of a raw trace is one call, as one of a built trace is.
"""

from __future__ import annotations

from typing import Any, ClassVar

from host_tools.families.conversion import IRQ_TIMEOUT_US, Streams
from host_tools.gpus.mali_csf.instructions import (
    DRIVERS_REGISTER,
    INSTRUCTION_BYTES,
    Code,
    calling,
    instruction,
    packed,
)
from host_tools.gpus.mali_csf.page_tables import SPACE
from host_tools.vgpu import capture
from trace_format.actions import Action, Op, action
from trace_format.profile import Profile
from trace_format.schema import PAGE_BYTES

# Mesa 25.0.7 panvk_vX_device.c leaves the lowest 32 MiB free.
STREAMS_VA, STREAMS_END = 16 << 20, 32 << 20


class Calls:
    """Turns calls into actions; other events say nothing that a replay needs."""

    new_layout = True
    space = SPACE
    meta: ClassVar[dict[str, Any]] = {}

    def __init__(self, gpu: Profile) -> None:
        self.actions: list[Action] = [action(Op.SET_GPU_PGTABLE, address_space=SPACE)]
        self.streams = bytearray()

    def take_event(self, at: int, event: capture.Event) -> None:
        """See `Conversion.take_event`."""

    def call(self, where: int, call: capture.Call) -> Action:
        """See `CallConversion.call`."""
        stream = [
            *(instruction(Code.MOVE32, to=at, low=call.registers[at]) for at in range(DRIVERS_REGISTER)),
            *calling(call.va, call.bytes),
        ]
        at = STREAMS_VA + len(self.streams)
        self.streams += packed(stream)
        if STREAMS_VA + len(self.streams) > STREAMS_END:
            raise capture.CaptureError("too many calls of streams for the addresses that are free", offset=where)
        return action(
            Op.RUN_STREAM,
            address_space=SPACE,
            stream=at,
            instructions=len(stream),
            timeout_us=IRQ_TIMEOUT_US,
        )

    def added(self) -> Streams:
        """See `CallConversion.added`."""
        return Streams(SPACE, STREAMS_VA // PAGE_BYTES, bytes(self.streams))

    def flush_tables(self) -> list[Action]:
        """None: a replayer flushes with each call."""
        return []

    def finish(self) -> None:
        """Nothing is left to do."""


assert STREAMS_VA % PAGE_BYTES == 0 == PAGE_BYTES % INSTRUCTION_BYTES
