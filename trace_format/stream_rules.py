# SPDX-License-Identifier: BSD-2-Clause
"""Which instructions the command streams of a trace may have: `[streams]` of a profile.

A device judges each stream by the same table before it runs (tee_replayer/drivers).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

OPCODE_SHIFT, REGISTER_SHIFT = 56, 48  # of an instruction of 64 bits: opcode 63:56, destination 55:48
BELOW_OPCODE = (1 << OPCODE_SHIFT) - 1


@dataclass(frozen=True)
class StreamRules:
    """What is allowed.

    Attributes:
        registers: destinations lie below this one; the others are the driver's.
        opcodes: name of an opcode -> its number and the bits below it that may be set.
    """

    registers: int
    opcodes: Mapping[str, tuple[int, int]]

    def flaw(self, word: int) -> str:
        """Why an instruction may not be in a stream; "" if it may."""
        bits = dict(self.opcodes.values())
        number = word >> OPCODE_SHIFT
        if number not in bits:
            return f"opcode {number}, which no trace may use"
        if extra := word & BELOW_OPCODE & ~bits[number]:
            return f"bits {extra:#x}, which no trace may set"
        register = word >> REGISTER_SHIFT & 0xFF
        return "" if register < self.registers else f"register {register}, which is the driver's"


def stream_rules(data: Mapping[str, Any]) -> StreamRules | None:
    """Those of a profile; None: its GPU has no command streams."""
    rows = data.get("streams")
    if rows is None:
        return None
    return StreamRules(
        rows["registers"], {name: (row["opcode"], row["bits"]) for name, row in rows["opcodes"].items()}
    )
