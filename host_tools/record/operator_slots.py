# SPDX-License-Identifier: BSD-2-Clause
"""Slots, actions and memory that operators need in a recording.

What they need besides the GPU's tensors gets pages of its own, after all others in the GPU's addresses and in the
carve-out; no job uses them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from host_tools.machine.errors import RecordError
from host_tools.record.ncnn.cpu_operators import COUNT, Index, Result, Step, View
from trace_format.actions import MAP_READ, Action, Actions, Columns, Op, Type, action, array_of, rewritten
from trace_format.operators import OPERATORS, Operator
from trace_format.schema import DTYPE_BYTES, PAGE_BYTES, DType, SlotKind
from trace_format.slots import Slot
from trace_format.trace import Trace

Shape = tuple[int, ...]
Array = NDArray[Any]
APART = 64  # bytes that tensors are aligned to
GUARD_PAGES = 2  # not mapped, before the pages for operators: hardware fetches ahead of what it executes


def restrided(shape: Shape, strides: Shape, wanted: Shape, size: int) -> Shape | None:
    """Strides of a tensor in another shape of as many elements, in C order; None: it must be copied.

    Args:
        shape, strides: of the tensor, strides in bytes.
        wanted: the other shape.
        size: of an element, in bytes.
    """
    even: list[tuple[int, int]] = []  # runs of elements at one distance, as long as can be: number, distance
    for n, stride in zip(shape, strides, strict=True):
        if even and even[-1][1] == n * stride:
            even[-1] = (even[-1][0] * n, stride)
        elif n > 1:
            even.append((n, stride))
    found: list[int] = []
    for n in reversed(wanted):
        if n == 1:
            found.append(size)
            continue
        count, stride = even.pop()
        if count % n:
            return None
        found.append(stride)
        if count > n:
            even.append((count // n, stride * n))
    return tuple(reversed(found))


def dense(shape: Shape, size: int) -> Shape:
    """Strides of elements without gaps."""
    return tuple(int(np.prod(shape[axis + 1 :])) * size for axis in range(len(shape)))


def part(slot: Slot, index: Index) -> Slot:
    """A part of a tensor, as NumPy takes it; slices have no step."""
    address, shape, strides = slot.address, list[int](), list[int]()
    for axis, (size, stride) in enumerate(zip(slot.shape, slot.strides, strict=True)):
        at = index[axis] if axis < len(index) else slice(None)
        begin, end, _ = (at if isinstance(at, slice) else slice(at, at + 1)).indices(size)
        address += begin * stride
        if isinstance(at, slice):
            shape.append(end - begin)
            strides.append(stride)
    return replace(slot, shape=tuple(shape), strides=tuple(strides), address=address, split=None)


@dataclass
class Room:
    """Memory for operators; `start`: its GPU address."""

    start: int
    end: int
    values: list[tuple[int, bytes]] = field(default_factory=list)

    @classmethod
    def behind(cls, trace: Trace) -> Room:
        """Behind all that the trace maps."""
        columns = Columns(trace.actions)
        maps = columns.is_op(Op.MAP_GPU_MEM)
        start = (int((columns.va_page[maps] + columns.pages[maps]).max()) + GUARD_PAGES) * PAGE_BYTES
        return cls(start, start)

    def take(self, name: str, kind: SlotKind, shape: Shape, dtype: DType = DType.FLOAT32) -> Slot:
        """A tensor's place."""
        slot = Slot(name, kind, dtype, shape, dense(shape, DTYPE_BYTES[dtype]), self.end)
        self.end += -(-slot.span // APART) * APART
        return slot

    def constant(self, name: str, array: Array) -> Slot:
        """A place for values that the trace brings."""
        slot = replace(self.take(name, SlotKind.INTERNAL, array.shape), bound=True)
        self.values.append((slot.address, np.ascontiguousarray(array, "<f4").tobytes()))
        return slot


@dataclass
class Builder:
    """Slots and actions of the operators, after those that the trace has.

    Attributes:
        blobs: where tensors are.
        constants: values of those that have always the same.
        outputs: blobs that become outputs where an operator writes them.
        direct: where a blob goes that nobody but the GPU reads.
        rows: the actions since they were taken the last time.
    """

    room: Room
    blobs: dict[str, Slot]
    constants: Mapping[str, Array]
    outputs: Sequence[str]
    slots: list[Slot]
    direct: Mapping[str, Slot] = field(default_factory=dict)
    rows: list[Action] = field(default_factory=list)

    def taken_rows(self) -> list[Action]:
        """The actions; there are none after that."""
        rows, self.rows = self.rows, []
        return rows

    def operate(self, operator: Operator, operands: list[Slot]) -> None:
        """An operator on these slots, which become the trace's."""
        self.rows.append(
            action(Op.OPERATE, slot=len(self.slots), operator=operator, operands=len(operands)),
        )
        self.slots += operands

    def copy(self, target: Slot, source: Slot) -> None:
        """A copy, from a slot of any name."""
        self.operate(
            Operator.COPY, [target, replace(source, name=f"{target.name}.source", kind=SlotKind.INTERNAL)]
        )

    def step(self, number: int, step: Step) -> None:
        """A layer; `number`: no other one's."""
        types = OPERATORS[step.operator].types(len(step.operands))
        operands = []
        for at, (type, operand) in enumerate(zip(types, step.operands, strict=True)):
            name = f"op{number}.{type.name}{at}"
            match operand:
                case View() if step.operator is Operator.COPY and operand.blob in self.blobs:
                    blob = self.blobs[operand.blob]  # of any shape with these elements
                    operands.append(replace(blob, name=name, kind=SlotKind.INTERNAL, bound=False))
                case View():
                    operands.append(self._view(name, operand))
                case Result() if operand.blob in self.direct:
                    operands.append(replace(self.direct[operand.blob], name=name))
                case Result():
                    operands.append(self._result(name, operand))
                case _:
                    operands.append(self.room.constant(name, operand))
        self.operate(step.operator, operands)

    def _result(self, name: str, result: Result) -> Slot:
        """A place for what an operator writes; of a blob that is written in parts, the first one makes it."""
        is_output = result.blob.removesuffix(COUNT) in self.outputs
        kind = SlotKind.OUTPUT if is_output else SlotKind.INTERNAL
        is_whole = not (result.index or result.taken_as)
        whole = self.blobs.get(result.blob) if result.index else None
        if whole is None:
            named = result.blob if is_output else name
            whole = self.room.take(named, kind, result.shape, result.dtype)
            self.blobs[result.blob] = whole
            if is_output and not is_whole:
                self.slots.append(whole)
        if is_whole:
            return whole
        found = replace(part(whole, result.index), name=name, kind=SlotKind.INTERNAL)
        shape = result.taken_as or found.shape
        return replace(found, shape=shape, strides=dense(shape, DTYPE_BYTES[found.dtype]))

    def _view(self, name: str, view: View) -> Slot:
        """The blob, or its part, as an operand takes it."""
        if view.blob in self.constants:
            values = self.constants[view.blob].reshape(view.shape)[view.index]
            return self.room.constant(name, values.transpose(view.axes) if view.axes else values)
        blob = self.blobs[view.blob]
        strides = restrided(blob.shape, blob.strides, view.shape, DTYPE_BYTES[blob.dtype])
        if strides is None:
            source = Slot(f"{name}.packed", SlotKind.INTERNAL, blob.dtype, blob.shape, blob.strides, blob.address)
            blob = self.room.take(f"{name}.unpacked", SlotKind.INTERNAL, view.shape, blob.dtype)
            self.operate(Operator.COPY, [blob, source])
            self.blobs[view.blob] = blob
            strides = blob.strides
        found = part(Slot(name, SlotKind.INTERNAL, blob.dtype, view.shape, strides, blob.address), view.index)
        axes = view.axes or tuple(range(len(found.shape)))
        shape, strides = (tuple(sizes[axis] for axis in axes) for sizes in (found.shape, found.strides))
        return replace(found, shape=shape, strides=strides)


def inserted(actions: Actions, rows: Mapping[int, Sequence[Action]]) -> Actions:
    """The actions with others before those with these numbers."""
    parts, at = [], 0
    for number in sorted(rows):
        parts += [actions[at:number], array_of(rows[number])]
        at = number
    return np.concatenate([*parts, actions[at:]])


def copied_out_from(actions: Actions) -> int:
    """Number of the first action that copies an output; no job comes after it.

    Raises:
        RecordError: there is none.
    """
    found = np.flatnonzero(Columns(actions).is_op(Op.COPY_FROM_GPU))
    if not len(found):
        raise RecordError("no GPU result depends on the inputs")
    return int(found[0])


def with_room(trace: Trace, room: Room) -> Trace:
    """The trace with memory for operators, mapped and with its values.

    Raises:
        RecordError: the GPU's addresses do not suffice.
    """
    if room.end > trace.va_bytes:
        raise RecordError(f"no GPU addresses are left for operators: {room.end:#x} of {trace.va_bytes:#x} bytes")
    trace, sources = with_data(trace, [data for _, data in room.values])
    carveout = trace.carveout_bytes
    first, pages = carveout // PAGE_BYTES, -(-(room.end - room.start) // PAGE_BYTES)
    mapping = action(
        Op.MAP_GPU_MEM, flags=MAP_READ, address_space=0, va_page=room.start // PAGE_BYTES, pages=pages, frame=first
    )
    uploads = [
        action(Op.UPLOAD, bytes=len(data), target=carveout + address - room.start, source=source)
        for (address, data), source in zip(room.values, sources, strict=True)
    ]
    at = int(np.flatnonzero(Columns(trace.actions).is_op(Op.REPLAY_START))[0])
    actions = inserted(trace.actions, {at: [mapping], at + 1: uploads})
    return trace.with_(actions=actions, carveout_bytes=(first + pages) * PAGE_BYTES)


def with_data(trace: Trace, pieces: Iterable[bytes]) -> tuple[Trace, list[int]]:
    """The trace with more in its image, and where that lies; memory moves up where the image grows into it."""
    image = bytearray(trace.image)
    sources = []
    for data in pieces:
        image += bytes(-len(image) % APART)
        sources.append(len(image))
        image += data
    columns = Columns(trace.actions)
    used = [columns.frame[columns.frame >= 0] * PAGE_BYTES, columns.target[columns.target >= 0]]
    lowest = int(np.concatenate(used).min()) // PAGE_BYTES
    by = max(-(-len(image) // PAGE_BYTES) - lowest, 0)
    actions = rewritten(trace.actions, lambda frames: frames + by, Type.FRAME)
    actions = rewritten(actions, lambda targets: targets + by * PAGE_BYTES, Type.TARGET)
    moved = trace.with_(actions=actions, image=bytes(image), carveout_bytes=trace.carveout_bytes + by * PAGE_BYTES)
    return moved, sources
