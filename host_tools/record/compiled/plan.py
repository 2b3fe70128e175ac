# SPDX-License-Identifier: BSD-2-Clause
"""What a compiler hands over: buffers, kernels, and calls of these in their order.

This is the seam to a compiler: whatever makes a `Plan` can be recorded. The order of calls is fixed, and nothing
is computed on the CPU between them.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]


class Kind(enum.Enum):
    """What a buffer is for."""

    CONSTANT = "constant"
    TABLE = "table"  # a constant that data index
    INPUT = "input"
    OUTPUT = "output"
    STATE = "state"  # calls change it in place, and the next run finds it so
    WORK = "work"


FIXED = (Kind.CONSTANT, Kind.TABLE)  # what the file has, and nobody writes
TENSORS = (Kind.INPUT, Kind.OUTPUT, Kind.STATE)  # what has a name


@dataclass(frozen=True)
class Buffer:
    """Memory of the GPU.

    Attributes:
        kind: what it is for.
        size: in bytes.
        data: content of a constant or table, first value of state, else empty.
        name, dtype, shape: of an input, output or state: its name, NumPy's name of the element type, dimensions;
            of work too, where it holds a value of the network that was rounded.
    """

    kind: Kind
    size: int
    data: bytes = b""
    name: str = ""
    dtype: str = ""
    shape: tuple[int, ...] = ()


@dataclass(frozen=True)
class View:
    """A part of a buffer: the buffer's number, where the part begins, and how long it is, in bytes."""

    buffer: int
    offset: int
    size: int


@dataclass(frozen=True)
class Call:
    """One dispatch.

    Attributes:
        kernel: number of its kernel.
        groups: workgroups in three dimensions.
        views: what the kernel's storage buffers are, by binding.
        writes: bindings that it writes.
        name: for people.
    """

    kernel: int
    groups: tuple[int, int, int]
    views: tuple[View, ...]
    writes: tuple[int, ...]
    name: str = ""

    @property
    def written(self) -> set[int]:
        """Numbers of the buffers that it writes."""
        return {self.views[at].buffer for at in self.writes}

    @property
    def read(self) -> set[int]:
        """Numbers of the buffers that it has besides those; it may read what it writes, too."""
        return {view.buffer for view in self.views} - self.written


@dataclass(frozen=True)
class Plan:
    """A compiled network; its kernels are GLSL for Vulkan 1.1."""

    buffers: list[Buffer]
    kernels: list[str]
    calls: list[Call]

    def named(self, kind: Kind) -> dict[str, int]:
        """Name -> number of the inputs, the outputs or the state, in the network's order."""
        return {buffer.name: at for at, buffer in enumerate(self.buffers) if buffer.kind == kind}

    def preparing(self) -> tuple[Plan, Plan]:
        """The calls that only make constants of constants, and the others.

        Returns:
            A plan whose outputs are what the others need, each with its buffer's number as a name, and the plan of
            the others, for which `with_constants` takes them.
        """
        writers: dict[int, int] = {}
        for call in self.calls:
            for buffer in call.written:
                writers[buffer] = writers.get(buffer, 0) + 1
        known = {at for at, buffer in enumerate(self.buffers) if buffer.kind in FIXED}
        first, rest = [], []
        for call in self.calls:
            only = all(self.buffers[at].kind == Kind.WORK and writers[at] == 1 for at in call.written)
            if only and call.read <= known:
                known |= call.written
                first.append(call)
            else:
                rest.append(call)
        needed = {view.buffer for call in rest for view in call.views}
        made = {buffer for call in first for buffer in call.written} & needed
        buffers = [
            replace(buffer, kind=Kind.OUTPUT, name=str(at), dtype="uint8", shape=(buffer.size,))
            if at in made
            else replace(buffer, kind=Kind.WORK)
            if buffer.kind in TENSORS  # none of these calls has it, and its name may be a number
            else buffer
            for at, buffer in enumerate(self.buffers)
        ]
        return Plan(buffers, self.kernels, first).trimmed(), Plan(self.buffers, self.kernels, rest)

    def with_constants(self, values: Mapping[str, Bytes]) -> Plan:
        """The plan with these contents of buffers, by their numbers."""
        buffers = list(self.buffers)
        for name, value in values.items():
            buffers[int(name)] = replace(buffers[int(name)], kind=Kind.CONSTANT, data=value.tobytes())
        return Plan(buffers, self.kernels, self.calls)

    def cut(self, probes: Mapping[str, str]) -> Plan:
        """The plan with inputs in place of values: what is computed for such a value is an output.

        Args:
            probes: name of a value -> name of that output; values that no buffer holds stay as they are.
        """
        buffers = list(self.buffers)
        outputs = {}
        for at, buffer in enumerate(self.buffers):
            if buffer.kind == Kind.WORK and buffer.name in probes:
                outputs[at] = len(buffers)
                buffers[at] = replace(buffer, kind=Kind.INPUT)
                buffers.append(replace(buffer, kind=Kind.OUTPUT, name=probes[buffer.name]))

        def moved(view: View, is_written: bool) -> View:
            return replace(view, buffer=outputs.get(view.buffer, view.buffer)) if is_written else view

        calls = [
            replace(call, views=tuple(moved(view, at in call.writes) for at, view in enumerate(call.views)))
            for call in self.calls
        ]
        return Plan(buffers, self.kernels, calls)

    def trimmed(self) -> Plan:
        """The plan without what no call names, but for inputs, outputs and state."""
        kept = {view.buffer for call in self.calls for view in call.views}
        kept |= {at for at, buffer in enumerate(self.buffers) if buffer.kind in TENSORS}
        number = {old: new for new, old in enumerate(sorted(kept))}
        kernel = {old: new for new, old in enumerate(sorted({call.kernel for call in self.calls}))}
        calls = [
            replace(
                call,
                kernel=kernel[call.kernel],
                views=tuple(replace(view, buffer=number[view.buffer]) for view in call.views),
            )
            for call in self.calls
        ]
        return Plan([self.buffers[at] for at in number], [self.kernels[at] for at in kernel], calls)
