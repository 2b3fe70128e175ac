# SPDX-License-Identifier: BSD-2-Clause
"""What a trace's jobs do to memory, seen by replaying it on the virtual GPU with the access map on.

What a job did in one replay it does in each, if that is proved (host_tools/accesses/proof.py). Other jobs are
looked at in a second replay, which is given other inputs and ends with the last of them: an access that depends on
data may show as a difference (docs/adr/0030-one-replay.md). Where it does, or where an input has whole numbers, of
which a replay draws few (an index into a table may be any), such jobs may access all that they access a part of:
what is mapped there without a gap, which is a buffer object, or several.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from host_tools.accesses.by_job import ByJob, joined, left, one_of
from host_tools.accesses.proof import AccessMap, Flags, InOrder, Job, Part, changed, commands_of, job_of
from host_tools.model.frames import Mask
from host_tools.model.mappings import Mappings
from host_tools.model.memory import Conflict, Memory
from host_tools.support.pages import pieces
from host_tools.vgpu.binding import ACCESS_READ, ACCESS_READ_FIRST, ACCESS_WRITTEN
from trace_format.actions import Action, Columns, Op
from trace_format.operators import operands
from trace_format.schema import PAGE_BYTES, SlotKind
from trace_format.slots import Slot
from trace_format.trace import Trace

FIRST_SEED = 0  # of inputs in place of the recording's own
OTHER_SEED = 1  # of inputs besides the recording's own: an access that depends on data shows as a difference
_NOTHING: Flags = np.zeros(PAGE_BYTES, np.uint8)
_READ = np.uint8(ACCESS_READ | ACCESS_READ_FIRST)
_WRITTEN = np.uint8(ACCESS_WRITTEN)


@dataclass
class Observation:
    """Accesses of all jobs of a replay.

    Attributes:
        access: the union over the inputs tried.
        depends_on_data: the inputs did not all give the same accesses, or others may give other ones.
        jobs: what each did.
        opened: frame -> numbers of the jobs that may access it, where a job's accesses are not proved.
    """

    access: AccessMap
    depends_on_data: bool
    jobs: Sequence[Job] = ()
    opened: Mapping[int, Collection[int]] = field(default_factory=dict)
    _masks: dict[tuple[int, int], Mask] = field(default_factory=dict, repr=False)

    def touched(self, frame: int) -> bool:
        """Some job read or wrote the page."""
        return frame in self.access

    def needed(self, frame: int) -> NDArray[np.bool_]:
        """Bytes of the page that a job reads before any job wrote them."""
        if frame not in self.access:
            return np.zeros(PAGE_BYTES, np.bool_)
        return self._with(frame, ACCESS_READ_FIRST)

    def written(self, frame: int) -> bool:
        """Some job may write to the page."""
        return bool(self._wrote(frame).any())

    def overwritten(self, frame: int) -> NDArray[np.bool_]:
        """Bytes of the page that jobs write whatever the data is."""
        return np.zeros(PAGE_BYTES, np.bool_) if self.depends_on_data else self._wrote(frame)

    def _wrote(self, frame: int) -> NDArray[np.bool_]:
        if frame not in self.access:
            return np.zeros(PAGE_BYTES, np.bool_)
        return self._with(frame, ACCESS_WRITTEN)

    def _with(self, frame: int, flag: int) -> Mask:
        """Bytes of a page with a flag, read-only; of pages with the same array, it is the same."""
        flags = self.access[frame]
        key = id(flags), flag
        if key not in self._masks:
            mask = (flags & flag) != 0
            mask.flags.writeable = False
            self._masks[key] = mask
        return self._masks[key]


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


@dataclass
class Watched:
    """What the jobs of a replay did.

    Attributes:
        jobs: in the order in which they start; equal arrays are mostly one.
        given: where others than jobs of this replay may write: frame, and part of it.
    """

    jobs: Sequence[Job]
    given: Sequence[Part]

    @cached_property
    def union(self) -> AccessMap:
        """Accesses of all jobs."""
        return joined([job.accesses for job in self.jobs])

    @property
    def open(self) -> list[int]:
        """Numbers of the jobs of which their code does not say that they are the same with other data."""
        return [number for number, job in enumerate(self.jobs) if job.varies]

    @property
    def changes_commands(self) -> bool:
        """Whether a job, or somebody else, changes what decides what the other jobs do."""
        return changed(self.jobs, self.given)


def observe(trace: Trace) -> Observation:
    """Replay a trace with its own inputs (random ones where it has none), and where needed with others."""
    return judged(trace, watched(trace))


def watched(trace: Trace, inputs: Mapping[str, NDArray[Any]] | None = None) -> Watched:
    """What jobs do in a replay.

    Args:
        trace: what is replayed.
        inputs: values for its input slots; None: its own, random ones where it has none.
    """
    if inputs is not None:
        return _replayed(trace, inputs)
    unbound = {slot.name for slot in trace.slots if slot.kind == SlotKind.INPUT and not slot.bound}
    made = random_inputs(trace, FIRST_SEED) if unbound else {}  # NumPy's generators take memory, too
    return _replayed(trace, {name: array for name, array in made.items() if name in unbound})


def judged(trace: Trace, first: Watched) -> Observation:
    """What jobs do with all data, as far as a replay shows it, and where needed another with other inputs.

    Args:
        trace: of which `first` is a replay.
        first: as `watched`.
    """
    changes = first.changes_commands
    inputs = [slot for slot in trace.slots if slot.kind == SlotKind.INPUT]
    if not (changes or first.open) or not inputs:
        return Observation(first.union, depends_on_data=False, jobs=first.jobs)
    union = dict(first.union)
    jobs = list(first.jobs)
    if all(slot.numpy_dtype.kind == "f" for slot in inputs):
        second = _replayed(trace, random_inputs(trace, OTHER_SEED), None if changes else first.open[-1])
        if (
            _equal(first.union, second.union)
            if changes
            else all(_equal(first.jobs[number].accesses, second.jobs[number].accesses) for number in first.open)
        ):
            return Observation(first.union, depends_on_data=False, jobs=first.jobs)
        for frame, flags in second.union.items():
            union[frame] = union.get(frame, flags) | flags
        jobs += second.jobs
    holds = proved(first.jobs, first.given)
    opened = [(number % len(holds), job) for number, job in enumerate(jobs) if not holds[number % len(holds)]]
    commands = commands_of(jobs)
    try:
        mappings = Memory.of(trace).mappings
    except Conflict:  # no pass over memory does anything then
        return Observation(union, depends_on_data=True)
    reach: dict[int, set[int]] = {}
    for number, job in opened:
        for frame in beside(mappings, job.accesses.keys()):
            reach.setdefault(frame, set()).add(number)
    for frame in reach:
        union[frame] = union.get(frame, _NOTHING) | _READ
    wrote = {frame for _, job in opened for frame, flags in job.accesses.items() if (flags & ACCESS_WRITTEN).any()}
    for frame in beside(mappings, wrote) - commands.keys():
        union[frame] = union.get(frame, _NOTHING) | _WRITTEN
    return Observation(union, depends_on_data=True, jobs=first.jobs, opened=reach)


def proved(jobs: Sequence[Job], given: Iterable[Part]) -> list[bool]:
    """Which jobs do the same with all data."""
    written: dict[int, Mask] = {}
    for frame, part in given:
        written.setdefault(frame, np.zeros(PAGE_BYTES, np.bool_))[part] = True
    order = InOrder(jobs, written)
    found = []
    for number, job in enumerate(jobs):
        found.append(order.holds(number))
        if found[-1]:
            order.wrote(job.accesses)
        else:
            order.may_have_written(
                frame for frame, flags in job.accesses.items() if (flags & ACCESS_WRITTEN).any()
            )
    return found


def beside(mappings: Mappings, frames: Collection[int]) -> set[int]:
    """Frames that are mapped to where these are, without a gap between."""
    breaks = np.flatnonzero(np.diff(mappings.keys) != 1) + 1
    known = np.fromiter(frames, np.int64, len(frames))
    found: set[int] = set()
    for part in np.split(mappings.frames, breaks):
        if np.isin(part, known).any():
            found.update(part.tolist())
    return found


def _replayed(trace: Trace, inputs: Mapping[str, NDArray[Any]], last: int | None = None) -> Watched:
    """What jobs do in a replay, which ends with the job `last`."""
    run = _Watch(trace, last)
    run.replay(inputs)
    return Watched(run.jobs, [*run.given, *_left(trace, run.jobs)])


def _left(trace: Trace, jobs: Sequence[Job]) -> Iterable[Part]:
    """As `left`; memory is only read for it where the prologue fills some."""
    columns = Columns(trace.actions)
    starts = np.flatnonzero(columns.is_op(Op.REPLAY_START))
    if not len(starts) or not columns.is_op(Op.UPLOAD, Op.CLEAR)[: starts[0]].any():
        return ()
    try:
        return left(Memory.of(trace), jobs).items()
    except Conflict:  # state cannot be kept then
        return ()


def _equal(one: AccessMap, other: AccessMap) -> bool:
    return one.keys() == other.keys() and all(np.array_equal(one[frame], other[frame]) for frame in one)


class _Watch(ByJob):
    """Keeps what each job did, and where somebody else may write.

    Args:
        last: as `ByJob`.
    """

    def __init__(self, trace: Trace, last: int | None) -> None:
        super().__init__(trace, last)
        self.jobs: list[Job] = []
        self.given: list[Part] = []
        self._kept: dict[bytes, Flags] = {}

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
            self.given.append((at // PAGE_BYTES, inside))

    def take(self, seen: AccessMap) -> None:
        """What the latest job did."""
        if self.job >= 0 and not self.over:
            same = {frame: one_of(flags, self._kept) for frame, flags in seen.items()}
            self.jobs.append(job_of(same, varies=self.gpu.access_varies))
