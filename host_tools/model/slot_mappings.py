# SPDX-License-Identifier: BSD-2-Clause
"""Whether slots lie in memory that is mapped when they are copied, or worked on, in a trace of any kind."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
from numpy.typing import NDArray

from host_tools.support.pages import pages_of
from trace_format.actions import Action, Columns, Op, actions_of
from trace_format.errors import SlotError
from trace_format.operators import operands
from trace_format.schema import PAGE_BYTES
from trace_format.slots import Slot
from trace_format.trace import Trace

Pages = NDArray[np.int64]
_AGAIN = "record it again: `gramophone record` replays what it found before it writes it"


def check_slots(trace: Trace) -> None:
    """Raise SlotError if an element of a slot is not mapped when its job has run, or before it does.

    The error names the slot, the first element that is not mapped, how many are not, when, and what to do.
    """
    slots = trace.slots
    wanted = {number: _pages(slot) for number, slot in enumerate(slots)}
    by_space: defaultdict[int, list[Pages]] = defaultdict(list)
    for number, pages in wanted.items():
        by_space[slots[number].address_space].append(pages)
    known = {space: np.unique(np.concatenate(pages)) for space, pages in by_space.items()}
    mapped = {space: np.zeros(len(pages), np.bool_) for space, pages in known.items()}
    rows = Columns(trace.actions).is_op(
        Op.MAP_GPU_MEM, Op.UNMAP_GPU_MEM, Op.COPY_TO_GPU, Op.COPY_FROM_GPU, Op.OPERATE, Op.JOB
    )
    job: int | None = None
    for row in actions_of(trace.actions[rows]):
        if row.op == Op.JOB:
            job = row.number
        elif row.op in (Op.MAP_GPU_MEM, Op.UNMAP_GPU_MEM):
            if row.address_space in known:
                first, end = np.searchsorted(known[row.address_space], [row.va_page, row.va_page + row.pages])
                mapped[row.address_space][first:end] = row.op == Op.MAP_GPU_MEM
        else:
            for number in _numbers(row, slots):
                slot = slots[number]
                there = mapped[slot.address_space]
                at = np.searchsorted(known[slot.address_space], wanted[number])
                if not there[at].all():
                    raise SlotError(_says(slot, wanted[number][~there[at]], job))


def _numbers(row: Action, slots: list[Slot]) -> range:
    """Numbers of the slots that an action is about."""
    return range(row.slot, row.slot + (len(operands(row, slots)) if row.op == Op.OPERATE else 1))


def _pages(slot: Slot) -> Pages:
    """Pages that the slot's elements lie in; an element crosses no page border."""
    if slot.span == slot.dense_bytes:
        return np.array(pages_of(slot.address, slot.span), np.int64)
    return np.unique(slot.element_addresses() // PAGE_BYTES)


def _says(slot: Slot, missing: Pages, job: int | None) -> str:
    elements = slot.element_addresses()
    outside = np.isin(elements // PAGE_BYTES, missing)
    first = np.argwhere(outside)[0]
    address = int(elements[tuple(first)])
    count = int(outside.sum())
    what = (
        "the whole slot" if outside.all() else f"{count} of its {outside.size} elements, from {first.tolist()} on"
    )
    when = "before the first job" if job is None else f"after job {job}"
    return f"slot {slot.name} is not mapped at GPU address {address:#x}: {what}, {when}; {_AGAIN}"
