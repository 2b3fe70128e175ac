# SPDX-License-Identifier: BSD-2-Clause
"""Which of several copies of a tensor a program was given: what jobs read and write says it, not the values.

A framework computes an output in one buffer, copies it to another for the layers that follow, and to one that the
CPU reads. A layer's input may even have the very values of its output (a ReLU of what is positive). What was
handed out is what a job wrote and no job reads; or, where that memory has been used again since, what a job read
whose own results no job reads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from host_tools.accesses.proof import AccessMap, Job
from host_tools.model.mappings import Mappings
from host_tools.record.layouts import WORD
from host_tools.record.tensors import Placement
from host_tools.vgpu.binding import ACCESS_READ, ACCESS_READ_FIRST, ACCESS_WRITTEN
from trace_format.schema import PAGE_BYTES

NOBODY = -1
Marks = dict[int, NDArray[np.bool_]]  # frame -> PAGE_BYTES
HANDED_OUT, READ_FOR_THE_CPU, READ_BY_JOBS = 2, 1, 0  # the higher, the more likely


class Rank(NamedTuple):
    """How a copy of a tensor was used.

    Attributes:
        use: HANDED_OUT, READ_FOR_THE_CPU or READ_BY_JOBS.
        whole: the job that wrote it last wrote nothing beside it: it is no part of a larger tensor.
        last: number of that job, or NOBODY.
    """

    use: int
    whole: bool
    last: int


class Copies:
    """What each job of a replay accessed.

    Args:
        jobs: in the order in which they start.
        mappings: where their memory is mapped.
    """

    def __init__(self, jobs: Sequence[Job], mappings: Mappings) -> None:
        self._jobs = [job.accesses for job in jobs]
        self._frames = dict(zip(mappings.pages.tolist(), mappings.frames.tolist(), strict=True))
        self._pages = dict(zip(mappings.frames.tolist(), mappings.pages.tolist(), strict=True))

    @cached_property
    def downloads(self) -> list[int]:
        """Numbers of the jobs whose results no job reads."""
        return [number for number in range(len(self._jobs)) if self._is_terminal(number)]

    def rank(self, addresses: NDArray[np.int64], download: int | None = None) -> Rank:
        """How the copy at these addresses of elements was used.

        Args:
            download: number of the job that handed it out, if that is known.
        """
        marks = self._marks(addresses)
        last = next(
            (n for n in range(len(self._jobs) - 1, -1, -1) if _any(self._jobs[n], marks, ACCESS_WRITTEN)), NOBODY
        )
        if last == NOBODY:
            return Rank(READ_BY_JOBS, False, NOBODY)
        ends = self._marks(np.array([addresses.min() - WORD, addresses.max() + WORD]))
        whole = not _any(self._jobs[last], ends, ACCESS_WRITTEN)
        # A chain of a Mali's is one job here: it may write and then read.
        read_again = any(
            (flags[mask] & (ACCESS_READ | ACCESS_READ_FIRST) == ACCESS_READ).any()
            for flags, mask in _common(self._jobs[last], marks)
        )
        readers = [n for n in range(last + 1, len(self._jobs)) if _any(self._jobs[n], marks, ACCESS_READ)]
        downloads = self.downloads if download is None else [download]
        if not readers and not read_again and last in downloads:
            return Rank(HANDED_OUT, whole, last)
        return Rank(READ_FOR_THE_CPU if set(readers) & set(downloads) else READ_BY_JOBS, whole, last)

    def _marks(self, addresses: NDArray[np.int64]) -> Marks:
        found: Marks = {}
        order = np.sort(addresses)
        for part in np.split(order, np.flatnonzero(np.diff(order // PAGE_BYTES)) + 1):
            frame = self._frames.get(int(part[0]) // PAGE_BYTES)
            if frame is not None:
                mask = found[frame] = np.zeros(PAGE_BYTES, np.bool_)
                mask[part % PAGE_BYTES] = True
        return found

    def _is_terminal(self, number: int) -> bool:
        """Whether a job wrote something that no later one reads."""
        wrote = {frame: flags & ACCESS_WRITTEN != 0 for frame, flags in self._jobs[number].items()}
        left = {frame: mask for frame, mask in wrote.items() if mask.any()}
        return bool(left) and not self._is_read(left, number + 1)

    def _is_read(self, left: Marks, first: int) -> bool:
        """Whether a job from this one on reads what is marked, before another writes to it."""
        for job in self._jobs[first:]:
            if _any(job, left, ACCESS_READ_FIRST):
                return True
            left = {
                frame: mask & (job[frame] & ACCESS_WRITTEN == 0) if frame in job else mask
                for frame, mask in left.items()
            }
        return False

    def beginnings(self) -> NDArray[np.int64]:
        """Addresses of bytes that a job wrote without the byte before, sorted: a buffer begins at one of them."""
        found = [np.zeros(0, np.int64)]
        for job in self._jobs:
            before = NOBODY, False  # page, and whether its last byte was written
            for page, frame in sorted((self._pages[frame], frame) for frame in job if frame in self._pages):
                written = job[frame] & ACCESS_WRITTEN != 0
                goes_on = before == (page - 1, True)
                starts = written & ~np.concatenate([[goes_on], written[:-1]])
                found.append(np.flatnonzero(starts) + page * PAGE_BYTES)
                before = page, bool(written[-1])
        return np.unique(np.concatenate(found))


def handed_out(ranks: Mapping[Placement, Rank], taken: Sequence[Placement] = ()) -> Placement:
    """The copy that a program was given: what it was given before is another output's, if there is a choice."""
    most = max(rank[:2] for rank in ranks.values())
    best = sorted(
        (place for place, rank in ranks.items() if rank[:2] == most), key=lambda place: ranks[place].last
    )
    if most[0] == HANDED_OUT:
        return next((place for place in best if place not in taken), best[-1])
    return best[-1]


def _common(job: AccessMap, marks: Marks) -> list[tuple[NDArray[np.uint8], NDArray[np.bool_]]]:
    """A job's accesses of the frames in which something is marked, and what is."""
    return [(job[frame], mask) for frame, mask in marks.items() if frame in job]


def _any(job: AccessMap, marks: Marks, flag: int) -> bool:
    """Whether a job accessed so what is marked."""
    return any((flags[mask] & flag).any() for flags, mask in _common(job, marks))
