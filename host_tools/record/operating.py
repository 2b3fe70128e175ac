# SPDX-License-Identifier: BSD-2-Clause
"""From a recording that ends where the GPU stops to one that computes the rest by operators on the CPU.

What the operators need besides the GPU's tensors gets pages of its own, after all others in the GPU's addresses
and in the carve-out; no job uses them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from host_tools.machine.errors import RecordError
from host_tools.model.interpreter import interpreter
from host_tools.passes.parameters import without_slots
from host_tools.record.ncnn import cpu as ncnn_cpu
from host_tools.record.ncnn.cpu_layers import COUNT, CpuEnd, Result, Step, View
from host_tools.support.tensors import boxes_found
from trace_format.actions import MAP_READ, Action, Actions, Columns, Op, Type, action, array_of, rewritten
from trace_format.operators import BOX, OPERATORS, Operator
from trace_format.schema import DTYPE_BYTES, PAGE_BYTES, DType, SlotKind
from trace_format.slots import Slot
from trace_format.trace import Trace

Shape = tuple[int, ...]
Array = NDArray[Any]
Tensors = Mapping[str, NDArray[np.float32]]
APART = 64  # bytes that tensors are aligned to
GUARD_PAGES = 2  # not mapped, before the pages for operators: hardware fetches ahead of what it executes
NEAR = 2e-5  # of what ncnn computes in float32 to what operators compute in double precision


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


@dataclass
class _Room:
    """Memory for operators; `start`: its GPU address."""

    start: int
    end: int
    values: list[tuple[int, bytes]] = field(default_factory=list)

    def take(self, name: str, kind: SlotKind, shape: Shape, dtype: DType = DType.FLOAT32) -> Slot:
        slot = Slot(name, kind, dtype, shape, dense(shape, DTYPE_BYTES[dtype]), self.end)
        self.end += -(-slot.span // APART) * APART
        return slot

    def constant(self, name: str, array: Array) -> Slot:
        slot = replace(self.take(name, SlotKind.INTERNAL, array.shape), bound=True)
        self.values.append((slot.address, np.ascontiguousarray(array, "<f4").tobytes()))
        return slot


@dataclass
class _Builder:
    """Slots and actions of the operators, after those that the trace has."""

    room: _Room
    blobs: dict[str, Slot]
    constants: Mapping[str, Array]
    outputs: Sequence[str]
    slots: list[Slot]
    rows: list[Action] = field(default_factory=list)

    def operate(self, operator: Operator, operands: list[Slot]) -> None:
        self.rows.append(
            action(Op.OPERATE, slot=len(self.slots), operator=operator, operands=len(operands)),
        )
        self.slots += operands

    def step(self, number: int, step: Step) -> None:
        types = OPERATORS[step.operator].types(len(step.operands))
        operands = []
        for at, (type, operand) in enumerate(zip(types, step.operands, strict=True)):
            name = f"op{number}.{type.name}{at}"
            match operand:
                case View():
                    operands.append(self._view(name, operand))
                case Result():
                    is_output = operand.blob.removesuffix(COUNT) in self.outputs
                    kind = SlotKind.OUTPUT if is_output else SlotKind.INTERNAL
                    named = operand.blob if is_output else name
                    operands.append(self.room.take(named, kind, operand.shape, operand.dtype))
                    self.blobs[operand.blob] = operands[-1]
                case _:
                    operands.append(self.room.constant(name, operand))
        self.operate(step.operator, operands)

    def _view(self, name: str, view: View) -> Slot:
        """The blob as an operand takes it."""
        axes = view.axes or tuple(range(len(view.shape)))
        if view.blob in self.constants:
            return self.room.constant(name, self.constants[view.blob].reshape(view.shape).transpose(axes))
        blob = self.blobs[view.blob]
        strides = restrided(blob.shape, blob.strides, view.shape, DTYPE_BYTES[blob.dtype])
        if strides is None:
            source = Slot(f"{name}.packed", SlotKind.INTERNAL, blob.dtype, blob.shape, blob.strides, blob.address)
            blob = self.room.take(f"{name}.unpacked", SlotKind.INTERNAL, view.shape, blob.dtype)
            self.operate(Operator.COPY, [blob, source])
            self.blobs[view.blob] = blob
            strides = blob.strides
        shape, strides = (tuple(sizes[axis] for axis in axes) for sizes in (view.shape, strides))
        return Slot(name, SlotKind.INTERNAL, blob.dtype, shape, strides, blob.address)


def with_operators(trace: Trace, end: CpuEnd, constants: Mapping[str, Array]) -> Trace:
    """The recording with the rest of the network.

    Args:
        trace: a raw recording; its outputs are the blobs in `end.until` but those in `constants`.
        end: what the CPU computes.
        constants: blobs that do not depend on the inputs, as the GPU computed them.

    Raises:
        RecordError: a constant blob is an output itself, or the GPU's addresses do not suffice.
    """
    if fixed := [name for name in end.outputs if name in constants]:
        raise RecordError(f"output {fixed[0]} does not depend on the inputs")
    columns = Columns(trace.actions)
    maps = columns.is_op(Op.MAP_GPU_MEM)
    start = (int((columns.va_page[maps] + columns.pages[maps]).max()) + GUARD_PAGES) * PAGE_BYTES
    kept = [i for i, slot in enumerate(trace.slots) if slot.kind != SlotKind.OUTPUT or slot.name in end.outputs]
    blobs = {slot.name: slot for slot in trace.slots if slot.kind == SlotKind.OUTPUT}
    room = _Room(start, start)
    builder = _Builder(room, blobs, constants, end.outputs, [trace.slots[i] for i in kept])
    for number, step in enumerate(end.steps):
        builder.step(number, step)
    if room.end > trace.va_bytes:
        raise RecordError(f"no GPU addresses are left for operators: {room.end:#x} of {trace.va_bytes:#x} bytes")
    first_output = int(np.flatnonzero(columns.is_op(Op.COPY_FROM_GPU))[0])
    jobs, rest = (
        without_slots(part, len(trace.slots), kept)
        for part in (trace.actions[:first_output], trace.actions[first_output:])
    )
    outputs = [i for i, s in enumerate(builder.slots) if i >= len(kept) and s.kind == SlotKind.OUTPUT]
    copies = [action(Op.COPY_FROM_GPU, slot=i) for i in outputs]
    changed = trace.with_(
        actions=np.concatenate([jobs, array_of([*builder.rows, *copies]), rest]), slots=builder.slots
    )
    return _with_room(changed, room)


def _with_room(trace: Trace, room: _Room) -> Trace:
    """The trace with memory for operators, mapped and with its values."""
    image = bytearray(trace.image)
    fills: list[tuple[int, int, int]] = []
    for address, data in room.values:
        image += bytes(-len(image) % APART)
        fills.append((len(data), address - room.start, len(image)))
        image += data
    actions, carveout = _moved_up(trace, len(image))
    first, pages = carveout // PAGE_BYTES, -(-(room.end - room.start) // PAGE_BYTES)
    mapping = action(
        Op.MAP_GPU_MEM, flags=MAP_READ, address_space=0, va_page=room.start // PAGE_BYTES, pages=pages, frame=first
    )
    uploads = [
        action(Op.UPLOAD, bytes=size, target=carveout + offset, source=source) for size, offset, source in fills
    ]
    at = int(np.flatnonzero(Columns(actions).is_op(Op.REPLAY_START))[0])
    parts = [actions[:at], array_of([mapping]), actions[at : at + 1], array_of(uploads), actions[at + 1 :]]
    return trace.with_(
        actions=np.concatenate(parts), image=bytes(image), carveout_bytes=(first + pages) * PAGE_BYTES
    )


def _moved_up(trace: Trace, image_bytes: int) -> tuple[Actions, int]:
    """Actions and size of the carve-out, with memory moved up where the image grows into it."""
    columns = Columns(trace.actions)
    used = [columns.frame[columns.frame >= 0] * PAGE_BYTES, columns.target[columns.target >= 0]]
    lowest = int(np.concatenate(used).min()) // PAGE_BYTES
    by = max(-(-image_bytes // PAGE_BYTES) - lowest, 0)
    actions = rewritten(trace.actions, lambda frames: frames + by, Type.FRAME)
    actions = rewritten(actions, lambda targets: targets + by * PAGE_BYTES, Type.TARGET)
    return actions, trace.carveout_bytes + by * PAGE_BYTES


def check_operators(
    trace: Trace, end: CpuEnd, network: tuple[bytes, bytes], runs: Sequence[tuple[Tensors, Tensors]]
) -> None:
    """Compare what the operators compute with what ncnn's layers make of the same tensors, on this machine.

    Args:
        trace: from `with_operators`.
        end: what the CPU computes.
        network: ncnn's text and binary files.
        runs: inputs of recordings, and the tensors that the GPU made of them. One that agrees is enough: a score
            that is as large as the lowest one may fall on either side of it.

    Raises:
        RecordError: names the output that differs in all runs.
    """
    written = {operand.blob for step in end.steps for operand in step.operands if isinstance(operand, Result)}
    names = [name for name in end.outputs if name in written]
    differing = []
    for inputs, tensors in runs:
        with interpreter(trace) as run:
            given = {name: tensor.reshape(trace.slot(name).shape) for name, tensor in inputs.items()}
            found = boxes_found(trace, run.run(given))
        expected = ncnn_cpu.run_files(network, tensors, names)
        differing = [name for name in names if not same(found[name], expected[name])]
        if not differing:
            return
    raise RecordError(f"output {differing[0]}: a trace's operator computes otherwise than ncnn's own layer")


def same(found: Array, expected: Array) -> bool:
    """Whether a result is ncnn's; of boxes that are not found, ncnn gives an array without a shape."""
    if not (found.size or expected.size):
        return True
    if found.ndim == 2 and found.shape[1] == len(BOX):
        found, expected = (ordered(boxes[: len(found)]) for boxes in (found, expected))
    return found.shape == expected.shape and np.allclose(found, expected, rtol=NEAR, atol=NEAR)


def ordered(boxes: Array) -> Array:
    """Boxes by score; those of equal scores by where they are, for ncnn leaves their order open."""
    return boxes[np.lexsort((boxes[:, 2], -boxes[:, 1].round(4)))]
