# SPDX-License-Identifier: BSD-2-Clause
"""Loops that run the same way each time: their branches depend on constants only, so they are simply executed.

A compiler that knows that a counter cannot have reached its limit on some way around leaves the test out there;
such a loop has no place that every way passes, and still ends.
"""

from __future__ import annotations

from collections.abc import Callable, Set

from host_tools.audit_firmware.flow import Flow
from host_tools.audit_firmware.instructions import FLAGS, ZERO, Instruction, Operand, Register
from host_tools.audit_firmware.program import Function

MAX_BLOCKS = 1 << 16  # that are executed; a loop that goes on for longer has no visible bound

# Of a comparison of one number with another, both as unsigned and both as signed ones (Arm ARM, C1.2.4).
_CONDITIONS: dict[str, Callable[[int, int, int, int], bool]] = {
    "eq": lambda one, other, s_one, s_other: one == other,
    "ne": lambda one, other, s_one, s_other: one != other,
    "lo": lambda one, other, s_one, s_other: one < other,
    "hs": lambda one, other, s_one, s_other: one >= other,
    "ls": lambda one, other, s_one, s_other: one <= other,
    "hi": lambda one, other, s_one, s_other: one > other,
    "lt": lambda one, other, s_one, s_other: s_one < s_other,
    "ge": lambda one, other, s_one, s_other: s_one >= s_other,
    "le": lambda one, other, s_one, s_other: s_one <= s_other,
    "gt": lambda one, other, s_one, s_other: s_one > s_other,
}


def ends(function: Function, flow: Flow, blocks: Set[int], heads: Set[int]) -> bool:
    """Whether a loop, executed with the constants that are known before it and in it, is left."""
    return len(heads) == 1 and _Run(function, flow, blocks, min(heads)).leaves()


def _bits(register: Register) -> int:
    return 64 if register.is_64 else 32


class _Run:
    """One execution; registers that are not in `known` may hold anything, and so may flags that are None."""

    def __init__(self, function: Function, flow: Flow, blocks: Set[int], head: int) -> None:
        self._function, self._flow, self._blocks, self._head = function, flow, blocks, head
        self._calls = {call.at for call in function.calls}
        self._known: dict[int, int] = {}
        self._flags: tuple[int, int, int] | None = None  # what was compared with what, and in how many bits

    def leaves(self) -> bool:
        """Whether it leads out of the loop."""
        self._enter()
        at = self._head
        for _ in range(MAX_BLOCKS):
            rows = self._function.blocks[at].instructions
            for row in rows:
                self._execute(row)
            to = self._next(at, rows[-1])
            if to is None or to not in self._blocks:
                return to is not None
            at = to
        return False

    def _enter(self) -> None:
        """Know the registers that one instruction before the loop sets to a constant."""
        inside = {row.address for at in self._blocks for row in self._function.blocks[at].instructions}
        for place in range(ZERO + 1, FLAGS):
            outside = self._flow.sources(self._head, place) - inside
            row = self._function.instructions.get(min(outside)) if len(outside) == 1 else None
            if row is not None and row.mnemonic == "mov" and row.writes == (place,):
                value = row.operands[1]
                if isinstance(value, int):
                    self._known[place] = value % (1 << _bits(row.registers[0]))

    def _execute(self, row: Instruction) -> None:
        value = self._result(row)
        if FLAGS in row.writes:
            self._flags = self._compared(row)
        for place in row.writes:
            self._known.pop(place, None)
        if value is not None:
            self._known[row.writes[0]] = value
        if row.address in self._calls:
            for register in list(self._known):
                if row.address in self._flow.sources(row.end, register):
                    del self._known[register]
            self._flags = None

    def _result(self, row: Instruction) -> int | None:
        """What an instruction puts into its first register; None: not known."""
        if row.mnemonic not in ("mov", "add", "sub", "adds", "subs") or not row.registers:
            return None
        if row.writes[:1] != (row.registers[0].number,):
            return None
        values = [self._value(item) for item in row.operands[1:]]
        first, last = values[0], values[-1]
        if first is None or last is None:
            return None
        found = first if row.mnemonic == "mov" else first + (last if row.mnemonic.startswith("add") else -last)
        return found % (1 << _bits(row.registers[0]))

    def _value(self, item: Operand) -> int | None:
        if isinstance(item, int):
            return item
        if not isinstance(item, Register) or item.change:
            return None
        if item.number == ZERO:
            return 0
        value = self._known.get(item.number)
        return None if value is None else value % (1 << _bits(item))

    def _compared(self, row: Instruction) -> tuple[int, int, int] | None:
        if row.mnemonic not in ("cmp", "subs"):
            return None
        one, other = (self._value(item) for item in row.operands[-2:])
        return None if one is None or other is None else (one, other, _bits(row.registers[0]))

    def _next(self, at: int, last: Instruction) -> int | None:
        """The block that follows; None: not known, or none."""
        if not last.is_conditional:
            successors = self._function.blocks[at].successors
            return successors[0] if len(successors) == 1 else None
        taken = self._taken(last)
        return None if taken is None else last.target if taken else last.end

    def _taken(self, branch: Instruction) -> bool | None:
        if branch.mnemonic in ("cbz", "cbnz"):
            value = self._value(branch.registers[0])
            return None if value is None else (value == 0) == (branch.mnemonic == "cbz")
        condition = _CONDITIONS.get(branch.mnemonic.removeprefix("b."))
        if condition is None or self._flags is None:
            return None
        one, other, bits = self._flags
        limit, sign = 1 << bits, 1 << (bits - 1)
        one, other = one % limit, other % limit
        return condition(one, other, (one ^ sign) - sign, (other ^ sign) - sign)
