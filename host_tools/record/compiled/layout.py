# SPDX-License-Identifier: BSD-2-Clause
"""Where a plan's buffers lie, and the files that the guest's runner takes.

Memories, each one buffer object of the driver's: constants; inputs and outputs, behind a page with a mark by which
a recording shows where they lie (compiled/recording.py); work, whose buffers share what is free; and one for each
table. A job whose accesses depend on data may access all of a buffer object (host_tools/accesses/observe.py), so
that a table lies apart from everything else, and unmapped pages lie between.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from host_tools.model.noted_states import NEXT
from host_tools.record.compiled.plan import TENSORS as NAMED
from host_tools.record.compiled.plan import Call, Kind, Plan
from trace_format.schema import PAGE_BYTES

ALIGNMENT = 256  # bytes; Vulkan lets drivers demand as much of a binding's offset
CONSTANTS, TENSORS, WORK, TABLES = range(4)  # the last one is the first table's
GRANULARITY = 1 << 17  # bytes between the places of buffer objects of a V3D (Linux v3d_bo.c, GMP_GRANULARITY)
MAGIC = 0x4E4C5047
MAX_MEMORY = 1 << 30  # bytes of each, so that a mistake does not fill the guest's memory
Tensors = Mapping[str, NDArray[np.generic]]


class PlanError(ValueError):
    """A plan that the runner cannot have."""


@dataclass(frozen=True)
class Layout:
    """A plan with a place for each of its buffers.

    Attributes:
        plan: it.
        places: for each buffer, its memory and its offset there, in bytes.
        sizes: of the memories, in bytes.
        mark: what the tensors' memory begins with.
    """

    plan: Plan
    places: Sequence[tuple[int, int]]
    sizes: Sequence[int]
    mark: bytes

    def words(self, shaders: Sequence[bytes]) -> bytes:
        """The file PLAN of the runner.

        Args:
            shaders: SPIR-V of each kernel.

        Raises:
            PlanError: a part of a buffer begins where Vulkan allows no binding.
        """
        bindings = {call.kernel: len(call.views) for call in self.plan.calls}
        head = (MAGIC, len(self.sizes), *self.sizes, len(shaders), len(self.plan.calls))
        parts = [struct.pack(f"<{len(head)}I", *head)]
        for number, shader in enumerate(shaders):
            parts += [struct.pack("<2I", bindings[number], len(shader) // 4), shader]
        for call in self.plan.calls:
            parts.append(struct.pack("<4I", call.kernel, *call.groups))
            for view in call.views:
                memory, offset = self.places[view.buffer]
                if view.offset % ALIGNMENT:
                    raise PlanError(f"kernel {call.name} begins at byte {view.offset} of a buffer")
                parts.append(struct.pack("<3I", memory, offset + view.offset, max(view.size, 4) + 3 & ~3))
        return b"".join(parts)

    def constants(self) -> bytes:
        """The file CONSTANTS: constants, then tables."""
        content = {at: buffer.data for at, buffer in enumerate(self.plan.buffers)}
        memories = [CONSTANTS, *range(TABLES, len(self.sizes))]
        return b"".join(self._filled(memory, content) for memory in memories)

    def tensors(self, inputs: Tensors) -> bytes:
        """The file TENSORS for these inputs, by name.

        Raises:
            PlanError: an input is missing, or of another size.
        """
        content = {at: self.plan.buffers[at].data for at in self.plan.named(Kind.STATE).values()}
        for name, at in self.plan.named(Kind.INPUT).items():
            buffer = self.plan.buffers[at]
            data = np.ascontiguousarray(inputs[name], buffer.dtype).tobytes() if name in inputs else b""
            if len(data) != buffer.size:
                raise PlanError(f"input {name}: expected {buffer.size} bytes, found {len(data)}")
            content[at] = data
        filled = self._filled(TENSORS, content)
        return self.mark + filled[len(self.mark) :]

    def results(self, tensors: bytes) -> dict[str, NDArray[np.generic]]:
        """The outputs in what the runner left, and state under the name that its next value has as an output."""
        found = {}
        named = self.plan.named(Kind.OUTPUT)
        named |= {NEXT + name: at for name, at in self.plan.named(Kind.STATE).items()}
        for name, at in named.items():
            buffer, (_, offset) = self.plan.buffers[at], self.places[at]
            data = tensors[offset : offset + buffer.size]
            found[name] = np.frombuffer(data, buffer.dtype).reshape(buffer.shape).copy()
        return found

    def _filled(self, memory: int, content: Mapping[int, bytes]) -> bytes:
        filled = bytearray(self.sizes[memory])
        for at, data in content.items():
            where, offset = self.places[at]
            if where == memory:
                filled[offset : offset + len(data)] = data
        return bytes(filled)


def laid_out(plan: Plan) -> Layout:
    """Give each buffer of a plan a place.

    Raises:
        PlanError: it needs more memory than the guest has for it.
    """
    mark = hashlib.sha256("".join(plan.kernels).encode() + repr(plan.calls).encode()).digest()
    places: dict[int, tuple[int, int]] = {}
    ends = [0, PAGE_BYTES, 0]
    for at, buffer in enumerate(plan.buffers):
        if buffer.kind == Kind.TABLE:
            places[at] = len(ends), 0
            ends.append(_room(buffer.size))
        elif buffer.kind != Kind.WORK:
            memory = TENSORS if buffer.kind in NAMED else CONSTANTS
            places[at] = memory, ends[memory]
            ends[memory] += _room(buffer.size)
    for at, offset in _shared(plan).items():
        places[at] = WORK, offset
        ends[WORK] = max(ends[WORK], offset + _room(plan.buffers[at].size))
    if len(ends) > TABLES:
        ends = [end + (PAGE_BYTES if -end % GRANULARITY < PAGE_BYTES else 0) for end in ends]
    names = ["constants", "inputs and outputs", "intermediate results"] + ["table"] * (len(ends) - TABLES)
    for name, size in zip(names, ends, strict=True):
        if size > MAX_MEMORY:
            raise PlanError(f"its {name} need {size} bytes, the largest is {MAX_MEMORY}")
    found = [places.get(at, (WORK, 0)) for at in range(len(plan.buffers))]
    return Layout(plan, found, tuple(ends), mark)


def _room(size: int) -> int:
    return max(-(-size // ALIGNMENT), 1) * ALIGNMENT


def _shared(plan: Plan) -> dict[int, int]:
    """Offset of each work buffer: the largest first, each as low as what lives at the same time allows."""
    lives = _lives(plan.calls, {at for at, buffer in enumerate(plan.buffers) if buffer.kind == Kind.WORK})
    found: dict[int, int] = {}
    for at in sorted(lives, key=lambda at: (-plan.buffers[at].size, at)):
        begin, end = lives[at]
        taken = sorted(
            (found[other], found[other] + _room(plan.buffers[other].size))
            for other in found
            if lives[other][0] <= end and begin <= lives[other][1]
        )
        offset = 0
        for low, high in taken:
            if low - offset >= _room(plan.buffers[at].size):
                break
            offset = max(offset, high)
        found[at] = offset
    return found


def _lives(calls: Sequence[Call], buffers: set[int]) -> dict[int, tuple[int, int]]:
    """First and last call that names each of these buffers."""
    lives: dict[int, tuple[int, int]] = {}
    for number, call in enumerate(calls):
        for view in call.views:
            if view.buffer in buffers:
                lives[view.buffer] = lives.get(view.buffer, (number, number))[0], number
    return lives
