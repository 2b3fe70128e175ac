# SPDX-License-Identifier: BSD-2-Clause
"""Which instructions a register's value may come from, in one function (reaching definitions).

A spilled register is followed through its place on the stack. Where a function takes the address of something
there, whoever has it may write to that and to all above: every call, every store by another register. A call
changes what its callee changes, which is less than the procedure call standard allows: link-time optimisation
keeps values in registers across calls.
"""

from __future__ import annotations

from dataclasses import dataclass

from host_tools.audit_firmware.instructions import (
    FIRST_SAVED,
    FLAGS,
    LAST_SAVED,
    LINK,
    SP,
    Instruction,
)
from host_tools.audit_firmware.program import Call, Function, Program
from host_tools.audit_firmware.stack import Frames

AT_ENTRY = -1  # as the place where a value was made: before the function
Slot = tuple[str, int]  # ("stack", offset from the stack pointer at the function's start)
Place = int | Slot  # a register or a slot
ALL = frozenset(range(SP))


@dataclass(frozen=True)
class Flow:
    """Where values come from.

    Attributes:
        at: address of an instruction -> register or slot -> addresses of what may have written it.
        slots: address of a load or store -> the slots that it reads or writes.
        shared: slots that pointers may lead to.
    """

    at: dict[int, dict[Place, frozenset[int]]]
    slots: dict[int, tuple[Slot, ...]]
    shared: frozenset[Slot]

    def sources(self, address: int, place: Place) -> frozenset[int]:
        """What may have written a register or slot, as an instruction finds it."""
        return self.at.get(address, {}).get(place, frozenset((AT_ENTRY,)))


def clobbered(program: Program) -> dict[int, frozenset[int]]:
    """Registers that a call of each function changes, as its caller sees it."""
    own: dict[int, set[int]] = {}
    kept: dict[int, set[int]] = {}
    for function in program.running:
        own[function.start] = {number for row in function.instructions.values() for number in row.writes}
        kept[function.start] = _saved(function)
    found = {start: frozenset(own[start] - kept[start]) for start in own}
    changed = True
    while changed:
        changed = False
        for function in program.running:
            total = set(own[function.start])
            for call in function.calls:
                if call.target is None:
                    total |= set(range(FIRST_SAVED))
                total |= found.get(call.target, frozenset()) if call.target is not None else frozenset()
            total -= kept[function.start] | {SP}
            if total != found[function.start]:
                found[function.start] = frozenset(total)
                changed = True
    return found


def _saved(function: Function) -> set[int]:
    """Callee-saved registers that the function stores before it changes them."""
    found: set[int] = set()
    changed: set[int] = set()
    for address in sorted(function.instructions):
        row = function.instructions[address]
        memory = row.memory
        if row.is_store and memory and memory.base == SP:
            found |= {
                reg.number
                for reg in row.registers
                if FIRST_SAVED <= reg.number <= LAST_SAVED and reg.number not in changed
            }
        changed |= set(row.writes)
    return found


def flow_of(function: Function, frame: Frames, clobbers: dict[int, frozenset[int]]) -> Flow:
    """The reaching definitions of a function."""
    calls = {call.at: call for call in function.calls}
    slots = {
        row.address: _slots(row, frame)
        for row in function.instructions.values()
        if row.memory and _slots(row, frame)
    }
    shared = _shared(function, frame, slots)
    entering: dict[int, dict[Place, frozenset[int]]] = {function.start: {}}
    at: dict[int, dict[Place, frozenset[int]]] = {}
    pending = [function.start] if function.start in function.blocks else []
    while pending:
        start = pending.pop()
        state = dict(entering[start])
        for row in function.blocks[start].instructions:
            at[row.address] = dict(state)
            for place in _written(row, slots, calls.get(row.address), clobbers):
                state[place] = frozenset((row.address,))
            if row.address in calls or (row.is_store and row.address not in slots):
                for slot in shared:
                    state[slot] = state.get(slot, frozenset((AT_ENTRY,))) | {row.address}
        for to in function.blocks[start].successors:
            if _join(entering, to, state):
                pending.append(to)
    return Flow(at, slots, frozenset(shared))


def _join(entering: dict[int, dict[Place, frozenset[int]]], to: int, state: dict[Place, frozenset[int]]) -> bool:
    """Add a predecessor's state to a block's; whether that changed it."""
    if to not in entering:
        entering[to] = dict(state)
        return True
    old, changed = entering[to], False
    entry = frozenset((AT_ENTRY,))
    for place in old.keys() | state.keys():
        both = old.get(place, entry) | state.get(place, entry)
        if both != old.get(place):
            changed |= both != old.get(place, entry) or place not in old
            old[place] = both
    return changed


def _shared(function: Function, frame: Frames, slots: dict[int, tuple[Slot, ...]]) -> list[Slot]:
    """Places on the stack that pointers may lead to: from the lowest one whose address a register gets."""
    taken = [
        frame.before[row.address] + sum(item for item in row.operands[2:] if isinstance(item, int))
        for row in function.instructions.values()
        if row.mnemonic in ("add", "mov")
        and SP in row.reads
        and SP not in row.writes
        and row.address in frame.before
    ]
    if not taken:
        return []
    return sorted({slot for row in slots.values() for slot in row if slot[1] >= min(taken)})


def _slots(row: Instruction, frame: Frames) -> tuple[Slot, ...]:
    """Places on the stack that a load or store names directly."""
    memory = row.memory
    if memory is None or memory.base != SP or memory.scaled or row.address not in frame.before:
        return ()
    start = frame.before[row.address] + memory.offset
    if row.mnemonic in ("stp", "ldp"):
        size = row.access_bytes // 2
        return ("stack", start), ("stack", start + size)
    return (("stack", start),)


def _written(
    row: Instruction, slots: dict[int, tuple[Slot, ...]], call: Call | None, clobbers: dict[int, frozenset[int]]
) -> set[Place]:
    found: set[Place] = set(row.writes)
    if row.is_store:
        found |= set(slots.get(row.address, ()))
    if call is not None and not call.is_jump:
        if call.target is None or call.target not in clobbers:
            found |= {*range(FIRST_SAVED), LINK, FLAGS}
        else:
            found |= clobbers[call.target] | {0, LINK}
    return found
