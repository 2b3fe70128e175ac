# SPDX-License-Identifier: BSD-2-Clause
"""What jobs have written: memory after a job, and the first job that writes something else in another trace.

A byte is the job's that wrote it last. Addresses are the GPU's, so that traces of the same recording can be
compared wherever their carve-outs have it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from host_tools.accesses.data_flow import JOB, Watch
from trace_format.actions import Action, Op
from trace_format.errors import GramophoneError
from trace_format.schema import PAGE_BYTES
from trace_format.trace import Trace

GAP = 64  # bytes between two pieces of one job in a page, up to which they are one
Inputs = Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class Written:
    """A stretch of memory that a job wrote last; `address` is the GPU's, and job numbers count from 0."""

    job: int
    address_space: int
    address: int
    data: bytes = field(repr=False)


@dataclass(frozen=True)
class Digest:
    """What a job wrote: how many bytes, and their hash in the order of addresses."""

    job: int
    bytes: int
    sha256: str


class _Stop(Exception):
    """The job that is looked at is over."""


class MemoryWatch(Watch):
    """Watches a replay to the end of a job, and knows where the GPU has each page."""

    def __init__(self, trace: Trace, until: int | None = None) -> None:
        super().__init__(trace, track=True)
        self.until = until
        self.digests: list[Digest] = []
        self.pages: dict[int, tuple[int, int]] = {}  # frame -> address space and page; the lowest of several

    def _step(self, row: Action) -> None:
        if row.op == Op.MAP_GPU_MEM:
            for at in range(row.pages):
                page = row.address_space, row.va_page + at
                self.pages[row.frame + at] = min(page, self.pages.get(row.frame + at, page))
        super()._step(row)

    def job_over(self, number: int) -> None:
        """Stop, or take the digest of what it wrote."""
        if self.until is None:
            found = b"".join(piece.data for piece in self.written(number))
            self.digests.append(Digest(number, len(found), hashlib.sha256(found).hexdigest()))
        elif number == self.until:
            raise _Stop

    def follow(self, inputs: Inputs) -> None:
        """Replay. GramophoneError: the trace ends before the job."""
        try:
            self.run(inputs)
            self.settle()
            if self.seen.jobs:
                self.job_over(len(self.seen.jobs) - 1)
        except _Stop:
            return
        if self.until is not None:
            raise GramophoneError(f"there is no job {self.until}: the trace has {len(self.seen.jobs)}, from 0 on")

    def written(self, job: int | None = None) -> Iterator[Written]:
        """Pieces that one job wrote last, exactly its bytes, or that any did, in the order of addresses."""
        frames = self.last if job is None else self.seen.jobs[job].written
        for frame in sorted((frame for frame in frames if frame in self.pages), key=self.pages.__getitem__):
            space, page = self.pages[frame]
            owners = self.last[frame]
            edges = [0, *(np.flatnonzero(np.diff(owners)) + 1).tolist(), PAGE_BYTES]
            memory = self.memory[frame * PAGE_BYTES :][:PAGE_BYTES]
            for start, end in pairwise(edges):
                kind, number = self.origins[int(owners[start])]
                if kind == JOB and job in (None, number):
                    yield Written(number, space, page * PAGE_BYTES + start, memory[start:end].tobytes())


def after(trace: Trace, inputs: Inputs, job: int) -> list[Written]:
    """Memory after a job: all stretches that it and those before it wrote, by who wrote them last.

    Small gaps between two stretches of one job are a part of them.

    Args:
        trace: one whose actions are well-formed.
        inputs: as `Interpreter.run`.

    Raises:
        GramophoneError: there is no such job.
        DivergenceError: as `Interpreter.run`.
    """
    watch = MemoryWatch(trace, job)
    try:
        watch.follow(inputs)
        place = {page: frame for frame, page in watch.pages.items()}
        found: list[tuple[Written, bytearray]] = []  # a stretch's first piece, and all of it
        for piece in watch.written():
            if found:
                first, data = found[-1]
                end = first.address + len(data)
                gap = piece.address - end
                in_page = (end - 1) // PAGE_BYTES == piece.address // PAGE_BYTES
                same = (first.job, first.address_space) == (piece.job, piece.address_space)
                if same and (gap == 0 or (0 < gap <= GAP and in_page)):
                    frame = place[piece.address_space, piece.address // PAGE_BYTES]
                    at = frame * PAGE_BYTES + piece.address % PAGE_BYTES
                    data += watch.memory[at - gap : at].tobytes() + piece.data
                    continue
            found.append((piece, bytearray(piece.data)))
        return [replace(first, data=bytes(data)) for first, data in found]
    finally:
        watch.close()


def check_same_slots(trace: Trace, other: Trace, given: Container[str], file: str) -> None:
    """GramophoneError: a slot with one of these names is no slot of the other trace, which is in `file`."""
    for slot in trace.slots:
        if slot.name in given and not any(
            (found.name, found.shape, found.dtype) == (slot.name, slot.shape, slot.dtype) for found in other.slots
        ):
            raise GramophoneError(
                f"{file}: no slot {slot.name} of the same shape and type: nothing can be compared"
            )


def digests(trace: Trace, inputs: Inputs) -> list[Digest]:
    """What each job wrote, of those that write; as `after`."""
    watch = MemoryWatch(trace)
    try:
        watch.follow(inputs)
        return [digest for digest in watch.digests if digest.bytes]
    finally:
        watch.close()


def written_by(trace: Trace, inputs: Inputs, job: int) -> bytes:
    """The bytes that a job wrote, in the order of addresses; as `after`."""
    watch = MemoryWatch(trace, job)
    try:
        watch.follow(inputs)
        return b"".join(piece.data for piece in watch.written(job))
    finally:
        watch.close()
