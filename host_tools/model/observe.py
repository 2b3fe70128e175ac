# SPDX-License-Identifier: BSD-2-Clause
"""What a trace's jobs do to memory, seen by replaying it on the virtual GPU with the access map on.

What a job did in one replay it does in each, if its code says so: no word that its shaders load decides an address
or a branch (vgpu_access_varies in host_tools/vgpu/vgpu.h), but those that the access map marks, and these nobody
writes. Other jobs are looked at in a second replay, which is given other inputs and ends with the last of them: an
access that depends on data may show as a difference (docs/adr/0030-one-replay.md).
"""

from __future__ import annotations

from collections.abc import Collection, Container, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from host_tools.model.by_job import Accesses, ByJob, Flags, then
from host_tools.model.frames import Mask
from host_tools.support.pages import pieces
from host_tools.vgpu.binding import ACCESS_COMMAND, ACCESS_READ_FIRST, ACCESS_WRITTEN
from trace_format.actions import Action, Op
from trace_format.operators import operands
from trace_format.schema import PAGE_BYTES, SlotKind
from trace_format.slots import Slot
from trace_format.trace import Trace

_CHANGED = ACCESS_COMMAND | ACCESS_WRITTEN
FIRST_SEED = 0  # of inputs in place of the recording's own
OTHER_SEED = 1  # of inputs besides the recording's own: an access that depends on data shows as a difference


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
    """Replay a trace with its own inputs (random ones where it has none), and where needed with others."""
    unbound = {slot.name for slot in trace.slots if slot.kind == SlotKind.INPUT and not slot.bound}
    made = random_inputs(trace, FIRST_SEED) if unbound else {}  # NumPy's generators take memory, too
    own = {name: array for name, array in made.items() if name in unbound}
    first = _replayed(_Observed(trace), own)
    changes = first.changes_commands
    if not (changes or first.open) or not any(slot.kind == SlotKind.INPUT for slot in trace.slots):
        return Observation(first.union, depends_on_data=False)
    second = _replayed(_Observed(trace, None if changes else first.open), random_inputs(trace, OTHER_SEED))
    if _equal(first.union, second.union) if changes else _equal_jobs(first.open, second.open):
        return Observation(first.union, depends_on_data=False)
    for frame, flags in second.union.items():
        first.union[frame] = first.union.get(frame, flags) | flags
    return Observation(first.union, depends_on_data=True)


def _replayed(run: _Observed, inputs: Mapping[str, NDArray[Any]]) -> _Observed:
    """It, after a replay."""
    try:
        run.run(inputs)
        run.finish()
    finally:
        run.close()
    return run


def _equal(one: Accesses, other: Accesses) -> bool:
    return one.keys() == other.keys() and all(np.array_equal(one[frame], other[frame]) for frame in one)


def _equal_jobs(one: Mapping[int, Accesses], other: Mapping[int, Accesses]) -> bool:
    return all(_equal(accesses, other[number]) for number, accesses in one.items())


class _Observed(ByJob):
    """Joins what jobs do, and keeps apart what is not proved of them.

    Args:
        only: jobs to look at: the replay ends with the last one; None: all.

    Attributes:
        union: accesses of all jobs; equal arrays are one.
        open: those of jobs of which their code does not say that they are the same with other data, by number, or
            of the jobs to look at.
        commands: frame -> bytes that decide what the other jobs do.
        changes_commands: whether a job writes, or a slot holds, some of these.
    """

    def __init__(self, trace: Trace, only: Collection[int] | None = None) -> None:
        super().__init__(trace, None if only is None else max(only))
        self.only = only
        self.union: dict[int, Flags] = {}
        self.open: dict[int, Accesses] = {}
        self.commands: dict[int, Mask] = {}
        self.changes_commands = False
        self._given: list[tuple[int, slice]] = []  # frame and part of slots that were written
        self._kept: dict[bytes, Flags] = {}
        self._union_of: dict[tuple[int, int], Flags] = {}  # by the arrays' identities: they are kept

    def _step(self, row: Action) -> None:
        super()._step(row)
        if self.over:
            return
        slots = self.trace.slots
        if row.op == Op.COPY_TO_GPU:
            self._give(slots[row.slot])
        elif row.op == Op.OPERATE:
            for kind, slot in operands(row, slots):
                if kind.written:
                    self._give(slot)

    def _give(self, slot: Slot) -> None:
        """Somebody else than jobs may put anything into a slot, where it is mapped now."""
        for page, inside, _ in pieces(slot.address, slot.span):
            at = self.tables.translate(slot.address_space, page * PAGE_BYTES)
            self._given.append((at // PAGE_BYTES, inside))

    def take(self, seen: Accesses) -> None:
        """What the latest job did."""
        seen = {frame: self._one(flags) for frame, flags in seen.items()}
        changes_itself = any((flags & _CHANGED == _CHANGED).any() for flags in seen.values())
        if self.job in self.only if self.only is not None else self.gpu.access_varies or changes_itself:
            self.open[self.job] = seen
        else:
            self._take_commands(seen)
        for frame, flags in seen.items():
            self.union[frame] = self._then(self.union[frame], flags) if frame in self.union else flags

    def _take_commands(self, seen: Accesses) -> None:
        for frame, flags in seen.items():
            found = flags & ACCESS_COMMAND != 0
            if found.any():
                self.commands[frame] = self.commands.get(frame, False) | found

    def _one(self, flags: Flags) -> Flags:
        key = flags.tobytes()
        return self._kept.setdefault(key, np.frombuffer(key, np.uint8))

    def _then(self, before: Flags, flags: Flags) -> Flags:
        """Accesses of a page, and of a job after these."""
        key = id(before), id(flags)
        if key not in self._union_of:
            self._union_of[key] = self._one(then(before, flags))
        return self._union_of[key]

    def finish(self) -> None:
        """Take in what the last job did, and what all of them do to each other."""
        self.cut()
        self.changes_commands = self._changes_commands()

    def _changes_commands(self) -> bool:
        if any((self.union[frame] & ACCESS_WRITTEN)[mask].any() for frame, mask in self.commands.items()):
            return True
        return any(self.commands[frame][part].any() for frame, part in self._given if frame in self.commands)
