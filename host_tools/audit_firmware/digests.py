# SPDX-License-Identifier: BSD-2-Clause
"""What a function does, as one hash: its instructions, and those of all that it calls, wherever they lie."""

from __future__ import annotations

import hashlib
import struct

from host_tools.audit_firmware.instructions import BYTES, Instruction
from host_tools.audit_firmware.program import Function, Program

# Fields of an immediate that the linker sets, by mnemonic (Arm ARM, C6.2): of branches and of addresses of data.
_BRANCH = {"b": 0x03FFFFFF, "bl": 0x03FFFFFF}
_CONDITIONAL, _TEST = 0x00FFFFE0, 0x0007FFE0
_ADDRESS = {"adr": 0x60FFFFE0, "adrp": 0x60FFFFE0}
_LITERAL = 0x00FFFFE0
_LOW_TWELVE = 0x003FFC00
_INDIRECT = "through a register"


def digest(program: Program, function: Function) -> str:
    """SHA-256 of a function, in hexadecimal.

    Where it branches to another function, that one's digest stands for the distance; addresses of data count as
    equal, and so does the data. Names do not count.
    """
    return _digest(program, function, ())


def _digest(program: Program, function: Function, callers: tuple[int, ...]) -> str:
    if function.start in callers:
        return f"recursion {len(callers) - callers.index(function.start)}"
    found = hashlib.sha256()
    targets = {call.at: call.target for call in function.calls}
    for at, row in sorted(function.instructions.items()):
        (word,) = struct.unpack("<I", program.image.read(at, BYTES))
        text = ""
        if at in targets:
            target = targets[at]
            callee = program.functions.get(target) if target is not None else None
            text = _digest(program, callee, (*callers, function.start)) if callee else _INDIRECT
            word &= ~_distance(row)
        elif row.mnemonic in _ADDRESS:
            word &= ~_ADDRESS[row.mnemonic]
        elif row.mnemonic.startswith("ldr") and _is_literal(row):
            word &= ~_LITERAL
        elif row.mnemonic == "add" and _follows_a_page(function, at):
            word &= ~_LOW_TWELVE
        found.update(f"{at - function.start} {word:08x} {text}\n".encode())
    return found.hexdigest()


def _distance(row: Instruction) -> int:
    if row.mnemonic in _BRANCH:
        return _BRANCH[row.mnemonic]
    if row.mnemonic.startswith("tb"):
        return _TEST
    return _CONDITIONAL if row.mnemonic.startswith(("b.", "cb")) else 0


def _is_literal(row: Instruction) -> bool:
    return isinstance(row.operands[-1], int)


def _follows_a_page(function: Function, at: int) -> bool:
    before = function.instructions.get(at - BYTES)
    return before is not None and before.mnemonic == "adrp"
