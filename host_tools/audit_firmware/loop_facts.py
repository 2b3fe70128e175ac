# SPDX-License-Identifier: BSD-2-Clause
"""Facts that show a loop's bound where no register simply counts: compilers turn counters into constants."""

from __future__ import annotations

from collections.abc import Collection

from host_tools.audit_firmware.flow import Flow
from host_tools.audit_firmware.instructions import FLAGS, ZERO, Instruction, Register
from host_tools.audit_firmware.program import Function, Program

MAX_STEPS = 16
_SIGN = 1 << 63


def consumers(program: Program) -> set[int]:
    """Functions that move a field in memory by a constant, as one does that takes a byte of a stream."""
    found = set()
    for function in program.running:
        rows = [function.instructions[at] for at in sorted(function.instructions)]
        for place, row in enumerate(rows):
            memory = row.memory
            is_field = row.is_store and memory and memory.base < 29 and not memory.scaled and not memory.mode
            if is_field and _updates(row, rows[max(0, place - MAX_STEPS) : place]):
                found.add(function.start)
    return found


def _updates(store: Instruction, before: list[Instruction]) -> bool:
    """Whether a store puts back what was loaded from there, plus or minus a constant."""
    memory = store.memory
    assert memory is not None
    for register in store.registers:
        for row in reversed(before):
            if register.number not in row.writes:
                continue
            if row.mnemonic in ("add", "sub") and isinstance(row.operands[-1], int):
                source = row.registers[1].number
                return any(
                    load.is_load
                    and load.memory is not None
                    and load.memory.base == memory.base
                    and load.memory.offset <= memory.offset + store.access_bytes
                    and source in load.writes
                    for load in before
                )
            break
    return False


def guarded_constants(function: Function, blocks: Collection[int]) -> set[int]:
    """Instructions `r = c` that run only when r was found to be another number: r moves, as by an addition."""
    predecessors: dict[int, list[int]] = {}
    for start, block in function.blocks.items():
        for to in block.successors:
            predecessors.setdefault(to, []).append(start)
    found = set()
    for start in blocks:
        before = predecessors.get(start, [])
        if len(before) != 1:
            continue
        test = _equality(function, before[0], start)
        for row in function.blocks[start].instructions:
            is_constant = row.mnemonic == "mov" and isinstance(row.operands[1], int)
            if test and is_constant and row.registers[0].number == test[0] and row.operands[1] != test[1]:
                found.add(row.address)
    return found


def _equality(function: Function, block: int, to: int) -> tuple[int, int] | None:
    """(register, number) that are equal on the way from a block to another."""
    rows = function.blocks[block].instructions
    branch = rows[-1]
    if branch.mnemonic not in ("b.eq", "b.ne") or (branch.target == to) != (branch.mnemonic == "b.eq"):
        return None
    at = block
    for _ in range(MAX_STEPS):  # several branches may follow one comparison
        for row in reversed(function.blocks[at].instructions):
            if FLAGS in row.writes:
                if row.mnemonic == "cmp" and isinstance(row.operands[1], int):
                    return row.registers[0].number, row.operands[1]
                return None
        before = [start for start, found in function.blocks.items() if at in found.successors]
        if len(before) != 1:
            return None
        at = before[0]
    return None


class Second:
    """What a loop does in its second iteration, where that is certain: flags that the first one set."""

    def __init__(self, function: Function, flow: Flow, inside: Collection[int]) -> None:
        self._function, self._flow, self._inside = function, flow, inside

    def leaves(self, branch: Instruction, blocks: Collection[int]) -> bool:
        """Whether a branch, with what the loop itself has put into registers, leads out of the loop."""
        taken = self._taken(branch)
        if taken is None:
            return False
        to = branch.target if taken else branch.end
        return to not in blocks

    def _taken(self, branch: Instruction) -> bool | None:
        if branch.mnemonic in ("cbz", "cbnz"):
            value = self._value(branch.address, branch.registers[0], 0)
            return None if value is None else (value == 0) == (branch.mnemonic == "cbz")
        if branch.mnemonic.startswith("b."):
            return self._condition(branch.address, branch.mnemonic[2:], 0)
        return None

    def _source(self, at: int, place: int) -> Instruction | None:
        """The one instruction of the loop that makes a value; what was there before the loop is not asked for."""
        found = [source for source in self._flow.sources(at, place) if source in self._inside]
        return self._function.instructions[found[0]] if len(found) == 1 else None

    def _value(self, at: int, register: Register | int, depth: int) -> int | None:
        if isinstance(register, int):
            return register
        if register.number == ZERO:
            return 0
        row = self._source(at, register.number)
        if row is None or depth > MAX_STEPS or register.change or not row.registers:
            return None
        if row.mnemonic in ("mov", "add", "sub"):
            values = [
                self._value(row.address, item, depth + 1)
                for item in row.operands[1:]
                if isinstance(item, Register | int)
            ]
            known = [value for value in values if value is not None]
            if len(known) < len(values):
                return None
            return (
                known[0]
                if row.mnemonic == "mov"
                else known[0] + (known[1] if row.mnemonic == "add" else -known[1])
            )
        if row.mnemonic == "cset":
            holds = self._condition(row.address, row.text.rpartition(", ")[2], depth + 1)
            return None if holds is None else int(holds)
        return None

    def _condition(self, at: int, condition: str, depth: int) -> bool | None:
        """Whether a condition holds."""
        row = self._source(at, FLAGS)
        if row is None or depth > MAX_STEPS or row.mnemonic not in ("cmp", "tst"):
            return None
        one, other = (self._value(row.address, item, depth + 1) for item in row.operands[:2])  # type: ignore[arg-type]
        if row.mnemonic == "tst":
            if condition in ("eq", "ne") and 0 in (one, other):
                return condition == "eq"
            return None
        if one is None or other is None or not 0 <= one < _SIGN or not 0 <= other < _SIGN:
            return None
        less, same = one < other, one == other
        answers = {
            "eq": same,
            "ne": not same,
            "lo": less,
            "hs": not less,
            "ls": less or same,
            "hi": not (less or same),
            "lt": less,
            "ge": not less,
            "le": less or same,
            "gt": not (less or same),
        }
        return answers.get(condition)
