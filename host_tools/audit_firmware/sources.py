# SPDX-License-Identifier: BSD-2-Clause
"""The loads that a value was computed from, through moves, arithmetic, spills and calls. Unlike `values.py`, this
does not ask what the value is, so the length of the code does not matter.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from host_tools.audit_firmware.flow import AT_ENTRY, Flow, Place
from host_tools.audit_firmware.instructions import FLAGS, SP, ZERO, Instruction
from host_tools.audit_firmware.values import Frame

_SHIFTS = frozenset(("lsl", "lsr", "asr", "ror"))  # how far is no part of a value


def loads_behind(
    flows: Mapping[int, Flow], frame: Frame, at: int, registers: Iterable[int]
) -> Iterator[tuple[Frame, Instruction | None]]:
    """Each load, and where it is; None: a parameter of the way's first function.

    Args:
        flows: of the program.
        frame: the way to the instruction.
        at: its address, before which the registers are asked.
        registers: which.
    """
    pending: list[tuple[Frame, int, Place]] = [(frame, at, number) for number in registers]
    seen: set[tuple[Frame, int, Place]] = set()
    while pending:
        where, use, place = pending.pop()
        flow = flows[where.function.start]
        for source in flow.sources(use, place):
            row = where.function.instructions.get(source)
            key = where, source, place
            if key in seen:
                continue
            seen.add(key)
            if source == AT_ENTRY:
                if where.caller is not None:
                    pending.append((where.caller, where.call_at, place))
                else:
                    yield where, None
            elif row is None or row.mnemonic in ("bl", "blr"):
                continue  # what a call gave
            elif row.is_load and (slots := flow.slots.get(source)):
                pending += [(where, source, slot) for slot in slots]
                yield where, row
            elif row.is_load:
                yield where, row
            elif row.is_store:  # of what the slot was
                pending += [(where, source, item.number) for item in row.registers]
            else:
                reads = [row.registers[1].number] if row.mnemonic in _SHIFTS else row.reads
                pending += [(where, source, number) for number in reads if number not in (FLAGS, SP, ZERO)]
