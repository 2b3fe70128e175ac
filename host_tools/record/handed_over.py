# SPDX-License-Identifier: BSD-2-Clause
"""Tensors that the CPU takes of the GPU between jobs, and those that it returns: where they are, and when.

Two recordings with other inputs are run side by side, up to each place where the CPU writes memory. What it writes
there and what differs is of a tensor that it returns; the other bytes that differ are the GPU's own, for recorders
keep whole pages. What the CPU took stands in memory before that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from host_tools.accesses.job_starts import JobStarts
from host_tools.accesses.proof import Job
from host_tools.machine.errors import RecordError
from host_tools.model.frames import runs
from host_tools.model.interpreter import Interpreter
from host_tools.model.memory import Memory
from host_tools.record.copies import Copies, handed_out
from host_tools.record.layouts import WORD, Layouts
from host_tools.record.tensors import PairedMemory, Placement, RepeatedError, find, pairs_of
from trace_format.actions import Action, Columns, Op, actions_of
from trace_format.schema import PAGE_BYTES
from trace_format.trace import Trace

Tensors = Mapping[str, NDArray[np.float32]]
Words = dict[int, NDArray[np.uint32]]
PAGE_WORDS = PAGE_BYTES // WORD


@dataclass(frozen=True)
class Taken:
    """A tensor that the CPU reads: it is there before the job with this number starts."""

    job: int
    place: Placement


@dataclass(frozen=True)
class Returned:
    """A tensor that the CPU writes before the job with this number."""

    blob: str
    job: int
    place: Placement


@dataclass
class HandedOver:
    """What goes from the GPU to the CPU and back.

    Attributes:
        taken: by blob.
        returned: in the order of jobs.
        constants: what the CPU writes besides into the pages of what it returns: (job, GPU page) -> the offset in
            the page, and bytes. It is all that is left of what was recorded of these pages there.
    """

    taken: dict[str, Taken] = field(default_factory=dict)
    returned: list[Returned] = field(default_factory=list)
    constants: dict[tuple[int, int], list[tuple[int, bytes]]] = field(default_factory=dict)


class _Recorded(Interpreter):
    """A recording that runs piece by piece.

    Attributes:
        at: number of the next action.
        started: how many jobs have been, of all kinds.
    """

    def __init__(self, trace: Trace, memory: Memory) -> None:
        super().__init__(trace)
        self.inputs = {}
        self.at = 0
        self.jobs = 0
        self.mappings = {page: m.frame for (_, page), m in memory.mappings.items()}
        self.pages = {frame: page for page, frame in self.mappings.items()}
        columns = Columns(trace.actions)
        markers = columns.is_op(Op.JOB)
        self.markers = np.flatnonzero(markers).tolist()
        self._starts = JobStarts(trace.profile)
        fills = np.flatnonzero(columns.is_op(Op.UPLOAD, Op.CLEAR) & (np.cumsum(markers) > 0))
        self.fills: dict[int, list[int]] = {}
        for index, job in zip(fills.tolist(), np.searchsorted(self.markers, fills).tolist(), strict=True):
            self.fills.setdefault(job, []).append(index)

    def advance(self, end: int) -> None:
        """Do the actions up to this one, which is not done."""
        for row in actions_of(self.trace.actions[self.at : end]):
            self._step(row)
        self.at = max(self.at, end)

    def _step(self, row: Action) -> None:
        self.jobs += self._starts.of(row) is not None
        super()._step(row)

    def content(self, page: int) -> NDArray[np.uint32]:
        """The words of a GPU page now; no copy."""
        found: NDArray[np.uint32] = self.memory.view("<u4").reshape(-1, PAGE_WORDS)[self.mappings[page]]
        return found

    def filled(self, job: int) -> set[int]:
        """GPU pages that the CPU writes before a job."""
        frames = {Action.of(self.trace.actions[i]).target // PAGE_BYTES for i in self.fills.get(job, ())}
        return {self.pages[frame] for frame in frames if frame in self.pages}


def hand_over(
    traces: tuple[Trace, Trace],
    memories: tuple[Memory, Memory],
    jobs: Sequence[Job],
    taken: tuple[Tensors, Tensors],
    returned: tuple[Tensors, Tensors],
    layouts: Layouts,
) -> HandedOver:
    """Find what the CPU takes and returns.

    Args:
        traces, memories: the recordings with the two inputs, which make the GPU do the same.
        jobs: what the first one's jobs access.
        taken, returned: tensors of both recordings, by blob.
        layouts: how whoever made them lays tensors out.

    Raises:
        RecordError: the CPU writes what depends on the inputs and is none of these, or what it takes is nowhere.
    """
    first, second = (_Recorded(trace, memory) for trace, memory in zip(traces, memories, strict=True))
    try:
        return _Search((first, second), memories[0], jobs, taken, returned, layouts).run()
    finally:
        first.close()
        second.close()


class _Search:
    def __init__(
        self,
        recorded: tuple[_Recorded, _Recorded],
        memory: Memory,
        jobs: Sequence[Job],
        taken: tuple[Tensors, Tensors],
        returned: tuple[Tensors, Tensors],
        layouts: Layouts,
    ) -> None:
        self.recorded = recorded
        self.memory = memory
        self.jobs = jobs
        self.taken, self.returned = (
            {blob: pairs_of(tensor, second[blob]) for blob, tensor in first.items()}
            for first, second in (taken, returned)
        )
        self.layouts = layouts
        self.found = HandedOver()

    def run(self) -> HandedOver:
        one, two = self.recorded
        for job in sorted(one.fills.keys() | two.fills.keys()):
            if job < len(one.markers):  # what comes after the last job nobody reads
                self._before(job)
        if missing := sorted(self.taken.keys() - self.found.taken.keys()):
            raise RecordError(f"blob {missing[0]}, which the CPU reads between jobs, was found nowhere in memory")
        return self.found

    def _before(self, job: int) -> None:
        """What the CPU does before a job."""
        for recorded in self.recorded:
            recorded.advance(recorded.fills.get(job, [recorded.markers[job]])[0])
        pages = sorted(self.recorded[0].filled(job) | self.recorded[1].filled(job))
        before = [{page: recorded.content(page).copy() for page in pages} for recorded in self.recorded]
        for recorded in self.recorded:
            recorded.advance(recorded.markers[job])
        differing, changed = {}, {}
        for page in pages:
            one, two = (recorded.content(page) for recorded in self.recorded)
            differing[page] = one != two
            changed[page] = (before[0][page] != one) | (before[1][page] != two)
        written = np.concatenate(
            [np.flatnonzero(differing[page] & changed[page]) * WORD + page * PAGE_BYTES for page in pages]
        )
        if not len(written):
            return
        explained = np.concatenate([[0], *(place.addresses() for place in self._returned(job, written))])
        if len(rest := np.setdiff1d(written, explained)):
            raise RecordError(
                "memory that the CPU changes between jobs depends on the inputs, and is no tensor of its own: "
                f"{len(rest)} words before job {job}, the first at GPU address {int(rest[0]):#x}"
            )
        self._taken(job, before)
        for page in pages:
            if differing[page].any():
                own = changed[page] & ~differing[page]
                own[(explained[explained // PAGE_BYTES == page] % PAGE_BYTES // WORD).astype(np.int64)] = False
                content = self.recorded[0].content(page)
                self.found.constants[job, page] = [
                    (start * WORD, content[start:end].tobytes()) for start, end in runs(own, 1)
                ]

    def _returned(self, job: int, written: NDArray[np.int64]) -> Iterator[Placement]:
        """Where tensors have been written."""
        paired = self._paired(({}, {}))
        for blob, pairs in self.returned.items():
            for place in self._find(paired, blob, pairs):
                if np.isin(place.addresses(), written).any():
                    self.found.returned.append(Returned(blob, job, place))
                    yield place

    def _taken(self, job: int, before: Sequence[Words]) -> None:
        """Tensors that are there for the first time; `before`: pages that the CPU has written since."""
        paired = self._paired((before[0], before[1]))
        copies = Copies(self.jobs[: self.recorded[0].jobs], self.memory.mappings)
        for blob, pairs in self.taken.items():
            if blob not in self.found.taken and (places := self._find(paired, blob, pairs)):
                ranks = {place: copies.rank(place.addresses()) for place in places}
                self.found.taken[blob] = Taken(job, handed_out(ranks))

    def _paired(self, before: tuple[Words, Words]) -> PairedMemory:
        """Memory as it is now but for some pages."""
        one, two = (
            {
                page * PAGE_BYTES: older[page] if page in older else recorded.content(page)
                for page in self.recorded[0].mappings
            }
            for recorded, older in zip(self.recorded, before, strict=True)
        )
        return PairedMemory(one, two)

    def _find(self, paired: PairedMemory, blob: str, pairs: NDArray[np.uint64]) -> list[Placement]:
        try:
            return find(paired, pairs, self.layouts(pairs.shape))
        except RepeatedError as error:
            raise RecordError(f"blob {blob} cannot be followed between GPU and CPU: {error}") from None
