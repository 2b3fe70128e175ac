# SPDX-License-Identifier: BSD-2-Clause
"""What one job reads and writes: memory as it is before the job, and as it is after it.

Bytes of one origin (a job, a slot, the trace's image) that lie close together are one operand. The bytes between
them, such as padding, are a part of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from host_tools.accesses.data_flow import JOB, Origin
from host_tools.accesses.job_buffers import Inputs, MemoryWatch
from host_tools.vgpu.binding import ACCESS_READ_FIRST
from trace_format.actions import Action
from trace_format.schema import PAGE_BYTES
from trace_format.trace import Trace

GAP = PAGE_BYTES  # bytes between two pieces of one origin, up to which they are one operand
MOST = 16  # operands that are kept, the largest: of each, what is read and what is written
MOST_BYTES = 2 << 20  # that are kept of an operand, from its start
NOT_OWNED = -1


@dataclass(frozen=True)
class Operand:
    """A stretch of memory that a job read or wrote.

    Attributes:
        origin: kind of who wrote it (`data_flow.Origin`).
        number: of that job or slot.
        address_space, address: the GPU's.
        size: in bytes.
        slots: numbers of the slots that lie in it.
        data: its first bytes, `MOST_BYTES` at most.
    """

    origin: str
    number: int
    address_space: int
    address: int
    size: int
    slots: list[int]
    data: bytes = field(repr=False)


@dataclass(frozen=True)
class Operands:
    """Of one job, the largest first; `more_read` and `more_written` count those that are left out."""

    read: list[Operand]
    written: list[Operand]
    more_read: int
    more_written: int


def of_job(trace: Trace, inputs: Inputs, job: int) -> Operands:
    """Replay a trace to the end of a job.

    Args:
        trace: one whose actions are well-formed.
        inputs: as `Interpreter.run`.
        job: its number, from 0.

    Raises:
        GramophoneError: there is no such job.
        DivergenceError: as `Interpreter.run`.
    """
    watch = _Around(trace, job)
    try:
        watch.follow(inputs)
        read, more_read = watch.operands(watch.owners_read, watch.content_before)
        written, more_written = watch.operands(watch.owned(), None)
        return Operands(read, written, more_read, more_written)
    finally:
        watch.close()


class _Around(MemoryWatch):
    """Keeps the memory that there was before a job, and who had written what the job read."""

    def __init__(self, trace: Trace, job: int) -> None:
        super().__init__(trace, job)
        self.job = job
        self.content_before: dict[int, NDArray[np.uint8]] = {}  # frame -> page; one of zeros is left out
        self.owners_read: dict[
            int, NDArray[np.int32]
        ] = {}  # frame -> for each byte, index in `origins` or NOT_OWNED

    def _step(self, row: Action) -> None:
        if self.starts.of(row) and len(self.seen.jobs) == self.job:
            for frame in self.pages:
                page = self._page(frame)
                if page.any():
                    self.content_before[frame] = page.copy()
        super()._step(row)

    def _page(self, frame: int) -> NDArray[np.uint8]:
        return self.memory[frame * PAGE_BYTES :][:PAGE_BYTES]

    def settle(self) -> None:
        """Note what the job read, by who wrote it, before it becomes the job's own."""
        if len(self.seen.jobs) == self.job + 1:
            for pa, flags in self.gpu.access_map().items():
                first = (flags & ACCESS_READ_FIRST) != 0
                if first.any():
                    frame = pa // PAGE_BYTES
                    noted = self.owners_read.setdefault(frame, np.full(PAGE_BYTES, NOT_OWNED, np.int32))
                    noted[first] = self._owners(frame)[first]
        super().settle()

    def owned(self) -> dict[int, NDArray[np.int32]]:
        """What the job wrote last: frame -> as in `owners_read`."""
        own = self._number(Origin(JOB, self.job))
        pages = {frame: self.last[frame] for frame in self.seen.jobs[self.job].written}
        return {frame: np.where(owners == own, own, NOT_OWNED) for frame, owners in pages.items()}

    def operands(
        self, owners: Mapping[int, NDArray[np.int32]], before: Mapping[int, NDArray[np.uint8]] | None
    ) -> tuple[list[Operand], int]:
        """The largest operands, and how many others there are.

        Args:
            owners: frame -> index in `origins` for each byte, or NOT_OWNED.
            before: frame -> its content; None: as memory is now.
        """
        found = sorted(_joined(self._runs(owners)), key=lambda run: run[2] - run[3])
        zeros = np.zeros(PAGE_BYTES, np.uint8)
        place = {page: frame for frame, page in self.pages.items()}

        def content(space: int, start: int, end: int) -> bytes:
            data = bytearray()
            first = start // PAGE_BYTES
            for page in range(first, -(-min(end, start + MOST_BYTES) // PAGE_BYTES)):
                frame = place.get((space, page))
                if frame is None:
                    data += zeros.tobytes()
                else:
                    data += (self._page(frame) if before is None else before.get(frame, zeros)).tobytes()
            return bytes(data[start - first * PAGE_BYTES :][: min(end - start, MOST_BYTES)])

        kept = [
            Operand(
                *self.origins[owner],
                space,
                start,
                end - start,
                self._slots(space, start, end),
                content(space, start, end),
            )
            for owner, space, start, end in found[:MOST]
        ]
        return kept, len(found) - len(kept)

    def _runs(self, owners: Mapping[int, NDArray[np.int32]]) -> Iterator[tuple[int, int, int, int]]:
        """Runs of bytes of one owner in one page, in the order of addresses: owner, address space, start, end."""
        for frame in sorted((frame for frame in owners if frame in self.pages), key=self.pages.__getitem__):
            space, page = self.pages[frame]
            edges = [0, *(np.flatnonzero(np.diff(owners[frame])) + 1).tolist(), PAGE_BYTES]
            for start, end in pairwise(edges):
                owner = int(owners[frame][start])
                if owner != NOT_OWNED:
                    yield owner, space, page * PAGE_BYTES + start, page * PAGE_BYTES + end

    def _slots(self, space: int, start: int, end: int) -> list[int]:
        return [
            number
            for number, slot in enumerate(self.trace.slots)
            if slot.address_space == space and slot.address < end and start < slot.address + slot.span
        ]


def _joined(runs: Iterable[tuple[int, int, int, int]]) -> list[tuple[int, int, int, int]]:
    """Runs of one owner that lie close together are one, where no other owner has bytes between them."""
    found: list[tuple[int, int, int, int]] = []
    for owner, space, start, end in runs:
        if found and found[-1][:2] == (owner, space) and start - found[-1][3] <= GAP:
            found[-1] = owner, space, found[-1][2], end
        else:
            found.append((owner, space, start, end))
    return found
