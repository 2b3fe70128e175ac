# SPDX-License-Identifier: BSD-2-Clause
"""Pointers that the code keeps on the stack, where the replayer's state lies: to the carve-out, to the mailbox, to
the stack itself. A field is told by its offset from the start of a function's frame, an array by that of its first
element. Every store counts, in whatever order they run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from host_tools.audit_firmware.flow import AT_ENTRY, Flow
from host_tools.audit_firmware.instructions import Instruction
from host_tools.audit_firmware.places import SMALL, Places
from host_tools.audit_firmware.program import POINTER, Function, Program
from host_tools.audit_firmware.ranges import Cell, Value, joined
from host_tools.audit_firmware.values import MAX_CALLERS, Frame, Values

ROUNDS = 4  # a pointer may be kept behind pointers that are kept
_MAKERS = frozenset(("mov", "movk", "adr", "adrp", "add", "sub", "and", "madd", "umaddl", "csel", "ldr", "ldp"))
Known = Mapping[Cell, Value]


def ways(
    program: Program, frame: Frame, is_open: Callable[[Frame], bool], levels: int = MAX_CALLERS
) -> Iterator[Frame]:
    """The ways to a function, each as long as it takes to know what is passed.

    Args:
        program: its calls.
        frame: the innermost part of the way.
        is_open: whether something of interest still depends on a parameter.
        levels: of calls that are followed.
    """
    callers = program.callers(frame.outermost) if levels and is_open(frame) else []
    if not callers:
        yield frame
    for caller, call in callers:
        yield from ways(program, frame.extended(Frame(caller), call.at), is_open, levels - 1)


def pointers(
    program: Program, flows: Mapping[int, Flow], values_of: Callable[[Known], Values], places: Places
) -> Values:
    """Values that know what pointers on the stack may be.

    Args:
        program, flows: of it.
        values_of: makes values of what is known so far.
        places: devices and memory.
    """
    known: Known = {}
    rows = [
        (function, row)
        for function in program.running
        for row in function.instructions.values()
        if _keeps_pointers(function, row, flows[function.start])
    ]
    for _ in range(ROUNDS):
        values = values_of(known)
        found: dict[Cell, list[Value]] = {}
        for function, row in rows:
            for cell, value in _kept(program, values, places, function, row):
                found.setdefault(cell, []).append(value)
        latest = {cell: _one(rows) for cell, rows in found.items()}
        if latest == known:
            break
        known = latest
    return values_of(known)


def memories(places: Places, value: Value, *, downwards: bool = True) -> frozenset[str]:
    """What of "carveout" and "mailbox" an address may lie in, by the constants that it was computed from.

    Args:
        places: devices and memory.
        value: the address.
        downwards: what is taken from the end of memory counts as well.
    """
    if value.is_on_stack:
        return frozenset()
    numbers = [number for kind, number in value.roots if kind == "const"] + [value.low]
    found = {places.of(number) for number in numbers if number >= SMALL}
    if downwards:
        found |= {places.of(number - SMALL) for number in numbers if number >= SMALL and not places.of(number)}
    return frozenset(found & {"carveout", "mailbox"})


def _keeps_pointers(function: Function, row: Instruction, flow: Flow) -> bool:
    """Whether it is a store of a field to where others look: the flow of values knows the rest of the stack."""
    if not row.is_store or row.access_bytes // (2 if row.mnemonic in ("stp", "stnp") else 1) != POINTER:
        return False
    slots = flow.slots.get(row.address, ())
    if slots and flow.shared.isdisjoint(slots):
        return False
    made = {at for item in row.registers for at in flow.sources(row.address, item.number)}
    return any(at == AT_ENTRY or _makes_pointers(function.instructions[at]) for at in made)


def _makes_pointers(row: Instruction) -> bool:
    """Not what copies or computes numbers word by word."""
    return row.mnemonic in _MAKERS and not (row.memory and row.memory.mode)


def _kept(
    program: Program, values: Values, places: Places, function: Function, row: Instruction
) -> Iterator[tuple[Cell, Value]]:
    """What a store keeps on the stack, on each way to it."""

    def held(frame: Frame) -> list[Value]:
        return [values.address(frame, row), *(values.register(frame, row.address, item) for item in row.registers)]

    for frame in ways(program, Frame(function), lambda frame: any(value.has("param") for value in held(frame))):
        address, *stored = held(frame)
        start, low = address.cell
        for index, value in enumerate(stored):
            if start >= 0 and (value.cell[0] >= 0 or memories(places, value)):
                yield (start, low + index * POINTER), value


def _one(rows: list[Value]) -> Value:
    """Any of several pointers; those to memory are of more interest than those to the stack."""
    memory = [
        Value(
            value.low,
            value.high,
            value.step,
            value.roots | {("const", value.low)} if value.is_single else value.roots,
        )
        for value in rows
        if not value.is_on_stack
    ]
    if memory:
        return joined(memory)
    return rows[0] if len({(value.cell) for value in rows}) == 1 else joined(rows)
