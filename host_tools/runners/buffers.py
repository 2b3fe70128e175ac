# SPDX-License-Identifier: BSD-2-Clause
"""The caller's tensors, checked against the trace's slots, and room for the outputs."""

from __future__ import annotations

import io
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import numpy as np

from host_tools.runners.replay import InputError, ReplayRequest, Tensor
from host_tools.runners.requests import SeriesRequest
from host_tools.support.tensors import npy
from trace_format.errors import listed, meant
from trace_format.schema import SlotKind
from trace_format.slots import Slot
from trace_format.trace import Trace


@dataclass
class Buffer:
    """Memory for a slot: dense, in C order.

    Attributes:
        index, slot: the slot, and its number.
        data: its tensor; of a series, those of all replays, one after the other.
        replays: how many tensors a series has; 0: it is none.
    """

    index: int
    slot: Slot
    data: Tensor
    replays: int = 0

    @property
    def nbytes(self) -> int:
        """Bytes of one replay."""
        return self.data.nbytes // max(self.replays, 1)

    @property
    def step(self) -> int:
        """Bytes from a replay's tensor to that of the next; 0 where all have the same."""
        return self.nbytes if self.replays else 0

    def of(self, replay: int) -> Tensor:
        """What a replay takes or gives."""
        tensor: Tensor = self.data[replay] if self.replays else self.data
        return tensor


@dataclass
class Buffers:
    """The caller's inputs, and room for all outputs, in the order of the slots."""

    rows: list[Buffer] = field(default_factory=list)

    @property
    def outputs(self) -> dict[str, Tensor]:
        """Slot name -> tensor."""
        found = (row for row in self.rows if row.slot.kind == SlotKind.OUTPUT)
        first = {True: (-1,), False: ()}
        return {row.slot.name: row.data.reshape(first[row.replays > 0] + row.slot.tensor_shape) for row in found}

    def for_guest(self) -> tuple[dict[str, bytes], list[str]]:
        """Files for a program in the guest, by path, and its options: what is given in /job, outputs to /out.

        A series has an option of its own, which only `gramophone-gpu` takes.
        """
        files, words = {}, []
        for row in self.rows:
            if row.slot.kind == SlotKind.OUTPUT:
                words += ["--each" if row.replays else "--output", f"{row.slot.name}=/out/{row.index}.npy"]
            else:
                files[f"job/{row.index}.npy"] = npy(row.data)
                option = "--input" if row.slot.kind == SlotKind.INPUT else "--param"
                option = "--series" if row.replays else option
                words += [option, f"{row.slot.name}=/job/{row.index}.npy"]
        return files, words

    def take_from_guest(self, files: Mapping[str, bytes]) -> None:
        """Fill the outputs with what the program left in /out.

        Raises:
            KeyError, ValueError: a file is missing, or no array of the slot's shape.
        """
        for row in self.rows:
            if row.slot.kind == SlotKind.OUTPUT:
                row.data[...] = np.load(io.BytesIO(files[f"{row.index}.npy"]), allow_pickle=False)


def bound(request: ReplayRequest) -> Buffers:
    """As `bind`, for a request."""
    if isinstance(request, SeriesRequest):
        return bind(request.trace, request.inputs, request.series, request.each, request.repeat)
    return bind(request.trace, request.inputs)


def bind(
    trace: Trace | None,
    inputs: Mapping[str, Tensor],
    series: Mapping[str, Tensor] | None = None,
    each: Collection[str] = (),
    replays: int = 1,
) -> Buffers:
    """Check the inputs and make room for the outputs.

    Args:
        trace: None binds nothing.
        inputs: slot name -> tensor of the slot's type and shape; inputs left out keep the recording's value.
        series: slot name -> tensors of all replays, the first dimension being the replay's.
        each: outputs that are wanted of all replays.
        replays: how many there will be.

    Raises:
        InputError: no such input or output, or another type or shape.
    """
    series = series or {}
    buffers = Buffers()
    if trace is None:
        return buffers
    known = [slot.name for slot in trace.slots if slot.kind.is_given]
    results = [slot.name for slot in trace.slots if slot.kind == SlotKind.OUTPUT]
    for what, names, there in (("input", [*inputs, *series], known), ("output", each, results)):
        for name in names:
            if name not in there:
                raise InputError(f"no {what} {name!r}{meant(name, there)}; there are: {listed(there)}")
    if both := sorted(inputs.keys() & series.keys()):
        raise InputError(f"input {listed(both)}: one value for all replays, or one for each, not both")
    for index, slot in enumerate(trace.slots):
        count = replays if slot.name in (*series, *each) else 0
        first = (count,) if count else ()
        if slot.kind == SlotKind.OUTPUT:
            buffers.rows.append(Buffer(index, slot, np.zeros(first + slot.shape, slot.numpy_dtype), count))
        elif slot.name in inputs or slot.name in series:
            given = np.asarray(series[slot.name] if count else inputs[slot.name])
            if given.shape != first + slot.tensor_shape or given.dtype != slot.numpy_dtype:
                raise InputError(
                    f"input {slot.name}: expected {slot.numpy_dtype} of shape {first + slot.tensor_shape}, "
                    f"found {given.dtype} of shape {given.shape}"
                )
            data = np.array(given, slot.numpy_dtype, order="C").reshape(first + slot.shape)
            buffers.rows.append(Buffer(index, slot, data, count))
    return buffers
