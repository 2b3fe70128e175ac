# SPDX-License-Identifier: BSD-2-Clause
"""The caller's tensors, checked against the trace's slots, and room for the outputs."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from host_tools.runners.replay import InputError, Tensor
from host_tools.support.tensors import npy
from trace_format.errors import listed
from trace_format.schema import SlotKind
from trace_format.trace import Slot, Trace


@dataclass
class Buffer:
    """Memory for a slot: dense, in C order."""

    index: int
    slot: Slot
    data: Tensor


@dataclass
class Buffers:
    """The caller's inputs, and room for all outputs, in the order of the slots."""

    rows: list[Buffer] = field(default_factory=list)

    @property
    def outputs(self) -> dict[str, Tensor]:
        """Slot name -> tensor."""
        found = (row for row in self.rows if row.slot.kind == SlotKind.OUTPUT)
        return {row.slot.name: row.data.reshape(row.slot.tensor_shape) for row in found}

    def for_guest(self) -> tuple[dict[str, bytes], list[str]]:
        """Files for a program in the guest, by path, and its options: what is given in /job, outputs to /out."""
        files, words = {}, []
        for row in self.rows:
            if row.slot.kind == SlotKind.OUTPUT:
                words += ["--output", f"{row.slot.name}=/out/{row.index}.npy"]
            else:
                files[f"job/{row.index}.npy"] = npy(row.data)
                option = "--input" if row.slot.kind == SlotKind.INPUT else "--param"
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


def bind(trace: Trace | None, inputs: Mapping[str, Tensor]) -> Buffers:
    """Check the inputs and make room for the outputs.

    Args:
        trace: None binds nothing.
        inputs: slot name -> tensor of the slot's type and shape; inputs left out keep the recording's value.

    Raises:
        InputError: no such input, or another type or shape.
    """
    buffers = Buffers()
    if trace is None:
        return buffers
    known = [slot.name for slot in trace.slots if slot.kind.is_given]
    for name in inputs:
        if name not in known:
            raise InputError(f"no input {name!r}; there are: {listed(known)}")
    for index, slot in enumerate(trace.slots):
        if slot.kind == SlotKind.OUTPUT:
            buffers.rows.append(Buffer(index, slot, np.zeros(slot.shape, slot.numpy_dtype)))
        elif slot.name in inputs:
            given = np.asarray(inputs[slot.name])
            if given.shape != slot.tensor_shape or given.dtype != slot.numpy_dtype:
                raise InputError(
                    f"input {slot.name}: expected {slot.numpy_dtype} of shape {slot.tensor_shape}, "
                    f"found {given.dtype} of shape {given.shape}"
                )
            data = np.array(given, slot.numpy_dtype, order="C").reshape(slot.shape)
            buffers.rows.append(Buffer(index, slot, data))
    return buffers
