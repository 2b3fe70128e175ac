# SPDX-License-Identifier: BSD-2-Clause
"""State: memory that outlasts a replay, such as the weights of a network that is trained by replays.

It is what the prologue fills and no replay does, so each replay finds what the one before has left. The prologue
runs again where a parameter is bound, where a user's data is forgotten, and after a replay that failed: then state
begins anew. A retry would do the same unseen, so a trace with state allows none. Nobody outside sees it but by a
slot: it is set by a parameter that is copied in the prologue, and read by an output (docs/DESIGN.md, Memory).
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from host_tools.accesses.slot_places import places
from host_tools.model.memory import Conflict
from host_tools.passes.parameters import settable, store, without_slots
from host_tools.passes.program import Program
from trace_format.actions import Action, Actions, Columns, Op, action, actions_of, array_of
from trace_format.errors import SlotError, listed
from trace_format.operators import Operator, operations
from trace_format.schema import SlotKind
from trace_format.slots import Slot

NEXT = ".next"  # ends the name of the operand that is written where a slot of callers lies


def keep(
    program: Program,
    states: Mapping[str, str],
    open_slots: Collection[str] = (),
    first: Mapping[str, NDArray[Any]] | None = None,
) -> None:
    """Let replays go on where the one before ended: what one leaves in a slot is what the next finds in another.

    Where both lie in one place nothing is to be done; else the operator `copy` brings the value there at the end.

    Args:
        states: name of an input or parameter with a recorded value -> name of the output that is its next value.
        open_slots: which of these callers may still set and read; the others are theirs no more.
        first: first values that are not the recorded ones, by the input's name, of its shape and element type.

    Raises:
        SlotError: no such slot, two that do not fit together, or memory that the recording maps again.
    """
    if not states:
        if others := sorted({*open_slots, *(first or {})}):
            raise SlotError(f"slot {listed(others)} belongs to no state, and the recording has none")
        return
    slots = program.slots
    pairs = [(_number(program, given, True), _number(program, left, False)) for given, left in states.items()]
    names = [slots[number].name for pair in pairs for number in pair]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise SlotError(f"state: slot {listed(twice)} is used twice")
    if others := sorted(set(open_slots) - set(names)):
        raise SlotError(f"slot {listed(others)} belongs to no state; there are: {listed(names)}")
    for given, left in pairs:
        _check_fit(slots[given], slots[left])
    for (one, _), (other, _) in itertools.combinations(pairs, 2):
        if _overlap(slots[one], slots[other]):
            raise SlotError(f"state: slots {slots[one].name} and {slots[other].name} overlap")
    if others := sorted((first or {}).keys() - states.keys()):
        raise SlotError(
            f"slot {listed(others)} belongs to no state, so it has no first value; there are: {listed(states)}"
        )
    operated = {i for _, row in operations(program.actions) for i in range(row.slot, row.slot + row.operands)}
    if found := [slots[number].name for pair in pairs for number in pair if number in operated]:
        raise SlotError(f"state: slot {listed(found)} is an operand of an operator")
    if not Columns(program.actions).is_op(Op.REPLAY_START).any():
        raise SlotError("state cannot be kept: the whole trace runs in every replay")
    _keep_memory(program, [slots[given] for given, _ in pairs], first or {})
    program.changed_in_place = [slots[given] for given, left in pairs if _same_place(slots[given], slots[left])]
    _change_slots(program, pairs, set(open_slots))
    program.replace(meta={**program.meta, "retry_limit": 0})


def _number(program: Program, name: str, is_given: bool) -> int:
    names = [slot.name for slot in program.slots]
    if name not in names:
        raise SlotError(f"state: no slot {name!r}; there are: {listed(names)}")
    number = names.index(name)
    slot = program.slots[number]
    if slot.kind not in ((SlotKind.INPUT, SlotKind.PARAMETER) if is_given else (SlotKind.OUTPUT,)):
        wanted = "an input or parameter" if is_given else "an output"
        raise SlotError(f"state: slot {name}", expected=wanted, found=slot.kind.name.lower())
    if number in settable(program.actions):
        raise SlotError(f"state: slot {name} is state already")
    if is_given and not slot.bound:
        raise SlotError(f"state: slot {name} has no value to begin with")
    return number


def _check_fit(given: Slot, left: Slot) -> None:
    if (given.dtype, given.dense_bytes) != (left.dtype, left.dense_bytes):
        raise SlotError(
            f"state: slot {left.name} cannot be the next value of {given.name}",
            expected=f"{given.dtype.name.lower()} {list(given.shape)}",
            found=f"{left.dtype.name.lower()} {list(left.shape)}",
        )
    if _overlap(given, left) and not _same_place(given, left):
        raise SlotError(f"state: slots {given.name} and {left.name} overlap, but are not the same memory")


def _overlap(one: Slot, other: Slot) -> bool:
    near = one.address < other.address + other.span and other.address < one.address + one.span
    return near and one.address_space == other.address_space


def _ordered(pairs: list[tuple[Slot, Slot]]) -> list[tuple[Slot, Slot]]:
    """The copies in an order in which none writes over what another has still to read.

    Raises:
        SlotError: there is none.
    """
    left, found = list(pairs), []
    while left:
        free = [
            pair for pair in left if not any(_overlap(pair[0], other[1]) for other in left if other is not pair)
        ]
        if not free:
            names = listed(given.name for given, _ in left)
            raise SlotError(f"state: of {names}, each overlaps the next value of another")
        found.append(free[0])
        left.remove(free[0])
    return found


def _same_place(one: Slot, other: Slot) -> bool:
    return all(
        getattr(one, name) == getattr(other, name) for name in ("address_space", "address", "shape", "strides")
    )


def _keep_memory(program: Program, given: list[Slot], first: Mapping[str, NDArray[Any]]) -> None:
    try:
        memory = program.memory
    except Conflict as error:
        raise SlotError(f"state cannot be kept: {error}") from None
    memory.frames_of(given)
    for slot in given:
        if slot.name in first:
            store(memory, slot, first[slot.name])
        for page, inside, _ in places(memory, slot):
            page.keep(inside, True)
    program.commit()


def _change_slots(program: Program, pairs: list[tuple[int, int]], is_open: set[str]) -> None:
    """Give the slots their kinds and copies; operands of `copy` follow one another at the end."""
    slots = list(program.slots)
    kept = [number for number, slot in enumerate(slots) if all(number not in pair for pair in pairs)]
    sets: list[int] = []  # copied in the prologue
    leaves: dict[int, list[Action]] = {}  # output -> what is done in place of its copy
    operands: list[int] = []
    moved = [(slots[given], slots[left]) for given, left in pairs if not _same_place(slots[given], slots[left])]
    moves: list[Action] = []
    order = {target.name: at for at, (target, _) in enumerate(_ordered(moved))}
    for given, left in sorted(pairs, key=lambda pair: order.get(slots[pair[0]].name, -1)):
        target, source = slots[given], slots[left]
        if target.name in is_open:
            sets.append(given)
            slots[given] = replace(target, kind=SlotKind.PARAMETER)
        kept += [given] if target.name in is_open else []
        leaves[left] = [action(Op.COPY_FROM_GPU, slot=left)] if source.name in is_open else []
        if _same_place(target, source):
            kept += [left] if source.name in is_open else []
            continue
        name = target.name + (NEXT if target.name in is_open else "")
        operands += [len(slots), left]
        slots.append(replace(target, name=name, kind=SlotKind.INTERNAL, bound=False))
        slots[left] = source if source.name in is_open else replace(source, kind=SlotKind.INTERNAL)
        moves.append(action(Op.OPERATE, slot=len(slots) - 1, operator=Operator.COPY, operands=2))
    rows = _rows(program.actions, {given for given, _ in pairs}, sets, leaves, moves)
    kept += operands
    program.actions = without_slots(rows, len(slots), kept)
    program.replace(slots=[slots[number] for number in kept])


def _rows(
    rows: Actions, given: set[int], sets: list[int], leaves: Mapping[int, list[Action]], moves: list[Action]
) -> Actions:
    """The actions with other copies of these slots: callers' values in the prologue, `moves` after all results."""
    found: list[Action] = []
    last = int(np.flatnonzero(Columns(rows).is_op(Op.COPY_FROM_GPU))[-1])
    for index, row in enumerate(actions_of(rows)):
        if row.op == Op.REPLAY_START:
            found += [action(Op.COPY_TO_GPU, slot=number) for number in sets]
        if row.op == Op.COPY_FROM_GPU and row.slot in leaves:
            found += leaves[row.slot]
        elif row.op != Op.COPY_TO_GPU or row.slot not in given:
            found.append(row)
        found += moves if index == last else []
    return array_of(found)
