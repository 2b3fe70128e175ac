# SPDX-License-Identifier: BSD-2-Clause
"""Who wrote what each job reads: seen byte by byte while a trace is replayed once on the virtual GPU.

A job that reads bytes that another one wrote last depends on it. That is what the memory shows; whether a value
that was read had any effect on one that was written is not looked at, so there may be fewer real dependencies than
are found here, for these inputs never more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from host_tools.accesses.job_starts import JobStarts
from host_tools.model.interpreter import Interpreter
from host_tools.support.pages import pieces
from host_tools.vgpu.binding import ACCESS_READ, ACCESS_READ_FIRST, ACCESS_WRITTEN, Counters
from trace_format.actions import Action, Op
from trace_format.operators import operands
from trace_format.schema import PAGE_BYTES
from trace_format.slots import Slot
from trace_format.trace import Trace

NOBODY, TRACE, CLEARED, SLOT, JOB = "nobody", "trace", "cleared", "slot", "job"


class Origin(NamedTuple):
    """Who wrote a byte last.

    `kind` is NOBODY, TRACE (the image, or an upload of it), CLEARED (zeros), SLOT or JOB; `number` is that of the
    slot or job, else 0.
    """

    kind: str
    number: int = 0


@dataclass
class JobRun:
    """What one job did.

    Attributes:
        instructions: of shaders; 0 where the virtual GPU runs none.
        read, written: frame -> different bytes of it.
        sources: who wrote what it read before it wrote there itself -> different bytes.
    """

    instructions: int = 0
    read: Counter[int] = field(default_factory=Counter)
    written: Counter[int] = field(default_factory=Counter)
    sources: Counter[Origin] = field(default_factory=Counter)


@dataclass
class Run:
    """What a replay did.

    Attributes:
        jobs: in the order in which they are started.
        outputs: slot -> who wrote its bytes before they were copied out, or an operator read them; of one that an
            operator writes, the slots that it read.
    """

    jobs: list[JobRun] = field(default_factory=list)
    outputs: dict[int, Counter[Origin]] = field(default_factory=dict)


def follow(trace: Trace, inputs: Mapping[str, NDArray[Any]]) -> Run:
    """Replay a trace once and see what its jobs do.

    Args:
        trace: one whose actions are well-formed.
        inputs: as `Interpreter.run`.

    Raises:
        DivergenceError: as `Interpreter.run`.
    """
    watch = Watch(trace, track=True)
    try:
        watch.run(inputs)
        watch.settle()
        return watch.seen
    finally:
        watch.close()


class Watch(Interpreter):
    """An interpreter that looks at the access map wherever somebody else than the job at hand touches memory."""

    def __init__(self, trace: Trace, *, track: bool) -> None:
        super().__init__(trace, track)
        self.seen = Run()
        self.starts = JobStarts(trace.profile)
        self.image_pages = -(-len(trace.image) // PAGE_BYTES)
        self.origins = [Origin(NOBODY), Origin(TRACE), Origin(CLEARED)]
        self.numbers = {origin: number for number, origin in enumerate(self.origins)}
        self.last: dict[int, NDArray[np.int32]] = {}  # frame -> for each byte, index in `origins`
        self.before: Counters = self.gpu.counters()

    def _step(self, row: Action) -> None:
        match row.op:
            case Op.UPLOAD | Op.CLEAR:
                self.settle()
                self._note(row.target, row.bytes, Origin(TRACE if row.op == Op.UPLOAD else CLEARED))
            case Op.COPY_TO_GPU:
                self.settle()
                for at, size in self._places(self.trace.slots[row.slot]):
                    self._note(at, size, Origin(SLOT, row.slot))
            case Op.COPY_FROM_GPU:
                self.settle()
                found = self.seen.outputs.setdefault(row.slot, Counter())
                for at, size in self._places(self.trace.slots[row.slot]):
                    self._count(found, at, size)
                found.pop(Origin(SLOT, row.slot), None)  # an operator's, which has been accounted for
            case Op.OPERATE:
                self.settle()
                self._operated(row)
            case _ if self.starts.of(row):
                self.settle()
                if self.seen.jobs:
                    self.job_over(len(self.seen.jobs) - 1)
                self.seen.jobs.append(JobRun())
        super()._step(row)

    def job_over(self, number: int) -> None:
        """Called when the next job is about to start, of each but the last."""

    def _operated(self, row: Action) -> None:
        """An operator: slots get from slots."""
        numbers = range(row.slot, row.slot + row.operands)
        found = list(zip(numbers, operands(row, self.trace.slots), strict=True))
        read = [(number, slot) for number, (type, slot) in found if not type.written]
        for number, slot in read:
            sources = self.seen.outputs.setdefault(number, Counter())
            for at, size in self._places(slot):
                self._count(sources, at, size)
            sources.pop(Origin(SLOT, number), None)
        for number, (type, slot) in found:
            if type.scratch:
                for at, size in self._places(slot):
                    self._note(at, size, Origin(CLEARED))
            elif type.written:
                sources = self.seen.outputs.setdefault(number, Counter())
                sources.update({Origin(SLOT, source): given.dense_bytes for source, given in read})
                for at, size in self._places(slot):
                    self._note(at, size, Origin(SLOT, number))

    def settle(self) -> None:
        """Attribute what has been accessed since the last time to the latest job."""
        found, now = self.gpu.access_map(), self.gpu.counters()
        self.gpu.clear_access()
        if not self.seen.jobs:
            return
        job, number = self.seen.jobs[-1], len(self.seen.jobs) - 1
        job.instructions += now.instructions - self.before.instructions
        self.before = now
        own = self._number(Origin(JOB, number))
        for pa, flags in found.items():
            frame = pa // PAGE_BYTES
            first = (flags & ACCESS_READ_FIRST) != 0
            job.read[frame] += int(np.count_nonzero(flags & ACCESS_READ))
            if first.any():
                self._gather(job.sources, self._owners(frame)[first])
            written = (flags & ACCESS_WRITTEN) != 0
            if written.any():
                job.written[frame] += int(np.count_nonzero(written))
                self._own(frame)[written] = own
        job.sources.pop(Origin(JOB, number), None)

    def _places(self, slot: Slot) -> Iterator[tuple[int, int]]:
        """Where the bytes of a slot lie: carve-out offset and size, for stretches in one page."""
        if slot.span == slot.dense_bytes:
            for page, inside, _ in pieces(slot.address, slot.span):
                at = self.tables.translate(slot.address_space, page * PAGE_BYTES + inside.start)
                yield at, inside.stop - inside.start
        else:
            for at in self._elements(slot)[:, 0].tolist():
                yield at, slot.numpy_dtype.itemsize

    def _note(self, at: int, size: int, origin: Origin) -> None:
        number = self._number(origin)
        for frame, inside, _ in pieces(at, size):
            self._own(frame)[inside] = number

    def _count(self, found: Counter[Origin], at: int, size: int) -> None:
        for frame, inside, _ in pieces(at, size):
            self._gather(found, self._owners(frame)[inside])

    def _gather(self, found: Counter[Origin], owners: NDArray[np.int32]) -> None:
        for number, count in zip(*np.unique(owners, return_counts=True), strict=True):
            found[self.origins[int(number)]] += int(count)

    def _number(self, origin: Origin) -> int:
        if origin not in self.numbers:
            self.numbers[origin] = len(self.origins)
            self.origins.append(origin)
        return self.numbers[origin]

    def _owners(self, frame: int) -> NDArray[np.int32]:
        if frame in self.last:
            return self.last[frame]
        return np.full(PAGE_BYTES, self._number(Origin(TRACE if frame < self.image_pages else NOBODY)), np.int32)

    def _own(self, frame: int) -> NDArray[np.int32]:
        if frame not in self.last:
            self.last[frame] = self._owners(frame)
        return self.last[frame]
