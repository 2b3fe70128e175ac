# SPDX-License-Identifier: BSD-2-Clause
"""Named traces whose command streams no device may run: each is an accepted trace with one change."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from host_tools.gpus.mali_csf.conversion import STREAMS_VA
from host_tools.gpus.mali_csf.instructions import Code, instruction
from host_tools.gpus.mali_csf.page_tables import RING
from host_tools.gpus.mali_csf.straight import straighten
from tests.vgpu.test_straight import DATA, dispatch, recording
from trace_format.actions import MAP_READ, Action, Op, action, actions_of, array_of
from trace_format.schema import PAGE_BYTES
from trace_format.schema.report import Status
from trace_format.trace import Trace

Change = Callable[[Trace], Trace]
AT = 5  # instruction that is exchanged


def accepted() -> Trace:
    """A trace with one straight stream."""
    return straighten(recording(dispatch())).trace.with_(raw=False)


def _call(trace: Trace) -> Action:
    return next(row for row in actions_of(trace.actions) if row.op == Op.RUN_STREAM)


def _instead(word: int) -> Change:
    """With another instruction."""

    def change(trace: Trace) -> Trace:
        rows = actions_of(trace.actions)
        frame = next(row.frame for row in rows if row.op == Op.MAP_GPU_MEM and row.va_page == STREAMS_VA >> 12)
        image = np.frombuffer(trace.image, np.uint8).copy()
        image[frame * PAGE_BYTES :].view("<u8")[AT] = word
        return trace.with_(image=image.tobytes())

    return change


def _called(**operands: int) -> Change:
    """With another call."""

    def change(trace: Trace) -> Trace:
        rows = [row.with_(**operands) if row.op == Op.RUN_STREAM else row for row in actions_of(trace.actions)]
        return trace.with_(actions=array_of(rows))

    return change


def _mapped(va: int, space: int = 0) -> Change:
    """With a mapping more."""

    def change(trace: Trace) -> Trace:
        where = {"address_space": space, "va_page": va // PAGE_BYTES, "pages": 1, "frame": 0}
        rows = list(actions_of(trace.actions))
        rows.insert(1, action(Op.MAP_GPU_MEM, flags=MAP_READ, **where))
        return trace.with_(actions=array_of(rows))

    return change


def _longer(trace: Trace) -> Trace:
    return _called(instructions=_call(trace).instructions + 1)(trace)


def _unmapped(trace: Trace) -> Trace:
    rows = list(actions_of(trace.actions))
    at = next(i for i, row in enumerate(rows) if row.op == Op.JOB)
    rows.insert(at, action(Op.UNMAP_GPU_MEM, va_page=STREAMS_VA // PAGE_BYTES, pages=1))
    return trace.with_(actions=array_of(rows))


FORBIDDEN = {
    "nothing": Code.NOP,
    "a tiling job": 5,
    "a fragment job": 7,
    "a sum": Code.ADD32,
    "a sum of 64 bits": Code.ADD64,
    "a minimum": Code.UMIN32,
    "a load": Code.LOAD,
    "a store": Code.STORE,
    "a branch": Code.BRANCH,
    "a wait for progress": 24,
    "an exception handler": 25,
    "a call": Code.CALL,
    "a jump": Code.JUMP,
    "an addition that others wait for": Code.SYNC_ADD32,
    "a word that others wait for": Code.SYNC_SET32,
    "a wait for a word": Code.SYNC_WAIT32,
    "a store of the GPU's state": 40,
    "a protected region": 41,
    "a dispatch whose size is in memory": 44,
    "an error barrier": Code.ERROR_BARRIER,
    "a heap": Code.HEAP_SET,
    "an operation on a heap": 49,
    "a trace point": 50,
    "an addition of 64 bits that others wait for": Code.SYNC_ADD64,
    "64 bits that others wait for": Code.SYNC_SET64,
    "a wait for 64 bits": Code.SYNC_WAIT64,
    "an opcode behind the last one": 64,
    "the greatest opcode": 255,
}
WORDS = {name: code << 56 for name, code in FORBIDDEN.items()} | {
    "a pair that begins at an odd register": instruction(Code.MOVE, to=41),
    "a pair of the driver's registers": instruction(Code.MOVE, to=92),
    "the driver's length of a call": instruction(Code.MOVE32, to=94),
    "a register that is not there": instruction(Code.MOVE32, to=96),
    "the greatest register": instruction(Code.MOVE32, to=255),
    "reserved bits of a move": instruction(Code.MOVE32, to=40, a=1),
    "reserved bits of a wait": instruction(Code.WAIT, low=1),
    "a scoreboard that is not there": instruction(Code.WAIT, low=1 << 24),
    "a dispatch with a destination": instruction(Code.RUN_COMPUTE, to=1),
    "reserved bits of a dispatch": instruction(Code.RUN_COMPUTE, low=1 << 16),
    "reserved bits of scoreboards": instruction(Code.SET_SCOREBOARD, low=1 << 8),
    "a resource for fragments": instruction(Code.RESOURCES, low=2),
    "a flush by any register": instruction(Code.FLUSH, a=41, low=0x233),
    "reserved bits of a flush": instruction(Code.FLUSH, a=40, low=0x400),
}
# Name -> what is changed, and how a device refuses it.
HOSTILE: dict[str, tuple[Change, Status]] = {name: (_instead(word), Status.STREAM) for name, word in WORDS.items()}
HOSTILE |= {
    "a stream in memory that jobs write": (_called(stream=DATA), Status.STREAM),
    "a stream that goes on behind its end": (_longer, Status.STREAM),
    "a stream that is not mapped": (_called(stream=STREAMS_VA - PAGE_BYTES), Status.STREAM),
    "a stream whose page is not mapped any more": (_unmapped, Status.STREAM),
    "a stream in another address space": (_called(address_space=1), Status.RANGE),
    "a stream in the microcontroller's address space": (_called(address_space=7), Status.RANGE),
    "a mapping in another address space": (_mapped(0x10000, space=1), Status.RANGE),
    "a mapping in the microcontroller's address space": (_mapped(0x0400_0000, space=7), Status.RANGE),
    "a mapping over the driver's ring": (_mapped(RING), Status.RANGE),
    "a mapping over the word that the ring adds to": (_mapped(RING + PAGE_BYTES), Status.RANGE),
}
