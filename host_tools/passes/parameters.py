# SPDX-License-Identifier: BSD-2-Clause
"""Parameters (weights): bound to values at build time, they become constant memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from host_tools.model.memory import Conflict, Memory
from host_tools.model.program import Program
from host_tools.support.pages import pieces
from trace_format.actions import Columns, Type, rewritten
from trace_format.errors import SlotError
from trace_format.schema import SlotKind
from trace_format.trace import Slot, Trace


def bind(trace: Trace, values: Mapping[str, NDArray[Any]]) -> Trace:
    """Put values into parameter slots of a trace; see `bind_program`."""
    program = Program(trace)
    bind_program(program, values)
    return program.trace()


def bind_program(program: Program, values: Mapping[str, NDArray[Any]]) -> None:
    """Put values into parameter slots and mark them bound.

    Args:
        values: array by slot name, of the slot's shape; converted to its element type.

    Raises:
        SlotError: no such parameter, another shape, or memory that the recording maps again between jobs.
    """
    if not values:
        return
    try:
        memory = program.memory
    except Conflict as error:
        raise SlotError(f"parameters cannot be bound: {error}") from None
    memory.slot_frames(SlotKind.PARAMETER)  # all of them are mapped
    for name, array in values.items():
        slot = memory.trace.slot(name)
        if slot.kind != SlotKind.PARAMETER:
            raise SlotError(f"slot {name} is an {slot.kind.name.lower()}, not a parameter")
        if array.shape != slot.shape:
            raise SlotError(f"shape of parameter {name}", expected=slot.shape, found=array.shape)
        _store(memory, slot, array.astype(slot.numpy_dtype))
    program.commit()
    program.replace(slots=[replace(s, bound=True) if s.name in values else s for s in program.slots])


def _store(memory: Memory, slot: Slot, array: NDArray[Any]) -> None:
    """Put a tensor where its slot says. What lies densely is stored as a run of bytes."""
    dense, size = len(slot.shape), array.itemsize
    while dense and slot.strides[dense - 1] == size:
        dense -= 1
        size *= slot.shape[dense]
    runs = np.ascontiguousarray(array).view(np.uint8).reshape(-1, size)
    for index, run in zip(np.ndindex(slot.shape[:dense]), runs, strict=True):
        at = slot.address + sum(i * s for i, s in zip(index, slot.strides, strict=False))
        for page, inside, part in pieces(at, size):
            memory.pages[memory.mappings[slot.address_space, page].frame].put(inside, run[part])


def drop_bound(trace: Trace) -> Trace:
    """Remove bound parameter slots of a trace; see `constant`."""
    program = Program(trace)
    constant(program)
    return program.trace()


def constant(program: Program) -> None:
    """Remove bound parameter slots: their memory becomes constant, and later passes may share and protect it."""
    slots = program.slots
    kept = [i for i, s in enumerate(slots) if not (s.kind == SlotKind.PARAMETER and s.bound)]
    target = np.full(len(slots) + 1, -1, np.int64)  # the last one is of actions on no slot
    target[kept] = np.arange(len(kept))
    rows = program.actions
    numbers = Columns(rows).slot
    rows = rows[(numbers < 0) | (target[numbers] >= 0)]
    program.actions = rewritten(rows, lambda numbers: target[numbers], Type.SLOT)
    program.replace(slots=[slots[i] for i in kept])
