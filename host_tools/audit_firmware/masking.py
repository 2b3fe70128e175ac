# SPDX-License-Identifier: BSD-2-Clause
"""Whether a value is what the limits of the allow list leave of another: `(value & bits) | always`, and nothing
that is computed from that. A bit that is changed afterwards, on a condition, is one that the limits do not hold.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from host_tools.audit_firmware.flow import AT_ENTRY, Flow
from host_tools.audit_firmware.instructions import ZERO, Instruction, Register
from host_tools.audit_firmware.values import Frame, Values

MAX_COPIES = 24  # moves, spills and calls that a value is followed through
_CHOICES = frozenset(("mov", "csel"))
Made = tuple[Frame, Instruction | None]  # None: what made it is not known


def is_masked(
    flows: Mapping[int, Flow], values: Values, frame: Frame, at: int, register: Register, lookup: int
) -> bool:
    """Whether all that a register can hold was made by the limits that a look-up gave.

    Args:
        flows, values: of the program.
        frame: the way to the instruction.
        at: its address, before which the register is asked.
        register: which.
        lookup: the call that gave the limits.
    """
    made = list(_made(flows, frame, at, register.number))
    return bool(made) and all(
        row is not None and row.mnemonic == "orr" and _is_limited(flows, values, place, row, lookup)
        for place, row in made
    )


def _is_limited(flows: Mapping[int, Flow], values: Values, frame: Frame, row: Instruction, lookup: int) -> bool:
    """Whether an `orr` joins one field of the limits with what an `and` left by the other."""
    for always, value in (row.registers[1:3], row.registers[2:0:-1]):
        if not _is_field(flows, values, frame, row, always, lookup):
            continue
        ands = list(_made(flows, frame, row.address, value.number))
        if ands and all(
            item is not None
            and item.mnemonic == "and"
            and any(_is_field(flows, values, place, item, operand, lookup) for operand in item.registers[1:])
            for place, item in ands
        ):
            return True
    return False


def _is_field(
    flows: Mapping[int, Flow], values: Values, frame: Frame, row: Instruction, register: Register, lookup: int
) -> bool:
    """Whether an operand is, unchanged, what was loaded through the pointer that the look-up gave."""
    if register.change:
        return False
    made = list(_made(flows, frame, row.address, register.number))
    return bool(made) and all(
        item is not None
        and item.is_load
        and ("via", lookup) in values.register(frame, row.address, register).roots
        for _, item in made
    )


def _made(flows: Mapping[int, Flow], frame: Frame, at: int, number: int, copies: int = 0) -> Iterator[Made]:
    """The instructions that made what a register holds, through copies of it."""
    flow = flows[frame.function.start]
    for source in sorted(flow.sources(at, number)):
        yield from _of_source(flows, frame, source, number, copies + 1)


def _of_source(flows: Mapping[int, Flow], frame: Frame, source: int, number: int, copies: int) -> Iterator[Made]:
    if copies > MAX_COPIES:
        yield frame, None
        return
    if source == AT_ENTRY:
        if frame.caller is None:
            yield frame, None
        else:
            yield from _made(flows, frame.caller, frame.call_at, number, copies)
        return
    row = frame.function.instructions[source]
    flow = flows[frame.function.start]
    slots = flow.slots.get(source, ())
    if row.mnemonic in _CHOICES and len(row.registers) > 1:
        for operand in row.registers[1:]:
            if operand.change or operand.number == ZERO:
                yield frame, None
            else:
                yield from _made(flows, frame, source, operand.number, copies)
    elif row.is_load and slots:
        slot = slots[[item.number for item in row.registers].index(number)]
        for place in sorted(flow.sources(source, slot)):
            store = frame.function.instructions.get(place)
            if store is None or slot not in flow.slots.get(place, ()):
                yield frame, None
            else:
                kept = store.registers[flow.slots[place].index(slot)]
                yield from _made(flows, frame, place, kept.number, copies)
    else:
        yield frame, row
