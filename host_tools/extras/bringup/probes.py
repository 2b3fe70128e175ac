# SPDX-License-Identifier: BSD-2-Clause
"""Probes: traces whose outputs are, besides their own, the pages that each job writes, copied when it has ended.

A probe is a trace like any other: every replayer runs it as it is, and what carries outputs carries pages.

A feature of devices would have needed memory for pages, a way out for them on each of three platforms, and its
proof. Steps (`features/steps`) stop between jobs, too, but no caller of OP-TEE's sees the carve-out then. Hashes
alone could not name the word that differs.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from host_tools.accesses.data_flow import JOB, Origin, Watch
from host_tools.accesses.job_starts import JobStarts
from trace_format.actions import ACTION_DTYPE, Action, Op, action, actions_of, array_of
from trace_format.errors import GramophoneError
from trace_format.schema import MAX_SLOTS, PAGE_BYTES, DType, SlotKind
from trace_format.slots import Slot
from trace_format.trace import Trace

NAME = re.compile(r"job(\d{4,})-(?:as\d+-)?[0-9a-f]{8,}")
Inputs = Mapping[str, NDArray[Any]]
Place = tuple[int, int]  # address space and page, the GPU's
# Operations that change or unmap what a job has written, and those that begin the next job or part.
_OF_MEMORY = frozenset(
    (
        *(Op.MAP_GPU_MEM, Op.UNMAP_GPU_MEM, Op.UPLOAD, Op.CLEAR, Op.COPY_TO_GPU, Op.COPY_FROM_GPU, Op.OPERATE),
        *(Op.JOB, Op.REPLAY_START),
    )
)


@dataclass(frozen=True)
class Pages:
    """Pages that follow one another, after a job has written to them.

    Attributes:
        job: by the order in which jobs start, from 0.
        data, before: what the virtual GPU has there after the job, and had when it started.
        written: 1 for each byte that the job wrote.
    """

    slot: str
    job: int
    address_space: int
    address: int
    data: bytes = field(repr=False)
    before: bytes = field(repr=False)
    written: bytes = field(repr=False)


class _Writes(Watch):
    """Knows where the GPU has the pages that each job writes."""

    def __init__(self, trace: Trace) -> None:
        super().__init__(trace, track=True)
        self.places: dict[int, Place] = {}  # frame -> the lowest of its places
        self.found: dict[int, list[Place]] = {}

    def _step(self, row: Action) -> None:
        if row.op == Op.MAP_GPU_MEM:
            for at in range(row.pages):
                place = row.address_space, row.va_page + at
                self.places[row.frame + at] = min(place, self.places.get(row.frame + at, place))
        elif row.op == Op.UNMAP_GPU_MEM:
            self.settle()
            self._keep()
            gone = {(row.address_space, row.va_page + at) for at in range(row.pages)}
            self.places = {frame: place for frame, place in self.places.items() if place not in gone}
        super()._step(row)

    def _keep(self) -> None:
        if self.seen.jobs:
            self.job_over(len(self.seen.jobs) - 1)

    def job_over(self, number: int) -> None:
        """Keep the pages that it wrote."""
        written = self.seen.jobs[number].written
        self.found[number] = sorted(self.places[frame] for frame in written if frame in self.places)

    def follow(self, inputs: Inputs) -> dict[int, list[Place]]:
        """Replay; the pages that each job writes."""
        try:
            self.run(inputs)
            self.settle()
            self._keep()
            return self.found
        finally:
            self.close()


def written_pages(trace: Trace, inputs: Inputs) -> dict[int, list[Place]]:
    """The pages that each job writes, by its number.

    Raises:
        DivergenceError: the trace cannot be replayed on the virtual GPU.
    """
    return _Writes(trace).follow(inputs)


def is_probe(trace: Trace) -> bool:
    """Whether a trace has outputs that are pages of jobs."""
    return any(probed_job(slot) is not None for slot in trace.slots)


def probed_job(slot: Slot) -> int | None:
    """The job whose pages an output is; None: it is an output of the network."""
    found = NAME.fullmatch(slot.name)
    return int(found[1]) if found and (slot.kind, slot.dtype) == (SlotKind.OUTPUT, DType.UINT8) else None


def probe(trace: Trace, pages: Mapping[int, Collection[Place]]) -> Trace:
    """The trace with a copy of each job's pages behind it.

    Jobs that start before the ones before have ended are looked at together, as the last of them.

    Args:
        trace: a single one.
        pages: from `written_pages`, of the jobs that are wanted.

    Raises:
        GramophoneError: there are too many pieces for one trace; it says how many fit.
    """
    rows = list(actions_of(trace.actions))
    slots = list(trace.slots)
    copies: dict[int, list[Action]] = defaultdict(list)
    for at, jobs in ends(rows, JobStarts(trace.profile)):
        places = {place for job in jobs for place in pages.get(job, ())}
        for space, first, count in _runs(places):
            if len(slots) == MAX_SLOTS:
                raise GramophoneError(
                    f"the pages of jobs make more outputs than a trace can have: expected at most {MAX_SLOTS}; "
                    f"make a probe of fewer jobs, as --only {min(pages)}-{max(jobs[0] - 1, 0)}"
                )
            copies[at].append(action(Op.COPY_FROM_GPU, slot=len(slots)))
            slots.append(_slot(jobs[-1], space, first, count))
    if len(slots) == len(trace.slots):
        raise GramophoneError("no job of these writes memory that is mapped: there is nothing to look at")
    out = [row for at in range(len(rows) + 1) for row in (*copies[at], *rows[at : at + 1])]
    actions = array_of(out).astype(ACTION_DTYPE)
    return trace.with_(actions=actions, slots=slots, raw=False)


def ends(rows: list[Action], starts: JobStarts) -> list[tuple[int, list[int]]]:
    """Where jobs have ended: the index of the action before which their memory is theirs, and which jobs."""
    found: list[tuple[int, list[int]]] = []
    waiting: list[int] = []
    number = waits = 0
    for index, row in enumerate(rows):
        comes_next = row.op in _OF_MEMORY or starts.of(row) is not None
        if waiting and waits >= len(waiting) and comes_next:
            found.append((index, waiting))
            waiting, waits = [], 0
        if starts.of(row):
            waiting.append(number)
            number += 1
        elif row.op == Op.WAIT_IRQ and waiting:
            waits += 1
    if waiting:
        found.append((len(rows), waiting))
    return found


def _runs(places: Collection[Place]) -> list[tuple[int, int, int]]:
    """Address space, first page and count of pages that follow one another."""
    found: list[tuple[int, int, int]] = []
    for space, page in sorted(places):
        if found:
            last, first, count = found[-1]
            if (last, first + count) == (space, page):
                found[-1] = last, first, count + 1
                continue
        found.append((space, page, 1))
    return found


def _slot(job: int, space: int, first: int, count: int) -> Slot:
    where = f"as{space}-" if space else ""
    name = f"job{job:04d}-{where}{first * PAGE_BYTES:08x}"
    size = count * PAGE_BYTES
    return Slot(name, SlotKind.OUTPUT, DType.UINT8, (size,), (1,), first * PAGE_BYTES, space)


class _Expected(Watch):
    """Keeps what a probe's pages are on the virtual GPU, and were before each job."""

    def __init__(self, trace: Trace) -> None:
        super().__init__(trace, track=True)
        self.probes: dict[int, list[Slot]] = defaultdict(list)
        for slot in trace.slots:
            if (job := probed_job(slot)) is not None:
                self.probes[job].append(slot)
        self.earlier: dict[str, bytes] = {}
        self.found: list[Pages] = []

    def _step(self, row: Action) -> None:
        if self.starts.of(row):
            for slot in self.probes.get(len(self.seen.jobs), ()):
                self.earlier[slot.name] = self.read_slot(slot).tobytes()
        super()._step(row)
        if row.op == Op.COPY_FROM_GPU and (job := probed_job(slot := self.trace.slots[row.slot])) is not None:
            data = self.outputs[slot.name].tobytes()
            self.found.append(
                Pages(
                    slot.name,
                    job,
                    slot.address_space,
                    slot.address,
                    data,
                    self.earlier.get(slot.name, data),
                    self._written(slot, job),
                )
            )

    def _written(self, slot: Slot, job: int) -> bytes:
        own = self.numbers.get(Origin(JOB, job), -1)
        parts = []
        for at, size in self._places(slot):
            owners = self._owners(at // PAGE_BYTES)[at % PAGE_BYTES :][:size]
            parts.append((owners == own).astype(np.uint8).tobytes())
        return b"".join(parts)


def expected(trace: Trace, inputs: Inputs) -> list[Pages]:
    """What a probe's pages are on the virtual GPU, in the order of its jobs.

    Raises:
        DivergenceError: as `written_pages`.
    """
    watch = _Expected(trace)
    try:
        watch.run(inputs)
        return watch.found
    finally:
        watch.close()
