# SPDX-License-Identifier: BSD-2-Clause
"""From a recording that ends where the GPU stops to one that computes the rest by operators on the CPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from host_tools.machine.errors import RecordError
from host_tools.model.interpreter import interpreter
from host_tools.passes.parameters import without_slots
from host_tools.record.ncnn import cpu as ncnn_cpu
from host_tools.record.ncnn.cpu_layers import CpuEnd
from host_tools.record.operator_slots import Builder, Room, copied_out_from, inserted, with_room
from host_tools.support.tensors import boxes_found
from trace_format.actions import Columns, Op, action
from trace_format.operators import BOX, operations
from trace_format.schema import SlotKind
from trace_format.trace import Trace

Array = NDArray[Any]
Tensors = Mapping[str, NDArray[np.float32]]
NEAR = 2e-5  # of what ncnn computes in float32 to what operators compute in double precision


def with_operators(trace: Trace, end: CpuEnd, constants: Mapping[str, Array]) -> Trace:
    """The recording with the rest of the network.

    Args:
        trace: a raw recording; its outputs are the blobs in `end.until` but those in `constants`.
        end: what the CPU computes at the end.
        constants: blobs that do not depend on the inputs, as the GPU computed them.

    Raises:
        RecordError: a constant blob is an output itself, or the GPU's addresses do not suffice.
    """
    if fixed := [name for name in end.outputs if name in constants]:
        raise RecordError(f"output {fixed[0]} does not depend on the inputs")
    at = copied_out_from(trace.actions)
    blobs = {slot.name: slot for slot in trace.slots if slot.kind == SlotKind.OUTPUT}
    trace = _without_outputs(trace, blobs.keys() - set(end.outputs))
    room = Room.behind(trace)
    builder = Builder(room, blobs, constants, end.outputs, list(trace.slots))
    for number, step in enumerate(end.steps, len(end.between.steps)):
        builder.step(number, step)
    outputs = range(len(trace.slots), len(builder.slots))
    copies = [action(Op.COPY_FROM_GPU, slot=i) for i in outputs if builder.slots[i].kind == SlotKind.OUTPUT]
    actions = inserted(trace.actions, {at: [*builder.taken_rows(), *copies]})
    return with_room(trace.with_(actions=actions, slots=builder.slots), room)


def _without_outputs(trace: Trace, names: Set[str]) -> Trace:
    """The trace in which these are no outputs; those that an operator between jobs writes stay as operands."""
    slots = trace.slots
    operated = {i for _, row in operations(trace.actions) for i in range(row.slot, row.slot + row.operands)}
    kept = [i for i, slot in enumerate(slots) if slot.name not in names or i in operated]
    columns = Columns(trace.actions)
    inner = [i for i in operated if slots[i].name in names]
    copies = columns.is_op(Op.COPY_FROM_GPU) & np.isin(columns.slot, inner)
    actions = without_slots(trace.actions[~copies], len(slots), kept)
    kinds = [SlotKind.INTERNAL if i in inner else slot.kind for i, slot in enumerate(slots)]
    return trace.with_(actions=actions, slots=[replace(slots[i], kind=kinds[i]) for i in kept])


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
    written = {blob for step in end.steps for blob in step.results}
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
