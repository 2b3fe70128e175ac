# SPDX-License-Identifier: BSD-2-Clause
"""A trace while passes change it.

It is read once and written once. Until a pass has changed its memory, its actions are one stream; from then on
they are register accesses and a memory model. Sizes are known without writing it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any, Protocol

import numpy as np

from host_tools.accesses.job_accesses import job_accesses, moved
from host_tools.accesses.noted_accesses import NOTE, Noted
from host_tools.accesses.observe import Observation, Watched, observe
from host_tools.accesses.proof import Job, commands_of, cover
from host_tools.accesses.slot_places import parts_in
from host_tools.families.accesses import Accesses, Span
from host_tools.families.family import family_of
from host_tools.families.page_tables import DivergenceError
from host_tools.model.frames import Mask
from host_tools.model.mappings import Mappings
from host_tools.model.memory import Conflict, Memory
from host_tools.model.packing import Packing
from host_tools.model.remapping import one_frame_each
from host_tools.support.results import Result
from host_tools.support.sheet import give_back
from host_tools.vgpu.binding import VgpuError
from trace_format import operators
from trace_format.actions import Actions, Columns, Op
from trace_format.profile import Profile
from trace_format.schema import PAGE_BYTES, SlotKind
from trace_format.slots import Slot
from trace_format.trace import Trace


@dataclass(frozen=True)
class Sizes:
    """How large a program is.

    Attributes:
        memory_bytes: pages of the carve-out that are mapped at some time or hold the image. The carve-out's own
            size says little before memory is put together: it is that of the recorded machine's memory.
    """

    actions: int
    image_bytes: int
    memory_bytes: int


class Report(Protocol):
    """What a pass has done that was asked for."""

    def lines(self) -> list[str]:
        """For people."""

    def facts(self) -> Result:
        """For programs."""


class Program:
    """A trace that can be changed.

    Args:
        trace: where it begins.

    Attributes:
        timeout_margin: waits for jobs end after so many times what these may take at worst; None: as recorded.
        asked: pass that runs only if it is asked for -> its option's value.
        reports: such a pass -> what it has done.
        on_sheet: the image of what it becomes is a view of a sheet (`trace`).
        changed_in_place: slots of state that jobs change where it lies, at places that data may decide.
        pieces: of each job of the recording, how many it is now; (): one each.
    """

    pieces: Sequence[int] = ()

    timeout_margin: int | None = None
    on_sheet = False

    def __init__(self, trace: Trace) -> None:
        self.asked: Mapping[str, float] = {}
        self.reports: dict[str, Report] = {}
        self.changed_in_place: list[Slot] = []
        self._trace = trace
        self._memory: Memory | Conflict | None = None
        self._packing: Packing | None = None  # of memory that has been changed
        self._observed: tuple[bytes, Observation] | None = None
        self._note = Noted(trace.notes[NOTE]) if NOTE in trace.notes else None
        self._noted_seen: tuple[list[Job], list[Slot], Observation] | None = None
        self._believes = False
        self._needs_proof = False
        self._latest: tuple[Mappings, Observation] | None = None  # of jobs that are still these
        self._given = operators.given(trace.actions, trace.slots)  # also those that get a value
        self._jobs: tuple[Mappings, list[Job]] | Conflict | None = None

    @property
    def profile(self) -> Profile:
        """Profile of the GPU."""
        return self._trace.profile

    @property
    def slots(self) -> list[Slot]:
        """Typed inputs, outputs and parameters."""
        return self._trace.slots

    @property
    def meta(self) -> dict[str, Any]:
        """The manifest's own fields."""
        return self._trace.meta

    @property
    def actions(self) -> Actions:
        """All actions; where a pass has changed memory, they are written for it."""
        return self.trace().actions

    @actions.setter
    def actions(self, rows: Actions) -> None:
        self._trace = self.trace().with_(actions=rows, raw=False)
        self._memory = self._packing = self._jobs = self._latest = None

    def replace(self, **changes: Any) -> None:
        """Change what is neither actions nor memory: slots, va_bytes, notes, meta, raw."""
        self._trace = self._trace.with_(**{"raw": False} | changes)
        if isinstance(self._memory, Memory):
            self._memory.trace = self._trace

    @property
    def memory(self) -> Memory:
        """Its memory, to be read, or to be changed and then given back with `commit`.

        Where a page is mapped to other memory between jobs, the layout becomes one in which it has other content.
        Where frames that lie together are buffers it does not.

        Raises:
            Conflict: a virtual page is mapped to two frames, and such a layout cannot be had.
        """
        if self._memory is None:
            try:
                self._memory = Memory.of(self._trace)
            except Conflict as conflict:
                buffers = family_of(self.profile).frames_are_buffers
                settled = None if buffers else one_frame_each(self._trace)
                if settled:
                    self._trace = settled.with_(raw=False)
                self._memory = Memory.of(settled) if settled else conflict
        if isinstance(self._memory, Conflict):
            raise self._memory
        return self._memory

    def commit(self, carveout_bytes: int | None = None) -> None:
        """Memory has been changed; carveout_bytes: size of the carve-out from now on.

        Raises:
            ManifestError: a carve-out cannot be that large.
        """
        self._packing = self.memory.settle(carveout_bytes)
        self._trace = self._trace.with_(raw=False)

    def drop(self, find: Callable[[Actions], Mask]) -> None:
        """Leave out the actions that `find` marks.

        Args:
            find: given actions that follow one another; where memory has been changed, those between two actions
                on memory.
        """
        if self._packing is None:
            self.actions = self._trace.actions[~find(self._trace.actions)]
            return
        memory = self.memory
        rows = np.concatenate([memory.prologue, memory.stream])
        prepares = memory.prepares
        memory.drop(np.concatenate([find(rows[part]) for part in memory.stretches()]))
        if memory.prepares != prepares:
            self.commit()
        self._trace = self._trace.with_(raw=False)  # its pages, and what fills them, are as they were

    def seen(self) -> Accesses:
        """What its jobs do to memory.

        Raises:
            NotFollowedError: their descriptors cannot be followed.
        """
        return family_of(self.profile).accesses(self)

    def jobs(self) -> list[Job]:
        """What each of its jobs accesses; passes over memory leave it so.

        Raises:
            Conflict: the virtual GPU cannot run them.
        """
        if self._jobs is None:
            try:
                self._jobs = self._run_jobs()
            except Conflict as conflict:
                self._jobs = conflict
        if isinstance(self._jobs, Conflict):
            raise self._jobs
        before, jobs = self._jobs
        return moved(jobs, before, self.memory.mappings)

    def cut(self, pieces: Sequence[int]) -> None:
        """Each job has become so many: what the recording's notes say is not said of these."""
        ends = iter(pieces)
        self.pieces = [sum(islice(ends, count)) for count in self.pieces] if self.pieces else list(pieces)

    def keep_jobs(self, jobs: Sequence[Job]) -> None:
        """Others have been left out; these access what they did, where memory is mapped now."""
        self._jobs = self.memory.mappings, list(jobs)

    def _run_jobs(self) -> tuple[Mappings, list[Job]]:
        """What each job accesses, and where memory is mapped; where passes ask `observed`, as that has it."""
        if family_of(self.profile).follow is not None:
            return self.memory.mappings, job_accesses(self._to_run())
        try:
            before, seen = self._latest or (self.memory.mappings, self.observed())
        except (DivergenceError, VgpuError) as error:
            raise Conflict(f"its jobs cannot be observed: {error}") from None
        return before, list(seen.jobs)

    def observed(self) -> Observation:
        """What its jobs do to memory: what the recording's notes say, else by running them.

        Kept while they do the same. Memory is read anew after a run: meanwhile the trace is all that is kept.
        """
        found = self._noted() or self._ran()
        self._latest = self.memory.mappings, found
        return found

    def spans(self, jobs: int) -> dict[int, Span]:
        """Frame -> first and last job that accesses it, where that is known for all data; as `uses`."""
        return {frame: (min(use), max(use)) for frame, use in self.uses(jobs).items()}

    def uses(self, jobs: int) -> dict[int, Set[int]]:
        """Frame -> numbers of the jobs that access it, where that is known for all data.

        A job that may access a page of the image also counts. Other pages that jobs may access are left out.

        Args:
            jobs: how many there are; {} where others have been observed.
        """
        before, seen = self._latest or (self.memory.mappings, self.observed())
        if len(seen.jobs) != jobs:
            return {}
        use: dict[int, set[int]] = {frame: set(numbers) for frame, numbers in seen.opened.items()}
        for number, job in enumerate(seen.jobs):
            for frame in job.accesses:
                use.setdefault(frame, set()).add(number)
        frames = dict(zip(self.memory.mappings.keys.tolist(), self.memory.mappings.frames.tolist(), strict=True))
        fixed = self.memory.in_image()
        found: dict[int, set[int]] = {}
        unknown = set()
        for key, frame in zip(before.keys.tolist(), before.frames.tolist(), strict=True):
            if key in frames and frame in use:
                found.setdefault(frames[key], set()).update(use[frame])
            if key in frames and frame in seen.opened and frames[key] not in fixed:
                unknown.add(frames[key])
        return {frame: numbers for frame, numbers in found.items() if frame not in unknown}

    def _ran(self) -> Observation:
        """What its jobs do to memory, by running them, if they have not been run as they are now."""
        key = self.memory.behaviour()
        if self._observed is None or self._observed[0] != key:
            self._trace = self._to_run()
            self._memory = self._packing = None
            give_back()
            self._observed = key, observe(self._trace)
        return self._observed[1]

    @contextmanager
    def same_accesses(self) -> Iterator[None]:
        """Within, memory is changed so that each job accesses what it did: what is known of that stays known."""
        known, mappings = self._noted(), self.memory.mappings
        if known is None and self._observed and self._observed[0] == self.memory.behaviour():
            known = self._observed[1]
        yield
        if known and mappings.same_places(self.memory.mappings):
            self._observed = self.memory.behaviour(), known

    def _noted(self) -> Observation | None:
        """What the recording's notes say of its jobs; None: nothing, or not of these."""
        jobs = None if self._note is None or self.pieces else self._note.jobs(self.memory)
        if jobs is None or (self._needs_proof and any(job.varies for job in jobs)):
            return None
        if self._noted_seen and self._noted_seen[0] is jobs and self._noted_seen[1] == self.slots:
            return self._noted_seen[2]
        seen = Watched(jobs, [])
        commands = commands_of(jobs)
        given = [*self._given, *operators.given(self.memory.stream, self.slots)]
        parts = parts_in(self.memory, commands.keys(), given)
        if seen.changes_commands or cover(parts, commands):
            return None
        self._believes = True
        self._noted_seen = jobs, self.slots, Observation(seen.union, depends_on_data=False, jobs=jobs)
        return self._noted_seen[2]

    @property
    def believed(self) -> Noted | None:
        """The recording's note, if something was done because it says so."""
        return self._note if self._believes else None

    @property
    def recorded_slots(self) -> list[Slot]:
        """Its slots, those that got a value on the way among them."""
        return [*self._given, *(slot for slot in self.slots if slot.kind == SlotKind.OUTPUT)]

    def forget_accesses(self, *, unproved_only: bool = False) -> None:
        """Do not take from the recording's notes what its jobs do: run them.

        Args:
            unproved_only: only if that is not proved of each, but seen with the data that the recording has.
        """
        if unproved_only:
            self._needs_proof = True
        else:
            self._note = None

    def sizes(self) -> Sizes:
        """Its sizes."""
        if self._packing is None:
            trace = self._trace
            return Sizes(len(trace.actions), len(trace.image), memory_bytes(trace))
        memory, packing = self.memory, self._packing
        fills = len(packing.clears) + len(packing.uploads) + len(packing.state) + len(memory.cpu_writes)
        rows = len(memory.prologue) + len(memory.mappings.runs()) + 1 + fills + len(memory.stream)
        outside = len(memory.frames) - sum(page.frame in memory.frames for page in packing.whole)
        return Sizes(rows, packing.image_bytes, (packing.image_pages + outside) * PAGE_BYTES)

    def _to_run(self) -> Trace:
        """The trace that it is now, with an image whose pages a replay's memory can share."""
        return self._trace if self._packing is None else self.memory.emit(self._packing, to_run=True)

    def trace(self, *, sheet: bool = False) -> Trace:
        """The trace that it is now; the one where it began when nothing has changed.

        Args:
            sheet: make the image a view of a sheet, which takes memory only until it is dropped.
        """
        if self._packing is None:
            return self._trace
        return self.memory.emit(self._packing, sheet=sheet)

    def finish(self, *, sheet: bool = False) -> Trace:
        """As `trace`; the program is that trace from then on, and what it was made of takes no memory any more."""
        self._trace = self.trace(sheet=sheet)
        self._memory = self._packing = self._jobs = self._latest = self._observed = self._noted_seen = None
        give_back()
        return self._trace


def memory_bytes(trace: Trace) -> int:
    """Pages of the carve-out that are mapped at some time or hold the image, in bytes."""
    columns = Columns(trace.actions)
    maps = columns.is_op(Op.MAP_GPU_MEM)
    starts = np.concatenate([[0], columns.frame[maps]])
    ends = starts + np.concatenate([[-(-len(trace.image) // PAGE_BYTES)], columns.pages[maps]])
    order = np.argsort(starts)
    starts, ends = starts[order], np.maximum.accumulate(ends[order])
    fresh = ends - np.maximum(starts, np.concatenate([[0], ends[:-1]]))
    return int(np.maximum(fresh, 0).sum()) * PAGE_BYTES
