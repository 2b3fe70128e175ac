# SPDX-License-Identifier: BSD-2-Clause
"""Where calls and jumps through registers, returns and exceptions lead, as far as the code shows it.

Most such calls take a pointer that is in memory, and those are not followed. What is judged is what the code
computes or loads itself: an address in the mailbox, on the stack or among constants, or what the mailbox gives.
"""

from __future__ import annotations

from collections.abc import Iterator

from host_tools.audit_firmware.analysis import Analysis
from host_tools.audit_firmware.instructions import LINK, Register
from host_tools.audit_firmware.mmio import MAX_ADDRESSES
from host_tools.audit_firmware.ranges import Value
from host_tools.audit_firmware.rules import RULES, FirmwareFinding
from host_tools.audit_firmware.values import MAX_CALLERS, Frame

_THROUGH = frozenset(("blr", "br"))
_VECTOR = "vbar_el3"
_CODE = ("rom", "")  # a board of one's own may not say where its code lies


def findings(analysis: Analysis) -> Iterator[FirmwareFinding]:
    """Control flow into what is not code."""
    for function in analysis.program.running:
        for at, row in function.instructions.items():
            register = row.registers[0] if row.registers else Register(LINK, True)
            if row.mnemonic in _THROUGH or row.mnemonic == "ret":
                for value in _on_each_way(analysis, Frame(function), at, register, MAX_CALLERS):
                    wrong = _not_code(analysis, value, is_return=row.mnemonic == "ret")
                    if wrong:
                        yield _finding(analysis, at, f"'{row.words}' leads {wrong}")
                        break
            elif row.mnemonic == "msr" and row.operands[0] == _VECTOR:
                found = analysis.values.register(Frame(function), at, row.registers[0])
                if not found.is_single or found.low not in analysis.image.entries:
                    yield _finding(analysis, at, f"'{row.words}': exceptions lead elsewhere than to the start")


def _finding(analysis: Analysis, at: int, text: str) -> FirmwareFinding:
    return FirmwareFinding(RULES["GF306"], text, analysis.program.name(at), at)


def _not_code(analysis: Analysis, value: Value, *, is_return: bool) -> str:
    """What is wrong with a target, in words; "" for nothing that is known of it."""
    if value.is_on_stack:
        return "to the stack"
    if value.has("mailbox"):
        return "where the mailbox says"
    place = analysis.places.of_sum(value.low, value.roots)
    if place not in _CODE:
        return f"into the {place}"
    count = (value.high - value.low) // (value.step or 1) + 1
    if count > MAX_ADDRESSES:
        return ""
    starts = analysis.program.functions
    wrong = [at for at in range(value.low, value.high + 1, value.step or 1) if at not in starts]
    if wrong and not analysis.is_pta:
        return f"to {wrong[0]:#x}, where no function begins"
    return "to a fixed address, as no return does" if is_return else ""


def _on_each_way(analysis: Analysis, frame: Frame, at: int, register: Register, levels: int) -> Iterator[Value]:
    """What the register can hold; one that is a parameter, at each call."""
    value = analysis.values.register(frame, at, register)
    callers = analysis.program.callers(frame.outermost) if value.roots and levels else []
    is_open = any(kind == "param" and number != LINK for kind, number in value.roots)
    if not callers or not is_open:
        yield value
        return
    for caller, call in callers:
        yield from _on_each_way(analysis, frame.extended(Frame(caller), call.at), at, register, levels - 1)
