# SPDX-License-Identifier: BSD-2-Clause
"""Values of slots: parameters (weights) are bound at build time and become constant memory; recorded inputs go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from host_tools.accesses.slot_places import places
from host_tools.model.memory import Conflict, Memory
from host_tools.passes.program import Program
from trace_format.actions import Actions, Columns, Op, Type, rewritten
from trace_format.errors import SlotError
from trace_format.operators import operations
from trace_format.schema import PAGE_BYTES, SlotKind
from trace_format.slots import Slot
from trace_format.trace import Trace


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
    if memory.prepares:
        raise SlotError("parameters cannot be bound: jobs of the prologue use them: build the recording with them")
    memory.slot_frames(SlotKind.PARAMETER)
    for name, array in values.items():
        slot = memory.trace.slot(name)
        if slot.kind != SlotKind.PARAMETER:
            raise SlotError(f"slot {name} is an {slot.kind.name.lower()}, not a parameter")
        if array.shape != slot.shape:
            raise SlotError(f"shape of parameter {name}", expected=slot.shape, found=array.shape)
        store(memory, slot, array.astype(slot.numpy_dtype))
    program.commit()
    program.replace(slots=[replace(s, bound=True) if s.name in values else s for s in program.slots])


def store(memory: Memory, slot: Slot, array: NDArray[Any]) -> None:
    """Put a tensor where its slot says."""
    data = np.ascontiguousarray(array).view(np.uint8).reshape(-1)
    data.flags.writeable = False  # pages share it
    for page, inside, part in places(memory, slot):
        page.put(inside, data[part])


def forget_inputs(program: Program) -> None:
    """Leave recorded values of inputs out: a replay must be given them.

    Raises:
        Conflict: the recording maps memory again between jobs; nothing is changed.
        SlotError: an input is not mapped.
    """
    memory = program.memory
    memory.slot_frames(SlotKind.INPUT)
    recorded = [slot for slot in program.slots if slot.kind == SlotKind.INPUT and slot.bound]
    for slot in recorded:
        for page, inside, _ in places(memory, slot):
            dead = np.zeros(PAGE_BYTES, np.bool_)
            dead[inside] = True
            page.drop(dead)
    program.commit()
    program.replace(slots=[replace(s, bound=False) if s in recorded else s for s in program.slots])


def constant(program: Program) -> None:
    """Remove bound parameter slots: their memory becomes constant, and later passes may share and protect it.

    Slots that operators work on stay, and those by which callers set state, which is not constant.
    """
    slots = program.slots
    operated = {i for _, row in operations(program.actions) for i in range(row.slot, row.slot + row.operands)}
    stay = operated | settable(program.actions)
    kept = [i for i, s in enumerate(slots) if i in stay or not (s.kind == SlotKind.PARAMETER and s.bound)]
    program.actions = without_slots(program.actions, len(slots), kept)
    program.replace(slots=[slots[i] for i in kept])


def settable(rows: Actions) -> set[int]:
    """Numbers of the slots by which callers set state (host_tools/passes/state.py): copied in the prologue."""
    columns = Columns(rows)
    starts = np.flatnonzero(columns.is_op(Op.REPLAY_START))
    prologue = np.arange(len(rows)) < (starts[0] if len(starts) else 0)
    return set(columns.slot[prologue & columns.is_op(Op.COPY_TO_GPU)].tolist())


def without_slots(rows: Actions, slots: int, kept: Sequence[int]) -> Actions:
    """The actions of a trace of which only some slots are kept, by their new numbers; those on others are dropped.

    Args:
        rows: the actions.
        slots: how many slots the trace has.
        kept: numbers of the slots that are kept, in order.
    """
    target = np.full(slots + 1, -1, np.int64)  # the last one is of actions on no slot
    target[kept] = np.arange(len(kept))
    numbers = Columns(rows).slot
    return rewritten(rows[(numbers < 0) | (target[numbers] >= 0)], lambda numbers: target[numbers], Type.SLOT)
