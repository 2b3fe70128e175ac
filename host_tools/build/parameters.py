"""Parameters (weights): bound to values at build time, they become constant memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from host_tools.build.memory import Memory
from trace_format.actions import Op
from trace_format.errors import SlotError
from trace_format.schema import PAGE_BYTES, SlotKind
from trace_format.trace import Slot, Trace


def bind(trace: Trace, values: Mapping[str, NDArray[Any]]) -> Trace:
    """Put values into parameter slots and mark them bound.

    Args:
        values: array by slot name, of the slot's shape; converted to its element type.

    Raises:
        SlotError: no such parameter, or another shape.
    """
    if not values:
        return trace
    memory = Memory.of(trace)
    for name, array in values.items():
        slot = trace.slot(name)
        if slot.kind != SlotKind.PARAMETER:
            raise SlotError(f"slot {name} is an {slot.kind.name.lower()}, not a parameter")
        if array.shape != slot.shape:
            raise SlotError(f"shape of parameter {name}", expected=slot.shape, found=array.shape)
        _store(memory, slot, array.astype(slot.numpy_dtype))
    bound = [replace(s, bound=True) if s.name in values else s for s in trace.slots]
    return memory.emit().with_(slots=bound)


def _store(memory: Memory, slot: Slot, array: NDArray[Any]) -> None:
    for index in np.ndindex(slot.shape):
        at = slot.address + sum(i * s for i, s in zip(index, slot.strides, strict=True))
        page = memory.pages[memory.mappings[slot.address_space, at // PAGE_BYTES].frame]
        inside = at % PAGE_BYTES
        page.content[inside : inside + array.itemsize] = np.frombuffer(array[index].tobytes(), np.uint8)
        page.live[inside : inside + array.itemsize] = True


def drop_bound(trace: Trace) -> Trace:
    """Remove bound parameter slots: their memory becomes constant, and later passes may share and protect it."""
    kept = [i for i, s in enumerate(trace.slots) if not (s.kind == SlotKind.PARAMETER and s.bound)]
    target = np.full(max(1, len(trace.slots)), -1, np.int64)
    target[kept] = np.arange(len(kept))
    copies = np.isin(trace.actions["op"], [int(Op.COPY_TO_GPU), int(Op.COPY_FROM_GPU)])
    actions = trace.actions.copy()
    actions["arg"][copies] = np.maximum(target[actions["arg"][copies]], 0)
    dropped = np.zeros(len(actions), np.bool_)
    dropped[copies] = target[trace.actions["arg"][copies]] < 0
    return trace.with_(actions=actions[~dropped], slots=[trace.slots[i] for i in kept], raw=False)
