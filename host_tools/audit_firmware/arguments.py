# SPDX-License-Identifier: BSD-2-Clause
"""What a function is called with, on every way to it."""

from __future__ import annotations

from collections.abc import Iterator

from host_tools.audit_firmware.program import Function, Program
from host_tools.audit_firmware.ranges import Value
from host_tools.audit_firmware.values import MAX_CALLERS, Frame, Values

MAX_VALUES = 64  # of one argument of one call


def passed(program: Program, values: Values, function: Function, register: int) -> frozenset[int]:
    """The numbers that the direct calls of a function pass in a register, as far as the code shows them.

    A call whose argument is not a choice of a few numbers adds none.
    """
    found: set[int] = set()
    for caller, call in program.callers(function):
        for value in _on_each_way(program, values, Frame(caller), call.at, register, MAX_CALLERS):
            if (value.high - value.low) // (value.step or 1) < MAX_VALUES:
                found.update(range(value.low, value.high + 1, value.step or 1))
    return frozenset(found)


def _on_each_way(
    program: Program, values: Values, frame: Frame, at: int, register: int, levels: int
) -> Iterator[Value]:
    value = values.register(frame, at, register)
    callers = program.callers(frame.outermost) if value.has("param") and levels else []
    if not callers:
        yield value
    for caller, call in callers:
        yield from _on_each_way(program, values, frame.extended(Frame(caller), call.at), at, register, levels - 1)
