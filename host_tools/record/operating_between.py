# SPDX-License-Identifier: BSD-2-Clause
"""Operators between jobs: what the CPU computed in the recorded run, computed in each replay.

They stand before the job that reads what they write, when no job runs. They read what the GPU has left where it
is or, where the GPU may have written over it by then, a copy; results go to pages of their own, and from there to
where the driver put what the CPU had computed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from host_tools.machine.errors import RecordError
from host_tools.model.memory import Memory
from host_tools.record.handed_over import HandedOver, Returned, Taken
from host_tools.record.ncnn.cpu_layers import Between, CpuEnd
from host_tools.record.ncnn.cpu_operators import Result, Step
from host_tools.record.operator_slots import Builder, Room, copied_out_from, inserted, with_data, with_room
from host_tools.record.tensors import Placement
from trace_format.actions import Action, Columns, Op, action
from trace_format.operators import Operator
from trace_format.schema import PAGE_BYTES, DType, SlotKind
from trace_format.slots import Slot
from trace_format.trace import Trace

Array = NDArray[Any]


def with_operators_between(trace: Trace, end: CpuEnd, handed: HandedOver, constants: Mapping[str, Array]) -> Trace:
    """The recording with what the CPU computes for the GPU, in place of what it computed in the recorded run.

    Args:
        trace: a raw recording, with the slots that are not of operators.
        end: what the CPU computes; those blobs in `end.until` that it writes between jobs become outputs.
        handed: where tensors are.
        constants: blobs that do not depend on the inputs, as they were in the recording.

    Raises:
        RecordError: a tensor is not in memory when the CPU reads it, or the GPU's addresses do not suffice.
    """
    trace, fills = _without_recorded(trace, handed)
    room = Room.behind(trace)
    outputs = [blob for blob in end.until if blob not in constants]
    builder = Builder(room, {}, constants, outputs, list(trace.slots))
    markers = [*np.flatnonzero(Columns(trace.actions).is_op(Op.JOB)).tolist(), copied_out_from(trace.actions)]
    plan = _Plan(end.between, handed, constants.keys(), len(markers) - 1, builder)
    rows = {markers[job]: plan.rows(job, fills.get(job, [])) for job in plan.jobs}
    written = range(len(trace.slots), len(builder.slots))
    copies = [action(Op.COPY_FROM_GPU, slot=i) for i in written if builder.slots[i].kind == SlotKind.OUTPUT]
    rows[markers[-1]] = [*rows.get(markers[-1], ()), *copies]
    return with_room(trace.with_(actions=inserted(trace.actions, rows), slots=builder.slots), room)


def _without_recorded(trace: Trace, handed: HandedOver) -> tuple[Trace, dict[int, list[Action]]]:
    """The trace without what was recorded of pages with the CPU's tensors; what else it wrote there, by job."""
    pieces = [(*where, *piece) for where, found in handed.constants.items() for piece in found]
    trace, sources = with_data(trace, [data for *_, data in pieces])
    frames = {page: mapping.frame for (_, page), mapping in Memory.of(trace).mappings.items()}
    columns = Columns(trace.actions)
    jobs = np.cumsum(columns.is_op(Op.JOB))
    dropped = np.zeros(len(trace.actions), np.bool_)
    for job, page in handed.constants:
        dropped |= (jobs == job) & (columns.target // PAGE_BYTES == frames[page])
    dropped &= columns.is_op(Op.UPLOAD, Op.CLEAR)
    rows: dict[int, list[Action]] = {}
    for (job, page, offset, data), source in zip(pieces, sources, strict=True):
        target = frames[page] * PAGE_BYTES + offset
        rows.setdefault(job, []).append(action(Op.UPLOAD, bytes=len(data), target=target, source=source))
    return trace.with_(actions=trace.actions[~dropped]), rows


class _Plan:
    """Which layers the CPU computes before which job.

    Args:
        between: the layers.
        handed: where tensors are.
        constants: blobs whose values are known; layers that write no others are left out.
        last: number for what only comes after the last job.
        builder: of the operators.

    Attributes:
        jobs: numbers of the jobs before which the CPU does something, in order.
    """

    def __init__(
        self, between: Between, handed: HandedOver, constants: Collection[str], last: int, builder: Builder
    ) -> None:
        self._handed = handed
        self._builder = builder
        self._steps = [step for step in between.steps if not set(step.results) <= set(constants)]
        self._when = [last] * len(self._steps)
        for item in reversed(handed.returned):  # the last one first: what several jobs need is there for the first
            waiting = {item.blob}
            for number in reversed(range(len(self._steps))):
                if waiting & set(self._steps[number].results):
                    self._when[number] = item.job
                    waiting |= set(self._steps[number].layer.bottoms)
        self._read: dict[str, set[int]] = {}
        for step, when in zip(self._steps, self._when, strict=True):
            for blob in step.layer.bottoms:
                self._read.setdefault(blob, set()).add(when)
        taken = {item.job for item in handed.taken.values()}
        self.jobs = sorted({*self._when, *taken, *(item.job for item in handed.returned)})

    def rows(self, job: int, fills: list[Action]) -> list[Action]:
        """What the CPU does before a job; `fills`: what it writes there that is of no tensor."""
        builder = self._builder
        for blob, taken in self._handed.taken.items():
            if taken.job == job:
                self._take(blob, taken)
        returned = [item for item in self._handed.returned if item.job == job]
        builder.direct = {item.blob: _slot(item.blob, item.place) for item in returned if self._is_direct(item)}
        for number, step in enumerate(self._steps):
            if self._when[number] == job:
                self._check_there(step)
                builder.step(number, step)
        rows = [*builder.taken_rows(), *fills]
        for number, item in enumerate(returned):
            if item.blob not in builder.direct:
                builder.copy(_slot(f"job{job}.{number}", item.place), builder.blobs[item.blob])
        return [*rows, *builder.taken_rows()]

    def _take(self, blob: str, taken: Taken) -> None:
        """A tensor of the GPU's; to be read later, when the GPU may have written over it, it is copied."""
        builder, slot = self._builder, _slot(blob, taken.place)
        if self._read.get(blob, set()) <= {taken.job}:
            builder.blobs[blob] = slot
        else:
            number = len(builder.slots)
            builder.blobs[blob] = builder.room.take(f"taken{number}", SlotKind.INTERNAL, slot.tensor_shape)
            builder.copy(builder.blobs[blob], slot)

    def _check_there(self, step: Step) -> None:
        for blob in step.layer.bottoms:
            if blob not in self._builder.blobs and blob not in self._builder.constants:
                raise RecordError(f"{step.layer.place}: its input {blob!r} is not in memory when the CPU reads it")

    def _is_direct(self, item: Returned) -> bool:
        """Whether an operator may write a tensor to where the GPU reads it: over nothing that is still needed."""
        slot = _slot(item.blob, item.place)
        steps = [step for step in self._steps if item.blob in step.results]
        fits = [
            step.operator is Operator.COPY
            or any(isinstance(x, Result) and x == Result(item.blob, slot.shape) for x in step.operands)
            for step in steps
        ]
        return (
            fits == [True]
            and item.blob not in self._read
            and item.blob not in self._builder.outputs
            and sum(other.blob == item.blob for other in self._handed.returned) == 1
            and all(
                _are_apart(slot, _slot(blob, taken.place))
                for blob, taken in self._handed.taken.items()
                if taken.job == item.job
            )
        )


def _are_apart(one: Slot, other: Slot) -> bool:
    return one.address + one.span <= other.address or other.address + other.span <= one.address


def _slot(name: str, place: Placement) -> Slot:
    layout = place.layout
    return Slot(
        name, SlotKind.INTERNAL, DType.FLOAT32, layout.shape, layout.strides, place.address, split=layout.split
    )
