# SPDX-License-Identifier: BSD-2-Clause
"""Instructions of command streams, of 64 bits: opcode 63:56, destination 55:48, sources 47:40 and 39:32.

Source: Mesa 25.0.7 src/panfrost/lib/genxml/v10.xml. A register has 32 bits; one of 64 is an even one and the next.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Sequence

from trace_format.schema.capture import CAPTURE_REGISTERS

INSTRUCTION_BYTES = 8
REGISTERS = CAPTURE_REGISTERS
DRIVERS_REGISTER = 92  # from here on they are the kernel's driver's: 92 address of a call, 94 its bytes


class Code(enum.IntEnum):
    """Opcodes."""

    NOP = 0
    MOVE = 1
    MOVE32 = 2
    WAIT = 3
    RUN_COMPUTE = 4
    ADD32 = 16
    ADD64 = 17
    UMIN32 = 18
    LOAD = 20
    STORE = 21
    BRANCH = 22
    SET_SCOREBOARD = 23
    CALL = 32
    JUMP = 33
    RESOURCES = 34
    FLUSH = 36
    SYNC_ADD32 = 37
    SYNC_SET32 = 38
    SYNC_WAIT32 = 39
    ERROR_BARRIER = 47
    HEAP_SET = 48
    SYNC_ADD64 = 51
    SYNC_SET64 = 52
    SYNC_WAIT64 = 53


def instruction(code: Code, *, to: int = 0, a: int = 0, b: int = 0, low: int = 0) -> int:
    """An instruction by its fields; `low`: bits 31:0, or 47:0 of a MOVE."""
    return code << 56 | to << 48 | a << 40 | b << 32 | low


def calling(va: int, size: int) -> list[int]:
    """A call of a stream of `size` bytes at a GPU address, as the kernel's driver makes it."""
    address, count = DRIVERS_REGISTER, DRIVERS_REGISTER + 2
    return [
        instruction(Code.MOVE, to=address, low=va),
        instruction(Code.MOVE32, to=count, low=size),
        instruction(Code.CALL, a=address, b=count),
    ]


def packed(instructions: Sequence[int]) -> bytes:
    """Instructions as they lie in memory."""
    return struct.pack(f"<{len(instructions)}Q", *instructions)
