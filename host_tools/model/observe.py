# SPDX-License-Identifier: BSD-2-Clause
"""What a trace's jobs do to memory, seen by replaying it on the virtual GPU with the access map on.

One replay shows what every replay does where the shaders' code says so: no word that they load decides an address or
a branch (vgpu_access_varies in host_tools/vgpu/vgpu.h), and nobody writes those that decide what jobs do, which the
access map marks. Else another replay is given other inputs, and accesses that depend on data may show.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from host_tools.model.interpreter import Interpreter, interpreter
from host_tools.vgpu.binding import ACCESS_COMMAND, ACCESS_READ_FIRST, ACCESS_WRITTEN
from trace_format.schema import PAGE_BYTES, SlotKind
from trace_format.trace import Trace

FIRST_SEED = 0  # of inputs in place of the recording's own
OTHER_SEED = 1  # of inputs besides the recording's own: an access that depends on data shows as a difference

Accesses = dict[int, NDArray[np.uint8]]  # frame -> PAGE_BYTES of ACCESS_*


@dataclass
class Observation:
    """Accesses of all jobs of a replay.

    Attributes:
        access: the union over the inputs tried.
        depends_on_data: the inputs did not all give the same accesses.
    """

    access: Accesses
    depends_on_data: bool

    def touched(self, frame: int) -> bool:
        """Some job read or wrote the page."""
        return frame in self.access

    def needed(self, frame: int) -> NDArray[np.bool_]:
        """Bytes of the page that a job reads before any job wrote them."""
        if frame not in self.access:
            return np.zeros(PAGE_BYTES, np.bool_)
        flags = self.access[frame]
        return (flags & ACCESS_READ_FIRST) != 0 if not self.depends_on_data else np.ones(PAGE_BYTES, np.bool_)

    def written(self, frame: int) -> bool:
        """Some job may write to the page."""
        return self.depends_on_data or bool(self._wrote(frame).any())

    def overwritten(self, frame: int) -> NDArray[np.bool_]:
        """Bytes of the page that jobs write whatever the data is."""
        return np.zeros(PAGE_BYTES, np.bool_) if self.depends_on_data else self._wrote(frame)

    def _wrote(self, frame: int) -> NDArray[np.bool_]:
        if frame not in self.access:
            return np.zeros(PAGE_BYTES, np.bool_)
        found: NDArray[np.bool_] = (self.access[frame] & ACCESS_WRITTEN) != 0
        return found


def random_inputs(
    trace: Trace, seed: int, kinds: Container[SlotKind] = (SlotKind.INPUT,)
) -> dict[str, NDArray[Any]]:
    """Values for every slot of these kinds: uniform in [0, 1) for floats, 0 or 1 for integers."""
    generator = np.random.default_rng(seed)
    return {
        slot.name: (
            generator.random(slot.shape) if slot.numpy_dtype.kind == "f" else generator.integers(0, 2, slot.shape)
        ).astype(slot.numpy_dtype)
        for slot in trace.slots
        if slot.kind in kinds
    }


def observe(trace: Trace) -> Observation:
    """Replay a trace with its own inputs (random ones where it has none); gather the accesses.

    Where these could be others for other inputs, it is replayed with such, too.
    """
    unbound = {slot.name for slot in trace.slots if not slot.bound}
    own = {name: array for name, array in random_inputs(trace, FIRST_SEED).items() if name in unbound}
    first, varies = _accesses(trace, own)
    if not varies or not any(slot.kind == SlotKind.INPUT for slot in trace.slots):
        return Observation(first, depends_on_data=False)
    other, _ = _accesses(trace, random_inputs(trace, OTHER_SEED))
    differs = other.keys() != first.keys()
    for frame, flags in other.items():
        before = first.setdefault(frame, flags)
        if not np.array_equal(before, flags):
            differs, first[frame] = True, before | flags
    return Observation(first, differs)


def _accesses(trace: Trace, inputs: Mapping[str, NDArray[Any]]) -> tuple[Accesses, bool]:
    """The accesses of a replay, and whether other data could lead to others."""
    with interpreter(trace, track=True) as run:
        run.run(inputs)
        found = {pa // PAGE_BYTES: flags for pa, flags in run.gpu.access_map().items()}
        return found, run.gpu.access_varies or _changes_commands(run, found)


def _changes_commands(run: Interpreter, found: Accesses) -> bool:
    """Whether jobs write, or slots hold, what decides what jobs do."""
    both = ACCESS_COMMAND | ACCESS_WRITTEN
    commands = {frame: flags & ACCESS_COMMAND != 0 for frame, flags in found.items() if (flags & ACCESS_COMMAND).any()}
    if any((found[frame] & both == both).any() for frame in commands):
        return True
    for slot in run.trace.slots:
        at = run.places(slot)
        for frame in np.intersect1d(at // PAGE_BYTES, list(commands)).tolist():
            if commands[frame][at[at // PAGE_BYTES == frame] % PAGE_BYTES].any():
                return True
    return False
